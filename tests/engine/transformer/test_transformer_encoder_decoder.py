"""The encoder–decoder: forcing, steps and padding agree; what is read across comes from the encoder (MATH T7, T8)."""

from math import cos, sin, sqrt

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.hooks import Hooks, keeping
from txlab.engine.transformer.masks import CAUSAL, Padding
from txlab.engine.transformer.positions import sinusoids

POSITIONS = ("sinusoidal", "learned", "rotary")
V = 13
SOURCE = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
TARGET = torch.tensor([[0, 2, 7, 1, 8], [0, 2, 8, 4, 5]])


def model_of(**changes: object) -> EncoderDecoder:
    shape = {"encoder_layers": 2, "decoder_layers": 2, "heads": 2, "width": 8, "context": 9, "feed_forward": 20}
    model = EncoderDecoder(
        EncoderDecoderShape(**({**shape, "source_vocabulary": V, "target_vocabulary": V} | changes))
    ).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    return model


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("scale", [True, False])
def test_the_model_is_torchs_transformer_between_our_tables(norm: str, scale: bool) -> None:
    model = model_of(norm=norm, scale_embedding=scale, output_bias=True, shared=False, tied=False)
    theirs = nn.Transformer(8, 2, 2, 2, 20, dropout=0.0, batch_first=True, norm_first=norm == "pre").double()
    if norm == "post":  # torch ends each stack with a norm wherever the others are
        theirs.encoder.norm, theirs.decoder.norm = None, None
    copy_into(theirs, model)
    factor = sqrt(8) if scale else 1
    x = model.embed_source.weight[SOURCE] * factor + sinusoids(7, 8)
    y = model.embed_target.weight[TARGET] * factor + sinusoids(5, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    wanted = F.linear(theirs(x, y, tgt_mask=causal), model.unembed.weight, model.unembed_bias)
    for kernel in ("matmul", "sdpa"):
        same(model(SOURCE, TARGET, kernel), wanted)


def copy_into(theirs: nn.Transformer, model: EncoderDecoder) -> None:
    """Our weights under torch's names: exchanging two of them makes the comparison fail."""
    with torch.no_grad():
        for stack, other in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
            for block, layer in zip(stack.blocks, other.layers, strict=True):
                pairs = [(block.attention, layer.self_attn)]
                norms = [(block.attention_norm, layer.norm1), (block.feed_forward_norm, layer.norm2)]
                if block.cross is not None:
                    pairs.append((block.cross, layer.multihead_attn))
                    norms = [norms[0], (block.cross_norm, layer.norm2), (block.feed_forward_norm, layer.norm3)]
                for mine, its in pairs:
                    its.in_proj_weight.copy_(mine.qkv_proj.weight)
                    its.in_proj_bias.copy_(mine.qkv_proj.bias)
                    its.out_proj.load_state_dict(mine.out_proj.state_dict())
                for mine, its in norms:
                    its.load_state_dict(mine.state_dict())
                layer.linear1.load_state_dict(block.feed_forward.up_proj.state_dict())
                layer.linear2.load_state_dict(block.feed_forward.down_proj.state_dict())
            if stack.final_norm is not None:
                other.norm.load_state_dict(stack.final_norm.state_dict())


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
def test_step_by_step_with_caches_is_teacher_forcing(positions: str, norm: str, kernel: str) -> None:
    model = model_of(positions=positions, norm=norm)
    mask = Padding((7, 4))
    whole = model(SOURCE, TARGET, kernel, source_mask=mask)
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):  # the caches keep their numbers differently where none is wanted
            memory, caches = model.encode(SOURCE, kernel, mask), model.empty_caches()
            steps = [
                model(SOURCE, TARGET[:, a:b], kernel, source_mask=mask, memory=memory, caches=caches)
                for a, b in [(0, 1), (1, 3), (3, 4), (4, 5)]
            ]
        same(torch.cat(steps, 1), whole)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
def test_a_padded_source_is_the_source_alone(positions: str, kernel: str) -> None:
    model = model_of(positions=positions)
    padded = SOURCE.clone()
    padded[1, 4:] = 12
    both = model(padded, TARGET, kernel, source_mask=Padding((7, 4)))
    same(both[1:], model(SOURCE[1:, :4], TARGET[1:], kernel))
    assert (model(padded, TARGET, kernel)[1] - both[1]).abs().max() > 1e-3  # and without the mask it is not


def test_a_target_sees_its_past_and_all_of_the_source() -> None:
    model = model_of()
    changed = TARGET.clone()
    changed[:, 3] = 11
    same(model(SOURCE, changed)[:, :3], model(SOURCE, TARGET)[:, :3])
    assert (model(SOURCE, changed)[:, 3] - model(SOURCE, TARGET)[:, 3]).abs().min() > 0
    other = SOURCE.clone()
    other[:, -1] = 11
    assert (model(other, TARGET) - model(SOURCE, TARGET)).abs().amax((0, 2)).min() > 1e-4  # every row reads the last


