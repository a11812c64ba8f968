"""Tokenizers from elsewhere in txlab, compared with tiktoken and Hugging Face's tokenizers on hard strings.

    python benchmarks/foreign_tokenizers.py                  tokenizers learnt on the spot, a minute
    python benchmarks/foreign_tokenizers.py FOLDER --fetch   and real ones: pip and npm download packages that contain
                                                             them (60 MB) into FOLDER

A row gives the number of strings that differ: in ids, in ids with special tokens, in the decoded text, and in the
characters that the tokens cover.

Characters that the engines' Unicode versions classify differently are removed from the strings first, as in
tests/parity. tiktoken reports where tokens begin, the library also where they end. Expected: 0 everywhere but in one
place: the library decodes an added token whose letters all stand for bytes, as in "Straße", as these bytes
("Stra\\xdfe"), while txlab returns the text that became the token.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import warnings
import zipfile
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tiktoken
import tiktoken.load
import tokenizers
from tiktoken_ext import openai_public

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "parity"))
from token_strings import random_strings, undisputed

from txlab.engine.tokenizers.bases import GPT2
from txlab.engine.tokenizers.files import export_tokenizer, load_tokenizer
from txlab.engine.tokenizers.offsets import token_spans
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.experiments.tokenizer_store import kind_of

STRINGS = 2_612
PACKAGES = {"npm": ("gpt-3-encoder", "tiktoken"), "PyPI": ("litellm",)}
ENDS = ["a\n  ", "a \n\n \t", "\n", "a  ", "<|endoftext|>", "x<|endoftext|> y", "\n<|fim_prefix|>\n", "Human: ", " "]
# litellm contains OpenAI's rank files under the names that tiktoken's cache gives them.
CACHED = {
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4": "cl100k_base",
    "ec7223a39ce59f226a68acc30dc1af2788490e15": "p50k_base",
    "fb374d419588a4632f3f557e76b4b70aebbca790": "o200k_base",
}


@dataclass(frozen=True)
class Found:
    """A program's results for a string: ids, ids with special tokens, the text decoded from the former, offsets."""

    ids: list[int]
    special: list[int]
    text: str
    places: list[Any]


@dataclass(frozen=True)
class Case:
    """`path`: the file for txlab; `theirs`: string → result of the other program; `ends`: it reports ends of tokens."""

    name: str
    path: Path
    theirs: Callable[[str], Found]
    ends: bool


def of_library(inner: Any) -> Callable[[str], Found]:
    def encode(text: str) -> Found:
        inner.encode_special_tokens = False
        special = inner.encode(text, add_special_tokens=False).ids
        inner.encode_special_tokens = True
        plain = inner.encode(text, add_special_tokens=False)
        return Found(plain.ids, special, inner.decode(plain.ids, skip_special_tokens=False), plain.offsets)

    return encode


def of_tiktoken(encoding: tiktoken.Encoding) -> Callable[[str], Found]:
    def encode(text: str) -> Found:
        ids = encoding.encode(text, disallowed_special=())
        decoded, starts = encoding.decode_with_offsets(ids)
        return Found(ids, encoding.encode(text, allowed_special="all"), decoded, starts)

    return encode


def differences(case: Case, strings: list[str]) -> tuple[Any, dict[str, int]]:
    ours: Any = load_tokenizer(case.path)
    counts = dict.fromkeys(("ids", "special", "decoded", "places"), 0)
    has_special = bool(getattr(ours, "special", ()))
    for text in strings:
        theirs = case.theirs(text)
        spans = token_spans(ours, text)
        places = [(piece.start, piece.stop) if case.ends else piece.start for piece in spans]
        counts["ids"] += ours.encode(text) != theirs.ids or [piece.token for piece in spans] != theirs.ids
        counts["special"] += has_special and ours.encode(text, special=True) != theirs.special
        counts["decoded"] += ours.decode(theirs.ids) != theirs.text
        counts["places"] += places != theirs.places
    return ours, counts


# Real ones


def fetch(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "pack", *PACKAGES["npm"]], cwd=folder, check=True)
    pip = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, *PACKAGES["PyPI"]], check=True)


def members(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a package in the folder: name without path, and bytes."""
    for path in sorted(folder.glob(f"{name}-[0-9]*")):
        if path.suffix == ".tgz":
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.isfile() and (file := archive.extractfile(member)):
                        yield Path(member.name).name, file.read()
        elif path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                for entry in archive.namelist():
                    if "/tokenizers/" in entry and not entry.endswith("/"):
                        yield Path(entry).name, archive.read(entry)


def published_encoding(name: str, ranks: dict[bytes, int]) -> tiktoken.Encoding:
    """tiktoken's encoding of that name, built from local ranks: tiktoken would download its own."""
    openai_public.load_tiktoken_bpe = lambda *_, **__: ranks
    openai_public.data_gym_to_mergeable_bpe_ranks = lambda **_: ranks
    return tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[name]())


