"""`txlab attend`: which token attends to which in a text, in any head of any model, with interventions (MATH T1–T4).

Without a head it prints a table of all heads and their apparent roles; with one, its pattern, as large as the terminal
allows. The Attention screen shows the same numbers, from the same ActivationCache.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.interventions import Wishes, head_asked
from txlab.cli.models import about, bar, print_model, shares, token_label
from txlab.cli.output import Column, print_json, table
from txlab.cli.reading import SCORES, Reading, read
from txlab.cli.terminal import ascii_only, columns, depth, numeral, print_lines, sanitize
from txlab.drawing.formatting import share
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.interpret.activation_cache import ActivationCache
    from txlab.engine.interpret.effects import Effect

SPAN = re.compile(r"(-?\d{1,9})?(?::(-?\d{1,9})?)?")
WORTH_A_NOTE = 0.3  # the least score that describes a head, as on the screen
STRONGEST = 5  # pairs listed below a pattern
MOVED = 8  # tokens whose probability an intervention changed most
LIKE = {
    "previous": "the token before",
    "induction": "the token that followed this one before",
    "duplicate": "the same token, earlier",
    "first": "the first token",
}


def attend(
    name: options.Model,
    text: options.Text = None,
    target: options.Target = None,
    pair: options.Pair = None,
    file: options.File = None,
    special: options.Special = False,
    site: options.Site = None,
    layer: Annotated[int | None, typer.Option("--layer", metavar="N", help="from 1", min=1)] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="HEAD", help="2.3 = the third head of layer 2; or 3, with --layer")
    ] = None,
    average: Annotated[bool, typer.Option("--average", help="the mean over heads: of --layer, or of all")] = False,
    roll: Annotated[bool, typer.Option("--rollout", help="attention through all layers, or up to --layer")] = False,
    rows: Annotated[str | None, typer.Option("--rows", metavar="A:B", help="only these rows, from 0")] = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="A:B", help="only these columns")] = None,
    without_first: Annotated[
        bool, typer.Option("--without-first", help="leave out the first token, often a mere attention sink")
    ] = False,
    position: Annotated[
        int | None, typer.Option("--position", metavar="N", help="where the effect of interventions is measured")
    ] = None,
    off: options.Off = None,
    scale: options.Scale = None,
    cut: options.Cut = None,
    allow: options.Allow = None,
    patch: options.Patch = None,
    second: options.Second = None,
    edit: options.Edit = None,
    erratum: options.Erratum = None,
    out: options.Picture = None,
    json: options.Json = False,
) -> None:
    """Which tokens attend to which: all heads, or one head's pattern."""
    from txlab.engine.interpret.activation_cache import run_with_cache

    site, layer, head_index = head_asked(head, layer, site)
    view = view_named(average, roll, layer, head_index)
    wishes = Wishes.of(second, off=off, scale=scale, cut=cut, allow=allow, patch=patch, edit=edit, erratum=erratum)
    reading = read(name, text, file, target, site, wishes, special, pair)
    place = reading.place(position)
    cache = run_with_cache(reading.model.model, reading.text, reading.given, reading.second)
    effect = effect_of(reading, cache, place) if reading.given else None
    if view is None:
        if rows is not None or columns is not None:
            raise LabError("--rows and --columns are for one pattern; name a head, --average or --rollout")
    else:
        view.form(reading, cache, rows, columns, without_first)
    if out is not None:
        print(sanitize(str(draw_heads_of(reading, cache, out) if view is None else view.draw(reading, out))))
    elif json:
        heads = {"site": reading.site.name, "heads": head_scores(reading, cache)}
        content = heads if view is None else pattern_json(reading, cache, view)
        moved = None if effect is None else effect_json(reading, effect, place)
        print_json({"model": about(reading.model), **reading.answer(), **content, "effect": moved})
    else:
        if view is None:
            print_heads(reading, cache)
        else:
            print_pattern(reading, cache, view)
        print()
        if effect is not None:
            print_effect(reading, effect, place)
            print()
        print_model(reading.model)


