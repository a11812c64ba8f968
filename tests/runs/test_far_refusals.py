"""A far side that takes nothing, is full, or is cut off: the user is informed, and what was asked is sent later."""

from __future__ import annotations

import json
import random
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from far_machine import FULL, READ_ONLY, stand_in
from waiting import wait_for

import txlab
from txlab.cli import app
from txlab.errors import LabError, RunFailed
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import encode_row
from txlab.runs.finding import find_run
from txlab.runs.label import read_label, write_label
from txlab.runs.preferences import append
from txlab.runs.remote import line, mirroring
from txlab.runs.remote.address import Address
from txlab.runs.remote.host import Host
from txlab.runs.remote.state import remote_state


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Three runs of the machine `box`, which are open; the one that is asked for is in the middle."""
    root = tmp_path / "far" / "runs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, runs=root))
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "here"))
    runs = []
    for name in ("first", "second", "third"):
        run = txlab.record(name, root=root)
        for step in range(20):
            run.log(step, loss=1.0)
        runs.append(run)
    write_label(runs[1].path, "before")
    yield [run.path for run in runs]
    mirroring.close_all()
    for run in runs:
        run.close()


def with_prelude(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Run these lines on the other machine before the reader."""
    program = zlib.decompress(agent())
    monkeypatch.setattr(line, "agent", lambda: zlib.compress(code.encode() + b"\n" + program))


agent = line.agent


@pytest.mark.parametrize(("code", "why"), [(READ_ONLY, "Read-only file system"), (FULL, "No space left on device")])
def test_a_refused_label_is_reported_and_sent_later(
    far: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, why: str
) -> None:
    with monkeypatch.context() as refusing:
        with_prelude(refusing, code)
        with pytest.raises(RunFailed, match=f"box does not take the label: {why}; the label kept here and sent"):
            app(["name", f"box:{far[1]}", "after"], standalone_mode=False)
        path = find_run(f"box:{far[1]}")
        assert "does not take the label" in remote_state(path).sentence  # type: ignore[union-attr]
        mirroring.close_all()
        assert not [each.name for each in far[1].iterdir() if each.name.startswith(".label")]  # nothing half-written
        write_label(far[1], "meanwhile")
        mirroring.list_mirrors(Address("box", str(far[1].parent)))
        assert read_label(path).name == "after"  # a list does not write an older one over it
        mirroring.close_all()
    assert [read_label(run).name for run in far] == ["", "meanwhile", ""]
    find_run(f"box:{far[1]}")
    assert mirroring.wait_for_delivery(path) == ""
    assert [read_label(run).name for run in far] == ["", "after", ""]


