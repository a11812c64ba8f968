"""The bench behind the Attention screen: a model that reads what a person types, seen with what is switched.

Notable: everything here happens in threads and imports torch there. What is switched travels as plain dictionaries
(interpret.interventions' JSON), so that a key can be answered before torch has been imported. One lock keeps the model
to one reader at a time, since an erratum or an edited weight is in the model itself while it is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.drawing.formatting import count
from txlab.engine.explain import Explanation, Operand, Step
from txlab.errors import LabError
from txlab.tui.screens.attention.source import LEADS, THUMB, Candidate, Following, Span, View

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.engine.interpret.activation_cache import ActivationCache
    from txlab.engine.interpret.interventions import Intervention
    from txlab.engine.interpret.sites import Text
    from txlab.runs.models import OpenModel

Switch = Mapping[str, Any]
LIKELIEST = 8  # candidates for what comes next
MOVED = 4  # further ones, because they moved


@dataclass(frozen=True)
class Task:
    """What one wants of the bench.

    model    a name as runs/models.open_model takes it
    at       the step that is looked at: the newest checkpoint at or before it is opened; None = the newest of all
    source, target   the text; None = what the model is at home with; of a model that reads pairs, target is the second
    switched what is switched, in order; `second` is the text that patches come from
    """

    model: str
    at: int | None = None
    source: str | None = None
    target: str | None = None
    switched: tuple[Switch, ...] = ()
    second: str | None = None
    root: Path | None = None


@dataclass
class BenchSource:
    """A model that has read a text, with and without what is switched (an AttentionSource)."""

    task: Task
    opened: OpenModel
    text: Text
    plain: ActivationCache
    seen: ActivationCache
    interventions: tuple[Intervention, ...]
    lock: Lock
    second: Text | None = None
    remarks: tuple[str, ...] = ()
    small: dict[str, np.ndarray] = field(default_factory=dict)
    scored: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    rolled: dict[str, Tensor] = field(default_factory=dict)
    circuits: dict[tuple[Any, ...], Any] = field(default_factory=dict)  # of the checkpoint, whatever it reads

    @property
    def name(self) -> str:
        name = self.opened.name
        if self.opened.steps:
            from txlab.tui.run_summary import scenario_name

            name = scenario_name(self.opened.origin, "")
        return name if self.opened.step is None else f"{name} checkpoint {count(self.opened.step)}"

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(self.seen.sites)

    def instant(self, view: View) -> bool:
        return False

    def shape(self, site: str) -> tuple[int, int]:
        return self.seen.sites[site].layers, self.seen.sites[site].heads

    def __post_init__(self) -> None:
        """Labels are asked for with every cell that the cursor moves on to, on the event loop: made once, here."""
        source, target = tuple(self.opened.labels(self.text.ids)), tuple(self.opened.target_labels(self.text.target))
        self.of_rows = {site: target if site in ("decoder", "cross") else source for site in self.sites}
        self.of_columns = {site: target if site == "decoder" else source for site in self.sites}
        said = self.opened.tokenizer.decode([t for t in self.text.ids if t not in self.opened.special.names])
        texts = [self.task.source if self.task.source is not None else said]
        if self.text.target:
            texts.append(self.opened.decode(self.text.target))
        elif self.opened.reads_pairs and self.task.target:
            texts.append(self.task.target)
        self.texts = tuple(texts)

    def rows(self, site: str) -> tuple[str, ...]:
        return self.of_rows[site]

    def columns(self, site: str) -> tuple[str, ...]:
        return self.of_columns[site]

    def mask(self, site: str) -> str:
        return self.seen.sites[site].mask_name

    def pattern(self, view: View, site: str, layer: int, head: int, rows: Span, columns: Span) -> np.ndarray:
        window = slice(*rows), slice(*columns)
        if view == "pattern":
            found = self.seen.pattern(site, layer, head, *window)
        elif view == "average":
            found = self.seen.average(site, layer, *window)
        else:
            found = self.rollout(site)[window]
        return found.float().cpu().numpy()

    def rollout(self, site: str) -> Tensor:
        """(T, S) through all layers; kept, since every step of a cursor asks again."""
        from txlab.engine.interpret.activation_cache import rollout

        if site not in self.rolled:
            self.rolled = {site: rollout(self.seen, site)}
        return self.rolled[site]

    def thumbnails(self, site: str) -> np.ndarray:
        """As many layers as are known; the others are blank until `look_at_layer` has been there."""
        if site not in self.small:
            rows, columns = self.seen.size(site)
            self.small[site] = np.zeros((*self.shape(site), min(rows, THUMB), min(columns, THUMB)), np.float32)
        return self.small[site]

    def scores(self, site: str) -> Mapping[str, np.ndarray]:
        return self.scored.get(site, {})

    def look_at_layer(self, site: str, layer: int) -> None:
        """Form every head of a layer once: its small pictures and its scores."""
        small = self.thumbnails(site).copy()
        small[layer] = self.seen.thumbnails(site, layer, THUMB).float().cpu().numpy()
        scores = {name: array.copy() for name, array in self.scores(site).items()}
        for name, values in self.seen.scores_of_layer(site, layer).items():
            scores.setdefault(name, np.full(self.shape(site), np.nan, np.float32))[layer] = values.float().cpu().numpy()
        self.small[site], self.scored[site] = small, scores

    def begin_like(self, other: BenchSource) -> None:
        """Show the heads of another source until one's own are known: the picture changes and does not flash."""
        for site in self.sites:
            if site in other.small and other.small[site].shape == self.thumbnails(site).shape:
                self.small[site] = other.small[site]
                self.scored[site] = dict(other.scores(site))

    def marks(self, site: str, layer: int, head: int) -> dict[tuple[int, int], str]:
        from txlab.engine.interpret.interventions import Edge

        return {
            (wish.row, wish.column): "+" if wish.allowed else "×"
            for wish in self.interventions
            if isinstance(wish, Edge)
            and wish.site == site
            and wish.layer in (None, layer)
            and wish.head in (None, head)
        }

    def touched(self, site: str) -> dict[tuple[int, int], str]:
        """What is said under a head that is scaled: off, or its factor."""
        from txlab.engine.interpret.interventions import ScaleHead

        scaled = [wish for wish in self.interventions if isinstance(wish, ScaleHead) and wish.site == site]
        return {(wish.layer, wish.head): "off" if wish.factor == 0 else f"×{wish.factor:g}" for wish in scaled}

    def edits(self) -> list[str]:
        """What is switched, a few words each."""
        return [brief(wish, self) for wish in self.interventions]

    # What comes next

    def position(self, site: str, row: int) -> int:
        """The row of the stream that predicts; an encoder's tokens predict nothing, there it is the target's last."""
        last = len(self.text.predicting) - 1
        return last if site == "encoder" else max(0, min(row, last))

    def following(self, site: str, row: int) -> Following:
        from txlab.engine.interpret.effects import compare

        position = self.position(site, row)
        lead = LEADS["place" if self.opened.kind == "bert" else "next"]
        tokens = self.ranked(position)
        labels = self.opened.target_labels(tokens)
        now = self.seen.probabilities(position)[tokens].tolist()
        if not self.interventions:
            candidates = [Candidate(*pair) for pair in zip(labels, now, strict=True)]
            return Following(self.after(position), tuple(candidates), lead=lead)
        before = self.plain.probabilities(position)[tokens].tolist()
        candidates = [Candidate(*three) for three in zip(labels, now, before, strict=True)]
        kl = compare(self.plain, self.seen, position).kl
        return Following(self.after(position), tuple(candidates), kl, lead)

    def ranked(self, position: int) -> list[int]:
        """The tokens that are named at a position: the likeliest, with what is switched those that moved most too."""
        from txlab.engine.interpret.effects import compare

        if not self.interventions:
            found: list[int] = self.seen.following(position, LIKELIEST)[0].tolist()
            return found
        effect = compare(self.plain, self.seen, position)
        before, after = effect.before, effect.after
        order = after.topk(min(LIKELIEST - 2, len(after))).indices.tolist()
        order += before.topk(min(2, len(after))).indices.tolist() + [moved.token for moved in effect.moved[:MOVED]]
        return sorted(dict.fromkeys(order), key=lambda token: -max(float(before[token]), float(after[token])))

    def after(self, position: int) -> str:
        return self.opened.target_labels([self.text.predicting[position]])[0]

    # Why

    def explain_cell(self, view: View, site: str, layer: int, head: int, row: int, column: int) -> Explanation:
        from txlab.engine.interpret import why

        rows, columns = self.rows(site), self.columns(site)
        if view == "pattern":
            answer = why.why_pattern(self.seen, site, layer, head, row, column, rows, columns)
            return why.with_form(answer, self.opened.model, self.seen, site, layer, head, row, column)
        if view == "rollout":
            return why.why_rollout(self.seen, site, row, column, columns)
        heads = [float(self.seen.row(site, layer, each, row)[column]) for each in range(self.shape(site)[1])]
        return mean_of_heads(heads, rows[row], columns[column], layer)

    def explain_next(self, site: str, row: int, rank: int) -> Explanation:
        from txlab.engine.interpret import why

        position = self.position(site, row)
        return why.why_next(self.seen, position, self.ranked(position)[rank], self.token, self.after(position))

    def explain_kl(self, site: str, row: int) -> Explanation:
        """Why what is switched changed what comes next by so many nats."""
        from txlab.engine.interpret import why
        from txlab.engine.interpret.effects import compare

        return why.why_kl(compare(self.plain, self.seen, self.position(site, row)), self.token)

    def token(self, ident: int) -> str:
        return self.opened.target_labels([ident])[0]


