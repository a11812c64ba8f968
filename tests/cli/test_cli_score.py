"""`txlab score`: the numbers are those of the definition, and nothing is called what it is not."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch

from txlab.engine.tokenizers.training import train_tokenizer
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights import save_model
from txlab.runs.models import OpenModel, open_model

Ask = Any


def test_a_text_has_the_score_that_its_model_gives_it(ask: Ask, tiny_run: Path) -> None:
    answer = ask("score", "latest", "the cat", "--json").json
    model = open_model(str(tiny_run))
    ids = list(b"the cat")
    with torch.no_grad():
        logp = model.model(torch.tensor([ids]))[0].double().log_softmax(-1)  # type: ignore[operator]
    expected = [float(logp[t - 1, ids[t]]) for t in range(1, 7)]
    assert [token["log_probability"] for token in answer["tokens"]] == [None, *map(pytest.approx, expected)]
    assert answer["total"] == pytest.approx(sum(expected))
    assert answer["perplexity"] == pytest.approx(exp(-sum(expected) / 6))
    assert answer["bits_per_byte"] == pytest.approx(-sum(expected) / log(2) / 6)  # the first byte is not scored
    assert answer["model"] == {
        "name": tiny_run.name, "step": 12, "kind": "gpt", "origin": str(tiny_run),
    }  # fmt: skip


def test_the_table_has_a_line_a_token_and_the_sums(ask: Ask) -> None:
    said = ask("score", "latest", "a\n\x1b ")
    head, *rows = said.out.splitlines()
    assert head.split() == ["token", "log", "p", "p", "rank", "likeliest"]
    assert [row.split()[0] for row in rows[:4]] == ["a", "↵", "␛", "·"]
    assert "log-probability: −" in said.out
    assert "over 3 tokens" in said.out
    assert "the first token has no predecessor" in said.out


def test_a_long_text_is_read_in_windows_and_says_so(ask: Ask) -> None:
    said = ask("score", "latest", "the cat sees a mouse", "--stride", "4")
    assert "windows of 16 tokens, a stride of 4 apart" in said.out
    assert "at least 13 tokens" in said.out
    assert ask("score", "latest", "the cat sees a mouse", "--json").json["stride"] == 8


def test_standard_input_and_files_are_read(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the cat")
    totals = {
        ask("score", "latest", *words, "--json", stdin=b"the cat").json["total"]
        for words in ([], ["-"], ["the cat"], ["--file", str(tmp_path / "text")])
    }
    assert len(totals) == 1


def test_many_tokens_are_cut_unless_all_are_asked_for(ask: Ask) -> None:
    assert "and 100 more; --all" in ask("score", "latest", "a" * 300).out
    assert len(ask("score", "latest", "a" * 300, "--all").out.splitlines()) > 300


def test_bert_has_a_pseudo_log_likelihood(ask: Ask, models: dict[str, OpenModel]) -> None:
    answer = ask("score", "bert", "abc", "--json").json
    assert answer["score"] == "pseudo-log-likelihood"
    assert answer["bits_per_byte"] is None
    assert [token["text"] for token in answer["tokens"]] == ["[CLS]", "a", "b", "c", "[SEP]"]
    hidden = torch.tensor([[256, 97, 258, 99, 257]])
    with torch.no_grad():
        p = models["bert"].model(hidden)[0, 2].softmax(-1)[98]  # type: ignore[operator]
    assert answer["tokens"][2]["probability"] == pytest.approx(float(p), rel=1e-5)
    assert "is not the probability of a text" in ask("score", "bert", "abc").out


def test_a_translator_scores_a_target_with_its_end(ask: Ask, models: dict[str, OpenModel]) -> None:
    answer = ask("score", "translator", "ab", "--target", "xy", "--json").json
    assert [token["text"] for token in answer["tokens"]] == ["[CLS]", "x", "y", "[SEP]"]
    source, target = torch.tensor([[97, 98, 257]]), torch.tensor([[256, 120, 121]])
    with torch.no_grad():
        logp = models["translator"].model(source, target)[0].double().log_softmax(-1)  # type: ignore[operator]
    expected = sum(float(logp[t, token]) for t, token in enumerate([120, 121, 257]))
    assert answer["total"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["latst", "x"], "nearest: latest"),
        (["latest", "x", "--target", "y"], "--target is for an encoder–decoder"),
        (["latest", "x", "--stride", "17"], "allowed: 1 to 16"),
        (["latest", "x", "--file", "y"], "not both"),
        (["latest", "--file", "/nowhere"], "cannot be read"),
        (["latest", "x", "--stride", "x"], "x"),
    ],
)
def test_a_mistake_is_a_readable_error(ask: Ask, words: list[str], part: str) -> None:
    assert part in ask("score", *words).refused


def test_bytes_that_are_not_text_are_refused_with_their_place(ask: Ask) -> None:
    assert "byte 1 is 0xff" in ask("score", "latest", stdin=b"a\xff").refused


def test_having_nothing_to_score_is_reported(ask: Ask) -> None:
    assert "nothing to score" in ask("score", "latest", "a").out
    assert ask("score", "latest", "a", "--json").json["total"] is None
    assert ask("score", "latest", "", "--json").json["tokens"] == []


HEAD = "the weights have no head that predicts tokens"


@pytest.mark.parametrize(
    "words",
    [
        ["score", "bare", "a cat"],
        ["generate", "bare", "a [MASK]"],
        ["attend", "bare", "a cat"],
        ["attend", "bare", "a cat", "--head", "1.1"],
        ["explain", "bare", "a cat", "--lens"],
        ["explain", "bare", "a cat"],
        ["explain", "bare", "--circuits"],
        ["explain", "bare", "--circuits", "--head", "1.1"],
    ],
    ids=" ".join,
)
def test_the_note_about_a_model_is_in_its_json_too(ask: Ask, models: dict[str, OpenModel], words: list[str]) -> None:
    note = f"{HEAD}: its attention is trained, its logits are not"
    models["bare"] = replace(models["bert"], note=note)
    assert ask(*words, "--json").json["model"]["note"] == note
    if words[0] != "explain" or "--lens" in words or "--circuits" in words:
        assert HEAD in ask(*words).out
    assert "note" not in ask(words[0], "bert", *words[2:], "--json").json["model"]


def test_what_is_typed_becomes_a_special_token_only_where_that_is_asked_for(ask: Ask, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["the cat sees the cat"], 262, special=["<|end|>"])
    torch.manual_seed(0)
    model = GPT(GPTShape(1, 2, 8, 32, tokenizer.vocabulary))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()  # so that what it writes depends on what it reads
    save_model(model, tokenizer, tmp_path / "m")
    end = tokenizer.special_of["<|end|>"]
    words = [str(tmp_path / "m"), "the<|end|>cat", "--json"]
    for command, *rest in (["score"], ["generate", "--temperature", "0"], ["attend"], ["explain"]):
        plain, asked = (ask(command, *words, *rest, *option).json for option in ([], ["--special"]))
        if command == "generate":
            assert plain["ids"] != asked["ids"]
        else:
            seen = [[token["id"] for token in answer["tokens"]] if command == "score" else answer["text"]["ids"]
                    for answer in (plain, asked)]  # fmt: skip
            assert seen == [tokenizer.encode("the<|end|>cat"), tokenizer.encode("the<|end|>cat", special=True)]
            assert end in seen[1]
        assert "has none" in ask(command, "latest", "the", "--special").refused


def test_a_pair_of_texts_is_for_models_that_read_pairs(ask: Ask, models: dict[str, OpenModel]) -> None:
    for name in ("gpt", "bert", "translator"):  # this bert was trained here, on one kind of text
        for command in ("score", "attend", "explain"):
            assert "pair" in ask(command, name, "a b", "--pair", "c").refused
    paired = replace(models["bert"], special=replace(models["bert"].special, between=(258,)))
    models["bert"] = paired
    ids = [256, *b"a", 258, *b"bc", 257]
    answer = ask("score", "bert", "a", "--pair", "bc", "--json").json
    assert [token["id"] for token in answer["tokens"]] == ids
    assert answer["scored"] == 3
    text = ask("attend", "bert", "a", "--pair", "bc", "--json").json["text"]
    assert (text["ids"], text["segments"]) == (ids, [0, 0, 0, 1, 1, 1])
    assert ask("explain", "bert", "a", "--pair", "bc", "--lens", "--json").json["text"] == text
    assert "--pair" in ask("explain", "bert", "--circuits", "--pair", "c").refused
