"""A world with another discount, another limit or another slip; the rest as it is."""

from __future__ import annotations

from dataclasses import replace

from txlab.engine.rl.process import check
from txlab.engine.rl.world import World
from txlab.engine.rl.worlds.compiling import compile_map
from txlab.errors import LabError


def changed(world: World, discount: float | None = None, limit: int | None = None, slip: float | None = None) -> World:
    """None leaves a number as it is. LabError for one out of its range, and for slip in a world that is no map."""
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