def brief(wish: Intervention, source: BenchSource) -> str:
    """A switch in a few words, with the tokens that it is about: `2.2 off`, `2.2 mice ↛ the`."""
    from txlab.drawing.text import label
    from txlab.engine.interpret.interventions import Edge, EditWeight, Patch, ScaleBlock, ScaleHead

    several = len(source.sites) > 1
    where = f"{wish.site} " if several and isinstance(wish, (ScaleHead, Edge, ScaleBlock)) else ""
    if isinstance(wish, ScaleHead):
        return f"{where}head {wish.layer + 1}.{wish.head + 1} " + ("off" if not wish.factor else f"×{wish.factor:g}")
    if isinstance(wish, ScaleBlock):
        part = "feed-forward" if wish.part == "feed_forward" else wish.part
        return f"{where}{part} {wish.layer + 1} " + ("off" if not wish.factor else f"×{wish.factor:g}")
    if isinstance(wish, Edge):
        rows, columns = source.rows(wish.site), source.columns(wish.site)
        tokens = f"{label(rows[wish.row])} {'→' if wish.allowed else '↛'} {label(columns[wish.column])}"
        head = "" if wish.layer is None or wish.head is None else f"{wish.layer + 1}.{wish.head + 1} "
        return f"{where}{head}{tokens} ({wish.row}, {wish.column})"
    if isinstance(wish, Patch):
        return f"patch {wish.place} at {'all' if wish.position is None else wish.position}"
    if isinstance(wish, EditWeight):
        return f"{wish.parameter}[{','.join(map(str, wish.index))}] = {wish.value:g}"
    return f"erratum {wish.name}"


