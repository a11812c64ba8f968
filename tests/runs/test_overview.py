"""Many runs: what differs, the order, the groups, and which ones a search means."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import txlab
from txlab.errors import LabError
from txlab.runs import summary
from txlab.runs.directory import RunInfo
from txlab.runs.folder import list_runs
from txlab.runs.overview import columns_in, group_runs, is_meant, require_column, settings_in, sort_runs, value_of
from txlab.runs.summary import RunSummary, RunsUnder


def run(name: str = "a", settings: dict[str, object] | None = None, **said: object) -> RunSummary:
    return RunSummary(Path(name), name, name, handle=name, settings=settings or {}, **said)  # type: ignore[arg-type]


def test_only_settings_that_differ_are_columns_and_one_left_alone_differs_from_one_changed() -> None:
    runs = [run(settings={"lr": 0.1, "width": 64}), run(settings={"lr": 0.1, "width": 128}), run(settings={"lr": 0.1})]
    assert settings_in(runs) == ["width"]
    assert settings_in(runs[:1]) == []
    assert settings_in([*runs, run()]) == ["lr", "width"]


def test_numbers_are_ordered_by_size_words_behind_them_and_runs_without_a_value_last() -> None:
    values = [10.0, 9.0, "auto", None, float("inf"), -1]
    runs = [run(str(n), {} if value is None else {"x": value}) for n, value in enumerate(values)]
    assert [each.name for each in sort_runs(runs, "x")] == ["5", "1", "0", "2", "4", "3"]
    assert [each.name for each in sort_runs(runs, "x", descending=True)][-1] == "3"


def test_a_setting_is_named_by_its_end_and_before_a_metric_of_the_same_name() -> None:
    one = run(settings={"train.learning_rate": 0.5, "lr": 3}, values={"lr": 0.1, "loss": 2.0}, value=2.0)
    assert (value_of(one, "learning_rate"), value_of(one, "lr"), value_of(one, "loss")) == (0.5, 3, 2.0)
    assert value_of(one, "metric") == 2.0
    assert {"loss", "lr", "metric"} <= set(columns_in([one, run()]))
    with pytest.raises(LabError, match="nearest: loss"):
        require_column("los", [one])


def test_each_run_is_in_one_group() -> None:
    runs = [run("a", tags=("x", "y")), run("b", tags=("y",)), run("c"), run("d", tags=("y",))]
    assert [(name, [each.name for each in members]) for name, members in group_runs(runs, "tags")] == [
        ("x y", ["a"]),
        ("y", ["b", "d"]),
        ("", ["c"]),
    ]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("layers=3", "a"), ("layers=2", "b"), ("loss<2", "a"), ("loss>=2", "b"), ("#base", "b"), ("#x", ""),
        ("#ba", "b"),
        ("model.layers=3", "a"), ("gpt", "ab"), ("gpt loss<2", "a"), ("optimizer=adam", "a"), ("optimizer!=adam", "b"),
        ("status=done", "a"), ("wide", "b"), ("loss<x", ""), ("loss!=x", "ab"), ("step>=10", "ab"), ("nothing=3", ""),
    ],
)  # fmt: skip
def test_words_tags_and_comparisons_find_runs(words: str, meant: str) -> None:
    a = run("a", {"model.layers": 3, "optimizer": "Adam"}, values={"loss": 1.5}, status="done", step=10, title="gpt")
    b = run(
        "b", {"model.layers": 2, "optimizer": "sgd"}, values={"loss": 2.0}, status="failed", step=20, tags=("base",)
    )
    runs = [RunSummary(**{**vars(each), "changes": "gpt" if each is a else "gpt wide"}) for each in (a, b)]
    assert "".join(each.name for each in runs if is_meant(each, words.split())) == meant


@given(
    st.text(max_size=20), st.sampled_from(["lr", "loss", "name", "x y"]), st.floats() | st.text(max_size=5) | st.none()
)
@settings(max_examples=200, deadline=None)
def test_no_search_and_no_value_raises(word: str, column: str, value: object) -> None:
    one = run(settings={"lr": value}, values={"loss": 1.0})
    is_meant(one, [word, f"{column}<{word}", f"lr={word}"])
    assert len(sort_runs([one, run("b", {"lr": 1}), run("c", {"lr": [1]})], "lr")) == 3


def test_runs_are_newest_first_also_those_of_one_second(tmp_path: Path) -> None:
    names = ["2026-11-20_143012_b", "2026-11-20_143012_a", "2026-11-21_000000_c", "2025-01-01_000000_d", "undated"]
    order = random.Random(1).sample(names, len(names))
    for name in order:
        recording = txlab.record(name, root=tmp_path)
        recording.close()
        recording.path.rename(tmp_path / name)
    (tmp_path / "2026-11-22_000000_no-run").mkdir()
    same = [name for name in reversed(order) if name in names[:2]]  # what began last is first
    assert [path.name for path in list_runs(tmp_path)] == ["undated", names[2], *same, names[3]]


def test_a_thousand_runs_are_listed_without_opening_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(60):
        folder = tmp_path / f"2026-11-20_1430{n:02d}_job"
        folder.mkdir()
        (folder / "run.json").write_text("{}")
    opened: list[Path] = []
    monkeypatch.setattr(RunInfo, "load", lambda path: opened.append(path))
    looked: list[Path] = []
    monkeypatch.setattr("txlab.runs.folder.is_run", lambda path: looked.append(path) or True)
    runs = list_runs(tmp_path)
    assert len(runs) == len(looked) == 60
    assert not opened
    list_runs(tmp_path, known=runs)
    assert len(looked) == 60  # a second look asks the folder alone


def test_for_a_table_all_runs_are_read_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(12):
        with txlab.record("job", {"lr": n, "model": {"width": 2}}, tmp_path) as recording:
            recording.log(1, loss=n)
    monkeypatch.setattr(summary, "FURTHER", 5)
    under = RunsUnder(tmp_path)
    sizes = [len(under.look({"nothing"}, everything=True)[1]) for _ in range(4)]
    assert sizes == [5, 5, 2, 0]
    assert settings_in(list(under.known.values())) == ["lr"]
    assert {run.settings["model.width"] for run in under.known.values()} == {2}


def test_a_loss_that_is_not_a_number_is_reported_in_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    from txlab.cli.runs import runs

    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path))
    with txlab.record("job", root=tmp_path) as recording:
        recording.log(1, loss=2.0)
        recording.log(2, loss=float("nan"))
    runs()
    assert "loss NaN" in " ".join(capsys.readouterr().out.split())
    runs(json=True)
    assert json.loads(capsys.readouterr().out)["value"] == "NaN"
