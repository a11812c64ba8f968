"""The paths in a scenario: what a person wrote from some folder, as what it means from every folder.

Notable: a relative path means the folder of the file that says it, or the folder one stands in when it comes from
`--set`. A saved tokenizer is written down as its file, so that a detached or resumed run finds it from elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel

from txlab.errors import LabError, nearest
from txlab.experiments.schema import Scenario, Start
from txlab.experiments.tokenizer_store import BUILT_IN, KINDS, files_by_name
from txlab.runs.scenario_errors import escaped, quoted

NAMED_TEXTS = ("python-docs", "python-source", "-")


def with_absolute_paths(scenario: Scenario, path: Path, said: Mapping[tuple[str, ...], str]) -> Scenario:
    """`data.text`, `data.tokenizer`, `start.run` and `world.file` as absolute paths that exist, unless they name what
    is no file.

    said  the keys that the command line set
    """
    start = getattr(scenario, "start", None)
    if isinstance(start, Start) and start.run.startswith((".", "/", "~")):
        base = Path.cwd() if ("start", "run") in said else path.resolve().parent
        found_run = existing(start.run, base) or start.run  # preparing it says what is wrong
        scenario = scenario.model_copy(update={"start": start.model_copy(update={"run": found_run})})
    world = getattr(scenario, "world", None)
    if isinstance(world, BaseModel) and (file := getattr(world, "file", "")):
        base = Path.cwd() if ("world", "file") in said else path.resolve().parent
        found_map = (existing(file, base) if "\0" not in file else None) or file  # reading it says what is wrong
        scenario = scenario.model_copy(update={"world": world.model_copy(update={"file": found_map})})
    data = getattr(scenario, "data", None)
    if not isinstance(data, BaseModel) or getattr(data, "source", "text") != "text":
        return scenario  # a generated task reads no file
    found: dict[str, object] = {}

    def meant(name: str, value: str, absolute: Callable[[str, Path, str], str], key: str) -> str:
        typed = ("data", name) in said
        place = f"--set data.{key}" if typed else f"{escaped(str(path))}: data.{key}"
        return absolute(value, Path.cwd() if typed else path.resolve().parent, f"{place} = {quoted(value)}")

    mixture = getattr(data, "mixture", None) or []
    for name, absolute in (("text", absolute_text), ("tokenizer", absolute_tokenizer)):
        value = getattr(data, name, None)
        if isinstance(value, str) and not (name == "text" and mixture):  # one that no mixture reads need not be there
            found[name] = meant(name, value, absolute, name)
    if mixture:
        found["mixture"] = [
            part.model_copy(update={"text": meant("mixture", part.text, absolute_text, f"mixture[{number}].text")})
            for number, part in enumerate(mixture)
        ]
    # What is as it was stays unsaid where it was: whoever fills in the rest asks which keys a person gave.
    found = {name: value for name, value in found.items() if value != getattr(data, name)}
    return scenario.model_copy(update={"data": data.model_copy(update=found)}) if found else scenario


def absolute_text(text: str, base: Path, said: str) -> str:
    """A corpus, `-`, or the absolute path of a file or folder; LabError begins with what was `said`."""
    if text in NAMED_TEXTS:
        return text
    allowed = "allowed: python-docs, python-source, a file, a folder, or -"
    if not text or "\0" in text:
        raise LabError(f"{said} is not a path; {allowed}")
    found = existing(text, base)
    if found is None:
        raise LabError(f"{said} is neither a corpus nor a file or folder{nearest(text, NAMED_TEXTS[:2])}; {allowed}")
    return found


def absolute_tokenizer(tokenizer: str, base: Path, said: str) -> str:
    """A kind, or the absolute path of a saved tokenizer or of a file; LabError begins with what was `said`."""
    always = dict.fromkeys([*KINDS, *BUILT_IN])
    if tokenizer in always:
        return tokenizer
    saved = files_by_name()
    given = str(saved[tokenizer].absolute()) if tokenizer in saved else tokenizer
    found = existing(given, base) if given and "\0" not in given else None
    if found is None:
        names = f" ({', '.join(map(escaped, saved))})" if saved else ""
        raise LabError(
            f"{said} is neither a kind of tokenizer, nor a saved one, nor a file"
            f"{escaped(nearest(tokenizer, [*always, *saved]))}; allowed: {', '.join(map(quoted, always))}, "
            f"a saved tokenizer{names}, or a file"
        )
    return found


def existing(given: str, base: Path) -> str | None:
    """The absolute path that is meant from `base`, if something is there."""
    expanded = Path(given).expanduser() if given.startswith("~/") else Path(given)
    found = os.path.abspath(base / expanded)  # noqa: PTH100 - keeps symbolic links as the person wrote them
    try:
        return found if Path(found).exists() else None
    except OSError:  # a name that is too long, a folder that may not be entered
        return None
