"""The second transformers and their differentiation agree with finite differences, and with the engine in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from independent import tape
from independent.tape import Array
from independent.transformer import bert, encoder_decoder, gpt, logprobs, weights_of

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.masks import Padding

X, Y = np.random.default_rng(0).normal(size=(2, 3, 4))
INDEX = np.array([0, 2, 2])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x + y[:1], lambda x, y: x - y[:, :1], lambda x, y: x * y, lambda x, y: x / (y * y + 1),
        lambda x, y: 1.0 / (x * x + y * y + 1), lambda x, y: (x @ y.T).sum(0), lambda x, y: x**3, lambda x, y: x[INDEX],
        lambda x, y: tape.exp(x), lambda x, y: tape.log(x * x + 1), lambda x, y: tape.tanh(x), lambda x, y: tape.erf(x),
        lambda x, y: tape.log_sigmoid(x), lambda x, y: tape.sigmoid(x), lambda x, y: tape.maximum(x, y),
        lambda x, y: tape.clamp(x, -0.5, 0.5), lambda x, y: tape.softmax(x) * y, lambda x, y: tape.log_softmax(x) * y,
        lambda x, y: tape.concatenate([x, x * y], 1), lambda x, y: tape.stack([x.reshape(4, 3), y.T]),
        lambda x, y: x.mean(-1, keepdims=True) * y, lambda x, y: x.swapaxes(0, 1) @ y,
    ],
)  # fmt: skip
def test_every_operation_is_differentiated_as_finite_differences_do(f: Any) -> None:
    x, y = Array(X), Array(Y)
    shares = np.random.default_rng(1).normal(size=f(x, y).shape)
    found = tape.gradients((f(x, y) * shares).sum(), [x, y])
    small = 1e-6
    for number, g in enumerate(found):
        for place in np.ndindex(3, 4):
            step = np.zeros((3, 4))
            step[place] = small
            sides = [
                (f(*[Array(z + side * step * (n == number)) for n, z in enumerate((X, Y))]) * shares).sum().value
                for side in (1, -1)
            ]
            assert g[place] == pytest.approx((sides[0] - sides[1]) / (2 * small), abs=1e-7)


SHAPE = GPTShape(layers=2, heads=2, width=8, context=7, vocabulary=11)
SHAPES = [
    SHAPE, replace(SHAPE, positions="rotary", tied=False), replace(SHAPE, positions="sinusoidal", norm="post"),
    replace(SHAPE, block="parallel", activation="relu", bias=False), replace(SHAPE, block="attention"),
    replace(SHAPE, normalisation="rms", gated=True, activation="swish", kv_heads=1, positions="rotary"),
    replace(SHAPE, activation="gelu_tanh", block="parallel", norm="post"),
]  # fmt: skip


def perturbed(model: Any) -> Any:
    """In float64, with weights large enough that every part of it matters, norms and biases too."""
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws) * 0.3)
    return model.double().eval()


def agrees(model: Any, logits: torch.Tensor, ours: Any, ids: np.ndarray) -> None:
    """Logits, the mean log-probability of `ids`, and its gradient with respect to every weight.

    Only to 1e-6: the tables of positions are float32.
    """
    w = weights_of(model.state_dict())
    found = ours(w)
    np.testing.assert_allclose(found.value, logits.detach().numpy(), rtol=0, atol=1e-6)
    theirs = logits.log_softmax(-1).gather(-1, torch.from_numpy(ids)[..., None]).mean()
    loss = logprobs(found, ids).mean()
    assert float(loss.value) == pytest.approx(theirs.item(), abs=1e-7)
    theirs.backward()
    named = dict(model.named_parameters())
    for name, g in zip(w, tape.gradients(loss, w.values()), strict=True):
        given = named[name].grad
        np.testing.assert_allclose(g, np.zeros_like(g) if given is None else given.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_decoder_has_the_same_logits_and_gradients(shape: GPTShape) -> None:
    ids = np.random.default_rng(0).integers(11, size=(2, 7))
    model = perturbed(GPT(shape, torch.Generator().manual_seed(0)))
    agrees(model, model(torch.from_numpy(ids), "matmul"), lambda w: gpt(ids, w, shape), ids)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_an_encoder_has_the_same_logits_and_gradients(norm: Any) -> None:
    shape = BertShape(layers=2, heads=2, width=8, context=7, vocabulary=11, norm=norm)
    ids = np.random.default_rng(0).integers(11, size=(2, 7))
    real = np.arange(7) < np.array([[7], [4]])
    model = perturbed(Bert(shape, torch.Generator().manual_seed(0)))
    logits = model(torch.from_numpy(ids), kernel="matmul", mask=Padding(tuple(real.sum(1).tolist())))
    agrees(model, logits, lambda w: bert(ids, w, shape, real), ids)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"norm": "pre", "positions": "rotary", "output_bias": True},
        {"positions": "learned", "shared": False, "tied": False},
    ],
)  # fmt: skip
def test_an_encoder_decoder_has_the_same_logits_and_gradients(changes: dict[str, Any]) -> None:
    shape = EncoderDecoderShape(1, 2, 2, 8, 11, 11, 7, **changes)
    source, target = np.random.default_rng(0).integers(11, size=(2, 2, 6))
    real = np.arange(6) < np.array([[6], [4]])
    model = perturbed(EncoderDecoder(shape, torch.Generator().manual_seed(0)))
    mask = Padding(tuple(real.sum(1).tolist()))
    logits = model(torch.from_numpy(source), torch.from_numpy(target), "matmul", source_mask=mask)
    agrees(model, logits, lambda w: encoder_decoder(source, target, w, shape, real), target)
