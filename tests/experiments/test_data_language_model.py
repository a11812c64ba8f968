"""Batches are pure functions of (seed, step); what is scored is what the text says."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from txlab.engine.tokenizers.training import count_chunks, train_merges, train_tokenizer
from txlab.errors import LabError
from txlab.experiments.kinds.language_model import data as data_module
from txlab.experiments.kinds.language_model.data import CorpusData, build_data, spread, validation_text
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.kinds.language_model.symbols import InductionData, alphabet
from txlab.experiments.learning.text_data import NOT_SCORED
from txlab.experiments.tokenizer_store import learn_tokenizer


def scenario(data=None, model=None, train=None, seed: int = 1, **other) -> LanguageModelScenario:  # type: ignore[no-untyped-def]
    return LanguageModelScenario(
        seed=seed,
        data=data or {},
        model={"context": 16} | (model or {}),
        train={"batch": 4, "validation_batches": 3} | (train or {}),
        **other,
    )


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"Line {i} sees {i * i} mice, é.\n" for i in range(300)))
    return path


TOKENIZERS = ["bytes", "characters", "bpe"]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_every_window_is_a_piece_of_the_text_and_targets_come_one_later(text_file: Path, tokenizer: str) -> None:
    data = build_data(scenario({"text": str(text_file), "tokenizer": tokenizer, "vocabulary": 300}))
    text = text_file.read_text()
    cut = text.index(data.decode(data.validation_batches()[0].inputs[0].tolist()))
    for step in range(20):
        batch = data.train_batch(step)
        assert batch.inputs.shape == batch.targets.shape == (4, 16)
        assert batch.inputs.dtype == batch.targets.dtype == torch.int64
        assert (batch.inputs[:, 1:] == batch.targets[:, :-1]).all()
        for row in batch.inputs.tolist():
            piece = data.decode(row).strip("\ufffd")
            assert piece in text
            assert text.index(piece) < cut  # never the validation text


def test_a_batch_depends_on_seed_and_step_and_on_nothing_else(text_file: Path) -> None:
    data, again = (build_data(scenario({"text": str(text_file)})) for _ in range(2))
    late = again.train_batch(1000)  # asked for in another order
    for step in (0, 7, 1000):
        assert torch.equal(data.train_batch(step).inputs, again.train_batch(step).inputs)
    assert torch.equal(late.inputs, data.train_batch(1000).inputs)
    assert not torch.equal(data.train_batch(7).inputs, data.train_batch(8).inputs)
    other = build_data(scenario({"text": str(text_file)}, seed=2))
    assert not torch.equal(data.train_batch(7).inputs, other.train_batch(7).inputs)


@pytest.mark.evidence
@pytest.mark.parametrize("source", ["python-docs", "induction"])
def test_another_process_with_another_hash_seed_draws_the_same(source: str, tmp_path: Path) -> None:
    code = (
        "from txlab.experiments.kinds.language_model import LanguageModelScenario as S\n"
        "from txlab.experiments.kinds.language_model.data import build_data\n"
        "s = {'source': SOURCE, 'vocabulary': 64} if SOURCE == 'induction' else {'tokenizer': 'bpe'}\n"
        "d = build_data(S(data=s, sampling={'prompts': ['The']}))\n"
        "print(d.train_batch(3).targets.tolist(), d.probe, d.fingerprint)\n"
    ).replace("SOURCE", repr(source))
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": hash_seed, "PATH": "", "HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(seen) == 1
    assert len(seen.pop()) > 1000


def test_all_of_the_training_text_is_drawn(text_file: Path) -> None:
    text_file.write_text(text_file.read_text()[:500])
    data = build_data(scenario({"text": str(text_file)}))
    assert isinstance(data, CorpusData)
    first, last = data.train[: data.context], data.train[-data.context :]
    batches = [data.train_batch(step) for step in range(2000)]
    assert any((batch.inputs.numpy() == first).all(axis=1).any() for batch in batches)
    assert any((batch.targets.numpy() == last).all(axis=1).any() for batch in batches)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_validation_is_fixed_and_scores_no_token_twice(text_file: Path, tokenizer: str) -> None:
    chosen = scenario({"text": str(text_file), "tokenizer": tokenizer, "vocabulary": 300})
    data = build_data(chosen)
    assert isinstance(data, CorpusData)
    first, second = data.validation_batches(), build_data(chosen).validation_batches()
    assert len(first) == 3
    assert all(torch.equal(a.targets, b.targets) for a, b in zip(first, second, strict=True))
    assert (np.diff(data.validation_starts) >= data.context).all()
    # Bytes a token, over the very tokens that are scored, by decoding them.
    scored = torch.cat([batch.targets for batch in first]).flatten().tolist()
    assert data.bytes_per_token == pytest.approx(len(data.tokenizer.decode_bytes(scored)) / len(scored), rel=1e-12)


@pytest.mark.parametrize(
    ("length", "context", "batches", "batch"), [(100, 10, 3, 1), (17, 16, 9, 4), (65, 16, 9, 3), (999, 7, 5, 12)]
)
def test_validation_windows_fit_and_reach_the_end(length: int, context: int, batches: int, batch: int) -> None:
    starts = spread(length, context, batches, batch)
    assert starts[0] == 0
    assert (np.diff(starts) >= context).all()
    assert starts[-1] + context + 1 <= length
    if len(starts) > 1:
        assert starts[-1] + context + 1 == length
    assert len(starts) % batch == 0 or len(starts) < batch


def test_validation_comes_in_micro_batches_like_training(text_file: Path) -> None:
    whole = build_data(scenario({"text": str(text_file)})).validation_batches()
    parts = build_data(scenario({"text": str(text_file)}, train={"accumulate": 2})).validation_batches()
    assert [len(batch.inputs) for batch in whole] == [4] * 3
    assert [len(batch.inputs) for batch in parts] == [2] * 6
    assert torch.equal(torch.cat([batch.targets for batch in whole]), torch.cat([batch.targets for batch in parts]))


def test_the_tokenizer_never_saw_the_validation_text(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("abab cdcd\n" * 900 + "zqzqzq zqzq\n" * 80)
    data = build_data(scenario({"text": str(path), "tokenizer": "bpe", "vocabulary": 300}))
    tokens = {data.tokenizer.token_bytes(token) for token in range(data.vocabulary)}
    assert b"abab" in tokens
    assert b"zq" not in tokens


def test_the_remembered_tokenizer_is_the_learnt_one_and_a_spoilt_memory_is_replaced() -> None:
    text = "the cat sees the mouse that sees the cat " * 3
    learnt, remembered = learn_tokenizer(text, 270), learn_tokenizer(text, 270)
    assert learnt.merges == remembered.merges == train_tokenizer([text], 270).merges
    from txlab.experiments import tokenizer_store

    folder = Path(tokenizer_store.user_cache_dir("txlab")) / "tokenizers"
    for file in folder.glob("*.json"):
        file.write_text('{"format": 1, "kind": "bytes"}')
    assert learn_tokenizer(text, 270).merges == learnt.merges
    for file in folder.glob("*.json"):
        file.write_bytes(b"\0\0")
    assert learn_tokenizer(text, 270).merges == learnt.merges


def test_a_scenario_says_where_ties_go_and_each_rule_is_remembered_apart(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("ab ac bz ba " * 900)
    merges = []
    for rule in ("first", "greatest", "first"):
        settings = {"text": str(path), "tokenizer": "bpe", "vocabulary": 260, "ties": rule}
        tokenizer = build_data(scenario(settings)).tokenizer
        merges.append([tokenizer.token_bytes(token) for token in range(256, tokenizer.vocabulary)])
    assert merges[0] == merges[2]
    assert merges[0] != merges[1]
    learnt = train_merges(count_chunks([path.read_text()[: 9 * 1080]]), 260, ties="greatest")
    assert merges[1] == [learnt.token_bytes(token) for token in range(256, 260)]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_the_probe_is_the_text_asked_for_or_the_beginning_of_validation(text_file: Path, tokenizer: str) -> None:
    source = {"text": str(text_file), "tokenizer": tokenizer, "vocabulary": 300}
    asked = build_data(scenario(source, probe={"text": "mice, é", "positions": 32}))
    assert asked.decode(asked.probe) == "mice, é"
    data = build_data(scenario(source, probe={"positions": 12}))
    assert len(data.probe) == 12
    assert data.probe == data.validation_batches()[0].inputs[0, :12].tolist()
    # Never more than the model has positions for.
    assert len(build_data(scenario(source, probe={"positions": 200})).probe) == 16


def test_prompts_are_encoded_in_their_order(text_file: Path) -> None:
    data = build_data(scenario({"text": str(text_file)}, sampling={"prompts": ["Line", "é"]}))
    assert data.prompts == [list(b"Line"), [0xC3, 0xA9]]
    assert [data.label(token) for token in data.prompts[1]] == ["\\xc3", "\\xa9"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"model": {"context": 5000}},
            "is too short: its validation share has .* model.context = 5000 needs at least 5001",
        ),
        ({"data": {"tokenizer": "bpe", "vocabulary": 256}}, "data.vocabulary = 256 is too small for bpe"),
        ({"sampling": {"prompts": [""]}}, "sampling.prompts has ''"),
        ({"sampling": {"prompts": ["\ud800"]}}, "lone surrogate"),
        ({"probe": {"text": "x"}}, "probe.text = 'x' has 1 token"),
        ({"data": {"text": "/nonexistent/x"}}, "data.text = '/nonexistent/x' is not there"),
        ({"data": {"source": "induction", "vocabulary": 4}}, "data.vocabulary = 4 does not suit the induction task"),
        ({"data": {"source": "induction", "vocabulary": 5000}}, "data.vocabulary = 5000 does not suit"),
        ({"data": {"source": "induction", "vocabulary": 64}, "sampling": {"prompts": ["漢"]}}, "'漢' is not a symbol"),
        (
            {"data": {"source": "induction", "vocabulary": 64}, "model": {"context": 4}},
            "model.context = 4 is too short",
        ),
        ({"data": {"source": "induction", "vocabulary": 64}, "sampling": {"prompts": [""]}}, "sampling.prompts has ''"),
    ],
)
def test_an_unusable_training_text_is_reported(changes, said: str, text_file: Path) -> None:  # type: ignore[no-untyped-def]
    changes = dict(changes)
    source = {"text": str(text_file)} | changes.pop("data", {})
    with pytest.raises(LabError, match=said) as error:
        build_data(scenario(source, **changes))
    assert "\n" not in str(error.value)


INDUCTION = {"source": "induction", "vocabulary": 32}


def induction(seed: int = 1, vocabulary: int = 32, context: int = 24, **other) -> InductionData:  # type: ignore[no-untyped-def]
    data = build_data(
        scenario(
            INDUCTION | {"vocabulary": vocabulary},
            {"context": context},
            seed=seed,
            sampling={"prompts": ["ab"]},
            **other,
        )
    )
    assert isinstance(data, InductionData)
    return data


@pytest.mark.parametrize(("vocabulary", "context"), [(8, 8), (16, 64), (64, 48), (64, 9)])
def test_every_scored_answer_is_determined_by_what_came_before(vocabulary: int, context: int) -> None:
    data = induction(vocabulary=vocabulary, context=context)
    scored = 0
    for step in range(50):
        batch = data.train_batch(step)
        for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
            for place, target in enumerate(targets):
                if target == NOT_SCORED:
                    continue
                scored += 1
                before = [i for i in range(place) if row[i] == row[place]]
                assert len(before) == 1
                assert row[before[0] + 1] == target
                if place + 1 < context:
                    assert row[place + 1] == target
    assert scored > 200


def test_the_distance_to_the_answer_varies_so_that_position_alone_cannot_solve_it() -> None:
    distances: set[int] = set()
    places: set[int] = set()
    starts: set[int] = set()
    data = induction(context=48)
    for step in range(50):
        batch = data.train_batch(step)
        for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
            place = next(i for i, target in enumerate(targets) if target != NOT_SCORED)
            distances.add(place - row.index(row[place]))
            places.add(place)
            starts.add(row.index(row[place]))
    assert len(distances) > 15
    assert len(starts) > 15
    assert len(places) > 15


def test_induction_batches_are_pure_and_symbols_are_all_used() -> None:
    data, again = induction(), induction()
    assert torch.equal(data.train_batch(5).targets, again.train_batch(5).targets)
    assert not torch.equal(data.train_batch(5).inputs, data.train_batch(6).inputs)
    assert not torch.equal(data.train_batch(0).inputs, data.validation_batches()[0].inputs)
    assert set(torch.cat([data.train_batch(step).inputs for step in range(50)]).flatten().tolist()) == set(range(32))
    assert math.isnan(data.bytes_per_token)


@pytest.mark.parametrize(("vocabulary", "positions"), [(64, 48), (64, 24), (8, 24), (32, 2)])
def test_in_the_probe_a_segment_comes_twice_and_nothing_else_does(vocabulary: int, positions: int) -> None:
    data = induction(vocabulary=vocabulary, context=48, probe={"positions": positions})
    probe = data.probe
    assert len(probe) == min(positions, 48)
    repeated = [i for i in range(len(probe)) if probe[i] in probe[:i]]
    if positions <= vocabulary and positions > 4:
        half = len(repeated)
        assert half == positions // 3
        assert repeated == list(range(positions - half, positions))
        start = probe.index(probe[repeated[0]])
        assert probe[start : start + half] == probe[-half:]
        assert start + half < repeated[0]


def test_symbols_come_back_and_have_one_sign_each() -> None:
    tokenizer = induction(vocabulary=len(alphabet())).tokenizer
    assert len(set(alphabet())) == len(alphabet()) >= 64
    assert alphabet()[:64].isascii()
    assert tokenizer.encode(tokenizer.decode(range(tokenizer.vocabulary))) == list(range(tokenizer.vocabulary))
    with pytest.raises(LabError, match="is not in the vocabulary"):
        tokenizer.label(-1)


def test_the_data_is_known_without_importing_torch() -> None:
    modules = "txlab.experiments.kinds.language_model.data, txlab.experiments.corpora"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert data_module.__name__ == "txlab.experiments.kinds.language_model.data"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_the_held_out_text_is_what_validation_scores_and_training_never_sees(text_file: Path) -> None:
    of_text = scenario({"text": str(text_file)})
    data, text, found = build_data(of_text), text_file.read_text(), validation_text(of_text)
    assert text.endswith(found)
    assert found == data.decode(data.validation.tolist())  # type: ignore[attr-defined]
    other = text_file.with_name("other.txt")
    other.write_text("another text, and another line of it\n" * 200)
    parts = [{"text": str(text_file), "weight": 1.0}, {"text": str(other), "weight": 3.0}]
    assert validation_text(scenario({"mixture": parts})).startswith("another text")
    of_symbols = scenario({"source": "induction", "vocabulary": 8}, sampling={"prompts": ["abc"]})
    sequence = build_data(of_symbols).validation_batches()[0].inputs[0].tolist()
    assert validation_text(of_symbols) == "".join(alphabet()[token] for token in sequence)
