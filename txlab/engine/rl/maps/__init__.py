"""Worlds drawn as text, which can be edited while agents run in them and shared as files."""
