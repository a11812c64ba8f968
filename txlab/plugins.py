"""Plugins of other installed packages (kinds, rules, worlds, screens, figures, scenarios), found by entry points.

Entry points belong to installed packages, so nothing that is loaded as data can run code; each is imported only when it
is used. Reading them takes about 10 ms, so all groups share one reading; importing importlib.metadata takes as long
again, and the first paint does not wait for it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from txlab.errors import LabError, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

_importing = RLock()


def import_in_turn(module: str) -> ModuleType:
    """Import a module while no other thread does. One that imports a package and one that imports a module of it first
    would wait for each other, and Python ends that with an error in one of them."""
    with _importing:
        return import_module(module)


def plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, such as "txlab.kinds", by name."""
    return dict(_of_group(tuple(sys.path), group))


def load_plugin(point: EntryPoint, form: type[T]) -> T:
    """The object that an entry point names. LabError if it cannot be imported or is not a `form`."""
    (loaded,) = load_plugins(point, form)
    return loaded


def load_plugins(point: EntryPoint, form: type[T]) -> tuple[T, ...]:
    """As `load_plugin`, where the object may also be a tuple of several."""
    thing = point.group.removeprefix("txlab.").removesuffix("s")
    try:
        loaded = point.load()
    except Exception as error:  # any exception that another package raises while it is imported
        raise LabError(f"the {thing} {point.name!r} of {point.value!r} cannot be imported: {one_line(error)}") from None
    objects = loaded if isinstance(loaded, tuple) else (loaded,)
    if not all(isinstance(each, form) for each in objects):
        raise LabError(f"the {thing} {point.name!r} of {point.value!r} is not a {form.__name__} of {form.__module__}")
    return objects


@lru_cache(maxsize=32)  # searching all installed packages takes .3 ms, and a list of runs does it for each run
def _of_group(path: tuple[str, ...], group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in _entry_points(path).select(group=group)}


@lru_cache(maxsize=1)
def _entry_points(path: tuple[str, ...]) -> Any:  # an object with `select`; its class differs from Python 3.12 on
    from importlib.metadata import entry_points

    return entry_points()
