"""Screen 8, Descent."""
