"""The metrics.csv of Lightning's CSVLogger, and hparams.yaml beside it.

Notable: the file is written anew when a column is added, and rows that were read are passed over then. It has no
times, so a row's is when it was found. An empty cell is no value. YAML is read by the safe loader where that is
installed, without aliases, which could make a small file a huge one.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

from txlab.files import read_regular
from txlab.runs.events import LineCursor, Replaced
from txlab.runs.foreign.log import About, Logged, Names, usable_step

LARGEST_SETTINGS = 256 * 1024
STEPS = ("step", "global_step", "epoch")  # the first of these columns that there is counts
MOST_CELLS = 10_000


class LightningLog:
    """One metrics.csv.

    position  {"rows": how many have been read, "head": the columns, "time": when the last one was found}; a file that
              was read from its start by this object is read on at a byte, by another one its rows are counted again
    """

    def __init__(self, path: Path, position: dict[str, Any] | None = None) -> None:
        self.path, self.about = path, About()
        self.position = position or {"rows": 0, "head": [], "time": 0.0}
        self.names = Names()
        self.begin()
        self.configure()

    def begin(self) -> None:
        self.cursor = LineCursor(self.path)
        self.head: list[str] = []
        self.passed = 0  # rows since the start of the file

    def mark(self) -> tuple[int, int]:
        about = self.path.stat()
        self.about.changed = about.st_mtime
        return about.st_size, about.st_mtime_ns

    def read(self) -> list[Logged] | None:
        try:
            lines = self.cursor.read()
        except Replaced:  # a column more, or another file: then it has fewer rows
            self.begin()
            lines = self.cursor.read()
        if not lines:
            if self.passed < self.position["rows"] and self.cursor.reachable:
                raise Replaced(self.path)
            return None
        found: list[Logged] = []
        for line in lines:
            try:
                cells = next(csv.reader([line.decode("utf-8", "replace")]))[:MOST_CELLS]
            except (csv.Error, StopIteration):
                continue
            if not self.head:
                self.start(cells)
                continue
            self.passed += 1
            if self.passed > self.position["rows"]:
                self.position["rows"] = self.passed
                self.take(cells, found)
        return found

    def start(self, cells: list[str]) -> None:
        self.head = cells
        if not set(self.position["head"]) <= set(cells):
            raise Replaced(self.path)
        self.position["head"] = cells
        self.column = next((name for name in STEPS if name in cells), "")

    def take(self, cells: list[str], found: list[Logged]) -> None:
        values = {}
        step = float(self.passed - 1)
        for name, cell in zip(self.head, cells, strict=False):
            try:
                value = float(cell)
            except ValueError:  # empty, or a text
                continue
            if name == self.column:
                step = value
            elif known := self.names.take(name):
                values[known] = value
        if values and step == step and abs(step) < 2**62 and usable_step(int(step)):
            self.position["time"] = max(self.position["time"], min(self.about.changed or time.time(), time.time()))
            found.append(("metrics", int(step), self.position["time"], values))

    def configure(self) -> None:
        try:
            import yaml
        except ImportError:
            return

        class Plain(yaml.SafeLoader):  # type: ignore[misc]
            def compose_node(self, parent: Any, index: Any) -> Any:
                if self.check_event(yaml.events.AliasEvent):
                    raise yaml.YAMLError("an alias")
                return super().compose_node(parent, index)

        try:
            said = yaml.load(read_regular(self.path.with_name("hparams.yaml"), LARGEST_SETTINGS), Plain)
        except (OSError, yaml.YAMLError, ValueError, RecursionError):
            return
        if isinstance(said, dict):
            self.about.config = {str(key): value for key, value in said.items()}
