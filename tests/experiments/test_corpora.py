"""The texts to learn from: what every Python brings, files, folders, and how they are split."""

from __future__ import annotations

import os
import re
import sysconfig
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.errors import LabError
from txlab.experiments.corpora import BETWEEN, Corpus, load_corpus, refuse_too_much, without_repetitions


def test_python_docs_is_english_and_the_same_each_time() -> None:
    corpus = load_corpus("python-docs")
    assert corpus.size > 300_000
    assert list(corpus.names) == sorted(corpus.names)
    assert "The if statement is used for conditional execution" in corpus.text.replace('"', "").replace("\n", " ")
    assert corpus.fingerprint == sha256(corpus.text.encode()).hexdigest() == load_corpus("python-docs").fingerprint


def test_no_paragraph_of_validation_was_in_training() -> None:
    split = load_corpus("python-docs").split(0.1)

    def paragraphs(text: str) -> set[str]:
        return {key for p in re.split(r"\n\s*\n", text) if len(key := " ".join(p.split())) >= 40}

    assert split.boundary == "document"
    assert len(paragraphs(split.validation)) > 100
    assert not paragraphs(split.train) & paragraphs(split.validation)


def test_a_paragraph_of_several_documents_stays_in_the_longest() -> None:
    shared = "a paragraph of more than forty characters, shared"
    long = f"Title\n\n{shared}\n\nown words, {'x' * 50}"
    assert without_repetitions({"b": long, "a": f"Title\n\nOwn\n  \n{shared} \n", "c": shared}) == {
        "a": "Title\n\nOwn",
        "b": long,
    }


def test_python_source_is_ten_megabytes_of_code_without_its_tests() -> None:
    corpus = load_corpus("python-source")
    assert corpus.size > 9_000_000  # 10.6 MB in 3.11; later versions have dropped modules
    assert not [name for name in corpus.names if {"test", "tests", "site-packages"} & set(name.split("/"))]
    assert [name.split("/") for name in corpus.names] == sorted(name.split("/") for name in corpus.names)
    by_hand = (Path(sysconfig.get_path("stdlib")) / "json" / "decoder.py").read_text()
    assert corpus.documents[list(corpus.names).index("json/decoder.py")] == by_hand


def test_a_file_is_taken_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "crlf.txt"
    path.write_bytes("\ufeffeins\r\nzwei é\x00\x1b".encode())
    corpus = load_corpus(str(path))
    assert corpus.text.encode() == path.read_bytes()
    assert corpus.fingerprint == sha256(path.read_bytes()).hexdigest()


def test_a_folder_gives_its_text_files_in_order_and_says_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    for name, data in {
        "b/1.txt": b"one",
        "a.txt": b"two",
        "b.md": b"three",
        "picture.png": b"\x89PNG\r\n\0",
        "latin.txt": b"\xe9",
        "empty.txt": b"",
        ".git/config": b"hidden",
        ".hidden": b"hidden",
    }.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "b" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.txt")
    corpus = load_corpus(str(tmp_path))
    assert list(zip(corpus.names, corpus.documents, strict=True)) == [
        ("a.txt", "two"),
        ("b/1.txt", "one"),
        ("b.md", "three"),
    ]
    assert corpus.left_out == 2
    assert corpus.text == BETWEEN.join(["two", "one", "three"])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: p / "none.txt", "is not there; allowed: python-docs, python-source, a UTF-8 file, a folder, or -"),
        (lambda p: p, "is a folder without any UTF-8 text file"),
        (lambda p: written(p / "x", b""), "is empty"),
        (lambda p: written(p / "x", b" \n\t"), "is empty"),
        (lambda p: written(p / "x", b"caf\xe9 noir"), "is not UTF-8: byte 3 is 0xe9"),
        (lambda p: written(p / "x", b"\xed\xa0\x80"), "is not UTF-8"),  # a surrogate, written as if UTF-8 had it
        (lambda p: Path("/dev/zero"), "cannot be read: it is a device; use - for standard input"),
        (lambda p: fifo(p / "x"), "cannot be read: it is a FIFO; use - for standard input"),
        (lambda p: sparse(p / "x", 10 << 30), "is larger than 512 MiB, the most that is held in memory"),
        (lambda p: written(p / "x", b"x") / "below", "cannot be read: Not a directory"),
        (lambda p: "-", "is standard input"),
        (lambda p: "\0", "cannot be read|is not there"),
        (lambda p: p / ("x" * 300), "cannot be read: File name too long"),
    ],
)
def test_a_mistake_in_a_text_is_a_readable_error(make, said: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LabError, match=said) as error:
        load_corpus(str(make(tmp_path)))
    assert str(error.value).startswith("data.text = ")
    assert "\n" not in str(error.value)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_files_of_a_folder_are_bounded_together_and_non_text_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparse(tmp_path / "film", 10 << 30)
    for name in "abc":
        (tmp_path / name).write_text(name * 400)
    (tmp_path / "device").symlink_to("/dev/zero")
    corpus = load_corpus(str(tmp_path))
    assert (list(corpus.names), corpus.left_out) == (["a", "b", "c"], 1)
    monkeypatch.setattr("txlab.experiments.corpora.LARGEST_TEXT", 1000)
    with pytest.raises(LabError, match="is larger than"):
        load_corpus(str(tmp_path))
    (tmp_path / "c").unlink()
    assert list(load_corpus(str(tmp_path)).names) == ["a", "b"]


def test_texts_of_a_mixture_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpora = [load_corpus(str(written(tmp_path / name, b"x" * 400))) for name in "abc"]
    monkeypatch.setattr("txlab.experiments.corpora.LARGEST_TEXT", 1000)
    refuse_too_much(corpora[:2], "SOURCE")
    with pytest.raises(LabError, match=r"SOURCE '.*c' with those before it is larger than"):
        refuse_too_much(corpora, "SOURCE")


@given(st.lists(st.text("ab\né", min_size=1, max_size=80), min_size=1, max_size=20), st.floats(0.05, 0.5))
def test_a_split_loses_nothing_but_the_separator_and_cuts_where_it_says(documents: list[str], share: float) -> None:
    corpus = Corpus("x", [str(i) for i in range(len(documents))], documents)
    split = corpus.split(share)
    if split.boundary == "document":
        assert split.train + BETWEEN + split.validation == corpus.text
        ends = [BETWEEN.join(documents[: i + 1]) for i in range(len(documents) - 1)]
        assert split.train in ends
        assert 0.5 * share <= 1 - len(split.train) / len(corpus.text) <= 2 * share
    else:
        assert split.train + split.validation == corpus.text
    if split.boundary == "line":
        assert split.train.endswith("\n")


def test_one_long_document_is_cut_after_a_line_and_a_text_without_lines_anywhere() -> None:
    lines = Corpus("x", ["x"], ["".join(f"line {i}\n" for i in range(1000))]).split(0.2)
    assert lines.boundary == "line"
    assert lines.validation.startswith("line 8")
    block = Corpus("x", ["x"], ["é" * 1000]).split(0.2)
    assert (block.boundary, len(block.train), len(block.validation)) == ("character", 800, 200)
    # A last document of nine tenths of the text cannot be validation as a whole.
    assert Corpus("x", ["a", "b"], ["a\n" * 50, "b\n" * 450]).split(0.1).boundary == "line"
