"""The consoles of `txlab serve`: one process per tab; when either ends, so does the other.

Notable: textual-serve waits for a console without a limit, and on shutdown for the browser too: with a tab open,
SIGTERM took 15 to 23 s and once left a console behind. A malformed message caused a traceback on the server's terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from txlab.runs.writing import search_path

PATIENCE = 2.0  # seconds for a console to exit, and for a browser to close its connection
WIDEST, TALLEST = 2000, 1000  # cells


class Console(AppService):
    """The console of one tab, in a separate process group. Runs that it has started are in other groups, and
    continue."""

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        environment = self._build_environment(width, height) | {"PYTHONPATH": search_path()}
        self._process = await asyncio.create_subprocess_exec(
            *shlex.split(self.command), stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
        )
        self._stdin = self._process.stdin
        return self._process

    async def stop(self) -> None:
        """Ask the console to exit; kill its process group if it does not."""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await super().stop()
        finally:
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        while self._process.returncode is None:  # close() would reap the child that asyncio waits for
                            await asyncio.sleep(0.01)
                # A run that it has started may hold its pipes open, and wait() waits for them; there is no public API.
                self._process._transport.close()  # type: ignore[attr-defined]
                await self._process.wait()


class Consoles(Server):
    """textual-serve's server, with these consoles."""

    def __init__(self, command: str, host: str, port: int) -> None:
        super().__init__(command, host, port, title="txlab")
        self.sockets: set[web.WebSocketResponse] = set()

    async def on_startup(self, app: web.Application) -> None:
        """Print no banner."""

    async def on_shutdown(self, app: web.Application) -> None:
        """Close the tabs' sockets, which ends their consoles."""
        closing = (socket.close(code=WSCloseCode.GOING_AWAY) for socket in list(self.sockets))
        await asyncio.gather(*closing, return_exceptions=True)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=15, timeout=PATIENCE)
        await socket.prepare(request)
        self.sockets.add(socket)
        console = Console(
            self.command,
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=socket.close,  # type: ignore[arg-type]  # the return value is not used
            download_manager=self.download_manager,
        )
        width, height = (to_int(request.query.get(name, ""), usual) for name, usual in (("width", 80), ("height", 24)))
        try:
            await console.start(max(1, min(width, WIDEST)), max(1, min(height, TALLEST)))
            await self._process_messages(socket, console)
        except (ValueError, ConnectionError):  # not from our page; or the tab is gone
            await socket.close(code=WSCloseCode.POLICY_VIOLATION)
        finally:
            self.sockets.discard(socket)
            await console.stop()
        return socket

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        async for message in websocket:
            if message.type == WSMsgType.TEXT:
                match parse_message(message.data):
                    case "stdin", keys:
                        await app_service.send_bytes(keys.encode(errors="replace"))
                    case "resize", (width, height):
                        await app_service.set_terminal_size(width, height)
                    case "ping", content:
                        await websocket.send_json(["pong", content])
                    case "blur", _:
                        await app_service.blur()
                    case "focus", _:
                        await app_service.focus()


def parse_message(text: str) -> tuple[str, Any]:
    """Parse a message of the page into its type and content. ValueError for an invalid message.

    >>> parse_message('["resize", {"width": 80, "height": 24}]')
    ('resize', (80, 24))
    """
    try:
        message = json.loads(text)
    except RecursionError:
        raise ValueError("a message of too many parts") from None
    match message:
        case ["stdin", str(keys)]:
            return "stdin", keys
        case ["resize", {"width": int(width), "height": int(height)}] if 0 < width <= WIDEST and 0 < height <= TALLEST:
            return "resize", (width, height)
        case ["ping", (str() | int() | float() | None) as mark]:
            return "ping", mark
        case ["blur" | "focus" as kind, *_]:
            return str(kind), None
    raise ValueError(f"a message of an unknown form: {text[:40]!r}")
