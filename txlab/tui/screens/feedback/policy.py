"""The reward model's score and the gold score of one policy over √KL, the other β faint: Goodhart's law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding

from txlab.drawing.curve import Style
from txlab.drawing.formatting import number
from txlab.drawing.text import formula, width
from txlab.experiments.kind import explain_metric
from txlab.runs.summary import GOING
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.playback import Playback
from txlab.tui.screens.feedback.snapshot import SWEPT, Snapshot
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation

SMOOTHED = 16  # points of a curve from which on its average is drawn, over a twentieth of its length
WHY = ("proxy", "gold", "kl", "root_kl", "beta")
CURVES: tuple[tuple[str, Style, str], ...] = (
    ("proxy", "line", "proxy, optimised"),
    ("gold", "line", "gold, wanted"),
)


class PolicyPanel(Panel):
    """The chart, or, for policies without a KL (DPO, best of n), the reason why there is none."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "minus",
            "scale_beta(0.8)",
            "lower or raise β, the weight of the KL",
            "beta",
            id="feedback.beta-down",
            key_display="- +",
        ),
        bind("plus", "scale_beta(1.25)", "raise β by a quarter", id="feedback.beta-up", synonyms="beta"),
        bind(
            "b",
            "next_beta",
            "the curves of the next β",
            "next beta",
            id="feedback.next-beta",
            synonyms="beta sweep policy",
        ),
        bind("z", "zoom(0.5)", "zoom in on the curve", id="feedback.zoom-in"),
        bind("Z", "zoom(2.0)", "zoom out", id="feedback.zoom-out"),
    )

    def __init__(self, run: Playback) -> None:
        super().__init__(id="policy")
        self.run = run
        self.chart = Chart(id="goodhart")
        self.chart.can_focus = False
        self.words = Words(id="policy-text")
        self.forget()

    def compose(self) -> ComposeResult:
        yield self.chart
        yield self.words

    def forget(self) -> None:
        self.snap: Snapshot | None = None
        self.chosen = ""  # the β whose curves are strong; "" = that of the newest policy
        self.chart.forget()

    def show(self, snap: Snapshot) -> None:
        self.snap = snap
        self.draw()

    def draw(self) -> None:
        snap, ascii = self.snap, self.chart.ascii
        if snap is None:
            return
        self.chart.across = formula("√KL", ascii)
        chosen = self.shown_beta
        series: list[ChartSeries] = []
        for beta in [chosen, *(each for each in snap.betas if each != chosen)]:
            for colour, (metric, style, label) in enumerate(CURVES):
                x, y = by_root_kl(snap, metric + beta, "root_kl" + beta)
                if len(x):
                    other = beta != chosen
                    series.append(ChartSeries("" if other else formula(label, ascii), x, y, colour, style, dim=other))
        longest = max((len(each.steps) for each in series), default=0)
        right = max((float(each.steps[-1]) for each in series), default=0.0)
        self.chart.set_reactive(Chart.smoothing, right / 20 if longest >= SMOOTHED else 0.0)
        swept = f"score, {chosen.removeprefix('/')}" if chosen.startswith(SWEPT) else "score"
        self.chart.set_series(series, formula(swept, ascii), self.missing(snap))
        self.words.say("\n".join(self.describe_fall(snap, max(20, self.size.width - 2), ascii)))

    def missing(self, snap: Snapshot) -> str:
        """Why there is nothing to draw."""
        first = next((stage for stage in snap.stages if stage.name.startswith("policy")), None)
        if first is None:
            return "this run trains no policy: policy.steps is 0"
        if snap.at <= first.first:
            return f"the policy begins at step {first.first}; x is then how far it has gone from its start"
        return "this policy has no KL to draw its scores over"

    def describe_fall(self, snap: Snapshot, room: int, ascii: bool) -> list[str]:
        """The fall of each policy's gold score from its best, as many in a line as fit; the newest policy first."""
        lines: list[str] = []
        for beta in reversed(snap.betas):
            gold = snap.series.get("gold" + beta)
            if gold is None or len(gold) < 2 or not np.isfinite(gold.values).any():
                continue
            best, now = number(float(np.nanmax(gold.values)), 3), number(float(gold.values[-1]), 3)
            part = formula(f"{beta.removeprefix('/')} {best} → {now}".lstrip(), ascii)
            if not lines:
                lines.append(f"gold, best {formula('→', ascii)} now:  {part}")
            elif width(lines[-1]) + 3 + width(part) <= room:
                lines[-1] += f"   {part}"
            else:
                lines.append(part)
        return lines

    # β

    @property
    def shown_beta(self) -> str:
        """The suffix of the metrics of the β whose curves are strong."""
        betas = self.snap.betas if self.snap is not None else []
        return self.chosen if self.chosen in betas else next(reversed(betas), "")

    @property
    def beta(self) -> float | None:
        """β of the current policy."""
        snap = self.snap
        if snap is None or snap.stage != "policy":
            return None
        return snap.latest("beta" + snap.mark)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not self.display:
            return False
        if action == "scale_beta":
            return self.beta is not None and self.run.status in GOING and self.run.at is None
        if action == "next_beta":
            return self.snap is not None and len(self.snap.betas) > 1
        return bool(self.chart.series)

    def action_next_beta(self) -> None:
        assert self.snap is not None
        betas = self.snap.betas
        self.chosen = betas[(betas.index(self.shown_beta) + 1) % len(betas)]
        self.draw()

    def action_scale_beta(self, factor: float) -> None:
        """Scale β as of when the run takes the request, since the newest metric is of an earlier step."""
        self.run.ask("scale", key="beta", value=factor)

    def action_why(self) -> None:
        """Explain the newest proxy, gold and KL by the experiment's own code."""
        snap = self.snap
        names = [f"{name}{snap.mark}" for name in WHY] if snap is not None else []
        names = [name for name in names if snap is not None and snap.latest(name) is not None]
        if snap is None or not names:
            self.tell("There is no policy yet whose numbers could be explained.")
            return
        values = {name: value for name in snap.series if (value := snap.latest(name)) is not None}

        def answers() -> list[Explanation]:
            explanations = [explain_metric(snap.scenario, name, snap.at, values) for name in names]
            return [each for each in explanations if each is not None]

        ask_why(self.app, lambda: answers() or None)

    def action_zoom(self, factor: float) -> None:
        self.chart.action_zoom(factor)


def by_root_kl(snap: Snapshot, name: str, across: str) -> tuple[np.ndarray, np.ndarray]:
    """(√KL, value) of the steps that have both, by √KL: a curve over the policy's distance, not over time."""
    y, x = snap.series.get(name), snap.series.get(across)
    if x is None or y is None:
        return np.empty(0), np.empty(0)
    _, at_x, at_y = np.intersect1d(x.steps, y.steps, return_indices=True)
    order = np.argsort(x.values[at_x], kind="stable")
    return x.values[at_x][order], y.values[at_y][order]
