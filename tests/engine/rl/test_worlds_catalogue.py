"""The worlds of the literature give the literature's numbers, by a value iteration written here and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.engine.rl.process import Process, check
from txlab.engine.rl.worlds import load_worlds, shipped_maps, world_named, worlds
from txlab.engine.rl.worlds.baird import BEHAVIOUR, TARGET, WEIGHTS, features
from txlab.engine.rl.worlds.corridor import value
from txlab.engine.rl.worlds.frozen_lake import KNOWN, lake
from txlab.errors import LabError


def values(process: Process, discount: float | None = None, policy: np.ndarray | None = None) -> np.ndarray:
    """V* by value iteration, or V of a policy (S, A), to 1e-10."""
    discount = process.discount if discount is None else discount
    v = np.zeros(process.size)
    for _ in range(20_000):
        back = process.probability * (process.reward + discount * np.where(process.done, 0.0, v[process.next]))
        q = np.bincount(process.pair, back, minlength=len(process.first) - 1).reshape(process.size, -1)
        new = np.where(process.allowed, q, -np.inf).max(axis=1) if policy is None else (policy * q).sum(axis=1)
        new = np.where(process.terminal, 0.0, new)
        if abs(new - v).max() < 1e-10:
            return new
        v = new
    raise AssertionError("does not converge")


def even(process: Process) -> np.ndarray:
    return process.allowed / np.maximum(process.allowed.sum(axis=1, keepdims=True), 1)


def from_start(process: Process, v: np.ndarray) -> float:
    return float(process.start @ v)


def test_gridworld_has_the_values_of_figures_3_2_and_3_5() -> None:
    process = world_named("gridworld").process
    random = values(process, policy=even(process)).reshape(5, 5).round(1)
    assert random[0].tolist() == [3.3, 8.8, 4.4, 5.3, 1.5]
    assert random[4].tolist() == [-1.9, -1.3, -1.2, -1.4, -2.0]
    assert values(process).reshape(5, 5).round(1)[0].tolist() == [22.0, 24.4, 22.0, 19.4, 17.5]


def test_the_corners_have_the_values_of_figure_4_1() -> None:
    process = world_named("gridworld-corners").process
    v = values(process, policy=even(process)).reshape(4, 4).round(6)
    assert v[0].tolist() == [0, -14, -20, -22]
    assert v[1].tolist() == [-14, -18, -20, -20]


def test_four_by_three_has_the_utilities_of_russell_and_norvig() -> None:
    world = world_named("four-by-three")
    v = values(world.process).round(4)
    cells = {tuple(place[1:]): v[s] for s, place in enumerate(world.layout.place.tolist())}
    assert [cells[0, c] for c in range(3)] == [0.8116, 0.8678, 0.9178]
    assert [cells[1, c] for c in (0, 2)] == [0.7616, 0.6603]
    assert [cells[2, c] for c in range(4)] == [0.7053, 0.6553, 0.6114, 0.3879]
    assert (1, 1) not in cells


@pytest.mark.parametrize(("moves", "steps"), [("4", 15), ("king", 7), ("king-stay", 7)])
def test_windy_gridworld_is_crossed_in_the_known_number_of_steps(moves: str, steps: int) -> None:
    process = world_named("windy", moves=moves).process
    assert from_start(process, values(process)) == pytest.approx(-steps, abs=1e-9)


def test_stochastic_wind_varies_where_there_is_wind_and_nowhere_else() -> None:
    world = world_named("windy", moves="king", stochastic=True)
    counts = {column: len(world.process.outcomes(world.layout.state_at(4, column), 2)) for column in range(10)}
    assert counts == {column: 3 if 3 <= column <= 8 else 1 for column in range(10)}


def test_cliff_walking_is_13_steps_and_64_709_on_ice() -> None:
    plain, ice = (world_named("cliff", slippery=slippery).process for slippery in (False, True))
    assert plain.limit == ice.limit == 0
    assert from_start(plain, values(plain)) == pytest.approx(-13, abs=1e-9)
    assert from_start(ice, values(ice)) == pytest.approx(-64.709, abs=5e-4)


def test_frozen_lake_has_its_known_values() -> None:
    process = world_named("frozen-lake").process
    assert from_start(process, values(process)) == pytest.approx(14 / 17, abs=1e-7)
    assert from_start(process, values(process, 0.99)) == pytest.approx(0.5420, abs=5e-5)
    assert from_start(process, values(process, policy=even(process))) == pytest.approx(0.01394, abs=5e-6)
    eight = world_named("frozen-lake-8").process
    assert from_start(eight, values(eight)) == pytest.approx(1.0, abs=1e-6)
    assert (process.limit, eight.limit) == (100, 200)


def test_taxi_is_worth_7_93_on_average() -> None:
    process = world_named("taxi").process
    assert from_start(process, values(process)) == pytest.approx(7.93, abs=1e-9)
    assert (process.start > 0).sum() == 300


def test_the_gambler_plays_boldly() -> None:
    process = world_named("gambler").process
    v = values(process)
    assert v[[25, 50, 75]] == pytest.approx([0.16, 0.4, 0.64], abs=1e-9)
    assert v[1] == pytest.approx(0.0020656, abs=5e-8)


def test_car_rental_has_laws_that_sum_to_one_and_the_value_after_one_day() -> None:
    """The value iteration of a million outcomes takes seconds; one day from an empty place can be reckoned by hand."""
    process = world_named("car-rental").process
    check(process)
    nobody = process.outcomes(0, 5)  # no cars, none moved: nothing is rented, and Poisson(3), Poisson(2) come back
    assert nobody[0].probability == pytest.approx(np.exp(-5))
    assert {each.reward for each in nobody} == {0.0}
    one = process.outcomes(1 * 21, 5)  # one car at the first place: rented unless there is no request
    assert one[0].reward == pytest.approx(10 * (1 - np.exp(-3)))
    assert process.outcomes(20 * 21, 10)[0].reward == pytest.approx(
        10 * sum(min(n, 15) * poisson(3, n) for n in range(80))
        + 10 * sum(min(n, 5) * poisson(4, n) for n in range(80))
        - 10
    )
    assert process.allowed[0].tolist() == [False] * 5 + [True] + [False] * 5


def poisson(mean: float, n: int) -> float:
    return float(np.exp(-mean + n * np.log(mean) - sum(np.log(k) for k in range(1, n + 1))))


@pytest.mark.parametrize(("name", "expected"), [("walk-5", np.arange(1, 6) / 6), ("walk-19", np.arange(-9, 10) / 10)])
def test_the_walks_have_the_values_of_the_even_policy(name: str, expected: np.ndarray) -> None:
    process = world_named(name).process
    assert values(process, policy=even(process))[1:-1] == pytest.approx(expected, abs=1e-7)
    assert process.start.argmax() == len(expected) // 2 + 1


def test_the_corridor_is_best_walked_by_a_coin_that_cannot_see() -> None:
    process = world_named("corridor").process
    assert process.observation is not None
    assert len(set(process.observation.tolist())) == 1
    for right in (0.3, 2 - 2**0.5, 0.8):
        v = values(process, policy=np.tile([1 - right, right], (4, 1)))
        assert from_start(process, v) == pytest.approx(value(right), abs=1e-6)
    assert max(value(p) for p in np.linspace(0.05, 0.95, 91)) == pytest.approx(-11.66, abs=0.01)


def test_bias_has_noise_where_the_book_has_normal_rewards() -> None:
    process = world_named("bias").process
    assert process.noise is not None
    assert process.allowed.sum(axis=1).tolist() == [2, 10, 0]
    assert {(o.reward, o.noise, o.done) for a in range(10) for o in process.outcomes(1, a)} == {(-0.1, 1.0, True)}
    assert {o.noise for a in range(2) for o in process.outcomes(0, a)} == {0.0}
    assert values(process).tolist() == [0.0, -0.1, 0.0]


def test_bairds_expected_updates_give_the_known_weights() -> None:
    """S&B figure 11.2, dynamic programming: w ← w + α/7 Σₛ (E_π[r + γ xᵀw′] − xᵀw) x, α = .01, 1000 sweeps."""
    process, X, w = world_named("baird").process, features(), WEIGHTS.copy()
    assert process.discount == 0.99
    # Behaviour leads evenly to every state, the target always to the last.
    law = np.zeros((7, 2, 7))
    np.add.at(law.reshape(14, 7), (process.pair, process.next), process.probability)
    assert (BEHAVIOUR @ law[0]) == pytest.approx(np.full(7, 1 / 7))
    assert (TARGET @ law[3]).tolist() == [0, 0, 0, 0, 0, 0, 1]
    for _ in range(1000):
        v = X @ w
        w = w + 0.01 / 7 * (0.99 * np.einsum("a,saz,z->s", TARGET, law, v) - v) @ X
    assert w[:6] == pytest.approx([114.4] * 6, abs=0.05)
    assert w[6:] == pytest.approx([6.9, 335.0], abs=0.05)


@pytest.mark.parametrize("name", worlds())
def test_every_world_is_a_process_with_a_place_for_each_state(name: str) -> None:
    world = world_named(name)
    process, layout = world.process, world.layout
    check(process)
    assert world.title
    assert world.source
    assert layout.place.shape == (process.size, 3)
    assert len({tuple(place) for place in layout.place.tolist()}) == process.size
    assert (layout.place >= 0).all()
    assert (layout.place < (len(layout.layers), layout.height, layout.width)).all()
    assert layout.state_at(*layout.place[-1, 1:].tolist(), layer=int(layout.place[-1, 0])) == process.size - 1
    assert all(not outcome_without_end for outcome_without_end in process.terminal[process.next] & ~process.done)


@pytest.mark.parametrize(("size", "frozen"), [(2, 0.0), (7, 0.1), (12, 0.5), (30, 0.8), (64, 0.6)])
def test_a_lake_of_chance_is_the_same_for_its_seed_and_can_be_crossed(size: int, frozen: float) -> None:
    assert lake(size, 3, frozen) == lake(size, 3, frozen)
    assert size < 7 or lake(size, 3, frozen) != lake(size, 4, frozen)
    world = world_named("frozen-lake", size=size, seed=3, frozen=frozen, slippery=False)
    assert world.process.size == size * size
    assert from_start(world.process, values(world.process)) == 1.0
    assert any("H" in row for row in lake(size, 3, frozen))


def test_without_a_seed_the_known_lakes_are_meant() -> None:
    for size, rows in KNOWN.items():
        drawn = world_named("frozen-lake", size=size).map
        assert drawn is not None
        assert drawn.rows == rows


def test_the_maps_to_play_in_are_found_by_either_name() -> None:
    assert 6 <= len(shipped_maps()) <= 12
    assert not set(shipped_maps()) & set(load_worlds())
    for name, named in shipped_maps().items():
        assert named.title
        assert world_named(f"maps/{name}").process.size == world_named(name).process.size


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("clif", {}, "nearest: cliff"),
        ("maps/cliff", {}, "is not a world"),
        ("../cliff", {}, "is not a world"),
        ("\x1b[2J", {}, r"\x1b"),
        ("cliff", {"slipery": True}, "nearest: slippery"),
        ("cliff", {"slippery": 1}, "true or false"),
        ("taxi", {"size": 4}, "it has none"),
        ("windy", {"moves": "kings"}, "nearest: king"),
        ("frozen-lake", {"size": 10_000}, "2 to 64"),
        ("frozen-lake", {"size": True}, "a whole number"),
        ("frozen-lake", {"frozen": float("nan")}, "from 0 to 1"),
        ("gambler", {"capital": 1}, "from 2 to 200"),
        ("gambler", {"heads": "half"}, "a number from 0 to 1"),
    ],
)
def test_what_is_not_possible_is_reported(name: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(LabError) as caught:
        world_named(name, **options)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()
