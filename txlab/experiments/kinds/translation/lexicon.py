"""The words of Veshal, a language made for this project, and the English words that they translate.

A noun's gender (a, o or e) cannot be inferred from the English word and must be learnt word by word. Stems differ from
each other and from every English word, so that one table can hold both languages.
"""

from __future__ import annotations

from dataclasses import dataclass


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


# Nouns that can act: subjects, and also objects.
BEINGS = nouns("""
cat cats tamik a
dog dogs borv o
bird birds lissan e
horse horses kavul a
mouse mice pilsh e
wolf wolves lupesh o
fox foxes shevik e
bear bears gorth o
goat goats nilu a
frog frogs kwapp e
child children minoth e
woman women salve o
man men harn a
king kings revost e
queen queens ilvane a
farmer farmers dokar a
baker bakers furno o
sailor sailors marel e
teacher teachers omesh o
singer singers kantil a
doctor doctors vedrun e
thief thieves skath o
friend friends amarr e
stranger strangers zel o
""")

# Nouns that are acted on.
THINGS = nouns("""
apple apples pomesh a
bread breads arto o
book books liven e
letter letters skriva a
lamp lamps lusk o
key keys klem e
boat boats navik o
cup cups tasso e
knife knives sikar a
coat coats pelth o
stone stones petru e
ring rings anulk a
drum drums tomb o
song songs melod e
wheel wheels rotish a
basket baskets kesto e
mirror mirrors spekl o
flower flowers flenna e
hat hats kapush a
coin coins denik o
""")

# Nouns of place.
PLACES = nouns("""
house houses domar e
river rivers fluvin a
forest forests silvo o
bridge bridges pontak e
tower towers turrim a
garden gardens hortel o
market markets merkun e
mountain mountains oreth o
field fields agrun a
road roads viash e
lake lakes lakum o
village villages vilosh a
island islands islet e
castle castles kastro o
mill mills molin a
well wells putash e
""")

TRANSITIVE = verbs("""
see sees saw vor
hear hears heard audish
love loves loved amiv
fear fears feared timog
find finds found trov
lose loses lost perd
follow follows followed sekun
carry carries carried porrt
draw draws drew pikt
paint paints painted kolor
want wants wanted volesh
buy buys bought kompr
sell sells sold vendik
hide hides hid kelath
steal steals stole furt
break breaks broke rump
wash washes washed lavun
watch watches watched spik
remember remembers remembered memoth
forget forgets forgot oblish
bring brings brought aduk
call calls called klamm
help helps helped ajud
choose chooses chose elekt
""")

INTRANSITIVE = verbs("""
sleep sleeps slept dormu
laugh laughs laughed ridesh
dance dances danced saltak
wait waits waited attun
work works worked labro
sing sings sang kann
rest rests rested kiet
live lives lived habit
""")

ADJECTIVES = glosses("""
old vet
young juvin
small parv
big gradan
red rosh
blue azum
green virid
black nighr
white albesh
happy felik
sad trist
quick velok
slow tard
strong forsh
weak debil
clever sapen
hungry famul
tired lass
beautiful belan
strange mirath
quiet takit
loud sonor
poor pavru
rich divit
""")

# Prepositions of the source; in the target they come after their noun.
PREPOSITIONS = glosses("""
in ilo
near apud
behind retro
under subash
above supra
beside lathe
before antu
outside foris
""")

ADVERBS = glosses("""
today hodek
yesterday herim
often sepp
never nunka
again iterum
slowly lentum
""")
