"""The experiment "self-play": a table that learns a game by playing both sides of it (MATH G1).

A step is a block of games. Notable: an evaluation plays none; the chances of the greedy player against a random and a
perfect one follow from the table and the graph of the game (engine/games/perfect_play.py), so the curves have no noise
except that of learning. A frame stores the table but not the updates that filled it; a running learner knows the last
update of each cell (engine/games/self_play_why.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Annotated, Any, Literal, Self, cast

import numpy as np
from pydantic import Field, field_validator, model_validator

from txlab.engine.explain import Explaining, Explanation, Operand, Step
from txlab.engine.games.catalogue import game_named, of_kind
from txlab.engine.games.game import Position, SmallGame
from txlab.engine.games.graph import GameGraph, compile_graph
from txlab.engine.games.learner import OF_POSITIONS, TITLES, Rule, SelfPlaySettings
from txlab.engine.games.perfect_play import Chances, best_response, both_seats, chances
from txlab.engine.games.players import MaskPlayer, explain_value, perfect_player, random_player, table_player
from txlab.engine.games.population import Population, first_table
from txlab.errors import LabError, choices
from txlab.experiments.kind import Strength
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Adjustable, Frame, State
from txlab.experiments.schema import PositiveInt, Scenario, Section, group_digits, several
from txlab.experiments.tabular.bands import spread
from txlab.experiments.untimed import UntimedExperiment, UntimedKind

SEATS = ("first", "second")
MOST_GAMES_A_STEP = 10_000_000

Share = Annotated[float, Field(ge=0, le=1)]


class GameSection(Section):
    """Which game is played."""

    name: str = Field("tictactoe", description="tictactoe, or a small game of another package")

    @field_validator("name")
    @classmethod
    def the_game_can_be_learnt(cls, name: str) -> str:
        known = [each.name for each in of_kind(SelfPlayKind.name)]
        if name not in known:
            raise ValueError(f"{name[:60]!r} is not known{choices(name[:60], known)}")
        return name

    @property
    def rules(self) -> SmallGame:
        return cast(SmallGame, game_named(self.name).game)


class LearnSection(Section):
    """How it is learnt: one table for both sides, told from the first player's view (MATH G1)."""

    rule: Rule = Field("td", description="td, td-lambda: values of positions; q-learning, sarsa: values of moves")
    alpha: Share = Field(0.1, description="α, the step size")
    epsilon: Share = Field(0.1, description="ε, the share of random moves")
    decay: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="ε of game n is ε · decayⁿ")
    floor: Share = Field(0.0, description="ε falls no lower than this")
    lam: Share = Field(0.8, description="λ of td-lambda")
    initial: Annotated[float, Field(ge=-1, le=1)] = Field(0.0, description="initial value of every position or move")
    exploring: bool = Field(False, description="td, td-lambda: whether random moves are learnt from as well")
    games: PositiveInt = Field(100_000, description="games in all, of each learner")
    games_per_step: PositiveInt = Field(1000, le=1_000_000, description="games from one row of the log to the next")
    seeds: Annotated[int, Field(ge=1, le=4096)] = Field(1, description="learners that differ only in their seeds")

    @model_validator(mode="after")
    def exploring_is_of_positions(self) -> Self:
        if self.exploring and self.rule not in OF_POSITIONS:
            raise ValueError(f"exploring is for {' and '.join(OF_POSITIONS)}; {self.rule} learns of every move anyway")
        return self

    @model_validator(mode="after")
    def a_step_is_over_soon(self) -> Self:
        """Limit a step's games, since a run can stop only between steps; a million games take one to ten seconds."""
        if self.seeds * self.games_per_step > MOST_GAMES_A_STEP:
            most, given = group_digits(MOST_GAMES_A_STEP), group_digits(self.seeds * self.games_per_step)
            raise ValueError(f"seeds × games_per_step are {given} games a step; allowed: at most {most}")
        return self

    def settings(self) -> SelfPlaySettings:
        """The engine's settings."""
        names = ("rule", "alpha", "epsilon", "decay", "floor", "lam", "initial", "exploring")
        return SelfPlaySettings(**{name: getattr(self, name) for name in names})


class PositionsSection(Section):
    """The contents of a frame in addition to the nine first moves."""

    positions: Annotated[list[str], Field(max_length=32)] = Field(
        ["X../.../...", "X../.O./..X", ".../.X./..."],
        description="positions whose moves are shown with their values, as X../.O./..X",
    )


