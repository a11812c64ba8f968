"""One module per screen, each with its style sheet next to it."""
