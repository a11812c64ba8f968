"""What a person does on the Attention screen: another text or model, and switching things off, over and back.

Notable: a key only changes the *task* (what one wants of the model); a thread does it, newest task first, and what is
on the screen changes when it is done. Looking at the frames of a run, the first such key opens the run's model at its
newest checkpoint at or before the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from txlab.drawing.text import fit, formula, visible
from txlab.tui.latest_task import Lane
from txlab.tui.screens.attention.bench import BenchSource, Switch, Task, Workbench, beginning
from txlab.tui.screens.attention.side import Answer
from txlab.tui.screens.attention.switches import one_line, put, same
from txlab.tui.screens.attention.view import LookingScreen
from txlab.tui.screens.dialogs import AskValue, Choose
from txlab.tui.widgets.table import Table
from txlab.tui.widgets.timeline import TimeLine

SCALE = 0.25  # how much + and − change the factor of a head


class HandsScreen(LookingScreen):
    """A looking screen with a workbench behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.workbench = Workbench()
        self.job: Task | None = None  # what is wanted of the bench; None while one looks at frames
        self.working = Lane(self, "bench", self.task_failed)

    # The task, and what comes of it.

    def base(self) -> Task | None:
        """The task as it stands, or that of the run and frame that are looked at."""
        if self.job is not None:
            return self.job
        if self.run_path is None:
            return None
        seen = self.attention
        source = target = None
        if seen is not None:
            source, target = (*seen.texts, None)[:2]
        at = seen.step if seen is not None and self.at is not None else None
        return Task(str(self.run_path), at, source, target, root=self.app.root)  # type: ignore[attr-defined]

    def do(self, task: Task) -> None:
        """Want this of the bench from now on."""
        self.job = task
        self.say_working()
        self.working.want(lambda _: self.workbench.see(task), self.task_done)

    def task_done(self, bench: BenchSource) -> None:
        if self.job is None:
            return
        old, self.bench = self.bench, bench
        # What was not said is now known: the text that the model is at home with.
        if self.job == bench.task and bench.task.source is None:
            self.job = replace(bench.task, source=beginning(bench.opened), target=bench.opened.example_target)
        for remark in bench.remarks:
            if old is None or remark not in old.remarks:
                self.tell(remark)
        if old is not None:
            bench.begin_like(old)
        if old is None or old.opened is not bench.opened or old.text != bench.text:
            self.placed = False
        self.show_checkpoints()
        self.show_source()
        self.refresh_bindings()

    def task_failed(self, sentence: str) -> None:
        """Back to the task before, whose picture is still there, or to the frames."""
        self.tell(sentence, "error")
        if self.bench is not None:
            self.job = self.bench.task
            self.show_words()
            return
        self.job = None
        self.refresh_bindings()
        if self.attention is None:
            self.say_empty((visible(sentence, self.ascii), "", "o opens another model"))
        else:  # it came, or was left behind, while the model was being opened
            self.show_source()
            self.wants_read()

    def say_working(self) -> None:
        if self.source is None:
            self.say_empty(("opening the model…",))

    def leave_bench(self) -> None:
        """Back to what was recorded."""
        if self.job is None:
            return
        self.job = self.bench = None
        self.working.forget()
        self.forget_view()
        self.query_one(TimeLine).at = self.at
        self.remove_class("-timeless")
        self.refresh_bindings()
        if self.attention is not None:
            self.show_source()
        self.wants_read()

    def show_checkpoints(self) -> None:
        """On the bench the time line has the checkpoints that the model can be opened at."""
        bench, line = self.bench, self.query_one(TimeLine)
        if bench is None:
            return
        steps = np.array(bench.opened.steps, dtype=np.int64)
        self.set_class(not len(steps), "-timeless")
        line.set_frames(steps, 0, 0, steps, ended=True, noun="checkpoint")
        line.at = bench.opened.step
        line.refresh()

    def switch(self, change: Callable[[tuple[Switch, ...]], tuple[Switch, ...]], **other: Any) -> None:
        task = self.base()
        if task is None:
            self.tell("no model is open: o opens one, or choose a run in the Lab (1)")
            return
        if self.tab == "heads":
            self.tab = "edits"
            self.side = Answer(waiting="…")
        self.do(replace(task, switched=change(task.switched), **other))

    # A text, a model.

    def action_text(self) -> None:
        """Type what the model reads; of a translator the source, then the target, of BERT a second text, if any."""
        task = self.base()
        if task is None:
            self.tell("no model is open: o opens one, or choose a run in the Lab (1)")
            return
        sites = self.source.sites if self.source is not None else ()

        def ask_target(source: str | None) -> None:
            if source is None:
                return
            paired = self.job is not None and self.bench is not None and self.bench.opened.reads_pairs
            if "cross" not in sites and not paired:
                self.do(replace(task, source=source, target=None))
                return
            title, about = "The target, as far as it is written", "The decoder reads it and predicts on."
            if paired:
                title, about = (
                    "A second text",
                    "Behind the first, with what separates a pair; nothing = one text alone.",
                )
            self.app.push_screen(
                AskValue(title, about, task.target or ""),
                lambda target: self.do(replace(task, source=source, target=target)) if target is not None else None,
            )

        about = "Enter reads it with the model. What is switched stays switched where it can."
        self.app.push_screen(AskValue("A text for the model", about, one_line(task.source or "")), ask_target)

    def action_open(self) -> None:
        """Another model by its name: a run, a checkpoint, a folder with weights."""
        from txlab.tui.screens.attention.models import OpenModelScreen

        recorded = self.attention is not None and self.job is not None

        def opened(name: str | None) -> None:
            if name == "":
                self.leave_bench()
            elif name is not None:
                source = self.job.source if self.job is not None else None
                self.forget_view()
                self.do(Task(name, None, source, root=self.app.root))  # type: ignore[attr-defined]

        root = self.app.root  # type: ignore[attr-defined]
        self.app.push_screen(OpenModelScreen(root, recorded), opened)

    # Switching.

    def action_switch_head(self) -> None:
        """The chosen head off; again: back on."""
        self.scale_head(lambda factor: 0.0 if factor == 1.0 else 1.0)

    def action_scale(self, by: int) -> None:
        """What the chosen head adds, counted a quarter more or less."""
        self.scale_head(lambda factor: factor + by * SCALE)

    def scale_head(self, change: Callable[[float], float]) -> None:
        if self.source is None:
            self.tell("There is no head here yet.")
            return
        layer, head = self.chosen
        one = {"kind": "scale-head", "site": self.site, "layer": layer, "head": head}

        def changed(switched: tuple[Switch, ...]) -> tuple[Switch, ...]:
            factor = next((switch["factor"] for switch in switched if same(switch, one)), 1.0)
            return put(switched, one, {"factor": change(factor)} if change(factor) != 1.0 else None)

        self.switch(changed)

    def action_edge(self) -> None:
        """Cut the edge under the cursor in the chosen head, or allow it where the mask forbids it; again: as it was."""
        source = self.source
        if source is None:
            self.tell("There is no edge here yet.")
            return
        layer, head = self.chosen
        row, column = self.pattern.cursor
        open_now = not (source.mask(self.site) == "causal" and column > row)
        one = {"kind": "edge", "site": self.site, "layer": layer, "head": head, "row": row, "column": column}

        def changed(switched: tuple[Switch, ...]) -> tuple[Switch, ...]:
            there = any(same(switch, one) for switch in switched)
            return put(switched, one, None if there else {"allowed": not open_now})

        self.switch(changed)

    def action_block(self) -> None:
        """Choose which branch of the chosen layer is switched off, or back on."""
        if self.source is None:
            self.tell("There is no block here yet.")
            return
        layer = self.chosen[0]
        site = self.site if self.site != "cross" else "decoder"
        parts = ["attention", *(["cross"] if site == "decoder" else []), "feed_forward"]
        task = self.base()
        known = task.switched if task is not None else ()

        def one(part: str) -> Switch:
            return {"kind": "scale-block", "site": site, "layer": layer, "part": part}

        def off(part: str) -> bool:
            return any(same(switch, one(part)) for switch in known)

        def chosen(part: str | None) -> None:
            if part in parts:
                self.switch(lambda switched: put(switched, one(part), None if off(part) else {"factor": 0.0}))

        rows = [(part, "is off: enter switches it back on" if off(part) else "", off(part)) for part in parts]
        self.app.push_screen(Choose(f"Switch off in block {layer + 1}", rows), chosen)

    def action_weight(self) -> None:
        from txlab.tui.screens.attention.models import EditWeightScreen

        if self.source is None:
            self.tell("There is no model here yet.")
            return
        self.with_bench(
            lambda bench: self.app.push_screen(
                EditWeightScreen(bench.opened),
                lambda edit: self.switch(lambda switched: (*switched, edit)) if edit is not None else None,
            )
        )

    def action_errata(self) -> None:
        """Read the model as one of the lecture texts writes it wrongly."""

        def choose(bench: BenchSource) -> None:
            from txlab.engine.transformer.variants import VARIANTS, unfit

            task = self.base()
            known = task.switched if task is not None else ()
            rows = []
            for name, variant in VARIANTS.items():
                why_not = unfit(name, bench.opened.model)
                about = f"not here: {why_not}" if why_not else f"{variant.math}  {variant.says}"
                about = fit(formula(about, self.ascii), 40, ellipsis="~" if self.ascii else "…")
                rows.append((name, about, any(same(s, {"kind": "erratum", "name": name}) for s in known)))

            def chosen(name: str | None) -> None:
                if name is None:
                    return
                one = {"kind": "erratum", "name": name}
                self.switch(lambda switched: put(switched, one, None if any(same(s, one) for s in switched) else {}))

            self.app.push_screen(Choose("Read it as written (errata)", rows), chosen)

        self.with_bench(choose)

    def action_patch(self) -> None:
        """Give a position what a second text has there: which text, which place."""
        row = self.pattern.cursor[0]
        layer, head = self.chosen

        def place(bench: BenchSource, second: str) -> None:
            block = bench.seen.sites[self.site].block(layer)
            attention = bench.seen.sites[self.site].at(layer)
            choices = {
                f"what enters block {layer + 1}": (f"{block}.enter", None),
                f"what head {layer + 1}.{head + 1} says": (f"{attention}.heads", head),
                f"what attention {layer + 1} adds": (f"{attention}.out", None),
                f"what feed-forward {layer + 1} adds": (f"{block}.feed_forward.out", None),
                f"what leaves block {layer + 1}": (f"{block}.leave", None),
            }

            def chosen(name: str | None) -> None:
                if name not in choices:
                    return
                where, which = choices[name]
                patch = {"kind": "patch", "place": where, "position": row, "from_position": None, "head": which}
                self.switch(lambda switched: (*switched, patch), second=second)

            rows = [(name, where, False) for name, (where, _) in choices.items()]
            self.app.push_screen(Choose(f"Patch position {row} from the second text", rows), chosen)

        def ask(bench: BenchSource) -> None:
            start = bench.task.second or bench.task.source or ""
            about = "The row of the cursor gets what this text has at the same position."
            self.app.push_screen(
                AskValue("A second text to patch from", about, one_line(start)),
                lambda second: place(bench, second) if second else None,
            )

        self.with_bench(ask)

    def with_bench(self, then: Callable[[BenchSource], Any]) -> None:
        """Do something with the open model; opened first where one looks at frames."""
        if self.bench is not None:
            then(self.bench)
            return
        task = self.base()
        if task is None:
            self.tell("no model is open: o opens one, or choose a run in the Lab (1)")
            return
        self.job = task

        def work(_: Lane) -> BenchSource:
            return self.workbench.see(task)

        def opened(bench: BenchSource) -> None:
            self.task_done(bench)
            then(bench)

        self.working.want(work, opened)

    # Back.

    def action_reset(self) -> None:
        """Nothing is switched any more."""
        if self.job is not None and self.job.switched:
            self.do(replace(self.job, switched=()))

    def action_remove(self) -> None:
        """Take back the switch under the cursor of the list, or the newest."""
        if self.job is None or not self.job.switched:
            return
        table = self.query_one("#rows", Table)
        at = table.cursor if self.tab == "edits" and table.has_focus else len(self.job.switched) - 1
        rest = tuple(switch for place, switch in enumerate(self.job.switched) if place != at)
        self.do(replace(self.job, switched=rest))

    def action_leave_bench(self) -> None:
        self.leave_bench()

    def bench_moved(self, step: int | None) -> None:
        """The same text and the same switches at another checkpoint."""
        if self.job is not None:
            self.do(replace(self.job, at=step))
