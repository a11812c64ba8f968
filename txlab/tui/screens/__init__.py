"""One module per screen, each with its style sheet beside it."""
