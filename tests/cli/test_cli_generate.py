"""`txlab generate`: what is printed is what the model writes, whatever the model, and as it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from txlab.cli.generate import pieces
from txlab.engine.transformer.generation import generate
from txlab.runs.models import OpenModel, open_model

Ask = Any


def test_the_text_is_what_the_engine_generates_from_the_seed(ask: Ask, tiny_run: Path) -> None:
    answer = ask("generate", "latest", "the ", "--tokens", "20", "--seed", "7", "--json").json
    model = open_model(str(tiny_run))
    generator = torch.Generator().manual_seed(7)
    expected = list(generate(model.model, list(b"the "), 20, generator=generator, temperature=0.8))  # type: ignore[arg-type]
    assert answer["ids"] == expected
    assert answer["text"] == model.decode(expected)
    assert ask("generate", "latest", "the ", "--tokens", "20", "--seed", "7").out == f"the {answer['text']}\n"
    assert ask("generate", "latest", "the ", "--tokens", "20", "--seed", "8", "--json").json["ids"] != expected


def test_temperature_zero_takes_the_likeliest_whatever_the_seed(ask: Ask) -> None:
    words = ["generate", "latest", "the ", "--tokens", "8", "--temperature", "0", "--json"]
    assert ask(*words, "--seed", "1").json["ids"] == ask(*words, "--seed", "2").json["ids"]
    assert ask(*words[:-2], "1", "--top-k", "1", "--json").json["ids"] == ask(*words).json["ids"]


def test_a_beam_finds_what_is_at_least_as_likely_as_greed(ask: Ask) -> None:
    greedy = ask("generate", "latest", "the ", "--tokens", "5", "--beam", "1", "--json").json["texts"][0]
    best, *others = ask("generate", "latest", "the ", "--tokens", "5", "--beam", "4", "--json").json["texts"]
    assert best["log_probability"] >= greedy["log_probability"]
    assert len(others) == 3
    assert (
        greedy["ids"] == ask("generate", "latest", "the ", "--tokens", "5", "--temperature", "0", "--json").json["ids"]
    )


def test_the_score_of_what_a_beam_found_is_the_same_by_another_way(ask: Ask) -> None:
    best = ask("generate", "latest", "t", "--tokens", "4", "--beam", "3", "--json").json["texts"][0]
    found = ask("score", "latest", "t" + best["text"], "--json").json
    if [token["id"] for token in found["tokens"]] == [116, *best["ids"]]:  # all of it was text
        assert found["total"] == pytest.approx(best["log_probability"], rel=1e-4)


def test_a_translator_writes_a_target_until_its_end(ask: Ask, models: dict[str, OpenModel]) -> None:
    answer = ask("generate", "translator", "ab", "--tokens", "6", "--json").json
    assert answer["temperature"] == 0
    ids, source = [256], torch.tensor([[97, 98, 257]])
    for _ in range(6):
        with torch.no_grad():
            ids.append(int(models["translator"].model(source, torch.tensor([ids]))[0, -1].argmax()))  # type: ignore[operator]
        if ids[-1] == 257:
            break
    assert answer["ids"] == [token for token in ids[1:] if token != 257]


def test_bert_fills_its_masks(ask: Ask, models: dict[str, OpenModel]) -> None:
    answer = ask("generate", "bert", "a[MASK]c[MASK]", "--json").json
    with torch.no_grad():
        p = models["bert"].model(torch.tensor([[256, 97, 258, 99, 258, 257]]))[0].softmax(-1)  # type: ignore[operator]
    assert [mask["position"] for mask in answer["masks"]] == [2, 4]
    for mask in answer["masks"]:
        best = p[mask["position"]].topk(5)
        assert [one["id"] for one in mask["candidates"]] == best.indices.tolist()
        assert mask["candidates"][0]["probability"] == pytest.approx(float(best.values[0]), rel=1e-5)
    said = ask("generate", "bert", "a[MASK]c")
    assert "mask 1" in said.out
    assert "write [MASK]" in ask("generate", "bert", "abc").refused


def test_halves_of_characters_wait_for_the_other_half(models: dict[str, OpenModel]) -> None:
    text = "aé日😀\nb"
    assert list(pieces(models["gpt"], (), text.encode())) == list(text)
    # Bytes that will never be a character do not hold up what comes after them.
    assert next(pieces(models["gpt"], (), b"\xff" * 9)) == "\ufffd" * 4
    assert "".join(pieces(models["gpt"], list(b"x"), b"\xffa\xe2\x82")) == "\ufffda\ufffd"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["latest", ""], "no token to go on from"),
        (["latest", "x", "--beam", "2", "--top-k", "3"], "--beam searches"),
        (["latest", "x", "--top-p", "0"], "--temperature 0"),
        (["latest", "x", "--top-p", "0"], "above 0 and at most 1"),
        (["latest", "x", "--top-p", "nan"], "nan"),
        (["latest", "x", "--top-p", "1.5"], "1.5"),
        (["latest", "x", "--tokens", "0"], "0"),
        (["nothing", "x"], "no run 'nothing'"),
    ],
)
def test_what_is_wrong_is_one_sentence(ask: Ask, words: list[str], part: str) -> None:
    assert part in ask("generate", *words).refused
