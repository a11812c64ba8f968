"""The table [world] of a scenario: a world of the catalogue, a map, a file with a map, or one of Gymnasium's.

Options that only some worlds have (slippery, size, seed …) are read from the worlds; an option that was not given is
None and is not written to the file, and a world without it refuses it. `with_its_map` puts a file's text into the
table, so that a run can be repeated and viewed without that file.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails

from txlab.engine.rl.gymnasium_adapter import NoTables, from_gymnasium, stepped_world
from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.maps.drawn import MOST_CHARACTERS, parse_map
from txlab.engine.rl.world import Option, World
from txlab.engine.rl.worlds import change_world, find_world, load_worlds, world_named
from txlab.errors import LabError
from txlab.experiments.schema import NonNegativeInt, Section
from txlab.files import read_regular

MOST_BYTES = 4 * MOST_CHARACTERS  # of UTF-8

Share = Annotated[float, Field(ge=0, le=1)]
GYMNASIUM = "gymnasium:"
ENDLESS = 10_000
"""Steps after which a learner's episode is cut off in a world without a limit, where it might never end."""


class SharedKeys(Section):
    """Exactly one of `name`, `map` and `file`; then any deviations from it."""

    model_config = ConfigDict(extra="allow")  # the options of worlds that other packages bring: see `known_options`

    name: str = Field("", max_length=200, description="a world of the catalogue, a shipped map, or gymnasium:ID")
    map: str = Field("", max_length=MOST_CHARACTERS, description="a map, drawn as text")
    file: str = Field("", max_length=4096, description="a UTF-8 file with such a map")

    discount: Share | None = Field(None, description="γ")
    limit: NonNegativeInt | None = Field(None, description="steps after which an episode is cut off; 0 = never")
    slip: Share | None = Field(None, description="maps: the probability of going to a side of the move instead")

    @model_validator(mode="after")
    def known_options(self) -> Self:
        """An option that no built-in world has must be one of the named world."""
        if extra := self.model_extra:
            named = find_world(self.name)
            unknown = [key for key in extra if named is None or key not in named.options]
            if unknown:
                details = [InitErrorDetails(type="extra_forbidden", loc=(key,), input=extra[key]) for key in unknown]
                raise ValidationError.from_exception_data("world", details)
        return self

    @model_validator(mode="after")
    def one_world(self) -> Self:
        """Exactly one key must name the world; whether it exists is checked when it is made."""
        given = [key for key in ("name", "map", "file") if getattr(self, key)]
        if len(given) != 1:
            raise ValueError(f"exactly one of name, map and file is needed; given: {' and '.join(given) or 'none'}")
        return self

    @model_serializer(mode="wrap")
    def serialize_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the keys that were not given: TOML has no None."""
        return {key: value for key, value in serialize(self).items() if value not in (None, "")}

    def options(self) -> dict[str, Any]:
        """The options given that only some worlds have."""
        return {key: value for key, value in self if key not in SharedKeys.model_fields and value is not None}


def option_keys() -> dict[str, Any]:
    """A key for each option that a built-in world has, as `create_model` reads it; None = not given."""
    options: dict[str, tuple[Option, list[str]]] = {}
    for named in load_worlds().values():
        for key, option in named.options.items():
            options.setdefault(key, (option, []))[1].append(named.name)
    return {
        key: (
            (Literal[option.choices] if option.choices else type(option.default)) | None,
            Field(None, description=f"{', '.join(names)}: {option.about}"),
        )
        for key, (option, names) in options.items()
    }


if TYPE_CHECKING:

    class WorldSection(SharedKeys):
        """The table [world]: the shared keys, and the options of every built-in world."""

else:
    WorldSection = create_model("WorldSection", __base__=SharedKeys, __module__=__name__, **option_keys())


def world_of(section: WorldSection, by_stepping: bool = False) -> World:
    """Make the world of the table; `by_stepping` also allows one without known probabilities, which only learners can
    use. LabError names the key.
    """
    if section.name.startswith(GYMNASIUM):
        for key in section.options():
            raise LabError(f"world.{key} is for worlds that are not Gymnasium's")
        id = section.name.removeprefix(GYMNASIUM)
        try:
            world = from_gymnasium(id)
        except NoTables as error:
            if not by_stepping:
                raise LabError(f"world.name: {error}") from None
            return open_stepped(section, id)
        except LabError as error:
            raise LabError(f"world.name: {error}") from None
    elif section.name:
        try:
            world = world_named(section.name, **section.options())
        except LabError as error:
            raise LabError(f"world.{error}" if find_world(section.name) else f"world.name = {error}") from None
    else:
        if section.options():
            raise LabError(
                f"world.{next(iter(section.options()))} is for worlds that have a name; a map's head says it"
            )
        world = world_of_map(section)
    try:
        return change_world(world, section.discount, section.limit, section.slip)
    except LabError as error:
        raise LabError(f"world: {error}") from None


def open_stepped(section: WorldSection, id: str) -> World:
    """A Gymnasium environment that can only be stepped, such as Blackjack-v1."""
    if section.slip is not None:
        raise LabError(f"world.slip is for worlds that are maps; {section.name} is none")
    discount = 1.0 if section.discount is None else section.discount
    try:
        return stepped_world(id, discount, ENDLESS if section.limit is None else section.limit)
    except LabError as error:
        raise LabError(f"world.name: {error}") from None


def limit_steps(world: World) -> World:
    """The world with a limit of steps added if it has none, and a note about it."""
    if world.process.limit:
        return world
    note = f"An episode is cut off after {ENDLESS} steps."
    return replace(world, process=replace(world.process, limit=ENDLESS), notes=(*world.notes, note))


def world_of_map(section: WorldSection) -> World:
    """The world of the table's map, or of its map file."""
    place = "world.map" if section.map else f"world.file = {section.file[:200]!a}"
    text = section.map or text_of(section.file, place)
    try:
        return compile_map(parse_map(text))
    except LabError as error:
        raise LabError(f"{place}: {error}") from None