@pytest.mark.parametrize("code", [READ_ONLY, FULL])
def test_a_refused_request_is_reported_as_lost(far: list[Path], monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    with_prelude(monkeypatch, code)
    with pytest.raises(RunFailed, match=r"box does not take the request: .*; it is not sent again"):
        app(["control", f"box:{far[1].name}", "pause"], standalone_mode=False)
    assert not list((find_run(f"box:{far[1]}") / "inbox").glob("*.json"))


def test_lines_that_are_refused_are_kept_whole_and_sent_later(far: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    append(RunDirectory(far[1]), "preferences.jsonl", [b'{"id":"there","question":"q"}\n'])
    before = (far[1] / "preferences.jsonl").read_bytes()
    with monkeypatch.context() as refusing:
        with_prelude(refusing, FULL)
        path = find_run(f"box:{far[1]}")
        append(RunDirectory(path), "preferences.jsonl", [b'{"id":"here","question":"q"}\n', b'{"question":"no id"}\n'])
        assert "does not take preferences.jsonl: No space left on device; 2 lines" in mirroring.wait_for_delivery(path)
        assert (far[1] / "preferences.jsonl").read_bytes() == before
        mirroring.close_all()
    find_run(f"box:{far[1]}")
    assert mirroring.wait_for_delivery(path) == ""
    there = (far[1] / "preferences.jsonl").read_bytes()
    assert there == before + b'{"id":"here","question":"q"}\n{"question":"no id"}\n'


def test_more_lines_than_a_message_holds_all_arrive(far: list[Path]) -> None:
    path = find_run(f"box:{far[1]}")
    rows = [json.dumps({"id": f"r{number}", "prompt": "x" * 900_000}).encode() + b"\n" for number in range(4)]
    append(RunDirectory(path), "preferences.jsonl", rows)
    assert mirroring.wait_for_delivery(path) == ""
    assert (far[1] / "preferences.jsonl").read_bytes() == b"".join(rows)


def cut_after(folder: Path, root: Path, there: int | str, back: int | str) -> str:
    """A command for $TXLAB_SSH whose session ends after this number of bytes towards the machine, or from it."""
    script = folder / "cut-ssh"
    script.write_text(f"#!{sys.executable} -S\nROOT, THERE, BACK = {str(root)!r}, {there}, {back}\n{CUTS}")
    script.chmod(0o755)
    return str(script)


CUTS = """
import os, subprocess, sys, threading
os.environ["TXLAB_RUNS"] = ROOT
child = subprocess.Popen(["sh", "-c", sys.argv[-1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
def copy(source, sink, left):
    try:
        while left and (data := os.read(source, min(left, 1 << 16))):
            left -= len(data)
            while data:
                data = data[os.write(sink, data):]
    except OSError:
        pass
    if not left:
        child.kill()
        os._exit(255)
    os.close(sink)
threading.Thread(target=copy, args=(0, child.stdin.fileno(), THERE), daemon=True).start()
copy(child.stdout.fileno(), 1, BACK)
"""


def test_rankings_given_without_a_connection_are_reported_as_kept(
    far: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = find_run(f"box:{far[1]}")
    mirroring.close_all()
    with monkeypatch.context() as lost:
        lost.setenv("TXLAB_SSH", "false")
        append(RunDirectory(path), "preferences.jsonl", [b'{"id":"here","question":"q"}\n'])
        why = mirroring.wait_for_delivery(path)
        assert why.startswith("the connection to box ended")
        assert why.endswith("lines of preferences.jsonl kept here and sent with the next connection")
        mirroring.close_all()
    find_run(f"box:{far[1]}")
    assert mirroring.wait_for_delivery(path) == ""
    assert b'"here"' in (far[1] / "preferences.jsonl").read_bytes()


def test_what_another_process_delivers_is_known_to_be_taken_or_not(
    far: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = b'{"id":"here","question":"q"}\n'
    for refusing in (True, False):
        with monkeypatch.context() as prelude:
            if refusing:
                with_prelude(prelude, FULL)
            other = Host(Address("box", str(far[1].parent))).start()
            other.want(far[1].name)
            wait_for(lambda: (mirror := other.mirrors.get(far[1].name)) and mirror.settled)  # noqa: B023
            path = find_run(f"box:{far[1]}")
            if refusing:
                append(RunDirectory(path), "preferences.jsonl", [row])
                assert "does not take preferences.jsonl: No space left on device" in mirroring.wait_for_delivery(path)
            else:
                assert mirroring.wait_for_delivery(path) == ""
                assert (far[1] / "preferences.jsonl").read_bytes() == row
            assert path.name in mirroring.host_at(Address("box", str(far[1].parent))).elsewhere
            mirroring.close_all()
            other.close()


def test_what_another_process_said_before_it_was_asked_does_not_count(
    far: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = find_run(f"box:{far[1]}")
    mirroring.close_all()
    append(RunDirectory(path), "preferences.jsonl", [b'{"id":"here","question":"q"}\n'])
    told = replace(remote_state(path), line="connected", left="", refused="the label: full", written=time.time())  # type: ignore[type-var]
    (path / "far.json").write_bytes(told.to_json())
    other = SimpleNamespace(
        mirrors={}, elsewhere={path.name}, trouble={}, connected=Event(), failed=Event(), address=Address("box"), why=""
    )
    other.connected.set()
    assert mirroring.what_is_left(other, path, told.written - 1) == []  # type: ignore[arg-type]
    assert mirroring.what_is_left(other, path, told.written + 1) == ["lines of preferences.jsonl"]  # type: ignore[arg-type]
    monkeypatch.setattr(mirroring, "follow", lambda path: other)
    monkeypatch.setattr(mirroring, "DELIVERS_WITHIN", 0.1)
    assert "box has not said that it took lines of preferences.jsonl" in mirroring.wait_for_delivery(path)


@pytest.mark.parametrize("request_", ["latest", "second"])
def test_without_a_line_nothing_is_asked_of_a_run_that_only_the_machine_can_tell(
    far: list[Path], monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    path = find_run(f"box:{far[1]}")
    find_run(f"box:{far[1].name}")
    mirroring.close_all()
    monkeypatch.setenv("TXLAB_SSH", "false")
    for words in (
        ["name", f"box:{request_}", "x"],
        ["control", f"box:{request_}", "pause"],
        ["stop", f"box:{request_}"],
    ):
        with pytest.raises(LabError, match=f"connection to box ended.*name it by its directory, as {far[1].name}"):
            app(words, standalone_mode=False)
    assert read_label(path).name == "before"
    with pytest.raises(RunFailed, match="the label kept here"):
        app(["name", f"box:{far[1].name}", "x"], standalone_mode=False)


def test_a_beginning_of_a_log_is_not_taken_for_all_of_it(
    far: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = far[1] / "events.jsonl"
    draw = random.Random(1).random
    rows = [{"event": "metrics", "time": 1.0, "step": step, "values": {"loss": draw()}} for step in range(20, 5000)]
    log.write_bytes(log.read_bytes() + b"".join(map(encode_row, rows)))
    monkeypatch.setenv("TXLAB_SSH", cut_after(tmp_path, far[0].parent, 1 << 40, 6000))
    with pytest.raises(LabError, match="the connection to box ended"):
        find_run(f"box:{far[1]}")
    mirroring.close_all()
    monkeypatch.setenv("TXLAB_SSH", "false")
    with pytest.raises(LabError, match="the connection to box ended"):  # what is here is known not to be all
        find_run(f"box:{far[1]}")


# The cache here


def test_a_full_cache_is_named_when_a_run_is_opened(far: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from txlab.files import OpenFolder
    from txlab.runs.remote import mirror

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(OpenFolder, "write", full)
    monkeypatch.setattr(mirror, "write_whole", full)
    for seconds in (0.1, float("inf")):
        with pytest.raises(LabError, match=r"the mirror .* cannot be written: No space left on device"):
            find_run(f"box:{far[1]}", seconds=seconds)
        mirroring.close_all()


def test_a_label_that_cannot_be_remembered_as_that_of_the_machine_is_not_sent_back_to_it(
    far: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from txlab.files import OpenFolder
    from txlab.runs.remote.mirror import LABEL

    write = OpenFolder.write

    def full(folder: OpenFolder, name: str, *rest: object) -> None:
        if name == LABEL:
            raise OSError(28, "No space left on device")
        write(folder, name, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as filled:
        filled.setattr(OpenFolder, "write", full)
        with pytest.raises(LabError, match="No space left on device"):
            find_run(f"box:{far[1]}")
        mirroring.close_all()
    write_label(far[1], "newer")
    path = find_run(f"box:{far[1]}")
    assert mirroring.wait_for_delivery(path) == ""
    assert read_label(path).name == read_label(far[1]).name == "newer"


# far.json, names, folders


EVIL = {"host": "-oProxyCommand=touch PWNED", "root": "/r;$(x)\x1b]0;owned\x07\n", "run": "x", "line": "connected"}


def test_a_far_json_in_a_directory_from_elsewhere_is_not_believed(far: list[Path]) -> None:
    (far[0] / "far.json").write_text(json.dumps({**EVIL, "written": 2e9}))
    assert remote_state(far[0]) is None
    RunDirectory(far[0]).require_here()


def test_the_advice_to_continue_a_run_is_quoted_for_both_shells(
    far: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shlex

    odd = tmp_path / "it's a $(touch x) folder"
    odd.mkdir()
    far[1].rename(odd / far[1].name)
    path = find_run(f"box:{odd / far[1].name}")
    with pytest.raises(LabError) as refusal:
        RunDirectory(path).require_here()
    command = str(refusal.value).partition("mirror; ")[2].removesuffix(" continues it")
    ssh, host, *there = shlex.split(command)
    assert (ssh, host) == ("ssh", "box")
    assert shlex.split(" ".join(there)) == ["txlab", "resume", f"{odd}/{far[1].name}"]
    mirroring.close_all()
    (path / "far.json").write_text(json.dumps(EVIL))
    with pytest.raises(LabError, match="txlab there, on box continues it"):
        RunDirectory(path).require_here()
    assert remote_state(path).host == "box"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["r" * 202, "r" * 255, "é" * 127, "a run\x1b]0;owned\x07"])
def test_runs_of_any_name_that_a_directory_can_have_are_listed(
    far: list[Path], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    far[0].rename(far[0].with_name(name))
    app(["runs", "--hosts", "box"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert name.replace("\x1b", "").isprintable() is False or name in shown
    assert find_run(f"box:{name}").name == name


def test_what_is_not_a_folder_of_runs_is_not_listed_as_the_one_around_it(far: list[Path]) -> None:
    root = far[0].parent
    for wrong in (far[1], root / "rnus"):
        with pytest.raises(LabError) as refused:
            mirroring.list_mirrors(Address("box", str(wrong)))
        assert f"{wrong} on box is not a folder of runs; the one around it is box:{root}" in str(refused.value)
        mirroring.close_all()
    assert find_run(f"box:{far[1]}").name == far[1].name


def test_a_relative_folder_is_not_the_default_one(far: list[Path]) -> None:
    assert Address("box", "runs").mirrors != Address("box").mirrors
    assert Address("box", "runs").mirrors == Address("box", "~/runs").mirrors


def test_a_directory_that_is_not_a_run_is_not_waited_for(far: list[Path]) -> None:
    (far[0].parent / "2099-01-01_000000_nothing").mkdir()
    assert find_run("box:latest").name == far[2].name
    with pytest.raises(LabError, match="it is not a run"):
        find_run("box:2099-01-01_000000_nothing")


def test_a_mirror_that_outlives_its_run_is_not_the_latest(far: list[Path]) -> None:
    import shutil

    find_run("box:latest")
    mirroring.close_all()
    shutil.rmtree(far[2])
    (far[0].parent / "not-dated").mkdir()  # so that the list has to tell
    info = RunInfo.load(far[1])
    assert find_run("box:latest").name == info.name


def test_of_two_runs_that_began_in_one_second_the_later_is_the_latest(far: list[Path]) -> None:
    root = far[0].parent
    for number, name in enumerate(("zeta", "alpha")):  # the names are ordered the other way
        run = far[number].rename(root / f"2099-01-01_000000_{name}")
        info = RunInfo.load(run)
        info.created = 4e9 + number / 100
        info.save(RunDirectory(run))
    assert find_run("box:latest").name == "2099-01-01_000000_alpha"
