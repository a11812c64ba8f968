"""Worlds to decide in: each a process compiled to arrays, and how it is drawn."""
