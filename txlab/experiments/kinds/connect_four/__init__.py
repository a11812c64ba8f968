"""The kind "connect-four": a network and a tree search that learn by playing against themselves (MATH G3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from txlab.engine.explain import Explanation, Operand, Step, computed
from txlab.engine.intervals import share_interval
from txlab.errors import LabError
from txlab.experiments.kind import Strength
from txlab.experiments.kinds.connect_four.schema import MOST_VISITS, ConnectFourScenario, visits_of
from txlab.experiments.learning.explanations import (
    MeanLoss,
    explain_norm_of_updates,
    explain_step,
    explain_sum,
    interval_steps,
    require,
)
from txlab.experiments.learning.kind import require_rows
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Experiment, Frame, State
from txlab.experiments.small import SmallKind

if TYPE_CHECKING:
    from txlab.engine.games.players import Player

MEANINGS = {
    "policy_loss": ("L_policy = −(1/B) Σ Σₐ π(a) ln p(a | s)", "in nats; at the least the entropy of π, not 0"),
    "value_loss": ("L_value = (1/B) Σ (y − v(s))²", "y = (1 − μ) z + μ V, v = tanh(…); of always answering 0: mean y²"),
    "games": ("games = number of games that ended", "counted, from the first step on"),
    "evaluations": ("evaluations = number of positions that the network was asked about in this step",
                    "counted; a position, or its mirror image, that comes back in a step is remembered"),
    "first_won": ("first_won = #(first player won) / #(games that ended in this step)", "counted"),
    "drawn": ("drawn = #(drawn) / #(games that ended in this step)", "counted"),
    "second_won": ("second_won = #(second player won) / #(games that ended in this step)", "counted"),
}  # fmt: skip
TERMS = {"Q": 1, "U": 2, "score": 3}
"""Of which lines of `explain_selection` the last is this tensor."""


class ConnectFourKind(SmallKind):
    name = "connect-four"
    networks = True
    any_device = True
    title = "Connect Four by self-play: network and tree search"
    schema = ConnectFourScenario
    METRICS = (
        Metric("optimal_search", "share of positions", "optimal", "of its search", less=False, primary=True),
        Metric("optimal", "share of positions", "optimal", "of the network alone", less=False, primary=True),
        Metric("loss", less=True, primary=True),
        Metric("policy_loss", "nats", less=True),
        *(Metric(name, "share of games") for name in ("first_won", "drawn", "second_won")),
    )

    plays_from: ClassVar[Literal["", "frames", "checkpoints"]] = "checkpoints"
    looks_quickly = 25

    def player(self, scenario: Any, kept: Frame | State | None, looking: int | None = None) -> Player:
        """The search of a checkpoint's network. looking   visits, 100 as where it is judged"""
        from txlab.engine.games.connect_four.players import network_player
        from txlab.experiments.kinds.connect_four.experiment import network_of

        if isinstance(kept, Frame):
            raise LabError("a player of Connect Four is read from a checkpoint")
        visits = scenario.judge.visits if looking is None else looking
        if not 1 <= visits <= MOST_VISITS:
            raise LabError(f"{visits} visits are not possible; allowed: 1 … {MOST_VISITS}")
        name = f"network, step {kept['step'] if kept else 0}, {visits} visits"
        return network_player(name, network_of(scenario, kept).eval(), visits, scenario.play.c)

    def strength(self, scenario: Any, facts: Mapping[str, Any]) -> Strength:
        """Judged by the solver: it records no games against others."""
        judge = scenario.judge
        searched = int(facts.get("judged", {}).get("searched", judge.searched))

        def of(right: float) -> tuple[float, float, float]:
            return right, *share_interval(round(right * searched), searched)

        about = f"share of right moves of its search, {judge.visits} visits, by the exact solver, 95 % interval"
        return Strength(about, ("optimal_search",), of, "games")

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.connect_four.experiment import ConnectFour

        return ConnectFour(scenario)

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """As for all small steps, but on a GPU if there is one: batches of leaves are what it is for."""
        compute = scenario.compute
        if compute.device == "auto":
            from txlab.engine.device import choose_device

            compute = compute.model_copy(update={"device": str(choose_device("auto"))})
        compute = compute.model_copy(update={"attention": "sdpa"})
        return super().resolve(scenario.model_copy(update={"compute": compute}), say)

    def require_divisible(self, scenario: Any, count: int) -> None:
        """Batches of leaves and of the replay are split; the network is whole in each process."""
        require_rows(count, scenario.train.batch, "train.batch")
        if scenario.compute.parallel != "ddp":
            raise LabError(
                f"compute.parallel = {scenario.compute.parallel!r}: each process of {self.name} has the whole network; "
                "allowed: ddp"
            )

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        if not isfinite(values[name]):
            return None
        train, value = scenario.train, values[name]
        if name == "lr":
            return explain_step(scenario, MeanLoss(), name, values, step, facts)
        if name == "grad_norm":
            return explain_norm_of_updates(train, value, step, train.updates)
        if name == "loss":
            terms = [
                ("L_policy", "", 1.0, values.get("policy_loss")),
                ("L_value", "w", train.value_weight, values.get("value_loss")),
            ]
            question = f"why is loss {value:.4g} at step {step}?"
            return explain_sum(question, "G3", "Silver et al. 2017, eq. 1", value, terms)
        if name == "visits":
            return explain_visits(scenario, step, value)
        if name in ("optimal", "optimal_search"):
            return explain_optimal(scenario, name, value, facts)
        if name not in MEANINGS:
            return None
        equation, source = MEANINGS[name]
        measured = [Step(name, "", value, "mean over the updates of this step" if name.endswith("loss") else "")]
        return Explanation(f"why is {name} {value:.4g} at step {step}?", equation, "G3", source, [], measured)

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """shown/N, P, Q, U, score (position, column); shown/V, value (position,). LabError for what is not there."""
        name = tensor.removeprefix("shown/")
        if tensor not in frame.tensors or not tensor.startswith("shown/") or name == "W":
            raise LabError(f"{tensor} has no explanation; allowed: shown/N, P, Q, U, score, V, value")
        from txlab.engine.games.connect_four import rules
        from txlab.engine.games.connect_four.search import explain_selection

        require(frame, tensor, *(f"shown/{key}" for key in "NWPV"))
        row = int(index[0])
        where = frame.tokens["shown"][row] or "the start"
        there = {key: np.asarray(frame.tensors[f"shown/{key}"][row], dtype=np.float64) for key in "NWPV"}
        N, W, P = there["N"], there["W"], there["P"]
        if name in ("V", "value"):
            return explain_value(name, where, float(there["V"]), N, W)
        move = int(index[1])
        if isnan(P[move]):
            is_full = move not in rules.legal(rules.read(frame.tokens["shown"][row]))
            why = "is full" if is_full else "is left out, since another wins at once or it lets the other win at once,"
            raise LabError(f"column {move + 1} {why} in {where}")
        chosen = explain_selection(N, W, np.nan_to_num(P), float(frame.facts["c"]), move, where)
        if name in TERMS:
            return part_of(chosen, name, TERMS[name])
        return explain_move(name, where, N, np.nan_to_num(P), move)


