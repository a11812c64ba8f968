"""`txlab tokenizer train`, `export` and `list`: train byte pair encodings, and export them for other programs.

All arguments are validated before training begins, and a file is written completely or not at all, so that ctrl-c at
any time leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_rows, table
from txlab.cli.terminal import can_redraw, columns, group_digits, meter, numeral, sanitize
from txlab.cli.tokenize import guesses, pattern_named, standard_text
from txlab.drawing.formatting import duration
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.tokenizers.training import Trainer
    from txlab.experiments.corpora import Corpus


def train(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="python-docs, python-source, a file, a folder, or - for standard input"),
    ],
    vocabulary: Annotated[
        int, typer.Option("--vocabulary", metavar="N", help="tokens in total, with the base and special tokens", min=1)
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="save it under this name, for scenarios and commands")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="write it to this file instead")] = None,
    base: Annotated[
        Literal["bytes", "alphabet"],
        typer.Option("--base", help="the base units: bytes, or the letters of the text (alphabet)"),
    ] = "bytes",
    pattern: Annotated[
        Literal["gpt4", "cl100k", "gpt2", "none"] | None,
        typer.Option(
            "--pattern",
            help="how the text is split into pieces that merges never cross: gpt4, cl100k, gpt2 or none; "
            "else gpt4 for bytes, none for an alphabet, whose words end by themselves",
        ),
    ] = None,
    special: Annotated[
        list[str] | None, typer.Option("--special", metavar="TEXT", help="a special token, e.g. '<|endoftext|>'")
    ] = None,
    ties: Annotated[
        Literal["first", "greatest"],
        typer.Option(
            "--ties",
            help="the pair merged among equally frequent ones: first, of the lowest ids; greatest, by bytes",
        ),
    ] = "first",
    replace: options.Replace = False,
) -> None:
    """Learn a byte pair encoding from texts."""
    specials = special or []
    path = place(name, out, replace)
    check_specials(specials, ())
    corpora = read_sources(sources)
    texts = [document for corpus in corpora for document in corpus.documents]
    cut = pattern or ("gpt4" if base == "bytes" else "none")

    from txlab.engine.tokenizers.bases import BYTES, Alphabet
    from txlab.engine.tokenizers.training import Trainer, count_chunks

    start = BYTES if base == "bytes" else Alphabet.of(texts)
    check_specials(specials, start.special)
    smallest = start.size + len(specials) + 1
    if vocabulary < smallest:
        what = "256 bytes" if base == "bytes" else f"{start.size} tokens of the alphabet"
        extra = f" and {len(specials)} special" if specials else ""
        raise LabError(
            f"--vocabulary {vocabulary} leaves no room for a merge after the {what}{extra}; at least {smallest}"
        )
    began = time.monotonic()
    line = ProgressLine()
    try:
        trainer = Trainer(count_chunks(line.count_texts(texts), cut, [*start.special, *specials]), start, ties)
        line.learn(trainer, vocabulary - len(specials))
    finally:
        line.close()
    from txlab.engine.tokenizers.files import save_tokenizer
    from txlab.experiments.tokenizer_store import save_named

    tokenizer = trainer.tokenizer(cut, specials)
    if name is not None:
        save_named(tokenizer, name, overwrite=replace)
    else:
        with unwritable(path):
            save_tokenizer(tokenizer, path)
    report(trainer, tokenizer.vocabulary, corpora, time.monotonic() - began)
    if tokenizer.vocabulary < vocabulary:
        print(f"fewer than the {group_digits(vocabulary)} requested: no pair occurs twice any more")
    tell_where(path, name)


def place(name: str | None, out: Path | None, replace: bool) -> Path:
    """Return the path the tokenizer will be written to, validated before training."""
    if (name is None) == (out is None):
        raise LabError("give either --name NAME, for use in scenarios and commands, or --out FILE")
    if name is not None:
        from txlab.experiments.tokenizer_store import place_for

        path = place_for(name, overwrite=replace)
        there = next((folder for folder in path.absolute().parents if folder.exists()), Path("/"))
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise LabError(f"{str(path)!r} cannot be written: {str(there)!r} is not a writable folder")
        return path
    assert out is not None
    return free_place(out, replace)


def free_place(out: Path, replace: bool, name: str = "--out") -> Path:
    """Return a path that can be written to; raise LabError otherwise, naming the option."""
    with unwritable(out):
        if not out.parent.is_dir():
            raise LabError(f"{name} {str(out)!r} is in a folder that does not exist")
        if not os.access(out.parent, os.W_OK):
            raise LabError(f"{name} {str(out)!r} is in a folder that is not writable")
        if out.exists() and not replace:
            raise LabError(f"{name} {str(out)!r} exists already; --replace replaces it")
    return out


def check_specials(specials: Sequence[str], taken: Collection[str]) -> None:
    """Raise LabError for special tokens that are invalid or already in the base."""
    from txlab.engine.tokenizers.tokenizer import utf8

    if "" in specials or len(set(specials)) < len(specials):
        raise LabError("--special needs different texts, none of them empty")
    for special in specials:
        utf8(special)
        if special in taken:
            raise LabError(f"--special {special!r} is a special token of the alphabet already")


def read_sources(sources: Sequence[str]) -> list[Corpus]:
    """Read the training texts; raise LabError naming the source that is wrong."""
    from txlab.experiments.corpora import Corpus, load_corpus, refuse_too_much

    if sources.count("-") > 1:
        raise LabError("standard input can be read only once; give - one time")
    corpora = []
    for source in sources:
        if source != "-":
            corpora.append(load_corpus(source, "SOURCE"))
            refuse_too_much(corpora, "SOURCE")
            continue
        text = standard_text()
        if not text.strip():
            raise LabError("standard input is empty; SOURCE - takes the text from it")
        corpora.append(Corpus("standard input", ["-"], [text]))
        refuse_too_much(corpora, "SOURCE")
    return corpora


class ProgressLine:
    """A progress line on a terminal; prints nothing elsewhere."""

    def __init__(self) -> None:
        self.draws, self.drawn = can_redraw(), 0.0

    def count_texts(self, texts: Sequence[str]) -> Iterator[str]:
        whole, seen = sum(map(len, texts)), 0
        for text in texts:
            self.draw(seen / whole, "counting")
            yield text
            seen += len(text)

    def learn(self, trainer: Trainer, vocabulary: int) -> None:
        """Merge until the vocabulary has that many tokens, or no pair occurs twice."""
        first, began = trainer.vocabulary, time.monotonic()
        while trainer.vocabulary < vocabulary and trainer.step() is not None:
            share = (trainer.vocabulary - first) / (vocabulary - first)
            left = duration((time.monotonic() - began) * (1 - share) / share)
            self.draw(share, f"{group_digits(trainer.vocabulary)} of {group_digits(vocabulary)} tokens, {left} left")

    def draw(self, share: float, words: str) -> None:
        from txlab.drawing.text import cut

        now = time.monotonic()
        if not self.draws or now - self.drawn < 0.12:  # as fast as numbers can be read
            return
        self.drawn = now
        self.write("\r" + cut(f"{meter(share, 30)}  {words}", columns() - 1) + "\x1b[K")

    def write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:  # the output is closed; training continues
            self.draws = False

    def close(self) -> None:
        if self.draws and self.drawn:
            self.write("\r\x1b[K")


@contextlib.contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Turn a failure to write a file into a LabError."""
    try:
        yield
    except OSError as error:
        raise LabError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
    except ValueError:  # a NUL in the name
        raise LabError(f"{str(path)!r} cannot be written: it is not a valid file name") from None


