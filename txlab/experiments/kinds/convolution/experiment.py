"""Filters learning to tell shapes (MATH F7): the experiment of "image-classification" with another model; a frame has
one picture, the filters, and what every filter answers at every place of it."""

from __future__ import annotations

import torch

from txlab.engine.convolution import ConvNet, brightness
from txlab.experiments.kinds.convolution.schema import ConvolutionScenario
from txlab.experiments.kinds.image_classification.experiment import ImageExperiment, summed_loss
from txlab.experiments.kinds.image_classification.shapes import as_tensors, draw
from txlab.experiments.learning.timing import Trial
from txlab.experiments.protocol import Frame


def experiment_of(scenario: ConvolutionScenario) -> ImageExperiment[ConvNet]:
    """The experiment of a scenario without "auto"."""
    shape = scenario.shape()
    return ImageExperiment(scenario, shape, lambda generator: ConvNet(shape, generator), look_at)


@torch.no_grad()
def look_at(experiment: ImageExperiment[ConvNet]) -> Frame:
    """picture (Y, X), its brightness · of layer l filter/l (C, C′, k, k), bias/l (C) and map/l (C, Y′, X′), before
    relu · class/probability (classes)."""
    model, names = experiment.model, experiment.scenario.data.shapes
    pixels, classes = experiment.tensors(experiment.probe)
    with experiment.quiet():
        picture = brightness(pixels)
        logits, maps = model.read(picture)
    shown = {"picture": picture[0, 0], "class/probability": logits[0].softmax(-1)}
    for number, (layer, activations) in enumerate(zip(model.layers, maps, strict=True)):
        assert isinstance(layer, torch.nn.Conv2d)
        assert layer.bias is not None
        shown |= {f"filter/{number}": layer.weight, f"bias/{number}": layer.bias, f"map/{number}": activations[0]}
    named, guess = names[int(classes[0])], names[int(logits[0].argmax())]
    return Frame(
        step=experiment.step_count,
        tensors={name: tensor.detach().cpu() for name, tensor in shown.items()},
        tokens={"class": list(names)},
        texts={"probe": f"a {named}, taken for a {guess}"},
        facts={"is": named, "said": guess},
    )


def trial_of(scenario: ConvolutionScenario) -> Trial[ConvNet]:
    """A trial step of this scenario, including making its images."""
    train = scenario.train
    size = train.batch // train.accumulate
    return Trial(
        lambda generator: ConvNet(scenario.shape(), generator),
        train,
        train.steps * train.accumulate,
        summed_loss,
        lambda: as_tensors(draw(scenario.data, size, scenario.seed, "trial", 0), torch.device("cpu")),
        size,
        0.0,
    )
