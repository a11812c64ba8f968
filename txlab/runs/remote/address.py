"""Names of runs on other machines: HOST:RUN, HOST:/folder/of/runs/RUN, HOST:; and the paths of their mirrors.

HOST is whatever `ssh HOST` accepts. Without a folder, the runs are in $TXLAB_RUNS there, else in ~/runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from txlab.errors import LabError

DEFAULT = "runs"  # the folder of mirrors for runs without a folder in their address
HOST = re.compile(r"[A-Za-z0-9_][\w.+-]*(@[A-Za-z0-9_][\w.+-]*)?", re.ASCII)  # nothing that ssh could read as an option


@dataclass(frozen=True)
class Address:
    """`path` is a folder of runs on the host, or a run in one; "" = the default folder. `run` is a name as `find_run`
    takes it."""

    host: str
    path: str = ""
    run: str = ""

    @property
    def mirrors(self) -> Path:
        """The local folder with the mirrors of the runs in `path`."""
        return mirrors_root() / quote(self.host, safe="@") / place_named(self.path)

    def __str__(self) -> str:
        return f"{self.host}:{self.path or self.run}"


def mirrors_root() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("txlab", appauthor=False) / "mirrors" / "far"


def place_named(path: str) -> str:
    """A unique local folder name for a folder on the other machine. Raises LabError if it is too long.

    >>> place_named(""), place_named("/data/runs"), place_named("runs"), place_named("~/runs")
    ('runs', '%2Fdata%2Fruns', '~%2Fruns', '~%2Fruns')
    """
    if not path:
        return DEFAULT
    name = quote(path if path[0] in "/~" else f"~/{path}", safe="")  # relative folders are in the home directory there
    if len(name) > 240:
        raise LabError(f"the path {path[:60]!r}… is too long for a mirror; use one of at most 200 characters")
    return name


def address_of(text: str) -> Address | None:
    """Read HOST:RUN or HOST:PATH; None if the text is neither.

    >>> address_of("box:latest"), address_of("ann@box:/data/runs/x"), address_of("gpt-tiny")
    (Address(host='box', path='', run='latest'), Address(host='ann@box', path='/data/runs/x', run=''), None)
    """
    host, colon, rest = text.partition(":")
    if not colon or not HOST.fullmatch(host) or "\0" in rest:
        return None
    if "/" in rest or rest == "~":
        return Address(host, rest.rstrip("/") or "/")
    return Address(host, "", rest or "latest")


def host_and_folder(text: str) -> Address:
    """Read HOST or HOST:FOLDER, as in --hosts. Raises LabError."""
    address = address_of(text if ":" in text else f"{text}:")
    if address is None or (address.run not in ("", "latest")):
        raise LabError(f"{text!r} is not a machine; allowed: a name that ssh knows, or NAME:/folder/of/runs")
    return Address(address.host, address.path)


def mirror_of(path: Path) -> Address | None:
    """The address of the run whose mirror is at `path`; None for any other path. It depends on the path alone, so it
    always names the same run in the same folder."""
    try:
        host, place, run = path.resolve().relative_to(mirrors_root().resolve()).parts
    except ValueError:
        return None
    if HOST.fullmatch(unquote(host)) is None:
        return None
    return Address(unquote(host), "" if place == DEFAULT else unquote(place), run)
