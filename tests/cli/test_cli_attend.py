"""`txlab attend`: patterns as the model has them, under interventions too, as text, JSON and pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from txlab.cli.interventions import Wishes, interventions
from txlab.engine.interpret.interventions import Edge, EditWeight, Erratum, Patch, ScaleBlock, ScaleHead
from txlab.engine.transformer.hooks import Hooks, keeping, together
from txlab.errors import LabError
from txlab.runs.models import OpenModel

Ask = Any
TEXT = "abcabc"
IDS = torch.tensor([list(TEXT.encode())])


def kept(model: OpenModel, *places: str, hooks: dict[str, Any] | None = None) -> dict[str, torch.Tensor]:
    """What is at places of the model while it reads TEXT, by its own forward."""
    keep, found = keeping(*places)
    with torch.no_grad():
        model.model(IDS, "matmul", hooks=together(Hooks(hooks or {}), keep))  # type: ignore[operator]
    return found


def test_a_head_has_the_pattern_that_the_forward_pass_has(ask: Ask, models: dict[str, OpenModel]) -> None:
    expected = kept(models["gpt"], "blocks.1.attention.pattern")["blocks.1.attention.pattern"][0, 2]
    for words in (["--head", "2.3"], ["--layer", "2", "--head", "3"]):
        answer = ask("attend", "gpt", TEXT, *words, "--json").json
        assert (answer["layer"], answer["head"], answer["mask"]) == (2, 3, "causal")
        assert np.allclose(answer["pattern"], expected, atol=1e-6)
        assert np.allclose(answer["row_sums"], 1, atol=1e-6)
    assert answer["rows"]["labels"] == list(TEXT)


def test_the_pattern_is_the_softmax_of_the_formula(ask: Ask, models: dict[str, OpenModel]) -> None:
    found = kept(models["gpt"], "blocks.0.attention.query", "blocks.0.attention.key")
    q, k = (found[f"blocks.0.attention.{name}"][0, 1].double() for name in ("query", "key"))
    scores = (q @ k.T / sqrt(q.shape[-1])).masked_fill(torch.ones(6, 6).triu(1) > 0, float("-inf"))
    answer = ask("attend", "gpt", TEXT, "--head", "1.2", "--json").json
    assert np.allclose(answer["pattern"], scores.softmax(-1), atol=1e-6)


def test_windows_leave_rows_as_they_are(ask: Ask, models: dict[str, OpenModel]) -> None:
    whole = np.array(ask("attend", "gpt", TEXT, "--head", "1.1", "--json").json["pattern"])
    part = ask("attend", "gpt", TEXT, "--head", "1.1", "--rows", "3:", "--columns", "1:3", "--json").json
    assert np.allclose(part["pattern"], whole[3:, 1:3], atol=1e-7)
    assert part["rows"]["start"] == 3
    without = ask("attend", "gpt", TEXT, "--head", "1.1", "--without-first", "--json").json
    assert np.allclose(without["row_sums"], whole[:, 1:].sum(-1), atol=1e-6)


def test_averages_and_rollout_are_those_of_their_definitions(ask: Ask, models: dict[str, OpenModel]) -> None:
    found = kept(models["gpt"], "blocks.*.attention.pattern")
    alpha = [found[f"blocks.{layer}.attention.pattern"][0].mean(0).double() for layer in (0, 1)]
    one = ask("attend", "gpt", TEXT, "--average", "--layer", "1", "--json").json["pattern"]
    all_layers = ask("attend", "gpt", TEXT, "--average", "--json").json["pattern"]
    rolled = ask("attend", "gpt", TEXT, "--rollout", "--json").json["pattern"]
    eye = torch.eye(6, dtype=torch.float64)
    assert np.allclose(one, alpha[0], atol=1e-6)
    assert np.allclose(all_layers, (alpha[0] + alpha[1]) / 2, atol=1e-6)
    assert np.allclose(rolled, (alpha[1] + eye) / 2 @ (alpha[0] + eye) / 2, atol=1e-6)


def test_without_a_head_there_is_a_table_of_all_with_their_scores(ask: Ask, models: dict[str, OpenModel]) -> None:
    answer = ask("attend", "gpt", TEXT, "--json").json
    assert [head["name"] for head in answer["heads"]] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]
    alpha = kept(models["gpt"], "blocks.1.attention.pattern")["blocks.1.attention.pattern"][0, 0]
    assert answer["heads"][3]["previous"] == pytest.approx(float(alpha.diagonal(-1).mean()), abs=1e-6)
    # The token of rows 3, 4, 5 came before at 0, 1, 2; what followed it there is at 1, 2, 3.
    induction = float(alpha[[3, 4, 5], [1, 2, 3]].mean())
    assert answer["heads"][3]["induction"] == pytest.approx(induction, abs=1e-6)
    said = ask("attend", "gpt", TEXT)
    assert said.out.splitlines()[0].split() == ["head", "previous", "induction", "duplicate", "first", "looks", "at"]
    assert "no token occurs twice" in ask("attend", "gpt", "abc").out
    assert "tokens of this text repeat only immediately" in ask("attend", "gpt", "aabcc").out


def test_a_head_that_is_off_adds_nothing_and_the_effect_says_what_moved(ask: Ask, models: dict[str, OpenModel]) -> None:
    def zero(name: str, value: torch.Tensor) -> torch.Tensor:
        value = value.clone()
        value[:, 1] = 0
        return value

    model = models["gpt"]
    before = kept(model, "logits")["logits"][0, -1].double().log_softmax(-1)
    after = kept(model, "logits", hooks={"blocks.0.attention.heads": zero})["logits"][0, -1].double().log_softmax(-1)
    expected = float((before.exp() * (before - after)).sum())
    answer = ask("attend", "gpt", TEXT, "--head", "2.1", "--off", "1.2", "--json").json
    assert answer["effect"]["kl"] == pytest.approx(expected, rel=1e-4)
    moved = answer["effect"]["moved"][0]
    change = (after.exp() - before.exp()).abs()
    assert (moved["id"], abs(moved["change"])) == (int(change.argmax()), pytest.approx(float(change.max()), rel=1e-3))
    assert answer["interventions"] == [{"kind": "scale-head", "site": "self", "layer": 0, "head": 1, "factor": 0.0}]
    said = ask("attend", "gpt", TEXT, "--off", "1.2").out
    assert "head 1.2 is switched off" in said
    assert "KL(before ‖ after) = " in said


def test_a_cut_edge_has_no_weight_and_an_allowed_one_may_look_ahead(ask: Ask, models: dict[str, OpenModel]) -> None:
    words = ["attend", "gpt", TEXT, "--head", "1.1", "--json"]
    cut = np.array(ask(*words, "--cut", "1.1:4,2").json["pattern"])
    assert cut[4, 2] == 0
    assert cut[4].sum() == pytest.approx(1, abs=1e-6)
    ahead = np.array(ask(*words, "--allow", "1:2>5").json["pattern"])
    assert ahead[2, 5] > 0
    assert ahead[1, 5] == 0


def test_a_patch_from_the_same_text_changes_nothing_and_all_of_another_everything(
    ask: Ask, models: dict[str, OpenModel]
) -> None:
    words = ["attend", "gpt", TEXT, "--json", "--patch", "blocks.0.resid_post"]
    assert ask(*words, "--second", TEXT).json["effect"]["kl"] == pytest.approx(0, abs=1e-9)
    moved = ask(*words, "--second", "xyzxyz").json["effect"]["moved"][0]
    with torch.no_grad():
        p = models["gpt"].model(torch.tensor([list(b"xyzxyz")]))[0, -1].softmax(-1)  # type: ignore[operator]
    assert moved["after"] == pytest.approx(float(p[moved["id"]]), rel=1e-4)


def test_a_translator_shows_what_it_writes_and_three_kinds_of_attention(ask: Ask, models: dict[str, OpenModel]) -> None:
    answer = ask("attend", "translator", "ab", "--head", "1.1", "--json").json
    assert (answer["site"], answer["target"]["written"]) == ("cross", True)
    assert answer["columns"]["labels"] == ["a", "b", "[SEP]"]
    assert answer["rows"]["labels"] == answer["target"]["labels"]
    for site, count in (("encoder", 3), ("decoder", 4), ("cross", 4)):
        words = ["attend", "translator", "ab", "--target", "xyz", "--site", site, "--head", "2.1", "--json"]
        found = ask(*words).json
        assert len(found["pattern"]) == count
        assert np.allclose(found["row_sums"], 1, atol=1e-6)
    assert ask("attend", "translator", "ab", "--head", "decoder:2.1", "--json").json["site"] == "decoder"
    assert "target, as the model writes it" in ask("attend", "translator", "ab").out


def test_bert_looks_both_ways_and_its_mask_is_where_effects_are_measured(
    ask: Ask, models: dict[str, OpenModel]
) -> None:
    answer = ask("attend", "bert", "a[MASK]c", "--head", "1.1", "--off", "2.2", "--json").json
    assert (answer["mask"], answer["effect"]["position"]) == ("none", 2)
    assert np.count_nonzero(answer["pattern"]) == 25


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures_need_no_display(ask: Ask, models: dict[str, OpenModel], tmp_path: Path, suffix: str) -> None:
    for name, words in (("head", ["--head", "1.1"]), ("all", [])):
        out = tmp_path / f"{name}{suffix}"
        assert ask("attend", "gpt", "a$x$\n", *words, "--out", str(out)).out == f"{out}\n"
        start = {".png": b"\x89PNG", ".svg": b"<?xml"}[suffix]
        assert out.read_bytes().startswith(start)


def test_the_terminal_gets_the_pattern_in_the_room_it_has(ask: Ask, models: dict[str, OpenModel]) -> None:
    for columns in (40, 80, 120):
        lines = ask("attend", "gpt", "abcabcabcabcabcabcabcabc", "--head", "1.1", columns=columns).out.splitlines()
        assert max(map(len, lines[:27])) < columns
    assert "strongest: a → a 1.00" in ask("attend", "gpt", TEXT, "--head", "1.1").out


def test_a_text_can_say_nothing_to_the_terminal(ask: Ask, models: dict[str, OpenModel]) -> None:
    assert "␛" in ask("attend", "gpt", "a\x1b[31m", "--head", "1.1").out  # `ask` sees to it that no escape comes out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--head", "3.1"], "no layer 3; allowed: 1 to 2"),
        (["--head", "2.9"], "no head 9; allowed: 1 to 3"),
        (["--head", "0.1"], "counted from 1"),
        (["--head", "x"], "for example --head 2.3"),
        (["--head", "2"], "needs --layer"),
        (["--layer", "1"], "alone is not a pattern"),
        (["--head", "1.1", "--layer", "2"], "not in --layer 2"),
        (["--site", "cros"], "nearest: cross"),
        (["--site", "cross"], "no attention called 'cross'"),
        (["--average", "--rollout"], "two pictures"),
        (["--head", "1.1", "--rows", "7:"], "empty here"),
        (["--head", "1.1", "--rows", "x"], "is not a range"),
        (["--rows", "1:2"], "for one pattern"),
        (["--out", "x.gif"], "neither .png nor .svg"),
        (["--off", "2.attn"], "nearest: attention"),
        (["--off", "9.9"], "no layer 9; allowed"),
        (["--scale", "1.1"], "by how much"),
        (["--scale", "1.1=nan"], "not a number"),
        (["--cut", "1.1"], "names no edge"),
        (["--cut", "1.1:9,1"], "outside"),
        (["--patch", "blocks.0.resid_post:1"], "second text"),
        (["--patch", "blocks.0.leaves:1", "--second", "abc"], "no place 'blocks.0.leaves'"),
        (["--second", "abc"], "no --patch"),
        (["--edit", "embed.weight"], "names no number"),
        (["--edit", "embed.weight[1]=2"], "is not a place in it"),
        (["--erratum", "scaled"], "nearest: scaled-output"),
        (["--off", "1.1", "--position", "6"], "0 to 5"),
        (["--target", "x"], "not an encoder–decoder"),
    ],
)
def test_a_mistake_is_a_readable_error(ask: Ask, models: dict[str, OpenModel], words: list[str], part: str) -> None:
    assert part in ask("attend", "gpt", TEXT, *words).refused


def test_a_text_that_is_too_long_or_empty_is_a_readable_error(ask: Ask, models: dict[str, OpenModel]) -> None:
    assert "at most 24" in ask("attend", "gpt", "a" * 25).refused
    assert "no tokens" in ask("attend", "gpt", "").refused


def test_words_become_the_interventions_that_they_say() -> None:
    wishes = Wishes(
        off=["2.3", "cross:1.1", "2.feed_forward"],
        scale=["1.1=-.5"],
        cut=["2.3:5,1", "2:5>1", "5->1", "encoder:2.3:5→1"],
        allow=["0,3"],
        patch=["blocks.1.resid_post:5=4", "blocks.0.attention.heads#3:-1", "embedding"],
        edit=["embed.weight[5, -1]=1e-3"],
        erratum=["scaled-output"],
        second="x",
    )
    assert interventions(wishes, "self") == [
        ScaleHead("self", 1, 2, 0.0),
        ScaleHead("cross", 0, 0, 0.0),
        ScaleBlock("self", 1, "feed_forward", 0.0),
        ScaleHead("self", 0, 0, -0.5),
        Edge("self", 1, 2, 5, 1),
        Edge("self", 1, None, 5, 1),
        Edge("self", None, None, 5, 1),
        Edge("encoder", 1, 2, 5, 1),
        Edge("self", None, None, 0, 3, allowed=True),
        Patch("blocks.1.resid_post", 5, 4),
        Patch("blocks.0.attention.heads", -1, None, 2),
        Patch("embedding", None),
        EditWeight("embed.weight", (5, -1), 1e-3),
        Erratum("scaled-output"),
    ]
    with pytest.raises(LabError, match="nearest: cross"):
        interventions(Wishes(off=["cros:1.1"]), "self")


def test_it_works_at_the_end_of_a_pipe(tiny_run: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "txlab", "attend", str(tiny_run), "--head", "1.1"],
        input=b"the cat",
        capture_output=True,
        check=False,
        env=os.environ | {"TERM": "xterm-256color"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout
    assert b"strongest" in done.stdout
