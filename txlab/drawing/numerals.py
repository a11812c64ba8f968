"""Numbers as people read them on a screen: 1 240, 2.113, 3.0e-4, .62.

Notable: a number is never shorter than it may be told apart at four significant digits, and never has digits that are
not there; the thin gap of thousands is a space, which every terminal and font has.
"""

import math


def count(number: float) -> str:
    """A whole number with its thousands apart.

    >>> count(1240), count(-20000)
    ('1 240', '−20 000')
    """
    return minus(f"{round(number):,}".replace(",", " ")) if math.isfinite(number) else special(number)


def number(value: float, digits: int = 4) -> str:
    """At most `digits` significant digits; very small and very large ones with a power of ten.

    >>> number(2.11304), number(0.00029), number(-12345.6), number(3)
    ('2.113', '2.9e-4', '−12 346', '3')
    """
    if isinstance(value, int) or not math.isfinite(value):
        return count(value)
    size = abs(value)
    if size >= 10**7 or 0 < size < 10**-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return minus(f"{mantissa}e{int(exponent)}")
    if size >= 10 ** (digits - 1):
        return count(value)
    decimals = digits - 1 - (math.floor(math.log10(size)) if size >= 1 else 0)
    text = f"{value:.{max(0, decimals)}f}"
    return minus(text)


def share(value: float, digits: int = 2) -> str:
    """A weight in [0, 1] without the leading zero.

    >>> share(0.6231), share(1.0), share(0.0004)
    ('.62', '1.00', '.00')
    """
    if not math.isfinite(value):
        return "–"
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else minus(text.replace("-0.", "-."))


def minus(text: str) -> str:
    """A leading hyphen as a minus sign."""
    return "−" + text[1:] if text.startswith("-") else text


def special(value: float) -> str:
    return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"


def plain(text: str) -> str:
    """A number as written here, in ASCII."""
    return text.replace("−", "-").replace("∞", "inf").replace("–", "-")
