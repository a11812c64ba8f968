"""`txlab serve`: who gets the console in a browser, and who gets 403."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from waiting import LONGEST, wait_for

import txlab
from txlab.cli import app
from txlab.errors import LabError
from txlab.runs.finding import find_run

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("textual_serve")

CONSOLE = shlex.join([sys.executable, "-S", "-c", "import os, sys; os.write(1, b'__GANGLION__\\n'); sys.stdin.read()"])
TOKEN = "a-token-that-is-long-enough"


class Served:
    def __init__(self, port: int) -> None:
        self.port, self.host = port, f"127.0.0.1:{port}"
        self.url = f"http://{self.host}"

    async def status(self, path: str = "/", cookie: str = "", host: str = "", **headers: str) -> int:
        """The status that a request gets; `host` is what its Host header says."""
        if host:
            headers["Host"] = host
        if cookie:
            headers["Cookie"] = f"txlab={cookie}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.url + path, headers=headers, allow_redirects=False) as answer,
        ):
            return int(answer.status)

    async def cookie(self) -> str:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/?token={TOKEN}") as answer:
            assert answer.status == 200
            set_cookie = answer.headers["Set-Cookie"]
            assert "SameSite=Strict" in set_cookie
            assert "HttpOnly" in set_cookie
            return answer.cookies["txlab"].value

    async def socket_status(self, cookie: str, origin: str | None) -> int:
        """The status of the handshake of a websocket: 101 if it is opened."""
        headers = {"Cookie": f"txlab={cookie}"} | ({} if origin is None else {"Origin": origin})
        async with aiohttp.ClientSession() as session:
            try:
                async with session.ws_connect(f"{self.url}/ws?width=100&height=30", headers=headers):
                    return 101
            except aiohttp.WSServerHandshakeError as error:
                return int(error.status)


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    from aiohttp import web

    from txlab.cli.serve import add_guard

    listener = socket.create_server(("127.0.0.1", 0))
    port = int(listener.getsockname()[1])
    runner = web.AppRunner(await add_guard(CONSOLE, port, TOKEN), access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    yield Served(port)
    await runner.cleanup()


async def test_the_address_with_its_token_opens_the_page_and_nothing_else_does(served: Served) -> None:
    assert await served.status("/") == 403
    for token in ("", "wrong", TOKEN + "x", TOKEN[:-1], "é", "%ff"):
        assert await served.status(f"/?token={token}") == 403
    assert await served.status(f"/static/js/textual.js?token={TOKEN}") == 403
    cookie = await served.cookie()
    assert cookie != TOKEN
    assert await served.status("/", cookie) == 200
    assert await served.status("/", TOKEN) == 403
    assert await served.status("/", cookie[:-1]) == 403
    assert await served.status("/static/js/textual.js", cookie) == 200
    assert await served.status("/static/js/textual.js") == 403


async def test_another_host_or_origin_is_refused_even_with_the_cookie(served: Served) -> None:
    cookie = await served.cookie()
    for host in ("evil.example", f"localhost:{served.port}", "127.0.0.1", f"127.0.0.1:{served.port}.evil.example"):
        assert await served.status("/", cookie, host=host) == 403, host
        assert await served.status(f"/?token={TOKEN}", host=host) == 403, host
    for origin in ("http://evil.example", "null", f"http://localhost:{served.port}", f"https://{served.host}", ""):
        assert await served.status("/", cookie, Origin=origin) == 403, origin
        assert await served.socket_status(cookie, origin) == 403, origin
    assert await served.status("/", cookie, Origin=served.url) == 200


async def test_a_websocket_needs_origin_and_cookie(served: Served) -> None:
    cookie = await served.cookie()
    assert await served.socket_status("", served.url) == 403
    assert await served.socket_status("wrong", served.url) == 403
    assert await served.socket_status(cookie, None) == 403
    assert await served.socket_status(cookie, served.url) == 101


async def test_folders_are_not_listed_and_nothing_is_loaded_from_elsewhere(served: Served) -> None:
    cookie = await served.cookie()
    for path in (
        "/static",
        "/static/",
        "/static/js",
        "/static/js/",
        "/static/../static/",
        "/static//",
        "/static/%2e/",
        f"/static/{'a' * 5000}",
    ):
        assert await served.status(path, cookie) in (403, 404), path
    async with aiohttp.ClientSession() as session:
        async with session.get(served.url, headers={"Cookie": f"txlab={cookie}"}) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Frame-Options"] == "DENY"
        async with session.post(served.url, headers={"Cookie": f"txlab={cookie}"}) as answer:
            assert answer.status == 403
    assert "default-src 'self'" in policy
    assert f"connect-src 'self' ws://{served.host}" in policy


async def test_the_console_itself_is_served_on_the_loopback_interface_alone(tmp_path: Path) -> None:
    environment = os.environ | {"TXLAB_RUNS": str(tmp_path)}
    server = subprocess.Popen(
        [sys.executable, "-m", "txlab", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    try:
        assert server.stdout is not None
        first = await asyncio.to_thread(server.stdout.readline)
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=", first)
        assert found, first
        port = int(found[1])
        process: Any = psutil.Process(server.pid)
        connections = process.net_connections if psutil.version_info >= (6,) else process.connections
        listening = [each.laddr for each in connections() if each.status == "LISTEN"]
        assert [(place.ip, place.port) for place in listening] == [("127.0.0.1", port)]
        url = first.split()[-1]
        origin = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as answer:
                cookie = {"Cookie": f"txlab={answer.cookies['txlab'].value}"}
            headers = cookie | {"Origin": origin}
            async with session.ws_connect(f"{origin}/ws?width=100&height=30", headers=headers) as page:
                shown = b""
                while b"Catalogue" not in shown and b"filter" not in shown:
                    message = await page.receive(timeout=240)
                    assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), shown[-2000:]
                    shown += message.data if isinstance(message.data, bytes) else message.data.encode()
    finally:
        server.send_signal(signal.SIGINT)
        rest = await asyncio.to_thread(server.communicate, timeout=240)
    assert server.returncode == 0, rest


PROGRAM = """
import os, signal, subprocess, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
runs_on = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid} {runs_on.pid}")
os.write(1, b"__GANGLION__\\n")
time.sleep(600)  # it does not leave when it is asked to
"""
SERVER = """
import asyncio, shlex, socket, sys
from txlab.cli.serve import listen
listener = socket.create_server(("127.0.0.1", 0))
asyncio.run(listen(shlex.join([sys.executable, "-c", sys.argv[1], sys.argv[2]]), listener, sys.argv[3]))
"""
MALFORMED = [
    "", "x", "[]", "{}", "null", "7", '["stdin"]', '["stdin", 7]', '["resize", {}]', '["resize", {"width": "8"}]',
    '["resize", {"width": -1, "height": 5}]', '["resize", {"width": 1000000000, "height": 1000000000}]', '["ping"]',
    '["ping", [1]]', '[["stdin"], "x"]', "[" * 100_000, '["unknown", 1]', '[NaN]', '"stdin"',
]  # fmt: skip


class Opened:
    """`txlab serve` in a process, its console a program that ignores every request to leave, and one tab."""

    def __init__(self, folder: Path) -> None:
        self.pids = folder / "pids"
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER, PROGRAM, str(self.pids), TOKEN],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def tab(self, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
        """A tab, when its console runs."""
        assert self.server.stdout is not None
        url = (await asyncio.to_thread(self.server.stdout.readline)).split()[-1]
        origin = url.partition("/?")[0]
        async with session.get(url) as answer:
            cookie = answer.cookies["txlab"].value
        headers = {"Cookie": f"txlab={cookie}", "Origin": origin}
        page = await session.ws_connect(f"{origin}/ws?width=99999999&height=-3", headers=headers, autoclose=False)
        await asyncio.to_thread(wait_for, self.written, self.server)
        return page

    def written(self) -> list[int]:
        pids = [int(word) for word in self.pids.read_text().split()] if self.pids.exists() else []
        return pids if len(pids) == 3 else []

    async def end(self) -> str:
        """Wait for the server's end; what it said on stderr."""
        _, said = await asyncio.to_thread(self.server.communicate, timeout=LONGEST)
        assert self.server.returncode == 0, said
        return said

    def clear(self) -> None:
        self.server.kill()
        for pid in self.written():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    served = Opened(tmp_path)
    yield served
    served.clear()


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_server_that_is_ended_leaves_no_console_and_ends_no_run(opened: Opened, ended: signal.Signals) -> None:
    """The tab is open and answers nothing, and the console does not leave either."""
    async with aiohttp.ClientSession() as session:
        page = await opened.tab(session)
        console, child, run = opened.written()
        opened.server.send_signal(ended)
        assert await opened.end() == ""
        assert page is not None
    assert not running(console)
    await asyncio.to_thread(wait_for, lambda: not running(child))
    assert running(run)


