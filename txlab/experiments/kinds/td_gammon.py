"""The experiment "td-gammon": a network that learns backgammon by playing both sides of it (MATH G2).

A step is a block of games, each move of which is an update. Notable: strength is measured against the run itself:
copies of the network as it was after 0, 1 000, 10 000 … games are kept, and an evaluation plays the present one against
each of them, every game twice with the same dice and the seats exchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.games.backgammon import choice
from txlab.engine.games.backgammon.inputs import INPUTS, NAMES, inputs_of
from txlab.engine.games.backgammon.learner import ALPHA, LAMBDA, TDGammon
from txlab.engine.games.backgammon.network import OUTPUTS, Network, equity, forward
from txlab.engine.games.backgammon.rules import ROLLS, START, moves, notation, turned
from txlab.errors import LabError
from txlab.experiments.protocol import Adjustable, Frame, State
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, grouped
from txlab.experiments.small import SmallExperiment, SmallKind

OPENINGS = tuple(dice for dice, _ in ROLLS if dice[0] != dice[1])
"""The fifteen opening rolls."""
MATCH_SEED = 2**62
"""Where the dice of the evaluation's games begin: far from those that are learned from."""
OUTPUT_NAMES = ("win", "win gammon", "lose gammon")


class LearnSection(Section):
    """How it learns: TD(λ) with a network of one hidden layer (MATH G2)."""

    units: Annotated[int, Field(ge=1, le=1024)] = Field(80, description="hidden units; Tesauro's had 40 and 80")
    alpha: Annotated[float, Field(ge=0, le=1)] = Field(ALPHA, description="α, the step size")
    lam: Annotated[float, Field(ge=0, le=1)] = Field(LAMBDA, description="λ, how fast the traces decay")
    games: PositiveInt = Field(30_000, description="games in all")
    games_per_step: PositiveInt = Field(250, le=100_000, description="games from one row of the log to the next")


class MatchSection(Section):
    """How its strength is measured: against copies of itself."""

    games: Annotated[int, Field(ge=2, le=100_000, multiple_of=2)] = Field(
        400, description="games against each copy in an evaluation, half from either seat with the same dice"
    )
    from_games: NonNegativeInt = Field(1_000, description="a copy is kept after 0 games, these, ten times as many, …")


