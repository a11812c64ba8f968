"""What a training script prints, read as numbers: progress bars, dictionaries, JSON, `step 10 loss 0.3`, `key=value`.

`read_line` reads one line; `Steps` says at which step of the run its numbers stand. Both are pure.

A line counts if it names a quantity of training (LOSSES … below) beside its number, or says a step or an epoch and has
`key=value` or `key: value`, or consists of such pairs alone; then all its pairs count. Numbers in sentences, times,
dates, versions, addresses and paths are not values, because a value ends where a word ends.

All words before a number are its name, back to the value, the bracket or the sign before them: `aux loss: 0.01` is
aux_loss, and `val: loss 0.4` is val_loss. A value whose name is uncertain is left out: never does one quantity become
a point in the curve of another.

The step is, in this order:
1. what is printed as step, iteration, update, episode … (`step 10/500`, `global_step=3`);
2. the position in a bar or a fraction (`45/100 [00:10<00:12`, `[640/60000 (1%)]`); where it begins anew, as in each
   epoch, counting goes on;
3. of a line with neither, that of the bar on the screen or of the line before, if there was one;
4. the epoch, if that is all that is printed;
5. how many lines of this form have come.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from txlab.runs.loop_values import flattened

LONGEST_LINE = 4000  # characters that are looked at
MOST_VALUES = 100  # of a line
MOST_FORMS = 1000  # kinds of lines that are counted, or whose form is kept

# Parts of names that are quantities of training.
LOSSES = (
    "loss|nll|ppl|perplexity|bpb|bpc|bits_per|cross_entropy|xent|elbo|kl_?div|entropy|mse|mae|rmse|error_rate|wer|cer"
)
SCORES = "acc|accuracy|auc|bleu|rouge|map|iou|dice|psnr|ssim|fid|f1|precision|recall|reward|return|rew_mean|score|elo"
OTHERS = "lr|learning_rate|grad|norm|mfu|tps|tok|tokens|throughput"
_TRAINING = re.compile(
    rf"(?:^|[_/.\s@-])(?:{LOSSES}|{SCORES}|{OTHERS})(?:$|[_/.\s@\d-])|loss|acc(?:uracy)?$|rmse$|ppl$", re.I
)

MOST_WORDS = 8  # of a name; a longer phrase is a sentence
_EVALUATION = r"val|valid|validation|test|eval|evaluation|dev"
_LEVEL = re.compile(
    r"INFO|WARN(?:ING)?|DEBUG|ERROR|CRITICAL|NOTICE|TRACE|root|__\w+__|\w+(?:\.\w+)+", re.I
)  # a logger's
_ARTICLE = re.compile(r"the|an?|our|this|and|or|but|then|now|where|with", re.I)  # no part of a name that follows
_SENTENCE = re.compile(  # words that no name has unless a sign follows it
    r"the|an?|of|in|on|at|is|was|were|be|to|from|for|by|we|it|i|you|this|that|over|had|has|have|as|than|not|with", re.I
)
_IS = re.compile(r"is|was|of|equals", re.I)
_UNIT = re.compile(r"%|m?s|secs?|seconds|mins?|minutes|hours|[kmg]i?b|db", re.I)  # in brackets behind a name
_IGNORED = re.compile(  # what is no quantity though a number stands beside it
    r"eta|pid|port|seed|(?:local_)?rank|world_size|version|line|id|at|date|gpu|device|v_num|time_left|remaining|elapsed"
    r"|it|(?:train_)?(?:step|epoch)s?|iter(?:ation)?s?|global_step|(?:num_)?updates?|batch|ep(?:isode)?|(?:total_)?timesteps",
    re.I,
)

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]"
)
_NUMBER = r"[-+]?(?:\d+(?:[.,]\d+)*\.?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)"
_ENDS = r"(?=$|[\s,;|()\[\]}'\"]|\.(?:\s|$))"
_WORD = r"[^\W\d][\w./@'^+-]{0,60}"
_PAIR = re.compile(
    rf"(?<![\w./\\@-])(?P<name>{_WORD}?)(?P<more>\s?\([^()\s]{{1,20}}\)|\[[^\[\]\s]{{1,20}}\])?"
    rf"['\"]?(?P<sign>\s*[:=]\s*|\s+)['\"]?"
    rf"(?P<value>{_NUMBER})(?:/(?P<of>\d+))?(?P<unit>\s?%|[A-Za-zµ/]{{0,7}}){_ENDS}(?P<two>\s*/\s*[-+.\d])?",
    re.I,
)
_PART = re.compile(rf"{_WORD}|\d+", re.I)  # of a name: "top 5 accuracy"
_PART_END = re.compile(r"[\w./@'^+-]*$")
_CLAUSE = re.compile(r"\s*(?:[,;|)\]]|\.?\s*$)")
_TIME = re.compile(r"time|took|eta|elapsed|in|at|speed", re.I)  # the number behind it is no part of a name
_VALUE_BEFORE = re.compile(rf"(?:^|\s)[^\W\d][\w./-]* (?:{_NUMBER})\w{{0,4}}$", re.I)
_OPERATOR = re.compile(  # before a name that is then half of one: "aux + loss"
    r"\w[–—→&+*×∙·~^]+$|\w\s+[+&*×/]\s+$"
)
_MULTIPLE = re.compile(r"\s(?:times|of|out|to|or)\b", re.I)
_HEADING = re.compile(
    r"(?:^|[\s\[(|])(?:(?P<words>[^\W\d][\w-]{0,40}(?: \w[\w-]{0,40}){0,2})(?::\s+|[\])]:?\s*)"
    r"|(?P<word>[^\W\d]\w{0,40})\s+-\s+)$"
)
_BEHIND = re.compile(rf"\s*\((train|training|{_EVALUATION})\)", re.I)
_SPLIT = re.compile(
    rf"(?:^|\s)({_EVALUATION})[\s_]+epochs?\b|\bepochs?\(({_EVALUATION})\)|\|\s*({_EVALUATION})\s*\|", re.I
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_DECIMAL_COMMA = re.compile(r"\d+,\d+|\d{1,3}(?:\.\d{3})+,\d+")
_SURE_COMMA = re.compile(r"(?<![\d,.:])(?:0,\d+|\d+,(?:\d{1,2}|\d{4,}))(?![\d,.])")
_SURE_POINT = re.compile(r"(?<![\d,.:])\d+\.\d+(?![\d,.])")
_COUNTED = (
    r"global[_ ]step|num_updates|total_timesteps|time_?steps?|train_steps?|steps?|iters?|iterations?|updates?"
    r"|(?:mini-?)?batch|episodes?|ep|it(?=\s*[:=])"
)
_OTHERS_COUNTED = r"rounds?|generations?|gen|games?|frames?|cycles?|trials?|samples?|rollouts?|t"
_WHICH = (
    r"['\"]?\s*[:=#]?\s*\[?\s*(?P<n>\d+(?:,\d{3})*)(?:\s*(?:/|of)\s*(?P<total>\d+(?:,\d{3})*))?(?![\w]|[.,]\d|\s*%)"
)
_STEP = re.compile(rf"(?<![\w/.-])(?<!best )(?<!per )(?P<what>{_COUNTED}){_WHICH}", re.I)
_OTHER_STEP = re.compile(rf"(?<![\w/.-])(?P<what>{_OTHERS_COUNTED})(?!\s*[:=]){_WHICH}", re.I)
_EPOCH = re.compile(
    r"(?<![\w/.-])(?<!best )(?<!total )(?<!max )(?<!of )(?<!per )epochs?(?:\(\w+\))?['\"]?\s*[:=#]?\s*['\"]?[\[(]?\s*"
    r"(?P<n>\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(?P<total>\d+))?(?![\w]|[.,]\d)",
    re.I,
)
_COUNTER = re.compile(rf"(?:{_COUNTED})|it|n_updates|total_?env_?(?:interacts|steps)|total_steps", re.I)
_WHOLE = re.compile(rf"(?P<value>{_NUMBER})(?P<unit>\s?%|[A-Za-zµ/]{{0,7}})", re.I)
_PLACE = rf"(?:{_COUNTED}|epochs?)"
_AFTER = re.compile(  # "Loss after epoch 3: 0.5" is read as "epoch 3 Loss: 0.5"
    rf"(?P<name>(?:{_WORD} ){{1,4}})(?:(?:after|at|in|on|for|of)(?: the)? |[@(\[])"
    rf"(?:(?P<what>{_PLACE})\s*#?\s*(?P<n>\d+)(?:\s*(?:/|of)\s*(?P<total>\d+))?|(?P<many>\d+) (?P<unit>{_PLACE}))[)\]]?"
    rf"(?P<sign>\s*[:=]\s*|\s+(?:is|was)\s+)(?={_NUMBER})",
    re.I,
)
_BAR = re.compile(
    r"(?P<head>[^|\r\n]{0,200}?)(?P<percent>\d{1,3})%\|[^|]{0,300}\|\s*(?P<n>[\d.]+[kMGT]?)/(?P<total>[\d.]+[kMGT]?)"
    r"\s*\[(?P<spent>[\d:]+)<(?P<left>[\d:?]+)(?:,\s*(?P<rest>[^\]]*))?\]?"
)
_COUNT = re.compile(r"(?P<head>[^|\r\n]{0,200}?)(?<![\w.])(?P<n>\d+)it \[(?P<spent>[\d:]+)(?:,\s*(?P<rest>[^\]]*))?\]")
_RATE = re.compile(r"\s*[?\d.]+\s?\w*/\w+\s*(?:,|$)")
_FRACTION = re.compile(r"(?<![\w./:-])(?P<n>\d+)\s*/\s*(?P<total>\d+)(?![\w./:-])(?!\s+\d+:\d\d)")
_LEADING = re.compile(r"\s*(?:\[(?P<a>\d+)\]\s|(?P<b>\d+):\s)")
_ALONE = re.compile(
    r"[\s\W_]*(?:[^\W\d]+)?[\s\W_]*"
)  # beside a step that is all a line says: "=== Learning iteration 3/9"
_WRAPPED = re.compile(  # a number as an array of no dimensions prints itself: tensor(0.5, device='cuda:0')
    rf"\b(?:\w+\.)?\w*(?:tensor|array|float\d+|int\d+)\(\s*(?P<number>{_NUMBER})(?:,\s*\w+=(?:<[^<>]*>|\(\)|'[^']*'|\w+))*\)",
    re.I,
)
_CALL = re.compile(r"\w\(\w+=[^()]*\)?")  # the settings of an object: Namespace(epochs=5, lr=0.1)
_PYTHON = re.compile(  # what a dictionary of Python has in place of JSON's
    r"'(?P<text>(?:[^'\\]|\\.)*)'|\"(?:[^\"\\]|\\.)*\"|(?P<word>-?\b(?:nan|inf|None|True|False)\b)"
)
_HINT = re.compile(r"\d|[nN][aA][nN]|[iI][nN][fF]")
_DIGITS = str.maketrans("123456789", "000000000")
_OF_NAMES = re.compile(r"(?:[^\W\d]|@)\d+")  # digits that are part of a word: f1, valid_0, Acc@5
_LOOSE = re.compile(r"(?<![\w@])\d")
_SCALE = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Printed:
    """What one line says.

    counter   what `n` counts: "step", "iter" …, "bar", "fraction", "line"; "" = there is no n
    total     how far that goes, 0 = unknown; epoch and epochs likewise
    left      seconds that a bar says are left
    unclear   names whose number was left out: it may be read in two ways, or there are two of that name
    """

    values: dict[str, float] = field(default_factory=dict)
    counter: str = ""
    n: int = 0
    total: int = 0
    epoch: float | None = None
    epochs: int = 0
    left: float | None = None
    unclear: tuple[str, ...] = field(default=(), repr=False)


def plain(line: str) -> str:
    """The line without escape sequences and control characters.

    >>> plain("\\x1b[32mloss\\x1b[0m: 0.5\\x07")
    'loss: 0.5'
    """
    return line if line.isprintable() else _ESCAPES.sub("", line)


def read_line(line: str) -> Printed | None:
    """Read one line, without its end and without escape sequences; None if it says nothing of the training.

    >>> read_line("step 10/500 | loss 0.3 | lr 1e-4")
    Printed(values={'loss': 0.3, 'lr': 0.0001}, counter='step', n=10, total=500, epoch=None, epochs=0, left=None)
    >>> read_line("Loaded 50000 images from 3 folders at 10:31:02")
    """
    line = line[:LONGEST_LINE]
    if "%|" in line and (found := _BAR.search(line)):
        return _of_bar(found, float(_scaled(found["total"])), found["left"])
    if "it [" in line and (found := _COUNT.search(line)):
        return _of_bar(found, 0.0, "?")
    if not _HINT.search(line) or "@[" in line:  # settings of a score of COCO stand in @[…]
        return None
    if "{" in line and (said := _of_object(_unwrapped(line).strip())) is not None:
        return said
    form = _form_of(line)
    if form.rewritten:
        line = _rewritten(line)
        form = _form_of(line, final=True)
    values, unclear = form.numbers(line)
    if not (values or unclear or form.is_place):
        return None
    return Printed(values, *form.place(line), unclear=unclear)


def _unwrapped(line: str) -> str:
    return _CALL.sub(" ", _WRAPPED.sub(r"\g<number>", line)) if "(" in line else line


def _rewritten(line: str) -> str:
    """The line with its arrays as plain numbers, without calls, and with a step before what is said of it."""
    return _AFTER.sub(_placed_first, _unwrapped(line))


def _placed_first(found: re.Match[str]) -> str:
    what, n = (found["what"], found["n"]) if found["what"] else (found["unit"], found["many"])
    of = f"/{found['total']}" if found["total"] else ""
    return f"{what} {n}{of} | {found['name'].rstrip()}{found['sign'] if found['sign'].strip() in ':=' else ': '}"


def _of_bar(found: re.Match[str], total: float, left: str) -> Printed:
    """A progress bar of tqdm, with what was added to it (set_postfix), and its description (set_description)."""
    values: dict[str, float] = {}
    unclear: tuple[str, ...] = ()
    epoch: tuple[float | None, int] = None, 0
    if head := found["head"].rstrip(" \t:"):
        head += " "
        values, unclear = _form_of(head, placed=False).numbers(head)
        epoch = _epoch(_EPOCH.search(head))
    if (rest := found["rest"]) and not _RATE.fullmatch(rest):
        rest = f"{_RATE.sub('', rest, count=1)} "
        behind, others = _form_of(rest, placed=True).numbers(rest)
        values, unclear = {**values, **behind}, (*unclear, *others)
    return Printed(values, "bar", int(_scaled(found["n"])), int(total), *epoch, _clock(left), unclear)


def _of_object(line: str) -> Printed | None:
    """An object of JSON, or a dictionary of Python as transformers' Trainer prints it, perhaps with a step before it;
    nested ones with their path."""
    start = line.find("{")
    if start < 0 or not line.endswith("}"):
        return None
    try:
        said = orjson.loads(line[start:])
    except orjson.JSONDecodeError:
        try:
            said = orjson.loads(_PYTHON.sub(_as_json, line[start:]))
        except orjson.JSONDecodeError:
            return None
    if not isinstance(said, dict):
        return None
    counter, n, total, epoch, epochs, under = _before_object(line[:start]) if start else ("", 0, 0, None, 0, "")
    values: dict[str, float] = {}
    unclear: list[str] = []
    for name, value in flattened(said, deepest=4):
        number = _number(value)
        last, counts, ignored = _kind_of(name)
        if number is None:
            if isinstance(value, str) and re.fullmatch(_NUMBER, value.strip(), re.I):
                unclear.append(name)
        elif counts and number == number and 0 <= number < 2**62 and number == int(number):
            if not counter:
                counter, n = last, int(number)
        elif last == "epoch":
            epoch = number
        elif ignored:
            continue
        elif not name.strip() or len(values) >= MOST_VALUES:
            unclear.append(name)
        else:
            values["_".join(f"{under}{name}".split())] = number
    if not values or not (counter or epoch is not None or any(map(is_of_training, values))):
        return None
    return Printed(values, counter, n, total, epoch, epochs, unclear=tuple(unclear))


def _before_object(before: str) -> tuple[str, int, int, float | None, int, str]:
    """What the text before an object says: counter, n, total, epoch, epochs, and what its names begin with."""
    step, found_epoch = _STEP.search(before), _EPOCH.search(before)
    heading = _heading(before, max((found.end() for found in (step, found_epoch) if found), default=0), len(before))
    under = f"{heading}_" if heading else ""
    if step is None:
        return "", 0, 0, *_epoch(found_epoch), under
    return step["what"].lower(), _whole(step["n"]), _whole(step["total"]), *_epoch(found_epoch), under


@lru_cache(MOST_FORMS)
def _kind_of(name: str) -> tuple[str, bool, bool]:
    """The last part of the name of an object's entry, whether it counts steps, and whether it is no quantity."""
    last = name.rpartition(".")[2].lower()
    return last, _STEP.fullmatch(f"{last} 1") is not None, _IGNORED.fullmatch(last) is not None


