"""Files of word vectors: word2vec's text and binary, and GloVe's text (github.com/tmikolov/word2vec, word2vec.c;
nlp.stanford.edu/projects/glove).

    word2vec         a line "V D", then a line for each word: "word x₁ … x_D"
    word2vec-binary  a line "V D", then for each word: "word ", D float32 in little endian, and in the C program "\\n"
    glove            the lines of word2vec without the first

Notable: the format is recognised by the contents, and no claim of a file is trusted: a header is compared with the size
of the file before memory is allocated, a number must be finite. In a text the numbers are the last D fields of a line,
since some words of GloVe's largest file contain spaces. Published files have words that the C program cut within a
character, and words that occur twice: the bytes are replaced, the first vector counts (as in gensim), and the result
says how many there were.
"""

from __future__ import annotations

import os
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import numpy as np
import orjson

from txlab.engine.embeddings.embedding import Embedding
from txlab.errors import LabError, choices, prefix_errors
from txlab.files import atomic_write, open_regular

Decoding = Literal["replace", "ignore", "strict"]
VectorFormat = Literal["word2vec", "word2vec-binary", "glove"]
FORMATS: tuple[str, ...] = get_args(VectorFormat)

LARGEST = 8 << 30  # bytes of the vectors in memory; GoogleNews' 3 million words take 3.6 GB
SMALL = 1 << 20  # bytes accepted without checking the header: where the file ends, or which line is short, says more
LONGEST_LINE = 1 << 20  # bytes
LONGEST_WORD = 1000  # bytes
PIECE = 1 << 20  # bytes of a binary file per read
LINES = 256  # parsed per call
WHITE_SPACE = re.compile(r"[ \t\n\v\f\r]")  # ends a word
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf(inity)?)", re.IGNORECASE)


@dataclass
class Reading:
    """The words read so far, each once.

    decoding  how bytes that are not UTF-8 are decoded; `broken` words had some
    left_out  words that were duplicates, or empty after cleaning
    """

    decoding: Decoding
    words: dict[str, None] = field(default_factory=dict)
    broken: int = 0
    left_out: int = 0

    def add(self, data: bytes) -> bool:
        """Add a word, and return whether its vector counts. LabError if it is empty, too long, or not UTF-8 where that
        is required."""
        if not data:
            raise LabError("there is no word")
        if len(data) > LONGEST_WORD:
            raise LabError(f"the word that begins with {data[:20]!r} is longer than {LONGEST_WORD:,} bytes")
        try:
            word = data.decode()
        except UnicodeDecodeError as error:
            if self.decoding == "strict":
                raise LabError(f"the word {data!r} is not UTF-8: {error.reason}") from None
            self.broken += 1
            word = data.decode(errors=self.decoding)
        counts = bool(word) and word not in self.words
        if counts:
            self.words[word] = None
        else:
            self.left_out += 1
        return counts


def read_vectors(path: Path, decoding: Decoding = "replace") -> Embedding:
    """Read a file of any of the formats. LabError, one sentence with the line or the word, for anything wrong in it.

    decoding  bytes of a word that are not UTF-8 are replaced by U+FFFD, ignored, or (strict) refused
    """
    reading = Reading(decoding)
    try:
        with os.fdopen(open_regular(path), "rb") as file, prefix_errors(path):
            vectors = read(file, os.fstat(file.fileno()).st_size, reading)
            words = tuple(reading.words)
            require_finite(words, vectors)
    except (OSError, ValueError) as error:  # a NUL in the name
        raise LabError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return Embedding(words, vectors, title=path.name, broken=reading.broken, left_out=reading.left_out)


