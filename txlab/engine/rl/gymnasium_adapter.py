"""Conversion between txlab and Gymnasium, both ways.

An environment with tables (`P`, as in FrozenLake, CliffWalking and Taxi) becomes a normal world, for planning and
drawing, provided that it follows its tables: Taxi's fickle passenger is in none. Without tables, learning by stepping
still works. An id names a registered environment, never a module to import.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.engine.rl.environment import OTHERWISE
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.transition_table import process_shell
from txlab.engine.rl.world import Layout, World
from txlab.errors import LabError, nearest, one_line

if TYPE_CHECKING:
    import gymnasium

    from txlab.engine.rl.environment import Environment
    from txlab.engine.rl.gymnasium_environment import SteppedGymnasium

NEEDED = "gymnasium is not installed; `pip install 'txlab[gymnasium]'` brings it"
ONLY_STEPPED = "such an environment can be learnt in by stepping (kind = 'mdp-control'), not planned in"
MOST_STATES = 1_000_000
STEPS = 20_000  # .3 s for a taxi


class NoTables(LabError):
    """The environment has no transition table, or does not follow it."""


def as_environment(world: World, render_mode: str | None = None) -> gymnasium.Env[int, int]:
    """The world as a Gymnasium environment: Discrete spaces, reset(seed), action_mask and probability in info."""
    try:
        from txlab.engine.rl.gymnasium_environment import WorldEnvironment
    except ModuleNotFoundError:
        raise LabError(NEEDED) from None
    return WorldEnvironment(world, render_mode)


def from_gymnasium(environment: gymnasium.Env[Any, Any] | str, **options: Any) -> World:
    """The world of an environment's tables (an environment or its id); stepping it checks that it follows them.

    NoTables where it has none or does something else, LabError for a malformed table.
    """
    made, name = open_environment(environment, options)
    inner: Any = made.unwrapped
    tables, start = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
    if not isinstance(tables, Mapping | Sequence) or start is None:
        lacking = (
            "P, its table of (probability, next, reward, terminated)" if tables is None else "initial_state_distrib"
        )
        raise NoTables(f"{name} does not tell {lacking}; {ONLY_STEPPED}")
    try:
        world = world_of_tables(made, name, tables, np.asarray(start, dtype=np.float64))
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise LabError(f"{name} has a table P that is none: {one_line(error)}") from None
    follows_its_table(made, name, tables)
    return world


def adapt_environment(
    environment: gymnasium.Env[Any, Any] | str, discount: float = 1.0, limit: int = 0, **options: Any
) -> SteppedGymnasium:
    """Any environment with discrete observations and actions, in the form that our learners step."""
    made, name = open_environment(environment, options)
    from txlab.engine.rl.gymnasium_environment import SteppedGymnasium

    return SteppedGymnasium(made, name, discount, limit)


def stepped_world(id: str, discount: float = 1.0, limit: int = 0) -> World:
    """A world in which learners can only step: it has names and a layout, but no probabilities.

    For an observation of several parts, the first is the row, the second the column, and the others are layers.
    """
    environment = adapt_environment(id, discount, limit)
    sizes = environment.observations.numbering.sizes
    height, width, *rest = sizes if len(sizes) > 1 else (-(-sizes[0] // 20), min(sizes[0], 20))
    number = np.arange(environment.size)
    behind = prod(rest)
    place = np.stack([number % behind, number // behind // width, number // behind % width], axis=1)
    layers = [
        ", ".join(f"part {part} is {value}" for part, value in enumerate(values, 3))
        for values in product(*(range(size) for size in rest))
    ]
    notes = [f"{id} does not tell its probabilities: learners step it, an environment each."]
    if not repeats(environment):
        raise LabError(
            f"{id} {OTHERWISE}; a learner is put back into its episode by them when it is evaluated or resumed"
        )
    layout = Layout(height, width, place, tuple(layers))
    return World(
        f"gymnasium:{id}", id, process_shell(environment), layout, f"Gymnasium {id}", notes=tuple(notes),
        environment=lambda: adapt_environment(id, discount, limit),
    )  # fmt: skip


def repeats(environment: Environment, episodes: int = 3, steps: int = 50) -> bool:
    """Whether the same number and the same actions give the same episodes: resuming relies on it."""

    def live() -> list[Any]:
        results: list[Any] = []
        for episode in range(episodes):
            results.append(environment.reset((episode + 0.5) / episodes))
            for step in range(steps):
                results.append(environment.step((step + episode) % len(environment.actions)))
                if results[-1].terminated or results[-1].truncated:
                    break
        return results

    return live() == live()


def follows_its_table(made: Any, name: str, tables: Any) -> None:
    """Step it, in each state by the action tried least often there. NoTables if something happens that is not in the
    table, or happens much more or less often than it says."""
    tried: dict[tuple[int, int], Counter[tuple[int, float, bool]]] = {}
    choices = int(made.action_space.n)
    try:
        state, over = int(made.reset(seed=0)[0]), False
        for _ in range(STEPS):
            if over:
                state = int(made.reset()[0])
            action = min(range(choices), key=lambda a: tried[state, a].total() if (state, a) in tried else 0)
            then, reward, terminated, truncated, _ = made.step(action)
            tried.setdefault((state, action), Counter())[int(then), float(reward), bool(terminated)] += 1
            state, over = int(then), bool(terminated or truncated)
    except Exception as error:  # any exception a third-party environment raises while stepping
        raise LabError(f"{name} cannot be stepped: {one_line(error)}") from None
    chi_squared, freedom = 0.0, 0
    for (s, a), happened in tried.items():
        law: Counter[tuple[int, float, bool]] = Counter()
        for p, to, reward, done in tables[s][a]:
            law[int(to), float(reward), bool(done)] += p  # type: ignore[assignment]
        strange = next((each for each in happened if not law[each]), None)
        if strange is not None:
            then, reward, terminated = strange
            what = f"from state {s} action {a} led to state {then} with reward {reward:g}{', the end' * terminated}"
            raise NoTables(f"{name} does not follow its table P: {what}, which is not in it; {ONLY_STEPPED}")
        wanted = {each: p * happened.total() for each, p in law.items() if p * happened.total() >= 5}
        chi_squared += sum((happened[each] - count) ** 2 / count for each, count in wanted.items())
        freedom += len(wanted)  # one more per pair than the true number, which makes the test more lenient
    if chi_squared > freedom + 8 * sqrt(2 * freedom):
        raise NoTables(
            f"{name} does not follow its table P: in {STEPS} steps things happen much more or less often than it says;"
            f" {ONLY_STEPPED}"
        )


def open_environment(environment: gymnasium.Env[Any, Any] | str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The environment and its name."""
    try:
        import gymnasium
    except ModuleNotFoundError:
        raise LabError(NEEDED) from None
    if not isinstance(environment, str):
        return environment, environment.spec.id if environment.spec else type(environment.unwrapped).__name__
    if not re.fullmatch(r"[\w./-]{1,200}", environment, re.ASCII) or environment not in gymnasium.registry:
        shown = f"{environment[:60]!a}{nearest(environment[:60], gymnasium.registry)}"
        raise LabError(f"gymnasium has no environment {shown}; its id must be of one that is registered")
    try:
        return gymnasium.make(environment, **options), environment
    except Exception as error:  # any exception a third-party environment raises while it is made
        raise LabError(f"gymnasium cannot make {environment}: {one_line(error)}") from None


