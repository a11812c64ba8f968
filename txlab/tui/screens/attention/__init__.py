"""Screen 4, Attention."""
