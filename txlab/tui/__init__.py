"""The terminal user interface: the app, its screens and its widgets."""
