"""What a person may do to a model while it reads: switch off, cut, patch, edit a weight (MATH T1–T5).

Notable: each intervention is a small frozen thing that goes to JSON and back and says in a sentence what it does; how
it is done stands in acting.py, what it changes in effects.py. Layers, heads and positions count from 0 here; sentences
count layers and heads from 1, as the screen does, and positions from 0, as ids are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from txlab.engine.transformer.variants import VARIANTS
from txlab.errors import LabError, nearest

Part = Literal["attention", "cross", "feed_forward"]
PARTS: dict[Part, str] = {"attention": "attention", "cross": "cross-attention", "feed_forward": "feed-forward"}


@dataclass(frozen=True)
class ScaleHead:
    """What one head adds to the stream, W_O α V, times `factor`; 0 switches it off."""

    site: str
    layer: int
    head: int
    factor: float = 0.0

    @property
    def says(self) -> str:
        name = f"{_of(self.site)}head {self.layer + 1}.{self.head + 1}"
        return f"{name} is switched off" if self.factor == 0 else f"what {name} adds counts {self.factor:g} times"


@dataclass(frozen=True)
class ScaleBlock:
    """What one branch of a block adds to the stream (biases included), times `factor`; 0 switches it off."""

    site: str
    layer: int
    part: Part
    factor: float = 0.0

    @property
    def says(self) -> str:
        name = f"the {PARTS.get(self.part, self.part)} of {_of(self.site)}block {self.layer + 1}"
        return f"{name} is switched off" if self.factor == 0 else f"what {name} adds counts {self.factor:g} times"


@dataclass(frozen=True)
class Edge:
    """Whether position `row` may look at position `column`: in one head, or (None) in all heads, or in all layers.

    An edge that is cut gets the score −∞; one that is added gets its own score, whatever the mask says. The softmax is
    that of the row with this mask; a row with nothing left is zeros.
    """

    site: str
    layer: int | None
    head: int | None
    row: int
    column: int
    allowed: bool = False

    @property
    def says(self) -> str:
        layer = "any layer" if self.layer is None else f"layer {self.layer + 1}"
        where = f"any head of {layer}" if self.head is None else f"head {self.head + 1} of {layer}"
        if self.layer is not None and self.head is not None:
            where = f"head {self.layer + 1}.{self.head + 1}"
        may = "may" if self.allowed else "may not"
        return f"in {_of(self.site)}{where}, position {self.row} {may} look at position {self.column}"


@dataclass(frozen=True)
class Patch:
    """At a place, what position `position` has is replaced by what `from_position` has there in the second text.

    None for the position patches every position (the two texts are then equally long); `head`, at a place that has
    heads, patches that head alone. A place is one of `places(model)`, e.g. "blocks.1.leave" or
    "blocks.0.attention.heads".
    """

    place: str
    position: int | None
    from_position: int | None = None
    head: int | None = None

    @property
    def says(self) -> str:
        here = "every position" if self.position is None else f"position {self.position}"
        there = self.position if self.from_position is None else self.from_position
        whose = "" if there is None or there == self.position else f" position {there} of"
        head = "" if self.head is None else f" (head {self.head + 1})"
        return f"at {self.place}{head}, {here} has what{whose} the second text has there"


@dataclass(frozen=True)
class EditWeight:
    """One number of one parameter, by the parameter's name and index, while the model reads; then the old one again."""

    parameter: str
    index: tuple[int, ...]
    value: float

    @property
    def says(self) -> str:
        return f"{self.parameter}[{', '.join(map(str, self.index))}] is {self.value:g}"


@dataclass(frozen=True)
class Erratum:
    """The model as one of the lecture texts writes it wrongly; `name` is one of variants.VARIANTS."""

    name: str

    @property
    def says(self) -> str:
        return f"read as written: {VARIANTS[self.name].says}" if self.name in VARIANTS else f"erratum {self.name}"


Intervention = ScaleHead | ScaleBlock | Edge | Patch | EditWeight | Erratum
KINDS: dict[str, type[Any]] = {
    "scale-head": ScaleHead,
    "scale-block": ScaleBlock,
    "edge": Edge,
    "patch": Patch,
    "edit-weight": EditWeight,
    "erratum": Erratum,
}


def _of(site: str) -> str:
    """The site as a word before the head, where a model has more than one."""
    return "" if site == "self" else f"{site} "


def to_json(intervention: Intervention) -> dict[str, Any]:
    """{"kind": "scale-head", "site": "self", …}: plain values only."""
    kind = next(name for name, of in KINDS.items() if isinstance(intervention, of))
    return {"kind": kind} | {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(intervention).items()
    }


def from_json(data: Mapping[str, Any]) -> Intervention:
    """What `to_json` wrote. LabError for an unknown kind, a missing or superfluous key, a value of the wrong type."""
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise LabError(f"no intervention is of kind {kind!r}; allowed: {', '.join(KINDS)}")
    given = {name: value for name, value in data.items() if name != "kind"}
    allowed = {field.name: str(field.type) for field in fields(KINDS[kind])}
    for name, value in given.items():
        if name not in allowed:
            raise LabError(f"{kind} has no key {name!r}{nearest(name, allowed)}; it has: {', '.join(allowed)}")
        if not _fits(value, allowed[name]):
            raise LabError(f"{kind}: {name} must be {_words(allowed[name])}, not {value!r}")
    if "index" in given:
        given["index"] = tuple(given["index"])
    try:
        made: Intervention = KINDS[kind](**given)
    except TypeError:
        raise LabError(
            f"{kind} needs more than {', '.join(given) or 'nothing'}; it has: {', '.join(allowed)}"
        ) from None
    return made


def _fits(value: object, declared: str) -> bool:
    if value is None:
        return "None" in declared
    if declared.startswith("tuple"):
        return isinstance(value, list | tuple) and all(type(entry) is int for entry in value)
    if declared == "Part":
        return value in get_args(Part)
    wanted = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}[declared.split(" ")[0]]
    return type(value) in wanted


def _words(declared: str) -> str:
    words = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
    if declared == "Part":
        return "one of " + ", ".join(get_args(Part))
    if declared.startswith("tuple"):
        return "a list of whole numbers"
    return words[declared.split(" ")[0]] + (" or null" if "None" in declared else "")