def _as_json(found: re.Match[str]) -> str:
    if found["word"]:
        return {"None": "null", "True": "true", "False": "false"}.get(found["word"], f'"{found["word"]}"')
    return orjson.dumps(found["text"]).decode() if found["text"] is not None else found[0]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return _value_of(value.strip(), None) if re.fullmatch(_NUMBER, value.strip(), re.I) else None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def read_number(told: str) -> float | None:
    """The number that a whole text is, perhaps with a unit; None if it is something else, or may be read in two ways.

    >>> read_number("1.2k"), read_number("12.3%"), read_number("0:10"), read_number("")
    (1200.0, 12.3, None, None)
    """
    found = _WHOLE.fullmatch(told.strip())
    value = _value_of(found["value"], None) if found else None
    return value * _SCALE.get(found["unit"].strip(), 1.0) if found and value is not None else None


def counter_in(name: str) -> bool:
    """Whether a name is that of a count of steps, say "total_timesteps"."""
    return _COUNTER.fullmatch(name) is not None


def _value_of(told: str, points: bool | None) -> float | None:
    """The number that a text of the form _NUMBER is; None if it may be read in two ways.

    points  whether this line has decimal points, or decimal commas; None = it does not tell

    >>> _value_of("0,25", None), _value_of("1,234", True), _value_of("1,234", None), _value_of("1,234.5", None)
    (0.25, 1234.0, None, 1234.5)
    """
    if "," not in told and told.count(".") <= 1:
        return float(told)
    digits = re.match(r"[-+]?([\d.,]+)", told)
    body = digits[1] if digits else ""
    if _THOUSANDS.fullmatch(body) and not body.startswith("0"):
        if body.count(",") > 1 or "." in body or points is True:
            return float(told.replace(",", ""))
        if points is None:
            return None
    if _DECIMAL_COMMA.fullmatch(body) and points is not True:
        return float(told.replace(".", "").replace(",", "."))
    return None


