"""Circuits and compositions are those of the written-out matrices, which need not be written out (MATH T3, T4)."""

from math import sqrt

import pytest
import torch
from interpret_models import TEXT, model_named, text_for
from torch import Tensor

from txlab.engine.interpret.activation_cache import run_with_cache
from txlab.engine.interpret.circuits import (
    circuit,
    composition,
    copying_scores,
    head_weights,
    layer_weights,
    output_value_form,
    query_key_form,
    virtual_head_of,
)
from txlab.engine.interpret.sites import Model, attention_at, run, site_named
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import keeping
from txlab.errors import LabError

CLOSE = {"atol": 1e-10, "rtol": 1e-10}


def forms(model: Model, site: str, layer: int, head: int) -> tuple[Tensor, Tensor]:
    """W_QK / √K and W_OV (D, D), as bilinear.py writes them, without the biases' column."""
    module = attention_at(model, site_named(model, site), layer)
    weights = head_weights(module, head)
    D, K = module.out_proj.weight.shape[0], weights.q.shape[0]
    return query_key_form(weights)[:D, :D].detach() / sqrt(K), output_value_form(weights)[:, :D].detach()


def same_eigenvalues(found: Tensor, matrix: Tensor) -> None:
    """The K found are the K largest of the matrix, and its others are zero."""
    every = torch.linalg.eigvals(matrix)
    every = every[every.abs().argsort(descending=True)]
    torch.testing.assert_close(found.abs(), every[: len(found)].abs(), **CLOSE)
    torch.testing.assert_close(found.sum(), every.sum(), **CLOSE)
    assert every[len(found) :].abs().max() < 1e-6


@pytest.mark.parametrize("name", ["gpt", "post", "llama", "translator"])
def test_eigenvalues_are_those_of_the_matrices_written_out(name: str) -> None:
    model = model_named(name)
    site = "decoder" if name == "translator" else "self"
    table = (model.embed_target.weight * sqrt(8)) if name == "translator" else model.embed.weight
    out = model.embed_target.weight if name == "translator" else model.embed.weight
    table, out = table.detach(), out.detach()
    for head in range(2):
        qk, ov = forms(model, site, 1, head)
        same_eigenvalues(circuit(model, site, 1, head, "qk", whole=False).eigenvalues, qk)
        same_eigenvalues(circuit(model, site, 1, head, "ov", whole=False).eigenvalues, ov)
        same_eigenvalues(circuit(model, site, 1, head, "qk").eigenvalues, table @ qk @ table.T)
        found = circuit(model, site, 1, head, "ov")
        full = out @ ov @ table.T  # (V, V)
        same_eigenvalues(found.eigenvalues, full)
        every = torch.linalg.eigvals(full)
        assert found.positive == pytest.approx(float(every.real.sum() / every.abs().sum()), abs=1e-6)
        assert float(copying_scores(model, site)[1, head]) == pytest.approx(found.positive)


def test_norms_are_multiplied_in_where_asked() -> None:
    model = model_named("gpt")
    assert isinstance(model, GPT)
    C = torch.eye(8, dtype=torch.float64) - 1 / 8
    before, last = (torch.diag(norm.weight.detach()) for norm in (model.blocks[1].attention_norm, model.final_norm))
    _, ov = forms(model, "self", 1, 0)
    table = model.embed.weight.detach()
    # Read through the norms, each with scale one: (x C) Γ on the way in, Γ on W_U and the centring of its input out.
    same_eigenvalues(
        circuit(model, "self", 1, 0, "ov", norms=True).eigenvalues, table @ last @ C @ ov @ before @ C @ table.T
    )
    assert circuit(model, "self", 1, 0, "ov", norms=True).positive != circuit(model, "self", 1, 0, "ov").positive