def text_of(file: str, place: str) -> str:
    """The text of a regular UTF-8 file that is not too large. LabError begins with `place`."""
    try:
        return read_regular(Path(file).expanduser(), MOST_BYTES).decode()
    except FileNotFoundError:
        raise LabError(f"{place} is not there; a UTF-8 file with a map is needed") from None
    except UnicodeDecodeError as error:
        raise LabError(
            f"{place} is not UTF-8: byte {error.start} is wrong; a UTF-8 file with a map is needed"
        ) from None
    except (OSError, ValueError, RuntimeError) as error:  # no permission; a NUL in the path; ~ with an unknown user
        number = getattr(error, "errno", None)
        if number == errno.EFBIG:
            raise LabError(f"{place} has more than {MOST_BYTES} bytes; a map has no more") from None
        if number in (errno.EINVAL, errno.EISDIR):
            raise LabError(f"{place} is not a regular file; a UTF-8 file with a map is needed") from None
        raise LabError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def with_its_map(section: WorldSection) -> WorldSection:
    """The same table with the text of its file in it, as a run stores it."""
    if not section.file:
        return section
    text = text_of(section.file, f"world.file = {section.file[:200]!a}")
    return section.model_copy(update={"map": text, "file": ""})


def world_facts(world: World, unit: str, headline: Sequence[str], units_per_step: int = 1) -> dict[str, Any]:
    """The facts of run.json that all experiments in a world share."""
    return {
        "unit": unit,
        "units_per_step": units_per_step,
        "states": world.process.size,
        "world": world.title,
        "notes": list(world.notes),
        "headline": list(headline),
        "compute": {"device": "cpu", "dtype": "float64"},
    }


def world_row(section: WorldSection) -> tuple[str, str]:
    """The row of an outline that names the world."""
    return "World", section.name or section.file or "a map of its own"
