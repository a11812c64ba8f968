"""The connections of this process, and runs on other machines opened by name: the functions for commands and screens.

path = open_run(Address("box", "", "latest"), whole=True)   # an ordinary run directory, kept fresh from now on

Notable: an address is resolved once, by `open_run`. From then on the run is the path of its mirror, which contains
host, folder and the run's directory name (`mirror_of`), and is never looked up again.
"""

from __future__ import annotations

import atexit
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

from txlab.errors import LabError
from txlab.files import OpenFolder
from txlab.runs.control import names_in
from txlab.runs.folder import find_among, find_in, is_of, is_run, list_runs, not_found
from txlab.runs.frames import FrameIndex
from txlab.runs.remote.address import Address, mirror_of
from txlab.runs.remote.coarse import APPROXIMATE
from txlab.runs.remote.host import LISTED_EVERY, Host
from txlab.runs.remote.mirror import LABEL, SHARED, WHOLE, read_small
from txlab.runs.remote.state import remote_state

DATED = re.compile(r"\d{4}-\d\d-\d\d_\d{6}_.*")
SECOND = len("2026-11-20_143012")  # characters of a name that say when the run was made
DELIVERS_WITHIN = 10.0  # seconds
KEPT = "kept here and sent with the next connection"
OPENS_WITHIN = 60.0  # seconds from connecting to the first rows, and from asking for a frame to its digits

_hosts: dict[Path, Host] = {}
_lock = threading.Lock()


def host_at(address: Address) -> Host:
    """This process's connection to a folder of runs on another machine, opened on first use."""
    with _lock:
        key = address.mirrors
        if key not in _hosts:
            if not _hosts:
                atexit.register(close_all)
            _hosts[key] = Host(address).start()
        return _hosts[key]


def connected_machines() -> list[Address]:
    """The machines that this process has connections to, or tries to have."""
    with _lock:
        return [host.address for host in _hosts.values()]


def close_all() -> None:
    """Close all connections of this process."""
    with _lock:
        hosts = [*_hosts.values()]
        _hosts.clear()
    for host in hosts:
        host.close()


def follow(path: Path) -> Host | None:
    """Keep the mirror at `path` fresh from now on; returns its connection, None for a local run."""
    address = mirror_of(path)
    if address is None:
        return None
    host = host_at(address)
    host.want(address.run)
    return host


def list_mirrors(address: Address) -> Path:
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


def open_run(address: Address, whole: bool = False, to_change: bool = False) -> Path:
    """Mirror a run and return its directory here once it can be read; `whole` waits for every row of its log.

    Without a connection, return the mirror of an earlier one. `to_change` then accepts only the name of the run's
    directory: only the other machine knows which run is the latest, or the newest of a scenario.

    Raises LabError if there is no mirror, or no such run.
    """
    host, given = line_and_name(address)
    if wait_for_connection(host):
        name = directory_of(host, given)
    elif is_run(host.folder / given):
        name = given
    elif to_change or (copy := find_in(host.folder, given)) is None:
        known = list_runs(host.folder)
        advice = f"; while not connected, name it by its directory, as {known[0].name}" if known and to_change else ""
        raise LabError(f"{host.why}{advice}")
    else:
        name = copy.name
    try:
        wait_for(host, name, whole)
    except LabError:
        if name == given or name not in host.trouble:
            raise
        name = find_in_list(host, given)  # the newest name was that of a directory that is not a run
        wait_for(host, name, whole)
    return host.folder / name


def line_and_name(address: Address) -> tuple[Host, str]:
    """The connection to the folder that has the run, and the run's name there: for a path its last part, and "latest"
    only if a folder of runs, or nothing, was given."""
    if not address.path:
        return host_at(Address(address.host)), address.run or "latest"
    folder, _, name = address.path.rpartition("/")
    outer = Address(address.host, folder or ("/" if address.path[0] == "/" else "~/.."))
    if is_run(outer.mirrors / name):
        return host_at(outer), name
    host = host_at(Address(address.host, address.path))
    if not wait_for_connection(host) or not host.run_named:
        return host, "latest"
    name = host.run_named  # so its folder is what the mirrors are named after
    host.close()
    with _lock:
        _hosts.pop(host.folder, None)
    return host_at(outer), name


def wait_for_connection(host: Host) -> bool:
    """Wait for the connection; returns whether there is one. LabError if the other side does not list its runs."""
    deadline = time.monotonic() + OPENS_WITHIN
    while not host.connected.wait(0.02):
        if host.failed.is_set():
            return False
        if time.monotonic() > deadline:
            raise LabError(f"{host.address.host} has not said within {OPENS_WITHIN:.0f} s which runs it has")
    return True


def directory_of(host: Host, given: str) -> str:
    """The directory of the run that a name currently refers to. Raises LabError if there is none."""
    if given in host.names:
        return given
    fresh = time.monotonic() - host.named_at < LISTED_EVERY
    return (resolve_name(given, host.names) if fresh else "") or find_in_list(host, given)


