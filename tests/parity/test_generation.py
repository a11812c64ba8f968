"""What is written under the same settings is what transformers writes: beams, rules, ends, samples (MATH T8, T9)."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from random_models import randomised, saved, transformers

from txlab.cli.generate import draw_ids, manner
from txlab.engine.transformer.beam import beam_search
from txlab.engine.transformer.generation import Rules, generate, generate_target, next_probabilities
from txlab.engine.transformer.scoring import score_target, score_text
from txlab.engine.transformer.weights import load_model
from txlab.runs.models import open_model

PAD, END, V, NEW = 22, 0, 23, 7
SOURCES = [[3, 1, 4, 1, 5], [9, 2, 6], [8]]
KINDS = ["marian", "gpt2"]


@cache
def pair(kind: str, seed: int, folder: Path) -> tuple[Any, Any]:
    """Their model in eval mode, and ours, read from a folder; weights large enough that ends come often."""
    if kind == "marian":
        sizes = dict.fromkeys(["encoder_layers", "decoder_layers"], 1) | dict.fromkeys(
            ["encoder_attention_heads", "decoder_attention_heads"], 2
        )
        theirs = transformers.MarianMTModel(
            transformers.MarianConfig(
                vocab_size=V, d_model=8, encoder_ffn_dim=12, decoder_ffn_dim=12, max_position_embeddings=32,
                pad_token_id=PAD, decoder_start_token_id=PAD, eos_token_id=END, forced_eos_token_id=None, **sizes,
            )
        )  # fmt: skip
    else:
        theirs = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=V, n_embd=8, n_layer=1, n_head=2, n_positions=32, eos_token_id=END, pad_token_id=PAD
            )
        )
    theirs = randomised(theirs, torch.float32, seed)
    with torch.no_grad():
        for name, tensor in theirs.named_parameters():
            if name.endswith(("shared.weight", "wte.weight")):
                tensor.mul_(6.0)
    return theirs, load_model(saved(theirs, folder / f"{kind}-{seed}")).model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("generation")


def theirs_of(model: Any, given: list[int], **how: Any) -> tuple[list[list[int]], list[float]]:
    """What their `generate` writes, without prompt or start and without padding behind the end, and its scores."""
    beams = how.get("num_beams", 1)
    with torch.no_grad():
        found = model.generate(
            torch.tensor([given]), max_new_tokens=NEW, return_dict_in_generate=True, output_scores=True,
            num_return_sequences=beams, **how,
        )  # fmt: skip
    start = 1 if model.config.is_encoder_decoder else len(given)
    rows = [row[start:] for row in found.sequences.tolist()]
    ends = how.get("eos_token_id", [END])
    stops = [next((at for at, token in enumerate(row) if token in ends), len(row) - 1) for row in rows]
    scores = found.sequences_scores.tolist() if beams > 1 else []
    return [row[: stop + 1] for row, stop in zip(rows, stops, strict=True)], scores


def own_score(model: Any, given: list[int], written: list[int]) -> float:
    """Σ log p of what was written, by reading everything at once."""
    if hasattr(model, "encode"):
        return score_target(model, given, [PAD, *written]).total
    tokens = score_text(model, [*given, *written], 0).tokens
    return sum(token.logp for token in tokens[len(given) :])


SEARCHES = [
    {},
    {"repetition_penalty": 1.7},
    {"bad_words_ids": [[PAD], [5], [7, 3]], "renormalize_logits": True},
    {"suppress_tokens": [PAD, 2, 8], "begin_suppress_tokens": [END, 4, 9, 12, 15]},
    {"forced_eos_token_id": END},
    {"eos_token_id": [END, 11, 17]},
]
RULES = [
    Rules(),
    Rules(repetition=1.7),
    Rules(never=(PAD, 5), never_rows=((7, 3),), renormalised=True),
    Rules(never=(PAD, 2, 8), never_first=(END, 4, 9, 12, 15)),
    Rules(last=(END,)),
    Rules(),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("how", "rules"), [*zip(SEARCHES, RULES, strict=True)], ids=[" ".join(how) for how in SEARCHES]
)
def test_beams_find_the_hypotheses_of_transformers_with_the_model_s_own_log_probability(
    kind: str, how: dict[str, Any], rules: Rules, folder: Path
) -> None:
    """Every hypothesis in its order, and its score; the log-probability is the model's own, whatever the rules."""
    lengths, ends = set(), how.get("eos_token_id", [END])
    for seed in range(3):
        model, ours = pair(kind, seed, folder)
        for beams, alpha, early in [
            (2, 0.0, True), (3, 1.0, False), (3, 1.0, True), (4, 2.0, "never"), (3, -1.0, "never"), (5, 0.0, False),
        ]:  # fmt: skip
            given = SOURCES[seed]
            found = beam_search(
                ours, given, NEW, beams=beams, end=ends, start=PAD if kind == "marian" else None, alpha=alpha,
                penalty="power", early_stopping=early, rules=rules,
            )  # fmt: skip
            texts, scores = theirs_of(model, given, num_beams=beams, length_penalty=alpha, early_stopping=early, **how)
            assert [one.ids for one in found] == texts
            assert [one.score for one in found] == pytest.approx(scores, abs=1e-4)
            assert [one.logp for one in found] == pytest.approx(
                [own_score(ours, given, one.ids) for one in found], abs=1e-4
            )
            lengths |= {len(text) for text in texts}
    assert len(lengths) > 1 or "forced" in str(how)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("how", "rules"), [*zip(SEARCHES, RULES, strict=True)], ids=[" ".join(how) for how in SEARCHES]
)
def test_greedy_text_under_rules_is_that_of_transformers(
    kind: str, how: dict[str, Any], rules: Rules, folder: Path
) -> None:
    ends = how.get("eos_token_id", [END])
    changed = 0
    for seed in range(4):
        model, ours = pair(kind, seed, folder)
        for given in SOURCES:
            plain: dict[str, Any] = {"end": END}
            written = []
            for settings in ({"end": ends, "rules": rules}, plain):
                if kind == "marian":
                    written += generate_target(ours, [given], NEW, start=PAD, **settings)
                else:
                    written.append(list(generate(ours, given, NEW, generator=None, temperature=0, **settings)))
            assert [written[0]] == theirs_of(model, given, do_sample=False, **how)[0]
            changed += written[0] != written[1]
    assert changed or not how


