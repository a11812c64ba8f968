"""Tab completion: scenarios, runs, models, presets, tokenizers, and the keys and values of `--set`.

A parameter is completed by its option's name or else by its metavar, so that a new command with a RUN needs no code
here. Other words are completed as file names by the shell. torch is never imported, and an invalid command line has no
completions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
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
    *("bert-base", "bert-large", "llama-7b", "llama-13b", "llama-33b", "llama-65b", "palm-540b", "lamda-137b"),
)


@dataclass(frozen=True)
class Item:
    """A completion, as typer's shells read it; zsh and fish show the help next to the value."""

    value: str
    help: str | None = None
    type: str = "plain"


Context = Any  # typer's class is not public
Completer = Callable[[Context, str], list[Item]]


def completions_of(metavar: str | None, options: Iterable[str], context: Context, incomplete: str) -> list[Item] | None:
    """Return the completions of a parameter; None = file names."""
    names = [name for name in (*options, metavar or "") if name in COMPLETERS]
    if not names:
        return None
    items: list[Item] = []
    with suppress(LabError, OSError):
        items = [item for item in COMPLETERS[names[0]](context, incomplete) if item.value.startswith(incomplete)]
    if "=" in incomplete and IN_BASH:
        items = [replace(item, value=item.value.partition("=")[2]) for item in items]
    return items


def scenarios(context: Context, incomplete: str) -> list[Item]:
    from txlab.runs.scenario import installed_scenarios

    return [Item(name) for name in installed_scenarios()]


def runs(context: Context, incomplete: str) -> list[Item]:
    """Runs by their labels, by their directories without the date (the newest of these), and in full."""
    from txlab.runs.folder import list_runs
    from txlab.runs.label import read_label

    paths = list_runs()
    short = (path.name.partition("_")[2].partition("_")[2] for path in paths)
    names = ["latest", *(read_label(path).name for path in paths), *short, *(path.name for path in paths)]
    return [Item(name) for name in dict.fromkeys(names) if len(name.split()) == 1]  # shells do not quote inserted words


def tokenizers(context: Context, incomplete: str) -> list[Item]:
    from txlab.experiments.tokenizer_store import BUILT_IN, names_of_saved

    return [Item(name) for name in (*BUILT_IN, *names_of_saved())]


def games(context: Context, incomplete: str) -> list[Item]:
    from txlab.engine.games.catalogue import games

    return [Item(name, entry.title) for name, entry in games().items()]


def players(context: Context, incomplete: str) -> list[Item]:
    """The players of the given game, else of all games, and the runs."""
    from txlab.cli.players import names_of
    from txlab.engine.games.catalogue import games as all_games

    known = all_games()
    words = [] if context is None else [context.params.get("game"), *context.args]  # as in `scenario_of`
    entries = [known[word] for word in words if word in known] or list(known.values())
    names = dict.fromkeys(name for entry in entries for name in names_of(entry))
    return [*map(Item, names), *runs(context, "")]


def complete_words(*words: str) -> Completer:
    return lambda context, incomplete: [Item(word) for word in words]


def settings(context: Context, incomplete: str) -> list[Item]:
    """Keys of the given scenario, or KEY=VALUE once the key is complete."""
    scenario = scenario_of(context)
    key, equals, _ = incomplete.partition("=")
    known = [each for each in keys_of(scenario) if not each[0].startswith("about.")]
    matching = [each for each in known if (each[0] == key if equals else each[0].startswith(key))]
    if len(matching) == 1:
        key, field, value = matching[0]
        return [Item(f"{key}={each}", field.description) for each in values_of(key, field, value)]
    return [Item(f"{key}=", field.description) for key, field, _ in matching]


def scenario_of(context: Context) -> Scenario:
    """Return the scenario given by the preceding words or by `--like RUN`. Raises LabError."""
    from txlab.runs.finding import find_run
    from txlab.runs.scenario import load_scenario

    if like := context.params.get("like"):
        return load_scenario(find_run(like) / "scenario.toml").scenario
    words = [context.params.get("scenario"), *context.args]  # an option without its value ends the parsing before it
    return load_scenario(next((word for word in words if word), "")).scenario


def keys_of(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, FieldInfo, Any]]:
    """Yield every dotted key of a scenario with its field and its value: train.steps, learners.sarsa.alpha."""
    from pydantic import BaseModel

    from txlab.runs.scenario import table_names
    from txlab.runs.scenario_errors import table_in_list

    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from keys_of(value, f"{prefix}{name}.")
            continue
        yield prefix + name, field, value
        if table_in_list(field.annotation):
            names = table_names([each.model_dump(exclude_unset=True) for each in value])
            for number, (called, entry) in enumerate(zip(names, value, strict=True)):
                plain = names.count(called) == 1 and not set(called) & set(" .=")
                yield from keys_of(entry, f"{prefix}{name}.{called if plain else number}.")


def values_of(key: str, field: FieldInfo, value: Any) -> list[str]:
    """Return the allowed values of a key if they can be listed, else its current value."""
    from txlab.runs.scenario_errors import choices

    first, _, rest = key.partition(".")
    named = NAMED.get(key) or NAMED.get(f"{first}.*.{rest.partition('.')[2]}")
    if named is not None:
        return [item.value for item in named(None, "")]
    if isinstance(value, bool):
        return ["true", "false"]
    return choices(field.annotation) or ([str(value)] if isinstance(value, int | float | str) else [])


def world_names(context: Context, incomplete: str) -> list[Item]:
    from txlab.engine.rl.worlds import worlds

    return [Item(name) for name in worlds()]


def steering_rules(context: Context, incomplete: str) -> list[Item]:
    from txlab.engine.rl.rules import rule_named, rule_names

    return [Item(name, rule.title) for name in rule_names() if (rule := rule_named(name)).steers]


def formula_numbers(context: Context, incomplete: str) -> list[Item]:
    from txlab.experiments.formulas.content import content

    return [Item(number, formula.title) for number, formula in content()[0].items()]


# Settings whose values are names; * is an entry of a list of tables.
NAMED: dict[str, Completer] = {
    "data.tokenizer": tokenizers,
    "data.text": complete_words("python-docs", "python-source"),
    "start.run": runs,
    "world.name": world_names,
    "learners.*.rule": steering_rules,
}
# An option or a metavar → its completions.
COMPLETERS: dict[str, Completer] = {
    "SCENARIO": scenarios,
    "RUN": runs,
    "MODEL": runs,
    "NUMBER": formula_numbers,
    "PRESET": complete_words(*PRESETS),
    "KEY=VALUE": settings,
    "--tokenizer": tokenizers,
    "PLAYER": players,
    "--device": complete_words("auto", "cpu", "cuda", "mps"),
    "AREA": complete_words("rl", "games", "transformer", "tokenizers", "rlhf", "plan"),
    "FORMAT": complete_words("csv", "tensorboard", "huggingface"),
    "GAME": games,
    "SITE": complete_words("encoder", "decoder", "cross"),
}

IN_BASH = os.environ.get("_TXLAB_COMPLETE") == "complete_bash"


def join_at_equals(environment: MutableMapping[str, str]) -> None:
    """Rejoin KEY=VALUE, which bash splits into three words, of which the last is completed."""
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