def mean_of_heads(weights: list[float], row: str, column: str, layer: int) -> Explanation:
    """The average of a layer's heads at one cell, head by head."""
    mean = float(np.mean(weights))
    return Explanation(
        question=f"why {mean:.3f} from {row!r} to {column!r} on average?",
        equation="ᾱᵢⱼ = (1/H) Σₕ αᵢⱼ⁽ʰ⁾",
        math="T1, T3",
        source="the mean over the heads of a layer",
        operands=[Operand("α", weights, f"one for each head of layer {layer + 1}")],
        steps=[Step("ᾱ", f"{sum(weights):.4f} / {len(weights)}", mean)],
        result=mean,
        labels=[f"head {layer + 1}.{head + 1}" for head in range(len(weights))],
    )


class Workbench:
    """The model that is open and what it has read, for one thread at a time."""

    def __init__(self) -> None:
        self.opened: OpenModel | None = None
        self.opened_for: tuple[str, int | None] = ("", None)
        self.plain: ActivationCache | None = None
        self.circuits: dict[tuple[Any, ...], Any] = {}  # what attention_circuits.py knows of this checkpoint
        self.lock = Lock()

    def see(self, task: Task) -> BenchSource:
        """Do what the task says, reusing the model and the untouched pass where they are the same.

        LabError in one sentence where the model, the text or what is switched is not possible.
        """
        from txlab.engine.interpret.activation_cache import run_with_cache
        from txlab.engine.interpret.interventions import from_json, remarks

        opened = self.open(task)
        text = text_of(opened, task.source, task.target)
        second = text_of(opened, task.second, task.target) if task.second is not None else None
        given = tuple(from_json(switch) for switch in task.switched)
        with self.lock:
            if self.plain is None or self.plain.text != text:
                self.plain = run_with_cache(opened.model, text)
            seen = run_with_cache(opened.model, text, given, second) if given else self.plain
            said = tuple(remarks(opened.model, given))
        known = self.circuits
        return BenchSource(task, opened, text, self.plain, seen, given, self.lock, second, said, circuits=known)

    def open(self, task: Task) -> OpenModel:
        from txlab.runs.models import open_model

        step = checkpoint_at(task) if task.at is not None else None
        if self.opened is None or self.opened_for != (task.model, step):
            self.opened, self.plain = open_model(task.model, task.root, step), None
            self.opened_for = (task.model, step)
            self.lock, self.circuits = Lock(), {}
        return self.opened


