"""Parses one line of a training script's output: progress bars, dictionaries, JSON, `step 10 loss 0.3`, `key=value`.

A line counts if it has a quantity of training (LOSSES … below) with its number, or a step or an epoch together with
`key=value` or `key: value`, or consists of such pairs only; then all its pairs count. Numbers in sentences, times,
dates, versions, addresses and paths are not values, because a value ends at a word boundary.

All words before a number are its name, back to the previous value, bracket or sign: `aux loss: 0.01` is aux_loss, and
`val: loss 0.4` is val_loss. A value with an uncertain name is left out, so that no quantity becomes a point in the
curve of another. Between bars and semicolons a value may also precede its name: `| 43.7% MFU | 1986720 tok/s |`.

Names that count (counters.py) and the places in bars, fractions and at the beginning of a line are the counters;
`rank_of` orders them, and `Steps` (stdout_steps.py) chooses the one that is the step.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from txlab.experiments.metric import LOSSES, OTHERS, SCORES
from txlab.runs.counters import COUNTED, OTHERS_COUNTED, WHOLE_TRAINING, rank_of
from txlab.runs.loop_values import flatten

LONGEST_LINE = 4000  # characters that are read
MOST_VALUES = 100  # of a line
MOST_FORMS = 1000  # forms of lines that are counted or cached

_KNOWN = re.compile(rf"(?:^|[_/.\s@-])(?:{LOSSES}|{SCORES})(?:$|[_/.\s@\d-])|loss|acc(?:uracy)?$|rmse$|ppl$", re.I)
_OTHER = re.compile(rf"(?:^|[_/.\s@-])(?:{OTHERS})(?:$|[_/.\s@\d-])", re.I)
_SETTING = re.compile(r"(?:_(?:iters|steps|epochs|interval|every|size|type)|^(?:no|has|use)_.*)$", re.I)

MOST_WORDS = 8  # of a name; a longer phrase is a sentence
_EVALUATION = r"val|valid|validation|test|eval|evaluation|dev"
_PASS = rf"{_EVALUATION}|validating|testing|evaluating|sanity checking"
_LEVEL = re.compile(
    r"INFO|WARN(?:ING)?|DEBUG|ERROR|CRITICAL|NOTICE|TRACE|root|__\w+__|\w+(?:\.\w+)+", re.I
)  # a logger's
_ARTICLE = re.compile(r"the|an?|our|this|and|or|but|then|now|where|with", re.I)  # not part of the name that follows
_SENTENCE = re.compile(  # words that occur in names only before a sign
    r"the|an?|of|in|on|at|is|was|were|be|to|from|for|by|we|it|i|you|this|that|over|had|has|have|as|than|not|with", re.I
)
_CLAUSE_WORD = re.compile(r"did|does|not|than|if|because|when|will|be", re.I)  # no word of a name
_IS = re.compile(r"is|was|of|equals", re.I)
_UNIT = re.compile(r"%|m?s|secs?|seconds|mins?|minutes|hours|[kmg]i?b|db", re.I)  # in brackets after a name
_IGNORED = re.compile(  # not quantities, although numbers follow them
    r"eta|pid|port|seed|(?:local_)?rank|world_size|version|line|id|at|date|gpu|device|v_num|time_left|remaining|elapsed"
    r"|it|(?:train_|gradient_|micro_)?(?:step|epoch)s?|iter(?:ation)?s?|global_step|(?:max|min|num|total)_(?:epochs|steps|iters|iterations)|(?:num_)?updates?|batch|ep(?:isode)?|(?:total_)?timesteps",
    re.I,
)

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[@-_]?(?:[\d;]*$)?|[\x00-\x08\x0b-\x1f\x7f]"
)
_NUMBER = r"[-+]?(?:\d+(?:[.,]\d+)*\.?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?![a-z])"
_ENDS = r"(?=$|[\s,;|()\[\]}'\"`]|\.(?:\s|$))"
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
_TIME = re.compile(r"time|took|eta|elapsed|in|at|speed", re.I)  # a number after it is not part of a name
_VALUE_BEFORE = re.compile(rf"(?:^|\s)[^\W\d][\w./-]* (?:{_NUMBER})\w{{0,4}}$", re.I)
_OPERATOR = re.compile(  # before a name that is then only part of one: "aux + loss"
    r"\w[–—→&+*×∙·~^]+$|\w\s+[+&*×/]\s+$"
)
_MULTIPLE = re.compile(r"\s(?:times|of|out|to|or|is|was|did|does)\b", re.I)
_HEADING = re.compile(
    r"(?:^|[\s\[(|])(?:(?P<words>[^\W\d][\w-]{0,40}(?: \w[\w-]{0,40}){0,2})(?::\s+|[\])]:?\s*)"
    r"|(?P<word>[^\W\d]\w{0,40})\s+-\s+)$"
)
_BEHIND = re.compile(rf"\s*\((train|training|{_EVALUATION})\)", re.I)
_SPLIT = re.compile(
    rf"(?:^|\s)({_EVALUATION})[\s_]+epochs?\b|\bepochs?\(({_EVALUATION})\)|\|\s*({_EVALUATION})\s*\|"
    rf"|^\W{{0,3}}({_PASS})(?: set| error| dataloader \d+)?\s*(?:[:\]|]|\s[━█])",
    re.I,
)
THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_DECIMAL_COMMA = re.compile(r"\d+,\d+|\d{1,3}(?:\.\d{3})+,\d+")
_SURE_COMMA = re.compile(r"(?<![\d,.:])(?:0,\d+|\d+,(?:\d{1,2}|\d{4,}))(?![\d,.])")
_SURE_POINT = re.compile(r"(?<![\d,.:])\d+\.\d+(?![\d,.])")
_WHICH = (
    r"['\"]?\s*[:=#]?\s*\[?\s*(?P<n>\d+(?:,\d{3})*)(?:\s*(?:/|of)\s*(?P<total>\d+(?:,\d{3})*))?(?![\w]|[.,]\d|\s*%)"
)
_STEP = re.compile(rf"(?<![\w.-])(?<![^\W\d]/)(?<!best )(?<!per )(?P<what>{COUNTED}){_WHICH}", re.I)
_TOTAL = re.compile(rf"(?<![\w/.-])(?P<what>{WHOLE_TRAINING}){_WHICH}", re.I)
_OTHER_STEP = re.compile(rf"(?<![\w/.-])(?P<what>{OTHERS_COUNTED})(?!\s*[:=]){_WHICH}", re.I)
_EPOCH = re.compile(
    r"(?<![\w/.-])(?<!best )(?<!total )(?<!max )(?<!of )(?<!per )epochs?(?:\(\w+\))?['\"]?\s*[:=#]?\s*['\"]?[\[(]?\s*"
    r"(?P<n>\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(?P<total>\d+))?(?![\w]|[.,]\d)",
    re.I,
)
_WHOLE = re.compile(rf"(?P<value>{_NUMBER})(?P<unit>\s?%|[A-Za-zµ/]{{0,7}})", re.I)
_PLACE = rf"(?:{COUNTED}|epochs?)"
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
_FRACTION = re.compile(r"(?<![\w./:-])(?P<n>\d+)\s*/\s*(?P<total>\d+)(?![\w./:-])(?!\s+\d\d:\d\d)")
_LEADING = re.compile(r"\s*(?:\[(?P<a>\d+)\]\s|(?P<b>\d+)(?::\s| \|)|\[(?P<epoch>\d+),\s*(?P<c>\d+(?:,\d{3})*)\]\s)")
_DRAWN = re.compile(r"[━╸╺█▏▎▍▌▋▊▉░▒#=]{3,}")
_BEHIND_NUMBER = re.compile(  # between bars or semicolons: "| 43.7% bf16 MFU |"
    rf"(?:^|[|;])\s*(?P<value>{_NUMBER})(?P<unit>\s?%)?\s+(?P<name>{_WORD}(?: {_WORD})?)\s*(?=$|[|;])", re.I
)
_SPLIT_ALONE = re.compile(  # a split as a name: "| train 0.51 | val 0.61"
    rf"(?:^|[|;,])\s*(?P<name>train(?:ing)?|{_EVALUATION})\s+(?P<value>{_NUMBER})\s*(?=$|[|;,])", re.I
)
_NOT_COUNTED = re.compile(
    r"\b(?:number of(?: \w+)?|num|max(?:imum)?|warmup|skipped|nan|remaining|of|for|every|in)\s+$", re.I
)
_ALONE = re.compile(
    r"[\s\W_]*(?:[^\W\d]+)?[\s\W_]*"
)  # around a step that is alone on its line: "=== Learning iteration 3/9"
_WRAPPED = re.compile(  # a number printed as a zero-dimensional array: tensor(0.5, device='cuda:0')
    rf"\b(?:\w+\.)?\w*(?:tensor|array|float\d+|int\d+)\(\s*(?P<number>{_NUMBER})(?:,\s*\w+=(?:<[^<>]*>|\(\)|'[^']*'|\w+))*\)",
    re.I,
)
_FILE = r"[\w./<>-]{1,80}\.(?:py|pyx|cc?|cpp|cu|rs|jl|ipynb)"
REWRITES: tuple[tuple[re.Pattern[str], Any], ...] = (
    (
        re.compile(rf"(?:\b[^\W\d][\w.]{{0,60}}:[\w.<>]{{1,60}}|{_FILE}):\d+(?::\w+)?(?= - |\s*$|[\s\]]|$)"),
        " ",
    ),  # where it was logged
    (re.compile(rf"(?<==)\[\s*({_NUMBER})\s*\]", re.I), r"\1"),  # an array of one number
    (re.compile(r"\b(\d+)epoch:(\w+):[\d-]+batch:"), r"epoch \1 | \2: "),
    (re.compile(r"\b(train|test|val)\w*:\s*(\d+)\s+(?=\[)", re.I), r"\1: epoch \2 "),
    (re.compile(r"\([\w.]+:\d+\)(?=\s+[A-Z]+:)"), ""),
    (
        re.compile(r"\b(?:sav|load|writ|stor)(?:ed|ing|ten)\b.{0,100}\b(?:model|checkpoint|file|to|from|in)\b.*", re.I),
        "",
    ),
)
_CALL = re.compile(r"\w\(\w+=[^()]*\)?")  # the settings of an object: Namespace(epochs=5, lr=0.1)
_PYTHON = re.compile(  # Python's syntax that differs from JSON's in a printed dictionary
    r"'(?P<text>(?:[^'\\]|\\.)*)'|\"(?:[^\"\\]|\\.)*\"|(?P<word>-?\b(?:nan|inf|None|True|False)\b)"
)
_HINT = re.compile(r"\d|[nN][aA][nN]|[iI][nN][fF]")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_OF_NAMES = re.compile(r"(?:[^\W\d]|@)\d+")  # digits that are part of a word: f1, valid_0, Acc@5
_LOOSE = re.compile(r"(?<![\w@])\d")
_SCALE = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


@dataclass(frozen=True)
class ParsedLine:
    """The content of one line.

    counter   what `n` counts: "step", "iter" …, "bar", "fraction", "line"; "" = there is no n
    total     the total of `n`, 0 = unknown; epoch and epochs likewise
    left      seconds left according to a bar
    unclear   names whose number was left out: it is ambiguous, or the name occurs twice
    part      the evaluation to which it belongs, as "val" in "val: loss 0.4"; "" = the training, or unknown
    twice     whether it has two counts of steps
    follows   whether it continues the line before it, as the lines under a bar do
    is_lost   whether it is part of a line, and its step may be in the other part
    stream    the stream on which it was printed, if there are several
    is_weak   whether its names could also be those of settings, so that it counts only in a training
    """

    values: dict[str, float] = field(default_factory=dict)
    counter: str = ""
    n: int = 0
    total: int = 0
    epoch: float | None = None
    epochs: int = 0
    left: float | None = None
    unclear: tuple[str, ...] = field(default=(), repr=False)
    part: str = field(default="", repr=False)
    twice: bool = field(default=False, repr=False)
    follows: bool = field(default=False, repr=False)
    is_lost: bool = field(default=False, repr=False)
    stream: int = field(default=0, repr=False)
    is_weak: bool = field(default=False, repr=False)


def plain(line: str) -> str:
    """The line without escape sequences and control characters.

    >>> plain("\\x1b[32mloss\\x1b[0m: 0.5\\x07")
    'loss: 0.5'
    """
    return line if line.isprintable() else _ESCAPES.sub("", line)


def read_line(line: str) -> ParsedLine | None:
    """Read one line, without its end and without escape sequences; None if it has no values, step or epoch.

    >>> read_line("step 10/500 | loss 0.3 | lr 1e-4")
    ParsedLine(values={'loss': 0.3, 'lr': 0.0001}, counter='step', n=10, total=500, epoch=None, epochs=0, left=None)
    >>> read_line("Loaded 50000 images from 3 folders at 10:31:02")
    """
    line = line[:LONGEST_LINE]
    if "%|" in line and (bar := _BAR.search(line)):
        return _of_bar(bar, float(_scale_value(bar["total"])), bar["left"])
    if "it [" in line and (bar := _COUNT.search(line)):
        return _of_bar(bar, 0.0, "?")
    if not _HINT.search(line) or "@[" in line:  # a COCO score has its settings in @[…]
        return None
    if "{" in line and (parsed := _of_object(_unwrap(line).strip())) is not None:
        return parsed
    form = _form_of(line)
    if form.is_empty:
        return None
    if form.rewritten:
        line = _rewrite(line)
        form = _form_of(line, final=True)
    values, unclear = form.numbers(line)
    if not (values or unclear or form.is_place):
        return None
    return ParsedLine(
        values, *form.place(line), unclear=unclear, part=form.part, twice=form.twice, is_weak=form.is_weak
    )


def _unwrap(line: str) -> str:
    return _CALL.sub(" ", _WRAPPED.sub(r"\g<number>", line)) if "(" in line else line


def _rewrite(line: str) -> str:
    """The line with its arrays as plain numbers, without calls, and with the step before its values."""
    line = _unwrap(line)
    for form, plainly in REWRITES:
        line = form.sub(plainly, line)
    return _AFTER.sub(_place_first, line)


def _place_first(bar: re.Match[str]) -> str:
    what, n = (bar["what"], bar["n"]) if bar["what"] else (bar["unit"], bar["many"])
    of = f"/{bar['total']}" if bar["total"] else ""
    return f"{what} {n}{of} | {bar['name'].rstrip()}{bar['sign'] if bar['sign'].strip() in ':=' else ': '}"


def _of_bar(bar: re.Match[str], total: float, left: str) -> ParsedLine:
    """A progress bar of tqdm with its postfix (set_postfix) and its description (set_description)."""
    values: dict[str, float] = {}
    unclear: tuple[str, ...] = ()
    epoch: tuple[float | None, int] = None, 0
    if head := bar["head"].rstrip(" \t:"):
        head += " "
        values, unclear = _form_of(head, placed=False).numbers(head)
        epoch = _epoch(_EPOCH.search(head))
    if (rest := bar["rest"]) and not _RATE.fullmatch(rest):
        rest = f"{_RATE.sub('', rest, count=1)} "
        numbers, others = _form_of(rest, placed=True).numbers(rest)
        values, unclear = {**values, **numbers}, (*unclear, *others)
    place = "bar", int(_scale_value(bar["n"])), int(total)
    if rest and "=" in rest and (count := _TOTAL.search(rest)) is not None:
        place = count["what"].lower(), _whole(count["n"]), _whole(count["total"])
    part = _split_of(f"{bar['head']}:") if head else ""
    behind = bar.string[bar.end() :].lstrip()
    if behind[:1] == "{" and (entries := _of_object(_unwrap(behind).strip())) is not None:  # printed on the bar's line
        values, unclear = {**values, **entries.values}, (*unclear, *entries.unclear)
        epoch = (epoch[0] if entries.epoch is None else entries.epoch), epoch[1]
    return ParsedLine(values, *place, *epoch, _clock(left), unclear, part)


def _of_object(line: str) -> ParsedLine | None:
    """An object of JSON, or a dictionary of Python as transformers' Trainer prints it, perhaps with a step before it;
    nested ones with their path."""
    start = line.find("{")
    if start < 0 or not line.endswith("}"):
        return None
    try:
        entries = orjson.loads(line[start:])
    except orjson.JSONDecodeError:
        try:
            entries = orjson.loads(_PYTHON.sub(_as_json, line[start:]))
        except orjson.JSONDecodeError:
            return None
    if not isinstance(entries, dict):
        return None
    counter, n, total, epoch, epochs, under = _before_object(line[:start]) if start else ("", 0, 0, None, 0, "")
    values: dict[str, float] = {}
    unclear: list[str] = []
    for name, value in flatten(entries, deepest=4):
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
    return ParsedLine(values, counter, n, total, epoch, epochs, unclear=tuple(unclear))


def _before_object(before: str) -> tuple[str, int, int, float | None, int, str]:
    """The text before an object: counter, n, total, epoch, epochs, and the prefix of the object's names."""
    step, found_epoch = _count_in(before)[0], _EPOCH.search(before)
    heading = _heading(before, max((match.end() for match in (step, found_epoch) if match), default=0), len(before))
    under = f"{heading}_" if heading else ""
    if step is None:
        return "", 0, 0, *_epoch(found_epoch), under
    return step["what"].lower(), _whole(step["n"]), _whole(step["total"]), *_epoch(found_epoch), under


