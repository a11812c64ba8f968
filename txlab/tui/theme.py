"""The two themes of txlab, and the glyphs that ASCII mode replaces.

Notable: there is one background. Surfaces are separated by rules and space, not by shade, because over SSH two dark
shades often become one colour. One accent marks what is selected or live; everything else is a grey. The nearest
neighbours of the colours in 256 and in 16 colours stay distinct (quiet: bright black, accent: yellow, and on white
blue, since yellow cannot be read there); a paler accent or a lighter grey would both become white (checked by
tests/tui/test_theme.py).
"""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme


def _variables(text: str, quiet: str, rule: str, accent: str, on_accent: str, background: str) -> dict[str, str]:
    return {
        "quiet": quiet,
        "rule": rule,
        "text-muted": quiet,
        "block-cursor-background": accent,
        "block-cursor-foreground": on_accent,
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": background,
        "block-cursor-blurred-foreground": text,
        "border": accent,
        "border-blurred": rule,
        "footer-background": background,
        "footer-key-foreground": accent,
        "footer-description-foreground": quiet,
        "input-cursor-background": text,
        "input-selection-background": f"{accent} 35%",
        "scrollbar": rule,
        "scrollbar-hover": quiet,
        "scrollbar-active": accent,
        "scrollbar-background": background,
        "scrollbar-corner-color": background,
        "scrollbar-background-hover": background,
        "scrollbar-background-active": background,
    }


DARK = Theme(
    name="txlab-dark",
    primary="#e69f00",
    secondary="#8fa3b8",
    accent="#e69f00",
    warning="#e5c07b",
    error="#e0605c",
    success="#5fbf5f",
    foreground="#d6dadf",
    background="#0e1013",
    surface="#0e1013",
    panel="#1b1f25",
    boost="#1b1f25",
    dark=True,
    variables=_variables("#d6dadf", "#737b86", "#3c444e", "#e69f00", "#0e1013", "#0e1013"),
)

LIGHT = Theme(
    name="txlab-light",
    primary="#0b4ea2",
    secondary="#4a5a6a",
    accent="#0b4ea2",
    warning="#7d2a00",
    error="#b3261e",
    success="#007a00",
    foreground="#1f2328",
    background="#fbfaf7",
    surface="#fbfaf7",
    panel="#efece4",
    boost="#efece4",
    dark=False,
    variables=_variables("#1f2328", "#6a7178", "#c9c5ba", "#0b4ea2", "#ffffff", "#fbfaf7"),
)

THEMES = [DARK, LIGHT]


class Signs:
    """The signs that carry meaning in addition to colour."""

    wall = "│"
    cursor = "▸"
    live = "●"
    paused = "‖"
    done = "✓"
    failed = "✗"
    stopped = "■"
    lost = "?"
    waiting = "○"
    arrow = "→"
    dot = "·"
    left, right = "‹›"
    prompt = "›"
    ellipsis = "…"
    rising, falling = "↑↓"


# One sign for one sign, so that alignment and styles stay valid.
IN_ASCII = str.maketrans("…·→←−‖×‹›↑↓●✓✗■▸○—–✻∞─│", "~-><-|x<>^v*+x#>o--*8-|")


class SignsInAscii(LineFilter):
    """Writes the signs that our own sentences use in ASCII wherever they are painted; letters of other alphabets
    stay."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            each if each.text.isascii() else Segment(each.text.translate(IN_ASCII), each.style, each.control)
            for each in segments
        ]
