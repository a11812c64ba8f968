"""Machines as they were last read: this one, and others over ssh."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from txlab.runs.remote.address import Address
from txlab.runs.remote.box import Box
from txlab.runs.remote.mirroring import host_at
from txlab.runs.remote.reading import Kept, Reading, load_kept
from txlab.runs.root import default_root

CONNECTING = "connecting"
STALE_AFTER = 10.0  # seconds; a machine is read every two to five
MOST_SHARES = 600  # readings of a machine whose shares are kept: a quarter of an hour and more


@dataclass(frozen=True)
class Seen:
    """A machine as it is known here.

    name      as ssh knows it; "" = this machine
    reading   the last one; None = there was none
    seen      when it was taken, by this machine's clock
    why       the connection's trouble; "" = none
    address   None = this machine
    """

    name: str
    reading: Reading | None
    seen: float
    why: str = ""
    address: Address | None = None

    @property
    def stale(self) -> bool:
        return self.reading is None or time.time() - self.seen > STALE_AFTER


@dataclass(frozen=True)
class Shares:
    """Parts of a whole in [0, 1] at a `time` by the machine's clock; None = not known. `cards` are the shares of the
    time in which each card computed."""

    time: float
    cpu: float
    memory: float | None
    disk: float | None
    cards: tuple[float | None, ...]


def shares_of(reading: Reading) -> Shares | None:
    """The shares of a reading; None before there are two of them, between which a processor was busy or idle."""
    if reading.busy is None:
        return None
    memory = reading.memory_mb / reading.total_mb if reading.total_mb else None
    return Shares(reading.time, reading.busy, memory, reading.disk_busy, tuple(card.gpu_busy for card in reading.cards))


class Machines:
    """This machine (None) and others, read as often as `look` is called, in a thread of the caller's."""

    def __init__(self, addresses: Sequence[Address | None], root: Path | None = None) -> None:
        """`root` is the folder of runs of this machine, else the default."""
        self.addresses = list(addresses)
        self.root = root
        self._here: Box | None = None
        self._kept: dict[Address, Kept | None] = {}
        self.past: dict[str, deque[Shares]] = {}  # machine → its last shares, the newest last

    def add(self, address: Address) -> None:
        """Read a machine too, unless it is known by another folder of runs."""
        if all(each is None or each.host != address.host for each in self.addresses):
            self.addresses.append(address)

    def look(self) -> list[Seen]:
        """What is known now of each machine; asks for newer readings of the others."""
        machines = [self.look_here() if address is None else self.look_there(address) for address in [*self.addresses]]
        for each in machines:
            shares = shares_of(each.reading) if each.reading is not None and not each.stale else None
            past = self.past.setdefault(each.name, deque(maxlen=MOST_SHARES))
            if shares is not None and (not past or shares.time > past[-1].time):
                past.append(shares)
        return machines

    def look_here(self) -> Seen:
        if self._here is None:
            self._here = Box(str((self.root or default_root()).absolute()))
        newest = self._here.latest()
        reading = Reading.model_validate(newest) if newest else None
        return Seen("", reading, newest.get("time", 0.0), self._here.failed)

    def look_there(self, address: Address) -> Seen:
        host = host_at(address)
        host.want_machine()
        if address not in self._kept:
            self._kept[address] = load_kept(host.folder)
        kept = host.machine or self._kept[address]
        why = host.why if host.line != "connected" else host.machine_trouble
        reading, seen = (kept.reading, kept.seen) if kept else (None, 0.0)
        return Seen(address.host, reading, seen, why or (CONNECTING if reading is None else ""), address)

    @staticmethod
    def settled(machines: Sequence[Seen]) -> bool:
        """Whether each machine has a fresh reading with shares of time, or cannot be reached."""

        return all(
            machine.why not in ("", CONNECTING)
            or (not machine.stale and machine.reading is not None and machine.reading.busy is not None)
            for machine in machines
        )
