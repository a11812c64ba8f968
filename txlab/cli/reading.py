"""What `attend` and `explain` begin with: a model, the text that it reads, and the interventions, as they are typed.

    2.3            head 3 of layer 2                    cross:2.3      the same of an encoder–decoder's cross-attention
    2.attention    a branch of block 2, also 2.cross, 2.feed_forward
    2.3:5,1        in head 2.3, position 5 looking at position 1; 2:5,1 in all heads of layer 2; 5,1 everywhere
    blocks.1.leave:5=4      what position 5 has there is replaced by what position 4 of the second text has; without =,
                            by the same position's, without a position by every position's; …heads#3 is head 3 alone
    embed.weight[5,0]=0.1   one number of one parameter

Notable: `5>1` is understood as well as `5,1`, but a shell takes an unquoted > for itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli.models import given_text, opened
from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.interpret.interventions import Intervention
    from txlab.engine.interpret.sites import Site, Text
    from txlab.runs.models import OpenModel

SITES = ("self", "encoder", "decoder", "cross")
PARTS = ("attention", "cross", "feed_forward")
SCORES = ("previous", "induction", "duplicate", "first")
LONGEST_TARGET = 256  # tokens that an encoder–decoder writes where no target is given

Off = Annotated[
    list[str] | None, typer.Option("--off", metavar="HEAD", help="switch off a head (2.3) or a branch (2.feed_forward)")
]
Scale = Annotated[
    list[str] | None, typer.Option("--scale", metavar="HEAD=X", help="multiply what a head or branch adds by X")
]
Cut = Annotated[
    list[str] | None,
    typer.Option("--cut", metavar="HEAD:ROW,COL", help="ROW may not look at COL in a head, a layer (2:), or any"),
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="HEAD:ROW,COL", help="ROW may look at COL, whatever is masked"),
]
PatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--patch", metavar="PLACE:POS[=FROM]", help="activations of --second, e.g. blocks.1.leave:5; heads#3 = head 3"
    ),
]
Second = Annotated[str | None, typer.Option("--second", metavar="TEXT", help="the text that patches come from")]
Edit = Annotated[
    list[str] | None, typer.Option("--edit", metavar="NAME[I,J]=X", help="set one number of a parameter, for this once")
]
ErratumOption = Annotated[
    list[str] | None, typer.Option("--erratum", metavar="NAME", help="the model as a lecture text writes it wrongly")
]

HEAD = re.compile(r"(?:(\w+):)?(\d+)\.(\d+)")
BRANCH = re.compile(r"(?:(\w+):)?(\d+)\.([a-z][\w-]*)")
EDGE = re.compile(r"(?:([a-z]\w*):)?(?:(\d+)(?:\.(\d+))?:)?(\d+)\s*(?:,|>|->|→)\s*(\d+)")
PLACE = re.compile(r"([A-Za-z_][\w.]*?)(?:#(\d+))?(?::(-?\d+)(?:=(-?\d+))?)?")
WEIGHT = re.compile(r"([A-Za-z_][\w.]*)\[([-\d, ]*)\]=(.+)")


@dataclass(frozen=True)
class Reading:
    """`text` as the model reads it, under `given`; `second` is what patches come from; `site` is what is looked at."""

    model: OpenModel
    text: Text
    site: Site
    given: Sequence[Intervention]
    second: Text | None = None
    written: bool = False  # the target is what the model itself wrote

    @property
    def queries(self) -> list[str]:
        """Labels of the rows."""
        return self.labels(self.site.queries_of(self.text), self.site.name in ("decoder", "cross"))

    @property
    def keys(self) -> list[str]:
        """Labels of the columns."""
        return self.labels(self.site.keys_of(self.text), self.site.name == "decoder")

    @property
    def predicting(self) -> list[str]:
        """Labels of the stream whose next tokens are predicted."""
        return self.labels(self.text.predicting, bool(self.text.target))

    def labels(self, ids: Sequence[int], target: bool) -> list[str]:
        return self.model.target_labels(ids) if target else self.model.labels(ids)

    def place(self, position: int | None) -> int:
        """A position of the stream that predicts, from its end if negative; None = the last, or BERT's first mask."""
        length = len(self.text.predicting)
        if position is None:
            mask, ids = self.model.special.mask, self.text.predicting
            return ids.index(mask) if mask is not None and mask in ids else length - 1
        if not -length <= position < length:
            raise LabError(f"--position {position} is outside the text; allowed: 0 to {length - 1}, or from the end -1")
        return position % length

    def answer(self) -> dict[str, Any]:
        """What was read, for JSON."""
        from txlab.engine.interpret.interventions import to_json

        found: dict[str, Any] = {
            "text": {"ids": list(self.text.ids), "labels": self.model.labels(self.text.ids)},
            "interventions": [to_json(wish) for wish in self.given],
        }
        if self.text.segments:
            found["text"]["segments"] = list(self.text.segments)
        if self.text.target:
            target = {"ids": list(self.text.target), "labels": self.model.target_labels(self.text.target)}
            found["target"] = target | {"written": self.written}
        return found


