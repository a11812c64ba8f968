"""The widgets of the screens: each works at every colour depth, without colour, in ASCII, and at 1 × 1."""
