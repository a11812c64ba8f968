"""The two lines at the top: the stages and where the run is, and the numbers of the stage that runs."""

from __future__ import annotations

from textual.content import Content

from txlab.drawing.formatting import count, number, share
from txlab.drawing.text import fit, formula, visible, width
from txlab.runs.summary import GOING
from txlab.tui.screens.feedback.snapshot import Snapshot
from txlab.tui.theme import glyphs

LONGEST_NAME = 24


def pipeline(snap: Snapshot, room: int, ascii: bool) -> Content:
    """`reviews @ 312   ✓ demonstrations → ● rankings 12 of 40 → ○ policy`; the present stage alone if that is short."""
    signs = glyphs(ascii)
    title = visible(snap.called, ascii)
    title = fit(title, min(width(title), LONGEST_NAME), ellipsis=signs.ellipsis)
    head = [Content.styled(title, "bold"), Content(f" @ {count(snap.at)}   ")]
    going = snap.status in GOING
    parts: list[tuple[str, str]] = []
    for index, stage in enumerate(snap.stages):
        name = visible(formula(stage.name, ascii), ascii)
        if index < snap.place or snap.at >= stage.last:
            parts.append((f"{signs.done} {name}", "$quiet"))
        elif index == snap.place:
            sign = signs.live if going else signs.stopped
            done, of = snap.at - stage.first, stage.last - stage.first
            if stage.name == "rankings" and 0 < snap.wanted < of:  # what is left settles the reward model
                name += " settling" if done >= snap.wanted else ""
                done, of = (done - snap.wanted, of - snap.wanted) if done >= snap.wanted else (done, snap.wanted)
            parts.append((f"{sign} {name} {count(max(0, done))} of {count(of)}", "bold $accent"))
        else:
            parts.append((f"{signs.waiting} {name}", "$quiet"))
    left = room - sum(part.cell_length for part in head)
    arrow = f" {signs.arrow} "
    if sum(width(text) for text, _ in parts) + width(arrow) * (len(parts) - 1) > left and parts:
        text, style = parts[snap.place]
        parts = [(f"{text}  (stage {snap.place + 1} of {len(parts)})", style)]
    for index, (text, style) in enumerate(parts):
        if index:
            head.append(Content.styled(arrow, "$quiet"))
        head.append(Content.styled(text, style))
    return Content.assemble(*head)


def state(snap: Snapshot, room: int, ascii: bool) -> Content:
    """What the run waits for, then the numbers of its stage, as many as have room."""
    signs = glyphs(ascii)
    parts: list[tuple[str, str]] = []
    if snap.trouble:
        parts.append((visible(snap.trouble, ascii), "bold $error"))
    elif snap.stage == "rankings" and snap.human and snap.taking:
        told = f"{count(snap.asked.given)} of {count(snap.wanted)}"
        told = f"{signs.live} waiting for a person: {told}" if snap.status in GOING else f"{told} ranked"
        parts.append((told, "$accent"))
    if snap.status not in GOING:
        parts.append((snap.status, "$quiet"))
    parts += [(formula(f"{name} {value}", ascii), "") for name, value in told_numbers(snap)]
    said: list[Content] = []
    for text, style in parts:
        if width(text) + 3 <= room:
            said.append(Content.styled(text + "   ", style))
            room -= width(text) + 3
    return Content.assemble(*said)


def told_numbers(snap: Snapshot) -> list[tuple[str, str]]:
    """(name, value) of the metrics of the stage that is looked at."""
    if snap.stage == "rankings":
        wanted = [("accuracy, last 20", "accuracy_20"), ("on unseen answers", "val_accuracy")]
        return [(name, share(value)) for name, metric in wanted if (value := snap.latest(metric)) is not None]
    if snap.stage == "policy":
        wanted = [("β", "beta"), ("KL", "kl"), ("proxy", "proxy"), ("gold", "gold"), ("clipped", "clip_fraction")]
        return [(name, number(v, 3)) for name, metric in wanted if (v := snap.latest(metric + snap.mark)) is not None]
    wanted = [("loss", "loss"), ("validation", "val_loss"), ("learning rate", "lr")]
    return [(name, number(value, 3)) for name, metric in wanted if (value := snap.latest(metric)) is not None]
