"""What always holds, looked at again and again while the service runs."""
