"""Lectures in the console: reaching a place, the player, its line, and recording."""
