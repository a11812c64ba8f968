"""Screen 0, Recurrent: the properties that the units of a recurrent network follow, and the gradients that reach
back."""
