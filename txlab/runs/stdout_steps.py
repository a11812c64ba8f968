"""Output of a program → numbers at steps of the run: its lines in order, and the rule that chooses their steps.

Notable: a bar that is redrawn in place is a line for each carriage return or movement of the cursor. The last one is
read as soon as the output pauses, or the last state of a bar would wait for the next one. Numbers without a step wait
just as long, because a bar that is redrawn right after them (as by tqdm.write) gives their step.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from txlab.runs.counters import rank_of
from txlab.runs.stdout_parser import LONGEST_LINE, MOST_FORMS, ParsedLine, plain
from txlab.runs.stdout_tables import Lines

MOST_UNREAD = 200  # forms of lines that are kept until one is read
LONGEST_SHOWN = 200  # characters of one
MOST_HELD = 100  # lines after a step that went back, until another step confirms it
AMBIGUOUS = "its number may be read in two ways, as 1,234 may, it is cut off, or there are two of that name"
STEPLESS = "it has no step in this line, as it had in others"
UNCONFIRMED = "its step is before the last one, and no other line confirms that the training went back"
_DECIMAL = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w.])")
_END = re.compile(r"\r\n|[\n\r]|\x08+|\x1b\[\d*[ABEFGHf]|\x1b\[\d+;\d+[Hf]|\x1b\[2[JK]")


@dataclass(frozen=True)
class Placed:
    """The values of a line at a step of the run; `steps` and `left` (seconds) are 0 and None where unknown.

    rewind  the step to which the training went back before these values, as one that was resumed does
    unclear what is left out, by name, and why
    """

    step: int
    values: dict[str, float]
    steps: int = 0
    left: float | None = None
    awaits: bool = False  # the line had no step; a bar drawn right after it may provide one
    rewind: int | None = None
    is_bar: bool = False
    epoch: float | None = None
    is_lost: bool = False  # a line was cut that may have had the step of values that wait
    unclear: dict[str, str] = field(default_factory=dict)


@dataclass
class _Counter:
    """A count that may restart; `before` is the sum of the earlier rounds, `first` the first number of this one."""

    last: int = -1
    first: int = 0
    total: int = 0
    before: int = 0
    stream: int = 0
    widest: int = 1  # the largest difference between two numbers
    epoch: float | None = None
    has_values: bool = False  # whether values have been placed by it

    def count(self, line: ParsedLine) -> int:
        """The number of steps of all rounds. A round begins where the count restarts, and where it is complete again
        in a later epoch."""
        later = line.epoch is not None and self.epoch is not None and line.epoch > self.epoch
        if line.n < self.last or (later and line.n == self.last):
            rounds = int(line.epoch - self.epoch) if later and line.epoch is not None and self.epoch is not None else 1
            self.before += self.total * max(1, rounds) or self.last + (self.first == 0)
            self.first = line.n
        elif self.last < 0:
            self.first = line.n
        self.widest = max(self.widest, line.n - self.last if self.last >= 0 else 0)
        self.last, self.total, self.stream = line.n, line.total, line.stream
        self.epoch = self.epoch if line.epoch is None else line.epoch
        return self.before + line.n

    def is_late(self, line: ParsedLine) -> bool:
        """Whether an earlier step arrives late, because it was printed on another stream."""
        return line.stream != self.stream and 0 <= line.n < self.last and rank_of(line.counter) > 0

    def goes_back(self, line: ParsedLine) -> bool:
        """Whether a printed step is before the last one without being a restart."""
        return line.counter not in ("bar", "fraction") and line.n < self.last and line.n not in (0, 1, self.first)

    @property
    def over(self) -> bool:
        return 0 < self.total <= self.last


Key = tuple[str, str, int]  # the part of the training, what is counted, and to which total if it is a place in a bar


class Steps:
    """Places lines, in their order.

    One counter leads, and all values are at its step: a total of the whole training before a count of steps, that
    before a place in a bar or a fraction, a longer bar before a shorter one, the training's before an evaluation's. All
    counts of steps are synonyms ("step 100: …", then "iter 110: …"), unless one line has two of them; a total that is
    equal to them is one too. A bar that was full before any value was printed (a download, the preparation of data) is
    replaced by the next. Without counters, the epoch is the step, or the number of different epochs if they have
    fractions, or the number of lines of a form.
    """

    def __init__(self) -> None:
        self.counters: dict[Key, _Counter] = {}
        self.forms: dict[frozenset[str], int] = {}
        self.epochs_seen: dict[float, int] = {}
        self.aliases = True  # whether counts of steps are synonyms
        self.agrees = False  # whether a count of the whole training leads that was the same as that of the steps
        self.leading: Key | None = None
        self.step = -1  # -1 = no line has had a step
        self.steps = 0
        self.epochs = 0
        self.epoch: float | None = None
        self.sources: dict[str, str] = {}  # what counted the steps of a name when it came first
        self.lost = False  # whether a line was cut that may have had a step
        self.held: list[ParsedLine] = []

    def place(self, line: ParsedLine) -> Iterator[Placed]:
        """The values of this line, and of those that were held, at their steps."""
        if not self.held:
            yield from self._place(line)
            return
        counter = self.counters.get(self.leading) if self.leading else None
        if counter is None or not line.counter or self._key(line) != self.leading:
            self.held.append(line)
            if len(self.held) > MOST_HELD:
                yield from self.rest()
            return
        held, self.held = self.held, []
        if held[0].n <= line.n <= held[0].n + counter.widest:
            self.step = max(0, counter.before + held[0].n - 1)
            counter.last = held[0].n - 1
            yield Placed(self.step, {}, rewind=self.step)
            for each in (*held, line):
                yield from self._place(each)
            return
        yield self._unconfirmed(held)
        yield from self._place(line)

    def rest(self) -> Iterator[Placed]:
        """What is held at the end of the output."""
        held, self.held = self.held, []
        if held:
            yield self._unconfirmed(held)

    def _unconfirmed(self, held: list[ParsedLine]) -> Placed:
        return Placed(max(0, self.step), {}, unclear={name: UNCONFIRMED for each in held for name in each.values})

    def _place(self, line: ParsedLine) -> Iterator[Placed]:
        if line.is_weak and self.step < 0:
            return
        if line.is_lost and self.leading is not None and (not line.counter or self._key(line) != self.leading):
            self.lost = True
            yield Placed(max(0, self.step), {}, is_lost=True)
        unclear = dict.fromkeys(line.unclear, AMBIGUOUS)
        self.epochs = line.epochs or self.epochs
        self.epoch = self.epoch if line.epoch is None else line.epoch
        line = replace(line, epoch=self.epoch) if line.counter == "fraction" else line
        line, missed = self._with_steps(line)
        unclear |= dict.fromkeys(missed, STEPLESS)
        if line.counter:
            self.aliases &= not (line.twice and rank_of(line.counter) == 2)
            key = self._key(line)
            if key not in self.counters and len(self.counters) >= MOST_FORMS:
                self.counters.clear()
                self.leading = None
            counter = self.counters.setdefault(key, _Counter())
            if key == self.leading and counter.is_late(line):
                yield Placed(counter.before + line.n, line.values, unclear=unclear)
                return
            if key == self.leading and counter.goes_back(line):
                self.held.append(line)
                return
            step = counter.count(line)
            if self._leads(key):
                self.step = max(self.step, step)
                self.steps = self._steps(line, counter)
                counter.has_values |= bool(line.values)
                if rank_of(line.counter) == 3 and (steps := self.counters.get(("", "step", 0))) is not None:
                    self.agrees = steps.last == line.n or (self.agrees and steps.last < line.n)
                left = self._left(line, counter)
                is_bar = line.counter == "bar"
                yield Placed(self.step, line.values, self.steps, left, is_bar=is_bar, epoch=line.epoch, unclear=unclear)
                return
            if key[1] == "step" and self.agrees and not counter.before:
                self.step = max(self.step, step)
        if self.step >= 0:
            if line.values and self.leading in self.counters:
                self.counters[self.leading].has_values = True
            yield Placed(
                self.step,
                line.values,
                self.steps,
                awaits=not (line.counter or line.follows),
                epoch=line.epoch,
                unclear=unclear,
            )
        elif line.epoch is not None and line.epoch >= 0:
            yield Placed(self._epoch(line.epoch), line.values, line.epochs, unclear=unclear)
        else:
            form = frozenset(line.values)
            if form not in self.forms and len(self.forms) >= MOST_FORMS:
                self.forms.clear()
            self.forms[form] = self.forms.get(form, -1) + bool(form)
            yield Placed(max(0, self.forms[form]), line.values, unclear=unclear)

    def _with_steps(self, line: ParsedLine) -> tuple[ParsedLine, list[str]]:
        """The line with the values whose step is certain, and the names of the others: names that came with a counter,
        or in the lines under a bar, and now without; and all that have none while the step is lost."""
        counter = self.counters.get(self.leading) if self.leading else None
        key = line.part or (self._key(line)[1] if line.counter else "follows" if line.follows else "")
        if self.lost and counter is not None:
            forward = line.counter and self._key(line) == self.leading and line.n > counter.last
            later = line.epoch is not None and (counter.epoch is None or line.epoch > counter.epoch)
            self.lost = line.is_lost or not (forward or later)
        missed = [
            name
            for name in line.values
            if self.lost or (self.sources.get(name, "") not in ("", key) and not self._is_known(key))
        ]
        self.lost |= any(self.leading is not None and self.sources.get(name) == self.leading[1] for name in missed)
        for name in line.values:
            self.sources.setdefault(name, key)
        kept = {name: value for name, value in line.values.items() if name not in missed}
        return (replace(line, values=kept) if missed else line), missed

    def _is_known(self, name: str) -> bool:
        """Whether a counter of this name is the one that leads, or as certain."""
        return self.leading is not None and rank_of(name) >= rank_of(self.leading[1]) and name not in ("", "follows")

    def _epoch(self, epoch: float) -> int:
        """The step of lines that have an epoch only."""
        if not self.epochs_seen and epoch == int(epoch):
            return int(epoch)
        if epoch not in self.epochs_seen:
            self.epochs_seen[epoch] = max(self.epochs_seen.values(), default=-1) + 1
            if len(self.epochs_seen) > MOST_FORMS:
                del self.epochs_seen[next(iter(self.epochs_seen))]
        return self.epochs_seen[epoch]

    def _key(self, line: ParsedLine) -> Key:
        rank = rank_of(line.counter)
        of_part = "" if rank > 2 else line.part
        name = "step" if (rank == 2 or line.counter == "line") and self.aliases else line.counter
        return of_part, name, line.total if line.counter in ("bar", "fraction") else 0

    def _leads(self, key: Key) -> bool:
        if key != self.leading:
            leading = self.leading or ("", "", 0)
            before = self.counters.get(leading)
            if before is None or ((before.over or leading[0]) and not before.has_values and not key[0]):
                self.step = -1
            elif _rank(key) <= _rank(leading):
                return False
            self.leading = key
        return True

    def _steps(self, line: ParsedLine, counter: _Counter) -> int:
        """The total number of steps: that of the count, times the epochs if it restarts in each; 0 = unknown."""
        if line.counter in ("bar", "fraction") and line.total:
            return max(line.total * max(1, self.epochs), counter.before + line.total)
        return line.total

    def _left(self, line: ParsedLine, counter: _Counter) -> float | None:
        """Seconds left: those of the bar, and the duration of a round for each further round."""
        if line.left is None or not line.n < line.total:
            return None
        rounds = (self.steps - counter.before) / line.total - 1
        return line.left * (1 + rounds * line.total / (line.total - line.n))


def _rank(key: Key) -> tuple[bool, int, int]:
    return not key[0], rank_of(key[1]), key[2]


@dataclass
class _Stream:
    """What has been printed on one stream since the last end of a line."""

    decode: Callable[[bytes], str] = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace").decode
    )
    rest: str = ""  # the line that has not ended
    peeked: str = ""  # the part of it that has been read
    skips: bool = False  # whether it was too long, so that its end is skipped


class Output:
    """Reads a program's output piece by piece; `ended` receives the lines that a line feed ended, as plain text."""

    def __init__(self, lines: Lines | None = None) -> None:
        self.lines, self.places = lines or Lines(), Steps()
        self.ended: list[str] = []
        self.unread: (
            dict[str, tuple[int, str]] | None
        ) = {}  # lines with numbers before the first that was read, by form
        self._streams: dict[int, _Stream] = {}
        self._waiting: Placed | None = None  # numbers without a step
        self._moves = False  # whether such numbers got the step of a later bar

    def feed(self, data: bytes, stream: int = 0) -> Iterator[Placed]:
        """Take the next piece of output; `stream` tells standard output from standard error where they are apart."""
        source = self._streams.setdefault(stream, _Stream())
        text = source.rest + source.decode(data)
        at = 0
        for end in _END.finditer(text):
            if end.end() == len(text) and end[0] == "\r":
                break  # perhaps half of \r\n
            yield from self._line(text[at : end.start()], end[0].endswith("\n"), source, stream)
            at = end.end()
        source.rest = text[at:]
        if len(source.rest) > LONGEST_LINE:
            yield from self._line(source.rest, False, source, stream)
            source.rest, source.skips = "", True

    def idle(self) -> Iterator[Placed]:
        """Process pending output; to be called when there has been none for a moment."""
        for source in self._streams.values():
            if source.rest != source.peeked and not source.skips:
                line = plain(source.rest)
                row = self.lines.peek(line)
                if row is not None and ("%|" in line or row.counter in ("bar", "fraction")):  # others may not be whole
                    yield from self._take(row)
                    source.peeked = source.rest
        yield from self._settle()

    def close(self) -> Iterator[Placed]:
        """Process the rest. A line that no line feed ended may have been cut."""
        for stream, source in self._streams.items():
            if source.rest:
                yield from self._line(source.rest, True, source, stream, is_last=True)
                source.rest = ""
        for row in self.lines.rest():
            yield from self._take(row)
        if self._waiting is not None and self._moves and self._waiting.step < self._waiting.steps:
            self._waiting = _without_step(self._waiting)  # no bar came that would give its step
        yield from self._settle()
        yield from self.places.rest()

    def _line(self, line: str, ended: bool, source: _Stream, stream: int, is_last: bool = False) -> Iterator[Placed]:
        known, source.peeked = source.peeked.rstrip("\r"), ""
        line = plain(line)
        skips, source.skips = source.skips, source.skips and not ended
        if skips:
            return
        if ended:
            self.ended.append(line)
        if line != plain(known):
            rows = self.lines.read(line, is_last)
            if self.unread is not None:
                self._look_at(line, any(row.values for row in rows))
            for row in rows:
                yield from self._take(replace(row, stream=stream) if stream else row)

    def _look_at(self, line: str, is_read: bool) -> None:
        """Keep lines with decimals that were not read, until one is."""
        if is_read and self.places.step >= 0:
            self.unread = None
        elif self.unread is not None and _DECIMAL.search(line):
            form = re.sub(r"[\d.]+", "0", line)[:LONGEST_LINE]
            if form in self.unread or len(self.unread) < MOST_UNREAD:
                self.unread[form] = self.unread.get(form, (0, ""))[0] + 1, line[:LONGEST_SHOWN]

    def likeliest(self) -> list[str]:
        """The lines that look most like those of a training, of an output in which nothing was read: with decimals, and
        printed most often."""
        forms = sorted((self.unread or {}).values(), key=lambda each: -each[0])
        return [line for _, line in forms[:3]]

    def _take(self, row: ParsedLine) -> Iterator[Placed]:
        for placed in self.places.place(row):
            if self._waiting is not None:
                later = placed.epoch is not None and self._waiting.epoch not in (None, placed.epoch)
                if placed.is_lost:
                    self._waiting = _without_step(self._waiting)
                elif placed.is_bar and not placed.values and placed.step > self._waiting.step and not later:
                    self._waiting, self._moves = replace(self._waiting, step=placed.step), True
                yield from self._settle()
            if placed.awaits and placed.values:
                self._waiting = placed
            else:
                yield placed

    def _settle(self) -> Iterator[Placed]:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            yield waiting