@lru_cache(MOST_FORMS)
def _kind_of(name: str) -> tuple[str, bool, bool]:
    """The last part of the name of an object's entry, whether it counts steps, and whether it is ignored."""
    last = name.rpartition(".")[2].lower()
    return last, _STEP.fullmatch(f"{last} 1") is not None, _IGNORED.fullmatch(last) is not None


def _as_json(match: re.Match[str]) -> str:
    if match["word"]:
        return {"None": "null", "True": "true", "False": "false"}.get(match["word"], f'"{match["word"]}"')
    return orjson.dumps(match["text"]).decode() if match["text"] is not None else match[0]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return _value_of(value.strip(), None) if re.fullmatch(_NUMBER, value.strip(), re.I) else None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def read_number(text: str) -> float | None:
    """Parse a text that is one number, perhaps with a unit; None if it is anything else or ambiguous.

    >>> read_number("1.2k"), read_number("12.3%"), read_number("0:10"), read_number("")
    (1200.0, 12.3, None, None)
    """
    match = _WHOLE.fullmatch(text.strip())
    value = _value_of(match["value"], None) if match else None
    return value * _SCALE.get(match["unit"].strip(), 1.0) if match and value is not None else None


def _value_of(text: str, points: bool | None) -> float | None:
    """Parse a text of the form _NUMBER; None if it is ambiguous.

    points  whether this line has decimal points or decimal commas; None = unknown

    >>> _value_of("0,25", None), _value_of("1,234", True), _value_of("1,234", None), _value_of("1,234.5", None)
    (0.25, 1234.0, None, 1234.5)
    """
    if "," not in text and text.count(".") <= 1:
        return float(text)
    digits = re.match(r"[-+]?([\d.,]+)", text)
    body = digits[1] if digits else ""
    if THOUSANDS.fullmatch(body) and not body.startswith("0"):
        if body.count(",") > 1 or "." in body or points is True:
            return float(text.replace(",", ""))
        if points is None:
            return None
    if _DECIMAL_COMMA.fullmatch(body) and points is not True:
        return float(text.replace(".", "").replace(",", "."))
    return None


