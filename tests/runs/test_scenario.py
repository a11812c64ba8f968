"""Scenario files: what loads, what `--set` does, and that every mistake is one sentence that helps."""

from __future__ import annotations

import math
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.errors import LabError
from txlab.experiments.kind import explain_scenario
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.kinds.mdp_control import ControlScenario
from txlab.runs.scenario import LARGEST_FILE, catalogue, dump_scenario, load_scenario, parse_override, shipped_scenarios
from txlab.runs.scenario_errors import Complaint, describe_allowed, every_key, locate

MINIMAL = 'kind = "language-model"\n'


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(MINIMAL + "\n[model]\nlayers = 2\n\n[train]\nsteps = 5\nwarmup = 1\n")
    return path


def sentence(path: Any, *overrides: str, **options: Any) -> str:
    with pytest.raises(LabError) as caught:
        load_scenario(path, overrides, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert said.isprintable()
    assert len(said) < 600
    assert caught.value.exit_status == 2
    return said


def test_a_file_is_loaded_with_its_name_and_the_defaults_of_the_schema(scenario_file: Path) -> None:
    loaded = load_scenario(scenario_file)
    assert loaded.name == "small"
    assert loaded.origin == str(scenario_file)
    assert isinstance(loaded.scenario, LanguageModelScenario)
    assert (loaded.scenario.model.layers, loaded.scenario.train.steps, loaded.scenario.model.heads) == (2, 5, 4)


def test_overrides_seed_and_device_win_over_the_file(scenario_file: Path) -> None:
    changes = ["train.steps=7", "model.tied=false", "train.learning_rate=3e-4", "sampling.prompts=['a', 'b']"]
    scenario = load_scenario(scenario_file, changes, seed=9, device="cpu").scenario
    assert isinstance(scenario, LanguageModelScenario)
    assert (scenario.train.steps, scenario.model.tied, scenario.train.learning_rate) == (7, False, 3e-4)
    assert (scenario.sampling.prompts, scenario.seed, scenario.compute.device) == (["a", "b"], 9, "cpu")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("train.lr=0.5", "train.learning_rate"), ("lr=0.5", "train.learning_rate"), ("batch_size=2", "train.batch"),
        ("train.batch_size=2", "train.batch"), ("max_steps=7", "train.steps"), ("model.n_layer=3", "model.layers"),
        ("n_head=2", "model.heads"), ("d_model=32", "model.width"), ("block_size=16", "model.context"),
    ],
)  # fmt: skip
def test_a_usual_name_sets_the_key_of_the_schema(scenario_file: Path, name: str, key: str) -> None:
    value = name.partition("=")[2]
    usual, ours = load_scenario(scenario_file, [name]), load_scenario(scenario_file, [f"{key}={value}"])
    assert usual.scenario == ours.scenario
    assert usual.changes == ours.changes == {key: tomllib.loads(f"x={value}")["x"]}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train.epochs=3", "nearest: train.steps"),  # which are not the same, so it is not taken for them
        ("epochs=3", "nearest: train.steps"),
        ("train.lr=fast", 'train.learning_rate = "fast" is not allowed'),
        ("model.lr=1", "model.lr is not a key"),
    ],
)
def test_a_usual_name_that_cannot_be_taken_points_to_the_key(scenario_file: Path, name: str, said: str) -> None:
    assert said in sentence(scenario_file, name)


def test_a_file_with_a_usual_name_is_refused_with_the_key(scenario_file: Path) -> None:
    scenario_file.write_text(MINIMAL + "[train]\nlr = 0.1\n")
    assert "line 3: train.lr is not a key (nearest: train.learning_rate)" in sentence(scenario_file)


def test_a_usual_name_that_several_tables_have_needs_its_table(tmp_path: Path) -> None:
    path = tmp_path / "feedback.toml"
    path.write_text('kind = "human-feedback"\n')
    assert "lr is not a key" in sentence(path, "lr=0.1")
    scenario: Any = load_scenario(path, ["policy.lr=0.1"]).scenario
    assert scenario.policy.learning_rate == 0.1