class SelfPlayScenario(Scenario):
    """A table that learns a game by playing both sides of it."""

    kind: Literal["self-play"] = "self-play"
    game: GameSection = Field(default_factory=GameSection)
    learn: LearnSection = Field(default_factory=LearnSection)
    probe: PositionsSection = Field(default_factory=PositionsSection)

    @model_validator(mode="after")
    def positions_can_come_up(self) -> Self:
        game = self.game.rules
        for text in self.probe.positions:
            try:
                position = game.read(text)
            except LabError as error:
                raise ValueError(f"probe.positions: {error}") from error
            if game.outcome(position) is not None:
                raise ValueError(f"probe.positions: in {text!r} the game has ended, so there is no move to show")
        return self

    def length(self) -> int:
        return -(-self.learn.games // self.learn.games_per_step)

    def outline(self) -> list[tuple[str, str]]:
        learn = self.learn
        title = f"TD(λ), λ = {learn.lam:g}" if learn.rule == "td-lambda" else TITLES[learn.rule]
        of = "after-states" if learn.rule in OF_POSITIONS else "moves"
        numbers = f"α = {learn.alpha:g}, ε = {learn.epsilon:g}"
        if learn.decay < 1:
            numbers += f" · {learn.decay:g}ⁿ" + (f", at least {learn.floor:g}" if learn.floor else "")
        learners = "one learner" if learn.seeds == 1 else f"{several(learn.seeds, 'learner')}, a seed and a table each"
        return [
            ("Game", self.game.rules.TITLE),
            ("Learner", f"{title} on {of}, {numbers}; {learners}"),
            (
                "Training",
                f"{several(learn.games, 'game')} against itself, then exactly against random and perfect play",
            ),
        ]


class SelfPlayExperiment(UntimedExperiment):
    """See protocol.Experiment; in `scenario` nothing is "auto"."""

    def __init__(self, scenario: SelfPlayScenario) -> None:
        self.scenario = scenario
        self.game = scenario.game.rules
        self.graph = compile_graph(self.game)
        learn = scenario.learn
        seeds = [(scenario.seed + k) % 2**63 for k in range(learn.seeds)]
        self.population = Population(self.graph, learn.settings(), seeds)
        self.random, self.perfect = random_player(self.game).policy(), perfect_player(self.game).policy()
        self.step_count = 0

    @property
    def steps(self) -> int:
        return self.scenario.length()

    # Learning

    def step(self) -> Mapping[str, float]:
        """Play a block of games against itself.

        epsilon                             ε of the last of them
        self_won, self_drawn, self_lost     shares of these games, the first player's view
        """
        learn, population = self.scenario.learn, self.population
        before = population.results
        population.run(min(learn.games_per_step, learn.games - population.games))
        self.step_count += 1
        drawn, won, lost = ((population.results - before) / (population.results - before).sum()).tolist()
        epsilon = population.settings.epsilon_of(population.games - 1)
        return {"epsilon": epsilon, "self_won": won, "self_drawn": drawn, "self_lost": lost}

    # Frames and facts

    def evaluate(self) -> Mapping[str, float]:
        """The exact chances of the table's greedy player; with several learners, their mean.

        won_first, drawn_first, lost_first, won_second, …   against a player that moves at random
        lost_to_perfect_first, lost_to_perfect_second       against the perfect player (never loses: the rest is drawn)
        unbeaten                                            share of the learners that cannot lose from either seat
        won_first_low, won_first_high, …                    with several: one standard error below and above the mean
        """
        lists: dict[str, list[float]] = {}
        unbeaten = []
        for row in range(self.population.size):
            policy = self.player(row).policy()
            for seat, chance in zip(SEATS, both_seats(self.graph, policy, self.random), strict=True):
                for name, value in asdict(chance).items():
                    lists.setdefault(f"{name}_{seat}", []).append(value)
            against = both_seats(self.graph, policy, self.perfect)
            for seat, chance in zip(SEATS, against, strict=True):
                lists.setdefault(f"lost_to_perfect_{seat}", []).append(chance.lost)
            unbeaten.append(float(all(chance.lost == 0 for chance in against)))
        values = {name: float(np.mean(each)) for name, each in lists.items()}
        values["unbeaten"] = float(np.mean(unbeaten))
        if self.population.size > 1:
            for name in ("won_first", "won_second"):
                _, low, high = spread(np.array(lists[name]))
                values[f"{name}_low"], values[f"{name}_high"] = float(low), float(high)
        return values

    def player(self, row: int = 0) -> MaskPlayer:
        """The greedy player of one table, as of now."""
        return make_player(self.graph, self.population.settings, self.population.values(row), self.population.games)

    def frame(self) -> Frame:
        """The table of the first learner, and its values in some positions.

        values     (cells) float64: V of every position, or Q of every move, of the graph; the first player's view
        openings   (moves) float32: the value of each first move            tokens "openings": the names of the moves
        shown      (positions, moves) float32, NaN where no move: their values for the player to move; tokens
        """
        population, settings = self.population, self.population.settings
        player = self.player()
        shown = [self.game.read(text) for text in self.scenario.probe.positions]
        return Frame(
            self.step_count,
            {
                "values": population.values(),
                "openings": self.values_of_moves(player, self.game.start()),
                "shown": np.array([self.values_of_moves(player, each) for each in shown]).reshape(
                    -1, len(self.game.MOVES)
                ),
            },
            tokens={"openings": self.game.MOVES, "shown": tuple(self.game.text(each) for each in shown)},
            facts={
                "game": self.game.NAME,
                "settings": asdict(settings),
                "title": settings.title,
                "of": "positions" if settings.rule in OF_POSITIONS else "moves",
                "games": population.games,
                "learners": population.size,
            },
        )

    def values_of_moves(self, player: MaskPlayer, position: Position) -> np.ndarray:
        """(moves) float32: the values of the moves in a position, NaN where there is none."""
        values = np.full(len(self.game.MOVES), np.nan, dtype=np.float32)
        for move, value in player.values(position).items():
            values[move] = value
        return values

    def facts(self) -> Mapping[str, Any]:
        learn = self.scenario.learn
        return {
            "parameters": len(self.population.values()),
            "unit": "games",
            "units_per_step": learn.games_per_step * learn.seeds,
            "game": self.game.TITLE,
            "positions": self.graph.size,
            "headline": ["won_first", "won_second", "lost_to_perfect_first", "lost_to_perfect_second"],
            "compute": {"device": "cpu", "dtype": "float64"},
        }

    # Adjustable parameters

    def adjustable(self) -> Mapping[str, Adjustable]:
        settings = self.population.settings
        names = ["alpha", "epsilon", *(["lam"] if settings.rule == "td-lambda" else [])]
        return {name: Adjustable(name, getattr(settings, name), 0.0, 1.0) for name in names}

    def change(self, name: str, value: float) -> None:
        self.population.set(**{name: value})

    # Checkpoints

    def state_dict(self) -> State:
        return {
            "step": self.step_count,
            "game": self.game.NAME,
            "settings": asdict(self.population.settings),
            "games": self.population.games,
            "population": self.population.state(),
        }

    def load_state_dict(self, state: State) -> None:
        settings = settings_of(state)
        mine = self.population.settings
        if (state["game"], settings.rule) != (self.game.NAME, mine.rule):
            raise LabError(
                f"the checkpoint is of {settings.rule} at {state['game']}, not of {mine.rule} at {self.game.NAME}"
            )
        numbers = {key: value for key, value in asdict(settings).items() if key not in ("rule", "initial")}
        self.population.load(state["population"])
        self.population.set(**numbers)
        self.step_count = int(state["step"])


def settings_of(kept: Mapping[str, Any]) -> SelfPlaySettings:
    """The learner's settings in a frame's facts, or in a state."""
    return SelfPlaySettings(**kept["settings"])


def make_player(graph: GameGraph, settings: SelfPlaySettings, table: np.ndarray, games: int) -> MaskPlayer:
    return table_player(graph, table, f"{settings.title}, {group_digits(games)} games")


def player_of(kept: Frame | Mapping[str, Any]) -> MaskPlayer:
    """The player of a frame, or of a state. LabError if it has no table of a known game."""
    facts = kept.facts if isinstance(kept, Frame) else kept
    known = {each.name: each for each in of_kind(SelfPlayKind.name)}
    if "settings" not in facts or facts.get("game") not in known:
        raise LabError(f"this is not a record of self-play at a game that is known here: {', '.join(known)}")
    graph, settings = compile_graph(cast(SmallGame, known[str(facts["game"])].game)), settings_of(facts)
    if isinstance(kept, Frame):
        if "values" not in kept.tensors:
            raise LabError("this frame was recorded without its table of values, so it cannot be used to play")
        table = np.asarray(kept.tensors["values"], dtype=np.float64)
    else:
        table = first_table(graph, settings, kept["population"])
    cells = settings.cells(graph)
    if table.shape != (cells,):
        raise LabError(f"a table of {settings.rule} at {facts['game']} has {cells} values; this one has {table.size}")
    return make_player(graph, settings, table, int(facts["games"]))


def points_of(won_first: float, lost_first: float, won_second: float, lost_second: float) -> tuple[float, float, float]:
    """Points a game, the mean of both seats; exact, so that both ends of the interval are the value."""
    points = (won_first - lost_first + won_second - lost_second) / 2
    return points, points, points


class SelfPlayKind(UntimedKind):
    name = "self-play"
    title = "Self-play of a board game"
    schema = SelfPlayScenario
    METRICS = tuple(
        Metric(f"{how}_{seat}", "share of games")
        for how in ("won", "drawn", "lost", "lost_to_perfect")
        for seat in SEATS
    )

    plays_from = "frames"

    def player(self, scenario: SelfPlayScenario, kept: Frame | State | None, looking: int | None = None) -> MaskPlayer:
        """A table looks nowhere: `looking` is not read."""
        if kept is None:
            raise LabError("a player of this kind is read from a frame, or from the state of a checkpoint")
        return player_of(kept)

    def strength(self, scenario: SelfPlayScenario, facts: Mapping[str, Any]) -> Strength:
        learn = scenario.learn
        who = "" if learn.seeds == 1 else f", mean of {several(learn.seeds, 'learner')}"
        metrics = tuple(f"{how}_{seat}" for seat in SEATS for how in ("won", "lost"))
        about = f"points a game against random, computed exactly{who}"
        return Strength(about, metrics, points_of, learn.games_per_step, learn.games)

    def experiment(self, scenario: SelfPlayScenario) -> SelfPlayExperiment:
        return SelfPlayExperiment(scenario)

    def explain_metric(
        self, scenario: SelfPlayScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain a share of games, compared with perfect play; and the ε of a step."""
        if name not in values:
            return None
        if name == "epsilon":
            return explain_epsilon(scenario, step, values[name])
        result, _, seat = name.partition("_")
        if result in ("won", "drawn", "lost") and seat in SEATS:
            return explain_against_random(scenario, name, values)
        if name.removeprefix("lost_to_perfect_") in SEATS:
            return explain_against_perfect(scenario, name, values)
        meaning = AMONG_THEMSELVES.get(name)
        if meaning is None:
            return None
        question, equation, operand = meaning
        why = Explaining(question.format(value=values[name]), values[name])
        why.equation(equation, "G1", "counted")
        why.operands.append(operand)
        why.measurement(name, "counted")
        return why.result()

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """Explain the value of a move in a frame; index is (move,) for "openings", (position, move) for "shown".

        LabError for another tensor, or if there is no such move.
        """
        if tensor not in ("openings", "shown") or tensor not in frame.tensors:
            raise LabError(f"{tensor} has no explanation; allowed: openings, shown")
        player = player_of(frame)
        game = player.game
        position = game.start() if tensor == "openings" else game.read(frame.tokens["shown"][int(index[0])])
        move = int(index[-1])
        source = f"{frame.facts['title']}, {frame.facts['games']} games against itself"
        explanation = explain_value(game, player.values(position), position, move, source)
        if explanation is None:
            raise LabError(f"there is no move {move} in {game.text(position)}")
        return explanation


@cache
def bounds(name: str) -> tuple[tuple[Chances, Chances], tuple[Chances, Chances]]:
    """Chances against a random player, from either seat: (the perfect player, the best response to it)."""
    game = cast(SmallGame, game_named(name).game)
    graph, random = compile_graph(game), random_player(game).policy()
    first, second = best_response(graph, random, 1)[0], best_response(graph, random, -1)[0]
    best = chances(graph, first, random), chances(graph, random, second).swap_sides()
    return both_seats(graph, perfect_player(game).policy(), random), best


def describe_judge(scenario: SelfPlayScenario) -> str:
    """Whose chances they are."""
    learners = scenario.learn.seeds
    return "of the greedy player of the table" if learners == 1 else f"mean of {several(learners, 'learner')}"


def explain_against_random(scenario: SelfPlayScenario, name: str, values: Mapping[str, float]) -> Explanation:
    result, _, seat = name.partition("_")
    perfect, best = (each[SEATS.index(seat)] for each in bounds(scenario.game.name))
    labels = ("won", "drawn", "lost")
    three = [values.get(f"{each}_{seat}", float("nan")) for each in labels]
    question = f"why {result} {values[name]:.4f} against a random player, sitting {seat}?"
    why = Explaining(question, values[name], labels, labels.index(result))
    why.equation(
        f"{result} = Σ reach(s) over the positions that ended so;  reach(s·a) = Σ reach(s) π(a|s)",
        "G1",
        "computed from the table and all positions; nothing was played",
    )
    why.input("π(a|s)", "the greedy move, or 1 / the number of moves", "the learner's turn, or the other's")
    why.step("won, drawn, lost", "", three, describe_judge(scenario))
    why.means(
        Step("all", "won + drawn + lost", sum(three)),
        Step("E[r]", "won − lost", three[0] - three[2]),
        Step("perfect", f"{result}, evenly among moves that keep the value", getattr(perfect, result)),
        Step("best", f"{result} by the best response to random", getattr(best, result), "sets traps"),
    )
    return why.result()


def explain_against_perfect(scenario: SelfPlayScenario, name: str, values: Mapping[str, float]) -> Explanation:
    seat, lost = name.removeprefix("lost_to_perfect_"), values[name]
    why = Explaining(f"why is {lost:.4g} of the games lost to the perfect player, sitting {seat}?", lost)
    why.equation(
        "lost = Σ reach(s) over the positions that it has won;  reach(s·a) = Σ reach(s) π(a|s)",
        "G1",
        "computed from the table and all positions; nothing was played",
    )
    why.measurement("lost", describe_judge(scenario))
    why.means(
        Step("drawn", "1 − lost, since it cannot be beaten", 1 - lost),
        Step("in 1000 games", "1000 · lost", 1000 * lost, "0 = it cannot lose, whatever the perfect player chooses"),
    )
    return why.result()


# Shares of the games that the learners play against themselves, and of learners that cannot be beaten.
OF_STEP = Operand("n", "games of this step", "all learners' own games, exploration included; the first player's view")
AMONG_THEMSELVES = {
    "self_won": ("why does the first player win {value:.4g} of its games against itself?", "#(won) / n", OF_STEP),
    "self_drawn": ("why is {value:.4g} of its games against itself drawn?", "#(drawn) / n", OF_STEP),
    "self_lost": ("why does the first player lose {value:.4g} of its games against itself?", "#(lost) / n", OF_STEP),
    **{
        f"won_{seat}_{bound}": (
            f"why {{value:.4g}} as a bound of their wins, sitting {seat}?",
            "mean ∓ s / √n,  s² = Σ (wonᵢ − mean)² / (n − 1)",
            Operand("n", "the learners", f"won_{seat} is their mean"),
        )
        for seat in SEATS
        for bound in ("low", "high")
    },
    "unbeaten": (
        "why are {value:.4g} of the learners unbeaten?",
        "#(learners that never lose to the perfect player, in either seat) / n",
        Operand("n", "the learners", "each playing greedily; all games with the perfect player are followed"),
    ),
}


def explain_epsilon(scenario: SelfPlayScenario, step: int, value: float) -> Explanation:
    learn = scenario.learn
    games = min(step * learn.games_per_step, learn.games)
    last = max(games - 1, 0)
    why = Explaining(f"why ε = {value:.4g} after {group_digits(games)} games?", value)
    why.equation("ε of game n = max(ε · decayⁿ, floor)", "M5", "[learn] of the scenario")
    why.input("ε", learn.epsilon, "learn.epsilon")
    why.input("decay", learn.decay, "learn.decay")
    why.input("floor", learn.floor, "learn.floor")
    why.input("n", last, "the last game of this step, the first being 0")
    why.step("ε of game n", "max(ε · decayⁿ, floor)", learn.settings().epsilon_of(last))
    return why.result(because="it was changed while it ran")


KIND = SelfPlayKind()
