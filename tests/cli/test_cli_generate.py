"""`txlab generate`: what is printed is what the model writes, whatever the model, and as it is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from txlab.cli.generate import TOKENS, pieces
from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights import save_model
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
        (["latest", ""], "no token to continue from"),
        (["latest", "x", "--beam", "2", "--top-k", "3"], "--beam searches"),
        (["latest", "x", "--top-p", "0"], "--temperature 0"),
        (["latest", "x", "--top-p", "0"], "above 0 and at most 1"),
        (["latest", "x", "--top-p", "nan"], "nan"),
        (["latest", "x", "--top-p", "1.5"], "1.5"),
        (["latest", "x", "--tokens", "0"], "0"),
        (["nothing", "x"], "no run 'nothing'"),
    ],
)
def test_a_mistake_is_a_readable_error(ask: Ask, words: list[str], part: str) -> None:
    assert part in ask("generate", *words).refused


# What a folder says


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A GPT in the form of others, whose texts are rows of ids."""
    model = GPT(GPTShape(1, 2, 8, 24, 11)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.7, generator=torch.Generator().manual_seed(parameter.numel()))
    save_model(model, None, tmp_path / "theirs", special={"end": 3})
    return tmp_path / "theirs"


def says(folder: Path, **content: Any) -> str:
    (folder / "generation_config.json").write_text(json.dumps(content))
    return str(folder)


def test_each_of_a_folder_s_ends_ends_a_text(ask: Ask, folder: Path) -> None:
    words = ["1 2", "--tokens", "12", "--temperature", "0", "--json"]
    free = ask("generate", says(folder, eos_token_id=None), *words).json["ids"]
    ends = [free[5], free[3]]
    stop = min(free.index(end) for end in ends)
    assert ask("generate", says(folder, eos_token_id=ends), *words).json["ids"] == free[:stop]
    best = ask("generate", str(folder), "1 2", "--beam", "4", "--tokens", "6", "--json").json["texts"]
    assert not any(set(ends) & set(one["ids"]) for one in best)


def test_what_a_folder_says_is_applied_and_said_and_what_is_asked_for_wins(ask: Ask, folder: Path) -> None:
    name = says(
        folder, do_sample=True, temperature=0.5, top_p=0.9, repetition_penalty=1.4, max_new_tokens=7, min_length=2
    )
    answer = ask("generate", name, "1 2", "--json").json
    assert (answer["temperature"], answer["top_k"], answer["top_p"]) == (0.5, 50, 0.9)
    assert answer["repetition_penalty"] == 1.4
    assert len(answer["ids"]) <= 7
    applied = {"do_sample": True, "temperature": 0.5, "top_k": 50, "top_p": 0.9}
    applied |= {"max_new_tokens": 7, "repetition_penalty": 1.4}
    said = {"file": "generation_config.json", "applied": applied, "ignored": {"min_length": 2}}
    assert answer["from_file"] == said
    line = ask("generate", name, "1 2")
    assert line.error == (
        "generation_config.json: applied max_new_tokens = 7, do_sample = true, temperature = 0.5, top_k = 50, "
        "top_p = 0.9, repetition_penalty = 1.4; ignored min_length = 2\n"
    )
    asked = ["--temperature", "0", "--tokens", "3", "--repetition-penalty", "1"]
    answer = ask("generate", name, "1 2", *asked, "--json").json
    assert answer["from_file"]["applied"] == {}
    plain = ask("generate", says(folder), "1 2", "--temperature", "0", "--tokens", "3", "--json").json
    assert answer["ids"] == plain["ids"]
    assert "from_file" not in plain
    assert ask("generate", str(folder), "1 2").error == ""


def test_a_folder_that_asks_for_a_text_without_end_is_given_what_its_model_reads(ask: Ask, folder: Path) -> None:
    name = says(folder, max_new_tokens=1 << 30, suppress_tokens=[3])  # 3 would end the text
    answer = ask("generate", name, "1 2", "--json").json
    assert len(answer["ids"]) == TOKENS  # the model reads 11 tokens
    assert "at most 100 tokens without --tokens" in ask("generate", name, "1 2").error
    assert len(ask("generate", name, "1 2", "--tokens", "120", "--json").json["ids"]) == 120


def test_a_folder_s_beams_write_one_text_and_those_asked_for_all(ask: Ask, folder: Path) -> None:
    name = says(folder, num_beams=4, length_penalty=0.0, max_new_tokens=5, temperature=0.7, do_sample=True)
    one = ask("generate", name, "1 2", "--json").json
    assert one["from_file"]["ignored"] == {"do_sample": True, "temperature": 0.7, "top_k": 50}
    every = ask("generate", name, "1 2", "--beam", "4", "--json").json
    assert (one["beams"], one["ids"], one["text"]) == (4, every["texts"][0]["ids"], every["texts"][0]["text"])
    assert len(every["texts"]) == 4
    assert ask("generate", name, "1 2").out.strip() == f"1 2 {one['text'].strip()}"
    drawn = ask("generate", name, "1 2", "--top-k", "3", "--json").json
    assert (drawn["temperature"], drawn["top_k"]) == (0.7, 3)
    assert set(drawn["from_file"]["ignored"]) == {"num_beams", "length_penalty", "early_stopping"}
    long, short = (
        ask("generate", name, "1 2", "--beam", "3", "--length-penalty", a, "--json").json["texts"][0]
        for a in ("3", "-3")
    )
    assert len(long["ids"]) >= len(short["ids"])
    assert long["score"] == pytest.approx(long["log_probability"] / len(long["ids"]) ** 3, rel=1e-5)


