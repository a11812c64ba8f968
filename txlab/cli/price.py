"""`txlab run NAME --dry-run`: what a scenario or a preset will cost here, before it starts (MATH T11)."""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING

import typer

from txlab.cli.output import Column, print_json, table
from txlab.cli.presets import power, size
from txlab.cli.terminal import ascii_only, columns, sanitize
from txlab.drawing.formatting import count, duration

if TYPE_CHECKING:
    from txlab.experiments.price import Price

MOST = 100  # cells of a line
YEAR = 365.25 * 86400


def print_price_of(
    name: str | None, like: str | None, overrides: list[str], seed: int | None, device: str | None, json: bool
) -> None:
    """Print the price of a scenario, of a run's repetition or of a preset; exit status 2 if it would be refused."""
    price = price_named(name, like, overrides, seed, device)
    if json:
        print_json(price.as_json())
    else:
        print_price(price)
    if price.refused:
        raise typer.Exit(2)


def price_named(
    name: str | None, like: str | None, overrides: list[str], seed: int | None, device: str | None
) -> Price:
    """The price of what `txlab run` would be given. A scenario comes before a preset of the same name."""
    import psutil

    from txlab.cli.loading import check_data, check_device, load_like
    from txlab.errors import LabError
    from txlab.runs.scenario import load_scenario, shipped_scenarios
    from txlab.runs.trial import disk_free, price_of
    from txlab.runs.writing import set_up_process

    set_up_process()
    if name is not None and name not in shipped_scenarios() and not overrides and is_preset(name):
        from txlab.experiments.price import price_of_preset

        return price_of_preset(name, peak_here(), psutil.virtual_memory().available, disk_free())
    loaded = load_like(like, overrides, seed, device) if like is not None else None
    loaded = loaded or load_scenario(name or "", overrides, seed=seed, device=device)
    try:
        check_device(loaded)
        check_data(loaded)
    except LabError as error:
        from txlab.experiments.price import Price

        return Price(loaded.name, loaded.scenario.about.title, refused=(str(error),))
    return price_of(loaded, before=time.process_time())


def is_preset(name: str) -> bool:
    from txlab.engine.transformer.presets import PRESETS

    return name in PRESETS


def peak_here() -> float:
    """FLOP/s of the first card, or of the processor, in bfloat16."""
    import torch

    from txlab.engine.device import choose_device, measure_peak

    return measure_peak(choose_device("auto"), torch.bfloat16)


def print_price(price: Price) -> None:
    width = min(columns() - 1, MOST)
    print(textwrap.fill(sanitize(f"{price.name}: {price.title}" if price.title else price.name), width))
    rows = [[label, value, note] for label, value, note in lines_of(price)]
    if rows:
        print("\n" + table([Column("price"), Column("", "right"), Column("", loose=True)], rows))
    for text in price.warnings:
        print("\n" + textwrap.fill(sanitize(text), width))
    for text in price.refused:
        print("\n" + textwrap.fill(sanitize(f"it would be refused: {text}"), width))


def lines_of(price: Price) -> list[tuple[str, str, str]]:
    """(Label, value, note) of each line; what is not known is left out."""
    rows: list[tuple[str, str, str]] = []
    if price.parameters:
        rows.append(("parameters", count(price.parameters), ""))
    if price.units:
        a_step = f"{count(round(price.units_per_step))} a step" if price.units_per_step else ""
        rows.append((sanitize(price.unit), count(round(price.units)), a_step))
    if price.flops:
        each = f"{power(price.flops / price.steps)} a step; 6 w + 12 N T D a token, T11" if price.steps else "T11"
        rows.append(("FLOPs", power(price.flops), each))
    if price.compute:
        threads = price.compute["threads"]
        how = f"{price.compute['dtype']}, {price.compute['attention']} attention, {threads} thread{'s' * (threads > 1)}"
        rows.append(("computes", sanitize(price.device), how))
    if price.memory:
        rows.append(("memory", size(price.total_memory), price.memory_how))
        rows += [(f"  {part}", size(many), "") for part, many in price.memory.items() if many]
        if price.there:
            rows.append(("  free", size(price.there), ""))
    if price.seconds:
        rows.append(("time", long(price.total_seconds), price.seconds_how))
        if len(price.seconds) > 1:
            rows += [(f"  {part}s" if part != "beginning" else "  beginning", long(each), "")
                     for part, each in price.seconds.items() if each >= 0.005 * price.total_seconds]  # fmt: skip
    if price.disk:
        rows.append(("disk", size(sum(price.disk.values())), ""))
        rows += [(f"  {part}", size(many), "") for part, many in price.disk.items() if many]
        rows.append(("  free", size(price.disk_free), "")) if price.disk_free else None
    return rows


def long(seconds: float) -> str:
    """Format a duration: 24 s, 4m07s, 3.2 days, 1 240 years."""
    if seconds < 2 * 86400:
        return duration(seconds) if seconds >= 1 else f"{seconds:.2f} s"
    if seconds < 2 * YEAR:
        return f"{seconds / 86400:.3g} days"
    years = f"{seconds / YEAR:.3g}" if seconds < 1000 * YEAR else count(round(seconds / YEAR))
    return f"{years} years" if not ascii_only() else f"{years} years".replace("\u202f", " ")
