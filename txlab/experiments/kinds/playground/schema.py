"""The scenarios of "playground": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from txlab.engine.feedforward.graph import Graph, read
from txlab.engine.feedforward.layers import MOST_LAYERS, MOST_WIDE, build_layers
from txlab.engine.feedforward.plane import FEATURES
from txlab.errors import LabError
from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, several

DataName = Literal["circle", "xor", "clouds", "spiral", "plane", "bumps"]
Activation = Literal["tanh", "relu", "sigmoid", "linear", "sin", "gelu"]
Feature = Literal["x", "y", "x2", "y2", "xy", "sin_x", "sin_y"]
DATA: tuple[DataName, ...] = get_args(DataName)


class PlaneData(Section):
    """Points in the plane, −6 … 6 in both coordinates, and their targets."""

    name: DataName = Field("spiral", description="circle, xor, clouds and spiral are two classes; plane, bumps numbers")
    points: Annotated[int, Field(ge=4, le=10_000)] = Field(400, description="for training and validation together")
    noise: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="0: none; .5: much")
    test: Annotated[float, Field(gt=0, lt=1)] = Field(0.5, description="share of them kept for validation")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(1, description="of the points; that of the weights is above")


class NetworkSection(Section):
    """In layers, or any labelled directed acyclic graph."""

    layers: list[Annotated[int, Field(ge=1, le=MOST_WIDE)]] = Field(
        [8, 8], max_length=MOST_LAYERS, description="neurons of each hidden layer"
    )
    activation: Activation = Field("tanh", description="of the hidden layers")
    features: list[Feature] = Field(["x", "y"], min_length=1, description="the network's features of a point")
    description: str = Field(
        "", description="instead of them a line for each neuron, as h1 = tanh(0.5*x - y + 0.1); _ is drawn at random"
    )

    @field_validator("description")
    @classmethod
    def is_a_network(cls, text: str) -> str:
        try:
            parse_description(text)
        except LabError as error:
            raise ValueError(str(error)) from None
        return text

    def graph(self) -> Graph:
        """Its weights are drawn, except those given by the description."""
        if self.description:
            return parse_description(self.description)
        return build_layers([name for name in FEATURES if name in self.features], self.layers, self.activation)


def parse_description(text: str) -> Graph | Any:
    """The graph of a description that answers one number. LabError; an empty description is none."""
    if not text:
        return None
    graph = read(text, list(FEATURES))
    if len(graph.outputs) > 1:
        raise LabError(f"{' and '.join(graph.outputs)} lead nowhere; one neuron alone is the output")
    return graph


class PlaygroundTrain(learning.Optimizer):
    """AdamW on batches of points."""

    steps: PositiveInt = 1000
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.03
    warmup: Annotated[int, Field(ge=0)] = Field(0, description="steps of linear warm-up")
    decay: Literal["cosine", "constant"] = "constant"
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="L2: weights shrink by this × the rate a step")
    batch: Annotated[int, Field(ge=1, le=10_000)] = Field(32, description="B, points a step")
    l1: Annotated[float, Field(ge=0, le=10)] = Field(0.0, description="L1: times Σ |w|, added to the objective")


class PlaygroundScenario(Scenario):
    """A small network on points in the plane."""

    kind: Literal["playground"] = "playground"
    data: PlaneData = Field(default_factory=PlaneData)
    network: NetworkSection = Field(default_factory=NetworkSection)
    train: PlaygroundTrain = Field(default_factory=PlaygroundTrain)

    @model_validator(mode="after")
    def both_shares_have_points(self) -> PlaygroundScenario:
        held = round(self.data.points * self.data.test)
        if not 0 < held < self.data.points:
            raise ValueError(f"data.test = {self.data.test} of {self.data.points} points leaves none for one side")
        return self

    def outline(self) -> list[tuple[str, str]]:
        network, data, train = self.network, self.data, self.train
        if network.description:
            model = f"{several(len(network.graph().neurons), 'neuron')} on a described graph"
        else:
            seen = ", ".join(FEATURES[name][0] for name in FEATURES if name in network.features)
            widths = " and ".join(map(str, network.layers)) or "no hidden"
            model = f"{seen} → {widths} {network.activation} → 1"
        noise = f", noise {data.noise:g}" if data.noise else ""
        return [
            ("Model", model),
            ("Points", f"{data.name}, {data.points}{noise}; {data.test:.0%} of them for validation"),
            ("Training", f"{several(train.steps, 'step')} of {several(train.batch, 'point')}"),
        ]
