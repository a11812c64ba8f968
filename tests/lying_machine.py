"""A far machine that lies: what ssh's substitute runs instead of the reader. `python lying_machine.py LIE COMMAND`.

It reads the program that it was sent, answers as a reader would until its lie begins, and then never ends.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

RUN = "2026-01-01_000001_model"
LIES = (
    *(
        "empty messages",
        "unasked lists",
        "empty objects",
        "many keys",
        "strings",
        "deep",
        "huge message",
        "banner",
        "complaints",
    ),
    *("endless names", "long names", "endless list", "large list", "other runs", "more without end"),
    *("short ids", "control ids", "rows", "row of parts", "metric names", "questions", "heartbeats", "log again"),
    *("million names", "many frames", "endless line", "odd rows", "odd files"),
    *("giant marks", "frame of a GiB", "frame of parts", "frame of zeros", "small pieces", "run.json of parts"),
)

LIES_OF_BOX = (
    *("huge reading", "deep reading", "reading of parts", "readings"),
    *("odd reading", "reading out of bounds", "no reading"),
)


def script(folder: Path, lie: str) -> str:
    """A command for $TXLAB_SSH."""
    path = folder / "lying-ssh"
    path.write_text(f'#!/bin/sh\nfor last; do :; done\nexec "{sys.executable}" -S "{__file__}" "{lie}" "$last"\n')
    path.chmod(0o755)
    return str(path)


class Liar:
    def __init__(self, lie: str, command: str) -> None:
        self.lie, self.deflate = lie, zlib.compressobj(1)
        size = int(re.findall(r"range\((\d+)\)", command)[0])
        self.read(size)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = os.read(0, size - len(data))
            if not piece:
                sys.exit()
            data += piece
        return data

    def write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            sys.exit()

    def send(self, head: Any, body: bytes = b"", flush: bool = True) -> None:
        text = head if isinstance(head, bytes) else json.dumps(head).encode()
        data = self.deflate.compress(struct.pack("<II", len(text), len(body)) + text + body)
        self.write(data + (self.deflate.flush(zlib.Z_SYNC_FLUSH) if flush else b""))

    def requests(self) -> Iterator[dict[str, Any]]:
        while True:
            head, body = struct.unpack("<II", self.read(8))
            asked = json.loads(self.read(head))
            self.read(body)
            yield asked

    def grow(self, file: str, rows: Iterator[bytes]) -> None:
        """A log that has no end."""
        at = 0
        self.send({"run": RUN, "file": file, "at": 0, "end": 0})
        while True:
            body = b"".join(next(rows) for _ in range(4000))
            self.send({"run": RUN, "file": file, "at": at, "end": at + len(body)}, body)
            at += len(body)

    def begin(self) -> None:
        while self.lie == "banner":
            self.write(os.urandom(1 << 16))
        while self.lie == "complaints":
            os.write(2, os.urandom(1 << 14) + b"\x1b]0;owned\x07")
        self.write(b"\0txlab far 1\n")
        if self.lie == "trickle":
            for byte in (
                self.deflate.compress(struct.pack("<II", 1 << 20, 0) + os.urandom(1 << 16)) + self.deflate.flush()
            ):
                self.write(bytes([byte]))
                time.sleep(0.1)
        if self.lie == "huge message":
            self.write(self.deflate.compress(struct.pack("<II", 2**32 - 1, 2**32 - 1)))
        while self.lie == "empty messages":
            self.send(b"{}" * 1, flush=False)
        while self.lie == "unasked lists":
            self.send(b'{"x":[' + b"1," * 2_500_000 + b"1]}")
        while self.lie in ("empty objects", "many keys", "strings", "deep"):
            parts: dict[str, Any] = {
                "empty objects": lambda: b'{"x":[' + b"{}," * 1_900_000 + b"{}]}",
                "many keys": lambda: b"{" + b",".join(b'"%05x":1' % n for n in range(600_000)) + b"}",
                "strings": lambda: b'{"x":[' + b",".join(b'"%03x"' % n for n in range(800_000)) + b"]}",
                "deep": lambda: b'{"x":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}",
            }
            self.send(parts[self.lie]())
        for asked in self.requests():
            self.answer(asked)

    def answer(self, asked: dict[str, Any]) -> None:
        number, what = asked.get("id"), asked.get("do")
        if what == "root":
            self.name_runs(number)
        elif what == "list":
            self.list_runs(number)
        elif what == "follow":
            self.send({"id": number, "run": RUN})
            self.follow()
        elif what in ("frame", "next", "more"):
            if what == "next" and self.lie != "frame of a GiB":
                return
            if self.lie == "small pieces":
                self.send({"id": number, "size": 4_000_000}, b"x" * (4096 if what == "frame" else 1))
            else:
                self.frame(number)
        elif what == "box":
            self.read_machine(number)
        elif what == "beat":
            self.send({"id": number})

    def name_runs(self, number: Any) -> None:
        names = [RUN]
        if self.lie == "endless names":
            names = [f"{n:x}" for n in range(99_000)]
        if self.lie == "long names":
            names = [f"{n:05x}" + "x" * 5000 for n in range(1100)]
        if self.lie in ("endless list", "large list"):
            names = [f"2026-01-01_000001_{n:05d}" for n in range(99_000)]
        if self.lie == "million names":
            names = [f"{n:x}" for n in range(1_000_000)]
        while self.lie == "more without end":
            self.send({"id": number, "root": "/r", "run": None, "names": names, "more": True})
        self.send({"id": number, "root": "/r", "run": None, "names": names})

    def list_runs(self, number: Any) -> None:
        while self.lie == "endless list":
            self.send({"id": number, "runs": [], "more": True})
        if self.lie == "large list":
            for name in (f"2026-01-01_000001_{n:05d}" for n in range(99_000)):
                files = [["run.json", 2], ["events.jsonl", 1 << 20]]
                self.send({"id": number, "runs": [[name, [None] * 4, files]], "more": True}, b"{}" + b"\n" * (1 << 20))
        for n in count():
            self.send({"id": number, "runs": [[f"other-{n}", [], [["run.json", 2]]]], "more": True}, b"{}")

    def frame(self, number: Any) -> None:
        head = b'{"step":1,"base":null,"text":"{\\"tokens\\":{},\\"texts\\":{},\\"facts\\":{}}","tensors":['
        blob = {
            "frame of parts": lambda: zlib.compress(head + b"[]," * 1_000_000 + b"[]]}\n"),
            "frame of zeros": lambda: with_zeros(head + b"]}\n", 900),
        }.get(self.lie, lambda: b"x" * (256 << 10))()
        self.send(
            {"id": number, "size": 1 << 30 if self.lie == "frame of a GiB" else len(blob), "frame": [1, None, 9]}, blob
        )

    def read_machine(self, number: Any) -> None:
        odd = "\x1b]0;owned\x07\x9b2J\u202e[bold]"
        about = {"index": 0, "uuid": odd, "name": odd, "trouble": odd}
        process = {"pid": 7, "user": odd, "name": odd, "command": odd, "run": odd, "cards": [{"index": 0, "mb": 1.0}]}
        reading: dict[str, Any] = {"host": odd, "time": 1e15, "cores": 1, "busy": 0.5, "load": 1.0, "memory_mb": 1.0}
        reading |= {"total_mb": 1.0, "disk_busy": None, "disks": [{"path": odd, "free_mb": 0.0, "total_mb": 0.0}]}
        reading |= {"cards": [about], "processes": [process, {**process, "run": "../../etc", "pid": 8}]}
        reading |= {"count": 2**53, "trouble": odd}
        if self.lie == "reading out of bounds":
            reading["load"] = 1e300
        body = {
            "huge reading": lambda: b'{"host":"' + b"x" * (8 << 20) + b'"}',
            "deep reading": lambda: b'{"host":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
            "reading of parts": lambda: b'{"cards":[' + b"{}," * 150_000 + b"{}]}",
        }.get(self.lie, lambda: json.dumps(reading).encode())()
        while self.lie == "readings":
            self.send({"id": number, "now": 1e15}, body, flush=False)
        if self.lie != "no reading":
            self.send({"id": number, "now": 1e15, "failed": odd}, body)

    def follow(self) -> None:
        """A run as it is, after the lie if it is one of a run's files."""
        self.flood()
        self.say_odd_things()
        self.send({"run": RUN, "file": "run.json", "whole": True, "mark": [1, 2, 3]}, b'{"status":"running"}')
        if self.lie != "odd rows":
            self.send({"run": RUN, "file": "events.jsonl", "at": 0, "end": 0})
        self.send({"run": RUN, "frames": [[1, None, 9]]})
        self.send({"run": RUN, "settled": True})

    def flood(self) -> None:
        """A file without end."""

        def rows(text: bytes) -> Iterator[bytes]:
            return (text % n for n in count())

        floods = {
            "short ids": ("preferences.jsonl", b'{"id":"%x"}\n'),
            "control ids": ("events.jsonl", b'{"event":"control","time":1,"step":1,"id":"%x"}\n'),
            "rows": ("events.jsonl", b'{"event":"metrics","time":1,"step":%d,"values":{"loss":1}}\n'),
            "metric names": ("events.jsonl", b'{"event":"metrics","time":1,"step":1,"values":{"m%x":1}}\n'),
            "questions": ("questions.jsonl", b'{"id":"%x","prompt":"p","answers":["a","b"]}\n'),
        }
        if self.lie in floods:
            file, text = floods[self.lie]
            self.grow(file, rows(text))
        if self.lie == "row of parts":
            self.grow("preferences.jsonl", iter(lambda: b'{"a":[' + b"{}," * 300 + b"{}]}\n", 0))
        if self.lie == "endless line":
            self.grow("events.jsonl", iter(lambda: b"x" * 60, 0))
        while self.lie == "heartbeats":
            self.send({"run": RUN, "file": "heartbeat", "whole": True, "mark": [1, 2, 3]}, b"{}", flush=False)
        while self.lie == "log again":
            self.send({"run": RUN, "file": "events.jsonl", "at": 0, "end": 0}, flush=False)

    def say_odd_things(self) -> None:
        """Messages that are too large, or that no run has."""
        if self.lie == "run.json of parts":
            self.send({"run": RUN, "file": "run.json", "whole": True}, b'{"x":[' + b"{}," * 1_300_000 + b"{}]}")
        if self.lie == "many frames":
            self.send({"run": RUN, "frames": [[n, None, 9] for n in range(200_000)]})
        if self.lie == "odd rows":
            body = b"\n".join(ODD_ROWS) + b"\n"
            self.send({"run": RUN, "file": "events.jsonl", "at": 0, "end": 0})
            self.send({"run": RUN, "file": "events.jsonl", "at": 0, "end": len(body)}, body)
        if self.lie == "odd files":
            deep = b'{"status":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}"
            for file in ("run.json", "heartbeat", "label.json", "scenario.toml"):
                self.send({"run": RUN, "file": file, "whole": True, "mark": [2**63 - 1, -1, -(2**63)]}, deep[:4096])
            for file in ("../x", "/etc/x", "a\0b", "\x1b]0;owned\x07", "far.json", ".mirror.lock"):
                self.send({"run": RUN, "file": file, "whole": True, "mark": [1, 2, 3]}, b"{}")
        if self.lie == "giant marks":
            for step in count():
                self.send(
                    {"run": RUN, "frames": [[n, "m" * 4_000_000 if n == step else None, 9] for n in range(step + 1)]}
                )


