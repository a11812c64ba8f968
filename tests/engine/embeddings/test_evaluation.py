"""Analogies and pairs as everybody reports them: accuracy by 3CosAdd, Spearman's ρ with ties, and what is left out."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.evaluation import (
    Accuracy,
    Pair,
    Section,
    agreement,
    analogies,
    read_evaluation,
    spearman,
    total,
)
from txlab.engine.embeddings.neighbours import analogy, cosine, explain_similarity, nearest, unit
from txlab.errors import LabError

QUESTIONS = ": family\nking man queen woman\nking man aunt uncle\n\n: none\nParis France Rome Italy\n"
PAIRS = "# Word 1\tWord 2\tHuman (mean)\nking\tman\t6.77\ntiger\tcat\t7.35\nking\tqueen\t.5\n"


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "asked.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_both_forms_are_known_by_their_contents(tmp_path: Path) -> None:
    assert read_evaluation(file(tmp_path, QUESTIONS)) == [
        Section("family", [("king", "man", "queen", "woman"), ("king", "man", "aunt", "uncle")]),
        Section("none", [("Paris", "France", "Rome", "Italy")]),
    ]
    pairs = [Pair("king", "man", 6.77), Pair("tiger", "cat", 7.35), Pair("king", "queen", 0.5)]
    assert read_evaluation(file(tmp_path, PAIRS)) == pairs
    assert read_evaluation(file(tmp_path, PAIRS.replace("\t", ","))) == pairs
    assert read_evaluation(file(tmp_path, PAIRS.replace("\t", " "))) == pairs
    assert read_evaluation(file(tmp_path, "\ufeffWord 1,Word 2,Human (mean)\r\n" + "king,man,6.77\r\n")) == pairs[:1]
    assert read_evaluation(file(tmp_path, "ice cream\tcold drink\t3\tmore\n")) == [Pair("ice cream", "cold drink", 3)]
    assert read_evaluation(file(tmp_path, "a b 0.5 1\n")) == [Pair("a", "b", 0.5)]
    assert read_evaluation(file(tmp_path, "a b c d\n")) == [Section("questions", [("a", "b", "c", "d")])]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither analogy questions nor pairs"),
        ("just text\n", "neither analogy questions"),
        (": s\na b c\n", "line 2 has 3 words, and a question four"),
        ("a b c d\ne f 1\n", "line 2 has 3 words"),
        ("a b 1\nc d\n", "line 2 is not two words and a number: 'c d'"),
        ("a b 1\nc d nan\n", "line 2 is not two words and a number"),
        ("a b 1\nc\t\t2\n", "line 2 is not two words and a number"),
    ],
)
def test_a_file_of_neither_form_is_refused_with_an_error(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(LabError, match=said):
        read_evaluation(file(tmp_path, text))
    (tmp_path / "bytes").write_bytes(b"a b \xff\n")
    with pytest.raises(LabError, match="is not UTF-8"):
        read_evaluation(tmp_path / "bytes")
    with pytest.raises(LabError, match="it is a folder"):
        read_evaluation(tmp_path)


def some_embedding(seed: int, width: int = 4) -> Embedding:
    draws = np.random.default_rng(seed)
    words = [f"{case(stem)}" for stem in ("ab", "cd", "ef", "gh", "ij", "kl") for case in (str.lower, str.upper)]
    order = draws.permutation(len(words))
    return Embedding(tuple(words[i] for i in order), draws.standard_normal((12, width)).astype(np.float32))


def test_a_file_may_be_packed_by_gzip_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "asked.txt.gz"
    path.write_bytes(gzip.compress(QUESTIONS.encode()))
    assert read_evaluation(path) == read_evaluation(file(tmp_path, QUESTIONS))
    path.write_bytes(gzip.compress(QUESTIONS.encode())[:-12])
    with pytest.raises(LabError, match=r"asked.txt.gz cannot be read: it is a damaged gzip file"):
        read_evaluation(path)
    path.write_bytes(gzip.compress(b"a " * (40 << 20), 1))  # 80 MiB in 80 kB
    with pytest.raises(LabError, match="larger than 64 MiB, unpacked"):
        read_evaluation(path)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("most", [7, 12, 300])
def test_accuracy_is_that_of_the_definition(fold: bool, most: int) -> None:
    questions = list(itertools.product(["ab", "CD", "ef"], ["gh", "Ef"], ["IJ", "kl"], ["ab", "CD", "xx"]))
    known_of_all = 0
    for seed in range(9):
        embedding = some_embedding(seed)
        words = [word.upper() if fold else word for word in embedding.words[:most]]
        vectors = embedding.vectors.astype(float) / np.linalg.norm(embedding.vectors, axis=1, keepdims=True)
        right = known = 0
        for question in questions:
            a, b, c, d = (word.upper() if fold else word for word in question)
            if not {a, b, c, d} <= set(words):
                continue
            known += 1
            wanted = vectors[words.index(b)] - vectors[words.index(a)] + vectors[words.index(c)]
            allowed = [row for row, word in enumerate(words) if word not in (a, b, c)]
            right += words[max(allowed, key=lambda row: float(vectors[row] @ wanted))] == d
        (found,) = analogies(embedding, [Section("s", questions)], fold, most)
        assert found == Accuracy("s", right, known, len(questions))
        known_of_all += known
    assert known_of_all > 0


def test_a_total_is_over_questions_and_not_over_sections() -> None:
    found = total([Accuracy("a", 1, 1, 10), Accuracy("b", 0, 3, 5), Accuracy("c", 0, 0, 4)])
    assert (found.right, found.known, found.questions, found.accuracy) == (1, 4, 19, 0.25)
    assert np.isnan(Accuracy("none", 0, 0, 3).accuracy)


def test_spearman_is_that_of_a_worked_example() -> None:
    # Without ties ρ = 1 − 6 Σd² / n(n² − 1); Σd² = 194, n = 10 (the intelligence and television of the textbooks).
    x = np.array([106, 100, 86, 101, 99, 103, 97, 113, 112, 110.0])
    y = np.array([7, 27, 2, 50, 28, 29, 20, 12, 6, 17.0])
    assert spearman(x, y) == pytest.approx(1 - 6 * 194 / (10 * 99))
    assert np.isnan(spearman(x, np.ones(10)))
    assert np.isnan(spearman(x[:1], y[:1]))


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=30))
def test_equal_numbers_share_their_ranks(pairs: list[tuple[int, int]]) -> None:
    def rank(value: int, values: list[int]) -> float:
        return sum(other < value for other in values) + (values.count(value) + 1) / 2

    x, y = (list(each) for each in zip(*pairs, strict=True))
    a, b = np.array([rank(each, x) for each in x]), np.array([rank(each, y) for each in y])
    expected = float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) and np.ptp(b) else float("nan")
    assert spearman(np.array(x), np.array(y)) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_pairs_are_ordered_by_their_cosines_and_unknown_ones_are_left_out() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0.5, 0.5], [0, 1]], dtype=np.float32)
    embedding = Embedding(("a", "b", "c", "D"), vectors)
    pairs = [Pair("a", "b", 9), Pair("a", "c", 5), Pair("a", "d", 1), Pair("a", "unknown", 10)]
    found = agreement(embedding, pairs)
    assert (found.known, found.pairs) == (3, 4)
    assert found.rho == pytest.approx(1)
    assert agreement(embedding, pairs, fold=False).known == 2
    assert agreement(embedding, pairs, most=3).known == 2


SCALES = (1e-38, 1e-30, 1e-20, 1.0, 1e19, 1e20, 1e38)


@pytest.mark.parametrize("scale", SCALES)
def test_a_cosine_does_not_depend_on_the_length_of_its_vectors(scale: float) -> None:
    """The squares of 1e20 and of 1e-30 are not float32 numbers. The reference is computed in longer numbers."""
    vectors = (np.random.default_rng(2).standard_normal((40, 9)) * scale).astype(np.float32)
    vectors[3] = 0
    exact = [[Fraction(float(number)) for number in row] for row in vectors]
    for other in (1, 3, 17):
        dot, one, two = (sum(x * y for x, y in zip(v, w, strict=True)) for v, w in (
            (exact[0], exact[other]), (exact[0], exact[0]), (exact[other], exact[other])))  # fmt: skip
        wanted = float(dot) / sqrt(float(one)) / sqrt(float(two)) if two else 0.0
        found = dict(nearest(unit(vectors), vectors[0], 39, [0]))
        assert found[other] == pytest.approx(wanted, abs=1e-6)
        assert cosine(vectors[0], vectors[other]) == pytest.approx(wanted, abs=1e-12)
        assert explain_similarity(("a", "b"), vectors[0], vectors[other]).result == pytest.approx(wanted, abs=1e-12)


def test_vectors_of_any_length_give_the_same_answers() -> None:
    directions = np.random.default_rng(5).standard_normal((30, 6))
    words = tuple(f"w{row}" for row in range(30))
    lengths = 10.0 ** np.random.default_rng(6).integers(-36, 37, 30)
    plain, scaled = (
        Embedding(words, table.astype(np.float32)) for table in (directions, directions * lengths[:, None])
    )
    questions = [Section("s", [tuple(words[(row + 7 * place) % 30] for place in range(4)) for row in range(30)])]
    pairs = [Pair(words[row], words[row + 9], float(row % 5)) for row in range(20)]
    assert analogies(scaled, questions) == analogies(plain, questions)
    assert agreement(scaled, pairs).rho == pytest.approx(agreement(plain, pairs).rho, abs=1e-12)
    for row in range(30):
        for found, wanted in zip(nearest(scaled.units, scaled.units[row], 8, [row]),
                                 nearest(plain.units, plain.units[row], 8, [row]), strict=True):  # fmt: skip
            assert found == (wanted[0], pytest.approx(wanted[1], abs=1e-6))
        assert [word for word, _ in analogy(scaled.units, row, (row + 1) % 30, (row + 2) % 30, 5)] == [
            word for word, _ in analogy(plain.units, row, (row + 1) % 30, (row + 2) % 30, 5)
        ]


@pytest.mark.parametrize("place", range(3))
def test_an_analogy_is_not_answered_with_a_word_of_its_question(place: int) -> None:
    """Of a − b + c: a word of the question may be the nearest of all."""
    vectors = np.random.default_rng(1).standard_normal((6, 5))
    vectors[:3] = {  # in the direction of a, of b, or of c
        0: [[9, 0, 0, 0, 0], [0.1, 1, 0, 0, 0], [0.2, 1, 0, 0, 0]],
        1: [[1, 1, 0, 0, 0], [1, 0.4142, 0, 0, 0], [1, 0, 0, 0, 0]],
        2: [[0.1, 1, 0, 0, 0], [0.2, 1, 0, 0, 0], [9, 0, 0, 0, 0]],
    }[place]
    units = unit(vectors)
    query = units[0] - units[1] + units[2]
    assert nearest(units, query, 1)[0][0] == place  # so it is the question's word that would be found
    answers = [row for row, _ in analogy(units, 0, 1, 2, 6)]
    assert sorted(answers) == [3, 4, 5]
    wanted = sorted((3, 4, 5), key=lambda row: -float(units[row] @ query))
    assert answers == wanted
