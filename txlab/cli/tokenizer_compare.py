"""`txlab tokenizer compare`: two to four tokenizers on the same text, language by language, and where they differ.

Tokenizers differ between two neighbouring shared cuts if any of them cuts in between; so differences are as short as
possible, and common parts are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_json, table
from txlab.cli.terminal import ascii_only, columns, group_digits, numeral, sanitize
from txlab.cli.tokenize import guesses, ids_of, numbers, pattern_named, read_bytes
from txlab.errors import LabError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from txlab.engine.tokenizers.offsets import Statistics
    from txlab.engine.tokenizers.tokenizer import Ids, Tokenizer
    from txlab.experiments.sentences import LanguageStatistics

MOST = 4
PLACES = 20  # shown, unless all are requested


@dataclass(frozen=True)
class Difference:
    """Bytes start … stop of the text, and the tokens of each tokenizer."""

    start: int
    stop: int
    parts: list[list[bytes]]


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="two to four: bytes, python-docs, saved ones, or files")
    ],
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="also on this text; - is standard input")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="also on the text of a file")] = None,
    pattern: options.Pattern = None,
    json: options.Json = False,
    every: Annotated[bool, typer.Option("--all", help=f"every place where they differ, not only {PLACES}")] = False,
) -> None:
    """Compare two to four tokenizers."""
    if not 2 <= len(names) <= MOST:
        raise LabError(f"compare takes two to {MOST} tokenizers, not {len(names)}")
    from txlab.engine.tokenizers.offsets import statistics
    from txlab.experiments.sentences import by_language
    from txlab.experiments.tokenizer_store import tokenizer_named

    with guesses() as guessed:
        tokenizers = [tokenizer_named(name, pattern_named(pattern)) for name in names]
    given = read_bytes(text, file, needed=False)
    rows = by_language(tokenizers)
    # Without a text: the sentences of all languages joined.
    data = "\n".join(row.language.text for row in rows).encode() if given is None else given
    ids = [ids_of(each, data) for each in tokenizers]
    whole = [statistics(data, each) for each in ids]
    differing = None if given is None else differences(tokenizers, ids, given, None if every else PLACES)
    if json:
        content = answer(names, tokenizers, whole, differing, rows)
        print_json(content | ({"warnings": guessed} if guessed else {}))
        return
    what = "the same sentences in all languages below" if given is None else "the given text"
    print_totals(names, tokenizers, whole, what)
    if differing is not None:
        print_differences(names, differing, whole[0].bytes)
    print_languages(names, rows)


@dataclass(frozen=True)
class Differences:
    """All places where tokenizers cut differently, as (start, stop) in bytes, and the first of them in full."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    shown: list[Difference]

    def share(self, size: int) -> float:
        return float((self.stops - self.starts).sum()) / size if size else 0.0


def differences(tokenizers: Sequence[Tokenizer], ids: Sequence[Ids], data: bytes, most: int | None) -> Differences:
    """Find where the tokenizers cut differently, from left to right, with at most `most` of them in full.

    Between two neighbouring cuts shared by all, the tokenizers agree unless one of them cuts again.
    """
    import numpy as np

    cuts = [cuts_of(tokenizer, each, data) for tokenizer, each in zip(tokenizers, ids, strict=True)]
    shared = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), cuts)
    places = [np.searchsorted(cut, shared) for cut in cuts]
    differs = np.flatnonzero(np.any([np.diff(place) > 1 for place in places], axis=0))
    shown = []
    for i in differs[:most].tolist():
        inside = [cut[place[i] : place[i + 1] + 1].tolist() for cut, place in zip(cuts, places, strict=True)]
        parts = [[data[a:b] for a, b in itertools.pairwise(ends)] for ends in inside]
        shown.append(Difference(int(shared[i]), int(shared[i + 1]), parts))
    return Differences(shared[differs], shared[differs + 1], shown)


def cuts_of(tokenizer: Tokenizer, ids: Ids, data: bytes) -> NDArray[np.int64]:
    """Return the byte offsets of token boundaries: 0, …, the whole length; tokens without bytes add none."""
    import numpy as np

    from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
    from txlab.engine.tokenizers.offsets import Spanning, token_lengths, token_spans_of_bytes

    stripping = isinstance(tokenizer, BytePairTokenizer) and any(t.lstrip or t.rstrip for t in tokenizer.added)
    if isinstance(tokenizer, Spanning) or stripping:  # its tokens are not made of the input's bytes
        places = ((piece.byte_start, piece.byte_stop) for piece in token_spans_of_bytes(tokenizer, data))
        return np.array(sorted({0, len(data), *itertools.chain.from_iterable(places)}), np.int64)
    lengths = token_lengths(tokenizer, ids)
    return np.concatenate([[0], np.cumsum(lengths)[lengths > 0]])


