"""The image-classification experiment: its images, what it learns, repeats, refuses and puts back (MATH T14, F3)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from decided import DECIDED
from pydantic import ValidationError

from txlab.engine.transformer.hooks import keeping
from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.image_classification import KIND
from txlab.experiments.kinds.image_classification.experiment import ImageExperiment
from txlab.experiments.kinds.image_classification.schema import NAMES, ImageScenario, ShapeImages
from txlab.experiments.kinds.image_classification.shapes import CONTRAST, draw
from txlab.experiments.learning.explanations import explain_attention
from txlab.experiments.protocol import NotFinite
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import dump_scenario, load_scenario


def scenario(**changes: dict[str, Any]) -> ImageScenario:
    """A model small enough for a test; `changes` are merged into its sections."""
    sections: dict[str, Any] = {
        "seed": 4,
        "data": {"shapes": ["circle", "cross"], "image": 16, "smallest": 0.3},
        "model": {"layers": 2, "heads": 2, "width": 16, "patch": 4},
        "train": {"steps": 60, "batch": 16, "warmup": 5, "learning_rate": 4e-3, "validation_batches": 3},
        "compute": DECIDED,
    }
    for name, section in changes.items():
        sections[name] = {**sections.get(name, {}), **section}
    return ImageScenario.model_validate(sections)


def weights(experiment: ImageExperiment) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in experiment.model.state_dict().items()}


def assert_same_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


# Images


def test_images_are_a_function_of_seed_purpose_and_step() -> None:
    data = ShapeImages()
    one, again = draw(data, 5, 3, "train", 7), draw(data, 5, 3, "train", 7)
    assert np.array_equal(one.pixels, again.pixels)
    assert np.array_equal(one.classes, again.classes)
    for other in (draw(data, 5, 4, "train", 7), draw(data, 5, 3, "validation", 7), draw(data, 5, 3, "train", 8)):
        assert not np.array_equal(one.pixels, other.pixels)
    assert one.pixels.dtype == np.float32
    assert one.pixels.shape == (5, 3, 32, 32)


def test_every_shape_has_the_area_that_geometry_gives_it_and_is_inside() -> None:
    side = 200  # so large that a pixel is nothing
    data = ShapeImages(image=side, noise=0.0, smallest=0.2, largest=0.4)
    images = draw(data, 120, 1, "train", 0)
    first, second = 0.8**2 * np.pi, (0.85**2 - 0.45**2) * np.pi
    bars = 2 * (2 * 0.95 * 0.6) - 0.6**2
    area = {"circle": first, "square": 1.4**2, "triangle": 3 * np.sqrt(3) / 4, "cross": bars, "ring": second}
    radii: dict[str, list[float]] = {name: [] for name in area}
    for pixels, number in zip(images.pixels, images.classes, strict=True):
        ground = pixels[:, 0, 0]
        apart = np.abs(pixels - ground[:, None, None]).mean(0)
        covered = apart / apart.max()
        assert covered[[0, -1]].max() == covered[:, [0, -1]].max() == 0  # nothing touches the frame
        assert apart.max() >= CONTRAST
        name = NAMES[number]
        if name in area:
            # The radius from how far the farthest inked point is from the middle of all of them.
            y, x = np.nonzero(covered > 0.5)
            reach = np.hypot(y - y.mean(), x - x.mean()).max()
            furthest = {"circle": 0.8, "square": 0.7 * np.sqrt(2), "triangle": 1.0, "ring": 0.85}
            corner = furthest.get(name, np.hypot(0.95, 0.3))
            radii[name].append(reach / corner / side)
            assert covered.sum() == pytest.approx(area[name] * (reach / corner) ** 2, rel=0.06), name
    for name, found in radii.items():
        assert 0.19 < min(found) < 0.26, name
        assert 0.34 < max(found) < 0.41, name


def test_all_classes_come_and_neither_colour_nor_brightness_tells_them() -> None:
    images = draw(ShapeImages(), 3000, 1, "train", 0)
    share = np.bincount(images.classes, minlength=6) / 3000
    assert np.abs(share - 1 / 6).max() < 0.03
    border = images.pixels[:, :, 0].mean((1, 2))
    by_class = [border[images.classes == number].mean() for number in range(6)]
    assert np.ptp(by_class) < 0.02


# Learning


def test_it_learns() -> None:
    changes = {"model": {"pooling": "mean", "width": 32}, "train": {"steps": 160, "batch": 32, "learning_rate": 3e-3}}
    experiment = KIND.build(scenario(**changes))
    assert experiment.evaluate()["val_accuracy"] < 0.75
    for _ in range(160):
        experiment.step()
    assert experiment.evaluate()["val_accuracy"] > 0.9


def test_the_loss_is_the_cross_entropy_of_the_images_of_this_step() -> None:
    experiment = KIND.build(scenario())
    images = draw(experiment.scenario.data, 16, 4, "train", 1)
    with torch.no_grad():
        logits = experiment.model(torch.from_numpy(images.pixels) * 2 - 1)
    wanted = torch.from_numpy(images.classes)
    said = experiment.step()
    assert said["loss"] == pytest.approx(float(F.cross_entropy(logits, wanted)), rel=1e-5)
    assert said["accuracy"] == pytest.approx(float((logits.argmax(-1) == wanted).float().mean()))


@pytest.mark.parametrize("changes", [{"train": {"accumulate": 4}}, {"compute": {"threads": 2, "thread_mode": "batch"}}])
def test_a_batch_in_parts_is_the_batch(changes: dict[str, Any]) -> None:
    whole, parted = KIND.build(scenario()), KIND.build(scenario(**changes))
    for _ in range(3):
        one, other = whole.step(), parted.step()
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-4)
        assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-3)
    torch.set_num_threads(1)


@pytest.mark.evidence
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_two_halves_in_two_processes_are_the_whole_bit_for_bit(dropout: float, tmp_path: Path) -> None:
    settings = scenario(model={"dropout": dropout})
    whole = KIND.build(settings)
    for _ in range(8):
        whole.step()
    program = (
        "import sys, torch\n"
        "from txlab.experiments.kinds.image_classification import KIND, ImageScenario\n"
        "experiment = KIND.build(ImageScenario.model_validate_json(sys.argv[1]))\n"
        "[experiment.step() for _ in range(4)]\n"
        "experiment.evaluate(), experiment.frame()\n"
        "torch.save(experiment.state_dict(), sys.argv[2])\n"
    )
    path = tmp_path / "state.pt"
    subprocess.run([sys.executable, "-c", program, settings.model_dump_json(), str(path)], check=True)
    half = KIND.build(settings)
    half.load_state_dict(torch.load(path, weights_only=True))
    assert half.step_count == 4
    for _ in range(4):
        half.step()
    assert_same_bits(weights(half), weights(whole))


def test_looking_changes_nothing() -> None:
    watched, alone = KIND.build(scenario(model={"dropout": 0.1})), KIND.build(scenario(model={"dropout": 0.1}))
    for _ in range(4):
        watched.evaluate(), watched.frame(), watched.samples(), watched.facts()
        watched.step(), alone.step()
    assert_same_bits(weights(watched), weights(alone))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_update_that_is_not_finite_leaves_every_bit_where_it_was(value: float) -> None:
    experiment = KIND.build(scenario())
    experiment.step()
    experiment.model.head.register_full_backward_hook(lambda module, into, out: (into[0] * value,))
    before = weights(experiment)
    with pytest.raises(NotFinite, match="step 2: the gradient of"):
        experiment.step()
    assert_same_bits(weights(experiment), before)
    assert experiment.step_count == 1


def test_a_device_that_tells_late_refuses_all_updates_after_the_bad_one() -> None:
    """The way of a GPU, on the CPU: no metric is read back, the flag goes to fused AdamW, verify() tells."""
    late, prompt = KIND.build(scenario()), KIND.build(scenario())
    late.checks_async = True
    for _ in range(3):
        metrics, wanted = late.step(), prompt.step()
        assert isinstance(metrics["loss"], torch.Tensor)
        assert {name: float(value) for name, value in metrics.items()} == pytest.approx(wanted, rel=1e-4)
    late.verify()
    before = weights(late)
    late.model.head.register_full_backward_hook(lambda module, into, out: (into[0] * float("inf"),))
    for _ in range(3):
        late.step()
    assert_same_bits(weights(late), before)
    with pytest.raises(NotFinite, match="step 4: the gradient of"):
        late.verify()
    assert late.step_count == 3


# Looking


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_a_frame_shows_what_the_model_does_with_its_image(pooling: str) -> None:
    experiment = KIND.build(scenario(model={"pooling": pooling}))
    experiment.step()
    frame = experiment.frame()
    T = 16 + (pooling == "class")
    assert frame.facts["mask"] == "none"
    assert frame.texts["probe"] == f"an image of a {frame.facts['is']}, taken for a {frame.facts['said']}"
    assert len(frame.tokens["probe"]) == T
    image = torch.as_tensor(frame.tensors["image"])
    assert image.shape == (3, 16, 16)
    hooks, kept = keeping("blocks.*.pattern")
    with torch.no_grad():
        pixels = torch.from_numpy(draw(experiment.scenario.data, 1, 4, "probe", 0).pixels) * 2 - 1
        said = experiment.model(pixels, hooks=hooks).softmax(-1)[0]
    assert torch.allclose(torch.as_tensor(frame.tensors["class/probability"]), said, atol=1e-6)
    patterns = torch.cat([kept[f"blocks.{layer}.attention.pattern"] for layer in range(2)])
    assert torch.allclose(torch.as_tensor(frame.tensors["attention/pattern"]).float(), patterns, atol=1e-3)
    names, p = frame.tokens["next"], torch.as_tensor(frame.tensors["next/probability"])
    assert p.shape == (T, 2)
    by_name = [dict(zip(names[2 * i : 2 * i + 2], p[i].tolist(), strict=True)) for i in range(T)]
    shapes = experiment.scenario.data.shapes
    if pooling == "class":  # what the class token says is the answer
        assert [by_name[0][name] for name in shapes] == pytest.approx(said.tolist(), abs=1e-6)
    else:  # the logits of the image are the mean of the patches' own
        votes = torch.tensor([[row[name] for name in shapes] for row in by_name]).log()
        assert torch.allclose((votes[:, 0] - votes[:, 1]).mean(), (said[0] / said[1]).log(), atol=1e-5)
    arrays = {name: torch.as_tensor(tensor).numpy() for name, tensor in frame.tensors.items()}
    told = explain_attention(replace(frame, tensors=arrays), "attention/pattern", (1, 0, 2, 3))
    assert told.result == pytest.approx(float(patterns[1, 0, 2, 3]), abs=1e-5)


def test_facts_are_json_and_count_what_is_there() -> None:
    experiment = KIND.build(scenario())
    facts = json.loads(json.dumps(experiment.facts()))
    assert facts["parameters"] == sum(parameter.numel() for parameter in experiment.model.parameters())
    assert (facts["unit"], facts["units_per_step"]) == ("images", 16)
    assert facts["validation_images"] == 48


# What a user may change, and what belongs together


def test_user_changes_are_restored() -> None:
    experiment = KIND.build(scenario())
    experiment.adjust("dropout", 0.3)
    experiment.adjust("weight_decay", 0.7)
    experiment.adjust("lr", 1e-3)
    other = KIND.build(scenario())
    other.load_state_dict(experiment.state_dict())
    assert {name: each.value for name, each in other.adjustable().items()} == experiment.adjusted
    assert other.model.dropout.p == 0.3
    assert [group["weight_decay"] for group in other.optimizers[0].param_groups] == [0.7, 0.0]
    with pytest.raises(LabError, match="nearest: dropout"):
        experiment.adjust("drop_out", 0.1)


def test_a_checkpoint_of_another_shape_is_refused_with_an_error() -> None:
    state = KIND.build(scenario()).state_dict()
    for changes, words in (
        ({"width": 32}, "does not fit"),
        ({"pooling": "mean"}, "does not fit"),
        ({"layers": 3}, "lacks"),
    ):
        with pytest.raises(LabError, match=words):
            KIND.build(scenario(model=changes)).load_state_dict(state)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"patch": 5}}, "16 is not a multiple of 5"),
        ({"model": {"heads": 3}}, "16 is not a multiple of 3"),
        ({"data": {"shapes": ["circle", "circle"]}}, "must not name one twice"),
        ({"data": {"smallest": 0.5, "largest": 0.3}}, "0.5 is above 0.3"),
        ({"data": {"image": 512}, "model": {"patch": 1}}, "more than 1024 patches"),
    ],
)
def test_a_scenario_that_cannot_be_says_so(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        scenario(**changes)


def test_a_batch_has_64_images_also_where_the_rest_of_train_is_given() -> None:
    assert ImageScenario().train.batch == ImageScenario.model_validate({"train": {"steps": 5}}).train.batch == 64


def test_the_probe_decides_all_that_is_open_and_says_why() -> None:
    asked = scenario(
        compute={"dtype": "auto", "attention": "auto", "threads": 0, "thread_mode": "auto", "device": "auto"}
    )
    decided = KIND.resolve(asked)
    assert "auto" not in decided.compute.model_dump().values()
    assert decided.compute.threads >= 1
    experiment = KIND.build(decided)
    assert sum("chosen" in why for why in experiment.facts()["compute"]["why"]) == 1
    assert KIND.resolve(decided) is decided
    torch.set_num_threads(1)


def test_the_registry_knows_the_kind_without_torch() -> None:
    assert kind_named("image-classification").schema is ImageScenario
    program = "import sys, txlab.experiments.kinds.image_classification; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_run_continues_from_its_checkpoint_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    settings = scenario(train={"steps": 12}, record={"checkpoint_every": 6, "evaluate_every": 4, "frame_every": 3})
    (tmp_path / "small.toml").write_text(dump_scenario(settings))
    run = RunDirectory(prepare(load_scenario(tmp_path / "small.toml"), root=tmp_path / "runs"))
    assert execute(run.path).status == "done"
    whole = checkpoints.load(run, 12)
    assert execute(run.path, rewind_to=6).status == "done"
    again = checkpoints.load(run, 12)
    assert_same_bits(whole["model"], again["model"])
    for name, moments in whole["optimizer"].items():
        assert_same_bits(moments, again["optimizer"][name])
    frame = FrameIndex(run.frames)
    frame.refresh()
    assert frame.read(12).tensors["image"].shape == (3, 16, 16)
