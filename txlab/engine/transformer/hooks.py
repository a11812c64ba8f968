"""Named places inside a model, where somebody may look or reach in (MATH T1–T10).

Notable: hooks are an argument of `forward`, not something hung onto modules. A model that nobody looks into gets None
and pays one comparison a place; two people may look into one model differently at the same time; and nothing has to be
taken off again. The places of a block are listed in blocks.py, those of a model in its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from torch import Tensor

# Gets the full name of the place and the tensor there; what it returns goes on in its stead, None leaves it.
Hook = Callable[[str, Tensor], Tensor | None]


class Hooks:
    """Hooks by place: a full name such as "blocks.3.attention.pattern", or a shell pattern ("blocks.*.pattern").

    Where several match, each gets what the one before it left, in the order given.
    """

    def __init__(self, hooks: Mapping[str, Hook], scope: str = "") -> None:
        self.hooks, self.scope = hooks, scope
        self._wanted = tuple(hooks)

    def within(self, part: str) -> Hooks:
        """The same hooks as seen from inside a part, which need not know where it stands."""
        return Hooks(self.hooks, f"{self.scope}{part}.")

    def __call__(self, place: str, value: Tensor) -> Tensor:
        """What goes on from a place: the value, or what the hooks there made of it."""
        name = self.scope + place
        for hook in self._at(name):
            changed = hook(name, value)
            value = value if changed is None else changed
        return value

    def want(self, *places: str) -> bool:
        """Whether anybody waits at one of these places: what is only made to be looked at need not be made."""
        return any(self._at(self.scope + place) for place in places)

    def _at(self, name: str) -> list[Hook]:
        return [self.hooks[wanted] for wanted in matching(name, self._wanted)]


@lru_cache(maxsize=4096)
def matching(name: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the wanted places, or patterns of places, that a place's full name fits.

    Remembered, because while a model learns the same few are asked for at the same places every few steps.
    """
    return tuple(place for place in wanted if fnmatchcase(name, place))


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
