"""Learners by self-play: alone and in batches, in one piece and in many, and what comes out at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.learner import RULES, SelfPlaySettings, change_settings, make_learner
from txlab.engine.games.perfect_play import both_seats
from txlab.engine.games.players import perfect_player, random_player
from txlab.engine.games.population import LearnerBatch
from txlab.engine.games.self_play_why import cell_of, explain, explain_cell, record_of
from txlab.engine.rl.draws import uniforms
from txlab.errors import LabError

GRAPH = compile_graph(tictactoe)
RANDOM, PERFECT = random_player(tictactoe), perfect_player(tictactoe)

EACH = [
    SelfPlaySettings(),
    SelfPlaySettings(exploring=True, decay=0.99, floor=0.05, initial=0.1),
    SelfPlaySettings(rule="td-lambda"),
    SelfPlaySettings(rule="td-lambda", exploring=True, lam=0.5, epsilon=0.4),
    SelfPlaySettings(rule="q-learning", decay=0.999, epsilon=0.5),
    SelfPlaySettings(rule="sarsa", initial=-0.2),
]
named = pytest.mark.parametrize("settings", EACH, ids=lambda s: f"{s.rule}{'-exploring' * s.exploring}")


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(np.asarray(one[name]), np.asarray(other[name]), equal_nan=True) for name in one
    )


def by_the_book(settings: SelfPlaySettings, seed: int, games: int) -> dict[Any, float]:
    """The rules' formulas over positions themselves: dictionaries, the rules asked at every move, each update written
    from the whole game when it is over (of TD and SARSA it may be: no value is read again within a game after it
    changed, for a position never comes back)."""
    table: dict[Any, float] = {}
    of_moves = settings.rule in ("q-learning", "sarsa")

    def value(position: Any, move: int) -> float:
        after = tictactoe.after(position, move)
        if of_moves:
            return table.get((position, move), settings.initial)
        ended = tictactoe.outcome(after)
        return float(ended) if ended is not None else table.get(after, settings.initial)

    draws = iter(uniforms(seed, 0, 9 * games)[0, :, :2].tolist())
    for game in range(games):
        position, way = tictactoe.start(), []
        while tictactoe.outcome(position) is None:
            explore, which = next(draws)
            moves = tictactoe.legal(position)
            values = [value(position, move) * tictactoe.mover(position) for move in moves]
            greedy = explore >= max(settings.epsilon * settings.decay**game, settings.floor)
            candidates = [m for m, v in zip(moves, values, strict=True) if v == max(values)] if greedy else moves
            move = candidates[int(which * len(candidates))]
            best = max(values) * tictactoe.mover(position)
            way.append((position, move, greedy, value(position, move), best))
            position = tictactoe.after(position, move)
        result = float(tictactoe.outcome(position) or 0)
        changes: dict[Any, list[float]] = {}
        for t, (before, move, greedy, _, _) in enumerate(way):
            last = t + 1 == len(way)
            if settings.rule == "sarsa":
                target, own = result if last else way[t + 1][3], (before, move)
            elif settings.rule == "q-learning":
                target, own = result if last else way[t + 1][4], (before, move)
            else:
                if not (greedy or settings.exploring):
                    continue
                target, own = value(before, move), before
            delta = target - table.get(own, settings.initial)
            changes.setdefault(own, []).append(settings.alpha * delta)
            if settings.rule == "td-lambda":
                e = settings.lam
                for earlier, _, taught, _, _ in reversed(way[:t]):
                    if not (taught or settings.exploring):
                        break
                    changes.setdefault(earlier, []).append(settings.alpha * delta * e)
                    e *= settings.lam
        for own, corrections in changes.items():
            for correction in corrections:
                table[own] = table.get(own, settings.initial) + correction
    return table


@named
def test_a_learner_makes_the_updates_of_its_formula(settings: SelfPlaySettings) -> None:
    learner = make_learner(GRAPH, settings, seed=4)
    learner.run(300)
    expected = by_the_book(settings, 4, 300)
    found = {}
    for cell, value in enumerate(learner.table):
        if learner.records[cell]:
            n = cell if len(learner.table) == GRAPH.size else int(GRAPH.before[cell])
            position = GRAPH.positions[n]
            found[position if len(learner.table) == GRAPH.size else (position, int(GRAPH.move[cell]))] = value
    assert found.keys() == expected.keys()
    assert [found[each] for each in expected] == pytest.approx(list(expected.values()), abs=1e-13)


@named
def test_a_learner_in_a_batch_is_the_one_it_would_be_alone(settings: SelfPlaySettings) -> None:
    seeds = [3, 11, 2**40 + 7]
    batch = LearnerBatch(GRAPH, settings, seeds)
    for games in (1, 60, 90):
        batch.run(games)
    for row, seed in enumerate(seeds):
        alone = make_learner(GRAPH, settings, seed)
        alone.run(151)
        assert np.array_equal(batch.values(row), alone.values())
        assert (alone.plies, alone.games, alone.position) == (batch.plies[row], 151, 0)
        assert batch.results[row].tolist() == alone.results


@named
def test_it_does_not_matter_in_how_many_pieces_it_learns(settings: SelfPlaySettings) -> None:
    whole, pieces = make_learner(GRAPH, settings, 5), make_learner(GRAPH, settings, 5)
    whole.run(120)
    for plies in (1, 2, 3, 4, 5, 6, 7):
        for _ in range(plies):
            pieces.step()  # mostly stops within a game
        restarted = make_learner(GRAPH, settings, 5)
        restarted.load(pieces.state())
        assert equal(restarted.state(), pieces.state())
        pieces = restarted
    pieces.run(120 - pieces.games)
    assert equal(whole.state(), pieces.state())


@named
def test_a_restored_batch_continues_unchanged(settings: SelfPlaySettings) -> None:
    whole, before = LearnerBatch(GRAPH, settings, [1, 2]), LearnerBatch(GRAPH, settings, [1, 2])
    whole.run(30)
    whole.run(30)
    before.run(30)
    after = LearnerBatch(GRAPH, settings, [1, 2])
    after.load(before.state())
    after.run(30)
    assert equal(whole.state(), after.state())


def test_td_lambda_without_lambda_is_td0() -> None:
    one = make_learner(GRAPH, SelfPlaySettings(rule="td"), 6)
    other = make_learner(GRAPH, SelfPlaySettings(rule="td-lambda", lam=0.0), 6)
    one.run(200)
    other.run(200)
    assert np.array_equal(one.values(), other.values())


@pytest.mark.parametrize("rule", ["td", "q-learning"])
def test_td0_and_q_learning_become_perfect_from_either_seat(rule: str) -> None:
    """With α = ε = .5 for the shortness of the test; α = ε = .1 is in `txlab verify`."""
    learner = make_learner(GRAPH, SelfPlaySettings(rule=rule, alpha=0.5, epsilon=0.5), seed=1)  # type: ignore[arg-type]
    learner.run(60_000)
    policy = learner.player().policy()
    first, second = both_seats(GRAPH, policy, RANDOM.policy())
    assert (round(first.won, 4), round(second.won, 4)) == (0.9678, 0.7775)
    for chances in both_seats(GRAPH, policy, PERFECT.policy()):
        assert (chances.won, chances.lost) == (0.0, 0.0)


@pytest.mark.parametrize("rule", RULES)
def test_both_seats_learn_and_neither_learns_to_lose(rule: str) -> None:
    """A sign turned too often or too rarely teaches one seat to lose: it falls below what a player does that sees no
    more than its own wins in one move (.81 and .52). Learnt for 30 000 games, both are far above."""
    learner = make_learner(GRAPH, SelfPlaySettings(rule=rule, alpha=0.2, epsilon=1.0, decay=0.9998), seed=2)  # type: ignore[arg-type]
    learner.run(30_000)
    first, second = both_seats(GRAPH, learner.player().policy(), RANDOM.policy())
    assert first.won > 0.9
    assert second.won > 0.7
    assert first.lost < 0.03
    assert second.lost < 0.06


@named
def test_the_last_update_of_every_cell_made_the_number_that_is_there(settings: SelfPlaySettings) -> None:
    learner = make_learner(GRAPH, settings, 8)
    learner.run(100)
    told = 0
    for cell, value in enumerate(learner.table):
        update = record_of(learner, cell)
        if update is None:
            continue
        told += 1
        explanation = explain_cell(learner, cell)
        assert update.after == value == explanation.result
        assert explanation.steps[-1].result == value
        alpha = next(operand.value for operand in explanation.operands if operand.name == "α")
        assert alpha == settings.alpha
        assert update.before + settings.alpha * update.delta * update.e == value
        assert update.to in learner.after[update.left]
        assert not GRAPH.ended[update.to] or update.target == GRAPH.outcome[update.to]
        if settings.rule == "sarsa" and not GRAPH.ended[update.to]:
            assert int(GRAPH.move[update.next_edge]) in tictactoe.legal(GRAPH.positions[update.to])
    assert told > 100


def test_a_move_is_explained_by_its_update_by_its_rules_or_by_having_none() -> None:
    learner = make_learner(GRAPH, SelfPlaySettings(), 8)
    start = tictactoe.start()
    untouched = explain(learner, start, 4)
    assert "not learnt here yet" in untouched.operands[0].note
    learner.run(50)
    assert "δ" in [step.name for step in explain(learner, start, 4).steps]
    wins = explain(learner, tictactoe.read("XX./OO./..."), 2)
    assert (wins.result, wins.operands[0].note) == (1.0, "known from the rules")
    assert cell_of(make_learner(GRAPH, SelfPlaySettings(rule="sarsa"), 1), start, 4) == 4
    with pytest.raises(LabError, match="is not free"):
        explain(learner, tictactoe.read("X../.../..."), 0)


def test_numbers_may_be_turned_and_rules_may_not() -> None:
    learner = make_learner(GRAPH, SelfPlaySettings(), 1)
    learner.set(alpha=0.2, epsilon=0.3)
    assert learner.settings == replace(SelfPlaySettings(), alpha=0.2, epsilon=0.3)
    with pytest.raises(LabError, match=r"alpha must be from 0 to 1; it is 1\.5"):
        learner.set(alpha=1.5)
    with pytest.raises(LabError, match="rule cannot be changed"):
        change_settings(SelfPlaySettings(), rule="sarsa")
    with pytest.raises(LabError, match="nearest: q-learning"):
        SelfPlaySettings(rule="q-lerning")  # type: ignore[arg-type]


def test_epsilon_decays_by_games_down_to_its_floor() -> None:
    settings = SelfPlaySettings(epsilon=0.5, decay=0.9, floor=0.1)
    assert [settings.epsilon_of(game) for game in (0, 1, 2, 100)] == pytest.approx([0.5, 0.45, 0.405, 0.1])
    assert SelfPlaySettings(epsilon=0.3).epsilon_of(10**6) == 0.3
