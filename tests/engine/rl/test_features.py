"""Features: what a linear unit sees of a state (MATH M4)."""

import numpy as np
import pytest

from txlab.engine.rl.features import Features, aggregate, radial, tabular, tile
from txlab.errors import LabError


def test_tables_and_groups_have_one_feature_a_state() -> None:
    assert tabular(4).number is not None
    assert tabular(4).number.tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]
    groups = aggregate(1000, 10)
    assert np.bincount(groups.number).tolist() == [100] * 10  # type: ignore[arg-type]
    assert radial(9, 4).number is None
    assert Features(np.eye(3) * 2).number is None


def test_radial_bumps_and_tiles_sum_alike_in_every_state() -> None:
    assert radial(19, 6, 0.7).matrix.sum(axis=1) == pytest.approx(np.ones(19))
    tiles = tile(20, 4, 5).matrix
    assert set(np.unique(tiles)) == {0, 1}
    assert tiles.sum(axis=1).tolist() == [5] * 20
    assert (tiles[:-1] != tiles[1:]).any(axis=1).sum() > 4, "tilings that are not shifted cut at the same places"


def test_each_tiling_is_shifted_by_a_further_nth_of_a_tile_s_length() -> None:
    """20 states, 4 tiles of 5, 5 tilings: tiling k cuts where (s + k) is a multiple of 5, so that each of the states is
    the first of a tile in exactly one of them."""
    tiles = tile(20, 4, 5).matrix.reshape(20, 5, 5)  # state, tiling, tile
    for k in range(5):
        number = tiles[:, k].argmax(axis=1)
        assert (np.flatnonzero(np.diff(number)) + 1).tolist() == [s for s in range(1, 20) if (s + k) % 5 == 0]


@pytest.mark.parametrize("features", [tabular(9), aggregate(9, 2), radial(9, 4), tile(9, 3, 2)])
def test_the_first_values_are_what_was_asked_for(features: Features) -> None:
    w = features.weights(0.5)[:, None]
    assert features.values(w)[:, 0] == pytest.approx([0.5] * 9)


def test_features_of_unequal_sums_begin_at_zero_or_not_at_all() -> None:
    uneven = Features(np.array([[1.0, 0.0], [1.0, 1.0]]), "uneven")
    assert uneven.weights(0.0).tolist() == [0, 0]
    with pytest.raises(LabError, match="uneven"):
        uneven.weights(0.5)
