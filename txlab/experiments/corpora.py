"""Training texts: those that come with every Python, a file, or a folder (DESIGN, the embedded defaults).

A corpus is a list of documents, so that validation can consist of whole documents that training never saw. It is held
in memory, so its size is limited and checked before memory is allocated. `python-docs` keeps only one copy of a
paragraph that several topics repeat: a fifth of it is such repetition, which would end up in both training and
validation.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from txlab.errors import LabError, nearest
from txlab.files import open_regular, read_regular

BETWEEN = "\n\n"  # between two documents
# Bytes. A language model trained on a text of 64 MiB took 4 (byte pairs) to 25 (characters) bytes of memory per byte of
# text, so the largest text needs 2 to 13 GB.
LARGEST_TEXT = 512 << 20
TOO_LARGE = f"is larger than {LARGEST_TEXT >> 20} MiB, the most that is held in memory; give a part of it"
HEAD = 1 << 16  # bytes that are enough to recognise an image or an archive


@dataclass(frozen=True)
class Split:
    """Training text and validation text; `boundary` is the place of the cut: "document", "line" or "character"."""

    train: str
    validation: str
    boundary: str


@dataclass(frozen=True)
class Corpus:
    """`names` and `documents` in the same order; `left_out` counts the files of the folder that are not UTF-8 text."""

    name: str
    names: Sequence[str]
    documents: Sequence[str]
    left_out: int = 0

    @cached_property
    def text(self) -> str:
        return BETWEEN.join(self.documents)

    @cached_property
    def size(self) -> int:
        """Bytes."""
        return len(self.text.encode())

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the UTF-8 bytes of the joined documents."""
        return sha256(self.text.encode()).hexdigest()

    def split(self, share: float) -> Split:
        """Split off the last `share` of the characters for validation.

        The cut lies between documents where that gives validation between half and twice its share; otherwise (one long
        document) after the nearest line end, or anywhere in a text without lines.
        """
        wanted = len(self.text) * (1 - share)
        ends = []
        end = -len(BETWEEN)
        for document in self.documents[:-1]:
            end += len(BETWEEN) + len(document)
            ends.append(end)
        best = min(ends, key=lambda e: abs(e - wanted), default=0)
        if best and 0.5 * share <= 1 - best / len(self.text) <= 2 * share:
            return Split(self.text[:best], self.text[best + len(BETWEEN) :], "document")
        at = round(wanted)
        line = self.text.rfind("\n", 0, at + 1) + 1
        if line and at - line <= 0.5 * share * len(self.text):
            return Split(self.text[:line], self.text[line:], "line")
        return Split(self.text[:at], self.text[at:], "character")


def load_corpus(text: str, where: str = "data.text =") -> Corpus:
    """Return `python-docs`, `python-source`, a UTF-8 file or a folder of such files as a corpus.

    Raises LabError if it is missing, empty, not UTF-8, larger than LARGEST_TEXT, or a folder without text. The message
    names the path after `where`, which tells where the path was given.
    """
    if text in EMBEDDED:
        return EMBEDDED[text]()
    if text == "-":
        raise LabError("data.text = '-' is standard input, which only `txlab run` can read; give a file here")
    try:
        path = Path(text).expanduser()
        corpus = read_folder(path, where) if path.is_dir() else read_file(path, where)
    except (FileNotFoundError, ValueError, RuntimeError):  # a path with a NUL in it; ~ with an unknown user
        raise LabError(
            f"{where} {text!r} is not there{nearest(text, EMBEDDED)}; "
            f"allowed: {', '.join(EMBEDDED)}, a UTF-8 file, a folder, or -"
        ) from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise LabError(f"{where} {text!r} {TOO_LARGE}") from None
        instead = "; use - for standard input" if error.errno == errno.EINVAL else ""
        raise LabError(f"{where} {text!r} cannot be read: {error.strerror or error}{instead}") from None
    if not any(document.strip() for document in corpus.documents):
        raise LabError(f"{where} {text!r} is empty; a text of some thousand characters is needed")
    return corpus


def refuse_too_much(corpora: Sequence[Corpus], where: str) -> None:
    """Raise LabError, naming the last text, if the texts together are larger than a single one may be."""
    if sum(len(document) for corpus in corpora for document in corpus.documents) > LARGEST_TEXT:
        raise LabError(f"{where} {corpora[-1].name!r} with those before it {TOO_LARGE}")