def read(file: BinaryIO, size: int, reading: Reading) -> np.ndarray:
    """Return the vectors (V, D) of an open file of the given size, and add their words to `reading`."""
    first = file.readline(LONGEST_LINE)
    header = re.fullmatch(rb"([0-9]{1,18}) ([0-9]{1,18})[ \r]*\n?", first)
    if header is None:
        width = len(first.strip().split(b" ")) - 1
        if width < 1 or not NUMBER.fullmatch(first.split()[-1]):
            raise LabError(f"it does not begin as word vectors do; formats that are read: {', '.join(FORMATS)}")
        file.seek(0)
        count = sum(piece.count(b"\n") for piece in iter(lambda: file.read(PIECE), b""))
        file.seek(-1, os.SEEK_END)
        count += file.read(1) != b"\n"
        file.seek(0)
        return read_text(file, empty(count, width, 2, size, f"{count:,} lines"), 1, reading)
    count, width = int(header[1]), int(header[2])
    if not count or not width:
        raise LabError(f"its header says {count} words of {width} numbers")
    claim, rest = f"its header says {count:,} words", size - len(first)
    start = file.read(LONGEST_LINE)
    file.seek(len(first))
    if is_text(start, width):
        return read_text(file, empty(count, width, 2, rest, claim), 2, reading)
    return read_binary(file, empty(count, width, 4, rest, claim), reading)


def empty(count: int, width: int, least: int, size: int, claim: str) -> np.ndarray:
    """Memory for (count, width) vectors, if `size` bytes can hold as many: `least` a number, 2 a word and its end."""
    needed = count * (width * least + 2) - 1  # the last line may be without its end
    if needed > max(size, SMALL):
        raise LabError(f"{claim} of {width:,} numbers, which take {needed:,} bytes at least, and it has {size:,}")
    if count * width * 4 > LARGEST:
        raise LabError(f"{claim} of {width:,} numbers; at most {LARGEST >> 30} GiB of vectors are read")
    return np.empty((count, width), dtype=np.float32)


def is_text(start: bytes, width: int) -> bool:
    """Whether lines follow a header: the first is one, or at least nothing is binary, so that the error names the
    faulty line."""
    try:
        numbers = split_line(start.partition(b"\n")[0], width)[1]
    except LabError:
        numbers = b""
    if all(map(NUMBER.fullmatch, numbers.split(b" "))):
        return True
    try:
        getincrementaldecoder("utf-8")().decode(start[:1000])  # a character that is cut at the end is none
    except UnicodeDecodeError:
        return False
    return re.search(rb"[\x00-\x08\x0e-\x1f\x7f]", start[:1000]) is None


def read_text(file: BinaryIO, vectors: np.ndarray, line: int, reading: Reading) -> np.ndarray:
    """Fill `vectors` (V, D) from the lines of a text, the first of which is number `line` of the file; return those
    that count."""
    count, width = vectors.shape
    lines = iter(lambda: file.readline(LONGEST_LINE), b"")
    filled = 0
    for row in range(0, count, LINES):
        numbers, counts = [], []
        for place, each in enumerate(islice(lines, min(LINES, count - row)), line + row):
            with prefix_errors(f"line {place}"):
                word, fields = split_line(each, width)
                counts.append(reading.add(word))
                numbers.append(fields)
        if len(numbers) < min(LINES, count - row):
            raise LabError(f"it ends after {row + len(numbers):,} of {count:,} words")
        parsed_rows = parse_rows(numbers, width)
        if parsed_rows is None:
            parsed_rows = np.stack([one_by_one(each, place) for place, each in enumerate(numbers, line + row)])
        parsed_rows = parsed_rows[counts]
        vectors[filled : filled + len(parsed_rows)] = parsed_rows
        filled += len(parsed_rows)
    if rest := file.read(1000).strip():
        raise LabError(f"it continues after the {count:,} words of its header, with {rest[:20]!r}")
    return vectors[:filled]


def split_line(line: bytes, width: int) -> tuple[bytes, bytes]:
    """A line's word and its `width` numbers, with one space between them."""
    if len(line) == LONGEST_LINE:
        raise LabError(f"it is longer than {LONGEST_LINE:,} bytes")
    line = line.rstrip(b" \r\n")
    word, _, numbers = line.partition(b" ")
    count = numbers.count(b" ") + 1
    if count > width:
        # A surplus of fields is a word with spaces in it, unless they are numbers.
        word, *rest = line.rsplit(b" ", width)
        numbers = b" ".join(rest)
        if NUMBER.fullmatch(word.rpartition(b" ")[2]):
            raise LabError(f"it has {count:,} numbers, and the vectors have {width:,}")
    elif count < width or not numbers:
        raise LabError(f"it has {count if numbers else 0:,} numbers, and the vectors have {width:,}")
    return word, numbers


