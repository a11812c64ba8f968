"""The capabilities of the terminal that commands write to.

Untrusted text (names, titles, samples, reasons) goes through `sanitize`; colour only repeats what a word says, and is
off without a terminal, with NO_COLOR, and on a dumb one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from txlab.drawing.formatting import count, number, plain
from txlab.errors import LabError

if TYPE_CHECKING:
    from rich.text import Text as Line

# Status → (glyph, glyph in ASCII, SGR colour). The word is always shown next to it.
GLYPHS = {
    "created": ("○", ".", 90),
    "running": ("●", "*", 32),
    "paused": ("‖", "=", 33),
    "done": ("✓", "+", 32),
    "stopped": ("■", "#", 90),
    "interrupted": ("■", "#", 33),
    "failed": ("✗", "x", 31),
    "lost": ("?", "?", 31),
    "silent": ("·", "-", 90),
    "unreadable": ("?", "?", 31),
}


_ascii = False  # --ascii


def ask_for_ascii(asked: bool) -> None:
    global _ascii
    _ascii = asked


def ascii_asked() -> bool:
    """Whether ASCII was requested, with --ascii or TXLAB_ASCII."""
    return _ascii or os.environ.get("TXLAB_ASCII", "") not in ("", "0")


def ascii_only() -> bool:
    """Whether to use only ASCII: requested, or required by the output's encoding."""
    if ascii_asked():
        return True
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "") not in ("utf8", "utf16", "utf32")


DUMB = ("dumb", "unknown")  # values of TERM of what only prints, as the shell of an editor


def is_terminal() -> bool:
    """Whether both input and output are a terminal."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def has_screen() -> bool:
    """Whether the console can be shown: on a terminal that can place its cursor, or by the driver that textual-serve
    names to its processes."""
    return (is_terminal() and os.environ.get("TERM") not in DUMB) or bool(os.environ.get("TEXTUAL_DRIVER"))


def require_screen() -> None:
    """LabError if the console cannot be shown: what it needs, and what works without."""
    if has_screen():
        return
    kind = os.environ.get("TERM")
    needs = f"a terminal that can place its cursor, and TERM={kind} cannot" if kind in DUMB else "a terminal"
    raise LabError(f"the console needs {needs}; without one: txlab run SCENARIO, or txlab --help")


def can_redraw() -> bool:
    """Whether a line can be overwritten in place."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in (*DUMB, "")


def colours() -> bool:
    return can_redraw() and not os.environ.get("NO_COLOR")


def columns() -> int:
    return max(20, shutil.get_terminal_size((100, 24)).columns)


def sanitize(text: str) -> str:
    """Return untrusted text on one line, safe for the terminal."""
    from txlab.drawing.text import visible

    return visible(text, ascii_only())


def wrap_for_terminal(text: str) -> str:
    """The text broken between words where a terminal is too narrow for it; a file or a pipe gets one line."""
    if not sys.stdout.isatty():
        return text
    return "\n".join(wrap(text, columns() - 1, subsequent_indent="  ")) or text


def complain(message: str) -> None:
    """Write one line to stderr, safe for the terminal."""
    with contextlib.suppress(OSError):
        print(f"txlab: {sanitize(message)}", file=sys.stderr, flush=True)


def numeral(value: float) -> str:
    """Format a number as on the screens, in ASCII where needed."""
    return plain(number(value)) if ascii_only() else number(value)


def group_digits(number: float) -> str:
    """Format a whole number with spaces between thousands."""
    return plain(count(number)) if ascii_only() else count(number)


def plural(number: int, noun: str) -> str:
    """ "1 token", "2 tokens"."""
    return f"{group_digits(number)} {noun}{'' if number == 1 else 's'}"


def colour_text(text: str, colour: int) -> str:
    """Return the text in one of the 16 colours, by its SGR number, if this terminal has colours."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colours() else text


def status_word(status: str) -> tuple[str, int]:
    """Return ("● running", its colour)."""
    glyph, plain, colour = GLYPHS.get(status, ("?", "?", 31))
    return f"{plain if ascii_only() else glyph} {sanitize(status[:40])}", colour


def meter(share: float, cells: int, signs: str = "━╌") -> str:
    """Draw a share as full and empty cells, to the nearest cell."""
    full, empty = ("#", ".") if ascii_only() else (signs[0], signs[1])
    done = round(share * cells)
    return full * done + empty * (cells - done)


def depth() -> Any:
    """Return the colour depth of the output: "truecolor", "256", "16" or "none"."""
    if not colours():
        return "none"
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in os.environ.get("TERM", "") else "16"


def print_lines(lines: list[Line]) -> None:
    """Print styled lines in this terminal's colours, or as plain text."""
    from rich.console import Console

    systems: dict[str, Any] = {"truecolor": "truecolor", "256": "256", "16": "standard", "none": None}
    system = systems[depth()]
    if system is None:
        print("\n".join(line.plain.rstrip() for line in lines))
        return
    console = Console(file=sys.stdout, color_system=system, force_terminal=True, highlight=False, width=10_000)
    for line in lines:
        console.print(line, soft_wrap=True)
