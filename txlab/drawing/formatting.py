"""Numbers, times, sizes and states formatted for people: 1 240, 2.113, 3.0e-4, .62; 3m12s, 61 MB, "starting…".

A number keeps up to three significant digits, however small it is; thousands are separated by an ordinary space, which
every terminal and font has.
"""

import math
import time
from collections.abc import Sequence


def count(number: float) -> str:
    """Format a whole number with spaces between thousands.

    >>> count(1240), count(-20000)
    ('1 240', '−20 000')
    """
    return minus(f"{round(number):,}".replace(",", " ")) if math.isfinite(number) else special(number)


def count_of(shown: int, all: int) -> str:
    """Format how many entries of a list are shown.

    >>> count_of(17, 17), count_of(3, 17)
    ('17', '3 of 17')
    """
    return count(all) if shown == all else f"{count(shown)} of {count(all)}"


def interval(low: float, high: float, signed: bool = False) -> str:
    """Format the ends of an interval as whole numbers, rounded outwards; an infinite end is unbounded.

    >>> interval(1459.6, 1502.1), interval(277.4, math.inf, signed=True), interval(-math.inf, math.inf)
    ('1 459 to 1 503', 'above +277', 'not known yet')
    """

    def end(value: int) -> str:
        return ("+" if signed and value > 0 else "") + count(value)

    if math.isinf(low) and math.isinf(high):
        return "not known yet"
    if math.isinf(high):
        return f"above {end(math.floor(low))}"
    return f"below {end(math.ceil(high))}" if math.isinf(low) else f"{end(math.floor(low))} to {end(math.ceil(high))}"


def number(value: float, digits: int = 4) -> str:
    """Format with `digits` significant digits, one fewer below 1 (at least three); an exponent where that is shorter.

    >>> number(2.11304), number(0.00029), number(-12345.6), number(3)
    ('2.113', '2.9e-4', '−12 346', '3')
    >>> number(0.62), number(0.05), number(0.0032), number(0.003171)
    ('0.620', '0.050', '0.0032', '0.00317')
    >>> number(12345.678, 7)
    '12 345.68'
    """
    if isinstance(value, int) or not math.isfinite(value):
        return count(value)
    size, value = abs(value), value + 0.0  # −0 + 0 = 0
    if size >= 10**7 or 0 < size < 10**-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return minus(f"{mantissa}e{int(exponent)}")
    if size >= 10 ** (digits - 1):
        return count(value)
    if size >= 1 or not size:
        return minus(f"{value:,.{digits - 1 - (math.floor(math.log10(size)) if size else 0)}f}".replace(",", " "))
    # 0.0032, not 0.003: as many decimals as three significant digits need, without trailing zeros beyond 0.620's.
    text = f"{value:.{digits - 2 - math.floor(math.log10(size))}f}"
    least = text.index(".") + digits
    return minus(text[:least] + text[least:].rstrip("0"))


def common_exponent(values: Sequence[object]) -> int | None:
    """Return the exponent for a column of numbers, of which one at least needs one; None if none does.

    >>> common_exponent([2.9e-4, 1e-3, 3e-3]), common_exponent([0.5, 2.0]), common_exponent([None, "x"])
    (-3, None, None)
    """
    numbers = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value) and value]
    if not any("e" in number(value) for value in numbers):
        return None
    return math.floor(math.log10(max(numbers)))


def scaled(value: float, exponent: int) -> str:
    """Format with a given exponent; much smaller numbers have more decimals.

    >>> scaled(2.9e-4, -3), scaled(3e-3, -3), scaled(0.0, -3), scaled(-1.5e-6, -3)
    ('0.29e-3', '3e-3', '0', '−0.0015e-3')
    """
    if not math.isfinite(value) or not value:
        return "0" if not value else special(value)
    text = number(value / 10.0**exponent, 3)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}e{exponent}"


