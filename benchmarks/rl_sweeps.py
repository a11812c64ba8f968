"""Many learners in parallel: agent steps per second, compared with a plain loop over one agent with a NumPy table.

    python benchmarks/rl_sweeps.py

Every rule on cliff walking, 1024 agents with a table each; then for different numbers of agents and sizes of the blocks
of tables. CPU time of one core, the median of three turns.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.arrays import Numpy
from txlab.engine.rl.sweeps.sweep import Sweep
from txlab.engine.rl.worlds import world_named

STEPS, TURNS = 600, 3
ONE_STEP: tuple[str, ...] = ("q-learning", "sarsa", "expected-sarsa", "double-q", "sarsa-lambda", "watkins-q-lambda")
WHOLE: tuple[str, ...] = ("reinforce", "reinforce-baseline")


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def speed(process: Process, rule: str, agents: int, arrays: Numpy | None = None) -> float:
    """Agent steps per CPU second, after the first fifty, which are all of long episodes."""
    settings = Settings(rule=rule, alpha=0.5 if "lambda" not in rule else 0.1)
    speeds = []
    for _ in range(TURNS):
        sweep = Sweep(process, [settings] * agents, range(agents), arrays)
        sweep.advance(50)
        steps = max(20, STEPS * 1024 // max(agents, 1024))
        taken, _ = seconds(lambda: sweep.advance(steps))  # noqa: B023
        speeds.append(agents * steps / taken)
    return statistics.median(speeds)


def whole_speed(rule: str) -> float:
    """The same for rules that learn from whole episodes: the short corridor, 1024 agents, 20 episodes."""
    process, speeds = world_named("corridor").process, []
    settings = Settings(rule=rule, alpha=1e-3)
    for _ in range(TURNS):
        sweep = Sweep(process, [settings] * 1024, range(1024))
        taken, (_, lengths) = seconds(lambda: sweep.run_episodes(20))  # noqa: B023
        speeds.append(lengths.sum() / taken)
    return statistics.median(speeds)


def plain_loop(process: Process, steps: int = 20_000) -> float:
    """One Q-learning agent as usually written: a NumPy table, a generator, and one call of the world per step."""
    generator, q = np.random.default_rng(0), np.zeros((process.size, process.choices))
    start = int(process.start.argmax())

    def run() -> None:
        s = start
        for _ in range(steps):
            row = q[s]
            if generator.random() < 0.1:
                a = int(generator.integers(process.choices))
            else:
                a = int(generator.choice(np.flatnonzero(row == row.max())))
            o = process.first[s * process.choices + a]
            then, reward, done = process.next[o], process.reward[o], process.done[o]
            q[s, a] += 0.5 * (reward + (0.0 if done else q[then].max()) - q[s, a])
            s = start if done else then

    return steps / statistics.median(seconds(run)[0] for _ in range(TURNS))


def measure() -> dict[str, Any]:
    """Agent steps per CPU second by rule, by number of agents and by bytes per block; and those of the plain loop."""
    cliff = world_named("cliff").process
    blocks = {}
    for size in (1, 2, 3, 6, 24):
        arrays = Numpy()
        arrays.cache = size << 20
        blocks[size] = speed(cliff, "q-learning", 4096, arrays)
    return {
        "rules": {rule: speed(cliff, rule, 1024) for rule in ONE_STEP} | {rule: whole_speed(rule) for rule in WHOLE},
        "agents": {count: speed(cliff, "q-learning", count) for count in (1, 10, 100, 1024, 8192)},
        "blocks": blocks,
        "taxi": {rule: speed(world_named("taxi").process, rule, 256) for rule in ("q-learning", "sarsa-lambda")},
        "plain": plain_loop(cliff),
    }


def main() -> None:
    measured = measure()
    plain = measured["plain"]
    print(f"plain loop, one agent, numpy table    {plain / 1e3:8.0f} k steps a second")
    print("\n1024 agents on the cliff (REINFORCE: in the short corridor, whole episodes)")
    for rule, value in measured["rules"].items():
        print(f"  {rule:<22}{value / 1e6:8.2f} M steps a second{value / plain:8.0f} × the plain loop")
    print("\nQ-learning by number of agents")
    for count, value in measured["agents"].items():
        print(f"  {count:>6} agents{value / 1e6:10.2f} M steps a second")
    print("\nQ-learning, 4096 agents, by the size limit of a block's tables")
    for size, value in measured["blocks"].items():
        print(f"  {size:>6} MB{value / 1e6:14.2f} M steps a second")
    print("\n256 agents in the taxi (3000 pairs a table)")
    for rule, value in measured["taxi"].items():
        print(f"  {rule:<22}{value / 1e6:8.2f} M steps a second")


if __name__ == "__main__":
    main()
