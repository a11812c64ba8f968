"""What every tokenizer promises: text → UTF-8 bytes → tokens → the same bytes (MATH K1), and a token as a vector (K3).

The round trip holds for byte strings as well as text, so a token may be half of a character: `decode` of such a token
alone gives U+FFFD, while `decode_bytes` loses nothing. Text that is missing from a vocabulary of characters or words is
spelt as two hexadecimal digits per UTF-8 byte: with these sixteen tokens every text and every byte string comes back
unchanged, where an "unknown" token would lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from txlab.errors import LabError

if TYPE_CHECKING:
    from torch import Tensor

Ids = NDArray[np.uint32]


class Tokenizer(Protocol):
    """decode_bytes(encode_bytes(b)) == b for every b, and encode(s) == encode_bytes(utf8(s)) for every text s."""

    @property
    def vocabulary(self) -> int:
        """V: the ids are 0 … V−1."""

    def encode(self, text: str) -> list[int]: ...

    def encode_bytes(self, data: bytes) -> list[int]: ...

    def encode_long(self, text: str) -> Ids:
        """The ids of `encode` as an array, computed fast; for corpora."""
        return np.array(self.encode(text), dtype=np.uint32)

    def token_bytes(self, token: int) -> bytes:
        """The bytes that this token stands for; raises LabError for an id outside 0 … V−1."""

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return b"".join(parts(ids, self.token_bytes, first_digit(self)))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the tokens; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode(errors="replace")

    def label(self, token: int) -> str:
        """One token as text to display; bytes that are not UTF-8 on their own are written as \\xe2."""
        return legible(self.token_bytes(token))


# What a tokenizer has besides, if it has such tokens.


@runtime_checkable
class HasDigits(Protocol):
    @property
    def digits(self) -> int | None:
        """The token of the first of the sixteen digits that spell bytes."""


@runtime_checkable
class HasSpecial(Protocol):
    @property
    def special_of(self) -> Mapping[str, int]:
        """The special tokens by their text."""


@runtime_checkable
class HasNames(Protocol):
    @property
    def names(self) -> Mapping[int, str]:
        """How the file of the vocabulary writes the tokens."""


def first_digit(tokenizer: object) -> int | None:
    return tokenizer.digits if isinstance(tokenizer, HasDigits) else None


def specials_of(tokenizer: object) -> Mapping[str, int]:
    """The special tokens by their text; none if the tokenizer has none."""
    return tokenizer.special_of if isinstance(tokenizer, HasSpecial) else {}


def names_of(tokenizer: object) -> Mapping[int, str]:
    """How the file of the vocabulary writes the tokens; nothing if it does not matter."""
    return tokenizer.names if isinstance(tokenizer, HasNames) else {}


class TextOnly(Protocol):
    """The methods shared by tokenizers that read text only, not arbitrary bytes."""

    called: str = "this tokenizer"  # in messages

    def encode(self, text: str) -> list[int]: ...

    def token_bytes(self, token: int) -> bytes: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def encode_bytes(self, data: bytes) -> list[int]:
        """The tokens of UTF-8 bytes; raises LabError for any others."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise LabError(f"byte {error.start} is not UTF-8, and {self.called} reads text only") from None
        return self.encode(text)

    def encode_long(self, text: str) -> Ids:
        return np.array(self.encode(text), dtype=np.uint32)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return self.decode(ids).encode()

    def label(self, token: int) -> str:
        return legible(self.token_bytes(token))


class Piece(NamedTuple):
    """A token in a text: the start and end of its characters, and its own bytes, of the text as it is normalised.

    Several tokens may be parts of one character; they then have the same place, and their bytes joined are its.
    """

    token: int
    start: int
    stop: int
    data: bytes


def clusters(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """The stretches pieces[begin:end] of tokens that share characters; most have one token."""
    begin = reach = 0
    for i, piece in enumerate(pieces):
        if i > begin and piece.start >= reach:
            yield begin, i
            begin = i
        reach = piece.stop if i == begin else max(reach, piece.stop)
    if pieces:
        yield begin, len(pieces)


def ids_of_bytes(tokenizer: Tokenizer, data: bytes) -> Ids:
    """The tokens of any bytes, computed the fast way if they are text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return np.array(tokenizer.encode_bytes(data), dtype=np.uint32)
    return tokenizer.encode_long(text)


def utf8(text: str) -> bytes:
    """The UTF-8 bytes of a text; raises LabError for a lone surrogate, which UTF-8 cannot encode.

    >>> utf8("é")
    b'\\xc3\\xa9'
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LabError(
            f"the text has a lone surrogate U+{ord(text[error.start]):04X} at character {error.start}, "
            "which is half of a character and has no UTF-8 form"
        ) from None


def legible(data: bytes) -> str:
    """Bytes as text to display: valid UTF-8 as it is, other bytes as \\xe2. Not reversible.

    >>> legible(b"a\\xe2")
    'a\\\\xe2'
    """
    return data.decode(errors="backslashreplace")


def unknown_token(token: int, vocabulary: int) -> LabError:
    return LabError(f"token {token} is not in the vocabulary; allowed: 0 … {vocabulary - 1}")


DIGITS = 16


def spell_bytes(data: bytes, first: int = 0) -> list[int]:
    """Bytes as digit tokens, where `first` is the token of the digit 0: b"\\xc3" → [12, 3]."""
    return [first + digit for byte in data for digit in divmod(byte, DIGITS)]


def parts(ids: Iterable[int], token_bytes: Callable[[int], bytes], first: int | None) -> Iterator[bytes]:
    """The bytes that each token adds. The second digit of a pair adds the byte; the first adds b"".

    A digit without its partner (a model may generate one) adds nothing. `first` is None if there are no digits.

    >>> list(parts([6, 1, 16], lambda token: b"z", 0))
    [b'', b'a', b'z']
    """
    high: int | None = None
    for token in ids:
        if first is None or not first <= token < first + DIGITS:
            high = None
            yield token_bytes(token)
        elif high is None:
            high = token - first
            yield b""
        else:
            yield bytes([DIGITS * high + token - first])
            high = None


Matrix = TypeVar("Matrix", NDArray[Any], "Tensor")


def one_hot(ids: Sequence[int], vocabulary: int) -> NDArray[np.float64]:
    """t (T, V): row i is the basis vector of token ids[i], so t tᵀ is 1 where two tokens are equal and 0 elsewhere.

    >>> one_hot([2, 0], 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    for token in ids:
        if not 0 <= token < vocabulary:
            raise unknown_token(token, vocabulary)
    t = np.zeros((len(ids), vocabulary))
    t[np.arange(len(ids)), np.asarray(ids, dtype=np.int64)] = 1.0
    return t


def embedding_product(t: Matrix, w_e: Matrix) -> Matrix:
    """x = t W_Eᵀ: (T, V) and W_E (D, V) → (T, D), one row of the table per token. MATH K3.

    W_E maps the V basis vectors to D features, so its columns are the tokens' vectors; a table of shape (V, D), as in
    torch.nn.Embedding, is W_Eᵀ. Accepts NumPy arrays or tensors.
    """
    x: Matrix = t @ w_e.T
    return x


def unembedding(x: NDArray[Any], w_u: NDArray[Any]) -> NDArray[Any]:
    """Logits x W_Uᵀ: (T, D) and W_U (V, D) → (T, V). Tied, W_U = W_Eᵀ: a logit is x · (that token's own vector)."""
    logits: NDArray[Any] = x @ w_u.T
    return logits
