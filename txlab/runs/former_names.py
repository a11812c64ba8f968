"""Current names of kinds and scenario keys in runs written before a renaming.

Only files of a run directory are read through these tables; a scenario that a user writes has the current names.
"""

from __future__ import annotations

from typing import Any

# Former name → current name. A key is dotted, and the key of a table stands for all keys in it.
KINDS = {"control": "mdp-control"}
KEYS = {
    "look": "probe",
    "compute.share": "compute.thread_mode",
    "compute.graphs": "compute.cuda_graphs",
    "control.together": "control.sync_every",
}


def current_kind(kind: str) -> str:
    return KINDS.get(kind, kind)


def current_key(key: str) -> str:
    """Return the current name of a dotted key.

    >>> current_key("look.positions"), current_key("compute.share"), current_key("train.steps")
    ('probe.positions', 'compute.thread_mode', 'train.steps')
    """
    table, dot, rest = key.partition(".")
    return KEYS.get(key) or KEYS.get(table, table) + dot + rest


def current_tables(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a run's scenario.toml, their kind and their keys under current names."""
    current: dict[str, Any] = {}
    for name, value in tables.items():
        if name == "kind" and isinstance(value, str):
            value = current_kind(value)
        elif isinstance(value, dict):
            value = current_table(name, value)
        current[current_key(name)] = value
    return current


def current_table(name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return one table, e.g. "compute", with its keys under current names."""
    return {KEYS.get(f"{name}.{key}", f".{key}").partition(".")[2]: value for key, value in table.items()}
