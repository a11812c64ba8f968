"""Runs in `former/` were written before names changed; today's reader opens, repeats and resumes them.

They were computed at commit ec527aac, with `txlab run` and scenarios of a few steps (one of them with
`--set look.positions=4`, one with `--set control.together=2`) and with `txlab.record`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from txlab.cli import app
from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, RunInfo, info_of
from txlab.runs.events import read_rows
from txlab.runs.models import open_checkpoint, scenario_of
from txlab.runs.process import execute
from txlab.runs.reader import RunReader
from txlab.runs.scenario import load_scenario

FORMER = Path(__file__).parent / "former"
NAMES = ["control", "language", "prediction", "words"]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FORMER, tmp_path / "runs"))


@pytest.mark.parametrize("name", [*NAMES, "recorded"])
def test_the_reader_shows_its_series_and_its_last_frame(runs: Path, name: str) -> None:
    reader = RunReader(runs / name)
    reader.poll()
    assert reader.problem == ""
    assert reader.state.status == "done"
    assert len(reader.series(reader.names("metrics")[0]).values)
    if name != "recorded":
        frame = reader.frames.read(int(reader.frames.steps[-1]))
        assert frame.step == reader.info.step
        assert frame.tensors


@pytest.mark.parametrize("name", NAMES)
def test_its_kind_and_its_settings_have_current_names(runs: Path, name: str) -> None:
    reader = RunReader(runs / name)
    reader.poll()
    compute = reader.scenario["compute"]
    assert (compute["thread_mode"], compute["cuda_graphs"]) == ("operations", False)
    assert not {"share", "graphs"} & {*compute, *reader.info.facts["compute"]}
    assert "look" not in reader.scenario
    kind = kind_named(reader.info.kind)
    assert reader.scenario["kind"] == kind.name
    assert isinstance(scenario_of(reader.directory), kind.schema)
    assert load_scenario(reader.directory.scenario_file).scenario == scenario_of(reader.directory)


def test_a_changed_setting_is_listed_under_its_current_name(runs: Path) -> None:
    assert RunInfo.load(runs / "language").changes == {"probe.positions": 4}
    assert RunInfo.load(runs / "control").changes == {"control.sync_every": 2, "compute.device": "cpu"}
    assert scenario_of(RunDirectory(runs / "control")).control.sync_every == 2  # type: ignore[attr-defined]


def test_the_configuration_of_a_recorded_run_keeps_its_names(runs: Path) -> None:
    assert RunInfo.load(runs / "recorded").config == {"lr": 0.1, "look.size": 2}


def test_a_run_without_run_json_has_its_current_kind(runs: Path) -> None:
    (runs / "control/run.json").unlink()
    assert info_of(RunDirectory(runs / "control")).kind == "mdp-control"


def test_its_model_opens(runs: Path) -> None:
    assert open_checkpoint(RunDirectory(runs / "language")).step == 4


@pytest.mark.parametrize("name", NAMES)
def test_it_resumes_from_an_earlier_checkpoint(runs: Path, name: str) -> None:
    run = RunDirectory(runs / name)
    before = info_of(run).step
    step = min(checkpoints.sound(run))
    info = execute(run, rewind_to=step)
    assert (info.status, info.step) == ("done", before), info.reason
    assert any(row["event"] == "rewind" and row["step"] == step for row in read_rows(run.events)[0])


def test_it_can_be_repeated(runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TXLAB_RUNS", str(runs))
    again = tmp_path / "again"
    app(["run", "--like", "control", "--out", str(again)], standalone_mode=False)
    assert info_of(RunDirectory(again)).status == "done"
    assert scenario_of(RunDirectory(again)) == scenario_of(RunDirectory(runs / "control"))


def test_a_scenario_of_a_user_has_current_names(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text('kind = "control"\n')
    with pytest.raises(LabError, match="mdp-control"):
        load_scenario(path)
