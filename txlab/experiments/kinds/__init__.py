"""The kinds of experiment, a file or a folder each; see kind.py."""
