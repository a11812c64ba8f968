"""The two themes of txlab, and the glyphs that ASCII mode replaces.

Notable: there is one background. Surfaces are separated by rules and space, not by shade, because over SSH two dark
shades often become one colour. One accent marks what is selected or live; everything else is a grey. The nearest
neighbours of the colours in 256 and in 16 colours stay distinct (quiet: bright black, accent: yellow); a paler accent
or a lighter grey would both become white there (checked by tests/tui/test_theme.py).
"""

from __future__ import annotations

from dataclasses import dataclass

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
    primary="#9a5b00",
    secondary="#4a5a6a",
    accent="#9a5b00",
    warning="#8a6100",
    error="#b3261e",
    success="#007a00",
    foreground="#1f2328",
    background="#fbfaf7",
    surface="#fbfaf7",
    panel="#efece4",
    boost="#efece4",
    dark=False,
    variables=_variables("#1f2328", "#6a7178", "#c9c5ba", "#9a5b00", "#ffffff", "#fbfaf7"),
)

THEMES = [DARK, LIGHT]


@dataclass(frozen=True)
class Glyphs:
    """The signs that carry meaning besides colour."""

    rule: str = "─"
    wall: str = "│"
    cursor: str = "▸"
    live: str = "●"
    paused: str = "‖"
    done: str = "✓"
    failed: str = "✗"
    stopped: str = "■"
    lost: str = "?"
    waiting: str = "○"
    arrow: str = "→"
    dot: str = "·"
    times: str = "×"
    left: str = "‹"
    right: str = "›"
    prompt: str = "›"
    ellipsis: str = "…"
    rising: str = "↑"
    falling: str = "↓"
    thin: str = "\N{NO-BREAK SPACE}"
    minus: str = "−"
    norm: str = "‖grad‖"


UNICODE = Glyphs()
ASCII = Glyphs(
    rule="-", wall="|", cursor=">", live="*", paused="=", done="+", failed="x", stopped="#", lost="?", waiting="o",
    arrow="->", dot="-", times="x", left="<", right=">", prompt="|", ellipsis="...",
    rising="^", falling="v", thin=" ", minus="-", norm="|grad|",
)  # fmt: skip


def glyphs(ascii: bool) -> Glyphs:
    return ASCII if ascii else UNICODE


# One sign for one sign, so that alignment and styles stay valid.
IN_ASCII = str.maketrans("…·→←−‖×‹›↑↓●✓✗■▸○—–✻∞", "~-><-|x<>^v*+x#>o--*8")


def plain_signs(text: str, ascii: bool) -> str:
    """Return a text with the signs that our own sentences use in ASCII, if asked; letters of other alphabets stay."""
    return text.translate(IN_ASCII) if ascii else text
