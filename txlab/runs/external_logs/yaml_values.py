"""The plain values of a YAML file, if PyYAML is installed.

Notable: it is read as nodes only: Python tags (a tuple, an object) are not constructed, and become a list, a table or
their text.
"""

from __future__ import annotations

from typing import Any

from txlab.runs.as_json import text_of, unused_key

PLAIN_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str"))


def read_yaml(content: bytes) -> Any:
    """The plain values of a YAML file. ImportError without PyYAML, ValueError or RecursionError if it is not YAML."""
    import yaml

    try:
        loader = yaml.SafeLoader(content)
        return _plain_of(loader, loader.get_single_node(), set())
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _plain_of(loader: Any, node: Any, known: set[int]) -> Any:
    """The value of a node. ValueError for an alias of a list or a table, with which a small file could expand to a huge
    one."""
    if node is None:
        return None
    if node.id != "scalar" and id(node) in known:
        raise ValueError("an alias")
    known.add(id(node))
    if node.id == "sequence":
        return [_plain_of(loader, each, known) for each in node.value]
    if node.id == "mapping":
        table: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key.value, str) else text_of(_plain_of(loader, key, known))
            table[unused_key(name, table)] = _plain_of(loader, value, known)
        return table
    plain = node.tag in PLAIN_TAGS
    try:
        return loader.construct_object(node) if plain else node.value
    except Exception:  # a number with more digits than Python reads, an invalid date
        return node.value