def report(trainer: Trainer, vocabulary: int, corpora: Sequence[Corpus], seconds: float) -> None:
    """Print the tokenizer's size, its training texts, and its compression of them."""
    size = sum(len(document.encode()) for corpus in corpora for document in corpus.documents)
    names = ", ".join(corpus.name for corpus in corpora)
    took = duration(seconds) if seconds >= 1 else "less than a second"
    what = f"{group_digits(vocabulary)} tokens, {group_digits(len(trainer.merges))} of them merged"
    print(sanitize(f"{what}, learnt from {names} ({group_digits(size)} bytes) in {took}"))
    print(f"of that text   {group_digits(trainer.length())} tokens, {numeral(size / trainer.length())} bytes each")


def tell_where(path: Path, name: str | None) -> None:
    quoted = shlex.quote(name or str(path))
    print(sanitize(f"file           {path}"))
    print(sanitize(f"try it         txlab tokenize --tokenizer {quoted} 'some text'"))
    print(sanitize(f"train with it  txlab run gpt-tiny --set data.tokenizer={quoted}"))


def export(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a saved tokenizer, or a file")],
    form: Annotated[
        Literal["huggingface", "tiktoken", "gpt2", "txlab"],
        typer.Option("--format", "--form", help="huggingface, tiktoken, gpt2 (a folder of two files) or txlab"),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help="the file, or for gpt2 the folder")],
    pattern: options.Pattern = None,
    replace: options.Replace = False,
) -> None:
    """Export a tokenizer for other programs."""
    from txlab.experiments.tokenizer_store import tokenizer_named

    tokenizer = tokenizer_named(name, pattern_named(pattern))
    path = free_place(out, replace)
    from txlab.engine.tokenizers.files import export_tokenizer
    from txlab.engine.tokenizers.rank_files import BESIDE

    if form == "tiktoken":
        free_place(path.with_name(path.name + BESIDE), replace)
    with unwritable(path):
        lost = export_tokenizer(tokenizer, path, form)
    print(sanitize(f"{path} {lost}" if lost else str(path)))


