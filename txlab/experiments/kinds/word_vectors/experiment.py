"""Word vectors as an experiment: a step is a stretch of the text, learnt from block by block (MATH K4–K6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np
import torch

from txlab.engine.device import choose_device, repeat_exactly
from txlab.engine.embeddings.blocks import Block
from txlab.engine.embeddings.huffman import huffman
from txlab.engine.embeddings.neighbours import analogy, nearest, unit
from txlab.engine.embeddings.windows import Windows, windows
from txlab.engine.embeddings.word2vec import Method, Objective, Word2Vec
from txlab.errors import LabError
from txlab.experiments.kinds.word_vectors.schema import WordVectorScenario
from txlab.experiments.kinds.word_vectors.text import PlantedWord, encode_words, planted_words
from txlab.experiments.protocol import Adjustable, Frame, NotFinite, Sample, State
from txlab.experiments.randomness import derived_seed, generator
from txlab.experiments.untimed import UntimedExperiment

LOWEST = 1e-4  # the share of alpha below which the rate does not fall, as in the C program
QUESTIONS = 500  # analogies asked of a planted text
ALIKE = 10  # neighbours of a word in the comparison of objectives
COSINES = 4_000_000  # of that comparison, at most


class WordVectors(UntimedExperiment):
    """See protocol.Experiment; `model` has the vectors, `text` the words and their ids.

    `models` has the vectors of all objectives, `model` first. They begin at the same numbers and see the same windows.
    """

    def __init__(self, scenario: WordVectorScenario) -> None:
        self.scenario = scenario
        self.device = choose_device(scenario.compute.device)
        repeat_exactly(self.device)
        self.text = encode_words(scenario.data, scenario.seed)
        vectors = scenario.vectors
        self.models = {objective: self._model(objective) for objective in (vectors.objective, *vectors.beside)}
        self.model = self.models[vectors.objective]
        self.seconds = dict.fromkeys(self.models, 0.0)  # spent on learning since they were last asked for
        self.words_seen = 0
        ahead = len(self.models) == 1 and self.model.in_blocks and scenario.compute.threads > 1
        torch.set_num_threads(1 if ahead else scenario.compute.threads)
        self.helper = ThreadPoolExecutor(1, "blocks", torch.set_num_threads, (1,)) if ahead else None
        self.coming: tuple[int, Future[list[Block]]] | None = None  # the step that it prepares
        self.kept = self.text.vocabulary.keep_probability(vectors.subsample, vectors.subsampling)
        self.alpha = scenario.train.alpha
        self.step_count = 0
        self.planted = self._planted_words() if scenario.data.source == "planted" else {}

    def _model(self, objective: Objective) -> Word2Vec:
        vectors = self.scenario.vectors
        method = Method(
            vectors.architecture, objective, vectors.width, vectors.negatives, vectors.strip_noise, vectors.block
        )
        draws = torch.Generator().manual_seed(derived_seed(self.scenario.seed, "word vectors", 0))
        return Word2Vec(self.text.vocabulary, method, draws, str(self.device))

    def name(self, metric: str, objective: str) -> str:
        """A metric's name: "loss", or "loss/nce" where there are several."""
        return metric if len(self.models) == 1 else f"{metric}/{objective}"

    @property
    def steps_an_epoch(self) -> int:
        return -(-len(self.text.ids) // self.scenario.train.words)

    @property
    def steps(self) -> int:
        return self.scenario.train.epochs * self.steps_an_epoch

    def step(self) -> Mapping[str, float]:
        """Learn from the next stretch of the text.

        loss   of the first block, in nats per pair (CBOW: per centre), before it was learnt from
        alpha  the rate of this step
        """
        step = self.step_count
        seen = None if self.helper else self.windows(step)
        alpha = self.rate(step)
        metrics = {"alpha": alpha}
        for objective, model in self.models.items():
            began = perf_counter()
            if seen is None:
                loss = model.learn_blocks(self._prepare(step), alpha)
            else:
                loss = model.learn(seen, alpha, self.noise_draws(step))
            if np.isinf(loss) or not bool(torch.isfinite(model.v.sum())):
                raise NotFinite(step + 1, f"the word vectors ({objective})", "not finite")
            self.seconds[objective] += perf_counter() - began
            metrics |= {} if np.isnan(loss) else {self.name("loss", objective): loss}
        self.step_count += 1
        self.words_seen += self.scenario.train.words
        return metrics

    def take_speeds(self) -> Mapping[str, float]:
        """words_per_second/OBJECTIVE of each of several, since this was last asked."""
        if len(self.models) == 1 or not self.words_seen:
            return {}
        speeds = {f"words_per_second/{name}": self.words_seen / seconds for name, seconds in self.seconds.items()}
        self.seconds, self.words_seen = dict.fromkeys(self.models, 0.0), 0
        return speeds

    def rate(self, step: int) -> float:
        return self.alpha * max(1 - step / self.steps, LOWEST)

    def blocks(self, step: int) -> list[Block]:
        """What `model` learns from in a step, if it learns in blocks: a function of seed and step."""
        return list(self.model.blocks(self.windows(step), self.noise_draws(step)))

    def _prepare(self, step: int) -> list[Block]:
        """The same, made by the second thread; it makes those of the next step while this one is learnt from."""
        assert self.helper is not None
        if self.coming is None or self.coming[0] != step:
            self.coming = step, self.helper.submit(self.blocks, step)
        blocks = self.coming[1].result()
        self.coming = step + 1, self.helper.submit(self.blocks, step + 1)
        return blocks

    def noise_draws(self, step: int) -> np.random.Generator:
        return generator(self.scenario.seed, "noise words", step)

    def windows(self, step: int) -> Windows:
        """The training data of a step: its stretch of the text, subsampled, each centre with its window."""
        section, words = self.scenario.vectors, self.scenario.train.words
        start = step % self.steps_an_epoch * words
        draws = generator(self.scenario.seed, "word windows", step)
        return windows(
            np.asarray(self.text.ids[start : start + words]), section.window, self.kept, draws, section.fixed_window
        )

    def evaluate(self) -> Mapping[str, float]:
        """The share of a planted text's known relations that is found; and the agreement of objectives.

        synonyms   planted words whose nearest word is their synonym
        analogies  questions a − b + c whose nearest word has c's base and a's feature
        alike      of the ten nearest words of each, the share that the first objective also has
        """
        metrics: dict[str, float] = {}
        units = {objective: unit(model.v.cpu().numpy()) for objective, model in self.models.items()}
        for objective, each in units.items():
            if self.planted:
                synonyms, analogies = self._find_planted(each)
                metrics |= {self.name("synonyms", objective): synonyms, self.name("analogies", objective): analogies}
            if objective != self.scenario.vectors.objective:
                metrics[f"alike/{objective}"] = alike(units[self.scenario.vectors.objective], each)
        return metrics

    def _find_planted(self, units: np.ndarray) -> tuple[float, float]:
        """The shares of the planted synonyms and analogies that vectors of length 1 (V, D) contain."""
        words = {number: word for word, number in self.planted.items()}

        def is_synonym(number: int, word: PlantedWord) -> bool:
            nearest_word = words.get(nearest(units, units[number], 1, [number])[0][0])
            return nearest_word is not None and (nearest_word.base, nearest_word.feature) == (word.base, word.feature)

        synonyms = [is_synonym(number, word) for number, word in words.items()]
        right = []
        for a, b, c, wanted in self._questions():
            nearest_word = words.get(analogy(units, a, b, c, 1)[0][0])
            right.append(nearest_word is not None and (nearest_word.base, nearest_word.feature) == wanted)
        return float(np.mean(synonyms)), float(np.mean(right))

    def _planted_words(self) -> dict[PlantedWord, int]:
        ids = self.text.vocabulary.ids
        return {word: ids[word.text] for word in planted_words() if word.text in ids}

    def _questions(self) -> list[tuple[int, int, int, tuple[int, int]]]:
        """(a, b, c, (base, feature) of the answer), the same for the same seed."""
        draws = generator(self.scenario.seed, "analogies", 0)
        words = list(self.planted)
        questions: list[tuple[int, int, int, tuple[int, int]]] = []
        for _ in range(20 * QUESTIONS):
            a, other = (words[int(i)] for i in draws.integers(len(words), size=2))
            b = PlantedWord(a.base, other.feature, a.synonym)
            c = other
            if len(questions) < QUESTIONS and a.base != c.base and a.feature != c.feature and b in self.planted:
                questions.append((self.planted[a], self.planted[b], self.planted[c], (c.base, a.feature)))
        return questions

    def frame(self) -> Frame:
        """words/v and words/u (n, D), the vectors of the n most frequent words; the words in `tokens`.

        Those of further objectives are words/v/nce and so on. With hierarchical softmax u is for the nodes of the tree,
        and is left out.
        """
        count = min(self.scenario.probe.shown, len(self.text.vocabulary.words))
        tensors = {}
        for objective, model in self.models.items():
            behind = "" if model is self.model else f"/{objective}"
            tensors[f"words/v{behind}"] = model.v[:count].detach().clone()
            if objective != "hierarchical":
                tensors[f"words/u{behind}"] = model.u[:count].detach().clone()
        counts = self.text.vocabulary.counts[:count].tolist()
        return Frame(self.step_count, tensors, {"words": self.text.vocabulary.words[:count]}, facts={"counts": counts})

    def samples(self) -> Sequence[Sample]:
        """The nearest words of those that the scenario asks about, by each objective."""
        vocabulary = self.text.vocabulary
        samples = []
        units = {objective: unit(model.v.cpu().numpy()) for objective, model in self.models.items()}
        for word in self.scenario.probe.words:
            number = vocabulary.ids.get(word)
            if number is None:
                samples.append(Sample(word, " is not in the vocabulary"))
                continue
            for objective, each in units.items():
                near = nearest(each, each[number], 8, [number])
                listed = ", ".join(f"{vocabulary.words[row]} {cosine:.2f}" for row, cosine in near)
                samples.append(Sample(word if len(units) == 1 else f"{word} ({objective})", f" → {listed}"))
        return samples

    def _scores(self, objective: Objective) -> float:
        """Products u·h that one prediction takes, on average over the text."""
        vocabulary = self.text.vocabulary
        if objective == "hierarchical":
            return float(huffman(vocabulary.counts).lengths @ vocabulary.counts / vocabulary.known)
        return len(vocabulary.words) if objective == "softmax" else 1 + self.scenario.vectors.negatives

    def facts(self) -> Mapping[str, Any]:
        vocabulary = self.text.vocabulary
        headline = ["synonyms", "analogies"][: 2 if len(self.models) == 1 else 1] if self.planted else ["loss"]
        return {
            "unit": "words",
            "units_per_step": self.scenario.train.words,
            "steps": self.steps,
            "vocabulary": len(vocabulary.words),
            "words": vocabulary.tokens,
            "known_words": vocabulary.known,
            "parameters": sum(model.v.numel() + model.u.numel() for model in self.models.values()),
            "scores": {objective: self._scores(objective) for objective in self.models},
            "headline": [self.name(metric, objective) for metric in headline for objective in self.models],
            "compute": {"device": str(self.device), "dtype": "float32", "threads": self.scenario.compute.threads},
        }

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {"alpha": Adjustable("alpha", self.alpha, 1e-6, 10.0)}

    def change(self, name: str, value: float) -> None:
        self.alpha = value

    # Checkpoints

    def state_dict(self) -> State:
        vocabulary, beside = self.text.vocabulary, self.scenario.vectors.beside
        return {
            "step": self.step_count,
            "alpha": self.alpha,
            "text": self.text.fingerprint,
            "v": self.model.v.clone(),
            "u": self.model.u.clone(),
            "words": list(vocabulary.words),
            "counts": torch.from_numpy(vocabulary.counts.copy()),
            "beside": {name: {"v": self.models[name].v.clone(), "u": self.models[name].u.clone()} for name in beside},
        }

    def load_state_dict(self, state: State) -> None:
        if state["text"] != self.text.fingerprint or state["v"].shape != self.model.v.shape:
            raise LabError("the checkpoint is of another text or another width")
        beside = state.get("beside", {})
        if set(beside) != set(self.scenario.vectors.beside):
            raise LabError("the checkpoint is of other objectives")
        self.step_count, self.alpha = int(state["step"]), float(state["alpha"])
        self.model.v.copy_(state["v"])
        self.model.u.copy_(state["u"])
        for name, tables in beside.items():
            self.models[name].v.copy_(tables["v"])
            self.models[name].u.copy_(tables["u"])


def alike(one: np.ndarray, other: np.ndarray) -> float:
    """The share of the ALIKE nearest words that two sets of vectors of length 1 (V, D) have in common.

    Of all words, or of the most frequent ones if there are many.
    """
    rows = np.arange(min(len(one), max(1, COSINES // len(one))))
    count = min(ALIKE, len(one) - 1)
    neighbours = []
    for units in (one, other):
        cosines = units[rows] @ units.T
        cosines[rows, rows] = -np.inf
        neighbours.append(np.argpartition(-cosines, count - 1)[:, :count])
    shared = [len(np.intersect1d(a, b)) for a, b in zip(*neighbours, strict=True)]
    return float(np.mean(shared)) / count