def _has_points(line: str) -> bool | None:
    """Whether the numbers of a line have decimal points (True) or decimal commas (False); None = it does not tell."""
    return True if _SURE_POINT.search(line) else False if _SURE_COMMA.search(line) else None


@lru_cache(MOST_FORMS)
def is_of_training(name: str) -> bool:
    """Whether a name is that of a quantity of training.

    >>> is_of_training("val_loss"), is_of_training("Acc@1"), is_of_training("files")
    (True, True, False)
    """
    return _TRAINING.search(name) is not None


class _Place(NamedTuple):
    """Where in a line a number is, and what it is called.

    of     where the number is that it is a fraction of
    scale  of its unit: 1.2k is 1200
    clear  whether it is all of that quantity's number, and not half of a sum
    """

    name: str
    value: slice
    of: slice | None
    scale: float
    clear: bool


@dataclass(frozen=True)
class _Form:
    """What all lines have in common that differ in their digits only: names, and where the numbers are.

    A training prints few forms of lines, and finding one's takes five times as long as reading its numbers.

    rewritten  whether `_rewritten` says the same more plainly
    fewest     how many values a line must have to count, if none of them is known to be of training
    is_place   whether it says where the training is, and nothing else
    fractions  all that may be a position, as n and total
    keeps      whether it is that of other lines too: none of its names has a number of its own, as "top 5" has
    """

    rewritten: bool = False
    places: tuple[_Place, ...] = ()
    fewest: float = 0
    is_place: bool = False
    counter: str = ""
    step: tuple[slice, slice] | None = None
    fractions: tuple[tuple[slice, slice], ...] = ()
    leading: slice | None = None
    epoch: tuple[slice, slice] | None = None
    keeps: bool = True

    def numbers(self, line: str) -> tuple[dict[str, float], tuple[str, ...]]:
        """The values of a line by name, and the names whose value is left out: those that may be read in two ways, and
        two different ones of a name, because no rule says which is meant."""
        values: dict[str, float] = {}
        unclear: list[str] = []
        for name, where, of, scale, clear in self.places:
            text = line[where]
            plain = "," not in text and text.count(".") <= 1
            value = float(text) if plain else _value_of(text, _has_points(line))
            if value is not None and of is not None:
                whole = float(line[of])
                value = value / whole if whole else None
            elif value is not None:
                value *= scale
            known = values.get(name)
            if (
                not clear
                or value is None
                or len(values) >= MOST_VALUES
                or (known is not None and repr(known) != repr(value))
            ):
                values.pop(name, None)
                unclear.append(name)
            elif not unclear or name not in unclear:
                values[name] = value
        return (values, tuple(unclear)) if len(values) >= self.fewest else ({}, ())

    def place(self, line: str) -> tuple[str, int, int, float | None, int]:
        """Counter, n, total, epoch and epochs of a line."""
        counter, n, total = "", 0, 0
        if self.step is not None:
            counter, n, total = self.counter, *(_whole(line[part]) for part in self.step)
        elif found := next(filter(_is_position, ([line[part] for part in each] for each in self.fractions)), None):
            counter, n, total = "fraction", int(found[0][:18]), int(found[1][:18])
        elif self.leading is not None:
            counter, n = "line", int(line[self.leading][:18])
        if self.epoch is None:
            return counter, n, total, None, 0
        return counter, n, total, float(line[self.epoch[0]][:18]), _whole(line[self.epoch[1]])


