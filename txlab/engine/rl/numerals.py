"""Numbers as they stand in a line of a computation, so that every answer to "why?" writes them alike.

>>> said(-7.5), bracketed(-7.5), bracketed(3.0)
('−7.5', '(−7.5)', '3')
"""

from __future__ import annotations


def said(value: float, digits: int = 4) -> str:
    """So many significant digits, and a minus sign where a keyboard has a hyphen."""
    return f"{value:.{digits}g}".replace("-", "−")


def bracketed(value: float, digits: int = 4) -> str:
    """The same where it follows a sign: in brackets below zero."""
    return f"({said(value, digits)})" if value < 0 else said(value, digits)
