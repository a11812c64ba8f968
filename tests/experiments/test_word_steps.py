"""One whole step of word vectors by each objective, computed again in NumPy and float64 from the checkpoint before it
(MATH K4, K5): the loss, the rate, and both tables.

The pairs are taken one after the other in plain loops: which words are kept, how far each looks, what is drawn as
noise, and the gradient of each example at the tables before its block.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from txlab.experiments.kind import explain_metric, kind_named
from txlab.experiments.kinds.word_vectors.experiment import WordVectors
from txlab.experiments.kinds.word_vectors.schema import WordVectorScenario
from txlab.experiments.randomness import generator

SEED, WORDS, REACH, K, D, BLOCK, THRESHOLD, ALPHA = 3, 150, 3, 4, 8, 32, 0.06, 0.05
LETTERS = "abcdefghijklmnopqrst"


def sentences() -> list[list[str]]:
    """400 words of a vocabulary of twenty, the first ones frequent, and forty others that occur once; one sentence has
    a word only."""
    draws = np.random.default_rng(0)
    shares = 1 / np.arange(1, 21)
    text = draws.choice(list(LETTERS), 400, p=shares / shares.sum()).astype(object)
    text[5::10] = [f"u{chr(97 + n % 20)}{n // 20 * 'o'}" for n in range(40)]
    ends = [0, 1, *np.cumsum(draws.integers(2, 20, 60))]
    return [[2 * letter for letter in text[start:end]] for start, end in pairwise(ends) if start < 400]


def built(folder: Path, alpha: float = ALPHA, **vectors: Any) -> WordVectors:
    file = folder / "text.txt"
    file.write_text("\n".join(" ".join(sentence) for sentence in sentences()))
    scenario = {
        "kind": "word-vectors",
        "seed": SEED,
        "data": {"text": str(file), "sentences": "line", "minimum": 2},
        "vectors": {
            "width": D, "window": REACH, "negatives": K, "strip_noise": 0, "block": BLOCK, "subsample": THRESHOLD
        } | vectors,
        "train": {"words": WORDS, "epochs": 2, "alpha": alpha},
        "compute": {"threads": 1, "device": "cpu"},
    }  # fmt: skip
    found = kind_named("word-vectors").build(WordVectorScenario.model_validate(scenario))
    assert isinstance(found, WordVectors)
    return found


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


class SecondWords:
    """The text as ids, and one step from a checkpoint's tables.

    plain   every window has its full width, and words are kept with √(t/f), as the paper says
    """

    plain = False

    def __init__(self, architecture: str, objective: str, strip_noise: int = 0, alpha: float = ALPHA) -> None:
        self.alpha = alpha
        self.architecture, self.objective, self.strip_noise = architecture, objective, strip_noise
        every = Counter(word for sentence in sentences() for word in sentence)
        counts = {word: count for word, count in every.items() if count > 1}
        self.words = sorted(counts, key=lambda word: (-counts[word], word))
        self.counts = np.array([counts[word] for word in self.words])
        ids = {word: number for number, word in enumerate(self.words)}
        known = [[ids[word] for word in sentence if word in ids] for sentence in sentences()]
        self.text = [id for each in known if len(each) > 1 for id in [*each, None]]
        self.q = self.counts**0.75 / (self.counts**0.75).sum()
        self.ways = self.tree()

    @property
    def steps(self) -> int:
        return 2 * -(-len(self.text) // WORDS)

    def tree(self) -> list[list[tuple[int, int]]]:
        """(node, ±1) from the root to each word: the two rarest are joined, the second one to the left."""
        there = [(int(count), number, [number]) for number, count in enumerate(self.counts)]
        ways: list[list[tuple[int, int]]] = [[] for _ in self.words]
        for node in range(len(self.words) - 1):
            there.sort()
            (rare, _, right), (second, _, left) = there[:2]
            for side, words in ((-1, right), (1, left)):
                for word in words:
                    ways[word].insert(0, (node, side))
            there = [*there[2:], (rare + second, len(self.words) + node, right + left)]
        return ways

    def seen(self, step: int) -> list[tuple[int, list[int]]]:
        """The centres of a step with their contexts."""
        start = step % (self.steps // 2) * WORDS
        piece, draws = self.text[start : start + WORDS], generator(SEED, "word windows", step)
        f = self.counts / self.counts.sum()
        kept = np.minimum(np.sqrt(THRESHOLD / f) + (0 if self.plain else THRESHOLD / f), 1)
        u = draws.random(len(piece))
        piece = [id for id, chance in zip(piece, u, strict=True) if id is None or chance < kept[id]]
        count = sum(id is not None for id in piece)
        widths = iter([REACH] * count if self.plain else draws.integers(1, REACH + 1, count).tolist())
        found = []
        for place, centre in enumerate(piece):
            if centre is None:
                continue
            width, around = next(widths), []
            for side in (range(place - 1, -1, -1), range(place + 1, len(piece))):
                own: list[int] = []
                for other in side:
                    word = piece[other]
                    if word is None or len(own) == width:
                        break
                    own.append(word)
                around.append(own)
            found.append((centre, [*around[0][::-1], *around[1]]))
        return found

    def drawn(self, draws: np.random.Generator, *shape: int) -> np.ndarray:
        """Words with the probabilities q."""
        return np.searchsorted(np.cumsum(self.q), draws.random(shape), side="right")

    def examples(self, seen: list[tuple[int, list[int]]]) -> list[tuple[list[int], int]]:
        """(words whose mean h is, word to be predicted)."""
        if self.architecture == "skip-gram":
            return [([centre], context) for centre, around in seen for context in around]
        return [(around, centre) for centre, around in seen if around]

    def scored(self, h: np.ndarray, u: np.ndarray, target: int, noise: list[int]) -> tuple[list[int], Any, float]:
        """Rows of u, ∂L/∂(u·h) of each, and L."""
        if self.objective == "softmax":
            p = np.exp(u @ h) / np.exp(u @ h).sum()
            return list(range(len(u))), p - (np.arange(len(u)) == target), -np.log(p[target])
        if self.objective == "hierarchical":
            rows, signs = [node for node, _ in self.ways[target]], np.array([sign for _, sign in self.ways[target]])
            x = u[rows] @ h
            return rows, -signs * sigmoid(-signs * x), -np.log(sigmoid(signs * x)).sum()
        if self.objective == "sampling":
            noise = [word for word in noise if word != target]
        rows = [target, *noise]
        x = u[rows] @ h - (np.log(K * self.q[rows]) if self.objective == "nce" else 0)
        signs = np.array([1] + [-1] * len(noise))
        return rows, -signs * sigmoid(-signs * x), -np.log(sigmoid(signs * x)).sum()

    def step(self, number: int, v: np.ndarray, u: np.ndarray) -> dict[str, float]:
        """Change both tables as step `number` (from 0) does; return its metrics."""
        alpha, seen = self.alpha * max(1 - number / self.steps, 1e-4), self.seen(number)
        draws, losses = generator(SEED, "noise words", number), []
        shared = self.drawn(draws, -(-len(seen) // 16), self.strip_noise) if self.strip_noise else None
        for start in range(0, len(seen), BLOCK):
            moved_v, moved_u, loss, count = np.zeros_like(v), np.zeros_like(u), 0.0, 0
            if shared is None:
                examples = self.examples(seen[start : start + BLOCK])
                noise = self.drawn(draws, len(examples), K) if self.objective in ("sampling", "nce") else None
                for row, (words, target) in enumerate(examples):
                    h = v[words].mean(0)
                    given = [] if noise is None else noise[row].tolist()
                    rows, errors, own = self.scored(h, u, target, given)
                    np.add.at(moved_u, rows, errors[:, None] * h)
                    np.add.at(moved_v, words, (errors @ u[rows]) / len(words))
                    loss, count = loss + own, count + 1
            else:  # the noise of sixteen centres, each word at the weight K/N of a pair
                for place, (centre, around) in enumerate(seen[start : start + BLOCK], start):
                    for context in around:
                        rows = [context, *shared[place // 16]]
                        signs = np.array([1] + [-1] * self.strip_noise)
                        weights = np.where(signs > 0, 1.0, K / self.strip_noise)
                        x = u[rows] @ v[centre]
                        errors = -signs * sigmoid(-signs * x) * weights
                        np.add.at(moved_u, rows, errors[:, None] * v[centre])
                        moved_v[centre] += errors @ u[rows]
                        loss, count = loss - (weights * np.log(sigmoid(signs * x))).sum(), count + 1
                for moved in (moved_v, moved_u):  # no row further than 1/4 in a block
                    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
                    moved *= np.minimum(1.0, 0.25 / (alpha * np.maximum(lengths, 1e-30)))
            v -= alpha * moved_v
            u -= alpha * moved_u
            if count:
                losses.append(loss / count)
        return {"loss": losses[0], "alpha": alpha}


def same(theirs: Any, ours: dict[str, float]) -> None:
    assert set(theirs) == set(ours)
    for name, value in ours.items():
        assert float(theirs[name]) == pytest.approx(value, rel=1e-5), name


def tables(state: Any) -> tuple[np.ndarray, np.ndarray]:
    return state["v"].double().numpy().copy(), state["u"].double().numpy().copy()


@pytest.mark.parametrize("objective", ["sampling", "softmax", "hierarchical", "nce"])
@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_every_step_of_an_objective(architecture: str, objective: str, tmp_path: Path) -> None:
    agrees_in_every_step(
        built(tmp_path, architecture=architecture, objective=objective), SecondWords(architecture, objective)
    )


def test_every_step_with_fixed_windows_and_the_subsampling_of_the_paper(tmp_path: Path) -> None:
    ours = SecondWords("skip-gram", "softmax")
    ours.plain = True
    agrees_in_every_step(built(tmp_path, objective="softmax", fixed_window=True, subsampling="paper"), ours)


@pytest.mark.parametrize("alpha", [ALPHA, 3.0])
def test_every_step_in_blocks_with_shared_noise(alpha: float, tmp_path: Path) -> None:
    """Also at a rate at which rows are stopped."""
    agrees_in_every_step(built(tmp_path, alpha, strip_noise=6), SecondWords("skip-gram", "sampling", 6, alpha))


def agrees_in_every_step(theirs: WordVectors, ours: SecondWords) -> None:
    assert list(theirs.text.vocabulary.words) == ours.words
    assert theirs.steps == ours.steps == 6
    v, u = tables(theirs.state_dict())
    assert 0.45 / D < np.abs(v).max() <= 0.5 / D
    assert abs(v.mean()) < 0.05 / D
    assert not u.any()
    for number in range(ours.steps):
        before = tables(theirs.state_dict())
        v, u = (table.copy() for table in before)
        values = dict(theirs.step())
        same(values, ours.step(number, v, u))
        for new, old, after in zip((v, u), before, tables(theirs.state_dict()), strict=True):
            np.testing.assert_allclose(new - old, after - old, rtol=1e-4, atol=2e-6)
            assert np.abs(after - old).max() > 1e-4
        told = {
            name: explain_metric(theirs.scenario.model_dump(), name, number + 1, values, theirs.facts())
            for name in values
        }
        assert told["alpha"].steps[-1].result == pytest.approx(values["alpha"])  # type: ignore[union-attr]


def test_parallel_objectives_each_make_their_own_step(tmp_path: Path) -> None:
    names = ("softmax", "nce", "hierarchical")
    theirs = built(tmp_path, beside=list(names))
    theirs.step()
    state = theirs.state_dict()
    found: dict[str, float] = {}
    kept: dict[str, np.ndarray] = {}
    for name in ("sampling", *names):
        v, u = tables(state if name == "sampling" else state["beside"][name])
        values = SecondWords("skip-gram", name).step(1, v, u)
        found |= {f"loss/{name}": values["loss"], "alpha": values["alpha"]}
        kept[name] = v
    same(theirs.step(), found)
    near = {name: nearest(v) for name, v in kept.items()}
    alike = {
        f"alike/{name}": float(np.mean([len(a & b) / 10 for a, b in zip(near["sampling"], near[name], strict=True)]))
        for name in names
    }
    same(theirs.evaluate(), alike)


def cosines(v: np.ndarray) -> np.ndarray:
    units = v / np.linalg.norm(v, axis=1, keepdims=True)
    return units @ units.T


def nearest(v: np.ndarray) -> list[set[int]]:
    """The ten words nearest to each by cosine, without itself."""
    found: np.ndarray = cosines(v)
    np.fill_diagonal(found, -np.inf)
    return [set(row) for row in np.argsort(-found, axis=1)[:, :10].tolist()]


def test_what_was_planted_is_counted_by_the_nearest_words() -> None:
    scenario = {
        "kind": "word-vectors",
        "data": {"source": "planted", "tokens": 20_000},
        "vectors": {"width": 12},
        "train": {"epochs": 1, "words": 10_000, "alpha": 0.2},
        "compute": {"threads": 1, "device": "cpu"},
    }
    theirs = kind_named("word-vectors").build(WordVectorScenario.model_validate(scenario))
    assert isinstance(theirs, WordVectors)
    for _ in range(theirs.steps):
        theirs.step()
    with torch.no_grad():  # synonyms come nearer, so that neither share is 0
        for word, number in theirs.planted.items():
            draws = np.random.default_rng(1000 * word.base + word.feature)
            shift = draws.normal(size=12) + 0.5 * np.random.default_rng(word.base).normal(size=12)
            theirs.model.v[number] += torch.from_numpy(0.12 * shift)
    v, planted = theirs.model.v.double().numpy(), {number: word for word, number in theirs.planted.items()}
    units = v / np.linalg.norm(v, axis=1, keepdims=True)

    def closest(direction: np.ndarray, without: list[int]) -> Any:
        scores = units @ direction
        scores[without] = -np.inf
        word = planted.get(int(scores.argmax()))
        return word and (word.base, word.feature)

    synonyms = np.mean([closest(units[n], [n]) == (word.base, word.feature) for n, word in planted.items()])
    right = [closest(units[a] - units[b] + units[c], [a, b, c]) == answer for a, b, c, answer in theirs._questions()]
    ours = {"synonyms": float(synonyms), "analogies": float(np.mean(right))}
    assert 0.05 < ours["synonyms"] < 1
    assert 0 < ours["analogies"] < 1
    same(theirs.evaluate(), ours)