def _has_points(line: str) -> bool | None:
    """Whether the numbers of a line have decimal points (True) or decimal commas (False); None = unknown."""
    return True if _SURE_POINT.search(line) else False if _SURE_COMMA.search(line) else None


@lru_cache(MOST_FORMS)
def is_of_training(name: str) -> bool:
    """Whether a name is a quantity of training.

    >>> is_of_training("val_loss"), is_of_training("Acc@1"), is_of_training("files")
    (True, True, False)
    """
    return is_result(name) or (_OTHER.search(name) is not None and _SETTING.search(name) is None)


@lru_cache(MOST_FORMS)
def is_result(name: str) -> bool:
    """Whether a name is a loss or a score."""
    return _KNOWN.search(name) is not None and _SETTING.search(name) is None


class _Place(NamedTuple):
    """The place of a number in a line, and its name.

    of     the place of the denominator, if it is a fraction
    scale  of its unit: 1.2k is 1200
    clear  whether it is the whole number of the quantity, not part of a sum
    """

    name: str
    value: slice
    of: slice | None
    scale: float
    clear: bool


@dataclass(frozen=True)
class _Form:
    """The form of all lines that differ in their digits only: names, and the places of the numbers.

    A training prints few forms of lines, and finding the form takes five times as long as reading the numbers.

    rewritten  whether `_rewrite` says the same more plainly
    is_empty   whether nothing is in it then
    fewest     how many values a line needs to count, if none of them is a known quantity of training
    is_place   whether it contains only the progress of the training
    fractions  all possible positions, as n and total
    keeps      whether other lines can have it too: none of its names contains a number, as "top 5" does
    """

    rewritten: bool = False
    is_empty: bool = False
    places: tuple[_Place, ...] = ()
    fewest: float = 0
    is_place: bool = False
    counter: str = ""
    step: tuple[slice, slice] | None = None
    fractions: tuple[tuple[slice, slice], ...] = ()
    leading: slice | None = None
    epoch: tuple[slice, slice] | None = None
    keeps: bool = True
    part: str = ""
    twice: bool = False
    is_weak: bool = False

    def numbers(self, line: str) -> tuple[dict[str, float], tuple[str, ...]]:
        """The values of a line by name, and the names whose value is left out: ambiguous values, and names with two
        different values, because no rule selects one."""
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
        elif numbers := next(filter(_is_position, ([line[part] for part in each] for each in self.fractions)), None):
            counter, n, total = "fraction", int(numbers[0][:18]), int(numbers[1][:18])
        elif self.leading is not None:
            counter, n = "line", _whole(line[self.leading])
        if self.epoch is None:
            return counter, n, total, None, 0
        return counter, n, total, float(line[self.epoch[0]][:18]), _whole(line[self.epoch[1]])


