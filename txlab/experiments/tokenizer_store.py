"""The tokenizers of scenarios: saved under a name, or learnt from the training text (MATH K1, K2).

A name is the stem of a file in one folder, so files from elsewhere (a `tokenizer.json`, tiktoken's ranks, a folder with
GPT-2's two files) can be put there too. A saved name never hides a kind ("bytes", "bpe", …). A byte pair encoding is
learnt once and cached to save time: the name of the cache file is a digest of the text and of all settings that decide
the merges, and an encoding whose file cannot be read is learnt again.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from platformdirs import user_cache_dir

from txlab.errors import LabError, nearest, prefix_errors

if TYPE_CHECKING:
    from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
    from txlab.engine.tokenizers.files import AnyTokenizer
    from txlab.engine.tokenizers.tokenizer import Tokenizer
    from txlab.engine.tokenizers.training import Ties

# Values of data.tokenizer that need no file: learnt from the text, or with nothing to learn.
KINDS = ("bytes", "characters", "words", "bpe")
KIND_OF_CLASS = {
    "ByteTokenizer": "bytes",
    "CharacterTokenizer": "characters",
    "WordTokenizer": "words",
    "BytePairTokenizer": "bpe",
}
# These need no file either: no merges at all, or merges learnt from Python's documentation (once, then cached).
DEFAULT, DEFAULT_VOCABULARY = "python-docs", 4096
BUILT_IN = ("bytes", DEFAULT)
SUFFIXES = (".json", ".tiktoken")
INSIDE = ("tokenizer.json", "vocab.json")  # files of a folder that is one tokenizer
PATTERN = "gpt4"  # how the text is split before byte pairs are learnt from it
RULES = 2  # incremented when the same text would give other merges
NAME = re.compile(r"[^\W_][\w.+-]{0,63}")


def tokenizers_folder() -> Path:
    """$TXLAB_TOKENIZERS, else ./tokenizers; it may not exist."""
    return Path(os.environ.get("TXLAB_TOKENIZERS") or "tokenizers").expanduser()


def names_of_saved() -> list[str]:
    """The saved names, sorted."""
    return list(files_by_name())


def files_by_name() -> dict[str, Path]:
    """Name → file or folder of each saved tokenizer, sorted; {} if there is no folder. Our format wins a name clash."""
    try:
        paths = [path for path in tokenizers_folder().iterdir() if not path.name.startswith(".")]
    except OSError:
        return {}
    files = {path.name: path for path in paths if holds_tokenizer(path)}
    beside = {path.name + ".json" for path in paths if path.suffix == ".tiktoken"}  # the patterns of our rank files
    for suffix in reversed(SUFFIXES):
        named = [path for path in paths if path.suffix == suffix and path.name not in beside]
        files |= {path.stem: path for path in named if not path.is_dir()}
    return dict(sorted(files.items()))


def holds_tokenizer(folder: Path) -> bool:
    """Whether a folder has the files of a tokenizer; whether they are valid shows when they are read."""
    try:
        return any((folder / name).is_file() for name in INSIDE)
    except OSError:  # a folder without permission
        return False


def find_tokenizer(name_or_path: str | os.PathLike[str]) -> Path:
    """The file of a saved name, else of a path. LabError with the nearest saved name."""
    given = os.fspath(name_or_path)
    saved = files_by_name()
    if given in saved:
        return saved[given]
    try:
        path = Path(given).expanduser()
        if given and path.exists():
            return path
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, a folder without permission, an unknown home
        pass
    names = ", ".join(saved) or f"(none is in {str(tokenizers_folder())!r})"
    raise LabError(
        f"no tokenizer is called {given!r}{nearest(given, [*BUILT_IN, *saved])}; "
        f"allowed: {', '.join(BUILT_IN)}, a file, or a saved one: {names}"
    )


def tokenizer_named(name: str | os.PathLike[str], pattern: str | None = None) -> AnyTokenizer:
    """Load "bytes", "python-docs", a saved name, or a path to a file in any known format. LabError for anything else.

    `pattern`: how text is split, for the files of others that do not say.
    python-docs: byte pairs learnt from Python's documentation, 4096 tokens; nothing is downloaded.
    """
    from txlab.engine.tokenizers.elementary import ByteTokenizer
    from txlab.engine.tokenizers.files import load_tokenizer

    if name == "bytes":
        return ByteTokenizer()
    if name == DEFAULT:
        from txlab.experiments.corpora import python_docs

        return learn_tokenizer(python_docs().text, DEFAULT_VOCABULARY)
    return load_tokenizer(find_tokenizer(name), pattern)


def kind_of(tokenizer: Tokenizer) -> str:
    """ "bytes", "characters", "words", "bpe", or the name in a foreign file, e.g. "WordPiece".

    >>> from txlab.engine.tokenizers.elementary import ByteTokenizer
    >>> kind_of(ByteTokenizer())
    'bytes'
    """
    name = type(tokenizer).__name__
    return KIND_OF_CLASS.get(name) or str(getattr(tokenizer, "kind", name))


def fingerprint(tokenizer: Tokenizer) -> str:
    """A digest of a tokenizer's behaviour: every token, and the rules that turn a text into them.

    It does not depend on the counts stored with the merges, or on the file format.
    """
    digest = sha256(f"{kind_of(tokenizer)}/{type(getattr(tokenizer, 'base', None)).__name__}".encode())
    for token in range(tokenizer.vocabulary):
        data = tokenizer.token_bytes(token)
        digest.update(b"%d:%b" % (len(data), data))
    for rule in ("pattern", "merges", "made", "special_of", "whole"):
        digest.update(repr(getattr(tokenizer, rule, None)).encode())
    if kind_of(tokenizer) == "bpe" and (added := getattr(tokenizer, "added", ())):
        digest.update(repr(added).encode())
    if (of_library := getattr(tokenizer, "inner", None)) is not None:
        digest.update(of_library.to_str().encode())
    return digest.hexdigest()


def place_for(name: str, overwrite: bool = False) -> Path:
    """The file that a tokenizer of this name is saved in. LabError if the name is not plain, or taken."""
    if not NAME.fullmatch(name) or name.endswith(SUFFIXES):
        raise LabError(
            f"{name!r} is not a tokenizer name; allowed: up to 64 letters, digits, _ . + -, the first of them a "
            f"letter or digit, and none of {', '.join(SUFFIXES)} at the end"
        )
    if name in (*KINDS, *BUILT_IN):
        raise LabError(f"{name!r} is always there and cannot be the name of a saved tokenizer; choose another name")
    if name in files_by_name() and not overwrite:
        raise LabError(f"a tokenizer called {name!r} is saved already, in {str(files_by_name()[name])!r}")
    return tokenizers_folder() / f"{name}.json"


def save_named(tokenizer: AnyTokenizer, name: str, overwrite: bool = False) -> Path:
    """Save a tokenizer under a name, atomically; returns the file. `overwrite` replaces an existing one."""
    from txlab.engine.tokenizers.files import save_tokenizer

    path = place_for(name, overwrite)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_tokenizer(tokenizer, path)
    except OSError as error:
        raise LabError(f"the tokenizer cannot be saved as {str(path)!r}: {error.strerror or error}") from None
    return path


# Tokenizers learnt from the text of a scenario


class TokenizerChoice(Protocol):
    """The settings that [data] has in every kind of experiment that reads texts."""

    @property
    def tokenizer(self) -> str: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def ties(self) -> Ties: ...


def tokenizer_for(data: TokenizerChoice, text: str) -> Tokenizer:
    """The tokenizer that a scenario's [data] asks for; `text` is the training share. LabError for a faulty file."""
    from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer, WordTokenizer

    if data.tokenizer == "bytes":
        return ByteTokenizer()
    if data.tokenizer == "characters":
        return CharacterTokenizer.of(text)
    if data.tokenizer == "words":
        with prefix_errors("data.vocabulary"):
            return WordTokenizer.of(text, data.vocabulary)
    if data.tokenizer == "bpe":
        return learn_tokenizer(text, data.vocabulary, data.ties)
    return tokenizer_named(data.tokenizer)


