"""Lectures: TOML files of steps, each a sentence and the exact state of the console that goes with it.

    title = "Attention, step by step"
    [[run]]                       # trained beforehand by `txlab lecture FILE --prepare`
    name = "copy"
    scenario = "gpt-copy"
    set = ["train.steps=400"]

    [[step]]
    title = "A head copies"
    say = "Each row looks one past the last occurrence of its symbol."
    screen = "attention"
    run = "copy"
    at = 400
    keys = ["j", "down 5"]
    point = ["induction"]
    press = "x"

    [[step]]                      # begins with the state before it, and the key that led here
    keep = true
    title = "Without it"
    say = "Switched off, the head's symbols are lost."

Every step can be reached from nothing: a new screen, the run, its frame, the text, then the keys. A step with `keep`
adds to the state of the step before it. Nothing here depends on the terminal; `txlab.tui.lecture` plays a lecture.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError, model_validator

from txlab.errors import LabError, choices, nearest
from txlab.experiments.schema import NonNegativeInt, Section
from txlab.files import read_regular, shipped_path
from txlab.runs.scenario import LARGEST_FILE, line_of, lines_of, parse, sentence
from txlab.runs.scenario_errors import complaints, escape, quote

FIRST_STEPS = "first-steps"
"""The lecture that the Lab offers under "Start here"."""

MODIFIED = re.compile(r"((?:ctrl|shift|alt)\+)+")
RENAMED = {  # names of Unicode that Textual shortens
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}


def character_name(character: str) -> str:
    """Return Textual's name of a key that types a character.

    >>> character_name("a"), character_name("."), character_name("-")
    ('a', 'full_stop', 'minus')
    """
    if character.isalnum():
        return character
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return RENAMED.get(name, name)


TYPED = {character_name(character): character for character in string.punctuation + " "}
KEYS = (
    *("enter", "escape", "tab", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
    *("up", "down", "left", "right", *(f"f{number}" for number in range(1, 13))),
    *TYPED,
)


def key_of_file(written: str) -> str:
    """Check a key of a lecture: a character, a name with or without a modifier, "down 5", or "type some text"."""
    name, space, rest = written.partition(" ")
    if name == "type" and rest:
        return written
    name = MODIFIED.sub("", name) or name
    if (len(name) == 1 and name.isprintable()) or name in KEYS:
        if space and not (rest.isdecimal() and 0 < int(rest[:4]) < 1000):
            raise ValueError(f"{quote(written)} is not allowed: after the key comes how often, from 1 to 999")
        return written
    raise ValueError(
        f"{quote(written)} is not a key{nearest(name, KEYS)}; allowed: a character, a name such as enter, down or f2, "
        'ctrl+a, "down 5", or "type some text"'
    )


def pressed_keys(written: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the keys one by one: Textual's name, and the character that the key types.

    >>> [*pressed_keys(["down 2", "type a.", "slash"])]
    [('down', None), ('down', None), ('a', 'a'), ('full_stop', '.'), ('slash', '/')]
    """
    for each in written:
        name, _, rest = each.partition(" ")
        if name == "type" and rest:
            yield from ((character_name(character), character) for character in rest)
        elif len(name) == 1:
            yield from [(character_name(name), name)] * int(rest or 1)
        else:
            yield from [(name, TYPED.get(name))] * int(rest or 1)


Key = Annotated[str, AfterValidator(key_of_file)]


@dataclass(frozen=True)
class Place:
    """A state of the console that can be reached from nothing.

    screen  its name: attention         run  one of a lecture, or a scenario, whose newest run is meant; "" = none
    at      the step of the frame shown; None = the newest
    text    read by Tokens or by the model on Attention
    set     parameters of what is computed on the screen itself
    keys    pressed one after the other, each after everything that the one before it caused
    """

    screen: str
    run: str = ""
    at: int | None = None
    text: str = ""
    set: Mapping[str, float] = field(default_factory=dict)
    keys: tuple[str, ...] = ()


class LectureRun(Section):
    """A run that a lecture shows."""

    name: str = Field(pattern=r"^\w[\w.-]*$", description="letters, digits, dots and dashes")
    scenario: str = Field(description="a scenario, or a TOML file in the lecture's folder")
    set: list[str] = Field(default_factory=list, description='settings that differ, e.g. ["train.steps=200"]')


