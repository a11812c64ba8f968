"""Scenario files: found by name or path, changed by `--set`, validated, written back.

Any mistake in a file becomes one sentence (file, line, key, given, allowed, nearest) with its quotations
escaped, so that a hostile file can neither run code nor control the terminal. A relative path is relative to the folder
of the file that contains it, or to the current folder if it comes from `--set`. A saved tokenizer is written back as
the path of its file, so that a detached or resumed run finds it from anywhere.
"""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError

from txlab.errors import LabError, nearest
from txlab.experiments import tokenizer_store
from txlab.experiments.kind import kind_named, kind_names
from txlab.experiments.schema import CATALOGUE_ORDER, Scenario, Start
from txlab.files import open_regular, shipped_path
from txlab.plugins import plugins
from txlab.runs.former_names import current_tables
from txlab.runs.scenario_errors import (
    LONGEST_QUOTE,
    Complaint,
    complaints,
    escape,
    format_value,
    quote,
    table_in_list,
    usual_key,
)

# A scenario is a page of text. The bound keeps a wrong path (a data set, a device) from being read into memory.
LARGEST_FILE = 256 * 1024
# tomllib takes time quadratic in the parts of one dotted key: minutes for 256 KiB of "a.a.a.". The look-behind and the
# possessive quantifiers keep this search itself linear.
DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:"[^"\n]*+"|'[^'\n]*+'|[\w-]++)[ \t]*+\.[ \t]*+){32}""")
NUMBER_OF_PYTHON = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")  # ".5" and "1." are not TOML, yet clear

ENTRY_POINTS = "txlab.scenarios"
NAMED_TEXTS = ("python-docs", "python-source", "-")

Key = tuple[str, ...]


@dataclass(frozen=True)
class LoadedScenario:
    """A validated scenario; `name` is safe in a file name; `origin` tells people where it came from; `changes` are the
    settings (dotted key → value) given by the caller that differ from the file."""

    scenario: Scenario
    name: str
    origin: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CatalogueEntry:
    """A scenario of the catalogue."""

    name: str
    path: Path
    scenario: Scenario


def shipped_scenarios() -> dict[str, Path]:
    """Name → file of the scenarios that come with txlab, sorted by name."""
    return scenarios_in(shipped_path("scenarios"))


def installed_scenarios() -> dict[str, Path]:
    """The same, including those of other packages: entry points of the group `txlab.scenarios` name packages such as
    "toy.scenarios" that contain TOML files. txlab's own names take precedence."""
    scenarios: dict[str, Path] = {}
    for point in plugins(ENTRY_POINTS).values():
        with suppress(ImportError, ValueError):
            spec = find_spec(point.value)
            for folder in (spec and spec.submodule_search_locations) or ():
                scenarios |= scenarios_in(Path(folder))
    return scenarios | shipped_scenarios()


