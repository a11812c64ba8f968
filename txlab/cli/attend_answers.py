"""What `txlab attend` says: the table of heads, one pattern, what interventions changed; as text, JSON or a picture.

Notable: nothing is computed here that the engine does not compute; what a cell shows is what JSON holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txlab.cli.reading import SCORES, Reading

if TYPE_CHECKING:
    import numpy as np

    from txlab.engine.interpret.activation_cache import ActivationCache
    from txlab.engine.interpret.effects import Effect

WORTH_A_NOTE = 0.3  # a head with a lower score is not called after it, as on the screen
STRONGEST = 5  # pairs that are named under a pattern


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


def print_heads(reading: Reading, seen: ActivationCache) -> None:
    """All heads: their scores, and what a high one means."""
    import numpy as np

    from txlab.cli.terminal import Column, shown, table
    from txlab.drawing.formatting import share

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
        again = "no token comes twice in this text, so induction and duplicate have no value"
        at_once = "no token comes again but at once in this text, so induction has no value"
        print(at_once if "duplicate" in names else again)
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


def all_scores(reading: Reading, seen: ActivationCache) -> list[dict[str, Any]]:
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


def print_pattern(
    reading: Reading, seen: ActivationCache, view: View, weights: np.ndarray, spans: tuple[slice, slice]
) -> None:
    """The pattern as large as the terminal lets it be, what it means, and the strongest pairs in words."""
    import numpy as np

    from txlab.cli.models import token_label
    from txlab.cli.terminal import ascii_only, columns, depth, print_lines
    from txlab.drawing.attention import pattern_lines
    from txlab.drawing.explanation import folded
    from txlab.drawing.formatting import share

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
    if reading.site.mask_name == "graph":
        said += ", or is all zeros where no edge comes in"
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


def scores_in_words(seen: ActivationCache, site: str, view: View) -> str:
    """ ": induction .98, previous .01, …" """
    from txlab.drawing.formatting import share

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
    reading: Reading, seen: ActivationCache, view: View, weights: np.ndarray, spans: tuple[slice, slice]
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


def draw_all(reading: Reading, seen: ActivationCache, out: Path) -> Path:
    from txlab.drawing.attention import draw_heads

    pictures = [small.cpu().numpy() for _, small in seen.all_thumbnails(reading.site.name, 48)]
    return draw_heads(pictures, out, title=titled(reading, f"{reading.model.title}  {reading.site.name}"))


def titled(reading: Reading, title: str) -> str:
    return "  ".join([title, *(wish.says for wish in reading.given[:2])])


def print_place(path: Path) -> None:
    from txlab.cli.terminal import shown

    print(shown(str(path)))
