"""W&B's transaction log, run-ID.wandb, of offline runs and of runs that are synchronised live.

7 bytes of header, then LevelDB's log format: blocks of 32 KiB with chunks of CRC-32 (u32), length (u16), type (u8), a
record being one chunk or several; the CRC is IEEE's, over type and data, without LevelDB's mask. A record is a protocol
buffer; its fields are in `wandb_internal.proto`. Notable: W&B writes whole blocks, so a live file is a block behind.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

from txlab.errors import LabError
from txlab.files import closing, open_regular
from txlab.runs.as_json import as_json, read_json, text_of, unused_key
from txlab.runs.events import LARGEST_STEP, Replaced
from txlab.runs.external_logs.log import LARGEST_RECORD, LONGEST_TEXT, SLICE, About, Axes, Logged, Names
from txlab.runs.external_logs.media import histogram, picture, read_inside, table_text
from txlab.runs.external_logs.protobuf import fields, message, number, of, text

MAGIC = b":W&B"
HEADER, BLOCK = 7, 32 * 1024
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
HISTORY, SUMMARY, CONFIG, STATS, ALERT, METRIC, RUN, EXIT = 2, 3, 5, 7, 10, 12, 17, 18  # fields of Record
MOST_SETTINGS = 2000
MOST_PICTURES = 8  # of one list
_CHUNK = struct.Struct("<IHB")


class WandbLog:
    """One .wandb file.

    position  {"offset": of the next record, "step", "time": of the last row, "names": of logged values, "summary":
              values that are in no row, and those of `Axes`}
    """

    def __init__(self, path: Path, position: dict[str, Any] | None = None) -> None:
        self.path, self.about = path, About()
        self.position = position or {"offset": HEADER, "row": -1, "step": 0, "time": 0.0, "names": [], "summary": {}}
        self.names = Names(self.about)
        self.logged = set(self.position["names"])
        self.axes = Axes(self.position)

    def mark(self) -> tuple[int, int]:
        about = self.path.stat()
        if about.st_size < self.position["offset"] > HEADER:
            raise Replaced(self.path)
        self.about.changed = about.st_mtime
        return about.st_size, about.st_mtime_ns

    def read(self) -> list[Logged] | None:
        for limit in (SLICE, LARGEST_RECORD):
            with closing(open_regular(self.path)) as descriptor:
                offset, size = self.position["offset"], os.fstat(descriptor).st_size
                if size <= HEADER:
                    return None
                if os.pread(descriptor, len(MAGIC), 0) != MAGIC:
                    self.about.problem = f"{self.path} is not a log of W&B: it does not begin with {MAGIC.decode()}"
                    return None
                data = os.pread(descriptor, limit, offset)
            records, behind = self.records(data, offset, size)
            if behind > offset:
                self.position["offset"] = behind
                rows: list[Logged] = []
                for record in records:
                    try:
                        self.take(record, rows)
                    except (ValueError, struct.error):
                        self.about.problem = f"{self.path} has a record that is not one of W&B's"
                return rows
            if offset + len(data) >= size:
                return None
        # A record above the size limit: continue after its part seen so far.
        self.about.leave_out(f"records of more than {LARGEST_RECORD >> 20} MiB")
        self.position["offset"] = (offset + len(data)) // BLOCK * BLOCK
        return []

    def records(self, data: bytes, offset: int, size: int) -> tuple[list[bytes], int]:
        """The complete records in the data at `offset` of a file, and the offset after the last one."""
        records: list[bytes] = []
        parts: list[bytes] | None = None
        at, behind, end = 0, offset, len(data)
        while at < end:
            left = BLOCK - (offset + at) % BLOCK
            if left < HEADER:
                at += left
                continue
            if at + HEADER > end:
                break
            crc, length, kind = _CHUNK.unpack_from(data, at)
            stop = at + HEADER + length
            if length + HEADER > left or zlib.crc32(data[at + 6 : stop]) != crc or not FULL <= kind <= LAST:
                if stop > end and length + HEADER <= left:
                    break  # its end has not arrived
                if offset + at + left >= size:
                    break  # the last block: it may still be being written
                self.about.problem = f"{self.path} has a damaged block at byte {offset + at}"
                parts, at = None, at + left
                behind = offset + at if at <= end else behind
                continue
            if kind == FULL:
                records.append(data[at + HEADER : stop])
            elif kind == FIRST:
                parts = [data[at + HEADER : stop]]
            elif parts is not None:
                parts.append(data[at + HEADER : stop])
            if kind == LAST and parts is not None:
                records.append(b"".join(parts))
            at = stop
            if kind in (FULL, LAST) or parts is None:
                parts, behind = None, offset + at
        return records, behind

    # One record

    def take(self, record: bytes, rows: list[Logged]) -> None:
        for which, _, value in fields(record):
            if not isinstance(value, bytes):
                continue
            if which == HISTORY:
                self.history(value, rows)
            elif which == SUMMARY:
                self.summarize(value)
            elif which == STATS:
                values = {f"system/{name}": one for name, v in pairs(value, 3) if (one := number_in(v)) is not None}
                if values := {known: one for name, one in values.items() if (known := self.names.take(name))}:
                    rows.append(("machine", self.position["step"], self.time_of(message(value), 2), values))
            elif which == CONFIG:
                self.configure(value)
            elif which == METRIC:
                metric = message(value)
                self.axes.define(text(metric, 1) or text(metric, 2), text(metric, 4))
            elif which == RUN:
                self.describe(message(value), value)
            elif which == ALERT:
                alert = message(value)
                note = text_of(": ".join(part for part in (text(alert, 1), text(alert, 2)) if part), LONGEST_TEXT)
                rows.append(("note", self.position["step"], self.position["time"], {"text": note}))
            elif which == EXIT:
                code = number(message(value), 1)
                self.about.status = "failed" if code else "done"
                self.about.reason = f"exit status {code}" if code else ""
                if rest := {n: v for n, v in self.position["summary"].items() if n not in self.logged}:
                    rows.append(("metrics", self.position["step"], self.position["time"], rest))
                    self.position["summary"] = {}

    def summarize(self, record: bytes) -> None:
        """Keep the values of a summary that are in no row."""
        kept, items = self.position["summary"], dict(pairs(record))
        media = tuple(name.removesuffix("_type") for name in items if name.endswith("._type"))
        for name, data in items.items():
            known = "" if media and name.startswith(media) else self.names.take(name)
            if (
                known
                and not known.startswith("_")
                and known not in self.logged
                and (one := number_in(data)) is not None
            ):
                kept[known] = one

    def history(self, row: bytes, rows: list[Logged]) -> None:
        step, when = self.position["row"] + 1, self.position["time"]
        items = dict(pairs(row))
        media = {name.removesuffix("._type"): data for name, data in items.items() if name.endswith("._type")}
        values: dict[str, float] = {}
        for name, data in items.items():
            if media and any(name.startswith(f"{base}.") for base in media):
                continue
            one = number_in(data)
            if one is None:
                if not name.startswith("_") and data not in (b"null", b""):
                    self.about.leave_out("values of W&B that are no numbers", name)
            elif not name.startswith("_"):
                if known := self.names.take(name):
                    values[known] = one
            elif name == "_step":
                step = int(one) if math.isfinite(one) else LARGEST_STEP + 1
            elif name == "_timestamp":
                when = one
        if not self.about.usable(step, next(iter(values), "")):
            return
        if not math.isfinite(when):
            self.about.leave_out("values without a time", f"step {step}")
            return
        self.position["row"], self.position["time"] = step, when
        self.about.started = self.about.started or when
        if new := values.keys() - self.logged:
            self.logged |= new
            self.position["names"] = sorted(self.logged)
        by_step = self.axes.rows(step, values)
        self.position["step"] = by_step[-1][0] if by_step else self.axes.step_of("", step)
        rows += [("metrics", at, when, part) for at, part in by_step]
        for base, kind in media.items():
            at = self.axes.step_of(base, step)
            content = {name[len(base) + 1 :]: data for name, data in items.items() if name.startswith(f"{base}.")}
            self.show(base, kind, content, at, when, rows)

    def show(
        self, name: str, kind: bytes, content: dict[str, bytes], step: int, when: float, rows: list[Logged]
    ) -> None:
        """Add a picture, a histogram or a table; their files are next to the log."""
        files = self.path.parent / "files"
        try:
            told = {key: read_json(data) for key, data in content.items() if len(data) < SLICE}
            if kind == b'"histogram"':
                rows.append(("frame", step, when, histogram(name, told["values"], told["bins"])))
            elif kind == b'"image-file"':
                rows.append(("frame", step, when, picture(name, files, told["path"])))
            elif kind == b'"images/separated"':
                for place, path in enumerate(told["filenames"][:MOST_PICTURES], 1):
                    rows.append(("frame", step, when, picture(f"{name} {place}", files, path)))
            elif kind == b'"table-file"':
                table = read_json(read_inside(files, told["path"], SLICE))
                rows.append(
                    ("sample", step, when, {"prompt": f"{name}\n", "text": table_text(table["columns"], table["data"])})
                )
            else:
                self.about.leave_out("media of W&B of other kinds", name)
        except (OSError, ValueError, KeyError, TypeError, LabError, ImportError) as error:
            why = "Pillow is not installed" if isinstance(error, ImportError) else "its file is missing or damaged"
            self.about.leave_out(f"media of W&B: {why}", name)

    def configure(self, record: bytes) -> None:
        for name, data in pairs(record):
            if name.startswith("_wandb"):
                continue
            if len(self.about.config) >= MOST_SETTINGS and name not in self.about.config:
                self.about.leave_out(f"settings beyond {MOST_SETTINGS}", name)
                continue
            try:
                self.about.config[name] = as_json(read_json(data))
            except ValueError:
                self.about.config[name] = text_of(data.decode("utf-8", "replace"))

    def describe(self, run: dict[int, Any], record: bytes) -> None:
        about = self.about
        project, name = text(run, 3), text(run, 8) or text(run, 1)
        about.name = "/".join(part for part in (project, name) if part)
        about.group, about.note, about.host = text(run, 6), text_of(text(run, 9), LONGEST_TEXT), text(run, 13)
        about.tags = [v.decode("utf-8", "replace") for n, _, v in fields(record) if n == 10 and isinstance(v, bytes)]
        about.started = self.time_of(run, 17)
        self.configure(of(run, 4))

    def time_of(self, entries: dict[int, Any], which: int) -> float:
        """A google.protobuf.Timestamp, or when the last row was logged."""
        timestamp = message(of(entries, which))
        return number(timestamp, 1) + number(timestamp, 2) / 1e9 if timestamp else float(self.position["time"])


def pairs(record: bytes, which: int = 1) -> list[tuple[str, bytes]]:
    """(name, JSON) of the items of a record of history, summary, configuration or statistics: an item has its key in
    field 1, or the parts of a nested one in field 2. If two names collide, as "a.b" and ("a", "b"), the second gets a
    number.
    """
    items: list[tuple[str, bytes]] = []
    names: dict[tuple[str, ...], str] = {}
    taken: dict[str, None] = {}
    for number_, _, item in fields(record):
        if number_ != which or not isinstance(item, bytes):
            continue
        path, data = list[str](), b""
        for part, _, value in fields(item):
            if not isinstance(value, bytes):
                continue
            if part in (1, 2):
                part_name = value.decode("utf-8", "replace")
                path = [*path, part_name] if part == 2 else [part_name]
            elif part == 16:
                data = value
        if (known := names.get(tuple(path))) is None:
            known = names[tuple(path)] = unused_key(".".join(path), taken)
            taken[known] = None
        items.append((known, data))
    return items


def number_in(data: bytes) -> float | None:
    """The number that a JSON value is; None if it is something else."""
    if data[:1] not in b"-0123456789NI" or not data:
        return None
    try:
        return float(data)
    except ValueError:
        return None
