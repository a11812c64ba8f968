"""Screen 2, Tokens."""
