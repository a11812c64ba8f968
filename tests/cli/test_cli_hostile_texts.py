"""What a run's files say never reaches a terminal raw: every text of them × every command that shows it."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from txlab.runs.directory import RunInfo

pytestmark = pytest.mark.evidence

RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
HOSTILE = "\x1b]0;x\x07\x1b[31m\x9b31mred\u202eevil\u2066\nsecond\rline\u2028third\x00\x85end\u200f"
LONG = "w" * 1_000_000
COMMANDS = (
    ["runs"], ["runs", "--settings"], ["runs", "--json"], ["runs", "--sort", "status"], ["runs", "--group", "status"],
    ["attach", "RUN", "--lines"], ["attach", "RUN", "--json"], ["control", "RUN"], ["plot", "RUN"], ["export", "RUN"],
    ["plot", "RUN", "RUN"], ["alerts", "RUN"], ["alerts"], ["name", "RUN"], ["stop", "RUN"], ["resume", "RUN"],
    ["generate", "--model", "RUN"], ["rank", "RUN"], ["runs", "w"], ["control", "RUN", "set", "lr", "1"],
)  # fmt: skip


def hostile(value: Any, text: str) -> Any:
    """The same value with every text, and every key, replaced."""
    if isinstance(value, str):
        return text
    if isinstance(value, list):
        return [text, text]
    if isinstance(value, dict):
        return {text: text, "source": {"program": text, "path": text, "part": text}, "level": text, "title": text,
                "count": text, "run": text, "step": text, "commit": text, "compute": {"why": [text], "device": text},
                "headline": [text], "units": {text: text}, "takes": [text], "waiting": text, "notes": [text],
                "adjustable": {text: {"value": text}}}  # fmt: skip
    return value


def fields() -> Iterator[str]:
    for field in dataclasses.fields(RunInfo):
        if isinstance(getattr(RunInfo("x"), field.name), str | list | dict):
            yield field.name


def tampered(run: Path, field: str, text: str) -> None:
    said = orjson.loads((run / "run.json").read_bytes())
    empty = RunInfo("x")
    if field == "everything":
        for name in fields():
            if name != "status":
                said[name] = hostile(getattr(empty, name), text)
    elif field == "others":
        rows = (
            {"event": "metrics", "values": {text[:2000]: 1.0, "loss": 0.5}},
            {"event": "note", "text": text}, {"event": "sample", "prompt": text, "text": text, "name": text},
            {"event": "alert", "title": text, "text": text, "level": text}, {"event": text[:2000], "text": text},
            {"event": "control", "request": text, "key": text, "by": text, "error": text, "applied": False},
            {"event": "start", "host": text, "pid": 1}, {"event": "checkpoint", "path": text},
            {"event": "rewind", "reason": text, "from": 3}, {"event": "end", "status": text, "reason": text},
        )  # fmt: skip
        with (run / "events.jsonl").open("ab") as log:
            log.writelines(orjson.dumps({"time": 1.7e9, "step": 40, **row}) + b"\n" for row in rows)
        beat = {"time": 1.7e9, "step": 3, "status": text[:500], "pid": 1, "host": text[:500]}
        (run / "heartbeat").write_bytes(orjson.dumps(beat))
        (run / "label.json").write_bytes(orjson.dumps({"name": text[:20_000], "note": text[:20_000]}))
        (run / "lock").write_bytes(orjson.dumps({"pid": text[:200], "host": text[:200]}))
    else:
        said[field] = hostile(getattr(empty, field), text)
    (run / "run.json").write_bytes(orjson.dumps(said))


@pytest.mark.parametrize("text", [HOSTILE, LONG], ids=["escapes", "long"])
@pytest.mark.parametrize("field", ["everything", "status", "others"])
def test_no_text_of_a_run_reaches_a_terminal_raw_or_without_a_bound(
    ask: Any, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, text: str
) -> None:
    sound = shutil.copytree(tiny_run, tmp_path / "runs" / "2026-11-20_143012_sound")
    run = shutil.copytree(tiny_run, tmp_path / "runs" / "2026-11-20_143013_it")
    tampered(run, field, text)
    for words in COMMANDS:
        monkeypatch.setenv("TXLAB_RUNS", str(run.parent))
        asked = [str(run) if word == "RUN" else word for word in words]
        asked += [f"--out={tmp_path / 'out'}"] if words[0] == "export" else []
        said = ask(*asked)
        assert said.status in (0, 1, 2, 130), words
        assert not RAW.search(said.out + said.error), (words, RAW.findall(said.out + said.error))
        assert "Traceback" not in said.error, words
        assert max(map(len, said.error.splitlines()), default=0) < 20_000, words
        if words == ["runs"]:
            table = [line for line in said.out.splitlines() if not line.startswith("    ")]
            assert len(table) == 3, said.out  # the head, and a line for each run
            assert len(said.out) < 60_000
            assert any("sound" in line for line in table)
    assert sound.exists()


@pytest.mark.parametrize("field", ["kind", "tags", "config", "created", "steps", "format"])
def test_the_list_of_runs_stays_a_table_whatever_a_field_says(
    ask: Any, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    run = shutil.copytree(tiny_run, tmp_path / "runs" / "2026-11-20_143013_it")
    whole = (run / "run.json").read_bytes()
    for value in (HOSTILE, [HOSTILE] * 3, {HOSTILE: HOSTILE}, -(2**63), 1e308):
        said = orjson.loads(whole)
        said[field] = value
        (run / "run.json").write_bytes(orjson.dumps(said))
        for words in (["runs", "--settings"],):
            monkeypatch.setenv("TXLAB_RUNS", str(run.parent))
            answer = ask(*words)
            assert answer.status in (0, 1, 2), (words, value)
            assert not RAW.search(answer.out + answer.error), (words, value)
            assert "Traceback" not in answer.error, (words, value, answer.error)
