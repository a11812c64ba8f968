"""Alerts: no false alarm in a hundred thousand ordinary steps, and every kind of trouble is noticed once."""

import json
import math
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from waiting import LONGEST, wait_for

import txlab
from txlab.errors import LabError
from txlab.runs.alerts import Alarms, Alert, command
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import Row, read_rows

STEPS = 100_000
NOISE = {
    "a twentieth": lambda rng, n: 1 + 0.05 * rng.standard_normal(n),
    "a fifth": lambda rng, n: 1 + 0.2 * rng.standard_normal(n),
    "skewed": lambda rng, n: np.exp(0.3 * rng.standard_normal(n)),
    "heavy tails": lambda rng, n: 1 + 0.1 * rng.standard_t(5, n),
    "drifting": lambda rng, n: 1 + 0.1 * np.sin(np.arange(n) / 300) + 0.05 * rng.standard_normal(n),
}


def alerts_of(loss: np.ndarray, times: np.ndarray | None = None) -> list[Alert]:
    alarms, found = Alarms(0.0), []
    for step, value in enumerate(loss.tolist()):
        found += alarms.metrics(
            step, {"loss": value, "lr": 0.1}, float(times[step]) if times is not None else step * 0.05
        )
    return found


def curve(n: int) -> np.ndarray:
    """A loss from 10 to 2 nats, most of it in the first tenth."""
    return 2 + 8 * np.exp(-np.arange(n) / (n / 30))


@pytest.mark.parametrize("noise", NOISE)
def test_a_hundred_thousand_steps_of_an_ordinary_curve_raise_no_alarm(noise: str) -> None:
    rng = np.random.default_rng(0)
    assert alerts_of(curve(STEPS) * NOISE[noise](rng, STEPS)) == []


def test_a_hundred_thousand_uneven_steps_raise_no_alarm() -> None:
    """Log-normal step times, an evaluation of 20 s every 2 000 steps, one of 4 minutes every 20 000."""
    rng = np.random.default_rng(1)
    took = 0.2 * np.exp(0.5 * rng.standard_normal(STEPS))
    took[::2_000] += 20
    took[::20_000] += 240
    times = np.cumsum(took)
    assert alerts_of(curve(STEPS) * NOISE["a twentieth"](rng, STEPS), times) == []


def test_a_spike_is_noticed_within_five_rows_and_once() -> None:
    rng = np.random.default_rng(2)
    loss = curve(5_000) * NOISE["a twentieth"](rng, 5_000)
    loss[3_000:] *= 1.6  # it does not come back
    (alert,) = alerts_of(loss)
    assert (alert.kind, alert.level, alert.title) == ("spike", "warning", "loss jumped")
    step = int(alert.text.rpartition(" ")[2])
    assert 3_000 <= step <= 3_004


def test_one_row_far_above_all_is_a_spike() -> None:
    rng = np.random.default_rng(3)
    loss = curve(2_000) * NOISE["a twentieth"](rng, 2_000)
    loss[1_500] *= 8
    (alert,) = alerts_of(loss)
    assert alert.text.endswith("in one row, at step 1500")


def test_nan_is_noticed_once_until_it_is_finite_again() -> None:
    loss = np.full(60, 2.0)
    loss[20:25], loss[40] = math.nan, math.inf
    found = alerts_of(loss)
    assert [(alert.title, alert.level) for alert in found] == [("loss is NaN", "error"), ("loss is infinite", "error")]


def test_a_metric_that_was_never_finite_is_not_reported() -> None:
    alarms = Alarms(0.0)
    assert [alarms.metrics(step, {"accuracy": math.nan}, step) for step in range(5)] == [[]] * 5
    assert alarms.metrics(5, {"accuracy": 0.5}, 5) == []
    assert [alert.level for alert in alarms.metrics(6, {"accuracy": math.nan}, 6)] == ["warning"]


def test_half_the_speed_is_noticed_within_four_windows() -> None:
    took = np.full(10_000, 0.05)
    took[6_000:] = 0.15
    times = np.cumsum(took)
    (alert,) = alerts_of(np.full(10_000, 2.0), times)
    assert (alert.kind, alert.text.split(",")[0]) == ("slow", "6.67 steps/s")
    at = int(alert.text.rpartition(" ")[2])
    assert times[at] - times[6_000] < 45