def _is_position(fraction: list[str]) -> bool:
    n, total = (int(part[:18]) for part in fraction)
    return n <= total > 0


def _span(found: re.Match[str], group: str) -> slice:
    """Where a group is; nowhere if it is not there."""
    return slice(max(0, found.start(group)), max(0, found.end(group)))


_forms: dict[Any, _Form] = {}


def _form_of(line: str, placed: bool | None = None, final: bool = False) -> _Form:
    """The form of a line, or of a part of one that has a place already or has none (`placed`)."""
    key = line.translate(_DIGITS), placed, final, *_OF_NAMES.findall(line)
    form = _forms.get(key)
    if form is None:
        form = _new_form(line, placed, final)
        if form.keeps:
            if len(_forms) >= MOST_FORMS:
                _forms.clear()
            _forms[key] = form
    return form


def _new_form(line: str, placed: bool | None, final: bool) -> _Form:
    if placed is not None:
        places, fewest, _, keeps = _places(line, placed)
        return _Form(places=places, fewest=fewest, keeps=keeps)
    if not final and _rewritten(line) != line:
        return _Form(rewritten=True)
    step, epoch, leading = _STEP.search(line) or _OTHER_STEP.search(line), _EPOCH.search(line), _LEADING.match(line)
    places, fewest, covered, keeps = _places(line, any((step, epoch, leading)))
    only_step = step is not None and _ALONE.fullmatch(line[: step.start()] + line[step.end() :]) is not None
    only_epoch = epoch is not None and len(line.strip()) < 40
    covered += [epoch.span()] if epoch else []
    fractions = [each for each in _FRACTION.finditer(line) if not any(a <= each.start() < b for a, b in covered)]
    return _Form(
        places=places,
        fewest=fewest,
        is_place=only_step or only_epoch,
        counter=step["what"].lower() if step else "",
        step=(_span(step, "n"), _span(step, "total")) if step else None,
        fractions=tuple((_span(each, "n"), _span(each, "total")) for each in fractions),
        leading=_span(leading, "a" if leading["a"] else "b") if leading else None,
        epoch=(_span(epoch, "n"), _span(epoch, "total")) if epoch else None,
        keeps=keeps,
    )


