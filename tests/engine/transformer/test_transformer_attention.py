"""Attention against torch's own, against NumPy in float64, and under every kind of mask (MATH T1, T2)."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from independent import transformer as independent

from txlab.engine.interpret.why import explain_weight
from txlab.engine.transformer.blocks import MultiHeadAttention, attention, pattern, scores
from txlab.engine.transformer.masks import CAUSAL, NO_MASK, Every, GraphMask, Padding

KERNELS = ("matmul", "sdpa")


def qkv(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=generator, dtype=dtype) for _ in range(3))


def by_hand(q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """One head, one row after another, no vectorised softmax: as the formula is read aloud."""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        visible = [j for j in range(len(k)) if allowed[i, j]]
        if visible:
            e = np.array([np.exp(sum(q[i] * k[j]) / np.sqrt(q.shape[1])) for j in visible])
            out[i] = sum(weight * v[j] for weight, j in zip(e / e.sum(), visible, strict=True))
    return out


MASKS = {
    "none": (NO_MASK, np.ones((6, 6), bool)),
    "causal": (CAUSAL, np.tril(np.ones((6, 6), bool))),
    "graph": (GraphMask.of_edges(6, [(0, 0), (2, 0), (1, 3), (5, 4), (4, 5), (0, 5)]), None),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MASKS)
def test_attention_is_the_formula_read_aloud(name: str, kernel: str) -> None:
    mask, allowed = MASKS[name]
    if allowed is None:
        allowed = np.array(mask.sees)
    q, k, v = qkv(2, 3, 6, 4)
    ours = attention(q, k, v, mask, kernel)
    for b in range(2):
        for h in range(3):
            wanted = by_hand(q[b, h].numpy(), k[b, h].numpy(), v[b, h].numpy(), allowed)
            np.testing.assert_allclose(ours[b, h].numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_causal_attention_and_its_gradients_are_torchs(kernel: str) -> None:
    results = []
    for which in ("ours", "torch"):
        q, k, v = (x.requires_grad_() for x in qkv(2, 3, 7, 8))
        if which == "ours":
            out = attention(q, k, v, CAUSAL, kernel)
        else:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.pow(2).sum().backward()
        results.append((out.detach(), q.grad, k.grad, v.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_node_that_may_look_at_nothing_yields_zeros_and_harms_no_gradient(kernel: str) -> None:
    mask = GraphMask.of_edges(4, [(0, 0), (0, 2), (1, 2), (3, 3)])  # node 1 sees no other node
    q, k, v = (x.requires_grad_() for x in qkv(1, 2, 4, 8, dtype=torch.float32))
    out = attention(q, k, v, mask, kernel)
    out.sum().backward()
    assert torch.equal(out[:, :, 1], torch.zeros(1, 2, 8))
    for gradient in (q.grad, k.grad, v.grad):
        assert bool(gradient.isfinite().all())
    assert pattern(scores(q, k), mask.allowed_pairs(4, 4))[0, 0, 1].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("queries", [1, 2, 5])
def test_the_last_queries_see_all_keys_before_them(queries: int, kernel: str) -> None:
    q, k, v = qkv(1, 2, 5, 4)
    whole = attention(q, k, v, CAUSAL, kernel)
    last = attention(q[:, :, -queries:], k, v, CAUSAL, kernel)
    torch.testing.assert_close(last, whole[:, :, -queries:], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_padding_hides_what_is_past_the_end(kernel: str) -> None:
    q, k, v = qkv(2, 2, 5, 4)
    mask = Every((Padding((5, 3)), CAUSAL))
    whole = attention(q, k, v, mask, kernel)
    short = attention(q[1:, :, :3], k[1:, :, :3], v[1:, :, :3], CAUSAL, kernel)
    torch.testing.assert_close(whole[1:, :, :3], short, atol=1e-12, rtol=0)
    k[1, :, 3:], v[1, :, 3:] = 99.0, 99.0
    torch.testing.assert_close(attention(q, k, v, mask, kernel), whole, atol=0, rtol=0)


@given(st.integers(1, 7), st.integers(0, 10_000))
def test_rows_of_a_pattern_sum_to_one_where_anything_may_be_seen(nodes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    allowed = torch.from_numpy(random.random((nodes, nodes)) < 0.4)
    alpha = pattern(torch.from_numpy(random.normal(0, 30, (nodes, nodes))), allowed)
    assert bool((alpha[~allowed] == 0).all())
    torch.testing.assert_close(alpha.sum(-1), allowed.any(-1).double())


def test_an_explained_weight_is_the_weight() -> None:
    q, k, _ = qkv(5, 8, dtype=torch.float32)
    alpha = pattern(scores(q, k), CAUSAL.allowed_pairs(5, 5))
    for i in range(5):
        for j in range(5):
            why = explain_weight(q, k, CAUSAL, i, j, list("abcde"))
            assert why.result == pytest.approx(float(alpha[i, j]), abs=1e-7)
            steps = {step.name: step.result for step in why.steps}
            assert steps["sᵢⱼ"] == pytest.approx(steps["q·k"] / 8**0.5, rel=1e-5)
            if j <= i:
                assert steps["exp"][j] / steps["sum"] == pytest.approx(why.result, rel=1e-5)


def test_an_explanation_of_an_isolated_node_says_so() -> None:
    q, k, _ = qkv(3, 8, dtype=torch.float32)
    why = explain_weight(q, k, GraphMask.of_edges(3, [(0, 0)]), 1, 0)
    assert why.result == 0
    assert "nothing" in why.steps[-1].note


def test_heads_that_share_keys_and_values_are_neighbours() -> None:
    """Of H = 4 heads and G = 2 sets of keys and values, head h uses number ⌊h G/H⌋, as in NumPy."""
    torch.manual_seed(0)
    module = MultiHeadAttention(8, 4, True, 0.0, kv_heads=2).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    w = independent.weights_of(module.state_dict())
    wanted = independent.attention(independent.Array(x.numpy()), w, 4, independent.causal(5), kv_heads=2)
    for kernel in ("matmul", "sdpa"):
        found = module(x, CAUSAL, kernel)
        assert found.detach().numpy() == pytest.approx(wanted.value, abs=1e-12)
