"""The words of Veshal, a language made for this project, and the English words that they translate.

They are in assets/texts/veshal.toml. A noun's gender (a, o or e) cannot be inferred from the English word and must be
learnt word by word.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

from txlab.files import shipped_path


@dataclass(frozen=True)
class Noun:
    """English singular and plural, stem and gender: "mouse", "mice", "pilsh", "e"."""

    one: str
    many: str
    stem: str
    gender: str


@dataclass(frozen=True)
class Verb:
    """English base, third person and past, and the stem: "see", "sees", "saw", "vor"."""

    base: str
    third: str
    past: str
    stem: str


def nouns(table: str) -> tuple[Noun, ...]:
    """Lines of "one many stem gender"."""
    return tuple(Noun(*line.split()) for line in table.strip().splitlines())


def verbs(table: str) -> tuple[Verb, ...]:
    """Lines of "base third past stem"."""
    return tuple(Verb(*line.split()) for line in table.strip().splitlines())


def glosses(table: str) -> dict[str, str]:
    """Lines of "English stem", where English may be several words."""
    return dict(line.rsplit(None, 1) for line in table.strip().splitlines())


TABLES = tomllib.loads(shipped_path("texts/veshal.toml").read_text(encoding="utf-8"))
BEINGS, THINGS, PLACES = (nouns(TABLES[name]) for name in ("beings", "things", "places"))
TRANSITIVE, INTRANSITIVE = verbs(TABLES["transitive"]), verbs(TABLES["intransitive"])
ADJECTIVES, PREPOSITIONS, ADVERBS = (glosses(TABLES[name]) for name in ("adjectives", "prepositions", "adverbs"))
