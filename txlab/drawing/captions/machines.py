"""Machines: how many cards are busy, who is idle, and which machine does not answer."""

from __future__ import annotations

from collections.abc import Sequence

from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count
from txlab.runs.remote.machine import Seen

BUSY = 0.05  # of the time: a card below it computes nothing


def machines(seen: Sequence[Seen]) -> Sentence:
    """ "2 of 8 cards compute", "3 runs", "b does not answer"; without a card the cores that are busy."""
    live = [each.reading for each in seen if each.reading is not None and not each.stale]
    silent = [each.name or "this machine" for each in seen if each.stale and each.reading is not None]
    gone = [f"{name} does not answer" for name in silent]
    if not live:
        return tuple(gone)
    cards = [card for reading in live for card in reading.cards]
    names = {process.run for reading in live for process in reading.processes if process.run}
    runs = [f"{count(len(names))} run{'s' * (len(names) != 1)}"] if names else []
    if cards:
        busy = sum((card.gpu_busy or 0.0) >= BUSY for card in cards)
        of = f"{count(busy)} of {count(len(cards))} cards" if len(cards) > 1 else "The card"
        verb = "compute" if len(cards) > 1 and busy != 1 else "computes"
        first = f"{of} {verb}" if busy or len(cards) > 1 else "The card is idle"
        return (first, *runs, *gone)
    known = [(reading.busy, reading.cores) for reading in live if reading.busy is not None]
    if not known:
        return (*runs, *gone)
    cores = sum(cores for _, cores in known)
    busy_cores = sum(busy * cores for busy, cores in known)
    where = "No card here" if len(live) == 1 else "No card on these machines"
    return f"{where}: {busy_cores:.1f} of {count(cores)} cores are busy", *runs, *gone
