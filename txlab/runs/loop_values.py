"""Values given by another program's loop, as a run stores them: configuration, steps, metrics."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, SupportsIndex

from txlab.errors import LabError, one_line
from txlab.runs.as_json import table_of, text_of, unused_key
from txlab.runs.events import LARGEST_STEP

LARGEST_CONFIG = 200  # entries of the configuration that run.json repeats, for lists of runs; all are in scenario.toml


def format_scenario(name: str, config: Any) -> bytes:
    """The scenario.toml of a recorded run."""
    import tomli_w

    return tomli_w.dumps({"kind": "recorded", "name": text_of(name), "config": as_toml(table_of(config))}).encode()


def as_toml(value: Any) -> Any:
    """A JSON value in TOML's types. null, which TOML lacks, is left out of a table and becomes a text in a list."""
    if isinstance(value, dict):
        return {key: as_toml(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [as_toml(entry) for entry in value]
    return "None" if value is None else value


def flatten_config(config: Any) -> dict[str, Any]:
    """The first entries of a configuration by dotted keys, as run.json repeats them for lists of runs."""
    settings: dict[str, Any] = {}
    for name, value in islice(flatten(table_of(config)), LARGEST_CONFIG):
        settings[unused_key(name, settings)] = value  # {"a.b": 1, "a": {"b": 2}} has two entries
    return settings


def flatten(config: Mapping[str, Any], under: str = "", deepest: int = 500) -> Iterator[tuple[str, Any]]:
    """The entries of nested tables by dotted keys; a list is an entry, and so is a table that is nested too deeply.

    >>> dict(flatten({"lr": 0.1, "model": {"width": 64}}))
    {'lr': 0.1, 'model.width': 64}
    """
    for key, value in config.items():
        if isinstance(value, Mapping) and deepest:
            yield from flatten(value, f"{under}{key}.", deepest - 1)
        else:
            yield f"{under}{key}", value


def whole(step: SupportsIndex, least: int = 0) -> int:
    """A step as a Python int: readers would not accept a row with an integer of NumPy or torch."""
    try:
        plain = operator.index(step)
    except TypeError:
        raise LabError(f"a step is a whole number, not {text_of(step, 60)!r}") from None
    if not least <= plain <= LARGEST_STEP:
        raise LabError(f"a step is a whole number from {least} to 2^62, not {text_of(plain, 60)}")
    return plain


def metric(step: int, name: object, value: Any) -> Any:
    """A metric as a float, or as a copied tensor on its device. Raises LabError if it is not a single number."""
    if type(value) is float and type(name) is str and name:
        return value
    if not isinstance(name, str) or not name:
        raise LabError(f"step {step}: {text_of(name, 60)!r} is not a metric name; a name is a non-empty string")
    shape = getattr(value, "shape", None)
    try:
        if isinstance(value, (str, bytes)) or value is None:
            raise TypeError(f"not {type(value).__name__}")
        if shape is None:
            return float(value)
        if math.prod(shape) != 1:
            raise TypeError("not several")
        if "complex" in str(value.dtype):
            raise TypeError("not a complex one")
        if on_a_device(value):
            if value.device.type == "meta":
                raise TypeError("a meta tensor has no value")
            return value.detach().clone()  # detached from its graph, and copied since the loop may change it in place
        if bool(getattr(value, "mask", False)):
            raise TypeError("a masked one has no value")
        plain = value.item()
        return float(plain) if hasattr(plain, "shape") else metric(step, name, plain)  # longdouble.item() is itself
    except (TypeError, ValueError, OverflowError) as error:
        size = f"something of shape {tuple(shape)}" if shape else repr(text_of(value, 60))
        raise LabError(f"step {step}: {name} = {size}: a metric is one number ({one_line(error)})") from None


def on_a_device(value: Any) -> bool:
    """Whether reading the value would make the loop wait for a device."""
    device = getattr(value, "device", None)
    return device is not None and getattr(device, "type", "cpu") != "cpu"
