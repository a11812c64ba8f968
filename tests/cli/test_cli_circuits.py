"""`txlab explain --circuits` and `--neurons`: the numbers are the engine's, and they add up to what the model says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from txlab.engine.interpret.circuits import composition, copying_scores
from txlab.engine.interpret.direct import direct_effects, neurons
from txlab.runs.models import OpenModel

Ask = Any
TEXT = "abcabc"


def test_the_table_has_the_copying_score_of_every_head(ask: Ask, models: dict[str, OpenModel]) -> None:
    model: Any = models["gpt"].model
    heads = ask("explain", "gpt", "--circuits", "--json").json["heads"]
    expected = copying_scores(model, "self").flatten().tolist()
    assert [head["copying"] for head in heads] == pytest.approx(expected, rel=1e-9)
    assert [head["name"] for head in heads] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]
    D = model.shape.width
    attention = model.blocks[1].attention
    with torch.no_grad():
        _, _, v = attention.qkv_proj.weight.double().view(3, 3, D // 3, D)
        form = attention.out_proj.weight.double().view(D, 3, -1)[:, 2] @ v[2]  # (D, D) of head 2.3
        whole = model.embed.weight.double() @ form @ model.embed.weight.double().T  # (V, V), tied
    values = torch.linalg.eigvals(whole)
    assert heads[5]["copying"] == pytest.approx(float(values.real.sum() / values.abs().sum()), abs=1e-6)
    assert abs(complex(*heads[5]["ov"][0])) == pytest.approx(float(torch.linalg.eigvals(form).abs().max()), rel=1e-6)
    lines = ask("explain", "gpt", "--circuits", "--layer", "2").out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["2.1", "2.2", "2.3"]
    assert max(map(len, lines)) < 100


def test_one_head_says_what_it_reads_of_earlier_ones(ask: Ask, models: dict[str, OpenModel]) -> None:
    model: Any = models["gpt"].model
    found = ask("explain", "gpt", "--circuits", "--head", "2.2", "--json").json
    every = composition(model)
    for each in found["composition"]["earlier"]:
        head = int(each["head"][2:]) - 1
        for through in ("query", "key", "value"):
            assert each[through] == pytest.approx(float(getattr(every, through)[1, 1, 0, head]), rel=1e-9)
    assert found["composition"]["expected"] == pytest.approx(model.shape.width**-0.5)
    assert found["explanation"]["result"] == found["copying"]
    for columns in (80, 120):
        lines = ask("explain", "gpt", "--circuits", "--head", "2.2", columns=columns).out.splitlines()
        assert max(map(len, lines)) < columns
    assert "no heads precede" in ask("explain", "gpt", "--circuits", "--head", "1.1").out


def test_sites_without_a_way_to_the_logits_say_so(ask: Ask, models: dict[str, OpenModel]) -> None:
    assert "no copying score: BERT's head is not a linear map" in ask("explain", "bert", "--circuits").out
    assert ask("explain", "translator", "--circuits", "--json").json["site"] == "decoder"
    assert "unembedding" in ask("explain", "translator", "--circuits", "--site", "encoder").out
    crossed = ask("explain", "translator", "--circuits", "--head", "cross:2.1", "--json").json
    assert crossed["composition"] is None
    assert "another stream" in crossed["alone"]


def test_neurons_and_the_bias_sum_to_the_feed_forward(ask: Ask, models: dict[str, OpenModel]) -> None:
    opened = models["gpt"]
    model: Any = opened.model
    words = ("explain", "gpt", TEXT, "--neurons", "--next", "z", "--json")
    found = ask(*words, "--layer", "2").json["neurons"]
    expected = neurons(model, opened.text(TEXT), 1, 122).effects
    effects = {each["neuron"]: each["value"] for each in found["neurons"]}
    assert [effects[at] for at in range(len(expected))] == pytest.approx(expected.tolist(), rel=1e-9)
    assert [abs(each["value"]) for each in found["neurons"]] == sorted(map(abs, expected.tolist()), reverse=True)
    parts = ask("explain", "gpt", TEXT, "--direct", "--next", "z", "--json").json["direct"]["parts"]
    both = [part["value"] for part in parts if part["kind"] == "feed_forward"]
    assert found["feed_forward"] == pytest.approx(both[1], rel=1e-9)
    fall = model.blocks[1].feed_forward.down_proj
    w = direct_effects(model, opened.text(TEXT), 122).direction["blocks.1.feed_forward.out"]
    assert sum(effects.values()) + float(w @ fall.bias.detach().double()) == pytest.approx(both[1], rel=1e-5)
    kept: list[torch.Tensor] = []
    handle = fall.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    with torch.no_grad():
        model(torch.tensor([list(TEXT.encode())]))
    handle.remove()
    active = {each["neuron"]: each["activation"] for each in found["neurons"]}
    assert [active[at] for at in range(len(active))] == pytest.approx(kept[0][0, -1].tolist(), abs=1e-4)
    most = max((0, 1), key=lambda layer: abs(both[layer])) + 1
    assert ask(*words).json["neurons"]["layer"] == most
    said = ask("explain", "gpt", TEXT, "--neurons", columns=80).out
    assert "more neurons" in said
    assert max(map(len, said.splitlines())) < 80 + 40  # the last sentence is prose


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--circuits", "--next", "a"], "--next means nothing"),
        (["--circuits", "--off", "1.1"], "as they are"),
        (["--circuits", "--head", "3.1"], "no layer 3; allowed: 1 to 2"),
        (["--circuits", "--layer", "0"], "no layer 0; allowed: 1 to 2"),
        (["--circuits", "--site", "cross"], "there is: self"),
        (["--circuits", "--lens"], "two questions"),
        ([TEXT, "--circuits"], "leave the text out"),
        ([TEXT, "--neurons", "--head", "1.1"], "no heads"),
        ([TEXT, "--neurons", "--layer", "3"], "allowed: 1 to 2"),
    ],
)
def test_a_mistake_is_a_readable_error(ask: Ask, models: dict[str, OpenModel], words: list[str], part: str) -> None:
    assert part in ask("explain", "gpt", *words).refused


def test_bert_has_no_neurons_of_a_logit(ask: Ask, models: dict[str, OpenModel]) -> None:
    assert "BERT's head" in ask("explain", "bert", "a[MASK]c", "--neurons").refused
