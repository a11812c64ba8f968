"""`txlab attend`: who looks at whom in a text, in any head of any model; also under interventions (MATH T1–T4).

Notable: without a head it answers with a table of all heads and what they seem to do; with one, with its pattern, as
large as the terminal lets it be. The numbers are those of the Attention screen: they come from the same `see`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from txlab.cli.attend_answers import (
    View,
    all_scores,
    draw_all,
    draw_one,
    effect_json,
    pattern_json,
    print_changes,
    print_heads,
    print_pattern,
    print_place,
)
from txlab.cli.intervening import (
    Allow,
    Cut,
    Edit,
    ErratumOption,
    Off,
    PatchOption,
    Scale,
    Second,
    Wishes,
)
from txlab.cli.models import (
    FileOption,
    JsonOption,
    Name,
    PairOption,
    SiteOption,
    SpecialOption,
    TargetOption,
    TextArgument,
)
from txlab.cli.reading import Reading, agreed, chosen, read
from txlab.errors import LabError

if TYPE_CHECKING:
    import numpy as np

    from txlab.engine.interpret.activation_cache import ActivationCache
    from txlab.engine.interpret.effects import Effect

SPAN = re.compile(r"(-?\d{1,9})?(?::(-?\d{1,9})?)?")


def attend(
    name: Name,
    text: TextArgument = None,
    target: TargetOption = None,
    pair: PairOption = None,
    file: FileOption = None,
    special: SpecialOption = False,
    site: SiteOption = None,
    layer: Annotated[int | None, typer.Option("--layer", metavar="N", help="from 1", min=1)] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="HEAD", help="2.3 = the third head of layer 2; or 3, with --layer")
    ] = None,
    average: Annotated[bool, typer.Option("--average", help="the mean over heads: of --layer, or of all")] = False,
    roll: Annotated[bool, typer.Option("--rollout", help="attention through all layers, or up to --layer")] = False,
    rows: Annotated[str | None, typer.Option("--rows", metavar="A:B", help="only these rows, from 0")] = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="A:B", help="only these columns")] = None,
    without_first: Annotated[
        bool, typer.Option("--without-first", help="leave out the first token, on which much attention only rests")
    ] = False,
    position: Annotated[
        int | None, typer.Option("--position", metavar="N", help="where the effect of interventions is measured")
    ] = None,
    off: Off = None,
    scale: Scale = None,
    cut: Cut = None,
    allow: Allow = None,
    patch: PatchOption = None,
    second: Second = None,
    edit: Edit = None,
    erratum: ErratumOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="a picture (.png or .svg) instead of the terminal")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Who looks at whom in a text: all heads, or one head's pattern."""
    from txlab.cli.models import about, print_json, print_model

    if out is not None and out.suffix.lower() not in (".png", ".svg"):
        raise LabError(f"--out {out} is neither .png nor .svg")
    if out is not None and json:
        raise LabError("--out makes a picture and --json prints numbers; give one of them")
    named, layer_index, head_index = chosen(head, layer)
    view = view_of(average, roll, layer_index, head_index)
    wishes = Wishes.of(second, off=off, scale=scale, cut=cut, allow=allow, patch=patch, edit=edit, erratum=erratum)
    reading = read(name, text, file, target, agreed(site, named), wishes, special, pair)
    seen, effect = looked_at(reading, position)
    if view is None:
        if rows is not None or columns is not None:
            raise LabError("--rows and --columns are for one pattern; name a head, --average or --rollout")
        if out is not None:
            print_place(draw_all(reading, seen, out))
        elif json:
            heads = {"site": reading.site.name, "heads": all_scores(reading, seen)}
            found = effect_json(reading, effect, position)
            print_json({"model": about(reading.model), **reading.answer(), **heads, "effect": found})
        else:
            print_heads(reading, seen)
            print_changes(reading, effect, position)
            print_model(reading.model)
        return
    spans = (
        span("--rows", rows, len(reading.queries), 0),
        span("--columns", columns, len(reading.keys), int(without_first)),
    )
    weights = window(reading, seen, view, spans)
    if out is not None:
        print_place(draw_one(reading, view, weights, spans, out))
    elif json:
        print_json(
            {
                "model": about(reading.model),
                **reading.answer(),
                **pattern_json(reading, seen, view, weights, spans),
                "effect": effect_json(reading, effect, position),
            }
        )
    else:
        print_pattern(reading, seen, view, weights, spans)
        print_changes(reading, effect, position)
        print_model(reading.model)


