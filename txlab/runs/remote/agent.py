"""The reader that is sent through ssh and runs on the other machine: standard library only, Python 3.6 or newer.

It answers requests on its standard input, pushes additions to the runs that are followed, and ends when its input is
closed or has been silent for `ALONE` seconds. A message is u32 header length, u32 body length, JSON, bytes; after the
magic word the whole output is one deflate stream, flushed after each message, so that a row costs about forty bytes.

Notable: every name is looked up through the descriptor of its directory and no link is followed below the root. A
number of a frame is sent as one byte (253 levels), as the difference to the frame before; "exact" requests the
original.
"""

import array
import json
import math
import os
import re
import select
import signal
import stat
import struct
import sys
import time
import zlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

Asked = Dict[str, Any]
Answer = Tuple[Optional[Dict[str, Any]], bytes]
Coarse = Tuple[float, float, bytes]

VERSION = 1
ALONE = 90  # idle timeout in seconds
LARGEST_MESSAGE = 8 << 20  # bytes that are accepted
PIECE = 64 << 10  # bytes of a log in one message
PATIENCE = 3.0  # seconds to wait for NUL bytes in a log to be filled: a network disk grows the file before its data
WHOLE = {"run.json": 4 << 20, "heartbeat": 4096, "label.json": 65536, "scenario.toml": 1 << 20}
GROWING = ("events.jsonl", "questions.jsonl", "preferences.jsonl", "comparisons.jsonl")
FLOATS = {"F32": "f", "F64": "d", "F16": "e"}
FRAME = re.compile(r"(pack-\d{8,18}-)?\d{8,18}\.safetensors")
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

deflate = zlib.compressobj(6)


def send(head: Dict[str, Any], body: bytes = b"") -> None:
    head["now"] = time.time()
    text = json.dumps(head).encode()
    data = deflate.compress(struct.pack("<II", len(text), len(body)) + text + body)
    data += deflate.flush(zlib.Z_SYNC_FLUSH)
    while data:
        data = data[os.write(1, data) :]


# Files, by descriptors


def check_name(name: Any) -> str:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise OSError(1, "not the name of an entry: %r" % (name,))
    return name