async def test_a_console_ends_with_its_tab(opened: Opened) -> None:
    async with aiohttp.ClientSession() as session:
        page = await opened.tab(session)
        console, child, run = opened.written()
        await page.close()
        await asyncio.to_thread(wait_for, lambda: not running(console) and not running(child), opened.server)
        assert running(run)
    opened.server.terminate()
    assert await opened.end() == ""


async def test_a_malformed_message_closes_its_socket_and_leaves_no_traceback(
    tmp_path: Path, served: Served, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Cookie": f"txlab={await served.cookie()}", "Origin": served.url}
    for text in MALFORMED:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{served.url}/ws?width=x&height=", headers=headers) as page,
        ):
            await page.send_str(text)
            message = await page.receive(timeout=LONGEST)
            assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED), text[:50]
            assert page.close_code == aiohttp.WSCloseCode.POLICY_VIOLATION, text[:50]
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")
    assert [record for record in caplog.records if record.exc_info] == []


def test_what_the_page_sends_is_understood() -> None:
    from txlab.cli.served import parse_message

    assert parse_message('["stdin", "q"]') == ("stdin", "q")
    assert parse_message('["stdin", "\\ud800"]') == ("stdin", "\ud800")
    assert parse_message('["ping", 12.5]') == ("ping", 12.5)
    assert parse_message('["focus"]') == ("focus", None)


def test_a_port_that_is_taken_is_reported() -> None:
    from txlab.cli.serve import serve

    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        there.listen()
        with pytest.raises(LabError, match="cannot be used"):
            serve(port=there.getsockname()[1])


def test_each_tab_opens_the_run_that_was_the_latest_when_the_server_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path))
    with txlab.record("first", root=tmp_path) as first:
        first.log(0, loss=1.0)
    commands: list[str] = []

    async def listen(command: str, port: int, token: str) -> None:
        commands.append(command)

    monkeypatch.setattr(sys.modules["txlab.cli.serve"], "listen", listen)
    app(["serve", "latest"], standalone_mode=False)
    with txlab.record("second", root=tmp_path) as second:
        second.log(0, loss=1.0)
    [command] = commands
    assert find_run(shlex.split(command)[-1]) == first.path
