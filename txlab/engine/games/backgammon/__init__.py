"""Backgammon, and TD-Gammon: a network that learned it by playing against itself (MATH G2)."""
