"""Short programs in processes of their own, for milliseconds each: forks of one Python with its imports done."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from waiting import LONGEST

# The program runs at the top of __main__, as with `python -c`: exceptions, exits, hooks and signals end a real process.
SERVER = """
import json, os, sys
IMPORTS
while True:
    line = sys.stdin.readline()
    child = os.fork() if line else -1
    if child == 0:
        break
    if child < 0:
        sys.exit()
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
asked = json.loads(line)
for number, name in enumerate((os.devnull, asked["out"], asked["error"])):
    file = os.open(name, os.O_RDWR)
    os.dup2(file, number)
    os.close(file)
os.environ.clear()
os.environ.update(asked["environment"])
exec(compile(asked["program"], "<string>", "exec"))
"""


class WarmPython:
    """A Python that has done `imports`, lines of Python; `run` is `subprocess.run([sys.executable, "-c", program])`."""

    def __init__(self, imports: str) -> None:
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER.replace("IMPORTS", imports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            out, error = Path(folder) / "out", Path(folder) / "error"
            out.touch()
            error.touch()
            asked = {"program": program, "out": str(out), "error": str(error)}
            self._write({**asked, "environment": environment or dict(os.environ)})
            child = self._read()
            try:
                status = self._read()
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                raise
            return subprocess.CompletedProcess(program, status, out.read_text(), error.read_text())

    def _write(self, asked: dict[str, object]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(asked) + "\n")
        self.server.stdin.flush()

    def _read(self) -> int:
        """A number of the server; byte by byte, so that `select` sees all that is left."""
        assert self.server.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self.server.stdout], [], [], LONGEST)[0]:
                raise TimeoutError("the program did not end")
            piece = os.read(self.server.stdout.fileno(), 1)
            assert piece, "the server has ended"
            line += piece
        return int(line)

    def close(self) -> None:
        self.server.kill()
        self.server.communicate()