def test_a_model_of_attention_alone_takes_no_width_of_a_feed_forward(scenario_file: Path) -> None:
    assert "feed_forward = 32 has no meaning" in sentence(
        scenario_file, "model.block=attention", "model.feed_forward=32"
    )
    assert "gated has no meaning" in sentence(scenario_file, "model.block=attention", "model.gated=true")


CONTROL = """kind = "mdp-control"
[world]
name = "cliff"
[[learners]]
rule = "sarsa"
[[learners]]
rule = "q-learning"
label = "bold"
"""


@pytest.mark.parametrize("text", [CONTROL, 'kind = "mdp-control"\n'])
def test_one_table_of_a_list_is_reached_by_its_name_or_its_number(tmp_path: Path, text: str) -> None:
    path = tmp_path / "two.toml"
    path.write_text(text)
    second = "bold" if "bold" in text else "q-learning"
    loaded = load_scenario(path, ["learners.sarsa.alpha=.1", f"learners.{second}.alpha=.2", "learners.1.epsilon=.3"])
    assert isinstance(loaded.scenario, ControlScenario)
    assert [(each.rule, each.alpha, each.epsilon) for each in loaded.scenario.learners] == [
        ("sarsa", 0.1, 0.1),
        ("q-learning", 0.2, 0.3),
    ]
    assert loaded.changes["learners.sarsa.alpha"] == 0.1


def test_a_mistake_in_one_table_of_a_list_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(CONTROL)
    allowed = "allowed: 0 to 1, sarsa, bold"
    assert sentence(path, "learners.sarza.alpha=.1") == (
        f'--set: learners: none is called "sarza" (nearest: sarsa); {allowed}'
    )
    assert sentence(path, "learners.2.alpha=.1") == f'--set: learners: none is called "2"; {allowed}'
    assert "learners[0].alpha = 50.0 is not allowed" in sentence(path, "learners.sarsa.alpha=50.")
    assert "learners[0].alfa is not a key (nearest: alpha)" in sentence(path, "learners.sarsa.alfa=1")
    assert "learners.sarsa.KEY=VALUE" in sentence(path, "learners.sarsa=1")
    path.write_text(CONTROL.replace('label = "bold"', "").replace("q-learning", "sarsa"))
    assert 'learners: 2 of them are called "sarsa"' in sentence(path, "learners.sarsa.alpha=.1")


def test_a_later_override_wins_and_an_override_may_create_a_table(scenario_file: Path) -> None:
    scenario = load_scenario(scenario_file, ["probe.positions=5", "probe.positions=6"]).scenario
    assert isinstance(scenario, LanguageModelScenario)
    assert scenario.probe.positions == 6


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("a=1", 1),
        ("a=1_000", 1000),
        ("a=.5", 0.5),
        ("a=-1.", -1.0),
        ("a=true", True),
        ("a=[1, 2]", [1, 2]),
        ("a='x=y'", "x=y"),
        ("a=x=y", "x=y"),
        ("a=", ""),
        ("a=1\nb = 2", "1\nb = 2"),
        ("a = python-docs ", "python-docs"),
    ],
)
def test_values_are_toml_and_otherwise_text(override: str, value: object) -> None:
    assert parse_override(override) == (("a",), value)


