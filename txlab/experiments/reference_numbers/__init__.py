"""Reference numbers, where each is from, and how ours are measured beside them: what `txlab verify` prints.

A file an area.
"""
