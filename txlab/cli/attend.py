"""`txlab attend`: who looks at whom in a text, in any head of any model; also under interventions (MATH T1–T4).

Notable: without a head it answers with a table of all heads and what they seem to do; with one, with its pattern, as
large as the terminal lets it be. The numbers are those of the Attention screen: they come from the same `see`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from txlab.cli.models import FileOption, JsonOption, Name, SiteOption, TargetOption, TextArgument
from txlab.cli.reading import Reading, read
from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    import numpy as np
    from rich.text import Text as Line

    from txlab.engine.interpret.effects import Effect
    from txlab.engine.interpret.seeing import Seen

SCORES = ("previous", "induction", "duplicate", "first")
WORTH_A_NOTE = 0.3  # a head with a lower score is not called after it, as on the screen
STRONGEST = 5  # pairs that are named under a pattern
SPAN = re.compile(r"(-?\d{1,9})?(?::(-?\d{1,9})?)?")


@dataclass(frozen=True)
class View:
    """Which pattern: of one head, the average of a layer's heads (or of all: None), or the rollout up to a layer."""

    name: str
    layer: int | None = None
    head: int | None = None

    def title(self, site: str) -> str:
        of = "" if site == "self" else f"{site} "
        if self.name == "head":
            return f"{of}head {(self.layer or 0) + 1}.{(self.head or 0) + 1}"
        if self.name == "average":
            where = "all layers" if self.layer is None else f"layer {self.layer + 1}"
            return f"mean over the {of}heads of {where}"
        return f"{of}rollout through {'all layers' if self.layer is None else f'layers 1 to {self.layer + 1}'}"


