"""`txlab tokenize`: a text as tokens: ids, bytes and positions, or only the ids.

The input is arbitrary bytes; characters are counted only where it is valid UTF-8. Ids come from the fast path, and the
table has only the first tokens unless all are requested, so that a pipe of megabytes is answered immediately.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_answer, table
from txlab.cli.terminal import ascii_only, group_digits, numeral, plural, sanitize
from txlab.errors import Guess, LabError, nearest
from txlab.files import read_regular

if TYPE_CHECKING:
    from txlab.engine.tokenizers.offsets import Statistics, TokenSpan
    from txlab.engine.tokenizers.tokenizer import Ids, Tokenizer

BLOCK = 1 << 16  # ids per write
LONGEST_LABEL = 40  # cells


def pattern_named(given: str | None) -> str | None:
    """Return the pattern of that name; raise LabError for an unknown one."""
    from txlab.engine.tokenizers.patterns import NAMES, name_or_pattern

    if given is not None and given not in NAMES:
        raise LabError(f"--pattern {given!r} is not known{nearest(given, NAMES)}; allowed: {', '.join(NAMES)}")
    return None if given is None else name_or_pattern(given)


def tokenize(
    text: options.Text = None,
    file: options.File = None,
    tokenizer: Annotated[
        str,
        typer.Option(
            "--tokenizer",
            metavar="NAME",
            help="bytes, python-docs (4096 byte pairs, learnt from Python's documentation), a saved one, or a file",
            show_default=True,
        ),
    ] = "python-docs",
    pattern: options.Pattern = None,
    ids: Annotated[bool, typer.Option("--ids", help="only the ids, in one line", callback=options.only_form)] = False,
    json: options.Json = False,
    csv: options.Csv = False,
    special: options.Special = False,
    every: options.EveryToken = False,
) -> None:
    """A text as tokens: ids, bytes, positions."""
    from txlab.engine.tokenizers.offsets import statistics, token_spans_of_bytes
    from txlab.experiments.tokenizer_store import tokenizer_named

    with guesses() as guessed:
        chosen = tokenizer_named(tokenizer, pattern_named(pattern))
    given = read_bytes(text, file)
    assert given is not None
    encoded = ids_of(chosen, given, special)
    if ids:
        for start in range(0, len(encoded), BLOCK):  # all in one line, a block at a time
            sys.stdout.write((" " if start else "") + " ".join(map(str, encoded[start : start + BLOCK].tolist())))
        sys.stdout.write("\n")
        return
    totals = statistics(given, encoded)
    pieces = token_spans_of_bytes(chosen, given, special, None if every else options.ROWS)
    content = answer(tokenizer, chosen, encoded, pieces, totals) if json or csv else {}
    if print_answer(content | ({"warnings": guessed} if guessed else {}), "pieces", json, csv):
        return
    if pieces:
        print_table(pieces)
        if left := len(encoded) - len(pieces):
            print(f"\nand {group_digits(left)} more; --all shows them, --ids prints the ids alone")
        print()
    print_totals(tokenizer, chosen, totals)


@contextlib.contextmanager
def guesses() -> Iterator[list[str]]:
    """Collect the warnings about guesses, which are also written to stderr."""
    guessed: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Guess)
        yield guessed
    for warning in caught:
        if issubclass(warning.category, Guess):
            guessed.append(str(warning.message))
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def read_bytes(text: str | None, file: Path | None, needed: bool = True) -> bytes | None:
    """Return the argument, a file's content or standard input; None if nothing is given and nothing is needed."""
    if text not in (None, "-") and file is not None:
        raise LabError("give either a text or --file, not both")
    if file is not None:
        from txlab.experiments.corpora import LARGEST_TEXT, TOO_LARGE

        try:
            return read_regular(file, LARGEST_TEXT)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise LabError(f"--file {str(file)!r} {TOO_LARGE}") from None
            raise LabError(f"--file {str(file)!r} cannot be read: {error.strerror or error}") from None
        except ValueError:  # a NUL in the name
            raise LabError(f"--file {str(file)!r} cannot be read: it is not a valid file name") from None
    if text == "-" or (text is None and needed):
        return standard_input()
    return None if text is None else os.fsencode(text)


