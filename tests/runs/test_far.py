"""Runs on other machines: what the mirror has, what passes the line both ways, and what a lying machine can do."""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from far_machine import INSTALL, Sshd, sshd_program, stand_in
from waiting import LONGEST
from waiting import wait_for as until

import txlab
from txlab.errors import LabError
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import encode_row, live_branch, read_rows
from txlab.runs.finding import find_run
from txlab.runs.folder import list_runs
from txlab.runs.label import read_label, write_label
from txlab.runs.preferences import append
from txlab.runs.reader import RunReader
from txlab.runs.recording import Recording
from txlab.runs.remote import agent, line, mirroring
from txlab.runs.remote.address import Address, address_of, host_and_folder
from txlab.runs.remote.coarse import APPROXIMATE
from txlab.runs.remote.host import Conversation, Host
from txlab.runs.remote.line import NONSENSE, Line, LineLost
from txlab.runs.remote.mirror import RunMirror
from txlab.runs.remote.state import RemoteState, remote_state

BOX = Address("box")


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of runs of the machine `box`, which ssh's stand-in reaches."""
    runs = tmp_path / "far" / "runs"
    runs.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, runs=runs))
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "here"))
    yield runs
    mirroring.close_all()


def same_log(path: Path, run: Path) -> bool:
    return (path / "events.jsonl").read_bytes() == (run / "events.jsonl").read_bytes()


def recorded(root: Path, name: str = "model", rows: int = 50) -> Recording:
    run = txlab.record(name, root=root, config={"lr": 1e-3})
    for step in range(rows):
        run.log(step, loss=1 / (1 + step))
    return run


