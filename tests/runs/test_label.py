"""Runs are told apart: by what was changed against the scenario, and by the name and note that they were given."""

from __future__ import annotations

from pathlib import Path

import pytest

from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.finding import find_run
from txlab.runs.label import Label, find_shared_handles, format_changes, handle_of, read_label, write_label
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario


def test_a_prepared_run_knows_what_was_changed_against_its_scenario(tiny_scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("some text\n" * 400)
    mine = str(tmp_path / "mine.txt")
    loaded = load_scenario(tiny_scenario, ["model.layers=3", f"data.text={mine}"], seed=7)
    info = RunInfo.load(prepare(loaded, root=tmp_path / "runs"))
    assert info.changes == {"model.layers": 3, "data.text": mine, "seed": 7}
    assert handle_of(info, Label()) == f"{loaded.name} layers=3 mine.txt seed=7"
    assert handle_of(info, Label("the best")) == "the best"


def test_a_setting_equal_to_the_files_is_not_a_change(tiny_scenario: Path) -> None:
    same = load_scenario(tiny_scenario).scenario.seed
    written = f"seed = {same}\n" + tiny_scenario.read_text().replace(f"seed = {same}\n", "")
    again = tiny_scenario.with_name("again.toml")
    again.write_text(written)
    assert load_scenario(again, [f"seed={same}"]).changes == {}
    assert load_scenario(again, [f"seed={same + 1}"]).changes == {"seed": same + 1}


def test_a_label_comes_back_and_each_part_is_changed_by_itself(tiny_run: Path) -> None:
    assert read_label(tiny_run) == Label()
    write_label(tiny_run, name="  the   best ")
    assert write_label(tiny_run, note="lr too high?") == read_label(tiny_run) == Label("the best", "lr too high?")
    assert find_run("the best", tiny_run.parent) == tiny_run.resolve()
    assert write_label(tiny_run, name="", note="") == Label()
    with pytest.raises(LabError, match="61 characters; allowed: at most 60"):
        write_label(tiny_run, name="x" * 61)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"name": 3}', b"[" * 9999, b'"' + b"x" * 70_000 + b'"'])
def test_a_faulty_label_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "label.json").write_bytes(content)
    assert read_label(tmp_path) == Label()


def test_a_label_that_is_a_link_is_neither_read_nor_written_through(tiny_run: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text('{"name": "secret"}')
    RunDirectory(tiny_run).path.joinpath("label.json").unlink(missing_ok=True)
    (tiny_run / "label.json").symlink_to(victim)
    try:
        assert read_label(tiny_run) == Label()
        with pytest.raises(LabError, match="symbolic link"):
            write_label(tiny_run, name="mine")
        assert victim.read_text() == '{"name": "secret"}'
    finally:
        (tiny_run / "label.json").unlink()


def test_what_a_terminal_would_interpret_is_escaped() -> None:
    assert format_changes({"data.text": "/x/\x1b[31m"}) == "\\x1b[31m"


def test_handles_of_several_runs_are_named() -> None:
    assert find_shared_handles(["a", "b", "a"]) == {"a"}
