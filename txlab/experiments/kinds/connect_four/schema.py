"""The scenarios of "connect-four": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from txlab.engine.games.connect_four import rules
from txlab.errors import LabError
from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, group_digits, several

Share = Annotated[float, Field(ge=0, le=1)]
MOST_VISITS = 10_000


class Network(Section):
    """The policy-value network: convolutions of 3 × 3 in residual blocks, and two heads."""

    channels: Annotated[int, Field(ge=1, le=512)] = Field(32, description="channels of each convolution")
    blocks: Annotated[int, Field(ge=1, le=40)] = Field(3, description="residual blocks, of two convolutions each")


class SelfPlaySection(Section):
    """How it plays against itself (MATH G3)."""

    games: Annotated[int, Field(ge=1, le=65_536)] = Field(256, description="played in parallel")
    moves: Annotated[int, Field(ge=1, le=42)] = Field(
        2, description="in each game a step; more in the first step, until there is a batch to learn from"
    )
    visits: Annotated[int, Field(ge=1, le=MOST_VISITS)] = Field(64, description="of the search a move, at the end")
    first_visits: Annotated[int, Field(ge=1, le=MOST_VISITS)] = Field(
        24, description="in the first step; from there they rise evenly"
    )
    c: Annotated[float, Field(ge=0, le=100)] = Field(2.0, description="c, how much the search explores")
    temperature: Annotated[float, Field(ge=0, le=100)] = Field(
        1.0, description="τ: in the opening moves are drawn ∝ visits^(1/τ); 0 = the most visited one"
    )
    opening: Annotated[int, Field(ge=0, le=42)] = Field(12, description="plies of a game in which moves are drawn")
    random_plies: Annotated[int, Field(ge=0, le=30)] = Field(
        16, description="a game begins after 0 to this number of random moves, which are not learnt"
    )
    tactics: bool = Field(
        True, description="the search sees immediate wins, and leaves out moves that let the other win immediately"
    )
    noise: Share = Field(0.25, description="ε, share of Dirichlet noise in the priors of a root")
    alpha: Annotated[float, Field(gt=0, le=1000)] = Field(1.0, description="α, its concentration")


class Train(learning.Optimizer):
    """A step is a round of self-play, and `updates` batches from the replay."""

    steps: PositiveInt = Field(300, description="rounds of self-play")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 2e-3
    warmup: NonNegativeInt = Field(20, description="steps of linear warm-up")
    final: Share = Field(0.05, description="learning rate at the last step, as a share of the peak")
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    batch: Annotated[int, Field(ge=1, le=65_536)] = Field(512, description="positions an update, half of them mirrored")
    updates: Annotated[int, Field(ge=1, le=10_000)] = Field(4, description="a step")
    replay: Annotated[int, Field(ge=1, le=10_000_000)] = Field(60_000, description="positions kept, the newest")
    search_share: Share = Field(0.5, description="μ: the value learns (1 − μ) · result + μ · the search's value")
    value_weight: Annotated[float, Field(ge=0, le=100)] = Field(1.0, description="weight of the value's loss")

    @model_validator(mode="after")
    def the_replay_holds_a_batch(self) -> Self:
        if self.replay < self.batch:
            raise ValueError(f"a replay of {self.replay} positions holds no batch of {self.batch}")
        return self


class Judge(Section):
    """How it is judged: on positions with exact scores, in which not every move is optimal."""

    positions: Annotated[int, Field(ge=1, le=1000)] = Field(1000, description="for the network alone")
    searched: Annotated[int, Field(ge=1, le=1000)] = Field(200, description="the first N of them, for the search")
    visits: Annotated[int, Field(ge=1, le=MOST_VISITS)] = Field(100, description="of that search")


class Probe(Section):
    """The contents of a frame: a search of each of these positions, and of the first game in progress."""

    positions: Annotated[list[str], Field(max_length=32)] = Field(
        ["", "44", "4433", "444222"], description='the moves that lead there, "" = the start'
    )
    visits: Annotated[int, Field(ge=1, le=MOST_VISITS)] = Field(64, description="of the search")

    @field_validator("positions")
    @classmethod
    def the_games_go_on(cls, positions: list[str]) -> list[str]:
        for text in positions:
            try:
                position = rules.play(rules.read_moves(text))
            except LabError as error:
                raise ValueError(str(error)) from error
            if rules.outcome(position) is not None:
                raise ValueError(f"in {text!r} the game has ended, so there is no move to show")
        return positions


class ConnectFourScenario(Scenario):
    """A network and a tree search that learn Connect Four by playing against themselves."""

    kind: Literal["connect-four"] = "connect-four"
    network: Network = Field(default_factory=Network)
    play: SelfPlaySection = Field(default_factory=SelfPlaySection)
    train: Train = Field(default_factory=Train)
    judge: Judge = Field(default_factory=Judge)
    probe: Probe = Field(default_factory=Probe)

    def length(self) -> int:
        return self.train.steps

    def outline(self) -> list[tuple[str, str]]:
        network, play, train = self.network, self.play, self.train
        visits = f"{play.first_visits} to {play.visits}" if play.visits != play.first_visits else f"{play.visits}"
        learnt = f"{several(train.updates, 'update')} of {group_digits(train.batch)} positions"
        return [
            ("Game", rules.TITLE),
            ("Model", f"{several(network.blocks, 'residual block')} of {several(network.channels, 'channel')}"),
            ("Search", f"PUCT, {visits} visits a move, c = {play.c:g}"),
            ("Training", f"{several(train.steps, 'step')} of {play.moves} × {play.games} moves, {learnt}"),
        ]


def visits_of(step: int, steps: int, first: int, last: float) -> int:
    """Visits a move in a step: round(v₁ + (v − v₁) (n − 1) / (N − 1)), at least 1; constant from step N on.

    >>> [visits_of(n, 5, first=20, last=60) for n in (1, 2, 5, 9)]
    [20, 30, 60, 60]
    """
    return max(1, round(first + (last - first) * min(1.0, (step - 1) / max(1, steps - 1))))
