"""Screen 1, Lab."""
