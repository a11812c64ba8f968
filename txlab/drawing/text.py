"""Untrusted text made safe for a terminal, measured, and fitted to a width.

Notable: nothing that comes out of `visible` can move the cursor, change colours, reorder the line or change its width
between terminals. So controls, bidirectional overrides, joiners, lone surrogates and unassigned code points are written
as signs or backslash escapes, and the variation selectors (about whose width terminals disagree) are left out. Widths
are rich's, which Textual uses for layout.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import groupby

from rich.cells import cell_len, split_graphemes

# Signs for common control characters; the others use their Control Picture or an escape.
SIGNS = {"\n": "↵", "\t": "⇥", "\r": "␍"}
ASCII_SIGNS = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}

# Control, format (bidi, joiners, tags, soft hyphen), surrogate, private, unassigned, line and paragraph separators.
UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
VARIATION_SELECTORS = {chr(code) for code in range(0xFE00, 0xFE10)} | {chr(code) for code in range(0xE0100, 0xE01F0)}


def escape(character: str) -> str:
    r"""Escape a character as Python would: `\x1b`, `\u202e`, `\U000e0041`.

    >>> escape("\u202e")
    '\\u202e'
    """
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@lru_cache(8192)
def visible_character(character: str, ascii: bool = False) -> str:
    if " " <= character <= "~":
        return character
    if ascii:
        return ASCII_SIGNS.get(character) or escape(character)
    if character in SIGNS:
        return SIGNS[character]
    if character < " ":
        return chr(0x2400 + ord(character))
    if character == "\x7f":
        return "␡"
    if character in VARIATION_SELECTORS:
        return ""
    category = unicodedata.category(character)
    if category in UNSAFE:
        return escape(character)
    if category == "Zs":  # every kind of space is shown as a space: U+3000 and U+00A0 look like one
        return " " * cell_len(character)
    return character


SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z“\"(‘α-ωΑ-Ω0-9])")


def sentences(text: str) -> list[str]:
    """Split a text into its sentences, on one line each.

    >>> sentences("It learns, e.g. here. One head copies.\\nWhy? See T1.")
    ['It learns, e.g. here.', 'One head copies.', 'Why?', 'See T1.']
    """
    return SENTENCE.split(" ".join(text.split()))


def visible(text: str, ascii: bool = False) -> str:
    r"""Return the text on one line with everything unprintable made visible; safe to send to any terminal.

    `ascii` also escapes what is not ASCII. The result never begins with a combining character.

    >>> visible("a\x1b[31mb\n")
    'a␛[31mb↵'
    """
    if text.isascii() and text.isprintable():
        return text
    shown = "".join([visible_character(character, ascii) for character in text])
    return "◌" + shown if shown and cell_len(shown[0]) == 0 else shown


def visible_lines(text: str, ascii: bool = False) -> list[str]:
    """Like `visible`, but keep line breaks (LF, CR LF) and turn a tab into four spaces: for running text."""
    lines = text.replace("\r\n", "\n").split("\n")
    return [visible(line.replace("\t", "    "), ascii) for line in lines]


def label(token: str, ascii: bool = False) -> str:
    r"""Format a token as a label: like `visible`, with its spaces marked, so that 'ed' and ' ed' differ.

    >>> label(" the"), label("\n"), label("")
    ('·the', '↵', '∅')
    """
    if not token:
        return "''" if ascii else "∅"
    return visible(token, ascii).replace(" ", "_" if ascii else "·")


def width(text: str) -> int:
    """Return the width of a visible text in cells: 2 for wide characters, 0 for combining ones."""
    return cell_len(text)


def fit(text: str, cells: int, align: str = "left", ellipsis: str = "…") -> str:
    """Fit a text to exactly `cells` cells: truncated with an ellipsis at the end, or padded opposite to `align`.

    Never splits a wide or combined character, or a number; spaces replace one that does not fit.

    >>> fit("attention", 5), fit("日本語", 4), fit("7", 3, "right"), fit("of 1 240", 6)
    ('atte…', '日… ', '  7', 'of …  ')
    """
    if cells <= 0:
        return ""
    size = cell_len(text)
    if size > cells:
        room = cells - cell_len(ellipsis)
        if room < 0:
            ellipsis, room = "", cells
        text = cut(text, room) + ellipsis
        size = cell_len(text)
    padding = cells - size
    left = padding if align == "right" else padding // 2 if align == "center" else 0
    return " " * left + text + " " * (padding - left)


# A number with its sign, thousands, decimals, exponent and unit.
NUMBER = re.compile(
    r"[+\-−]?(?:\d{1,3}(?:[ \u2009]\d{3}(?!\d))+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:e[+\-−]?\d+)?(?:[kMG](?![A-Za-z])|%)?"
)


def cut(text: str, cells: int) -> str:
    """Return the longest prefix of a text that takes at most `cells` cells, without a part of a number: "1 2" of
    "1 240" is another number, so there the prefix ends before it."""
    kept = prefix(text, cells)
    for match in NUMBER.finditer(text) if len(kept) < len(text) else ():
        if match.start() >= len(kept):
            break
        if match.end() > len(kept):
            return kept[: match.start()]
    return kept


def prefix(text: str, cells: int) -> str:
    """Return the longest prefix of a text that takes at most `cells` cells, whole graphemes only."""
    if len(text) <= cells and text.isascii():
        return text
    taken = end = 0
    for _, stop, size in split_graphemes(text)[0]:
        if taken + size > cells:
            break
        taken, end = taken + size, stop
    return text[:end]


# The letters of formulas in ASCII.
FORMULA = {
    "Σ": "sum", "√": "sqrt ", "∂": "d", "∇": "grad", "∞": "inf", "−": "-", "×": "x", "·": "*", "⋅": "*", "÷": "/",
    "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "→": "->", "←": "<-", "↦": "->", "∈": "in", "‖": "||", "′": "'",
    "″": "''", "…": "...", "⊤": "^T", "∑": "sum", "∏": "prod", "⟨": "<", "⟩": ">", "–": "-", "—": "-",
    "§": "sec. ", "“": '"', "”": '"', "‘": "'", "’": "'", "▸": ">", "ℓ": "l", "∗": "*", "½": "1/2", "±": "+-",
    "¬": "not ", "↑": "^", "↓": "v", "\u0302": "_hat", "°": " degrees",
}  # fmt: skip


def formula(text: str, ascii: bool = False) -> str:
    """Format a formula, or a sentence with formulas, for the screen; in ASCII, letters are spelt out, not escaped.

    >>> formula("αᵢⱼ = exp(qᵢ·kⱼ/√K) − σ²", ascii=True)
    'alpha_ij = exp(q_i*k_j/sqrt K) - sigma^2'
    >>> formula("log p(xₜ₊₁ | x₁…xₜ), Becker-Kahn §4", ascii=True)
    'log p(x_{t+1} | x_1...x_t), Becker-Kahn sec. 4'
    """
    if not ascii:
        return visible(text)
    pieces = ((sign, "".join(run)) for sign, run in groupby(text.replace("√(", "sqrt("), script))
    return visible("".join(script_in_ascii(sign, run) if sign else in_ascii(run) for sign, run in pieces), ascii=True)


def script(character: str) -> str:
    """`_` for a subscript, `^` for a superscript, else ''."""
    return {"<sub>": "_", "<super>": "^"}.get(unicodedata.decomposition(character).split(" ")[0], "")


def script_in_ascii(sign: str, run: str) -> str:
    """Format a run of sub- or superscripts: `_ij`, `^-3`, in braces where its end would be ambiguous, `_{t+1}`."""
    inside = in_ascii(unicodedata.normalize("NFKD", run))
    return sign + (inside if len(inside) < 2 or inside[1:].isalnum() else f"{{{inside}}}")


def in_ascii(text: str) -> str:
    """Replace the signs and letters of a formula one by one; those without an ASCII form stay."""
    written: list[str] = []
    for character in text:
        if character in FORMULA:
            written.append(FORMULA[character])
        elif character.isascii():
            written.append(character)
        elif (name := unicodedata.name(character, "")).startswith(("GREEK SMALL LETTER ", "GREEK CAPITAL LETTER ")):
            word = name.split(" ")[3].lower()
            written.append(word if "SMALL" in name else word.capitalize())
        else:
            written.append("".join(c for c in unicodedata.normalize("NFKD", character) if c.isascii()) or character)
    return "".join(written)
