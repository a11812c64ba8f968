"""Printed tables of several lines: boxes of keys and values, and columns under their names.

    | rollout/           |         |          epoch    train_loss    valid_loss      dur
    |    ep_rew_mean     | 21.5    |        -------  ------------  ------------  -------
    | time/              |         |              1        0.6905        0.6803   0.0190
    |    total_timesteps | 4096    |              2        0.6412        0.6399   0.0171

A box is read when it ends, because its step may be in its last line. A column counts only if each number is under its
name: by index with bars, by position without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.runs.counters import counter_in, rank_of
from txlab.runs.stdout_parser import (
    LONGEST_LINE,
    MOST_FORMS,
    THOUSANDS,
    ParsedLine,
    is_of_training,
    is_result,
    read_line,
    read_number,
    zeroed,
)

if TYPE_CHECKING:
    import regex  # imported with the first pattern

MOST_ROWS = 200  # of a box
LONGEST_PATTERN = 1000  # characters
MOST_MATCHED = 1000  # characters of a line that are compared with the user's patterns
LONGEST_MATCH = 0.2  # processor seconds of a pattern on a line: any usual one takes microseconds
ENOUGH_SHAPES = 40  # from which lines that end in a bracket, as bars do, are not added
MOST_SHAPES = 200  # forms of lines that are compared
LONGEST_COMPARED, LONGEST_NUMBER, MOST_NUMBERS = 1000, 40, 50  # of a line whose end may be missing
ENOUGH = 1  # lines by which the decimals of a number are known
LONGEST_HEADING = 30  # characters of the name of an evaluation, alone on its line
PATIENCE = 5  # other lines between two rows of columns
_BARS = "|│┃║"
_CLOSED = f"{_BARS}]}})"  # ends of lines that are whole
_RULE = re.compile(r"(?=.*[^\s|│┃║])[\s|│┃║+=\-─━═┄╌┌┐└┘├┤┬┴┼┏┓┗┛┣┫┳┻╋╇╈╡╞╪╒╕╘╛╔╗╚╝╠╣╦╩╬╭╮╰╯]{3,}")
_BAR = re.compile(f"[{_BARS}]")
_CELL = re.compile(r"\S+(?: \S+)*")  # two spaces or a tab end it
_COMMAS = re.compile(r"[^\s,|]+(?:, ?[^\s,|]*)+")
_CLOCK = re.compile(r"\d+(?::\d\d)+")
_COLUMN = re.compile(r"[^\W\d][^:=|]*|#")
_NUMBER_IN = re.compile(r"(?:^|\s)[-+.\d]+(?:\s|$)")
_PART_ALONE = re.compile(r"(test|val|valid|validation|eval|evaluation)\w*(?: set| error| results?)?\s*:?", re.I)
_DRAWN = re.compile(r"[━╸╺█▏▎▍▌▋▊▉░▒#=| ]{0,200}(?:[━╸╺█▏▎▍▌▋▊▉░▒|]|[#=]{2})[━╸╺█▏▎▍▌▋▊▉░▒#=| ]{0,200}")
_RUNS = re.compile(r"\d+")
_ANY_NUMBER = re.compile(r"\d[\d.,]*(?:[eE][-+]?\d*)?")
_LAST_NUMBER = re.compile(r"\d[\d.,]*(?:[eE][-+]?\d*)?\s*$")
_LAST_WORD = re.compile(r"[^\s\])}]*$")
_FRACTION = re.compile(r"(\d+)/(\d+)")


def compile_patterns(given: Sequence[str]) -> list[regex.Pattern[str]]:
    """The user's patterns, whose named groups are values, or the step: `epoch`, or a name that counts steps.

    Raises LabError for one that is not a regular expression, or has no named group that is a value.
    """
    import regex  # Python's own cannot be stopped while it backtracks

    patterns = []
    for text in given:
        try:
            pattern = regex.compile(text[:LONGEST_PATTERN])
        except (regex.error, RecursionError, OverflowError) as error:
            raise LabError(f"--pattern {text!r} is not a regular expression: {error}") from None
        if len(text) > LONGEST_PATTERN:
            raise LabError(f"--pattern is longer than {LONGEST_PATTERN} characters")
        if all(name == "epoch" or counter_in(name) for name in pattern.groupindex):
            raise LabError(f"--pattern {text!r} names no value: give one as (?P<loss>…), and the step as (?P<step>…)")
        patterns.append(pattern)
    return patterns


class Lines:
    """Reads the lines of one program in order: tables, and by `read_line` all other lines.

    patterns  if given, the only values are those of their named groups; the first that matches a line counts, in its
              first MOST_MATCHED characters. One that takes longer than LONGEST_MATCH is not tried again.
    too_slow  a sentence for each of those
    """

    def __init__(self, patterns: Sequence[regex.Pattern[str]] = ()) -> None:
        self.patterns = list(patterns)
        self.reads_patterns = bool(patterns)
        self.too_slow: list[str] = []
        self.box: list[tuple[str, str]] = []  # rows of a box that has not ended
        self.damaged = False  # whether a row of it cannot be read, as a cut one
        self.columns: list[Cell] = []  # the names of columns, and their positions
        self.others = 0  # lines since the last row of columns
        self.part, self.heads, self.placed, self.kept = "", False, False, 0  # what the next line may continue
        self.forms: set[bytes] = set()  # lines with their digits as zeros
        self.shapes: dict[str, None] = {}  # whole lines, without their digits
        self.decimals: dict[str, tuple[int, int, int]] = {}  # least, most and count, by what precedes a number

    def read(self, line: str, cut: bool = False) -> list[ParsedLine]:
        """The records completed by this line, which is without escape sequences and line end; `cut` = its end may be
        missing."""
        line = line[:LONGEST_LINE]
        if self.reads_patterns:
            return self._match(line)
        if _RULE.fullmatch(line):
            if len(widths := cells_of(line)) == len(self.columns):  # the rule under names shows the widths of columns
                self.columns = [(name, a, b) for (name, _, _), (_, a, b) in zip(self.columns, widths, strict=True)]
            return self.rest() if self.box else []
        if (is_cut := self.is_cut(line)) or cut or len(line) == LONGEST_LINE:
            shorter = _LAST_WORD.sub("", line)
            is_cut |= shorter != line
            line = shorter
        whole = line.strip()
        if whole[:1] in _BARS and (row := self._read_boxed(whole)) is not None:
            key, value = row
            if any((key, value) == (known.strip(), other) for known, other in self.box):
                return []  # drawn again
            full = len(self.box) >= MOST_ROWS or any(key == known.strip() for known, _ in self.box)
            records = self.rest() if full else []
            self.box.append((f" {key}" if whole[1:].startswith("  ") else key, value))
            return records
        self.damaged |= bool(self.box) and whole[:1] in _BARS and whole != ""
        record = self.peek(line) if self.columns else read_line(line)
        if is_cut and "{" in line:
            record = None  # part of a dictionary: the names of its tables are missing
        records = self.rest() if self.box and (not whole or (record and record.counter)) else []
        in_bar = "%|" in line and (record is None or "]" not in line.rpartition("%|")[2])
        if (is_cut and "%|" not in line) or in_bar:
            record = replace(record or ParsedLine(), is_lost=True)
        if record is not None:
            record = self._in_context(record, line)
            records.append(record)
        self._remember(record, whole)
        numbers = record is not None and bool(record.values)
        parted = "  " in whole or "\t" in whole or " " not in whole.partition(",")[0] or _BAR.search(whole) is not None
        if parted and not numbers and is_head(cells := cells_of(line)):
            self.columns, self.others = cells, 0
        elif self.columns and whole:
            self.others = 0 if numbers else self.others + 1
            self.columns = self.columns if self.others <= PATIENCE else []
        return records

    def _match(self, line: str) -> list[ParsedLine]:
        """What the user's patterns read, or else the step of a line."""
        line = line[:MOST_MATCHED]
        match = next(filter(None, map(partial(self._search, line), list(self.patterns))), None)
        record = read_line(line)
        if match is None:
            return [replace(record, values={}, unclear=())] if record is not None and record.counter else []
        given = of_cells({name: text.strip() for name, text in match.groupdict().items() if text is not None})
        if given is None or given.counter or record is None:
            return [] if given is None else [replace(given, is_weak=False)]
        return [replace(record, values=given.values, unclear=given.unclear, is_weak=False)]

    def _search(self, line: str, pattern: regex.Pattern[str]) -> regex.Match[str] | None:
        try:
            return pattern.search(line, timeout=LONGEST_MATCH)
        except TimeoutError:
            self.patterns.remove(pattern)
            self.too_slow.append(
                f"--pattern {pattern.pattern!r} took more than {LONGEST_MATCH:g} s on one line, and was not compared "
                "with the lines after it; two repetitions in a row that can match the same text take so long"
            )
            return None

    def _in_context(self, record: ParsedLine, line: str) -> ParsedLine:
        """The content of a line that continues the one before it: an indented one, or a summary behind an asterisk."""
        if not line.startswith(("  ", " *", "*", "\t")) and not (self.heads and line[:1] == " "):
            return record
        if self.part and not record.part:
            values = {f"{self.part}_{name}": value for name, value in record.values.items()}
            return replace(record, values=values, part=self.part)
        return replace(record, follows=self.placed) if not record.counter else record

    def _remember(self, record: ParsedLine | None, line: str) -> None:
        """Keep what the next line may continue."""
        if not line or (record is not None and record.follows):
            return
        heading = _PART_ALONE.fullmatch(line) if len(line) <= LONGEST_HEADING else None
        if heading is None and record is None and self.part and self.kept < PATIENCE:
            self.kept += 1  # a text between them
            return
        self.part, self.kept = heading[1] if heading else record.part if record is not None else "", 0
        self.heads = heading is not None or (self.heads and self.part != "")
        self.placed = record is not None and not record.values and record.counter == "fraction"

    def is_cut(self, line: str) -> bool:
        """Whether the end of a line is missing: a bracket is open, it is the beginning of another line that ends in the
        middle of a word, or its last number had more decimals in all earlier lines."""
        if not line:
            return False
        if ("{" in line and line.count("{") > line.count("}")) or ("[" in line and line.count("[") > line.count("]")):
            return True
        is_closed = line[-1] in _CLOSED
        if (is_closed and len(self.shapes) >= ENOUGH_SHAPES) or (digits := zeroed(line)) in self.forms:
            return False
        if len(self.forms) >= MOST_FORMS:
            self.forms.clear()
        self.forms.add(digits)
        if len(line) > LONGEST_COMPARED:
            return False
        form = _shape(line)
        is_cut = False
        if is_closed and form in self.shapes:
            return False
        tail = max(0, len(line) - LONGEST_NUMBER)
        if (end := _LAST_NUMBER.search(line, tail)) is not None:
            least, most, count = self.decimals.get(_shape(line[: end.start()]), (0, 0, 0))
            given = _decimals(end[0])
            is_cut = count >= ENOUGH and (given < least if least == most else given < least - 1)
            is_cut |= end[0][-1] in ".,eE+-"
        if form not in self.shapes and form and not is_closed:
            behind = next((known[len(form) :] for known in self.shapes if known.startswith(form)), "")
            is_cut |= behind != "" and (end is None or behind[0] not in " ,;|)]}")
        if len(self.shapes) >= MOST_SHAPES:
            self.shapes.clear()
            self.decimals.clear()
        self.shapes[form] = None
        if is_cut:
            return True
        for number in islice(_ANY_NUMBER.finditer(line), MOST_NUMBERS):
            before = _shape(line[: number.start()])
            least, most, count = self.decimals.get(before, (99, 0, 0))
            given = _decimals(number[0])
            self.decimals[before] = min(least, given), max(most, given), count + 1
        return False

    def peek(self, line: str) -> ParsedLine | None:
        """The content of a line that may be incomplete."""
        if self.patterns:
            return next(iter(self._match(line)), None)
        row = self._row(cells_of(line), line) if self.columns else None
        return row if row is not None else read_line(line)

    def rest(self) -> list[ParsedLine]:
        """The content of a complete box."""
        rows, self.box = self.box if not self.damaged else [], []
        self.damaged = False
        section = ""
        values: dict[str, str] = {}
        for key, value in rows:
            name = "_".join(key.split())
            if not value and name.endswith("/"):
                section = name
            elif value:
                values[f"{section}{name}" if key.startswith(" ") else name] = value
        return [] if (row := _of_training(values)) is None else [row]

    def _read_boxed(self, line: str) -> tuple[str, str] | None:
        """The key and the value of a row of a box."""
        if line[-1:] not in _BARS or len(cells := cells_of(line)) != 2:
            return None
        (key, _, _), (value, _, _) = cells
        known = not value or read_number(value) is not None
        return (key, value) if key and read_number(key) is None and (known or self.box) else None

    def _row(self, cells: list[Cell], line: str) -> ParsedLine | None:
        """The content of a line of numbers under the names of columns."""
        if len(cells) != len(self.columns) or not all(is_like_a_number(text) for text, _, _ in cells):
            return None
        apart = (end < low or start > high for (_, start, end), (_, low, high) in zip(cells, self.columns, strict=True))
        if line.strip()[:1] not in _BARS and any(apart):
            return None
        names = ("_".join(re.sub(r"[()]", " ", name).split()) for name, _, _ in self.columns)
        return _of_training({name: text for name, (text, _, _) in zip(names, cells, strict=True) if name})


