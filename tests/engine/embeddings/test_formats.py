"""Files of word vectors: what others write is read to the bit, what we write is theirs byte for byte, and a file that
contradicts itself is refused in one sentence before memory is taken."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.formats import FORMATS, read_vectors, write_vectors
from txlab.errors import LabError

WORDS = ("the", "naïve", "a.b")
VECTORS = np.array([[0.1, -2.5, 3e-8], [1e20, 0.0, -0.0], [1 / 3, 7.0, -1.1754944e-38]], dtype=np.float32)
FLOATS = [struct.pack("<fff", *row) for row in VECTORS.tolist()]
NAMES = [word.encode() + b" " for word in WORDS]
# As gensim 4.4's save_word2vec_format writes them, and the C program of 2013 with a line end after each vector.
GENSIM_BINARY = b"3 3\n" + b"".join(name + row for name, row in zip(NAMES, FLOATS, strict=True))
C_BINARY = b"3 3\n" + b"".join(name + row + b"\n" for name, row in zip(NAMES, FLOATS, strict=True))
LINES = b"the 0.1 -2.5 3e-08\nna\xc3\xafve 1e+20 0.0 -0.0\na.b 0.33333334 7.0 -1.1754944e-38\n"
C_TEXT = b"3 3\nthe 0.1 -2.5 3e-08 \nna\xc3\xafve 1e+20 0.0 -0.0 \na.b 0.33333334 7.0 -1.1754944e-38 \n"


def read(path: Path, data: bytes) -> Embedding:
    path.write_bytes(data)
    return read_vectors(path)


def assert_equal_to_the_bit(found: Embedding, words: tuple[str, ...], vectors: np.ndarray) -> None:
    assert found.words == words
    assert found.vectors.dtype == np.float32
    np.testing.assert_array_equal(found.vectors.view(np.uint32), vectors.view(np.uint32))


@pytest.mark.parametrize(
    "data",
    [GENSIM_BINARY, C_BINARY, b"3 3\n" + LINES, C_TEXT, LINES, LINES[:-1], LINES.replace(b"\n", b"\r\n")],
    ids=["gensim binary", "C binary", "gensim text", "C text", "GloVe", "no last line end", "Windows"],
)
def test_what_other_programs_write_is_read_to_the_bit(tmp_path: Path, data: bytes) -> None:
    assert_equal_to_the_bit(read(tmp_path / "vectors", data), WORDS, VECTORS)


def test_what_we_write_is_theirs(tmp_path: Path) -> None:
    path, ours = tmp_path / "vectors", Embedding(WORDS, VECTORS)
    write_vectors(ours, path, "word2vec-binary")
    assert path.read_bytes() == GENSIM_BINARY
    write_vectors(ours, path, "word2vec")
    text = path.read_bytes()
    write_vectors(ours, path, "glove")
    assert text == b"3 3\n" + path.read_bytes()
    for ours_line, theirs in zip(path.read_bytes().splitlines(), LINES.splitlines(), strict=True):
        assert ours_line.split()[0] == theirs.split()[0]
        assert [np.float32(x) for x in ours_line.split()[1:]] == [np.float32(x) for x in theirs.split()[1:]]


some_words = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\v\f\r"), min_size=1, max_size=8),
    min_size=1,
    max_size=5,
    unique=True,
)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.data(), some_words, st.integers(2, 5), st.sampled_from(FORMATS))
def test_every_float32_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, words: list[str], width: int, form: str
) -> None:
    vectors = data.draw(arrays(np.float32, (len(words), width), elements=finite))
    path = tmp_path_factory.mktemp("vectors") / "file"
    write_vectors(Embedding(tuple(words), vectors), path, form)
    assert_equal_to_the_bit(read_vectors(path), tuple(words), vectors)


def test_files_of_many_pieces_are_read_as_one(tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    vectors = draws.standard_normal((3000, 130)).astype(np.float32)  # 1.5 MB: more than one piece
    words = tuple(f"word{number}" for number in range(len(vectors)))
    for form in FORMATS:
        write_vectors(Embedding(words, vectors), tmp_path / "file", form)
        assert_equal_to_the_bit(read_vectors(tmp_path / "file"), words, vectors)


def test_words_with_spaces_are_read_as_the_largest_file_of_glove_has_them(tmp_path: Path) -> None:
    found = read(tmp_path / "glove", b"the 1 2 3\nat name@domain.com 4 5 6\n. . . 7 8 9\n")
    assert found.words == ("the", "at name@domain.com", ". . .")
    assert found.vectors.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_other_spellings_of_numbers_are_read_too(tmp_path: Path) -> None:
    assert read(tmp_path / "file", b"a .5 1.\nb +1E1 007\n").vectors.tolist() == [[0.5, 1], [10, 7]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin as word vectors do; formats that are read: word2vec, word2vec-binary, glove"),
        (b"What this file says\nis not numbers\n", "does not begin as word vectors do"),
        (b"0 3\n", "its header says 0 words of 3 numbers"),
        (b"3 0\na\nb\nc\n", "its header says 3 words of 0 numbers"),
        (b"4 3\n" + LINES, "it ends after 3 of 4 words"),
        (b"2 3\n" + LINES, r"it continues after the 2 words of its header, with b'a.b 0.33333334 7.0 -'"),
        (b"3 2\n" + LINES, "line 2: it has 3 numbers, and the vectors have 2"),
        (b"3 4\n" + LINES, "line 2: it has 3 numbers, and the vectors have 4"),
        (LINES.replace(b" 7.0", b""), "line 3: it has 2 numbers, and the vectors have 3"),
        (LINES.replace(b"\na.b", b"\nb\n"), "line 3: it has 0 numbers"),
        (LINES.replace(b"a.b", b""), "line 3: there is no word"),
        (LINES.replace(b"a.b", b"x" * 1001), "line 3: .* is longer than 1,000 bytes"),
        (LINES + b"x " + b"1" * (1 << 20), "line 4: it is longer than 1,048,576 bytes"),
        (LINES.replace(b"7.0", b"seven"), "line 3: 'seven' is not a number"),
        (LINES.replace(b"7.0", b"1_0"), "line 3: '1_0' is not a number"),
        (LINES.replace(b"7.0", b"true"), "line 3: 'true' is not a number"),
        (LINES.replace(b"7.0", b"[7]"), r"line 3: '\[7\]' is not a number"),
        (LINES.replace(b"7.0", b"7\t8"), r"line 3: '7\\t8' is not a number"),
        (LINES.replace(b"7.0", b""), "line 3: '' is not a number"),
        (LINES.replace(b"7.0", b"nan"), "the vector of 'a.b' has a number that is not finite"),
        (LINES.replace(b"7.0", b"-inf"), "the vector of 'a.b' has a number that is not finite"),
        (LINES.replace(b"7.0", b"1e39"), "the vector of 'a.b' has a number that is not finite"),
        (b"3 3\n" + GENSIM_BINARY[4:-1], "it ends after 2 of 3 words"),
        (b"2 3\n" + GENSIM_BINARY[4:], "it continues after the 2 words of its header"),
        (
            b"3 3\n" + GENSIM_BINARY[4:].replace(FLOATS[2], struct.pack("<fff", 1, float("nan"), 1)),
            "'a.b' has a number",
        ),
        (b"3 3\n" + GENSIM_BINARY[4:].replace(b"a.b ", b"x" * 5000), "word 3 has no end within 1,000 bytes"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused_with_an_error(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "vectors"
    with pytest.raises(LabError, match=said) as error:
        read(path, data)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "data",
    [
        b"999999999999 300\n" + LINES,
        b"3000000 300\n" + GENSIM_BINARY[4:],
        b"x" + b" 1" * 100_000 + b"\n" * 20_000,
        b"999999999999999999 999999999999999999\n",
    ],
)
def test_no_memory_is_taken_before_a_header_is_believed(tmp_path: Path, data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(LabError, match="at least, and it has"):
        read(tmp_path / "vectors", data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("words", "number", "said"),
    [
        ("a b", 1, "'a b' cannot be written: in these formats white space ends a word"),
        ("", 1, "'' cannot be written"),
        ("\ud800", 1, "has half a character"),
        ("x" * 1001, 1, "longer than 1,000 bytes"),
        ("a", float("nan"), "the vector of 'a' has a number that is not finite"),
    ],
)
@pytest.mark.parametrize("form", FORMATS)
def test_what_could_not_be_read_again_is_not_written(
    tmp_path: Path, words: str, number: float, said: str, form: str
) -> None:
    with pytest.raises(LabError, match=said):
        write_vectors(Embedding((words,), np.full((1, 2), number, np.float32)), tmp_path / "file", form)
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"'glvoe' is not a format of word vectors \(nearest: glove\)"):
        write_vectors(Embedding(WORDS, VECTORS), tmp_path / "file", "glvoe")


def test_a_folder_and_a_missing_file_are_reported(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="it is a folder"):
        read_vectors(tmp_path)
    with pytest.raises(LabError, match="No such file"):
        read_vectors(tmp_path / "absent")


# Words that published files have: cut within a character, or twice


@pytest.mark.parametrize(
    "base", [b"3 3\n" + LINES, LINES, GENSIM_BINARY, C_BINARY], ids=["text", "GloVe", "binary", "C"]
)
def test_words_that_are_not_utf8_or_there_twice_are_read_and_counted(tmp_path: Path, base: bytes) -> None:
    """The first of equal words counts; bytes are replaced, ignored or refused, as gensim's unicode_errors."""
    path = tmp_path / "vectors"
    path.write_bytes(base.replace("naïve".encode(), b"na\xc3"))
    for decoding, word in (("replace", "na\ufffd"), ("ignore", "na")):
        found = read_vectors(path, decoding)
        assert_equal_to_the_bit(found, ("the", word, "a.b"), VECTORS)
        assert (found.broken, found.left_out) == (1, 0)
    assert read_vectors(path).words == ("the", "na\ufffd", "a.b")
    with pytest.raises(LabError, match=r"(line|word) [23]: the word b'na\\xc3' is not UTF-8: unexpected end of data"):
        read_vectors(path, "strict")
    path.write_bytes(base.replace("naïve".encode(), b"the"))
    for decoding in ("replace", "ignore", "strict"):
        found = read_vectors(path, decoding)
        assert_equal_to_the_bit(found, ("the", "a.b"), VECTORS[[0, 2]])
        assert (found.broken, found.left_out) == (0, 1)
    path.write_bytes(base.replace("naïve".encode(), b"\xff").replace(b"a.b", b"\xfe"))
    found = read_vectors(path)  # the replaced ones are equal
    assert_equal_to_the_bit(found, ("the", "\ufffd"), VECTORS[:2])
    assert (found.broken, found.left_out) == (2, 1)
    found = read_vectors(path, "ignore")  # nothing of them is left
    assert_equal_to_the_bit(found, ("the",), VECTORS[:1])
    assert (found.broken, found.left_out) == (2, 2)


