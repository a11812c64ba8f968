"""What a vocabulary of characters or words lacks, spelled out: two hexadecimal digits for each UTF-8 byte (MATH K1).

Notable: sixteen tokens buy that every text, and every byte string, comes back unchanged, where an "unknown" token
would lose it and 256 bytes would often outnumber the alphabet itself.
"""

from collections.abc import Callable, Iterable, Iterator

DIGITS = 16


def spelled(data: bytes, first: int = 0) -> list[int]:
    """Bytes as digit tokens, of which `first` is the digit 0: b"\\xc3" → [12, 3]."""
    return [first + digit for byte in data for digit in divmod(byte, DIGITS)]


def parts(ids: Iterable[int], token_bytes: Callable[[int], bytes], first: int | None) -> Iterator[bytes]:
    """What each token adds to the bytes. The second digit of a pair carries the byte; the first adds b"".

    A digit without its partner (a model may write one) stands for nothing. `first` None: there are no digits.

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
