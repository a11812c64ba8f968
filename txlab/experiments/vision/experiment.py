"""A vision transformer learning to name shapes, as an Experiment (MATH T14).

Notable: there is no data set. The images of update n are a function of (seed, n), those of validation of (seed), so
every update sees new ones, nothing can be learnt by heart, and a checkpoint holds no data and no random state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.device import DTYPES, choose_device, describe, measure_peak, repeat_exactly
from txlab.engine.transformer.attention import Kernel, pattern, scores
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import NO_MASK
from txlab.engine.transformer.vision import VisionShape, VisionTransformer, patch_names
from txlab.errors import LabError, nearest
from txlab.experiments.learning.crew import Crew
from txlab.experiments.learning.optimizer import LateGuard, LongAdamW, first_not_finite
from txlab.experiments.learning.schedule import factor
from txlab.experiments.protocol import Adjustable, Frame, NotFinite, Sample, State
from txlab.experiments.randomness import derived_seed
from txlab.experiments.schema import Compute
from txlab.experiments.vision.probe import reasons
from txlab.experiments.vision.schema import ImageScenario
from txlab.experiments.vision.shapes import Images, draw


def build(scenario: ImageScenario) -> ImageExperiment:
    """The experiment of a scenario without "auto", with its number of threads set for this process."""
    torch.set_num_threads(scenario.compute.threads)
    repeat_exactly(choose_device(scenario.compute.device))
    return ImageExperiment(scenario)


def shape_of(scenario: ImageScenario) -> VisionShape:
    """The model that a scenario asks for."""
    model = scenario.model
    return VisionShape(
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        image=scenario.data.image,
        patch=model.patch,
        classes=len(scenario.data.shapes),
        feed_forward=model.feed_forward,
        pooling=model.pooling,
        activation=model.activation,
        dropout=model.dropout,
    )


def loss_and_logits(
    model: VisionTransformer, pixels: Tensor, classes: Tensor, kernel: Kernel, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(Σ −log softmax(logits)[class], logits (B, classes)): computed in `dtype`, summed in float32."""
    with torch.autocast(pixels.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(pixels, kernel)
    return F.cross_entropy(logits.float(), classes, reduction="sum"), logits


class ImageExperiment:
    """See protocol.Experiment; no "auto" is left in the scenario."""

    def __init__(self, scenario: ImageScenario) -> None:
        self.scenario = scenario
        self.device = choose_device(scenario.compute.device)
        self.tells_late = self.device.type == "cuda"
        self.shape = shape_of(scenario)
        # The constructors of torch's modules draw from the global generator; the weights come from their own.
        with torch.random.fork_rng(devices=[]):
            generator = torch.Generator().manual_seed(derived_seed(scenario.seed, "weights", 0))
            self.model = VisionTransformer(self.shape, generator).to(self.device)
        self.optimizer = LongAdamW(self.model, scenario.train, scenario.train.weight_decay)
        self.training_loss = torch.compile(loss_and_logits) if scenario.compute.compile is True else loss_and_logits
        self.to_compile = scenario.compute.compile is True
        self.use(scenario.compute)
        self.guard = LateGuard(self.device)
        self.why = reasons(scenario)
        self.adjusted = {
            "lr": scenario.train.learning_rate,
            "clip": scenario.train.clip,
            "weight_decay": scenario.train.weight_decay,
            "dropout": scenario.model.dropout,
        }
        self._updates = 0

    def use(self, compute: Compute) -> None:
        """Compute in this way from now on (on the device that it is on)."""
        self.how: tuple[Kernel, torch.dtype] = (compute.attention, DTYPES[compute.dtype])  # type: ignore[assignment]
        self.crew = Crew(self.model, self.optimizer, compute.threads if compute.share == "batch" else 1)

    @property
    def step_count(self) -> int:
        return self._updates

    @property
    def steps(self) -> int:
        return self.scenario.train.steps

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """One update of AdamW: {"loss", "accuracy", "lr", "grad_norm"}.

        loss       mean cross-entropy of this batch's classes, in nats, before the update
        accuracy   share of the batch's images whose likeliest class is theirs
        grad_norm  ‖g‖ before clipping
        """
        update = self._updates + 1
        loss, accuracy = self._gradients(update)
        norm = self.crew.collect()
        rate = self.learning_rate(update)
        self.optimizer.lr = rate
        metrics: dict[str, float | Tensor]
        refused = None
        if self.tells_late:
            refused = self.guard.look(update, loss, norm)
            self.optimizer.clip_late(norm, self.adjusted["clip"])
            metrics = {"loss": loss, "accuracy": accuracy, "lr": rate, "grad_norm": norm}
        else:
            length = norm.item()
            metrics = {"loss": loss.item(), "accuracy": accuracy.item(), "lr": rate, "grad_norm": length}
            if not (isfinite(metrics["loss"]) and isfinite(length)):
                self._refuse(update, loss)
            self.optimizer.clip_now(length, self.adjusted["clip"])
        self.optimizer.step(refused)
        self._updates = update
        return metrics

    def learning_rate(self, update: int) -> float:
        """Peak × schedule; the peak is what a person may turn, and the schedule goes on from there."""
        train = self.scenario.train
        return self.adjusted["lr"] * factor(update, train.warmup, train.steps, train.final, train.decay)

    def _gradients(self, update: int) -> tuple[Tensor, Tensor]:
        """Gradients of the mean loss of a batch; (loss, accuracy)."""
        if self.adjusted["dropout"] > 0:
            torch.manual_seed(derived_seed(self.scenario.seed, "dropout", update))
        train = self.scenario.train
        pixels, classes = self._tensors(draw(self.scenario.data, train.batch, self.scenario.seed, "train", update))
        total, right = torch.zeros((), device=self.device), torch.zeros((), device=self.device)

        def learn(model: VisionTransformer, images: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
            loss, logits = self.training_loss(model, images, wanted, *self.how)
            loss = loss / train.batch
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach(), (logits.argmax(-1) == wanted).sum() / train.batch

        for images, wanted in zip(pixels.chunk(train.accumulate), classes.chunk(train.accumulate), strict=True):
            # Dropout draws from one generator, in one order: with it the model works on the batch as a whole.
            if self.adjusted["dropout"] > 0:
                parts = [learn(self.model, images, wanted)]
            else:
                parts = self.crew.each(learn, images, wanted, in_turn=self.to_compile)
            self.to_compile = False
            for loss, named in parts:
                total += loss
                right += named
        return total, right

    def _tensors(self, images: Images) -> tuple[Tensor, Tensor]:
        """Pixels as the model reads them, from −1 (black) to 1 (white), and classes, on the device."""
        pixels = torch.from_numpy(images.pixels).to(self.device) * 2 - 1  # (B, 3, Y, X)
        return pixels, torch.from_numpy(images.classes).to(self.device)

    def _refuse(self, update: int, loss: Tensor) -> None:
        name, value = first_not_finite(self.optimizer, loss)
        raise NotFinite(update, name, value)

    def verify(self) -> None:
        """Raise NotFinite for the first update that a GPU refused; its batch is computed again to name the tensor."""
        refused = self.guard.first() if self.tells_late else None
        if refused is None:
            return
        self._updates = refused - 1
        loss, _ = self._gradients(refused)
        self.crew.collect()
        self.guard = LateGuard(self.device)
        self._refuse(refused, loss)

    # Looking

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float | Tensor]:
        """{"val_loss", "val_accuracy"} on images that no update is ever drawn from; without dropout."""
        training = self.model.training
        self.model.eval()
        try:
            total, right, seen = 0.0, 0, 0
            for images in self._validation:
                pixels, classes = self._tensors(images)
                loss, logits = loss_and_logits(self.model, pixels, classes, *self.how)
                total += float(loss)
                right += int((logits.argmax(-1) == classes).sum())
                seen += len(classes)
        finally:
            self.model.train(training)
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
        """Patterns, queries and keys of one image in every head, the image, and what each position says it is.

        next/probability (T, classes): softmax of the head read at each position. Pooled by the mean, the logits of the
        image are the mean of the patches' own, so this is their vote; pooled by a class token, its row is the answer.
        """
        pixels, classes = self._tensors(self._probe)
        hooks, kept = keeping("blocks.*.attention.query", "blocks.*.attention.key", "blocks.*.leave")
        training = self.model.training
        self.model.eval()
        try:
            with torch.autocast(self.device.type, enabled=False):
                logits = self.model(pixels, "matmul", hooks)[0]  # (classes)
                last = kept[f"blocks.{self.shape.layers - 1}.leave"][0]  # (T, D)
                votes = self.model.head(self.model.last_norm(last)).softmax(-1)  # (T, classes)
        finally:
            self.model.train(training)
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
        return Frame(
            step=self._updates,
            tensors={name: tensor.cpu() for name, tensor in shown.items()},
            tokens={
                "probe": patch_names(self.shape),
                "next": [names[number] for number in order.flatten().tolist()],
                "class": list(names),
            },
            facts={
                "mask": NO_MASK.name,
                "layers": self.shape.layers,
                "heads": self.shape.heads,
                "head_width": self.shape.head_width,
                "patches": [self.shape.side, self.shape.side],
                "class_token": self.shape.pooling == "class",
                "is": names[int(classes[0])],
                "said": names[int(logits.argmax())],
            },
        )

    def samples(self) -> Sequence[Sample]:
        return ()

    def facts(self) -> Mapping[str, Any]:
        cost, batch, compute = costs(self.shape), self.scenario.train.batch, self.scenario.compute
        return {
            "parameters": cost.parameters,
            "unit": "images",
            "units_per_step": batch,
            "flops_per_step": cost.flops_per_token * self.shape.context * batch,
            "peak_flops": self._peak,
            "compute": {
                "device": compute.device,
                "name": describe(self.device),
                "dtype": compute.dtype,
                "attention": compute.attention,
                "threads": compute.threads,
                "share": compute.share,
                "compile": compute.compile,
                "why": list(self.why),
            },
            "classes": list(self.scenario.data.shapes),
            "validation_images": batch * self.scenario.train.validation_batches,
        }

    @cached_property
    def _peak(self) -> float:
        return measure_peak(self.device, DTYPES[self.scenario.compute.dtype])

    # What a person may change

    def adjustable(self) -> Mapping[str, Adjustable]:
        """ "lr" is the *peak* learning rate: warm-up and cosine go on, scaled."""
        bounds = {"lr": 10.0, "clip": 1e6, "weight_decay": 100.0, "dropout": 0.95}
        return {name: Adjustable(name, self.adjusted[name], 0.0, high) for name, high in bounds.items()}

    def adjust(self, name: str, value: float) -> None:
        if name not in self.adjusted:
            raise LabError(
                f"{name!r} cannot be changed while this runs{nearest(name, self.adjusted)}; "
                f"allowed: {', '.join(self.adjusted)}"
            )
        self.adjusted[name] = float(value)
        if name == "dropout":
            self.model.set_dropout(self.adjusted["dropout"])
        elif name == "weight_decay":
            self.optimizer.weight_decay = self.adjusted["weight_decay"]

    # Saving and putting back

    def state_dict(self) -> State:
        return {
            "step": self._updates,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state(),
            "adjusted": dict(self.adjusted),
            "why": list(self.why),
        }

    def load_state_dict(self, state: State) -> None:
        """Go back to a saved state. LabError if it belongs to another model shape."""
        shapes = {name: tuple(tensor.shape) for name, tensor in self.model.state_dict().items()}
        for name, tensor in state["model"].items():
            if shapes.pop(name, None) != tuple(tensor.shape):
                raise LabError(f"the checkpoint's {name} {tuple(tensor.shape)} does not fit this scenario's [model]")
        if shapes:
            raise LabError(f"the checkpoint lacks {next(iter(shapes))}, which this scenario's [model] has")
        self.model.load_state_dict(state["model"])
        self.optimizer.load(state["optimizer"])
        self.guard = LateGuard(self.device)
        for name, value in state["adjusted"].items():
            self.adjust(name, value)
        self._updates = int(state["step"])
        self.why = list(state["why"]) or self.why