@dataclass
class PatternView:
    """One pattern: of one head, the average of a layer's heads (or of all: None), or the rollout up to a layer; and the
    requested window of it, `weights` (t, s), NaN where masked."""

    name: str
    layer: int | None = None
    head: int | None = None
    rows: slice = field(default_factory=lambda: slice(None))
    columns: slice = field(default_factory=lambda: slice(None))
    weights: Any = None

    def title(self, site: str) -> str:
        of = "" if site == "self" else f"{site} "
        if self.name == "head":
            return f"{of}head {(self.layer or 0) + 1}.{(self.head or 0) + 1}"
        if self.name == "average":
            where = "all layers" if self.layer is None else f"layer {self.layer + 1}"
            return f"mean over the {of}heads of {where}"
        return f"{of}rollout through {'all layers' if self.layer is None else f'layers 1 to {self.layer + 1}'}"

    def form(
        self, reading: Reading, cache: ActivationCache, rows: str | None, columns: str | None, without_first: bool
    ) -> None:
        """Compute the window. Raises LabError for ranges outside the text or a head that does not exist."""
        import numpy as np

        from txlab.engine.interpret.activation_cache import rollout
        from txlab.engine.interpret.sites import head_of

        site = reading.site
        self.rows = span("--rows", rows, len(reading.queries), 0)
        self.columns = span("--columns", columns, len(reading.keys), int(without_first))
        if self.layer is not None:
            head_of(reading.model.model, site.name, self.layer, self.head)
        if self.name == "head":
            assert self.layer is not None
            assert self.head is not None
            alpha = cache.pattern(site.name, self.layer, self.head, self.rows, self.columns)
        elif self.name == "average":
            alpha = cache.average(site.name, self.layer, self.rows, self.columns)
        else:
            layers = None if self.layer is None else self.layer + 1
            alpha = rollout(cache, site.name, layers)[self.rows, self.columns]
        self.weights = alpha.cpu().numpy().astype(np.float64)
        allowed = site.mask.allowed_pairs(len(reading.queries), len(reading.keys))
        if allowed is not None:
            # A masked edge with a weight was allowed by an intervention, so it is kept.
            self.weights[~allowed[self.rows, self.columns].numpy() & (self.weights == 0)] = np.nan

    def scores(self, reading: Reading, cache: ActivationCache) -> dict[str, float]:
        """Return the scores of the head shown; empty for an average or a rollout."""
        if self.name != "head" or self.layer is None:
            return {}
        scores = cache.scores_of_layer(reading.site.name, self.layer)
        return {name: float(values[self.head]) for name, values in scores.items()}

    def draw(self, reading: Reading, out: Path) -> Path:
        from txlab.drawing.picture import draw_attention

        queries, keys = reading.queries[self.rows], reading.keys[self.columns]
        title = title_of(reading, self.title(reading.site.name))
        return draw_attention(self.weights, out, queries=queries, keys=keys, title=title)


def view_named(average: bool, roll: bool, layer: int | None, head: int | None) -> PatternView | None:
    """Return the requested pattern; None = the table of all heads."""
    if average and roll:
        raise LabError("--average and --rollout are two pictures; give one of them")
    if (average or roll) and head is not None:
        raise LabError(f"{'--average' if average else '--rollout'} takes all heads of a layer; --head is not for it")
    if average or roll:
        return PatternView("average" if average else "rollout", layer)
    if head is None:
        if layer is not None:
            raise LabError(f"--layer {layer + 1} alone is not a pattern: add --head, --average or --rollout")
        return None
    return PatternView("head", layer, head)


def span(option: str, words: str | None, length: int, first: int) -> slice:
    """ "3:10", ":10", "-5:" or "7" as a slice of 0 … length − 1; LabError if it is empty."""
    if words is None:
        if first >= length:
            raise LabError("without the first token nothing is left to look at")
        return slice(first, length)
    matched = SPAN.fullmatch(words)
    if matched is None or not words:
        raise LabError(f"{option} {words!r} is not a range; for example {option} 3:10, :10, or 7")
    if ":" not in words:
        start = int(words)
        start = start + length if start < 0 else start
        window = slice(start, start + 1)
    else:
        start, stop, _ = slice(*(int(part) if part else None for part in matched.groups())).indices(length)
        window = slice(start, stop)
    if not 0 <= window.start < window.stop <= length:
        raise LabError(f"{option} {words} is empty here; allowed: 0 to {length - 1}")
    return window


