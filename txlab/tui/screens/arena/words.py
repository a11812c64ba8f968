"""The text of the arena: the line of each side, the update with its numbers, the facts next to the curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from textual.content import Content

from txlab.drawing.captions import decisions as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.explanation import wrap_text
from txlab.drawing.formatting import count
from txlab.drawing.text import visible, width
from txlab.drawing.update_lines import compact, term_lines
from txlab.engine.rl.world import World
from txlab.experiments.protocol import Frame
from txlab.tui.screens.arena.learners import ReturnCurves, describe_side
from txlab.tui.screens.arena.parameters import PLANNED, parameters
from txlab.tui.screens.plain_text import Parts, spread, style_parts
from txlab.tui.theme import Signs

NAMES = {
    "epsilon-greedy": "ε-greedy", "softmax": "softmax", "greedy": "greedy",
    "exploring-starts": "exploring starts",
    "values": "values", "actions": "Q in four directions", "visits": "visits", "policy": "policy",
}  # fmt: skip


def side_parts(facts: Mapping[str, Any], chosen: int | None, here: bool, cells: int, ascii: bool) -> Parts:
    """Return `▸ SARSA   α .5  ε .1  γ 1`, with the selected number between ‹ and ›; if they do not all fit, the last
    ones are left out, but never the selected one."""
    parts: Parts = [
        (f"{Signs.cursor} " if here else "  ", "bold $accent"),
        (visible(str(facts.get("title") or facts.get("rule") or ""), ascii), "bold $accent" if here else "bold"),
        (" ", ""),
    ]
    groups: list[tuple[int | None, Parts]] = []
    for place, parameter in enumerate(parameters(facts)):
        letter = parameter.ascii if ascii else parameter.letter
        value = facts.get(parameter.name)
        text = compact(float(value)) if isinstance(value, (int, float)) else "?"
        if chosen == place:
            groups.append((place, [(f" {Signs.left}{letter} {text}{Signs.right}", "bold $accent reverse")]))
        else:
            groups.append((place, [(f"  {letter} ", "$quiet"), (text, "")]))
    policy = str(facts.get("policy", "epsilon-greedy"))
    chosen_by = (
        facts.get("rule") not in PLANNED or facts.get("rule") == "evaluation"
    )  # otherwise only the initial policy
    if policy != "epsilon-greedy" and chosen_by:
        groups.append((None, [(f"  {visible(NAMES.get(policy, policy), ascii)}", "$quiet")]))
    room = cells - sum(width(text) for text, _ in parts)
    while groups and sum(width(text) for _, group in groups for text, _ in group) > room:
        groups.pop(0 if chosen is not None and groups[-1][0] == chosen else -1)
    return parts + [part for _, group in groups for part in group]


def titles_of(facts: Mapping[str, Any], sides: int, ascii: bool) -> list[str]:
    """Return the title of each side; sides of one title with the parameters in which they differ: `TD(0) α .05`."""
    described = [describe_side(facts, side) for side in range(sides)]
    titles = [visible(str(each.get("title", "")), ascii) for each in described]
    names = []
    for title, side in zip(titles, described, strict=True):
        alike = [each for each, other in zip(described, titles, strict=True) if other == title]
        differing = [p for p in parameters(side) if len({str(each.get(p.name)) for each in alike}) > 1]
        words = [
            f" {p.ascii if ascii else p.letter} {compact(value)}"
            for p in differing
            if isinstance(value := side.get(p.name), (int, float))
        ]
        names.append(title + "".join(words))
    return names


def score_groups(facts: Mapping[str, Any], side: int, curves: ReturnCurves | None, ascii: bool) -> list[Parts]:
    """Return `episode 214   on-line −24.1   greedy −17`: the two returns differ by the cost of exploring."""
    episodes = episodes_of(facts, side)
    groups: list[Parts] = []
    if episodes:
        groups.append([("  episode ", "$quiet"), (count(episodes), "")])
    if curves is not None and len(curves.returns):
        name = visible(curves.label, ascii) or "on-line"
        groups.append([(f"  {name} ", "$quiet"), (compact(float(curves.returns[-1])), "")])
    if curves is not None and curves.fate and episodes_of(facts, side):
        groups.append([("  greedy ", "$quiet"), (curves.fate, "bold")])
    elif curves is not None and len(curves.greedy_returns):
        groups.append([("  greedy ", "$quiet"), (compact(float(curves.greedy_returns[-1])), "bold")])
    if warning_of(facts, side):  # last, so that it always has room; the sentence replaces the update
        groups.append([("  diverges", "bold $error")])
    return groups


def warning_of(facts: Mapping[str, Any], side: int) -> str:
    """Return the sentence about a learner that diverges, else ""."""
    warnings = facts.get("warnings")
    return str(warnings[side] or "") if isinstance(warnings, (list, tuple)) and side < len(warnings) else ""


def episodes_of(facts: Mapping[str, Any], side: int) -> int:
    """Return the number of episodes that a side has ended; 0 if unknown."""
    episodes = facts.get("episodes")
    known = isinstance(episodes, Sequence) and side < len(episodes) and isinstance(episodes[side], int)
    return episodes[side] if known else 0  # type: ignore[index]


def sentence(frame: Frame, curves: Sequence[ReturnCurves], until: int | None) -> Sentence:
    """Return the caption of the learners, or of the values of a run that has no curves; `until` is the step of a
    recorded run, None for live learners."""
    facts, sides, reached = frame.facts, [], 0
    for side, (title, each) in enumerate(zip(titles_of(facts, len(curves), ascii=False), curves, strict=True)):
        epsilon, measured = describe_side(facts, side).get("epsilon"), len(each.episodes)
        if until is not None:
            measured = int(np.searchsorted(each.episodes, until, "right"))
        last = int(each.episodes[measured - 1]) if measured else 0
        greedy = each.greedy_returns[: int(np.searchsorted(each.greedy_episodes, last, "right"))]
        reached = max(reached, last)
        sides.append(
            captions.Learner(
                title,
                float(each.returns[measured - 1]) if measured else None,
                float(greedy[-1]) if len(greedy) and not each.fate else None,
                float(epsilon) if isinstance(epsilon, (int, float)) else None,
                each.latest,
                each.label,
                warning_of(facts, side),
            )
        )
    across = curves[0].across if curves else ""
    return captions.learners(sides, across, reached) or captions.planned(frame)


def newest(values: Sequence[float], cells: int) -> str:
    """Return the last of the values that fit, each whole.

    >>> newest([-1234.0, -13.0, -17.0], 10), newest([-1234.0, -13.0, -17.0], 5)
    ('−13 −17', '−17')
    """
    words = [compact(value) for value in values]
    while len(words) > 1 and len(" ".join(words)) > cells:
        words.pop(0)
    return " ".join(words)


def side_head(
    facts: Mapping[str, Any], side: int, curves: ReturnCurves | None, chosen: int | None, here: bool,
    lines: int, cells: int, ascii: bool,
) -> Content:  # fmt: skip
    """Return the one or two lines of a side."""
    names = side_parts(describe_side(facts, side), chosen, here, cells, ascii)
    scores = score_groups(facts, side, curves, ascii)
    if lines < 2:
        return spread(names, scores, cells)
    while len(scores) > 1 and sum(width(text) for group in scores for text, _ in group) > cells:
        scores = scores[1:]  # the greedy return matters most
    return Content("\n").join([style_parts(names), style_parts([part for group in scores for part in group])])


def update_lines(
    facts: Mapping[str, Any], side: int, world: World, cells: int, lines: int, ascii: bool, recorded: bool = False
) -> Content:
    """Return the updated state, and the rule with the numbers under its letters."""
    facts_of_side, last = describe_side(facts, side), facts.get("last")
    title = visible(str(facts_of_side.get("title", "")), ascii)
    update = last[side] if isinstance(last, (list, tuple)) and side < len(last) else None
    if not isinstance(update, Mapping):
        words = f"{title}: nothing learnt yet; space runs, . makes one update"
        if recorded:
            words = f"{title}: a recording keeps values, not updates; w says what a value is made of"
        return Content("\n").join([Content.styled(words, "$quiet"), *[Content("")] * (lines - 1)])
    warning = warning_of(facts, side)
    rows = [where_from(update, title, world, ascii)]
    if warning:  # more important than the step
        rows = [Content.styled(row, "bold $error") for row in wrap_text(visible(warning, ascii), max(1, cells))]
    terms = [(str(letters), value) for letters, value in pairs_of(update.get("terms"))]
    for above, below in term_lines(terms, cells, ascii):
        rows.append(style_parts([(text, "$quiet" if part == "sign" else "$secondary") for text, part in above]))
        rows.append(style_parts([(text, "$quiet" if part == "sign" else "bold") for text, part in below]))
    rows += [Content("")] * (lines - len(rows))
    return Content("\n").join(rows[: max(1, lines)])


def pairs_of(terms: Any) -> list[tuple[str, float | None]]:
    """Return the terms of a frame; malformed ones are left out."""
    pairs: list[tuple[str, float | None]] = []
    for term in terms if isinstance(terms, (list, tuple)) else ():
        if isinstance(term, (list, tuple)) and len(term) == 2:
            value = term[1]
            pairs.append((str(term[0]), float(value) if isinstance(value, (int, float)) else None))
    return pairs


def where_from(update: Mapping[str, Any], title: str, world: World, ascii: bool) -> Content:
    """Return `SARSA   s (2,4)  a right  r −1  s′ (2,5)`."""
    process = world.process
    parts: Parts = [(title, "bold")]

    def state(number: Any) -> str:
        return process.states[number] if isinstance(number, int) and 0 <= number < process.size else "?"

    action = update.get("action")
    parts += [("   s ", "$quiet"), (visible(state(update.get("state")), ascii), "")]
    if isinstance(action, int) and 0 <= action < process.choices:
        parts += [("   a ", "$quiet"), (visible(process.actions[action], ascii), "")]
    reward = update.get("reward")
    if isinstance(reward, (int, float)) and isfinite(reward):
        parts += [("   r ", "$quiet"), (compact(float(reward)), "")]
    parts += [("   s' " if ascii else "   s′ ", "$quiet"), (visible(state(update.get("next")), ascii), "")]
    if update.get("done"):
        parts.append(("   the episode ends", "$accent"))
    delta = update.get("delta")
    if isinstance(delta, (int, float)) and isfinite(delta):
        parts += [("   delta " if ascii else "   δ ", "$quiet"), (compact(float(delta)), "bold")]
    return style_parts(parts)


def learner_facts(
    facts: Mapping[str, Any], curves: Sequence[ReturnCurves], lines: int, cells: int, ascii: bool
) -> Content:
    """Return the numbers of each side, one below the other; of the latest returns, as many whole ones as fit."""
    rows: list[Parts] = []
    titles = titles_of(facts, len(curves), ascii)
    for side, each in enumerate(curves):
        updates = facts.get("updates")
        rows.append([(titles[side], "bold")])
        if isinstance(updates, (list, tuple)) and side < len(updates):
            rows.append([("updates        ", "$quiet"), (count(updates[side]), "")])
        if len(each.returns):
            over = f", mean of {each.block}" if each.block > 1 else ""
            name = f"{visible(each.label)[:13]:<15}" if each.label else "on-line return "
            rows.append([(name, "$quiet"), (compact(float(each.returns[-1])), ""), (over, "$quiet")])
        if each.latest:
            rows.append([("latest         ", "$quiet"), (newest(each.latest, cells - 15), "")])
        if each.fate and episodes_of(facts, side):
            rows.append([("greedy         ", "$quiet"), (each.fate, "bold")])
        elif not each.fate and len(each.greedy_returns):
            steps = f" in {count(each.path)} steps" if each.path else ""
            rows.append(
                [
                    ("greedy return  ", "$quiet"),
                    (compact(float(each.greedy_returns[-1])), "bold"),
                    (steps, "$quiet"),
                ]
            )
        rows.append([])
    return Content("\n").join([style_parts(row) for row in rows[: max(0, lines)]])
