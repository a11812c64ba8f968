"""One learner that can be inspected after any update, compared with Gymnasium's environment and a NumPy table.

    python benchmarks/rl_glass.py

All learn cliff walking by Q-learning, α .5, ε .1, γ 1. The inspectable learner ("glass") keeps the terms of every
cell's last update (`last_at` is called after each turn and must answer); the plain loop keeps only its table. The plain
loop is measured with the environment of `gymnasium.make`, and again without its wrappers, which is unusual in practice.
CPU seconds of one core, taking turns, the median of the ratios of neighbours. Then every rule alone.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
from typing import Any

import numpy as np
from clock import cpu_seconds

from txlab.engine.rl.rules import make_agent, rule_names
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named

TURNS, PLAIN_STEPS, GLASS_STEPS = 9, 20_000, 400_000
SLOW: tuple[str, ...] = ("monte-carlo", "reinforce", "reinforce-baseline")  # episodes on the cliff may be very long


class Plain:
    """Tabular Q-learning as usually written with Gymnasium: `step`, a NumPy table, NumPy's generator. Of equally good
    actions it takes the first, which is faster than a random one of them."""

    def __init__(self, bare: bool, seed: int = 0) -> None:
        import gymnasium

        env = gymnasium.make("CliffWalking-v1")
        self.env = env.unwrapped if bare else env
        self.generator = np.random.default_rng(seed)
        self.q = np.zeros((48, 4))
        self.state, _ = self.env.reset(seed=seed)

    def run(self, steps: int) -> None:
        env, q, random, integers, s = self.env, self.q, self.generator.random, self.generator.integers, self.state
        for _ in range(steps):
            a = int(integers(4)) if random() < 0.1 else int(q[s].argmax())
            then, reward, terminated, _, _ = env.step(a)
            target = reward if terminated else reward + q[then].max()
            q[s, a] += 0.5 * (target - q[s, a])
            s = env.reset()[0] if terminated else then
        self.state = s


def speed(rule: str, world: str = "cliff", steps: int = 60_000) -> float:
    """Updates per CPU second of a rule, after a warm-up."""
    process = world_named(world).process
    agent = make_agent(process, Settings(rule=rule, alpha=0.001 if rule in SLOW else 0.3), 0)
    agent.run(2000)
    return steps / statistics.median(cpu_seconds(lambda: agent.run(steps)) for _ in range(3))


def measure(turns: int = TURNS) -> dict[str, Any]:
    """Updates per CPU second of all, their ratios, the time of `last_at` and of one update alone, and every rule."""
    glass = make_agent(world_named("cliff").process, Settings(rule="q-learning", alpha=0.5), 0)
    plain, bare = Plain(bare=False), Plain(bare=True)
    for each in (glass, plain, bare):
        each.run(5000)
    rounds = []
    for _ in range(turns):
        slow = PLAIN_STEPS / cpu_seconds(lambda: plain.run(PLAIN_STEPS))
        fast = GLASS_STEPS / cpu_seconds(lambda: glass.run(GLASS_STEPS))
        naked = PLAIN_STEPS / cpu_seconds(lambda: bare.run(PLAIN_STEPS))
        assert all(glass.last_at(state, 0) is not None for state in (0, 24, 36))
        rounds.append((slow, fast, naked))
    return {
        "plain": statistics.median(slow for slow, _, _ in rounds),
        "bare": statistics.median(naked for _, _, naked in rounds),
        "glass": statistics.median(fast for _, fast, _ in rounds),
        "ratio": statistics.median(fast / slow for slow, fast, _ in rounds),
        "ratio_bare": statistics.median(fast / naked for _, fast, naked in rounds),
        "last_at": statistics.median(
            cpu_seconds(lambda: [glass.last_at(s, 1) for s in range(36)]) / 36 for _ in range(9)
        ),
        "one": statistics.median(cpu_seconds(lambda: [glass.run(1) for _ in range(200)]) / 200 for _ in range(9)),
        "rules": {rule: speed(rule, "corridor" if rule.startswith("reinforce") else "cliff") for rule in rule_names()},
    }


def main() -> None:
    measured = measure()
    print(f"Gymnasium, numpy table     {measured['plain'] / 1e3:10.0f} k updates a CPU-second")
    print(f"  its wrappers taken off   {measured['bare'] / 1e3:10.0f} k updates a CPU-second")
    print(f"glass box, Q-learning      {measured['glass'] / 1e3:10.0f} k updates a CPU-second")
    print(f"ratio                      {measured['ratio']:10.1f} ×   (promised: 20)")
    print(f"  to the bare environment  {measured['ratio_bare']:10.1f} ×")
    print(f"last_at of a cell          {measured['last_at'] * 1e6:10.0f} µs")
    print(f"run(1)                     {measured['one'] * 1e6:10.0f} µs")
    for rule, value in measured["rules"].items():
        print(f"  {rule:<24} {value / 1e3:10.0f} k updates a CPU-second")


if __name__ == "__main__":
    main()
