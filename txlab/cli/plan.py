"""`txlab plan`: what a training would take on many cards, on paper (MATH T11): memory by part and rank, bytes on the
wire, the time of a step and of the whole, and what binds."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_rows, table
from txlab.cli.presets import amount, power, size
from txlab.cli.price import long
from txlab.cli.terminal import columns, sanitize
from txlab.drawing.formatting import count
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.transformer.costs import AnyShape
    from txlab.engine.transformer.parallelism import Plan

MOST = 100  # cells of a line
LARGE = 10e9  # parameters from which a step reads LARGE_BATCH tokens
BATCH, LARGE_BATCH = 2**19, 2**22
NARROW = 100  # columns of a terminal from which the second table has its memory and steps
LETTERS = "t cards for each matrix, p stages of the pipeline, b sequences at once, r recomputing activations."
ABOUT = (
    "A roofline: products reach the data sheet's peak and gradients travel while the backward pass computes. Printed "
    "trainings reach a half to two thirds of this share (txlab verify plan), so take as many more days. Weights, "
    "gradients and moments in float32, products in bfloat16."
)


def plan(
    name: Annotated[str, typer.Argument(metavar="PRESET", help="a preset, or a scenario")],
    cards: Annotated[int, typer.Option("--cards", metavar="N", help="cards in all", min=1, max=1_000_000)] = 8,
    card: Annotated[str, typer.Option("--card", metavar="NAME", help="a100, h100, h200, b200 or mi300x")] = "h100",
    tokens: Annotated[
        float | None, typer.Option("--tokens", metavar="N", help="read in all, e.g. 300e9; else as published")
    ] = None,
    batch: Annotated[float | None, typer.Option("--batch", metavar="TOKENS", help="tokens a step")] = None,
    context: Annotated[
        int | None, typer.Option("--context", metavar="T", help="tokens of a sequence", min=1, max=10_000_000)
    ] = None,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """Plan a training on many cards, on paper.

    For each way to divide the model the best division is chosen among powers of two within a machine and divisors of
    the layers; then the quickest of all for other numbers of cards.
    """
    from dataclasses import replace

    from txlab.engine.transformer.costs import costs
    from txlab.engine.transformer.parallelism import best_plan, card_named, named_splits, numbers_of_cards

    title, shape, published, usual = shape_named(name)
    if context is not None:
        given: Any = shape
        shape = replace(given, context=context)
    sheet = card_named(card)
    many = tokens if tokens is not None else published
    if not many:
        raise LabError(f"how many tokens {name} has read is not published; give --tokens N, e.g. --tokens 300e9")
    if not shape.context:
        raise LabError(f"the context of {name} is not published; give --context T")
    step = batch or usual or (LARGE_BATCH if costs(shape).parameters >= LARGE else BATCH)
    for option, value in (("--tokens", many), ("--batch", step)):
        if not 0 < value < 1e18:
            raise LabError(f"{option} {value:g} is not a number of tokens; allowed: above 0 and below 1e18")
    if step < shape.context:
        raise LabError(f"--batch {step:g} is less than a sequence of {shape.context} tokens")
    forms = named_splits(shape, sheet, cards, step, many)
    others = [best_plan(shape, sheet, number, step, many) for number in numbers_of_cards(cards)]
    facts = [facts_of(form, each) for form, each in forms.items()]
    facts += [facts_of("best", each) for each in others]
    if print_rows(facts, json, csv):
        return
    width = min(columns() - 1, MOST)
    cost = costs(shape)
    print(f"{sanitize(title)} on {count(cards)} × {sheet.title}")
    about = (
        f"{amount(cost.parameters)} parameters, {amount(many)} tokens in steps of {amount(step)} "
        f"({amount(many / step)} steps), {power(cost.flops_per_token * many)} FLOPs (6 w + 12 N T D a token, T11)"
    )
    print(textwrap.fill(sanitize(about), width))
    print("\n" + table([Column("of a card"), *(Column(form, "right") for form in forms)], compare(forms)))
    for form, each in forms.items():
        refusal = f"; impossible: {each.refused}" if each.refused else ""
        print(textwrap.fill(sanitize(f"{form}: {each.split}{refusal}"), width, subsequent_indent="  "))
    rows = [row_of(each) for each in others]
    chosen = [name for name in rows[0] if columns() >= NARROW or name not in ("memory", "step")]
    shown = [Column(name, "left" if name in ("best division", "limit") else "right") for name in chosen]
    print("\n" + table(shown, [[row[name] for name in chosen] for row in rows]))
    print("\n" + textwrap.fill(LETTERS, width))
    print("\n" + textwrap.fill(ABOUT, width))


def shape_named(name: str) -> tuple[str, AnyShape, float, float]:
    """(Title, shape, tokens in all, tokens a step) of a preset or a scenario; 0 = unknown. LabError for neither."""
    from txlab.cli.presets import preset_or_scenario

    preset, step = preset_or_scenario(name)
    return preset.title, preset.shape, preset.tokens, step


def facts_of(form: str, plan: Plan) -> dict[str, Any]:
    """The numbers of a plan, by the words of the table."""
    split = plan.split
    return {
        "form": form,
        "cards": split.cards,
        "card": plan.card.name,
        "data": split.data,
        "tensor": split.tensor,
        "pipeline": split.pipeline,
        "sharded": split.sharded,
        "recompute": split.recompute,
        "micro_batch": split.micro,
        "memory": dict(plan.memory),
        "memory_total": plan.total_memory,
        "wire": dict(plan.wire),
        "seconds": dict(plan.seconds),
        "step_seconds": plan.step,
        "share_of_peak": plan.share,
        "days": plan.days,
        "card_hours": plan.card_hours,
        "flops": plan.flops,
        "limit": plan.limit,
        "refused": plan.refused,
    }


def compare(forms: dict[str, Plan]) -> list[list[str]]:
    """Rows of quantities, with a column for each form."""
    plans = list(forms.values())
    rows = [[part, *(size(each.memory[part]) for each in plans)] for part in plans[0].memory]
    rows.append(["memory in all", *(size(each.total_memory) for each in plans)])
    rows.append([f"fits {plans[0].card.memory / 1e9:.0f} GB", *("yes" if each.fits else "no" for each in plans)])
    rows += [[f"{wire} wire, a step", *(size(each.wire[wire]) for each in plans)] for wire in plans[0].wire]
    rows += [[cause, *(span(each.seconds[cause]) for each in plans)] for cause in plans[0].seconds]
    rows.append(["a step", *(span(each.step) for each in plans)])
    rows.append(["share of peak", *(f"{100 * each.share:.1f} %" for each in plans)])
    rows.append(["days", *(f"{each.days:.3g}" for each in plans)])
    rows.append(["card-hours", *(hours(each.card_hours) for each in plans)])
    rows.append(["limit", *(each.limit for each in plans)])
    return rows


def row_of(plan: Plan) -> dict[str, str]:
    return {
        "cards": count(plan.split.cards),
        "best division": plan.split.letters,
        "memory": size(plan.total_memory),
        "step": span(plan.step),
        "of peak": f"{100 * plan.share:.1f} %",
        "days": f"{plan.days:.3g}",
        "card-hours": hours(plan.card_hours),
        "limit": plan.limit,
    }


def hours(number: float) -> str:
    """Format card-hours: 118 235, 0.0413."""
    return count(round(number)) if number >= 10 else f"{number:.3g}"


def span(seconds: float) -> str:
    """Format a short time: 12.3 ms, 4.53 s."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms" if seconds else "–"
    return f"{seconds:.3g} s" if seconds < 1000 else long(seconds)