def read_file(path: Path, where: str) -> Corpus:
    data = read_regular(path, LARGEST_TEXT)
    try:
        return Corpus(str(path), [path.name], [data.decode()])
    except UnicodeDecodeError as error:
        raise LabError(
            f"{where} {str(path)!r} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}; "
            "save it as UTF-8 (iconv -t utf-8)"
        ) from None


def read_folder(folder: Path, where: str) -> Corpus:
    """Read every text file below the folder, sorted by relative path; skips hidden files and links to folders."""
    names: list[str] = []
    documents: list[str] = []
    left_out = 0
    room = LARGEST_TEXT
    for name in relative_files(folder):
        path = folder / name
        if not path.is_file():
            continue
        document = text_or_none(data := read_regular(path, room)) if begins_as_text(path) else None
        if document is None:
            left_out += 1
        elif document.strip():
            room -= len(data)
            names.append(name)
            documents.append(document)
    if not documents:
        raise LabError(f"{where} {str(folder)!r} is a folder without any UTF-8 text file")
    return Corpus(str(folder), names, documents, left_out)


def begins_as_text(path: Path) -> bool:
    """Whether the first 64 KiB of a regular file are UTF-8 without a NUL, so that a video is not read in full."""
    with os.fdopen(open_regular(path), "rb", buffering=0) as file:
        head = file.read(HEAD) or b""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def relative_files(folder: Path, skipped: frozenset[str] = frozenset()) -> list[str]:
    """Relative paths of the files below a folder, with /, sorted by parts; skips hidden names and `skipped` folders."""
    paths = []
    for root, folders, files in os.walk(folder, onerror=raise_error):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in skipped]
        relative = Path(root).relative_to(folder)
        paths += [(relative / name).parts for name in files if not name.startswith(".")]
    return ["/".join(parts) for parts in sorted(paths)]


def raise_error(error: OSError) -> None:
    raise error


def text_or_none(data: bytes) -> str | None:
    """The text of a file, or None if it is not UTF-8 or contains a NUL, as images and archives do."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def python_docs() -> Corpus:
    """The help texts of Python's own documentation, 0.4 MB of English, by topic name."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise LabError(
            "python-docs needs pydoc_data, which this Python lacks; install the full standard library"
        ) from None
    kept = without_repetitions(topics)
    return Corpus("python-docs", list(kept), list(kept.values()))


def without_repetitions(documents: dict[str, str]) -> dict[str, str]:
    """Documents sorted by name; a paragraph that occurs in several stays only in the longest (title lines stay in all).

    Paragraphs are separated by blank lines and compared without regard to white space. A document of which less than a
    tenth is left counts as a repetition and is dropped.
    """
    seen: set[str] = set()
    kept: dict[str, str] = {}
    for name in sorted(documents, key=lambda name: (-len(documents[name]), name)):
        paragraphs = []
        for paragraph in re.split(r"\n[ \t]*\n", documents[name].strip("\n")):
            key = " ".join(paragraph.split())
            if key not in seen or len(key) < 40:
                paragraphs.append(paragraph)
            seen.add(key)
        text = "\n\n".join(paragraphs)
        if 10 * len(text) >= len(documents[name]):
            kept[name] = text
    return dict(sorted(kept.items()))


# Tests repeat the code they test; installed packages are not the standard library; topics.py is python-docs.
NOT_SOURCE = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "idlelib", "pydoc_data", "__pycache__"}
)


def python_source() -> Corpus:
    """The standard library's own modules, more than ten megabytes of code, sorted by relative path."""
    library = Path(sysconfig.get_path("stdlib"))
    names: list[str] = []
    documents: list[str] = []
    for name in relative_files(library, NOT_SOURCE) if library.is_dir() else []:
        if name.endswith(".py") and (document := text_or_none((library / name).read_bytes())):
            names.append(name)
            documents.append(document)
    if not documents:
        raise LabError(f"python-source needs the standard library as .py files, and there are none in {str(library)!r}")
    return Corpus("python-source", names, documents)


EMBEDDED = {"python-docs": python_docs, "python-source": python_source}
