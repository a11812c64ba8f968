"""Decision problems: Markov decision processes, dynamic programming, TD, control, policy gradients (MATH M)."""