def read(
    name: str,
    text: str | None,
    file: Path | None,
    target: str | None,
    site: str | None,
    wishes: Wishes,
    special: bool = False,
    pair: str | None = None,
) -> Reading:
    """Open the model, make the text what it reads, and understand the interventions. LabError in one sentence."""
    from txlab.engine.interpret.sites import site_named

    source = given_text(text, file)
    assert source is not None
    model = opened(name, special)
    writes = model.kind == "encoder-decoder" and target is None  # the target itself
    site = site or ("cross" if model.kind == "encoder-decoder" else "self")
    looked = site_named(model.model, site)
    read_text = model.text(source, target, pair)
    if not read_text.ids:
        raise LabError("the text has no tokens, so there is nothing to look at")
    second = None if wishes.second is None else model.text(wishes.second, target, pair)
    if writes:
        read_text = with_target(model, read_text)
        second = None if second is None else with_target(model, second)
    return Reading(model, read_text, looked, interventions(wishes, site), second, writes)


def with_target(model: OpenModel, text: Text) -> Text:
    """A source with the target that the model writes for it, without the token that ends it."""
    from txlab.cli.generate import target_of
    from txlab.engine.interpret.sites import Text

    context = model.context or LONGEST_TARGET
    if len(text.ids) > context:
        raise LabError(f"the source has {len(text.ids)} tokens; {model.title} reads at most {context}")
    ids = target_of(model, text.ids, min(LONGEST_TARGET, context - 1))
    return Text(text.ids, (*text.target, *(token for token in ids if token not in model.special.stops)))


def head_asked(head: str | None, layer: int | None, site: str | None) -> tuple[str | None, int | None, int | None]:
    """Site, layer and head (from 0) that --site, --layer and --head name together; None for what none of them does."""
    if site is not None and site not in SITES:
        raise LabError(f"--site {site!r} is no attention{nearest(site, SITES)}; allowed: {', '.join(SITES)}")
    if head is None:
        return site, None if layer is None else layer - 1, None
    if head.isascii() and head.isdecimal():
        if layer is None:
            raise LabError(f"--head {head} needs --layer; or name both: --head 2.{head}")
        if not 1 <= len(head) <= 9 or int(head) < 1:
            raise LabError(f"--head {head} is not allowed: heads are counted from 1")
        return site, layer - 1, int(head) - 1
    matched = HEAD.fullmatch(head)
    if matched is None:
        raise LabError(f"--head {head!r} is no head; for example --head 2.3, the third head of layer 2")
    named = site_of("--head", head, matched[1], "") or None
    its_layer, index = counted("--head", head, matched[2], matched[3])
    if layer is not None and layer - 1 != its_layer:
        raise LabError(f"--head {head} is in layer {its_layer + 1}, not in --layer {layer}")
    if site is not None and named is not None and site != named:
        raise LabError(f"--site {site} and --head {named}:… are two different kinds of attention")
    return site or named, its_layer, index


# Interventions.


@dataclass(frozen=True)
class Wishes:
    """The interventions of a command line, as they were typed."""

    off: Sequence[str] = ()
    scale: Sequence[str] = ()
    cut: Sequence[str] = ()
    allow: Sequence[str] = ()
    patch: Sequence[str] = ()
    edit: Sequence[str] = ()
    erratum: Sequence[str] = ()
    second: str | None = None

    @classmethod
    def of(cls, second: str | None, **given: list[str] | None) -> Wishes:
        return cls(second=second, **{name: tuple(words or ()) for name, words in given.items()})


