"""The scenarios of "actor-critic": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, several
from txlab.experiments.tabular.world import WorldSection, world_row

Share = Annotated[float, Field(ge=0, le=1)]


class Networks(Section):
    """Policy and value function: two networks of one shape, of the number of the state."""

    layers: Annotated[int, Field(ge=1, le=8)] = Field(
        1, description="hidden layers; the first has a row for each state"
    )
    width: Annotated[int, Field(ge=1, le=1024)] = Field(64, description="units of each")


class Train(learning.Optimizer):
    """A step is a rollout of all environments, and `epochs` passes over it."""

    steps: PositiveInt = Field(200, description="rollouts")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 3e-3
    warmup: Annotated[int, Field(ge=0)] = Field(0, description="steps of linear warm-up")
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    final: Share = Field(0.02, description="learning rate at the last step, as a share of the peak")
    environments: Annotated[int, Field(ge=1, le=4096)] = Field(32, description="copies of the world, stepped together")
    horizon: Annotated[int, Field(ge=1, le=4096)] = Field(32, description="T, steps of each in a rollout")
    epochs: Annotated[int, Field(ge=1, le=100)] = Field(4, description="passes over a rollout")
    minibatches: Annotated[int, Field(ge=1, le=1024)] = Field(4, description="parts of each pass")
    gae: Share = Field(0.95, description="λ of the advantages")
    clip_ratio: Annotated[float, Field(gt=0, le=1)] = Field(0.2, description="ε: the ratio is clipped to 1 ± ε")
    clip_value: Annotated[float, Field(gt=0, le=1e6)] = Field(
        1.0, description="values are clipped to old ± this, in the units of the scaled rewards"
    )
    value_coefficient: Annotated[float, Field(ge=0, le=100)] = Field(0.5, description="c, weight of the value's loss")
    entropy: Annotated[float, Field(ge=0, le=100)] = Field(
        0.5, description="weight of the entropy; it falls with the learning rate"
    )
    reward_scale: Annotated[float, Field(gt=0, le=1e6)] = Field(
        0.05, description="rewards are multiplied by this before they are learnt from, so that values are of size 1"
    )

    @model_validator(mode="after")
    def parts_are_whole(self) -> Self:
        if self.environments * self.horizon < self.minibatches:
            raise ValueError(f"a rollout of {self.environments * self.horizon} steps has no {self.minibatches} parts")
        return self


class ActorCriticScenario(Scenario):
    """PPO in a world whose probabilities are known, so that it can be held against the optimum."""

    kind: Literal["actor-critic"] = "actor-critic"
    world: WorldSection = Field(default_factory=lambda: WorldSection(name="cliff"))
    networks: Networks = Field(default_factory=Networks)
    train: Train = Field(default_factory=Train)

    def length(self) -> int:
        return self.train.steps

    def outline(self) -> list[tuple[str, str]]:
        networks, train = self.networks, self.train
        return [
            world_row(self.world),
            ("Model", f"{several(networks.layers, 'layer')} of {several(networks.width, 'unit')}, policy and value"),
            (
                "Training",
                f"{several(train.steps, 'rollout')} of {train.environments} × {several(train.horizon, 'step')}",
            ),
        ]