def with_zeros(data: bytes, megabytes: int) -> bytes:
    """The same as of zlib.compress, but that the zeros are compressed once."""
    pack = zlib.compressobj(1)
    begin = pack.compress(data) + pack.flush(zlib.Z_FULL_FLUSH)
    return begin + (pack.compress(bytes(1 << 20)) + pack.flush(zlib.Z_FULL_FLUSH)) * megabytes


ODD_ROWS = [
    b'{"event":"metrics","time":1,"step":1,"values":{"loss":' + b"9" * 1_000_000 + b"}}",
    b'{"event":"metrics","time":1,"step":1,"values":{"loss":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    b'{"event":"metrics","time":1,"step":1,"values":{"\x1b]0;owned\x07":1}}',
    b'{"event":"metrics","time":1,"step":1,"values":{"\\u001b[31m":1e400,"loss":-1e308}}',
    b'{"event":"note","time":1,"step":1,"text":"' + b"x" * 900_000 + b'"}',
    b'{"event":"control","time":1,"step":-1e9,"id":{}}',
    bytes(100_000),
    b"\xff\xfe" * 1000,
    b'{"event":"metrics","time":1,"step":2,"values":{"loss":0.5}}',
]


if __name__ == "__main__":
    Liar(sys.argv[1], sys.argv[2]).begin()
