"""The whole decoder against two references that share no line with it: NumPy, and transformers' GPT-2 (MATH T9, K3)."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import keeping

SHAPE = GPTShape(layers=2, heads=3, width=12, context=9, vocabulary=17, feed_forward=20, activation="gelu_tanh")


def random_model(shape: GPTShape, dtype: torch.dtype = torch.float64) -> GPT:
    model = GPT(shape).to(dtype)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.1, generator=generator)
    return model


def ids_for(shape: GPTShape, batch: int = 2) -> torch.Tensor:
    return torch.randint(shape.vocabulary, (batch, shape.context), generator=torch.Generator().manual_seed(6))


def numpy_gpt(w: dict[str, np.ndarray], ids: np.ndarray, shape: GPTShape) -> np.ndarray:
    """GPT-2's forward for one sequence, float64, written from the paper and not from the engine."""

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return w[f"{name}.weight"] * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return np.einsum("td,fd->tf", x, w[f"{name}.weight"]) + w[f"{name}.bias"]

    x = w["embed.weight"][ids] + w["positions.weight"][: len(ids)]
    for layer in range(shape.layers):
        at = f"blocks.{layer}"
        q, k, v = np.split(linear(norm(x, f"{at}.attention_norm"), f"{at}.attention.qkv_proj"), 3, axis=1)
        heads = []
        for h in range(shape.heads):
            part = slice(h * shape.head_width, (h + 1) * shape.head_width)
            s = q[:, part] @ k[:, part].T / math.sqrt(shape.head_width)
            e = np.tril(np.exp(s))
            heads.append(e / e.sum(1, keepdims=True) @ v[:, part])
        x = x + linear(np.concatenate(heads, 1), f"{at}.attention.out_proj")
        f = linear(norm(x, f"{at}.feed_forward_norm"), f"{at}.feed_forward.up_proj")
        gelu = 0.5 * f * (1 + np.tanh(math.sqrt(2 / math.pi) * (f + 0.044715 * f**3)))
        x = x + linear(gelu, f"{at}.feed_forward.down_proj")
    return norm(x, "final_norm") @ w["embed.weight"].T


@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
def test_logits_are_those_of_a_numpy_gpt(kernel: str) -> None:
    model = random_model(SHAPE)
    ids = ids_for(SHAPE)
    weights = {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}
    ours = model(ids, kernel).detach().numpy()
    for row, sequence in zip(ours, ids.numpy(), strict=True):
        np.testing.assert_allclose(row, numpy_gpt(weights, sequence, SHAPE), atol=1e-10, rtol=0)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_embeddings_residuals_patterns_loss_and_gradients_are_those_of_transformers_gpt2(
    dtype: torch.dtype, tolerance: float
) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=17, n_positions=9, n_embd=12, n_layer=2, n_head=3, n_inner=20,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, attn_implementation="eager",
    )  # fmt: skip
    theirs = transformers.GPT2LMHeadModel(config).to(dtype)
    ours = random_model(SHAPE, dtype)
    w = dict(ours.named_parameters())
    # GPT-2's Conv1D keeps its matrices as (in, out).
    pairs = {
        "transformer.wte.weight": w["embed.weight"],
        "transformer.wpe.weight": w["positions.weight"],
        "transformer.ln_f.weight": w["final_norm.weight"],
        "transformer.ln_f.bias": w["final_norm.bias"],
    }
    names = {
        "ln_1": "attention_norm",
        "attn.c_attn": "attention.qkv_proj",
        "attn.c_proj": "attention.out_proj",
        "ln_2": "feed_forward_norm",
        "mlp.c_fc": "feed_forward.up_proj",
        "mlp.c_proj": "feed_forward.down_proj",
    }
    for layer in range(2):
        for their, our in names.items():
            for kind in ("weight", "bias"):
                pairs[f"transformer.h.{layer}.{their}.{kind}"] = w[f"blocks.{layer}.{our}.{kind}"]
    parameters = dict(theirs.named_parameters())
    assert parameters.keys() == pairs.keys()

    def turned(name: str, tensor: torch.Tensor) -> torch.Tensor:
        is_conv = tensor.dim() == 2 and ".c_" in name
        return tensor.T if is_conv else tensor

    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(turned(name, pairs[name]))
    ids = ids_for(SHAPE)
    result = theirs(ids, output_hidden_states=True)
    hooks, kept = keeping("blocks.0.resid_post")
    logits = ours(ids, "matmul", hooks=hooks)
    # Their own loss goes through float32, which float64 would show.
    losses = [F.cross_entropy(x[:, :-1].flatten(0, 1), ids[:, 1:].flatten()) for x in (logits, result.logits)]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(kept["blocks.0.resid_post"], result.hidden_states[1], atol=tolerance, rtol=0)
    torch.testing.assert_close(logits, result.logits, atol=tolerance, rtol=0)
    torch.testing.assert_close(losses[0], losses[1], atol=tolerance, rtol=0)
    for name, parameter in parameters.items():
        torch.testing.assert_close(turned(name, parameter.grad), pairs[name].grad, atol=tolerance, rtol=0)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("block", ["sequential", "parallel", "attention"])
def test_no_logit_depends_on_a_later_token(positions: str, norm: str, block: str) -> None:
    shape = GPTShape(2, 2, 8, 6, 11, positions=positions, norm=norm, block=block)
    model = random_model(shape)
    ids = ids_for(shape, 1)
    before = model(ids)
    ids[0, 4] = (ids[0, 4] + 1) % 11
    after = model(ids)
    torch.testing.assert_close(after[:, :4], before[:, :4], atol=0, rtol=0)
    assert not torch.allclose(after[:, 4:], before[:, 4:], atol=1e-4)


def test_a_look_up_is_a_product_with_a_one_hot_vector() -> None:
    model = random_model(SHAPE)
    ids = ids_for(SHAPE)
    one_hot = F.one_hot(ids, SHAPE.vocabulary).double()
    torch.testing.assert_close(one_hot @ model.embed.weight, model.embed(ids), atol=0, rtol=0)


def test_an_untied_unembedding_is_a_separate_matrix() -> None:
    tied, untied = GPT(SHAPE), GPT(GPTShape(2, 3, 12, 9, 17, 20, tied=False))
    assert tied.unembed is None
    assert untied.unembed.weight.shape == (17, 12)
    assert untied.unembed.weight is not untied.embed.weight


def test_initial_weights_are_gpt2s_and_depend_on_the_generator_alone() -> None:
    shape = GPTShape(layers=8, heads=4, width=128, context=32, vocabulary=300)
    one = GPT(shape, torch.Generator().manual_seed(1))
    torch.manual_seed(99)
    two = GPT(shape, torch.Generator().manual_seed(1))
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, dict(two.named_parameters())[name])
        if name.endswith(".bias"):
            assert not parameter.any()
        elif parameter.dim() == 1:
            assert bool((parameter == 1).all())
        else:
            into_stream = name.endswith(("attention.out_proj.weight", "down_proj.weight"))
            assert parameter.std().item() == pytest.approx(0.02 / 4 if into_stream else 0.02, rel=0.05)


def test_a_text_longer_than_the_context_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="10 positions do not fit a context of 9"):
        GPT(SHAPE)(torch.zeros(1, 10, dtype=torch.long))
