"""`txlab explain`: the answers are the numbers that the model made, and their last step is the result."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest
import torch

from txlab.cli.models import has_form
from txlab.engine.interpret.why import why_pattern
from txlab.runs.models import OpenModel, open_model

Ask = Any
TEXT = "abcabc"
IDS = torch.tensor([list(TEXT.encode())])


def logits(models: dict[str, OpenModel]) -> torch.Tensor:
    with torch.no_grad():
        return models["gpt"].model(IDS)[0, -1].double()  # type: ignore[operator]


def test_a_weight_is_explained_as_the_screen_explains_it(ask: Ask, models: dict[str, OpenModel]) -> None:
    from txlab.engine.interpret.activation_cache import run_with_cache

    model = models["gpt"]
    said = ask("explain", "gpt", TEXT, "--head", "2.3", "--row", "4", "--column", "-4", "--json").json["explanation"]
    labels = list(TEXT)
    expected = why_pattern(run_with_cache(model.model, model.text(TEXT)), "self", 1, 2, 4, 2, labels, labels)
    assert said["question"] == expected.question
    assert said["result"] == expected.result
    assert said["steps"][-1]["result"] == said["result"]
    alpha = ask("attend", "gpt", TEXT, "--head", "2.3", "--json").json["pattern"]
    assert said["result"] == pytest.approx(alpha[4][2], abs=1e-7)


def test_without_a_question_it_is_the_likeliest_next_token(ask: Ask, models: dict[str, OpenModel]) -> None:
    p = logits(models).softmax(-1)
    said = ask("explain", "gpt", TEXT, "--json").json["explanation"]
    assert said["result"] == pytest.approx(float(p.max()), rel=1e-5)
    for token in ("z", "#122"):
        said = ask("explain", "gpt", TEXT, "--next", token, "--json").json["explanation"]
        assert said["result"] == pytest.approx(float(p[122]), rel=1e-5)


def test_the_lens_ends_in_what_the_model_says(ask: Ask, models: dict[str, OpenModel]) -> None:
    layers = ask("explain", "gpt", TEXT, "--lens", "--json").json["lens"]["layers"]
    p = logits(models).softmax(-1)
    assert [layer["layer"] for layer in layers] == [0, 1, 2]
    assert layers[-1]["kl"] == pytest.approx(0, abs=1e-9)
    assert layers[-1]["likeliest"][0]["id"] == int(p.argmax())
    with torch.no_grad():
        embedded = models["gpt"].model.embed(IDS)[0, -1] + models["gpt"].model.positions.weight[5]  # type: ignore[union-attr, operator]
        first = models["gpt"].model.logits(embedded).softmax(-1)  # type: ignore[operator, union-attr]
    assert layers[0]["likeliest"][0]["probability"] == pytest.approx(float(first.max()), rel=1e-4)
    said = ask("explain", "gpt", TEXT, "--lens", "--layer", "0", "--json").json["explanation"]
    assert said["result"] == pytest.approx(float(first.max()), rel=1e-4)
    assert ask("explain", "gpt", TEXT, "--lens").out.splitlines()[1].startswith("embedding")


def test_parts_sum_to_the_logit(ask: Ask, models: dict[str, OpenModel]) -> None:
    z = logits(models)
    found = ask("explain", "gpt", TEXT, "--direct", "--next", "z", "--against", "y", "--json").json["direct"]
    assert found["logit"] == pytest.approx(float(z[122] - z[121]), rel=1e-4)
    assert sum(part["value"] for part in found["parts"]) == pytest.approx(found["logit"], rel=1e-4)
    one = ask("explain", "gpt", TEXT, "--direct", "--next", "z", "--head", "1.2", "--json").json["explanation"]
    parts = ask("explain", "gpt", TEXT, "--direct", "--next", "z", "--json").json["direct"]["parts"]
    assert one["result"] == {part["name"]: part["value"] for part in parts}["head 1.2"]
    named = ask("explain", "gpt", TEXT, "--direct", "--next", "z", "--part", "feed-forward 2", "--json").json
    assert named["explanation"]["result"] == {part["name"]: part["value"] for part in parts}["feed-forward 2"]
    assert "all 12 parts together" in ask("explain", "gpt", TEXT, "--direct").out


def test_a_divergence_is_that_of_attend(ask: Ask, models: dict[str, OpenModel]) -> None:
    kl = ask("attend", "gpt", TEXT, "--off", "1.1", "--json").json["effect"]["kl"]
    said = ask("explain", "gpt", TEXT, "--kl", "--off", "1.1", "--json").json["explanation"]
    assert said["result"] == pytest.approx(kl, rel=1e-9)
    assert said["steps"][-1]["result"] == said["result"]


def test_rollout_and_scores_are_those_of_attend(ask: Ask, models: dict[str, OpenModel]) -> None:
    rolled = ask("attend", "gpt", TEXT, "--rollout", "--json").json["pattern"]
    said = ask("explain", "gpt", TEXT, "--rollout", "--row", "5", "--column", "1", "--json").json["explanation"]
    assert said["result"] == pytest.approx(rolled[5][1], rel=1e-5)
    heads = ask("attend", "gpt", TEXT, "--json").json["heads"]
    said = ask("explain", "gpt", TEXT, "--score", "induction", "--head", "2.1", "--json").json["explanation"]
    assert said["result"] == pytest.approx(heads[3]["induction"], rel=1e-5)


def test_the_answer_is_formatted_for_the_user(ask: Ask, models: dict[str, OpenModel]) -> None:
    for columns in (80, 120):
        said = ask("explain", "gpt", TEXT, "--head", "1.1", "--row", "3", "--column", "0", columns=columns)
        lines = said.out.splitlines()
        assert lines[0].startswith("why does 'a' look at 'a' with")
        assert max(map(len, lines)) < columns
        assert lines[-1].startswith("result  ")


def test_a_loss_is_the_score_of_the_token(ask: Ask, models: dict[str, OpenModel]) -> None:
    said = ask("explain", "gpt", "abcab", "--next", "c", "--json").json["explanation"]
    found = ask("score", "gpt", TEXT, "--json").json["tokens"][-1]
    assert log(said["result"]) == pytest.approx(found["log_probability"], rel=1e-4)


def test_a_translator_and_bert_are_explained_too(ask: Ask, models: dict[str, OpenModel]) -> None:
    words = ["explain", "translator", "ab", "--target", "xy"]
    said = ask(*words, "--head", "1.1", "--row", "2", "--column", "2", "--json").json["explanation"]
    assert said["question"].startswith("why does 'y' look at '[SEP]'")
    parts = ask(*words, "--direct", "--json").json["direct"]
    assert sum(part["value"] for part in parts["parts"]) == pytest.approx(parts["logit"], rel=1e-4)
    assert ask("explain", "translator", "ab", "--next", "[SEP]", "--json").status == 0
    assert ask("explain", "bert", "a[MASK]c", "--json").json["explanation"]["result"] > 0
    assert "BERT's head" in ask("explain", "bert", "a[MASK]c", "--direct").refused


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--row", "1"], "name it with --head"),
        (["--head", "1.1"], "a --row and a --column"),
        (["--head", "1.1", "--row", "9", "--column", "0"], "--row 9 is outside"),
        (["--next", "ab"], "not one token but 2"),
        (["--next", "#999"], "#0 to #255"),
        (["--kl"], "--off 2.3"),
        (["--lens", "--direct"], "two questions"),
        (["--lens", "--layer", "3"], "0 (the embedding) to 2"),
        (["--direct", "--part", "head 2.9"], "nearest: head 2."),
        (["--against", "a"], "is for --direct"),
        (["--score", "inductive", "--head", "1.1"], "nearest: induction"),
        (["--score", "induction"], "--head 2.3"),
        (["--rollout"], "--row and --column"),
    ],
)
def test_a_mistake_is_a_readable_error(ask: Ask, models: dict[str, OpenModel], words: list[str], part: str) -> None:
    assert part in ask("explain", "gpt", TEXT, *words).refused


def test_a_model_is_exported_and_opened_again_with_the_same_numbers(ask: Ask, tiny_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    assert ask("export", "latest", "--form", "huggingface", str(folder)).out.splitlines()[0] == str(folder)
    ours, theirs = open_model(str(tiny_run)), open_model(str(folder))
    ids = torch.tensor([list(b"the cat")])
    with torch.no_grad():
        assert torch.allclose(ours.model(ids), theirs.model(ids), atol=1e-6)  # type: ignore[operator]
    assert theirs.decode(theirs.ids("the cat")) == "the cat"
    assert "there already" in ask("export", "latest", "--form", "huggingface", str(folder)).refused
    assert "name it" in ask("export", "latest", "huggingface").refused
    assert "for metrics" in ask("export", "latest", "--form", "huggingface", str(folder), "--wide").refused
    assert ask("export", "latest", "--form", "csv", str(tmp_path / "metrics.csv")).status == 0
    assert ask("export", "latest", "--format", "csv", str(tmp_path / "again.csv")).status == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "metrics.csv").read_bytes()
    assert "--format" in ask("export", "--help").out
    assert not has_form(None)
