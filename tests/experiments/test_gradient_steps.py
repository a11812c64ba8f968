"""One whole step of each kind that learns by gradients, computed again in NumPy and float64 from the checkpoint before
it: the loss and every metric of the step, the gradient's norm, and the change of every weight; and what an evaluation
finds (MATH F3–F7, R1–R4, T1–T14).

Given are the batches, as arrays of numbers; models, losses, clipping, schedule and AdamW are computed here. The engine
computes in float32, hence the tolerances.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from independent.descent import Descent, moved_apart, rate
from independent.recurrent import language_model, layers, mean_loss, translator
from independent.tape import Array, concatenate, exp, log, log_softmax, maximum, sigmoid, tanh
from independent.transformer import (
    Weights,
    bert,
    blocks,
    encoder_decoder,
    gpt,
    layer_norm,
    linear,
    part,
    weights_of,
)

from txlab.experiments.kind import kind_named
from txlab.experiments.learning.kind import GradientKind
from txlab.runs.scenario import load_scenario

# A small clip and ε = 1e-3: gradients are clipped, and no weight moves by the sign of a rounding error alone.
LEARNS = ["train.clip=0.3", "train.epsilon=1e-3", "train.weight_decay=0.1", "train.warmup=5", "train.steps=9",
          "train.learning_rate=2e-2", "train.batch=4", "train.validation_batches=1"]  # fmt: skip
SMALL = [*LEARNS, "model.width=8", "model.heads=2"]
TEXT = [*SMALL, "model.layers=2", "model.context=8", "data.tokenizer=bytes", "data.text={text}"]
Found = tuple[Array, dict[str, float]]


def accuracy(logits: Array, targets: np.ndarray) -> float:
    there = targets >= 0
    return float((logits.value.argmax(-1) == targets)[there].mean())


def of_texts(forward: Callable[[np.ndarray, Weights, Any], Array], *metrics: str) -> Callable[..., Found]:
    """A model of texts, and the metrics that are the share of targets that are the likeliest token."""

    def computed(experiment: Any, batch: Any, w: Weights) -> Found:
        inputs, targets = batch[0].numpy(), batch[1].numpy()
        logits = forward(inputs, w, experiment.shape)
        return mean_loss(logits, targets), {metric: accuracy(logits, targets) for metric in metrics}

    return computed


def of_pairs(forward: Callable[..., Array]) -> Callable[..., Found]:
    """A translator, with its label smoothing: q(v) = (1 − s) [v = y] + s/V."""

    def computed(experiment: Any, batch: Any, w: Weights) -> Found:
        targets, lengths = batch.targets.numpy(), np.array(batch.lengths)
        logits = forward(batch.source.numpy(), lengths, batch.inputs.numpy(), w, experiment.model.shape)
        there = np.nonzero(targets >= 0)
        s, logp = experiment.scenario.train.label_smoothing, log_softmax(logits)
        right, anything = logp[(*there, targets[there])].mean(), logp[there].mean(-1).mean()
        return -(right * (1 - s) + anything * s), {}

    return computed


def transformer(source: np.ndarray, lengths: np.ndarray, inputs: np.ndarray, w: Weights, shape: Any) -> Array:
    return encoder_decoder(source, inputs, w, shape, np.arange(source.shape[1]) < lengths[:, None])


def recurrent(source: np.ndarray, lengths: np.ndarray, inputs: np.ndarray, w: Weights, shape: Any) -> Array:
    return translator(source, lengths, inputs, w, shape.cell)


def images(experiment: Any, batch: Any, w: Weights) -> Found:
    """A vision transformer: patches, row by row, the channels of one after another."""
    shape, pictures, wanted = experiment.shape, batch[0].numpy().astype(np.float64), batch[1].numpy()
    P, side = shape.patch, shape.image // shape.patch
    cut = [pictures[:, :, y * P : (y + 1) * P, x * P : (x + 1) * P] for y in range(side) for x in range(side)]
    x = linear(Array(np.stack([each.reshape(len(pictures), -1) for each in cut], 1)), part(w, "embed."))
    if "class_token" in w:
        first = Array(np.zeros((len(pictures), 1, 1))) + w["class_token"]
        x = concatenate([first, x], 1)
    x = x + w["positions.weight"]
    x = layer_norm(
        blocks(x, part(w, "blocks."), shape_of(shape), np.array(True)), part(w, "final_norm."), shape.epsilon
    )
    pooled = x[:, 0] if "class_token" in w else x.mean(1)
    return judged(linear(pooled, part(w, "head.")), wanted)


def shape_of(shape: Any) -> Any:
    """A vision transformer's blocks put their norms before the branches."""
    return type("Shape", (), {"norm": "pre", "heads": shape.heads, "activation": shape.activation,
                              "epsilon": shape.epsilon})  # fmt: skip