def attend(
    name: Name,
    text: TextArgument = None,
    target: TargetOption = None,
    file: FileOption = None,
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
    reading = read(name, text, file, target, agreed(site, named), wishes)
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


def chosen(head: str | None, layer: int | None) -> tuple[str | None, int | None, int | None]:
    """Site (if the head names one), layer and head, from 0."""
    from txlab.cli.intervening import head_named

    if head is None:
        return None, None if layer is None else layer - 1, None
    if head.isascii() and head.isdecimal():
        if layer is None:
            raise LabError(f"--head {head} needs --layer; or name both: --head 2.{head}")
        if not 1 <= len(head) <= 9 or int(head) < 1:
            raise LabError(f"--head {head} is not allowed: heads are counted from 1")
        return None, layer - 1, int(head) - 1
    site, its_layer, index = head_named(head)
    if layer is not None and layer - 1 != its_layer:
        raise LabError(f"--head {head} is in layer {its_layer + 1}, not in --layer {layer}")
    return site, its_layer, index


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


def agreed(site: str | None, named: str | None) -> str | None:
    from txlab.cli.intervening import SITES

    if site is not None and site not in SITES:
        raise LabError(f"--site {site!r} is no attention{nearest(site, SITES)}; allowed: {', '.join(SITES)}")
    if site is not None and named is not None and site != named:
        raise LabError(f"--site {site} and --head {named}:… are two different kinds of attention")
    return site or named


def looked_at(reading: Reading, position: int | None) -> tuple[Seen, Effect | None]:
    """The text as the model sees it under the interventions, and what these change."""
    from txlab.engine.interpret.acting import remarks
    from txlab.engine.interpret.effects import compared
    from txlab.engine.interpret.seeing import see
    from txlab.engine.interpret.sites import run

    model = reading.model.model
    place = reading.place(position)
    seen = see(model, reading.text, reading.given, reading.second)
    if not reading.given:
        return seen, None
    return seen, compared(run(model, reading.text), seen.logits, place, 20, remarks(model, reading.given))


def window(reading: Reading, seen: Seen, view: View, spans: tuple[slice, slice]) -> np.ndarray:
    """The weights that are asked for, NaN where the mask forbids: (t, s)."""
    import numpy as np

    from txlab.engine.interpret.rollout import rollout
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
    if site.mask_name == "causal":
        # An edge that was allowed by hand has a weight, or the mask would not forbid it.
        down, across = np.arange(rows.start, rows.stop)[:, None], np.arange(columns.start, columns.stop)
        weights[(across > down) & (weights == 0)] = np.nan
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


# What is printed


def print_heads(reading: Reading, seen: Seen) -> None:
    """All heads: their scores, and what a high one means."""
    import numpy as np

    from txlab.cli.terminal import Column, shown, table
    from txlab.drawing.numerals import share

    site = reading.site
    found = all_scores(reading, seen)
    names = [name for name in SCORES if any(entry.get(name) is not None for entry in found)]
    rows, paint = [], {}
    for number, entry in enumerate(found):
        values = [entry.get(name) for name in names]
        best = int(np.argmax([-1.0 if value is None else value for value in values])) if names else 0
        like = ""
        if names and (values[best] or 0.0) >= WORTH_A_NOTE:
            like = LIKE[names[best]]
            paint[number, best + 1] = 33
        rows.append([entry["name"], *("" if value is None else share(value) for value in values), like])
    head = [Column("head"), *(Column(name, "right") for name in names), Column("looks at", loose=True)]
    print(table(head, rows, paint))
    print()
    print_target(reading)
    if not names:
        print("the text is too short for any score")
    elif "induction" not in names and site.name != "cross":
        print("no token comes twice in this text, so induction and duplicate have no value")
    model = reading.model
    named = model.name if model.step is not None else str(model.origin)
    print(f"txlab attend {shown(named)} TEXT --head {found[0]['name']} shows one head's pattern")


def print_target(reading: Reading) -> None:
    """The target that a translator wrote itself, where none was given."""
    from txlab.cli.terminal import shown

    if reading.written:
        print(f"target, as the model writes it: {shown(reading.model.decode(reading.text.target))}")


LIKE = {
    "previous": "the token before",
    "induction": "what followed this token before",
    "duplicate": "the same token, earlier",
    "first": "the first token",
}


def all_scores(reading: Reading, seen: Seen) -> list[dict[str, Any]]:
    """Each head with its scores; None where the text does not define one."""
    site = reading.site
    scores = seen.scores(site.name)
    return [
        {
            "name": f"{layer + 1}.{head + 1}",
            "layer": layer + 1,
            "head": head + 1,
            **{name: known(float(values[layer, head])) for name, values in scores.items()},
        }
        for layer in range(site.layers)
        for head in range(site.heads)
    ]


def known(value: float) -> float | None:
    return None if value != value else value


def print_pattern(reading: Reading, seen: Seen, view: View, weights: np.ndarray, spans: tuple[slice, slice]) -> None:
    """The pattern as large as the terminal lets it be, what it means, and the strongest pairs in words."""
    import numpy as np

    from txlab.cli.models import token_label
    from txlab.cli.terminal import ascii_only, columns
    from txlab.drawing.attention import pattern_lines
    from txlab.drawing.explanation import folded
    from txlab.drawing.numerals import share

    queries, keys = reading.queries[spans[0]], reading.keys[spans[1]]
    title = f"{view.title(reading.site.name)}{scores_in_words(seen, reading.site.name, view)}"
    print("\n".join(folded(title, columns() - 1)))
    print_target(reading)
    print()
    complete = spans[1] == slice(0, len(reading.keys))
    largest = 1.0 if complete else max(0.05, float(np.nanmax(weights, initial=0.0)))
    drawn = pattern_lines(
        weights,
        queries,
        keys,
        columns() - 1,
        colours=depth(),
        ascii=ascii_only(),
        sums=not complete or view.name == "rollout",
        largest=largest,
        first_row=spans[0].start,
    )
    print_lines(drawn.lines)
    print()
    said = "rows look at columns, every row of the whole pattern sums to 1"
    if view.name == "rollout" and reading.site.name in ("decoder", "cross"):
        said = "what each row holds of each column; source and target together sum to 1"
    if drawn.tile != (1, 1):
        said += f"; each sign is the largest of {drawn.tile[0]} x {drawn.tile[1]} weights"
    if not complete:
        said += f"; the strongest shade is {share(largest)}"
    print("\n".join(folded(said, columns() - 1)))
    pairs = [
        f"{token_label(queries[i], 16)} {'->' if ascii_only() else '→'} {token_label(keys[j], 16)} {share(weight)}"
        for i, j, weight in strongest(weights)
    ]
    if pairs:
        whole = [pair.replace(" ", "\0") for pair in pairs]  # a pair stays on one line
        print("\n".join(folded("strongest: " + ", ".join(whole), columns() - 1)).replace("\0", " "))


def strongest(weights: np.ndarray) -> list[tuple[int, int, float]]:
    """The largest weights with their places, largest first."""
    import numpy as np

    flat = np.nan_to_num(weights, nan=-1.0).ravel()
    order = np.argsort(-flat, kind="stable")[:STRONGEST]
    return [(*divmod(int(place), weights.shape[1]), float(flat[place])) for place in order if flat[place] > 0.005]


def scores_in_words(seen: Seen, site: str, view: View) -> str:
    """ ": induction .98, previous .01, …" """
    from txlab.drawing.numerals import share

    if view.name != "head" or view.layer is None:
        return ""
    scores = seen.scores_of_layer(site, view.layer)
    there = {name: float(values[view.head]) for name, values in scores.items()}
    words = [f"{name} {share(there[name])}" for name in SCORES if name in there and there[name] == there[name]]
    return f": {', '.join(words)}" if words else ""


def print_changes(reading: Reading, effect: Effect | None, position: int | None) -> None:
    from txlab.cli.intervening import print_effect

    print()
    if effect is not None:
        print_effect(reading.model, effect, reading.given, reading.predicting[reading.place(position)])
        print()


def effect_json(reading: Reading, effect: Effect | None, position: int | None) -> dict[str, Any] | None:
    from txlab.cli.intervening import effect_answer

    return None if effect is None else effect_answer(reading.model, effect, reading.place(position))


def pattern_json(
    reading: Reading, seen: Seen, view: View, weights: np.ndarray, spans: tuple[slice, slice]
) -> dict[str, Any]:
    """The window that was asked for; weights that the mask forbids are 0. Layer and head count from 1."""
    import numpy as np

    rows, columns = spans
    answer: dict[str, Any] = {
        "site": reading.site.name,
        "mask": reading.site.mask_name,
        "view": view.name,
        "layer": None if view.layer is None else view.layer + 1,
        "head": None if view.head is None else view.head + 1,
        "rows": {"start": rows.start, "stop": rows.stop, "labels": reading.queries[rows]},
        "columns": {"start": columns.start, "stop": columns.stop, "labels": reading.keys[columns]},
        "pattern": np.nan_to_num(weights).tolist(),
        "row_sums": np.nansum(weights, -1).tolist(),
    }
    if view.name == "head" and view.layer is not None:
        scores = seen.scores_of_layer(reading.site.name, view.layer)
        answer["scores"] = {name: known(float(values[view.head])) for name, values in scores.items()}
    return answer


# Pictures


def draw_one(reading: Reading, view: View, weights: np.ndarray, spans: tuple[slice, slice], out: Path) -> Path:
    from txlab.drawing.picture import draw_attention

    title = f"{reading.model.title}  {view.title(reading.site.name)}"
    return draw_attention(
        weights, out, queries=reading.queries[spans[0]], keys=reading.keys[spans[1]], title=titled(reading, title)
    )


def draw_all(reading: Reading, seen: Seen, out: Path) -> Path:
    from txlab.drawing.attention import draw_heads

    pictures = [small.cpu().numpy() for _, small in seen.all_thumbnails(reading.site.name, 48)]
    return draw_heads(pictures, out, title=titled(reading, f"{reading.model.title}  {reading.site.name}"))


def titled(reading: Reading, title: str) -> str:
    return "  ".join([title, *(wish.says for wish in reading.given[:2])])


def print_place(path: Path) -> None:
    from txlab.cli.terminal import shown

    print(shown(str(path)))


# Colours of the terminal


def depth() -> Any:
    """How many colours the output has: "truecolor", "256", "16" or "none"."""
    import os

    from txlab.cli.terminal import colours

    if not colours():
        return "none"
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in os.environ.get("TERM", "") else "16"


def print_lines(lines: list[Line]) -> None:
    """Lines with styles: in this terminal's colours, or as plain text."""
    from rich.console import Console

    systems: dict[str, Any] = {"truecolor": "truecolor", "256": "256", "16": "standard", "none": None}
    system = systems[depth()]
    if system is None:
        print("\n".join(line.plain.rstrip() for line in lines))
        return
    console = Console(file=sys.stdout, color_system=system, force_terminal=True, highlight=False, width=10_000)
    for line in lines:
        console.print(line, soft_wrap=True)