def wait_for(host: Host, name: str, whole: bool) -> None:
    """Wait until a mirror can be read; without a connection, check that an earlier copy can. LabError if not."""
    path = host.folder / name
    host.patient = host.patient or whole
    host.want(name)
    deadline = time.monotonic() + OPENS_WITHIN
    while True:
        mirror, gap = host.mirrors.get(name), whole and (path / WHOLE).exists()
        if mirror is not None and mirror.settled and is_run(path) and not gap:
            return
        if name in host.trouble:
            raise LabError(host.trouble[name])
        far = remote_state(path)
        if name in host.elsewhere and far is not None and far.connected and far.complete and not gap:
            return  # another process keeps it fresh
        if not host.connected.is_set() and host.failed.is_set():
            if far is None or not far.complete or gap:
                raise LabError(host.why or f"the connection to {host.address.host} is lost")
            return
        if time.monotonic() > deadline and not (gap and mirror is not None and mirror.settled):
            raise LabError(f"{name} of {host.address.host} was not there within {OPENS_WITHIN:.0f} s")
        time.sleep(0.01)


def find_in_list(host: Host, run: str) -> str:
    """The directory of a run that is found only through the list of runs. Raises LabError if there is none."""
    folder, where = list_mirrors(host.address), f"{host.address.host}:{host.root}"
    there = set(host.names)
    runs = [path for path in list_runs(folder) if path.name in there]  # a mirror outlives its run
    if not runs:
        raise LabError(f"there are no runs in {where}")
    if (summary := find_among(runs, run)) is None:
        raise LabError(str(not_found(folder, run)).replace(f"in {folder}", f"on {where}"))
    return summary.name


def resolve_name(run: str, names: list[str]) -> str:
    """The directory that a name refers to, if the names alone decide it; "" otherwise, since they do not order two runs
    that began in the same second."""
    dated = sorted(filter(DATED.fullmatch, names), reverse=True)
    meant = dated if run == "latest" else [name for name in dated if is_of(name, run)]
    if not meant or (run == "latest" and len(dated) < len(names)):
        return ""
    return meant[0] if len(meant) < 2 or meant[0][:SECOND] != meant[1][:SECOND] else ""


def wait_for_delivery(path: Path) -> str:
    """Wait until the other side has taken the requests left in a mirror; "" if it has, else why that is not known."""
    host = follow(path)
    if host is None:
        return ""
    deadline, since = time.monotonic() + DELIVERS_WITHIN, time.time()
    while left := what_is_left(host, path, since):
        mirror, state = host.mirrors.get(path.name), remote_state(path)
        if mirror is not None:
            refused = mirror.state.refused if mirror.refused else ""
        else:
            refused = state.refused if state is not None and state.connected and state.written > since else ""
        if refused:
            return f"{host.address.host} does not take {refused}; {', '.join(left)} {KEPT}"
        if path.name in host.trouble:
            return f"{host.trouble[path.name]}; {', '.join(left)} {KEPT}"
        if not host.connected.is_set() and host.failed.is_set():
            return f"{host.why}; {', '.join(left)} {KEPT}"
        if time.monotonic() > deadline:
            return f"{host.address.host} has not said that it took {', '.join(left)}, which {KEPT}"
        time.sleep(0.02)
    return ""


def what_is_left(host: Host, path: Path, since: float) -> list[str]:
    """The requests left in a mirror that are not known to have arrived; `since` is when the caller began to wait."""
    mirror = host.mirrors.get(path.name)
    if mirror is not None:
        return mirror.undelivered
    state = remote_state(path)
    if path.name in host.elsewhere and state is not None and state.connected and state.written > since:
        return [state.left] * bool(state.left)  # the process that keeps the mirror has checked since then
    left: list[str] = []
    with suppress(OSError), OpenFolder.at(path) as top:
        label = read_small(top, "label.json")
        left += ["the label"] * (label is not None and label != read_small(top, LABEL))
        left += [f"lines of {name}" for name in SHARED if top.kind(name) and top.stat(name).st_size]
        with top.folder("inbox") as inbox:
            left += ["the request"] * bool(names_in(inbox))
    return left


def is_approximate(path: Path, step: int) -> bool:
    """Whether a frame of a mirror is coarse (253 levels). LabError if there is no such frame."""
    return APPROXIMATE in FrameIndex(path / "frames").read(step, ()).facts


def exact_frame(path: Path, step: int) -> None:
    """Fetch all digits of a frame of a mirror. Raises LabError if that is not possible."""
    host = follow(path)
    if host is None:
        return
    deadline = time.monotonic() + OPENS_WITHIN
    while (mirror := host.mirrors.get(path.name)) is None or step not in mirror.exactly:
        if host.line in ("lost", "closed"):
            raise LabError(f"the exact numbers are on {host.address.host}, and the connection to it is lost")
        if (why := host.no_frame.pop((path.name, step), "")) != "":
            raise LabError(f"the exact numbers of step {step} cannot be fetched from {host.address.host}: {why}")
        if mirror is not None:
            host.want_exact(path.name, step)
        if time.monotonic() > deadline:
            raise LabError(f"the exact numbers of step {step} have not come from {host.address.host}")
        time.sleep(0.02)