def judged(logits: Array, wanted: np.ndarray) -> Found:
    return mean_loss(logits, wanted), {"accuracy": accuracy(logits, wanted)}


def filters(experiment: Any, batch: Any, w: Weights) -> Found:
    """Filters slid over the brightness, relu and the largest of each 2 × 2 in between; mean and largest of the last."""
    x, number = Array(batch[0].numpy().astype(np.float64).mean(1, keepdims=True)), 0
    while f"layers.{number}.weight" in w:
        if number:
            x = x[:, :, : x.shape[2] // 2 * 2, : x.shape[3] // 2 * 2]
            corners = [x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]
            x = maximum(maximum(corners[0], corners[1]), maximum(corners[2], corners[3]))
        weight, bias = w[f"layers.{number}.weight"], w[f"layers.{number}.bias"]
        k, Y, X = weight.shape[-1], x.shape[2], x.shape[3]
        z = Array(np.zeros(1))
        for u in range(k):
            for v in range(k):
                seen = x[:, :, u : u + Y - k + 1, v : v + X - k + 1]  # (B, C, Y′, X′)
                z = z + (seen.swapaxes(1, 2).swapaxes(2, 3) @ weight[:, :, u, v].T)  # (B, Y′, X′, C′)
        x = maximum(z + bias, 0.0).swapaxes(2, 3).swapaxes(1, 2)
        number += 1
    flat = x.reshape(*x.shape[:2], -1)
    places = flat.value.argmax(-1)
    largest = flat[(*np.indices(places.shape), places)]
    return judged(linear(concatenate([flat.mean(-1), largest], -1), part(w, "head.")), batch[1].numpy())


def bottlenecks(experiment: Any, batch: Any, w: Weights) -> Found:
    """Σ over all models of (1/B) Σ_b Σᵢ rⁱ (xᵢ − relu(Wᵀ W x + b)ᵢ)²."""
    x, data = Array(batch[0].numpy().astype(np.float64)), experiment.scenario.data
    back = maximum(x @ (w["W"].T @ w["W"]) + w["b"], 0.0)
    weighted = (x - back) ** 2 * data.importance ** np.arange(data.features)
    return weighted.sum() / x.shape[2], {}


def rememberers(experiment: Any, batch: Any, w: Weights) -> Found:
    """A network for each cell; none shares a weight, or the norm that gradients are clipped by, with another."""
    x, symbol = batch[0].numpy().astype(np.float64), batch[1].numpy()
    total, told = Array(0.0), {}
    for name in experiment.model:
        own = part(w, f"{name}.")
        h = layers(name, Array(x), part(own, "recurrent."), [], np.full(len(x), x.shape[1]))[:, -1]
        loss, found = judged(linear(h, part(own, "head.")), symbol)
        total = total + loss
        told |= {f"loss/{name}": float(loss.value), f"accuracy/{name}": found["accuracy"]}
    return total, told


def sums(experiment: Any, batch: Any, w: Weights) -> Found:
    ids, wanted = batch[0].numpy(), batch[1].numpy()
    return judged(gpt(ids, w, experiment.model.shape)[:, -1], wanted)


ACTIVATIONS = {"tanh": tanh, "sigmoid": sigmoid, "relu": lambda z: maximum(z, 0.0), "linear": lambda z: z}


def graph(experiment: Any, batch: Any, w: Weights) -> Found:
    """Neuron by neuron: z = Σ wᵢ aᵢ + b over its own edges, the output's z is the answer."""
    x, y = batch[0].numpy().astype(np.float64), batch[1].numpy().astype(np.float64)
    net, l1 = experiment.model.graph, experiment.adjusted["l1"]
    known = {name: Array(x[:, column]) for column, name in enumerate(net.inputs)}
    names, answer, size = [*net.inputs], Array(0.0), Array(0.0)
    for depth, level in enumerate(net.levels):
        before = list(names)
        for row, neuron in enumerate(level):
            weights = {source: w[f"weights.{depth}"][row, before.index(source)] for source in neuron.weights}
            z = sum((weight * known[source] for source, weight in weights.items()), w[f"biases.{depth}"][row] + 0.0)
            known[neuron.name] = ACTIVATIONS[neuron.activation](z)
            answer = z
            for weight in weights.values():
                size = size + maximum(weight, -weight)
            names.append(neuron.name)
    right = float(((answer.value > 0) == (y > 0)).mean())
    if not experiment.classes:
        loss = ((answer - y) ** 2).mean()
        return loss + size * l1, {"loss": float(loss.value)}
    margin = answer * -y
    loss = log(exp(margin) + 1.0).mean()
    return loss + size * l1, {"loss": float(loss.value), "accuracy": right}


def points(experiment: Any, update: int) -> Any:
    rows = experiment.batch(update)
    return experiment.train_x[rows], experiment.train_y[rows]


def batch_of(experiment: Any, update: int) -> Any:
    return experiment.batch_of(update)


def pairs(experiment: Any, update: int) -> Any:
    return experiment.data.train_batch(update - 1)


def drawn(experiment: Any, update: int) -> Any:
    return experiment.batch("train", update)


PAIRS = [*SMALL, "data.pairs=30", "model.encoder_layers=1", "model.decoder_layers=1", "train.label_smoothing=0.1"]
CASES: dict[str, tuple[str, list[str], Callable[..., Any], Callable[..., Found]]] = {
    "gpt": ("gpt-tiny", TEXT, batch_of, of_texts(gpt)),
    "gpt in micro-batches": ("gpt-tiny", [*TEXT, "train.accumulate=2", "train.warmup=1"], batch_of, of_texts(gpt)),
    "gpt without decay or clipping": (
        "gpt-tiny", [*TEXT, "train.decay=constant", "train.warmup=1", "train.clip=0"], batch_of, of_texts(gpt)),
    "mixture": ("gpt-mixture", [*TEXT[:-1], 'data.mixture=[{text="{text}"},{text="{text}",weight=2}]'], batch_of,
                of_texts(gpt)),
    "copy": ("gpt-copy", [*SMALL, "model.layers=1"], batch_of, of_texts(gpt, "copy_accuracy")),
    "masked": ("bert-docs", [*TEXT, "sampling.prompts=[]"], batch_of, of_texts(bert)),
    "translation": ("translate", PAIRS, pairs, of_pairs(transformer)),
    "recurrent translation": ("translate-recurrent", [*LEARNS, "model.width=6", "data.pairs=30"], pairs,
                              of_pairs(recurrent)),
    "recurrent translation by dot products": (
        "translate-recurrent", [*LEARNS, "model.width=6", "data.pairs=30", "model.attention=dot", "model.cell=lstm",
                                "model.layers=2", "train.label_smoothing=0.2"], pairs, of_pairs(recurrent)),
    **{f"recurrent {cell}": ("recurrent-docs", [*LEARNS, f"model.cell={cell}", "model.width=6", "model.context=5",
                                                "data.text={text}"], batch_of,
                             of_texts(lambda ids, w, shape: language_model(ids, w, shape.cell)))
       for cell in ("rnn", "lstm", "gru", "gru-mehlig")},
    "images": ("vit-shapes", [*SMALL, "model.layers=1"], batch_of, images),
    "convolution": ("conv-shapes", LEARNS, batch_of, filters),
    "superposition": ("superposition", [*LEARNS, "model.restarts=2"], batch_of, bottlenecks),
    "memory": ("vanishing-gradient", [*LEARNS, "data.length=5"], drawn, rememberers),
    "addition": ("grokking", [*LEARNS[:-2], "data.modulus=7", "model.width=8", "model.heads=2"], batch_of, sums),
    "playground": ("playground-spiral", [*LEARNS[:-1], "train.l1=0.01"], points, graph),
    "playground, values": ("playground-xor", [*LEARNS[:-1], "data.name=bumps"], points, graph),
}  # fmt: skip


def perturb(model: torch.nn.Module) -> None:
    """Change all weights, so that biases and scales that begin at 0 and 1 have to be at their places."""
    draws = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws) * 0.15)
        for name, mask in model.named_buffers():  # a playground's edges that do not exist
            if name.startswith("mask"):
                model.weights[int(name.removeprefix("mask"))].mul_(mask)  # type: ignore[index, operator]


