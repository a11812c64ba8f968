"""The model behind the patterns: the text it reads, opening another model, its edits, and comparisons.

Notable: a key only changes the *task* (the model, its text, and the edits); a thread carries it out, newest task first,
and the screen changes when it is done. A task is one question with one answer, so it goes through a LatestTask and not
through a Session, which would continue to step. When the frames of a run are shown, the first such key opens the run's
model at its newest checkpoint at or before the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from txlab.drawing.formatting import count, megabytes
from txlab.drawing.text import fit, formula
from txlab.errors import LabError
from txlab.progress import listener
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.models import steps_to_open
from txlab.tui.bindings import bind
from txlab.tui.key_order import keys_wait, run_in_thread
from txlab.tui.latest_task import LatestTask, Work
from txlab.tui.panel import Panel
from txlab.tui.screens.attention.bench import LiveAttention, Task, Workbench, example_text
from txlab.tui.screens.attention.dialogs import RECORDING, EditWeightScreen, offer_models, open_dialog
from txlab.tui.screens.attention.pattern_panel import PatternPanel
from txlab.tui.screens.attention.side_panel import SidePanel
from txlab.tui.screens.attention.source import AttentionViewer, Edit, concerns
from txlab.tui.screens.dialogs import AskValue, Choose
from txlab.tui.widgets.terminal import is_ascii

LOOKS_EVERY = 1.0  # seconds
SCALE = 0.25  # change of a head's factor by + and −
A_TEXT, UNEDITED = "another text", "without the edits"
NO_MODEL = "no model is open: o opens one, or choose a run in the Lab (1)"


class ModelViewer(AttentionViewer, Protocol):
    """What a ModelPanel requires of its screen."""

    def task_of_recording(self) -> Task | None:
        """Return the task of reading the recorded frame's text with the model of its run; None without a run."""

    def show_task(self, what: str) -> None:
        """The model has a new task, in which the "text", the "model" or the "edits" are new."""

    def show_fetch(self, sentence: str) -> None:
        """Show how much of its checkpoint has come from another machine; "" = all."""

    def model_read(self, same_text: bool) -> None:
        """The model has read it; `same_text`: the same text as before, under other edits."""

    def checkpoints_changed(self) -> None:
        """`ModelPanel.steps` has changed: the run of the model continues."""

    def model_left(self, sentence: str = "") -> None:
        """The model has been closed, or could not carry out its task, as the sentence says."""


