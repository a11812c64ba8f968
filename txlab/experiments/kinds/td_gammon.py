"""The experiment "td-gammon": a network that learns backgammon by playing both sides (MATH G2).

A step is a block of games, each move of which is an update. Notable: strength is measured against the run itself:
copies of the network after 0, 1 000, 10 000 … games are kept, and an evaluation plays the present one against each of
them, every game twice with the same dice and the seats exchanged. A frame holds the network and the learner's position,
so that the next moves can be recomputed from it, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from txlab.engine.explain import Explaining, Explanation, Step, compute_step
from txlab.engine.games.backgammon import choice, why
from txlab.engine.games.backgammon.inputs import INPUTS, NAMES, inputs_of
from txlab.engine.games.backgammon.learner import ALPHA, LAMBDA, TDGammon
from txlab.engine.games.backgammon.network import OUTPUTS, Network, equity, forward
from txlab.engine.games.backgammon.player import NetworkPlayer
from txlab.engine.games.backgammon.rules import ROLLS, START, moves, notation, swap_sides
from txlab.engine.games.backgammon.why import FOLLOWED, LAYERS, OUTPUT_NAMES, Learning, next_moves
from txlab.engine.intervals import mean_interval, student_quantile
from txlab.errors import LabError
from txlab.experiments.kind import Strength
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Adjustable, Frame, State
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, group_digits, several
from txlab.experiments.untimed import UntimedExperiment, UntimedKind

OPENINGS = tuple(dice for dice, _ in ROLLS if dice[0] != dice[1])
"""The fifteen opening rolls."""
MATCH_SEED = 2**62
"""Where the dice of the evaluation's games begin: far from those that are learnt from."""
MOVES_SHOWN = 6
"""Moves that a frame looks ahead; a game takes 17 at the least."""
MOST_POINTS = 3
POINTS = "a gammon counts 2, a backgammon 3; there is no doubling cube"


class LearnSection(Section):
    """How it learns: TD(λ) with a network of one hidden layer (MATH G2)."""

    units: Annotated[int, Field(ge=1, le=1024)] = Field(80, description="hidden units; Tesauro's had 40 and 80")
    alpha: Annotated[float, Field(ge=0, le=1)] = Field(ALPHA, description="α, the step size")
    lam: Annotated[float, Field(ge=0, le=1)] = Field(LAMBDA, description="λ, how fast the traces decay")
    games: PositiveInt = Field(30_000, description="games in all")
    games_per_step: PositiveInt = Field(250, le=100_000, description="games from one row of the log to the next")


class MatchSection(Section):
    """The measurement of its strength: against copies of itself."""

    games: Annotated[int, Field(ge=2, le=100_000, multiple_of=2)] = Field(
        400, description="games against each copy in an evaluation, half from either seat with the same dice"
    )
    copies: list[NonNegativeInt] = Field(
        [0, 1_000, 10_000, 100_000], min_length=1, max_length=16, description="after how many games a copy is kept"
    )
    two_plies_games: Annotated[int, Field(ge=0, le=10_000, multiple_of=2)] = Field(
        0, description="games in which it looks two plies ahead, against itself looking one; 0 = none"
    )