def _without_step(placed: Placed) -> Placed:
    return replace(placed, values={}, unclear=placed.unclear | dict.fromkeys(placed.values, STEPLESS))


def pattern_for(line: str) -> str:
    """A pattern that reads the first decimal of a line, with the word before it as its name.

    >>> pattern_for("round 3 of 9, objective at 0.4213 now")
    'objective at (?P<objective>\\\\S+)'
    """
    number = _DECIMAL.search(line)
    before = line[: number.start()] if number else ""
    words = re.search(r"([^\W\d][\w-]*)[^\w]*(?:\b(?:at|is|of|to)\b\s*)?$", before)
    if words is None:
        return r"(?P<loss>\d+\.\d+)"
    name = re.sub(r"\W", "_", words[1])
    return re.sub(r"\\([ -])", r"\1", re.escape(words[0])) + rf"(?P<{name}>\S+)"


def rows_of(data: bytes, lines: Lines | None = None) -> list[tuple[int, dict[str, float]]]:
    """The rows of a whole output: (step, values). Rows that a resumed training repeats are dropped.

    >>> rows_of(b"step 1 loss 0.5\\nval loss 0.7\\n")
    [(1, {'loss': 0.5}), (1, {'val_loss': 0.7})]
    """
    output, rows = Output(lines), list[tuple[int, dict[str, float]]]()
    for each in (output.feed(data), output.close()):
        for placed in each:
            if placed.rewind is not None:
                rows = [row for row in rows if row[0] <= placed.rewind]
            if placed.values and rows[-1:] != [(placed.step, placed.values)]:
                rows.append((placed.step, placed.values))
    return rows