def with_prelude(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Run these lines on the other machine before the reader."""
    program = zlib.decompress(line.agent())
    monkeypatch.setattr(line, "agent", lambda: zlib.compress(code.encode() + b"\n" + program))


# What the mirror has


def test_the_mirror_has_the_log_byte_for_byte_and_follows_it(far: Path) -> None:
    with recorded(far) as run:
        path = find_run("box:model")
        assert same_log(path, run.path)
        for step in range(50, 60):
            run.log(step, loss=0.1)
        until(lambda: same_log(path, run.path))
        assert RunReader(path).poll
        run.sample(60, "a", "cat")
    until(lambda: RunInfo.load(path).status == "done")
    until(lambda: same_log(path, run.path))
    assert (path / "scenario.toml").read_bytes() == (run.path / "scenario.toml").read_bytes()
    mirroring.close_all()
    assert find_run("box:latest", root=far) == path  # and the copy stays readable, under the same name


def test_a_frame_has_253_levels_until_it_is_asked_for_exactly(far: Path) -> None:
    rng = np.random.default_rng(0)
    frames = {}
    with recorded(far) as run:
        for step in range(70):  # more than a pack
            wide = (rng.normal(size=(3, 40)) + step / 50).astype(np.float32)
            wide[0, :3] = np.nan, np.inf, -np.inf
            frames[step] = {"wide": wide, "ids": np.arange(200) * step, "few": rng.normal(size=5), "none": np.empty(0)}
            run.frame(step, frames[step], {"probe": ["a", "b"]}, {"text": "é"}, {"mask": "causal"})
        path = find_run("box:latest")
        reader = RunReader(path)
        until(lambda: [reader.poll(), len(reader.frames)][1] == 70)
        for step, tensors in frames.items():
            frame = reader.frames.read(step)
            for name in ("ids", "few", "none"):
                np.testing.assert_array_equal(np.asarray(frame.tensors[name]), tensors[name])
            level = np.ptp(tensors["wide"][np.isfinite(tensors["wide"])]) / 252
            np.testing.assert_allclose(np.asarray(frame.tensors["wide"]), tensors["wide"], atol=2 * level, rtol=0)
            assert frame.tensors["wide"].dtype == np.float32
            assert frame.facts == {"mask": "causal", APPROXIMATE: ["wide"]}
            assert frame.tokens == {"probe": ["a", "b"]}
            assert frame.texts == {"text": "é"}
        mirroring.exact_frame(path, 33)
        exact = RunReader(path).frames.read(33)
        np.testing.assert_array_equal(np.asarray(exact.tensors["wide"]), frames[33]["wide"])
        assert exact.facts == {"mask": "causal"}
        run.rewind(40)
        run.frame(41, {"wide": frames[0]["wide"]})
        until(lambda: RunReader(path).frames.steps.tolist() == [*range(41), 41])


@pytest.mark.parametrize("rewound", [False, True])
def test_of_a_long_log_some_rows_come_first_and_they_are_live(far: Path, rewound: bool) -> None:
    run = recorded(far, rows=3)
    with (run.path / "events.jsonl").open("ab") as log:
        for step in range(3, 6000):
            log.write(encode_row({"event": "metrics", "time": 1.0, "step": step, "values": {"loss": float(step)}}))
        if rewound:
            log.write(
                encode_row({"event": "rewind", "time": 1.0, "step": 100, "from": 5999, "reason": "", "explicit": 1})
            )
            for step in range(101, 3000):
                log.write(encode_row({"event": "metrics", "time": 1.0, "step": step, "values": {"loss": -1.0 * step}}))
    state = RemoteState("box", str(far), run.path.name)
    mirror = RunMirror(Address("box").mirrors, state)
    connection = Line("box")
    connection.send({"do": "root", "id": 1, "path": str(far)})
    connection.send({"do": "follow", "id": 2, **mirror.request()})
    while not mirror.followed:
        for said, body in connection.wait(1.0):
            if said.get("run") == run.path.name and ("file" in said or "frames" in said):
                mirror.take(said, body, 0.0)
    theirs = {(row["step"], row["values"]["loss"]) for row in live(run.path) if "loss" in row.get("values", {})}
    ours = [(row["step"], row["values"]["loss"]) for row in live(mirror.path) if "loss" in row.get("values", {})]
    assert mirror.gap > 100_000
    assert 100 < len(ours) < 2000
    assert set(ours) <= theirs
    assert ours[-1] == max(theirs)
    connection.close()
    mirror.close()
    path = find_run("box:latest")  # a command waits for all of it
    assert same_log(path, run.path)
    assert not (path / ".events.whole").exists()
    run.close()


def live(path: Path) -> list[dict[str, Any]]:
    return live_branch(read_rows(path / "events.jsonl")[0])


def test_a_replaced_log_is_mirrored_again(far: Path) -> None:
    run = recorded(far)
    run.close()
    path = find_run("box:latest")
    log = run.path / "events.jsonl"
    rows = log.read_bytes().splitlines(keepends=True)
    other = log.with_name("other")
    other.write_bytes(b"".join(rows[:1] + rows[5:]))
    other.rename(log)
    until(lambda: same_log(path, run.path))
    log.write_bytes(b"".join(rows[:2]))  # shorter, in place
    until(lambda: same_log(path, run.path))
    mirroring.close_all()
    log.write_bytes(b"".join(rows[2:]))  # between two polls
    assert same_log(find_run("box:latest"), run.path)


def test_questions_that_come_one_after_another_are_mirrored_once(far: Path) -> None:
    with recorded(far) as run:
        path = find_run("box:latest")
        for number in range(3):
            with (run.path / "questions.jsonl").open("ab") as file:
                file.write(encode_row({"event": "question", "time": 1.0, "step": number, "id": f"q{number}"}))
            theirs = (run.path / "questions.jsonl").read_bytes()
            until(lambda theirs=theirs: (path / "questions.jsonl").exists() and held(path) == theirs)


def held(path: Path) -> bytes:
    return (path / "questions.jsonl").read_bytes()


def test_a_reopened_mirror_continues_from_its_contents(far: Path) -> None:
    run = recorded(far)
    run.close()
    path = find_run("box:latest")
    mirroring.close_all()
    state = remote_state(path)
    assert state is not None
    mirror = RunMirror(path.parent, state)
    asked = mirror.request()
    mirror.close()
    there = os.open(run.path / "events.jsonl", os.O_RDONLY)
    assert asked["at"]["events.jsonl"] == os.fstat(there).st_size
    assert asked["seams"]["events.jsonl"] == agent.seam(there, asked["at"]["events.jsonl"])
    os.close(there)


# What passes both ways


def test_a_request_left_in_the_mirror_is_answered_by_the_run(far: Path) -> None:
    with recorded(far) as run:
        path = find_run("box:latest")
        ident = send(path, Request("set", key="lr", value=0.5))
        step = 50

        def answered() -> bool:
            nonlocal step
            step += 1
            run.log(step, loss=0.0)  # a recorded run looks at its inbox now and then
            return any(row.get("id") == ident for row in read_rows(path / "events.jsonl")[0])

        until(answered)
        until(lambda: not list((path / "inbox").iterdir()))


def test_a_request_that_may_have_arrived_is_not_delivered_twice(far: Path) -> None:
    with recorded(far) as run:
        mirror = RunMirror(BOX.mirrors, RemoteState("box", str(far), run.path.name))
        ident = send(mirror.path, Request("step"))
        other = send(mirror.path, Request("step"))
        assert len(list(mirror.outgoing())) == 2
        assert not list(mirror.outgoing())  # they are on their way
        mirror.line_lost()
        mirror.line_stands()
        row = encode_row({"event": "control", "time": 1.0, "step": 1, "id": ident, "request": "step", "applied": True})
        mirror.take({"file": "events.jsonl", "at": 0, "end": len(row)}, row, 0.0)
        mirror.unsure = dict.fromkeys(mirror.unsure, 0.0)
        assert not list(mirror.outgoing())  # one is answered, the other may still be: not all rows are here
        mirror.take({"settled": True}, b"", 0.0)
        again = list(mirror.outgoing())
        assert [json.loads(body)["id"] for _, body, _ in again] == [other]
        mirror.close()


@pytest.mark.parametrize("where", ["here", "to come", "left out"])
def test_a_request_of_a_process_that_ended_is_not_delivered_twice(tmp_path: Path, where: str) -> None:
    state = RemoteState("box", "/r", "run")
    first = RunMirror(tmp_path, state)
    ident = send(first.path, Request("step"))
    assert [json.loads(body)["id"] for _, body, _ in first.outgoing()] == [ident]
    row = encode_row({"event": "control", "time": 1.0, "step": 1, "id": ident, "request": "step", "applied": True})
    if where == "here":
        first.take({"file": "events.jsonl", "at": 0, "end": len(row)}, row, 0.0)
    first.close()  # before the other side said that it took it
    mirror = RunMirror(tmp_path, state)
    mirror.line_stands()
    mirror.unsure = dict.fromkeys(mirror.unsure, 0.0)
    if where == "to come":
        assert not list(mirror.outgoing())
        mirror.take({"file": "events.jsonl", "at": 0, "end": len(row)}, row, 0.0)
    if where == "left out":
        mirror.take({"file": "events.jsonl", "at": 0, "end": 2 * len(row), "thin": True}, b"{}\n", 0.0)
        mirror.take({"settled": True}, b"", 0.0)
        assert not list(mirror.outgoing())
        for at in range(0, len(row), 40):  # pieces of the whole log end anywhere
            mirror.fill(at, row[at : at + 40])
        mirror.fill(len(row), b"\n" * len(row))
    mirror.take({"settled": True}, b"", 0.0)
    assert not list(mirror.outgoing())
    assert not list((mirror.path / "inbox").glob("*.json"))
    mirror.close()


def test_what_people_say_on_both_sides_reaches_both_files_once(far: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.runs.remote.mirror.SETTLED", 0.5)
    with recorded(far) as run:
        there = RunDirectory(run.path)
        append(there, "preferences.jsonl", [b'{"id":"a"}\n'])
        path = find_run("box:latest")

        def ids(folder: Path) -> list[str]:
            file = folder / "preferences.jsonl"
            return sorted(json.loads(row)["id"] for row in file.read_bytes().splitlines()) if file.exists() else []

        until(lambda: ids(path) == ["a"])
        append(RunDirectory(path), "preferences.jsonl", [b'{"id":"b"}\n'])
        until(lambda: ids(run.path) == ["a", "b"])
        append(there, "preferences.jsonl", [b'{"id":"c"}\n'])
        until(lambda: ids(path) == ["a", "b", "c"])
        mirroring.close_all()
        append(RunDirectory(path), "preferences.jsonl", [b'{"id":"d"}\n'])  # without a line
        find_run("box:latest")
        until(lambda: ids(run.path) == ["a", "b", "c", "d"])
        write_label(path, "mine", "a note")
        until(lambda: read_label(run.path).name == "mine")
        mirroring.close_all()
        write_label(path, "without a line")
        find_run("box:latest")
        until(lambda: read_label(run.path).name == "without a line")


def test_the_age_of_a_heartbeat_is_right_although_the_clocks_differ(far: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = 5000.0
    with_prelude(monkeypatch, f"import time; time.now = time.time; time.time = lambda: time.now() + {ahead}")
    run = recorded(far)
    run.recorder._stop_thread()  # no heartbeat from now on
    there = RunDirectory(run.path)
    info = RunInfo.load(there)
    info.started = info.created = time.time() - 300 + ahead
    info.save(there)
    beaten = time.time() - 7 + ahead
    beat = {"time": beaten, "step": 49, "status": "running", "pid": 1, "host": "elsewhere"}
    there.write("heartbeat", json.dumps(beat).encode())
    os.utime(there.heartbeat, (beaten, beaten))
    path = find_run("box:latest")
    until(lambda: (path / "heartbeat").exists() and (path / "run.json").exists())
    state = state_of(path)
    assert state.status == "running"
    # The difference of the clocks is known as exactly as a message is fast, which depends on the machine's load.
    assert 0 < state.heartbeat_age < ahead / 4
    assert abs(RunInfo.load(path).started - (info.started - ahead)) < ahead / 4
    run.close()


# The line


def test_a_line_that_is_lost_again_and_again_loses_nothing(far: Path) -> None:
    with recorded(far) as run:
        path = find_run("box:latest")
        host = mirroring.host_at(BOX)
        for cut in range(10):
            for step in range(20):
                run.log(60 + 20 * cut + step, loss=1.0)
            process = host._line.process if host._line is not None else None
            if process is not None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            run.log(1000 + 20 * cut, loss=1.0) if cut == 9 else None
            until(lambda: not host.connected.is_set())

            def back() -> bool:
                host.try_now()
                return host.connected.is_set()

            until(back)
        until(lambda: same_log(path, run.path))


@pytest.mark.parametrize(
    "noise", ["echo welcome to box", "printf '%0200000d' 7; printf '\\000txlab far'", "set -x; echo oops >&2"]
)
def test_what_the_shell_prints_does_no_harm(
    far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, before=noise, runs=far))
    with recorded(far) as run:
        assert same_log(find_run("box:latest"), run.path)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'Permission denied (publickey).' >&2; exit 255", "only with a password"),
        ("echo 'Host key verification failed.' >&2; exit 255", "run ssh box once by hand"),
        ("echo 'sh: python3: not found' >&2; exit 127", "no python3 on box"),
        ("echo 'ssh: Could not resolve hostname box' >&2; exit 255", "Could not resolve hostname box"),
        ("yes | head -c 3000000", "not from txlab's reader"),
        ("printf '\\000txlab far 1\\nxxxxxxxxxxxxxxxxxxxxxxxxx'; sleep 1", "damaged"),
    ],
)
def test_the_reason_for_having_no_connection_is_a_readable_error(
    far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, before=script + "; exit"))
    with pytest.raises(LabError, match=said) as refused:
        find_run("box:latest")
    assert "\n" not in str(refused.value)


def test_without_a_line_the_copy_is_opened_and_says_so(far: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorded(far) as run:
        path = find_run("box:model")
        assert state_of(path).remote is not None
        assert state_of(path).remote.connected  # type: ignore[union-attr]
        assert state_of(path).remote.sentence == ""  # type: ignore[union-attr]
        mirroring.close_all()
        monkeypatch.setenv("TXLAB_SSH", "false")
        assert find_run("box:model", seconds=0.0) == path
        state = state_of(path)
        assert state.status == "running"  # as of then
        assert state.remote is not None
        assert "box" in state.remote.sentence
        assert "ago" in state.remote.sentence
        assert same_log(path, run.path)


def test_a_run_of_another_machine_is_not_continued_here(far: Path) -> None:
    from txlab.runs.process import start_detached

    recorded(far).close("stopped")
    path = find_run("box:latest")
    with pytest.raises(LabError, match="is a run of box"):
        start_detached(path)


def test_a_second_process_reads_the_mirror_that_the_first_keeps(far: Path) -> None:
    with recorded(far) as run:
        path = find_run("box:latest")
        second = Host(Address("box", str(far))).start()  # another process has lines of its own
        second.folder = path.parent
        second.want(path.name)
        until(second.connected.is_set)
        run.log(60, loss=1.0)
        until(lambda: same_log(path, run.path))
        assert path.name not in second.mirrors
        mirroring.close_all()
        until(lambda: path.name in second.mirrors)  # and then keeps it
        run.log(61, loss=1.0)
        until(lambda: same_log(path, run.path))
        second.close()


def test_the_reader_ends_when_its_output_is_closed(far: Path) -> None:
    connection = Line("box")
    connection.send({"do": "root", "id": 1, "path": str(far)})
    while not connection.wait(1.0):
        pass
    process = connection.process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(LONGEST) == 0
    connection.close()


# Lists


def test_two_hundred_runs_are_listed_with_few_requests(far: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(far, rows=5)
    run.close()
    for number in range(199):
        copy = far / f"2026-01-01_0000{number:02d}_copy-{number}"
        copy.mkdir()
        for name in ("run.json", "events.jsonl", "heartbeat"):
            (copy / name).write_bytes((run.path / name).read_bytes())
    (far / "no-run").mkdir()
    (far / "link").symlink_to(run.path)
    asked: list[str] = []
    ask = Conversation.ask
    monkeypatch.setattr(
        Conversation, "ask", lambda self, request, *rest: (asked.append(request["do"]), ask(self, request, *rest))[1]
    )
    folder = mirroring.list_mirrors(BOX)
    assert len(list_runs(folder)) == 200
    assert asked.count("list") == 1
    assert len(asked) <= 5
    reader = RunReader(folder / "2026-01-01_000007_copy-7", light=True)
    reader.poll()
    assert reader.state.status == "done"
    assert reader.latest("loss") == 0.2
    assert remote_state(folder / "2026-01-01_000007_copy-7").connected  # type: ignore[union-attr]


def test_a_copy_of_a_run_that_is_gone_says_so_until_the_run_is_back(
    far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlab.runs.remote.host.LISTED_EVERY", 0.2)
    for name in ("one", "two"):
        recorded(far, name, rows=5).close()
    run = next(path for path in list_runs(far) if path.name.endswith("one"))
    copies = {path.name: path for path in list_runs(mirroring.list_mirrors(BOX))}

    def says(name: str, gone: bool) -> bool:
        state = remote_state(copies[name])
        return state is not None and state.sentence.startswith("gone from box") == gone

    assert all(says(name, gone=False) for name in copies)
    run.rename(tmp_path / "aside")
    until(lambda: bool(mirroring.list_mirrors(BOX)) and says(run.name, gone=True))
    assert all(says(name, gone=False) for name in copies if name != run.name)
    (tmp_path / "aside").rename(run)
    until(lambda: bool(mirroring.list_mirrors(BOX)) and says(run.name, gone=False))


def test_addresses_are_read_and_refused() -> None:
    assert address_of("box:") == Address("box", "", "latest")
    assert address_of("ann@box.lan:gpt-docs") == Address("ann@box.lan", "", "gpt-docs")
    assert address_of("box:/data/runs/x/") == Address("box", "/data/runs/x")
    assert address_of("box:exp/x") == Address("box", "exp/x")
    for text in ("latest", "-oProxyCommand=x:y", "a b:c", ":x", "box:a\0b", "$(x):y", "-x@box:y", "box;ls:x"):
        assert address_of(text) is None, text
    assert host_and_folder("box:/data") == Address("box", "/data")
    for text in ("-v", "box:run", ""):
        with pytest.raises(LabError):
            host_and_folder(text)
    assert Address("box", "../../etc").mirrors.parent == Address("box").mirrors.parent


def test_a_run_and_a_folder_are_found_by_their_paths(far: Path) -> None:
    with recorded(far, "one"), recorded(far, "two") as two:
        by_path = find_run(f"box:{two.path}")
        assert by_path.name == two.path.name
        assert same_log(by_path, two.path)
        assert find_run(f"box:{two.path}") == by_path
        newest = find_run(f"box:{far}")
        assert newest.parent == by_path.parent
    with pytest.raises(LabError, match=r"no run 'three' on box"):
        find_run("box:three")
    with pytest.raises(LabError, match="no folder of runs"):
        find_run("box:/no/such/folder")


# A machine that lies, and one that is lied to


def refusals(connection: Line, requests: list[tuple[dict[str, Any], bytes]]) -> list[dict[str, Any]]:
    """What the reader answers to these requests."""
    for number, (request, body) in enumerate(requests):
        connection.send({**request, "id": number}, body)
    answers: dict[int, dict[str, Any]] = {}
    while len(answers) < len(requests):
        for said, body in connection.wait(5.0):
            if "id" in said:
                answers[said["id"]] = {**said, "body": body}
    return [answers[number] for number in sorted(answers)]


def test_the_reader_gives_and_takes_nothing_outside_of_its_root(far: Path, tmp_path: Path) -> None:
    run = recorded(far)
    name = run.path.name
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    (far / "out").symlink_to(tmp_path)
    (run.path / "link").symlink_to(secret)
    os.mkfifo(run.path / "pipe")
    evil = recorded(far, "evil")
    evil.close()
    (evil.path / "inbox").rmdir()
    (evil.path / "inbox").symlink_to(tmp_path)
    (evil.path / "preferences.jsonl").symlink_to(secret)
    (evil.path / "label.json").symlink_to(secret)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    connection = Line("box")
    paths = ["../../etc/passwd", "../secret", "/etc/passwd", f"{name}/../../../secret", "out/secret", f"{name}/link"]
    paths += [f"{name}/pipe", f"{name}/./run.json", "", ".", "..", f"{name}//run.json", f"{name}\0/run.json", name]
    requests: list[tuple[dict[str, Any], bytes]] = [({"do": "root", "path": str(far)}, b"")]
    requests += [({"do": "read", "path": path, "at": 0, "n": 1000}, b"") for path in paths]
    requests += [
        ({"do": "follow", "run": run, "at": {}}, b"")
        for run in ("..", "out", "../far", f"../{far.name}/{name}", "", "x/y", None, 7)
    ]
    puts = [("..", "inbox", "x.json"), (name, "inbox", "../x"), (name, "inbox", ".x"), (name, "inbox", "")]
    puts += [(name, "events.jsonl", ""), (name, "run.json", ""), (name, "../x", ""), ("out", "label.json", "")]
    puts += [(evil.path.name, "inbox", "x.json"), (evil.path.name, "preferences.jsonl", ""), ("..", "label.json", "")]
    requests += [({"do": "put", "run": run, "file": file, "name": given}, b"{}\n") for run, file, given in puts]
    requests += [({"do": "frame", "run": "../x", "step": 1, "n": 5}, b""), ({"do": "serve"}, b""), ({"do": 7}, b"")]
    requests += [({"do": "__init__"}, b""), ({"do": "put", "run": name, "file": "inbox", "name": "a" * 300}, b"")]
    first, *others = refusals(connection, requests)
    assert "error" not in first
    for (request, _), answer in zip(requests[1:], others, strict=True):
        assert answer.get("error"), request
        assert not answer["body"], request
    taken = {"do": "put", "run": evil.path.name, "file": "label.json"}
    assert "error" not in refusals(connection, [(taken, b"{}")])[0]  # the link is replaced, what it led to is not
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    connection.close()
    run.close()


def everything_in(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else str(path.is_symlink())
        for path in folder.rglob("*")
    }


VALUES: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        1,
        7,
        2**31,
        2**63,
        2**70,
        1e300,
        float("nan"),
        float("inf"),
        "",
        "x",
        "..",
        "../../x",
        "/etc/x",
    ),
    *(
        "run.json",
        "events.jsonl",
        "heartbeat",
        "inbox",
        "far.json",
        ".events.whole",
        "frames",
        "\0",
        "a" * 5000,
        [],
        {},
    ),
    *(
        [[1, None, 5]],
        [["x", 1, 2]],
        [[2**70, None, 1]],
        {"a": 1},
        [["run", [], [["run.json", 9]]]],
        "preferences.jsonl",
    ),
]
KEYS = ("file", "run", "at", "end", "thin", "whole", "mark", "now", "age", "frames", "gone", "error", "id", "more")
KEYS += ("runs", "root", "names", "size", "frame", "beat")


@pytest.mark.evidence
def test_ten_thousand_hostile_messages_write_nothing_outside_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "etc").mkdir()
    rng = random.Random(7)

    class Silent:
        """A line on which nothing is really sent."""

        def send(self, head: dict[str, Any], body: bytes = b"") -> None:
            pass

        def nonsense(self, what: str) -> LineLost:
            return LineLost(what)

    host = Host(Address("box"))
    before = everything_in(tmp_path)
    talk: Any = None
    ended = longest = 0
    good: list[dict[str, Any]] = [
        {"file": "events.jsonl", "run": "run", "at": 0, "end": 3},
        {"file": "events.jsonl", "run": "run", "at": 0, "end": 300000, "thin": True},
        {"file": "heartbeat", "run": "run", "whole": True, "mark": [1, 2, 3]},
        {"frames": [[1, [1, 2, 3], 100], [2, None, 50]], "run": "run"},
        {"id": 3, "runs": [["run", [1], [["run.json", 2], ["events.jsonl", 1]]]], "more": True},
        {"id": 3, "runs": [["../../../../../etc", [1], [["run.json", 2], ["events.jsonl", 1]]]], "more": True},
        {"id": 3, "runs": [["other", [1], [["../../../../../etc/x", 2]]]], "more": True},
        {"id": 2, "size": 3, "frame": [4, None, 7]},
        {"id": 1, "root": "/x", "names": ["run", "other", "../up", ".hidden"], "run": None},
    ]
    for number in range(10_000):
        if talk is None:
            talk = Conversation(host, Silent())  # type: ignore[arg-type]
            talk.ask({"do": "root"}, talk.root_known)
            host.want("run")
            talk.hear({"id": 1, "root": "/x", "names": ["run", "other"], "run": None, "now": 1.0}, b"")
            talk.tick()
            talk.list_runs()
        said = dict(rng.choice(good))
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            said[rng.choice(KEYS)] = rng.choice(VALUES)
        said["id"] = said.get("id", 0) if rng.random() < 0.5 else rng.choice([*talk.waiting, 0])
        body = rng.choice((b"", b"{}", b"abc", b"\n\0\n", bytes(rng.randrange(256) for _ in range(40)), b"{}[]" * 9))
        try:
            talk.hear(said, body)
            if number % 7 == 0:
                talk.tick()
        except LineLost as error:
            longest = max(longest, len(str(error)))
            ended += 1
            for mirror in host.mirrors.values():
                mirror.line_lost()
            talk = None
    assert 100 < ended < 10_000
    assert longest < 1000
    for mirror in host.mirrors.values():
        mirror.close()
    after = everything_in(tmp_path)
    inside = str(host.folder)
    assert {path: content for path, content in after.items() if not path.startswith(str(tmp_path / "cache"))} == before
    for path, content in after.items():
        assert path in before or path in str(host.folder) or path.startswith(inside), path
        assert content != "True", f"{path} is a link"
        if path.startswith(inside + "/"):
            assert Path(path).relative_to(host.folder).parts[0] in ("run", "other", ".listing.json", ".line.json")


def test_invalid_frames_end_the_connection_and_nothing_else(tmp_path: Path) -> None:
    from txlab.runs.remote.coarse import RemoteFrames

    rng = random.Random(3)
    head = {"step": 5, "base": None, "text": '{"tokens":{},"texts":{},"facts":{}}'}
    tensors: list[Any] = [["a", "F32", [2, 2], [0.0, 1.0, 0], 4], ["b", "I64", [1], None, 8]]
    sound = zlib.compress(json.dumps({**head, "tensors": tensors}).encode() + b"\n" + bytes(12))
    assert RemoteFrames().decode(sound).tensors["a"].shape == (2, 2)
    for _ in range(3000):
        made: Any = {**head, "tensors": [list(tensor) for tensor in tensors]}
        for _ in range(rng.choice((0, 1, 2))):
            rng.choice(made["tensors"])[rng.randrange(5)] = rng.choice(VALUES)
        if rng.random() < 0.5:
            made[rng.choice([*made])] = rng.choice(VALUES)
        blob = bytearray(zlib.compress(json.dumps(made).encode() + b"\n" + bytes(rng.choice((11, 12, 13)))))
        if rng.random() < 0.2:
            blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
        try:
            RemoteFrames().decode(bytes(blob))
        except NONSENSE:
            continue


def test_the_reader_is_written_for_python_3_6_and_its_library_alone() -> None:
    here = Path(line.__file__).parent
    source = "\n".join((here / name).read_text() for name in ("agent.py", "box.py", "../../engine/card.py"))
    tree = ast.parse(source, feature_version=(3, 6))
    modules = {
        name
        for node in ast.walk(tree)
        for name in ([each.name for each in node.names] if isinstance(node, ast.Import) else [])
        + ([node.module] if isinstance(node, ast.ImportFrom) else [])
    }
    ours = {"txlab.engine.card", "txlab.runs.remote.agent"}  # sent with it
    assert {str(name).partition(".")[0] for name in modules - ours} <= sys.stdlib_module_names
    assert not any(isinstance(node, ast.JoinedStr) and "=" in ast.unparse(node) for node in ast.walk(tree))
    for program in (line.agent(), line.box()):
        ast.parse(zlib.decompress(program), feature_version=(3, 6))
    assert len(line.agent()) < 6900
    assert len(line.box()) < 5000


@pytest.mark.skipif(sshd_program() is None, reason=INSTALL)
def test_a_run_is_mirrored_through_a_real_ssh_server(
    far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Sshd(tmp_path / "sshd", shell_prints="Welcome to box")
    monkeypatch.setenv("TXLAB_SSH", server.command())
    try:
        with recorded(far) as run:
            run.frame(3, {"x": np.arange(300.0)})
            path = find_run(f"box:{far}")
            assert same_log(path, run.path)
            run.log(60, loss=0.5)
            until(lambda: same_log(path, run.path))
            until(lambda: RunReader(path).frames.steps.tolist() == [3])
            mirroring.close_all()
    finally:
        server.close()