def _is_position(fraction: list[str]) -> bool:
    n, total = (int(part[:18]) for part in fraction)
    return n <= total > 0


def _span(match: re.Match[str], group: str) -> slice:
    """The place of a group; an empty one if it did not match."""
    return slice(max(0, match.start(group)), max(0, match.end(group)))


_forms: dict[Any, _Form] = {}


def zeroed(line: str) -> bytes:
    """The line with all its digits as zeros: of bytes, since str.translate takes 10 to 25 times as long
    (benchmarks/printed.py).

    >>> zeroed("step 12")
    b'step 00'
    """
    return line.encode("utf-8", "replace").translate(_DIGITS)


def _form_of(line: str, placed: bool | None = None, final: bool = False) -> _Form:
    """The form of a line, or of a part of one whose place is known or absent (`placed`)."""
    key = zeroed(line), placed, final, *_OF_NAMES.findall(line)
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
    if not final and (plainly := _rewrite(line)) != line:
        whole = _new_form(plainly, None, True)
        return _Form(rewritten=True, is_empty=not (whole.places or whole.is_place), keeps=whole.keeps)
    step, twice = _count_in(line)
    epoch, leading = _EPOCH.search(line), _LEADING.match(line)
    places, fewest, covered, keeps = _places(line, any((step, epoch, leading)))
    only_step = step is not None and _ALONE.fullmatch(line[: step.start()] + line[step.end() :]) is not None
    only_epoch = epoch is not None and len(line.strip()) < 40
    covered += [epoch.span()] if epoch else []
    fractions = [each for each in _FRACTION.finditer(line) if not any(a <= each.start() < b for a, b in covered)]
    at = next((name for name in ("a", "b", "c") if leading and leading[name]), "")
    found_epoch = (_span(epoch, "n"), _span(epoch, "total")) if epoch else None
    if leading and leading["epoch"]:
        found_epoch = _span(leading, "epoch"), slice(0, 0)
    return _Form(
        places=places,
        fewest=fewest,
        is_place=only_step or only_epoch or (bool(fractions) and _DRAWN.search(line) is not None),
        counter=step["what"].lower() if step else "",
        step=(_span(step, "n"), _span(step, "total")) if step else None,
        fractions=tuple((_span(each, "n"), _span(each, "total")) for each in fractions),
        leading=_span(leading, at) if leading and places else None,
        epoch=found_epoch,
        keeps=keeps,
        part=_split_of(line),
        twice=twice,
        is_weak=not (step or epoch or leading or fractions or any(is_result(place.name) for place in places)),
    )


