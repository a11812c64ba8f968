"""A tokenizer that was saved has a name, and a scenario uses it from wherever it is run, resumed or detached."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer, WordTokenizer
from txlab.engine.tokenizers.files import export_tokenizer, save_tokenizer
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.errors import LabError
from txlab.experiments.kinds.language_model.data import build_data
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.tokenizer_store import (
    files_by_name,
    find_tokenizer,
    fingerprint,
    names_of_saved,
    save_named,
    tokenizer_named,
    tokenizers_folder,
)
from txlab.runs.directory import RunInfo
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

TEXT = "the cat sees a mouse and the mouse sees the cat; a bird sings. " * 20


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty shelf of its own; it does not exist yet."""
    folder = tmp_path / "shelf"
    monkeypatch.setenv("TXLAB_TOKENIZERS", str(folder))
    return folder


@pytest.fixture
def animals(shelf: Path) -> BytePairTokenizer:
    """A byte pair encoding saved as "animals"."""
    tokenizer = train_tokenizer([TEXT], 280)
    save_named(tokenizer, "animals")
    return tokenizer


def said_by(call, *words) -> str:  # type: ignore[no-untyped-def]
    """The one sentence that a call is refused with."""
    with pytest.raises(LabError) as refused:
        call(*words)
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


class TestTheShelf:
    def test_is_the_folder_of_the_environment_or_tokenizers_here(
        self, shelf: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert tokenizers_folder() == shelf
        monkeypatch.delenv("TXLAB_TOKENIZERS")
        assert tokenizers_folder() == Path("tokenizers")

    def test_is_empty_where_there_is_no_folder(self, shelf: Path) -> None:
        assert names_of_saved() == []
        assert not shelf.exists()

    @pytest.mark.parametrize(
        "tokenizer",
        [
            ByteTokenizer(),
            CharacterTokenizer.of(TEXT),
            WordTokenizer.of(TEXT),
            train_tokenizer([TEXT], 280, "gpt2", ["<|end|>"]),
        ],
        ids=lambda tokenizer: type(tokenizer).__name__,
    )
    def test_gives_back_what_was_saved(self, shelf: Path, tokenizer) -> None:  # type: ignore[no-untyped-def]
        path = save_named(tokenizer, "mine")
        assert path == shelf / "mine.json"
        assert names_of_saved() == ["mine"]
        again = tokenizer_named("mine")
        assert type(again) is type(tokenizer)
        assert again.encode(TEXT + "é\0") == tokenizer.encode(TEXT + "é\0")
        assert fingerprint(again) == fingerprint(tokenizer)

    def test_knows_the_files_and_folders_of_others_by_their_names(
        self, animals: BytePairTokenizer, shelf: Path
    ) -> None:
        export_tokenizer(animals, shelf / "theirs.tiktoken", "tiktoken")
        (shelf / "two-files").mkdir()
        older = train_tokenizer([TEXT], 280, "gpt2")
        export_tokenizer(older, shelf / "two-files", "gpt2")
        (shelf / "downloaded").mkdir()
        export_tokenizer(animals, shelf / "downloaded" / "tokenizer.json", "huggingface")
        for other in (".hidden.json", "notes.txt"):
            (shelf / other).write_text("{}")
        (shelf / "empty").mkdir()
        assert names_of_saved() == ["animals", "downloaded", "theirs", "two-files"]
        for name, same in (("downloaded", animals), ("theirs", animals), ("two-files", older)):
            assert tokenizer_named(name).encode(TEXT) == same.encode(TEXT)

    def test_overwrites_only_when_told(self, animals: BytePairTokenizer) -> None:
        before = find_tokenizer("animals").read_bytes()
        assert "'animals' is saved already" in said_by(save_named, ByteTokenizer(), "animals")
        assert find_tokenizer("animals").read_bytes() == before
        save_named(ByteTokenizer(), "animals", overwrite=True)
        assert tokenizer_named("animals") == ByteTokenizer()

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../up", "/tmp/x", "-x", "a\0b", "a b", "x.json", "n" * 65])
    def test_takes_plain_names_only(self, shelf: Path, name: str) -> None:
        assert "is not a tokenizer name" in said_by(save_named, ByteTokenizer(), name)
        assert not shelf.exists()

    @pytest.mark.parametrize("name", ["bytes", "characters", "words", "bpe", "python-docs"])
    def test_hides_nothing_that_is_always_there(self, shelf: Path, name: str) -> None:
        assert "always there" in said_by(save_named, ByteTokenizer(), name)
        assert not shelf.exists()

    def test_that_cannot_be_written_is_a_readable_error(self, shelf: Path) -> None:
        shelf.write_text("a file stands in the way")
        assert "cannot be saved" in said_by(save_named, ByteTokenizer(), "mine")
        assert names_of_saved() == []

    def test_leaves_nothing_half_written(self, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(json, "dump", interrupted)
        monkeypatch.setattr(json, "dumps", interrupted)
        monkeypatch.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            save_named(ByteTokenizer(), "mine")
        assert list(shelf.iterdir()) == []

    def test_names_the_nearest_for_a_wrong_name(self, animals: BytePairTokenizer) -> None:
        said = said_by(tokenizer_named, "animal")
        assert "'animal'" in said
        assert "(nearest: animals)" in said
        assert "bytes" in said
        assert "(nearest: bytes)" in said_by(tokenizer_named, "byte")

    def test_has_a_tokenizer_to_begin_with(self, shelf: Path) -> None:
        tokenizer = tokenizer_named("python-docs")
        assert tokenizer.vocabulary == 4096
        assert tokenizer_named("bytes") == ByteTokenizer()

    def test_prefers_a_saved_name_to_a_file_in_the_current_folder(
        self, animals: BytePairTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        save_tokenizer(ByteTokenizer(), Path("animals"))
        assert find_tokenizer("animals") == files_by_name()["animals"]
        assert find_tokenizer("./animals") == Path("animals")
        assert tokenizer_named("./animals") == ByteTokenizer()


def test_a_fingerprint_is_that_of_what_a_tokenizer_does() -> None:
    prints = {
        fingerprint(tokenizer)
        for tokenizer in (
            ByteTokenizer(),
            CharacterTokenizer("ab"),
            CharacterTokenizer("ac"),
            BytePairTokenizer([]),
            BytePairTokenizer([], "gpt2"),
            BytePairTokenizer([(97, 98)]),
            BytePairTokenizer([(97, 97)]),
            BytePairTokenizer([(97, 97)], special=["aa"]),
            # The same tokens, of which two are reached by other merges.
            BytePairTokenizer([(97, 98), (98, 99), (256, 99)]),
            BytePairTokenizer([(97, 98), (98, 99), (97, 257)]),
        )
    }
    assert len(prints) == 10
    assert fingerprint(BytePairTokenizer([(97, 98)], counts=[7])) == fingerprint(BytePairTokenizer([(97, 98)]))


def scenario_with(tokenizer: str, **other: object) -> LanguageModelScenario:
    return LanguageModelScenario(
        data={"tokenizer": tokenizer, **other},
        model={"context": 8},
        train={"batch": 2, "validation_batches": 1},
    )


class TestAScenario:
    @pytest.fixture
    def small(self, tiny_scenario: Path) -> list[str]:
        return ["train.steps=4", "record.frame_every=2", "record.checkpoint_every=2"]

    def test_takes_a_saved_name_and_writes_down_its_file(
        self, animals: BytePairTokenizer, tiny_scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TXLAB_TOKENIZERS", "shelf")  # a relative one, too
        monkeypatch.chdir(tmp_path)
        loaded = load_scenario(tiny_scenario, ["data.tokenizer=animals"])
        assert loaded.scenario.data.tokenizer == str(tmp_path / "shelf" / "animals.json")  # type: ignore[attr-defined]

    def test_takes_a_path_from_here_and_relative_to_the_file(
        self, animals: BytePairTokenizer, tiny_scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here, there = tmp_path / "here", tmp_path / "there"
        for folder in (here, there):
            folder.mkdir()
            save_tokenizer(animals, folder / "a.json")
        monkeypatch.chdir(here)
        typed = load_scenario(tiny_scenario, ["data.tokenizer=a.json"])
        assert typed.scenario.data.tokenizer == str(here / "a.json")  # type: ignore[attr-defined]
        own = there / "own.toml"
        own.write_text(tiny_scenario.read_text().replace('tokenizer = "bytes"', 'tokenizer = "a.json"'))
        assert load_scenario(own).scenario.data.tokenizer == str(there / "a.json")  # type: ignore[attr-defined]

    def test_names_kinds_and_the_nearest_saved_name_for_a_wrong_one(
        self, animals: BytePairTokenizer, tiny_scenario: Path
    ) -> None:
        said = said_by(load_scenario, tiny_scenario, ["data.tokenizer=animels"])
        for part in ("--set data.tokenizer", '"animels"', "(nearest: animals)", '"bytes"', '"words"', "a file"):
            assert part in said
        assert "(nearest: words)" in said_by(load_scenario, tiny_scenario, ["data.tokenizer=wrods"])

    @pytest.mark.parametrize("value", ["", "a\\u0000b", "\\u001b[2J", "x" * 5000, "/dev/null/x"])
    def test_refuses_a_hostile_name_in_one_harmless_sentence(
        self, shelf: Path, tiny_scenario: Path, tmp_path: Path, value: str
    ) -> None:
        path = tmp_path / "hostile.toml"
        path.write_text(tiny_scenario.read_text().replace('tokenizer = "bytes"', f'tokenizer = "{value}"'))
        said = said_by(load_scenario, path)
        assert "\x1b" not in said
        assert len(said) < 1000

    def test_of_a_generated_task_needs_no_tokenizer(self, shelf: Path, tiny_scenario: Path) -> None:
        load_scenario(tiny_scenario, ["data.source=induction", "data.tokenizer=whatever"])

    def test_learns_on_the_tokens_of_the_saved_one(self, animals: BytePairTokenizer, tmp_path: Path) -> None:
        text = tmp_path / "text.txt"
        text.write_text(TEXT)
        data = build_data(scenario_with("animals", text=str(text)))
        assert data.vocabulary == animals.vocabulary
        row = data.train_batch(0).inputs[0].tolist()
        assert data.decode(row) in TEXT
        assert row == animals.encode_bytes(data.tokenizer.decode_bytes(row))
        facts = data.facts()["tokenizer"]
        assert facts["kind"] == "bpe"
        assert facts["name"] == "animals"
        assert facts["fingerprint"] == fingerprint(animals)

    def test_learns_words(self, tmp_path: Path) -> None:
        text = tmp_path / "text.txt"
        text.write_text(TEXT)
        data = build_data(scenario_with("words", text=str(text), vocabulary=60))
        assert data.vocabulary <= 60
        assert data.facts()["tokenizer"]["kind"] == "words"
        assert data.label(data.tokenizer.encode("mouse")[0]) == "mouse"
        said = said_by(build_data, scenario_with("words", text=str(text), vocabulary=20))
        assert said.startswith("data.vocabulary")

    def test_bytes_per_token_counts_what_is_spelled_out(self, tmp_path: Path) -> None:
        text = tmp_path / "text.txt"
        text.write_text("abc" * 300 + "\n" + "é" * 110)  # é is in the validation share alone
        data = build_data(scenario_with("characters", text=str(text)))
        scored = [token for batch in data.validation_batches() for row in batch.targets.tolist() for token in row]
        assert data.bytes_per_token == len(data.tokenizer.decode_bytes(scored)) / len(scored) == 0.5

    def test_runs_and_says_which_tokenizer_it_was(
        self, animals: BytePairTokenizer, tiny_scenario: Path, small: list[str], tmp_path: Path
    ) -> None:
        run = prepare(load_scenario(tiny_scenario, ["data.tokenizer=animals", *small]), root=tmp_path / "runs")
        info = execute(run)
        assert info.status == "done", info.reason
        facts = RunInfo.load(run).facts["tokenizer"]
        assert facts["fingerprint"] == fingerprint(animals)
        assert facts["vocabulary"] == animals.vocabulary

    def test_resumes_from_another_folder_and_not_with_another_tokenizer(
        self,
        animals: BytePairTokenizer,
        tiny_scenario: Path,
        small: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TXLAB_TOKENIZERS", "shelf")
        run = prepare(load_scenario(tiny_scenario, ["data.tokenizer=animals", *small]), root=tmp_path / "runs")
        assert execute(run).status == "done"
        rows = (run / "events.jsonl").read_text()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        again = execute(run, rewind_to=2)
        assert again.status == "done", again.reason
        # As many tokens, so that the model would fit; only one merge is another.
        other = BytePairTokenizer([*animals.merges[:-1], (0, 1)], animals.pattern)
        save_tokenizer(other, tmp_path / "shelf" / "animals.json")
        kept = (run / "events.jsonl").read_text()
        said = said_by(lambda: execute(run, rewind_to=2))
        assert "data.tokenizer" in said
        assert "not the tokenizer that this run began with" in said
        assert fingerprint(animals)[:12] in said
        assert (run / "events.jsonl").read_text().startswith(kept)  # nothing was dropped
        assert (run / "checkpoints" / "00000004").is_dir()
        assert rows in kept
        # Put back, it continues.
        save_tokenizer(animals, tmp_path / "shelf" / "animals.json")
        assert execute(run, rewind_to=2).status == "done"

    def test_continues_from_a_checkpoint_without_a_stored_tokenizer(
        self, animals: BytePairTokenizer, tiny_scenario: Path
    ) -> None:
        from txlab.experiments.kind import kind_named

        experiment = kind_named("language-model").build(load_scenario(tiny_scenario).scenario)
        state = dict(experiment.state_dict())
        assert state.pop("tokenizer") == fingerprint(ByteTokenizer())
        experiment.load_state_dict(state)

    def test_runs_detached_with_a_relative_shelf(
        self, animals: BytePairTokenizer, tiny_scenario: Path, small: list[str], tmp_path: Path
    ) -> None:
        environment = os.environ | {"TXLAB_RUNS": str(tmp_path / "runs"), "TXLAB_TOKENIZERS": "shelf"}
        settings = [word for change in [*small, "data.tokenizer=animals"] for word in ("--set", change)]
        command = [sys.executable, "-m", "txlab", "run", str(tiny_scenario), *settings, "--detach", "--json"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        started = json.loads(done.stdout)
        subprocess.run(
            [sys.executable, "-m", "txlab", "attach", started["run"]],
            cwd=tmp_path / "runs",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        info = RunInfo.load(Path(started["run"]))
        assert info.status == "done", info.reason
        assert info.facts["tokenizer"]["vocabulary"] == animals.vocabulary


class TestATokenizerOfOthers:
    @pytest.fixture
    def lower(self, tmp_path: Path) -> Path:
        """A WordPiece that drops cases, as only the library can run it."""
        tokenizers = pytest.importorskip("tokenizers")
        words = {"[UNK]": 0, "the": 1, "cat": 2, "mouse": 3, "##s": 4, ";": 5, ".": 6, "and": 7, "a": 8}
        inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="[UNK]"))
        inner.normalizer = tokenizers.normalizers.Lowercase()
        inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        path = tmp_path / "lower.json"
        path.write_text(inner.to_str())
        return path

    def test_serves_a_scenario_but_not_its_bits_per_byte(self, lower: Path, tmp_path: Path) -> None:
        text = tmp_path / "text.txt"
        text.write_text("The cat and a mouse; the cats. " * 40)
        data = build_data(scenario_with(str(lower), text=str(text)))
        assert data.train_batch(0).inputs.max() < data.vocabulary == 9
        assert math.isnan(data.bytes_per_token)
        facts = data.facts()["tokenizer"]
        assert (facts["kind"], facts["bytes_per_token"]) == ("WordPiece", None)

    def test_has_a_fingerprint_of_all_that_its_library_does(self, lower: Path, tmp_path: Path) -> None:
        content = json.loads(lower.read_text())
        (tmp_path / "cased.json").write_text(json.dumps(content | {"normalizer": None}))
        (tmp_path / "same.json").write_text(json.dumps(content, indent=2))
        one, cased, same = (fingerprint(tokenizer_named(tmp_path / f"{n}.json")) for n in ("lower", "cased", "same"))
        assert one == same != cased


def test_how_large_a_scenario_is_knows_the_saved_vocabulary(animals: BytePairTokenizer, tiny_scenario: Path) -> None:
    from txlab.experiments.kind import explain_scenario

    def vocabulary(*overrides: str) -> object:
        explained = explain_scenario(load_scenario(tiny_scenario, overrides).scenario)
        assert explained is not None
        return next(operand.value for operand in explained.operands if operand.name == "V")

    assert vocabulary() == 256
    assert vocabulary("data.tokenizer=animals") == animals.vocabulary
    assert vocabulary("data.tokenizer=bpe", "data.vocabulary=300") == 300
    for kind in ("characters", "words"):
        assert f"how many {kind}" in said_by(vocabulary, f"data.tokenizer={kind}")
