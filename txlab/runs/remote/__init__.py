"""Runs on other machines: a mirror of each, kept by the user's own ssh and a small reader sent through it."""