class TDGammonScenario(Scenario):
    """A network that learns backgammon against itself."""

    kind: Literal["td-gammon"] = "td-gammon"
    learn: LearnSection = Field(default_factory=LearnSection)
    match: MatchSection = Field(default_factory=MatchSection)

    def length(self) -> int:
        return -(-self.learn.games // self.learn.games_per_step)

    def outline(self) -> list[tuple[str, str]]:
        learn = self.learn
        weights = sum(each.size for each in Network.drawn(learn.units, 0).weights())
        return [
            ("Game", "Backgammon, without the doubling cube"),
            ("Network", f"{INPUTS} inputs, {learn.units} hidden units, {OUTPUTS} outputs: {grouped(weights)} weights"),
            ("Learner", f"TD(λ), α = {learn.alpha:g}, λ = {learn.lam:g}, greedy on both sides"),
            ("Training", f"{grouped(learn.games)} games against itself"),
        ]


class TDGammonExperiment(SmallExperiment):
    """See protocol.Experiment; in `scenario` nothing is "auto"."""

    def __init__(self, scenario: TDGammonScenario) -> None:
        self.scenario = scenario
        learn = scenario.learn
        self.learner = TDGammon(learn.units, scenario.seed, learn.alpha, learn.lam)
        self.copies = {0: self.learner.net.copy()}
        self.step_count = 0

    @property
    def steps(self) -> int:
        return self.scenario.length()

    def step(self) -> Mapping[str, float]:
        """Play a block of games and learn from every move.

        plies    moves a game, both sides together          gammons   share of the games won by 2 points or 3
        """
        learner, learn = self.learner, self.scenario.learn
        results, moves, games = learner.results.copy(), learner.moves, learner.games
        last = min(games + learn.games_per_step, learn.games)
        for age in [*(age for age in self.ages() if games < age < last), last]:
            learner.run(age - learner.games)
            if age in self.ages():
                self.copies[age] = learner.net.copy()
        self.step_count += 1
        won = learner.results - results
        return {"plies": (learner.moves - moves) / float(won.sum()), "gammons": float(won[2:].sum() / won.sum())}

    def ages(self) -> list[int]:
        """After how many games copies are kept: 0, from_games, ten times as many, …"""
        first, most = self.scenario.match.from_games, self.scenario.learn.games
        return [0, *([] if not first else takewhile(lambda age: age <= most, (first * 10**k for k in count())))]

    # Evaluation, frames and facts

    def evaluate(self) -> Mapping[str, float]:
        """Points a game against each copy of itself that is younger than it.

        against/N                       against the copy of N games
        against/N_low, against/N_high   its 95 % interval
        """
        metrics: dict[str, float] = {}
        pairs = self.scenario.match.games // 2
        for age, copy in self.copies.items():
            if age >= self.learner.games:
                continue
            seeds = np.repeat(MATCH_SEED + np.arange(pairs, dtype=np.uint64), 2)
            points = choice.match(self.learner.net, copy, seeds).reshape(pairs, 2).mean(axis=1)  # a pair: the same dice
            mean, error = float(points.mean()), float(points.std(ddof=1)) / pairs**0.5 if pairs > 1 else 0.0
            metrics[f"against/{age}"] = mean
            if pairs > 1:
                metrics |= {f"against/{age}_low": mean - 1.96 * error, f"against/{age}_high": mean + 1.96 * error}
        return metrics

    def frame(self) -> Frame:
        """The network, and what it makes of the fifteen opening rolls.

        into, hidden, out, last   W₁ (198, H), b₁ (H), W₂ (H, 3), b₂ (3)
        openings (15)             points it expects after its best move with each roll      tokens "openings": the rolls
        start (3)                 y of the initial position
        """
        net = self.learner.net
        best = [(dice, choice.best_after_state(net, START, dice)) for dice in OPENINGS]
        return Frame(
            self.step_count,
            {
                "into": net.into.copy(),
                "hidden": net.hidden.copy(),
                "out": net.out.copy(),
                "last": net.last.copy(),
                "openings": np.array([-expected for _, (_, expected) in best], dtype=np.float32),
                "start": forward(net, inputs_of(START))[1],
            },
            tokens={
                "openings": tuple(f"{high}-{low}" for high, low in OPENINGS),
                "played": tuple(notation(moves(START, dice)[turned(reached)]) for dice, (reached, _) in best),
                "start": OUTPUT_NAMES,
                "into": NAMES,
            },
            facts={
                "game": "backgammon",
                "games": self.learner.games,
                "alpha": self.learner.alpha,
                "lam": self.learner.lam,
            },
        )

    def facts(self) -> Mapping[str, Any]:
        learn = self.scenario.learn
        return {
            "parameters": sum(each.size for each in self.learner.net.weights()),
            "unit": "games",
            "units_per_step": learn.games_per_step,
            "game": "Backgammon",
            "headline": [f"against/{age}" for age in self.ages()[:3]],
            "compute": {
                "device": "cpu",
                "dtype": "float32",
                "kernel": "compiled by Numba" if self.learner.kernel else "plain Python and NumPy",
            },
        }

    def notes(self) -> Sequence[str]:
        """That it is slow, once, where Numba is not installed."""
        if self.learner.kernel is not None or self.step_count:
            return ()
        return ("Numba is not installed, so this learns about a hundred times slower: pip install 'txlab[games]'",)

    # Adjustable parameters

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {name: Adjustable(name, getattr(self.learner, name), 0.0, 1.0) for name in ("alpha", "lam")}

    def change(self, name: str, value: float) -> None:
        setattr(self.learner, name, value)

    # Checkpoints

    def state_dict(self) -> State:
        return {
            "step": self.step_count,
            "units": self.learner.net.units,
            "alpha": self.learner.alpha,
            "lam": self.learner.lam,
            "learner": self.learner.state(),
            "copies": {str(age): list(copy.weights()) for age, copy in self.copies.items()},
        }

    def load_state_dict(self, state: State) -> None:
        if int(state["units"]) != self.scenario.learn.units:
            raise LabError(
                f"the checkpoint's network has {state['units']} hidden units, not {self.scenario.learn.units}"
            )
        self.learner.load(state["learner"])
        self.learner.alpha, self.learner.lam = float(state["alpha"]), float(state["lam"])
        self.copies = {int(age): Network(*map(np.array, weights)) for age, weights in state["copies"].items()}
        self.step_count = int(state["step"])


def network_of(frame: Frame) -> Network:
    """The network of a frame. LabError if the frame has none."""
    names = ("into", "hidden", "out", "last")
    if any(name not in frame.tensors for name in names):
        raise LabError("this frame was recorded without the network of a backgammon player")
    return Network(*(np.array(frame.tensors[name], dtype=np.float32) for name in names))


class TDGammonKind(SmallKind):
    name = "td-gammon"
    title = "TD-Gammon: backgammon learned by self-play"
    schema = TDGammonScenario
    units = {"against/": "points a game", "gammons": "share of games", "plies": "moves a game"}

    def experiment(self, scenario: TDGammonScenario) -> TDGammonExperiment:
        return TDGammonExperiment(scenario)

    def explain_metric(
        self, scenario: TDGammonScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain the points against a copy, and the counts of a block of games."""
        if name not in values:
            return None
        value, played = values[name], scenario.learn.games_per_step
        if name in COUNTED:
            question, equation, note = COUNTED[name]
            return Explanation(
                f"{question} {value:.4g}?", equation, "G2", "counted", [Operand("n", played, note)], [], value
            )
        age, _, bound = name.removeprefix("against/").partition("_")
        mean = values.get(f"against/{age}")
        if mean is None:
            return None
        pairs = scenario.match.games // 2
        operands = [Operand("n", pairs, "pairs of games with the same dice, one from either seat")]
        steps = []
        if bound:
            operands.append(Operand("mean", mean, "points a game"))
            half = abs(values.get(f"against/{age}_high", mean) - mean)
            operands.append(Operand("s", half / 1.96 * pairs**0.5, "standard deviation of the pairs' means"))
            sign = "+" if bound == "high" else "−"
            steps = [Step(bound, f"{mean:.4f} {sign} {half:.4f}", value, "1.96 standard errors")]
        return Explanation(
            question=f"why {value:+.3f} points a game against the network of {grouped(int(age))} games?",
            equation="mean ∓ 1.96 s/√n" if bound else "mean = Σ points of the pair / 2n",
            math="G2",
            source="the same dice twice, the seats exchanged; a gammon counts 2, a backgammon 3",
            operands=operands,
            steps=steps,
            result=value,
        )

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """Explain what the network expects after its best move with an opening roll, and of the initial position.

        LabError for another tensor.
        """
        if tensor not in ("openings", "start") or tensor not in frame.tensors:
            raise LabError(f"{tensor} has no explanation; allowed: openings, start")
        net, at = network_of(frame), int(index[0])
        board, name = (START, "the initial position") if tensor == "start" else self.after_opening(net, at)
        y = forward(net, inputs_of(board))[1]
        expected = equity(y)
        win, win_gammon, lose_gammon = (float(each) for each in y)
        points = Step(
            "equity",
            f"2 · {win:.4f} + {win_gammon:.4f} − {lose_gammon:.4f} − 1",
            expected,
            "points that the player to roll expects",
        )
        if tensor == "start":
            return Explanation(
                question=f"why {y[at]:.4f} for {OUTPUT_NAMES[at]} in {name}?",
                equation="y = σ(W₂ᵀ σ(W₁ᵀx + b₁) + b₂)",
                math="G2",
                source="Tesauro 1992",
                operands=[Operand("y", [float(each) for each in y], ", ".join(OUTPUT_NAMES))],
                steps=[points, Step(OUTPUT_NAMES[at], "the output asked for", float(y[at]))],
                result=float(y[at]),
                labels=OUTPUT_NAMES,
                asked=at,
            )
        return Explanation(
            question=f"why {-expected:+.4f} points after {name}?",
            equation="value = −equity(s′),  equity = 2·win + win gammon − lose gammon − 1",
            math="G2",
            source="Tesauro 1992; s′ is seen by the opponent, who is then to roll",
            operands=[Operand("y(s′)", [float(each) for each in y], ", ".join(OUTPUT_NAMES))],
            steps=[points, Step("value", f"−({expected:.4f})", -expected)],
            result=-expected,
        )

    @staticmethod
    def after_opening(net: Network, at: int) -> tuple[Any, str]:
        dice = OPENINGS[at]
        reached, _ = choice.best_after_state(net, START, dice)
        return reached, f"{dice[0]}-{dice[1]}: {notation(moves(START, dice)[turned(reached)])}"


COUNTED = {
    "plies": ("why do its games take", "moves / games", "games of this step, both sides' moves"),
    "gammons": ("why is this share of its games won by a gammon:", "#(won by 2 or 3 points) / n", "games of this step"),
}

KIND = TDGammonKind()
