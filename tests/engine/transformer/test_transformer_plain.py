"""The plain forms of a lecture and the fast ones that learn are the same functions (MATH T1–T9)."""

import torch

from txlab.engine.transformer import plain
from txlab.engine.transformer.blocks import Block, attention
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.masks import CAUSAL

EXACT = {"atol": 1e-12, "rtol": 0}


def randomised(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The module in float64 with random parameters everywhere, norms and biases too; its parameters by name."""
    generator = torch.Generator().manual_seed(5)
    for parameter in module.double().parameters():
        parameter.data.normal_(0.2, 0.5, generator=generator)
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def test_a_plain_head_is_attention_under_the_causal_mask() -> None:
    x, W, b = torch.randn(7, 6).double(), torch.randn(3, 4, 6).double(), torch.randn(3, 4).double()
    q, k, v = (x @ W[part].T + b[part] for part in range(3))
    for kernel in ("matmul", "sdpa"):
        fast = attention(q[None], k[None], v[None], CAUSAL, kernel)[0]  # type: ignore[arg-type]
        torch.testing.assert_close(plain.head(x, *W, *b), fast, **EXACT)


def test_a_plain_block_is_the_block() -> None:
    block, x = Block(8, 2, 20), torch.randn(1, 6, 8).double()
    weights = randomised(block)
    torch.testing.assert_close(plain.block(x[0], weights, 2), block(x, CAUSAL, "matmul")[0].detach(), **EXACT)


def test_a_plain_gpt_is_the_gpt() -> None:
    model, ids = GPT(GPTShape(3, 2, 8, 10, 11)), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    weights = randomised(model)
    torch.testing.assert_close(plain.gpt(ids, weights, 3, 2), model(ids[None])[0].detach(), **EXACT)
