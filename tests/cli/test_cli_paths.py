"""Whatever is in the place where a command looks or writes: one sentence, and it neither waits nor takes memory."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
import typer
from typer.main import get_command

from txlab.cli import app

Ask = Any
SECONDS = 300  # what waits waits for ever
MEMORY = 2 << 30  # bytes of addresses beyond those taken already; the huge files have 10 GiB
PLACES = {"SCENARIO", "RUN", "MODEL", "NAME", "NAME...", "SOURCE", "FILE", "PATH", "DIR", "PLAYER", "PRESET", "LECTURE"}
READING = """
    --runs=@ attach latest
    run @
    run --like=@
    run gpt-tiny --set=data.text=@
    run gpt-tiny --set=data.tokenizer=@
    run gpt-tiny --set=start.run=@
    run gpt-mixture --set=data.mixture=[{text='@',weight=1}]
    run bert-docs --set=data.text=@
    run cliff --set=world.name= --set=world.file=@
    scenarios @
    attach @
    stop @
    resume @
    control @ pause
    name @
    alerts @
    rank @
    rank RUN --from=@
    rank RUN --against=@
    run feedback-reviews --set=task.source=file --set=task.records=@
    run feedback-reviews --set=rankings.preferences=@
    plot @
    plot RUN @
    export @ csv
    export @ --form=gpt2 --out=made
    tokenize text --tokenizer=@
    tokenize --tokenizer=bytes --file=@
    score @ text
    score RUN --file=@
    generate @ text
    generate RUN --file=@
    attend @ text
    attend RUN --file=@
    explain @ text
    explain RUN --file=@
    play tictactoe --against=@
    match @ random --game=tictactoe --games=2
    match random @ --game=tictactoe --games=2
    analyse @
    analyse games.moves --game=tictactoe --judge=@
    presets @
    plan @
    run @ --dry-run
    lecture @ --prepare
    verify tokenizers --folder=@
    tokenizer train @ --vocabulary=300 --out=made
    tokenizer compare @ bytes --text=text
    tokenizer compare bytes --file=@
    tokenizer export @ --form=txlab --out=made
    words neighbours @ word
    words analogy @ a b c
    words similarity @ a b
    words explain @ a b
    words evaluate @ questions.txt
    words evaluate RUN @
    words export @ made.txt
"""
FOLLOWING = """
    watch --file=@
    serve @
"""
WRITING = """
    --runs=@ runs
    --runs=@ doctor --no-torch
    --runs=@ run gpt-tiny
    run gpt-tiny --out=@
    plot RUN --out=@
    rank RUN --export=@
    export RUN csv --out=@
    match perfect random --game=tictactoe --games=2 --record=@
    play tictactoe --record=@
    attend RUN text --head=1.1 --out=@
    tokenizer train SOURCE --vocabulary=257 --out=@
    tokenizer train SOURCE --vocabulary=257 --out=@ --replace
    tokenizer train SOURCE --vocabulary=257 --name=@
    tokenizer export bytes --form=txlab --out=@
    tokenizer export bytes --form=txlab --out=@ --replace
    watch --name=@ -- true
    words export RUN @
    lecture first-steps --folder=@
    lecture --record=@
"""
OF_A_RUN = ("run.json", "events.jsonl", "scenario.toml", "heartbeat", "lock")
OF_A_MODEL = ("config.json", "model.safetensors", "generation_config.json")
OF_A_TOKENIZER = ("tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "vocab.txt")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


def unreadable(path: Path) -> None:
    path.write_bytes(b"\xff\xfe not what is looked for")  # root reads it all the same
    path.chmod(0)


KINDS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "endless": lambda path: path.symlink_to("/proc/kmsg"),
    "huge": huge,
    "unreadable": unreadable,
    "dangling": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Everything that may lie at a path, and what can be no path, by a word for it."""
    root = tmp_path / "places"
    root.mkdir()
    for kind, make in KINDS.items():
        make(root / kind)
        make(root / f"{kind}.toml")
        for members in (OF_A_RUN, OF_A_MODEL, OF_A_TOKENIZER):
            folder = root / f"{members[0]} is {kind}"
            folder.mkdir()
            for name in members:
                make(folder / name)
    (root / "empty").mkdir()
    (root / "garbage").write_bytes(bytes(range(256)) * 64)
    found = {path.name: str(path) for path in root.iterdir()}
    found |= {"below a file": str(root / "garbage" / "x"), "missing": str(root / "missing" / "x.toml")}
    found |= {
        "long": "x" * 300,
        "long part": f"/{'x' * 300}/y",
        "longest": "/x" * 4000,
        "nothing": "",
        "dots": "places/..",
    }
    return found | {"NUL": "a\0b", "line": "a\nb", "root": "/", "nobody": "~nobody-here/x", "escape": "\x1b]0;x\x07"}


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ask: Ask) -> None:
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))  # and not `ask`'s: other tests look for runs there
    monkeypatch.setenv("TXLAB_TOKENIZERS", str(tmp_path / "tokenizers"))
    monkeypatch.setattr(import_module("txlab.cli.run"), "start", lambda *_: None)


class Waited(BaseException):
    """The command was still at work when its time was over."""


