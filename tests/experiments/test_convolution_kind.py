"""Kind convolution: it learns, continues bit for bit, and what a frame says can be computed from the rest of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from txlab.engine.convolution import slid
from txlab.errors import LabError
from txlab.experiments.kinds.convolution import KIND
from txlab.experiments.kinds.convolution.experiment import experiment_of
from txlab.runs.scenario import load_scenario

SMALL = ["train.batch=8", "train.steps=6", "train.validation_batches=1", "compute.threads=1", "compute.device=cpu"]


def made(*settings: str) -> Any:
    return experiment_of(KIND.resolve(load_scenario("conv-shapes", [*SMALL, *settings]).scenario))


def test_every_answer_of_a_frame_is_explained_by_its_patch() -> None:
    frame = made().frame()
    for channel, y, x in ((0, 0, 0), (3, 7, 12), (7, 19, 19)):
        why = KIND.explain_frame(frame, "map/0", (channel, y, x))
        picture, weights = frame.tensors["picture"], frame.tensors["filter/0"][channel, 0]
        whole = slid(
            np.asarray(picture).tolist(), np.asarray(weights).tolist(), float(frame.tensors["bias/0"][channel])
        )
        assert why.result == pytest.approx(whole[y][x], abs=1e-5)
        products = np.array(why.steps[0].result)
        assert products.sum() + float(frame.tensors["bias/0"][channel]) == pytest.approx(why.result, abs=1e-5)
    with pytest.raises(LabError, match="map/1"):
        KIND.explain_frame(frame, "map/1", (0, 0, 0))


def test_a_resumed_run_continues_bit_for_bit() -> None:
    straight, first, second = made(), made(), made()
    for _ in range(4):
        straight.step()
    first.step()
    first.step()
    second.load_state_dict(first.state_dict())
    second.step()
    second.step()
    assert second.evaluate() == straight.evaluate()
    for mine, theirs in zip(second.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_sixty_steps_tell_shapes_apart() -> None:
    experiment = made("train.batch=64", "train.steps=60", "train.validation_batches=4")
    for _ in range(60):
        experiment.step()
    assert experiment.evaluate()["val_accuracy"] > 0.8


def test_filters_that_do_not_fit_are_refused() -> None:
    with pytest.raises(LabError, match="layer 3 have 5 pixels a side, and their input has 3"):
        load_scenario("conv-shapes", ["model.channels=[4,4,4]", "model.sizes=[5,5,5]"])
    with pytest.raises(LabError, match="2 layers have channels and 1 have sizes"):
        load_scenario("conv-shapes", ["model.sizes=[5]"])