def test_silence_is_noticed_once_and_a_pause_is_none() -> None:
    alarms = Alarms(0.0)
    assert alarms.look(599, 1e12, 1e12) == []
    assert [alert.kind for alert in alarms.look(601, 1e12, 1e12)] == ["stalled"]
    for step in range(20):
        alarms.metrics(step, {"loss": 2.0}, 700 + 20 * step)
    last = 700 + 20 * 19
    assert alarms.look(last + 90, 1e12, 1e12) == []  # 5 times the longest silence are 100 s
    (alert,) = alarms.look(last + 110, 1e12, 1e12)
    assert alert.text == "no numbers for 110 s; the longest silence before was 20 s"
    assert alarms.look(last + 200, 1e12, 1e12) == []
    alarms.rest(last + 300, resting=True)
    assert alarms.look(last + 9_000, 1e12, 1e12) == []
    alarms.rest(last + 9_000, resting=False)
    assert alarms.look(last + 9_050, 1e12, 1e12) == []
    assert len(alarms.look(last + 9_150, 1e12, 1e12)) == 1


def test_a_disk_is_nearly_full_below_two_percent_or_a_gibibyte() -> None:
    alarms = Alarms(0.0)
    assert alarms.look(1, 3e9, 1e12) == []
    assert [alert.kind for alert in alarms.look(2, 0.9e9, 1e12)] == ["disk"]
    assert alarms.look(3, 0.8e9, 1e12) == []
    assert alarms.look(4, 5e9, 1e12) == []
    assert len(alarms.look(5, 0.5e9, 1e12)) == 1
    assert Alarms(0.0).look(1, 5e8, 1e10) == []  # 5 % of a small disk


def rows_of(path: Path, event: str) -> list[Row]:
    return [row for row in read_rows(RunDirectory(path).events)[0] if row["event"] == event]


def test_alerts_are_rows_and_counted_in_run_json(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, loss=2.0)
        run.log(2, loss=math.nan)
        run.alert("look", "at this", "WARN")
        with pytest.raises(LabError, match="allowed: info, warning, error"):
            run.alert("look", level="loud")
    found = rows_of(run.path, "alert")
    assert [(row["step"], row["title"], row["level"], row["kind"]) for row in found] == [
        (2, "loss is NaN", "error", "not finite"),
        (2, "look", "warning", ""),
    ]
    alerts = RunInfo.load(run.path).alerts
    assert (alerts["count"], alerts["title"], alerts["level"]) == (2, "look", "error")


# The user's own command


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that copies its input to a file, named in the environment."""
    there = tmp_path / "told.json"
    program = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
    monkeypatch.setenv("TXLAB_ALERT_COMMAND", shlex.join([sys.executable, "-S", "-c", program, str(there)]))
    return there


def test_the_command_gets_the_alert_as_json(tmp_path: Path, told: Path) -> None:
    with txlab.record("mine", root=tmp_path / "runs") as run:
        run.alert("a title; rm -rf /", "$(touch owned)", "error")
        for started in run.recorder.command.started:
            assert started.wait(LONGEST) == 0
    said = json.loads(told.read_text())
    assert (said["title"], said["text"], said["level"]) == ("a title; rm -rf /", "$(touch owned)", "error")
    assert said["run"] == str(run.path)
    assert not Path("owned").exists()


def test_a_command_that_cannot_be_started_is_noted_once_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLAB_ALERT_COMMAND", "/no/such/program")
    with txlab.record("mine", root=tmp_path) as run:
        for _ in range(3):
            run.alert("look")
    assert [row["text"] for row in rows_of(run.path, "note")] == [
        "the alert command was not started: No such file or directory"
    ]
    assert len(rows_of(run.path, "alert")) == 3


def test_the_command_comes_from_the_users_settings_and_never_from_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlab.runs.alerts.settings_file", lambda: tmp_path / "config.toml")
    monkeypatch.delenv("TXLAB_ALERT_COMMAND", raising=False)
    assert command() == []
    (tmp_path / "config.toml").write_text("alert_command = \"notify-send 'a run'\"\n")
    assert command() == ["notify-send", "a run"]
    (tmp_path / "config.toml").write_text('alert_command = "unfinished \'"\n')
    with pytest.raises(LabError, match="is not a command"):
        command()
    monkeypatch.setenv("TXLAB_ALERT_COMMAND", "mine")
    assert command() == ["mine"]


def test_a_silent_loop_is_reported_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.runs.alerts.SILENT_AT_LEAST", 0.2)
    monkeypatch.setattr("txlab.runs.recorder.SYNC_EVERY", 0.05)
    monkeypatch.setattr("txlab.runs.recorder.HEARTBEAT_EVERY", 0.1)
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, loss=2.0)
        run.log(2, loss=2.0)
        wait_for(lambda: rows_of(run.path, "alert"))
        monkeypatch.setattr("txlab.runs.alerts.SILENT_AT_LEAST", 1e9)  # it may take a while to end
        run.log(3, loss=2.0)
    assert [row["kind"] for row in rows_of(run.path, "alert")] == ["stalled"]
    assert [row["step"] for row in rows_of(run.path, "metrics")] == [1, 2, 3]