def _places(line: str, placed: bool) -> tuple[tuple[_Place, ...], float, list[tuple[int, int]], bool]:
    """The places of a line's values; the fewest values that make a line count; what of the line was matched; whether
    names keep clear of numbers."""
    found: list[_Place] = []
    covered: list[tuple[int, int]] = []
    counted = [each.span() for way in (_STEP, _OTHER_STEP, _EPOCH) for each in way.finditer(line)]
    section = _split_of(line)
    told = counts = bare = 0
    free = 0  # where the last match ended
    keeps = True
    for each in _PAIR.finditer(line):
        start, end = each.span()
        signed = bool(each["sign"].strip())
        floor = max([free, *(high for _, high in counted if high <= start)])
        words, begin = _phrase(line, floor, start)
        behind_step = floor > free and not line[floor:begin].strip(" \t,;:|-")
        words = _named([*words, each["name"]], signed, placed and behind_step, line[end:])
        counter = any(low <= start < high for low, high in counted)
        if not signed and (counter or not _is_free(line, floor, begin) or not is_of_training("_".join(words))):
            continue
        free = end
        covered.append((begin if words else start, end))
        if counter or not words or _IGNORED.fullmatch(words[0] if len(words) == 1 else ""):
            continue
        section = _heading(line, floor, begin) or section
        key = _qualified("_".join(words), each["more"], section, _BEHIND.match(line, end))
        told += is_of_training(key)
        counts += signed
        bare += end - begin
        keeps = keeps and _LOOSE.search(f"{section} {line[begin : each.start('sign')]}") is None
        half = _OPERATOR.search(line, max(0, begin - 80), begin) or (each["two"] and not each["of"])
        of, scale = _span(each, "of") if each["of"] else None, _SCALE.get(each["unit"].strip(), 1.0)
        found.append(_Place(key, _span(each, "value"), of, scale, not half))
    fewest = 0.0
    if not told and not (placed and counts):
        fewest = math.inf if line.lstrip()[:1] in "#/" else max(2.0, (len(line.strip()) - bare) / 2)
    return tuple(found), fewest, covered, keeps


