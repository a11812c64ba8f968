"""A small network that learns points in the plane and can be edited during training (MATH F6, F3).

Notable: everything the user changes is part of the state: the graph, switched-off neurons, the points, the data set. A
change of the graph keeps all remaining weights; new ones are a function of (seed, number of changes), and Adam's
moments are reset. So an edited run resumes bit for bit, like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.feedforward import layers, plane
from txlab.engine.feedforward.graph import Graph, format_graph, read
from txlab.engine.feedforward.network import FeedForward, explain_gradient, explain_neuron
from txlab.errors import LabError
from txlab.experiments.kinds.playground.schema import DATA, PlaygroundScenario, parse_description
from txlab.experiments.learning.batch_threads import BatchThreads
from txlab.experiments.learning.gradient import GradientExperiment, Measured
from txlab.experiments.protocol import Frame, State
from txlab.experiments.randomness import derived_seed, generator

View = Literal["answers", "pre-activations", "gradients"]
VIEWS: tuple[View, ...] = ("answers", "pre-activations", "gradients")
MOST_ADDED = 1000  # points by hand


class Playground(GradientExperiment[FeedForward]):
    """An Experiment (see protocol).

    data_name    the set of points              off           names of neurons that answer 0
    added        (k, 3) points by hand          description   that the network was built from; "" = in layers
    drawings     how often weights were drawn   grid, view    of the pictures in a frame; not part of the state
    """

    scenario: PlaygroundScenario

    def __init__(self, scenario: PlaygroundScenario) -> None:
        self.data_name = str(scenario.data.name)
        self.description = scenario.network.description
        self.off: set[str] = set()
        self.added = np.zeros((0, 3), np.float32)
        self.drawings = 0
        self.grid, self.view = 32, VIEWS[0]
        self.order: tuple[int, int, Tensor] = (-1, 0, torch.empty(0))
        further = {
            "l1": (scenario.train.l1, 10.0),
            "batch": (scenario.train.batch, 1e4),
            "noise": (scenario.data.noise, 1.0),
        }
        super().__init__(
            scenario, lambda random: FeedForward(scenario.network.graph().draw_weights(normals(random))), further
        )
        self.checks_async = False
        self.make_data()

    # Data

    @property
    def classes(self) -> bool:
        return self.data_name in plane.CLASSES

    def make_data(self) -> None:
        """The points, as (n, 3) arrays x, y, target, and as the network sees them."""
        data = self.scenario.data
        random = generator(data.seed, "points", 0)
        points = plane.draw(self.data_name, data.points, self.adjusted["noise"], random)
        held = round(data.points * data.test)
        self.test, self.train = points[:held], np.concatenate([points[held:], self.added])
        self.test_x, self.test_y = self.features_of(self.test), torch.from_numpy(self.test[:, 2].copy())
        self.train_x, self.train_y = self.features_of(self.train), torch.from_numpy(self.train[:, 2].copy())

    def features_of(self, points: np.ndarray) -> Tensor:
        """(n, features) of points (n, 2 or 3)"""
        return torch.from_numpy(plane.features(points, self.model.graph.inputs))

    # Learning

    def gradients(self, update: int) -> Measured:
        """Of the mean loss of a batch, and of the L1 of the weights."""
        rows = self.batch(update)
        loss, accuracy = self.measure(self.train_x[rows], self.train_y[rows])
        l1 = self.adjusted["l1"]
        total = loss + l1 * sum(weight.abs().sum() for weight in self.model.weights) if l1 else loss
        total.backward()
        return {"loss": loss.detach(), **({"accuracy": accuracy} if self.classes else {})}

    def batch(self, update: int) -> Tensor:
        """Rows of update n: the points of each epoch in an order of its own, which depends on the seed."""
        count = len(self.train)
        size = min(count, max(1, int(self.adjusted["batch"])))
        epoch, place = divmod(update - 1, count // size)
        if self.order[:2] != (epoch, count):
            permutation = generator(self.scenario.seed, "shuffle", epoch).permutation(count)
            self.order = (epoch, count, torch.from_numpy(permutation))
        return self.order[2][place * size : (place + 1) * size]

    def measure(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss, and the share of points on the right side of 0."""
        z = self.model.answer(x)[:, 0]
        loss = F.softplus(-y * z).mean() if self.classes else (z - y).square().mean()
        return loss, ((z > 0) == (y > 0)).float().mean()

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float | Tensor]:
        """{"val_loss"}, of classes also {"val_accuracy"}, on the points that are not learnt from"""
        loss, accuracy = self.measure(self.test_x, self.test_y)
        return {"val_loss": float(loss), **({"val_accuracy": float(accuracy)} if self.classes else {})}

    def adjust(self, name: str, value: float) -> None:
        super().adjust(name, value)
        if name == "noise":
            self.make_data()

    # Changes while it learns

    def take(self, graph: Graph, anew: bool = False) -> None:
        """Continue with another graph; missing weights are drawn, with `anew` all of them."""
        self.drawings += 1
        random = torch.Generator().manual_seed(derived_seed(self.scenario.seed, "weights", self.drawings))
        self.model = FeedForward(graph.draw_weights(normals(random), anew)).to(self.device)
        self.optimizers = self.make_optimizers()
        self.threads = BatchThreads(self.model, 1)
        self.adjust("weight_decay", self.adjusted["weight_decay"])
        self.off &= set(self.model.names) - set(graph.outputs)
        self.model.switch_off(self.off)
        self.make_data()

    def again(self) -> None:
        """Restart: a described network as described, another one with all weights redrawn."""
        self.step_count = 0
        if self.description:
            self.take(parse_description(self.description))
        else:
            self.take(self.model.graph, anew=True)

    def describe(self, text: str) -> None:
        """Take the network of a description. LabError."""
        graph = parse_description(text)
        if graph is None:
            raise LabError("a network needs a neuron, as in out = tanh(0.5*x - y + 0.1)")
        self.take(graph)
        self.description = text

    def rebuild(self, graph: Graph) -> None:
        """Take a changed graph: the description that it was built from no longer holds."""
        self.take(graph)
        self.description = ""

    def go_on(self, frame: Frame) -> None:
        """Take the network, the points and the settings of a recorded frame."""
        self.data_name = str(frame.facts["data"])
        held = self.scenario.data.points - len(self.test)
        self.added = np.asarray(frame.tensors["train"], np.float32)[held:].copy()
        self.off = set(frame.facts["off"])
        for name, value in frame.facts["adjusted"].items():
            self.adjust(name, value)
        self.take(read(frame.texts["network"], list(plane.FEATURES)))
        self.step_count = frame.step

    def set_width(self, layer: int, width: int) -> None:
        self.rebuild(layers.with_width(self.model.present(), layer, width))

    def set_depth(self, depth: int) -> None:
        self.rebuild(layers.with_depth(self.model.present(), depth))

    def set_activation(self, activation: str) -> None:
        self.rebuild(layers.with_activation(self.model.present(), activation))

    def use_data(self, name: str) -> None:
        """Switch to other points, keeping the weights; points set by hand are dropped."""
        if name not in DATA:
            raise LabError(f"{name!r} is not a set of points; allowed: {', '.join(DATA)}")
        self.data_name, self.added = name, self.added[:0]
        self.make_data()

    def set_weight(self, name: str, source: str | None, value: float) -> None:
        """Set the weight of an edge, or with None the bias."""
        neuron = self.model.graph.neuron_named(name)
        depth = self.model.graph.depths[name] - 1
        row = self.model.graph.levels[depth].index(neuron)
        with torch.no_grad():
            if source is None:
                self.model.biases[depth][row] = value
            elif source in neuron.weights:
                self.model.weights[depth][row, self.model.names.index(source)] = value
            else:
                raise LabError(f"{name} takes nothing from {source!r}")

    def switch(self, name: str) -> None:
        """Switch a neuron off, or on again; add an input, or take it away. LabError for the output."""
        graph = self.model.graph
        if name in plane.FEATURES:
            seen = set(graph.inputs) ^ {name}
            inputs = [each for each in plane.FEATURES if each in seen]
            self.rebuild(layers.with_inputs(self.model.present(), inputs))
        elif name in graph.outputs:
            raise LabError("the output cannot be switched off")
        else:
            self.off ^= {graph.neuron_named(name).name}
            self.model.switch_off(self.off)

    def add_point(self, x: float, y: float, target: float) -> None:
        """Learn this point too."""
        if len(self.added) >= MOST_ADDED:
            raise LabError(f"at most {MOST_ADDED} points are added by hand")
        self.added = np.concatenate([self.added, np.array([[x, y, target]], np.float32)])
        self.make_data()

    def remove_point(self, x: float, y: float) -> None:
        """Remove the nearest point set by hand."""
        if not len(self.added):
            raise LabError("no point was added by hand")
        nearest = int(np.hypot(self.added[:, 0] - x, self.added[:, 1] - y).argmin())
        self.added = np.delete(self.added, nearest, 0)
        self.make_data()

    # Inspection

    def frame(self) -> Frame:
        """plane (inputs + neurons, G, G): the view over the plane, all in one pass; features (7, G, G); train, test
        (n, 3); weights (neurons, inputs + neurons), NaN where there is no edge; bias."""
        graph, size = self.model.graph, self.grid
        points = plane.grid(size)
        with torch.no_grad():
            loss, accuracy = self.measure(self.train_x, self.train_y)
        metrics = {"loss": float(loss), **({"accuracy": float(accuracy)} if self.classes else {}), **self.evaluate()}
        tensors = {
            "plane": self.view_of(self.features_of(points)).T.reshape(-1, size, size).clamp(-6e4, 6e4).half(),
            "features": torch.from_numpy(
                plane.features(points, tuple(plane.FEATURES)).T.reshape(-1, size, size)
            ).half(),
            "weights": self.edges(),
            "bias": torch.cat(list(self.model.biases)).detach().clone(),
            "train": torch.from_numpy(self.train),
            "test": torch.from_numpy(self.test),
        }
        facts = {
            "inputs": list(graph.inputs),
            "neurons": [[each.name, each.activation, graph.depths[each.name]] for each in graph.neurons],
            "layered": layers.is_layered(graph),
            "off": sorted(self.off),
            "view": self.view,
            "classes": self.classes,
            "data": self.data_name,
            "adjusted": dict(self.adjusted),
            "measured": metrics,
        }
        return Frame(self.step_count, tensors, texts={"network": format_graph(self.model.present())}, facts=facts)

    def view_of(self, x: Tensor) -> Tensor:
        """(B, inputs + neurons): activations, pre-activations, or ∂ answer / ∂ activation; of the output its answer."""
        model, inputs = self.model, len(self.model.graph.inputs)
        if self.view != "gradients":
            with torch.no_grad():
                z, a = model(x)
            seen = torch.cat([x, z], 1) if self.view == "pre-activations" else a
            seen[:, inputs:][:, model.answers] = z[:, model.answers]
            return seen
        x = x.requires_grad_()
        nudge = torch.zeros(len(x), len(model.names) - inputs, requires_grad=True)
        z, _ = model(x, nudge)
        z = z[:, model.answers]
        by_input, by_neuron = torch.autograd.grad(z.sum(), [x, nudge], allow_unused=True, materialize_grads=True)
        by_neuron[:, model.answers] = z.detach()
        return torch.cat([by_input, by_neuron], 1)

    @torch.no_grad()
    def edges(self) -> Tensor:
        """(neurons, inputs + neurons), NaN where there is no edge"""
        edges = torch.full((len(self.model.graph.neurons), len(self.model.names)), float("nan"))
        first = 0
        for depth, weight in enumerate(self.model.weights):
            mask = getattr(self.model, f"mask{depth}")
            edges[first : first + len(weight), : weight.shape[1]] = torch.where(mask > 0, weight, torch.nan)
            first += len(weight)
        return edges

    def explain(self, x: float, y: float, name: str) -> Explanation:
        """Explain what the view shows of a neuron, or an input, at a point."""
        return explain_at(self.model, x, y, name, self.view)

    def facts(self) -> Mapping[str, Any]:
        return {
            "unit": "points",
            "units_per_step": self.scenario.train.batch,
            "parameters": sum(len(each.weights) + 1 for each in self.model.graph.neurons),
            "headline": ["loss", "val_loss", *(["val_accuracy"] if self.classes else [])],
            "compute": {**self.scenario.compute.model_dump(), "why": []},
        }

    # Checkpoints

    def state_dict(self) -> State:
        return {
            **super().state_dict(),
            "network": format_graph(self.model.present()),
            "description": self.description,
            "drawings": self.drawings,
            "off": sorted(self.off),
            "data": self.data_name,
            "added": torch.from_numpy(self.added.copy()),
        }

    def load_state_dict(self, state: State) -> None:
        self.data_name, self.added = str(state["data"]), np.asarray(state["added"]).copy()
        self.off = set(state["off"])
        self.take(read(state["network"], list(plane.FEATURES)))
        super().load_state_dict(state)
        self.description, self.drawings = str(state["description"]), int(state["drawings"])


