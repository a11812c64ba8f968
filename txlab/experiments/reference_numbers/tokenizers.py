"""Reference numbers of tokenizers: the public tests of Stanford's CS336, first assignment, in a folder of the user's.

None of them ship with txlab. The folder is a checkout of stanford-cs336/assignment1-basics (or of its spring2024 form),
or the tests/fixtures in it. The merges were learnt with ties = "greatest". GPT-2's tokens of the texts are not in the
folder; they come from tiktoken, with the vocabulary in the folder.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from txlab.engine.tokenizers.gpt2_files import bytes_named, merge_lines, tokenizer_of_names, vocabulary_of
from txlab.engine.tokenizers.json_files import parse_json, read_bytes
from txlab.engine.tokenizers.patterns import PATTERNS
from txlab.engine.tokenizers.training import count_chunks, train_merges
from txlab.errors import LabError
from txlab.experiments.reference_numbers import Figure, Measured, Say, derived, printed

SPECIAL = "<|endoftext|>"
VOCABULARY, MERGES = 500, 243  # 256 bytes, one special token, 243 merges
TEXTS = ("address.txt", "german.txt", "tinystories_sample.txt")


def figures_in(folder: Path | None) -> list[Figure]:
    """The figures, with the fixtures in that folder; without a folder they only state their needs."""
    needs = "" if folder is not None else "a checkout of stanford-cs336/assignment1-basics, named by --folder"
    fixtures = fixtures_in(folder) if folder is not None else Path()
    return [
        Figure(
            "cs336-training",
            f"CS336's corpus.en: a byte pair encoding of {VOCABULARY} tokens, ties to the greatest pair of bytes",
            "Stanford CS336, assignment 1, tests/test_train_bpe.py and its fixtures",
            [
                printed("merges that are the file's, in order", MERGES, 0),
                printed("tokens that are the file's", VOCABULARY, 0),
            ],
            partial(measure_training, fixtures),
            0.2,
            needs,
        ),
        Figure(
            "cs336-encoding",
            "CS336's texts by GPT-2's vocabulary",
            "Stanford CS336, assignment 1, tests/test_tokenizer.py and its fixtures; ids of tiktoken",
            [
                derived(f"texts of {len(TEXTS)} with tiktoken's ids", len(TEXTS), 0),
                derived(f"texts of {len(TEXTS)} that come back", len(TEXTS), 0),
            ],
            partial(measure_encoding, fixtures),
            2.0,
            needs,
        ),
    ]


def fixtures_in(folder: Path) -> Path:
    """The fixtures in a checkout, or the folder itself. LabError if there are none."""
    for place in (folder / "tests" / "fixtures", folder):
        with suppress(OSError):  # a name that is too long
            if (place / "corpus.en").exists():
                return place
    raise LabError(f"--folder {str(folder)!r} has no corpus.en, in tests/fixtures or itself")


T = TypeVar("T")


def read(path: Path, how: Callable[[bytes], T]) -> T:
    """Apply `how` to a file's bytes. LabError names the file."""
    try:
        return how(read_bytes(path))
    except UnicodeDecodeError as error:
        raise LabError(f"{path}: byte {error.start} is not UTF-8") from None
    except LabError as error:
        raise LabError(f"{path}: {error}") from None


def merges_of(path: Path) -> list[tuple[str, str]]:
    return read(path, lambda data: list(merge_lines(data)))


def names_of(path: Path) -> dict[str, int]:
    return read(path, lambda data: vocabulary_of(parse_json(data)))


def measure_training(fixtures: Path, say: Say) -> list[Measured]:
    text = read(fixtures / "corpus.en", bytes.decode)
    learnt = train_merges(count_chunks([text], "gpt2", [SPECIAL]), VOCABULARY - 1, ties="greatest")
    ours = [tuple(learnt.token_bytes(token) for token in merge.pair) for merge in learnt.merges]
    theirs = [tuple(map(bytes_named, pair)) for pair in merges_of(fixtures / "train-bpe-reference-merges.txt")]
    same = sum(one == other for one, other in zip(ours, theirs, strict=False))
    names = names_of(fixtures / "train-bpe-reference-vocab.json")
    tokens = {SPECIAL.encode(), *(learnt.token_bytes(token) for token in range(learnt.vocabulary))}
    return [Measured(same if len(ours) == len(theirs) else 0), Measured(len(tokens & set(map(bytes_named, names))))]


def measure_encoding(fixtures: Path, say: Say) -> list[Measured]:
    import tiktoken

    vocab = names_of(fixtures / "gpt2_vocab.json")
    if SPECIAL not in vocab:
        raise LabError(f"{fixtures / 'gpt2_vocab.json'} has no {SPECIAL}")
    special = {SPECIAL: vocab[SPECIAL]}
    ours = tokenizer_of_names(vocab, merges_of(fixtures / "gpt2_merges.txt"), special, "gpt2")
    ranks = {data: token for name, token in vocab.items() if name != SPECIAL and (data := bytes_named(name))}
    theirs = tiktoken.Encoding("gpt2", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens=special)
    same = back = 0
    for name in TEXTS:
        text = read(fixtures / name, bytes.decode)
        ids = [token for _, tokens in ours.stretches(text) for token in tokens]  # our own merges, not the fast path
        same += ids == theirs.encode(text, disallowed_special=())
        back += ours.decode(ids) == text
    return [Measured(same), Measured(back)]
