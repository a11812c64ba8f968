"""What `box.py` says of a machine, checked.

Notable: a reading of another machine is hostile until it has this schema: numbers are finite and bounded, lists and
texts not too long, control characters escaped. The last one is kept next to the mirrors of the machine's runs, so that
a machine that does not answer is shown with its age.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from txlab.engine.card import MOST_CARDS, describe_slowdown
from txlab.files import atomic_write, read_regular
from txlab.runs.remote.box import LONGEST, MOST_PROCESSES
from txlab.runs.scenario_errors import quiet

FILE = ".machine.json"  # next to the mirrors of the machine's runs
LARGEST = 1 << 19  # bytes of a reading
KEEP_EVERY = 10.0  # seconds between two writes of the file

Text = Annotated[str, Field(max_length=2 * LONGEST), AfterValidator(lambda text: quiet(text, LONGEST)[: 2 * LONGEST])]
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=2**53)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class CardReading(Part):
    """`gpu_…` as in `engine.card.READINGS`; None = the card does not have it."""

    index: Count
    uuid: Text
    name: Text
    trouble: Text = ""
    gpu_busy: Share | None = None
    gpu_used_mb: Amount | None = None
    gpu_total_mb: Amount | None = None
    gpu_celsius: Amount | None = None
    gpu_watts: Amount | None = None
    gpu_watts_limit: Amount | None = None
    gpu_slowed: Amount = 0.0

    @property
    def slowed(self) -> str:
        return describe_slowdown(self.gpu_slowed)


class CardUse(Part):
    """What a process has on a card; None = the driver does not say."""

    index: Count
    mb: Amount | None = None
    busy: Share | None = None


class ProcessReading(Part):
    """started is a Unix time by the machine's clock, cpu is in cores, memory is main memory, step that of the run; a
    process that is not visible has its number and its cards only."""

    pid: Count
    started: Amount | None = None
    user: Text = ""
    name: Text = ""
    command: Text = ""
    run: Text = ""
    step: Count | None = None
    cpu: Amount | None = None
    memory_mb: Amount | None = None
    cards: Annotated[list[CardUse], Field(max_length=MOST_CARDS)] = []

    @property
    def gpu_mb(self) -> float | None:
        """Its memory on all cards."""
        known = [each.mb for each in self.cards if each.mb is not None]
        return sum(known) if known else None


class DiskReading(Part):
    path: Text
    free_mb: Amount
    total_mb: Amount


class Reading(Part):
    """A machine at a `time` by its own clock; `trouble` is why there are no cards, `count` all of its processes."""

    host: Text
    time: Amount
    cores: Count
    busy: Share | None
    load: Amount
    memory_mb: Amount
    total_mb: Amount
    disk_busy: Share | None
    disks: Annotated[list[DiskReading], Field(max_length=8)]
    cards: Annotated[list[CardReading], Field(max_length=MOST_CARDS)]
    processes: Annotated[list[ProcessReading], Field(max_length=MOST_PROCESSES)]
    count: Count
    trouble: Text

    def owners(self) -> dict[str, tuple[float, list[int]]]:
        """{user: (MB on cards, the cards)}, the largest first; "" = users that cannot be seen."""
        used: dict[str, tuple[float, list[int]]] = {}
        for process in self.processes:
            for use in process.cards:
                total, cards = used.get(process.user, (0.0, []))
                used[process.user] = total + (use.mb or 0.0), sorted({*cards, use.index})
        return dict(sorted(used.items(), key=lambda entry: -entry[1][0]))


class Kept(Part):
    """A reading in a file, and when it was taken by this machine's clock."""

    seen: Amount
    reading: Reading


def load_kept(folder: Path) -> Kept | None:
    """The last reading that was kept in a folder of mirrors."""
    with suppress(OSError, ValueError):
        return Kept.model_validate_json(read_regular(folder / FILE, LARGEST, follow=False))
    return None


def keep(folder: Path, kept: Kept) -> None:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_write(folder / FILE, kept.model_dump_json().encode())
