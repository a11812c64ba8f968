"""Figure: where a curve of a frame is highest, and how many vectors a group keeps."""

from __future__ import annotations

import numpy as np

from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count, number
from txlab.drawing.text import visible
from txlab.experiments.protocol import Frame

SHORTEST = 0.1  # length of a vector that counts as kept


def vectors(groups: dict[str, np.ndarray]) -> Sentence:
    """ "From S = 0 to S = 0.999 the features that are kept rise from 2 to 5", of groups in the order of their names."""
    named = [name for name in groups if name.replace(".", "", 1).isdigit()]
    kept = {name: int((np.hypot(*np.nan_to_num(groups[name][:, :2]).T) > SHORTEST).sum()) for name in groups}
    if len(named) < 2:
        first = next(iter(groups), None)
        return (f"{visible(first)}: {kept[first]} of {len(groups[first])} vectors are not zero",) if first else ()
    named.sort(key=float)
    few, many = named[0], named[-1]
    total = max(len(each) for each in groups.values())
    if kept[few] == kept[many]:
        return (f"From S = {few} to S = {many} the network keeps {kept[few]} of {total} features",)
    way = "rise" if kept[many] > kept[few] else "fall"
    return (f"From S = {few} to S = {many} the features that are kept {way} from {kept[few]} to {kept[many]}",)


def curves(frame: Frame) -> Sentence:
    """ "The share of the energy is highest at frequency 5, 0.214", of the first curve; of several, with its name."""
    axes = frame.facts.get("curve")
    about = axes if isinstance(axes, dict) else {}
    lines = {name.partition("/")[2]: values for name, values in frame.tensors.items() if name.startswith("curve/")}
    for name, values in lines.items():
        y = np.asarray(values, np.float64)
        if y.ndim != 1 or not len(y) or not np.isfinite(y).all() or float(np.ptp(y)) == 0:
            continue
        at, begin = int(y.argmax()), about.get("from", 0)
        place = f"{visible(str(about.get('x') or 'place'))} {count(at + (begin if isinstance(begin, int) else 0))}"
        what = visible(str(about.get("y") or name))
        of = f" of {visible(name)}" if len(lines) > 1 and about.get("y") else ""
        return (f"The {what}{of} is highest at {place}, {number(float(y[at]))}",)
    return ()
