"""Word vectors as an experiment: a step is a stretch of the text, learnt from block by block (MATH K4–K6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from txlab.engine.device import choose_device, repeat_exactly
from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.neighbours import analogy, nearest, unit
from txlab.engine.embeddings.windows import Windows, windows
from txlab.engine.embeddings.word2vec import Method, Word2Vec
from txlab.errors import LabError
from txlab.experiments.kinds.word_vectors import WordVectorScenario
from txlab.experiments.kinds.word_vectors.text import PlantedWord, encoded, planted_words
from txlab.experiments.protocol import Adjustable, Frame, NotFinite, Sample, State
from txlab.experiments.randomness import derived_seed, generator
from txlab.experiments.tabular.kind import TabularExperiment

LOWEST = 1e-4  # the share of alpha that the rate ends at
QUESTIONS = 500  # analogies asked of a planted text


class WordVectors(TabularExperiment):
    """See protocol.Experiment; `model` has the vectors, `text` the words and their ids."""

    def __init__(self, scenario: WordVectorScenario) -> None:
        self.scenario = scenario
        torch.set_num_threads(scenario.compute.threads)
        self.device = choose_device(scenario.compute.device)
        repeat_exactly(self.device)
        self.text = encoded(scenario.data, scenario.seed)
        vectors = scenario.vectors
        method = Method(
            vectors.architecture,
            vectors.objective,
            vectors.width,
            vectors.negatives,
            vectors.strip_noise,
            vectors.block,
        )
        draws = torch.Generator().manual_seed(derived_seed(scenario.seed, "word vectors", 0))
        self.model = Word2Vec(self.text.vocabulary, method, draws, str(self.device))
        self.kept = self.text.vocabulary.kept(vectors.subsample, vectors.subsampling)
        self.alpha = scenario.train.alpha
        self.step_count = 0
        self.planted = self._planted() if scenario.data.source == "planted" else {}

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
        seen = self.windows(self.step_count)
        draws = generator(self.scenario.seed, "noise words", self.step_count)
        alpha = self.alpha * max(1 - self.step_count / self.steps, LOWEST)
        loss = self.model.learn(seen, alpha, draws)
        if np.isinf(loss) or not bool(torch.isfinite(self.model.v).all()):
            raise NotFinite(self.step_count + 1, "the word vectors", "not finite")
        self.step_count += 1
        return {"alpha": alpha} | ({} if np.isnan(loss) else {"loss": loss})

    def windows(self, step: int) -> Windows:
        """What a step learns from: its stretch of the text, thinned out, each centre with its window."""
        section, words = self.scenario.vectors, self.scenario.train.words
        start = step % self.steps_an_epoch * words
        draws = generator(self.scenario.seed, "word windows", step)
        return windows(
            np.asarray(self.text.ids[start : start + words]), section.window, self.kept, draws, section.fixed_window
        )

    def evaluate(self) -> Mapping[str, float]:
        """What a planted text is known to contain: the share of synonyms and of analogies that are found.

        synonyms   planted words whose nearest word is their synonym
        analogies  questions a − b + c whose nearest word has c's base and a's feature
        """
        if not self.planted:
            return {}
        units = unit(self.model.v.cpu().numpy())
        words = {number: word for word, number in self.planted.items()}

        def is_synonym(number: int, word: PlantedWord) -> bool:
            found = words.get(nearest(units, units[number], 1, [number])[0][0])
            return found is not None and (found.base, found.feature) == (word.base, word.feature)

        synonyms = [is_synonym(number, word) for number, word in words.items()]
        right = []
        for a, b, c, wanted in self._questions():
            found = words.get(analogy(units, a, b, c, 1)[0][0])
            right.append(found is not None and (found.base, found.feature) == wanted)
        return {"synonyms": float(np.mean(synonyms)), "analogies": float(np.mean(right))}

    def _planted(self) -> dict[PlantedWord, int]:
        ids = self.text.vocabulary.ids
        return {word: ids[word.text] for word in planted_words() if word.text in ids}

    def _questions(self) -> list[tuple[int, int, int, tuple[int, int]]]:
        """(a, b, c, (base, feature) of the answer), the same for the same seed."""
        draws = generator(self.scenario.seed, "analogies", 0)
        words = list(self.planted)
        found: list[tuple[int, int, int, tuple[int, int]]] = []
        for _ in range(20 * QUESTIONS):
            a, other = (words[int(i)] for i in draws.integers(len(words), size=2))
            b = PlantedWord(a.base, other.feature, a.synonym)
            c = other
            if len(found) < QUESTIONS and a.base != c.base and a.feature != c.feature and b in self.planted:
                found.append((self.planted[a], self.planted[b], self.planted[c], (c.base, a.feature)))
        return found

    def frame(self) -> Frame:
        """words/v and words/u (n, D), the vectors of the n most frequent words; the words in `tokens`.

        With hierarchical softmax u belongs to the nodes of the tree, and is left out.
        """
        count = min(self.scenario.look.shown, len(self.text.vocabulary.words))
        tensors = {"words/v": self.model.v[:count].detach().clone()}
        if self.scenario.vectors.objective != "hierarchical":
            tensors["words/u"] = self.model.u[:count].detach().clone()
        counts = self.text.vocabulary.counts[:count].tolist()
        return Frame(self.step_count, tensors, {"words": self.text.vocabulary.words[:count]}, facts={"counts": counts})

    def samples(self) -> Sequence[Sample]:
        """The nearest words of those that the scenario asks about."""
        vocabulary = self.text.vocabulary
        units = unit(self.model.v.cpu().numpy())
        found = []
        for word in self.scenario.look.words:
            number = vocabulary.ids.get(word)
            if number is None:
                found.append(Sample(word, " is not in the vocabulary"))
                continue
            near = nearest(units, units[number], 8, [number])
            found.append(
                Sample(word, " → " + ", ".join(f"{vocabulary.words[row]} {cosine:.2f}" for row, cosine in near))
            )
        return found

    def facts(self) -> Mapping[str, Any]:
        vocabulary = self.text.vocabulary
        return {
            "unit": "words",
            "units_per_step": self.scenario.train.words,
            "steps": self.steps,
            "vocabulary": len(vocabulary.words),
            "words": vocabulary.tokens,
            "known_words": vocabulary.known,
            "parameters": self.model.v.numel() + self.model.u.numel(),
            "headline": ["synonyms", "analogies"] if self.planted else ["loss"],
            "compute": {"device": str(self.device), "dtype": "float32", "threads": torch.get_num_threads()},
        }

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {"alpha": Adjustable("alpha", self.alpha, 1e-6, 10.0)}

    def change(self, name: str, value: float) -> None:
        self.alpha = value

    # Checkpoints

    def state_dict(self) -> State:
        vocabulary = self.text.vocabulary
        return {
            "step": self.step_count,
            "alpha": self.alpha,
            "text": self.text.fingerprint,
            "v": self.model.v.clone(),
            "u": self.model.u.clone(),
            "words": list(vocabulary.words),
            "counts": torch.from_numpy(vocabulary.counts.copy()),
        }

    def load_state_dict(self, state: State) -> None:
        if state["text"] != self.text.fingerprint or state["v"].shape != self.model.v.shape:
            raise LabError("the checkpoint is of another text or another width")
        self.step_count, self.alpha = int(state["step"]), float(state["alpha"])
        self.model.v.copy_(state["v"])
        self.model.u.copy_(state["u"])


def embedding_of(state: State, title: str = "") -> Embedding:
    """The word vectors of a checkpoint. With hierarchical softmax u belongs to the nodes of the tree, and is left out.

    LabError if the checkpoint contradicts itself.
    """
    words, v, u = tuple(state["words"]), state["v"].numpy(), state["u"].numpy()
    if len(words) != len(v) or len(set(words)) != len(words):
        raise LabError(f"{title} has {len(v)} vectors for {len(set(words))} words")
    return Embedding(words, v, state["counts"].numpy(), u if u.shape == v.shape else None, title)