def real(folder: Path, work: Path) -> Iterator[Case]:
    files = dict(members(folder, "gpt-3-encoder"))
    if files:
        (work / "gpt2").mkdir()
        names = {"vocab.json": "encoder.json", "merges.txt": "vocab.bpe"}
        for ours, theirs in names.items():
            (work / "gpt2" / ours).write_bytes(files[theirs])
        inner = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*(str(work / "gpt2" / name) for name in names)))
        inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = tokenizers.decoders.ByteLevel()
        inner.add_special_tokens(["<|endoftext|>"])
        yield Case("GPT-2 (npm gpt-3-encoder)", work / "gpt2", of_library(inner), True)
    for name, data in members(folder, "litellm"):
        path = work / name
        path.write_bytes(data)
        if name in CACHED:
            ranks = tiktoken.load.load_tiktoken_bpe(str(path))
            yield Case(
                f"{CACHED[name]} (PyPI litellm)", path, of_tiktoken(published_encoding(CACHED[name], ranks)), False
            )
            if CACHED[name] == "p50k_base":
                other = work / "p50k_edit"
                other.write_bytes(data)
                yield Case("p50k_base as p50k_edit", other, of_tiktoken(published_encoding("p50k_edit", ranks)), False)
        elif path.suffix == ".json":
            yield Case(f"{path.stem} (PyPI litellm)", path, of_library(tokenizers.Tokenizer.from_file(str(path))), True)
    for name, data in members(folder, "tiktoken"):
        path = work / f"js-{name}"
        if path.suffix != ".json" or name not in {f"{known}.json" for known in openai_public.ENCODING_CONSTRUCTORS}:
            continue
        path.write_bytes(data)
        content = json.loads(data)
        ranks = {}
        for line in filter(None, content["bpe_ranks"].split("\n")):
            _, first, *words = line.split(" ")
            ranks |= {b64decode(word): int(first) + i for i, word in enumerate(words)}
        encoding = tiktoken.Encoding(
            path.stem, pat_str=content["pat_str"], mergeable_ranks=ranks, special_tokens=content["special_tokens"]
        )
        yield Case(f"{path.stem} (npm tiktoken)", path, of_tiktoken(encoding), False)


# Tokenizers learnt here


def learn_cases(strings: list[str], work: Path) -> Iterator[Case]:
    for pattern in ("gpt2", "gpt4", "cl100k", "none"):
        base = train_tokenizer(strings[:800], 1_200, pattern, ["<|endoftext|>"], GPT2)
        path = work / f"{pattern}.json"
        export_tokenizer(base, path, "huggingface")
        yield Case(f"{pattern}, learnt here", path, of_library(tokenizers.Tokenizer.from_file(str(path))), True)
        inner = tokenizers.Tokenizer.from_file(str(path))
        added = tokenizers.AddedToken
        inner.add_tokens(["the", "Straße", " \n", added("foo_bar", single_word=True), added("->", normalized=False)])
        inner.add_tokens([added("1", lstrip=True, rstrip=True), added("<|fim_prefix|>", lstrip=True, special=True)])
        inner.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
        inner.save(str(work / f"{pattern}-added.json"))
        yield Case(f"{pattern}, added tokens, trimmed", work / f"{pattern}-added.json", of_library(inner), True)
        ranks = work / f"{pattern}.tiktoken"
        export_tokenizer(base, ranks, "tiktoken")
        content = json.loads(ranks.with_name(ranks.name + ".json").read_text())
        encoding = tiktoken.Encoding(
            pattern,
            pat_str=content["pat_str"],
            mergeable_ranks=tiktoken.load.load_tiktoken_bpe(str(ranks)),
            special_tokens=content["special_tokens"],
        )
        yield Case(f"{pattern}, our own ranks", ranks, of_tiktoken(encoding), False)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="folder of packages with real vocabularies")
    parser.add_argument("--fetch", action="store_true", help="download them into the folder first, with npm and pip")
    asked = parser.parse_args(arguments)
    if asked.fetch:
        if asked.folder is None:
            parser.error("--fetch needs a folder to download to")
        fetch(asked.folder)
    strings, left_out = undisputed([*ENDS, *random_strings(STRINGS)])
    print(f"{len(strings)} strings, without {left_out} characters that the engines class differently\n")
    print(f"{'tokenizer':<34}{'read as':<11}{'tokens':>9}{'ids':>7}{'special':>9}{'decoded':>9}{'places':>8}")
    total = dict.fromkeys(("ids", "special", "decoded", "places"), 0)
    warnings.simplefilter("error")  # no pattern may be guessed here
    with TemporaryDirectory() as work:
        cases = list(learn_cases(strings, Path(work)))
        if asked.folder is not None:
            cases += real(asked.folder, Path(work))
        for case in cases:
            ours, counts = differences(case, strings)
            total = {name: total[name] + counts[name] for name in total}
            numbers = f"{counts['ids']:>7}{counts['special']:>9}{counts['decoded']:>9}{counts['places']:>8}"
            print(f"{case.name:<34}{kind_of(ours):<11}{ours.vocabulary:>9,}{numbers}", flush=True)
    print(
        f"\n{len(cases)} tokenizers; strings that differ: " + ", ".join(f"{n} in {name}" for name, n in total.items())
    )
    if asked.folder is None:
        print("real vocabularies: python benchmarks/foreign_tokenizers.py FOLDER --fetch")


if __name__ == "__main__":
    main()
