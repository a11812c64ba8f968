"""The side of the Train screen: the numbers, explained by `w`, and samples of the model's text at one or two steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll

from txlab.experiments.kind import kind_of_run
from txlab.tui.bindings import WHY, bind
from txlab.tui.panel import Panel
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.train.text import nearest_sample, samples_text
from txlab.tui.train_snapshot import Snapshot
from txlab.tui.widgets.facts import FactTable
from txlab.tui.widgets.picture_view import PictureView
from txlab.tui.widgets.terminal import is_ascii

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation

STATED = {"compute", "frames"}  # facts that are not computed by a formula


class NumbersPanel(Panel):
    """`beside` is the step of the sample to compare with the selected one; None = there is none."""

    KEYS: ClassVar[Sequence[Binding]] = (
        WHY,
        bind(
            "less_than_sign",
            "compare(-1)",
            "compare with an earlier sample",
            id="train.compare-earlier",
            synonyms="compare samples",
        ),
        bind(
            "greater_than_sign",
            "compare(1)",
            "compare with a later sample",
            id="train.compare-later",
            synonyms="compare samples",
        ),
    )

    def __init__(self, run: Playback) -> None:
        super().__init__(id="side")
        self.run = run
        self.facts = FactTable(id="facts")
        self.view = PictureView(id="picture")
        self.forget()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.run.path is not None

    def compose(self) -> ComposeResult:
        yield self.facts
        yield Rule()
        with VerticalScroll(id="samples", can_focus=False):
            yield Words(id="samples-text")
        yield self.view

    def forget(self) -> None:
        self.snap: Snapshot | None = None
        self.beside: int | None = None
        self.picture = ""  # the name of the image or histogram shown instead of the samples
        self.set_class(False, "-picture")
        self.facts.set_facts(())
        if self.is_mounted:
            self.query_one("#samples-text", Words).say("")

    def show(self, snap: Snapshot) -> None:
        self.snap = snap
        self.facts.set_facts(snap.facts)
        if snap.pictures.name == self.picture:
            self.view.show(snap.pictures)

    def select(self, metric: str) -> None:
        """Put the cursor on the metric that is drawn."""
        keys = [fact.key for fact in self.facts.facts]
        here = self.facts.chosen
        if metric in keys and (here is None or here.key.removeprefix("val_") != metric):
            self.facts.cursor = keys.index(metric)
            self.facts.refresh()

    def next_picture(self) -> bool:
        """Choose the next image or histogram; False if the samples are next."""
        names = ("", *(self.snap.pictures.names if self.snap else ()))
        place = names.index(self.picture) if self.picture in names else 0
        self.picture = names[(place + 1) % len(names)]
        self.set_class(bool(self.picture), "-picture")
        return bool(self.picture)

    def show_samples(self) -> None:
        if self.snap is None:
            return
        room = self.query_one("#samples").scrollable_content_region
        cells = max(10, room.width - 1)
        kind = kind_of_run(self.snap.scenario.get("kind"))
        samples = samples_text(self.snap.samples, self.run.at, self.beside, cells, room.height, kind, is_ascii(self))
        self.query_one("#samples-text", Words).say(samples)

    def action_compare(self, by: int) -> None:
        """< compares with the previous sample, then with earlier ones; > comes back."""
        if self.snap is None:
            return
        steps = list(self.snap.samples)
        now = nearest_sample(steps, self.run.at)
        if now is None or len(steps) < 2:
            self.tell("there is nothing to compare yet: one sample at most")
            return
        place = steps.index(self.beside if self.beside in steps else now) + by
        beside = steps[max(0, min(place, len(steps) - 1))]
        self.beside = None if beside == now else beside
        self.show_samples()

    def action_why(self) -> None:
        """Explain the number selected in the column of facts by the experiment's own code."""
        from txlab.tui.widgets.why import ask_why

        snap, fact = self.snap, self.facts.chosen
        if snap is None or fact is None:
            self.tell("there is no number yet")
            return
        if fact.key in STATED or not fact.key or self.explain_setting(fact.key):
            self.tell(self.explain_setting(fact.key) or f"{fact.name} is counted, not computed")
            return
        step, key = self.run.at if self.run.at is not None else snap.step, fact.key
        ask_why(self.app, lambda: explain(snap, key, step))

    def explain_setting(self, key: str) -> str:
        """Explain the settings of the computation by the probe's measurements."""
        compute = self.snap.about.get("compute") if self.snap and key == "compute" else None
        why = compute.get("why") if isinstance(compute, dict) else None
        return "; ".join(str(reason) for reason in why) if isinstance(why, list) else ""


def explain(snap: Snapshot, key: str, step: int) -> Explanation | None:
    """Return the experiment's explanation of a metric, with the machine and corpus of run.json."""
    from txlab.experiments.kind import explain_metric

    return explain_metric(dict(snap.scenario), key, step, dict(snap.values), dict(snap.about))