def begun(name: str, overrides: list[str], text: str) -> Any:
    """The experiment after its first step, with its weights perturbed and moments that are not zero."""
    scenario = load_scenario(name, [word.replace("{text}", text) for word in overrides]).scenario
    compute = scenario.compute.model_copy(update={"thread_mode": "operations", "threads": 1, "cuda_graphs": False})
    if hasattr(compute, "dtype"):
        compute = compute.model_copy(update={"dtype": "float32", "compile": False, "attention": "matmul"})
    scenario = scenario.model_copy(update={"compute": compute.model_copy(update={"attention": "matmul"})})
    kind = kind_named(scenario.kind)
    experiment: Any = (
        kind.mathematics().experiment_of(scenario) if isinstance(kind, GradientKind) else kind.build(scenario)
    )
    experiment.step()
    perturb(experiment.model)
    return experiment


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_what_its_formulas_say(case: str, tmp_path: Any) -> None:
    name, overrides, given, computed = CASES[case]
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    experiment = begun(name, overrides, str(text))
    train = experiment.scenario.train
    for update in (2, 3):
        before = deepcopy(experiment.state_dict())
        batch = given(experiment, update)
        groups = [f"{child}." for child in experiment.model] if case == "memory" else ()
        ours = Descent.of(before, train, groups)
        loss, told = computed(experiment, batch, ours.weights)
        wanted = {"loss": float(loss.value), **told, "lr": rate(update, train, train.learning_rate)}
        wanted["grad_norm"] = ours.step(loss, wanted["lr"])
        found = {metric: float(value) for metric, value in experiment.step().items()}
        assert found == pytest.approx(wanted, rel=2e-4, abs=1e-6)
        assert moved_apart(before["model"], experiment.model.state_dict(), ours.weights) < 1e-3


