"""What the metrics of self-play mean, with their numbers: answers to "why this number?" (MATH G1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.games.graph import compiled
from txlab.engine.games.perfect_play import Chances, best_response, both_seats, chances
from txlab.engine.games.players import perfect_player, random_player
from txlab.experiments.kinds.self_play.live import GAMES
from txlab.experiments.kinds.self_play.schema import SelfPlayScenario
from txlab.experiments.schema import grouped, several

SEATS = {"first": 0, "second": 1}


@cache
def bounds(name: str) -> tuple[tuple[Chances, Chances], tuple[Chances, Chances]]:
    """Against a player that moves at random, from either seat: (the perfect player, the best response to it)."""
    game = GAMES[name]
    graph, random = compiled(game), random_player(game).policy()
    first, second = best_response(graph, random, 1)[0], best_response(graph, random, -1)[0]
    best = chances(graph, first, random), chances(graph, random, second).turned()
    return both_seats(graph, perfect_player(game).policy(), random), best


def explain_metric(scenario: SelfPlayScenario, name: str, step: int, values: Mapping[str, float]) -> Explanation | None:
    """Why metric `name` of row `step` is what it is; None where there is no more to say than the number."""
    if name not in values:
        return None
    if name == "epsilon":
        return epsilon(scenario, step, values[name])
    result, _, seat = name.partition("_")
    if result in ("won", "drawn", "lost") and seat in SEATS:
        return against_random(scenario, name, values)
    if name.removeprefix("lost_to_perfect_") in SEATS:
        return against_perfect(scenario, name, values)
    return None


def judged(scenario: SelfPlayScenario) -> str:
    """Whose chances they are."""
    learners = scenario.learn.seeds
    return "of the greedy player of the table" if learners == 1 else f"mean of {several(learners, 'learner')}"


def against_random(scenario: SelfPlayScenario, name: str, values: Mapping[str, float]) -> Explanation:
    result, _, seat = name.partition("_")
    perfect, best = (each[SEATS[seat]] for each in bounds(scenario.game.name))
    three = [values.get(f"{each}_{seat}", float("nan")) for each in ("won", "drawn", "lost")]
    return Explanation(
        question=f"why {result} {values[name]:.4f} against a random player, sitting {seat}?",
        equation=f"{result} = Σ reach(s) over the positions that ended so;  reach(s·a) = Σ reach(s) π(a|s)",
        math="G1",
        source="computed from the table and all positions; nothing was played",
        operands=[
            Operand("won, drawn, lost", three, judged(scenario)),
            Operand("π(a|s)", "the greedy move, or 1 / the number of moves", "the learner's turn, or the other's"),
        ],
        steps=[
            Step("all", "won + drawn + lost", sum(three)),
            Step("E[r]", "won − lost", three[0] - three[2]),
            Step("perfect", f"{result}, evenly among moves that keep the value", getattr(perfect, result)),
            Step("best", f"{result} by the best response to random", getattr(best, result), "sets traps"),
        ],
        result=values[name],
        labels=("won", "drawn", "lost"),
        asked=("won", "drawn", "lost").index(result),
    )


def against_perfect(scenario: SelfPlayScenario, name: str, values: Mapping[str, float]) -> Explanation:
    seat, lost = name.removeprefix("lost_to_perfect_"), values[name]
    return Explanation(
        question=f"why is {lost:.4g} of the games lost to the perfect player, sitting {seat}?",
        equation="lost = Σ reach(s) over the positions that it has won;  reach(s·a) = Σ reach(s) π(a|s)",
        math="G1",
        source="computed from the table and all positions; nothing was played",
        operands=[Operand("lost", lost, judged(scenario))],
        steps=[
            Step("drawn", "1 − lost, for nobody wins against it", 1 - lost),
            Step(
                "in 1000 games", "1000 · lost", 1000 * lost, "0 = it cannot lose, whatever the perfect player chooses"
            ),
        ],
        result=lost,
    )


def epsilon(scenario: SelfPlayScenario, step: int, value: float) -> Explanation:
    learn = scenario.learn
    games = min(step * learn.games_per_step, learn.games)
    expected = learn.settings().epsilon_of(max(games - 1, 0))
    turned = abs(value - expected) > 1e-9
    return Explanation(
        question=f"why ε = {value:.4g} after {grouped(games)} games?",
        equation="ε of game n = max(ε · decayⁿ, floor)",
        math="M5",
        source="[learn] of the scenario",
        operands=[
            Operand("ε", learn.epsilon, "changed while it ran" if turned else "learn.epsilon"),
            Operand("decay", learn.decay, "learn.decay"),
            Operand("floor", learn.floor, "learn.floor"),
            Operand("n", max(games - 1, 0), "the last game of this step, the first being 0"),
        ],
        steps=[Step("ε of game n", "as it was used" if turned else "max(ε · decayⁿ, floor)", value)],
        result=value,
    )
