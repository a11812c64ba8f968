"""The blocked update is the sum of the single updates that it replaces, and CBOW's and skip-gram's are autograd's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from txlab.engine.embeddings import blocks, plain
from txlab.engine.embeddings.blocks import Stretch
from txlab.engine.embeddings.vocabulary import Vocabulary, count_words
from txlab.engine.embeddings.windows import BOUNDARY, Windows, windows
from txlab.engine.embeddings.word2vec import Method, Word2Vec

WORDS, WIDTH = 13, 5
VOCABULARY = Vocabulary(tuple("abcdefghijklm"), np.arange(WORDS, 0, -1), 91)


def text(length: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, WORDS, length)
    ids[rng.random(length) < 0.1] = BOUNDARY
    return ids


def pairs_of(ids: np.ndarray, widths: Iterator[int]) -> list[tuple[int, int, int]]:
    """(strip, centre, context) by the plain form, sentence by sentence."""
    found: list[tuple[int, int, int]] = []
    sentence: list[int] = []
    place = 0
    for word in [*ids.tolist(), BOUNDARY]:
        if word != BOUNDARY:
            sentence.append(word)
            continue
        own = [next(widths) for _ in sentence]
        for i in range(len(sentence)):  # one centre at a time, to know its strip
            only = [width if j == i else 0 for j, width in enumerate(own)]
            found += [((place + i) // 16, *pair) for pair in plain.pairs(sentence, only)]
        place += len(sentence)
        sentence = []
    return found


@pytest.mark.parametrize("reach", [1, 2, 5, 8, 11])
@pytest.mark.parametrize("length", [3, 40, 150])
def test_a_block_moves_both_tables_as_its_pairs_do_one_by_one(reach: int, length: int) -> None:
    ids = text(length, reach)
    seen = windows(ids, reach, np.ones(WORDS), np.random.default_rng(1))
    drawn = np.random.default_rng(1)
    drawn.random(length)
    pairs = pairs_of(ids, iter(drawn.integers(1, reach + 1, len(seen.tokens)).tolist()))
    rng = np.random.default_rng(2)
    v, u = rng.normal(size=(WORDS, WIDTH)), rng.normal(size=(WORDS, WIDTH))
    negatives, alpha = 3, 1e-4  # no step is shortened

    wanted_v, wanted_u = v.copy(), u.copy()
    noise = rng.integers(0, WORDS, (-(-len(seen.tokens) // 16), 7))
    for strip, centre, context in pairs:  # every pair at the same weights; their steps are added
        one_v, one_u = v.copy(), u.copy()
        g = -1 / (1 + np.exp(u[context] @ v[centre]))
        one_v[centre] -= alpha * g * u[context]
        one_u[context] -= alpha * g * v[centre]
        for word in noise[strip]:
            g = negatives / noise.shape[1] / (1 + np.exp(-(u[word] @ v[centre])))
            one_v[centre] -= alpha * g * u[word]
            one_u[word] -= alpha * g * v[centre]
        wanted_v += one_v - v
        wanted_u += one_u - u

    v_torch, u_torch = torch.from_numpy(v.copy()), torch.from_numpy(u.copy())
    (numbers,) = list(seen.stretches(10_000))
    stretch = Stretch(*map(torch.from_numpy, numbers))
    (block,) = blocks.cut(stretch, torch.from_numpy(noise), negatives, 10_000, v_torch.dtype)
    blocks.learn(block, v_torch, u_torch, alpha)
    assert len(pairs) == seen.pairs
    np.testing.assert_allclose(v_torch.numpy(), wanted_v, atol=1e-12)
    np.testing.assert_allclose(u_torch.numpy(), wanted_u, atol=1e-12)


def test_a_single_pair_with_its_own_negatives_is_the_plain_update() -> None:
    rng = np.random.default_rng(6)
    v, u = rng.normal(size=(WORDS, WIDTH)), rng.normal(size=(WORDS, WIDTH))
    v_torch, u_torch = torch.from_numpy(v.copy()), torch.from_numpy(u.copy())
    tokens = torch.zeros(16 + 2, dtype=torch.int64)
    tokens[1], tokens[2] = 4, 9
    before, after = torch.zeros(16, dtype=torch.int64), torch.zeros(16, dtype=torch.int64)
    after[0] = 1  # the centre 4 sees 9, and 9 is no centre
    (block,) = blocks.cut(Stretch(tokens, before, after), torch.tensor([[1, 2, 7]]), 3, 16, v_torch.dtype)
    blocks.learn(block, v_torch, u_torch, 0.05)
    plain.learn_pair(v, u, 4, 9, [1, 2, 7], 0.05)
    np.testing.assert_allclose(v_torch.numpy(), v, atol=1e-14)
    np.testing.assert_allclose(u_torch.numpy(), u, atol=1e-14)


def test_blocks_of_a_stretch_are_learnt_from_in_order() -> None:
    """The places of the words, worked out for a whole stretch, add up what `index_add_` adds up block by block."""
    rng = np.random.default_rng(8)
    tokens = torch.from_numpy(rng.integers(0, WORDS, 7 * 16 + 6))
    before, after = (torch.from_numpy(rng.integers(0, 4, 7 * 16)) for _ in range(2))
    noise = torch.from_numpy(rng.integers(0, WORDS, (7, 5)))
    v, u = (torch.from_numpy(rng.normal(size=(WORDS, WIDTH))) for _ in range(2))
    wanted_v, wanted_u = v.clone(), u.clone()
    cut = list(blocks.cut(Stretch(tokens, before, after), noise, 3, 32, v.dtype))
    assert [len(block.weights) for block in cut] == [2, 2, 2, 1]
    for start, block in zip(range(0, 112, 32), cut, strict=True):
        blocks.learn(block, v, u, 1e-3)
        part = slice(start, min(start + 32, 112))
        stretch = Stretch(tokens[start : part.stop + 6], before[part], after[part])
        (alone,) = blocks.cut(stretch, noise[start // 16 : start // 16 + 2], 3, 32, v.dtype)
        made = blocks.gradients(alone, wanted_v, wanted_u)
        wanted_v.index_add_(0, stretch.centres, made.centres, alpha=-1e-3)
        wanted_u.index_add_(0, alone.rows, made.rows, alpha=-1e-3)
        torch.testing.assert_close(v, wanted_v, rtol=0, atol=1e-12)
        torch.testing.assert_close(u, wanted_u, rtol=0, atol=1e-12)


def test_no_row_moves_further_than_the_longest_step_and_shorter_ones_are_whole() -> None:
    places = blocks.places(torch.tensor([3, 1, 3]), 3)[0]
    gradient = torch.tensor([[3.0, 0.0], [0.1, 0.0], [0.0, 4.0]])
    table = torch.zeros(4, 2)
    places.descend(table, gradient, alpha=1.0)  # 5 long for the word 3
    torch.testing.assert_close(table, torch.tensor([[0.0, 0], [-0.1, 0], [0, 0], [-0.15, -0.2]]))


def written_out(model: Word2Vec, seen: Windows, v: Tensor, u: Tensor) -> Tensor:
    """CBOW's or skip-gram's loss with the full softmax, window by window."""
    total = v.new_zeros(())
    for i, centre in enumerate(seen.tokens.tolist()):
        around = [j for j in range(i - seen.before[i], i + seen.after[i] + 1) if j != i]
        contexts = seen.tokens[around].tolist()
        if not contexts:
            continue
        if model.method.architecture == "cbow":
            total = total - (u @ v[contexts].mean(0)).log_softmax(0)[centre]
        else:
            total = total - sum((u @ v[centre]).log_softmax(0)[context] for context in contexts)
    return total


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_an_update_is_a_step_down_the_gradient_of_the_loss_as_written(architecture: str) -> None:
    method = Method(architecture, "softmax", WIDTH, block=64)  # type: ignore[arg-type]
    model = Word2Vec(VOCABULARY, method, torch.Generator().manual_seed(0))
    model.v, model.u = model.v.double(), torch.randn(WORDS, WIDTH, dtype=torch.float64)
    seen = windows(text(60, 3), 3, np.ones(WORDS), np.random.default_rng(4))
    v, u = model.v.clone().requires_grad_(), model.u.clone().requires_grad_()
    written_out(model, seen, v, u).backward()
    model.learn(seen, 0.1, np.random.default_rng(5))
    torch.testing.assert_close(model.v, v.detach() - 0.1 * v.grad, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.u, u.detach() - 0.1 * u.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("objective", ["sampling", "nce", "hierarchical"])
@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_every_combination_lowers_its_loss(architecture: str, objective: str) -> None:
    method = Method(architecture, objective, 8, negatives=4, strip_noise=0, block=32)  # type: ignore[arg-type]
    model = Word2Vec(VOCABULARY, method, torch.Generator().manual_seed(0))
    ids = np.tile([0, 1, 2, BOUNDARY, 3, 4, 5, BOUNDARY], 20)
    draws = np.random.default_rng(7)
    losses = [model.learn(windows(ids, 2, np.ones(WORDS), draws), 0.03, draws) for _ in range(60)]
    assert losses[-1] < 0.7 * losses[0]


def test_noise_is_drawn_in_proportion_to_counts_to_the_three_quarters() -> None:
    model = Word2Vec(VOCABULARY, Method(width=2), torch.Generator().manual_seed(0))
    drawn = np.bincount(model.noise(np.random.default_rng(0), 400_000).numpy(), minlength=WORDS) / 400_000
    np.testing.assert_allclose(drawn, VOCABULARY.counts**0.75 / (VOCABULARY.counts**0.75).sum(), atol=4e-3)


def test_subsampling_keeps_what_the_program_and_the_paper_say() -> None:
    vocabulary = count_words(["the"] * 900 + ["of"] * 99 + ["rare"])
    share = np.array([0.9, 0.099, 0.001])
    np.testing.assert_allclose(vocabulary.keep_probability(1e-3, "paper"), np.minimum(np.sqrt(1e-3 / share), 1))
    wanted = np.minimum((np.sqrt(share / 1e-3) + 1) * 1e-3 / share, 1)  # word2vec.c
    np.testing.assert_allclose(vocabulary.keep_probability(1e-3, "program"), wanted)
    assert vocabulary.keep_probability(0.0, "program").tolist() == [1, 1, 1]
    seen = windows(
        np.zeros(100_000, dtype=np.int64), 5, vocabulary.keep_probability(1e-3, "paper"), np.random.default_rng(0)
    )
    assert len(seen.tokens) / 100_000 == pytest.approx(np.sqrt(1e-3 / 0.9), abs=2e-3)


def test_the_share_of_a_word_is_of_the_words_that_are_left() -> None:
    """As in word2vec.c, whose train_words are counted after rare words are left out."""
    vocabulary = count_words(["the"] * 900 + ["of"] * 99 + ["rare"] * 3 + [f"once{i}" for i in range(998)], minimum=4)
    assert (vocabulary.tokens, vocabulary.known) == (2000, 999)
    np.testing.assert_allclose(vocabulary.keep_probability(1e-3, "paper"), np.sqrt(1e-3 * 999 / np.array([900, 99])))


def test_no_window_crosses_a_boundary() -> None:
    seen = windows(
        np.array([1, 2, BOUNDARY, 3, BOUNDARY, BOUNDARY, 4, 5, 6]), 4, np.ones(7), np.random.default_rng(0), True
    )
    assert seen.tokens.tolist() == [1, 2, 3, 4, 5, 6]
    assert seen.before.tolist() == [0, 1, 0, 0, 1, 2]
    assert seen.after.tolist() == [1, 0, 0, 2, 1, 0]
