"""The inbox: requests arrive whole and in order, junk is set aside and answered, no link is followed."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.errors import LabError
from txlab.runs.control import BYTES, Inbox, Request, check, send
from txlab.runs.directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "inbox").mkdir()
    return RunDirectory(tmp_path)


def test_requests_are_taken_once_in_the_order_in_which_they_were_sent(run: RunDirectory) -> None:
    sent = [Request("pause"), Request("set", "lr", 1e-4), Request("step", count=5), Request("resume")]
    ids = [send(run, request) for request in sent]
    taken = Inbox(run).take()
    assert [request.id for request in taken] == ids
    assert [(r.request, r.key, r.value, r.count) for r in taken] == [(r.request, r.key, r.value, r.count) for r in sent]
    assert all(r.by and r.asked and r.error is None for r in taken)
    assert Inbox(run).take() == []
    assert list(run.inbox.iterdir()) == []


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (Request("paus"), "nearest: pause"),
        (Request("set", None, 1.0), "name of a parameter"),
        (Request("set", "lr", float("nan")), "finite number"),
        (Request("set", "lr"), "finite number"),
        (Request("step", count=0), "count from 1"),
    ],
)
def test_a_wrong_request_is_refused_before_it_is_sent(run: RunDirectory, request_: Request, says: str) -> None:
    with pytest.raises(LabError, match=says):
        send(run, request_)
    assert list(run.inbox.iterdir()) == []


def test_a_run_without_an_inbox_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="inbox of"):
        send(tmp_path / "absent", Request("pause"))


def test_an_id_cannot_name_a_file_elsewhere(run: RunDirectory) -> None:
    send(run, Request("pause", id="../../outside"))
    assert len(list(run.inbox.iterdir())) == 1
    assert not list(run.path.parent.glob("outside*"))


def test_junk_is_moved_away_and_told(run: RunDirectory) -> None:
    secret = run.path / "secret.json"
    secret.write_text('{"request": "stop"}')
    (run.inbox / "1-a.json").write_bytes(b"\xff\0{")
    (run.inbox / "2-b.json").write_bytes(b" " * (BYTES + 1))
    (run.inbox / "3-c.json").symlink_to(secret)
    (run.inbox / "4-d.json").mkdir()
    os.mkfifo(run.inbox / "5-e.json")  # opening it like a file would block for ever
    (run.inbox / "6-f.txt").write_text("hello")
    (run.inbox / "7-g.json").write_text("[" * 50_000)
    (run.inbox / "8-h.json").write_text('["pause"]')
    (run.inbox / ".9-being-written").write_text("{")
    taken = Inbox(run).take()
    assert [request.request for request in taken] == ["unreadable"] * 8
    assert all(request.error and "\n" not in request.error for request in taken)
    assert sorted(path.name for path in run.inbox.iterdir()) == [".9-being-written", "rejected"]
    assert len(list((run.inbox / "rejected").iterdir())) == 8
    assert secret.exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["set", "step"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["request", "key", "value", "count", "by", "id", "asked"]), JSON))
def test_whatever_a_request_says_it_is_either_valid_or_has_an_error(row: dict[str, object]) -> None:
    request = check(row)
    json.dumps(request.__dict__, allow_nan=False)
    if request.error is None:
        assert request.request in ("pause", "resume", "step", "stop", "checkpoint", "set", "sample")
        assert request.request != "set" or (request.key and request.value is not None)
        assert request.count >= 1


def test_what_was_asked_of_a_process_that_is_gone_can_be_put_away(run: RunDirectory) -> None:
    send(run, Request("stop"))
    assert Inbox(run).clear() == 1
    assert Inbox(run).take() == []
