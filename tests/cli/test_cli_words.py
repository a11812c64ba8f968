"""What `txlab words` answers, of a run, of a model's tokens and of a file, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from far_machine import stand_in

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.formats import read_vectors, write_vectors
from txlab.runs.embeddings import open_embedding
from txlab.runs.process import execute, prepare
from txlab.runs.remote import mirroring
from txlab.runs.remote.address import Address
from txlab.runs.scenario import load_scenario

Ask = Any
WORDS = ("man", "king", "woman", "queen", "Apple")
VECTORS = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1.1], [-1, 0.1, 0]], dtype=np.float32)


@pytest.fixture
def file(tmp_path: Path) -> str:
    write_vectors(Embedding(WORDS, VECTORS), tmp_path / "royal.txt", "glove")
    return str(tmp_path / "royal.txt")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    changes = ["data.tokens=7000", "train.words=3500", "train.epochs=1", "vectors.width=8", "compute.threads=1"]
    made = prepare(load_scenario("words-planted", changes), root=tmp_path_factory.mktemp("runs"))
    execute(made)
    return str(made)


def test_neighbours_are_listed_with_their_cosines_the_nearest_first(ask: Ask, file: str) -> None:
    answers = ask("words", "neighbours", file, "queen", "--count", "3", "--json").json["answers"]
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    cosines = dict(zip(WORDS, (units @ units[3]).tolist(), strict=True))
    assert [each["word"] for each in answers] == ["woman", "king", "Apple"]
    assert [each["cosine"] for each in answers] == pytest.approx([cosines[each["word"]] for each in answers], abs=1e-6)
    said = ask("words", "neighbours", file, "queen").out
    assert [line.split()[0] for line in said.splitlines()] == ["word", "woman", "king", "Apple", "man", "royal.txt:"]
    assert "royal.txt: 5 words, 3 numbers each" in said


def test_an_analogy_is_a_minus_b_plus_c_as_its_help_says(ask: Ask, file: str) -> None:
    assert "A - B + C" in ask("words", "analogy", "--help").out
    answers = ask("words", "analogy", file, "king", "man", "woman", "--json").json["answers"]
    assert [each["word"] for each in answers] == ["queen", "Apple"]
    assert ask("words", "analogy", file, "king", "man", "woman", "--count", "1").out.splitlines()[1].startswith("queen")


def test_explain_says_why_two_words_are_similar_and_what_moved_them(ask: Ask, file: str, run: str) -> None:
    told = ask("words", "explain", file, "man", "king", "--json").json["explanation"]
    assert told["result"] == pytest.approx(0.5**0.5)
    assert "cos(v, w) = v·w" in ask("words", "explain", file, "man", "king").out
    first, second = open_embedding(run).words[:2]
    moved = ask("words", "explain", run, first, second, "--update", "--json").json["explanation"]
    assert moved["math"] == "K5"
    assert {"x", "n", "m", "α"} <= {operand["name"] for operand in moved["operands"]}
    assert "is no log of a known form" in ask("words", "explain", file, "man", "king", "--update").refused


def test_similarity_takes_one_pair_or_several(ask: Ask, file: str) -> None:
    found = ask("words", "similarity", file, "man", "king", "man", "woman", "--json").json["pairs"]
    assert [each["words"] for each in found] == [["man", "king"], ["man", "woman"]]
    assert [each["cosine"] for each in found] == pytest.approx([0.5**0.5, 0])
    assert "0.707" in ask("words", "similarity", file, "man", "king").out
    assert "3 are given" in ask("words", "similarity", file, "man", "king", "man").refused


def test_analogy_questions_are_answered_by_section_and_in_total(ask: Ask, file: str, tmp_path: Path) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text(": family\nMAN king Woman queen\nman king woman Apple\n: fruit\nman king apple pear\n")
    found = ask("words", "evaluate", file, str(questions), "--json").json
    family, fruit = found["sections"]
    assert family == {"name": "family", "accuracy": 0.5, "right": 1, "in_vocabulary": 2, "questions": 2}
    assert fruit == {"name": "fruit", "accuracy": None, "right": 0, "in_vocabulary": 0, "questions": 1}
    assert (found["total"]["right"], found["total"]["in_vocabulary"], found["total"]["questions"]) == (1, 2, 3)
    lines = [" ".join(line.split()) for line in ask("words", "evaluate", file, str(questions)).out.splitlines()]
    assert "family 50.0 % 1 2 2 100.0 %" in lines
    assert "total 50.0 % 1 2 3 66.7 %" in lines
    by_case = ask("words", "evaluate", file, str(questions), "--case", "--json").json
    assert by_case["sections"][0]["in_vocabulary"] == 1
    assert ask("words", "evaluate", file, str(questions), "--most", "3", "--json").json["total"]["in_vocabulary"] == 0


def test_human_scores_are_compared_by_rank(ask: Ask, file: str, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("Word 1,Word 2,Human (mean)\nman,king,8\nwoman,queen,7\nman,apple,1\nman,pear,2\n")
    assert ask("words", "evaluate", file, str(pairs), "--json").json | {"vectors": 0} == {
        "vectors": 0,
        "spearman": pytest.approx(0.5),
        "in_vocabulary": 3,
        "pairs": 4,
    }
    assert "ρ 0.500, over 3 of 4 pairs: 75.0 % in the vocabulary" in ask("words", "evaluate", file, str(pairs)).out
    pairs.write_text("tree,house,1\n")
    assert ask("words", "evaluate", file, str(pairs), "--json").json["spearman"] is None
    assert "not defined, over 0 of 1 pairs" in ask("words", "evaluate", file, str(pairs)).out


@pytest.mark.parametrize("form", ["word2vec", "word2vec-binary", "glove"])
def test_what_is_exported_opens_again_to_the_bit(ask: Ask, run: str, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    opened = open_embedding(run)
    for options, vectors in (((), opened.vectors), (("--context",), opened.contexts().vectors)):
        assert ask("words", "export", run, str(out), "--format", form, "--replace", *options).status == 0
        found = read_vectors(out)
        assert found.words == opened.words
        np.testing.assert_array_equal(found.vectors, vectors)
    before = out.read_bytes()
    assert "exists already; --replace replaces it" in ask("words", "export", run, str(out)).refused
    assert out.read_bytes() == before


def test_tokens_that_begin_with_a_space_are_written_as_the_screens_show_them(
    ask: Ask, tiny_run: Path, tmp_path: Path
) -> None:
    said = ask("words", "export", tiny_run.name, str(tmp_path / "out"))
    assert "with white space written as on the screens" in said.out
    found, opened = read_vectors(tmp_path / "out"), open_embedding(str(tiny_run))
    assert opened.words[32] == " "
    assert found.words[32] == "·"
    np.testing.assert_array_equal(found.vectors, opened.vectors)


def test_the_words_of_a_run_come_with_their_counts(ask: Ask, run: str) -> None:
    opened = open_embedding(run)
    assert opened.counts is not None
    answers = ask("words", "neighbours", run, "the0", "--json").json["answers"]
    assert [each["count"] for each in answers] == [int(opened.counts[opened.row(each["word"])]) for each in answers]
    assert "count" in ask("words", "neighbours", run, "the0").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["neighbours", "{file}", "quen"], "the word 'quen' has no vector (nearest: queen)"),
        (["analogy", "{file}", "king", "man", "women"], "the word 'women' has no vector (nearest: woman)"),
        (["neighbours", "{file}", "king", "--context"], "royal.txt has one vector a word"),
        (["neighbours", "{broken}", "king"], "line 2: it has 1 numbers, and the vectors have 2"),
        (["neighbours", "no-such-run", "king"], "there is no run 'no-such-run'"),
        (["evaluate", "{file}", "{broken}"], "line 2 is not two words and a number: 'c 1'"),
        (["evaluate", "{file}", "{absent}"], "absent cannot be read: No such file or directory"),
        (["export", "{file}", "{absent}/out"], "is in a folder that does not exist"),
        (["export", "{file}", "{absent}", "--format", "glvoe"], "'glvoe' is not allowed (nearest: glove)"),
        (["neighbours", "{file}", "king", "--count", "0"], "'0' is not allowed; allowed: at least 1"),
    ],
)
def test_a_wrong_input_is_refused_with_an_error(
    ask: Ask, file: str, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "broken").write_text("a 1 2\nc 1\n")
    places = {"file": file, "broken": str(tmp_path / "broken"), "absent": str(tmp_path / "absent")}
    assert said in ask("words", *(word.format(**places) for word in words)).refused


def test_words_of_a_file_reach_a_terminal_escaped(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "hostile.txt"
    path.write_text("a 1 2\n\x1b[31m[bold]red 1 2.1\n")
    said = ask("words", "neighbours", str(path), "a").out
    assert "\\x1b[31m[bold]red" in said or "␛[31m[bold]red" in said


def test_words_of_a_file_that_are_not_utf8_or_there_twice_are_counted(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(b"a 1 2\nb\xff 2 1\na 5 5\nc 1 1\n")
    words = ["words", "neighbours", str(path), "a"]
    answer = ask(*words, "--json").json
    assert answer["vectors"] == {"title": "vectors.txt", "words": 3, "width": 2, "not_utf8": 1, "left_out": 1}
    assert [each["word"] for each in answer["answers"]] == ["c", "b\ufffd"]
    assert "1 word not in UTF-8; 1 word left out, being there a second time" in ask(*words).out
    assert ask(*words, "--json", "--unicode-errors", "ignore").json["answers"][1]["word"] == "b"
    assert "the word b'b\\xff' is not UTF-8" in ask(*words, "--unicode-errors", "strict").refused
    assert "nearest: strict" in ask(*words, "--unicode-errors", "stric").refused


@pytest.mark.parametrize("scale", [1e20, 1e-30])
def test_every_command_gives_the_same_cosine_whatever_the_lengths(ask: Ask, tmp_path: Path, scale: float) -> None:
    path = str(tmp_path / "vectors.txt")
    write_vectors(Embedding(("a", "b", "c"), np.array([[1, 1], [1, 0], [0, -1]], np.float32) * np.float32(scale)),
                  Path(path), "glove")  # fmt: skip
    asked = [
        ask("words", "similarity", path, "a", "b", "--json").json["pairs"][0]["cosine"],
        ask("words", "neighbours", path, "a", "--json").json["answers"][0]["cosine"],
        ask("words", "explain", path, "a", "b", "--json").json["explanation"]["result"],
        -ask("words", "similarity", path, "a", "c", "--json").json["pairs"][0]["cosine"],
    ]
    assert asked == pytest.approx([0.5**0.5] * 4, abs=1e-6)
    (tmp_path / "pairs").write_text("a b 3\na c 1\nb c 2\n")
    assert ask("words", "evaluate", path, str(tmp_path / "pairs"), "--json").json["spearman"] == pytest.approx(1)


@pytest.fixture
def far(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The run on the machine `box`; here are no runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, runs=Path(run).parent))
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "here"))
    yield f"box:{Path(run).name}"
    mirroring.close_all()


@pytest.mark.parametrize("form", ["{}", "{}@2", "box:latest", "box:words-planted", "box:{folder}/{name}"])
def test_a_run_of_another_machine_answers_as_it_does_there(ask: Ask, run: str, far: str, form: str) -> None:
    name = form.format(far, folder=Path(run).parent, name=Path(run).name)
    local = run + "@2" * name.endswith("@2")
    first, second, third = open_embedding(run).words[:3]
    for command, *words in (
        ("neighbours", first),
        ("analogy", first, second, third),
        ("similarity", first, second),
        ("explain", first, second),
        ("explain", first, second, "--update"),
    ):
        here, there = (ask("words", command, each, *words, "--json").json for each in (local, name))
        if "vectors" in there:
            assert there["vectors"].pop("title") == f"box:{here['vectors'].pop('title')}"
        assert there == here


def test_vectors_of_another_machine_are_exported(ask: Ask, run: str, far: str, tmp_path: Path) -> None:
    ask("words", "export", far, str(tmp_path / "far.txt"))
    ask("words", "export", run, str(tmp_path / "near.txt"))
    assert (tmp_path / "far.txt").read_bytes() == (tmp_path / "near.txt").read_bytes()


def test_the_update_of_another_machines_run_is_of_its_whole_log(
    ask: Ask, run: str, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []
    there = mirroring.open_run

    def open_run(address: Address, whole: bool = False, to_change: bool = False) -> Path:
        opened.append(whole)
        return there(address, whole, to_change)

    monkeypatch.setattr(mirroring, "open_run", open_run)
    first, second = open_embedding(run).words[:2]
    ask("words", "explain", far, first, second, "--update")
    assert True in opened


def test_a_machine_that_does_not_answer_is_not_taken_for_a_missing_file(
    ask: Ask, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLAB_SSH", "false")
    for name in ("other:words", "other:/data/runs/words"):
        assert "the connection to other ended" in ask("words", "neighbours", name, "man").refused
