"""Successive pictures of the same vectors: what turns as a whole does not move, what moves moves alone."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.drawing.scatter import Label, ground, scatter, whole
from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.neighbours import unit
from txlab.engine.embeddings.plane import Projection
from txlab.errors import LabError

WORDS = tuple(f"w{number}" for number in range(60))


def cloud(seed: int = 0) -> np.ndarray:
    """60 vectors of width 7, at length 1, most of whose variance is in two directions."""
    return unit(np.random.default_rng(seed).standard_normal((60, 7)) * np.array([5, 3, 1, 1, 1, 0.5, 0.5]) + 1)


def turn(seed: int) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((7, 7)))[0]


def embedding(vectors: np.ndarray, words: tuple[str, ...] = WORDS) -> Embedding:
    return Embedding(words, vectors)


def test_the_first_picture_is_that_of_the_principal_axes() -> None:
    vectors = cloud()
    plane = Projection().lay(embedding(vectors), vectors)
    centred = vectors - vectors.mean(0)
    strengths = np.linalg.svd(centred, compute_uv=False) ** 2
    assert plane.share == pytest.approx(strengths[:2].sum() / strengths.sum())
    assert (plane.points**2).sum() == pytest.approx(strengths[:2].sum())


def test_vectors_that_rotate_as_a_whole_do_not_move_in_the_picture() -> None:
    vectors, projection = cloud(), Projection()
    before = projection.lay(embedding(vectors), vectors).points
    for seed in range(5):
        turned = vectors @ turn(seed)
        assert projection.lay(embedding(turned), turned).points == pytest.approx(before, abs=1e-9)


def test_a_word_that_moves_moves_nearly_alone() -> None:
    vectors, projection = cloud(), Projection()
    before = projection.lay(embedding(vectors), vectors).points
    moved = vectors.copy()
    moved[7] = -moved[7]
    turned = moved @ turn(3)
    shift = np.linalg.norm(projection.lay(embedding(turned), turned).points - before, axis=1)
    others = np.delete(shift, 7)
    assert shift[7] > 10 * others.max()


def test_axes_that_show_too_little_are_replaced_without_turning_the_picture_over() -> None:
    rng = np.random.default_rng(2)
    plain, projection = unit(rng.standard_normal((60, 7))), Projection()
    before = projection.lay(embedding(plain), plain).points
    vectors = plain.copy()
    vectors[:, 5:] *= 8  # two directions that the first axes hardly see
    after = projection.lay(embedding(vectors), vectors)
    strengths = np.sort(np.linalg.svd(vectors - vectors.mean(0), compute_uv=False) ** 2)[::-1]
    assert after.share == pytest.approx(strengths[:2].sum() / strengths.sum())
    flipped = after.points * [1, -1]
    assert np.sum((after.points - before) ** 2) <= np.sum((flipped - before) ** 2)


def test_pictures_of_other_words_are_aligned_by_those_they_share() -> None:
    vectors, projection = cloud(), Projection()
    before = projection.lay(embedding(vectors), vectors).points
    some = (vectors @ turn(1))[10:50][::-1]
    points = projection.lay(embedding(some, WORDS[10:50][::-1]), some).points
    assert points == pytest.approx(before[10:50][::-1], abs=1e-9)


def test_another_width_restarts() -> None:
    projection, wide = Projection(), unit(np.random.default_rng(4).standard_normal((60, 11)))
    vectors = cloud()
    projection.lay(embedding(vectors), vectors)
    assert projection.lay(embedding(wide), wide).points.shape == (60, 2)


def test_axes_named_by_pairs_are_differences_of_words() -> None:
    vectors = cloud()
    plane = Projection([("w1", "w2"), ("w3", "w4")]).lay(embedding(vectors), vectors)
    axis = (vectors[1] - vectors[2]) / np.linalg.norm(vectors[1] - vectors[2])
    assert plane.points[:, 0] == pytest.approx(vectors @ axis)
    with pytest.raises(LabError, match="'w99' has no vector"):
        Projection([("w1", "w99"), ("w3", "w4")]).lay(embedding(vectors), vectors)


def test_a_picture_can_be_placed_without_becoming_the_present_one() -> None:
    vectors, projection = cloud(), Projection()
    before = projection.lay(embedding(vectors), vectors).points
    assert projection.place(embedding(vectors), vectors @ turn(6)) == pytest.approx(before, abs=1e-9)
    other = cloud(5)
    projection.place(embedding(other), other)
    assert projection.lay(embedding(vectors), vectors).points == pytest.approx(before, abs=1e-9)


FLAT = {
    "zeros": np.zeros((60, 7)),
    "all equal": np.tile(unit(np.arange(1.0, 8.0)), (60, 1)),
    "one number": np.ones((60, 1)),
    "not finite": np.full((60, 7), np.nan),
}


@pytest.mark.parametrize("name", FLAT)
def test_vectors_that_do_not_differ_are_one_point(name: str) -> None:
    """As context vectors before the first step, which are zeros."""
    flat, projection = FLAT[name].astype(np.float32), Projection()
    for _ in range(2):
        plane = projection.lay(embedding(flat), flat)
        assert (plane.points.tolist(), plane.share) == (np.zeros((60, 2)).tolist(), 0.0)
        assert projection.place(embedding(flat), flat).tolist() == np.zeros((60, 2)).tolist()
    vectors = cloud().astype(np.float32)
    after = projection.lay(embedding(vectors), vectors)
    assert after.points == pytest.approx(Projection().lay(embedding(vectors), vectors).points)
    assert projection.lay(embedding(flat), flat).points.shape == (60, 2)
    again = projection.lay(embedding(vectors), vectors)
    assert again.points == pytest.approx(after.points, abs=1e-5)
    base = ground(plane.points, whole(plane.points), 10, 20)
    assert scatter(base, labels=[Label(0, "w0")]).inside == 60


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("width", [1, 2, 7])
def test_few_words_and_few_numbers_have_points_in_the_plane(count: int, width: int) -> None:
    vectors = unit(np.random.default_rng(1).standard_normal((count, width)).astype(np.float32))
    words = WORDS[:count]
    for pairs in ((), ((("w0", "w1"), ("w0", "w0")) if count == 2 else ())):
        points = Projection(pairs).lay(embedding(vectors, words), vectors).points
        assert points.shape == (count, 2)
        assert np.isfinite(points).all()
        assert ground(points, whole(points), 4, 9).counts.sum() == count


def test_a_word_whose_vector_is_not_finite_does_not_move_the_others() -> None:
    vectors = cloud()
    broken = vectors.copy()
    vectors[7], broken[7] = 0, np.nan
    points = Projection().lay(embedding(broken), broken).points
    assert points == pytest.approx(Projection().lay(embedding(vectors), vectors).points)
