"""The kind "connect-four": a network and a tree search that learn by playing against themselves (MATH G3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, isnan
from operator import truediv
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Step, compute_step
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
from txlab.experiments.untimed import UntimedKind

if TYPE_CHECKING:
    from txlab.engine.games.players import Player

MEANINGS = {
    "policy_loss": ("L_policy = −(1/B) Σ Σₐ π(a) ln p(a | s)", "in nats; at the least the entropy of π, not 0"),
    "value_loss": ("L_value = (1/B) Σ (y − v(s))²", "y = (1 − μ) z + μ V, v = tanh(…); of always answering 0: mean y²"),
    "games": ("games = number of games that ended", "counted, from the first step on"),
    "evaluations": ("evaluations = number of positions that the network evaluated in this step",
                    "counted; a position, or its mirror image, that comes back in a step is remembered"),
    "first_won": ("first_won = #(first player won) / #(games that ended in this step)", "counted"),
    "drawn": ("drawn = #(drawn) / #(games that ended in this step)", "counted"),
    "second_won": ("second_won = #(second player won) / #(games that ended in this step)", "counted"),
}  # fmt: skip


class ConnectFourKind(UntimedKind):
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
    looks_ahead = ("visits", MOST_VISITS)
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
        """As for all small steps, but on a GPU if there is one, for the batches of leaves."""
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
        why = Explaining(f"why is {name} {value:.4g} at step {step}?", value)
        why.equation(equation, "G3", source)
        why.measurement(name, "mean over the updates of this step" if name.endswith("loss") else "")
        return why.result()

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """shown/N, P, Q, U, score (position, column); shown/V, value (position,). LabError if it is missing."""
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
        value = float(np.asarray(frame.tensors[tensor])[tuple(index)])
        if name in ("V", "value"):
            return explain_value(name, where, value, float(there["V"]), N, W)
        move = int(index[1])
        if isnan(P[move]):
            is_full = move not in rules.legal(rules.read(frame.tokens["shown"][row]))
            out = "is full" if is_full else "is left out, since another wins immediately or it lets the other win so,"
            raise LabError(f"column {move + 1} {out} in {where}")
        if name in ("Q", "U", "score"):
            return explain_selection(N, W, np.nan_to_num(P), float(frame.facts["c"]), move, where, name, value)
        return explain_move(name, where, N, np.nan_to_num(P), move)


def explain_move(name: str, where: str, N: np.ndarray, P: np.ndarray, move: int) -> Explanation:
    """The visits or the prior of a move."""
    if name == "N":
        visits = int(N[move])
        why = Explaining(f"why {visits} visits of column {move + 1} in {where}?", visits)
        why.equation(
            "N(s, a) = number of visits that chose a = argmaxₐ [Q(s, a) + U(s, a)]",
            "G3",
            "counted; w on the score explains the next choice",
        )
        why.measurement("N(s, a)", "counted")
        note = "the policy's target in self-play"
        why.means(compute_step("π(a)", "{} / {}", truediv, visits, int(N.sum()), note=note))
        return why.result()
    question = f"why does the network propose column {move + 1} in {where} with {P[move]:.4f}?"
    why = Explaining(question, float(P[move]), tuple("1234567"), move)
    equation = "P(s, a) = exp(zₐ) / Σ exp(z_b) over the columns that are searched"
    why.equation(equation, "F5, G3", "the policy head of the network")
    why.step("P(s, ·)", "", P.tolist(), "0 where a column is full or left out")
    why.means(Step("all", "Σ P(s, b)", float(P.sum())))
    return why.result()


def explain_value(name: str, where: str, value: float, V: float, N: np.ndarray, W: np.ndarray) -> Explanation:
    """The value of a position by the network or the search."""
    if name == "V":
        why = Explaining(f"why does the network expect {V:+.4f} in {where}?", V)
        equation = "v(s) = tanh(…), −1 a loss, 0 a draw, +1 a win of the player to move"
        why.equation(equation, "G3", "the value head of the network")
        why.measurement("v(s)", "of one evaluation; exactly ±1 where an immediate win decides")
        return why.result()
    total, visits = float(W.sum()), int(N.sum())
    why = Explaining(f"why does the search expect {value:+.4f} in {where}?", value)
    why.equation("V(s) = (v(s) + Σ W(s, a)) / N(s),  N(s) = 1 + Σ N(s, a)", "G3", "Silver et al. 2017")
    why.input("v(s)", V, "the network's own value")
    why.input("Σ W(s, a)", total, "the values backed up by the visits")
    why.input("Σ N(s, a)", visits, "visits")
    why.compute("V(s)", "({} + {}) / (1 + {})", lambda v, w, n: (v + w) / (1 + n), V, total, visits)
    return why.result()


def explain_visits(scenario: ConnectFourScenario, step: int, value: float) -> Explanation:
    play, steps = scenario.play, scenario.train.steps
    why = Explaining(f"why {value:.0f} visits a move at step {step}?", value)
    source = "few while the network knows little, [play] of the scenario"
    why.equation("round(v₁ + (v − v₁) (n − 1) / (N − 1))", "G3", source)
    why.input("v₁", play.first_visits, "play.first_visits")
    why.input("v", play.visits, "play.visits")
    why.input("n", step, "this step")
    why.input("N", steps, "train.steps")
    why.step("visits", "", visits_of(step, steps, play.first_visits, play.visits))
    return why.result(because="it was changed while it ran")


def explain_optimal(scenario: ConnectFourScenario, name: str, value: float, facts: Mapping[str, Any]) -> Explanation:
    """A share of right moves, compared with a random player's, and its chance variation."""
    judge, known = scenario.judge, facts.get("judged", {})
    alone = name == "optimal"
    count = judge.positions if alone else min(judge.searched, judge.positions)
    who = "the likeliest column of the network" if alone else f"the column of most visits, of {judge.visits}"
    why = Explaining(f"why is {value:.4g} of the moves optimal?", value)
    why.equation(
        "optimal = #(positions whose move keeps the outcome) / n",
        "G3",
        "exact scores by alpha-beta; the positions are not learnt from, and in each some move is not optimal",
    )
    why.input("n", count, "positions of 8 to 24 plies, half after random moves, half from self-play")
    why.input("move", who)
    why.measurement(name, "counted")
    why.means(Step("wrong", f"1 − {value:.4f}", 1 - value), *interval_steps(value, count))
    if "by_chance" in known:
        why.means(Step("by chance", "mean of #(optimal) / #(legal)", known["by_chance"], "a random player"))
    return why.result()


KIND = ConnectFourKind()
