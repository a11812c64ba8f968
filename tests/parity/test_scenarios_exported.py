"""Every scenario that trains a model of texts exports it as it is: transformers loads the folder and says the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from random_models import randomised, transformers

from txlab.cli import models as cli_models
from txlab.engine.transformer.weights import load_model, save_model
from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.runs.directory import RunDirectory
from txlab.runs.models import open_as, open_model, scenario_of
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"
# scenario → the architecture that its model is there
FORMS = {
    "bert-docs": "roberta-prelayernorm",
    "dates": "pegasus",
    "few-shot": "gpt_neox",
    "gpt-copy": "gpt_neox",
    "gpt-docs": "gpt_neox",
    "gpt-finetune": "gpt_neox",
    "gpt-mixture": "gpt_neox",
    "gpt-source": "gpt_neox",
    "gpt-tiny": "gpt_neox",
    "gpt2-124m": "gpt2",
    "gpt3-mixture": "gpt_neox",
    "llama-mixture": "gpt_neox",
    "translate": "pegasus",
}
# scenario → what no architecture there says
NO_FORM = {
    "attention-graph": "edges",
    "gpt-copy-attention": "feed-forward",
    "induction-one-layer": "feed-forward",
    "induction-two-layers": "feed-forward",
}
PLAIN = ["compute.device=cpu", "compute.dtype=float32", "compute.attention=matmul", "compute.compile=false"]
PLAIN += ["compute.threads=1"]
LLAMA = [
    "model.normalisation=rms",
    "model.gated=true",
    "model.activation=swish",
    "model.kv_heads=2",
    "model.bias=false",
]
SMALL = {
    "gpt2-124m": ["model.layers=2", "model.width=48", "data.vocabulary=300", "data.text=python-docs"],
    "gpt-source": ["data.vocabulary=300", "data.text=python-docs"],
    "gpt-tiny": ["train.steps=1", "record.evaluate_every=1", "sampling.tokens=1"],
}


def names_of_kinds(*kinds: str) -> list[str]:
    found = [
        path.stem for path in SCENARIOS.glob("*.toml") if any(f'kind = "{kind}"' in path.read_text() for kind in kinds)
    ]
    return sorted(found)


def test_every_shipped_scenario_of_these_kinds_is_here() -> None:
    assert names_of_kinds("language-model", "masked-language-model", "translation") == sorted([*FORMS, *NO_FORM])


@pytest.mark.parametrize("name", NO_FORM)
def test_a_scenario_without_a_form_says_what_cannot_be_said(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name, [*PLAIN, "train.steps=1"]).scenario
    model = kind_named(scenario.kind).build(scenario).model
    with pytest.raises(LabError, match=NO_FORM[name]):
        save_model(model, None, tmp_path / "out")


@pytest.mark.parametrize("name", FORMS)
def test_a_scenarios_model_is_loaded_by_transformers_with_equal_logits(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))
    if name == "gpt-finetune":
        tiny = prepare(load_scenario(str(SCENARIOS / "gpt-tiny.toml"), [*PLAIN, *SMALL["gpt-tiny"]]))
        assert execute(tiny).status == "done"
    run = prepare(load_scenario(str(SCENARIOS / f"{name}.toml"), [*PLAIN, *SMALL.get(name, [])]))
    scenario = scenario_of(RunDirectory(run))
    kind = kind_named(scenario.kind)
    opened = kind.open_model(scenario, kind.build(scenario).state_dict())
    model: Any = randomised(opened.model, torch.float32)
    with_words = open_as(opened, name, tmp_path, 0, (0,))
    monkeypatch.setattr("txlab.cli.models.open_text_model", lambda asked: with_words)

    cli_models.export_model(name, tmp_path / "out")
    assert str(tmp_path / "out") in capsys.readouterr().out

    makers = {"gpt": "AutoModelForCausalLM", "bert": "AutoModelForMaskedLM", "encoder-decoder": "AutoModelForSeq2SeqLM"}
    maker = getattr(transformers, makers[opened.kind])
    theirs, report = maker.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    assert theirs.config.model_type == FORMS[name]
    length = model.shape.context - 1
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        if opened.kind == "encoder-decoder":
            source = torch.randint(3, model.shape.source_vocabulary, (2, length), generator=draw)
            ids = torch.randint(3, model.shape.target_vocabulary, (2, length), generator=draw)
            wanted = model(source, ids)
            found = theirs.eval()(source, decoder_input_ids=ids).logits
            torch.testing.assert_close(
                found.softmax(-1)[..., : wanted.shape[-1]], wanted.softmax(-1), atol=2e-5, rtol=0
            )
        else:
            ids = torch.randint(model.shape.vocabulary, (2, length), generator=draw)
            wanted, found = model(ids), theirs.eval()(ids).logits
        torch.testing.assert_close(found[..., : wanted.shape[-1]], wanted, atol=2e-5, rtol=0)
        again: Any = load_model(tmp_path / "out").model
        said = again(source, ids) if opened.kind == "encoder-decoder" else again(ids)
    torch.testing.assert_close(said[..., : wanted.shape[-1]], wanted, atol=2e-5, rtol=0)


def test_a_llama_is_trained_from_settings_and_loaded_by_transformers_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))
    settings = [*PLAIN, *LLAMA, *SMALL["gpt-tiny"], "model.layers=1"]
    run = prepare(load_scenario(str(SCENARIOS / "gpt-tiny.toml"), settings))
    assert execute(run).status == "done"
    cli_models.export_model(str(run), tmp_path / "out")
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    assert (theirs.config.model_type, theirs.config.num_key_value_heads) == ("llama", 2)
    ids = torch.arange(60)[None] * 4 % 256
    with torch.no_grad():
        torch.testing.assert_close(theirs.eval()(ids).logits, open_model(str(run)).model(ids), atol=1e-6, rtol=0)
    with pytest.raises(LabError, match="heads must be a multiple of kv_heads"):
        load_scenario(str(SCENARIOS / "gpt-tiny.toml"), ["model.kv_heads=3"])


def test_an_exported_masked_model_still_knows_what_it_hides_tokens_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))
    scenario = scenario_of(RunDirectory(prepare(load_scenario(str(SCENARIOS / "bert-docs.toml"), PLAIN))))
    kind = kind_named(scenario.kind)
    run = open_as(kind.open_model(scenario, kind.build(scenario).state_dict()), "bert-docs", tmp_path, 0, (0,))
    monkeypatch.setattr("txlab.cli.models.open_text_model", lambda asked: run)
    cli_models.export_model("bert-docs", tmp_path / "out")
    folder = open_model(str(tmp_path / "out"))
    text = "The [MASK] is"
    assert folder.ids(text) == run.ids(text)
    assert folder.labels(folder.ids(text)) == run.labels(run.ids(text))
    assert folder.special.mask == run.special.mask