FILES = [
    {"num_beams": 4, "max_length": 9, "bad_words_ids": [[PAD]], "renormalize_logits": True, "forced_eos_token_id": END},
    {"num_beams": 3, "max_new_tokens": 6, "length_penalty": 0.5, "early_stopping": "never"},
    {"repetition_penalty": 1.9, "max_length": 11, "eos_token_id": [END, 11, 17], "do_sample": False},
    {"max_new_tokens": 6, "suppress_tokens": [PAD, 2, 8], "do_sample": False, "temperature": 0.2},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", FILES, ids=lambda content: next(iter(content)))
@pytest.mark.parametrize("where", ["generation_config.json", "config.json"])
def test_a_folder_writes_here_what_it_writes_there(
    kind: str, content: dict[str, Any], where: str, folder: Path, tmp_path: Path
) -> None:
    """Nothing is asked for, on either side: length, ends, beams and rules are those of the folder."""
    for seed in range(2):
        theirs, _ = pair(kind, seed, folder)
        place = saved(theirs, tmp_path / str(seed))
        said = json.loads((place / "generation_config.json").read_text()) | content
        (place / "generation_config.json").unlink()
        if where == "config.json":
            said |= json.loads((place / where).read_text()) | content
        (place / where).write_text(json.dumps(said))
        theirs = type(theirs).from_pretrained(place).eval()
        model = open_model(str(place))
        for given in SOURCES:
            with torch.no_grad():
                wanted = theirs.generate(torch.tensor([given]))[0, 1 if kind == "marian" else len(given) :].tolist()
            how = manner(model, {}, len(given))
            if how.beams:
                start = PAD if kind == "marian" else None
                found = beam_search(
                    model.model, given, how.tokens, beams=how.beams, end=model.special.stops, start=start,
                    rules=how.rules, **how.searching,
                )[0].ids  # fmt: skip
            else:
                found = list(draw_ids(model, given, how, 0))
            while len(wanted) > len(found) and wanted[-1] == PAD:
                wanted.pop()
            assert found == wanted


@pytest.mark.parametrize("forced", [END, 6])
def test_a_forced_first_token_is_the_first_after_the_start(forced: int, folder: Path) -> None:
    how = {"forced_bos_token_id": forced, "begin_suppress_tokens": [3, 5, 9]}
    rules = Rules(first=forced, never_first=(3, 5, 9))
    for seed in range(4):
        model, ours = pair("marian", seed, folder)
        for given in SOURCES:
            written = generate_target(ours, [given], NEW, start=PAD, end=END, rules=rules)
            assert written == theirs_of(model, given, do_sample=False, **how)[0]
            assert written[0][0] == forced


@pytest.mark.parametrize(
    "how",
    [
        {"temperature": 0.7},
        {"top_k": 5},
        {"top_p": 0.6},
        {"temperature": 1.3, "top_k": 6, "top_p": 0.5},
        {"top_k": 3, "top_p": 0.9},
        {"top_p": 0.0},
        {"temperature": 0.8, "top_k": 4, "repetition_penalty": 1.5},
    ],
    ids=str,
)
def test_the_distribution_that_is_drawn_from_is_that_of_transformers(how: dict[str, Any], folder: Path) -> None:
    model, ours = pair("gpt2", 1, folder)
    given = SOURCES[0]
    with torch.no_grad():
        torch.manual_seed(0)
        found = model.generate(
            torch.tensor([given]), max_new_tokens=1, do_sample=True, return_dict_in_generate=True, output_scores=True,
            **({"top_k": 0} | how),
        )  # fmt: skip
        logits = ours(torch.tensor([given]))[:, -1]
    cut = dict(how)
    ruled = Rules(repetition=cut.pop("repetition_penalty", 1.0))(logits, [given], 0, 1)
    torch.testing.assert_close(next_probabilities(ruled, **cut), found.scores[0].softmax(-1), atol=2e-6, rtol=0)
