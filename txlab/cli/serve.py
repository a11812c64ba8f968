"""`txlab serve`: the console in a browser on this machine, by textual-serve, behind an access guard.

Notable: textual-serve has no authentication and accepts its websocket from any page: a page of another site could open
it, read the console and send keys. So a guard checks every request: its Host header (against DNS rebinding), the origin
of the page that sent it, and a secret that is only in the printed address. The server listens on the loopback interface
only; other machines reach it through `ssh -L`.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.errors import LabError

if TYPE_CHECKING:
    import socket

    from aiohttp import web

ADDRESS = "127.0.0.1"
COOKIE = "txlab"
POLICY = (
    "default-src 'self'",  # no external resources, not even fonts
    "script-src 'self' 'unsafe-inline'",
    "style-src 'self' 'unsafe-inline'",  # for the styles of xterm.js
    "img-src 'self' data:",
    "connect-src 'self' {websocket}",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
)
HEADERS = {
    "Content-Security-Policy": "; ".join(POLICY),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ENTER = '<!DOCTYPE html><meta charset="utf-8"><title>txlab</title><meta http-equiv="refresh" content="0; url=/">'


def serve(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="open the console on this run")] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="the port on 127.0.0.1; 0: any that is free", min=0, max=65535)
    ] = 8023,
) -> None:
    """Serve the console in a browser, with a secret address."""
    import asyncio  # here: with the next it takes a tenth of the time of `txlab --help`
    import secrets
    import socket

    if run is not None:  # an unknown run is reported here, not in the browser
        from txlab.runs.directory import RunDirectory, info_of
        from txlab.runs.finding import find_run

        path = find_run(run)
        info_of(RunDirectory(path))
        run = str(path.absolute())  # each tab opens the run resolved at the start, not a later "latest"
    from txlab.cli.terminal import ascii_asked
    from txlab.runs.root import default_root
    from txlab.runs.writing import python_module

    asked = ["--runs", str(default_root().absolute()), *(["--ascii"] if ascii_asked() else [])]
    console = python_module("txlab", *asked, *(["attach", "--", run] if run else []))
    try:
        listener = socket.create_server((ADDRESS, port))
    except OSError as error:
        raise LabError(
            f"port {port} of {ADDRESS} cannot be used: {error.strerror}; choose another with --port"
        ) from None
    with listener, asyncio.Runner() as runner:
        runner.run(listen(shlex.join(console), listener, secrets.token_urlsafe(24)))


async def listen(command: str, listener: socket.socket, token: str) -> None:
    """Serve until a signal ends it."""
    import asyncio

    from aiohttp import web

    from txlab.cli.served import PATIENCE

    port = listener.getsockname()[1]
    runner = web.AppRunner(await add_guard(command, port, token), access_log=None, shutdown_timeout=2 * PATIENCE)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        print(f"the console is at http://{ADDRESS}:{port}/?token={token}")
        print(f"It is shown only through this address. From another machine: ssh -L {port}:{ADDRESS}:{port} HOST")
        print("ctrl-c ends it; runs continue.", flush=True)
        ended = asyncio.Event()
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(each, ended.set)
        await ended.wait()
    finally:
        await runner.cleanup()


async def add_guard(command: str, port: int, token: str) -> web.Application:
    """textual-serve's application for `command`, with the guard in front of it."""
    from txlab.cli.served import Consoles

    server = Consoles(command, ADDRESS, port)
    application: web.Application = await server._make_app()
    application.middlewares.append(guard(f"{ADDRESS}:{port}", token, Path(server.statics_path)))
    return application


def guard(host: str, token: str, statics: Path) -> Any:
    """The middleware that admits only requests to `host`, from its own pages, with the secret."""
    from aiohttp import web

    door = Door(host, token, statics)

    @web.middleware
    async def check(request: web.Request, handler: Any) -> web.StreamResponse:
        if (refusal := door.refusal(request)) is not None:
            return refusal
        if "token" in request.query:
            return door.enter()
        try:
            response: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            error.headers.update(door.headers)
            raise
        if not response.prepared:
            response.headers.update(door.headers)
        return response

    return check


class Door:
    """Access control: the secret is sent once in the address, as `token`, and then in a cookie that pages of other
    sites cannot send; the two differ, so that an address in a history or a log does not reveal the cookie."""

    def __init__(self, host: str, token: str, statics: Path) -> None:
        from secrets import token_urlsafe

        self.host, self.token, self.statics, self.session = host, token, statics, token_urlsafe(24)
        self.headers = {name: value.replace("{websocket}", f"ws://{host}") for name, value in HEADERS.items()}

    def refusal(self, request: web.Request) -> web.Response | None:
        """The response to a rejected request; None for an admitted one."""
        from aiohttp import web

        if why := self.stranger(request) or self.without_secret(request):
            return web.Response(status=403, text=why, headers=self.headers)
        return web.Response(status=404, headers=self.headers) if self.is_folder(request.path) else None

    def stranger(self, request: web.Request) -> str:
        """Why a request is not from our page; "" if it is."""
        if request.headers.getall("Host", []) != [self.host]:
            return "wrong host"
        socket = request.headers.get("Upgrade", "").lower() == "websocket" or request.path == "/ws"
        origins = request.headers.getall("Origin", [])
        if origins != [f"http://{self.host}"] and (origins or socket):
            return "wrong origin"
        return "" if request.method in ("GET", "HEAD") else "wrong method"

    def without_secret(self, request: web.Request) -> str:
        given = request.query.get("token")
        if given is not None:
            return "" if request.path == "/" and same(given, self.token) else "wrong token"
        if same(request.cookies.get(COOKIE, ""), self.session):
            return ""
        return "the address that txlab serve printed, with its token, opens the console"

    def is_folder(self, path: str) -> bool:
        """Whether a path is a folder of the static files, or not a valid file name."""
        try:
            return path.startswith("/static") and (self.statics / path[len("/static") :].lstrip("/")).is_dir()
        except (OSError, ValueError):  # a name that is too long, or has a NUL
            return True

    def enter(self) -> web.Response:
        """The response to the address with the secret: the cookie, and a redirect to the console."""
        from aiohttp import web

        answer = web.Response(text=ENTER, content_type="text/html", headers=self.headers)
        answer.set_cookie(COOKIE, self.session, httponly=True, samesite="Strict", path="/")
        return answer


def same(given: str, wanted: str) -> bool:
    from secrets import compare_digest

    return compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())
