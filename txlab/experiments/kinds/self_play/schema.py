"""What a scenario of self-play may say: which game, which rule with which numbers, and what is looked at.

Defaults live here. Letters in the descriptions are MATH.md's. No torch at import time.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.engine.games import tictactoe
from txlab.engine.games.learner import OF_POSITIONS, TITLES, Rule, SelfPlaySettings
from txlab.errors import LabError
from txlab.experiments.schema import PositiveInt, Scenario, Section, grouped, several

MOST_GAMES_A_STEP = 10_000_000

Share = Annotated[float, Field(ge=0, le=1)]


class GameSection(Section):
    """Which game is played."""

    name: Literal["tictactoe"] = Field("tictactoe", description="tictactoe")


class Learn(Section):
    """How it is learnt: one table for both sides, told from the first player's view (MATH G1)."""

    rule: Rule = Field("td", description="td, td-lambda: values of positions; q-learning, sarsa: values of moves")
    alpha: Share = Field(0.1, description="α, the step size")
    epsilon: Share = Field(0.1, description="ε, the share of moves made at random")
    decay: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="ε of game n is ε · decayⁿ")
    floor: Share = Field(0.0, description="ε falls no lower than this")
    lam: Share = Field(0.8, description="λ of td-lambda")
    initial: Annotated[float, Field(ge=-1, le=1)] = Field(0.0, description="every value before anything is learnt")
    exploring: bool = Field(False, description="td, td-lambda: whether moves made at random teach as well")
    games: PositiveInt = Field(100_000, description="games in all, of each learner")
    games_per_step: PositiveInt = Field(1000, le=1_000_000, description="games from one row of the log to the next")
    seeds: Annotated[int, Field(ge=1, le=4096)] = Field(1, description="learners that differ in their chance alone")

    @model_validator(mode="after")
    def exploring_is_of_positions(self) -> Self:
        if self.exploring and self.rule not in OF_POSITIONS:
            raise ValueError(f"exploring is for {' and '.join(OF_POSITIONS)}; {self.rule} learns of every move anyway")
        return self

    @model_validator(mode="after")
    def a_step_is_over_soon(self) -> Self:
        """Between two steps a run can be stopped and looked at; a million games take a second or ten."""
        if self.seeds * self.games_per_step > MOST_GAMES_A_STEP:
            most, given = grouped(MOST_GAMES_A_STEP), grouped(self.seeds * self.games_per_step)
            raise ValueError(f"seeds × games_per_step are {given} games a step; allowed: at most {most}")
        return self

    def settings(self) -> SelfPlaySettings:
        """As the engine takes them."""
        names = ("rule", "alpha", "epsilon", "decay", "floor", "lam", "initial", "exploring")
        return SelfPlaySettings(**{name: getattr(self, name) for name in names})


class Look(Section):
    """What a frame shows beside the nine first moves."""

    positions: Annotated[list[str], Field(max_length=32)] = Field(
        ["X../.../...", "X../.O./..X", ".../.X./..."],
        description="positions whose moves are shown with their values, as X../.O./..X",
    )

    @model_validator(mode="after")
    def positions_can_come_up(self) -> Self:
        for text in self.positions:
            try:
                position = tictactoe.read(text)
            except LabError as error:
                raise ValueError(f"positions: {error}") from error
            if tictactoe.outcome(position) is not None:
                raise ValueError(f"positions: in {text!r} the game has ended, so there is no move to show")
        return self


class SelfPlayScenario(Scenario):
    """A table that learns a game by playing both sides of it."""

    kind: Literal["self-play"] = "self-play"
    game: GameSection = Field(default_factory=GameSection)
    learn: Learn = Field(default_factory=Learn)
    look: Look = Field(default_factory=Look)

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
            ("Game", tictactoe.TITLE),
            ("Learner", f"{title} on {of}, {numbers}; {learners}"),
            (
                "Training",
                f"{several(learn.games, 'game')} against itself, then exactly against random and perfect play",
            ),
        ]
