"""What several vendors need: HTTP, tokens, limits, marks, scrubbing. Knows no vendor."""
