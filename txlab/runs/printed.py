"""What a training script prints, read as numbers: progress bars, dictionaries, JSON, `step 10 loss 0.3`, `key=value`.

`read_line` reads one line; `Steps` says at which step of the run its numbers stand. Both are pure.

A line counts if it names a quantity of training (LOSSES … below) beside its number, or says a step or an epoch and has
`key=value` or `key: value`, or consists of such pairs alone; then all its pairs count. Numbers in sentences, times,
dates, versions, addresses and paths are not values, because a value ends where a word ends.

The step is, in this order:
1. what is printed as step, iteration, update, episode … (`step 10/500`, `global_step=3`);
2. the position in a bar or a fraction (`45/100 [00:10<00:12`, `[640/60000 (1%)]`); where it begins anew, as in each
   epoch, counting goes on;
3. of a line with neither, that of the bar on the screen or of the line before, if there was one;
4. the epoch, if that is all that is printed;
5. how many lines of this form have come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from txlab.runs.loop_values import flattened

LONGEST_LINE = 4000  # characters that are looked at
MOST_VALUES = 100  # of a line
MOST_FORMS = 1000  # kinds of lines that are counted

# Parts of names that are quantities of training.
LOSSES = (
    "loss|nll|ppl|perplexity|bpb|bpc|bits_per|cross_entropy|xent|elbo|kl_?div|entropy|mse|mae|rmse|error_rate|wer|cer"
)
SCORES = "acc|accuracy|auc|bleu|rouge|map|iou|dice|psnr|ssim|fid|f1|precision|recall|reward|return|rew_mean|score|elo"
OTHERS = "lr|learning_rate|grad|norm|mfu|tps|tok|tokens|throughput"
_TRAINING = re.compile(
    rf"(?:^|[_/.\s@-])(?:{LOSSES}|{SCORES}|{OTHERS})(?:$|[_/.\s@\d-])|loss|acc(?:uracy)?$|rmse$|ppl$", re.I
)

# Words that belong to a name where they stand before it: "val loss", "learning rate".
_BEFORE = (
    "train|training|val|valid|validation|test|eval|evaluation|dev|avg|average|mean|running|total|best|final|smoothed"
    "|lm|learning|grad|gradient|epoch|batch|global|cur|current|last|min|max|episode|episodic|policy|value|weight"
)
_IGNORED = re.compile(  # what is no quantity though a number stands beside it
    r"eta|pid|port|seed|(?:local_)?rank|world_size|version|line|id|at|date|gpu|device|v_num|time_left|remaining|elapsed"
    r"|it|(?:train_)?(?:step|epoch)s?|iter(?:ation)?s?|global_step|(?:num_)?updates?|batch|ep(?:isode)?|(?:total_)?timesteps",
    re.I,
)

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]"
)
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)"
_ENDS = r"(?=$|[\s,;|()\[\]}'\"]|\.(?:\s|$))"
_PAIR = re.compile(
    rf"(?<![\w./\\@-])(?P<name>(?:(?:{_BEFORE})[ _]){{0,3}}[A-Za-z_][\w./@'-]{{0,60}}?)"
    rf"(?:\s?\([^()\s]{{1,6}}\))?['\"]?(?P<sign>\s*[:=]\s*|\s+)['\"]?"
    rf"(?P<value>{_NUMBER})(?:/(?P<of>\d+))?(?P<unit>\s?%|[A-Za-zµ/]{{0,7}}){_ENDS}",
    re.I,
)
_STEP = re.compile(
    r"(?<![\w/.-])(?P<what>global[_ ]step|num_updates|total_timesteps|time_?steps?|train_steps?|steps?|iters?"
    r"|iterations?|updates?|batch|episodes?|ep|it(?=\s*[:=]))"
    r"['\"]?\s*[:=#]?\s*\[?\s*(?P<n>\d[\d,]*)(?:\s*(?:/|of)\s*(?P<total>\d[\d,]*))?(?![\w]|\.\d|\s*%)",
    re.I,
)
_EPOCH = re.compile(
    r"(?<![\w/.-])epochs?(?:\(\w+\))?['\"]?\s*[:=#]?\s*['\"]?[\[(]?\s*(?P<n>\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(?P<total>\d+))?(?![\w]|\.\d)",
    re.I,
)
_BAR = re.compile(
    r"(?P<head>[^|\r\n]{0,200}?)(?P<percent>\d{1,3})%\|[^|]{0,300}\|\s*(?P<n>[\d.]+[kMGT]?)/(?P<total>[\d.]+[kMGT]?)"
    r"\s*\[(?P<spent>[\d:]+)<(?P<left>[\d:?]+)(?:,\s*(?P<rest>[^\]]*))?\]?"
)
_COUNT = re.compile(r"(?P<head>[^|\r\n]{0,200}?)(?<![\w.])(?P<n>\d+)it \[(?P<spent>[\d:]+)(?:,\s*(?P<rest>[^\]]*))?\]")
_FRACTION = re.compile(r"(?<![\w./:-])(?P<n>\d+)\s*/\s*(?P<total>\d+)(?![\w./:-])(?!\s+\d+:\d\d)")
_LEADING = re.compile(r"\s*(?:\[(?P<a>\d+)\]\s|(?P<b>\d+):\s)")
_CALL = re.compile(r"\w\(\w+=[^()]*\)?")  # the settings of an object: Namespace(epochs=5, lr=0.1)
_HINT = re.compile(r"\d|nan|inf", re.I)
_SCALE = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Printed:
    """What one line says.

    counter   what `n` counts: "step", "iter" …, "bar", "fraction", "line"; "" = there is no n
    total     how far that goes, 0 = unknown; epoch and epochs likewise
    left      seconds that a bar says are left
    """

    values: dict[str, float] = field(default_factory=dict)
    counter: str = ""
    n: int = 0
    total: int = 0
    epoch: float | None = None
    epochs: int = 0
    left: float | None = None


def plain(line: str) -> str:
    """The line without escape sequences and control characters.

    >>> plain("\\x1b[32mloss\\x1b[0m: 0.5\\x07")
    'loss: 0.5'
    """
    return _ESCAPES.sub("", line)


def read_line(line: str) -> Printed | None:
    """Read one line, without its end and without escape sequences; None if it says nothing of the training.

    >>> read_line("step 10/500 | loss 0.3 | lr 1e-4")
    Printed(values={'loss': 0.3, 'lr': 0.0001}, counter='step', n=10, total=500, epoch=None, epochs=0, left=None)
    >>> read_line("Loaded 50000 images from 3 folders at 10:31:02")
    """
    line = line[:LONGEST_LINE]
    if not _HINT.search(line):
        return None
    if "%|" in line and (found := _BAR.search(line)):
        return _of_bar(found, float(_scaled(found["total"])), found["left"])
    if "it [" in line and (found := _COUNT.search(line)):
        return _of_bar(found, 0.0, "?")
    if "(" in line:
        line = _CALL.sub(" ", line)
    stripped = line.strip()
    if stripped.startswith("{") and stripped.endswith("}") and (said := _of_json(stripped)) is not None:
        return said
    step, epoch = _STEP.search(line), _EPOCH.search(line)
    leading = _LEADING.match(line)
    placed = step is not None or epoch is not None or leading is not None
    values, covered = _pairs(line, placed)
    if not values and not (placed and epoch is not None and len(stripped) < 40):
        return None
    counter, n, total = "", 0, 0
    if step is not None:
        counter, n, total = step["what"].lower(), _whole(step["n"]), _whole(step["total"])
    elif (fraction := _free_fraction(line, epoch, covered)) is not None:
        counter, n, total = "fraction", int(fraction["n"][:18]), int(fraction["total"][:18])
    elif leading is not None:
        counter, n = "line", int((leading["a"] or leading["b"])[:18])
    return Printed(values, counter, n, total, *_epoch(epoch))


def _of_bar(found: re.Match[str], total: float, left: str) -> Printed:
    """A progress bar of tqdm, with what was added to it (set_postfix) and the epoch in its description."""
    values, _ = _pairs((found["rest"] or "").partition(", ")[2] + " ", True)
    return Printed(
        values, "bar", int(_scaled(found["n"])), int(total), *_epoch(_EPOCH.search(found["head"])), _clock(left)
    )


def _of_json(line: str) -> Printed | None:
    """An object of JSON, or a dictionary of Python as transformers' Trainer prints it; nested ones with their path."""
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError:
        said = {}
        for found in _PAIR.finditer(line):
            said.setdefault(found["name"].strip("'"), _value(found))
        if not said or not re.match(r"\{\s*['\"]", line):
            return None
    values: dict[str, float] = {}
    counter, n, epoch = "", 0, None
    for name, value in flattened(said, deepest=4):
        number = _number(value)
        if number is None:
            continue
        last = name.rpartition(".")[2].lower()
        if _STEP.fullmatch(f"{last} 1") and number == number and 0 <= number < 2**62 and number == int(number):
            if not counter:
                counter, n = last, int(number)
        elif last == "epoch":
            epoch = number
        elif not _IGNORED.fullmatch(last) and len(values) < MOST_VALUES:
            values[name] = number
    if not values or not (counter or epoch is not None or any(map(is_of_training, values))):
        return None
    return Printed(values, counter, n, epoch=epoch)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str) and not re.fullmatch(_NUMBER, value.strip(), re.I):
        return None
    try:
        return float(value.replace(",", "") if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        return None


def is_of_training(name: str) -> bool:
    """Whether a name is that of a quantity of training.

    >>> is_of_training("val_loss"), is_of_training("Acc@1"), is_of_training("files")
    (True, True, False)
    """
    return _TRAINING.search(name) is not None


def _pairs(line: str, placed: bool) -> tuple[dict[str, float], list[tuple[int, int]]]:
    """The values of a line by name, and where they stand; {} if the line is not about training."""
    found: dict[str, float] = {}
    covered: list[tuple[int, int]] = []
    told = counts = bare = 0
    free = 0  # where the last match ended
    for each in _PAIR.finditer(line):
        name, start, end = each["name"], *each.span()
        sure = is_of_training(name)
        if not each["sign"].strip():  # "loss 0.3": only for a known quantity, and not in the middle of a sentence
            gap = line[free:start].strip(" \t")
            if not sure or (gap and gap[-1] not in ",;|:])>-" and not _STEP.search(line[max(0, start - 24) : start])):
                continue
        free = end
        covered.append((start, end))
        key = "_".join(name.strip("'").split())
        if _IGNORED.fullmatch(key) or len(found) >= MOST_VALUES:
            continue
        value = _value(each)
        if value is None:
            continue
        found.setdefault(key, value)
        told += sure
        counts += bool(each["sign"].strip())
        bare += end - start
    if found and not told and not (placed and counts):
        alone = len(found) > 1 and bare + 2 * len(found) >= len(line.strip()) and line.lstrip()[:1] not in "#/"
        if not alone:
            return {}, covered
    return found, covered


def _value(found: re.Match[str]) -> float | None:
    """The number of a pair, scaled by its unit: 1.2k is 1200, 9830/10000 is 0.983."""
    value = float(found["value"].replace(",", ""))
    if found["of"]:
        whole = float(found["of"])
        return value / whole if whole else None
    unit = found["unit"].strip()
    return value * _SCALE[unit] if unit in _SCALE else value


def _scaled(told: str) -> float:
    unit = _SCALE.get(told[-1:], 1.0)
    try:
        return min(float(told.rstrip("kMGT")) * unit, 2.0**53)
    except ValueError:  # "1.2.3"
        return 0.0


def _whole(told: str | None) -> int:
    return int(told.replace(",", "")[:18] or 0) if told else 0


def _epoch(found: re.Match[str] | None) -> tuple[float | None, int]:
    return (float(found["n"][:18]), _whole(found["total"])) if found else (None, 0)


def _free_fraction(line: str, epoch: re.Match[str] | None, covered: list[tuple[int, int]]) -> re.Match[str] | None:
    """The first `n/total` that is neither a value nor the epoch."""
    for found in _FRACTION.finditer(line):
        start = found.start()
        inside = any(low <= start < high for low, high in covered) or (epoch and epoch.start() <= start < epoch.end())
        if not inside and int(found["total"][:18]) > 0 and int(found["n"][:18]) <= int(found["total"][:18]):
            return found
    return None


def _clock(told: str) -> float | None:
    """Seconds of "1:02:03"; None of "?"."""
    seconds = 0.0
    for part in told.split(":"):
        if not part.isdecimal():
            return None
        seconds = 60 * seconds + int(part[:9])
    return seconds


@dataclass(frozen=True)
class Placed:
    """The values of a line at a step of the run; `steps` and `left` (seconds) are 0 and None where unknown."""

    step: int
    values: dict[str, float]
    steps: int = 0
    left: float | None = None
    awaits: bool = False  # the line had no step of its own; a bar drawn right after it may know better


@dataclass
class _Counter:
    """A count that may begin anew; `before` is what earlier rounds had reached.

    told  whether values have been placed by it
    """

    last: int = -1
    total: int = 0
    before: int = 0
    told: bool = False

    def count(self, n: int, total: int) -> int:
        if n < self.last:  # a new round
            self.before += self.total if self.total >= self.last else self.last + 1
        self.last, self.total = n, total
        return self.before + n

    @property
    def over(self) -> bool:
        return 0 < self.total <= self.last


Key = tuple[str, int]  # what is counted, and to which total if several bars may be on the screen


class Steps:
    """Places lines, in their order. Steps never go back once values have been placed.

    Of several counters one leads: what is printed as a step before every bar, a longer bar before a shorter one, and a
    bar that was full before any value came (a download, the preparation of data) makes room for the next.
    """

    def __init__(self) -> None:
        self.counters: dict[Key, _Counter] = {}
        self.forms: dict[frozenset[str], int] = {}
        self.leading: Key | None = None
        self.step = -1  # -1 = no line has had a step of its own
        self.steps = 0
        self.epochs = 0

    def place(self, said: Printed) -> Placed:
        self.epochs = said.epochs or self.epochs
        if said.counter:
            key = (said.counter, said.total if said.counter in ("bar", "fraction") else 0)
            if key not in self.counters and len(self.counters) >= MOST_FORMS:
                self.counters.clear()
                self.leading = None
            counter = self.counters.setdefault(key, _Counter())
            step = counter.count(said.n, said.total)
            if self._leads(key):
                self.step = max(self.step, step)
                self.steps = self._steps(said, counter)
                counter.told |= bool(said.values)
                return Placed(self.step, said.values, self.steps, self._left(said, counter))
        if self.step >= 0:
            if said.values and self.leading in self.counters:
                self.counters[self.leading].told = True
            return Placed(self.step, said.values, self.steps, awaits=not said.counter)
        if said.epoch is not None and 0 <= said.epoch == int(said.epoch):
            return Placed(int(said.epoch), said.values, said.epochs)
        form = frozenset(said.values)
        if form not in self.forms and len(self.forms) >= MOST_FORMS:
            self.forms.clear()
        self.forms[form] = self.forms.get(form, -1) + bool(form)
        return Placed(max(0, self.forms[form]), said.values)

    def _leads(self, key: Key) -> bool:
        if key != self.leading:
            before = self.counters.get(self.leading) if self.leading else None
            if before is None or (before.over and not before.told):
                self.step = -1
            elif self.leading is None or _rank(key) <= _rank(self.leading):
                return False
            self.leading = key
        return True

    def _steps(self, said: Printed, counter: _Counter) -> int:
        """The total number of steps: that of the count, times the epochs if it begins anew in each; 0 = unknown."""
        if said.counter in ("bar", "fraction") and said.total:
            return max(said.total * max(1, self.epochs), counter.before + said.total)
        return said.total

    def _left(self, said: Printed, counter: _Counter) -> float | None:
        """Seconds left: what a bar says, and as long again for each round that it does not speak of."""
        if said.left is None or not said.n < said.total:
            return None
        rounds = (self.steps - counter.before) / said.total - 1
        return said.left * (1 + rounds * said.total / (said.total - said.n))


def _rank(key: Key) -> tuple[bool, int]:
    return key[0] not in ("bar", "fraction", "line"), key[1]