def answer(
    names: Sequence[str],
    tokenizers: Sequence[Tokenizer],
    whole: Sequence[Statistics],
    differing: Differences | None,
    rows: Sequence[LanguageStatistics],
) -> dict[str, Any]:
    """Return everything as JSON; the parts of a difference are text where they are UTF-8, \\xe2 where not."""
    from txlab.engine.tokenizers.tokenizer import legible
    from txlab.experiments.tokenizer_store import kind_of

    content: dict[str, Any] = {
        "tokenizers": [
            {"name": name, "kind": kind_of(tokenizer), "vocabulary": tokenizer.vocabulary} | numbers(statistics)
            for name, tokenizer, statistics in zip(names, tokenizers, whole, strict=True)
        ]
    }
    if differing is not None:
        content["differences"] = [
            {"start": one.start, "stop": one.stop, "tokens": [[legible(part) for part in parts] for parts in one.parts]}
            for one in differing.shown
        ]
        content["differences_left_out"] = len(differing.starts) - len(differing.shown)
        content["differing_share"] = differing.share(whole[0].bytes)
    content["languages"] = [
        {
            "name": row.language.name,
            "script": row.language.script,
            "tokenizers": [numbers(each) for each in row.statistics],
        }
        for row in rows
    ]
    return content


def print_totals(names: Sequence[str], tokenizers: Sequence[Tokenizer], whole: Sequence[Statistics], what: str) -> None:
    head = [Column("tokenizer", loose=True), Column("vocabulary", "right"), Column("tokens", "right")]
    head += [Column("bytes per token", "right"), Column("tokens per word", "right")]
    rows = [
        [
            sanitize(name),
            group_digits(tokenizer.vocabulary),
            group_digits(each.tokens),
            numeral(each.bytes_per_token),
            numeral(each.tokens_per_word),
        ]
        for name, tokenizer, each in zip(names, tokenizers, whole, strict=True)
    ]
    print(f"on {what}: {group_digits(whole[0].bytes)} bytes, {group_digits(whole[0].words)} words\n")
    print(table(head, rows))


def print_differences(names: Sequence[str], differing: Differences, size: int) -> None:
    from txlab.drawing.text import cut, label
    from txlab.engine.tokenizers.tokenizer import legible

    if not len(differing.starts):
        print("\nthey split it identically")
        return
    count = "one place" if len(differing.starts) == 1 else f"{group_digits(len(differing.starts))} places"
    print(f"\nthey split it differently in {count}, {100 * differing.share(size):.0f} % of its bytes\n")
    bar, room = "|" if ascii_only() else "│", max(12, (columns() - 12) // len(names) - 2)
    head = [Column("byte", "right"), *(Column(cut(sanitize(name), room)) for name in names)]
    rows = [
        [
            group_digits(one.start),
            *(cut(bar.join(label(legible(part), ascii_only()) for part in parts), room) for parts in one.parts),
        ]
        for one in differing.shown
    ]
    print(table(head, rows))
    if left := len(differing.starts) - len(differing.shown):
        print(f"\nand {group_digits(left)} more; --all shows them")


def print_languages(names: Sequence[str], rows: Sequence[LanguageStatistics]) -> None:
    """Print the tokens of the same sentences, and tokens per word, for each language."""
    from txlab.drawing.text import cut

    room = max(6, (columns() - 20) // len(names) - 9)
    head = [Column("language"), Column("script", loose=True)]
    for name in names:
        head += [Column(cut(sanitize(name), room), "right"), Column("/word", "right")]
    cells = [
        [
            row.language.name,
            row.language.script,
            *itertools.chain.from_iterable(
                (group_digits(s.tokens), numeral(s.tokens_per_word)) for s in row.statistics
            ),
        ]
        for row in rows
    ]
    print(f"\ntokens of the same {len(rows[0].language.sentences)} sentences, and tokens per word (/word)\n")
    print(table(head, cells))