def part_of(whole: Explanation, name: str, lines: int) -> Explanation:
    """The explanation of one term of a choice."""
    from dataclasses import replace

    value = whole.steps[lines - 1].result
    question = f"why is {name} {value:+.4f}{whole.question[whole.question.index(' for') :]}"
    return replace(whole, question=question, steps=whole.steps[:lines])


def explain_move(name: str, where: str, N: np.ndarray, P: np.ndarray, move: int) -> Explanation:
    """The visits or the prior of a move."""
    if name == "N":
        return Explanation(
            question=f"why {int(N[move])} visits of column {move + 1} in {where}?",
            equation="N(s, a) = number of visits that chose a = argmaxₐ [Q(s, a) + U(s, a)]",
            math="G3",
            source="counted; w on the score explains the next choice",
            operands=[],
            steps=[Step("N(s, a)", "", int(N[move]), "counted")],
            meaning=[
                computed("π(a)", "{} / {}", lambda n, all: n / all, int(N[move]), int(N.sum()),
                         note="what the policy learns where it plays itself"),
            ],
        )  # fmt: skip
    return Explanation(
        question=f"why does the network propose column {move + 1} in {where} with {P[move]:.4f}?",
        equation="P(s, a) = exp(zₐ) / Σ exp(z_b) over the columns that are searched",
        math="F5, G3",
        source="the policy head of the network",
        operands=[],
        steps=[Step("P(s, ·)", "", P.tolist(), "0 where a column is full or left out")],
        meaning=[Step("all", "Σ P(s, b)", float(P.sum()))],
        labels=tuple("1234567"),
        asked=move,
    )


