"""Worlds that a person draws as text, edits while agents live in them, and shares as a file."""
