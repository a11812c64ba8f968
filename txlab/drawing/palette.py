"""Colours: ramps that turn a number in [0, 1] into a level with a colour and a glyph, and the colours of curves.

Notable: a 64-level RGB ramp leaves nine distinct colours in a 256-colour terminal and four in a 16-colour one
(measured), so each depth has its own ramp, and every level has a glyph as well as a colour: nothing is conveyed by
colour alone. The truecolor ramps have evenly spaced lightness in OKLab (Ottosson 2020) and colour-blind-safe hues. The
colours of the 256 and 16 ramps are exact entries of those palettes, so that no terminal rounds them.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

Colours = Literal["truecolor", "256", "16", "none"]
RGB = tuple[int, int, int]

SHADES = "·░▒▓█"
ASCII_SHADES = ".:-=+*#%@"


@dataclass(frozen=True)
class Ramp:
    """Levels 0 … n−1 of a quantity: `fill` is the cell's background (None = the surface), `ink` the glyph's colour
    (None = the surface's own), `glyphs` one character per level that shows it without colour."""

    fill: tuple[RGB | None, ...]
    ink: tuple[RGB | None, ...]
    glyphs: str

    @property
    def levels(self) -> int:
        return len(self.glyphs)

    def level(self, values: np.ndarray) -> np.ndarray:
        """Return the levels (uint8) of values in [0, 1]: level 0 is for less than half a step, NaN counts as 0.

        level = round(v · (n − 1))
        """
        scaled = np.nan_to_num(np.clip(values, 0, 1).astype(np.float32))
        levels: np.ndarray = np.rint(scaled * (self.levels - 1)).astype(np.uint8)
        return levels


def oklab_to_rgb(lightness: float, a: float, b: float) -> RGB:
    """Convert a colour from OKLab to sRGB (B. Ottosson, "A perceptual color space for image processing", 2020)."""
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    )
    encoded = [12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in np.clip(linear, 0, 1)]
    red, green, blue = (round(255 * float(c)) for c in encoded)
    return red, green, blue