def _phrase(line: str, floor: int, start: int) -> tuple[list[str], int]:
    """The words with single spaces between them that stand before `start`, and where the first one begins."""
    words: list[str] = []
    begin = start
    while begin - 2 >= floor and line[begin - 1] == " " and len(words) <= MOST_WORDS:
        found = _PART_END.search(line, max(floor, begin - 80), begin - 1)
        word = found[0] if found else ""
        if not _PART.fullmatch(word.rstrip(".")):
            break
        words.insert(0, word)
        begin -= len(word) + 1
    while words and (words[0].isdecimal() or (len(words) > 1 and _TIME.fullmatch(words[0]) and words[1].isdecimal())):
        begin += len(words.pop(0)) + 1  # "10 loss: 0.5", "took 35 loss: 0.5"
    return words, begin


def _named(words: list[str], signed: bool, behind_step: bool, behind: str) -> list[str]:
    """The words of a phrase before a number that are the number's name; [] if it is none."""
    while len(words) > 1 and (_ARTICLE.fullmatch(words[0]) or _LEVEL.fullmatch(words[0])):
        words = words[1:]
    if behind_step and "with" in words[:-1]:  # "Epoch 3 finished with loss 0.4"
        return _named(words[words.index("with") + 1 :], signed, behind_step, behind)
    if len(words) > 1 and _IS.fullmatch(words[-1]) and (signed or (behind_step and _CLAUSE.match(behind))):
        words = words[:-1]  # "Epoch 3: the loss is 0.4"
    if len(words) > MOST_WORDS:
        return []
    if not signed and (any(map(_SENTENCE.fullmatch, words)) or _MULTIPLE.match(behind)):
        return []
    return [word.removesuffix("'s").strip("'").rstrip(".") or word for word in words]


