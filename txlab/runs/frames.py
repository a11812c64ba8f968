"""The recording that panes draw and the time line scrubs through: frames as safetensors, with random access.

A new frame is a separate file; every 64 of them are packed into one file. Notable: the reader parses the safetensors
header itself and reads only the bytes of the requested tensors; a pack appears before its single files are deleted,
and a reader that finds a file gone between listing and opening lists again, so no frame ever vanishes.
"""

from __future__ import annotations

import contextlib
import stat
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.files import OpenFolder
from txlab.runs.tensor_files import (
    ASIDE,
    DAMAGE,
    PACK,
    SINGLE,
    Identity,
    Stored,
    TooMuch,
    encode_frame,
    open_frames,
    pack_name,
    read_arrays,
    single_name,
    steps_in,
    write_pack,
)

MOST_LISTED = 250_000  # frames of a run; of more, only the newest are listed
PACKED = 64  # frames per pack: 10 000 frames are 157 files, and a pack is rewritten in milliseconds
_HEADERS_KEPT, _HEADERS_SIZE = 24, 8 << 20  # in number and in bytes on the disk


class FrameIndex:
    """Random access to the frames of a run that may still be growing; never writes.

    refresh() lists the directory and returns whether the frames changed; read(step) fetches one. A file that cannot
    be parsed is left out, and examined again when it changes.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self.steps: np.ndarray[Any, np.dtype[np.int64]] = np.empty(0, np.int64)
        self._files: dict[str, tuple[Identity, list[int]]] = {}  # the steps in each file
        self._where: dict[int, str] = {}
        self._headers: OrderedDict[tuple[str, Identity], Stored] = OrderedDict()
        self._said: tuple[str, dict[str, Any]] = "", {}  # the text of the frame read last, and its parsed content

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def size(self) -> int:
        """Bytes of the recording, as of the last refresh."""
        return sum(size for (_, size, _), _ in self._files.values())

    def refresh(self) -> bool:
        """List again; True if frames were added, removed or rewritten. Costs a directory listing and the headers of
        changed files.

        A listing made while files are being packed may miss both the pack and its single files. So the packs are taken
        from a listing that begins after that of the singles has ended: a single that was gone by then was deleted after
        its pack appeared. A single that the second listing misses must be in one of its packs, or both are repeated.
        """
        before = self._listing()
        if before == {name: identity for name, (identity, _) in self._files.items()}:
            return False
        files: dict[str, tuple[Identity, list[int]]] = {}
        for attempt in range(20):
            if attempt:
                time.sleep(0.002)  # the writer is in the middle of a change: let it continue
            after = self._listing()
            taken = {name: after[name] for name in after if PACK.fullmatch(name) or name in before}
            files = self._steps_by_file(taken)
            packed = {step for name in files if PACK.fullmatch(name) for step in files[name][1]}
            gone = {int(single[1]) for name in before if name not in after and (single := SINGLE.fullmatch(name))}
            if gone <= packed and len(files) == len(taken) and (before or not after):
                break
            before = after
        else:
            return False  # it kept changing: keep what is known until the next refresh
        rewritten = any(SINGLE.fullmatch(name) and self._files.get(name) != files[name] for name in files)
        self._files = files
        # Packs first, so that a single file, which is always written later, wins if both hold a step.
        self._where = {step: name for name in sorted(files, reverse=True) for step in files[name][1]}
        steps = np.fromiter(sorted(self._where), np.int64, len(self._where))
        changed = rewritten or not np.array_equal(steps, self.steps)
        self.steps = steps
        return changed

    def _listing(self) -> dict[str, Identity]:
        files = {}
        with contextlib.suppress(OSError), OpenFolder.at(self.directory) as folder:
            for name in folder.names():
                if SINGLE.fullmatch(name) or PACK.fullmatch(name):
                    try:
                        about = folder.stat(name)
                    except OSError:  # deleted since the listing
                        continue
                    if stat.S_ISREG(about.st_mode):
                        files[name] = (about.st_mtime_ns, about.st_size, about.st_ino)
        return files

    def _steps_by_file(self, listed: Mapping[str, Identity]) -> dict[str, tuple[Identity, list[int]]]:
        """The steps in each file; files deleted meanwhile are left out. A damaged file has none, and neither have
        frames older than the newest MOST_LISTED.
        """
        files: dict[str, tuple[Identity, list[int]]] = {}
        count = 0
        for name, identity in sorted(listed.items(), key=lambda file: (file[0][:1].isdigit(), file[0]), reverse=True):
            known = self._files.get(name)
            single = SINGLE.fullmatch(name)
            if count >= MOST_LISTED:
                files[name] = (identity, [])
            elif known is not None and known[0] == identity:
                files[name] = known
            elif single:
                files[name] = (identity, [int(single[1])])
            else:
                try:
                    with self._open(name) as (_, header):
                        files[name] = (identity, sorted(header.texts))
                except FileNotFoundError:
                    continue
                except DAMAGE:
                    files[name] = (identity, [])
            count += len(files[name][1])
        return files

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[tuple[int, Stored]]:
        """The descriptor and the header of a file; recent headers are cached. Raises the exceptions in DAMAGE."""
        with OpenFolder.at(self.directory) as folder, open_frames(folder, name, self._headers) as (descriptor, header):
            while len(self._headers) > _HEADERS_KEPT or sum(old.size for old in self._headers.values()) > _HEADERS_SIZE:
                self._headers.popitem(last=False)
            yield descriptor, header

    def names(self, step: int) -> list[str]:
        """The names of the tensors in the frame of `step`; [] if there is no such frame or its file is damaged."""
        try:
            with self._open(self._where[step]) as (_, header):
                return sorted(header.tensors[step])
        except (KeyError, *DAMAGE):
            return []

    def read(self, step: int, names: Iterable[str] | None = None) -> Frame:
        """Return the frame of `step` as NumPy arrays: all its tensors, or those named (absent ones are left out).

        Raises LabError if there is no such frame or its file is damaged.
        """
        wanted = None if names is None else set(names)
        for attempt in range(3):
            if attempt or step not in self._where:
                self.refresh()
            if step not in self._where:
                continue
            try:
                return self._read(step, wanted)
            except DAMAGE:
                self._files.pop(self._where[step], None)  # packed, thinned or rewound meanwhile: examine it again
        raise LabError(f"there is no readable frame of step {step} in {self.directory}")

    def _read(self, step: int, wanted: set[str] | None) -> Frame:
        with self._open(self._where[step]) as (descriptor, header):
            text = header.texts[step]
            if text != self._said[0]:  # parsing 50 000 words keeps all other threads waiting for 20 ms
                self._said = text, orjson.loads(text)
            description = self._said[1]
            places = header.tensors[step].items()
            tensors = read_arrays(descriptor, {key: at for key, at in places if wanted is None or key in wanted})
        return Frame(step, tensors, description["tokens"], description["texts"], description["facts"])


class FrameWriter:
    """The one writer of frames/, within a disk budget.

    Over the budget the recording is thinned: every second frame in the densest stretches of the older half is dropped,
    so that after many rounds the older half still covers its whole time evenly. The first and the newest frame are
    always kept, even if the two exceed the budget. Opening cleans up after a kill.
    """

    def __init__(self, directory: Path | OpenFolder, budget_bytes: float) -> None:
        """`directory` is the open folder, or its path, which is created if it does not exist."""
        if isinstance(directory, Path):
            directory.mkdir(exist_ok=True)
        self.folder = OpenFolder.at(directory) if isinstance(directory, Path) else directory
        self.budget_bytes = budget_bytes
        self.packs: dict[str, list[int]] = {}
        self.singles: list[int] = []
        self.sizes: dict[str, int] = {}
        self.condemned: list[int] = []  # steps that the current round of thinning still has to drop, oldest first
        self._tidy()

    def _tidy(self) -> None:
        """Take stock, and finish an interrupted packing or merge by deleting files whose frames are all elsewhere.

        Only names used here are touched. Raises LabError if one of them is not a file.
        """
        for name in sorted(self.folder.names()):
            single, kind = SINGLE.fullmatch(name), self.folder.kind(name)
            if ASIDE.fullmatch(name) and kind == "a file":
                self.folder.unlink(name)
            if not single and not PACK.fullmatch(name):
                continue
            if kind != "a file":
                where = f"{self.folder.path.parent} is not written to: {self.folder.path.name}/{name}"
                raise LabError(f"{where} is {kind}, not a recorded frame")
            steps = steps_in(self.folder, name)
            if not steps:
                self.folder.rename(name, name.removesuffix(".safetensors") + ".damaged")
                continue
            if single:
                self.singles.append(int(single[1]))
            else:
                self.packs[name] = steps
            self.sizes[name] = self.folder.stat(name).st_size
        copies = Counter(step for steps in self.packs.values() for step in steps)
        for name, steps in sorted(self.packs.items(), key=lambda entry: len(entry[1])):
            if all(copies[step] > 1 for step in steps):
                self._remove(name)
                copies.subtract(steps)
        packed = {step for steps in self.packs.values() for step in steps}
        for step in packed.intersection(self.singles):
            self._remove(single_name(step))

    @property
    def steps(self) -> list[int]:
        """All steps that have a frame, ascending."""
        return sorted([step for steps in self.packs.values() for step in steps] + self.singles)

    def write(self, frame: Frame) -> int:
        """Record one frame, replacing any of the same step, and return its size in bytes."""
        name = single_name(frame.step)
        held = next((pack for pack, steps in self.packs.items() if frame.step in steps), None)
        data = encode_frame(frame)
        self.folder.write(name, data)
        self.sizes[name] = len(data)
        if frame.step not in self.singles:
            self.singles.append(frame.step)
        if held:
            self._keep(held, {step for step in self.packs[held] if step != frame.step})
        if len(self.singles) >= PACKED:
            self._pack()
        self._thin()
        return len(data)

    def rewind(self, step: int) -> None:
        """Remove every frame later than `step`."""
        self.condemned = []
        self.drop({later for later in self.steps if later > step})

    def drop(self, steps: set[int]) -> None:
        """Remove the frames of these steps."""
        for single in [step for step in self.singles if step in steps]:
            self._remove(single_name(single))
        for name, held in list(self.packs.items()):
            if not steps.isdisjoint(held):
                self._keep(name, set(held) - steps)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.folder.unlink(name)
        self.sizes.pop(name, None)
        self.packs.pop(name, None)
        if single := SINGLE.fullmatch(name):
            self.singles.remove(int(single[1]))

    def _pack(self) -> None:
        """Pack all single files into one pack, or as many as their texts need, before the first of them is deleted."""
        ways = [sorted(self.singles)]
        while ways:
            steps = ways.pop()
            try:
                self._join([single_name(step) for step in steps], pack_name(steps[0], steps[-1]))
            except TooMuch:
                if len(steps) > 1:
                    ways += [steps[: len(steps) // 2], steps[len(steps) // 2 :]]

    def _join(self, names: list[str], pack: str) -> None:
        steps, size = write_pack(self.folder, pack, names)
        if steps:
            self.packs[pack], self.sizes[pack] = steps, size
        for name in names:
            if name != pack:
                self._remove(name)

    def _keep(self, pack: str, kept: set[int]) -> None:
        """Rewrite a pack atomically with only these frames; it keeps the name of the stretch it was packed from."""
        steps, size = write_pack(self.folder, pack, [pack], kept)
        if steps:
            self.packs[pack], self.sizes[pack] = steps, size
        else:
            self._remove(pack)

    def _thin(self) -> None:
        """Drop frames, at most one pack's at a time, until the budget is met or nothing more may be dropped."""
        while sum(self.sizes.values()) > self.budget_bytes:
            if not self.condemned:
                self.condemned = thin_out(self.steps)
                if not self.condemned:
                    return
            step = self.condemned.pop(0)
            if step in self.singles:
                self._remove(single_name(step))
                continue
            for pack, steps in list(self.packs.items()):
                if step in steps:
                    dropped = {step, *(other for other in self.condemned if other in steps)}
                    self.condemned = [other for other in self.condemned if other not in dropped]
                    self._keep(pack, set(steps) - dropped)
                    self._merge()
                    break

    def _merge(self) -> None:
        """Merge a thinned pack with its neighbour if both fit into one, so that there are no more files than needed."""
        names = sorted(self.packs)
        for left, right in pairwise(names):
            both = sorted([*self.packs[left], *self.packs[right]])
            if len(both) <= PACKED:
                with contextlib.suppress(TooMuch):
                    self._join([left, right], pack_name(both[0], both[-1]))
                    return


def thin_out(steps: list[int]) -> list[int]:
    """The frames that one round of thinning drops: a quarter of the older half, no two neighbours, densest first.

    >>> thin_out([0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
    [10]
    >>> thin_out([0, 40, 50, 60, 70, 80, 90, 100])
    [50]
    """
    last = min(max(2, len(steps) // 2), len(steps) - 1)  # of the older half, and never the newest
    by_gap = sorted(range(1, last), key=lambda place: steps[place + 1] - steps[place - 1])
    chosen: set[int] = set()
    for place in by_gap:
        if len(chosen) < max(1, last // 4) and place - 1 not in chosen and place + 1 not in chosen:
            chosen.add(place)
    return [steps[place] for place in sorted(chosen)]


def merge_frames(before: Frame, now: Frame) -> Frame:
    """Merge two frames of a step; the later one takes precedence. Tables among the facts are joined."""
    facts = dict(before.facts)
    for name, value in now.facts.items():
        known = facts.get(name)
        facts[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, Mapping) else value
    return Frame(
        now.step,
        {**before.tensors, **now.tensors},
        {**before.tokens, **now.tokens},
        {**before.texts, **now.texts},
        facts,
    )
