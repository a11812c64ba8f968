"""A live model that reads the user's text, with edits, as a source of the Attention screen.

Notable: everything here runs in threads and imports torch there. Edits travel as plain dictionaries, so that keys are
answered before torch has been imported. One lock keeps the model to one pass at a time, since an erratum or an edited
weight changes the model itself while it is active.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import truediv
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.drawing.formatting import count, share
from txlab.drawing.run_names import fit_handle
from txlab.engine.explain import Explaining, Explanation
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory
from txlab.runs.folder import is_run
from txlab.runs.models import steps_to_open
from txlab.tui.screens.attention.source import (
    LEADS,
    LONGEST_NAME,
    THUMB,
    AttentionSite,
    Candidate,
    Cell,
    Edit,
    NextTokens,
    Span,
    View,
)

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.engine.interpret.activation_cache import ActivationCache
    from txlab.engine.interpret.continuations import Continuations
    from txlab.engine.interpret.effects import Effect
    from txlab.engine.interpret.interventions import Intervention
    from txlab.engine.interpret.sites import Text
    from txlab.runs.models import OpenModel

LIKELIEST = 8  # candidates for the next token
MOVED = 4  # further ones, because their probability moved


@dataclass(frozen=True)
class Task:
    """A model, its text, and the edits.

    model    a name as in runs/models.open_model; in a finished task, the folder
    at       the selected step: the newest checkpoint at or before it is opened; None = the newest of all. In a finished
             task, the checkpoint's
    source, target   the text; None = the model's own example; of a model that reads pairs, target is the second text
    edits    interventions in the order in which they were made; `second` is the text that patches come from
    written  ids that the model wrote: after the text or target, or for its masks, from left to right
    carried  the text was another model's: if this one cannot read it, it reads its own example
    translate   the target is to be written by the model
    """

    model: str
    at: int | None = None
    source: str | None = None
    target: str | None = None
    edits: tuple[Edit, ...] = ()
    second: str | None = None
    root: Path | None = None
    written: tuple[int, ...] = ()
    carried: bool = False
    translate: bool = False


@dataclass
class LiveAttention:
    """A model that has read a text, with the edits (`cache`) and without (`plain`); an AttentionSource."""

    task: Task
    opened: OpenModel
    text: Text
    plain: ActivationCache
    cache: ActivationCache
    interventions: tuple[Intervention, ...]
    lock: Lock
    second: Text | None
    remarks: tuple[str, ...]
    circuits: dict[tuple[Any, ...], Any]  # of the checkpoint, independent of the text; see tables.py
    asked: Task  # the requested task; `task` is the one carried out
    note: str = ""  # why it is not the requested text
    small: dict[str, np.ndarray] = field(default_factory=dict)
    scores: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    rolled_out: dict[str, Tensor] = field(default_factory=dict)
    stored: bool = False

    def __post_init__(self) -> None:
        """Make the labels once, here: the event loop needs them at every move of the cursor."""
        opened, text = self.opened, self.text
        source, target = tuple(opened.labels(text.ids)), tuple(opened.target_labels(text.target))
        self.sites = {
            name: AttentionSite(
                site.layers,
                site.heads,
                target if name in ("decoder", "cross") else source,
                target if name == "decoder" else source,
                site.mask_name,
            )
            for name, site in self.cache.sites.items()
        }
        decoded = opened.tokenizer.decode([token for token in text.ids if token not in opened.special.names])
        wrote_behind = bool(self.task.written) and not text.target
        texts = [self.task.source if self.task.source is not None and not wrote_behind else decoded]
        if text.target:
            texts.append(opened.decode(text.target))
        elif opened.reads_pairs and self.task.target:
            texts.append(self.task.target)
        self.texts = tuple(texts)
        self.edits = self.task.edits
        self.name = self.describe_model()

    def describe_model(self) -> str:
        """What the model is called: the run's name and the checkpoint, or the folder."""
        from txlab.runs.directory import info_of
        from txlab.runs.summary import handle_in

        name, origin = self.opened.name, self.opened.origin
        if self.opened.steps:
            name = fit_handle(handle_in(origin, info_of(RunDirectory(origin))), LONGEST_NAME)
        name = name if self.opened.step is None else f"{name} checkpoint {count(self.opened.step)}"
        return f"{name}, its own text" if self.note else name

    def pattern(self, view: View, site: str, layer: int, head: int, rows: Span, columns: Span) -> np.ndarray:
        window = slice(*rows), slice(*columns)
        if view == "pattern":
            values = self.cache.pattern(site, layer, head, *window)
        elif view == "average":
            values = self.cache.average(site, layer, *window)
        else:
            from txlab.engine.interpret.activation_cache import rollout

            if site not in self.rolled_out:  # cached, since it is needed at every move of the cursor
                self.rolled_out = {site: rollout(self.cache, site)}
            values = self.rolled_out[site][window]
        return values.float().cpu().numpy()

    # All heads, layer by layer.

    def thumbnails(self, site: str) -> np.ndarray:
        """Return the known layers; the others are blank until `form_layer` has computed them."""
        if site not in self.small:
            here = self.sites[site]
            tall, wide = (min(len(tokens), THUMB) for tokens in (here.rows, here.columns))
            self.small[site] = np.zeros((here.layers, here.heads, tall, wide), np.float32)
        return self.small[site]

    def form_layer(self, site: str, layer: int) -> None:
        small = self.thumbnails(site).copy()
        small[layer] = self.cache.thumbnails(site, layer, THUMB).float().cpu().numpy()
        scores = {name: array.copy() for name, array in self.scores.get(site, {}).items()}
        for name, values in self.cache.scores_of_layer(site, layer).items():
            unknown = np.full(small.shape[:2], np.nan, np.float32)
            scores.setdefault(name, unknown)[layer] = values.float().cpu().numpy()
        self.small[site], self.scores[site] = small, scores

    def begin_like(self, other: LiveAttention) -> None:
        """Show the same model's previous heads until this pass's are known, so that the picture does not flash."""
        if other.opened.origin != self.opened.origin:  # its heads would appear under this model's name
            return
        for site in self.sites:
            if site in other.small and other.small[site].shape == self.thumbnails(site).shape:
                self.small[site] = other.small[site]
                self.scores[site] = dict(other.scores.get(site, {}))

    # The next token.

    def position(self, site: str, row: int) -> int:
        """Return the position that predicts; for an encoder, whose tokens predict nothing, the target's last one."""
        last = len(self.text.predicting) - 1
        return last if site == "encoder" else max(0, min(row, last))

    def effect(self, position: int) -> Effect:
        """Return the effect of the edits at a position."""
        from txlab.engine.interpret.effects import compare

        return compare(self.plain, self.cache, position)

    def next_tokens(self, site: str, row: int) -> NextTokens:
        position = self.position(site, row)
        lead = LEADS["place" if self.opened.kind == "bert" else "next"]
        tokens = self.rank_tokens(position)
        labels, after = self.opened.target_labels(tokens), self.after(position)
        now = self.cache.probabilities(position)[tokens].tolist()
        if not self.edits:
            return NextTokens(after, tuple(map(Candidate, labels, now)), lead=lead)
        before = self.plain.probabilities(position)[tokens].tolist()
        return NextTokens(after, tuple(map(Candidate, labels, now, before)), self.effect(position).kl, lead)

    def rank_tokens(self, position: int) -> list[int]:
        """Return the tokens to list at a position: the likeliest and, with edits, those that changed most."""
        if not self.edits:
            tokens: list[int] = self.cache.following(position, LIKELIEST)[0].tolist()
            return tokens
        effect = self.effect(position)
        before, after = effect.before, effect.after
        order = after.topk(min(LIKELIEST - 2, len(after))).indices.tolist()
        order += before.topk(min(2, len(after))).indices.tolist() + [moved.token for moved in effect.moved[:MOVED]]
        return sorted(dict.fromkeys(order), key=lambda token: -max(float(before[token]), float(after[token])))

    def after(self, position: int) -> str:
        return self.token(self.text.predicting[position])

    def token(self, ident: int) -> str:
        return self.opened.target_labels([ident])[0]

    # Writing.

    def next_position(self) -> int:
        """Return the position whose prediction is written next. LabError if a masked model has no mask left."""
        if self.opened.kind != "bert":
            return len(self.text.predicting) - 1
        if self.opened.special.mask not in self.text.ids:
            raise LabError("there is no mask left to fill; t types a text, [MASK] where a word is hidden")
        return self.text.ids.index(self.opened.special.mask)

    def next_token(self, draws: np.random.Generator | None = None) -> int:
        """Return the likeliest token of the next position under the edits, or one drawn from its distribution.

        LabError if it is the end token of a text.
        """
        p = self.cache.probabilities(self.next_position()).double().cpu().numpy().copy()
        p[list(self.opened.never)] = 0.0
        chosen = int(p.argmax()) if draws is None else int(draws.choice(len(p), p=p / p.sum()))
        if chosen in self.opened.special.stops:
            raise LabError(f"the text ends here: {self.token(chosen)} comes next, with {share(float(p[chosen]))}")
        return chosen

    def writes(self) -> None:
        """Raise LabError if the model does not predict the continuation of a text."""
        from txlab.engine.interpret.continuations import writes

        writes(self.opened.model)

    def continuations(self, path: tuple[int, ...], most: int) -> Continuations:
        """Return the candidates after the text and a path. LabError if the model does not write, or has no context
        left."""
        from txlab.engine.interpret.continuations import continuations

        with self.lock:
            return continuations(
                self.opened.model, self.text, path, most, self.interventions, self.second, self.opened.never
            )

    # Why.

    def explain_continuation(self, path: tuple[int, ...]) -> Explanation:
        """Explain the probability of the last token of a path after those before it."""
        from txlab.engine.interpret.activation_cache import run_with_cache
        from txlab.engine.interpret.continuations import extend_text
        from txlab.engine.interpret.why import why_next

        text = extend_text(self.text, path[:-1])
        with self.lock:
            cache = run_with_cache(self.opened.model, text, self.interventions, self.second)
        position = len(text.predicting) - 1
        return why_next(cache, position, path[-1], self.token, self.token(text.predicting[position]))

    def explain_cell(self, view: View, cell: Cell) -> Explanation:
        from txlab.engine.interpret import why

        site, layer, head, row, column = cell.site, cell.layer, cell.head, cell.row, cell.column
        rows, columns = self.sites[site].rows, self.sites[site].columns
        if view == "pattern":
            answer = why.why_pattern(self.cache, site, layer, head, row, column, rows, columns)
            return why.with_form(answer, self.opened.model, self.cache, site, layer, head, row, column)
        if view == "rollout":
            return why.why_rollout(self.cache, site, row, column, columns)
        heads = range(self.sites[site].heads)
        weights = [float(self.cache.row(site, layer, each, row)[column]) for each in heads]
        mean = float(np.mean(weights))
        question = f"why {mean:.3f} from {rows[row]!r} to {columns[column]!r} on average?"
        average = Explaining(question, mean, [f"head {layer + 1}.{each + 1}" for each in heads])
        average.equation("ᾱᵢⱼ = (1/H) Σₕ αᵢⱼ⁽ʰ⁾", "T1, T3", "the mean over the heads of a layer")
        average.input("α", weights, f"one for each head of layer {layer + 1}")
        average.compute("ᾱ", "{} / {}", truediv, sum(weights), len(weights))
        return average.result()

    def explain_next(self, site: str, row: int, rank: int) -> Explanation:
        from txlab.engine.interpret.why import why_next

        position = self.position(site, row)
        return why_next(self.cache, position, self.rank_tokens(position)[rank], self.token, self.after(position))


