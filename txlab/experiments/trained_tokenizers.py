"""The tokenizer of a scenario: learnt from its training text, or one that was saved before (MATH K1, K2).

Notable: a byte pair encoding is learnt once and remembered. What is remembered is only a saving of time: the name of
the file is a digest of the text and of all that decides the merges, and a file that does not read as such an encoding
is learnt again.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from platformdirs import user_cache_dir

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer, WordTokenizer
from txlab.engine.tokenizers.files import load_tokenizer, save_tokenizer
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.errors import LabError
from txlab.experiments.tokenizer_store import tokenizer_named

if TYPE_CHECKING:
    from txlab.engine.tokenizers.tokenizer import Tokenizer
    from txlab.engine.tokenizers.training import Ties

PATTERN = "gpt4"
RULES = 2  # goes up when the same text would give other merges


class Asked(Protocol):
    """What [data] says, in every kind of experiment that reads texts."""

    @property
    def tokenizer(self) -> str: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def ties(self) -> Ties: ...


def tokenizer_for(data: Asked, text: str) -> Tokenizer:
    """What [data] of a scenario asks for; `text` is the training share. LabError names what is wrong with a file."""
    if data.tokenizer == "bytes":
        return ByteTokenizer()
    if data.tokenizer == "characters":
        return CharacterTokenizer.of(text)
    if data.tokenizer == "words":
        try:
            return WordTokenizer.of(text, data.vocabulary)
        except LabError as error:
            raise LabError(f"data.vocabulary: {error}") from None
    if data.tokenizer == "bpe":
        return trained_tokenizer(text, data.vocabulary, data.ties)
    return tokenizer_named(data.tokenizer)


def trained_tokenizer(text: str, vocabulary: int, ties: Ties = "first") -> BytePairTokenizer:
    """The encoding learnt from this text; raises LabError for a vocabulary below 257."""
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