def test_many_words_that_are_there_twice_leave_their_lines_in_order(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 400, 1500)
    lines = "".join(f"w{number} {place} .5\n" for place, number in enumerate(numbers))
    found = read(tmp_path / "vectors", lines.encode())
    first = {f"w{number}": place for place, number in reversed(list(enumerate(numbers)))}
    assert sorted(found.words, key=first.__getitem__) == list(found.words)
    assert found.vectors[:, 0].tolist() == [first[word] for word in found.words]
    assert found.left_out == 1500 - len(first)
    with pytest.raises(LabError, match="it ends after 1,500 of 1,501 words"):
        read(tmp_path / "vectors", b"1501 2\n" + lines.encode())


# A thousand mutated files, each read as a plain reader reads it, or refused


def plain_text(data: bytes, header: bool) -> tuple[tuple[str, ...], list[list[float]]]:
    """A text as `line.split(" ")` has it; ValueError if it is anything else."""
    lines = data.decode(errors="replace").split("\n")
    if lines[-1].strip(" \r") == "":
        lines.pop()
    if header:
        count, width = (int(field) for field in lines.pop(0).split())
        if count != len(lines):
            raise ValueError("count")
    else:
        width = len(lines[0].rstrip(" \r").split(" ")) - 1
    words, rows = [], []
    for line in lines:
        fields = line.rstrip(" \r").split(" ")
        words.append(" ".join(fields[:-width]))
        rows.append([float(field) for field in fields[-width:]])
    return tuple(words), rows


