"""Machines as lines: a title, the cards, who has their memory, and the processes, in columns that all of them share.

Used by `txlab box` and by the screen Machines. A part is a text and the name of a style; texts are safe to show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from txlab.drawing.formatting import count, duration
from txlab.drawing.text import fit, visible, width
from txlab.runs.remote.box import MOST_BUSY
from txlab.runs.remote.machine import CONNECTING, Seen
from txlab.runs.remote.reading import CardReading, ProcessReading, Reading
from txlab.runs.remote.state import ago

Style = Literal["plain", "strong", "quiet", "accent", "good", "error", "heading"]
Part = tuple[str, Style]

WIDE = 100  # cells from which there are all columns
HIDDEN = "not visible: another user's, or in a container"
DATE = re.compile(r"^\d{4}-\d\d-\d\d_\d{6}_")
MOST_OTHERS = {True: 2, False: 5}  # processes without a card or a run that are listed, where there is a card or none
HOT = 0.9  # of the memory or the time: drawn strong
MOST_BARS, LEVEL = 60, 60  # cells of the bar of a whole machine; of all else in its line


@dataclass(frozen=True)
class Row:
    """A line. `key` names it across readings; `process` is the one that it shows, if it shows one."""

    key: str
    parts: list[Part]
    machine: Seen
    process: ProcessReading | None = None

    @property
    def is_heading(self) -> bool:
        return self.key.endswith(("\0gap", "\0facts", "\0owners", "\0level", "\0none"))


def gigabytes(mb: float | None) -> str:
    """
    >>> gigabytes(812.0), gigabytes(61_250.0), gigabytes(2_100_000.0), gigabytes(None)
    ('0.8 GB', '61.2 GB', '2.1 TB', '?')
    """
    if mb is None:
        return "?"
    return f"{mb / 1e3:.1f} GB" if mb < 999_950 else f"{mb / 1e6:.1f} TB"


def of_total(part: float | None, total: float | None) -> str:
    """
    >>> of_total(61_250, 85_000), of_total(None, 85_000), of_total(412_000, 1_008_000)
    ('61.2/85.0 GB', '?/85.0 GB', '412.0/1008.0 GB')
    """
    shown = "?" if part is None else f"{part / 1e3:.1f}"
    return f"{shown}/{'?' if total is None else f'{total / 1e3:.1f}'} GB"


def percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.0f} %"


def numbers(cards: Sequence[int]) -> str:
    """
    >>> numbers([0, 1, 2, 5]), numbers([3]), numbers([])
    ('0-2,5', '3', '')
    """
    runs: list[list[int]] = []
    for card in cards:
        if runs and card == runs[-1][-1] + 1:
            runs[-1][1:] = [card]
        else:
            runs.append([card])
    return ",".join("-".join(map(str, run)) for run in runs)


def command_of(process: ProcessReading) -> str:
    """The command line with its program's name alone; the kernel's name in brackets where there is none."""
    words = process.command.split()
    if not words:
        return f"[{process.name}]" if process.name else HIDDEN
    return " ".join([PurePath(words[0]).name or words[0], *words[1:]])


def whole_words(text: str, cells: int) -> str:
    """
    >>> whole_words("H100 80GB HBM3", 10), whole_words("A100-SXM4-80GB", 10)
    ('H100 80GB', 'A100-SXM4-80GB')
    """
    words = text.split()
    while len(words) > 1 and width(" ".join(words)) > cells:
        words.pop()
    return " ".join(words)


class Lines:
    """The rows of machines in `cells` columns."""

    def __init__(self, cells: int, ascii: bool = False) -> None:
        self.cells, self.ascii, self.wide = cells, ascii, cells >= WIDE
        self.name, self.bars = (22, 10) if self.wide else (10, 4)
        self.user, self.watts = (10, 9) if self.wide else (8, 8)
        self.with_cards = True  # whether a machine of those shown has one
        self.gauges = False  # whether a machine without a card has a line for its processors, memory and disks

    def head(self, machines: Sequence[Seen]) -> list[str]:
        """The names of the columns: of the lines of cards, and of processes; of cards only where there is one."""
        readings = [each.reading for each in machines if each.reading is not None]
        self.with_cards = any(each.cards for each in readings)
        memory = f"{'memory':>9}" if self.wide or not self.with_cards else ""
        busy, used = self.bars + 8, self.bars + (15 if self.wide else 13)
        cards = (
            f"gpu {'':<{self.name}} {'busy':<{busy}}{'memory':<{used}}{'power':>{self.watts + 2}}   temp   slowed by"
        )
        user, use = f"{'pid':>8} {'user':<{self.user}}", f"{'gpu':<5} {'gpu mem':>8} {'busy':>5} {'cpu':>6}"
        use = use if self.with_cards else f"{'cpu':<{self.bars + 7}}"
        processes = f"{user} {use} {memory}{'time':>7}  run or command"
        if self.with_cards:
            return [cards, processes]
        return [processes] if any(each.processes for each in readings) else []

    def rows(self, machines: Sequence[Seen], now: float, room: int = 0) -> list[Row]:
        """The rows: as many as say the most in `room` lines, else as few as say what is needed."""
        self.with_cards = any(each.reading.cards for each in machines if each.reading is not None)
        rows: list[Row] = []
        for self.gauges, most in ((True, MOST_BUSY), (True, 0), (False, 0)):
            rows = self.all_rows(machines, now, most)
            if len(rows) <= room:
                break
        return rows

    def all_rows(self, machines: Sequence[Seen], now: float, most: int) -> list[Row]:
        """`most` processes without a card or a run of each machine, or as many as are always listed."""
        rows: list[Row] = []
        for machine in machines:
            if rows:
                rows.append(Row(f"{machine.name}\0gap", [], machine))
            for row in self.machine(machine, now, most):
                faded = machine.stale and not row.key.endswith("\0title")
                parts: list[Part] = [(self.text(text), "quiet" if faded else style) for text, style in row.parts]
                rows.append(Row(row.key, parts, machine, row.process))
        return rows

    def text(self, text: str) -> str:
        return visible(text, True) if self.ascii else text

    def machine(self, machine: Seen, now: float, most: int) -> Iterator[Row]:
        reading = machine.reading
        name = machine.name or ("this machine" if reading is None else f"{reading.host} (this machine)")
        yield Row(f"{machine.name}\0title", self.title(name, machine, now), machine)
        if reading is None:
            return
        if self.gauges and not reading.cards:
            for place, gauge in enumerate(self.levels(reading)):
                yield Row(f"{machine.name}\0{place}\0level", self.cut(gauge), machine)
        elif machine.stale:
            yield Row(
                f"{machine.name}\0facts", self.cut([("    " + "   ".join(self.facts(reading)), "plain")]), machine
            )
        for card in reading.cards:
            yield Row(f"{machine.name}\0card {card.index}", self.card(card), machine)
        if reading.cards and (owners := self.owners(reading)):
            yield Row(f"{machine.name}\0owners", owners, machine)
        others = max(most, MOST_OTHERS[bool(reading.cards)])
        for process in sorted(reading.processes, key=order):
            if not (process.cards or process.run):
                others -= 1
                if others < 0:
                    break
            key = f"{machine.name}\0{process.pid} {process.started or 0:.0f}"
            yield Row(key, self.process(process, reading), machine, process)
        if self.gauges and not reading.processes:
            words = f"    {count(reading.count)} processes, none of which is on a card, computes a run or is busy"
            yield Row(f"{machine.name}\0none", self.cut([(words, "quiet")]), machine)

    def title(self, name: str, machine: Seen, now: float) -> list[Part]:
        """The name, with the facts or, if they are old, their age and the reason."""
        reading = machine.reading
        title: list[Part] = [(visible(name, self.ascii), "quiet" if machine.stale else "accent")]
        if machine.stale:
            if machine.why == CONNECTING:
                return [*title, (f"  {CONNECTING}", "quiet")]
            age = "never seen" if reading is None else f"as it was {ago(now - machine.seen)}"
            why = f": {visible(machine.why, self.ascii)}" if machine.why else ""
            return self.cut([*title, (f"  {age}{why}", "error")])
        known = self.facts(reading) if reading is not None else []
        if self.gauges and reading is not None and not reading.cards:
            known = [f"{count(reading.cores)} cores", f"load {reading.load:.1f}", known[-1]]
        for fact in known:
            if sum(width(text) for text, _ in title) + width(fact) + 3 <= self.cells:
                title.append((f"   {fact}", "plain"))
        return title

    def facts(self, reading: Reading) -> list[str]:
        disk = min(reading.disks, key=lambda disk: disk.free_mb, default=None)
        return [
            f"cpu {percent(reading.busy)} of {reading.cores}",
            f"load {reading.load:.1f}",
            f"memory {of_total(reading.memory_mb, reading.total_mb)}",
            *([f"disk busy {percent(reading.disk_busy)}"] if reading.disk_busy is not None else []),
            *([f"{gigabytes(disk.free_mb)} free on {disk.path}"] if disk else []),
            *([] if reading.cards else ["no card" if "no NVIDIA" in reading.trouble else reading.trouble]),
        ]

    def levels(self, reading: Reading) -> Iterator[list[Part]]:
        """A line with a bar for the processors, the memory and each disk of a machine."""
        memory = reading.memory_mb / reading.total_mb if reading.total_mb else None
        yield self.level("cpu", reading.busy, f"of {count(reading.cores)} cores")
        yield self.level("memory", memory, of_total(reading.memory_mb, reading.total_mb))
        if reading.disk_busy is not None:
            yield self.level("disk", reading.disk_busy, "of the time busy")
        for disk in reading.disks:
            used = 1 - disk.free_mb / disk.total_mb if disk.total_mb else None
            yield self.level("space", used, f"used, {gigabytes(disk.free_mb)} free on {disk.path}")

    def level(self, name: str, share: float | None, what: str) -> list[Part]:
        bars = max(10, min(MOST_BARS, self.cells - LEVEL))
        strong: Style = "strong" if (share or 0) >= HOT else "plain"
        return [
            (f"    {name:<8}", "quiet"),
            *self.gauge(share, bars),
            (f"{percent(share):>7}", strong),
            (f"  {what}", "quiet"),
        ]

    def card(self, card: CardReading) -> list[Part]:
        index = f"{card.index:>3} "
        name = fit(whole_words(card.name.removeprefix("NVIDIA "), self.name), self.name)
        if card.trouble:
            return self.cut([(index, "plain"), (f"{name}  ", "quiet"), (card.trouble, "error")])
        used = None if not card.gpu_total_mb or card.gpu_used_mb is None else card.gpu_used_mb / card.gpu_total_mb
        watts = "" if card.gpu_watts is None else f"{card.gpu_watts:.0f}"
        limit = "" if card.gpu_watts_limit is None else f"/{card.gpu_watts_limit:.0f}"
        heat = "?" if card.gpu_celsius is None else f"{card.gpu_celsius:.0f} {'C' if self.ascii else '°C'}"
        memory = of_total(card.gpu_used_mb, card.gpu_total_mb)
        return self.cut(
            [
                (index, "plain"),
                (f"{name} ", "quiet"),
                *self.gauge(card.gpu_busy),
                (f"{percent(card.gpu_busy):>6}  ", "strong" if (card.gpu_busy or 0) >= HOT else "plain"),
                *self.gauge(used),
                (f"{memory:>{15 if self.wide else 13}}", "strong" if (used or 0) >= HOT else "plain"),
                (f"{watts + limit or '?':>{self.watts}} W", "plain"),
                (f"{heat:>7}", "plain"),
                (f"   {card.slowed}", "error"),
            ]
        )

    def gauge(self, share: float | None, bars: int = 0) -> list[Part]:
        """A bar in half cells; lines of full blocks would grow together."""
        bars = bars or self.bars
        halves = round(2 * bars * min(1.0, share or 0.0))
        full = "#" * (halves // 2) if self.ascii else "━" * (halves // 2) + "╸" * (halves % 2)
        return [(full, "good"), (("." if self.ascii else "·") * (bars - len(full)), "quiet")]

    def owners(self, reading: Reading) -> list[Part]:
        words = [
            f"{user or 'not visible'} {gigabytes(mb)} ({numbers(cards)})"
            for user, (mb, cards) in reading.owners().items()
        ]
        return self.cut([("    on cards: ", "quiet"), ("   ".join(words), "plain")]) if words else []

    def process(self, process: ProcessReading, reading: Reading) -> list[Part]:
        on = process.gpu_mb
        shares = [use.busy for use in process.cards if use.busy is not None]
        rss = "" if process.memory_mb is None else gigabytes(process.memory_mb)
        age = "" if process.started is None else duration(reading.time - process.started)
        cards = numbers([use.index for use in process.cards])
        cpu = "" if process.cpu is None else percent(process.cpu)
        use: list[Part] = [(f"{fit(cards, 5)} {gigabytes(on) if process.cards else '':>8} ", "plain")]
        use += [(f"{percent(max(shares)) if shares else '':>5} {cpu:>6} {f'{rss:>9}' if self.wide else ''}", "plain")]
        if not self.with_cards:
            use = [*self.gauge((process.cpu or 0.0) / reading.cores), (f"{cpu:>7} {rss:>9}", "plain")]
        run: list[Part] = []
        if process.run:
            run = [(f"{'*' if self.ascii else '●'} {DATE.sub('', process.run)}  ", "accent")]
            run += [(f"step {count(process.step)}  ", "plain")] if process.step is not None else []
        name: Part = (f"{process.pid:>8} {fit(process.user or '?', self.user)} ", "plain")
        return self.cut([name, *use, (f"{age:>7}  ", "plain"), *run, (command_of(process), "quiet")])

    def cut(self, parts: list[Part]) -> list[Part]:
        """The parts as far as they fit."""
        kept: list[Part] = []
        room = self.cells
        for text, style in parts:
            if room > 0 and text:
                shown = text if width(text) <= room else fit(text, room, ellipsis="..." if self.ascii else "…")
                kept.append((shown, style))
                room -= width(shown)
        return kept


def order(process: ProcessReading) -> tuple[int, int, float]:
    """By card, then runs, then by use of the processor."""
    first = min((use.index for use in process.cards), default=1 << 30)
    return first, not process.run, -(process.cpu or 0.0)
