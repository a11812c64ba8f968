"""What other installed packages bring (kinds, rules, worlds, screens, figures, scenarios), found by entry points.

Entry points belong to installed packages, so nothing that is loaded as data can run code; each is imported only when
asked for. Reading them takes some 10 ms, so all groups share one reading; importing importlib.metadata takes as much
again, which the first paint does not wait for.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from txlab.errors import LabError, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, such as "txlab.kinds", by name."""
    return dict(_of_group(tuple(sys.path), group))


def load_plugin(point: EntryPoint, form: type[T]) -> T:
    """The object that an entry point names. LabError if it cannot be imported or is not a `form`."""
    (loaded,) = load_plugins(point, form)
    return loaded


def load_plugins(point: EntryPoint, form: type[T]) -> tuple[T, ...]:
    """The same where the object may be a tuple of several."""
    thing = point.group.removeprefix("txlab.").removesuffix("s")
    try:
        loaded = point.load()
    except Exception as error:  # any exception that another package raises while it is imported
        raise LabError(f"the {thing} {point.name!r} of {point.value!r} cannot be imported: {one_line(error)}") from None
    found = loaded if isinstance(loaded, tuple) else (loaded,)
    if not all(isinstance(each, form) for each in found):
        raise LabError(f"the {thing} {point.name!r} of {point.value!r} is not a {form.__name__} of {form.__module__}")
    return found


@lru_cache(maxsize=32)  # looking through all installed packages takes .3 ms, and a list of runs asks for each run
def _of_group(path: tuple[str, ...], group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in _installed(path).select(group=group)}


@lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> Any:  # what can `select`: its class is another one from Python 3.12 on
    from importlib.metadata import entry_points

    return entry_points()
