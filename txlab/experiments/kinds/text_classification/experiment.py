"""Encoders that learn the verdict of reviews, from few labels and many, pre-trained or not (MATH T10, T12).

All classifiers learn at the same time, each with an optimizer of its own, so each learns as if alone. The reviews are a
function of the seed; a classifier with n labels draws its batches from the first n of them, and both starts of the same
n have the same batches and the same initial map to the classes, so that the weights of the encoder are all they differ
in. No held-out review is among those to learn from.

Notable: the verdict is the author's, which the words suggest but do not determine, as with people. So the best
possible accuracy is known, and is below 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from txlab.engine.intervals import share_interval
from txlab.engine.rlhf.tasks.reviews import draw_review, probability_liked
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.transformer.blocks import Kernel, pattern, scores, set_dropout
from txlab.engine.transformer.classifier import BertClassifier
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import NO_MASK
from txlab.errors import LabError
from txlab.experiments.kinds.masked_language_model.data import SPECIAL, encode_masked, label
from txlab.experiments.kinds.masked_language_model.experiment import adopt_encoder
from txlab.experiments.kinds.text_classification.schema import CLASSES, TextClassificationScenario
from txlab.experiments.learning.gradient import GradientExperiment, Measured, adamw, load_weights
from txlab.experiments.learning.text_experiment import MOST, expected_tokens
from txlab.experiments.learning.timing import Trial, as_asked, fitting
from txlab.experiments.loaded_model import LoadedModel
from txlab.experiments.protocol import Frame
from txlab.experiments.randomness import derived_seed, generator
from txlab.experiments.tokenizer_store import tokenizer_for

Reading = tuple[Tensor, Tensor, Tensor]
"""ids (B, T), lengths (B), classes (B)"""


class ReviewData:
    """The reviews of a scenario, as tokens.

    train, held_out   (text, verdict) of each review, cut after the last whole word that fits the context
    best_possible     the share of the held-out verdicts that a reader who knows how reviews are drawn gets right
    """

    def __init__(self, scenario: TextClassificationScenario) -> None:
        data = scenario.data
        self.inside, self.seed = scenario.model.context - 2, scenario.seed
        drawn = self.draw("reviews", data.reviews, set())
        text = "\n".join(review for review, _ in drawn)
        self.tokenizer: Tokenizer = tokenizer_for(data, text)
        self.tokenizer_name = data.tokenizer
        self.vocabulary = self.tokenizer.vocabulary + len(SPECIAL)
        self.train = [(self.cut(review), liked) for review, liked in drawn]
        known = {review for review, _ in self.train}
        self.held_out = [(self.cut(review), liked) for review, liked in self.draw("held out", data.held_out, known)]
        right = sum((probability_liked(review) > 0.5) == liked for review, liked in self.held_out)
        self.best_possible = right / len(self.held_out)
        self.rows, self.unseen = self.encoded(self.train), self.encoded(self.held_out)

    def draw(self, purpose: str, count: int, known: set[str]) -> list[tuple[str, bool]]:
        """Different reviews, none of which, once it is cut, is among the known ones."""
        random, reviews = generator(self.seed, purpose, 0), dict[str, bool]()
        for _ in range(20 * count + 1000):
            if len(reviews) == count:
                break
            review, liked = draw_review(random)
            if not known or self.cut(review) not in known:
                reviews.setdefault(review, liked)
        return list(reviews.items())

    def cut(self, review: str) -> str:
        """The review without its last words, if they do not fit the context. LabError if no word does."""
        short = review
        while len(self.tokenizer.encode(short)) > self.inside:
            short = short.rpartition(",")[0]
            if not short:
                raise LabError(f"model.context = {self.inside + 2} is too short for the review {review!r}")
        return short

    def encoded(self, reviews: Sequence[tuple[str, bool]]) -> Reading:
        """[CLS] review [SEP], padded with [SEP]."""
        rows = [encode_masked(self.tokenizer, review) for review, _ in reviews]
        ids = np.full((len(rows), self.inside + 2), self.tokenizer.vocabulary + 1, np.int64)
        for row, tokens in zip(ids, rows, strict=True):
            row[: len(tokens)] = tokens
        classes = torch.tensor([int(liked) for _, liked in reviews])
        return torch.from_numpy(ids), torch.tensor([len(row) for row in rows]), classes

    def batch(self, labels: Sequence[int], size: int, update: int) -> NDArray[np.int64]:
        """The reviews of an update, (B, len(labels)): of each number of labels, drawn from the first that many."""
        random = generator(self.seed, "batch", update)
        return np.stack([random.integers(0, n, size=size) for n in labels], 1)

    def facts(self) -> Mapping[str, Any]:
        return {
            "corpus": {
                "name": "reviews",
                "reviews": len(self.train),
                "held_out": len(self.held_out),
                "best_possible": self.best_possible,
            },
            "tokenizer": {"kind": self.tokenizer_name, "vocabulary": self.tokenizer.vocabulary},
        }


def summed_loss(
    model: nn.Module, ids: Tensor, lengths: Tensor, classes: Tensor, kernel: Kernel, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(Σ −log softmax(logits)[class], logits (B, 2)): computed in `dtype`, summed in float32."""
    with torch.autocast(ids.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(ids, lengths, kernel)
    return F.cross_entropy(logits.float(), classes, reduction="sum"), logits


class Classifiers(nn.ModuleDict):
    """A BertClassifier for each start and number of labels, by its name."""

    def set_dropout(self, share: float) -> None:
        set_dropout(self, share)


def experiment_of(scenario: TextClassificationScenario) -> TextClassificationExperiment:
    """The experiment of a scenario without "auto"."""
    return TextClassificationExperiment(scenario, ReviewData(scenario))


class TextClassificationExperiment(GradientExperiment[Classifiers]):
    """See GradientExperiment; its model is a classifier for each start and number of labels."""

    scenario: TextClassificationScenario

    def __init__(self, scenario: TextClassificationScenario, data: ReviewData) -> None:
        self.data, self.shape = data, scenario.shape(data.vocabulary)
        seed = derived_seed(scenario.seed, "weights", 0)

        def make(_: torch.Generator) -> Classifiers:
            return Classifiers(
                {
                    name: BertClassifier(self.shape, torch.Generator().manual_seed(seed))
                    for name, _, _ in scenario.classifiers
                }
            )

        super().__init__(scenario, make)
        self.training_loss = as_asked(summed_loss, scenario.compute)
        self.measured: tuple[int, dict[str, int]] = (-1, {})  # the step, and how many each classifier got right

    def make_optimizers(self) -> Sequence[Optimizer]:
        """One AdamW for each classifier, so that its gradient is clipped by its own norm."""
        return [adamw(self.model[name], self.scenario.train) for name, _, _ in self.scenario.classifiers]

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Start the encoders named "pretrained" from these weights of a masked language model."""
        for name, start, _ in self.scenario.classifiers:
            if start == "pretrained":
                classifier = cast(BertClassifier, self.model[name])
                load_weights(classifier, classifier.pretrained(weights))

    def batch_of(self, update: int) -> tuple[Tensor, Tensor, Tensor]:
        """ids (B, numbers of labels, T), lengths and classes (B, numbers of labels)."""
        rows = torch.from_numpy(self.data.batch(self.scenario.data.labels, self.scenario.train.batch, update))
        ids, lengths, classes = self.data.rows
        return ids[rows], lengths[rows], classes[rows]

    def gradients_of(self, *batch: Tensor) -> Measured:
        """Gradients of the mean loss of each classifier; {"loss"}, the mean over all of them."""
        train, how, labels = self.scenario.train, self.how, self.scenario.data.labels
        classifiers = self.scenario.classifiers

        def work(model: Classifiers, ids: Tensor, lengths: Tensor, classes: Tensor) -> Measured:
            total = ids.new_zeros((), dtype=torch.float32)
            for name, _, n in classifiers:
                own = labels.index(n)
                loss = self.training_loss(model[name], ids[:, own], lengths[:, own], classes[:, own], *how)[0]
                total = total + loss / train.batch
            total.backward()  # type: ignore[no-untyped-call]
            return {"loss": total.detach() / len(classifiers)}

        return self.accumulate(work, zip(*(tensor.chunk(train.accumulate) for tensor in batch), strict=True))

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """{"accuracy/NAME", "accuracy_low/NAME", "accuracy_high/NAME"} of each classifier on the held-out reviews,
        without dropout: the share that is right, and the ends of its exact 95 % interval."""
        count, values = len(self.data.held_out), dict[str, float | Tensor]()
        for name, right in self.right().items():
            low, high = share_interval(right, count)
            values |= {f"accuracy/{name}": right / count}
            values |= {f"accuracy_low/{name}": low, f"accuracy_high/{name}": high}
        return values

    @torch.no_grad()
    def right(self) -> dict[str, int]:
        """How many of the held-out reviews each classifier gets right."""
        if self.measured[0] != self.step_count:
            ids, lengths, classes = (self.on_device(each) for each in self.data.unseen)
            counts = dict.fromkeys((name for name, _, _ in self.scenario.classifiers), 0)
            with self.quiet():
                for part in range(0, len(ids), 256):
                    one, lengths_of, wanted = (each[part : part + 256] for each in (ids, lengths, classes))
                    for name in counts:
                        logits = summed_loss(self.model[name], one, lengths_of, wanted, *self.how)[1]
                        counts[name] += int((logits.argmax(-1) == wanted).sum())
            self.measured = self.step_count, counts
        return self.measured[1]

    def frame(self) -> Frame:
        """sweep/score (starts, numbers of labels): the accuracies; and the patterns, queries and keys of the probe.

        next/probability (T, classes): softmax of the head applied at each position; that of [CLS] is the answer.
        """
        scenario, count = self.scenario, len(self.data.held_out)
        right = np.array(list(self.right().values()), np.float64).reshape(len(scenario.starts), -1) / count
        looked = look_at(self.model[scenario.classifiers[len(scenario.data.labels) - 1][0]], self.probe)
        swept = [
            ["start", scenario.starts],
            ["share of labels", [n / scenario.data.reviews for n in scenario.data.labels]],
        ]
        score = f"accuracy on {count} held-out reviews"
        names = [label(self.data.tokenizer, token) for token in self.probe]
        order = torch.from_numpy(looked["next/probability"]).sort(-1, descending=True)
        tensors = looked | {
            "next/probability": order.values.numpy(),
            "sweep/score": right,
            "sweep/error": np.sqrt(right * (1 - right) / count),
        }
        return Frame(
            step=self.step_count,
            tensors=tensors,
            tokens={
                "probe": names,
                "next": [CLASSES[number] for number in order.indices.flatten().tolist()],
                "class": list(CLASSES),
            },
            texts={"probe": self.scenario.probe.text},
            facts={
                "mask": NO_MASK.name,
                "predicts": "class",
                "layers": self.shape.layers,
                "heads": self.shape.heads,
                "head_width": self.shape.head_width,
                "sweep": {"axes": swept, "score": score, "better": "high", "log": ["share of labels"]},
            },
        )

    @cached_property
    def probe(self) -> list[int]:
        ids = encode_masked(self.data.tokenizer, self.scenario.probe.text, self.data.inside)
        if len(ids) < 3:
            raise LabError(f"probe.text = {self.scenario.probe.text!r} has no token; a probe needs at least 1")
        return ids

    def facts(self) -> Mapping[str, Any]:
        shape, many = self.shape, len(self.scenario.classifiers)
        tokens = self.scenario.train.batch * shape.context * many
        return {
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "classifiers": many,
            "headline": [f"accuracy/{name}" for name, _, _ in self.scenario.classifiers],
            "unit": "tokens",
            "units_per_step": tokens,
            "flops_per_step": costs(shape).flops_per_token * tokens,
            **super().facts(),
            **self.data.facts(),
        }


@torch.no_grad()
def look_at(model: nn.Module, ids: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Patterns, queries and keys of one text in every head, and the classes that the head sees at each position."""
    assert isinstance(model, BertClassifier)
    device, training = model.head.weight.device, model.training
    hooks, kept = keeping("encoder.blocks.*.attention.query", "encoder.blocks.*.attention.key")
    model.eval()
    with torch.autocast(device.type, enabled=False):
        lengths = torch.tensor([len(ids)], device=device)
        x = model.encode(torch.tensor([list(ids)], device=device), lengths, "matmul", hooks)[0]  # (T, D)
        votes = model.head(x).softmax(-1)  # (T, classes)
    model.train(training)
    q, k = (
        torch.cat([kept[f"encoder.blocks.{layer}.attention.{what}"] for layer in range(model.shape.layers)])
        for what in ("query", "key")
    )
    shown = {
        "attention/pattern": pattern(scores(q, k), None).half(),  # (L, H, T, T)
        "attention/query": q,  # (L, H, T, K)
        "attention/key": k,
        "next/probability": votes,
    }
    return {name: tensor.float().cpu().numpy() for name, tensor in shown.items()}


def trial_of(scenario: TextClassificationScenario) -> Trial[BertClassifier]:
    """A trial step of one classifier of this scenario; all of them take the same time."""
    train, many = scenario.train, len(scenario.classifiers)
    steps, micro_batch = train.steps * train.accumulate * many, train.batch // train.accumulate
    vocabulary = min(expected_tokens(scenario.data.tokenizer, scenario.data.vocabulary), MOST)
    whole = scenario.shape(vocabulary + len(SPECIAL))
    shape, batch, part, scale = fitting(whole, micro_batch, steps, scenario.compute.device)
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(shape.vocabulary, (batch, shape.context), generator=draws)
    tensors = ids, torch.full((batch,), shape.context), torch.randint(len(CLASSES), (batch,), generator=draws)
    return Trial(
        lambda generator: BertClassifier(shape, generator),
        train,
        steps * part,
        summed_loss,
        lambda: tensors,
        batch,
        shape.dropout,
        scale,
    )


def adopt(scenario: TextClassificationScenario, opened: LoadedModel) -> TextClassificationScenario:
    """The scenario as it runs when started from this model. LabError if they do not agree."""
    return adopt_encoder(scenario, opened)
