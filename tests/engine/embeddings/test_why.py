"""What `w` says of word vectors, against the same computed in plain NumPy, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from txlab.engine.embeddings import blocks
from txlab.engine.embeddings.blocks import Stretch
from txlab.engine.embeddings.neighbours import explain_similarity
from txlab.engine.embeddings.plain import towards
from txlab.engine.embeddings.why import learn_and_trace, meetings, why_pair_moved, why_predicted
from txlab.engine.explain import Explanation

WORDS = tuple("abcdefghijklm")
WIDTH, NEGATIVES, NOISE = 5, 3, 4
RNG = np.random.default_rng(3)
V, U = RNG.normal(size=(13, WIDTH)), RNG.normal(size=(13, WIDTH))


def value(told: Explanation, name: str) -> float:
    (found,) = [each for each in [*told.operands, *told.steps, *told.meaning] if each.name == name]
    return found.result if hasattr(found, "result") else found.value  # type: ignore[return-value]


def block_of(tokens: np.ndarray, sides: np.ndarray, noise: np.ndarray) -> blocks.Block:
    stretch = Stretch(*(torch.from_numpy(each) for each in (tokens, sides, sides)))
    (block,) = blocks.cut(stretch, torch.from_numpy(noise), NEGATIVES, 64, torch.float64)
    return block


@pytest.mark.parametrize("alpha", [0.002, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_update_of_a_pair_is_what_it_is_by_hand(seed: int, alpha: float) -> None:
    """All pairs of the block one by one; those of (c, o) are counted, and moved alone as well as with the others."""
    rng = np.random.default_rng(seed)
    reach, strips = 2, 3
    tokens, noise = rng.integers(0, 13, strips * 16 + 2 * reach), rng.integers(0, 13, (strips, NOISE))
    sides = rng.integers(0, 3, strips * 16)
    c, o = int(tokens[reach + 20]), int(noise[1, 2])
    sides[20] = 2
    tokens[reach + 21] = o  # in the window and among the noise of the same centre
    v, u = torch.from_numpy(V.copy()), torch.from_numpy(U.copy())
    block = block_of(tokens, sides, noise)
    told = why_pair_moved(learn_and_trace(block, v, u, alpha, c, o), 7, c, o, WORDS)

    steps_v, steps_u = np.zeros_like(V), np.zeros_like(U)
    n = m = 0.0
    for i, side in enumerate(sides):
        centre = tokens[reach + i]
        contexts = [tokens[reach + j] for j in range(i - side, i + side + 1) if j != i]
        share = len(contexts) * NEGATIVES / NOISE
        rows = [(word, 1.0, 1.0) for word in contexts] + [(word, 0.0, share) for word in noise[i // 16]]
        for word, label, weight in rows:
            e = weight * (1 / (1 + np.exp(-U[word] @ V[centre])) - label)
            steps_v[centre] += alpha * e * U[word]
            steps_u[word] += alpha * e * V[centre]
            if (centre, word) == (c, o):
                n, m = n + weight * label, m + weight * (1 - label)
    s_v, s_u = (min(1.0, blocks.LONGEST / np.linalg.norm(step)) for step in (steps_v[c], steps_u[o]))
    assert (s_v < 1) == (alpha == 5)
    x = V[c] @ U[o]
    sigma = 1 / (1 + np.exp(-x))
    e = n * (sigma - 1) + m * sigma
    alone = (V[c] - alpha * s_v * e * U[o]) @ (U[o] - alpha * s_u * e * V[c])
    after = (V[c] - s_v * steps_v[c]) @ (U[o] - s_u * steps_u[o])

    expected = {
        "x": x,
        "n": n,
        "m": m,
        "sᵥ": s_v,
        "sᵤ": s_u,
        "σ(x)": sigma,
        "e": e,
        "v along u": -alpha * s_v * e * np.linalg.norm(U[o]),
        "u along v": -alpha * s_u * e * np.linalg.norm(V[c]),
        "x′": alone,
        "others": after - alone,
    }
    assert {name: value(told, name) for name in expected} == pytest.approx(expected, abs=1e-12)
    assert told.result == pytest.approx(after, abs=1e-12)
    assert n > 0
    assert m > 0
    assert told.asked is not None
    assert told.labels[told.asked] == WORDS[o]
    rows = {name: value(told, name) for name in ("label", "score", "weight", "error")}
    assert all(len(row) == len(told.labels) for row in rows.values())  # type: ignore[arg-type]
    scores = [V[c] @ U[WORDS.index(word)] for word in told.labels]
    np.testing.assert_allclose(rows["score"], scores, atol=1e-12)
    errors = np.array(rows["weight"]) * (1 / (1 + np.exp(-np.array(scores))) - np.array(rows["label"]))
    np.testing.assert_allclose(rows["error"], errors, atol=1e-12)


def test_a_pair_meets_where_it_counts() -> None:
    tokens = np.array([0, *range(1, 13), *[0] * 5])
    sides = np.zeros(16, dtype=np.int64)
    sides[3] = 1  # the word 4 sees 3 and 5
    block = block_of(tokens, sides, np.array([[9, 9, 10, 11]]))
    assert [int(meetings(block, 4, word).sum()) for word in (3, 5, 6, 9, 10, 4)] == [1, 1, 0, 2, 1, 0]
    assert not meetings(block, 3, 4).any()  # a centre without a window


def test_a_softmax_pulls_by_the_observed_minus_the_expected_vector() -> None:
    told = why_predicted(torch.from_numpy(V), torch.from_numpy(U), 2, 9, WORDS)
    wanted = towards(V, U, 2, 9)
    p = np.exp(U @ V[2]) / np.exp(U @ V[2]).sum()
    expected = {
        "p(o)": p[9],
        "|u_o|": np.linalg.norm(U[9]),
        "|E[u]|": np.linalg.norm(p @ U),
        "|d|": np.linalg.norm(wanted),
        "d·v": V[2] @ wanted,
    }
    assert {name: value(told, name) for name in expected} == pytest.approx(expected, abs=1e-12)
    assert told.result == pytest.approx(np.linalg.norm(wanted), abs=1e-12)
    assert told.asked is not None
    assert told.labels[told.asked] == "j"
    np.testing.assert_allclose(value(told, "p"), [p[WORDS.index(word)] for word in told.labels], atol=1e-12)
    for name, vector in (("u_o", U[9]), ("E[u]", p @ U), ("d", wanted)):
        np.testing.assert_allclose(value(told, name), vector, atol=1e-12)
    others = [word for word in told.labels if word != "j"]
    likeliest = [WORDS[i] for i in np.argsort(-p) if WORDS[i] != "j"]
    assert others == likeliest[: len(others)]


def test_a_similarity_is_the_dot_product_over_the_lengths() -> None:
    a, b = V[1], V[10]
    told = explain_similarity(("b", "k"), a.astype(np.float32), b.astype(np.float32))
    assert value(told, "v·w") == pytest.approx(a @ b, abs=1e-6)
    assert told.result == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    assert value(told, "cos") == told.result
    assert explain_similarity(("x", "y"), np.ones(2), np.zeros(2)).result == 0