def _count_in(line: str) -> tuple[re.Match[str] | None, bool]:
    """The count in a line that is its step, and whether it has two counts of steps."""
    counts = [
        each for each in _STEP.finditer(line) if not _NOT_COUNTED.search(line, max(0, each.start() - 30), each.start())
    ]
    best = max(counts, key=lambda each: rank_of(each["what"]), default=None)
    return best or _OTHER_STEP.search(line), sum(rank_of(each["what"]) == 2 for each in counts) > 1


def _places(line: str, placed: bool) -> tuple[tuple[_Place, ...], float, list[tuple[int, int]], bool]:
    """The places of a line's values; the fewest values for a line to count; the matched parts of the line; whether no
    name contains a number."""
    places: list[_Place] = []
    covered: list[tuple[int, int]] = []
    counted = [
        each.span()
        for way in (_STEP, _OTHER_STEP, _EPOCH)
        for each in way.finditer(line)
        if not _NOT_COUNTED.search(line, max(0, each.start() - 30), each.start())
    ]
    section = _split_of(line)
    training = counts = bare = 0
    free = 0  # where the last match ended
    keeps = True
    for each in _PAIR.finditer(line):
        start, end = each.span()
        signed = bool(each["sign"].strip())
        floor = max([free, *(high for _, high in counted if high <= start)])
        words, begin = _phrase(line, floor, start)
        behind_step = floor > free and not line[floor:begin].strip(" \t,;:|-")
        words = _name_in([*words, each["name"]], signed, placed and behind_step, line[end:])
        counter = any(low <= start < high for low, high in counted)
        if not signed and (counter or not _is_free(line, floor, begin) or not is_of_training("_".join(words))):
            continue
        free = end
        covered.append((begin if words else start, end))
        if counter or not words or _IGNORED.fullmatch(words[0] if len(words) == 1 else ""):
            continue
        section = _heading(line, floor, begin) or section
        key = _qualify("_".join(words), each["more"], section, _BEHIND.match(line, end))
        training += is_of_training(key)
        counts += signed
        bare += end - begin
        keeps = keeps and _LOOSE.search(f"{section} {line[begin : each.start('sign')]}") is None
        half = _OPERATOR.search(line, max(0, begin - 80), begin) or (each["two"] and not each["of"])
        of, scale = _span(each, "of") if each["of"] else None, _SCALE.get(each["unit"].strip(), 1.0)
        places.append(_Place(key, _span(each, "value"), of, scale, not half))
    for way in (_BEHIND_NUMBER, *([_SPLIT_ALONE] if placed else [])):
        for each in way.finditer(line):
            name = "_".join(each["name"].split())
            if not any(low < each.end("value") and each.start("value") < high for low, high in covered) and (
                way is _SPLIT_ALONE or is_of_training(name)
            ):
                places.append(_Place(name, _span(each, "value"), None, 1.0, True))
                covered.append(each.span())
                training += 1
    fewest = 0.0
    if not training and not (placed and counts):
        fewest = math.inf if line.lstrip()[:1] in "#/" else max(2.0, (len(line.strip()) - bare) / 2)
    return tuple(places), fewest, covered, keeps