def view_of(average: bool, roll: bool, layer: int | None, head: int | None) -> View | None:
    """The pattern that is asked for; None = the table of all heads."""
    if average and roll:
        raise LabError("--average and --rollout are two pictures; give one of them")
    if (average or roll) and head is not None:
        raise LabError(f"{'--average' if average else '--rollout'} takes all heads of a layer; --head is not for it")
    if average:
        return View("average", layer)
    if roll:
        return View("rollout", layer)
    if head is None:
        if layer is not None:
            raise LabError(f"--layer {layer + 1} alone is no pattern: add --head, --average or --rollout")
        return None
    return View("head", layer, head)


def looked_at(reading: Reading, position: int | None) -> tuple[ActivationCache, Effect | None]:
    """The text as the model sees it under the interventions, and what these change."""
    from txlab.engine.interpret.activation_cache import run_with_cache
    from txlab.engine.interpret.effects import compared
    from txlab.engine.interpret.interventions import remarks
    from txlab.engine.interpret.sites import run

    model = reading.model.model
    place = reading.place(position)
    seen = run_with_cache(model, reading.text, reading.given, reading.second)
    if not reading.given:
        return seen, None
    return seen, compared(run(model, reading.text), seen.logits, place, 20, remarks(model, reading.given))


def window(reading: Reading, seen: ActivationCache, view: View, spans: tuple[slice, slice]) -> np.ndarray:
    """The weights that are asked for, NaN where the mask forbids: (t, s)."""
    import numpy as np

    from txlab.engine.interpret.activation_cache import rollout
    from txlab.engine.interpret.sites import head_of

    site = reading.site
    rows, columns = spans
    if view.layer is not None:
        head_of(reading.model.model, site.name, view.layer, view.head)
    if view.name == "head":
        assert view.layer is not None
        assert view.head is not None
        alpha = seen.pattern(site.name, view.layer, view.head, rows, columns)
    elif view.name == "average":
        alpha = seen.average(site.name, view.layer, rows, columns)
    else:
        alpha = rollout(seen, site.name, None if view.layer is None else view.layer + 1)[rows, columns]
    weights = alpha.cpu().numpy().astype(np.float64)
    allowed = site.mask.allowed(len(reading.queries), len(reading.keys))
    if allowed is not None:
        # An edge that was allowed by hand has a weight, or the mask would not forbid it.
        weights[~allowed[rows, columns].numpy() & (weights == 0)] = np.nan
    return weights


def span(option: str, words: str | None, length: int, first: int) -> slice:
    """ "3:10", ":10", "-5:" or "7" as a slice of 0 … length − 1; LabError where nothing is in it."""
    if words is None:
        if first >= length:
            raise LabError("without the first token nothing is left to look at")
        return slice(first, length)
    matched = SPAN.fullmatch(words)
    if matched is None or not words:
        raise LabError(f"{option} {words!r} is no range; for example {option} 3:10, :10, or 7")
    if ":" not in words:
        start = int(words)
        start = start + length if start < 0 else start
        found = slice(start, start + 1)
    else:
        start, stop, _ = slice(*(int(part) if part else None for part in matched.groups())).indices(length)
        found = slice(start, stop)
    if not 0 <= found.start < found.stop <= length:
        raise LabError(f"{option} {words} is empty here; allowed: 0 to {length - 1}")
    return found