class TDGammonScenario(Scenario):
    """A network that learns backgammon against itself."""

    kind: Literal["td-gammon"] = "td-gammon"
    learn: LearnSection = Field(default_factory=LearnSection)
    match: MatchSection = Field(default_factory=MatchSection)

    def length(self) -> int:
        return -(-self.learn.games // self.learn.games_per_step)

    def outline(self) -> list[tuple[str, str]]:
        learn = self.learn
        weights = sum(each.size for each in Network.initialize(learn.units, 0).weights())
        return [
            ("Game", "Backgammon, without the doubling cube"),
            (
                "Network",
                f"{INPUTS} inputs, {learn.units} hidden units, {OUTPUTS} outputs: {group_digits(weights)} weights",
            ),
            ("Learner", f"TD(λ), α = {learn.alpha:g}, λ = {learn.lam:g}, greedy on both sides"),
            ("Training", f"{group_digits(learn.games)} games against itself"),
        ]


class TDGammonExperiment(UntimedExperiment):
    """See protocol.Experiment; in `scenario` nothing is "auto"."""

    def __init__(self, scenario: TDGammonScenario) -> None:
        self.scenario = scenario
        learn = scenario.learn
        self.learner = TDGammon(learn.units, scenario.seed, learn.alpha, learn.lam)
        self.copies = {0: self.learner.net.copy()} if 0 in self.ages() else {}
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
        """After how many games copies are kept."""
        return sorted({age for age in self.scenario.match.copies if age <= self.scenario.learn.games})

    # Evaluation, frames and facts

    def evaluate(self) -> Mapping[str, float]:
        """Points a game against each earlier copy of itself.

        against/N                       against the copy of N games
        two_plies                       looking two plies ahead, against itself looking one ahead
        against/N_low, two_plies_high…  ends of the 95 % interval
        """
        net, match = self.learner.net, self.scenario.match
        metrics: dict[str, float] = {}
        for age, copy in self.copies.items():
            if age < self.learner.games:
                metrics |= measure_points(f"against/{age}", net, copy, match.games // 2, (1, 1))
        if match.two_plies_games:
            metrics |= measure_points("two_plies", net, net, match.two_plies_games // 2, (2, 1))
        return metrics

    def frame(self) -> Frame:
        """The network, and its evaluation of the fifteen opening rolls.

        into, hidden, out, last   W₁ (198, H), b₁ (H), W₂ (H, 3), b₂ (3)
        openings (15)             points it expects after its best move with each roll      tokens "openings": the rolls
        start (3)                 y of the initial position
        next/delta (M, 3)         δ of the moves that it learns from next                   tokens "next": the moves
        next/trace (M)            ‖e‖ of them
        next/change (M)           their changes to one weight, facts["followed"]
        """
        net = self.learner.net
        ahead = next_moves(self.learner, MOVES_SHOWN)
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
                "next/delta": np.array([each.learnt.delta for each in ahead]),
                "next/trace": np.array([each.norm for each in ahead], dtype=np.float32),
                "next/change": np.array([each.change(*FOLLOWED) for each in ahead], dtype=np.float32),
            },
            tokens={
                "openings": tuple(f"{high}-{low}" for high, low in OPENINGS),
                "played": tuple(notation(moves(START, dice)[swap_sides(reached)]) for dice, (reached, _) in best),
                "start": OUTPUT_NAMES,
                "into": NAMES,
                "next": tuple(each.describe() for each in ahead),
            },
            facts={
                "game": "backgammon",
                "games": self.learner.games,
                "alpha": self.learner.alpha,
                "lam": self.learner.lam,
                "seed": self.learner.seed,
                "followed": why.name_of_weight(*FOLLOWED),
            },
        )

    def facts(self) -> Mapping[str, Any]:
        learn = self.scenario.learn
        return {
            "parameters": sum(each.size for each in self.learner.net.weights()),
            "unit": "games",
            "units_per_step": learn.games_per_step,
            "game": "Backgammon",
            "headline": [f"against/{age}" for age in self.ages()[-3:]],
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


def measure_points(name: str, first: Network, second: Network, pairs: int, plies: tuple[int, int]) -> dict[str, float]:
    """Points a game of `first` over pairs of games with the same dice, and their interval."""
    seeds = np.repeat(MATCH_SEED + np.arange(pairs, dtype=np.uint64), 2)
    points = choice.match(first, second, seeds, plies).reshape(pairs, 2).mean(axis=1)
    mean, deviation = float(points.mean()), float(points.std())
    low, high = mean_interval(mean, deviation, pairs, -MOST_POINTS, MOST_POINTS)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def network_of(frame: Frame) -> Network:
    """The network of a frame. LabError if the frame has none."""
    if any(name not in frame.tensors for name in LAYERS):
        raise LabError("this frame was recorded without the network of a backgammon player")
    return Network(*(np.array(frame.tensors[name], dtype=np.float32) for name in LAYERS))


def learner_of(frame: Frame) -> TDGammon:
    """The learner as it was when the frame was taken, between two games. LabError if the frame does not tell."""
    facts = frame.facts
    if any(name not in facts for name in ("seed", "alpha", "lam", "games")):
        raise LabError("this frame does not tell where the learner was: its seed, games, α and λ")
    net = network_of(frame)
    learner = TDGammon(net.units, int(facts["seed"]), float(facts["alpha"]), float(facts["lam"]))
    learner.net, learner.games = net, int(facts["games"])
    return learner


class TDGammonKind(UntimedKind):
    name = "td-gammon"
    title = "TD-Gammon: backgammon learnt by self-play"
    schema = TDGammonScenario
    METRICS = (
        Metric("against/", "points a game", less=False),
        *(Metric(name, "points a game", less=False) for name in ("two_plies", "two_plies_low", "two_plies_high")),
        Metric("gammons", "share of games"),
        Metric("plies", "moves a game"),
    )

    plays_from = "frames"
    looks_ahead = ("plies", 2)

    def player(
        self, scenario: TDGammonScenario, kept: Frame | State | None, looking: int | None = None
    ) -> NetworkPlayer:
        """The network of a frame. looking   1 or 2 plies"""
        if not isinstance(kept, Frame):
            raise LabError("a backgammon player is read from a frame")
        plies = 1 if looking is None else looking
        if plies not in (1, 2):
            raise LabError(f"{plies} plies are not possible; allowed: 1, 2")
        games = group_digits(int(kept.facts.get("games", 0)))
        return NetworkPlayer(f"TD-Gammon, {games} games{', 2 plies' if plies > 1 else ''}", network_of(kept), plies)

    def strength(self, scenario: TDGammonScenario, facts: Mapping[str, Any]) -> Strength | None:
        """Against its youngest copy."""
        learn, copies = scenario.learn, [age for age in scenario.match.copies if age < scenario.learn.games]
        if not copies:
            return None
        youngest = min(copies)
        metrics = tuple(f"against/{youngest}{end}" for end in ("", "_low", "_high"))
        about = f"points a game against its copy of {several(youngest, 'game')}, 95 % interval"
        return Strength(about, metrics, lambda *values: values, learn.games_per_step, learn.games)

    def experiment(self, scenario: TDGammonScenario) -> TDGammonExperiment:
        return TDGammonExperiment(scenario)

    def explain_metric(
        self, scenario: TDGammonScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain the points against a copy, their interval, and the counts of a block of games."""
        if name not in values:
            return None
        if name in COUNTED:
            question, equation = COUNTED[name]
            learn = scenario.learn
            games = min(learn.games_per_step, learn.games - (step - 1) * learn.games_per_step)
            why = Explaining(f"{question} {values[name]:.4g}?", values[name])
            why.equation(equation, "G2", "counted")
            why.input("n", games, "games of this step, against itself")
            why.measurement(name)
            return why.result()
        of, bound = next(
            ((name.removesuffix(f"_{end}"), end) for end in ("low", "high") if name.endswith(f"_{end}")), (name, "")
        )
        if of not in values or not (of == "two_plies" or of.startswith("against/")):
            return None
        match = scenario.match
        pairs, opponent = match.two_plies_games // 2, "itself, which looks one ply ahead and not two"
        if of != "two_plies":
            pairs, opponent = match.games // 2, f"its copy of {group_digits(int(of.removeprefix('against/')))} games"
        if bound:
            return explain_bound(values, of, bound, opponent, pairs)
        why = Explaining(f"why {values[of]:+.3f} points a game against {opponent}?", values[of])
        why.equation("mean = Σ points of the pair / 2n", "G2", POINTS)
        why.input("n", pairs, PAIRS)
        why.measurement("mean", f"of {several(2 * pairs, 'game')}")
        return why.result()

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """Explain the network's value of the start, a weight, and the next moves that it learns from.

        LabError for another tensor.
        """
        if tensor not in frame.tensors:
            raise LabError(f"{tensor} has no explanation; allowed: {', '.join(frame.tensors)}")
        at = tuple(map(int, index))
        if tensor in LAYERS:
            return why.explain_weight(ahead_of(frame, 0), tensor, at)
        match tensor:
            case "next/delta":
                return why.explain_delta(ahead_of(frame, at[0]), at[1])
            case "next/trace":
                return why.explain_norm(ahead_of(frame, at[0]))
            case "next/change":
                return why.explain_change(ahead_of(frame, at[0]), *FOLLOWED)
            case "start":
                return explain_output(network_of(frame), at[0])
        return explain_opening(network_of(frame), at[0])


def ahead_of(frame: Frame, move: int) -> Learning:
    """The move of this number, from 0, that the learner of the frame will learn from."""
    return next_moves(learner_of(frame), move + 1)[move]


PAIRS = "pairs of games with the same dice, one from either seat"


def explain_bound(values: Mapping[str, float], of: str, bound: str, opponent: str, n: int) -> Explanation:
    """Explain an end of the interval of points a game, from the mean and the width that were recorded."""
    mean, value = values[of], values[f"{of}_{bound}"]
    middle, t = n * mean / (n + 2), student_quantile(n + 2)
    sign = 1 if bound == "high" else -1
    s = sign * (value - middle) / t * (n + 2) ** 0.5
    why = Explaining(f"why {value:+.3f} as a bound of the points a game against {opponent}?", value)
    why.equation(
        "m ∓ t s / √(n + 2),  m = n mean / (n + 2)",
        "G2",
        f"{POINTS}; Student's 95 % interval, with two more results imagined at either end, −3 and 3",
    )
    why.input("n", n, PAIRS)
    why.input("mean", mean, "points a game")
    why.input("t", t, "Student's, n + 1 degrees of freedom")
    why.compute("m", "{} · {} / ({} + 2)", lambda n, mean, again: n * mean / (again + 2), n, mean, n)
    if abs(value) == MOST_POINTS:
        why.measurement(bound, f"no game is worth more than {MOST_POINTS} points")
    else:
        why.input("s", s, "deviation of the pairs' means, the imagined ones among them")
        form = "{} + {} · {} / √({})" if bound == "high" else "{} − {} · {} / √({})"
        why.compute(bound, form, lambda m, t, s, n: m + sign * t * s / n**0.5, middle, t, s, n + 2)
    return why.result()


def expected_points(y: Sequence[float]) -> Step:
    """The equity of the outputs of a position."""
    return compute_step(
        "equity",
        "2 · {} + {} − {} − 1",
        lambda win, gammon, lost: 2 * win + gammon - lost - 1,
        *y,
        note="points that the player to roll expects",
    )


def explain_output(net: Network, at: int) -> Explanation:
    """Explain an output for the initial position."""
    y = [float(each) for each in forward(net, inputs_of(START))[1]]
    why = Explaining(f"why {y[at]:.4f} for {OUTPUT_NAMES[at]} in the initial position?", y[at], OUTPUT_NAMES, at)
    why.equation("y = σ(W₂ᵀ σ(W₁ᵀx + b₁) + b₂)", "G2", "Tesauro 1992")
    why.input("units", net.units, "hidden, of the network in this frame")
    why.step("y", "", y, ", ".join(OUTPUT_NAMES))
    why.means(expected_points(y))
    return why.result()


def explain_opening(net: Network, at: int) -> Explanation:
    """Explain the network's value after its best move with an opening roll."""
    dice = OPENINGS[at]
    reached, _ = choice.best_after_state(net, START, dice)
    y = [float(each) for each in forward(net, inputs_of(reached))[1]]
    opening = f"{dice[0]}-{dice[1]}: {notation(moves(START, dice)[swap_sides(reached)])}"
    there = equity(np.array(y))
    why = Explaining(f"why {-there:+.4f} points after {opening}?", -there)
    why.equation(
        "value = −equity(s′),  equity = 2·win + win gammon − lose gammon − 1",
        "G2",
        "Tesauro 1992; s′ is seen by the opponent, who is then to roll",
    )
    why.input("y(s′)", y, ", ".join(OUTPUT_NAMES))
    why.steps.append(expected_points(y))
    why.compute("value", "0 − {}", lambda expected: -expected, there)
    return why.result()


COUNTED = {
    "plies": ("why is the number of moves in its games", "moves of both sides / games"),
    "gammons": ("why is the share of its games that are won by a gammon", "#(won by 2 or 3 points) / n"),
}

KIND = TDGammonKind()
