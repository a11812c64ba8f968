"""Images and histograms in cells: sizes, means, and counts that stay what they are."""

import numpy as np
import pytest

from txlab.drawing.image import histogram_lines, image_lines, image_size, rebin, resize, spread


def test_a_cell_of_half_blocks_has_the_pixel_above_and_the_one_below() -> None:
    image = np.array([[0, 255], [255, 0]], np.uint8)
    black, white = (0, 0, 0), (255, 255, 255)
    assert image_lines(image, 1, 2, "truecolor", True, False) == [[("▀", black, white), ("▀", white, black)]]


@pytest.mark.parametrize("size", [(3, 5), (97, 40), (8, 8), (1, 300), (300, 1)])
@pytest.mark.parametrize("colours", ["truecolor", "256", "16", "none"])
def test_no_picture_is_larger_than_its_room(size: tuple[int, int], colours: str) -> None:
    for image in (np.zeros(size, np.uint8), np.zeros((*size, 3), np.uint8)):
        for ascii in (False, True):
            lines = image_lines(image, 10, 30, colours, True, ascii)  # type: ignore[arg-type]
            assert 1 <= len(lines) <= 10
            widths = {sum(len(text) for text, _, _ in line) for line in lines}
            assert len(widths) == 1
            assert 1 <= widths.pop() <= 30


def test_small_pictures_grow_by_whole_factors_and_keep_their_shape() -> None:
    assert image_size(7, 7, 40, 60) == (35, 35)
    assert image_size(96, 128, 40, 53) == (40, 53)


def test_a_smaller_picture_has_the_means() -> None:
    image = np.arange(36.0).reshape(6, 6)
    assert np.allclose(resize(image, 2, 3), image.reshape(2, 3, 3, 2).mean((1, 3)))


def test_light_is_dense_on_dark_and_thin_on_light() -> None:
    white = np.full((2, 2), 255, np.uint8)
    assert image_lines(white, 1, 2, "none", True, False)[0][0][0].strip("█ ") == ""
    assert image_lines(white, 1, 2, "none", False, False)[0][0][0].strip() == ""


def test_bars_are_as_high_as_their_counts_and_none_is_lost() -> None:
    lines = histogram_lines(np.array([0, 1, 1000, 500]), 4, 4, False)
    assert lines == ["  █ ", "  █ ", "  ██", " ▁██"]
    assert histogram_lines(np.array([0, 1, 1000]), 2, 3, True) == ["  #", " ##"]


def test_counts_keep_their_sum_in_another_range_and_in_fewer_columns() -> None:
    counts = np.random.default_rng(0).integers(0, 50, 64)
    assert spread(counts, 53).sum() == pytest.approx(counts.sum())
    moved = rebin(counts, -1, 1, -3, 2, 40)
    assert moved.sum() == pytest.approx(counts.sum())
    assert moved[:16].sum() == 0  # below −1
    assert rebin(counts, -1, 1, -1, 1, 64) == pytest.approx(counts)
