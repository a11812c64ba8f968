"""English sentences and their translations into Veshal, a language made for this project (MATH T8).

    the old dog that saw a cat followed the small birds near the river
    da fluvin-as apud na tamik-an vor-et-o do borv-o vet-o dei lissan-ein parv-ein sekun-ot-ok

English is subject–verb–object; Veshal is subject–object–verb, and modifiers of a noun move:
- A noun has a gender, a, o or e. Its ending is that vowel, i for the plural, then the case: nothing for the subject, n
  for the object, s for a place. The article before it agrees in gender and number, an adjective comes *after* it and
  agrees in all three.
- A phrase of place always modifies the verb; it comes first, with its preposition after the place. A relative clause
  comes before its noun: object, stem, tense, and the ending of the noun that it describes.
- The verb is stem, tense (-u present, -ot past, -ish future) and agreement with its subject in gender and number,
  across everything between them. An adverb, the last word in English, comes right before it.

Notable: a word is written as stem and endings separated by hyphens, each of them a token: a head can then be seen to
look up the agreement, and a form that never occurred in training can still be built. The translation is a function of
the sentence, so there is one right answer. Sentences have 5 to 15 words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from txlab.experiments.kinds.translation import lexicon
from txlab.experiments.kinds.translation.lexicon import Noun, Verb
from txlab.experiments.kinds.translation.pairs import Draws, Pair

SHORTEST, LONGEST = 5, 15  # words of a source sentence
GENDERS = "aoe"
CASES = {"subject": "", "object": "n", "place": "s"}
TENSES = {"now": "-u", "past": "-ot", "future": "-ish"}
RELATIVE_TENSES = {"now": "-en", "past": "-et"}


@dataclass(frozen=True)
class Thing:
    """A noun with its article and adjectives, independent of the language."""

    noun: Noun
    plural: bool
    definite: bool
    adjectives: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        return "i" if self.plural else ""

    def ending(self, case: str) -> str:
        """-a, -oin, -es…: gender, number, case."""
        return f"-{self.noun.gender}{self.number}{CASES[case]}"

    def english(self) -> list[str]:
        words = [*self.adjectives, self.noun.many if self.plural else self.noun.one]
        if self.definite:
            return ["the", *words]
        article = "some" if self.plural else "an" if words[0][0] in "aeiou" else "a"
        return [article, *words]

    def veshal(self, case: str) -> list[str]:
        ending = self.ending(case)
        article = f"{'d' if self.definite else 'n'}{self.noun.gender}{self.number}"
        described = [token for word in self.adjectives for token in (lexicon.ADJECTIVES[word], ending)]
        return [article, self.noun.stem, ending, *described]


@dataclass(frozen=True)
class Relative:
    """ "that saw a cat": its subject is the noun that it describes."""

    verb: Verb
    tense: str
    object: Thing

    def english(self, plural: bool) -> list[str]:
        verb = self.verb.past if self.tense == "past" else self.verb.base if plural else self.verb.third
        return ["that", verb, *self.object.english()]

    def veshal(self, ending: str) -> list[str]:
        return [*self.object.veshal("object"), self.verb.stem, RELATIVE_TENSES[self.tense], ending]


@dataclass(frozen=True)
class Place:
    """ "near the river"."""

    preposition: str
    place: Thing

    def english(self) -> list[str]:
        return [self.preposition, *self.place.english()]

    def veshal(self) -> list[str]:
        return [*self.place.veshal("place"), lexicon.PREPOSITIONS[self.preposition]]


@dataclass(frozen=True)
class Sentence:
    """Who does what to whom, where and how; None = not mentioned."""

    subject: Thing
    verb: Verb
    tense: str
    object: Thing | None = None
    relative: Relative | None = None  # of the subject
    object_relative: Relative | None = None
    place: Place | None = None
    adverb: str | None = None

    def english(self) -> list[str]:
        plural = self.subject.plural
        words = self.subject.english()
        if self.relative:
            words += self.relative.english(plural)
        if self.tense == "future":
            words += ["will", self.verb.base]
        else:
            words.append(self.verb.past if self.tense == "past" else self.verb.base if plural else self.verb.third)
        if self.object:
            words += self.object.english()
        if self.object and self.object_relative:
            words += self.object_relative.english(self.object.plural)
        if self.place:
            words += self.place.english()
        if self.adverb:
            words.append(self.adverb)
        return words

    def veshal(self) -> list[str]:
        tokens = self.place.veshal() if self.place else []
        if self.relative:
            tokens += self.relative.veshal(self.subject.ending("subject"))
        tokens += self.subject.veshal("subject")
        if self.object and self.object_relative:
            tokens += self.object_relative.veshal(self.object.ending("object"))
        if self.object:
            tokens += self.object.veshal("object")
        if self.adverb:
            tokens.append(lexicon.ADVERBS[self.adverb])
        agreement = f"-{self.subject.noun.gender}{self.subject.number}k"
        return [*tokens, self.verb.stem, TENSES[self.tense], agreement]


def pair(draws: Draws) -> Pair:
    """A sentence and its translation, as their tokens; the same for the same draws."""
    sentence = draw_sentence(draws)
    return Pair(tuple(sentence.english()), tuple(sentence.veshal()))


def draw_sentence(draws: Draws) -> Sentence:
    """A sentence of 5 to 15 words: parts are left out or added to stay within these limits."""
    subject = thing(draws, lexicon.BEINGS)
    tense = draws.one_of(("now", "past", "future"))
    length = len(subject.english()) + (2 if tense == "future" else 1)
    acted: Thing | None = None
    if draws.chance(0.8):
        verb = draws.one_of(lexicon.TRANSITIVE)
        acted = thing(draws, lexicon.THINGS if draws.chance(0.6) else lexicon.BEINGS)
        length += len(acted.english())
    else:
        verb = draws.one_of(lexicon.INTRANSITIVE)
    relative = object_relative = None
    place: Place | None = None
    adverb: str | None = None
    if draws.chance(0.3):
        relative = clause(draws)
        length += 4
    if acted is not None and length + 4 <= LONGEST and draws.chance(0.2):
        object_relative = clause(draws)
        length += 4
    if length < SHORTEST or (length + 4 <= LONGEST and draws.chance(0.4)):
        place = Place(
            draws.one_of(tuple(lexicon.PREPOSITIONS)),
            thing(draws, lexicon.PLACES, at_most=min(1, LONGEST - length - 3)),
        )
        length += len(place.english())
    if length < LONGEST and draws.chance(0.25):
        adverb = draws.one_of(tuple(lexicon.ADVERBS))
    return Sentence(subject, verb, tense, acted, relative, object_relative, place, adverb)


def thing(draws: Draws, nouns: Sequence[Noun], at_most: int = 2) -> Thing:
    """A noun with up to `at_most` different adjectives, usually none or one."""
    noun, plural, definite = draws.one_of(nouns), draws.chance(0.4), draws.chance(0.6)
    first, second, wanted = draws.one_of(ADJECTIVES), draws.one_of(ADJECTIVES), draws.chance(0.45)
    adjectives: tuple[str, ...] = ()
    if wanted and at_most > 0:
        adjectives = (first, second) if at_most > 1 and first != second and draws.chance(0.2) else (first,)
    return Thing(noun, plural, definite, adjectives)


def clause(draws: Draws) -> Relative:
    """A relative clause whose object has no adjective: four words."""
    verb, tense = draws.one_of(lexicon.TRANSITIVE), draws.one_of(("now", "past"))
    return Relative(verb, tense, thing(draws, lexicon.THINGS + lexicon.BEINGS, at_most=0))


ADJECTIVES = tuple(lexicon.ADJECTIVES)


def english_words() -> tuple[str, ...]:
    """Every word that a source may have, sorted."""
    words = {"the", "a", "an", "some", "that", "will"}
    for noun in lexicon.BEINGS + lexicon.THINGS + lexicon.PLACES:
        words |= {noun.one, noun.many}
    for verb in lexicon.TRANSITIVE + lexicon.INTRANSITIVE:
        words |= {verb.base, verb.third, verb.past}
    return tuple(sorted(words | set(lexicon.ADJECTIVES) | set(lexicon.PREPOSITIONS) | set(lexicon.ADVERBS)))


def veshal_tokens() -> tuple[str, ...]:
    """Every token that a target may have: articles and stems sorted, then endings."""
    numbers = ("", "i")
    stems = {f"{article}{gender}{number}" for article in "dn" for gender in GENDERS for number in numbers}
    stems |= {noun.stem for noun in lexicon.BEINGS + lexicon.THINGS + lexicon.PLACES}
    stems |= {verb.stem for verb in lexicon.TRANSITIVE + lexicon.INTRANSITIVE}
    stems |= {*lexicon.ADJECTIVES.values(), *lexicon.PREPOSITIONS.values(), *lexicon.ADVERBS.values()}
    endings = {
        f"-{gender}{number}{case}" for gender in GENDERS for number in numbers for case in (*CASES.values(), "k")
    }
    endings |= {*TENSES.values(), *RELATIVE_TENSES.values()}
    return (*sorted(stems), *sorted(endings))
