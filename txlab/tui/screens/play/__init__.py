"""The board games, within the Arena."""