def test_keys_and_values_come_from_the_encoder_and_queries_from_the_decoder() -> None:
    """MATH T8, erratum: with K and Q exchanged the pattern would be (S, T), or the numbers others."""
    model = model_of()
    hooks, kept = keeping("memory", "decoder.blocks.*")
    model(SOURCE, TARGET, hooks=hooks)
    for layer, block in enumerate(model.decoder.blocks):
        at = f"decoder.blocks.{layer}."
        q, k, v = (rows for rows in block.cross.qkv_proj.weight.view(3, 8, 8))
        bq, bk, bv = block.cross.qkv_proj.bias.view(3, 8)
        flat = {name: kept[f"{at}cross.{name}"].transpose(1, 2).flatten(2) for name in ("query", "key", "value")}
        same(flat["query"], kept[f"{at}resid_mid"] @ q.T + bq)
        same(flat["key"], kept["memory"] @ k.T + bk)
        same(flat["value"], kept["memory"] @ v.T + bv)
        assert kept[f"{at}cross.pattern"].shape == (2, 2, 5, 7)


def test_sinusoids_interleaved_or_sines_first_as_they_are_written() -> None:
    wave = sinusoids(5, 6)
    for i in range(5):
        for j in range(6):
            angle = i / 10_000 ** ((j - j % 2) / 6)
            assert wave[i, j] == pytest.approx(cos(angle) if j % 2 else sin(angle), abs=1e-6)
    half = sinusoids(5, 6, half=True)
    assert torch.equal(half[:, :3], wave[:, 0::2])
    assert torch.equal(half[:, 3:], wave[:, 1::2])
    one, other = model_of(), model_of(half_sinusoids=True)
    assert (one(SOURCE, TARGET) - other(SOURCE, TARGET)).abs().max() > 1e-3


def test_one_table_or_two_or_three() -> None:
    def tables(**changes: object) -> int:
        return sum(parameter.shape == (V, 8) for parameter in model_of(**changes).parameters())

    assert tables() == 1
    assert tables(shared=False) == 2
    assert tables(shared=False, tied=False) == 3
    with pytest.raises(ValueError, match="shared = False"):
        EncoderDecoder(EncoderDecoderShape(1, 1, 2, 8, 13, 14, 9))


def test_more_positions_than_the_context_holds_are_refused_in_words() -> None:
    model = model_of()
    with pytest.raises(ValueError, match="10 positions do not fit a context of 9"):
        model(torch.ones(1, 10, dtype=torch.long), TARGET[:1])
    with pytest.raises(ValueError, match="10 positions do not fit a context of 9"):
        model(SOURCE[:1], torch.ones(1, 10, dtype=torch.long))


def test_the_beginning_is_a_function_of_the_generator_and_every_map_has_its_bound() -> None:
    shape = EncoderDecoderShape(1, 1, 2, 64, V, V, 9)
    one, other = (EncoderDecoder(shape, torch.Generator().manual_seed(5)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    block = one.decoder.blocks[0]
    for map_ in (
        block.cross.qkv_proj,
        block.cross.out_proj,
    ):  # each of the three maps is 64 × 64, whatever is below it
        assert 0.98 * sqrt(6 / 128) < map_.weight.abs().max() <= sqrt(6 / 128)
    assert block.feed_forward.up_proj.weight.abs().max() <= sqrt(6 / 320)


def test_what_a_layer_would_say_is_the_unembedding_of_its_stream() -> None:
    for norm in ("pre", "post"):
        model = model_of(norm=norm)
        hooks, kept = keeping("decoder.blocks.1.resid_post")
        same(model(SOURCE, TARGET, hooks=hooks), model.logits(kept["decoder.blocks.1.resid_post"]))


def test_dropout_drops_only_while_learning_and_nothing_at_nought() -> None:
    model = model_of()
    whole = model(SOURCE, TARGET)
    model.set_dropout(0.5)
    torch.manual_seed(0)
    assert (model(SOURCE, TARGET) - whole).abs().max() > 1e-3
    same(model.eval()(SOURCE, TARGET), whole)
    model.train().set_dropout(0.0)
    same(model(SOURCE, TARGET), whole)
    assert {m.weight_dropout for m in model.modules() if hasattr(m, "weight_dropout")} == {0.0}


def test_a_hook_reaches_the_memory_and_the_mask_of_the_target_is_an_argument() -> None:
    model = model_of()
    other = model.encode(SOURCE.flip(1))
    hooks = Hooks({"memory": lambda name, value: other})
    same(model(SOURCE, TARGET, hooks=hooks), model(SOURCE.flip(1), TARGET))
    same(model(SOURCE, TARGET, target_mask=CAUSAL), model(SOURCE, TARGET))
