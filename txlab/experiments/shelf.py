"""The tokenizers that were saved under a name, for scenarios, commands and screens alike (MATH K2).

Notable: a name is the stem of a file in one folder, so what others wrote (a `tokenizer.json`, tiktoken's ranks, a
folder of GPT-2's two files) can be put there too; and a name of one's own never hides a kind ("bytes", "bpe", …).
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.tokenizers.files import AnyTokenizer
    from txlab.engine.tokenizers.tokenizer import Tokenizer

# What data.tokenizer may say without a file: learnt from the text, or nothing to learn.
KINDS = ("bytes", "characters", "words", "bpe")
KIND_OF_CLASS = {
    "ByteTokenizer": "bytes",
    "CharacterTokenizer": "characters",
    "WordTokenizer": "words",
    "BytePairTokenizer": "bpe",
}
SUFFIXES = (".json", ".tiktoken")
INSIDE = ("tokenizer.json", "vocab.json")  # of a folder that is one tokenizer
NAME = re.compile(r"[^\W_][\w.+-]{0,63}")


def tokenizers_folder() -> Path:
    """$TXLAB_TOKENIZERS, else ./tokenizers; it need not be there."""
    return Path(os.environ.get("TXLAB_TOKENIZERS") or "tokenizers").expanduser()


def saved_tokenizers() -> list[str]:
    """The saved names, sorted."""
    return sorted(files_by_name())


def files_by_name() -> dict[str, Path]:
    """Name → file or folder of each saved tokenizer; {} where there is no folder."""
    try:
        found = sorted(tokenizers_folder().iterdir(), reverse=True)  # of two of one name .json wins
    except OSError:
        return {}
    return {
        path.stem if path.suffix in SUFFIXES else path.name: path
        for path in found
        if not path.name.startswith(".") and is_tokenizer(path)
    }


def is_tokenizer(path: Path) -> bool:
    """Whether it looks like one by its name; reading it says whether it is."""
    if path.suffix in SUFFIXES:
        return path.is_file()
    return any((path / name).is_file() for name in INSIDE)


def find_tokenizer(name_or_path: str | os.PathLike[str]) -> Path:
    """The file that is meant: a saved name, else a path. LabError with the nearest saved name."""
    given = os.fspath(name_or_path)
    saved = files_by_name()
    if given in saved:
        return saved[given]
    path = Path(given).expanduser() if given and "\0" not in given else None
    try:
        if path is not None and path.exists():
            return path
    except OSError:  # a name that is too long, a folder that may not be entered
        pass
    names = ", ".join(saved) or f"none is saved in {str(tokenizers_folder())!r}"
    raise LabError(
        f"no tokenizer is called {given!r}{nearest(given, ['bytes', *saved])}; allowed: bytes, a file, {names}"
    )


def tokenizer_named(name: str | os.PathLike[str]) -> AnyTokenizer:
    """ "bytes", a saved name, or a path to a file of ours or of others. LabError for anything else."""
    from txlab.engine.tokenizers.byte_level import ByteTokenizer
    from txlab.engine.tokenizers.files import load_tokenizer

    return ByteTokenizer() if name == "bytes" else load_tokenizer(find_tokenizer(name))


def kind_of(tokenizer: Tokenizer) -> str:
    """ "bytes", "characters", "bpe", …: what its own file calls it, or the name of its class.

    >>> from txlab.engine.tokenizers.byte_level import ByteTokenizer
    >>> kind_of(ByteTokenizer())
    'bytes'
    """
    name = type(tokenizer).__name__
    return KIND_OF_CLASS.get(name, name)


def fingerprint(tokenizer: Tokenizer) -> str:
    """Names what a tokenizer does: every token, and the rules by which a text becomes them.

    The same for all files of one tokenizer, of whatever form; counts that a file keeps beside its merges do not enter.
    """
    digest = sha256(kind_of(tokenizer).encode())
    for token in range(tokenizer.vocabulary):
        try:
            data = tokenizer.token_bytes(token)
        except LabError:  # an id that nobody uses
            digest.update(b"-")
        else:
            digest.update(b"%d:" % len(data) + data)
    for rule in ("pattern", "special", "merges"):
        digest.update(repr(getattr(tokenizer, rule, None)).encode())
    return digest.hexdigest()


def place_for(name: str, overwrite: bool = False) -> Path:
    """The file that a tokenizer of this name is saved in. LabError for no plain name, or one that is taken."""
    if not NAME.fullmatch(name) or name.endswith(SUFFIXES):
        raise LabError(
            f"{name!r} is no name for a tokenizer; allowed: up to 64 letters, digits, _ . + -, the first of them a "
            f"letter or digit, and none of {', '.join(SUFFIXES)} at the end"
        )
    if name in KINDS:
        raise LabError(f"{name!r} is a kind of tokenizer and cannot be the name of a saved one; choose another name")
    if name in files_by_name() and not overwrite:
        raise LabError(f"a tokenizer called {name!r} is saved already, in {str(files_by_name()[name])!r}")
    return tokenizers_folder() / f"{name}.json"


def save_named(tokenizer: AnyTokenizer, name: str, overwrite: bool = False) -> Path:
    """Save it on the shelf, complete or not at all; returns the file. `overwrite`: the one of that name goes."""
    from txlab.engine.tokenizers.files import save_tokenizer

    path = place_for(name, overwrite)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_tokenizer(tokenizer, path)
    except OSError as error:
        raise LabError(f"the tokenizer cannot be saved as {str(path)!r}: {error.strerror or error}") from None
    return path
