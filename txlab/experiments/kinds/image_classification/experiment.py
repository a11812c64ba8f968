"""A vision transformer learning to name shapes (MATH T14).

There is no data set. The images of update n are a function of (seed, n), those of validation of (seed), so every update
sees new ones, nothing can be memorised, and a checkpoint holds no data and no random state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.transformer.attention import NO_MASK, Kernel, pattern, scores
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.vision import VisionTransformer, patch_names
from txlab.experiments.kinds.image_classification import ImageScenario
from txlab.experiments.kinds.image_classification.shapes import Images, as_tensors, draw
from txlab.experiments.learning.gradient import GradientExperiment, Measured
from txlab.experiments.learning.timing import Trial, as_asked, fitting
from txlab.experiments.protocol import Frame


def summed_loss(
    model: VisionTransformer, pixels: Tensor, classes: Tensor, kernel: Kernel, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(Σ −log softmax(logits)[class], logits (B, classes)): computed in `dtype`, summed in float32."""
    with torch.autocast(pixels.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(pixels, kernel)
    return F.cross_entropy(logits.float(), classes, reduction="sum"), logits


class ImageExperiment(GradientExperiment[VisionTransformer]):
    """See GradientExperiment; training also measures "accuracy", the share of the batch classified correctly."""

    scenario: ImageScenario

    def __init__(self, scenario: ImageScenario) -> None:
        self.shape = scenario.shape()
        super().__init__(scenario, lambda generator: VisionTransformer(self.shape, generator))
        self.training_loss = as_asked(summed_loss, scenario.compute)

    def gradients(self, update: int) -> Measured:
        """Gradients of the mean loss of a batch; that loss, and the accuracy."""
        train, how = self.scenario.train, self.how
        pixels, classes = self.tensors(draw(self.scenario.data, train.batch, self.scenario.seed, "train", update))

        def work(model: VisionTransformer, images: Tensor, wanted: Tensor) -> Measured:
            summed, logits = self.training_loss(model, images, wanted, *how)
            loss = summed / train.batch
            loss.backward()
            return {"loss": loss.detach(), "accuracy": (logits.argmax(-1) == wanted).sum() / train.batch}

        micro_batches = zip(pixels.chunk(train.accumulate), classes.chunk(train.accumulate), strict=True)
        return self.accumulate(update, work, micro_batches)

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
    def _probe(self) -> Images:
        return draw(self.scenario.data, 1, self.scenario.seed, "probe", self.scenario.look.image)

    @torch.no_grad()
    def frame(self) -> Frame:
        """Patterns, queries and keys of one image in every head, the image, and the class that each position votes for.

        next/probability (T, classes): softmax of the head applied at each position. Pooled by the mean, the logits of
        the image are the mean of the patches', so these are votes; pooled by a class token, its row is the answer.
        """
        pixels, classes = self.tensors(self._probe)
        hooks, kept = keeping("blocks.*.attention.query", "blocks.*.attention.key", "blocks.*.leave")
        with self.quiet(), torch.autocast(pixels.device.type, enabled=False):
            logits = self.model(pixels, "matmul", hooks)[0]  # (classes)
            last = kept[f"blocks.{self.shape.layers - 1}.leave"][0]  # (T, D)
            votes = self.model.head(self.model.final_norm(last)).softmax(-1)  # (T, classes)
        layers = range(self.shape.layers)
        q, k = (torch.cat([kept[f"blocks.{layer}.attention.{what}"] for layer in layers]) for what in ("query", "key"))
        probability, order = votes.sort(-1, descending=True)
        shown = {
            "attention/pattern": pattern(scores(q, k), None).half(),  # (L, H, T, T)
            "attention/query": q,  # (L, H, T, K)
            "attention/key": k,
            "next/probability": probability,
            "class/probability": logits.softmax(-1),
            "image": torch.from_numpy(np.clip(self._probe.pixels[0], 0, 1)),  # (3, Y, X), 0 black to 1 white
        }
        names = self.scenario.data.shapes
        shape, said = names[int(classes[0])], names[int(logits.argmax())]
        return Frame(
            step=self.step_count,
            tensors={name: tensor.cpu() for name, tensor in shown.items()},
            tokens={
                "probe": patch_names(self.shape),
                "next": [names[number] for number in order.flatten().tolist()],
                "class": list(names),
            },
            texts={"probe": f"an image of a {shape}, taken for a {said}"},
            facts={
                "mask": NO_MASK.name,
                "predicts": "class",
                "layers": self.shape.layers,
                "heads": self.shape.heads,
                "head_width": self.shape.head_width,
                "patches": [self.shape.side, self.shape.side],
                "class_token": self.shape.pooling == "class",
                "is": shape,
                "said": said,
            },
        )

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


experiment_of = ImageExperiment


def trial_of(scenario: ImageScenario) -> Trial[VisionTransformer]:
    """A trial step of this scenario, made smaller if it would take too long, including making its images."""
    train = scenario.train
    shape, batch, part, scale = fitting(
        scenario.shape(), train.batch // train.accumulate, train.steps * train.accumulate
    )

    def images() -> tuple[Tensor, Tensor]:
        return as_tensors(draw(scenario.data, batch, scenario.seed, "trial", 0), torch.device("cpu"))

    return Trial(
        lambda generator: VisionTransformer(shape, generator),
        train,
        summed_loss,
        images,
        batch,
        scenario.model.dropout,
        part,
        scale,
    )
