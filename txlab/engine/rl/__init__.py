"""Decisions: decision processes, dynamic programming, temporal differences, control, policy gradients (MATH M)."""