def explain_value(name: str, where: str, V: float, N: np.ndarray, W: np.ndarray) -> Explanation:
    """What the network, or the search, expects in a position."""
    if name == "V":
        return Explanation(
            question=f"why does the network expect {V:+.4f} in {where}?",
            equation="v(s) = tanh(…), −1 a loss, 0 a draw, +1 a win of the player to move",
            math="G3",
            source="the value head of the network",
            operands=[],
            steps=[Step("v(s)", "", V, "of one evaluation; exactly ±1 where a win at once decides, without it")],
        )
    total, visits = float(W.sum()), int(N.sum())
    value = (V + total) / (1 + visits)
    return Explanation(
        question=f"why does the search expect {value:+.4f} in {where}?",
        equation="V(s) = (v(s) + Σ W(s, a)) / N(s),  N(s) = 1 + Σ N(s, a)",
        math="G3",
        source="Silver et al. 2017",
        operands=[
            Operand("v(s)", V, "the network's own value"),
            Operand("Σ W(s, a)", total, "what the visits came back with"),
            Operand("Σ N(s, a)", visits, "visits"),
        ],
        steps=[computed("V(s)", "({} + {}) / (1 + {})", lambda v, w, n: (v + w) / (1 + n), V, total, visits)],
    )


def explain_visits(scenario: ConnectFourScenario, step: int, value: float) -> Explanation:
    play, steps = scenario.play, scenario.train.steps
    changed = value != visits_of(step, steps, play.first_visits, play.visits)
    return Explanation(
        question=f"why {value:.0f} visits a move at step {step}?",
        equation="round(v₁ + (v − v₁) (n − 1) / (N − 1))",
        math="G3",
        source="few while the network knows little, [play] of the scenario",
        operands=[
            Operand("v₁", play.first_visits, "play.first_visits"),
            Operand("v", "changed while it ran" if changed else play.visits, "play.visits"),
            Operand("n", step, "this step"),
            Operand("N", steps, "train.steps"),
        ],
        steps=[Step("visits", "as used" if changed else "", value)],
    )


def explain_optimal(scenario: ConnectFourScenario, name: str, value: float, facts: Mapping[str, Any]) -> Explanation:
    """A share of right moves, beside that of a random player, and how far chance moves it."""
    judge, known = scenario.judge, facts.get("judged", {})
    alone = name == "optimal"
    count = judge.positions if alone else min(judge.searched, judge.positions)
    who = "the likeliest column of the network" if alone else f"the column of most visits, of {judge.visits}"
    meaning = [Step("wrong", f"1 − {value:.4f}", 1 - value), *interval_steps(value, count)]
    if "by_chance" in known:
        meaning.append(Step("by chance", "mean of #(optimal) / #(legal)", known["by_chance"], "a random player"))
    return Explanation(
        question=f"why is {value:.4g} of the moves optimal?",
        equation="optimal = #(positions whose move keeps the outcome) / n",
        math="G3",
        source="exact scores by alpha-beta; the positions are not learnt from, and in each some move is not optimal",
        operands=[
            Operand("n", count, "positions of 8 to 24 plies, half after random moves, half from self-play"),
            Operand("move", who),
        ],
        steps=[Step(name, "", value, "counted")],
        meaning=meaning,
    )


KIND = ConnectFourKind()
