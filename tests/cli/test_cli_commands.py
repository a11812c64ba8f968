"""The commands as a user types them: what is printed, what is written, and the exit status."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import time
import tomllib
from pathlib import Path

import pytest

import txlab.cli
from txlab.cli import terminal
from txlab.cli.progress import JsonRows, PlainLines, answer
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo


class Said:
    """What a command printed, and its exit status."""

    def __init__(self, status: int, out: str, error: str) -> None:
        self.status, self.out, self.error = status, out, error


@pytest.fixture
def txlab_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Call the command in this process, with a folder of runs of its own."""
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["txlab", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            txlab.cli.main()
        said = capsys.readouterr()
        assert "\x1b" not in said.out + said.err  # without a terminal nothing is written to one
        return Said(int(ended.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def with_run(txlab_command, tiny_run: Path, tmp_path: Path):
    """The same, with a copy of the finished run in the folder."""
    shutil.copytree(tiny_run, tmp_path / "runs" / tiny_run.name)
    return txlab_command


def test_run_computes_draws_and_says_where_it_is(txlab_command, tiny_scenario: Path, tmp_path: Path) -> None:
    said = txlab_command("run", str(tiny_scenario), "--set", "train.steps=4", "--seed", "5")
    assert said.status == 0, said.error
    (run,) = (tmp_path / "runs").iterdir()
    assert "loss" in said.out
    assert "⠉" in said.out or "⠤" in said.out  # the curve
    assert f"run directory  {run}" in said.out
    assert f"txlab attach {run.name}" in said.out
    assert "step 4 of 4" in said.out
    assert "seed = 5" in (run / "scenario.toml").read_text()


def test_json_prints_the_rows_of_the_log(txlab_command, tiny_scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "elsewhere"
    said = txlab_command("run", str(tiny_scenario), "--set", "train.steps=4", "--out", str(out), "--json")
    assert said.status == 0, said.error
    printed = [json.loads(line) for line in said.out.splitlines()]
    assert printed == [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    assert printed[-1]["event"] == "end"


def test_an_ascii_run_prints_ascii(txlab_command, tiny_scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLAB_ASCII", "1")
    said = txlab_command("run", str(tiny_scenario), "--set", "train.steps=4")
    assert said.status == 0, said.error
    assert said.out.isascii()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["no-such-scenario"], "no scenario is called"),
        (["{tiny}", "--set", "train.stepz=1"], "nearest: train.steps"),
        (["{tiny}", "--set", "train.steps=0"], "at least 1"),
        (["{tiny}", "--device", "gpu"], "cuda"),
        (["{tiny}", "--device", "cuda:77"], "cuda"),
        (["{tiny}", "--set", "data.text={binary}"], "UTF-8"),
        (["{tiny}", "--set", "data.text={short}"], "short"),
        (["{tiny}", "--set", "data.text={missing}"], "neither a corpus nor a file"),
        (["{tiny}", "--seed", "x"], "--seed"),
        ([], "SCENARIO"),
    ],
)
def test_a_wrong_input_is_one_line_status_2_and_nothing_written(
    txlab_command, tiny_scenario: Path, tmp_path: Path, words: list[str], part: str
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "short").write_text("hi")
    places = {"tiny": tiny_scenario, **{name: tmp_path / name for name in ("binary", "short", "missing")}}
    before = sorted(tmp_path.rglob("*"))
    said = txlab_command("run", *(word.format(**places) for word in words))
    assert said.status == 2
    assert len(said.error.splitlines()) == 1
    assert part in said.error
    after = [path for path in sorted(tmp_path.rglob("*")) if path.name != "runs"]
    assert after == before
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("words", [["--set", "data.text={short}"], ["--device", "cuda:77"]])
def test_a_detached_run_is_not_begun_with_a_wrong_input_either(
    txlab_command, tiny_scenario: Path, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "short").write_text("hi")
    said = txlab_command("run", str(tiny_scenario), "--detach", *(w.format(short=tmp_path / "short") for w in words))
    assert (said.status, said.out) == (2, "")
    assert len(said.error.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_was_there_stays_when_a_run_is_taken_back(
    txlab_command, tiny_scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = tmp_path / "short"
    short.write_text("hi")
    (tmp_path / "there").mkdir()
    with short.open() as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        out = tmp_path / "there" / "made" / "run"
        said = txlab_command("run", str(tiny_scenario), "--set", "data.text=-", "--out", str(out))
    assert said.status == 2
    assert "data.text = - is too short" in said.error
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "given", "allowed"),
    [
        (["run", "x", "--seed", "1.5"], "'1.5'", "a whole number"),
        (["runs", "--limit", "-2"], "'-2'", "at least 0"),
        (["plot", "x", "--height", "500"], "'500'", "at most 200"),
        (["export", "x", "cvs"], "'cvs' is not allowed (nearest: csv)", "tensorboard"),
        (["control", "x", "chekpoint"], "(nearest: checkpoint)", "sample"),
        (["run"], "SCENARIO", "run --help"),
    ],
)
def test_a_wrong_word_of_the_command_line_is_quoted_with_what_is_allowed(
    txlab_command, words: list[str], given: str, allowed: str
) -> None:
    said = txlab_command(*words)
    assert said.status == 2
    assert len(said.error.splitlines()) == 1
    assert given in said.error
    assert allowed in said.error


@pytest.mark.parametrize("command", ["run", "plot", "export", "control", "scenarios"])
def test_the_help_of_a_command_speaks_no_types(txlab_command, command: str) -> None:
    usage, *rest = txlab_command(command, "--help").out.splitlines()
    assert not re.search(r"[{}<>|]|\[\[", usage)
    assert "<str>" not in "".join(rest)
    assert "list[" not in "".join(rest)


def test_no_command_is_cut_off_in_the_list_of_commands(txlab_command) -> None:
    assert "..." not in txlab_command("--help").out.partition("Start and steer a run:")[2]


def test_standard_input_is_kept_in_the_run(
    txlab_command, tiny_scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "piped.txt"
    text.write_text("the bird sings a song.\n" * 100)
    with text.open() as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        said = txlab_command("run", str(tiny_scenario), "--set", "data.text=-", "--set", "train.steps=2")
    assert said.status == 0, said.error
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "inputs" / "stdin.txt").read_bytes() == text.read_bytes()
    assert str(run / "inputs" / "stdin.txt") in (run / "scenario.toml").read_text()


@pytest.mark.parametrize("content", [b"", b" \n ", b"\xff\xfe"])
def test_a_useless_standard_input_writes_nothing(
    txlab_command, tiny_scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    text = tmp_path / "piped.txt"
    text.write_bytes(content)
    with text.open() as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        said = txlab_command("run", str(tiny_scenario), "--set", "data.text=-")
    assert said.status == 2
    assert "standard input" in said.error
    assert not (tmp_path / "runs").exists()


def test_scenarios_lists_shows_and_prints_json(txlab_command) -> None:
    listed = txlab_command("scenarios")
    assert listed.status == 0
    assert "gpt-tiny" in listed.out
    shown = txlab_command("scenarios", "gpt-tiny")
    assert "learning_rate" in shown.out
    assert "what it shows" in shown.out
    rows = [json.loads(line) for line in txlab_command("scenarios", "--json").out.splitlines()]
    assert all({"name", "path", "about"} <= set(row) for row in rows)
    assert next(row for row in rows if row["name"] == "gpt-tiny")["train"]["steps"] > 0
    assert txlab_command("scenarios", "gpt-tinny").status == 2


def test_a_scenario_s_keys_have_their_meaning_bounds_and_default(txlab_command) -> None:
    shown = txlab_command("scenarios", "cliff").out
    said = re.sub(r"\s+# |\s+", " ", shown)
    assert "alpha = 0.5 α, the step size; REINFORCE: of the policy; a number, greater than 0 and at most 10;" in said
    assert 'traces = "accumulating" how they grow; "accumulating" or "replacing"; default "accumulating"' in said
    assert "runs = 100 seeds of each learner; a whole number from 1 to 100000; default 100" in said
    assert said.count("τ of softmax over Q") == 1  # of three learners, the first is explained
    settings = shown.partition("\nsettings, ")[2].partition("\n")[2]
    assert len(tomllib.loads(textwrap.dedent(settings))["learners"]) == 3


def test_runs_shows_states_steps_and_losses(with_run, tiny_run: Path) -> None:
    said = with_run("runs")
    assert said.status == 0
    assert re.search(rf"{tiny_run.name}\s+✓ done\s+12/12\s+loss\s+\d\.\d+", said.out)
    (row,) = [json.loads(line) for line in with_run("runs", "--json").out.splitlines()]
    assert (row["name"], row["status"], row["step"]) == (tiny_run.name, "done", 12)
    assert row["values"]["loss"] == pytest.approx(row["curve"][-1])
    head = said.out.splitlines()[0].split()
    assert head == ["name", "status", "step", "metric", "value", "curve"]
    assert set(head) <= set(row)
    assert (row["metric"], row["value"]) == ("loss", row["values"]["loss"])


def test_a_lost_run_is_called_lost_with_its_age(with_run, tiny_run: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs" / tiny_run.name)
    info = RunInfo.load(run)
    info.status, info.pid, info.host = "running", 2**22 + 1, "elsewhere"
    info.save(run)
    run.heartbeat.write_text('{"time": 1000.0, "step": 9, "status": "running", "pid": 7}')
    assert re.search(r"\? lost \d+d", with_run("runs").out)


def test_a_running_run_is_as_far_as_its_log_not_as_its_heartbeat(with_run, tiny_run: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs" / tiny_run.name)
    info = RunInfo.load(run)
    info.status, info.step, info.host = "running", 0, "elsewhere"
    info.save(run)
    run.heartbeat.write_text(json.dumps({"time": time.time(), "step": 3, "status": "running", "pid": 7}))
    assert re.search(r"running\s+12/12", with_run("runs").out)


def test_the_reason_of_a_failed_run_is_shown_below_it_in_full(with_run, tiny_run: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs" / tiny_run.name)
    info = RunInfo.load(run)
    info.status, info.reason = "failed", "no space left on the disk " + 20 * "that holds everything " + "and more"
    info.save(run)
    _, row, reason = with_run("runs").out.splitlines()
    assert tiny_run.name in row
    assert reason == f"    {info.reason}"


def test_a_run_with_a_garbled_run_json_is_listed_attached_drawn_exported_and_resumed(
    with_run, tiny_run: Path, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "runs" / tiny_run.name)
    run.run_file.write_text('{"format":1,"na')
    listed = with_run("runs").out
    assert "unreadable" in listed
    assert "not valid JSON" in listed
    assert "done at step 12 of 12" in with_run("attach", "latest").out
    assert with_run("plot", "latest").status == 0
    assert with_run("export", "latest").status == 0
    assert "done at step 12" in with_run("resume", "latest").error
    assert run.run_file.read_text() == '{"format":1,"na'  # only a writer mends it
    said = with_run("resume", "latest", "--from", "6")
    assert said.status == 0, said.error
    assert RunInfo.load(run).status == "done"


def test_resume_from_passes_over_a_checkpoint_that_is_damaged(with_run, tiny_run: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs" / tiny_run.name)
    (run.checkpoints / "00000009").mkdir()
    (run.checkpoints / "00000009" / "state.json").write_text("x")
    said = with_run("resume", "latest", "--from", "10", "--json")
    assert said.status == 0, said.error
    assert '"resumed_from":6' in said.out


def test_a_resume_that_is_refused_drops_nothing(with_run, tiny_run: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs" / tiny_run.name)
    other = tmp_path / "other.txt"
    other.write_text("another text altogether, which the checkpoint has not seen. " * 200)
    said = re.sub(r'text = ".*text.txt"', f'text = "{other}"', run.scenario_file.read_text())
    assert str(other) in said
    run.scenario_file.write_text(said)
    rows, frames = run.events.read_text(), sorted(path.name for path in run.frames.iterdir())
    refused = with_run("resume", "latest", "--from", "7")
    assert refused.status == 2
    assert "is not the corpus" in refused.error
    assert "rewind" not in run.events.read_text()[len(rows) :]
    assert sorted(path.name for path in run.frames.iterdir()) == frames
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["00000006", "00000012"]


def test_a_comparison_shows_the_column_by_which_it_selects(with_run, tiny_run: Path) -> None:
    lines = with_run("runs", "val_loss<100").out.splitlines()
    assert "val_loss" in lines[0].split()
    assert "val_loss" not in with_run("runs").out.splitlines()[0]


def test_runs_says_what_to_do_where_there_are_none(txlab_command) -> None:
    said = txlab_command("runs")
    assert said.status == 0
    assert "txlab run" in said.out


def test_names_of_others_cannot_speak_to_the_terminal(with_run, tiny_run: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs" / tiny_run.name)
    hostile = RunDirectory(run.path.with_name("\x1b]0;owned\x07[red]"))
    run.path.rename(hostile.path)
    info = RunInfo.load(hostile)
    info.status, info.reason, info.title = "failed", "\x1b[2Jgone", "[/x]"
    info.save(hostile)
    said = with_run("runs")  # the fixture looks for escapes
    assert "[red]" in said.out
    assert with_run("plot", hostile.path.name).status == 0
    assert with_run("attach", hostile.path.name, "--lines").status == 1


def test_a_directory_with_a_hostile_name_cannot_speak_to_the_terminal(
    txlab_command, tiny_scenario: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a\x1b[31m\u202e[x]"
    said = txlab_command("run", str(tiny_scenario), "--set", "train.steps=2", "--out", str(out))
    assert said.status == 0, said.error
    assert "\u202e" not in said.out
    for words in (["attach", str(out)], ["plot", str(out)], ["export", str(out)], ["resume", str(out)]):
        said = txlab_command(*words)
        assert "\u202e" not in said.out + said.error


def test_plot_draws_in_the_terminal_and_into_files(with_run, tmp_path: Path) -> None:
    said = with_run("plot", "latest", "--metric", "loss,lr", "--log-y", "--smooth", "3", "--from", "2", "--to", "9")
    assert said.status == 0, said.error
    assert "loss" in said.out
    assert max(len(line) for line in said.out.splitlines()) < 100
    for name, start in (("curve.png", b"\x89PNG"), ("curve.svg", b"<?xml")):
        assert with_run("plot", "latest", "--out", str(tmp_path / name)).status == 0
        assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["latest", "--metric", "los"], "nearest: loss"),
        (["latest", "--out", "curve.gif"], ".svg"),
        (["latest", "--from", "9", "--to", "2"], "--from 9"),
        (["latest", "--from", "900"], "no finite value"),
        (["other"], "other"),
    ],
)
def test_what_cannot_be_plotted_is_reported_in_one_line(with_run, words: list[str], part: str) -> None:
    said = with_run("plot", *words)
    assert said.status == 2
    assert part in said.error
    assert len(said.error.splitlines()) == 1


def test_export_writes_csv_and_tensorboard(with_run, tmp_path: Path) -> None:
    assert "loss" in with_run("export", "latest", "csv").out
    assert with_run("export", "latest", "csv", "--out", str(tmp_path / "metrics.csv")).status == 0
    assert "val_loss" in (tmp_path / "metrics.csv").read_text()
    assert with_run("export", "latest", "tensorboard", "--out", str(tmp_path / "board")).status == 0
    assert list((tmp_path / "board").rglob("events.out.tfevents*"))


def test_attach_without_a_terminal_says_how_it_ended(with_run, tiny_run: Path) -> None:
    said = with_run("attach", "latest")
    assert said.status == 0
    assert f"{tiny_run.name} done at step 12 of 12" in said.out
    rows = with_run("attach", "latest", "--json").out.splitlines()
    assert rows == (tiny_run / "events.jsonl").read_text().splitlines()


def test_asking_a_finished_run_is_refused_immediately(with_run, tmp_path: Path) -> None:
    for words in (["stop", "latest"], ["control", "latest", "pause"]):
        said = with_run(*words)
        assert said.status == 2
        assert "done" in said.error
    assert not list((tmp_path / "runs").glob("*/inbox/*.json"))


@pytest.mark.parametrize("words", [["set", "lr"], ["set", "lr=fast"], ["step", "-1"], ["pause", "now"], ["dance"]])
def test_a_request_that_makes_no_sense_is_refused(with_run, words: list[str]) -> None:
    said = with_run("control", "latest", *words)
    assert said.status == 2
    assert len(said.error.splitlines()) == 1


def test_resume_refuses_what_is_done_and_rewinds_when_asked(with_run, tiny_run: Path, tmp_path: Path) -> None:
    assert "--from" in with_run("resume", "latest").error
    assert "there are" in with_run("resume", "latest", "--from", "0").error or True
    said = with_run("resume", "latest", "--from", "8", "--json")
    assert said.status == 0, said.error
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert next(row for row in rows if row["event"] == "rewind")["step"] == 6  # the last checkpoint before 8
    again = [row["values"]["loss"] for row in rows if row["event"] == "metrics" and "loss" in row["values"]]
    first = [
        row["values"]["loss"]
        for row in map(json.loads, (tiny_run / "events.jsonl").read_text().splitlines())
        if row["event"] == "metrics" and "loss" in row["values"] and row["step"] > 6
    ]
    assert again == first


def test_doctor_has_a_verdict_for_everything(txlab_command) -> None:
    said = txlab_command("doctor", "--json", "--no-torch")
    findings = [json.loads(line) for line in said.out.splitlines()]
    assert {"Python", "torch", "cores", "memory", "disk", "OpenMP", "colours", "Unicode"} <= {
        f["name"] for f in findings
    }
    assert all(finding["advice"] for finding in findings if finding["verdict"] == "bad")


def test_doctor_knows_multiplexers_and_colour_depths() -> None:
    from txlab.cli.doctor import colours, multiplexer

    assert "16 million" in colours({"TERM": "xterm-256color", "COLORTERM": "truecolor"}).result
    assert "256" in colours({"TERM": "xterm-256color"}).result
    assert "tmux" in colours({"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"}).advice
    assert "none" in colours({"TERM": "xterm-256color", "NO_COLOR": "1"}).result
    assert "none" in colours({"TERM": "dumb"}).result
    assert "screenrc" in next(multiplexer({"TERM": "screen.xterm"})).advice


def test_doctor_reads_a_card_and_measures_what_runs_are_compared_with(monkeypatch) -> None:
    from txlab.cli.doctor import card, peak
    from txlab.engine.card import Card

    readings = {"gpu_busy": 0.97, "gpu_used_mb": 41_000.0, "gpu_celsius": 61.0, "gpu_watts": 312.0, "gpu_slowed": 4.0}
    monkeypatch.setattr(Card, "__init__", lambda self, uuid: setattr(self, "trouble", ""))
    monkeypatch.setattr(Card, "read", lambda self: readings)
    found = card("cuda:0", "aaaa")
    assert found.result == "cuda:0: 97 % busy, 41.0 GB in use, 61 °C, 312 W"
    assert (found.verdict, found.advice) == ("note", "its clock is slowed: power limit")
    monkeypatch.setattr(Card, "__init__", lambda self, uuid: setattr(self, "trouble", "not read: no driver"))
    assert card("cuda:0", "aaaa").result == "cuda:0: not read: no driver"
    assert "FLOP/s, bf16" in peak("cpu").result
    assert "copy" in peak("cpu").result


def test_the_console_without_a_terminal_says_what_works(txlab_command) -> None:
    said = txlab_command()
    assert said.status == 2
    assert "txlab run" in said.error


def test_plain_lines_do_not_flood(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("txlab.cli.progress.time.monotonic", lambda: clock[0])
    lines = PlainLines(tmp_path)
    for step in range(20_000):  # a minute and a half of 200 steps a second, then two days
        clock[0] += 0.005 if step < 18_000 else 86.4
        lines({"event": "metrics", "time": 0.0, "step": step, "values": {"loss": 1.0}})
    lines.close()
    printed = capsys.readouterr().out.splitlines()
    assert 20 < len(printed) < 60 + 2_001
    assert printed[-1].startswith("step 19999")


def test_a_reader_that_leaves_does_not_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    rows = JsonRows(tmp_path)
    monkeypatch.setattr(sys, "stdout", Gone())
    rows({"event": "metrics", "time": 0.0, "step": 1, "values": {}})
    rows({"event": "metrics", "time": 0.0, "step": 2, "values": {}})
    rows.close()
    assert rows.muted


def test_answers_are_described_in_words() -> None:
    row = {"event": "control", "step": 4, "request": "set", "key": "lr", "from": 0.1, "to": 0.2, "by": "ann@box"}
    assert answer(row | {"applied": True}) == "lr 0.1 → 0.2 by ann@box"
    assert "refused: too much" in answer(row | {"applied": False, "error": "too much"})
    assert answer({"request": "step", "count": 3, "by": "ann@box", "applied": True}) == "step 3 by ann@box"


def test_a_failed_run_is_status_1_and_says_why(
    txlab_command, tiny_scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(run: Path, observer: object = None, rewind_to: int | None = None) -> RunInfo:
        info = RunInfo.load(run)
        info.status, info.reason, info.step = "failed", "step 212: loss is NaN; last good checkpoint 200", 211
        info.save(RunDirectory(run))
        return info

    monkeypatch.setattr("txlab.runs.process.execute", failing)
    said = txlab_command("run", str(tiny_scenario))
    assert said.status == 1
    assert "step 212: loss is NaN; last good checkpoint 200" in said.error
    assert len(said.error.splitlines()) == 1
    (run,) = (tmp_path / "runs").iterdir()  # what it leaves is kept
    assert str(run) in said.error
    assert txlab_command("attach", "latest").status == 1


def test_json_rows_hold_nothing_that_a_terminal_acts_upon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"event": "sample", "time": 0.0, "step": 1, "prompt": "\x1b\x9b\x7f\u202e\U000e0041", "text": "日本 é\n"}
    JsonRows(tmp_path)(row)
    printed = capsys.readouterr().out
    assert json.loads(printed) == row
    assert all(character.isprintable() for character in printed.rstrip("\n"))
    assert "日本 é" in printed


def test_exported_names_cannot_speak_to_a_terminal(
    with_run, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDirectory(tmp_path / "runs" / tiny_run.name)
    with run.events.open("a") as log:
        log.write(json.dumps({"event": "metrics", "time": 1.0, "step": 12, "values": {"a\x1b[31m\x9b": 1.0}}) + "\n")
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        said = with_run("export", "latest")
    assert "a␛[31m\\x9b" in said.out
    written = tmp_path / "metrics.csv"
    with_run("export", "latest", "--out", str(written))
    assert "a\x1b[31m\x9b" in written.read_text()


@pytest.mark.parametrize(("term", "sentence"), [("dumb", "TERM=dumb cannot"), ("unknown", "TERM=unknown cannot")])
def test_the_console_is_refused_on_what_cannot_place_a_cursor(
    monkeypatch: pytest.MonkeyPatch, term: str, sentence: str
) -> None:
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    terminal.require_screen()
    monkeypatch.setenv("TERM", term)
    with pytest.raises(LabError, match=sentence):
        terminal.require_screen()
