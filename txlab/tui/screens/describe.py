"""What the Lab says about a scenario or a run, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from txlab.drawing.numerals import count, number
from txlab.drawing.text import visible, visible_lines
from txlab.experiments.schema import CHAPTERS
from txlab.tui.glance import Glance
from txlab.tui.theme import glyphs
from txlab.tui.words import STATES, about, calendar, duration

if TYPE_CHECKING:
    from txlab.runs.scenario import Entry


def paragraph(text: str) -> str:
    """Text of a file made fit to be shown: its own line breaks are only those of the file."""
    return "\n\n".join(" ".join(" ".join(visible_lines(part)).split()) for part in text.strip().split("\n\n"))


def describe_scenario(entry: Entry, ascii: bool = False) -> Content:
    """Title, what it shows, the formulas, where they are from, what one will see, how long it takes."""
    said = entry.scenario.about
    dot = glyphs(ascii).dot
    parts = [Content.styled(visible(said.title or entry.name), "bold"), Content("\n\n")]
    if said.shows:
        parts.append(Content(paragraph(said.shows) + "\n\n"))
    for formula in said.formulas:
        parts.append(Content.styled(f"  {visible(formula)}\n", "$accent"))
    where = [*([visible(said.source)] if said.source else []), *([f"MATH {', '.join(said.math)}"] if said.math else [])]
    if where:
        parts.append(Content.styled(visible(f"  {f' {dot} '.join(where)}") + "\n", "$quiet"))
    if said.formulas or where:
        parts.append(Content("\n"))
    if said.expect:
        parts += [Content.styled("You will see  ", "$quiet"), Content(paragraph(said.expect) + "\n\n")]
    takes = about(said.minutes)
    facts = [CHAPTERS[said.chapter], f"about {takes} on two CPU cores" if takes else ""]
    if said.device == "gpu":
        facts.append("needs a GPU")
    parts.append(Content.styled(f" {dot} ".join(fact for fact in facts if fact) + "\n", "$quiet"))
    parts.append(Content.styled(f"\n{visible(entry.name)}.toml {dot} ", "$quiet"))
    parts += [Content.styled("enter", "bold $accent"), Content.styled(" starts it, ", "$quiet")]
    parts += [Content.styled("e", "bold $accent"), Content.styled(" changes it first", "$quiet")]
    return Content.assemble(*parts)


def describe_run(run: Glance, ascii: bool = False) -> Content:
    """What a run is, how far it came, why it ended, and what one can do about that."""
    parts = [Content.styled(visible(run.title or run.scenario), "bold"), Content("\n\n")]
    state = STATES.get(run.status, run.status)
    steps = f"step {count(run.step)}" + (f" of {count(run.steps)}" if run.steps else "")
    bad = run.status in ("failed", "lost", "unreadable")
    parts.append(Content.styled(state, "bold $error" if bad else "bold"))
    parts.append(Content(f"  {steps}\n"))
    if run.reason:
        parts.append(Content.styled(visible(run.reason) + "\n", "$error" if bad else ""))
    if advice := what_to_do(run):
        parts.append(Content.styled(advice + "\n", "$quiet"))
    rows = [
        ("scenario", visible(run.scenario)),
        ("started", calendar(run.created) if run.created else ""),
        ("took" if not run.going else "runs for", duration(run.seconds) if run.seconds else ""),
        ("to go", duration(run.seconds_left) if run.going and run.seconds_left is not None else ""),
        (visible(run.metric), number(run.value) if run.value is not None else ""),
        ("parameters", count(run.facts["parameters"]) if isinstance(run.facts.get("parameters"), int) else ""),
    ]
    parts.append(Content("\n"))
    for name, value in rows:
        if value:
            parts += [Content.styled(f"{name:<12}", "$quiet"), Content(f"{value}\n")]
    parts.append(Content.styled(f"\n{visible(str(run.path))}", "$quiet"))
    return Content.assemble(*parts)


def what_to_do(run: Glance) -> str:
    """What one can do about the state of a run, in a sentence; "" if nothing needs doing."""
    if run.status == "lost":
        return "Its process is gone without a word; r resumes it from its last checkpoint."
    if run.status in ("interrupted", "stopped"):
        return "r resumes it where it was."
    if run.status == "failed":
        return "r goes on from the last checkpoint; log.txt in its folder has the details."
    if run.status == "created":
        return "The process starts; the first step comes after the probe has chosen how to compute."
    if run.status == "paused":
        return "r lets it go on."
    return ""


def no_runs() -> str:
    return "no runs yet: enter starts the scenario at the left"


def welcome() -> Content:
    return Content.assemble(
        Content.styled("Nothing of that name\n\n", "bold"),
        Content.styled("esc clears the filter; a scenario file of your own is started with\n", "$quiet"),
        Content("txlab run FILE.toml"),
    )


def place_of(entry: Entry) -> tuple[int, bool, float]:
    """By chapter; what needs a GPU last; the quick ones first, those of unknown length after them."""
    said = entry.scenario.about
    return list(CHAPTERS).index(said.chapter), said.device == "gpu", said.minutes or float("inf")
