"""A vision transformer learning to name shapes (MATH T14).

There is no data set. The images of update n are a function of (seed, n), those of validation of (seed), so every update
sees new ones, nothing can be memorised, and a checkpoint holds no data and no random state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.convolution import ConvShape
from txlab.engine.transformer.blocks import Kernel, pattern, scores
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import NO_MASK
from txlab.engine.transformer.vision import VisionShape, VisionTransformer, patch_names
from txlab.experiments.kinds.image_classification.schema import ImageScenario
from txlab.experiments.kinds.image_classification.shapes import Images, as_tensors, draw
from txlab.experiments.learning.gradient import GradientExperiment, Measured, Model
from txlab.experiments.learning.timing import Trial, as_asked, fitting
from txlab.experiments.protocol import Frame


def summed_loss(
    model: nn.Module, pixels: Tensor, classes: Tensor, kernel: Kernel, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(Σ −log softmax(logits)[class], logits (B, classes)): computed in `dtype`, summed in float32."""
    with torch.autocast(pixels.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(pixels, kernel)
    return F.cross_entropy(logits.float(), classes, reduction="sum"), logits


def experiment_of(scenario: ImageScenario) -> ImageExperiment[VisionTransformer]:
    """The experiment of a scenario without "auto"."""
    shape = scenario.shape()
    return ImageExperiment(scenario, shape, lambda generator: VisionTransformer(shape, generator), look_at)


class ImageExperiment(GradientExperiment[Model]):
    """See GradientExperiment; training also measures "accuracy", the share of the batch classified correctly.

    look   makes a frame of the experiment
    """

    def __init__(
        self,
        scenario: Any,
        shape: VisionShape | ConvShape,
        make: Callable[[torch.Generator], Model],
        look: Callable[[Any], Frame],
    ) -> None:
        self.shape, self.look = shape, look
        super().__init__(scenario, make)
        self.training_loss = as_asked(summed_loss, scenario.compute)

    def batch_of(self, update: int) -> tuple[Tensor, Tensor]:
        images = draw(self.scenario.data, self.scenario.train.batch, self.scenario.seed, "train", update)
        return as_tensors(images, torch.device("cpu"))

    def gradients_of(self, *batch: Tensor) -> Measured:
        """Gradients of the mean loss of a batch; that loss, and the accuracy."""
        train, how = self.scenario.train, self.how

        def work(model: nn.Module, images: Tensor, wanted: Tensor) -> Measured:
            summed, logits = self.training_loss(model, images, wanted, *how)
            loss = summed / train.batch
            loss.backward()
            return {"loss": loss.detach(), "accuracy": (logits.argmax(-1) == wanted).sum() / train.batch}

        return self.accumulate(work, zip(*(tensor.chunk(train.accumulate) for tensor in batch), strict=True))

    def tensors(self, images: Images) -> tuple[Tensor, Tensor]:
        return as_tensors(images, self.device)

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float | Tensor]:
        """{"val_loss", "val_accuracy"} on images that training never uses; without dropout."""
        total, right, seen = 0.0, 0, 0
        with self.quiet():
            for images in self._validation:
                pixels, classes = self.tensors(images)
                loss, logits = summed_loss(self.model, pixels, classes, *self.how)
                total += float(loss)
                right += int((logits.argmax(-1) == classes).sum())
                seen += len(classes)
        return {"val_loss": total / seen, "val_accuracy": right / seen}

    @cached_property
    def _validation(self) -> list[Images]:
        scenario = self.scenario
        return [
            draw(scenario.data, scenario.train.batch, scenario.seed, "validation", number)
            for number in range(scenario.train.validation_batches)
        ]

    @cached_property
    def probe(self) -> Images:
        return draw(self.scenario.data, 1, self.scenario.seed, "probe", self.scenario.probe.image)

    def frame(self) -> Frame:
        return self.look(self)

    def facts(self) -> Mapping[str, Any]:
        cost, batch = costs(self.shape), self.scenario.train.batch
        return {
            "parameters": cost.parameters,
            "unit": "images",
            "units_per_step": batch,
            "flops_per_step": cost.flops_per_token * self.shape.context * batch,
            **super().facts(),
            "classes": list(self.scenario.data.shapes),
            "validation_images": batch * self.scenario.train.validation_batches,
        }


@torch.no_grad()
def look_at(experiment: ImageExperiment[VisionTransformer]) -> Frame:
    """Patterns, queries and keys of one image in every head, the image, and the class that each position votes for.

    next/probability (T, classes): softmax of the head applied at each position. Pooled by the mean, the logits of
    the image are the mean of the patches', so these are votes; pooled by a class token, its row is the answer.
    """
    model, shape = experiment.model, experiment.model.shape
    pixels, classes = experiment.tensors(experiment.probe)
    hooks, kept = keeping("blocks.*.attention.query", "blocks.*.attention.key", "blocks.*.resid_post")
    with experiment.quiet(), torch.autocast(pixels.device.type, enabled=False):
        logits = model(pixels, "matmul", hooks)[0]  # (classes)
        last = kept[f"blocks.{shape.layers - 1}.resid_post"][0]  # (T, D)
        votes = model.head(model.final_norm(last)).softmax(-1)  # (T, classes)
    layers = range(shape.layers)
    q, k = (torch.cat([kept[f"blocks.{layer}.attention.{what}"] for layer in layers]) for what in ("query", "key"))
    probability, order = votes.sort(-1, descending=True)
    shown = {
        "attention/pattern": pattern(scores(q, k), None).half(),  # (L, H, T, T)
        "attention/query": q,  # (L, H, T, K)
        "attention/key": k,
        "next/probability": probability,
        "class/probability": logits.softmax(-1),
        "image": torch.from_numpy(np.clip(experiment.probe.pixels[0], 0, 1)),  # (3, Y, X), 0 black to 1 white
    }
    names = experiment.scenario.data.shapes
    named, guess = names[int(classes[0])], names[int(logits.argmax())]
    return Frame(
        step=experiment.step_count,
        tensors={name: tensor.cpu() for name, tensor in shown.items()},
        tokens={
            "probe": patch_names(shape),
            "next": [names[number] for number in order.flatten().tolist()],
            "class": list(names),
        },
        texts={"probe": f"an image of a {named}, taken for a {guess}"},
        facts={
            "mask": NO_MASK.name,
            "predicts": "class",
            "layers": shape.layers,
            "heads": shape.heads,
            "head_width": shape.head_width,
            "patches": [shape.side, shape.side],
            "class_token": shape.pooling == "class",
            "is": named,
            "said": guess,
        },
    )


def trial_of(scenario: ImageScenario) -> Trial[VisionTransformer]:
    """A trial step of this scenario, made smaller if it would take too long, including making its images."""
    train = scenario.train
    steps, micro_batch = train.steps * train.accumulate, train.batch // train.accumulate
    shape, batch, part, scale = fitting(scenario.shape(), micro_batch, steps, scenario.compute.device)

    def images() -> tuple[Tensor, Tensor]:
        return as_tensors(draw(scenario.data, batch, scenario.seed, "trial", 0), torch.device("cpu"))

    return Trial(
        lambda generator: VisionTransformer(shape, generator),
        train,
        steps * part,
        summed_loss,
        images,
        batch,
        scenario.model.dropout,
        scale,
    )
