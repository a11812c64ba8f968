"""Convolution: a filter slid over a picture, in numbers."""