def world_of_tables(made: Any, name: str, tables: Any, start: np.ndarray) -> World:
    """The checked tables. A state that is reached only at the end of an episode is terminal, whatever its entries."""
    from txlab.engine.rl.gymnasium_environment import action_names

    states = len(tables)
    if not 0 < states <= MOST_STATES:
        raise LabError(f"{name} has {states} states; 1 to {MOST_STATES} are possible")
    choices = int(made.action_space.n)
    listed = {
        (s, a): [Outcome(float(p), int(to), float(reward), bool(done)) for p, to, reward, done in tables[s][a]]
        for s in range(states)
        for a in range(choices)
        if a in tables[s] or not isinstance(tables[s], Mapping)
    }
    for (s, _), outcomes in listed.items():
        for each in outcomes:
            if not 0 <= each.next < states:
                raise LabError(f"{name}: after state {s} comes state {each.next}, which does not exist")
    over = ends_only(listed, start)
    limit = (made.spec.max_episode_steps if made.spec else None) or 0
    layout, names = layout_of(made.unwrapped, states)
    process: Process = compile_process(
        action_names(made, choices),
        names,
        {pair: branches for pair, branches in listed.items() if not over[pair[0]]},
        start,
        limit=limit,
    )
    return World(f"gymnasium:{name}", name, process, layout, f"Gymnasium {name}")


def ends_only(listed: Mapping[tuple[int, int], Sequence[Outcome]], start: np.ndarray) -> np.ndarray:
    """(S) bool: the states in which an episode ends and through which none continues."""
    follows: dict[int, list[Outcome]] = {}
    for (s, _), outcomes in listed.items():
        follows.setdefault(s, []).extend(outcomes)
    entered = start > 0
    ended = np.zeros(len(start), dtype=bool)
    waiting = np.flatnonzero(entered).tolist()
    while waiting:
        for each in follows.get(waiting.pop(), []):
            if each.done:
                ended[each.next] = True
            elif not entered[each.next]:
                entered[each.next] = True
                waiting.append(each.next)
    return ended & ~entered


def layout_of(inner: Any, states: int) -> tuple[Layout, list[str]]:
    """The layout of the states: the taxi's map, the grid that the environment declares, or rows of twenty."""
    from txlab.engine.rl.worlds.taxi import taxi

    if type(inner).__name__ == "TaxiEnv" and states == 500:
        town = taxi()
        return town.layout, list(town.process.states)
    drawn = getattr(inner, "desc", None)
    shape: Any = getattr(drawn, "shape", None) or getattr(inner, "shape", None) or ()
    height, width = map(int, shape) if len(shape) == 2 else (0, 0)
    if height * width != states:
        width = min(states, 20)
        place = [(0, s // width, s % width) for s in range(states)]
        return Layout(-(-states // width), width, np.array(place)), [str(s) for s in range(states)]
    marks = {}
    if drawn is not None:
        signs = [[bytes(sign).decode("ascii", "replace")[:1] for sign in line] for line in drawn]
        marks = {
            (r, c): s for r, line in enumerate(signs) for c, s in enumerate(line) if s.isprintable() and s not in "F."
        }
    cliff = getattr(inner, "_cliff", None)
    if cliff is not None:
        marks = {(int(r), int(c)): "C" for r, c in np.argwhere(cliff)}
        marks |= {(height - 1, 0): "S", (height - 1, width - 1): "G"}
    place = [(0, s // width, s % width) for s in range(states)]
    return Layout(height, width, np.array(place), marks=marks), [f"({r},{c})" for _, r, c in place]