def plain_binary(data: bytes) -> tuple[tuple[str, ...], list[list[float]]]:
    first, _, data = data.partition(b"\n")
    count, width = (int(field) for field in first.split())
    words, rows = [], []
    for _ in range(count):
        word, _, data = data.partition(b" ")
        words.append(word.lstrip(b"\n").decode(errors="replace"))
        rows.append(list(struct.unpack(f"<{width}f", data[: 4 * width])))
        data = data[4 * width :]
    if data.strip(b"\n"):
        raise ValueError("more")
    return tuple(words), rows


BASES = [b"3 3\n" + LINES, LINES, GENSIM_BINARY, C_BINARY]
FIELDS = [
    b"nan",
    b"inf",
    b"1e39",
    b"1_0",
    b"0x1",
    b"true",
    b"null",
    b"[1]",
    b"",
    b"-",
    b"1e",
    b"9" * 40,
    b"the",
    b"\xff",
]


def mutated(data: bytes, draws: random.Random) -> bytes:
    at, other = sorted(draws.randrange(len(data) + 1) for _ in range(2))
    lines = data.split(b"\n")
    fields = data.split(b" ")
    match draws.randrange(9):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([draws.randrange(256)]) + data[at + 1 :]
        case 2:
            return data[:at] + bytes([draws.choice(b" \n\r\t,.-0e")]) + data[at:]
        case 3:
            return data[:at] + data[other:]
        case 4:
            return data + data[at:other]
        case 5:
            lines[0] = b" ".join(str(draws.choice([0, 1, 2, 3, 4, 10**9, 10**17])).encode() for _ in range(2))
            return b"\n".join(lines)
        case 6:
            lines.insert(draws.randrange(len(lines)), draws.choice(lines))
            return b"\n".join(lines)
        case 7:
            fields[draws.randrange(len(fields))] = draws.choice(FIELDS)
            return b" ".join(fields)
        case _:
            place = draws.randrange(len(data))
            return data[:place] + bytes([data[place] ^ (1 << draws.randrange(8))]) + data[place + 1 :]


