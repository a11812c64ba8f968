"""Other machines for tests and benchmarks: a real sshd on the loopback interface, a slow line to it, and a stand-in.

The stand-in for ssh runs the command in a local shell. `Sshd` needs OpenSSH's server and no rights: own configuration,
own keys, a port above 1024 on 127.0.0.1. `Relay` passes bytes on with a delay and a rate, and cuts the line.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

from waiting import LONGEST

INSTALL = "it needs OpenSSH's server: apt-get install openssh-server (or the openssh package of your system)"

# Lines for the reader on the other machine, whose disk is read-only, or full.
READ_ONLY = """
import os
_open = os.open
def refusing(path, flags, *rest, **named):
    if flags & (os.O_WRONLY | os.O_RDWR):
        raise OSError(30, "Read-only file system")
    return _open(path, flags, *rest, **named)
os.open = refusing
"""
FULL = """
import os, stat
_write, _fdopen = os.write, os.fdopen
def filling(descriptor, data):
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return _write(descriptor, data)
    if len(data) < 9:
        raise OSError(28, "No space left on device")
    return _write(descriptor, data[:7])
class Full:
    def __init__(self, descriptor, mode): self.descriptor = descriptor
    def __enter__(self): return self
    def __exit__(self, *_): os.close(self.descriptor)
    def write(self, data): _write(self.descriptor, data[:3]); raise OSError(28, "No space left on device")
os.write, os.fdopen = filling, Full
"""


def stand_in(folder: Path, before: str = "", runs: Path | None = None) -> str:
    """A command for $TXLAB_SSH that runs its last argument in a local shell, after the lines of sh in `before`."""
    script = folder / "stand-in-for-ssh"
    home = f"export TXLAB_RUNS={runs}\n" if runs is not None else ""
    script.write_text(f'#!/bin/sh\nfor last; do :; done\n{home}{before}\nexec sh -c "$last"\n')
    script.chmod(0o755)
    return str(script)


def sshd_program() -> str | None:
    """The path of sshd, which refuses to run by another name; None if it is not installed."""
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")


def free_port() -> int:
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        return int(there.getsockname()[1])


class Sshd:
    """An sshd for this user alone; `command()` is for $TXLAB_SSH: ssh with a configuration in which `name` is it."""

    def __init__(self, folder: Path, name: str = "box", shell_prints: str = "") -> None:
        self.folder, self.name = folder, name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for key in ("host", "user"):
            made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(made, check=True, capture_output=True)
        self.port = free_port()
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder / 'host'}",
            f"AuthorizedKeysFile {folder / 'authorized'}",
            f"PidFile {folder / 'pid'}",
            *("UsePAM no", "StrictModes no", "PasswordAuthentication no", "PermitRootLogin yes", "MaxStartups 100"),
            *([f'ForceCommand printf "{shell_prints}"; eval "$SSH_ORIGINAL_COMMAND"'] if shell_prints else []),
        ]
        (folder / "sshd_config").write_text("\n".join(lines) + "\n")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        program = sshd_program()
        assert program is not None, INSTALL
        self.process = subprocess.Popen(
            [program, "-D", "-e", "-f", str(folder / "sshd_config")],
            stderr=(folder / "sshd.log").open("wb"),
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + LONGEST
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert time.monotonic() < deadline, (folder / "sshd.log").read_text()
            time.sleep(0.02)

    def command(self, port: int | None = None) -> str:
        """ssh as a user would have it, with the relay's port instead of the server's."""
        port = port or self.port
        config = self.folder / f"ssh_config_{port}"
        known = self.folder / f"known_{port}"
        kind, key, *_ = (self.folder / "host.pub").read_text().split()
        known.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
        config.write_text(
            f"Host {self.name}\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {self.folder / 'user'}\n  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n"
        )
        return f"ssh -F {config}"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(LONGEST)


class Relay:
    """A line to a port: half of `round_trip` seconds each way, `rate` bytes a second, and `cut`."""

    def __init__(self, port: int, round_trip: float = 0.2, rate: float = 50_000, buffer: int = 32_000) -> None:
        self.target, self.delay, self.rate, self.buffer = port, round_trip / 2, rate, buffer
        self.passed = 0  # bytes towards the client
        self.closed_to_new = False
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(LONGEST)

    def _run(self) -> None:
        async def serve() -> None:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()

        self._loop.run_until_complete(serve())
        self._loop.run_forever()

    async def _accept(self, near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        if self.closed_to_new:
            out.transport.abort()
            return
        far, into = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers += [out, into]
        self._loop.create_task(self._pass(near, into, False))
        self._loop.create_task(self._pass(far, out, True))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, counted: bool) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        free = 0.0
        held = 0

        async def deliver() -> None:
            nonlocal held
            with contextlib.suppress(OSError):
                while True:
                    due, data = await queue.get()
                    await asyncio.sleep(max(0.0, due - self._loop.time()))
                    held -= len(data)
                    if not data:
                        sink.close()
                        return
                    sink.write(data)
                    await sink.drain()

        task = self._loop.create_task(deliver())
        with contextlib.suppress(OSError):
            while True:
                while held > self.buffer:
                    await asyncio.sleep(0.005)
                data = await source.read(1400)
                self.passed += len(data) if counted else 0
                held += len(data)
                free = max(free, self._loop.time()) + len(data) / self.rate
                queue.put_nowait((free + self.delay, data))
                if not data:
                    break
        await task

    def cut(self) -> None:
        """Break all connections at once, without a word to either side."""

        def abort() -> None:
            for writer in self._writers:
                writer.transport.abort()
            self._writers.clear()

        self._loop.call_soon_threadsafe(abort)

    def close(self) -> None:
        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            self._loop.stop()

        self.cut()
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(end()))
        self._thread.join(5)
