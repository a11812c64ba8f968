"""The patterns caught in anybody's module are those computed from its weights, one by one, α = softmax(QKᵀ/√K)."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.interpret.any_module import attention_pattern, look_into
from txlab.errors import LabError

L, H, T, C, V = 2, 4, 7, 16, 50


def heads(x: Tensor) -> Tensor:
    """(T, H · K) → (H, T, K)."""
    return x.view(x.size(0), H, -1).transpose(0, 1)


def explicit(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """α row by row, in fp64: (H, T, K), (H, S, K) → (H, T, S)."""
    q, k = q.double(), k.double()
    found = torch.zeros(q.size(0), q.size(1), k.size(1), dtype=torch.float64)
    for h in range(q.size(0)):
        for i in range(q.size(1)):
            reach = i + 1 if causal else k.size(1)
            scores = torch.tensor([float(q[h, i] @ k[h, j]) / math.sqrt(q.size(2)) for j in range(reach)])
            found[h, i, :reach] = (scores.double() - scores.max()).exp() / (scores.double() - scores.max()).exp().sum()
    return found


class Attention(nn.Module):
    """Causal attention by PyTorch's function or written out, as half of the world writes it."""

    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.by_hand, self.drop = nn.Linear(C, 3 * C), nn.Linear(C, C), by_hand, nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (part.view(B, T, H, C // H).transpose(1, 2) for part in self.qkv(x).split(C, dim=2))
        if self.by_hand:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
            scores = scores.masked_fill(torch.ones(T, T).tril() == 0, float("-inf"))
            y = self.drop(F.softmax(scores, dim=-1)) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.5 if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class OwnGPT(nn.Module):
    def __init__(self, by_hand: bool = False) -> None:
        super().__init__()
        self.embed, self.attention = nn.Embedding(V, C), nn.ModuleList(Attention(by_hand) for _ in range(L))
        self.head = nn.Linear(C, V)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.attention:
            x = x + layer(x)
        return self.head(x)

    def by_hand_patterns(self, ids: Tensor) -> Tensor:
        x, found = self.embed(ids), []
        for layer in self.attention:
            q, k, _ = layer.qkv(x)[0].split(C, dim=1)
            found.append(explicit(heads(q), heads(k), causal=True))
            x = x + layer(x)
        return torch.stack(found)


@pytest.fixture
def ids() -> Tensor:
    torch.manual_seed(1)
    return torch.randint(0, V, (1, T))


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_gpt_of_ones_own(ids: Tensor, by_hand: bool) -> None:
    model = OwnGPT(by_hand)
    seen = look_into(model, ids)
    with torch.no_grad():
        model.eval()
        torch.testing.assert_close(seen.patterns["self"].double(), model.by_hand_patterns(ids), atol=1e-6, rtol=0)
        assert seen.logits is not None
        torch.testing.assert_close(seen.logits, model(ids)[0])
    assert seen.layers == ("attention.0", "attention.1")


def test_heads_that_are_separate_modules_are_one_layer() -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(C, C // H) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            scores = self.query(x) @ self.key(x).transpose(-2, -1) * (C // H) ** -0.5
            scores = scores.masked_fill(torch.tril(torch.ones(T, T)) == 0, float("-inf"))
            return F.softmax(scores, dim=-1) @ self.value(x)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList(Head() for _ in range(H))

        def forward(self, x: Tensor) -> Tensor:
            return x + torch.cat([head(x) for head in self.heads], dim=-1)

    torch.manual_seed(2)
    model, x = nn.Sequential(Block(), Block()), torch.randn(1, T, C)
    seen = look_into(model, x)
    assert seen.patterns["self"].shape == (2, H, T, T)
    assert seen.layers == ("0", "1")
    first = model[0]
    assert isinstance(first, Block)
    for h, head in enumerate(first.heads):
        assert isinstance(head, Head)
        q, k = head.query(x), head.key(x)
        torch.testing.assert_close(
            seen.patterns["self"][0, h].double(), explicit(q.detach(), k.detach(), True)[0], atol=1e-6, rtol=0
        )


def test_an_encoder_of_torch_leaves_its_fast_path_and_its_padding_is_masked() -> None:
    torch.manual_seed(3)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(C, H, 32, batch_first=True), L)
    x, padding = torch.randn(2, T, C), torch.zeros(2, T, dtype=torch.bool)
    padding[0, -2:] = True
    seen = look_into(model, x, src_key_padding_mask=padding).patterns["self"]
    layer = model.layers[0].self_attn
    assert isinstance(layer, nn.MultiheadAttention)
    q, k, _ = F.linear(x[0], layer.in_proj_weight, layer.in_proj_bias).split(C, dim=1)
    expected = explicit(heads(q.detach()), heads(k.detach())[:, :-2], causal=False)
    torch.testing.assert_close(seen[0, :, :, :-2].double(), expected, atol=1e-6, rtol=0)
    assert seen.shape == (L, H, T, T)
    assert not seen[..., -2:].any()


def test_a_translator_of_torch_has_three_sites() -> None:
    model = nn.Transformer(C, H, L, L, 32, batch_first=True)
    seen = look_into(model, torch.randn(1, T, C), torch.randn(1, T, C))  # of one length, so that only names tell
    assert {site: tuple(p.shape) for site, p in seen.patterns.items()} == dict.fromkeys(
        ("encoder", "decoder", "cross"), (L, H, T, T)
    )


@pytest.mark.parametrize("how", ["sdpa", "eager"])
def test_gpt2_of_transformers(ids: Tensor, how: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=V, n_embd=C, n_layer=L, n_head=H, n_positions=32, initializer_range=0.5)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation=how)
    seen = look_into(model, input_ids=ids)
    with torch.no_grad():
        states = model.eval()(ids, output_hidden_states=True).hidden_states
        found = []
        for block, h in zip(model.transformer.h, states, strict=False):
            q, k, _ = block.attn.c_attn(block.ln_1(h))[0].split(C, dim=1)
            found.append(explicit(heads(q), heads(k), causal=True))
    torch.testing.assert_close(seen.patterns["self"].double(), torch.stack(found), atol=1e-6, rtol=0)
    assert seen.layers == ("transformer.h.0", "transformer.h.1")


@pytest.mark.parametrize("how", ["sdpa", "eager"])
def test_bert_of_transformers(ids: Tensor, how: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": C, "num_hidden_layers": L, "num_attention_heads": H, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=V, initializer_range=0.5, **sizes)
    model = transformers.BertForMaskedLM._from_config(config, attn_implementation=how)
    seen = look_into(model, input_ids=ids, attention_mask=torch.ones_like(ids))
    with torch.no_grad():
        states = model.eval()(ids, output_hidden_states=True).hidden_states
        found = []
        for layer, h in zip(model.bert.encoder.layer, states, strict=False):
            own = layer.attention.self
            found.append(explicit(heads(own.query(h)[0]), heads(own.key(h)[0]), causal=False))
    torch.testing.assert_close(seen.patterns["self"].double(), torch.stack(found), atol=1e-6, rtol=0)


MASKS: dict[str, Callable[[], Tensor | None]] = {
    "none": lambda: None,
    "booleans": lambda: torch.rand(1, 1, T, T) > 0.3,
    "numbers": lambda: torch.randn(H, T, T),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_a_pattern_times_the_values_is_what_pytorch_computes(mask: str, grouped: bool, scale: float | None) -> None:
    torch.manual_seed(4)
    q, k = torch.randn(1, H, T, 8), torch.randn(1, 2 if grouped else H, T, 8)
    allowed, v = MASKS[mask](), torch.randn_like(k)
    alpha = attention_pattern(q, k, allowed, scale=scale, enable_gqa=grouped)
    values = v.repeat_interleave(2, 1) if grouped else v
    theirs = F.scaled_dot_product_attention(q, k, v, allowed, scale=scale, enable_gqa=grouped)
    torch.testing.assert_close(alpha @ values, theirs.nan_to_num(0.0), atol=1e-6, rtol=1e-5)


def test_nothing_is_disturbed_by_a_look(ids: Tensor) -> None:
    model = OwnGPT()
    model.attention[1].eval()
    modes = [each.training for each in model.modules()]
    loss = model(ids).sum()
    loss.backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = look_into(model, ids)
    assert torch.equal(torch.rand(3), expected)
    assert [each.training for each in model.modules()] == modes
    assert all(
        (a is None and p.grad is None) or (a is not None and p.grad is not None and torch.equal(a, p.grad))
        for a, p in zip(gradients, model.parameters(), strict=True)
    )
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())
    assert torch.equal(first.patterns["self"], look_into(model, ids).patterns["self"])


def test_a_module_that_fails_leaves_its_mode_and_no_hooks(ids: Tensor) -> None:
    model = OwnGPT()
    with pytest.raises(IndexError):
        look_into(model, ids + V)
    assert all(each.training for each in model.modules())
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_a_compiled_module_is_looked_into_as_it_is(ids: Tensor) -> None:
    model = OwnGPT()
    compiled = torch.compile(model, backend="eager")
    assert torch.equal(look_into(compiled, ids).patterns["self"], look_into(model, ids).patterns["self"])


def test_norms_are_those_of_what_the_layers_give_on(ids: Tensor) -> None:
    model = OwnGPT().eval()
    seen = look_into(model, ids)
    with torch.no_grad():
        first = model.attention[0](model.embed(ids))
    assert seen.norms["attention.0"] == pytest.approx(float(first.norm(dim=-1).mean()), rel=1e-6)


def test_layers_without_attention_are_still_layers() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    seen = look_into(model, torch.randn(3, 4))
    assert (seen.patterns, seen.layers) == ({}, ("0", "1", "2"))


def test_sharded_weights_are_refused_with_an_error() -> None:
    class FSDPLinear(nn.Linear):
        pass

    with pytest.raises(LabError, match="spread over several processes"):
        look_into(nn.Sequential(FSDPLinear(2, 2)), torch.zeros(1, 2))