def parse_rows(rows: list[bytes], width: int) -> np.ndarray | None:
    """The numbers of the rows (n, width), or None if they are not all written as in JSON, the fast way to read them."""
    text = b" ".join(rows)
    if text.translate(None, b"0123456789+-.eE ") or b"-0 " in text + b" ":  # an integer, of which there is no −0
        return None
    try:
        numbers = orjson.loads(b"[" + text.replace(b" ", b",") + b"]")
    except ValueError:
        return None
    with np.errstate(over="ignore"):  # infinite, which is refused
        return np.array(numbers, dtype=np.float32).reshape(len(rows), width)


def one_by_one(numbers: bytes, line: int) -> np.ndarray:
    for each in numbers.split(b" "):
        if not NUMBER.fullmatch(each):
            raise LabError(f"line {line}: {each[:40].decode(errors='replace')!r} is not a number")
    with np.errstate(over="ignore"):
        return np.array([float(each) for each in numbers.split(b" ")]).astype(np.float32)


def read_binary(file: BinaryIO, vectors: np.ndarray, reading: Reading) -> np.ndarray:
    """Fill `vectors` (V, D) from the part after the header of a binary file; return those that count."""
    count, width = vectors.shape
    held, at, filled = b"", 0, 0
    for row in range(count):
        while (space := held.find(b" ", at, at + LONGEST_WORD + 2)) < 0 or len(held) <= space + 4 * width:
            more = file.read(max(PIECE, 4 * width)) if space >= 0 or len(held) - at <= LONGEST_WORD else b""
            if not more:
                where = f"it ends after {row:,} of {count:,} words" if space >= 0 or len(held) == at else ""
                raise LabError(where or f"word {row + 1} has no end within {min(len(held) - at, LONGEST_WORD):,} bytes")
            held, at = held[at:] + more, 0
        with prefix_errors(f"word {row + 1}"):
            counts = reading.add(held[at:space].lstrip(b"\n"))
        vectors[filled] = np.frombuffer(held, "<f4", width, space + 1)
        filled += counts
        at = space + 1 + 4 * width
    if rest := (held[at:] + file.read(20)).removeprefix(b"\n"):
        raise LabError(f"it continues after the {count:,} words of its header, with {rest[:20]!r}")
    return vectors[:filled]


def require_finite(words: Sequence[str], vectors: np.ndarray) -> None:
    finite = np.isfinite(vectors).all(1)
    if not finite.all():
        raise LabError(f"the vector of {words[finite.argmin()]!r} has a number that is not finite")


def write_vectors(embedding: Embedding, path: Path, form: str) -> None:
    """Write words and vectors; the file is complete or absent. Texts have the 9 digits that determine a float32.

    LabError for an unknown format, a number that is not finite, or a word with white space, which would end it.
    """
    if form not in FORMATS:
        raise LabError(f"{form!r} is not a format of word vectors{choices(form, FORMATS)}")
    for word in embedding.words:
        if not word or WHITE_SPACE.search(word):
            raise LabError(f"the word {word!r} cannot be written: in these formats white space ends a word")
        if len(word.encode(errors="surrogatepass")) > LONGEST_WORD:
            raise LabError(f"the word {word[:20]!r}… is longer than {LONGEST_WORD:,} bytes")
    require_finite(embedding.words, embedding.vectors)
    try:
        atomic_write(path, pieces(embedding, form))
    except UnicodeEncodeError as error:
        raise LabError(f"the word {error.object!r} cannot be written: it has half a character") from None
    except (OSError, ValueError) as error:
        raise LabError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None


def pieces(embedding: Embedding, form: str) -> Iterator[bytes]:
    count, width = embedding.vectors.shape
    if form != "glove":
        yield f"{count} {width}\n".encode()
    line = "%s" + " %.9g" * width + "\n"
    for start in range(0, count, LINES):
        rows = zip(embedding.words[start : start + LINES], embedding.vectors[start : start + LINES], strict=True)
        if form == "word2vec-binary":
            yield b"".join(word.encode() + b" " + vector.astype("<f4").tobytes() for word, vector in rows)
        else:
            yield "".join(line % (word, *vector.tolist()) for word, vector in rows).encode()