class Closing:
    """A descriptor that is closed by `with`."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __enter__(self) -> int:
        return self.at

    def __exit__(self, *_: object) -> None:
        os.close(self.at)


def within(root: str, *names: str) -> Closing:
    """A directory under the root."""
    at = os.open(root, FOLDER)
    for name in names:
        with Closing(at) as outer:
            at = os.open(check_name(name), FOLDER | os.O_NOFOLLOW, dir_fd=outer)
    return Closing(at)


def open_file(place: int, name: str) -> int:
    descriptor = os.open(check_name(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(1, "not a regular file: " + name)
    return descriptor


def contents(place: int, name: str, most: int) -> Optional[bytes]:
    """All bytes of a small file, or the end of a larger log.txt; None if it cannot be read."""
    try:
        file = Closing(open_file(place, name))
    except OSError:
        return None
    with file as descriptor:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, most, max(0, size - most)) if size <= most or name == "log.txt" else None


def mark_of(place: int, name: str) -> Optional[List[int]]:
    """A mark that changes whenever the file does; None without a file."""
    try:
        about = os.stat(name, dir_fd=place, follow_symlinks=False)
    except OSError:
        return None
    return [about.st_ino, about.st_size, about.st_mtime_ns]


def lines_of(descriptor: int, at: int, most: int) -> bytes:
    """Complete lines from `at` on, and whether NUL bytes follow."""
    data = os.pread(descriptor, most, at)
    nul = data.find(b"\0")
    if nul >= 0 and time.time() - os.fstat(descriptor).st_mtime < PATIENCE:
        data = data[:nul]
    end = data.rfind(b"\n") + 1
    if not end and len(data) == most and most < 8 << 20:
        return lines_of(descriptor, at, 8 << 20)
    return data[:end] if end or len(data) < most else data


def seam(descriptor: int, at: int) -> int:
    return zlib.crc32(os.pread(descriptor, min(64, at), max(0, at - 64)))


def thin_out(descriptor: int, at: int, end: int, tail: int, places: int) -> bytes:
    """A sample of a long log, in file order: every rewind, a few rows at evenly spaced places, and the whole tail."""
    start = max(at, end - tail)
    lines = {}
    all_of_it = os.pread(descriptor, end - at, at) if end - at <= 1 << 18 else None

    def read(size: int, place: int) -> bytes:
        if all_of_it is None:
            return os.pread(descriptor, size, place)
        return all_of_it[place - at : place - at + size]

    place = at
    while place < start:  # rewinds decide which rows count, so none may be missing
        chunk = read(min(8 << 20, end - place), place)
        whole = chunk.rfind(b"\n") + 1 or len(chunk)
        if not whole:
            break
        hit = chunk.find(b'"rewind"', 0, whole)
        while hit >= 0:
            first, last = chunk.rfind(b"\n", 0, hit) + 1, chunk.find(b"\n", hit, whole) + 1 or whole
            lines[place + first] = chunk[first:last]
            hit = chunk.find(b'"rewind"', last, whole)
        place += whole
    began = time.time()
    for number in range(places):
        if number == 8 and time.time() - began > 0.1:  # a slow disk: these suffice
            break
        place = at + (start - at) * ((number * 5) % places if places > 8 else number) // places
        block = read(min(4096, end - place), place)
        seen = set()
        first = 0 if place == at else block.find(b"\n") + 1
        while block.find(b"\n", first) >= 0:
            last = block.find(b"\n", first) + 1
            line = block[first:last]
            kind = re.match(rb'\{"event":\s*"(\w+)".*?(?:"values":\s*\{"([^"]*)|$)', line)
            if kind and kind.groups() not in seen and kind.group(1) != b"rewind":
                seen.add(kind.groups())
                lines[place + first] = line
            first = last
    data = read(end - start, start)
    first = data.find(b"\n") + 1 if start > at else 0
    rows = [lines[place] for place in sorted(lines) if place < start + first]
    return b"".join(rows) + data[first : data.rfind(b"\n") + 1]


# Frames


class Frames:
    """The recorded frames of a run: the steps in each file, and one frame, coarse or exact."""

    def __init__(self) -> None:
        self.known: Dict[str, Any] = {}  # name → (mark, header, where its data begins)
        self.marks: Dict[str, List[int]] = {}
        self.sent: Dict[Any, Any] = {}  # step → {tensor: (low, high, codes), "": text}, of the last two that were sent

    def header(self, place: int, name: str, mark: Optional[List[int]]) -> Tuple[Dict[str, Any], int]:
        if name not in self.known or self.known[name][0] != mark:
            with Closing(open_file(place, name)) as descriptor:
                (length,) = struct.unpack("<Q", os.pread(descriptor, 8, 0))
                if length > 16 << 20:
                    raise ValueError("the header is too long")
                head = json.loads(os.pread(descriptor, length, 8).decode())
            self.known[name] = mark, head, 8 + length
        _, head, begin = self.known[name]
        return head, begin

    def steps(self, place: int) -> Dict[int, List[Any]]:
        """{step: [file, mark of a single file or None, bytes]}; a single file is newer than a pack."""
        files = {}
        names = sorted(filter(FRAME.fullmatch, os.listdir(place)), reverse=True)
        singles = [name for name in names if name[0] != "p"]
        before, self.marks = self.marks, {}
        began, asked = time.time(), 0
        for name in names:
            slow = time.time() - began > 0.005 * asked and asked > 4  # a network disk: use what is known
            mark = before.get(name) if slow and name not in singles[:2] else None
            if mark is None:
                mark, asked = mark_of(place, name), asked + 1
            if mark is None:
                continue
            self.marks[name] = mark
            if not name.startswith("pack"):
                files[int(name[:-12])] = [name, mark, mark[1]]
                continue
            try:
                steps = [key for key in self.header(place, name, mark)[0]["__metadata__"] if key.isdigit()]
            except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
                continue
            for key in steps:
                files[int(key)] = [name, None, mark[1] // len(steps)]
        return files

    def encode(self, place: int, step: int, base: Any, exact: bool) -> bytes:
        """A frame as compressed bytes: a line of JSON that describes its tensors, then their bytes."""
        name = self.steps(place)[step][0]
        key = "%08d" % step
        prefix = key + "/" if name.startswith("pack") else ""
        head, begin = self.header(place, name, mark_of(place, name))
        before, now = self.sent.get(base, {}), {"": head["__metadata__"][key]}
        tensors, pieces = [], []
        with Closing(open_file(place, name)) as descriptor:
            for full in sorted(head):
                if full == "__metadata__" or not full.startswith(prefix):
                    continue
                kind, shape, (first, last) = [head[full][part] for part in ("dtype", "shape", "data_offsets")]
                data = os.pread(descriptor, last - first, begin + first)
                scale = None
                if kind in FLOATS and last - first > 256 and not exact:
                    scale, data, now[full[len(prefix) :]] = coarse(kind, data, before.get(full[len(prefix) :]))
                tensors.append([full[len(prefix) :], kind, shape, scale, len(data)])
                pieces.append(data)
        about = {"step": step, "base": base if before else None, "tensors": tensors}
        about["text"] = None if before and before[""] == now[""] else now[""]
        if not exact:
            self.sent = dict(list(self.sent.items())[-3:])
            self.sent[step] = now
        return zlib.compress(json.dumps(about).encode() + b"\n" + b"".join(pieces), 6)


def coarse(kind: str, data: bytes, before: Optional[Coarse]) -> Tuple[List[Any], bytes, Coarse]:
    """([low, high, difference?], bytes, codes to remember): 0…252 = low…high, 253 = -inf, 254 = inf, 255 = not a
    number.

    The previous frame's range is kept while it fits, so that unchanged numbers are a run of zeros.
    """
    values: Any
    if kind == "F16":
        values = struct.unpack("<%de" % (len(data) // 2), data)
    else:
        values = array.array(FLOATS[kind])
        values.frombytes(data)
        if sys.byteorder == "big":
            values.byteswap()
    finite = values if all(map(math.isfinite, values)) else [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    if before is not None and len(before[2]) != len(values):
        before = None
    if before and before[0] <= low and high <= before[1] and high - low > 0.5 * (before[1] - before[0]):
        low, high = before[:2]
    scale = 252 / (high - low) if high > low and math.isfinite(high - low) else 0.0
    if finite is values:
        codes = bytes([int((value - low) * scale + 0.5) for value in values])
    else:
        special = {math.inf: 254, -math.inf: 253}
        codes = bytes(
            [int((value - low) * scale + 0.5) if math.isfinite(value) else special.get(value, 255) for value in values]
        )
    if before:
        difference = bytes([(a - b) & 255 for a, b in zip(codes, before[2])])
        return [low, high, 1], difference, (low, high, codes)
    return [low, high, 0], codes, (low, high, codes)


# A run that is followed


class Follow:
    """Pushes what is appended to the logs of a run, its replaced files, and the steps of its frames."""

    def __init__(self, root: str, asked: Asked) -> None:
        self.run, self.root = asked["run"], root
        self.at = {name: max(0, int(at)) for name, at in asked["at"].items() if name in GROWING}
        self.marks = dict(asked.get("marks") or {})
        self.checks, self.first = asked.get("seams") or {}, int(asked.get("first") or 1 << 40)
        self.folder = within(root, self.run).at
        if mark_of(self.folder, "run.json") is None and mark_of(self.folder, "events.jsonl") is None:
            raise OSError(2, "it is not a run")
        self.files: Dict[str, int] = {}
        self.seen: Dict[str, Any] = {}  # marks of the logs when all of them had been sent
        self.frames, self.blob = Frames(), b""
        self.listed: Optional[List[int]] = None
        self.looked, self.cost = time.time() - 0.2, 0.0
        self.settled = False  # whether everything present has been sent
        self.waiting: Optional[Asked] = None  # the request that the next frame answers

    def close(self) -> None:
        for descriptor in [self.folder] + list(self.files.values()):
            os.close(descriptor)
        self.files, self.folder = {}, -1

    def grow(self, name: str) -> bool:
        """Push the next piece of a log; whether there was one."""
        mark = mark_of(self.folder, name)
        if mark is None or self.seen.get(name) == mark:
            return False
        descriptor = self.files.get(name)
        if descriptor is not None and os.fstat(descriptor).st_ino != mark[0]:
            os.close(self.files.pop(name))
            self.at[name], descriptor = 0, None
        if descriptor is None:
            self.files[name] = descriptor = open_file(self.folder, name)
            at = self.at.setdefault(name, 0)
            if at and (at > mark[1] or seam(descriptor, at) != self.checks.get(name)):
                at = self.at[name] = 0
            if name == "events.jsonl" and mark[1] - at > self.first:
                end = mark[1]
                body = thin_out(descriptor, at, end, 48 << 10, 300)
                tail = os.pread(descriptor, min(end, 1 << 20), max(0, end - (1 << 20)))
                end -= len(tail) - (tail.rfind(b"\n") + 1)
                send({"file": name, "run": self.run, "at": at, "end": end, "thin": True}, body)
                self.at[name] = end
                return True
            send({"file": name, "run": self.run, "at": at, "end": at}, b"")
        if mark[1] < self.at[name]:
            self.at[name] = 0
            send({"file": name, "run": self.run, "at": 0, "end": 0}, b"")
        data = lines_of(descriptor, self.at[name], PIECE)
        if not data:
            if os.fstat(descriptor).st_size <= mark[1] and time.time() - mark[2] / 1e9 > PATIENCE:
                self.seen[name] = mark
            return False
        at = self.at[name]
        self.at[name] = at + len(data)
        send({"file": name, "run": self.run, "at": at, "end": at + len(data)}, data)
        return True

    def look(self) -> bool:
        """Push everything new; returns whether more may follow immediately. Raises OSError if the run is gone."""
        more = self.grow("events.jsonl")
        mark = mark_of(self.folder, "frames")
        if mark is not None and (mark != self.listed or (self.waiting and time.time() - mark[2] / 1e9 < 0.5)):
            self.look_at_frames(mark)
        began = time.time()
        if began - self.looked < (2.0 if more else max(0.2, 4 * self.cost)):
            return more
        for name in list(WHOLE) + ["log.txt"]:
            mark = mark_of(self.folder, name)
            if mark is not None and mark != self.marks.get(name):
                self.marks[name] = mark
                data = contents(self.folder, name, WHOLE.get(name, 65536))
                if data is not None:
                    send({"file": name, "run": self.run, "whole": True, "mark": mark}, data)
        grown = [self.grow(name) for name in GROWING[1:]]
        if not (self.settled or more or any(grown)):
            self.settled = True
            send({"settled": True, "run": self.run})
        if os.fstat(self.folder).st_nlink == 0:
            raise OSError(2, "the run was deleted")
        self.cost = time.time() - began
        self.looked = 0.0 if any(grown) else began
        return more or any(grown)

    def look_at_frames(self, mark: List[int]) -> None:
        """Push the list of frames if it has changed, and the newest frame if it was requested."""
        with within(self.root, self.run, "frames") as place:
            steps = self.frames.steps(place)
            frames = [[step] + steps[step][1:] for step in sorted(steps)]
            if frames != self.marks.get("frames"):
                send({"frames": frames, "run": self.run})
            self.listed, self.marks["frames"] = mark, frames
            asked = self.waiting
            if asked and frames and frames[-1] != asked["after"] and frames[-1][2] <= int(asked["most"]):
                self.waiting = None
                self.blob = self.frames.encode(place, frames[-1][0], asked.get("base"), False)
                send({"id": asked["id"], "size": len(self.blob), "frame": frames[-1]}, self.blob[: int(asked["n"])])


# Requests


class Agent:
    def __init__(self) -> None:
        self.root = ""
        self.packs: Iterator[None] = iter(())
        self.follows: Dict[str, Follow] = {}
        self.frames: Dict[str, Frames] = {}  # of runs that are not followed
        self.blobs: Dict[int, bytes] = {}  # the frame that is being fetched
        self.box: Any = None

    def do_root(self, asked: Asked) -> Answer:
        path = asked.get("path")
        root = os.path.expanduser(path or os.environ.get("TXLAB_RUNS") or "~/runs")
        if not os.path.isabs(root):
            root = os.path.join(os.path.expanduser("~"), root)
        run = None
        if path and any(os.path.exists(os.path.join(root, name)) for name in ("run.json", "events.jsonl")):
            root, run = os.path.split(root.rstrip("/"))
        elif path and not os.path.isdir(root):
            parent, name = os.path.split(root.rstrip("/"))
            if os.path.isdir(parent):
                root, run = parent, name
        self.root = os.path.realpath(root)
        names = []
        with within(self.root) as place:
            names = [name for name in os.listdir(place) if name[0] != "." and encodable(name)]
        names.sort(reverse=True)
        return {"root": self.root, "run": run, "names": names[:100000]}, b""

    def do_list(self, asked: Asked) -> Answer:
        """Every run with its small files and a few rows of its log, in batches, newest first."""
        from multiprocessing.pool import ThreadPool  # a slow disk answers many requests in parallel

        known, names = asked.get("known") or {}, asked["names"]

        def summary(name: str) -> Any:
            try:
                return self.summary(name, known.get(name))
            except OSError:  # no folder, not ours to read, or gone meanwhile
                return None

        def batches() -> Iterator[None]:
            pool = ThreadPool(48)
            try:
                for first, last in zip([0] + list(range(24, len(names), 48)), list(range(24, len(names) + 48, 48))):
                    summaries = pool.map(summary, names[first:last], 1)
                    runs = [run for run in summaries if run is not None]
                    heads = [[name, mark, [[file, len(data)] for file, data in parts]] for name, mark, parts in runs]
                    body = b"".join(data for _, _, parts in runs for _, data in parts)
                    send({"id": asked["id"], "runs": heads, "more": True}, body)
                    yield
            finally:
                pool.terminate()
            send({"id": asked["id"], "runs": []})

        self.packs = batches()
        return None, b""

    def summary(self, name: str, known: Any) -> Any:
        """(name, mark, files) of a run; no files if nothing changed since `known`; None if it is not a run."""
        with within(self.root, name) as folder:
            marks = [mark_of(folder, file) for file in ("run.json", "heartbeat", "events.jsonl", "label.json")]
            if marks[0] is None and marks[2] is None:
                return None
            if marks == known:
                return name, marks, []
            parts = []
            for file, mark in zip(("run.json", "heartbeat", "label.json"), (marks[0], marks[1], marks[3])):
                data = contents(folder, file, 65536) if mark is not None else None
                if data is not None:
                    parts.append((file, data))
            if marks[2] is not None:
                with Closing(open_file(folder, "events.jsonl")) as log:
                    parts.append(("events.jsonl", thin_out(log, 0, marks[2][1], 2048, 16)))
            return name, marks, parts

    def do_follow(self, asked: Asked) -> Answer:
        self.do_leave(asked)
        follow = Follow(self.root, asked)
        self.follows[asked["run"]] = follow
        return {"run": asked["run"]}, b""

    def do_leave(self, asked: Asked) -> Answer:
        gone = self.follows.pop(asked["run"], None)
        if gone is not None:
            gone.close()
        return {}, b""

    def do_read(self, asked: Asked) -> Answer:
        names = asked["path"].split("/")
        most, at = min(int(asked["n"]), 1 << 20), max(0, int(asked["at"]))
        with within(self.root, *names[:-1]) as place, Closing(open_file(place, names[-1])) as descriptor:
            return {"mark": mark_of(place, names[-1])}, os.pread(descriptor, most, at)

    def do_checkpoints(self, asked: Asked) -> Answer:
        """The checkpoints of a run: [step, marks of their two files], ascending."""
        checkpoints: List[Any] = []
        with within(self.root, asked["run"]) as run:
            if mark_of(run, "checkpoints") is None:
                return {"checkpoints": checkpoints}, b""
        with within(self.root, asked["run"], "checkpoints") as place:
            for name in sorted(filter(re.compile("[0-9]{8,18}").fullmatch, os.listdir(place))):
                try:
                    with within(self.root, asked["run"], "checkpoints", name) as folder:
                        marks = [mark_of(folder, "state.json"), mark_of(folder, "state.safetensors")]
                except OSError:  # removed meanwhile
                    continue
                checkpoints.append([int(name), marks])
        return {"checkpoints": checkpoints[-10000:]}, b""

    def do_frame(self, asked: Asked) -> Answer:
        run = asked["run"]
        frames = self.follows[run].frames if run in self.follows else self.frames.setdefault(run, Frames())
        with within(self.root, run, "frames") as place:
            blob = frames.encode(place, int(asked["step"]), asked.get("base"), bool(asked.get("exact")))
        self.blobs = {asked["id"]: blob}
        return {"size": len(blob)}, blob[: int(asked["n"])]

    def do_next(self, asked: Asked) -> Answer:
        """Answered once there is a newer frame."""
        self.follows[asked["run"]].waiting = asked
        self.follows[asked["run"]].listed = None
        return None, b""

    def do_more(self, asked: Asked) -> Answer:
        blob = self.blobs[asked["of"]] if asked["of"] in self.blobs else self.follows[asked["run"]].blob
        at = int(asked["at"])
        return {"size": len(blob)}, blob[at : at + int(asked["n"])]

    def do_put(self, asked: Asked, body: bytes) -> Answer:
        """Write a request into the inbox of a run, its label, or lines of a shared file."""
        run, file = asked["run"], asked["file"]
        names: Tuple[str, ...]
        if (
            file == "inbox"
            and re.fullmatch(r"[0-9A-Za-z][\w.-]{0,200}", asked["name"], re.ASCII)
            and len(body) <= 65536
        ):
            names, name = (run, "inbox"), asked["name"]
        elif file == "label.json" and len(body) <= 65536:
            names, name = (run,), file
        elif file in GROWING[2:]:
            return self.append(run, file, body)
        else:
            raise OSError(1, "nothing of that name is taken")
        with within(self.root, *names) as place:
            aside = ".%s.%d" % (name[:200], os.getpid())
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=place)
            try:
                with os.fdopen(descriptor, "wb") as target:
                    target.write(body)
                os.rename(aside, name, src_dir_fd=place, dst_dir_fd=place)
            except OSError:
                os.unlink(aside, dir_fd=place)
                raise
        return {}, b""

    def append(self, run: str, file: str, body: bytes) -> Answer:
        import fcntl

        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        with within(self.root, run) as place, Closing(os.open(file, flags, 0o666, dir_fd=place)) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode) or os.fstat(descriptor).st_nlink > 1:
                raise OSError(1, "not a file of its own: " + file)
            try:  # noqa: SIM105 - some file systems have no locks; contextlib would be one more import
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError:
                pass
            size = os.fstat(descriptor).st_size
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            rest = (b"\n" if torn else b"") + body
            try:
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        return {}, b""

    def do_box(self, asked: Asked, body: bytes) -> Answer:
        """The last reading of the machine, {} before the first; box.py is sent with the first request."""
        if body:
            exec(zlib.decompress(body), globals())
            self.box = globals()["Box"](self.root)
        return {"failed": self.box.failed[:200]}, json.dumps(self.box.latest()).encode()

    def do_beat(self, asked: Asked) -> Answer:
        return {}, b""

    def answer(self, asked: Asked, body: bytes) -> None:
        try:
            work = getattr(self, "do_" + str(asked.get("do")))
            head, data = work(asked, body) if asked.get("do") in ("put", "box") else work(asked)
        except Exception as error:
            head, data = {"error": getattr(error, "strerror", None) or "%s: %s" % (type(error).__name__, error)}, b""
        if "id" in asked and head is not None:
            head["id"] = asked["id"]
            send(head, data)

    def serve(self) -> None:
        received, beaten, wait, heard = b"", 0.0, 0.0, time.time()
        while True:
            signal.alarm(ALONE + 30)
            if select.select([0], [], [], wait)[0]:
                signal.alarm(ALONE + 30)
                data = os.read(0, 1 << 16)
                if not data:
                    return
                received, heard = received + data, time.time()
            while len(received) >= 8:
                head, length = struct.unpack("<II", received[:8])
                if head + length > LARGEST_MESSAGE:
                    return
                if len(received) < 8 + head + length:
                    break
                asked, body = received[8 : 8 + head], received[8 + head : 8 + head + length]
                received = received[8 + head + length :]
                self.answer(json.loads(asked.decode()), body)
            if time.time() - heard > ALONE:
                return
            began, more = time.time(), next(self.packs, self) is None  # a batch of the list
            for run, follow in list(self.follows.items()):
                try:
                    more |= follow.look()
                except OSError as error:
                    self.do_leave({"run": run})
                    send({"gone": run, "error": error.strerror or str(error)})
            if time.time() - beaten > 2.0:
                beaten = time.time()
                send({"beat": beaten})
            wait = 0.0 if more else min(1.0, max(0.02, 4 * (time.time() - began)))


def encodable(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def main() -> None:
    os.write(1, b"\0txlab far %d\n" % VERSION)  # assembled here, so that a shell echoing the command cannot print it
    Agent().serve()
