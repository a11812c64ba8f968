"""Images and histograms as a run stores them, from arrays and tensors of any kind."""

from pathlib import Path

import numpy as np
import pytest

import txlab
from txlab.errors import LabError
from txlab.runs.frames import FrameIndex
from txlab.runs.pictures import counts_of, pixels_of


def test_an_image_is_stored_as_bytes_whatever_its_layout_and_range() -> None:
    colour = np.random.default_rng(0).random((5, 7, 3))
    for image in (colour, np.moveaxis(colour, -1, 0), colour.astype(np.float32), np.rint(colour * 255)):
        pixels, _ = pixels_of(image)
        assert np.abs(pixels.astype(int) - np.rint(colour * 255)).max() <= 1
    assert pixels_of(np.array([[-1.0, 3.0]]))[0].tolist() == [[0, 255]]
    assert pixels_of(np.array([[-1.0, 3.0]]))[1] == [-1.0, 3.0]
    assert pixels_of(np.array([[np.nan, 3.0, -np.inf, 1.0]]))[0].tolist() == [[0, 255, 0, 0]]
    assert pixels_of(np.eye(3, dtype=bool))[0].tolist() == (255 * np.eye(3)).tolist()
    assert pixels_of(np.zeros((1200, 30, 4)))[0].shape == (400, 10, 3)


@pytest.mark.parametrize("image", [np.zeros(3), np.zeros((2, 2, 2)), np.zeros((2, 2, 2, 2)), np.zeros((0, 3)), "abc"])
def test_an_invalid_image_is_refused(image: object) -> None:
    with pytest.raises(LabError, match="image"):
        pixels_of(image)


def test_a_histogram_of_a_tensor_counts_what_numpy_counts() -> None:
    torch = pytest.importorskip("torch")
    values = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    values[:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    counts, span = counts_of(values)
    expected, edges = np.histogram(values[3:].numpy(), 64)
    assert np.abs(counts - expected).sum() <= 4  # values on an edge may fall to either side
    assert span == pytest.approx([edges[0], edges[-1], 3])
    assert counts_of(values.numpy())[0].tolist() == expected.tolist()
    assert counts_of(torch.ones(5))[0].sum() == 5
    assert counts_of([torch.nan])[1] == [0, 1, 1]
    with pytest.raises(LabError, match="512 bins"):
        counts_of(values, 0)


def test_everything_recorded_at_one_step_is_in_one_frame(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        run.frame(3, {"x": np.ones(2)}, tokens={"probe": ["a"]})
        run.image(3, "one", np.eye(2))
        run.image(3, "two", np.eye(2))
        run.histogram(3, "weights", np.arange(9))
        run.frame(4, {"x": np.zeros(2)})
    frames = FrameIndex(run.path / "frames")
    frames.refresh()
    assert frames.steps.tolist() == [3, 4]
    frame = frames.read(3)
    assert sorted(frame.tensors) == ["histogram/weights", "image/one", "image/two", "x"]
    assert frame.tokens == {"probe": ["a"]}
    assert sorted(frame.facts["image"]) == ["one", "two"]
    assert frames.names(3) == sorted(frame.tensors)
    assert frames.names(7) == []