class Workbench:
    """The open model and its unedited pass, for one thread at a time."""

    def __init__(self) -> None:
        self.opened: OpenModel | None = None
        self.opened_for: tuple[str, int | None] = ("", None)
        self.plain: ActivationCache | None = None
        self.circuits: dict[tuple[Any, ...], Any] = {}
        self.lock = Lock()

    def read(self, task: Task) -> LiveAttention:
        """Carry out the task, reusing the model and the unedited pass where they are the same.

        Raises LabError, in one sentence, if the model, the text or an edit is impossible.
        """
        from txlab.engine.interpret.activation_cache import run_with_cache
        from txlab.engine.interpret.interventions import from_json, remarks

        asked = task
        opened, task = self.open(task)
        task, text, note = self.text_for(opened, task)
        second = text_of(opened, task.second, task.target) if task.second is not None else None
        given = tuple(from_json(edit) for edit in task.edits)
        with self.lock:
            if self.plain is None or self.plain.text != text:
                self.plain = run_with_cache(opened.model, text)
            cache = run_with_cache(opened.model, text, given, second) if given else self.plain
            remarks_here = tuple(remarks(opened.model, given))
        return LiveAttention(
            task, opened, text, self.plain, cache, given, self.lock, second, remarks_here, self.circuits, asked, note
        )

    def text_for(self, opened: OpenModel, task: Task) -> tuple[Task, Text, str]:
        """Return the input of a task, the resolved task, and why another model's text was not kept."""
        try:
            text = text_of(opened, task.source, task.target, task.written)
        except LabError as error:
            if not task.carried:
                raise
            own = replace(task, source=None, target=None, written=(), carried=False)
            return own, text_of(opened, None, None), str(error)
        if task.translate and opened.kind == "encoder-decoder":
            task = replace(task, written=self.translate(opened, text))
            text = text_of(opened, task.source, task.target, task.written)
        return replace(task, carried=False, translate=False), text, ""

    def translate(self, opened: OpenModel, text: Text) -> tuple[int, ...]:
        """Return the greedy translation of a source, without the token that ends it."""
        from txlab.engine.transformer.encoder_decoder import EncoderDecoder
        from txlab.engine.transformer.generation import generate_target

        assert isinstance(opened.model, EncoderDecoder)
        stops, room = opened.special.stops, opened.model.shape.context - len(text.target)
        with self.lock:
            (written,) = generate_target(
                opened.model, [text.ids], room, start=text.target[0], end=stops, never=opened.never
            )
        return tuple(token for token in written if token not in stops)

    def open(self, task: Task) -> tuple[OpenModel, Task]:
        """Return the model of a task, and the task with the opened folder and step. A name ("latest") and the newest
        checkpoint are resolved once, here, since both may change at any moment."""
        from txlab.engine.interpret.sites import sites
        from txlab.runs.models import find_model, open_model

        if self.opened is None or self.opened_for != (task.model, task.at):
            place, step = find_model(task.model, task.root)
            if task.at is not None:
                step = checkpoint_at(place, task.at)
            if self.opened is None or self.opened_for != (str(place), step) or step is None:
                opened = open_model(str(place), step=step)
                sites(opened.model)  # LabError if it has no attention to show
                self.opened, self.plain = opened, None
                self.opened_for = (str(place), opened.step)
                self.lock, self.circuits = Lock(), {}
        model, at = self.opened_for
        return self.opened, replace(task, model=model, at=at)