def _phrase(line: str, floor: int, start: int) -> tuple[list[str], int]:
    """The words before `start` with single spaces between them, and where the first one begins."""
    words: list[str] = []
    begin = start
    while begin - 2 >= floor and line[begin - 1] == " " and len(words) <= MOST_WORDS:
        part_end = _PART_END.search(line, max(floor, begin - 80), begin - 1)
        word = part_end[0] if part_end else ""
        if not _PART.fullmatch(word.rstrip(".")):
            break
        words.insert(0, word)
        begin -= len(word) + 1
    while words and (words[0].isdecimal() or (len(words) > 1 and _TIME.fullmatch(words[0]) and words[1].isdecimal())):
        begin += len(words.pop(0)) + 1  # "10 loss: 0.5", "took 35 loss: 0.5"
    return words, begin


def _name_in(words: list[str], signed: bool, behind_step: bool, behind: str) -> list[str]:
    """The words of a phrase before a number that are the number's name; [] if it is not a name."""
    while len(words) > 1 and (_ARTICLE.fullmatch(words[0]) or _LEVEL.fullmatch(words[0])):
        words = words[1:]
    if behind_step and "with" in words[:-1]:  # "Epoch 3 finished with loss 0.4"
        return _name_in(words[words.index("with") + 1 :], signed, behind_step, behind)
    if len(words) > 1 and _IS.fullmatch(words[-1]) and (signed or (behind_step and _CLAUSE.match(behind))):
        words = words[:-1]  # "Epoch 3: the loss is 0.4"
    if len(words) > MOST_WORDS or any(map(_CLAUSE_WORD.fullmatch, words)):
        return []
    if not signed and (any(map(_SENTENCE.fullmatch, words)) or _MULTIPLE.match(behind)):
        return []
    return [word.removesuffix("'s").strip("'").rstrip(".") or word for word in words]


