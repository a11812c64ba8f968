"""One connection: the user's own ssh, the reader sent through it, and messages of bounded size.

Notable: everything that a login shell prints before the magic word is skipped. ssh gets no terminal, so it cannot
prompt; it forwards no port, agent or display. Input is not trusted: a message that is too large, not JSON, or not an
object ends the connection. Input is decompressed a little at a time, because a kilobyte of it can become a megabyte.
"""

from __future__ import annotations

import ast
import os
import select
import shlex
import struct
import subprocess
import threading
import time
import zlib
from collections import deque
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from txlab.errors import LabError

Message = tuple[dict[str, Any], bytes]

MAGIC = b"\0txlab far 1\n"
NOISE = 1 << 20  # bytes that are skipped before the magic word, and on stderr
NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)  # of hostile data
LARGEST_HEAD, LARGEST_BODY = 6 << 20, 12 << 20
AT_ONCE = 256 << 10  # bytes that are unpacked before their messages are taken
MOST_PARTS = 250_000  # lists and objects of parsed JSON; each takes 60 to 230 bytes of memory, and 2 in transit
LISTENED = 1 << 14  # bytes of stderr that are read at a time
STARTS_WITHIN = 40.0  # seconds from starting ssh to the magic word
OPTIONS = (
    *("-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes"),
    *("-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no"),
)


_parsing = (
    threading.Lock()
)  # concurrent calls raise SystemError in Python 3.11 (github.com/python/cpython/issues/106905)


class LineLost(LabError):
    """The connection could not be made, or has ended; one sentence."""


def ssh_command(host: str) -> list[str]:
    """ssh with our options; $TXLAB_SSH replaces the command, for example "ssh -F FILE"."""
    try:
        ssh = shlex.split(os.environ.get("TXLAB_SSH") or "ssh")
    except ValueError as error:
        raise LabError(f"TXLAB_SSH = {os.environ['TXLAB_SSH']!r} is not a command: {error}") from None
    return [*ssh, *OPTIONS, "--", host]


@cache
def agent() -> bytes:
    """The program that runs on the other side, without comments and annotations, compressed."""
    return compress("agent.py", end="main()")


@cache
def box() -> bytes:
    """The part of it that reads the machine, sent when that is requested."""
    return compress("../../engine/card.py", "box.py")


def compress(*names: str, end: str = "") -> bytes:
    with _parsing:
        trees = [ast.parse(Path(__file__).parent.joinpath(name).read_text(encoding="utf-8")) for name in names]
    return zlib.compress("\n".join([*(ast.unparse(Bare().visit(tree)) for tree in trees), end, ""]).encode(), 9)


def parse_json(data: bytes) -> Any:
    """Parse a JSON text from another machine. Raises ValueError with a predicate, such as "is not JSON"."""
    if data.count(b"{") + data.count(b"[") > MOST_PARTS:
        raise ValueError(f"has more than {MOST_PARTS} parts")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise ValueError("is not JSON") from None


