"""Screen 3, Train."""