def test_the_log_probability_of_a_search_is_the_model_s_own(ask: Ask, folder: Path) -> None:
    """Whatever was forbidden on the way: `score` gives the same number."""
    name = says(folder, eos_token_id=None, suppress_tokens=[1, 4, 6], renormalize_logits=True, num_beams=3)
    for one in ask("generate", name, "1 2", "--beam", "3", "--tokens", "5", "--json").json["texts"]:
        assert not {1, 4, 6} & set(one["ids"])
        tokens = ask("score", name, "1 2 " + " ".join(map(str, one["ids"])), "--json").json["tokens"]
        own = sum(token["log_probability"] for token in tokens[2:])
        assert one["log_probability"] == pytest.approx(own, rel=1e-5)
        assert one["score"] > one["log_probability"] / 5


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--repetition-penalty", "0"], "--repetition-penalty 0 is not allowed"),
        (["--length-penalty", "nan"], "--length-penalty nan is not allowed"),
    ],
)
def test_penalties_have_bounds(ask: Ask, folder: Path, words: list[str], part: str) -> None:
    assert part in ask("generate", str(folder), "1 2", *words).refused


IDLE = {
    "pad_token_id": -1, "eos_token_id": -1, "bos_token_id": "x", "temperature": 0.0, "top_p": 7, "do_sample": False,
    "length_penalty": 1000, "early_stopping": "soon",
}  # fmt: skip


def test_settings_unused_by_a_command_do_not_make_it_refuse_a_folder(ask: Ask, folder: Path) -> None:
    words = ["1 2", "--tokens", "6", "--json"]
    greedy = ask("generate", says(folder, eos_token_id=None, do_sample=False), *words).json["ids"]
    name = says(folder, **IDLE)
    answer = ask("generate", name, *words).json
    assert answer["ids"] == greedy
    assert answer["from_file"]["ignored"] == {key: IDLE[key] for key in sorted(IDLE) if key in (
        "bos_token_id", "temperature", "top_p", "length_penalty", "early_stopping"
    )}  # fmt: skip
    assert ask("score", name, "1 2 3", "--json").json["scored"] == 2
    assert ask("attend", name, "1 2 3", "--json").json["text"]["ids"] == [1, 2, 3]
    (folder / "generation_config.json").write_text("{")
    assert ask("score", name, "1 2 3", "--json").json["scored"] == 2
    assert "is not JSON" in ask("generate", name, *words).refused


def test_a_setting_that_generating_needs_is_refused_with_an_error(ask: Ask, folder: Path) -> None:
    words = ["1 2", "--tokens", "4", "--json"]
    name = says(folder, **IDLE)
    assert "early_stopping = 'soon'" in ask("generate", name, *words, "--beam", "2", "--length-penalty", "1").refused
    name = says(folder, length_penalty=1000)
    assert "length_penalty = 1000; allowed: from -100 to 100" in ask("generate", name, *words, "--beam", "2").refused
    assert ask("generate", name, *words, "--beam", "2", "--length-penalty", "1").json["texts"]
    name = says(folder, do_sample=True, temperature=0.0)
    assert "temperature = 0.0; allowed: from 1e-06" in ask("generate", name, *words).refused
    assert len(ask("generate", name, *words, "--temperature", "1").json["ids"]) <= 4
    assert len(ask("generate", name, *words, "--beam", "2").json["texts"]) == 2
    name = says(folder, repetition_penalty=-2, num_beams="4")
    assert "repetition_penalty = -2" in ask("generate", name, *words).refused


def test_with_an_intervention_the_text_is_written_without_and_with_it(ask: Ask, tiny_run: Path) -> None:
    """Without: as always. With a head scaled: as by a model whose output weights of that head are scaled."""
    words = ["generate", "latest", "the ", "--tokens", "12", "--temperature", "0"]
    answer = ask(*words, "--scale", "1.2=1e6", "--json").json
    assert answer["without"]["ids"] == ask(*words, "--json").json["ids"]
    model = open_model(str(tiny_run)).model
    assert isinstance(model, GPT)
    width = model.shape.head_width
    with torch.no_grad():
        model.blocks[0].attention.out_proj.weight[:, width : 2 * width] *= 1e6
    expected = list(generate(model, list(b"the "), 12, generator=None, temperature=0.0))
    assert answer["with"]["ids"] == expected
    assert answer["with"]["ids"] != answer["without"]["ids"]
    parts = answer["parts_at"]
    assert answer["with"]["ids"][:parts] == answer["without"]["ids"][:parts]
    out = ask(*words, "--scale", "1.2=1e6").out
    assert f"what head 1.2 adds counts 1e+06 times\nthe texts part at token {parts + 1}\n" in out
    assert out.index("without") < out.index(answer["without"]["text"]) < out.rindex("\nwith\n")
    assert "the texts are the same" in ask(*words, "--scale", "1.2=1").out


def test_interventions_are_refused_where_nothing_is_written_token_by_token(ask: Ask) -> None:
    assert "token by token" in ask("generate", "latest", "the ", "--off", "1.1", "--beam", "2").error
