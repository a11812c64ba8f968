"""Learning from human feedback: demonstrations, rankings, reward model, policy (MATH H1–H7)."""
