"""Worlds and Gymnasium: the same tables, theirs as ours, ours as theirs, and learning where there are no tables."""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from sampled_process import SampledProcess

from txlab.engine.rl.environment import Environment, Numbering
from txlab.engine.rl.gymnasium_adapter import (
    NoTables,
    adapt_environment,
    as_environment,
    from_gymnasium,
    repeats,
    stepped_world,
)
from txlab.engine.rl.gymnasium_environment import SpaceNumbers
from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.process import Outcome
from txlab.engine.rl.world import World
from txlab.engine.rl.worlds import load_worlds, world_named
from txlab.errors import LabError, RunFailed

pytestmark = pytest.mark.evidence

Law = dict[tuple[Any, float, bool], float]


def law(rows: list[tuple[float, Any, float, bool]]) -> Law:
    """{(next, reward, done): probability}, equal outcomes joined."""
    found: Law = {}
    for p, to, reward, done in rows:
        found[to, float(reward), bool(done)] = found.get((to, float(reward), bool(done)), 0.0) + p
    return found


def ours(outcomes: list[Outcome], name: Any) -> Law:
    return law([(o.probability, name(o.next), o.reward, o.done) for o in outcomes])


@pytest.mark.parametrize(
    ("id", "world", "left_out"),
    [
        ("FrozenLake-v1", world_named("frozen-lake"), "GH"),
        ("FrozenLake8x8-v1", world_named("frozen-lake-8"), "GH"),
        ("CliffWalking-v1", world_named("cliff"), "GC"),
        ("CliffWalkingSlippery-v1", world_named("cliff", slippery=True), "GC"),
    ],
)
def test_the_tables_are_gymnasiums_own(id: str, world: World, left_out: str) -> None:
    """Every cell except those in which an episode is over (Gymnasium's continues) and the cliff (which is never
    occupied)."""
    inner = gymnasium.make(id).unwrapped
    width = world.layout.width
    names = {"FrozenLakeEnv": ["left", "down", "right", "up"]}.get(
        type(inner).__name__, ["up", "right", "down", "left"]
    )

    def number(s: int) -> int:
        return int(world.layout.place[s, 1] * width + world.layout.place[s, 2])

    compared = 0
    for s in range(world.process.size):
        if world.layout.marks.get(tuple(world.layout.place[s, 1:].tolist())) in tuple(left_out):
            assert world.process.terminal[s]
            continue
        for a, name in enumerate(names):
            mine = ours(world.process.outcomes(s, world.process.actions.index(name)), number)
            theirs = law(inner.P[number(s)][a])
            assert mine.keys() == theirs.keys()
            assert mine == pytest.approx(theirs, abs=1e-15)
            compared += 1
    cells = world.layout.height * width
    assert compared == 4 * (cells - sum(sign in left_out for sign in world.layout.marks.values()))
    spread = np.zeros(len(inner.initial_state_distrib))
    for s in np.flatnonzero(world.process.start):
        spread[number(s)] = world.process.start[s]
    assert spread.tolist() == inner.initial_state_distrib.tolist()
    assert world.process.limit == (gymnasium.make(id).spec.max_episode_steps or 0)


def test_the_taxi_is_gymnasiums_own() -> None:
    inner, world = gymnasium.make("Taxi-v4").unwrapped, world_named("taxi")
    for s in range(500):
        if s % 20 // 4 == s % 4:  # the passenger is where they want to be: over, or it cannot come about
            assert world.process.terminal[s]
            continue
        for a in range(6):
            assert ours(world.process.outcomes(s, a), int) == law(inner.P[s][a])
    assert world.process.start == pytest.approx(inner.initial_state_distrib, abs=1e-15)


@pytest.mark.parametrize("name", load_worlds())
def test_every_world_is_an_environment_of_gymnasiums(name: str) -> None:
    environment = as_environment(world_named(name), "ansi")
    check_env(environment, skip_render_check=True)
    environment.reset(seed=1)
    picture = environment.render()
    assert isinstance(picture, str)
    assert picture.count("@") == 1


