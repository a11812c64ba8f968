"""Roots and minima of functions that the user types: Newton's method, and descent along the gradient (MATH F1–F3)."""
