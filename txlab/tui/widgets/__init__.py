"""The widgets of the screens: each works in every colour depth, without colour, in ASCII, and at 1 × 1."""
