"""The metrics.csv of Lightning's CSVLogger, and hparams.yaml beside it.

Notable: the file is written anew when a column is added, and rows that were read are passed over then. It has no
times, so a row's is when it was found. An empty cell is no value. Of YAML only the nodes are read, where PyYAML is
installed: a tag of Python's (a tuple, an object) is not constructed, and becomes a list, a table or its text.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

from txlab.files import read_regular
from txlab.runs.as_json import as_json, text_of, unused
from txlab.runs.events import LineCursor, Replaced
from txlab.runs.foreign.log import About, Logged, Names

LARGEST_SETTINGS = 256 * 1024
STEPS = ("step", "global_step", "epoch")  # the first of these columns that there is counts
MOST_CELLS = 10_000
PLAIN_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str"))


class LightningLog:
    """One metrics.csv.

    position  {"rows": how many have been read, "head": the columns, "time": when the last one was found}; a file that
              was read from its start by this object is read on at a byte, by another one its rows are counted again
    """

    def __init__(self, path: Path, position: dict[str, Any] | None = None) -> None:
        self.path, self.about = path, About()
        self.position = position or {"rows": 0, "head": [], "time": 0.0}
        self.names = Names(self.about)
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
                cells = next(csv.reader([line.decode("utf-8", "replace")]))
            except (csv.Error, StopIteration):
                self.about.leave_out("lines that are not CSV", line[:60].decode("utf-8", "replace"))
                continue
            if cells[MOST_CELLS:]:
                self.about.leave_out(f"columns beyond {MOST_CELLS}", cells[MOST_CELLS])
                cells = cells[:MOST_CELLS]
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
                if cell.strip():
                    self.about.leave_out("cells that are no numbers", f"{name} = {cell}")
                continue
            if name == self.column:
                step = value
            elif known := self.names.take(name):
                values[known] = value
        if not values:
            return
        if step != step or abs(step) == float("inf"):
            self.about.leave_out("rows without a step", next(iter(values)))
        elif self.about.usable(int(step), next(iter(values))):
            self.position["time"] = max(self.position["time"], min(self.about.changed or time.time(), time.time()))
            found.append(("metrics", int(step), self.position["time"], values))

    def configure(self) -> None:
        settings = self.path.with_name("hparams.yaml")
        try:
            said = read_yaml(read_regular(settings, LARGEST_SETTINGS))
        except FileNotFoundError:
            return
        except ImportError:
            self.about.problem = f"{settings} is not read: PyYAML is not installed"
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or "it is not YAML, has aliases, or is nested too deeply"
            self.about.problem = f"{settings} cannot be read: {why}"
        else:
            self.about.config = as_json(said) if isinstance(said, dict) else {}


def read_yaml(content: bytes) -> Any:
    """What a YAML file says, of plain values only. ImportError without PyYAML, ValueError or RecursionError if it is
    not YAML."""
    import yaml

    try:
        loader = yaml.SafeLoader(content)
        return _plain_of(loader, loader.get_single_node(), set())
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _plain_of(loader: Any, node: Any, known: set[int]) -> Any:
    """The value of a node. ValueError for a list or a table that an alias names again, by which a small file could be
    a huge one."""
    if node is None:
        return None
    if node.id != "scalar" and id(node) in known:
        raise ValueError("an alias")
    known.add(id(node))
    if node.id == "sequence":
        return [_plain_of(loader, each, known) for each in node.value]
    if node.id == "mapping":
        table: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key.value, str) else text_of(_plain_of(loader, key, known))
            table[unused(name, table)] = _plain_of(loader, value, known)
        return table
    plain = node.tag in PLAIN_TAGS
    try:
        return loader.construct_object(node) if plain else node.value
    except Exception:  # a number of more digits than Python reads, a date that is none
        return node.value