class Step(Section):
    """A step of a lecture."""

    title: str = Field("", max_length=60, description="a few words")
    say: str = Field(max_length=400, description="a sentence or two, which are shown")
    notes: str = Field("", max_length=2000, description="for the lecturer, shown by a key")
    screen: str = Field("", description="the screen; empty with keep")
    run: str = Field("", description="the name of a [[run]]")
    at: int | None = Field(None, ge=0, description="the step of the frame")
    text: str = Field("", max_length=5000, description="for Tokens, or for the model on Attention")
    set: dict[str, float] = Field(default_factory=dict, description="parameters of what the screen computes")
    keys: list[Key] = Field(default_factory=list, description="keys pressed one after the other")
    point: list[str] = Field(default_factory=list, description='words on the screen, or "#id" of a part of it')
    press: Annotated[str, AfterValidator(lambda key: key and key_of_file(key))] = Field(
        "", description="the key that leads to the next step; it glows, and going forward presses it"
    )
    until: NonNegativeInt = Field(0, description="the step of the run at which the lecture continues by itself")
    live: bool = Field(False, description="the run may still be computed, and the screen stays as it was left")
    keep: bool = Field(False, description="begin with the state of the step before this one")

    @model_validator(mode="after")
    def has_a_place(self) -> Step:
        if self.keep and (self.screen or self.run or self.at is not None):
            raise ValueError("keep begins with the state before it, so screen, run and at are not allowed with it")
        if not self.keep and not self.screen:
            raise ValueError("screen is missing; allowed: the name of a screen, or keep = true")
        return self

    @property
    def place(self) -> Place:
        return Place(self.screen, self.run, self.at, self.text, self.set, tuple(self.keys))


class Contents(Section):
    """A lecture's file."""

    title: str = Field(max_length=80, description="one line")
    about: str = Field("", description="a paragraph: what it shows, and for whom")
    hall: bool = Field(False, description="show it in hall mode, for readers in the back row")
    run: list[LectureRun] = Field(default_factory=list)
    step: list[Step] = Field(min_length=1)


@dataclass(frozen=True)
class Lecture:
    """A checked lecture; `name` is safe in a file name."""

    name: str
    path: Path
    contents: Contents

    @property
    def argument(self) -> str:
        """What names it on a command line."""
        return self.name if shipped_lectures().get(self.name) == self.path else str(self.path)

    @property
    def steps(self) -> list[Step]:
        return self.contents.step

    @property
    def runs(self) -> dict[str, LectureRun]:
        return {run.name: run for run in self.contents.run}

    def full_step(self, number: int) -> int:
        """Return the last step, up to this one, that does not keep the state before it; both from 0."""
        return max(place for place in range(number + 1) if not self.steps[place].keep)


def shipped_lectures() -> dict[str, Path]:
    """Return name → file of the lectures of txlab, `first-steps` first."""
    found = {path.stem: path for path in sorted(shipped_path("lectures").glob("*.toml"))}
    return dict(sorted(found.items(), key=lambda item: item[0] != FIRST_STEPS))


def find_lecture(name: str) -> Path:
    """Return the file of a lecture by its name or path. LabError if there is none."""
    shipped = shipped_lectures()
    if name in shipped:
        return shipped[name]
    if name.endswith(".toml") or "/" in name:
        return Path(name)
    raise LabError(f"no lecture is called {quote(name)}{choices(name, shipped)}, or a file")


def load_lecture(name: str, screens: Collection[str]) -> Lecture:
    """Read a lecture and check it; `screens` are the names of the screens that exist.

    Raises LabError for a mistake, in one sentence: file, line, key, what is allowed, the nearest.
    """
    path = find_lecture(name)
    shown = escape(str(path))
    try:
        text = read_regular(path, LARGEST_FILE).decode()
    except OSError as error:
        raise LabError(f"{shown} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise LabError(f"{shown} is not a TOML file: byte {error.start} is not UTF-8") from None
    try:
        contents = Contents.model_validate(parse(text, path))
    except ValidationError as error:
        raise LabError(sentence(complaints(Contents, error), text, path, {})) from None
    check_names(contents, text, path, screens)
    return Lecture(re.sub(r"[^\w.-]+", "-", path.stem).strip("-.")[:60] or "lecture", path, contents)


def check_names(contents: Contents, text: str, path: Path, screens: Collection[str]) -> None:
    """Check what steps refer to. LabError for the first screen or run that does not exist."""
    lines = lines_of(text)

    def require(known: bool, place: tuple[str, str], why: str) -> None:
        if not known:
            line = line_of(lines, (place[0],), place[1])
            raise LabError(f"{escape(str(path))}, line {line}: {place[0]}{place[1]}{why}")

    names = [run.name for run in contents.run]
    for number, name in enumerate(names):
        require(name not in names[:number], ("run", f"[{number}].name"), f" = {quote(name)} is there twice")
    require(not contents.step[0].keep, ("step", "[0].keep"), ": there is no step before the first")
    for number, step in enumerate(contents.step):
        for key, value, allowed in (("screen", step.screen, screens), ("run", step.run, names)):
            why = f" = {quote(value)} is not allowed{choices(value, allowed)}"
            require(not value or value in allowed, ("step", f"[{number}].{key}"), why)
