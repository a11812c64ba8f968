"""TensorBoard's event files: scalars of the old form (simple_value) and the new one (tensors), texts, hyperparameters.

A folder with event files is a run; its files follow each other by name, which begins with the time. Each record is
length (u64), its masked CRC-32C, the Event, its masked CRC-32C.

Notable: the CRCs of a whole slice are computed together, a column of bytes at a time, at 0.3 µs a record (a loop over
bytes takes 10), so every header and every record up to 4 KiB is checked; longer ones are pictures, graphs and texts, of
which only texts are kept. Two events drop earlier values, as in TensorBoard: a session that begins at a step, and a
newer file of a resumed run whose leading tag goes back.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from txlab.files import closing, open_regular
from txlab.runs.as_json import text_of
from txlab.runs.events import Replaced
from txlab.runs.external_logs.log import (
    EVENTS,
    LARGEST_RECORD,
    LONGEST_TEXT,
    SLICE,
    About,
    Logged,
    Names,
)
from txlab.runs.external_logs.protobuf import BYTES, double, fields, message, number, of, text, to_signed

Ints: TypeAlias = npt.NDArray[np.int64]
CHECKED = 4096  # bytes of a record whose CRC is computed
MOST_FILES = 10_000
STARTED = 1  # SessionLog.START
MOST_RESTARTS = 1000  # each looks at all series

_HEADER = struct.Struct("<Q")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_NUMBERS = {1: "<f4", 2: "<f8", 3: "<i4", 4: "<u1", 6: "<i1", 9: "<i8", 10: "?", 19: "<f2"}  # DataType → NumPy's
_STRING = 7
_LISTED = {5: "<f4", 6: "<f8"}  # TensorProto.float_val, double_val; integers are varints


def _table() -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table


_CRC = _table()


def mask_crcs(block: npt.NDArray[np.uint8], starts: Ints, lengths: Ints) -> npt.NDArray[np.uint32]:
    """The masked CRC-32C of each of these ranges of a block.

    >>> hex(mask_crcs(np.frombuffer(b"123456789", np.uint8), np.array([0]), np.array([9]))[0])
    '0xc78ab0e5'
    """
    order = np.argsort(-lengths, kind="stable")
    starts, sizes = starts[order], -lengths[order]  # ascending, so that the unfinished ones come first
    crc = np.full(len(starts), 0xFFFF_FFFF, np.uint32)
    for column in range(-int(sizes[0]) if len(sizes) else 0):
        going = crc[: np.searchsorted(sizes, -column, "left")]
        going[:] = _CRC[(going ^ block[starts[: len(going)] + column]) & 0xFF] ^ (going >> 8)
    crc ^= 0xFFFF_FFFF
    masked = np.empty_like(crc)
    masked[order] = ((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8)
    return masked


class TensorBoardLog:
    """The event files of one folder.

    position  {"files": {name: offset}, "reached": {tag: its last step}, "step": the furthest one, "time": the latest}
    """

    def __init__(self, folder: Path, position: dict[str, Any] | None = None) -> None:
        self.folder, self.about = folder, About()
        self.position = position or {"files": {}, "reached": {}, "step": -1, "time": 0.0}
        self.files: dict[str, int] = self.position["files"]
        self.reached: dict[str, int] = self.position["reached"]
        self.names = Names(self.about)
        self.opening = self.resumed = ""  # the file last read from its start, and whether it belongs to a resumed run
        self.stuck: dict[str, tuple[int, int]] = {}  # size and time of files that could not be read further
        self.trouble: dict[str, str] = {}  # why
        self._tags: dict[bytes, str] = {}

    def list_files(self) -> list[tuple[str, os.stat_result]]:
        files: list[tuple[str, os.stat_result]] = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if EVENTS in entry.name and entry.is_file() and len(files) < MOST_FILES:
                    files.append((entry.name, entry.stat()))
        return sorted(files)

    def mark(self) -> object:
        listed = self.list_files()
        if any(name not in dict(listed) for name in self.files):
            raise Replaced(self.folder)
        self.about.changed = max((about.st_mtime for _, about in listed), default=0.0)
        return tuple((name, about.st_size, about.st_mtime_ns) for name, about in listed)

    def read(self) -> list[Logged] | None:
        for name, about in self.list_files():
            offset = self.files.get(name, 0)
            if about.st_size < offset:
                raise Replaced(self.folder / name)
            mark = (about.st_size, about.st_mtime_ns)
            if about.st_size == offset or self.stuck.get(name) == mark:
                continue
            self.trouble.pop(name, None)
            rows = self.read_file(name, offset, about.st_size)
            self.about.problem = next(iter(self.trouble.values()), "")
            if self.files.get(name, 0) > offset:
                return rows
            self.stuck[name] = mark
        return None

    def read_file(self, name: str, offset: int, size: int) -> list[Logged]:
        """Read the next records of a file; its entry in `files` does not move if there is none yet."""
        with closing(open_regular(self.folder / name)) as descriptor:
            block = os.pread(descriptor, SLICE, offset)
            if len(block) >= 12 and (needed := 16 + _HEADER.unpack_from(block)[0]) > len(block):
                array = np.frombuffer(block, np.uint8)
                if self.headers_right(array, np.zeros(1, np.int64)) == 0:
                    self.note_damage(name, offset)
                    return []
                if needed > LARGEST_RECORD:
                    if offset + needed <= size:
                        self.about.leave_out(f"records of more than {LARGEST_RECORD >> 20} MiB", name)
                        self.files[name] = offset + needed
                    return []
                block = os.pread(descriptor, needed, offset)
        starts, lengths, at = [], [], 0
        while at + 12 <= len(block):
            length = _HEADER.unpack_from(block, at)[0]
            if length > len(block) - at - 16:
                break
            starts.append(at)
            lengths.append(length)
            at += 16 + length
        if not starts:
            return []
        array = np.frombuffer(block, np.uint8)
        places, sizes = np.array(starts, np.int64), np.array(lengths, np.int64)
        right = self.headers_right(array, places)
        if right < len(places):
            self.note_damage(name, offset + starts[right])
        good = self.payloads_right(array, places[:right], sizes[:right])
        rows: list[Logged] = []
        if name not in self.files:
            self.files[name] = 0
            self.opening = name
        for place, length, sound in zip(starts[:right], lengths[:right], good.tolist(), strict=True):
            if not sound:
                self.trouble[name] = f"{self.folder / name} has a damaged record at byte {offset + place}"
                continue
            self.take(name, block, place + 12, place + 12 + length, rows)
        if right:
            self.files[name] = offset + starts[right - 1] + 16 + lengths[right - 1]
        return rows

    def note_damage(self, name: str, at: int) -> None:
        self.trouble[name] = f"{self.folder / name} is damaged at byte {at}; the rest of it cannot be read"

    @staticmethod
    def headers_right(block: npt.NDArray[np.uint8], places: Ints) -> int:
        """How many consecutive records have a header with a valid CRC: after an invalid one nothing can be located."""
        stored = as_u32(block, places + 8)
        wrong = stored != mask_crcs(block, places, np.full(len(places), 8, np.int64))
        return int(wrong.argmax()) if wrong.any() else len(places)

    @staticmethod
    def payloads_right(block: npt.NDArray[np.uint8], places: Ints, sizes: Ints) -> npt.NDArray[np.bool_]:
        right = np.ones(len(places), bool)
        which = np.flatnonzero(sizes <= CHECKED)
        starts, lengths = places[which] + 12, sizes[which]
        right[which] = as_u32(block, starts + lengths) == mask_crcs(block, starts, lengths)
        return right

    # One event

    def take(self, name: str, data: bytes, at: int, end: int, rows: list[Logged]) -> None:
        """Add the content of one Event."""
        try:
            if (quick := self.scalar(data, at, end)) is not None:
                self.add(name, *quick, rows)
                return
            when, step = 0.0, 0
            summary: list[bytes] = []
            session: bytes | None = None
            for which, kind, value in fields(data, at, end):
                if which == 1:
                    when = double(value)
                elif which == 2 and isinstance(value, int):
                    step = to_signed(value)
                elif which == 5 and isinstance(value, bytes):
                    summary.append(value)
                elif which == 7 and kind == BYTES and isinstance(value, bytes):
                    session = value
            if not math.isfinite(when):
                self.about.leave_out("values without a time", f"step {step}")
                return
            if summary or session is not None:
                tags = (text(message(value), 1) for one in summary for which, _, value in fields(one) if which == 1)  # type: ignore[arg-type]
                if not self.about.usable(step, next(tags, "")):
                    return
            if session is not None and number(message(session), 1) == STARTED and self.position["step"] >= step:
                self.rewind(step - 1, when, "a session began here", rows)
            for one in summary:
                for which, _, value in fields(one):
                    if which == 1 and isinstance(value, bytes):
                        self.value(name, message(value), step, when, rows)
        except (ValueError, struct.error):
            self.trouble[name] = f"{self.folder / name} has a record that is not an event"

    def scalar(self, data: bytes, at: int, end: int) -> tuple[str, int, float, float] | None:
        """(tag, step, time, value) of an Event in the usual field order: time, step, one simple value; None for all
        others. Nearly all events have this form, and it takes a third of the time."""
        if end - at < 20 or data[at] != 0x09:
            return None
        when = _DOUBLE.unpack_from(data, at + 1)[0]
        at += 9
        step = 0
        if data[at] == 0x10:
            shift = 0
            while True:
                at += 1
                byte = data[at]
                step |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
                if at >= end or shift > 56:
                    return None
            at += 1
        # Summary, Value and tag are each shorter than 128 bytes, and end where the event does.
        if end - at < 12 or data[at] != 0x2A or data[at + 1] != end - at - 2 or data[at + 2] != 0x0A:
            return None
        size = data[at + 5]
        if data[at + 3] != end - at - 4 or data[at + 4] != 0x0A or at + 6 + size + 5 != end or data[end - 5] != 0x15:
            return None
        raw = data[at + 6 : end - 5]
        tag = self._tags.get(raw)
        if tag is None:
            tag = raw.decode("utf-8", "replace")
            if len(self._tags) < 2 * len(self.names.known) + 1000:
                self._tags[raw] = tag
        return (tag, step, when, _FLOAT.unpack_from(data, end - 4)[0]) if when == when else None

    def value(self, name: str, value: dict[int, Any], step: int, when: float, rows: list[Logged]) -> None:
        tag, plugin = text(value, 1), message(of(message(of(value, 9)), 1))
        plugin_name = text(plugin, 1)
        if (simple := value.get(2)) is not None:
            if isinstance(simple, bytes) and len(simple) == 4:
                self.add(name, tag, step, when, _FLOAT.unpack(simple)[0], rows)
        elif plugin_name == "hparams":
            self.about.config |= hyperparameters(of(plugin, 2))
        elif 8 in value:
            tensor = message(of(value, 8))
            if number(tensor, 1) == _STRING:
                lines = (v for which, _, v in fields(of(value, 8)) if which == 8 and isinstance(v, bytes))
                if plugin_name not in ("text", ""):
                    self.about.leave_out(f"{plugin_name} of TensorBoard", tag)
                elif joined := b"\n".join(lines):
                    prompt = self.names.take(tag.removesuffix("/text_summary"))
                    shown = text_of(joined.decode("utf-8", "replace"), LONGEST_TEXT)
                    rows.append(("sample", step, when, {"prompt": f"{prompt}\n" if prompt else "", "text": shown}))
            elif plugin_name in ("scalars", "") and (single := one_number(tensor)) is not None:
                self.add(name, tag, step, when, single, rows)
            else:
                self.about.leave_out(f"{plugin_name or 'tensors'} of TensorBoard", tag)
        elif plugin_name or value.keys() & {3, 4, 5, 6}:  # an image, a histogram, a sound, of the old form
            self.about.leave_out(f"{plugin_name or 'pictures and histograms'} of TensorBoard", tag)

    def add(self, name: str, tag: str, step: int, when: float, value: float, rows: list[Logged]) -> None:
        tag = self.names.take(tag)
        if not tag:
            return
        self.about.started = self.about.started or when
        position = self.position
        last, step_now = self.reached.get(tag, -1), position["step"]
        if self.opening == name:  # a file that begins while another still grows has a second writer
            self.opening, self.resumed = "", name if len(self.files) > 1 and when >= position["time"] else ""
        if step < last and last == step_now and self.resumed == name:
            self.rewind(step - 1, when, f"{tag} continues from step {step} in a new file", rows)
            step_now = position["step"]
        self.reached[tag] = step
        if step > step_now:
            position["step"] = step
        if when > position["time"]:
            position["time"] = when
        rows.append(("metrics", step, when, {tag: value}))

    def rewind(self, step: int, when: float, reason: str, rows: list[Logged]) -> None:
        self.position["restarts"] = restarts = self.position.get("restarts", 0) + 1
        if restarts > MOST_RESTARTS:
            self.about.leave_out(f"restarts beyond {MOST_RESTARTS}", f"at step {step + 1}")
            return
        for tag, last in self.reached.items():
            self.reached[tag] = min(last, step)
        self.position["step"] = min(self.position["step"], step)
        rows.append(("rewind", step, when, {"reason": reason}))


def as_u32(block: npt.NDArray[np.uint8], places: Ints) -> npt.NDArray[np.uint32]:
    """The little-endian numbers at these places."""
    return np.ascontiguousarray(block[places[:, None] + np.arange(4)]).view("<u4")[:, 0]


def one_number(tensor: dict[int, Any]) -> float | None:
    """The number of a tensor with one element; None for other tensors."""
    kind = _NUMBERS.get(number(tensor, 1))
    content = of(tensor, 4)
    for which, listed in _LISTED.items():
        if not content and (content := of(tensor, which)):
            kind = listed
    if kind is not None and content and len(content) == np.dtype(kind).itemsize:
        return float(np.frombuffer(content, kind)[0])
    for which in (7, 10, 11):  # int_val, int64_val, bool_val: one number, packed or not
        value = tensor.get(which)
        if isinstance(value, int):
            return float(to_signed(value))
        if isinstance(value, bytes) and 0 < len(value) <= 10 and all(byte >= 0x80 for byte in value[:-1]):
            return float(to_signed(sum((byte & 0x7F) << 7 * i for i, byte in enumerate(value)) & (1 << 64) - 1))
    return None


def hyperparameters(content: bytes) -> dict[str, Any]:
    """The arguments of SummaryWriter.add_hparams: HParamsPluginData.session_start_info.hparams, a map of Values."""
    arguments: dict[str, Any] = {}
    for which, _, entry in fields(of(message(content), 3)):
        if which == 1 and isinstance(entry, bytes):
            pair = message(entry)
            for kind, _, value in fields(of(pair, 2)):
                if kind == 2:
                    arguments[text(pair, 1)] = double(value)
                elif kind == 3 and isinstance(value, bytes):
                    arguments[text(pair, 1)] = value.decode("utf-8", "replace")
                elif kind == 4:
                    arguments[text(pair, 1)] = bool(value)
    return arguments