Cell = tuple[str, int, int]  # its text, start and end


def _decimals(number: str) -> int:
    return len(re.split("[.,]", number, maxsplit=1)[-1]) if re.search("[.,]", number) else 0


def _shape(line: str) -> str:
    """A line without its digits, the width of its spaces, and the state of its bar."""
    return _DRAWN.sub("|", _RUNS.sub("0", " ".join(line.split())))


def cells_of(line: str) -> list[Cell]:
    """The cells of a line: between bars or commas, possibly empty, else separated by two spaces or a tab; [] for a
    progress bar."""
    if "%|" in line and not (line := line[: line.index("%|")].rpartition(":")[0]):
        return []
    if "," in line and _COMMAS.fullmatch(line.strip()):
        return [(text.strip(), 0, len(line)) for text in line.split(",")]
    bars = [match.start() for match in _BAR.finditer(line)]
    if len(bars) < 2:
        return [(match[0], match.start(), match.end()) for match in _CELL.finditer(line.expandtabs(8))]
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


def _of_training(cells: dict[str, str]) -> ParsedLine | None:
    row = of_cells(cells)
    if row is None or row.counter or row.epoch is not None:
        return row
    return row if any(map(is_of_training, [*row.values, *row.unclear])) else None


def of_cells(cells: dict[str, str]) -> ParsedLine | None:
    """The content of named cells; the step is the counter that is usual in RL or training."""
    values: dict[str, float] = {}
    unclear: list[str] = []
    steps: dict[str, tuple[int, int]] = {}
    epoch, epochs = None, 0
    for name, text in cells.items():
        last = name.rpartition("/")[2].lower()
        fraction = _FRACTION.fullmatch(text)
        if counter_in(last) and THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        if last in ("time", "elapsed") and text.isdecimal():
            continue  # part of a clock
        number = float(fraction[1]) if fraction else read_number(text)
        if number is None:
            if re.fullmatch(r"[-+]?\d[\d.,]*", text):
                unclear.append(name)
        elif last in ("epoch", "epochs") or name == "E":
            epoch, epochs = number, int(fraction[2]) if fraction else 0
        elif counter_in(last) and number == number and 0 <= number < 2**62 and number == int(number):
            steps[last] = int(number), int(fraction[2]) if fraction else 0
        elif fraction is None:
            values[name] = number
    if not (values or unclear):
        return None
    if not steps and epoch is not None and 0 <= epoch == int(epoch):
        steps["epoch"] = int(epoch), epochs
    counter = max(steps, key=lambda name: (rank_of(name) == 3, steps[name][0]), default="")
    n, total = steps.get(counter, (0, 0))
    is_weak = not (steps or epoch is not None or any(map(is_result, values)))
    return ParsedLine(values, counter, n, total, epoch, epochs, unclear=tuple(unclear), is_weak=is_weak)
