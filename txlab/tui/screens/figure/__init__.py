"""Figure: the curves and vectors that a frame holds."""