def test_a_thousand_mutated_files_are_read_rightly_or_refused(tmp_path: Path) -> None:
    path, accepted = tmp_path / "vectors", 0
    refused: list[str] = []
    for seed in range(1000):
        draws = random.Random(seed)
        base = draws.choice(BASES)
        data = base
        for _ in range(draws.choice([1, 1, 2])):
            data = mutated(data, draws) or b"\n"
        try:
            found = read(path, data)
        except LabError as error:
            refused.append(str(error))
            continue
        accepted += 1
        header = bool(
            data.split(b"\n")[0].replace(b" ", b"").rstrip(b"\r").isdigit() and data.split(b"\n")[0].count(b" ")
        )
        words, rows = plain_binary(data) if base in (GENSIM_BINARY, C_BINARY) else plain_text(data, header)
        first = {word: row for row, word in reversed(list(enumerate(words)))}
        assert found.left_out == len(words) - len(first)
        words, rows = tuple(words[row] for row in sorted(first.values())), [rows[row] for row in sorted(first.values())]
        assert found.words == words, (seed, data)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found.vectors, np.array(rows).astype(np.float32), err_msg=f"{seed} {data!r}")
        assert len(set(words)) == len(words)
        assert "" not in words
        assert np.isfinite(found.vectors).all()
    assert accepted > 150
    assert len(refused) > 400
    assert all("\n" not in said and len(said) < 400 for said in refused)