def standard_input() -> bytes:
    """Read all of standard input, with a notice if it is a terminal. Raises LabError if it is too long."""
    from txlab.experiments.corpora import LARGEST_TEXT, TOO_LARGE

    if sys.stdin is None or sys.stdin.closed:
        raise LabError("there is no standard input")
    if sys.stdin.isatty():
        print("reading the text from the keyboard; end it with ctrl-d", file=sys.stderr)
    # In blocks: Python checks for ctrl-c between two of them; within one long read it may miss it.
    source: Any = sys.stdin.buffer
    blocks, size = [], 0
    for block in iter(lambda: source.read1(BLOCK), b""):
        blocks.append(block)
        size += len(block)
        if size > LARGEST_TEXT:
            raise LabError(f"standard input {TOO_LARGE}")
    return b"".join(blocks)


def standard_text() -> str:
    """Read all of standard input as UTF-8. Raises LabError if it is something else."""
    try:
        return standard_input().decode()
    except UnicodeDecodeError as error:
        raise LabError(f"standard input is not UTF-8 (byte {error.start}); allowed: any text in UTF-8") from None


def ids_of(tokenizer: Tokenizer, data: bytes, special: bool = False) -> Ids:
    """Encode any bytes, the fast way where they are text. `special`: texts of special tokens become these tokens."""
    import numpy as np

    from txlab.engine.tokenizers.tokenizer import ids_of_bytes, specials_of

    if not special:
        return ids_of_bytes(tokenizer, data)
    if not specials_of(tokenizer):
        raise LabError("--special is for tokenizers with special tokens, and this one has none")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise LabError("--special is for text, and these bytes are not UTF-8") from None
    return np.array(tokenizer.encode(text, special=True), dtype=np.uint32)  # type: ignore[call-arg]


def numbers(totals: Statistics) -> dict[str, float | None]:
    """Return statistics for JSON: None for a ratio with a zero denominator."""
    ratios = {"bytes_per_token": totals.bytes_per_token, "tokens_per_word": totals.tokens_per_word}
    counts = {
        name: getattr(totals, name) for name in ("tokens", "distinct", "bytes", "characters", "words", "unspaced")
    }
    return counts | {name: value if isfinite(value) else None for name, value in ratios.items()}


def answer(
    name: str, tokenizer: Tokenizer, ids: Ids, pieces: Sequence[TokenSpan], totals: Statistics
) -> dict[str, Any]:
    """Return everything as JSON; bytes of a token that are not UTF-8 are \\xe2 in its text."""
    from txlab.engine.tokenizers.tokenizer import legible
    from txlab.experiments.tokenizer_store import kind_of

    return {
        "tokenizer": {"name": name, "kind": kind_of(tokenizer), "vocabulary": tokenizer.vocabulary},
        **numbers(totals),
        "ids": ids.tolist(),
        "pieces": [
            {
                "id": piece.token,
                "text": legible(piece.data),
                "bytes": piece.data.hex(),
                "start": piece.start,
                "stop": piece.stop,
                "byte_start": piece.byte_start,
                "byte_stop": piece.byte_stop,
                "special": piece.special,
            }
            for piece in pieces
        ],
        "pieces_left_out": len(ids) - len(pieces),
    }


def print_table(pieces: Sequence[TokenSpan]) -> None:
    """Print each token's id, text with invisible characters made visible, bytes, and positions as slices."""
    from txlab.drawing.text import cut, label
    from txlab.engine.tokenizers.tokenizer import legible

    head = [Column("id", "right"), Column("token"), Column("bytes", loose=True)]
    head += [Column("characters", "right"), Column("bytes at", "right")]
    rows = [
        [
            str(piece.token),
            cut(label(legible(piece.data), ascii_only()), LONGEST_LABEL) + (" (special)" if piece.special else ""),
            piece.data.hex(" "),
            f"{piece.start}:{piece.stop}",
            f"{piece.byte_start}:{piece.byte_stop}",
        ]
        for piece in pieces
    ]
    print(table(head, rows))


def print_totals(name: str, tokenizer: Tokenizer, totals: Statistics) -> None:
    from txlab.experiments.tokenizer_store import kind_of

    print(
        f"{plural(totals.tokens, 'token')}, {plural(totals.bytes, 'byte')}, {plural(totals.characters, 'character')}, "
        f"{plural(totals.words, 'word')}"
    )
    if totals.tokens:
        per_word = f", {numeral(totals.tokens_per_word)} tokens per word" if totals.words else ""
        print(f"{numeral(totals.bytes_per_token)} bytes per token{per_word}")
    print(sanitize(f"tokenizer {name}: {kind_of(tokenizer)}, {group_digits(tokenizer.vocabulary)} tokens"))
