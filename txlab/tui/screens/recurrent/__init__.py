"""Screen 0, Recurrent: what the units of a recurrent network follow, and the gradients that reach back."""
