"""Games for two: rules, one file a game; self-play, search and rating (MATH G)."""