def test_an_episode_there_is_an_episode_here() -> None:
    world = world_named("frozen-lake")
    environment = as_environment(world)
    rng = np.random.default_rng(0)
    ends, lengths = set(), []
    for seed in range(200):
        state, info = environment.reset(seed=seed)
        assert (state, info["probability"]) == (0, 1.0)
        for step in range(1, 102):
            action = int(rng.integers(4))
            then, reward, terminated, truncated, info = environment.step(action)
            may = {(o.next, o.reward, o.done): o.probability for o in world.process.outcomes(state, action)}
            assert info["probability"] == may[then, reward, terminated]
            assert info["action_mask"].tolist() == [int(not terminated)] * 4
            state = then
            if terminated or truncated:
                ends.add((terminated, truncated))
                lengths.append(step)
                break
    assert max(lengths) <= 100
    assert (True, False) in ends


def test_an_episode_is_cut_off_at_the_limit_and_not_ended() -> None:
    world = compile_map(parse_map("limit: 3\n\nS..G"))
    environment = as_environment(world)
    environment.reset(seed=0)
    assert [environment.step(3)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    environment.reset(seed=0)
    assert [environment.step(1)[2:4] for _ in range(3)] == [(False, False), (False, False), (True, False)]


def test_what_cannot_be_done_changes_nothing_and_the_mask_says_so() -> None:
    environment = as_environment(world_named("bias"))
    state, info = environment.reset(seed=0)
    assert info["action_mask"].tolist() == [1, 1] + [0] * 8
    assert environment.step(5)[:3] == (state, 0.0, False)


def test_rewards_with_noise_are_normal_there_too() -> None:
    environment = as_environment(world_named("bias"))
    rewards = []
    environment.reset(seed=0)
    for _ in range(3000):
        environment.reset()
        environment.step(0)
        rewards.append(environment.step(4)[1])
    assert np.mean(rewards) == pytest.approx(-0.1, abs=0.08)
    assert np.std(rewards) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("id", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_their_tables_are_a_world_of_ours(id: str) -> None:
    world = from_gymnasium(id)
    inner = gymnasium.make(id).unwrapped
    for s in np.flatnonzero(~world.process.terminal):
        for a in range(world.process.choices):
            assert ours(world.process.outcomes(int(s), a), int) == law(inner.P[s][a])
    assert world.process.terminal.sum() == {"FrozenLake-v1": 5, "CliffWalking-v1": 1, "Taxi-v4": 4}[id]
    assert world.name == f"gymnasium:{id}"


class Broken(gymnasium.Env[Any, Any]):
    """An environment with whatever table it is given."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, P: Any, start: Any = (1.0, 0.0)) -> None:
        self.P = P
        if start is not None:
            self.initial_state_distrib = start

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        rows = self.P[self.at][action]
        _, self.at, reward, over = rows[self.np_random.choice(len(rows), p=[row[0] for row in rows])]
        return self.at, reward, over, False, {}


GOOD = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}


@pytest.mark.parametrize(
    ("P", "start", "said"),
    [
        (GOOD, None, "initial_state_distrib"),
        (None, (1.0, 0.0), "P, its table"),
        ({0: {0: [(0.7, 1, 1.0, True)]}, 1: {0: []}}, (1.0, 0.0), "sum to 0.7"),
        ({0: {0: [(1.0, 7, 1.0, True)]}, 1: {0: []}}, (1.0, 0.0), "state 7, which does not exist"),
        ({0: {0: [(1.0, 1, float("nan"), True)]}, 1: {0: []}}, (1.0, 0.0), "a reward is nan"),
        ({0: {0: [(1.0, 1)]}, 1: {0: []}}, (1.0, 0.0), "a table P that is none"),
        ({0: "what", 1: 3}, (1.0, 0.0), "a table P that is none"),
        (GOOD, (0.5, 0.2), "sum to 1"),
        (GOOD, (float("nan"), float("nan")), "sum to 1"),
        ({}, (), "0 states"),
    ],
)
def test_a_table_that_is_wrong_is_refused(P: Any, start: Any, said: str) -> None:
    with pytest.raises(LabError) as caught:
        from_gymnasium(Broken(P, start))
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_table_that_is_right_is_read() -> None:
    world = from_gymnasium(Broken(GOOD))
    assert world.process.terminal.tolist() == [False, True]


@pytest.mark.parametrize("options", [{}, {"is_rainy": True}])
def test_a_taxi_that_follows_its_table_is_a_world(options: dict[str, Any]) -> None:
    assert from_gymnasium("Taxi-v4", **options).process.size == 500


def test_a_taxi_with_a_fickle_passenger_is_refused_for_its_table_knows_nothing_of_that() -> None:
    with pytest.raises(
        NoTables, match=r"Taxi-v4 does not follow its table P: from state \d+ action . led to.*stepping"
    ):
        from_gymnasium("Taxi-v4", fickle_passenger=True)
    assert adapt_environment("Taxi-v4", fickle_passenger=True).size == 500


COIN = {0: {0: [(0.5, 0, 0.0, False), (0.5, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}


def test_what_happens_much_more_often_than_a_table_says_is_noticed() -> None:
    assert from_gymnasium(Broken(COIN)).process.size == 2
    told, done = Broken(COIN), Broken({**COIN, 0: {0: [(0.55, 0, 0.0, False), (0.45, 1, 1.0, True)]}})
    told.step, told.reset = done.step, done.reset  # type: ignore[method-assign]
    with pytest.raises(NoTables, match="much more or less often"):
        from_gymnasium(told)


def test_a_wrapper_that_changes_rewards_is_not_in_the_table_either() -> None:
    lake = gymnasium.make("FrozenLake-v1")
    assert from_gymnasium(lake).process.size == 16
    with pytest.raises(NoTables, match="which is not in it"):
        from_gymnasium(gymnasium.wrappers.TransformReward(lake, lambda reward: reward - 1))


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("FrozenLake-v2", "nearest: FrozenLake-v1"),
        ("os:system", "registered"),
        ("../x", "registered"),
        ("", "registered"),
        ("\x1b[2J", r"\x1b"),
        ("Blackjack-v1", "learnt in by stepping"),
    ],
)
def test_an_id_is_of_what_is_registered_and_imports_nothing(id: str, said: str) -> None:
    with pytest.raises(LabError) as caught:
        from_gymnasium(id)
    assert said in str(caught.value)


def test_without_gymnasium_the_installation_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "txlab.engine.rl.gymnasium_environment", raising=False)
    for make in (
        lambda: as_environment(world_named("cliff")),
        lambda: from_gymnasium("Taxi-v4"),
        lambda: adapt_environment("x"),
    ):
        with pytest.raises(LabError, match=r"pip install 'txlab\[gymnasium\]'"):
            make()


# What can only be stepped


def test_blackjack_can_be_stepped_and_its_observations_are_one_number() -> None:
    cards = adapt_environment("Blackjack-v1")
    assert isinstance(cards, Environment)
    assert (cards.size, cards.actions) == (32 * 11 * 2, ("stick", "hit"))
    inner = gymnasium.make("Blackjack-v1")
    for u in (0.1, 0.6, 0.9):
        (total, dealer, ace), _ = inner.reset(seed=int(u * 2**32))
        assert cards.reset(u) == (total * 11 + dealer) * 2 + ace
        (total, dealer, ace), reward, terminated, _, _ = inner.step(1)
        assert cards.step(1) == ((total * 11 + dealer) * 2 + ace, reward, terminated, False)


def test_a_life_there_is_a_function_of_its_numbers_and_can_be_gone_on_with() -> None:
    for make in (
        lambda: adapt_environment("FrozenLake-v1"),
        lambda: SampledProcess(world_named("frozen-lake").process),
    ):
        one, two = make(), make()
        begin = one.reset(0.37)
        first = [one.step(a) for a in (0, 3, 0)]
        assert two.reset(0.37) == begin
        assert [two.step(a) for a in (0, 3, 0)] == first
        again = make()
        again.load(json.loads(json.dumps(one.state())))
        assert [again.step(a) for a in (3, 0)] == [one.step(a) for a in (3, 0)]


def test_an_environment_that_draws_from_elsewhere_does_not_do_the_same_again() -> None:
    forgetful = Broken(COIN)
    chance = np.random.default_rng(1)
    forgetful.step = lambda action: (int(chance.random() < 0.5), 0.0, False, False, {})  # type: ignore[method-assign]
    environment = adapt_environment(forgetful)
    assert not repeats(environment)
    environment.reset(0.5)
    for _ in range(3):
        environment.step(0)
    state = environment.state() | {"at": 1 - environment.at}  # by luck it may come out at the same state
    forgetful.step = lambda action: (environment.at, 0.0, False, False, {})  # type: ignore[method-assign]
    with pytest.raises(LabError, match="same seed and the same actions, so a run in it cannot be resumed bit for bit"):
        environment.load(state)
    assert repeats(adapt_environment("Blackjack-v1"))


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (lambda: 1 / 0, "cannot be stepped: ZeroDivisionError: division by zero"),
        (lambda: (None, 0.0, False, False, {}), "cannot be stepped: TypeError"),
        (lambda: (0, 0.0, False, {}), "cannot be stepped: ValueError"),
        (lambda: (0, float("nan"), False, False, {}), "a reward of nan"),
        (lambda: (7, 0.0, False, False, {}), "an observation of 7 is outside"),
    ],
)
def test_a_faulty_environment_is_a_readable_error(happens: Any, said: str) -> None:
    broken = Broken(COIN)
    broken.step = lambda action: happens()  # type: ignore[method-assign]
    environment = adapt_environment(broken)
    environment.reset(0.5)
    with pytest.raises(RunFailed, match=f"Broken.*{said}"):
        environment.step(0)
    broken.reset = lambda **_: happens()  # type: ignore[method-assign]
    with pytest.raises(RunFailed, match=r"Broken"):
        adapt_environment(broken).reset(0.5)


def test_an_environment_that_does_not_repeat_is_refused_before_anything_is_learnt_in_it() -> None:
    chance = np.random.default_rng(1)

    class Forgetful(Broken):
        def __init__(self) -> None:
            super().__init__(COIN)

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return int(chance.random() < 0.5), 0.0, False, False, {}

    gymnasium.register("txlab/Forgetful-v0", Forgetful, disable_env_checker=True)
    try:
        with pytest.raises(LabError, match="txlab/Forgetful-v0 did not do the same again"):
            stepped_world("txlab/Forgetful-v0")
    finally:
        del gymnasium.registry["txlab/Forgetful-v0"]


def test_a_sampled_process_happens_as_often_as_its_probabilities_say() -> None:
    process = world_named("four-by-three").process
    environment = SampledProcess(process)
    counts: dict[int, int] = {}
    for k in range(2000):
        state = environment.reset(k / 2000)
        then = environment.step(0)
        counts[then.next] = counts.get(then.next, 0) + 1
    may = {o.next: o.probability for o in process.outcomes(state, 0)}
    assert counts.keys() == may.keys()
    for to, p in may.items():
        assert counts[to] / 2000 == pytest.approx(p, abs=4 * (p * (1 - p) / 2000) ** 0.5)


def test_a_sampled_process_ends_and_is_cut_off() -> None:
    environment = SampledProcess(compile_map(parse_map("limit: 3\n\nS..G")).process)
    environment.reset(0.5)
    assert [environment.step(1)[2:] for _ in range(3)] == [(False, False), (False, False), (True, False)]
    environment.reset(0.5)
    assert [environment.step(3)[2:] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(LabError, match="must be reset"):
        environment.step(0)
    with pytest.raises(LabError, match="only some actions"):
        SampledProcess(world_named("bias").process)


def test_numbers_and_their_values_are_a_bijection() -> None:
    numbering = Numbering((3, 1, 4))
    assert [numbering.number(numbering.values(n)) for n in range(12)] == list(range(12))
    assert len({numbering.values(n) for n in range(12)}) == 12
    for values in ([3, 0, 0], [-1, 0, 0]):
        with pytest.raises(LabError, match="outside its space"):
            numbering.number(values)
    with pytest.raises(LabError, match="not possible in a table"):
        Numbering((10_000, 10_000))


def test_discrete_spaces_are_one_number_and_others_are_refused() -> None:
    spaces = gymnasium.spaces
    space = spaces.Tuple(
        [
            spaces.Discrete(3, start=-1),
            spaces.Dict({"a": spaces.MultiBinary(2), "b": spaces.MultiDiscrete([2, 3])}),
        ]
    )
    with pytest.raises(LabError, match="its observation space is empty"):
        SpaceNumbers(spaces.Tuple(()), "observation")
    numbers = SpaceNumbers(space, "observation")
    assert numbers.size == 3 * 4 * 6
    seen = set()
    for n in range(numbers.size):
        sample = numbers.sample(n)
        assert space.contains(sample)
        assert numbers.number(sample) == n
        seen.add(repr(sample))
    assert len(seen) == numbers.size
    for other in (spaces.Box(0, 1), spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1)]), spaces.Text(3)):
        with pytest.raises(LabError, match="not discrete"):
            SpaceNumbers(other, "observation")
    with pytest.raises(LabError, match="too large"):
        SpaceNumbers(spaces.MultiDiscrete([1000, 1000, 1000]), "observation")