def test_a_head_that_copies_scores_one_and_one_that_forbids_minus_one() -> None:
    model = model_named("gpt")
    assert isinstance(model, GPT)
    module = model.blocks[0].attention
    with torch.no_grad():
        module.qkv_proj.weight[16:20] = torch.randn(4, 8, dtype=torch.float64)  # W_V of head 0
        module.out_proj.weight[:, :4] = module.qkv_proj.weight[16:20].T
        module.qkv_proj.weight[20:24] = torch.randn(4, 8, dtype=torch.float64)
        module.out_proj.weight[:, 4:] = -module.qkv_proj.weight[20:24].T
    scores = copying_scores(model, "self", whole=False)[0]
    torch.testing.assert_close(scores, torch.tensor([1.0, -1.0], dtype=torch.float64), **CLOSE)
    whole = copying_scores(model, "self")[0]  # W_E W_Vᵀ W_V W_Eᵀ is positive semidefinite too
    torch.testing.assert_close(whole, torch.tensor([1.0, -1.0], dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("norms", [False, True])
def test_compositions_are_the_ratios_of_frobenius_norms(norms: bool) -> None:
    model = model_named("gpt")
    found = composition(model, norms=norms)
    site = site_named(model, "self")
    one, two = (layer_weights(model, site, layer, norms) for layer in range(2))
    for h2 in range(2):
        for h1 in range(2):
            ov1, ov2 = one.o[h1] @ one.v[h1], two.o[h2] @ two.v[h2]
            qk2 = two.q[h2].T @ two.k[h2]
            for table, product, own in [
                (found.query, qk2.T @ ov1, qk2),
                (found.key, qk2 @ ov1, qk2),
                (found.value, ov2 @ ov1, ov2),
            ]:
                expected = float(product.norm() / (own.norm() * ov1.norm()))
                assert float(table[1, h2, 0, h1]) == pytest.approx(expected, rel=1e-9)
    assert bool(found.query[0].isnan().all())
    assert bool(found.value[1, :, 1].isnan().all())


def test_random_heads_compose_as_expected_of_random_heads() -> None:
    model = GPT(GPTShape(2, 16, 128, 4, 5), torch.Generator().manual_seed(3))
    found = composition(model)
    assert found.expected == 1 / sqrt(128)
    for table in (found.query, found.key, found.value):
        assert float((table[1, :, 0] ** 2).mean().sqrt()) == pytest.approx(found.expected, rel=0.03)


def test_a_virtual_head_of_is_the_path_through_both_heads() -> None:
    """Remark 3.1 against the model itself: what head 2.2 adds to its output because of what head 1.1 wrote."""
    model = model_named("gpt")
    assert isinstance(model, GPT)
    seen = run_with_cache(model, TEXT)
    found = virtual_head_of(model, seen, (0, 0), (1, 1))
    hooks, kept = keeping("blocks.0.resid_pre", "blocks.0.attention.heads")
    run(model, TEXT, hooks)
    read = model.blocks[0].attention_norm(kept["blocks.0.resid_pre"][0]).detach()  # what both circuits are applied to
    # The ordinary computation, with the bias of W_V taken off: heads → their columns of W_O → W_V, pattern, W_O.
    first, second = model.blocks[0].attention, model.blocks[1].attention
    bias = first.qkv_proj.bias.detach()[16:20]
    written = (kept["blocks.0.attention.heads"][0, 0] - bias) @ first.out_proj.weight[:, :4].detach().T  # (T, D)
    values = written @ second.qkv_proj.weight.detach()[20:24].T  # W_V of head 1 (K, D)
    ordinary = seen.pattern("self", 1, 1) @ values @ second.out_proj.weight.detach()[:, 4:].T
    torch.testing.assert_close(found.pattern @ read @ found.form.T, ordinary, atol=1e-12, rtol=0)
    with pytest.raises(LabError, match="later layer"):
        virtual_head_of(model, seen, (1, 0), (1, 1))


def test_circuits_that_do_not_exist_say_so() -> None:
    with pytest.raises(LabError, match="BERT's head"):
        circuit(model_named("bert"), "self", 0, 0, "ov")
    with pytest.raises(LabError, match="no unembedding"):
        circuit(model_named("translator"), "encoder", 0, 0, "ov")
    with pytest.raises(LabError, match=r"no circuit '.*'; allowed: qk, ov"):
        circuit(model_named("gpt"), "self", 0, 0, "qkv")
    with pytest.raises(LabError, match="another stream"):
        composition(model_named("translator"), "cross")
    assert circuit(model_named("bert"), "self", 0, 0, "qk").eigenvalues.shape == (4,)
    assert text_for(model_named("bert")) == TEXT