def checkpoint_at(place: Path, at: int) -> int | None:
    """Return the newest checkpoint of a run at or before the selected step; None for a folder of weights."""
    if not is_run(place):
        return None
    steps = steps_to_open(RunDirectory(place))
    before = [step for step in steps if step <= at]
    if steps and not before:
        raise LabError(
            f"no checkpoint of {place.name} is as early as step {count(at)}: the first is at "
            f"{count(steps[0])}; go there on the time line ( ] ) or press }} for the newest"
        )
    return before[-1] if before else None


def example_text(opened: OpenModel) -> str:
    """Return a text that this model can read: its own example, a word, or ids if its tokenizer knows no words."""
    for text in filter(None, (opened.example, "The ")):
        try:
            if opened.ids(text):
                return text
        except LabError:
            continue
    return "1 2 3"


def text_of(opened: OpenModel, source: str | None, target: str | None, written: tuple[int, ...] = ()) -> Text:
    """Return the model's input for the user's text, or for the model's own example, with the tokens it wrote.

    LabError if its tokenizer cannot encode it, or it is longer than the model's context.
    """
    from txlab.engine.interpret.continuations import extend_text

    if source is None:
        source, target = example_text(opened), opened.example_target
    if opened.kind == "encoder-decoder":
        text = opened.text(source, target or "")
    else:
        text = opened.text(source, pair=target if opened.reads_pairs and target else None)
    if opened.kind == "bert":
        waiting = iter(written)
        filled = (next(waiting, token) if token == opened.special.mask else token for token in text.ids)
        text = replace(text, ids=tuple(filled))
    else:
        text = extend_text(text, written)
    for what, ids in (("text", text.ids), ("target", text.target)):
        if opened.context is not None and len(ids) > opened.context:
            size = count(len(ids))
            raise LabError(f"the {what} has {size} tokens; {opened.name} reads at most {count(opened.context)}")
    return text