def normals(random: torch.Generator) -> Any:
    """Standard normal draws, one at a time."""
    return lambda: float(torch.randn((), generator=random))


def explain_at(model: FeedForward, x: float, y: float, name: str, view: str) -> Explanation:
    where = f" at ({x:.3g}, {y:.3g})".replace("-", "−")
    if view == "gradients" and name in model.names and name not in model.graph.outputs:
        return explain_gradient(model, features_at(model, x, y), name, where)
    if name in plane.FEATURES:
        sign = plane.FEATURES[name][0]
        value = float(plane.features(np.array([[x, y]]), (name,))[0, 0])
        why = Explaining(f"why is {sign} {value:.3g}{where}?", value)
        why.equation(sign, "F6", "the network's features of a point")
        why.input("x", x)
        why.input("y", y)
        why.measurement(sign)
        return why.result()
    return explain_neuron(model, features_at(model, x, y), name, where, of_sum=view == "pre-activations")


def features_at(model: FeedForward, x: float, y: float) -> Tensor:
    """The inputs (inputs) of a network at a point."""
    return torch.from_numpy(plane.features(np.array([[x, y]]), model.graph.inputs))[0]


def explain_frame_at(frame: Frame, x: float, y: float, name: str) -> Explanation:
    """For a recorded frame: the network is rebuilt from its description."""
    model = FeedForward(read(frame.texts["network"], list(plane.FEATURES)))
    model.switch_off(frame.facts["off"])
    return explain_at(model, x, y, name, str(frame.facts.get("view", VIEWS[0])))


def explain_square(frame: Frame, neuron: int, row: int, column: int) -> Explanation:
    """Of the middle of a square of the plane."""
    size = len(frame.tensors["plane"][neuron])
    x, y = plane.grid(size)[row * size + column]
    name = [*frame.facts["inputs"], *(each[0] for each in frame.facts["neurons"])][neuron]
    return explain_frame_at(frame, float(x), float(y), name)
