"""Two-player games: rules, one file per game; self-play, search and rating (MATH G)."""
