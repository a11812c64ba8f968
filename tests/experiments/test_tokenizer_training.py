"""Training a tokenizer as an experiment: one merge is one step, a frame says all, a state brings it back (MATH K2)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from txlab.engine.tokenizers import plain
from txlab.errors import LabError
from txlab.experiments.tokenizer_training import TokenizerTraining, TrainingRecipe, tokenizer_of_frame

TEXT = "the cat that chased the mice sat on the mat, and the cat was tired of the mice. " * 3


def training(vocabulary: int = 270) -> TokenizerTraining:
    return TokenizerTraining(TrainingRecipe(vocabulary=vocabulary), TEXT)


def test_its_steps_are_the_merges_of_the_plain_training_up_to_the_vocabulary() -> None:
    experiment = training()
    while experiment.step_count < experiment.steps:
        assert experiment.step()["pair_count"] >= 2
    frame = experiment.frame()
    expected = plain.train(Counter(plain.split(TEXT)), 270)
    assert [tuple(pair) for pair in np.asarray(frame.tensors["merges"]).tolist()] == expected
    assert len(np.asarray(frame.tensors["lengths"])) == frame.step + 1 == 15
    assert tokenizer_of_frame(frame).encode(TEXT) == plain.encode(TEXT, expected)
    assert np.asarray(frame.tensors["lengths"])[-1] == len(plain.encode(TEXT, expected))


def test_it_ends_where_no_pair_occurs_twice_and_continues_after_a_step_back() -> None:
    experiment = training(100_000)
    while experiment.step_count < experiment.steps:
        experiment.step()
    assert experiment.steps == experiment.step_count < 100_000 - 256
    experiment.back()
    assert experiment.steps > experiment.step_count + 1
    assert experiment.step()


def test_its_state_brings_it_back_and_forth() -> None:
    experiment, other = training(), training(400)
    for _ in range(9):
        experiment.step()
    frame, state = experiment.frame(), experiment.state_dict()
    for start in (0, 20):
        for _ in range(start):
            other.step()
        other.load_state_dict(state)
        again = other.frame()
        assert all((np.asarray(again.tensors[name]) == np.asarray(frame.tensors[name])).all() for name in frame.tensors)
        assert (other.step_count, other.steps) == (9, 14)


def test_counting_can_be_stopped_by_its_progress() -> None:
    def progress(done: int, total: int) -> None:
        assert (done, total) == (0, len(TEXT))
        raise LabError("enough")

    with pytest.raises(LabError, match="enough"):
        TokenizerTraining(TrainingRecipe(), TEXT, progress)