def rgb_to_oklab(colour: RGB) -> tuple[float, float, float]:
    """Convert an sRGB colour to OKLab: (lightness, a, b). Lightness 0 is black, 1 is white."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(colour) / 255)
    l = np.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    m = np.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    s = np.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        float(0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s),
        float(1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s),
        float(0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s),
    )


def smooth_ramp(anchors: list[tuple[float, float, float]], levels: int) -> list[RGB]:
    """Return a ramp through (lightness, chroma, hue in degrees) anchors whose lightness changes evenly end to end."""
    lightness, chroma, hue = np.array(anchors).T
    even = np.linspace(lightness[0], lightness[-1], levels)
    order = np.argsort(lightness)
    c = np.interp(even, lightness[order], chroma[order])
    h = np.radians(np.interp(even, lightness[order], hue[order]))
    return [oklab_to_rgb(*point) for point in zip(even, c * np.cos(h), c * np.sin(h), strict=True)]


# From the dark background through indigo and rose to the accent's amber, and to paper; the light one goes from paper
# through amber and rose to indigo.
DARK_ANCHORS = [(0.22, 0.035, 280.0), (0.36, 0.11, 292.0), (0.52, 0.15, 345.0), (0.70, 0.15, 400.0)]
DARK_ANCHORS += [(0.84, 0.13, 440.0), (0.96, 0.06, 455.0)]
LIGHT_ANCHORS = [(0.95, 0.025, 455.0), (0.85, 0.09, 435.0), (0.70, 0.15, 405.0), (0.52, 0.16, 360.0)]
LIGHT_ANCHORS += [(0.38, 0.13, 310.0), (0.24, 0.08, 285.0)]
LEVELS = 48
# Of differences: above zero from the surface to orange, below zero to blue, which every eye tells apart.
DARK_SIGNED = (
    [(0.22, 0.0, 70.0), (0.55, 0.13, 60.0), (0.90, 0.12, 80.0)],
    [(0.22, 0.0, 250.0), (0.55, 0.14, 250.0), (0.90, 0.07, 225.0)],
)
LIGHT_SIGNED = (
    [(0.95, 0.0, 80.0), (0.70, 0.15, 60.0), (0.36, 0.10, 45.0)],
    [(0.95, 0.0, 230.0), (0.70, 0.12, 240.0), (0.36, 0.13, 260.0)],
)

# Chosen by hand: entries of the 6 × 6 × 6 cube and a grey, lightness rising (falling for light) at every step.
CUBE_STEPS = (0, 95, 135, 175, 215, 255)
DARK_256 = ["g02", "102", "202", "302", "312", "411", "421", "521", "531", "542", "554"]
LIGHT_256 = ["554", "543", "531", "521", "421", "411", "311", "302", "202", "102", "001"]
DARK_SIGNED_256 = "g00 100 110 210 310 320 420 430 530 541 552", "g00 001 002 012 013 023 024 034 035 145 255"
LIGHT_SIGNED_256 = "555 554 553 543 542 532 531 421 411 310 200", "555 455 345 245 235 135 134 023 013 012 002"

# The 16 colours as rich defines them, since it rounds to the nearest of these.
BLACK, BLUE, MAGENTA, RED, YELLOW, WHITE = (0, 0, 0), (0, 0, 170), (170, 0, 170), (170, 0, 0), (170, 85, 0), (170,) * 3
GREY, BRIGHT_RED, BRIGHT_GREEN, BRIGHT_YELLOW = (85,) * 3, (255, 85, 85), (85, 255, 85), (255, 255, 85)
BRIGHT_BLUE, BRIGHT_MAGENTA, BRIGHT_CYAN, BRIGHT_WHITE = (85, 85, 255), (255, 85, 255), (85, 255, 255), (255,) * 3
CYAN, GREEN = (0, 170, 170), (0, 170, 0)


def cube(digits: str) -> RGB:
    """Return a colour of the 256-colour palette: three digits 0–5 of the cube, or 'g' and the number 0–23 of a grey."""
    if digits[0] == "g":
        return (8 + 10 * int(digits[1:]),) * 3
    red, green, blue = (CUBE_STEPS[int(digit)] for digit in digits)
    return red, green, blue


def textured_ramp(fills: list[RGB]) -> Ramp:
    """Return a filled ramp overlaid with shade glyphs, whose ink is a little further along the ramp: the texture shows
    the level without colour and keeps the ramp even."""
    count = len(fills)
    quarters = [min(4, round(index / (count - 1) * 4 + 0.25)) if index else 0 for index in range(count)]
    ahead = max(1, count // 12)
    ink = [fills[min(count - 1, index + ahead)] for index in range(count)]
    ink[0] = fills[min(count - 1, 2 * ahead)]
    return Ramp(tuple(fills), tuple(ink), "".join(SHADES[quarter] for quarter in quarters))


@cache
def heat(colours: Colours = "truecolor", dark: bool = True, ascii: bool = False) -> Ramp:
    """Return the ramp of a heatmap: 48 levels in truecolor, 11 in 256 colours, 5 in 16, only glyphs without colours.

    In ASCII mode the glyphs are ` .:-=+*#%@` without the blank, which is for masked cells.
    """
    if ascii:
        return in_ascii(heat(colours, dark))
    if colours == "truecolor":
        return textured_ramp(smooth_ramp(DARK_ANCHORS if dark else LIGHT_ANCHORS, LEVELS))
    if colours == "256":
        return textured_ramp([cube(digits) for digits in (DARK_256 if dark else LIGHT_256)])
    if colours == "16":
        ink = (
            (GREY, BRIGHT_BLUE, BRIGHT_MAGENTA, BRIGHT_YELLOW, BRIGHT_WHITE)
            if dark
            else (GREY, YELLOW, RED, MAGENTA, BLACK)
        )
        return Ramp((None,) * 5, ink, SHADES)
    return Ramp((None,) * 5, (None,) * 5, SHADES)


def in_ascii(even: Ramp) -> Ramp:
    """Return a ramp with the glyphs of ASCII; without fills it has no colours either."""
    count = len(ASCII_SHADES)
    picks = [round(index * (even.levels - 1) / (count - 1)) for index in range(count)]
    fills = tuple(even.fill[pick] for pick in picks)
    return Ramp(fills, tuple(contrast(fill) if fill else None for fill in fills), ASCII_SHADES)


@cache
def diverging(colours: Colours = "truecolor", dark: bool = True, ascii: bool = False) -> tuple[Ramp, Ramp]:
    """Return the ramps of differences above zero (orange) and below (blue), with as many levels as `heat` has."""
    if ascii:
        above, below = diverging(colours, dark)
        return in_ascii(above), in_ascii(below)
    if colours == "truecolor":
        above, below = (
            textured_ramp(smooth_ramp(anchors, LEVELS)) for anchors in (DARK_SIGNED if dark else LIGHT_SIGNED)
        )
    elif colours == "256":
        chosen = DARK_SIGNED_256 if dark else LIGHT_SIGNED_256
        above, below = (textured_ramp([cube(digits) for digits in row.split()]) for row in chosen)
    elif colours == "16":
        warm = (GREY, RED, YELLOW, BRIGHT_RED, BRIGHT_YELLOW) if dark else (GREY, YELLOW, YELLOW, RED, RED)
        cool = (GREY, BLUE, BRIGHT_BLUE, CYAN, BRIGHT_CYAN) if dark else (GREY, CYAN, CYAN, BLUE, BLUE)
        above, below = (Ramp((None,) * 5, ink, SHADES) for ink in (warm, cool))
    else:
        above = below = heat(colours, dark)
    return above, below


def contrast(colour: RGB) -> RGB:
    """Return black or white, whichever is readable on the colour."""
    return (0, 0, 0) if rgb_to_oklab(colour)[0] > 0.6 else (255, 255, 255)


# After Okabe and Ito (2008), with lightness adjusted to be readable on the dark and the light background.
DARK_LINES = ["#e5a950", "#56b4e9", "#4fc79c", "#e58fc0", "#f0e468", "#f2765a", "#b3a1f2", "#9aa3ad"]
LIGHT_LINES = ["#9a5b00", "#0063b0", "#00836b", "#b0408f", "#5d5a00", "#7a1420", "#5b45b0", "#555c64"]
DARK_LINES_256 = ["531", "135", "253", "534", "553", "521", "335", "g16"]
LIGHT_LINES_256 = ["310", "014", "022", "403", "110", "200", "203", "g08"]
DARK_LINES_16 = (BRIGHT_YELLOW, BRIGHT_CYAN, BRIGHT_GREEN, BRIGHT_MAGENTA, BRIGHT_RED, BRIGHT_BLUE, BRIGHT_WHITE, WHITE)
LIGHT_LINES_16 = (YELLOW, BLUE, GREEN, MAGENTA, RED, CYAN, BLACK, GREY)


@cache
def lines(colours: Colours = "truecolor", dark: bool = True) -> tuple[RGB | None, ...]:
    """Return the colours of eight curves, colour-blind safe; the first has the accent's hue: it is the main curve."""
    if colours == "truecolor":
        return tuple(hex_rgb(text) for text in (DARK_LINES if dark else LIGHT_LINES))
    if colours == "256":
        return tuple(cube(digits) for digits in (DARK_LINES_256 if dark else LIGHT_LINES_256))
    if colours == "16":
        return DARK_LINES_16 if dark else LIGHT_LINES_16
    return (None,) * len(DARK_LINES)


def hex_rgb(text: str) -> RGB:
    """Parse a colour: '#e5a950' → (229, 169, 80)."""
    red, green, blue = bytes.fromhex(text.removeprefix("#"))
    return red, green, blue