def interventions(wishes: Wishes, site: str) -> list[Intervention]:
    """What was typed as interventions; `site` is meant where none is named. LabError for words that are none."""
    from txlab.engine.interpret.interventions import Erratum
    from txlab.engine.transformer.variants import VARIANTS

    found = [scaled("--off", word, 0.0, site) for word in wishes.off]
    for word in wishes.scale:
        name, equals, factor = word.rpartition("=")
        if not equals:
            raise LabError(f"--scale {word!r} does not say by how much; for example --scale 2.3=0.5")
        found.append(scaled("--scale", name, number("--scale", word, factor), site))
    found += [edge("--cut", word, False, site) for word in wishes.cut]
    found += [edge("--allow", word, True, site) for word in wishes.allow]
    found += [patch(word) for word in wishes.patch]
    found += [weight(word) for word in wishes.edit]
    for name in wishes.erratum:
        if name not in VARIANTS:
            raise LabError(f"--erratum {name!r} is not known{nearest(name, VARIANTS)}; allowed: {', '.join(VARIANTS)}")
        found.append(Erratum(name))
    if wishes.second is not None and not wishes.patch:
        raise LabError("--second is the text that patches come from, and there is no --patch")
    return found


def scaled(option: str, word: str, factor: float, site: str) -> Intervention:
    from txlab.engine.interpret.interventions import ScaleBlock, ScaleHead

    if matched := HEAD.fullmatch(word):
        layer, head = counted(option, word, matched[2], matched[3])
        return ScaleHead(site_of(option, word, matched[1], site), layer, head, factor)
    if matched := BRANCH.fullmatch(word):
        part = matched[3].replace("-", "_")
        if part not in PARTS:
            raise LabError(
                f"{option} {word!r}: a block has no branch {matched[3]!r}{nearest(part, PARTS)}; "
                f"allowed: {', '.join(PARTS)}"
            )
        (layer,) = counted(option, word, matched[2])
        named = site_of(option, word, matched[1], "decoder" if site == "cross" else site)
        return ScaleBlock(named, layer, part, factor)  # type: ignore[arg-type]
    raise LabError(f"{option} {word!r} names neither a head (2.3) nor a branch (2.attention, 2.feed_forward)")


def edge(option: str, word: str, allowed: bool, site: str) -> Intervention:
    from txlab.engine.interpret.interventions import Edge

    matched = EDGE.fullmatch(word)
    if matched is None:
        raise LabError(f"{option} {word!r} names no edge; for example {option} 2.3:5,1 (in head 2.3, row 5, column 1)")
    layer, head = (None if one is None else counted(option, word, one)[0] for one in matched.group(2, 3))
    row, column = (whole(option, word, one) for one in matched.group(4, 5))
    return Edge(site_of(option, word, matched[1], site), layer, head, row, column, allowed)


def patch(word: str) -> Intervention:
    from txlab.engine.interpret.interventions import Patch

    matched = PLACE.fullmatch(word)
    if matched is None:
        raise LabError(f"--patch {word!r} names no place; for example --patch blocks.1.leave:5")
    position, from_position = (None if at is None else whole("--patch", word, at) for at in matched.group(3, 4))
    head = None if matched[2] is None else counted("--patch", word, matched[2])[0]
    return Patch(matched[1], position, from_position, head)


def weight(word: str) -> Intervention:
    from txlab.engine.interpret.interventions import EditWeight

    matched = WEIGHT.fullmatch(word)
    if matched is None:
        raise LabError(f"--edit {word!r} names no number of a parameter; for example --edit 'embed.weight[5,0]=0.1'")
    places = [place for place in matched[2].replace(" ", "").split(",") if place]
    if not all(re.fullmatch(r"-?\d{1,12}", place) for place in places):
        raise LabError(f"--edit {word!r}: [{matched[2]}] is no place in a parameter; for example [5,0]")
    return EditWeight(matched[1], tuple(map(int, places)), number("--edit", word, matched[3]))


def site_of(option: str, word: str, named: str | None, site: str) -> str:
    """The kind of attention that is named, `site` where none is."""
    if named is not None and named not in SITES:
        raise LabError(
            f"{option} {word!r}: {named!r} is no attention{nearest(named, SITES)}; allowed: {', '.join(SITES)}"
        )
    return named or site


def counted(option: str, word: str, *numbers: str) -> list[int]:
    """Numbers that a person counts from 1, from 0."""
    if any(whole(option, word, one) < 1 for one in numbers):
        raise LabError(f"{option} {word!r}: layers and heads are counted from 1")
    return [int(one) - 1 for one in numbers]


def whole(option: str, word: str, digits: str) -> int:
    if len(digits) > 12:
        raise LabError(f"{option} {word[:60]!r}: {digits[:12]}… is too large")
    return int(digits)


def number(option: str, word: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise LabError(f"{option} {word!r}: {text!r} is not a number")
    return value
