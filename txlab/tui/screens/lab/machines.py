"""Which machine's runs the Lab lists: this one's, or over ssh those of another one.

Offered are the machines whose runs were looked at before, and those that the user's ssh configuration names; any other
name that ssh knows can be typed, with a folder behind a colon.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from textual.content import Content

from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.files import read_regular
from txlab.runs.far.address import DEFAULT, HOST, Address, address_of, host_and_folder, mirrors_root
from txlab.tui.screens.dialogs import Choose

if TYPE_CHECKING:
    from textual.app import App

HERE = "this machine"
LARGEST_CONFIG = 1 << 20
MOST = 200


def known_machines() -> list[tuple[str, str]]:
    """(NAME or NAME:FOLDER, what is known of it): first those with mirrors, then those of ~/.ssh/config."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for place in sorted(mirrors_root().glob("*/*/"), key=lambda place: place.stat().st_mtime, reverse=True)[:MOST]:
            host, folder = unquote(place.parent.name), unquote(place.name)
            copies = sum(1 for entry in place.iterdir() if entry.is_dir())
            found[host if folder == DEFAULT else f"{host}:{folder}"] = f"{copies} {'run' if copies == 1 else 'runs'}"
    with suppress(OSError):
        text = read_regular(Path("~/.ssh/config").expanduser(), LARGEST_CONFIG).decode("utf-8", "replace")
        for line in re.findall(r"^\s*Host(?:\s+|\s*=\s*)(.+)$", text, re.MULTILINE | re.IGNORECASE):
            for name in line.split():
                if HOST.fullmatch(name):
                    found.setdefault(name, "from ~/.ssh/config")
    return [*found.items()][:MOST]


def ask_machine(app: App[object], now: Address | None, chosen: Callable[[Address | None, str], None]) -> None:
    """Ask for a machine; `chosen` gets its address (None = this one), and the name of a run on it or ""."""
    called = HERE if now is None else str(Address(now.host, now.path)).rstrip(":")
    rows = [(HERE, "", called == HERE), *((name, about, name == called) for name, about in known_machines())]
    dialog = Choose("Runs of which machine?  NAME, NAME:RUN, NAME:/FOLDER", rows, free=True)

    def answered(text: str | None) -> None:
        if text is None:
            return
        if text == HERE:
            chosen(None, "")
            return
        try:
            named = address_of(text)
            if named is not None and named.run and not text.endswith(":"):
                chosen(Address(named.host), named.run)
            else:
                chosen(host_and_folder(text), "")
        except LabError as error:
            app.report(error)  # type: ignore[attr-defined]

    app.push_screen(dialog, answered)


def machine_title(address: Address, line: str, why: str) -> Content:
    """Return what the title of the list says of the line: nothing while it stands."""
    host = Content.styled(f" on {visible(address.host)}", "bold $accent")
    if line == "connected":
        return host
    said = {"connecting": "  connecting…", "lost": "  line lost"}.get(line, "  not connected")
    return Content.assemble(host, Content.styled(said, "$quiet" if line == "connecting" else "bold $error"))