def align_numbers(entries: Sequence[str]) -> list[str]:
    """Pad numbers to one width with their decimal points in one column.

    >>> align_numbers(["0.620", "12.50", "2.9e-4", "3"])
    [' 0.620 ', '12.50  ', ' 2.9e-4', ' 3     ']
    """
    heads = [min((at for at in (entry.find("."), entry.find("e")) if at >= 0), default=len(entry)) for entry in entries]
    before = max(heads, default=0)
    after = max((len(entry) - head for entry, head in zip(entries, heads, strict=True)), default=0)
    return [
        " " * (before - head) + entry + " " * (after - len(entry) + head)
        for entry, head in zip(entries, heads, strict=True)
    ]


def share(value: float, digits: int = 2) -> str:
    """Format a weight in [0, 1] without the leading zero.

    >>> share(0.6231), share(1.0), share(0.0004), share(-0.31), share(-0.0004)
    ('.62', '1.00', '.00', '−.31', '.00')
    """
    if not math.isfinite(value):
        return "–"
    text = fixed(value, digits)
    return text.replace("0.", ".", 1) if text.lstrip("−").startswith("0.") else text


def fixed(value: float, decimals: int, signed: bool = False) -> str:
    """Format with a number of decimals; `signed` writes the sign of positive numbers too. Zero has no sign.

    >>> fixed(-0.31, 2), fixed(-0.001, 2), fixed(0.31, 2, signed=True), fixed(0.001, 2, signed=True)
    ('−0.31', '0.00', '+0.31', '0.00')
    """
    if not math.isfinite(value):
        return special(value)
    text = f"{value:{'+' if signed else ''}.{decimals}f}"
    return minus(text) if float(text) else text.lstrip("+-")


def complex_number(value: complex, digits: int = 3) -> str:
    """Format an eigenvalue; a complex one stands for its conjugate pair.

    >>> complex_number(1.5 + 0j), complex_number(-0.62 - 0.31j)
    ('1.50', '−0.62 ± 0.31i')
    """
    if abs(value.imag) <= 1e-9 * abs(value):
        return number(value.real, digits)
    return f"{number(value.real, digits)} ± {number(abs(value.imag), digits)}i"


def minus(text: str) -> str:
    """Replace a leading hyphen with a minus sign."""
    return "−" + text[1:] if text.startswith("-") else text


def special(value: float) -> str:
    return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"


def plain(text: str) -> str:
    """Convert a number formatted here to ASCII."""
    return text.replace("−", "-").replace("∞", "inf").replace("–", "-")


def duration(seconds: float) -> str:
    """Format a duration in at most two units: "4s", "3m12s", "2h05m", "3d04h".

    >>> duration(4.2), duration(192), duration(7500), duration(273600)
    ('4s', '3m12s', '2h05m', '3d04h')
    """
    if not math.isfinite(seconds):
        return "?"
    s = max(0, int(seconds))
    if s < 60:
        return f"{s}s"
    if s < 3600:
        return f"{s // 60}m{s % 60:02}s"
    if s < 86400:
        return f"{s // 3600}h{s % 3600 // 60:02}m"
    return f"{s // 86400}d{s % 86400 // 3600:02}h"


def about(minutes: float) -> str:
    """Format how long a scenario takes: "5 s", "4 min", "2 h"; "" if unknown.

    >>> about(4), about(0.08), about(0), about(150)
    ('4 min', '5 s', '', '2.5 h')
    """
    if minutes <= 0:
        return ""
    if minutes < 1:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.2g} h"


def megabytes(size: float) -> str:
    """Format a number of bytes: "412 kB", "61 MB", "1.2 GB"."""
    if size < 1e6:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


def significant(value: float) -> str:
    """Format a number whose digits matter at any size, such as a learning rate: "3.2e-3", "0.05", "2.113".

    >>> significant(0.0032), significant(0.0003), significant(0.05), significant(2.113)
    ('3.2e-3', '3e-4', '0.050', '2.113')
    """
    if not 0 < abs(value) < 0.01:
        return number(value)
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".replace("-", "−", value < 0)


STATES = {
    "created": "starting…",
    "running": "running",
    "paused": "paused",
    "done": "done",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "failed": "failed",
    "lost": "lost",
    "silent": "silent",
    "unreadable": "cannot be read",
}


def clock(seconds: float) -> str:
    """Format a Unix time as local time: "14:33:02"."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def calendar(seconds: float) -> str:
    """Format a Unix time with its date: "2026-11-20 14:33"."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "?"
