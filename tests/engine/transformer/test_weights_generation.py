"""generation_config.json is read, believed within bounds, and what is not computed is listed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from txlab.engine.transformer.generation import Rules
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights import load_model, save_model
from txlab.engine.transformer.weights.generation_configs import generation_of
from txlab.errors import LabError

FILE = "generation_config.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(GPT(GPTShape(1, 1, 4, 8, 11)), None, tmp_path / "model", special={"end": 3})
    return tmp_path / "model"


def written(folder: Path, content: Any) -> Path:
    (folder / FILE).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_all_ids_that_end_a_text_are_read_from_either_file(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": [3, 7, 50256]}))
    assert load_model(folder).generation.ends == (3, 7)  # an id beyond the vocabulary never comes
    loaded = load_model(written(folder, {"eos_token_id": [5, 2], "pad_token_id": 9}))
    assert loaded.generation.ends == (5, 2)
    assert loaded.special == {"end": 5, "pad": 9}


def test_without_the_file_the_same_keys_count_in_the_other(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_beams": 6, "bad_words_ids": [[4]], "min_length": 2}))
    found = load_model(folder).generation
    assert found.file == "config.json"
    assert found.given == {"num_beams": 6, "length_penalty": 1.0, "early_stopping": False, "bad_words_ids": [[4]]}
    assert found.rules == Rules(never=(4,))
    assert found.unknown == {"min_length": 2}
    assert load_model(written(folder, {})).generation.given == {}  # which then says nothing of it


def test_rules_are_read_and_ids_beyond_the_vocabulary_left_out() -> None:
    found = generation_of(
        {
            "repetition_penalty": 1.3,
            "bad_words_ids": [[4], [3], [2, 5], [99]],
            "suppress_tokens": [6, 99],
            "begin_suppress_tokens": [7],
            "forced_bos_token_id": 1,
            "forced_eos_token_id": [3, 2],
            "renormalize_logits": True,
            "eos_token_id": 3,
        },
        FILE,
        11,
    )
    # An end is never forbidden as a bad word, as in transformers.
    assert found.rules == Rules((4, 6), (7,), ((2, 5),), 1, (3, 2), 1.3, True)


def test_what_changes_nothing_is_not_spoken_of() -> None:
    silent = {"transformers_version": "5.0", "use_cache": True, "num_return_sequences": 3, "_from_model_config": True}
    idle = {"no_repeat_ngram_size": 0, "typical_p": 1.0, "num_beams": 1, "repetition_penalty": 1.0, "min_p": None}
    found = generation_of({**silent, **idle, "bad_words_ids": None, "sequence_bias": []}, FILE, 11)
    assert (found.given, found.unknown) == ({}, {})
    found = generation_of({"no_repeat_ngram_size": 3, "something_new": "x", "do_sample": True}, FILE, 11)
    assert found.given == {"do_sample": True, "temperature": 1.0, "top_k": 50}
    assert found.unknown == {"no_repeat_ngram_size": 3, "something_new": "x"}


def test_lengths_count_the_prompt_or_do_not() -> None:
    assert generation_of({"max_length": 20}, FILE, 11).most(5) == 15
    assert generation_of({"max_length": 4}, FILE, 11).most(5) == 1
    assert generation_of({"max_length": 20, "max_new_tokens": 7}, FILE, 11).most(5) == 7
    assert generation_of({}, FILE, 11).most(5) is None


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("[]", "must be an object"),
        ("{", "it is not JSON"),
        ({"temperature": 0}, "temperature = 0; allowed: from 1e-06"),
        ({"top_p": 1.5}, "top_p = 1.5; allowed: from 0 to 1"),
        ({"top_k": -1}, "top_k = -1; allowed: whole numbers from 0"),
        ({"num_beams": "4"}, "num_beams = '4'"),
        ({"num_beams": 33}, "num_beams = 33"),  # the memory of a search grows with its beams
        ({"repetition_penalty": -2}, "repetition_penalty = -2"),
        ({"early_stopping": "soon"}, "early_stopping = 'soon'; allowed: true, false, \"never\""),
        ({"bad_words_ids": [4]}, "bad_words_ids = [4]; allowed: rows of ids"),
        ({"bad_words_ids": [[]]}, "bad_words_ids = [[]]"),
        ({"suppress_tokens": ["a"]}, "suppress_tokens = ['a']"),
        ({"forced_eos_token_id": 11}, "forced_eos_token_id = 11; allowed: ids from 0 to 10"),
        ({"length_penalty": 1000}, "length_penalty = 1000; allowed: from -100 to 100"),
        ({"eos_token_id": "end"}, "eos_token_id = 'end'; allowed: ids"),
        ({"pad_token_id": 1.5}, "pad_token_id = 1.5"),
        ({"max_length": 0}, "max_length = 0"),
        ({"do_sample": 1}, "do_sample = 1; allowed: true, false"),
    ],
    ids=str,
)
def test_an_impossible_setting_is_an_error_only_for_commands_that_need_it(
    folder: Path, content: Any, part: str
) -> None:
    found = load_model(written(folder, content)).generation
    assert found.given == {}
    ((key, said),) = found.refused.items()
    assert part in said
    assert FILE in said
    assert "\n" not in said
    assert key in (content if isinstance(content, dict) else [""])
    with pytest.raises(LabError, match="^" + re.escape(said)):
        found.needs([key])
    assert found.unknown == ({key: content[key]} if key else {})


def test_an_id_that_no_token_has_ends_and_forbids_nothing(folder: Path) -> None:
    found = load_model(written(folder, {"eos_token_id": [-1, 3], "pad_token_id": -1, "suppress_tokens": [-1, 2]}))
    assert found.generation.refused == {}
    assert found.generation.ends == (3,)
    assert found.generation.rules == Rules(never=(2,))
    assert found.special == {"end": 3}


def test_a_penalty_on_repetitions_lowers_every_score() -> None:
    """Keskar et al. 2019 divide; what is negative must be multiplied, or it would rise."""
    scores = torch.tensor([[2.0, -1.0, 4.0, 0.0]])
    found = Rules(repetition=2.0)(scores, [[0, 1, 1, 3]], 0, 9)
    assert found.tolist() == [[1.0, -2.0, 4.0, 0.0]]
    assert scores.tolist() == [[2.0, -1.0, 4.0, 0.0]]
