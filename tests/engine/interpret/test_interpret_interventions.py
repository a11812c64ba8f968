"""Each intervention is exactly what it says, and leaves no trace (MATH T1–T5)."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from interpret_models import MODELS, PAIR, TEXT, model_named, text_for
from torch import nn

from txlab.engine.interpret.activation_cache import run_with_cache
from txlab.engine.interpret.effects import compare, divergences, effect
from txlab.engine.interpret.interventions import (
    Edge,
    EditWeight,
    Erratum,
    Intervention,
    Patch,
    ScaleBlock,
    ScaleHead,
    edit_weights,
    from_json,
    intervening,
    parts_of,
    places,
    remarks,
    to_json,
    together,
)
from txlab.engine.interpret.sites import Model, Text, attention_at, run, sites
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import GraphMask
from txlab.errors import LabError

CLOSE = {"atol": 1e-11, "rtol": 0}
SECOND = Text((2, 7, 1, 8, 2, 8, 1, 8, 2, 8))
SECOND_PAIR = Text((5, 1, 4, 1, 5, 9, 6), (0, 3, 3, 8, 2))


def changed(model: Model, text: Text, *interventions: Intervention, second: Text | None = None) -> torch.Tensor:
    with intervening(model, text, interventions, second) as hooks:
        return run(model, text, hooks)


@pytest.mark.parametrize("name", MODELS)
def test_a_head_switched_off_is_a_head_whose_columns_of_the_output_map_are_zero(name: str) -> None:
    model = model_named(name)
    text = text_for(model)
    for site in sites(model):
        without = model_named(name)
        with torch.no_grad():
            K = attention_at(without, site, 1).head_width
            attention_at(without, site, 1).out_proj.weight[:, K:] = 0  # head 1 of two
        silenced = changed(model, text, ScaleHead(site.name, 1, 1, 0.0))
        torch.testing.assert_close(silenced, run(without, text), **CLOSE)
        assert (silenced - run(model, text)).abs().max() > 1e-4
        with torch.no_grad():
            attention_at(without, site, 1).out_proj.weight[:, K:] = (
                2.5 * attention_at(model, site, 1).out_proj.weight[:, K:]
            )
        torch.testing.assert_close(changed(model, text, ScaleHead(site.name, 1, 1, 2.5)), run(without, text), **CLOSE)


@pytest.mark.parametrize(
    ("name", "wish", "parameters"),
    [
        ("gpt", ScaleBlock("self", 0, "feed_forward"), "blocks.0.feed_forward.down_proj"),
        ("parallel", ScaleBlock("self", 1, "attention"), "blocks.1.attention.out_proj"),
        ("bert", ScaleBlock("self", 1, "feed_forward"), "encoder.blocks.1.feed_forward.down_proj"),
        ("translator", ScaleBlock("cross", 2, "cross"), "decoder.blocks.2.cross.out_proj"),
        ("translator", ScaleBlock("decoder", 2, "attention"), "decoder.blocks.2.attention.out_proj"),
    ],
)
def test_a_branch_switched_off_is_a_branch_that_adds_nothing(name: str, wish: ScaleBlock, parameters: str) -> None:
    model, without = model_named(name), model_named(name)
    text, last = text_for(model), without.get_submodule(parameters)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.zero_()
    torch.testing.assert_close(changed(model, text, wish), run(without, text), **CLOSE)


def test_a_cut_edge_is_a_mask_of_ones_own() -> None:
    model = model_named("gpt")
    edges = {(j, i) for i in range(10) for j in range(i + 1)} - {(2, 5), (0, 5)}
    own = model(torch.tensor([TEXT.ids]), mask=GraphMask.of_edges(10, edges))[0]
    cut = changed(model, TEXT, Edge("self", None, None, 5, 2), Edge("self", None, None, 5, 0))
    torch.testing.assert_close(cut, own, **CLOSE)
    assert (cut - run(model, TEXT))[5:].abs().max() > 1e-3


def test_an_edge_added_lets_one_position_look_ahead_and_no_other() -> None:
    model = model_named("gpt")
    edges = {(j, i) for i in range(10) for j in range(i + 1)} | {(8, 3)}
    own = model(torch.tensor([TEXT.ids]), mask=GraphMask.of_edges(10, edges))[0]
    ahead = changed(model, TEXT, Edge("self", None, None, 3, 8, True))
    torch.testing.assert_close(ahead, own, **CLOSE)
    other = Text((*TEXT.ids[:8], 10, *TEXT.ids[9:]))
    moved = changed(model, other, Edge("self", 1, 0, 3, 8, True)) - changed(model, TEXT, Edge("self", 1, 0, 3, 8, True))
    assert moved[3].abs().max() > 1e-4  # what is at 8 now counts at 3
    assert moved[[0, 1, 2, 4, 5, 6, 7]].abs().max() < 1e-12


def test_an_edge_of_one_head_changes_one_head() -> None:
    model = model_named("translator")
    seen, cut = run_with_cache(model, PAIR), run_with_cache(model, PAIR, [Edge("cross", 1, 0, 3, 2)])
    rest = seen.pattern("cross", 1, 0)[3].clone()
    rest[2] = 0
    torch.testing.assert_close(cut.pattern("cross", 1, 0)[3], rest / rest.sum(), **CLOSE)
    torch.testing.assert_close(cut.pattern("cross", 1, 1), seen.pattern("cross", 1, 1), **CLOSE)


def test_a_row_with_every_edge_cut_is_zeros_and_the_later_wish_counts() -> None:
    model = model_named("gpt")
    cuts = [Edge("self", 0, 1, 2, column) for column in range(3)]
    seen = run_with_cache(model, TEXT, cuts)
    assert bool(seen.logits.isfinite().all())
    assert float(seen.row_sums("self", 0, 1)[2]) == 0.0
    restored = [*cuts, *(Edge("self", 0, 1, 2, column, True) for column in range(3))]
    torch.testing.assert_close(run_with_cache(model, TEXT, restored).logits, run(model, TEXT), **CLOSE)


@pytest.mark.parametrize("name", MODELS)
def test_patching_from_the_same_text_changes_nothing(name: str) -> None:
    model = model_named(name)
    text = text_for(model)
    everywhere = [Patch(place, 1) for place in places(model)]
    torch.testing.assert_close(changed(model, text, *everywhere, second=text), run(model, text), **CLOSE)


@pytest.mark.parametrize(
    ("name", "place"),
    [("gpt", "blocks.1.resid_pre"), ("post", "blocks.0.resid_post"), ("bert", "encoder.blocks.0.resid_post")],
)
def test_patching_the_whole_stream_gives_the_second_texts_logits(name: str, place: str) -> None:
    model = model_named(name)
    expected = run(model, SECOND)
    torch.testing.assert_close(changed(model, TEXT, Patch(place, None), second=SECOND), expected, **CLOSE)
    each = [Patch(place, position) for position in range(10)]
    torch.testing.assert_close(changed(model, TEXT, *each, second=SECOND), expected, **CLOSE)


def test_patching_memory_and_stream_of_a_decoder_gives_the_second_pairs_logits() -> None:
    model = model_named("translator")
    wishes = [Patch("memory", None), Patch("decoder.blocks.0.resid_pre", None)]
    torch.testing.assert_close(changed(model, PAIR, *wishes, second=SECOND_PAIR), run(model, SECOND_PAIR), **CLOSE)


def test_a_patch_reaches_one_position_and_what_comes_after_it() -> None:
    model = model_named("gpt")
    moved = (changed(model, TEXT, Patch("blocks.0.resid_post", 4, 9), second=SECOND) - run(model, TEXT)).abs().amax(-1)
    assert moved[:4].max() < 1e-12
    assert moved[4:].min() > 1e-6


@pytest.mark.parametrize("place", ["blocks.0.resid_post", "blocks.1.attention.heads", "blocks.0.attention.key"])
def test_a_patch_brings_what_the_second_text_has_at_the_place_it_names(place: str) -> None:
    model = model_named("gpt")
    own, kept = keeping(place)
    run(model, TEXT, own)
    other, theirs = keeping(place)
    run(model, SECOND, other)
    expected = kept[place].clone()
    if expected.dim() == 4:
        wish = Patch(place, 4, 9, head=1)
        expected[:, 1, 4] = theirs[place][:, 1, 9]
    else:
        wish = Patch(place, 4, 9)
        expected[:, 4] = theirs[place][:, 9]
    at, patched = keeping(place)
    with intervening(model, TEXT, [wish], SECOND) as hooks:
        run(model, TEXT, together(hooks, at))
    torch.testing.assert_close(patched[place], expected, **CLOSE)


def test_a_pattern_that_is_patched_is_the_second_texts_whatever_edges_are_cut() -> None:
    model = model_named("gpt")
    wishes = [Patch("blocks.0.attention.pattern", 5), Edge("self", 0, None, 5, 2), Edge("self", 0, None, 6, 2)]
    for order in (wishes, wishes[::-1]):
        seen = run_with_cache(model, TEXT, order, SECOND)
        torch.testing.assert_close(
            seen.row("self", 0, 1, 5), run_with_cache(model, SECOND).row("self", 0, 1, 5), **CLOSE
        )
        assert float(seen.row("self", 0, 1, 6)[2]) == 0.0


def test_a_weight_is_edited_and_put_back_bit_for_bit() -> None:
    model, other = model_named("gpt"), model_named("gpt")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    wishes = [EditWeight("embed.weight", (4, 2), 3.0), EditWeight("blocks.0.attention.qkv_proj.weight", (0, 1), -2.0)]
    wishes.append(EditWeight("embed.weight", (4, 2), 1.5))
    with torch.no_grad():
        other.embed.weight[4, 2] = 1.5
        other.blocks[0].attention.qkv_proj.weight[0, 1] = -2.0
    torch.testing.assert_close(changed(model, TEXT, *wishes), run(other, TEXT), **CLOSE)
    inside = []

    def fail() -> None:
        with edit_weights(model, wishes):
            inside.append(model.embed.weight[4, 2].item())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside == [1.5]
    with (
        pytest.raises(LabError, match=r"nearest: embed.weight"),
        edit_weights(model, [*wishes, EditWeight("embed.weigh", (0,), 1)]),
    ):
        pass
    assert all(torch.equal(before[name], parameter) for name, parameter in model.named_parameters())
    assert remarks(model, wishes[:1]) == ["embed.weight is the embedding and the unembedding: the edit acts in both"]
    assert remarks(model, wishes[1:2]) == []


def test_all_interventions_apply_together() -> None:
    model, other = model_named("gpt"), model_named("gpt")
    with torch.no_grad():
        other.blocks[0].attention.out_proj.weight[:, :4] = 0
        other.blocks[1].feed_forward.down_proj.weight.zero_()
        other.blocks[1].feed_forward.down_proj.bias.zero_()
        other.embed.weight[3, 3] = 0.25
    wishes = [
        ScaleHead("self", 0, 0, 0.0),
        ScaleBlock("self", 1, "feed_forward", 0.0),
        EditWeight("embed.weight", (3, 3), 0.25),
        Edge("self", None, None, 7, 1),
    ]
    own = GraphMask.of_edges(10, {(j, i) for i in range(10) for j in range(i + 1)} - {(1, 7)})
    torch.testing.assert_close(changed(model, TEXT, *wishes), other(torch.tensor([TEXT.ids]), mask=own)[0], **CLOSE)


def test_the_effect_is_the_divergence_and_the_tokens_that_moved() -> None:
    model = model_named("gpt")
    found = effect(model, TEXT, [ScaleHead("self", 0, 0, 0.0)], position=6, most=5)
    p = run(model, TEXT)[6].softmax(-1)
    q = changed(model, TEXT, ScaleHead("self", 0, 0, 0.0))[6].softmax(-1)
    assert found.kl == pytest.approx(sum(a * math.log(a / b) for a, b in zip(p.tolist(), q.tolist(), strict=True)))
    order = (q - p).abs().argsort(descending=True)[:5].tolist()
    assert [one.token for one in found.moved] == order
    assert [one.change for one in found.moved] == pytest.approx((q - p)[order].tolist())
    nothing = effect(model, TEXT, [])
    assert (nothing.kl, nothing.moved) == (0.0, ())
    pairs = compare(run_with_cache(model, TEXT), run_with_cache(model, TEXT, [ScaleHead("self", 0, 0, 0.0)]), 6)
    assert pairs.kl == pytest.approx(found.kl)
    everywhere = divergences(run(model, TEXT), changed(model, TEXT, ScaleHead("self", 0, 0, 0.0)))
    assert float(everywhere[6]) == pytest.approx(found.kl)
    with pytest.raises(LabError, match=r"no prediction at position .*; allowed: 0 to 9"):
        effect(model, TEXT, [], position=10)


EVERY = [
    ScaleHead("self", 1, 2, 0.5),
    ScaleBlock("decoder", 0, "cross", 0.0),
    Edge("cross", None, 1, 3, 4, True),
    Edge("self", 1, None, 0, 0),
    Patch("blocks.1.resid_post", 4, None, 1),
    EditWeight("embed.weight", (4, 2), -1.0),
    Erratum("scaled-output"),
]


@pytest.mark.parametrize("wish", EVERY)
def test_an_intervention_goes_to_json_and_back(wish: Intervention) -> None:
    assert from_json(json.loads(json.dumps(to_json(wish)))) == wish
    assert wish.says


def test_sentences_count_heads_from_one() -> None:
    assert [wish.says for wish in EVERY[:6]] == [
        "what head 2.3 adds counts 0.5 times",
        "the cross-attention of decoder block 1 is switched off",
        "in cross head 2 of any layer, position 3 may look at position 4",
        "in any head of layer 2, position 0 may not look at position 0",
        "at blocks.1.resid_post (head 2), position 4 has what the second text has there",
        "embed.weight[4, 2] is -1",
    ]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ({}, "allowed: scale-head"),
        ({"kind": "scale-head", "hed": 1}, "nearest: head"),
        ({"kind": "scale-head", "site": "self", "layer": "0", "head": 1}, "layer must be a whole number"),
        ({"kind": "scale-head", "site": "self", "layer": True, "head": 1}, "layer must be a whole number"),
        ({"kind": "scale-block", "site": "self", "layer": 0, "part": "lunch"}, "one of attention, cross"),
        ({"kind": "edge", "site": "self"}, "needs more"),
        ({"kind": "edit-weight", "parameter": "x", "index": [0.5], "value": 1}, "list of whole numbers"),
    ],
)
def test_json_that_is_not_an_intervention_is_refused_with_an_error(data: dict[str, object], part: str) -> None:
    with pytest.raises(LabError, match=part):
        from_json(data)


keys = st.sampled_from(["kind", "site", "layer", "head", "factor", "part", "row", "column", "place", "index", "name"])
values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
kinds = st.sampled_from(["scale-head", "scale-block", "edge", "patch", "edit-weight", "erratum"])


@given(st.dictionaries(keys, values | kinds))
def test_any_json_is_an_intervention_or_a_sentence(data: dict[str, object]) -> None:
    try:
        made = from_json(data)
    except LabError:
        return
    assert from_json(json.loads(json.dumps(to_json(made)))) == made or "nan" in repr(made)


@pytest.mark.parametrize(
    ("wish", "part"),
    [
        (ScaleHead("self", 2, 0), "no layer 3; allowed: 1 to 2"),
        (ScaleHead("self", 0, 2), "no head 3; allowed: 1 to 2"),
        (ScaleHead("cross", 0, 0), "there is: self"),
        (ScaleBlock("self", 0, "cross"), "it has: attention, feed_forward"),
        (Edge("self", 0, 0, 10, 0), "rows 0 to 9"),
        (Patch("blocks.0.resid_pots", 0), "nearest: blocks.0.resid_post"),
        (Patch("blocks.0.resid_post", 10), "no position 10"),
        (Patch("blocks.0.resid_post", 0, 0, 1), "no heads"),
        (Patch("blocks.0.attention.heads", 0, 0, 2), "no head 3; allowed: 1 to 2"),
        (EditWeight("embed.weight", (11, 0), 1.0), r"11 × 8; \[11, 0\]"),
        (EditWeight("embed.weight", (1,), 1.0), "11 × 8"),
        (Erratum("causal-encoder"), "only the word is wrong"),
    ],
)
def test_an_impossible_action_is_reported(wish: Intervention, part: str) -> None:
    with pytest.raises(LabError, match=part):
        run_with_cache(model_named("gpt"), TEXT, [wish], SECOND)


def test_a_block_of_attention_alone_has_no_other_part() -> None:
    model = model_named("attention")
    assert parts_of(model, "self", 0) == ["attention"]
    assert parts_of(model_named("translator"), "decoder", 0) == ["attention", "cross", "feed_forward"]
    with pytest.raises(LabError, match="no part 'feed_forward'; it has: attention"):
        run_with_cache(model, TEXT, [ScaleBlock("self", 0, "feed_forward")])


def test_patches_say_what_they_need() -> None:
    model, short = model_named("gpt"), Text((1, 2, 3))
    for wish, second, part in [
        (Patch("blocks.0.resid_post", 0), None, "second text"),
        (Patch("blocks.0.resid_post", None), short, "same number of tokens"),
        (Patch("blocks.0.attention.pattern", 0), short, "one length"),
        (Patch("blocks.0.resid_post", 5), short, "second text has 3 tokens"),
    ]:
        with pytest.raises(LabError, match=part):
            run_with_cache(model, TEXT, [wish], second)
