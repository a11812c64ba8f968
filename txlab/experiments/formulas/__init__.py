"""The numbered formulas: what they say (`content`), and an example of each (`example`, a file a chapter)."""
