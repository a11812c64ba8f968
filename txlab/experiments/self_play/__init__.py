"""The experiment "self-play": a table that learns a game by playing both sides of it (MATH G1)."""