def learn_tokenizer(text: str, vocabulary: int, ties: Ties = "first") -> BytePairTokenizer:
    """The byte pair encoding learnt from this text. LabError for a vocabulary below 257."""
    from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
    from txlab.engine.tokenizers.files import load_tokenizer, save_tokenizer
    from txlab.engine.tokenizers.training import train_tokenizer

    if vocabulary <= 256:
        raise LabError(f"data.vocabulary = {vocabulary} is too small for bpe, which has the 256 bytes; at least 257")
    rules = f"{RULES}/{PATTERN}/{vocabulary}/" + ("" if ties == "first" else f"{ties}/")
    digest = sha256(rules.encode() + text.encode()).hexdigest()
    remembered = Path(user_cache_dir("txlab")) / "tokenizers" / f"{digest[:32]}.json"
    with suppress(LabError):
        tokenizer = load_tokenizer(remembered)
        if isinstance(tokenizer, BytePairTokenizer) and (tokenizer.pattern, tokenizer.special) == (PATTERN, ()):
            return tokenizer
    tokenizer = train_tokenizer([text], vocabulary, PATTERN, ties=ties)
    with suppress(OSError):  # a read-only home: learnt again next time
        remembered.parent.mkdir(parents=True, exist_ok=True)
        save_tokenizer(tokenizer, remembered)
    return tokenizer
