"""Another machine whose reader is a fork of one warm process, so that a session costs milliseconds: for sweeps over
thousands of sessions, each of which can be cut after any number of bytes.

What the fork runs is the program that the line sends, with the machine's own pipes; only ssh, the shell and the start
of Python are left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ENDLESS = 1 << 40
SERVER = r"""
import array, fcntl, json, math, multiprocessing.pool, os, re, select, signal, socket, stat, struct, sys, time, zlib
import traceback

def session(asked):
    os.environ["TXLAB_RUNS"] = asked["runs"]
    size = int(re.search(r"range\((\d+)\)", asked["command"]).group(1))
    program = b""
    while len(program) < size:
        piece = os.read(0, size - len(program))
        if not piece:
            return
        program += piece
    there, back = asked["there"], asked["back"]
    read, write = os.read, os.write

    def reading(descriptor, most):
        nonlocal there
        if descriptor:
            return read(descriptor, most)
        if not there:
            os._exit(255)
        data = read(0, min(most, there))
        there -= len(data)
        return data

    def writing(descriptor, data):
        nonlocal back
        if descriptor != 1:
            return write(descriptor, data)
        if back:
            count = write(1, data[:back])
            back -= count
        if not back:
            os._exit(255)
        return count

    os.read, os.write = reading, writing
    exec(compile(zlib.decompress(program), "agent", "exec"), {"__name__": "agent"})

server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(64)
print("ready", flush=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    there, _ = server.accept()
    data, descriptors, _, _ = socket.recv_fds(there, 65536, 4)
    child = os.fork()
    if child:
        for descriptor in descriptors:
            os.close(descriptor)
        there.sendall(b"%d\n" % child)
        there.close()
        continue
    there.close()
    server.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    try:
        session(json.loads(data))
    except BaseException:
        traceback.print_exc()
    os._exit(0)
"""


class ForkedMachine:
    """`line.subprocess` in tests: `Popen` is a session on the machine that has `runs`.

    there, back  bytes towards the reader, after its program, and from it, after which sessions end
    sessions     how many are still to be cut; those after them are not
    """

    PIPE, TimeoutExpired = subprocess.PIPE, subprocess.TimeoutExpired

    def __init__(self, folder: Path, runs: Path) -> None:
        self.address = str(folder / "s")
        self.runs, self.there, self.back, self.sessions = runs, ENDLESS, ENDLESS, 0
        program = [sys.executable, "-I", "-S", "-c", SERVER, self.address]
        self.server = subprocess.Popen(program, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.server.stdout is not None
        assert self.server.stdout.readline() == b"ready\n"

    def cut(self, there: int = ENDLESS, back: int = ENDLESS, sessions: int = 1 << 40) -> None:
        self.there, self.back, self.sessions = there, back, sessions

    def Popen(self, command: list[str], **_: Any) -> ForkedSession:
        cut = self.sessions > 0
        self.sessions -= cut
        asked = {"command": command[-1], "runs": str(self.runs), "there": self.there, "back": self.back}
        return ForkedSession(self.address, asked if cut else {**asked, "there": ENDLESS, "back": ENDLESS})

    def close(self) -> None:
        self.server.kill()
        self.server.wait()
        if self.server.stdout is not None:
            self.server.stdout.close()


class ForkedSession(SimpleNamespace):
    """What `Line` uses of a Popen; the process ends when the last holder of `ended` does."""

    def __init__(self, address: str, asked: dict[str, Any]) -> None:
        there, here = zip(*(os.pipe() for _ in range(4)), strict=True)  # reading ends, writing ends
        self.stdin, self.stdout = os.fdopen(here[0], "wb", 0), os.fdopen(there[1], "rb", 0)
        self.stderr = os.fdopen(there[2], "rb", 0)
        self.ended = there[3]
        theirs = [there[0], here[1], here[2], here[3]]
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(address)
            socket.send_fds(line, [json.dumps(asked).encode()], theirs)
            for descriptor in theirs:
                os.close(descriptor)
            self.pid = int(line.makefile().readline())

    def poll(self) -> int | None:
        if self.ended >= 0 and select.select([self.ended], [], [], 0)[0]:
            os.close(self.ended)
            self.ended = -1
        return 255 if self.ended < 0 else None

    def wait(self, timeout: float | None = None) -> int:
        if self.ended >= 0 and not select.select([self.ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("session", timeout or 0)
        self.poll()
        return 255

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
