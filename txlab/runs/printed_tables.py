"""Tables that a training prints, over several lines: boxes of keys and values, and columns under their names.

    | rollout/           |         |          epoch    train_loss    valid_loss      dur
    |    ep_rew_mean     | 21.5    |        -------  ------------  ------------  -------
    | time/              |         |              1        0.6905        0.6803   0.0190
    |    total_timesteps | 4096    |              2        0.6412        0.6399   0.0171

A box is read when it ends, because its step may stand in its last line. A column counts only if each number stands
under its name: with bars by number, without by place.
"""

from __future__ import annotations

import re
from itertools import pairwise

from txlab.runs.printed import LONGEST_LINE, Printed, counter_in, is_of_training, read_line, read_number

MOST_ROWS = 200  # of a box
PATIENCE = 5  # lines of something else between two rows of columns
_BARS = "|│┃║"
_RULE = re.compile(r"[\s|│┃║+=\-─━═┄╌┌┐└┘├┤┬┴┼┏┓┗┛┣┫┳┻╋╇╈╡╞╪╒╕╘╛╔╗╚╝╠╣╦╩╬╭╮╰╯]{3,}")
_BAR = re.compile(f"[{_BARS}]")
_CELL = re.compile(r"\S+(?: \S+)*")  # two spaces or a tab end it
_COMMAS = re.compile(r"[^\s,|]+(?:, ?[^\s,|]*)+")
_CLOCK = re.compile(r"\d+(?::\d\d)+")
_COLUMN = re.compile(r"[^\W\d][^:=|]*")
_NUMBER_IN = re.compile(r"(?:^|\s)[-+.\d]+(?:\s|$)")
_FRACTION = re.compile(r"(\d+)/(\d+)")


class Lines:
    """Reads the lines of one program in their order: what tables say, and what `read_line` reads in all others."""

    def __init__(self) -> None:
        self.box: list[tuple[str, str]] = []  # rows of a box that has not ended
        self.columns: list[Cell] = []  # the names of columns, and where they stand
        self.others = 0  # lines since the last row of columns

    def read(self, line: str) -> list[Printed]:
        """What is complete with this line, which has no escape sequences and not its end."""
        line = line[:LONGEST_LINE]
        if _RULE.fullmatch(line):
            return self.rest() if self.box else []
        whole = line.strip()
        if whole[:1] in _BARS and (row := self._boxed(whole)) is not None:
            key, value = row
            found = (
                self.rest() if len(self.box) >= MOST_ROWS or any(key == known.strip() for known, _ in self.box) else []
            )
            inside = whole[1:].startswith("  ")
            self.box.append((f" {key}" if inside else key, value))
            return found
        found = self.rest() if self.box else []
        if (said := self.peek(line) if self.columns else read_line(line)) is not None:
            found.append(said)
        numbers = said is not None and bool(said.values)
        parted = "  " in whole or "\t" in whole or " " not in whole.partition(",")[0] or _BAR.search(whole) is not None
        if parted and not numbers and is_head(cells := cells_of(line)):
            self.columns, self.others = cells, 0
        elif self.columns and whole:
            self.others = 0 if numbers else self.others + 1
            self.columns = self.columns if self.others <= PATIENCE else []
        return found

    def peek(self, line: str) -> Printed | None:
        """What a line says that may not have ended."""
        row = self._row(cells_of(line), line) if self.columns else None
        return row if row is not None else read_line(line)

    def rest(self) -> list[Printed]:
        """What the rows of a box say that has ended."""
        rows, self.box = self.box, []
        section = ""
        values: dict[str, str] = {}
        for key, value in rows:
            name = "_".join(key.split())
            if not value and name.endswith("/"):
                section = name
            elif value:
                values[f"{section}{name}" if key.startswith(" ") else name] = value
        said = of_cells(values)
        return [said] if said is not None else []

    def _boxed(self, line: str) -> tuple[str, str] | None:
        """The key and the value of a row of a box."""
        if line[-1:] not in _BARS or len(cells := cells_of(line)) != 2:
            return None
        (key, _, _), (value, _, _) = cells
        known = not value or read_number(value) is not None
        return (key, value) if key and read_number(key) is None and (known or self.box) else None

    def _row(self, cells: list[Cell], line: str) -> Printed | None:
        """What a line says whose numbers stand under the names of columns."""
        if len(cells) != len(self.columns) or not all(is_like_a_number(text) for text, _, _ in cells):
            return None
        apart = (end < low or start > high for (_, start, end), (_, low, high) in zip(cells, self.columns, strict=True))
        if line.strip()[:1] not in _BARS and any(apart):
            return None
        names = ("_".join(re.sub(r"[()]", " ", name).split()) for name, _, _ in self.columns)
        return of_cells({name: text for name, (text, _, _) in zip(names, cells, strict=True) if name})


Cell = tuple[str, int, int]  # its text, and where that begins and ends


def cells_of(line: str) -> list[Cell]:
    """The cells of a line: between bars or commas, perhaps empty, else what two spaces or a tab part; a progress bar is
    none."""
    if "%|" in line and not (line := line[: line.index("%|")].rpartition(":")[0]):
        return []
    if "," in line and _COMMAS.fullmatch(line.strip()):
        return [(text.strip(), 0, len(line)) for text in line.split(",")]
    bars = [found.start() for found in _BAR.finditer(line)]
    if len(bars) < 2:
        return [(found[0], found.start(), found.end()) for found in _CELL.finditer(line.expandtabs(8))]
    return [(line[low + 1 : high].strip(), low + 1, high) for low, high in pairwise(bars)]


def is_head(cells: list[Cell]) -> bool:
    """Whether cells are names of columns, one of them of a quantity of training."""
    if len(cells) < 2:
        return False
    names = [text for text, _, _ in cells]
    texts = all(len(name) <= 40 and _COLUMN.fullmatch(name) and not _NUMBER_IN.search(name) for name in names)
    return texts and len(set(names)) == len(names) and any(map(is_of_training, names))


def is_like_a_number(text: str) -> bool:
    if text in ("", "-", "all") or _CLOCK.fullmatch(text) or _FRACTION.fullmatch(text):
        return True
    return read_number(text) is not None


def of_cells(cells: dict[str, str]) -> Printed | None:
    """What named cells say; the step is the one of their counters that RL or training go by."""
    values: dict[str, float] = {}
    unclear: list[str] = []
    steps: dict[str, tuple[int, int]] = {}
    epoch, epochs = None, 0
    for name, text in cells.items():
        last = name.rpartition("/")[2].lower()
        fraction = _FRACTION.fullmatch(text)
        number = float(fraction[1]) if fraction else read_number(text)
        if number is None:
            if re.fullmatch(r"[-+]?\d[\d.,]*", text):
                unclear.append(name)
        elif last in ("epoch", "epochs"):
            epoch, epochs = number, int(fraction[2]) if fraction else 0
        elif counter_in(last) and number == number and 0 <= number < 2**62 and number == int(number):
            steps[last] = int(number), int(fraction[2]) if fraction else 0
        elif fraction is None:
            values[name] = number
    if not (values or unclear) or not (steps or epoch is not None or any(map(is_of_training, [*values, *unclear]))):
        return None
    if not steps and epoch is not None and 0 <= epoch == int(epoch):
        steps["epoch"] = int(epoch), epochs
    counter = max(steps, key=lambda name: ("total" in name, steps[name][0]), default="")
    n, total = steps.get(counter, (0, 0))
    return Printed(values, counter, n, total, epoch, epochs, unclear=tuple(unclear))
