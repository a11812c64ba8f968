"""Configurations written to do harm, and what each command takes to answer about them.

Run as a program, `hostile_configurations.py [GROUP [--only COMMAND] [KIND …]]` prints for each the memory and the
processor time beyond those of the same command on a sound file, or of its imports where there is none, and the answer.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from peak_memory import PEAK

MOST_MEMORY = 300  # MB, beyond what the same command takes for a sound file
MOST_SECONDS = 5  # of processor time, likewise

CHILD = f"""{PEAK}
import atexit, json, resource, sys

def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([peak_memory() / 1e6, used.ru_utime + used.ru_stime]), file=sys.__stderr__, flush=True)

atexit.register(tell)
sys.argv[0] = "txlab"
from txlab.cli import main
main()
"""

Writer = Callable[[Path], object]


def text(made: Callable[[], str | bytes]) -> Writer:
    """A file of what `made` makes, when it is wanted: some are large."""

    def write(path: Path) -> None:
        content = made()
        path.write_bytes(os.fsencode(content))

    return write


def sparse(size: int, start: bytes = b"") -> Writer:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.write(start)
            file.truncate(size)

    return write


def loop(path: Path) -> None:
    path.symlink_to(path.name)


ODD: dict[str, Writer] = {  # whatever the format
    "a directory": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": loop,
    "100 MB of zeros": sparse(100 << 20),
    "100 MB of text": lambda path: path.write_bytes(b"a = 1 # " + b"x" * (100 << 20)),
    "nothing": text(lambda: ""),
    "no UTF-8": text(lambda: bytes(range(256)) * 100),
}
NASTY = "\x1b]0;title\x07\x1b[2J\u202eevil\u2066\x9b31m"
NASTY_JSON = json.dumps(NASTY)
SIZE = 250_000  # just below what is read of a scenario
DEEP = 100_000

TOML: dict[str, Writer] = {
    **ODD,
    "a million keys": text(lambda: "".join(f"k{n} = 1\n" for n in range(1_000_000))),
    "as many keys as are read": text(
        lambda: 'kind = "language-model"\n' + "".join(f"k{n} = 1\n" for n in range(SIZE // 11))
    ),
    "as many tables as are read": text(lambda: "".join(f"[t{n}]\n" for n in range(SIZE // 10))),
    "as many lists of tables": text(lambda: 'kind = "language-model"\n' + "[[train]]\n" * (SIZE // 10)),
    "lists in lists": text(lambda: "a = " + "[" * (DEEP) + "]" * DEEP),
    "tables in tables": text(lambda: "a = " + "{a = " * (SIZE // 7) + "1" + "}" * (SIZE // 7)),
    "a dotted key": text(lambda: "a." * (SIZE // 2) + "a = 1"),
    "quotes in a dotted key": text(lambda: '"\\""' + '."\\""' * (SIZE // 6) + " = 1"),
    "many dotted keys": text(lambda: "".join(f"{'a.' * 30}k{n} = 1\n" for n in range(SIZE // 75))),
    "an integer of many digits": text(lambda: f'kind = "language-model"\n[train]\nsteps = {"9" * SIZE}'),
    "an integer of a million digits": text(lambda: f"a = {'9' * 1_000_000}"),
    "a float of many digits": text(lambda: f'kind = "language-model"\n[train]\nsteps = {"9" * SIZE}.5'),
    "a text of 50 MB": text(lambda: f'kind = "{"x" * (50 << 20)}"'),
    "a long name of a kind": text(lambda: f'kind = "{"x" * SIZE}"'),
    "long keys": text(lambda: f'kind = "language-model"\n{"x" * SIZE} = 1'),
    "a long device": text(lambda: f'kind = "language-model"\ndevice = "{"y" * SIZE}"'),
    "NUL": text(lambda: 'kind = "language-model\0"\n\0 = 1'),
    "escapes": text(lambda: f"kind = {NASTY_JSON}\n{NASTY_JSON} = {NASTY_JSON}".replace("\\x", "\\u00")),
    "raw escapes": text(lambda: f'kind = "{NASTY}"'),
    "keys twice": text(lambda: 'kind = "language-model"\nkind = "bandits"\n'),
    "quotes without an end": text(lambda: 'a = """' + '"' * 2 + "x\n" * (SIZE // 2)),
    "quotes": text(lambda: "a = " + '""""' * (SIZE // 4)),
    "backslashes": text(lambda: 'a = "' + "\\\\" * (SIZE // 2)),
    "underscores": text(lambda: "a = 1" + "_1" * (SIZE // 2)),
    "a date of digits": text(lambda: "a = 1979-05-27T" + "0" * SIZE),
    "a comment": text(lambda: "#" * SIZE),
}
NESTED_JSON = "[" * DEEP + "]" * DEEP
JSON: dict[str, Writer] = {
    **ODD,
    "a million keys": text(lambda: "{" + ",".join(f'"k{n}":1' for n in range(1_000_000)) + "}"),
    "lists in lists": text(lambda: '{"facts":' + NESTED_JSON + "}"),
    "an integer of a million digits": text(lambda: '{"step":' + "9" * 1_000_000 + "}"),
    "a text of 50 MB": text(lambda: '{"name":"' + "x" * (50 << 20) + '"}'),
    "NUL": text(lambda: '{"name":"a\\u0000b","status":"\\u0000"}\0'),
    "keys twice": text(lambda: '{"name":"a","name":"b","status":"done","status":"running"}'),
    "no object": text(lambda: "[1,2,3]"),
}
FIELDS = ("name", "kind", "scenario", "title", "status", "reason", "host", "device", "origin", "unit", "txlab")
MIB = 1 << 20
RUN: dict[str, Writer] = {
    **JSON,
    "keys up to what is read": text(lambda: "{" + ",".join(f'"k{n}":1' for n in range(300_000)) + "}"),
    "facts up to what is read": text(lambda: '{"facts":{' + ",".join(f'"k{n}":[]' for n in range(250_000)) + "}}"),
    "changes up to what is read": text(lambda: '{"changes":{' + ",".join(f'"k{n}":1' for n in range(300_000)) + "}}"),
    "config up to what is read": text(lambda: '{"config":{' + ",".join(f'"k{n}":1' for n in range(300_000)) + "}}"),
    "alerts up to what is read": text(lambda: '{"alerts":{' + ",".join(f'"k{n}":1' for n in range(300_000)) + "}}"),
    "headline up to what is read": text(
        lambda: '{"facts":{"headline":[' + ",".join(f'"k{n}"' for n in range(300_000)) + "]}}"
    ),
    "empty lists up to what is read": text(lambda: '{"facts":[' + "[]," * 1_300_000 + "0]}"),
    "long texts": text(lambda: json.dumps({key: "x" * (3 * MIB // len(FIELDS)) for key in FIELDS})),
    "spaces": text(lambda: json.dumps(dict.fromkeys(FIELDS, (" " * 999 + "\n") * 300))),
    "escapes": text(
        lambda: json.dumps({**dict.fromkeys(FIELDS, NASTY), "facts": {NASTY: NASTY}, "changes": {NASTY: NASTY}})
    ),
    "numbers for texts": text(
        lambda: json.dumps({**dict.fromkeys(FIELDS, 7), "step": "x", "steps": [], "created": NASTY})
    ),
    "large numbers": text(
        lambda: (
            '{"step":1e308,"steps":9223372036854775807,"created":1e308,"started":-1e308,"ended":1e300,"pid":1e30,"starts":[[1e308,-1e308]]}'
        )
    ),
}
VALUE = "(the text of the file `value`)"  # Linux takes arguments of 128 kB
LONG = 120_000
SET: dict[str, Writer] = {
    kind: text(lambda made=made: made)  # type: ignore[misc]
    for kind, made in {
        "a long text": "device=" + "x" * LONG,
        "a long key": "x" * LONG + "=1",
        "dots": "." * LONG + "=1",
        "many parts": "a." * (LONG // 2) + "a=1",
        "digits": "testbed.steps=" + "9" * LONG,
        "a float of digits": "testbed.steps=" + "9" * (LONG // 2) + "." + "9" * (LONG // 2),
        "an exponent": "testbed.steps=1e" + "9" * 50,
        "underscores": "testbed.steps=1" + "_1" * (LONG // 2),
        "lists in lists": "testbed.steps=" + "[" * (LONG // 2) + "]" * (LONG // 2),
        "tables in tables": "testbed=" + "{a = " * (LONG // 7) + "1" + "}" * (LONG // 7),
        "a dotted table": "testbed={" + "a." * (LONG // 2 - 10) + "a=1}",
        "many keys": "testbed={" + ",".join(f"k{n}=1" for n in range(LONG // 9)) + "}",
        "many lines": "testbed.steps=1\n" + "x=1\n" * (LONG // 4),
        "a list of tables": "agents=[" + "{}," * (LONG // 3 - 10) + "]",
        "a list of learners": "agents=[" + '{label="greedy"},' * (LONG // 17) + "]",
        "NaN": "testbed.steps=nan",
        "infinity": "testbed.steps=inf",
        "escapes": f"kind={NASTY}",
        "an escaped key": f"{NASTY}={NASTY}",
        "a device": f"device={NASTY}",
        "quotes": 'kind="""' + '"' * LONG,
        "a date": "testbed.steps=1979-05-27T" + "0" * LONG,
        "no UTF-8": "kind=\udcff\udcfe",
        "many arms": "testbed.arms=1000000000",
        "the seed": "seed=" + "9" * 4000,
        "minus": "seed=-1",
    }.items()
}
YAML: dict[str, Writer] = {
    **ODD,
    "a million keys": text(lambda: "".join(f"k{n}: 1\n" for n in range(1_000_000))),
    "as many keys as are read": text(lambda: "".join(f"k{n}: 1\n" for n in range(SIZE // 11))),
    "lists in lists": text(lambda: "a: " + "[" * DEEP + "]" * DEEP),
    "blocks in blocks": text(lambda: "".join(" " * n + "a:\n" for n in range(700))),
    "laughs": text(
        lambda: "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}' if n else 'lol'] * 10)}]\n" for n in range(10))
    ),
    "merged laughs": text(
        lambda: (
            "a0: &a0 {x: 1}\n"
            + "".join(f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 9)}], k{n}: 1}}\n" for n in range(1, 10))
        )
    ),
    "itself": text(lambda: "a: &a [*a]\nb: &b {c: *b}\n"),
    "an integer of a million digits": text(lambda: "a: " + "9" * 1_000_000),
    "an integer of many digits": text(lambda: "a: " + "9" * SIZE),
    "sixties": text(lambda: "a: 1" + ":59" * (SIZE // 3)),
    "a text of 50 MB": text(lambda: 'a: "' + "x" * (50 << 20) + '"'),
    "NUL": text(lambda: "a: \0\n"),
    "escapes": text(lambda: f"a: {NASTY_JSON}\n? {NASTY_JSON}\n: 1\n".replace("\\u", "\\u")),
    "keys twice": text(lambda: "a: 1\na: 2\n"),
    "tags": text(lambda: "a: !!python/object/apply:os.system ['touch PWNED']\n"),
    "anchors": text(lambda: "".join(f"- &a{n} 1\n" for n in range(SIZE // 12))),
    "questions": text(lambda: "? " * (SIZE // 2)),
    "dashes": text(lambda: "- " * (SIZE // 2)),
    "quotes": text(lambda: "'" * SIZE),
}


@dataclass(frozen=True)
class Answer:
    status: int
    said: str  # on both streams
    memory: float  # MB, beyond those of a sound file
    seconds: float  # of processor time, likewise

    @property
    def harmless(self) -> bool:
        """Whether it took little, is no traceback, and leaves the terminal alone."""
        small = self.memory <= MOST_MEMORY and self.seconds <= MOST_SECONDS
        return small and self.status in (0, 1, 2) and "Traceback" not in self.said and RAW.search(self.said) is None


RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def bounded(seconds: float, memory: float) -> Callable[[], None]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        if memory:
            resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))

    return limit


def ask(words: Sequence[str], folder: Path, seconds: float = 60, memory: float = 0) -> tuple[int, str, float, float]:
    """Status, output, MB and seconds of a command; it is ended after this much processor time."""
    told = {**os.environ, "TXLAB_RUNS": str(folder / "runs"), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    told |= {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
    ended = subprocess.run(
        [sys.executable, "-P", "-c", CHILD, *words],
        capture_output=True, stdin=subprocess.DEVNULL, cwd=folder, env=told, preexec_fn=bounded(seconds, memory),
    )  # fmt: skip
    *errors, last = ended.stderr.decode(errors="replace").splitlines() or [""]
    try:
        most, used = json.loads(last)
    except (ValueError, TypeError):
        most, used, errors = float("nan"), float("nan"), [*errors, last]
    return ended.returncode, ended.stdout.decode(errors="replace") + "\n".join(errors), most, used


@dataclass(frozen=True)
class Group:
    """One file that an attacker may have written, in all its kinds, and the commands that read it.

    place    where the file is
    prepare  makes what surrounds it, and a sound one in its place where there can be one
    """

    place: str
    writers: dict[str, Writer]
    commands: Sequence[Sequence[str]]
    prepare: Callable[[Path], object]


def two_runs(folder: Path) -> None:
    for run in ("it", "other"):
        (folder / "runs" / run).mkdir(parents=True)
        row = '{"event":"metrics","time":1,"step":%d,"values":{"loss":%d}}\n'
        (folder / "runs" / run / "events.jsonl").write_text("".join(row % (n, 9 - n) for n in range(9)))
        (folder / "runs" / run / "scenario.toml").write_text('kind = "bandits"\n[testbed]\nsteps = 10\nruns = 10\n')
        (folder / "runs" / run / "run.json").write_text('{"name":"it","kind":"bandits","status":"interrupted"}')


@cache
def computed() -> Path:
    """A run that is done, with checkpoints of every step."""
    folder = Path(tempfile.mkdtemp(prefix="txlab-hostile-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    changes = ("testbed.steps=10", "testbed.runs=10", "record.checkpoint_every=1", "record.checkpoints_kept=9")
    status, said, _, _ = ask(["run", "bandits", *(f"--set={change}" for change in changes), "--out", "it"], folder)
    assert status == 0, said
    return folder / "it"


def computed_run(folder: Path) -> None:
    shutil.copytree(computed(), folder / "runs" / "it")


def lightning_log(folder: Path) -> None:
    (folder / "runs" / "version_0").mkdir(parents=True)
    (folder / "runs" / "version_0" / "metrics.csv").write_text("epoch,step,loss\n0,0,3\n0,1,2\n")


def fixtures(folder: Path) -> None:
    there = folder / "there" / "tests" / "fixtures"
    there.mkdir(parents=True)
    (there / "corpus.en").write_text("a text")


AGAIN = [["resume", "it"], ["run", "--like", "it", "--out", "like"]]
BACK = [["resume", "it", "--from", "5"], ["resume", "it", "--from", "5", "--branch"]]
GROUPS = {
    "scenario": Group(
        "file.toml", TOML, [["run", "file.toml", "--out", "out"], ["scenarios", "file.toml"]], lambda folder: None
    ),
    "set": Group("value", SET, [["run", "bandits", "--set", VALUE, "--out", "out"]], lambda folder: None),
    "run": Group(
        "runs/it/run.json",
        RUN,
        [
            ["runs"], ["runs", "--json"], ["plot", "it"], ["plot", "it", "other"], ["export", "it", "--out", "it.csv"],
            ["attach", "it", "--lines"], *AGAIN, ["control", "it", "pause"], ["stop", "it"], ["name", "it", "new"],
            ["alerts"], ["alerts", "it"], ["rank", "it"], ["rank", "it", "--status"], ["doctor"],
        ],
        two_runs,
    ),
    "resume": Group("runs/it/scenario.toml", TOML, [*AGAIN, ["runs"]], two_runs),
    "branch": Group("runs/it/run.json", RUN, BACK, computed_run),
    "branched scenario": Group("runs/it/scenario.toml", TOML, BACK, computed_run),
    "lightning": Group("runs/version_0/hparams.yaml", YAML, [["runs"], ["plot", "version_0"]], lightning_log),
    "verify": Group(
        "there/tests/fixtures/gpt2_vocab.json", JSON,
        [["verify", "tokenizers", "--folder", "there", "--only", "cs336-encoding"]],
        fixtures,
    ),
}  # fmt: skip


def lay(group: Group, kind: str, folder: Path) -> None:
    """Put a kind of file, or the sound one for "", with what belongs around it into a folder."""
    group.prepare(folder)
    path = folder / group.place
    if kind:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        group.writers[kind](path)


def words_with(words: Sequence[str], folder: Path) -> list[str]:
    return [os.fsdecode((folder / "value").read_bytes()) if word == VALUE else word for word in words]


def outcomes(name: str, group: Group, kinds: Sequence[str] = (), commands: Sequence[str] = ()) -> None:
    """Each kind of file × each command, as a line each."""
    for words in group.commands:
        if commands and " ".join(words) not in commands:
            continue
        with tempfile.TemporaryDirectory() as empty:
            lay(group, "", Path(empty))
            sound = (Path(empty) / group.place).exists()
            _, _, memory, used = ask(words if sound else [*words[:1], "--help"], Path(empty))
        for kind in kinds or group.writers:
            with tempfile.TemporaryDirectory() as folder:
                lay(group, kind, Path(folder))
                status, said, most, taken = ask(words_with(words, Path(folder)), Path(folder), memory=4e9)
                show(name, kind, " ".join(words), Answer(status, said, most - memory, taken - used))


def show(group: str, kind: str, words: str, answer: Answer) -> None:
    bad = "" if answer.harmless else "!"
    cost = f"{answer.memory:6.0f} MB {answer.seconds:5.1f} s {answer.status:4}"
    print(f"{bad:1} {group:10} {kind:32} {words:28} {cost} {ascii(' '.join(answer.said.split()))[1:160]}", flush=True)


def main(groups: dict[str, Group], arguments: Sequence[str]) -> None:
    """GROUP [--only COMMAND …] [KIND …]"""
    commands = [*arguments[1:]]
    only = []
    while commands[:1] == ["--only"]:
        only, commands = [*only, commands[1]], commands[2:]
    for name in arguments[:1] or groups:
        outcomes(name, groups[name], commands, only)


if __name__ == "__main__":
    main(GROUPS, sys.argv[1:])
