"""The text of the Playground: the line above the pictures, and the neuron under the cursor."""

from __future__ import annotations

from math import isfinite, isnan

from textual.content import Content

from txlab.drawing.formatting import count, number, share
from txlab.drawing.spark import BARS, RISING
from txlab.drawing.text import formula, visible
from txlab.engine.feedforward.plane import FEATURES
from txlab.tui.screens.plain_text import fitting
from txlab.tui.screens.playground.shown import Shown
from txlab.tui.theme import Signs

VIEWS = {
    "answers": "what each neuron gives, a",
    "pre-activations": "what each neuron sums, z",
    "gradients": "how the answer follows each, ∂out/∂a",
}
ITEM = 15  # cells of a weight


def header(shown: Shown, state: str, cells: int, ascii: bool) -> Content:
    """`spiral   step 1 240   loss .032  test .041   right .99  test .98   ● 60 updates/s`"""
    measured = shown.facts.get("measured", {})

    def figure(name: str, form: str) -> Content:
        value = measured.get(name)
        words = "–" if not isinstance(value, (int, float)) else share(value, 3) if form == "share" else number(value, 3)
        return Content(f"{words:>8}" if form != "share" else f"{words:>5}")

    quiet = "$quiet"
    parts = [
        Content.assemble(
            (visible(str(shown.facts.get("data", ""))), "bold"), (f"   step {count(shown.frame.step)}", "")
        ),
        Content.assemble(("   loss", quiet), figure("loss", ""), ("  test", quiet), figure("val_loss", "")),
    ]
    if "accuracy" in measured:
        right = (("   right ", quiet), figure("accuracy", "share"), ("  test ", quiet), figure("val_accuracy", "share"))
        parts.append(Content.assemble(*right))
    parts.append(Content.styled(f"   {state}", "bold $accent" if state.startswith(Signs.live) else quiet))
    parts.append(Content.styled(f"   {formula(VIEWS.get(str(shown.facts.get('view')), ''), ascii)}", quiet))
    return fitting(parts, cells)


def about(shown: Shown, name: str, chosen: int, cells: int, lines: int, ascii: bool) -> Content:
    """The neuron under the cursor and its input weights; the chosen one is marked."""
    if name in FEATURES:
        sign = formula(FEATURES[name][0], ascii)
        state = "an input; x takes it away" if name not in shown.off else "the network does not see it; x adds it"
        return Content.assemble((sign, "bold $accent"), (f"   {state}", "$quiet"))
    label = shown.activations[name]
    sum_of = "z = sum of w a + b" if ascii else "z = Σ w a + b"
    equation = f"   {sum_of}" if name == shown.out else f"   a = {label}(z),  {sum_of}"
    off = ("   switched off", "bold $error") if name in shown.off else ("", "")
    items = [*shown.incoming(name), ("bias", shown.bias(name))]
    most = max((abs(weight) for _, weight in items if isfinite(weight)), default=1.0) or 1.0
    wide = max(1, cells // ITEM)
    room = wide * max(1, lines - 1)
    chosen = min(chosen, len(items) - 1)
    first = max(0, min(chosen - room // 2, len(items) - room))
    parts = [Content.assemble((visible(name), "bold $accent"), (equation, "$quiet"), off)]
    bars = RISING if ascii else BARS
    for at, (source, weight) in enumerate(items[first : first + room], first):
        word = (
            FEATURES[source][0]
            if source in FEATURES and not ascii
            else source.replace("_", " " if source in FEATURES else "_")
        )
        value = number(weight, 3)
        bar = bars[0] if isnan(weight) else bars[int(min(1.0, abs(weight) / most) * 7.99)]
        text = f"{word[:6]:>6}{value:>7}"
        begin = "\n" if (at - first) % wide == 0 else ""
        parts.append(Content(begin))
        parts.append(Content.styled(text, "bold reverse $accent" if at == chosen else ""))
        parts.append(Content.styled(f"{bar} ", "$quiet"))
    return Content.assemble(*parts)
