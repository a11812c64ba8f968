"""The colours of boards that depend on the terminal: values of moves, and the tones of squares and points."""

from __future__ import annotations

from math import cos, radians, sin

from txlab.drawing.boards import BoardPiece
from txlab.drawing.boards.canvas import QUARTERS
from txlab.drawing.palette import (
    BLACK,
    BLUE,
    BRIGHT_BLUE,
    BRIGHT_WHITE,
    BRIGHT_YELLOW,
    GREY,
    RED,
    RGB,
    WHITE,
    Colours,
    contrast,
    cube,
    hex_rgb,
    lines,
    oklab_to_rgb,
)

# The value of a move as a colour: blue for losing, amber for winning, the surface itself in between. The hues are
# colour-blind safe; the lightness changes with the magnitude, so that a large value is visible in any case.
STEPS = 12
BAD_256, GOOD_256 = ["g02", "001", "002", "012", "013", "014"], ["g02", "100", "210", "310", "420", "430"]
BAD_LIGHT_256, GOOD_LIGHT_256 = ["555", "445", "345", "245", "234", "134"], ["555", "554", "543", "542", "532", "530"]


def tint(merit: float, colours: Colours, dark: bool) -> tuple[RGB | None, RGB | None]:
    """Return (background, ink) for a value in [−1, 1]; None = the surface's own."""
    size = min(1.0, abs(merit))
    if colours == "none" or size < 0.5 / STEPS:
        return None, None
    good = merit > 0
    if colours == "16":
        return None, (BRIGHT_YELLOW if good else BRIGHT_BLUE) if dark else (RED if good else BLUE)
    if colours == "256":
        known = (GOOD_256 if good else BAD_256) if dark else (GOOD_LIGHT_256 if good else BAD_LIGHT_256)
        fill = cube(known[min(len(known) - 1, 1 + int(size * (len(known) - 1)))])
        return fill, contrast(fill)
    level = round(size * STEPS) / STEPS
    hue = 70.0 if good else 255.0
    lightness, chroma = (0.24 + 0.26 * level, 0.02 + 0.09 * level) if dark else (0.97 - 0.2 * level, 0.02 + 0.1 * level)
    fill = oklab_to_rgb(lightness, chroma * cos(radians(hue)), chroma * sin(radians(hue)))
    return fill, contrast(fill)


# Each tone on the dark and on the light background. With too few colours for quiet tones, a texture replaces its
# blocks.
TONE = {
    "even": ("#4a3f35", "#d9c7a8"), "odd": ("#2b3540", "#c3ccd4"), "hole": ("#20262d", "#e6e2d8"),
    "die": ("#d6dadf", "#1f2328"), "pip": ("#0e1013", "#fbfaf7"), "ghost": ("#737b86", "#6a7178"),
}  # fmt: skip
TONE_256 = {
    "even": ("g06", "543"), "odd": ("g03", "g20"), "hole": ("g02", "g21"),
    "die": ("g21", "g02"), "pip": ("g00", "g23"), "ghost": ("g11", "g10"),
}  # fmt: skip
TONE_16 = {"die": (BRIGHT_WHITE, BLACK), "pip": (BLACK, BRIGHT_WHITE), "ghost": (WHITE, GREY)}
TEXTURE = {"even": "░", "odd": "·", "hole": "·"}
BLOCKS = tuple(map(ord, QUARTERS[1:]))


def texture_text(piece: BoardPiece) -> str:
    """The text of a piece in a terminal with too few colours for quiet tones: their blocks are texture."""
    return piece.text.translate(dict.fromkeys(BLOCKS, TEXTURE[piece.kind])) if piece.kind in TEXTURE else piece.text


def tone(kind: str, colours: Colours, dark: bool) -> RGB | None:
    """Return the colour of a tone; None if the terminal has none, or it is not a tone."""
    if kind == "second":
        return lines(colours, dark)[1]
    if kind not in TONE or colours == "none":
        return None
    if colours == "16":
        pair: tuple[RGB, RGB] = TONE_16.get(kind, (GREY, WHITE))
        return pair[not dark]
    return hex_rgb(TONE[kind][not dark]) if colours == "truecolor" else cube(TONE_256[kind][not dark])
