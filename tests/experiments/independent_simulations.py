"""The reference values that are "computed here", simulated without a line of txlab: numpy alone, from the book.

    python tests/experiments/independent_simulations.py [walk-19 n-step walk-5 cliff windy bias dyna]

It prints mean, standard error and run count; experiments/reference_numbers has them as they came out. Worlds and rules
are written down anew from Sutton and Barto 2018 (examples 6.2, 6.5 to 6.7, 7.1; sections 12.1 to 12.5), with numpy's
own random numbers. It takes some minutes, and no test runs it whole.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator

import numpy as np

Array = np.ndarray


def said(label: str, values: Array) -> None:
    error = values.std(ddof=1) / np.sqrt(len(values))
    print(f"{label:34} {values.mean():10.5f} ± {error:.5f}  ({len(values)} runs)", flush=True)


# Random walks: the states 1 … n from the left, 0 and n + 1 the ends


def walks(n: int, runs: int, left: float, rng: np.random.Generator) -> Iterator[tuple[Array, Array, Array, Array]]:
    """One episode of every run, step by step: the runs that still go on, s, reward, s′."""
    at = np.full(runs, (n + 1) // 2)
    going = np.arange(runs)
    while len(going):
        s = at[going]
        after = s + rng.choice((-1, 1), len(going))
        yield going, s, np.where(after == 0, left, np.where(after == n + 1, 1.0, 0.0)), after
        at[going] = after
        going = going[(after > 0) & (after <= n)]


def walk_errors(
    n: int, method: str, lam: float, alpha: float, runs: int, episodes: int, left: float, initial: float, seed: int
) -> Array:
    """(runs, episodes): root mean square error over the n states after each episode."""
    rng = np.random.default_rng(seed)
    true = np.linspace(left, 1.0, n + 2)[1:-1]
    v = np.full((runs, n + 2), initial)
    v[:, [0, n + 1]] = 0.0
    found = np.empty((runs, episodes))
    for episode in range(episodes):
        if method in ("offline-lambda-return", "monte-carlo"):
            steps = list(walks(n, runs, left, rng))
            target, old = np.zeros(runs), v.copy()
            targets = []
            for going, _, reward, after in reversed(steps):
                ended = (after == 0) | (after == n + 1)
                ahead = np.where(ended, 0.0, (1 - lam) * old[going, after] + lam * target[going])
                target[going] = reward + ahead
                targets.append(target[going])
            for (going, s, _, _), wanted in zip(steps, reversed(targets), strict=True):
                v[going, s] += alpha * (wanted - v[going, s])
        else:
            e = np.zeros_like(v)
            before = np.zeros(runs)  # true on-line: what this state was thought to be worth one step ago
            for going, s, reward, after in walks(n, runs, left, rng):
                here, there = v[going, s], v[going, after]
                delta = reward + there - here
                trace = e[going] * lam
                rows = np.arange(len(going))
                if method == "replacing":
                    trace[rows, s] = 1.0
                elif method == "true-online":
                    trace[rows, s] += 1.0 - alpha * trace[rows, s]
                else:
                    trace[rows, s] += 1.0
                e[going] = trace
                if method == "true-online":
                    moved = here - before[going]
                    v[going] += alpha * (delta + moved)[:, None] * trace
                    v[going, s] -= alpha * moved
                    before[going] = there
                else:
                    v[going] += alpha * delta[:, None] * trace
                v[:, [0, n + 1]] = 0.0
        found[:, episode] = np.sqrt(((v[:, 1:-1] - true) ** 2).mean(axis=1))
    return found


def walk_19(runs: int = 5000) -> None:
    best = [("offline-lambda-return", 0.8, 0.35), ("accumulating", 0.8, 0.30)]
    best += [("true-online", 0.8, 0.40), ("replacing", 0.8, 0.50), ("accumulating", 0.0, 0.8)]
    for seed, (method, lam, alpha) in enumerate(best):
        errors = walk_errors(19, method, lam, alpha, runs, 10, -1.0, 0.0, 1900 + seed)
        said(f"{method} λ={lam:g} α={alpha:g}", errors.mean(axis=1))


def n_step(runs: int = 5000) -> None:
    """n-step TD on the 19 states, in the order of time (the box on page 144): the mean error over ten episodes."""
    true = np.linspace(-1.0, 1.0, 21)[1:-1]
    for n, alpha in ((1, 0.8), (2, 0.6), (4, 0.4), (8, 0.3), (16, 0.15)):
        rng = np.random.default_rng(7200 + n)
        found = np.zeros(runs)
        for run in range(runs):
            v = [0.0] * 21
            for _ in range(10):
                states, end = [10], 0
                while 0 < states[-1] < 20:
                    states.append(states[-1] + (1 if rng.random() < 0.5 else -1))
                last = len(states) - 1
                pays = -1.0 if states[-1] == 0 else 1.0
                for t in range(last + n - 1):
                    tau = t - n + 1
                    if tau >= 0:
                        end = tau + n
                        gain = pays if end >= last else v[states[end]]
                        v[states[tau]] += alpha * (gain - v[states[tau]])
                found[run] += np.sqrt(((np.array(v[1:-1]) - true) ** 2).mean()) / 10
        said(f"n-step TD n={n} α={alpha:g}", found)


def walk_5(runs: int = 20_000) -> None:
    for seed, alpha in enumerate((0.05, 0.10, 0.15)):
        said(f"TD(0) α={alpha:g}", walk_errors(5, "td", 0.0, alpha, runs, 100, 0.0, 0.5, 500 + seed)[:, -1])
    for seed, alpha in enumerate((0.01, 0.02, 0.03, 0.04)):
        errors = walk_errors(5, "monte-carlo", 1.0, alpha, runs, 100, 0.0, 0.5, 550 + seed)
        said(f"Monte Carlo α={alpha:g}", errors[:, -1])


# Control: every run has a table of its own; ties are broken at random


def best_at_random(q: Array, rng: np.random.Generator) -> Array:
    return np.where(q == q.max(axis=1, keepdims=True), rng.random(q.shape), -1.0).argmax(axis=1)


def chosen(q: Array, epsilon: float, rng: np.random.Generator) -> Array:
    explore = rng.random(len(q)) < epsilon
    return np.where(explore, rng.integers(q.shape[1], size=len(q)), best_at_random(q, rng))


def cliff_move(s: Array, a: Array) -> tuple[Array, Array, Array]:
    """4 rows of 12; up, right, down, left. Into the cliff: −100 and back to the start."""
    row, column = np.divmod(s, 12)
    row = np.clip(row + np.array([-1, 0, 1, 0])[a], 0, 3)
    column = np.clip(column + np.array([0, 1, 0, -1])[a], 0, 11)
    fallen = (row == 3) & (column > 0) & (column < 11)
    return np.where(fallen, 36, row * 12 + column), np.where(fallen, -100.0, -1.0), (row == 3) & (column == 11)


def cliff(runs: int = 4000, episodes: int = 500, epsilon: float = 0.1) -> None:
    for number, rule in enumerate(("sarsa", "q-learning", "expected-sarsa")):
        for alpha in (0.1, 0.5):
            rng = np.random.default_rng(6600 + 10 * number + int(10 * alpha))
            q = np.zeros((runs, 48, 4))
            total, returns, counted = np.zeros(runs), np.zeros(runs), np.zeros(runs, dtype=int)
            s = np.full(runs, 36)
            every = np.arange(runs)
            a = chosen(q[every, s], epsilon, rng)
            while (counted < episodes).any():
                after, reward, ended = cliff_move(s, a)
                ahead = q[every, after]
                onward = chosen(ahead, epsilon, rng)
                if rule == "sarsa":
                    worth = ahead[every, onward]
                elif rule == "q-learning":
                    worth = ahead.max(axis=1)
                else:
                    worth = (1 - epsilon) * ahead.max(axis=1) + epsilon * ahead.mean(axis=1)
                q[every, s, a] += alpha * (reward + np.where(ended, 0.0, worth) - q[every, s, a])
                if rule != "sarsa":  # acts by the table after the update
                    onward = chosen(q[every, after], epsilon, rng)
                total += reward
                last = ended & (counted >= episodes - 100) & (counted < episodes)
                returns[last] += total[last] / 100
                counted += ended
                total[ended] = 0.0
                s = np.where(ended, 36, after)
                a = np.where(ended, chosen(q[every, s], epsilon, rng), onward)
            said(f"{rule} α={alpha:g}", returns)
            if rule == "q-learning":
                s = np.full(runs, 36)
                for _ in range(13):
                    s, _, ended = cliff_move(s, q[every, s].argmax(axis=1))
                print(f"  greedy path is the 13: {100 * ended.mean():g} per cent of {runs} runs", flush=True)


def windy(runs: int = 4000, steps: int = 8000) -> None:
    rng = np.random.default_rng(65)
    wind = np.array([0, 0, 0, 1, 1, 1, 2, 2, 1, 0])
    q = np.zeros((runs, 70, 4))
    s, every, ended_in_all = np.full(runs, 30), np.arange(runs), np.zeros(runs)
    a = chosen(q[every, s], 0.1, rng)
    for _ in range(steps):
        row, column = np.divmod(s, 10)
        up = wind[column]
        row = np.clip(row + np.array([-1, 0, 1, 0])[a] - up, 0, 6)
        column = np.clip(column + np.array([0, 1, 0, -1])[a], 0, 9)
        after = row * 10 + column
        ended = after == 37
        onward = chosen(q[every, after], 0.1, rng)
        worth = np.where(ended, 0.0, q[every, after, onward])
        q[every, s, a] += 0.5 * (-1.0 + worth - q[every, s, a])
        ended_in_all += ended
        s = np.where(ended, 30, after)
        a = np.where(ended, chosen(q[every, s], 0.1, rng), onward)
    said("episodes ended", ended_in_all)
    deviation = ended_in_all.std(ddof=1)
    print(f"{'deviation from run to run':34} {deviation:10.5f} ± {deviation / np.sqrt(2 * (runs - 1)):.5f}")


def bias(runs: int = 100_000, episodes: int = 300) -> None:
    """A: left (0) leads to B, right (1) ends; B: ten actions that end with N(−.1, 1)."""
    for double in (False, True):
        rng = np.random.default_rng(67 + double)
        at_a, at_b = np.zeros((2, runs, 2)), np.zeros((2, runs, 10))
        every = np.arange(runs)
        left = np.empty((episodes, runs), dtype=bool)
        for episode in range(episodes):
            a = chosen(at_a[0] + double * at_a[1], 0.1, rng)
            left[episode] = a == 0
            which = rng.integers(2, size=runs) if double else np.zeros(runs, dtype=int)
            judge = 1 - which if double else which
            ahead = at_b[judge, every, best_at_random(at_b[which, every], rng)]
            at_a[which, every, a] += 0.1 * (np.where(a == 0, ahead, 0.0) - at_a[which, every, a])
            b = chosen(at_b[0] + double * at_b[1], 0.1, rng)
            which = rng.integers(2, size=runs) if double else which
            old = at_b[which, every, b]
            new = old + 0.1 * (rng.normal(-0.1, 1.0, runs) - old)
            at_b[which, every, b] = np.where(a == 0, new, old)
        name = "double Q-learning" if double else "Q-learning"
        highest = int(left.mean(axis=1).argmax())
        for label, place in ((f"highest: {highest + 1}", highest), ("100", 99), ("300", 299)):
            said(f"{name}, per cent left, episode {label}", 100.0 * left[place])


def dyna(episodes: int = 10) -> None:
    """Dyna-Q in the maze of example 8.1, γ = .95, α = ε = .1: mean steps of episodes 2 to 10."""
    walls = {(1, 2), (2, 2), (3, 2), (4, 5), (0, 7), (1, 7), (2, 7)}

    def moved(cell: tuple[int, int], action: int) -> tuple[int, int]:
        row, column = cell[0] + (-1, 0, 1, 0)[action], cell[1] + (0, 1, 0, -1)[action]
        there = (row, column)
        return there if 0 <= row < 6 and 0 <= column < 9 and there not in walls else cell

    for planning, runs in ((0, 3000), (5, 1500), (50, 400)):
        rng = random.Random(8200 + planning)
        found = np.zeros(runs)
        for run in range(runs):
            q: dict[tuple[int, int], list[float]] = {}
            model: dict[tuple[int, int], dict[int, tuple[float, tuple[int, int]]]] = {}
            cells: list[tuple[int, int]] = []
            for episode in range(episodes):
                s, steps = (2, 0), 0
                while s != (0, 8):
                    row = q.setdefault(s, [0.0] * 4)
                    best = [a for a in range(4) if row[a] == max(row)]
                    a = rng.randrange(4) if rng.random() < 0.1 else rng.choice(best)
                    after = moved(s, a)
                    reward = float(after == (0, 8))
                    if s not in model:
                        model[s] = {}
                        cells.append(s)
                    model[s][a] = (reward, after)
                    replayed = [(s, a)]
                    for _ in range(planning):
                        cell = cells[int(rng.random() * len(cells))]
                        tried = list(model[cell])
                        replayed.append((cell, tried[int(rng.random() * len(tried))]))
                    for x, y in replayed:
                        paid, then = model[x][y]
                        ahead = 0.0 if then == (0, 8) else max(q.setdefault(then, [0.0] * 4))
                        q[x][y] += 0.1 * (paid + 0.95 * ahead - q[x][y])
                    s, steps = after, steps + 1
                if episode:
                    found[run] += steps / (episodes - 1)
        said(f"Dyna-Q, {planning} from memory", found)


ALL: dict[str, Callable[[], None]] = {
    "walk-19": walk_19, "n-step": n_step, "walk-5": walk_5, "cliff": cliff, "windy": windy, "bias": bias, "dyna": dyna,
}  # fmt: skip

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        print(name)
        ALL[name]()