def _is_free(line: str, floor: int, begin: int) -> bool:
    """Whether a phrase begins a line or follows a sign, a value or a step."""
    gap = line[floor:begin].strip(" \t")
    return not gap or gap[-1] in ",;|:])>-*" or _VALUE_BEFORE.search(gap) is not None


def _heading(line: str, floor: int, begin: int) -> str:
    """The heading before a name, with a colon or in brackets, as "val" in "val: loss 0.5"; "" if there is none."""
    if colons := re.search(r"(?:[^\W\d][\w.-]*:)+$", line[floor:begin]):
        return " ".join(word for word in colons[0].split(":") if word and not _LEVEL.fullmatch(word))  # INFO:root:loss
    heading = _HEADING.search(line, floor, begin)
    words = (heading["words"] or heading["word"]) if heading else ""
    return "" if _LEVEL.fullmatch(words) or _IGNORED.fullmatch(words) else words.removesuffix(" set")


def _split_of(line: str) -> str:
    split = _SPLIT.search(line)
    return next(filter(None, split.groups()), "") if split else ""


def _qualify(name: str, more: str | None, section: str, behind: re.Match[str] | None) -> str:
    """A name with its qualifiers in brackets, before and after it: "loss (aux)", "val: loss", "loss 0.5 (val)"."""
    inside = (more or "").strip(" ()[]'\"")
    if inside and not _UNIT.fullmatch(inside):
        name = f"{name}_{inside}"
    if behind is not None:
        name = f"{behind[1]}_{name}"
    words = section.split()
    # A heading of several names, as in "Test set: Average loss: .05, Accuracy: …", only qualifies the loss.
    alone = len(words) < 2 or words[-1].isdecimal() or name.lower() == "loss"
    if words and alone and section.lower() not in name.lower():
        name = f"{'_'.join(words)}_{name}"
    return name


def _scale_value(text: str) -> float:
    unit = _SCALE.get(text[-1:], 1.0)
    try:
        return min(float(text.rstrip("kMGT")) * unit, 2.0**53)
    except ValueError:  # "1.2.3"
        return 0.0


def _whole(text: str | None) -> int:
    return int(text.replace(",", "")[:18] or 0) if text else 0


def _epoch(match: re.Match[str] | None) -> tuple[float | None, int]:
    return (float(match["n"][:18]), _whole(match["total"])) if match else (None, 0)


def _clock(text: str) -> float | None:
    """Seconds of "1:02:03"; None of "?"."""
    seconds = 0.0
    for part in text.split(":"):
        if not part.isdecimal():
            return None
        seconds = 60 * seconds + int(part[:9])
    return seconds
