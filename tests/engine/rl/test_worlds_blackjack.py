"""Blackjack: its law card by card, its solution as the book draws it, compared with Gymnasium's game."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import gymnasium
import numpy as np
import pytest

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.dynamic_programming import best_policy, find_converged_sweep, sweeps
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.plain import Plain
from txlab.engine.rl.rules import make_agent
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import Sweep
from txlab.engine.rl.worlds import world_named
from txlab.engine.rl.worlds.blackjack import dealer
from txlab.errors import LabError

FIGURE_5_2 = {
    # dealer's card: A23456789T, sums from 21 down to 12; S sticks, H hits
    0: ["SSSSSSSSSS"] * 3 + ["HSSSSSSSHH"] + ["HHHHHHHHHH"] * 6,
    1: ["SSSSSSSSSS"] * 5 + ["HSSSSSHHHH"] * 4 + ["HHHSSSHHHH"],
}


def total_of(cards: tuple[int, ...]) -> int:
    return sum(cards) + 10 * (1 in cards and sum(cards) <= 11)


def law_of(cards: tuple[int, ...]) -> dict[int, Fraction]:
    """Of the dealer's last sum (22 = bust), from the list of the cards themselves and in rational numbers."""
    if total_of(cards) >= 17:
        return {min(total_of(cards), 22): Fraction(1)}
    found: dict[int, Fraction] = {}
    for card in range(1, 11):
        for end, p in law_of((*cards, card)).items():
            found[end] = found.get(end, Fraction(0)) + p * Fraction(4 if card == 10 else 1, 13)
    return found


@pytest.mark.parametrize("shown", [1, 2, 6, 10])
def test_what_the_dealer_comes_to_is_exact(shown: int) -> None:
    assert dealer(shown) == pytest.approx({total: float(p) for total, p in law_of((shown,)).items()}, abs=1e-14)


def test_the_best_policy_is_figure_5_2() -> None:
    world = world_named("blackjack")
    policy = best_policy(world.process, find_converged_sweep(sweeps(world.process, 1.0)).v, 1.0)
    for layer, drawn in FIGURE_5_2.items():
        for row, line in enumerate(drawn, 2):
            states = [world.layout.state_at(row, column, layer) for column in range(1, 11)]
            assert "".join("SH"[int(policy[s].argmax())] for s in states) == line
    assert (policy.max(axis=1) == 1).all()


def test_sticking_on_20_and_21_is_worth_what_the_book_s_hundred_million_games_came_to() -> None:
    """Example 5.4: −.27726 from a deuce against 13 with an ace; the standard error of that is about 1e-4."""
    process = world_named("blackjack").process
    sticks = [name.startswith("natural") or name.split(" v ")[0].split()[-1] in ("20", "21") for name in process.states]
    v = solve_values(process, np.eye(2)[np.where(sticks, 0, 1)], 1.0)
    assert v[process.states.index("soft 13 v 2")] == pytest.approx(-0.27726, abs=3e-4)


def test_it_is_gymnasium_s_game() -> None:
    """Games there played evenly by chance: every transition and every start has the frequency that it has here."""
    world = world_named("blackjack")
    process, number = world.process, world.process.states.index
    signs = {card: "A" if card == 1 else str(card) for card in range(1, 11)}
    random, cards = np.random.default_rng(3), gymnasium.make("Blackjack-v1")
    seen: dict[tuple[int, int], Counter[tuple[int, float]]] = {}
    begins: Counter[int] = Counter()
    cards.reset(seed=5)
    for _ in range(15_000):
        (total, shown, soft), _ = cards.reset()
        natural, over, reward = total == 21, False, 0.0
        while total < 12:
            (total, shown, soft), *_ = cards.step(1)
        s = number(f"natural v {signs[shown]}" if natural else f"{'soft ' * bool(soft)}{total} v {signs[shown]}")
        begins[s] += 1
        while not over:
            a = int(random.integers(2))
            (total, shown, soft), reward, over, _, _ = cards.step(a)
            then = -1 if over else number(f"{'soft ' * bool(soft)}{total} v {signs[shown]}")
            seen.setdefault((s, a), Counter())[then, float(reward)] += 1
            s = then
    games = begins.total()
    for s, p in enumerate(process.start):
        assert abs(begins[s] - games * p) <= 5 * np.sqrt(games * p * (1 - p)) + 1
    compared = 0
    for (s, a), counted in seen.items():
        law = {(-1 if each.done else each.next, each.reward): each.probability for each in process.outcomes(s, a)}
        assert counted.keys() <= law.keys()
        for what, p in law.items():
            n = counted.total()
            assert abs(counted[what] - n * p) <= 5 * np.sqrt(n * p * (1 - p)) + 1
            compared += 1
    assert compared > 1500


def test_with_exploring_starts_the_first_action_is_any_and_the_others_are_greedy() -> None:
    process = world_named("blackjack", exploring=True).process
    assert np.unique(process.start).tolist() == pytest.approx([0, 1 / 200])
    plain, t, seed = Plain(process, 4, alpha=0.1, epsilon=0.0), 0, 4
    for _ in range(600):
        s, moves, over = plain.begin(t), [], False
        while not over:
            a = plain.act(s, t) if moves else int(uniforms(seed, t, 1)[0, 0, 1] * 2)
            reward, then, over = plain.happen(s, a, t)
            moves.append((s, a))
            s, t = then, t + 1
        for pair in reversed(moves):
            plain.q[pair] += 0.1 * (reward - plain.q[pair])
        plain.returns.append(reward)
    settings = Settings(rule="monte-carlo", policy="exploring-starts", alpha=0.1, epsilon=0.5)
    agent = make_agent(process, settings, seed)
    agent.run(t)
    assert agent.returns == plain.returns
    returns, _ = Sweep(process, [settings], [seed]).run_episodes(600)
    assert returns[0].tolist() == plain.returns
    with pytest.raises(LabError, match="exploring-starts belongs to monte-carlo"):
        make_agent(process, Settings(rule="sarsa", policy="exploring-starts"), 1)