def test_a_number_is_a_text_where_the_schema_wants_text(scenario_file: Path) -> None:
    assert load_scenario(scenario_file, ["about.title=2024"]).scenario.about.title == "2024"
    scenario = load_scenario(scenario_file, ["probe.text=true"]).scenario
    assert isinstance(scenario, LanguageModelScenario)
    assert scenario.probe.text == "true"


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("model.layers=0", ["--set", "model.layers = 0", "a whole number", "at least 1"]),
        ("model.context=1", ["from 2 to 65536"]),
        ("model.layer=2", ["model.layer is not a key", "nearest: model.layers", "in [model]", "feed_forward"]),
        ("steps=5", ["steps is not a key", "nearest: train.steps"]),
        (
            "data.tokenizer=bpf",
            ['"bpf"', "nearest: bpe", '"bytes", "characters", "words", "bpe", "python-docs", a saved'],
        ),
        ("compute.device=gpu", ["compute.device", '"gpu"', "cuda"]),
        ("compute.compile=perhaps", ['true or false or "auto"']),
        ("model=5", ["model = 5", "allowed: a table"]),
        ("seed.x=1", ["seed = a table", "a whole number"]),
        ("train.learning_rate=nan", ["train.learning_rate = nan", "greater than 0 and at most 10"]),
        ("train.steps=1e5", ["train.steps = 100000.0", "a whole number"]),
        ("model.width=130", ["width must be a multiple of heads", "130"]),
        ("kind=language-modle", ["language-modle", "nearest: language-model"]),
        ("sampling.prompts=[1]", ["sampling.prompts[0] = 1", "a list of texts"]),
        ("train.steps", ["train.steps", "key=value"]),
        ("=5", ["key=value"]),
        ("data.text=python-doc", ["python-doc", "nearest: python-docs", "a folder"]),
    ],
)
def test_a_wrong_override_is_reported_with_what_is_allowed(
    scenario_file: Path, override: str, parts: list[str]
) -> None:
    said = sentence(scenario_file, override)
    for part in parts:
        assert part in said


def test_the_file_and_the_line_are_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(MINIMAL + '\n[model]\nlayers = 0\nheads = "two"\n\n[train]\nstep = 3\n')
    said = sentence(path)
    assert "wrong.toml, line 4: model.layers = 0" in said
    assert "(and 2 more)" in said


def test_of_several_mistakes_the_first_in_the_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(MINIMAL + "[train]\nsteps = 0\n[model]\nlayers = 0\n")
    assert "line 3: train.steps = 0" in sentence(path)
    assert sentence(path, "model.layers=-1").startswith("--set: model.layers = -1")  # the newest input comes first


def test_unknown_names_are_answered_with_the_nearest(tmp_path: Path, scenario_file: Path) -> None:
    assert "no scenario is called" in sentence("gpt-tyni")
    assert "nearest: small.toml" in sentence(tmp_path / "smal.toml")
    assert "is a folder" in sentence(tmp_path)


def test_kind_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.write_text("")
    assert "kind is missing; allowed: 'actor-critic', 'bandits'" in sentence(path)


