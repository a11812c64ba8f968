"""Screen 6, Arena."""
