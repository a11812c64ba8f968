"""Named places inside a model, where hooks can observe or replace a tensor (MATH T1–T10).

Notable: hooks are an argument of `forward`, not something attached to modules. `NO_HOOKS` passes everything through, so
the model code needs no special case; two callers may observe one model differently at the same time; and nothing has to
be removed afterwards. The places of a block are listed in blocks.py, those of a model in its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from torch import Tensor

# Takes the full name of the place and the tensor there; returns a replacement, or None to leave it unchanged.
Hook = Callable[[str, Tensor], Tensor | None]


class Hooks:
    """Hooks by place: a full name such as "blocks.3.attention.pattern", or a shell pattern ("blocks.*.pattern").

    Where several match, they run in the order given, each on the result of the one before.
    """

    def __init__(self, hooks: Mapping[str, Hook] | Iterable[tuple[str, Hook]] = (), scope: str = "") -> None:
        self.hooks = tuple(hooks.items() if isinstance(hooks, Mapping) else hooks)
        self.scope = scope
        self._wanted = tuple(place for place, _ in self.hooks)

    def within(self, part: str) -> Hooks:
        """Return the same hooks scoped to a part, which does not have to know its place in the model."""
        return Hooks(self.hooks, f"{self.scope}{part}.") if self.hooks else self

    def __call__(self, place: str, value: Tensor) -> Tensor:
        """Run the hooks at a place and return the value, changed or not."""
        if not self.hooks:
            return value
        name = self.scope + place
        for number in matching(name, self._wanted):
            changed = self.hooks[number][1](name, value)
            value = value if changed is None else changed
        return value

    def want(self, *places: str) -> bool:
        """Whether any hook is registered at one of these places, so that values only hooks use can be skipped."""
        return bool(self.hooks) and any(matching(self.scope + place, self._wanted) for place in places)


NO_HOOKS = Hooks()


@lru_cache(maxsize=4096)
def matching(name: str, wanted: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of the wanted places, or patterns of places, that match a place's full name.

    Cached, because training asks for the same few at the same places every few steps.
    """
    return tuple(number for number, place in enumerate(wanted) if fnmatchcase(name, place))


def together(*several: Hooks) -> Hooks:
    """Combine several sets of hooks; at each place those of the first set run first."""
    return Hooks([pair for hooks in several for pair in hooks.hooks])


def keeping(*places: str) -> tuple[Hooks, dict[str, Tensor]]:
    """Return hooks that change nothing, and the dictionary that they fill: place → the tensor there.

    >>> hooks, kept = keeping("blocks.*.resid_post")
    >>> import torch
    >>> block = hooks.within("blocks.0")
    >>> _ = block("resid_post", torch.zeros(1)), block("resid_pre", torch.zeros(1))
    >>> list(kept)
    ['blocks.0.resid_post']
    """
    kept: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> None:
        kept[name] = value

    return Hooks(dict.fromkeys(places, keep)), kept
