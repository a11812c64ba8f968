"""The worlds that can be named: one file each here, the maps that come with txlab, and those of other packages.

A file <name>.py here has an object WORLD (or a tuple of several); another distribution declares one as an entry
point of the group "txlab.worlds". Notable: they are discovered, not listed. Entry points are read only when a name is
not built in, or to list all; they belong to installed packages, so nothing loaded as data can run code.
"""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.maps.drawn import Map, parse_map
from txlab.engine.rl.process import check
from txlab.engine.rl.world import NamedWorld, World
from txlab.errors import LabError, choices
from txlab.files import shipped_path
from txlab.plugins import load_plugins, plugins

GROUP = "txlab.worlds"
MAPS = "maps/"


@cache
def load_worlds() -> dict[str, NamedWorld]:
    """The worlds of the literature, one or a small family per file, in alphabetical order of the files."""
    named: dict[str, NamedWorld] = {}
    for module in pkgutil.iter_modules(__path__):
        offered = import_module(f"{__name__}.{module.name}").WORLD
        named |= {each.name: each for each in (offered if isinstance(offered, tuple) else (offered,))}
    return named


@cache
def shipped_maps() -> dict[str, NamedWorld]:
    """The maps that come with txlab, as files that can be opened, changed and kept, by file stem."""
    maps = {}
    for path in sorted(shipped_path("maps").glob("*.txt")):
        try:
            drawn = parse_map(path.read_text(encoding="utf-8"))
        except LabError as error:
            raise LabError(f"{path}: {error}") from None
        maps[path.stem] = NamedWorld(path.stem, drawn.title, "a map of txlab's", lambda drawn=drawn: drawn)
    return maps


def load_installed() -> dict[str, NamedWorld]:
    """The worlds of installed packages. LabError naming an entry point that is not a world."""
    named: dict[str, NamedWorld] = {}
    for point in plugins(GROUP).values():
        named |= {each.name: each for each in load_plugins(point, NamedWorld)}
    return named


def worlds() -> dict[str, NamedWorld]:
    """All named worlds: those of the literature, the maps, then those of other packages under other names."""
    own = {**load_worlds(), **shipped_maps()}
    return {**own, **{name: each for name, each in load_installed().items() if name not in own}}


def find_world(name: str) -> NamedWorld | None:
    """The world of that name, where "maps/four-rooms" means "four-rooms"; None if there is none."""
    return load_worlds().get(name) or shipped_maps().get(name.removeprefix(MAPS)) or load_installed().get(name)


def world_named(name: str, **options: Any) -> World:
    """The world of that name. LabError with the nearest name, or naming the invalid option."""
    entry = find_world(name)
    if entry is None:
        known = worlds()
        raise LabError(f"{name[:60]!a} is not a world{choices(name[:60], known)}")
    made = entry.build(options)
    title = made.title or entry.title
    if isinstance(made, Map):
        return compile_map(made, entry.name, title, entry.source)
    return replace(made, name=entry.name, title=title, source=made.source or entry.source)


def change_world(
    world: World, discount: float | None = None, limit: int | None = None, slip: float | None = None
) -> World:
    """The world with another discount, step limit or slip; None leaves a number unchanged.

    LabError for a number out of range, and for slip in a world that is not a map.
    """
    given = {"discount": discount, "limit": limit, "slip": slip}
    wanted = {key: value for key, value in given.items() if value is not None}
    if not wanted:
        return world
    if world.map is not None:
        return compile_map(replace(world.map, **wanted), world.name, world.title, world.source)  # type: ignore[arg-type]
    if slip is not None:
        raise LabError(f"slip = {slip:g} is for worlds that are maps; {world.name} is none")
    if limit is not None and limit < 0:
        raise LabError(f"limit = {limit} must be 0 (never) or more")
    process = replace(world.process, **wanted)  # type: ignore[arg-type]
    check(process)
    return replace(world, process=process)
