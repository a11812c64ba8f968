"""Named places inside a model, where somebody may look or intervene (MATH T1–T10).

Notable: hooks are an argument of `forward`, not something attached to modules. `NO_HOOKS` passes everything through, so
the mathematics has no case for it; two people may look into one model differently at the same time; and nothing has to
be removed afterwards. The places of a block are listed in blocks.py, those of a model in its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from torch import Tensor

# Gets the full name of the place and the tensor there; what it returns replaces the tensor, None leaves it.
Hook = Callable[[str, Tensor], Tensor | None]


class Hooks:
    """Hooks by place: a full name such as "blocks.3.attention.pattern", or a shell pattern ("blocks.*.pattern").

    Where several match, each gets what the one before it left, in the order given.
    """

    def __init__(self, hooks: Mapping[str, Hook] | Iterable[tuple[str, Hook]] = (), scope: str = "") -> None:
        self.hooks = tuple(hooks.items() if isinstance(hooks, Mapping) else hooks)
        self.scope = scope
        self._wanted = tuple(place for place, _ in self.hooks)

    def within(self, part: str) -> Hooks:
        """The same hooks as seen from inside a part, which need not know where it stands."""
        return Hooks(self.hooks, f"{self.scope}{part}.") if self.hooks else self

    def __call__(self, place: str, value: Tensor) -> Tensor:
        """What goes on from a place: the value, or what the hooks there made of it."""
        if not self.hooks:
            return value
        name = self.scope + place
        for number in matching(name, self._wanted):
            changed = self.hooks[number][1](name, value)
            value = value if changed is None else changed
        return value

    def want(self, *places: str) -> bool:
        """Whether any hook waits at one of these places: what is only made to be looked at need not be made."""
        return bool(self.hooks) and any(matching(self.scope + place, self._wanted) for place in places)


NO_HOOKS = Hooks()


@lru_cache(maxsize=4096)
def matching(name: str, wanted: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of the wanted places, or patterns of places, that a place's full name fits.

    Cached, because while a model learns the same few are asked for at the same places every few steps.
    """
    return tuple(number for number, place in enumerate(wanted) if fnmatchcase(name, place))


def together(*several: Hooks) -> Hooks:
    """All of these hooks as one: at each place those of the first set act first."""
    return Hooks([pair for hooks in several for pair in hooks.hooks])


def keeping(*places: str) -> tuple[Hooks, dict[str, Tensor]]:
    """Hooks that change nothing and fill the dictionary beside them: place → the tensor that was there.

    >>> hooks, kept = keeping("blocks.*.leave")
    >>> import torch
    >>> _ = hooks.within("blocks.0")("leave", torch.zeros(1)), hooks.within("blocks.0")("enter", torch.zeros(1))
    >>> list(kept)
    ['blocks.0.leave']
    """
    kept: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> None:
        kept[name] = value

    return Hooks(dict.fromkeys(places, keep)), kept
