"""The text of the Train screen: its header, the log, the samples side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual.content import Content

from txlab.drawing.captions import runs as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import STATES, calendar, clock, count, duration
from txlab.drawing.run_names import fit_handle
from txlab.drawing.text import fit, prefix, visible, visible_lines, width
from txlab.experiments.kind import UNKNOWN, Kind, kind_of_run
from txlab.experiments.metric import short
from txlab.tui.history import Entry
from txlab.tui.screen_registry import SCREENS
from txlab.tui.screens.plain_text import fitting
from txlab.tui.theme import Signs
from txlab.tui.train_snapshot import Snapshot

FEW = 3  # lines of the log on a low or narrow screen
LONGEST_NAME = 32  # cells, which leave room for the step
ROUTINE = ("checkpoint", "val")
LOUDNESS = {"quiet": "$quiet", "warning": "bold $warning", "bad": "$error", "accent": "$accent"}


@dataclass(frozen=True)
class Pending:
    """A pending request: its text, and its time (Unix seconds)."""

    words: str
    asked: float


def sentence(snap: Snapshot, at: int | None) -> Sentence:
    """The caption of the chart at a step."""
    kind = kind_of_run(snap.scenario.get("kind"))
    metric = kind.metric(snap.metric)
    lines = {role: (line.steps, line.values) for line in reversed(snap.lines) if (role := line.role) != "dead"}
    unseen, own = lines.get("val"), lines.get("train")
    family = [line for line in snap.lines if line.role != "dead"]
    if own is None:
        return ()
    if unseen is None and len(family) > 1 and all(line.role in ("train", "other") for line in family):
        curves = [(line.label, line.steps, line.values) for line in family]
        return captions.family(short(snap.metric), metric.unit, metric.less, curves, at)
    return captions.curve(short(snap.metric), metric.unit, metric.less, own, unseen, at)


def header(snap: Snapshot, at: int | None, cells: int) -> Content:
    """Return `gpt-docs ● step 1 240 of 5 000 · 3m12s, 9m40s to go`, or the problem with advice; the number of alerts;
    the start time, if it fits."""
    state, dot = snap.state, f" {Signs.dot} "
    called = visible(snap.called)
    name = Content.styled(fit_handle(called, LONGEST_NAME), "bold")
    step = f"step {count(snap.step)}" + (f" of {count(snap.steps)}" if snap.steps else "")
    took = duration(snap.seconds) if snap.seconds else ""
    alerts = badge(snap.alerts, dot)
    live = state.status in ("running", "paused", "created")
    looking = Content.styled(f"{dot}looking at step {count(at)}", "bold $accent") if at is not None else Content("")
    if state.status == "created":
        words = [Content.styled(f" {Signs.waiting} ", "bold $accent"), Content("starting… the first step comes soon")]
    elif live:
        glyph = Signs.live if state.status == "running" else Signs.paused
        left = f", {duration(snap.seconds_left)} to go" if snap.seconds_left is not None else ""
        words = [Content.styled(f" {glyph} ", "bold $accent"), Content(f"{step}{dot}{took}{left}"), alerts]
        if state.status == "paused":
            words.append(Content.styled(f"{dot}paused: space continues, . makes one step", "$quiet"))
    else:
        glyphs = {"done": Signs.done, "failed": Signs.failed, "lost": Signs.lost, "silent": Signs.dot}
        glyph = glyphs.get(state.status, Signs.stopped)
        style = (
            "bold $success"
            if state.status == "done"
            else "bold $error"
            if state.status in ("failed", "lost")
            else "bold"
        )
        words = [Content.styled(f" {glyph} {STATES.get(state.status, visible(state.status))} ", style)]
        words.append(Content(f"at {step}{dot}{took}" if took else f"at {step}") + alerts)
        if state.status == "silent" and state.heartbeat_age is not None:
            words.append(Content.styled(f"{dot}last written {duration(state.heartbeat_age)} ago", "$quiet"))
        elif state.reason and state.status != "done":
            words.append(
                Content.styled(f"{dot}{visible(state.reason)}", "$error" if style == "bold $error" else "$quiet")
            )
        if state.status not in ("done", "unreadable") and not snap.recorded and state.remote is None:
            words.append(Content.styled(f"{dot}r resumes it", "$quiet"))
    if state.remote is not None:  # before parts that may not fit
        old, here = visible(state.remote.sentence), Content(f"{dot}on {visible(state.remote.host)}")
        words.insert(2, Content.styled(f"{dot}{old}", "bold $error") if old else here)
    if not snap.complete:
        looking = Content.assemble(looking, Content.styled(f"{dot}reading the whole log…", "$quiet"))
    if snap.omission:
        looking = Content.assemble(looking, Content.styled(f"{dot}{snap.omission}", "$quiet"))
    start = Content.assemble(name, *words, looking)
    began = f"{dot}started {calendar(snap.created)}" if snap.created else ""
    return fitting([start, Content.styled(began, "$quiet")], cells)


def badge(alerts: Mapping[str, object], dot: str) -> Content:
    """Return `· ! 2 alerts`, or nothing if there are none."""
    number = alerts.get("count")
    if not isinstance(number, int) or number < 1:
        return Content("")
    style = "bold $error" if alerts.get("level") == "error" else "bold $warning"
    return Content.assemble(dot, Content.styled(f"! {count(number)} alert{'s' if number > 1 else ''}", style))


def brief(snap: Snapshot, cells: int) -> Content:
    """Return as many numbers as fit into one line, if the column of facts does not fit."""
    parts = []
    for fact in snap.facts:
        if (cells := cells - width(fact.name) - width(fact.value) - 1) < 0:
            break
        cells -= 3
        parts.append(Content.assemble(Content.styled(f"{fact.name} ", "$quiet"), Content.styled(fact.value, "bold")))
    return Content("   ").join(parts)


def log_lines(
    entries: Sequence[Entry], pending: Mapping[str, Pending], at: int | None, lines: int, now: float, gone: str
) -> Content:
    """Return the newest entries (or those up to the selected step), followed by the pending requests."""
    asked = [
        Content.assemble(
            Content.styled(f"{clock(p.asked)} ", "$quiet"),
            Content.styled(p.words, "$accent"),
            answer(now - p.asked, gone),
        )
        for p in list(pending.values())[-lines:]
    ]
    shown = select_entries(entries, at, lines - len(asked))
    if at is not None:
        upto = sum(entry.step <= at for entry in shown)
        shown = shown[: max(upto, min(len(shown), lines - len(asked)))]
    room = max(0, lines - len(asked))
    rows = []
    for entry in loudest(shown, room, at):
        later = at is not None and entry.step > at
        style = "$quiet 60%" if later else LOUDNESS.get(entry.level, "")
        rows.append(
            Content.assemble(Content.styled(f"{clock(entry.time)} ", "$quiet"), Content.styled(entry.text, style))
        )
    rows += asked
    if not rows:
        return Content.styled("nothing has happened yet", "$quiet")
    return Content("\n").join(rows)


def loudest(entries: Sequence[Entry], room: int, at: int | None) -> list[Entry]:
    """Return the newest `room` entries. If there are only a few lines, checkpoints and validations that were no better
    make room for user actions, messages of the run, the best validation and the end."""
    newest = list(entries)[::-1]
    if room <= FEW:
        newest.sort(key=lambda entry: (at is not None and entry.step > at, entry.regular in ROUTINE))
    kept = newest[:room]
    return [entry for entry in entries if entry in kept]


def select_entries(entries: Sequence[Entry], at: int | None, lines: int = 0) -> list[Entry]:
    """Return all user actions and messages of the run, and of recurring events (checkpoints, validations) the newest,
    plus as many earlier ones as there are lines for."""
    newest: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry.regular and (at is None or entry.step <= at or entry.regular not in newest):
            newest[entry.regular] = index
    kept = {index for index, entry in enumerate(entries) if not entry.regular or newest[entry.regular] == index}
    before = [i for i, entry in enumerate(entries) if i not in kept and (at is None or entry.step <= at)]
    kept.update(before[::-1][: max(0, lines - len(kept))])
    return [entries[index] for index in sorted(kept)]


def answer(age: float, gone: str) -> Content:
    """Return the status of a pending request."""
    if gone:
        return Content.styled(f"  no answer: {gone}", "$error")
    if age > 8:
        return Content.styled(f"  asked {age:.0f} s ago; the run answers at its next step", "$quiet")
    return Content.styled("  asked…", "$quiet")


def wrap_lines(text: str, cells: int, ascii: bool = False) -> list[str]:
    """Return the lines of a text made safe to show and folded at words, dropping as few characters as possible."""
    cells = max(cells, 1)
    lines: list[str] = []
    for line in visible_lines(text, ascii):
        while width(line) > cells:
            head = prefix(line, cells)
            space = head.rfind(" ")
            head = head[:space] if space > cells // 2 else head or line[:1]
            lines.append(head)
            line = line[len(head) :].lstrip(" ")
        lines.append(line)
    return lines


def nearest_sample(steps: Sequence[int], at: int | None) -> int | None:
    """Return the last sample at or before a step (the first one if all are later); None if there is none."""
    if not steps:
        return None
    if at is None:
        return steps[-1]
    return max((step for step in steps if step <= at), default=steps[0])


def instead_of_samples(kind: Kind) -> str:
    """Return what is shown where a run has recorded no texts."""
    if kind.writes:
        return "no samples yet: texts that the model writes while it learns appear here"
    if kind.plays_from:
        return "It writes no texts: g plays against what it has learnt."
    entry = next((each for each in SCREENS if each.name == kind.screen), None)
    if entry is None or entry.name == "train":
        return "It writes no texts: the curves show what it learns."
    where = f"{entry.title} ({entry.key})" if entry.key else f"the screen {entry.title} (: finds it)"
    return f"It writes no texts: {where} shows what it has learnt."


def samples_text(
    samples: Mapping[int, tuple[tuple[str, str], ...]],
    at: int | None,
    beside: int | None,
    cells: int,
    lines: int = 0,
    kind: Kind = UNKNOWN,
    ascii: bool = False,
) -> Content:
    """Return the model's text at the selected step, and at another one: stacked, or side by side if there is room.

    If there is room below, `lines` are filled with earlier samples.
    """
    steps = list(samples)
    now = nearest_sample(steps, at)
    if now is None:
        return Content.styled(instead_of_samples(kind), "$quiet")
    hint = "< > compare" if len(steps) > 1 else ""
    if beside is None or beside not in samples:
        title = f"sample at {count(now)}"
        gap = max(1, cells - width(title) - width(hint))
        head = Content.assemble(Content.styled(title, "bold"), Content(" " * gap), Content.styled(hint, "$quiet"))
        shown = [Content.assemble(head, "\n", one_sample(samples[now], cells, ascii))]
        spare = lines - len(shown[0].plain.split("\n"))
        for step in steps[: steps.index(now)][::-1]:
            text = one_sample(samples[step], cells, ascii)
            if (spare := spare - len(text.plain.split("\n")) - 2) < 0:
                break
            shown.append(Content.assemble(Content.styled(f"\nsample at {count(step)}\n", "bold $quiet"), text))
        return Content("\n").join(shown)
    if cells < 64:
        parts = []
        for step in (beside, now):
            parts += [
                Content.styled(f"sample at {count(step)}\n", "bold"),
                one_sample(samples[step], cells, ascii),
                Content("\n"),
            ]
        return Content.assemble(*parts)
    half = (cells - 3) // 2
    left, right = (one_sample(samples[step], half, ascii).split("\n") for step in (beside, now))
    rows = [
        Content.assemble(
            Content.styled(fit(f"sample at {count(beside)}", half), "bold"),
            "   ",
            Content.styled(f"sample at {count(now)}", "bold"),
        )
    ]
    for index in range(max(len(left), len(right))):
        a = left[index] if index < len(left) else Content("")
        b = right[index] if index < len(right) else Content("")
        rows.append(
            Content.assemble(a, " " * max(0, half - a.cell_length), Content.styled(f" {Signs.wall} ", "$rule"), b)
        )
    return Content("\n").join(rows)


def one_sample(texts: Sequence[tuple[str, str]], cells: int, ascii: bool = False) -> Content:
    """Return each text with a quiet prompt, and a sign where the prompt ends and the model begins."""
    parts: list[Content] = []
    for prompt, text in texts:
        sign = ">" if ascii else Signs.prompt
        body = "\n".join(wrap_lines(f"{prompt}{sign}{text}" if prompt else text, cells, ascii))
        known = after_solid(body, solid(prompt, ascii)) if prompt else 0
        parts += [Content.styled(body[:known], "$quiet"), Content.styled(body[known : known + bool(prompt)], "$accent")]
        parts += [Content(body[known + bool(prompt) :]), Content("\n\n")]
    return Content.assemble(*parts[:-1])


def solid(text: str, ascii: bool = False) -> int:
    """Return the number of non-space characters of a text as shown: folding moves and drops only spaces."""
    return sum(not character.isspace() for line in visible_lines(text, ascii) for character in line)


def after_solid(text: str, count: int) -> int:
    """Return the index of the first non-space character after `count` of them.

    >>> after_solid("The cat sat", 6)
    8
    """
    places = [place for place, character in enumerate(text) if not character.isspace()]
    return places[count] if count < len(places) else len(text)
