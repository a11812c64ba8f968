"""Folders of every family answer in every command, and each head is shown with its own pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.positions import Rotary
from txlab.engine.transformer.weights import load_model, save_model

Ask = Any
IDS = [3, 1, 4, 1, 5, 9, 2, 6]
DECODERS = {
    "llama": GPTShape(
        2, 4, 16, 12, 19, 24, "rotary", normalisation="rms", gated=True, activation="swish", kv_heads=2, head_dim=6,
        bias=False, tied=False,
    ),
    "qwen2": GPTShape(2, 4, 16, 12, 19, 24, "rotary", normalisation="rms", gated=True, kv_heads=1, bias=("qkv",)),
    "neox": GPTShape(2, 4, 16, 12, 19, positions="rotary", block="parallel", rotary=Rotary(width=2)),
}  # fmt: skip
ENCODERS = {
    "roberta": BertShape(2, 4, 16, 12, 19, padding=1),
    "pre-LN": BertShape(2, 4, 16, 12, 19, norm="pre"),
    "distilbert": BertShape(2, 4, 16, 12, 19, segments=0),
}


@pytest.fixture(params=[*DECODERS, *ENCODERS])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shape = (DECODERS | ENCODERS)[request.param]
    model = GPT(shape) if isinstance(shape, GPTShape) else Bert(shape)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
    save_model(model, None, tmp_path / "m")
    return tmp_path / "m"


def test_a_folder_of_any_family_is_asked_like_any_other(ask: Ask, folder: Path) -> None:
    name, text = str(folder), " ".join(map(str, IDS))
    model = load_model(folder).model
    hooks, kept = keeping("*.pattern")
    with torch.no_grad():
        said = model(torch.tensor([IDS]), hooks=hooks)[0].double().log_softmax(-1)
    patterns = [kept[place][0] for place in sorted(kept)]  # (H, T, T) of each layer
    assert not torch.allclose(patterns[1][0], patterns[1][1], atol=1e-2)
    for head in range(4):
        shown = ask("attend", name, text, "--head", f"2.{head + 1}", "--json").json
        weights = torch.tensor(shown["pattern"])
        torch.testing.assert_close(weights, patterns[1][head], atol=1e-4, rtol=0)
        off = ask("attend", name, text, "--off", f"2.{head + 1}", "--json").json
        assert off["effect"]["kl"] > 0
        assert "α" in ask("explain", name, text, "--head", f"1.{head + 1}", "--row", "5", "--column", "2").out
    lens = ask("explain", name, text, "--lens", "--json").json["lens"]
    assert len(lens["layers"]) == 3
    assert ask("explain", name, "--circuits").status == 0
    if isinstance(model, GPT):
        scored = ask("score", name, text, "--json").json
        wanted = [float(said[t - 1, IDS[t]]) for t in range(1, len(IDS))]
        assert [token["log_probability"] for token in scored["tokens"]] == [None, *(pytest.approx(x) for x in wanted)]
        written = ask("generate", name, text, "--tokens", "3", "--temperature", "0", "--json").json["ids"]
        assert written[0] == int(said[-1].argmax())
        direct = ask("explain", name, text, "--direct", "--json").json["direct"]
        assert sum(part["value"] for part in direct["parts"]) == pytest.approx(direct["logit"], abs=1e-4)
    else:
        assert "no mask token" in ask("score", name, text).refused  # without a tokenizer