def _is_free(line: str, floor: int, begin: int) -> bool:
    """Whether a phrase begins a line, or stands behind a sign, a value or a step."""
    gap = line[floor:begin].strip(" \t")
    return not gap or gap[-1] in ",;|:])>-" or _VALUE_BEFORE.search(gap) is not None


def _heading(line: str, floor: int, begin: int) -> str:
    """What stands before a name and its colon, or in brackets, as "val" of "val: loss 0.5"; "" if nothing does."""
    if found := re.search(r"(?:[^\W\d][\w.-]*:)+$", line[floor:begin]):
        return " ".join(word for word in found[0].split(":") if word and not _LEVEL.fullmatch(word))  # INFO:root:loss
    heading = _HEADING.search(line, floor, begin)
    words = (heading["words"] or heading["word"]) if heading else ""
    return "" if _LEVEL.fullmatch(words) or _IGNORED.fullmatch(words) else words


def _split_of(line: str) -> str:
    found = _SPLIT.search(line)
    return next(filter(None, found.groups()), "") if found else ""


def _qualified(name: str, more: str | None, section: str, behind: re.Match[str] | None) -> str:
    """A name with what is said of it in brackets, before and behind it: "loss (aux)", "val: loss", "loss 0.5 (val)"."""
    inside = (more or "").strip(" ()[]'\"")
    if inside and not _UNIT.fullmatch(inside):
        name = f"{name}_{inside}"
    if behind is not None:
        name = f"{behind[1]}_{name}"
    words = section.split()
    # What stands before several names, as "Test set: Average loss: .05, Accuracy: …", only keeps its loss apart.
    alone = len(words) < 2 or words[-1].isdecimal() or name.lower() == "loss"
    if words and alone and section.lower() not in name.lower():
        name = f"{'_'.join(words)}_{name}"
    return name


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