HOSTILE = {
    "no toml": b"not a toml file at all",
    "binary": bytes(range(256)) * 10,
    "nul": b"\0" * 1000,
    "deep": b"a = " + b"[" * 100_000,
    "deep tables": b"a = " + b"{a=" * 50_000,
    "deep key": b"a." * 100_000 + b"b = 1",
    "deep quoted key": b'"a".' * 50_000 + b"b = 1",
    "deep key of escaped quotes": rb'"\"".' * 40_000 + b"b = 1",
    "deep key of escaped backslashes": rb'"\\".' * 40_000 + b"b = 1",
    "deep header": b"[" + b"a ." * 80_000 + b"b]",
    "many tables": b"[[a]]\n" * 40_000,
    "huge integer": b"seed = " + b"9" * 100_000,
    "huge hexadecimal": MINIMAL.encode() + b"seed = 0x" + b"f" * 100_000,
    "huge rate": MINIMAL.encode() + b"[train]\nlearning_rate = 0x" + b"f" * 100_000,
    "nan": MINIMAL.encode() + b"[train]\nlearning_rate = nan",
    "infinity": MINIMAL.encode() + b"[record]\nframes_mb = inf",
    "escape in a value": b'kind = "\\u001b[2J\\u202e"',
    "escape in a key": MINIMAL.encode() + b'"\\u001b]0;x\\u0007" = 1',
    "escape in a table": MINIMAL.encode() + b'[model]\n"\\u001b[2J" = 1',
    "escape in a choice": MINIMAL.encode() + b'[data]\ntokenizer = "\\u001b[2J"',
    "escape in a path": MINIMAL.encode() + b'[data]\ntext = "\\u001b[2J"',
    "nul in a path": MINIMAL.encode() + b'[data]\ntext = "a\\u0000b"',
    "long path": MINIMAL.encode() + b'[data]\ntext = "' + b"x" * 100_000 + b'"',
    "list for a table": MINIMAL.encode() + b"model = [1, 2]",
    "text for a table": MINIMAL.encode() + b'train = "fast"',
    "list for the kind": b'kind = ["language-model"]',
    "date": MINIMAL.encode() + b"seed = 1979-05-27T07:32:00Z",
    "one long line": b'kind = "' + b"x" * 200_000 + b'"',
    "quotes": b"'\"" * 100_000,
    "too large": b"#" * (1 << 20),
    "utf-16": MINIMAL.encode("utf-16"),
    "deep inside": MINIMAL.encode() + b"[model]\nlayers = " + b"[" * 400 + b"]" * 400,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_one_harmless_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hostile.toml"
    path.write_bytes(content)
    assert "hostile.toml" in sentence(path)


@pytest.mark.parametrize("part", [b"a", rb'"\""', rb'"\\"', rb'"\\\""', b"'\"'", rb"'\'"])
def test_a_key_of_many_parts_is_seen_before_it_is_parsed(tmp_path: Path, part: bytes) -> None:
    path = tmp_path / "deep.toml"
    for parts, why in ((32, "kind is missing"), (33, "more than 32 parts")):
        path.write_bytes(b".".join([part] * (parts - 1)) + b".b = 1")
        assert why in sentence(path)


def test_a_value_with_a_key_of_many_parts_is_a_text() -> None:
    for parts, kind in ((10, dict), (40, str)):
        _, value = parse_override(f"a={{{'b.' * parts}c = 1}}")
        assert isinstance(value, kind)


def test_a_hostile_file_name_is_made_visible(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[2J\u202e.toml"
    path.write_text("[")
    assert "\\x1b[2J\\u202e.toml" in sentence(path)
    undecodable = os.fsdecode(bytes(tmp_path) + b"/\xff.toml")
    assert "\\udcff.toml" in sentence(undecodable)


def test_a_non_regular_file_is_not_even_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")  # opening it would wait for ever for a writer
    assert "not a regular file" in sentence(tmp_path / "pipe.toml")
    assert "not a regular file" in sentence("/dev/zero")


def test_a_sparse_file_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert "larger than" in sentence(path)


def test_relative_texts_mean_the_folder_of_who_says_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    for folder in (tmp_path, tmp_path / "elsewhere"):
        (folder / "text.txt").write_text("hello")
    path = tmp_path / "own.toml"
    path.write_text(MINIMAL + '[data]\ntext = "text.txt"\n')
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_scenario(path).scenario.data.text == str(tmp_path / "text.txt")  # type: ignore[attr-defined]
    typed = load_scenario(path, ["data.text=text.txt"]).scenario
    assert typed.data.text == str(tmp_path / "elsewhere" / "text.txt")  # type: ignore[attr-defined]


@pytest.mark.parametrize("named", ["python-docs", "python-source", "-"])
def test_named_texts_stay_what_they_are(scenario_file: Path, named: str) -> None:
    assert load_scenario(scenario_file, [f"data.text={named}"]).scenario.data.text == named  # type: ignore[attr-defined]


def test_names_are_safe_in_file_names(tmp_path: Path) -> None:
    run = tmp_path / "2026-11-20_143012_gpt-docs"
    run.mkdir()
    (run / "scenario.toml").write_text(MINIMAL)
    assert load_scenario(run / "scenario.toml").name == "gpt-docs"
    odd = tmp_path / "a b;\n$(x).toml"
    odd.write_text(MINIMAL)
    assert load_scenario(odd).name == "a-b-x"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    title=texts,
    formulas=st.lists(texts, max_size=4),
    prompts=st.lists(texts, max_size=4),
    seed=st.integers(0, 2**63 - 1),
    rate=st.floats(0, 10, exclude_min=True),
)
def test_what_is_dumped_loads_back_equal(
    tmp_path_factory: pytest.TempPathFactory,
    title: str,
    formulas: list[str],
    prompts: list[str],
    seed: int,
    rate: float,
) -> None:
    scenario = LanguageModelScenario.model_validate(
        {
            "seed": seed,
            "about": {"title": title, "formulas": formulas},
            "sampling": {"prompts": prompts},
            "train": {"learning_rate": rate},
        }
    )
    path = tmp_path_factory.getbasetemp() / "dumped.toml"
    path.write_text(dump_scenario(scenario), encoding="utf-8", newline="")
    assert load_scenario(path).scenario == scenario


def test_a_dump_says_every_default(scenario_file: Path) -> None:
    table = tomllib.loads(dump_scenario(load_scenario(scenario_file).scenario))
    assert table["train"]["beta2"] == 0.99
    assert set(table) == set(LanguageModelScenario.model_fields)


def test_every_shipped_scenario_is_valid_and_described() -> None:
    entries = catalogue()
    assert {entry.name for entry in entries} == set(shipped_scenarios())
    for entry in entries:
        about = entry.scenario.about
        assert about.title, entry.name
        assert about.shows, entry.name
        assert load_scenario(entry.name).scenario == entry.scenario


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("seed = 1\nkind = language-model\n", ["line 2", "`kind = language-model`", "strings need quotes"]),
        ("seed = 1\nseed = 2\n", ["line 2", "`seed = 2`"]),
        ('title = "it\n', ['line 1: `title = "it` is not valid TOML']),
        ("[train]\nlearning_rate = 1e-3,\n", ["line 2", "1e-3,"]),
        ("\x1b[31m = 1\n", ["line 1", "\\x1b"]),
    ],
)
def test_invalid_toml_is_quoted_with_its_line(tmp_path: Path, content: str, parts: list[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(LabError) as refused:
        load_scenario(path)
    said = str(refused.value)
    assert all(part in said for part in parts), said
    assert "\x1b" not in said


def test_the_catalogue_goes_from_short_to_long_and_ends_with_unknown_durations() -> None:
    minutes = [entry.scenario.about.minutes for entry in catalogue() if entry.scenario.about.chapter == "T"]
    known = [minute for minute in minutes if minute]
    assert known == sorted(known)
    assert minutes == known + [0.0] * (len(minutes) - len(known))
    assert 0.0 in minutes


@pytest.mark.parametrize("key", ["model.layers", "model.width", "train.steps", "train.batch"])
def test_a_whole_number_beyond_64_bits_is_refused_and_the_largest_is_computed_with(key: str) -> None:
    said = sentence("gpt-tiny", f"{key}=1{'0' * 400}")
    assert key in said
    assert "1329 bits" in said
    largest = 2**63 // 64 * 64 - 64 if key == "model.width" else 2**63 - 1  # the heads divide the width
    found = explain_scenario(load_scenario("gpt-tiny", [f"{key}={largest}"]).scenario, 60.0)
    assert found is not None
    assert math.isfinite(found.result)


MANY = {
    "keys": "\n".join(f"k{i} = 1" for i in range(20_000)),
    "tables": "\n".join(f"[s{i}]\nk = 1" for i in range(12_000)),
    "tables of tables": "\n".join(f"[a.b{i}.c.d]\nk = 1" for i in range(8_000)),
    "entries": "\n[about]\nmath = [" + "1, " * 80_000 + "]",
    "keys within": "\n[train]\n" + "\n".join(f"k{i} = 1" for i in range(20_000)),
    "a line like a table": '\n[about]\ntitle = """\n[' + " " * 240_000 + '"""\nk = 1',
}


@pytest.mark.parametrize("what", MANY)
def test_a_file_with_very_many_mistakes_is_quickly_a_readable_error(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This once took minutes: every complaint was put into words, and its line was searched for line by line."""
    asked = []
    text = Complaint.text.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Complaint, "text", property(lambda self: asked.append(self) or text(self)))
    path = tmp_path / "many.toml"
    path.write_text(MINIMAL + MANY[what])
    assert path.stat().st_size <= LARGEST_FILE
    sentence(path)
    assert len(asked) == 1


def test_a_bound_is_written_without_superfluous_digits() -> None:
    for schema in (LanguageModelScenario, ControlScenario):
        for key in every_key(schema):
            said = describe_allowed(locate(schema, tuple(key.split(".")))[1])
            assert not re.search(r"\d\.0\b", said), f"{key}: {said}"