def checkpoint_at(task: Task) -> int | None:
    """The newest checkpoint of a run at or before the step that is looked at; None for what is no run."""
    from txlab.runs import checkpoints
    from txlab.runs.directory import RunDirectory
    from txlab.runs.finding import is_run
    from txlab.runs.models import find_model

    place, _ = find_model(task.model, task.root)
    if not is_run(place):
        return None
    steps = sorted(checkpoints.sound(RunDirectory(place)))
    before = [step for step in steps if task.at is None or step <= task.at]
    if steps and not before:
        raise LabError(
            f"no checkpoint of {place.name} is as early as step {count(task.at or 0)}: the first is at "
            f"{count(steps[0])}; go there on the time line ( ] ) or press }} for the newest"
        )
    return before[-1] if before else None


def beginning(opened: OpenModel) -> str:
    """A text that this model can read: what it is at home with, a word, or a row of ids where it knows no words."""
    for text in filter(None, (opened.example, "The ")):
        try:
            if opened.ids(text):
                return text
        except LabError:
            continue
    return "1 2 3"


def text_of(opened: OpenModel, source: str | None, target: str | None) -> Text:
    """What a model reads of a person's text, or of its own example."""
    pair = opened.kind == "encoder-decoder"
    if source is None:
        source, target = beginning(opened), opened.example_target
    if pair:
        text = opened.text(source, target or "")
    else:
        text = opened.text(source, pair=target if opened.reads_pairs and target else None)
    most = opened.context
    for what, ids in (("text", text.ids), ("target", text.target)):
        if most is not None and len(ids) > most:
            raise LabError(f"the {what} has {count(len(ids))} tokens; {opened.name} reads at most {count(most)}")
    return text
