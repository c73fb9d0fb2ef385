"""What the console's templates need."""