# All heads.


def head_scores(reading: Reading, cache: ActivationCache) -> list[dict[str, Any]]:
    """Return each head with its scores; NaN where the text does not define one."""
    site = reading.site
    scores = cache.scores(site.name)
    return [
        {
            "name": f"{layer + 1}.{head + 1}",
            "layer": layer + 1,
            "head": head + 1,
            **{name: float(values[layer, head]) for name, values in scores.items()},
        }
        for layer in range(site.layers)
        for head in range(site.heads)
    ]


def print_heads(reading: Reading, cache: ActivationCache) -> None:
    """Print the scores of all heads, and the meaning of a high score."""
    site, model, entries = reading.site, reading.model, head_scores(reading, cache)
    names = [name for name in SCORES if any(is_known(entry.get(name)) for entry in entries)]
    rows, paint = [], {}
    for number, entry in enumerate(entries):
        known = {name: entry[name] for name in names if is_known(entry[name])}
        best = max(known, key=lambda name: known[name], default="")
        like = ""
        if known.get(best, 0.0) >= WORTH_A_NOTE:
            like = LIKE[best]
            paint[number, names.index(best) + 1] = 33
        rows.append([entry["name"], *(share(known[name]) if name in known else "" for name in names), like])
    head = [Column("head"), *(Column(name, "right") for name in names), Column("looks at", loose=True)]
    print(table(head, rows, paint))
    print()
    print_target(reading)
    if not names:
        print("the text is too short for any score")
    elif "induction" not in names and site.name != "cross":
        again = "no token occurs twice in this text, so induction and duplicate have no value"
        at_once = "tokens of this text repeat only immediately, so induction has no value"
        print(at_once if "duplicate" in names else again)
    named = model.name if model.step is not None else str(model.origin)
    print(f"txlab attend {sanitize(named)} TEXT --head {entries[0]['name']} shows one head's pattern")


def is_known(score: float | None) -> bool:
    return score is not None and score == score


def draw_heads_of(reading: Reading, cache: ActivationCache, out: Path) -> Path:
    from txlab.drawing.attention import draw_heads

    pictures = [small.cpu().numpy() for _, small in cache.all_thumbnails(reading.site.name, 48)]
    return draw_heads(pictures, out, title=title_of(reading, reading.site.name))


def title_of(reading: Reading, what: str) -> str:
    """Return the title of a picture: the model, the content, and the first interventions."""
    return "  ".join([f"{reading.model.title}  {what}", *(wish.says for wish in reading.given[:2])])


def print_target(reading: Reading) -> None:
    """Print the target that an encoder–decoder generated, if none was given."""
    if reading.written:
        print(f"target, as the model writes it: {sanitize(reading.model.decode(reading.text.target))}")


# One pattern.


def print_pattern(reading: Reading, cache: ActivationCache, view: PatternView) -> None:
    """Print the pattern as large as the terminal allows, what it means, and the strongest pairs in words."""
    import numpy as np

    from txlab.drawing.attention import pattern_lines
    from txlab.drawing.explanation import wrap_text

    site, weights = reading.site, view.weights
    queries, keys = reading.queries[view.rows], reading.keys[view.columns]
    scores = view.scores(reading, cache)
    words = ", ".join(f"{name} {share(scores[name])}" for name in SCORES if is_known(scores.get(name)))
    print("\n".join(wrap_text(view.title(site.name) + (f": {words}" if words else ""), columns() - 1)))
    print_target(reading)
    print()
    complete = view.columns == slice(0, len(reading.keys))
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
        first_row=view.rows.start,
    )
    print_lines(drawn.lines)
    print()
    meaning = "rows look at columns, every row of the whole pattern sums to 1"
    if site.mask_name == "graph":
        meaning += ", or is all zeros where no edge comes in"
    if view.name == "rollout" and site.name in ("decoder", "cross"):
        meaning = "what each row holds of each column; source and target together sum to 1"
    if drawn.tile != (1, 1):
        meaning += f"; each sign is the largest of {drawn.tile[0]} x {drawn.tile[1]} weights"
    if not complete:
        meaning += f"; the strongest shade is {share(largest)}"
    print("\n".join(wrap_text(meaning, columns() - 1)))
    flat = np.nan_to_num(weights, nan=-1.0).ravel()
    places = [int(place) for place in np.argsort(-flat, kind="stable")[:STRONGEST] if flat[place] > 0.005]
    pairs = []
    for place in places:
        row, column = divmod(place, weights.shape[1])
        arrow = "->" if ascii_only() else "→"
        pair = f"{token_label(queries[row], 16)} {arrow} {token_label(keys[column], 16)} {share(flat[place])}"
        pairs.append(pair.replace(" ", "\0"))  # a pair stays on one line
    if pairs:
        print("\n".join(wrap_text("strongest: " + ", ".join(pairs), columns() - 1)).replace("\0", " "))


