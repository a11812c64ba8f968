"""The choice of the machine whose runs the Lab lists: this one, or another one over ssh.

It offers machines visited before and those in the user's ssh configuration; any other name known to ssh can be typed,
with a folder after a colon.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from textual.content import Content

from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.files import read_regular
from txlab.runs.remote.address import DEFAULT, HOST, Address, address_of, host_and_folder, mirrors_root
from txlab.tui.screens.dialogs import Choose

if TYPE_CHECKING:
    from textual.app import App

HERE = "this machine"
LARGEST_CONFIG = 1 << 20
MOST = 200


def list_machines() -> list[tuple[str, str]]:
    """(NAME or NAME:FOLDER, description): first machines with mirrors, then those in ~/.ssh/config."""
    machines: dict[str, str] = {}
    with suppress(OSError):
        for place in sorted(mirrors_root().glob("*/*/"), key=lambda place: place.stat().st_mtime, reverse=True)[:MOST]:
            host, folder = unquote(place.parent.name), unquote(place.name)
            copies = sum(1 for entry in place.iterdir() if entry.is_dir())
            machines[host if folder == DEFAULT else f"{host}:{folder}"] = f"{copies} {'run' if copies == 1 else 'runs'}"
    with suppress(OSError):
        text = read_regular(Path("~/.ssh/config").expanduser(), LARGEST_CONFIG).decode("utf-8", "replace")
        for line in re.findall(r"^\s*Host(?:\s+|\s*=\s*)(.+)$", text, re.MULTILINE | re.IGNORECASE):
            for name in line.split():
                if HOST.fullmatch(name):
                    machines.setdefault(name, "from ~/.ssh/config")
    return [*machines.items()][:MOST]


def ask_machine(
    app: App[Any],
    now: Address | None,
    chosen: Callable[[Address | None, str], None],
    question: str = "Runs of which machine?  NAME, NAME:RUN, NAME:/FOLDER",
    verb: str = "lists the runs of",
) -> None:
    """Ask for a machine, and say that enter does the `verb` to one that is typed; `chosen` gets its address (None =
    this one), and the name of a run on it or ""."""
    called = HERE if now is None else str(Address(now.host, now.path)).rstrip(":")
    rows = [(HERE, "", called == HERE), *((name, about, name == called) for name, about in list_machines())]

    def describe(text: str) -> str:
        try:
            address, run = machine_and_run(text)
        except LabError as error:
            return f"cannot be pressed yet: {error}"
        folder = f", in {address.path}," if address.path else ""
        return f"{verb} {address.host}{folder} over ssh{f', and opens {run}' if run else ''}"

    def take_answer(text: str | None) -> None:
        if text is None:
            return
        try:
            chosen(*((None, "") if text == HERE else machine_and_run(text)))
        except LabError as error:
            app.report(error)  # type: ignore[attr-defined]

    app.push_screen(Choose(question, rows, free=describe), take_answer)


def machine_and_run(text: str) -> tuple[Address, str]:
    """(machine, run or "") of NAME, NAME:RUN or NAME:/FOLDER. LabError for anything else."""
    named = address_of(text)
    if named is not None and named.run and not text.endswith(":"):
        return Address(named.host), named.run
    return host_and_folder(text), ""


def machine_title(address: Address, line: str, why: str) -> Content:
    """Return the connection's state for the title of the list: nothing while connected."""
    host = Content.styled(f" on {visible(address.host)}", "bold $accent")
    if line == "connected":
        return host
    state = {"connecting": "  connecting…", "lost": "  line lost"}.get(line, "  not connected")
    return Content.assemble(host, Content.styled(state, "$quiet" if line == "connecting" else "bold $error"))
