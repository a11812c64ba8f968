"""What may be chosen about a world of the catalogue: the name, the default, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txlab.errors import LabError, nearest

Value = bool | int | float | str


@dataclass(frozen=True)
class Option:
    """`default` says the type; numbers lie from `low` to `high`, words are among `choices`."""

    default: Value
    about: str
    low: float = 0.0
    high: float = 1.0
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        if isinstance(self.default, bool):
            return "true or false"
        if self.choices:
            return ", ".join(self.choices)
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        return f"{kind} from {self.low:g} to {self.high:g}"

    def checked(self, name: str, value: Any) -> Value:
        """The value, of the default's type. LabError naming the option, what was given and what is allowed."""
        default = self.default
        if isinstance(default, bool):
            right = isinstance(value, bool)
        elif isinstance(default, str):
            right = isinstance(value, str) and value in self.choices
        else:
            number = int if isinstance(default, int) else (int, float)
            right = isinstance(value, number) and not isinstance(value, bool) and self.low <= value <= self.high
        if not right:
            near = nearest(value, self.choices) if isinstance(value, str) else ""
            raise LabError(f"{name} = {ascii(value)[:60]} is not possible{near}; allowed: {self.allowed}")
        given: Value = type(default)(value)
        return given


def complete(world: str, allowed: Mapping[str, Option], given: Mapping[str, object]) -> dict[str, Value]:
    """All options of a world, the given ones checked, the others at their defaults."""
    for name in given:
        if name not in allowed:
            has = f"it has {', '.join(allowed)}" if allowed else "it has none"
            raise LabError(f"{world} has no option {name}{nearest(name, allowed)}; {has}")
    return {name: option.checked(name, given.get(name, option.default)) for name, option in allowed.items()}
