"""Interventions in words of a command line, and what they change (INTERPRET's dataclasses, one word each).

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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.interpret.effects import Effect
    from txlab.engine.interpret.interventions import Intervention
    from txlab.engine.interpret.sites import Text
    from txlab.runs.models import OpenModel

SITES = ("self", "encoder", "decoder", "cross")
PARTS = ("attention", "cross", "feed_forward")
SHOWN = 8  # tokens that moved

Off = Annotated[
    list[str] | None, typer.Option("--off", metavar="HEAD", help="switch off a head (2.3) or a branch (2.feed_forward)")
]
Scale = Annotated[
    list[str] | None, typer.Option("--scale", metavar="HEAD=X", help="what a head or branch adds counts X times")
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
    list[str] | None, typer.Option("--edit", metavar="NAME[I,J]=X", help="one number of a parameter, for this once")
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
class Wishes:
    """What a person asked for on the command line, as it was typed."""

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
    """The interventions; `site` is meant where none is named. LabError for words that say none."""
    from txlab.engine.interpret.interventions import EditWeight, Erratum
    from txlab.engine.transformer.variants import VARIANTS

    found: list[Intervention] = []
    found += [scaled("--off", word, 0.0, site) for word in wishes.off]
    for word in wishes.scale:
        name, equals, factor = word.rpartition("=")
        if not equals:
            raise LabError(f"--scale {word!r} does not say by how much; for example --scale 2.3=0.5")
        found.append(scaled("--scale", name, number("--scale", word, factor), site))
    found += [edge("--cut", word, False, site) for word in wishes.cut]
    found += [edge("--allow", word, True, site) for word in wishes.allow]
    found += [patch(word) for word in wishes.patch]
    for word in wishes.edit:
        matched = WEIGHT.fullmatch(word)
        if matched is None:
            raise LabError(
                f"--edit {word!r} names no number of a parameter; for example --edit 'embed.weight[5,0]=0.1'"
            )
        places = [place for place in matched[2].replace(" ", "").split(",") if place]
        if not all(re.fullmatch(r"-?\d{1,12}", place) for place in places):
            raise LabError(f"--edit {word!r}: [{matched[2]}] is no place in a parameter; for example [5,0]")
        found.append(EditWeight(matched[1], tuple(map(int, places)), number("--edit", word, matched[3])))
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
    layer = head = None
    if matched[2] is not None:
        layer, *rest = counted(option, word, matched[2], *([matched[3]] if matched[3] else []))
        head = rest[0] if rest else None
    row, column = whole(option, word, matched[4]), whole(option, word, matched[5])
    return Edge(site_of(option, word, matched[1], site), layer, head, row, column, allowed)


def patch(word: str) -> Intervention:
    from txlab.engine.interpret.interventions import Patch

    matched = PLACE.fullmatch(word)
    if matched is None:
        raise LabError(f"--patch {word!r} names no place; for example --patch blocks.1.leave:5")
    position, from_position = (None if at is None else whole("--patch", word, at) for at in (matched[3], matched[4]))
    head = None if matched[2] is None else counted("--patch", word, matched[2])[0]
    return Patch(matched[1], position, from_position, head)


def site_of(option: str, word: str, named: str | None, site: str) -> str:
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


def head_named(word: str) -> tuple[str | None, int, int]:
    """ "2.3" or "cross:2.3" → (site or None, layer and head from 0)."""
    matched = HEAD.fullmatch(word)
    if matched is None:
        raise LabError(f"--head {word!r} is no head; for example --head 2.3, the third head of layer 2")
    site = None if matched[1] is None else site_of("--head", word, matched[1], "")
    layer, head = counted("--head", word, matched[2], matched[3])
    return site, layer, head


def second_text(model: OpenModel, wishes: Wishes, target: str | None) -> Text | None:
    return None if wishes.second is None else model.text(wishes.second, target)


def effect_answer(model: OpenModel, found: Effect, position: int) -> dict[str, Any]:
    """An effect as JSON: KL in nats, the tokens that moved most."""
    labels = model.target_labels([moved.token for moved in found.moved])
    return {
        "position": position,
        "kl": found.kl,
        "moved": [
            {"id": moved.token, "text": label, "before": moved.before, "after": moved.after, "change": moved.change}
            for moved, label in zip(found.moved, labels, strict=True)
        ],
        "remarks": list(found.remarks),
    }


def print_effect(model: OpenModel, found: Effect, given: Sequence[Intervention], after: str) -> None:
    """What was done, how far the distribution moved, and which tokens it moved."""
    from txlab.cli.models import bar, shares, token_label
    from txlab.cli.terminal import Column, ascii_only, columns, numeral, shown, table
    from txlab.drawing.text import formula

    for wish in given:
        print(shown(wish.says))
    for remark in found.remarks:
        print(shown(remark))
    kl = formula("KL(before ‖ after)", ascii_only())
    where = "stands at" if model.kind == "bert" else "comes after"
    print(f"{kl} = {numeral(found.kl)} nats, of what {where} {token_label(after, 20)}")
    if not found.moved:
        print("nothing moved")
        return
    print()
    moved = found.moved[:SHOWN]
    befores, afters = shares([one.before for one in moved]), shares([one.after for one in moved])
    labels = model.target_labels([one.token for one in moved])
    length = 12 if columns() < 96 else 20
    rows = [
        [token_label(label, 20), before, bar(one.before, length), now, bar(one.after, length)]
        for one, label, before, now in zip(moved, labels, befores, afters, strict=True)
    ]
    blank = Column(" " * length)
    print(table([Column("token"), Column("before"), blank, Column("after"), blank], rows))
