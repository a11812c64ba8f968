"""The lines of this process, and runs on other machines opened by name: what commands and screens call.

path = open_run(Address("box", "", "latest"), whole=True)   # an ordinary run directory, kept fresh from now on
"""

from __future__ import annotations

import atexit
import re
import threading
import time
from pathlib import Path

from txlab.errors import LabError
from txlab.runs.far.address import Address, mirror_of
from txlab.runs.far.coarse import APPROXIMATE
from txlab.runs.far.host import LISTED_EVERY, Host
from txlab.runs.far.state import far_state
from txlab.runs.folder import find_in, is_of, is_run, list_runs, not_found
from txlab.runs.frames import FrameIndex

DATED = re.compile(r"\d{4}-\d\d-\d\d_\d{6}_.*")
OPENS_WITHIN = 60.0  # seconds from connecting to the first rows, and from asking for a frame to its digits

_hosts: dict[Path, Host] = {}
_lock = threading.Lock()


def host_at(address: Address) -> Host:
    """The line of this process to a folder of runs on another machine, made on first use."""
    with _lock:
        key = address.mirrors
        if key not in _hosts:
            if not _hosts:
                atexit.register(close_all)
            _hosts[key] = Host(address).start()
        return _hosts[key]


def close_all() -> None:
    """End all lines of this process."""
    with _lock:
        hosts = [*_hosts.values()]
        _hosts.clear()
    for host in hosts:
        host.close()


def follow(path: Path) -> Host | None:
    """Keep the mirror at `path` fresh from now on; returns its line, None for a run of this machine."""
    address = mirror_of(path)
    if address is None:
        return None
    host = host_at(address)
    host.want(address.run)
    return host


def listed(address: Address) -> Path:
    """The folder of mirrors of all runs in a folder on another machine, listed now. Raises LabError."""
    host = host_at(address)
    deadline = time.monotonic() + OPENS_WITHIN
    while time.monotonic() - host.listed_at > LISTED_EVERY:
        host.want_list()
        time.sleep(0.02)
        if host.failed.is_set() and not host.connected.is_set():
            raise LabError(host.why)
        if time.monotonic() > deadline:
            raise LabError(f"{address.host} has not listed its runs within {OPENS_WITHIN:.0f} s")
    return host.folder


def open_run(address: Address, whole: bool = False) -> Path:
    """Mirror a run and return its directory here once it can be read; `whole` waits for every row of its log.

    Without a connection it is the mirror of an earlier one. Raises LabError if there is none, or no such run.
    """
    known = offline(address)
    host = host_at((mirror_of(known) if known is not None else None) or address)
    while not host.connected.wait(0.02):
        if host.failed.is_set():
            if known is None:
                raise LabError(host.why)
            return known
    if host.run_named and address.path:  # the path was that of a run: its folder is what the mirrors are named after
        inner = Address(address.host, address.path.rpartition("/")[0] or "/", host.run_named)
        host.close()
        with _lock:
            _hosts.pop(host.folder, None)
        address, host = inner, host_at(inner)
        host.connected.wait(OPENS_WITHIN)
    name = named(address.run or "latest", host.names) or found_in_list(host, address.run)
    path = host.folder / name
    host.patient = host.patient or whole
    host.want(name)
    deadline = time.monotonic() + OPENS_WITHIN
    while not (
        name in host.mirrors and host.mirrors[name].followed and is_run(path) and not (whole and host.mirrors[name].gap)
    ):
        if name in host.trouble:
            raise LabError(host.trouble[name])
        if name in host.elsewhere and is_run(path) and (far := far_state(path)) is not None and far.connected:
            break  # another process keeps it fresh
        if not host.connected.is_set() and host.failed.is_set():
            if is_run(path) and not whole:
                break
            raise LabError(host.why)
        if time.monotonic() > deadline and not (whole and name in host.mirrors and host.mirrors[name].followed):
            raise LabError(f"{address} was not there within {OPENS_WITHIN:.0f} s")
        time.sleep(0.01)
    return path


def found_in_list(host: Host, run: str) -> str:
    """The directory of a run that only the list of runs tells. Raises LabError if there is none."""
    folder, where = listed(host.address), f"{host.address.host}:{host.root}"
    if not list_runs(folder):
        raise LabError(f"there are no runs in {where}")
    if (found := find_in(folder, run or "latest")) is None:
        raise LabError(str(not_found(folder, run)).replace(f"in {folder}", f"on {where}"))
    return found.name


def offline(address: Address) -> Path | None:
    """The mirror that an address means, as far as an earlier connection has left one."""
    if address.path:
        folder, _, run = address.path.rpartition("/")
        path = Address(address.host, folder or "/").mirrors / run
        if run and is_run(path):
            return path
    return find_in(address.mirrors, address.run or "latest")


def named(run: str, names: list[str]) -> str:
    """The directory that a name means, if that can be told from the names alone; "" otherwise."""
    if run in names:
        return run
    dated = sorted(filter(DATED.fullmatch, names), reverse=True)
    if run == "latest":
        return dated[0] if dated and len(dated) == len(names) else ""
    return next((name for name in dated if is_of(name, run)), "")


def is_approximate(path: Path, step: int) -> bool:
    """Whether a frame of a mirror has only the levels that a picture needs. LabError if there is no such frame."""
    return APPROXIMATE in FrameIndex(path / "frames").read(step, ()).facts


def exact_frame(path: Path, step: int) -> None:
    """Fetch all digits of a frame of a mirror. Raises LabError if that is not possible."""
    host = follow(path)
    if host is None:
        return
    deadline = time.monotonic() + OPENS_WITHIN
    while (mirror := host.mirrors.get(path.name)) is None or step not in mirror.exactly:
        if host.line in ("lost", "closed"):
            raise LabError(f"the exact numbers are on {host.address.host}, and the line to it is lost")
        if mirror is not None:
            host.want_exact(path.name, step)
        if time.monotonic() > deadline:
            raise LabError(f"the exact numbers of step {step} have not come from {host.address.host}")
        time.sleep(0.02)
