"""How many of 1000 moves at Connect Four are optimal: by a run's network, by its search, and without a network.

    python benchmarks/connect_four.py RUN [--step N] [--visits 100 400]

The positions are those that no run learns from, and in each of them some move is not optimal: half of them after
uniformly random moves, of 8 to 24 plies, half from self-play (engine/games/connect_four/judged.py). Goal: .95 with 400
visits after at most 30 minutes of processor time. Also printed: PUCT with even priors and random rollouts, and the same
search with the network before its first update. Searches are without noise and choose the move visited most.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import torch
from clock import cpu_seconds

from txlab.engine.games.connect_four.judged import Judged, load_judged
from txlab.engine.games.connect_four.network import Evaluate, PolicyValueNet, Remembered, evaluate
from txlab.engine.games.connect_four.search import Rollouts, Search
from txlab.engine.intervals import share_interval
from txlab.experiments.kinds.connect_four import KIND
from txlab.experiments.kinds.connect_four.experiment import network_of
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.finding import find_run
from txlab.runs.models import scenario_of


def asking(net: PolicyValueNet) -> Evaluate:
    return Remembered(lambda own, both: evaluate(net, own, both))


def search_counts(positions: Judged, ask: Evaluate, visits: int, c: float, tactics: bool = False) -> np.ndarray:
    search = Search(positions.own, positions.both, tactics)
    search.run(ask, visits, c)
    return search.visits().argmax(1)


def players(
    trained: PolicyValueNet, first: PolicyValueNet, visits: list[int], c: float, tactics: bool
) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    for name, net in (("trained network", trained), ("untrained network", first)):
        yield f"{name} alone", lambda net=net: asking(net)(load_judged().own, load_judged().both)[0].argmax(1)
        for number in visits:
            yield (
                f"{name}, {number} visits",
                lambda net=net, n=number: search_counts(load_judged(), asking(net), n, c, tactics),
            )
    for number in visits:
        yield (
            f"rollouts, {number} visits",
            lambda n=number: search_counts(load_judged(), Rollouts(np.random.default_rng(1)), n, c),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--step", type=int, default=0)
    parser.add_argument("--visits", type=int, nargs="*", default=[100, 400])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    run = RunDirectory(find_run(asked.run))
    scenario = KIND.resolve(scenario_of(run))
    step = asked.step or checkpoints.newest(run)
    state = checkpoints.load(run, step)
    trained, first = network_of(scenario, state), network_of(scenario)
    print(
        f"{run.path.name}, step {step}: {int(state['play']['ended'])} games; "
        f"a random player {load_judged().by_chance():.3f}"
    )
    print(f"{'':34} all    95 %         random moves  self-play  CPU s")
    for name, choose in players(trained, first, asked.visits, scenario.play.c, scenario.play.tactics):
        moves: list[np.ndarray] = []
        seconds = cpu_seconds(lambda choose=choose, moves=moves: moves.append(choose()))
        right = load_judged().right(moves[0])
        low, high = share_interval(int(right.sum()), len(right))
        print(
            f"{name:32}  {right.mean():.3f}  {low:.3f}–{high:.3f}  {right[::2].mean():.3f}         "
            f"{right[1::2].mean():.3f}      {seconds:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