class Bare(ast.NodeTransformer):
    """Removes docstrings, annotations and the names that only these need from a program."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return ast.copy_location(ast.Assign([node.target], node.value), node) if node.value else None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if (node.module or "").startswith(("typing", "txlab")) else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        alias = isinstance(node.value, ast.Subscript) and ast.unparse(node.value).startswith(("Dict[", "Tuple["))
        return None if alias else node


class Line:
    """A connection to `host`; used from one thread, except `close`. Raises LineLost if ssh cannot be started."""

    def __init__(self, host: str) -> None:
        self.host = host
        program = agent()
        # Byte by byte, so that nothing after the program is taken from the pipe.
        reads = f'import os,zlib;exec(zlib.decompress(b"".join(os.read(0,1)for _ in range({len(program)}))))'
        # -I: with -c alone, Python would import a json.py of the folder that ssh begins in, the home directory.
        try:
            self.process = subprocess.Popen(
                [*ssh_command(host), f"exec python3 -I -u -c '{reads}'"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # ctrl-c is for us, and without a terminal ssh cannot ask
            )
        except OSError as error:
            raise LineLost(f"ssh cannot be started: {error.strerror} ({error.filename})") from None
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self.stdin, self.stdout, self.stderr = (pipe for pipe in pipes if pipe is not None)
        self.sink, self.source, self.complaints = self.stdin.fileno(), self.stdout.fileno(), self.stderr.fileno()
        os.set_blocking(self.sink, False)
        self.opened = self.heard = time.monotonic()
        self.started = False  # whether the magic word has come
        self.said, self.complained = "", 0  # the last words on stderr, and the bytes of all
        self.received = self.sent = 0  # bytes, for measurements
        self._noise, self._packed, self._data = b"", b"", bytearray()
        self._unpacking = False  # whether buffered input may contain more messages
        self._inflate = zlib.decompressobj()
        self._messages: deque[Message] = deque()
        self._out = bytearray(program)
        self._lock = threading.Lock()

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Queue a message; it is sent by the next `wait`, or immediately if there is room."""
        encoded = orjson.dumps(head)
        self._out += struct.pack("<II", len(encoded), len(body)) + encoded + body
        self._flush()

    def _flush(self) -> None:
        while self._out:
            try:
                count = os.write(self.sink, self._out[: 1 << 16])
            except BlockingIOError:
                return
            except OSError:  # the reason is on stderr, which is read later
                self._out.clear()
                return
            self.sent += count
            del self._out[:count]

    def wait(self, seconds: float) -> list[Message]:
        """Wait up to `seconds` for messages and return them as soon as there is one. Raises LineLost."""
        if self._unpacking:
            self._unpack()
        else:
            sinks = [self.sink] if self._out else []
            readable, writable, _ = select.select([self.source, self.complaints], sinks, [], seconds)
            if writable:
                self._flush()
            if self.complaints in readable:
                self._listen()
            if self.source in readable:
                data = os.read(self.source, 1 << 16)
                if not data:
                    raise LineLost(self._why())
                self.heard = time.monotonic()
                self.received += len(data)
                self._take(data)
        if not self.started and time.monotonic() - self.opened > STARTS_WITHIN:
            raise LineLost(f"{self.host} has not answered within {STARTS_WITHIN:.0f} s{self._quote_output()}")
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def _listen(self) -> None:
        words = os.read(self.complaints, LISTENED)
        self.complained += len(words)
        if not self.started and self.complained > NOISE:
            raise LineLost(f"{self.host} sent {NOISE >> 20} MiB of complaints{self._quote_output()}")
        if not words:  # closed: nothing more to listen to
            with Path(os.devnull).open("rb") as nothing:
                os.dup2(nothing.fileno(), self.complaints)
        self.said = (self.said + words.decode("utf-8", "replace"))[-4000:]

    def _take(self, data: bytes) -> None:
        if not self.started:
            self._noise += data
            place = self._noise.find(MAGIC)
            if place < 0:
                if len(self._noise) > NOISE:
                    raise LineLost(f"{self.host} sent {NOISE >> 20} MiB that are not from txlab's reader")
                return
            data, self._noise, self.started = self._noise[place + len(MAGIC) :], b"", True
        self._packed += data
        self._unpack()

    def _unpack(self) -> None:
        """Decompress some of the input, and split it into messages."""
        try:
            data = self._inflate.decompress(self._packed, AT_ONCE)
        except zlib.error:
            raise self.nonsense("what it sent is damaged") from None
        self._packed = self._inflate.unconsumed_tail
        self._unpacking = bool(self._packed) or len(data) == AT_ONCE
        self._data += data
        self._cut()

    def _cut(self) -> None:
        """Take the complete messages from the input."""
        while len(self._data) >= 8:
            head, body = struct.unpack_from("<II", self._data)
            if head > LARGEST_HEAD or body > LARGEST_BODY:
                raise self.nonsense("a message of it is too large")
            if len(self._data) < 8 + head + body:
                return
            try:
                message = parse_json(bytes(self._data[8 : 8 + head]))
            except ValueError as error:
                raise self.nonsense(f"a message of it {error}") from None
            if not isinstance(message, dict):
                raise self.nonsense("a message of it is not an object")
            self._messages.append((message, bytes(self._data[8 + head : 8 + head + body])))
            del self._data[: 8 + head + body]

    def nonsense(self, what: str) -> LineLost:
        return LineLost(f"the other side of {self.host} is not txlab's reader: {what}")

    def _why(self) -> str:
        """Why the connection ended, in one sentence."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        while self.complained < NOISE and select.select([self.complaints], [], [], 0)[0]:
            before = self.said
            self._listen()
            if self.said == before:
                break
        status = self.process.poll()
        output = self.said.lower()
        if status == 127 or "python3: not found" in output or "python3: command not found" in output:
            return f"there is no python3 on {self.host}, which a mirror needs (3.6 or newer){self._quote_output()}"
        if "host key verification failed" in output:
            return f"ssh does not know {self.host} yet: run ssh {self.host} once by hand, and accept its key"
        if "permission denied" in output:
            return f"{self.host} lets ssh in only with a password or not at all: ssh {self.host} true must work without"
        return f"the connection to {self.host} ended" + (self._quote_output() or f" (ssh's status is {status})")

    def _quote_output(self) -> str:
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        return f": {lines[-1][:300]}" if lines else ""

    def close(self) -> None:
        """End ssh and with it the other side. Safe to call twice, and from any thread."""
        with self._lock:
            if self.process.poll() is None:
                with suppress(OSError):
                    self.stdin.close()
                try:
                    self.process.wait(0.5)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
            for pipe in (self.stdin, self.stdout, self.stderr):
                with suppress(OSError):
                    pipe.close()