def pattern_json(reading: Reading, cache: ActivationCache, view: PatternView) -> dict[str, Any]:
    """Return the requested window; masked weights are 0. Layers and heads are counted from 1."""
    import numpy as np

    rows, columns = view.rows, view.columns
    answer: dict[str, Any] = {
        "site": reading.site.name,
        "mask": reading.site.mask_name,
        "view": view.name,
        "layer": None if view.layer is None else view.layer + 1,
        "head": None if view.head is None else view.head + 1,
        "rows": {"start": rows.start, "stop": rows.stop, "labels": reading.queries[rows]},
        "columns": {"start": columns.start, "stop": columns.stop, "labels": reading.keys[columns]},
        "pattern": np.nan_to_num(view.weights).tolist(),
        "row_sums": np.nansum(view.weights, -1).tolist(),
    }
    scores = view.scores(reading, cache)
    return answer | {"scores": scores} if scores else answer


# Effects of interventions.


def effect_of(reading: Reading, cache: ActivationCache, place: int) -> Effect:
    """Return the effect of the interventions on the prediction at a position, relative to a pass without them."""
    from txlab.engine.interpret.effects import compare_logits
    from txlab.engine.interpret.interventions import remarks
    from txlab.engine.interpret.sites import run

    model = reading.model.model
    return compare_logits(run(model, reading.text), cache.logits, place, 20, remarks(model, reading.given))


def effect_json(reading: Reading, change: Effect, place: int) -> dict[str, Any]:
    """Return KL in nats, and the tokens whose probability changed most."""
    labels = reading.model.target_labels([moved.token for moved in change.moved])
    return {
        "position": place,
        "kl": change.kl,
        "moved": [
            {"id": moved.token, "text": label, "before": moved.before, "after": moved.after, "change": moved.change}
            for moved, label in zip(change.moved, labels, strict=True)
        ],
        "remarks": list(change.remarks),
    }


def print_effect(reading: Reading, change: Effect, place: int) -> None:
    """Print the interventions, how far the distribution moved, and which tokens changed most."""
    from txlab.drawing.text import formula

    for sentence in (*(wish.says for wish in reading.given), *change.remarks):
        print(sanitize(sentence))
    kl = formula("KL(before ‖ after)", ascii_only())
    where = "stands at" if reading.model.kind == "bert" else "comes after"
    print(f"{kl} = {numeral(change.kl)} nats, of what {where} {token_label(reading.predicting[place], 20)}")
    if not change.moved:
        print("nothing moved")
        return
    print()
    moved = change.moved[:MOVED]
    befores, afters = shares([one.before for one in moved]), shares([one.after for one in moved])
    labels = reading.model.target_labels([one.token for one in moved])
    length = 12 if columns() < 96 else 20
    rows = [
        [token_label(label, 20), before, bar(one.before, length), now, bar(one.after, length)]
        for one, label, before, now in zip(moved, labels, befores, afters, strict=True)
    ]
    blank = Column(" " * length)
    print(table([Column("token"), Column("before"), blank, Column("after"), blank], rows))