# What an evaluation finds


def greedy(forward: Callable[[np.ndarray], Array], most: int) -> list[int]:
    """The likeliest next token of one sentence again and again, until its end (2) or `most` tokens."""
    written = [1]
    while len(written) <= most:
        written.append(int(forward(np.array([written])).value[0, -1].argmax()))
        if written[-1] == 2:
            return written[1:-1]
    return written[1:]


def of_validation_pairs(forward: Callable[..., Array]) -> Callable[[Any, Weights], dict[str, float]]:
    def computed(experiment: Any, w: Weights) -> dict[str, float]:
        total, right, scored, exact, pairs = 0.0, 0.0, 0, 0, 0
        for batch in experiment.data.validation_batches():
            targets, lengths = batch.targets.numpy(), np.array(batch.lengths)
            source, shape = batch.source.numpy(), experiment.model.shape
            logits = forward(source, lengths, batch.inputs.numpy(), w, shape)
            count = int((targets >= 0).sum())
            total, right = (
                total + float(mean_loss(logits, targets).value) * count,
                right + accuracy(logits, targets) * count,
            )
            for row, length in enumerate(lengths):
                one, wanted = source[row : row + 1, :length], [t for t in targets[row].tolist() if t > 2]
                found = greedy(
                    lambda ids, one=one, shape=shape: forward(one, np.array([one.shape[1]]), ids, w, shape),
                    len(wanted) + 1,
                )
                exact += found == wanted
            scored, pairs = scored + count, pairs + len(lengths)
        return {"val_loss": total / scored, "token_accuracy": right / scored, "exact_match": exact / pairs}

    return computed


