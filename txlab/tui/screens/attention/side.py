"""The tables beside the pattern: heads by their scores, what is switched, what each layer would predict, what each part
adds to a logit by itself; what the weights of a head do is in attention_circuits.py.

Notable: a table is made as plain rows of text in whatever thread asks, so the screen only draws it; `keys` name what
each row is about, for `w` and for taking a switch back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txlab.drawing.formatting import number, share
from txlab.drawing.text import label, visible
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.tui.screens.attention.bench import BenchSource
from txlab.tui.screens.attention.source import SCORES, AttentionSource, strongest
from txlab.tui.widgets.table import Column

TABS = ("heads", "edits", "lens", "direct", "circuits")
STRONGEST = 4  # heads that are named for each score
PARTS = 16  # of a logit
OPENS = "type a text (t): opens the model"


@dataclass(frozen=True)
class Question:
    """Which tab, about which head and cell; of `edits` nothing but the tab counts."""

    tab: str
    site: str
    layer: int
    head: int
    row: int
    column: int


@dataclass(frozen=True)
class Answer:
    """A table; `keys` (one a row) are of the tab's own kind; `waiting` stands there where there is no table."""

    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    marked: tuple[int, ...] = ()
    keys: tuple[Any, ...] = ()
    waiting: str = ""


def ready(source: AttentionSource, question: Question) -> bool:
    """Whether it can be answered at once."""
    return question.tab in ("heads", "edits") or not isinstance(source, BenchSource)


def answer(source: AttentionSource, question: Question) -> Answer:
    """The table of a tab. LabError in one sentence where there can be none."""
    if question.tab == "heads":
        return heads_table(source.scores(question.site), (question.layer, question.head))
    if not isinstance(source, BenchSource):
        said = "nothing is switched; x a head, m an edge" if question.tab == "edits" else OPENS
        return Answer(waiting=said)
    if question.tab == "edits":
        return edits_table(source.edits())
    if question.tab == "lens":
        return lens_table(source, question)
    if question.tab == "circuits":
        from txlab.tui.screens.attention.circuits import circuits_rows

        return Answer(*circuits_rows(source, question.site, question.layer, question.head))
    return direct_table(source, question)


def heads_table(scores: Mapping[str, Any], chosen: tuple[int, int]) -> Answer:
    """For each score the heads that have most of it; the one that is shown stands out."""
    rows: list[tuple[str, ...]] = []
    keys: list[tuple[str, tuple[int, int]]] = []
    names = [name for name in (*SCORES, "duplicate", "first") if name in scores]
    for name in names:
        for place, (layer, head) in enumerate(strongest(scores, name, STRONGEST)):
            rows.append((name if not place else "", f"{layer + 1}.{head + 1}", share(float(scores[name][layer, head]))))
            keys.append((name, (layer, head)))
    if not rows:
        return Answer(waiting="no score is known here")
    columns = (Column("score", right=False, quiet=True), Column("head"), Column("mean"))
    marked = tuple(at for at, key in enumerate(keys) if key[1] == chosen)
    return Answer(columns, tuple(rows), marked, tuple(keys))


def edits_table(says: Sequence[str]) -> Answer:
    if not says:
        return Answer(waiting="nothing is switched; x a head, m an edge")
    columns = (Column("", right=True), Column("del takes one back", right=False))
    return Answer(
        columns, tuple((str(at), visible(text)) for at, text in enumerate(says, 1)), (), tuple(range(len(says)))
    )


def lens_table(source: BenchSource, question: Question) -> Answer:
    """What each layer would predict after the row of the cursor."""
    from txlab.engine.interpret.effects import lens

    position = source.position(question.site, question.row)
    with source.lock:
        found = lens(source.opened.model, source.text, position, 2, source.interventions, source.second)
    rows, keys = [], []
    for layer in reversed(range(len(found.ids))):
        first, second = source.opened.target_labels(found.ids[layer].tolist()[:2])[:2]
        name = f"L{layer}" if layer else "emb"
        likely, next_to = (share(float(p)) for p in found.probabilities[layer, :2])
        rows.append((name, label(first), likely, number(float(found.kl[layer]), 2), label(second), next_to))
        keys.append((found, layer))
    columns = (
        Column("", right=False, quiet=True),
        Column("says", right=False),
        Column("p"),
        Column("KL"),
        Column("then", right=False, quiet=True),
        Column("p", quiet=True),
    )
    return Answer(columns, tuple(rows), (0,), tuple(keys))


def direct_table(source: BenchSource, question: Question) -> Answer:
    """What adds to the logit of the likeliest token after the row of the cursor, and what takes from it."""
    from txlab.engine.interpret.direct import direct_effects

    position = source.position(question.site, question.row)
    token = int(source.seen.following(position, 1)[0][0])
    with source.lock:
        found = direct_effects(
            source.opened.model, source.text, token, None, position, source.interventions, source.second
        )
    parts = found.largest(PARTS)
    chosen = (question.site, question.layer, question.head)
    marked = tuple(at for at, part in enumerate(parts) if (part.site, part.layer, part.head) == chosen)
    logit = f"{label(source.opened.target_labels([token])[0])} {number(found.logit, 3)}"
    columns = (Column(f"to the logit of {logit}", right=False), Column("adds"))
    rows = tuple((part.name, f"{part.value:+.2f}".replace("-", "−")) for part in parts)
    return Answer(columns, rows, marked, tuple((found, part) for part in parts))


def explain_row(source: AttentionSource, question: Question, key: Any) -> Explanation:
    """Why the number in a row of the side is what it is; of what is switched, why the KL."""
    if not isinstance(source, BenchSource):
        raise LabError("a frame explains the cells of a head; type a text (t) to open the model and ask it")
    from txlab.engine.interpret import why

    if question.tab == "heads":
        (layer, head), score = key[1], key[0]
        return why.why_score(source.seen, question.site, layer, head, score, source.columns(question.site))
    if question.tab == "edits":
        return source.explain_kl(question.site, question.row)
    if question.tab == "circuits":
        from txlab.tui.screens.attention.circuits import explain_circuit

        return explain_circuit(source, question.site, key)
    found, one = key
    return (why.why_lens if question.tab == "lens" else why.why_direct)(found, one, names=source.token)