def scenarios_in(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def catalogue() -> list[CatalogueEntry]:
    """The scenarios that come with txlab and with other packages, by chapter, language models first, and then by
    duration, shortest first, unknown durations last."""
    entries = [entry_at(name, path) for name, path in installed_scenarios().items()]

    def place(entry: CatalogueEntry) -> tuple[int, float]:
        about = entry.scenario.about
        return CATALOGUE_ORDER.index(about.chapter), about.minutes or math.inf

    return sorted(entries, key=place)


def entry_at(name: str, path: Path) -> CatalogueEntry:
    return CatalogueEntry(name, path, load_scenario(str(path)).scenario)


def load_scenario(
    name_or_path: str | Path, overrides: Sequence[str] = (), seed: int | None = None, device: str | None = None
) -> LoadedScenario:
    """Load a scenario by name or file, apply `a.b=c` overrides, seed and device, and validate it against its schema.

    Raises LabError, one sentence, for any mistake in the name, the file or an override.
    """
    path = find_scenario(name_or_path)
    text = read_text(path)
    table = tables_in(text, path)
    settings: dict[Key, str] = {}  # the command line's settings as typed: for errors and for relative paths
    for override in overrides:
        key, value = parse_override(override)
        key = schema_key(table, key)
        list_defaults(table, key)
        put(table, key, value)
        settings[key] = override
    if seed is not None:
        put(table, ("seed",), seed)
        settings[("seed",)] = f"--seed {seed}"
    if device is not None:
        put(table, ("compute", "device"), device)
        settings[("compute", "device")] = f"--device {escape(device)}"
    scenario = with_absolute_paths(check(table, text, path, settings), path, settings)
    written, now = tables_in(text, path), scenario.model_dump()
    changes = {".".join(key): value for key in settings if (value := value_at(now, key)) != value_at(written, key)}
    return LoadedScenario(scenario, run_name(path), str(path), changes)


def value_at(table: Any, key: Key) -> Any:
    """Return the value of a dotted key; None if there is none."""
    for place, part in enumerate(key):
        if is_tables(table):
            with suppress(LabError):
                table = table_in(table, key[:place], part)
                continue
        table = table.get(part) if isinstance(table, dict) else None
    return table


def dump_scenario(scenario: Scenario) -> str:
    """The whole scenario as TOML, defaults included; loading it gives an equal scenario."""
    return tomli_w.dumps(scenario.model_dump())


def find_scenario(name_or_path: str | Path) -> Path:
    """The scenario file for a path, if it looks like one or exists, or for the name of a scenario."""
    given_name = os.fspath(name_or_path)
    looks_like_path = isinstance(name_or_path, Path) or given_name.endswith(".toml") or "/" in given_name
    if not looks_like_path:
        for known in (shipped_scenarios, installed_scenarios):  # other packages only for names that txlab lacks
            if given_name in (names := known()):
                return names[given_name]
    path = Path(given_name)
    with suppress(OSError):  # a name that is too long
        if given_name and "\0" not in given_name and path.is_file():
            return path
    if looks_like_path and path.name and "\0" not in given_name:
        return path  # reading it will say what is wrong
    raise LabError(
        f"no scenario is called {quote(given_name)}{nearest(given_name, installed_scenarios())}; allowed: a file, or "
        f"one of the {len(installed_scenarios())} that txlab scenarios lists"
    )


def read_text(path: Path, follow: bool = True) -> str:
    """Return the text of a scenario file. Raises LabError if it is missing, too large, not a file, or not UTF-8."""
    shown = escape(str(path))
    try:
        mode = path.stat(follow_symlinks=follow).st_mode
        if stat.S_ISDIR(mode):
            own = path / "scenario.toml"
            nested = f" (nearest: {escape(str(own))})" if own.is_file() else ""
            raise LabError(f"{shown} is a folder; a scenario is a TOML file{nested}")
        if not stat.S_ISREG(mode):  # a FIFO would block for ever
            raise LabError(f"{shown} is not a regular file; a scenario is a TOML file")
        with os.fdopen(open_regular(path, follow=follow), "rb") as file:
            content = file.read(LARGEST_FILE + 1) or b""  # None if reading would block
    except OSError as error:
        raise LabError(f"{shown} cannot be read: {error.strerror or error}{neighbour(path)}") from None
    if len(content) > LARGEST_FILE:
        raise LabError(
            f"{shown} is larger than {LARGEST_FILE // 1024} KiB, so it is not a scenario; allowed: a TOML file"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LabError(f"{shown} is not a TOML file: byte {error.start} is not UTF-8") from None


def parse(text: str, path: Path) -> dict[str, Any]:
    """Parse a TOML text into a table. Raises LabError for anything that is not valid TOML."""
    shown = escape(str(path))
    if has_deep_key(text):
        raise LabError(f"{shown} has a key of more than 32 parts; a scenario has tables of one level")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise LabError(f"{shown} is nested too deeply; a scenario has tables of one level") from None
    except ValueError as error:  # also: an integer of more digits than Python reads
        raise LabError(f"{shown}{why_no_toml(text, escape(str(error))[:200])}") from None


def tables_in(text: str, path: Path) -> dict[str, Any]:
    """Parse a scenario file. One that belongs to a run may be older than a renaming: its names are made current."""
    table = parse(text, path)
    of_a_run = path.name == "scenario.toml" and any(
        (path.parent / name).exists() for name in ("run.json", "events.jsonl")
    )
    return current_tables(table) if of_a_run else table


def has_deep_key(text: str) -> bool:
    """Whether a dotted key has more than 32 parts, escaped quotes within them or not."""
    return DEEP_KEY.search(text.replace("\\\\", "").replace('\\"', "")) is not None


def why_no_toml(text: str, error: str) -> str:
    """tomllib's message with the line it is about, and the most common cause: a string without quotes."""
    place = re.search(r" \(at line (\d+), column (\d+)\)$", error)
    lines = text.split("\n")
    if place is None or int(place[1]) > len(lines):
        return f" is not a TOML file: {error}"
    line = lines[int(place[1]) - 1].strip()
    bare = re.fullmatch(r"[\w.-]+\s*=\s*[A-Za-z~./][\w~./ -]*", line) and "invalid value" in error.lower()
    hint = "; strings need quotes" if bare else ""
    cut = escape(line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}…")
    return f", line {place[1]}: `{cut}` is not valid TOML: {error[: place.start()]} (column {place[2]}){hint}"


def parse_override(override: str) -> tuple[Key, Any]:
    """`a.b=c` → (("a", "b"), c). c is parsed as a TOML value or, failing that, taken as a string.

    >>> parse_override("model.tied=false"), parse_override("data.text=notes.txt")
    ((('model', 'tied'), False), (('data', 'text'), 'notes.txt'))
    """
    key, equals, raw = override.partition("=")
    parts = tuple(part.strip() for part in key.split("."))
    if not equals or not all(parts) or len(parts) > 8:
        raise LabError(f"--set {quote(override)} is not of the form key=value, e.g. --set train.steps=100")
    return parts, parse_value(raw)


def schema_key(table: Mapping[str, Any], key: Key) -> Key:
    """Return the schema's key for a usual name such as train.lr; any other key as it is."""
    kind = table.get("kind")
    usual = usual_key(kind_named(kind).schema, key) if isinstance(kind, str) and kind in kind_names() else ""
    return tuple(usual.split(".")) if usual else key


def parse_value(raw: str) -> Any:
    """The parsed TOML value, or the text itself if it is not one."""
    raw = raw.strip()
    if has_deep_key(raw):
        return raw
    try:
        document = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return float(raw) if NUMBER_OF_PYTHON.fullmatch(raw) and len(raw) < 64 else raw
    return document["value"] if len(document) == 1 else raw  # "1\nx = 2" would be a second key


def put(table: dict[str, Any], key: Key, value: Any) -> None:
    """Set a dotted key; a plain value on the way is replaced by a table, and the schema reports it if that is wrong.

    In a list of tables the key continues with the name or the number of a table: learners.sarsa.alpha,
    learners.0.alpha. LabError if there is none.
    """
    here: Any = table
    for place, part in enumerate(key[:-1]):
        if is_tables(here):
            here = table_in(here, key[:place], part)
            continue
        if not isinstance(here.get(part), dict) and not is_tables(here.get(part)):
            here[part] = {}
        here = here[part]
    if is_tables(here):
        raise LabError(f"--set: {escape('.'.join(key))} is a table; {escape('.'.join(key))}.KEY=VALUE sets a key of it")
    here[key[-1]] = value


def is_tables(value: Any) -> bool:
    """Whether this is a list of tables, such as the learners of a scenario."""
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def table_in(tables: list[dict[str, Any]], key: Key, wanted: str) -> dict[str, Any]:
    """The table with this number, from 0, or this name: its label, or else its rule. LabError if it is not unique."""
    names = table_names(tables)
    if names.count(wanted) == 1:
        return tables[names.index(wanted)]
    if wanted.isdecimal() and len(wanted) < 4 and int(wanted) < len(tables):
        return tables[int(wanted)]
    several = f"{names.count(wanted)} of them are" if wanted in names else "none is"
    allowed = f"allowed: 0 to {len(tables) - 1}" if len(tables) > 1 else "allowed: 0"
    listed = ", ".join(name for name in dict.fromkeys(names) if names.count(name) == 1 and not name.isdecimal())
    raise LabError(
        f"--set: {escape('.'.join(key))}: {several} called {quote(wanted)}{nearest(wanted, names)}; {allowed}"
        + (f", {escape(listed)}" if listed else "")
    )


def table_names(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the tables of a list: the label, or else the rule, or else the number, from 0."""
    return [str(each.get("label") or each.get("rule") or each.get("name") or n) for n, each in enumerate(tables)]


def list_defaults(table: dict[str, Any], key: Key) -> None:
    """Write out the default tables of a list, if the file omits it and the key belongs to one of them."""
    kind = table.get("kind")
    if len(key) > 1 and key[0] not in table and isinstance(kind, str) and kind in kind_names():
        field = kind_named(kind).schema.model_fields.get(key[0])
        if field is not None and table_in_list(field.annotation):
            default = field.get_default(call_default_factory=True)
            table[key[0]] = [each.model_dump(exclude_unset=True) for each in default]


def check(table: dict[str, Any], text: str, path: Path, settings: Mapping[Key, str]) -> Scenario:
    """Validate the table as a scenario of its kind; LabError, one sentence, if it is invalid."""
    kind = table.get("kind")
    known = kind_names()
    if not isinstance(kind, str) or kind not in known:
        place = "--set" if ("kind",) in settings else escape(str(path))
        what = f"kind = {format_value(kind)} is not an experiment" if "kind" in table else "kind is missing"
        close = nearest(kind, known) if isinstance(kind, str) else ""
        raise LabError(f"{place}: {what}{close}; allowed: {', '.join(map(repr, known))}")
    schema = kind_named(kind).schema
    try:
        return schema.model_validate(table)
    except ValidationError as error:
        mistakes = complaints(schema, error)
    # A text of digits from the command line was read as a number: `--set data.text=2024` means the file "2024".
    again = [c.key for c in mistakes if c.expects_text and c.key in settings]
    if again:
        for key in again:
            put(table, key, settings[key].partition("=")[2])
        return check(
            table,
            text,
            path,
            {key: words for key, words in settings.items() if key not in again} | dict.fromkeys(again, ""),
        )
    raise LabError(sentence(mistakes, text, path, settings))


def sentence(mistakes: Sequence[Complaint], text: str, path: Path, settings: Mapping[Key, str]) -> str:
    """One sentence for all mistakes: the first complaint, and how many more there are.

    Those from the command line come first, then those in the file, in order of their lines; a key that is missing
    comes last, as it may be one that is misspelt.
    """

    lines = lines_of(text)

    def place(complaint: Complaint) -> tuple[int, str]:
        key = complaint.key
        words = next((w for other, w in settings.items() if other[: len(key)] == key[: len(other)]), None)
        if words is not None:
            return 0, words.split()[0] if words.startswith("--") else "--set"
        line = line_of(lines, key, complaint.entry)
        return (line, f"{escape(str(path))}, line {line}") if line else (LARGEST_FILE, escape(str(path)))

    (_, where), first = min(((place(c), c) for c in mistakes), key=lambda pair: (pair[1].kind == "missing", pair[0][0]))
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    return f"{where}: {first.text}{more}"


def line_of(lines: Mapping[Key, int], key: Key, entry: str = "") -> int | None:
    """The line of a key, or of an entry "[2].weight" in a list of tables: of the key in it, else of the table."""
    place = tuple(re.findall(r"\w+", entry))
    longest = (lines.get((*key, *place[:length])) for length in range(min(2, len(place)), -1, -1))
    return next((line for line in longest if line), None)


def lines_of(text: str) -> dict[Key, int]:
    """The line (from 1) on which each key and table of a plainly written file first appears; the tables of a list are
    also numbered, from 0: ("learners", "1", "alpha")."""
    lines: dict[Key, int] = {}
    counts: Counter[Key] = Counter()
    table: Key = ()
    numbered: Key = ()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            name, closed, _ = stripped.lstrip("[").partition("]")
            if closed:
                table = numbered = tuple(part.strip(" \"'") for part in name.split("."))
                lines.setdefault(table, number)
                if stripped.startswith("[["):
                    numbered = (*table, str(counts[table]))
                    counts[table] += 1
                    lines.setdefault(numbered, number)
        elif assignment := re.match(r"([\w.\-\"']+)\s*=", stripped):
            key = tuple(part.strip("\"'") for part in assignment[1].split("."))
            lines.setdefault((*table, *key), number)
            lines.setdefault((*numbered, *key), number)
    return lines


def run_name(path: Path) -> str:
    """A short name, safe in a file name: the file's stem, or the run's name for the scenario.toml of a run."""
    stem = path.stem
    if stem == "scenario":
        stem = re.sub(r"^\d{4}-\d\d-\d\d_\d{6}_", "", path.absolute().parent.name) or stem
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.")[:60] or "scenario"


def neighbour(path: Path) -> str:
    try:
        stems = [p.stem for p in islice(path.parent.glob("*.toml"), 1000)]
    except OSError:
        return ""
    close = nearest(path.stem, stems)
    return escape(close.replace(")", ".toml)")) if close else escape(nearest(path.stem, shipped_scenarios()))


# Paths


def with_absolute_paths(scenario: Scenario, path: Path, settings: Mapping[Key, str]) -> Scenario:
    """Make `data.text`, `data.tokenizer`, `start.run` and `world.file` absolute paths that exist, unless they name
    something other than a file.

    said  the keys that the command line set
    """

    def base(*key: str) -> Path:
        return Path.cwd() if key in settings else path.resolve().parent

    changes: dict[str, BaseModel] = {}
    start, world = getattr(scenario, "start", None), getattr(scenario, "world", None)
    if isinstance(start, Start) and start.run.startswith((".", "/", "~")):
        run = existing(start.run, base("start", "run")) or start.run  # preparing the run will say what is wrong
        changes["start"] = start.model_copy(update={"run": run})
    if isinstance(world, BaseModel) and (file := getattr(world, "file", "")):
        file = existing(file, base("world", "file")) or file  # reading it will say what is wrong
        changes["world"] = world.model_copy(update={"file": file})
    data = getattr(scenario, "data", None)
    if isinstance(data, BaseModel) and getattr(data, "source", "text") == "text":  # a generated task reads no file

        def absolute(key: str, value: str) -> str:
            name = re.split(r"\W", key)[0]
            place = f"--set data.{key}" if ("data", name) in settings else f"{escape(str(path))}: data.{key}"
            absolute_of = absolute_tokenizer if name == "tokenizer" else absolute_text
            return absolute_of(value, base("data", name), f"{place} = {quote(value)}")

        mixture = getattr(data, "mixture", None) or []
        paths: dict[str, object] = {
            name: absolute(name, value)
            for name in ("text", "tokenizer")
            if isinstance(value := getattr(data, name, None), str)
            and not (name == "text" and mixture)  # a text unused because of a mixture need not exist
        }
        if mixture:
            paths["mixture"] = [
                part.model_copy(update={"text": absolute(f"mixture[{number}].text", part.text)})
                for number, part in enumerate(mixture)
            ]
        # Set only what has changed, so that model_fields_set still tells which keys the user gave.
        if paths := {name: value for name, value in paths.items() if value != getattr(data, name)}:
            changes["data"] = data.model_copy(update=paths)
    return scenario.model_copy(update=changes) if changes else scenario


def absolute_text(text: str, base: Path, place: str) -> str:
    """The name of a corpus, `-`, or the absolute path of a file or folder; LabErrors begin with `place`."""
    if text in NAMED_TEXTS:
        return text
    allowed = "allowed: python-docs, python-source, a file, a folder, or -"
    if not text or "\0" in text:
        raise LabError(f"{place} is not a path; {allowed}")
    path = existing(text, base)
    if path is None:
        raise LabError(f"{place} is neither a corpus nor a file or folder{nearest(text, NAMED_TEXTS[:2])}; {allowed}")
    return path


def absolute_tokenizer(tokenizer: str, base: Path, place: str) -> str:
    """A kind of tokenizer, or the absolute path of a saved tokenizer or a file; LabErrors begin with `place`."""
    always = dict.fromkeys([*tokenizer_store.KINDS, *tokenizer_store.BUILT_IN])
    if tokenizer in always:
        return tokenizer
    saved = tokenizer_store.files_by_name()
    path = existing(str(saved[tokenizer].absolute()) if tokenizer in saved else tokenizer, base)
    if path is None:
        names = f" ({', '.join(map(escape, saved))})" if saved else ""
        raise LabError(
            f"{place} is neither a kind of tokenizer, nor a saved one, nor a file"
            f"{escape(nearest(tokenizer, [*always, *saved]))}; allowed: {', '.join(map(quote, always))}, "
            f"a saved tokenizer{names}, or a file"
        )
    return path


def existing(given_path: str, base: Path) -> str | None:
    """The path made absolute from `base`, or None if nothing is there."""
    if not given_path or "\0" in given_path:
        return None
    expanded = Path(given_path).expanduser() if given_path.startswith("~/") else Path(given_path)
    path = os.path.abspath(base / expanded)  # noqa: PTH100 - keeps symbolic links as the user wrote them
    try:
        return path if Path(path).exists() else None
    except OSError:  # a name that is too long, a folder that may not be entered
        return None
