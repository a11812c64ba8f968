"""Backgammon, and TD-Gammon: a network that learnt it by playing against itself (MATH G2)."""
