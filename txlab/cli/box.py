"""`txlab box`: the cards, processes, memory and disks of this machine and others."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from txlab.cli import options
from txlab.cli.output import print_json
from txlab.cli.terminal import ascii_only, can_redraw, colour_text, columns
from txlab.errors import RunFailed

COLOURS = {"plain": 0, "strong": 1, "quiet": 90, "heading": 90, "accent": 36, "good": 32, "error": 31}
EVERY = 2.0  # seconds
PIPE = 160  # columns of a file or a pipe
WITHIN = 20.0  # seconds for the first reading of another machine


def box(
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="A,B", help="these machines, over ssh, instead of this one")
    ] = "",
    json: options.JsonLines = False,
    watch: Annotated[bool, typer.Option("--watch", help="again every two seconds, until ctrl-c")] = False,
) -> None:
    """Show the GPUs, processes and their runs, on this machine or others.

    txlab box --hosts box1,box2 --watch
    """
    from txlab.drawing.box import Lines
    from txlab.runs.remote.address import host_and_folder
    from txlab.runs.remote.machine import Machines

    addresses = [host_and_folder(name.strip()) for name in hosts.split(",") if name.strip()]
    machines = Machines(addresses or [None])
    deadline = time.monotonic() + WITHIN
    seen = machines.look()
    while not machines.settled(seen) and time.monotonic() < deadline:
        time.sleep(0.1)
        seen = machines.look()
    while True:
        if json:
            for each in seen:
                reading = each.reading.model_dump() if each.reading else None
                print_json(
                    {"machine": each.name, "seen": each.seen, "stale": each.stale, "why": each.why, "reading": reading}
                )
        else:
            cells = columns() - 1 if sys.stdout.isatty() else max(PIPE, columns())
            lines = Lines(cells, ascii_only())
            if watch and can_redraw():
                print("\x1b[H\x1b[2J", end="")
            for head in lines.head(seen):
                print(colour_text(head, COLOURS["heading"]))
            for row in lines.rows(seen, time.time()):
                print("".join(colour_text(text, COLOURS[style]) for text, style in row.parts).rstrip())
        if not watch and all(each.reading is None for each in seen):
            raise RunFailed(f"{hosts or 'this machine'} cannot be read")
        if not watch:
            return
        time.sleep(EVERY)
        seen = machines.look()
