"""What Tab completes: scenarios, runs, models, presets, tokenizers, and the keys and values of `--set`.

A parameter is completed by its option's name or else by its metavar, so that a new command with a RUN has it at once.
Where nothing here fits, the shell completes the names of files. Nothing imports torch, and a mistake in what has been
typed so far completes to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from txlab.errors import LabError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from txlab.experiments.schema import Scenario

# Written out, because the module that has them imports torch.
PRESETS = (
    *("vaswani-base", "vaswani-big", "gpt-1", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt3-small"),
    *("gpt3-medium", "gpt3-large", "gpt3-xl", "gpt3-2.7b", "gpt3-6.7b", "gpt3-13b", "gpt3-175b"),
    *("bert-base", "bert-large", "lamda-137b"),
)


@dataclass(frozen=True)
class Item:
    """A completion, as typer's shells read it; zsh and fish show the help beside the value."""

    value: str
    help: str | None = None
    type: str = "plain"


Context = Any  # typer's, whose class is not public
Completer = Callable[[Context, str], list[Item]]


def completed(metavar: str | None, options: Iterable[str], context: Context, incomplete: str) -> list[Item] | None:
    """Return the completions of a parameter; None if it has none of its own."""
    names = [name for name in (*options, metavar or "") if name in COMPLETERS]
    if not names:
        return None
    found: list[Item] = []
    with suppress(LabError, OSError):
        found = [item for item in COMPLETERS[names[0]](context, incomplete) if item.value.startswith(incomplete)]
    if "=" in incomplete and IN_BASH:
        found = [replace(item, value=item.value.partition("=")[2]) for item in found]
    return found


def scenarios(context: Context, incomplete: str) -> list[Item]:
    from txlab.runs.scenario import installed

    return [Item(name) for name in installed()]


def runs(context: Context, incomplete: str) -> list[Item]:
    """Runs by the names given to them, by their directories without the date (the newest of these), and in full."""
    from txlab.runs.finding import list_runs
    from txlab.runs.label import read_label

    found = list_runs()
    short = (path.name.partition("_")[2].partition("_")[2] for path in found)
    names = ["latest", *(read_label(path).name for path in found), *short, *(path.name for path in found)]
    return [Item(name) for name in dict.fromkeys(names) if len(name.split()) == 1]  # no shell quotes what it inserts


def tokenizers(context: Context, incomplete: str) -> list[Item]:
    from txlab.experiments.tokenizer_store import BUILT_IN, saved_tokenizers

    return [Item(name) for name in (*BUILT_IN, *saved_tokenizers())]


def fixed(*words: str) -> Completer:
    return lambda context, incomplete: [Item(word) for word in words]


def settings(context: Context, incomplete: str) -> list[Item]:
    """Keys of the scenario that is named, or KEY=VALUE once there is one such key."""
    from txlab.runs.scenario_errors import every_key

    scenario = scenario_of(context)
    schema = type(scenario)
    key, equals, _ = incomplete.partition("=")
    known = [each for each in every_key(schema) if not each.startswith("about.")]
    keys = [each for each in known if (each == key if equals else each.startswith(key))]
    if len(keys) == 1:
        return [Item(f"{keys[0]}={value}", description(schema, keys[0])) for value in values_of(scenario, keys[0])]
    return [Item(f"{each}=", description(schema, each)) for each in keys]


def scenario_of(context: Context) -> Scenario:
    """Return the scenario that the words before name, or that of `--like RUN`. Raises LabError."""
    from txlab.runs.finding import find_run
    from txlab.runs.scenario import load_scenario

    if like := context.params.get("like"):
        return load_scenario(find_run(like) / "scenario.toml").scenario
    words = [context.params.get("scenario"), *context.args]  # an option without its value ends the parsing before it
    return load_scenario(next((word for word in words if word), "")).scenario


def field_of(schema: type[BaseModel], key: str) -> FieldInfo:
    """Return the field of a dotted key."""
    first, _, rest = key.partition(".")
    field = schema.model_fields[first]
    return field_of(field.annotation, rest) if rest else field  # type: ignore[arg-type]


def description(schema: type[BaseModel], key: str) -> str | None:
    return field_of(schema, key).description


def values_of(scenario: Scenario, key: str) -> list[str]:
    """Return the values that a key can have, as far as they can be listed, else the one that it has."""
    from txlab.runs.scenario_errors import choices

    if key in NAMED:
        return [item.value for item in NAMED[key](None, "")]
    field = field_of(type(scenario), key)
    value: Any = scenario
    for part in key.split("."):
        value = getattr(value, part)
    if isinstance(value, bool):
        return ["true", "false"]
    return choices(field.annotation) or ([str(value)] if isinstance(value, int | float | str) else [])


def world_names(context: Context, incomplete: str) -> list[Item]:
    from txlab.engine.rl.worlds import worlds

    return [Item(name) for name in worlds()]


def formula_numbers(context: Context, incomplete: str) -> list[Item]:
    from txlab.experiments.formulas import content

    return [Item(number, formula.title) for number, formula in content()[0].items()]


# Settings whose values are names.
NAMED: dict[str, Completer] = {
    "data.tokenizer": tokenizers,
    "data.text": fixed("python-docs", "python-source"),
    "start.run": runs,
    "world.name": world_names,
}
# An option or a metavar → its completions.
COMPLETERS: dict[str, Completer] = {
    "SCENARIO": scenarios,
    "RUN": runs,
    "MODEL": runs,
    "NUMBER": formula_numbers,
    "PRESET": fixed(*PRESETS),
    "KEY=VALUE": settings,
    "--tokenizer": tokenizers,
    "--against": lambda context, incomplete: [*fixed("perfect", "random", "td")(context, ""), *runs(context, "")],
    "--device": fixed("auto", "cpu", "cuda", "mps"),
    "AREA": fixed("rl", "transformer", "tokenizers"),
    "FORMAT": fixed("csv", "tensorboard", "huggingface"),
    "GAME": fixed("tictactoe"),
    "SITE": fixed("encoder", "decoder", "cross"),
}

IN_BASH = os.environ.get("_TXLAB_COMPLETE") == "complete_bash"


def join_at_equals(environment: MutableMapping[str, str]) -> None:
    """Put together again what bash took apart: to it, KEY=VALUE is three words, of which the last is completed."""
    words, current = environment["COMP_WORDS"].split("\n"), int(environment["COMP_CWORD"])
    words += [""] * (current + 1 - len(words))
    joined: list[str] = []
    place = 0
    for number, word in enumerate(words):
        if joined and number > 1 and (word == "=" or (joined[-1].endswith("=") and words[number - 1] == "=")):
            joined[-1] += word
        else:
            joined.append(word)
        if number == current:
            place = len(joined) - 1
    environment["COMP_WORDS"], environment["COMP_CWORD"] = "\n".join(joined), str(place)