@contextmanager
def bounded() -> Iterator[None]:
    """Little memory, and no waiting: what would read the huge files to their end would take their memory."""

    def ring(*_: object) -> None:
        raise Waited

    taken = psutil.Process().memory_info().vms
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    if sys.platform == "linux":  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def asked(ask: Ask, line: str, path: str) -> Any:
    words = [word.replace("@", path) for word in line.split()]
    try:
        with bounded():
            return ask(*words)
    except BaseException as error:
        raise AssertionError(f"{words}: {type(error).__name__}: {error}") from error


def commands(group: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    for name, member in group.commands.items():
        if hasattr(member, "commands"):
            yield from commands(member, f"{words}{name} ")
        else:
            yield words + name, member


def lines_of(table: str) -> list[str]:
    return [line.strip() for line in table.strip().splitlines()]


def test_every_parameter_that_names_a_place_is_in_the_table() -> None:
    table = [f"{line} " for line in lines_of(READING + FOLLOWING + WRITING)]
    for command, about in commands(get_command(app)):
        for parameter in about.params:
            word = "@" if parameter.param_type_name == "argument" else f"{parameter.opts[0]}=@"
            covered = any(line.startswith(command) and f" {word} " in line for line in table)
            named = parameter.metavar in PLACES and word not in ("--device=@", "--erratum=@", "--card=@")
            assert covered or not named, f"{command} {word}"


def relevant(line: str, places: dict[str, str]) -> set[str]:
    """Without folders of what the line does not look for, and without TOML files where it looks for none."""
    looked_for = {OF_A_RUN[0]: not line.startswith("tokenize"), OF_A_TOKENIZER[0]: "tokenize" in line, ".toml": False}
    looked_for[OF_A_MODEL[0]] = any(
        word in line for word in ("score", "generate", "attend", "explain", "start", "gpt2")
    )
    if line in ("run @", "scenarios @"):
        looked_for = {".toml": True, " is ": False}
    return {place for place in places if all(wanted for what, wanted in looked_for.items() if what in place)}


@pytest.mark.parametrize("line", lines_of(READING))
def test_what_is_read_is_refused_with_an_error(
    line: str, ask: Ask, places: dict[str, str], tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "games.moves" in line:
        (tmp_path / "games.moves").write_text("51\n", encoding="utf-8")
    # a user who may read the kernel's log does not wait: there it is a text, or empty
    fine = {"endless"} if "--file" in line or "text=" in line else set()
    if line.endswith("bytes --file=@"):  # any bytes are a text for a tokenizer, and root may read all of them
        fine = {"garbage", *(f"{kind}{end}" for kind in ("unreadable", "endless") for end in ("", ".toml"))}
    elif "start.run" in line or "preferences" in line:
        fine = {"nothing"}
    elif line in ("plot RUN @", "export @ csv"):  # a run without rows that can be read
        fine = {place for place in places if place.startswith("run.json is")}
    # Reading the whole disk takes long, and it may hold a run of any program.
    whole_disk = {"root"} if "text=" in line or "train @" in line or "latest" in line else set()
    for place in relevant(line, places) - whole_disk:
        said = asked(ask, line.replace("RUN", str(tiny_run)), places[place])
        assert said.status == 2 or (said.status == 0 and place in fine), (place, said)
        if said.status == 2:
            assert said.refused.startswith("txlab: "), place


@pytest.mark.parametrize("line", lines_of(FOLLOWING))
def test_what_is_followed_is_a_regular_file(
    line: str, ask: Ask, places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A regular file of any size and content is followed, and a run served, until ctrl-c, which comes immediately
    here."""

    def interrupted(*_: object) -> None:
        raise typer.Exit(0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module("txlab.cli.watch"), "begin", interrupted)
    monkeypatch.setattr(import_module("txlab.cli.serve"), "listen", interrupted)
    regular = (
        set()
        if "serve" in line
        else {"garbage", *(f"{kind}{end}" for kind in ("unreadable", "huge", "endless") for end in ("", ".toml"))}
    )
    for place in places:
        said = asked(ask, line, places[place])
        assert said.status == 2 or (said.status == 0 and place in regular), (place, said)
        assert said.status == 0 or said.refused.startswith("txlab: "), place


@pytest.mark.parametrize("line", lines_of(WRITING))
def test_what_cannot_be_written_is_refused_with_an_error(
    line: str, ask: Ask, places: dict[str, str], tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of it can be: a name with a line end in it is one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source.txt").write_text("abc " * 100)
    line = line.replace("RUN", str(tiny_run)).replace("SOURCE", "source.txt")
    for place in relevant(line, places) - {"root"}:
        said = asked(ask, line, places[place])
        assert said.status in (0, 2), (place, said)
        assert said.status == 0 or said.refused.startswith("txlab: "), place


STREAMS = [
    "tokenize -",
    "run gpt-tiny --set=data.text=-",
    "tokenizer train - --vocabulary=300 --out=made",
    "score RUN -",
]


@pytest.mark.parametrize("line", STREAMS)
def test_a_stream_that_is_too_long_is_refused_as_soon_as_it_is(
    line: str, ask: Ask, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txlab.experiments.corpora.LARGEST_TEXT", 1 << 20)
    said = ask(*line.replace("RUN", str(tiny_run)).split(), stdin=b"x" * (4 << 20))
    assert "standard input is larger than 512 MiB" in said.refused
    assert sys.stdin.buffer.tell() < 2 << 20
