"""The syntax of interventions in `attend`, `explain` and `generate`.

    2.3            head 3 of layer 2                    cross:2.3      the same in an encoder–decoder's cross-attention
    2.attention    a branch of block 2, also 2.cross, 2.feed_forward
    2.3:5,1        in head 2.3, position 5 attending to position 1; 2:5,1 in all heads of layer 2; 5,1 everywhere
    blocks.1.resid_post:5=4      the activation there at position 5 is replaced by that at position 4 of the second
    text;
                            without =, by that at the same position; without a position, at every position; …heads#3 is
                            head 3
    embed.weight[5,0]=0.1   one entry of one parameter

`5>1` is accepted as well as `5,1`, but a shell treats an unquoted > as a redirection.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.interpret.interventions import Intervention

SITES = ("self", "encoder", "decoder", "cross")
PARTS = ("attention", "cross", "feed_forward")

HEAD = re.compile(r"(?:(\w+):)?(\d+)\.(\d+)")
BRANCH = re.compile(r"(?:(\w+):)?(\d+)\.([a-z][\w-]*)")
EDGE = re.compile(r"(?:([a-z]\w*):)?(?:(\d+)(?:\.(\d+))?:)?(\d+)\s*(?:,|>|->|→)\s*(\d+)")
PLACE = re.compile(r"([A-Za-z_][\w.]*?)(?:#(\d+))?(?::(-?\d+)(?:=(-?\d+))?)?")
WEIGHT = re.compile(r"([A-Za-z_][\w.]*)\[([-\d, ]*)\]=(.+)")


def head_asked(head: str | None, layer: int | None, site: str | None) -> tuple[str | None, int | None, int | None]:
    """Return the site, layer and head (from 0) given by --site, --layer and --head; None for what is not given."""
    if site is not None and site not in SITES:
        raise LabError(f"--site {site!r} is not an attention{nearest(site, SITES)}; allowed: {', '.join(SITES)}")
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
        raise LabError(f"--head {head!r} is not a head; for example --head 2.3, the third head of layer 2")
    named = site_of("--head", head, matched[1], "") or None
    its_layer, index = zero_based("--head", head, matched[2], matched[3])
    if layer is not None and layer - 1 != its_layer:
        raise LabError(f"--head {head} is in layer {its_layer + 1}, not in --layer {layer}")
    if site is not None and named is not None and site != named:
        raise LabError(f"--site {site} and --head {named}:… are two different kinds of attention")
    return site or named, its_layer, index


@dataclass(frozen=True)
class Wishes:
    """The interventions of a command line, as typed."""

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
    """Parse the interventions; `site` is the default. Raises LabError for invalid ones."""
    from txlab.engine.interpret.interventions import Erratum
    from txlab.engine.transformer.variants import VARIANTS

    given = [parse_scale("--off", word, 0.0, site) for word in wishes.off]
    for word in wishes.scale:
        name, equals, factor = word.rpartition("=")
        if not equals:
            raise LabError(f"--scale {word!r} does not say by how much; for example --scale 2.3=0.5")
        given.append(parse_scale("--scale", name, number("--scale", word, factor), site))
    given += [edge("--cut", word, False, site) for word in wishes.cut]
    given += [edge("--allow", word, True, site) for word in wishes.allow]
    given += [patch(word) for word in wishes.patch]
    given += [weight(word) for word in wishes.edit]
    for name in wishes.erratum:
        if name not in VARIANTS:
            raise LabError(f"--erratum {name!r} is not known{nearest(name, VARIANTS)}; allowed: {', '.join(VARIANTS)}")
        given.append(Erratum(name))
    if wishes.second is not None and not wishes.patch:
        raise LabError("--second is the text that patches come from, but there is no --patch")
    return given


def parse_scale(option: str, word: str, factor: float, site: str) -> Intervention:
    from txlab.engine.interpret.interventions import ScaleBlock, ScaleHead

    if matched := HEAD.fullmatch(word):
        layer, head = zero_based(option, word, matched[2], matched[3])
        return ScaleHead(site_of(option, word, matched[1], site), layer, head, factor)
    if matched := BRANCH.fullmatch(word):
        part = matched[3].replace("-", "_")
        if part not in PARTS:
            raise LabError(
                f"{option} {word!r}: a block has no branch {matched[3]!r}{nearest(part, PARTS)}; "
                f"allowed: {', '.join(PARTS)}"
            )
        (layer,) = zero_based(option, word, matched[2])
        named = site_of(option, word, matched[1], "decoder" if site == "cross" else site)
        return ScaleBlock(named, layer, part, factor)  # type: ignore[arg-type]
    raise LabError(f"{option} {word!r} names neither a head (2.3) nor a branch (2.attention, 2.feed_forward)")


def edge(option: str, word: str, allowed: bool, site: str) -> Intervention:
    from txlab.engine.interpret.interventions import Edge

    matched = EDGE.fullmatch(word)
    if matched is None:
        raise LabError(f"{option} {word!r} names no edge; for example {option} 2.3:5,1 (in head 2.3, row 5, column 1)")
    layer, head = (None if one is None else zero_based(option, word, one)[0] for one in matched.group(2, 3))
    row, column = (whole(option, word, one) for one in matched.group(4, 5))
    return Edge(site_of(option, word, matched[1], site), layer, head, row, column, allowed)


def patch(word: str) -> Intervention:
    from txlab.engine.interpret.interventions import Patch

    matched = PLACE.fullmatch(word)
    if matched is None:
        raise LabError(f"--patch {word!r} names no place; for example --patch blocks.1.resid_post:5")
    position, from_position = (None if at is None else whole("--patch", word, at) for at in matched.group(3, 4))
    head = None if matched[2] is None else zero_based("--patch", word, matched[2])[0]
    return Patch(matched[1], position, from_position, head)


def weight(word: str) -> Intervention:
    from txlab.engine.interpret.interventions import EditWeight

    matched = WEIGHT.fullmatch(word)
    if matched is None:
        raise LabError(f"--edit {word!r} names no number of a parameter; for example --edit 'embed.weight[5,0]=0.1'")
    places = [place for place in matched[2].replace(" ", "").split(",") if place]
    if not all(re.fullmatch(r"-?\d{1,12}", place) for place in places):
        raise LabError(f"--edit {word!r}: [{matched[2]}] is not a place in a parameter; for example [5,0]")
    return EditWeight(matched[1], tuple(map(int, places)), number("--edit", word, matched[3]))


def site_of(option: str, word: str, named: str | None, site: str) -> str:
    """Return the kind of attention that is named, by default `site`."""
    if named is not None and named not in SITES:
        raise LabError(
            f"{option} {word!r}: {named!r} is not an attention{nearest(named, SITES)}; allowed: {', '.join(SITES)}"
        )
    return named or site


def zero_based(option: str, word: str, *numbers: str) -> list[int]:
    """Convert numbers counted from 1 to numbers counted from 0."""
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
