"""Style sheets are parsed once in a process of tests, not once for each console. Importing this does it."""

from __future__ import annotations

from typing import Any

from textual.css.stylesheet import Stylesheet

parse = Stylesheet._parse_rules
parsed: dict[Any, Any] = {}


def parse_once(self: Stylesheet, *given: Any, **named: Any) -> Any:
    """Return the rules of a text: they depend on it, on where it applies, and on the theme's variables alone."""
    key = (given, frozenset(named.items()), frozenset(self._variables.items()))
    if key not in parsed:
        parsed[key] = parse(self, *given, **named)
    return parsed[key]


Stylesheet._parse_rules = parse_once  # type: ignore[method-assign]
