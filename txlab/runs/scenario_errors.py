"""Why a table does not fit its schema, in plain sentences: key, given, allowed, nearest.

The allowed values are read from the schema's own annotations and bounds, so new settings do not require new texts.
Everything quoted is escaped and shortened: it may come from a hostile file. A file of 256 KiB has room for 20 000
mistakes, of which one is shown, so the text of a complaint is made only on request (making all of them took minutes).
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from txlab.errors import LONG_LIST, nearest

LONGEST_QUOTE = 60
# Names of other libraries (PyTorch, transformers, nanoGPT) for settings; the first one that a kind has is meant.
USUAL_NAMES = {
    "lr": ("learning_rate", "alpha"),
    "learning_rate": ("learning_rate", "alpha"),
    "batch_size": ("batch",),
    "max_steps": ("steps",),
    "num_steps": ("steps",),
    "max_iters": ("steps",),
    "warmup_steps": ("warmup",),
    "grad_clip": ("clip",),
    "max_grad_norm": ("clip",),
    "gradient_accumulation_steps": ("accumulate",),
    "num_epochs": ("epochs",),
    "num_train_epochs": ("epochs",),
    "epochs": ("epochs",),
    "n_layer": ("layers",),
    "num_layers": ("layers",),
    "n_head": ("heads",),
    "num_heads": ("heads",),
    "n_embd": ("width",),
    "d_model": ("width",),
    "hidden_size": ("width",),
    "block_size": ("context",),
    "vocab_size": ("vocabulary",),
}


@dataclass(frozen=True)
class Complaint:
    """One mistake: an error row of pydantic, and the place in the schema that it refers to."""

    schema: type[BaseModel]
    owner: type[BaseModel]
    field: FieldInfo | None
    key: tuple[str, ...]
    entry: str
    kind: str
    value: Any
    why: str

    @property
    def expects_text(self) -> bool:
        return self.kind == "string_type" and not self.entry

    @property
    def text(self) -> str:
        """The sentence, without the place in the file."""
        field, key, entry = self.field, self.key, self.entry
        name = escape(".".join(key)[:LONGEST_QUOTE]) + escape(entry[:LONGEST_QUOTE])
        if self.kind == "extra_forbidden":
            known = self.owner.model_fields
            close = nearest(entry.rpartition(".")[2], known) if entry else nearest_key(self.schema, self.owner, key)
            table = f" in [{escape('.'.join(key[:-1]))}]" if len(key) > 1 and not entry else ""
            listed = "" if close and len(known) > LONG_LIST else f"; allowed{table}: {', '.join(known)}"
            return f"{name} is not a key{close}{listed}"
        if self.kind == "missing":
            return f"{name} is missing; allowed: {describe_allowed(field)}"
        if self.kind == "value_error":  # a rule between several keys, in the schema's own words
            return f"{name}: {escape(self.why)}" if name else escape(self.why)
        value = self.value
        close = nearest(value, choices(field.annotation)) if isinstance(value, str) and field else ""
        return f"{name} = {format_value(value)} is not allowed{close}; allowed: {describe_allowed(field)}"


def escape(text: str) -> str:
    r"""The text with everything that a terminal would interpret made visible.

    >>> escape("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quiet(text: str, longest: int) -> str:
    """The text, escaped where a terminal would act upon it, and cut where it is longer."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return cut if cut.isprintable() else escape(cut)


def quote(text: str) -> str:
    """The text in quotes, escaped, and no longer than a line."""
    shown = escape(text[: LONGEST_QUOTE + 1])
    return f'"{shown[:LONGEST_QUOTE]}…"' if len(shown) > LONGEST_QUOTE else f'"{shown}"'


def format_value(value: Any) -> str:
    """A value as written in a TOML file, shortened."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quote(value)
        case int() if value.bit_length() > 200:  # str() of a huge integer is slow or refused
            return f"a number of {value.bit_length()} bits"
        case int() | float():
            return repr(value)
        case dict():
            return "a table"
        case list():
            return "a list"
        case None:
            return "nothing"
        case _:
            return quote(str(value))


def complaints(schema: type[BaseModel], error: ValidationError) -> list[Complaint]:
    """The complaints of a validation, one per key or entry of a list, in pydantic's order."""
    by_key: dict[tuple[tuple[str, ...], str], Complaint] = {}
    for row in error.errors(include_url=False):
        owner, field, key, entry = locate(schema, row["loc"])
        why = str(row.get("ctx", {}).get("error", ""))
        # a union reports an error for each of its branches
        by_key.setdefault((key, entry), Complaint(schema, owner, field, key, entry, row["type"], row["input"], why))
    return list(by_key.values())


def locate(
    schema: type[BaseModel], loc: tuple[int | str, ...]
) -> tuple[type[BaseModel], FieldInfo | None, tuple[str, ...], str]:
    """Follow a location through the tables: (the table it is in, its field, its dotted key, where inside a list).

    What pydantic adds after a field (the branch of a union) is not part of the key. Inside a list of tables the place
    continues, "[0].weight" or "[0].sizes[1]", and the key remains that of the list.
    """
    owner, field, key = schema, None, []
    entry = ""
    for part in loc:
        if isinstance(part, int):
            entry = f"{entry}[{part}]"
        elif entry and field is not None and (inner := table_in_list(field.annotation)) is not None:
            owner, field, entry = inner, inner.model_fields.get(part), f"{entry}.{part}"
        elif field is not None and not is_table(field.annotation):
            continue
        else:
            if field is not None:
                owner = field.annotation  # type: ignore[assignment]
            key.append(part)
            field = owner.model_fields.get(part)
            if field is None:
                break
    return owner, field, tuple(key), entry


def is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def table_in_list(annotation: Any) -> type[BaseModel] | None:
    """The type of table that a list contains, or None."""
    arguments = get_args(annotation)
    return arguments[0] if get_origin(annotation) is list and arguments and is_table(arguments[0]) else None


def nearest_key(schema: type[BaseModel], owner: type[BaseModel], key: tuple[str, ...]) -> str:
    """The key that was probably meant: from the same table, or of the same name in another table."""
    # Most kinds count their steps and have no epochs: a number of epochs is no number of steps, so this is only advice.
    if usual := usual_key(schema, key) or usual_key(
        schema, (*key[:-1], "max_steps" if "epochs" in key[-1] else key[-1])
    ):
        return f" (nearest: {usual})"
    prefix = ".".join(key[:-1])
    siblings = [f"{prefix}.{name}" if prefix else name for name in owner.model_fields]
    everywhere = list(every_key(schema))
    for candidate in everywhere:
        if candidate.rpartition(".")[2] == key[-1]:
            return f" (nearest: {candidate})"
    wanted = ".".join(key)[:LONGEST_QUOTE]
    return nearest(wanted, siblings) or nearest(wanted, everywhere)


def usual_key(schema: type[BaseModel], key: tuple[str, ...]) -> str:
    """The schema's key for a name that other libraries use, with or without its table; "" if there is none.

    `lr` is `train.learning_rate`, `batch_size` is `train.batch`. Of several tables that have the setting, the name
    must say which: `policy.lr`.
    """
    known = list(every_key(schema))
    ours = USUAL_NAMES.get(key[-1], ())
    if ".".join(key) in known:
        return ""
    for name in ours:
        there = [candidate for candidate in known if candidate.rpartition(".")[2] == name]
        if len(key) > 1:
            there = [candidate for candidate in there if candidate == ".".join((*key[:-1], name))]
        if len(there) == 1:
            return there[0]
    return ""


def every_key(schema: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key of a schema, dotted, e.g. "train.steps"."""
    for name, field in schema.model_fields.items():
        if is_table(field.annotation):
            yield from every_key(field.annotation, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            yield f"{prefix}{name}"


def choices(annotation: Any) -> list[str]:
    """The strings that a type lists as its values."""
    if get_origin(annotation) is Literal:
        return [c for c in get_args(annotation) if isinstance(c, str)]
    return [c for branch in get_args(annotation) for c in choices(branch)] if is_union(annotation) else []


def is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def describe_allowed(field: FieldInfo | None) -> str:
    """What a field accepts, in words: its type and its bounds."""
    if field is None:
        return "a table"
    if any(getattr(rule, "pattern", None) for rule in field.metadata):
        return field.description or next(rule.pattern for rule in field.metadata if getattr(rule, "pattern", None))
    return words(field.annotation) + bounds(field.metadata)


def words(annotation: Any) -> str:
    """A type in words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *rules = get_args(annotation)
        return words(inner) + bounds([r for rule in rules for r in (getattr(rule, "metadata", None) or [rule])])
    if origin is Literal:
        return either([f'"{c}"' if isinstance(c, str) else format_value(c) for c in get_args(annotation)])
    if is_union(annotation):
        return either([words(branch) for branch in get_args(annotation) if branch is not types.NoneType])
    if origin is list:
        entry = get_args(annotation)[0]
        one = words(entry)
        return f"a list, each entry {one}" if get_origin(entry) is Annotated else f"a list of {one.removeprefix('a ')}s"
    if is_table(annotation):
        return "a table"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(
        annotation, str(annotation)
    )


def bounds(rules: list[Any]) -> str:
    """The bounds among the rules of a field, e.g. " from 2 to 65536"."""
    limits = {
        name: format_bound(getattr(rule, name))
        for rule in rules
        for name in ("ge", "gt", "le", "lt", "max_length")
        if getattr(rule, name, None) is not None
    }
    if "ge" in limits and "le" in limits:
        return f" from {limits['ge']} to {limits['le']}"
    say = {
        "ge": "at least",
        "gt": "greater than",
        "le": "at most",
        "lt": "less than",
        "max_length": "of a length of at most",
    }
    parts = [f"{phrase} {limits[name]}" for name, phrase in say.items() if name in limits]
    return f", {' and '.join(parts)}" if parts else ""


def format_bound(limit: Any) -> Any:
    """A bound without superfluous digits: 1000000, not 1000000.0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def either(options: list[str]) -> str:
    """ "a", "b" or "c"."""
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"