class ModelPanel(Panel):
    """`wanted` is the task for the model (None: frames are shown), `live` the latest result; `steps` are the current
    checkpoints of its run, including the open one."""

    KEYS: ClassVar = (
        bind(
            "t", "text", "type the text that the model reads", "text", id="attention.text", synonyms="prompt input type"
        ),
        bind(
            "x",
            "switch_head",
            "switch this head off, or back on",
            "head off",
            id="attention.switch-head",
            synonyms="ablate knock out remove",
        ),
        bind("m", "edge", "cut this edge in this head, or allow it", "edge", id="attention.edge", synonyms="mask"),
        bind("c", "compare", "compare with another text or another step", "compare", id="attention.compare"),
        bind("0", "reset", "undo all edits", "reset", id="attention.reset"),
        bind(
            "escape",
            "leave",
            "close the comparison, then go back to the recording",
            "recording",
            id="attention.leave-bench",
        ),
        bind("o", "open", "open another run or model", "open", id="attention.open"),
        bind("b", "block", "switch off the attention or the MLP of this layer", "block", id="attention.block"),
        bind(
            "p",
            "patch",
            "patch in an activation from a second text",
            "patch",
            id="attention.patch",
            synonyms="causal tracing",
        ),
        bind("e", "weight", "change a weight of the model by hand", "weight", id="attention.weight"),
        bind(
            "E",
            "errata",
            "compute with an error of a lecture text",
            "errata",
            id="attention.errata",
            synonyms="mistakes bugs",
        ),
        bind(
            "plus,equals_sign",
            "scale(1)",
            "scale this head's output up and down",
            "scale head",
            id="attention.scale-up",
            key_display="+ -",
        ),
        bind("minus", "scale(-1)", "scale this head's output down", id="attention.scale-down"),
        bind(
            "delete,backspace",
            "remove",
            "undo the last edit, or the one chosen",
            "take back",
            id="attention.remove",
            key_display="del",
        ),
    )
    DEFAULT_CSS = "ModelPanel { display: none; }"

    def __init__(self, viewer: ModelViewer, patterns: PatternPanel, side: SidePanel) -> None:
        super().__init__()
        self.viewer, self.patterns, self.side = viewer, patterns, side
        self.workbench, self.second_workbench = Workbench(), Workbench()
        self.wanted: Task | None = None
        self.live: LiveAttention | None = None
        self.working = LatestTask(self, "model", self.show_failure)
        self.waiting: list[Callable[[LiveAttention], Any]] = []  # until all requests have been read
        self.opening_second = LatestTask(self, "second model", lambda sentence: self.tell(sentence, "error"))
        self.steps: tuple[int, ...] = ()
        self.listed: list[int] = []  # the folders of checkpoints when `steps` were looked for
        self.looking_for_steps = LatestTask(self, "checkpoints", self.tell)
        self.in_front = False

    def on_mount(self) -> None:
        self.set_interval(LOOKS_EVERY, self.look_for_steps)

    def come_to_front(self) -> None:
        self.in_front = True

    def unseen(self) -> None:
        self.in_front = False

    def look_for_steps(self) -> None:
        """Look, in a thread, for checkpoints that were made or removed since the model was opened."""
        live = self.live
        if live is None or not live.opened.steps or not (self.in_front and self.looking_for_steps.idle):
            return

        run, known = RunDirectory(live.opened.origin), self.listed

        def look(_: LatestTask) -> tuple[list[int], list[int] | None]:
            listed = checkpoints.steps(run)
            return listed, steps_to_open(run) if listed != known else None

        def take_steps(answer: tuple[list[int], list[int] | None]) -> None:
            listed, sound = answer
            if live is self.live and sound is not None:
                self.listed, self.steps = listed, with_open(sound, live)
                self.viewer.checkpoints_changed()

        self.looking_for_steps.want(look, take_steps)

    # The task and its result.

    def base(self) -> Task | None:
        """Return the present task, or that of the selected run and frame; tells the user if there is neither."""
        task = self.wanted or self.viewer.task_of_recording()
        if task is None:
            self.tell(NO_MODEL)
        return task

    def do(self, task: Task, what: str = "text") -> None:
        """Give the model a new task; `what` names the part that is new: "text", "model", "edits" or "checkpoint"."""
        self.wanted = task
        self.viewer.show_task(what)
        keys_wait = what in ("text", "model") or self.live is None  # the cursor's cell may change its meaning
        self.working.want(self.reading(self.workbench, task), self.show_result, keys_wait)

    def reading(self, workbench: Workbench, task: Task) -> Work:
        """Return the work of reading a task, which shows how much of a checkpoint has been fetched, and ends when it is
        no longer wanted."""

        def read(work: LatestTask) -> LiveAttention:
            def show(what: str, done: int, total: int) -> None:
                if work.late:
                    raise LabError(f"{what} is no longer wanted")
                size = f": {megabytes(done)} of {megabytes(total)}" if total > 1 else ""
                work.say(self.viewer.show_fetch, f"{what}{size}   esc cancels" if done < total else "")

            listener.set(show)
            return workbench.read(task)

        return read

    def show_result(self, live: LiveAttention) -> None:
        if self.wanted is None:
            return
        old, self.live = self.live, live
        if old is None or old.opened is not live.opened:
            self.steps, self.listed = with_open(live.opened.steps, live), []
        if old is not None and old.opened is not live.opened:
            self.side.say_result("")
        if live.note:
            self.tell(f"{live.opened.name} reads its own text: {live.note}", "warning")
        self.wanted = live.task if self.wanted == live.asked else self.wanted
        # The model's own example replaces a missing text.
        if self.wanted == live.task and live.task.source is None:
            self.wanted = live.task = replace(
                live.task, source=example_text(live.opened), target=live.opened.example_target
            )
        for remark in live.remarks:
            if old is None or remark not in old.remarks:
                self.tell(remark)
        if old is not None:
            live.begin_like(old)
        self.viewer.model_read(old is not None and old.opened is live.opened and old.text == live.text)
        self.serve()

    def show_failure(self, sentence: str) -> None:
        """Go back to the previous task, whose picture is still there, or to the frames."""
        self.waiting.clear()
        self.tell(sentence, "error")
        self.wanted = self.live.task if self.live is not None else None
        self.viewer.model_left(sentence)

    def forget(self) -> None:
        """Close the model."""
        self.close()
        self.opening_second.forget()

    def leave(self) -> None:
        """Go back to the recording."""
        if self.wanted is not None:
            self.close()
            self.viewer.model_left()

    def close(self) -> None:
        self.wanted = self.live = None
        self.steps = ()
        self.working.forget()
        self.waiting.clear()
        self.side.say_result("")

    def with_model(self, then: Callable[[LiveAttention], Any]) -> None:
        """Call `then` with the open model, opening it first if frames are shown."""
        if self.live is not None:
            then(self.live)
            return
        task = self.base()
        if task is not None:
            self.wanted = task

            def use_model(live: LiveAttention) -> None:
                self.show_result(live)
                then(live)

            self.working.want(self.reading(self.workbench, task), use_model, holds_keys=True)

    def with_newest(self, then: Callable[[LiveAttention], Any]) -> None:
        """Call `then` once the model has read the newest text under the newest edits, one such call after another."""
        if self.base() is None:
            return
        self.waiting.append(then)
        if self.wanted is None:
            self.with_model(lambda live: None)
        self.serve()

    def serve(self) -> None:
        """Call the callbacks that wait for the newest reading, until one of them requests another."""
        while self.waiting and self.live is not None and self.wanted == self.live.task:
            self.waiting.pop(0)(self.live)

    # Text and model.

    def action_text(self) -> None:
        """Type the model's input: for a translator source and target, for BERT an optional second text."""
        task, source = self.base(), self.viewer.source
        if task is None:
            return
        translates = source is not None and "cross" in source.sites

        def read(text: str, target: str | None) -> None:
            if target is not None:
                self.patterns.compare(None)  # with a text that would no longer be this one
                if translates and not target:
                    self.patterns.wanted_site = "cross"
                self.do(replace(task, source=text, target=target, written=(), translate=translates and not target))

        def ask_target(text: str | None) -> None:
            if text is None:
                return
            if translates:
                title, about = "The target, as far as it is written", "Nothing = the model translates."
            elif self.live is not None and self.live.opened.reads_pairs:
                about = "Behind the first, with what separates a pair; nothing = one text alone."
                title = "A second text"
            else:
                self.patterns.compare(None)
                self.do(replace(task, source=text, target=None, written=()))
                return
            self.app.push_screen(
                AskValue(title, about, task.target or ""),
                lambda target: read(text, target),
            )

        about = "Enter reads it with the model. The edits stay where they can."
        self.app.push_screen(AskValue("A text for the model", about, one_line(task.source or "")), ask_target)

    def action_open(self) -> None:
        """Open another model by name: a run, a checkpoint, a folder with weights."""
        root = self.app.root  # type: ignore[attr-defined]

        def open_named(name: str | None) -> None:
            if name == RECORDING:
                self.leave()
            elif name is not None:
                text = self.wanted.source if self.wanted is not None else None
                self.patterns.compare(None)
                self.do(Task(name, None, text, root=root, carried=text is not None), "model")

        frames = self.viewer.task_of_recording()
        recorded = self.wanted is not None and frames is not None and frames.source is not None
        dialog = open_dialog(recorded)
        self.app.push_screen(dialog, open_named)
        offer = run_in_thread(self, lambda: offer_models(dialog, root), "models", keys=False)
        keys_wait(self, offer)

    def action_leave(self) -> None:
        if self.viewer.comparing:  # one level at a time: else two texts would be side by side
            self.patterns.compare(None)
        else:
            self.leave()

    # Edits.

    def edit(self, change: Callable[[tuple[Edit, ...]], tuple[Edit, ...]], **other: Any) -> None:
        task = self.base()
        if task is not None:
            self.do(replace(task, edits=change(task.edits), **other), "edits")

    def toggle(self, what: Edit, value: Edit) -> None:
        """Make the edit named by `what`, with `value`; undo it if it exists."""
        self.edit(lambda edits: put(edits, what, None if find(edits, what) else value))

    def looking(self, what: str) -> bool:
        """Return whether there is anything to edit, and tell the user if not."""
        if self.viewer.source is None:
            self.tell(f"There is no {what} here yet.")
        return self.viewer.source is not None

    def action_switch_head(self) -> None:
        """Switch the selected head off, or back on."""
        self.scale_head(lambda factor: 0.0 if factor == 1.0 else 1.0)

    def action_scale(self, by: int) -> None:
        """Scale the output of the selected head by a quarter more or less."""
        self.scale_head(lambda factor: factor + by * SCALE)

    def scale_head(self, change: Callable[[float], float]) -> None:
        if not self.looking("head"):
            return
        cell = self.viewer.cell
        head = {"kind": "scale-head", "site": cell.site, "layer": cell.layer, "head": cell.head}

        def scale(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
            known = find(edits, head)
            factor = change(known["factor"] if known is not None else 1.0)
            return put(edits, head, {"factor": factor} if factor != 1.0 else None)

        self.edit(scale)

    def action_edge(self) -> None:
        """Cut the edge under the cursor in the selected head, or allow it where the mask forbids it; again: undo."""
        source, cell = self.viewer.source, self.viewer.cell
        if source is not None and self.looking("edge"):
            forbidden = source.sites[cell.site].mask == "causal" and cell.column > cell.row
            self.toggle({"kind": "edge", **asdict(cell)}, {"allowed": forbidden})

    def action_block(self) -> None:
        """Choose a branch of the selected layer to switch off, or back on."""

        def choose(live: LiveAttention) -> None:
            from txlab.engine.interpret.interventions import parts_of

            cell, edits = self.viewer.cell, self.wanted.edits if self.wanted is not None else ()
            site = cell.site if cell.site != "cross" else "decoder"
            branches = {
                str(part): {"kind": "scale-block", "site": site, "layer": cell.layer, "part": part}
                for part in parts_of(live.opened.model, site, cell.layer)
            }
            offs = {part: find(edits, branch) is not None for part, branch in branches.items()}
            rows = [(part, "is off: enter switches it back on" if off else "", off) for part, off in offs.items()]
            self.app.push_screen(
                Choose(f"Switch off in block {cell.layer + 1}", rows),
                lambda part: self.toggle(branches[part], {"factor": 0.0}) if part in branches else None,
            )

        if self.looking("block"):
            self.with_model(choose)

    def action_weight(self) -> None:
        def change(edit: Edit | None) -> None:
            if edit is not None:
                self.edit(lambda edits: (*edits, edit))

        if self.looking("model"):
            self.with_model(lambda live: self.app.push_screen(EditWeightScreen(live.opened), change))

    def action_errata(self) -> None:
        """Run the model with an error from one of the lecture texts."""

        def choose(live: LiveAttention) -> None:
            from txlab.engine.transformer.variants import VARIANTS, unfit

            edits = self.wanted.edits if self.wanted is not None else ()
            ascii, rows = is_ascii(self), []
            for name, variant in VARIANTS.items():
                why_not = unfit(name, live.opened.model)
                about = f"not here: {why_not}" if why_not else f"{variant.math}  {variant.says}"
                about = fit(formula(about, ascii), 40, ellipsis="~" if ascii else "…")
                rows.append((name, about, find(edits, {"kind": "erratum", "name": name}) is not None))
            self.app.push_screen(
                Choose("Read it as written (errata)", rows),
                lambda name: self.toggle({"kind": "erratum", "name": name}, {}) if name is not None else None,
            )

        self.with_model(choose)

    def action_patch(self) -> None:
        """Patch a position with the activation of a second text: asks for the text and the place."""
        cell = self.viewer.cell
        layer, name = cell.layer + 1, f"{cell.layer + 1}.{cell.head + 1}"

        def place(live: LiveAttention, second: str) -> None:
            from txlab.engine.interpret.interventions import parts_of

            site = live.cache.sites[cell.site]
            block, attention = site.block(cell.layer), site.at(cell.layer)
            places = {
                f"what enters block {layer}": (f"{block}.resid_pre", None),
                f"what head {name} says": (f"{attention}.heads", cell.head),
                f"what attention {layer} adds": (f"{attention}.out", None),
                f"what feed-forward {layer} adds": (f"{block}.feed_forward.out", None),
                f"what leaves block {layer}": (f"{block}.resid_post", None),
            }
            if "feed_forward" not in parts_of(live.opened.model, cell.site, cell.layer):
                del places[f"what feed-forward {layer} adds"]

            def choose(what: str | None) -> None:
                if what in places:
                    where, head = places[what]
                    patch = {"kind": "patch", "place": where, "position": cell.row, "from_position": None, "head": head}
                    self.edit(lambda edits: (*edits, patch), second=second)

            rows = [(what, where, False) for what, (where, _) in places.items()]
            self.app.push_screen(Choose(f"Patch position {cell.row} from the second text", rows), choose)

        def ask(live: LiveAttention) -> None:
            start = live.task.second or live.task.source or ""
            about = "The row of the cursor gets what this text has at the same position."
            self.app.push_screen(
                AskValue("A second text to patch from", about, one_line(start)),
                lambda second: place(live, second) if second else None,
            )

        self.with_model(ask)

    def action_reset(self) -> None:
        """Undo all edits."""
        if self.wanted is not None and self.wanted.edits:
            self.do(replace(self.wanted, edits=()))

    def action_remove(self) -> None:
        """Undo the edit under the cursor of the list, or the newest."""
        if self.wanted is not None and self.wanted.edits:
            chosen = self.side.chosen_edit
            at = chosen if chosen is not None else len(self.wanted.edits) - 1
            self.do(replace(self.wanted, edits=(*self.wanted.edits[:at], *self.wanted.edits[at + 1 :])))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys that would do nothing."""
        if action in ("reset", "remove"):
            return self.wanted is not None and bool(self.wanted.edits)
        if action == "text":
            return self.wanted is not None or self.viewer.task_of_recording() is not None
        return action != "leave" or self.wanted is not None or self.viewer.comparing

    # A second source next to the first.

    def action_compare(self) -> None:
        """Choose a source to compare with; if there is one, remove it."""
        if self.viewer.comparing:
            self.patterns.compare(None)
            return
        task = self.wanted or self.viewer.task_of_recording()
        if task is None or self.viewer.source is None:
            self.tell("There is nothing here yet to compare.")
            return
        here = self.live.opened.step if self.live is not None else None
        steps = self.steps or checkpoints.steps(RunDirectory(Path(task.model)))
        offered = {A_TEXT: ("read by the same model", task)}
        if task.edits:
            offered[UNEDITED] = ("the same text and model", replace(task, edits=()))
        for step in sorted(steps, reverse=True):
            if step != here:
                offered[f"checkpoint {count(step)}"] = ("the same text", replace(task, at=step))

        def beside(second: Task) -> None:
            reading = self.reading(self.second_workbench, second)
            self.opening_second.want(reading, self.patterns.compare, holds_keys=True)

        def choose(what: str | None) -> None:
            if what == A_TEXT:
                self.app.push_screen(
                    AskValue("A second text", "Its pattern is shown next to the first.", one_line(task.source or "")),
                    lambda text: beside(replace(task, source=text)) if text else None,
                )
            elif what is not None:
                beside(offered[what][1])

        choices = [(name, about, False) for name, (about, _) in offered.items()]
        self.app.push_screen(Choose("Compare with", choices), choose)


def find(edits: tuple[Edit, ...], what: Edit) -> Edit | None:
    """Return the edit that matches `what`."""
    return next((edit for edit in edits if concerns(edit, what)), None)


def put(edits: tuple[Edit, ...], what: Edit, value: Edit | None) -> tuple[Edit, ...]:
    """Replace the edit that matches `what` by `value`, in its old place or at the end; None removes it."""
    made = () if value is None else ({**what, **value},)
    for at, edit in enumerate(edits):
        if concerns(edit, what):
            return (*edits[:at], *made, *edits[at + 1 :])
    return (*edits, *made)


def with_open(steps: Sequence[int], live: LiveAttention) -> tuple[int, ...]:
    """Return the steps of a run's checkpoints, including the open one, which may have been removed meanwhile."""
    return tuple(sorted({*steps, *([] if live.opened.step is None else [live.opened.step])}))


def one_line(text: str) -> str:
    """Return a text for a dialog's single line."""
    return text.replace("\n", " ")