def list_saved(json: options.JsonLines = False, csv: options.Csv = False) -> None:
    """List the saved tokenizers."""
    from txlab.experiments.tokenizer_store import files_by_name, tokenizers_folder

    rows = [describe_file(name, path) for name, path in sorted(files_by_name().items())]
    if print_rows(rows, json, csv):
        return
    if not rows:
        where = sanitize(str(tokenizers_folder()))
        print(f"no tokenizer is saved in {where}; txlab tokenizer train SOURCE --vocabulary N --name NAME makes one")
        return
    head = [Column("name"), Column("kind"), Column("tokens", "right"), Column("special", "right")]
    head += [Column("pattern"), Column("file", loose=True)]
    cells = [
        [
            sanitize(row["name"]),
            sanitize(row.get("kind", "unreadable")),
            group_digits(row["vocabulary"]) if "vocabulary" in row else "",
            group_digits(row["special"]) if row.get("special") else "",
            sanitize(cut_pattern(row.get("pattern", ""))),
            sanitize(row.get("error", row["file"])),
        ]
        for row in rows
    ]
    print(table(head, cells))


def describe_file(name: str, path: Path) -> dict[str, Any]:
    """Return the list entry of one file; for a broken one, the reason."""
    from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
    from txlab.engine.tokenizers.files import load_tokenizer
    from txlab.engine.tokenizers.tokenizer import specials_of
    from txlab.experiments.tokenizer_store import kind_of

    row: dict[str, Any] = {"name": name, "file": str(path)}
    try:
        with guesses() as guessed:
            tokenizer = load_tokenizer(path)
    except LabError as error:
        return row | {"error": str(error)}
    if guessed:
        row["warnings"] = guessed
    row |= {"kind": kind_of(tokenizer), "vocabulary": tokenizer.vocabulary}
    pattern = tokenizer.pattern if isinstance(tokenizer, BytePairTokenizer) else ""
    return row | {"special": len(specials_of(tokenizer)), "pattern": pattern}


def cut_pattern(pattern: str) -> str:
    """Return a pattern's name as it is; a custom regular expression is too long for a table."""
    return pattern if len(pattern) <= 12 else "its own"
