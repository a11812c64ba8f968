"""Word vectors as an experiment: what was planted is found, a resume is exact, and a text need not fit into memory."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from peak_memory import PEAK

from txlab.engine.embeddings import blocks
from txlab.engine.embeddings.blocks import Stretch
from txlab.engine.embeddings.neighbours import analogy, nearest, unit
from txlab.engine.embeddings.windows import BOUNDARY
from txlab.errors import LabError
from txlab.experiments.kind import explain_metric, kind_named
from txlab.experiments.kinds.word_vectors.experiment import WordVectors, alike
from txlab.experiments.kinds.word_vectors.schema import WordsTrain, WordText
from txlab.experiments.kinds.word_vectors.text import encode_words, planted_words, sentences_of
from txlab.runs.scenario import load_scenario

FEW = ["data.tokens=20000", "train.words=2000", "train.epochs=2", "compute.threads=1"]


def built(*changes: str, name: str = "words-planted") -> WordVectors:
    experiment = kind_named("word-vectors").build(load_scenario(name, [*FEW, *changes]).scenario)
    assert isinstance(experiment, WordVectors)
    return experiment


def test_what_was_planted_is_found() -> None:
    experiment = built("data.tokens=100000", "train.epochs=4", "train.words=5000")
    at_first = experiment.evaluate()
    assert max(at_first.values()) < 0.1
    losses = [experiment.step().get("loss") for _ in range(experiment.steps)]
    assert losses[0] == pytest.approx(6 * np.log(2), abs=1e-4)  # K = 5, while u = 0
    found = experiment.evaluate()
    assert found["synonyms"] >= 0.95
    assert found["analogies"] >= 0.95


@pytest.mark.parametrize(
    "change",
    [
        "vectors.strip_noise=0",
        'vectors.objective="softmax"',
        'vectors.objective="hierarchical"',
        'vectors.objective="nce"',
    ],
)
@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_every_form_learns_and_resumes_bit_for_bit(change: str, architecture: str) -> None:
    changes = [change, f'vectors.architecture="{architecture}"', "data.most=2000", "vectors.width=16"]
    whole, first = built(*changes), built(*changes)
    for _ in range(3):
        whole.step()
        first.step()
    second = built(*changes)
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        assert whole.step() == second.step()
    assert torch.equal(whole.model.v, second.model.v)
    assert torch.equal(whole.model.u, second.model.u)


def test_the_rate_falls_as_its_description_and_the_c_program_say() -> None:
    """word2vec.c: alpha = starting_alpha * (1 − word_count_actual / (iter * train_words + 1)), not below 1e-4 of it;
    the words that count are those before."""
    experiment = built("train.alpha=0.05")
    rates = [experiment.step()["alpha"] for _ in range(experiment.steps)]
    words = np.arange(experiment.steps) * 2000
    wanted = 0.05 * np.maximum(1 - words / (experiment.steps * 2000), 1e-4)
    np.testing.assert_allclose(rates, wanted, rtol=1e-12)
    assert rates[-1] == pytest.approx(0.05 / experiment.steps)
    assert experiment.rate(experiment.steps) == pytest.approx(0.05 * 1e-4)
    assert "so alpha/T at the last one" in " ".join(str(WordsTrain.__doc__).split())


BESIDE = ['vectors.beside=["softmax","nce","hierarchical"]', "data.tokens=7000", "vectors.width=16"]


def test_parallel_objectives_learn_what_each_learns_alone() -> None:
    together = built(*BESIDE)
    found = [together.step(), together.step()]
    for objective, model in together.models.items():
        alone = built(*BESIDE[1:], f'vectors.objective="{objective}"')
        assert [each[f"loss/{objective}"] for each in found] == [alone.step()["loss"], alone.step()["loss"]]
        assert torch.equal(model.v, alone.model.v)
        assert torch.equal(model.u, alone.model.u)
        measures = together.evaluate()
        assert {name: measures[f"{name}/{objective}"] for name in ("synonyms", "analogies")} == alone.evaluate()
    assert {name.partition("/")[2] for name in together.take_speeds()} == set(together.models)
    assert len(together.samples()) == 4 * len(together.scenario.probe.words)


def test_parallel_objectives_resume_bit_for_bit() -> None:
    whole, first = built(*BESIDE), built(*BESIDE)
    for _ in range(2):
        whole.step()
        first.step()
    second = built(*BESIDE)
    second.load_state_dict(first.state_dict())
    assert whole.step() == second.step()
    assert whole.evaluate() == second.evaluate()
    with pytest.raises(LabError, match="of other objectives"):
        built(*BESIDE[1:]).load_state_dict(first.state_dict())


def test_objectives_are_each_named_once() -> None:
    with pytest.raises(LabError, match="must not name one twice; they are sampling, nce, nce"):
        load_scenario("words-planted", ['vectors.beside=["nce","nce"]'])
    with pytest.raises(LabError, match="a softmax takes"):
        load_scenario("words-docs", ['vectors.beside=["softmax"]', "data.most=2000000"])


def test_an_analogy_answers_none_of_the_words_that_it_asks_with() -> None:
    """c is nearest to b, and a after them; the answer is the one that is left."""
    units = unit(np.array([[1.0, 0.1], [1.0, 0.0], [1.0, 0.05], [-1.0, 0.2]]))
    assert [analogy(units, a, b, c, 1)[0][0] for a, b, c in permutations(range(3))] == [3] * 6


def test_neighbours_in_common_are_counted() -> None:
    draws = np.random.default_rng(1)
    one, other = (unit(draws.standard_normal((40, 8)).astype(np.float32)) for _ in range(2))
    shared = []
    for row in range(40):
        near = [{place for place, _ in nearest(units, units[row], 10, [row])} for units in (one, other)]
        shared.append(len(near[0] & near[1]) / 10)
    assert alike(one, other) == pytest.approx(np.mean(shared))
    assert alike(one, one) == 1


def test_the_words_that_scenarios_ask_about_are_planted() -> None:
    planted = {word.text for word in planted_words()}
    for name in ("words-planted", "words-softmax"):
        assert set(load_scenario(name).scenario.probe.words) <= planted


def test_a_second_thread_and_a_resume_change_no_bit() -> None:
    one, two = built("vectors.block=64"), built("vectors.block=64", "compute.threads=2")
    assert [one.step() for _ in range(5)] == [two.step() for _ in range(5)]
    again = built("vectors.block=64", "compute.threads=2")
    again.step()  # what it has prepared is not what it needs next
    again.load_state_dict(two.state_dict())
    assert [one.step() for _ in range(5)] == [again.step() for _ in range(5)]
    assert torch.equal(one.model.v, again.model.v)
    assert torch.equal(one.model.u, again.model.u)


def test_every_epoch_redraws_its_windows() -> None:
    experiment = built()
    first, again = experiment.windows(1), experiment.windows(1 + experiment.steps_an_epoch)
    assert np.array_equal(first.tokens, again.tokens)  # nothing is thinned out of the planted text
    assert not np.array_equal(first.before, again.before)
    assert np.array_equal(first.before, built().windows(1).before)


def test_a_checkpoint_of_another_text_is_refused() -> None:
    state = built().state_dict()
    with pytest.raises(LabError, match="another text"):
        built("seed=2").load_state_dict(state)


def test_a_table_of_equal_words_does_not_throw_a_word_away() -> None:
    """Every pair of a block is the same pair: summed, their steps would overshoot and grow from block to block."""
    v, u = torch.full((2, 8), 1.0), torch.full((2, 8), 1.0)
    tokens = torch.zeros(512 + 10, dtype=torch.int64)
    sides = torch.full((512,), 5)
    noise = torch.ones(32, 8, dtype=torch.int64)
    (block,) = blocks.cut(Stretch(tokens, sides, sides), noise, 5, 512, v.dtype)
    for _ in range(200):
        blocks.learn(block, v, u, 0.05)
    assert float(v.norm() + u.norm()) < 50


def test_sentences_are_paragraphs_or_lines_and_words_are_cut_as_asked(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("It's one\nsentence_1, here.\n\nNext — Über 42!\n", encoding="utf-8")

    def cut(words: str, sentences: str) -> list[list[str]]:
        section = WordText(text=str(file), words=words, sentences=sentences, minimum=1)  # type: ignore[arg-type]
        return [sentence for sentence in sentences_of(section, 1) if sentence]

    assert cut("letters", "paragraph") == [["it's", "one", "sentence", "here"], ["next", "über"]]
    assert cut("identifiers", "line") == [["It", "s", "one"], ["sentence_1", "here"], ["Next", "Über"]]
    assert cut("spaces", "line")[0] == ["It's", "one"]
    text = encode_words(WordText(text=str(file), words="letters", sentences="line", minimum=1), 1)
    assert sorted(text.vocabulary.words) == ["here", "it's", "next", "one", "sentence", "über"]
    assert (np.asarray(text.ids) == BOUNDARY).sum() == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 words"),
        (b"one", "1 words"),
        (b"a\xff b", "is not UTF-8"),
        (b"a\n\nb\n\na\n\nb", "no paragraph with two words"),
    ],
)
def test_a_text_without_words_is_refused_with_an_error(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(LabError, match=said):
        encode_words(WordText(text=str(tmp_path / "a.txt"), minimum=1), 1)


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("one two")
    (tmp_path / "b" / "c.txt").write_text("two three")
    (tmp_path / "b" / "picture").write_bytes(b"\0\1\2")
    words = [word for sentence in sentences_of(WordText(text=str(tmp_path)), 1) for word in sentence]
    assert words == ["one", "two", "two", "three"]


def test_every_metric_has_an_explanation() -> None:
    experiment = built()
    values = {**experiment.step(), **experiment.evaluate()}
    scenario = load_scenario("words-planted", FEW).scenario.model_dump()
    for name in values:
        told = explain_metric(scenario, name, 1, values, experiment.facts())
        assert told is not None, name
        assert told.result == values[name]
    loss = explain_metric(scenario, "loss", 1, values, experiment.facts())
    assert loss is not None
    assert loss.meaning[0].result == pytest.approx(6 * np.log(2))


def test_planted_words_are_all_different_and_known() -> None:
    words = [word.text for word in planted_words()]
    assert len(set(words)) == len(words) == 480
    experiment = built()
    assert len(experiment.planted) > 450
    for a, b, c, (base, feature) in experiment._questions()[:50]:
        word = {number: word for word, number in experiment.planted.items()}
        assert (word[a].base, word[c].base) == (word[b].base, base)
        assert (word[a].feature, word[b].feature) == (feature, word[c].feature)


def test_a_text_larger_than_its_memory_is_trained_on(tmp_path: Path) -> None:
    """26 MB of text; the process holds 25 MB beyond its imports, as much as with a text of another size."""
    line = " ".join(f"w{i * 7919 % 20_000}" for i in range(2_000)) + "\n"
    with (tmp_path / "large.txt").open("w") as file:
        for _ in range(2_000):
            file.write(line)
    program = f"""{PEAK}
from txlab.experiments.kind import kind_named
from txlab.runs.scenario import load_scenario
import txlab.experiments.kinds.word_vectors.experiment
before = peak_memory()
changes = ["data.text={tmp_path}/large.txt", "data.words=spaces", "data.sentences=line", "compute.threads=1"]
experiment = kind_named("word-vectors").build(load_scenario("words-docs", changes).scenario)
for _ in range(3): experiment.step()
print(peak_memory() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40e6  # with the text itself it would be 51 MB; the ids alone are 16 MB on disk