def of_validation_texts(forward: Callable[..., Array]) -> Callable[[Any, Weights], dict[str, float]]:
    """Of a mixture each text by its weight, whatever its length."""

    def computed(experiment: Any, w: Weights) -> dict[str, float]:
        sums: dict[str, list[float]] = {}
        for batch in experiment.data.validation_batches():
            logits, targets = forward(batch.inputs.numpy(), w, experiment.shape), batch.targets.numpy()
            count = int((targets >= 0).sum())
            found = sums.setdefault(batch.source, [0.0, 0.0, 0.0])
            found[0] += float(mean_loss(logits, targets).value) * count
            found[1] += accuracy(logits, targets) * count
            found[2] += count
        losses = {name: total / count for name, (total, _, count) in sums.items()}
        weights = [part.weight for part in experiment.scenario.data.mixture] if len(losses) > 1 else []
        if weights:
            shares = {name: weight / sum(weights) for name, weight in zip(losses, weights, strict=True)}
            each = {f"val_loss/{name}": loss for name, loss in losses.items()}
            loss = sum(shares[name] * loss for name, loss in losses.items())
            return {"val_loss": loss, "val_bits_per_byte": loss / np.log(2), **each}
        (loss,) = losses.values()
        (counted,) = sums.values()
        return {"val_loss": loss, "accuracy": counted[1] / counted[2], "val_bits_per_byte": loss / np.log(2)}

    return computed


def of_all(given: Callable[[Any], Any], computed: Callable[..., Found]) -> Callable[[Any, Weights], dict[str, float]]:
    """The loss and the accuracy on one set of examples."""

    def found(experiment: Any, w: Weights) -> dict[str, float]:
        loss, told = computed(experiment, given(experiment), w)
        return {f"val_{metric}": value for metric, value in {"loss": float(loss.value), **told}.items()}

    return found


def validation_images(experiment: Any) -> Any:
    return tuple(torch.cat(parts) for parts in zip(*map(experiment.tensors, experiment._validation), strict=True))


EVALUATED: dict[str, Callable[[Any, Weights], dict[str, float]]] = {
    "gpt": of_validation_texts(gpt),
    "mixture": of_validation_texts(gpt),
    "masked": of_validation_texts(bert),
    "recurrent lstm": of_validation_texts(lambda ids, w, shape: language_model(ids, w, shape.cell)),
    "translation": of_validation_pairs(transformer),
    "recurrent translation": of_validation_pairs(recurrent),
    "images": of_all(validation_images, images),
    "convolution": of_all(validation_images, filters),
    "addition": of_all(lambda experiment: experiment.unseen, sums),
    "playground, values": of_all(lambda experiment: (experiment.test_x, experiment.test_y), graph),
}


@pytest.mark.parametrize("case", EVALUATED)
def test_an_evaluation_is_what_its_formulas_say(case: str, tmp_path: Any) -> None:
    name, overrides, _, _ = CASES[case]
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    experiment = begun(name, [*overrides, *([] if case in WHOLE else ["train.validation_batches=2"])], str(text))
    if "translation" in case:
        experiment.data.unseen = experiment.data.unseen[:2]
    wanted = EVALUATED[case](experiment, weights_of(experiment.model.state_dict()))
    found = {metric.replace("masked_", ""): float(value) for metric, value in experiment.evaluate().items()}
    known = [metric for metric in found if not metric.startswith(("epochs/", "fourier"))]
    assert {metric: found[metric] for metric in known} == pytest.approx(
        {metric: wanted[metric] for metric in known}, rel=1e-4, abs=1e-6
    )


WHOLE = ("addition", "playground, values")  # they are evaluated on all that they do not learn from
