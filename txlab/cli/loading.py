"""The scenario of a command, loaded and checked before anything is created."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from txlab.cli.terminal import sanitize
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.runs.scenario import LoadedScenario


def load_like(name: str, overrides: list[str], seed: int | None, device: str | None) -> LoadedScenario:
    """Load the resolved scenario of a run, changed by the command line, and describe it on stderr.

    Raises LabError for a run recorded by another program, and for a scenario that is missing or no longer readable.
    """
    import socket

    from txlab.runs.directory import RunDirectory, info_of
    from txlab.runs.finding import find_run
    from txlab.runs.process import pending_changes, rows_behind
    from txlab.runs.scenario import load_scenario
    from txlab.runs.writing import versions

    directory = find_run(name)
    info = info_of(RunDirectory(directory))
    if info.recorded:
        raise LabError(f"{directory.name} was recorded by another program; only that program can repeat it")
    file = directory / "scenario.toml"
    if not file.is_file():
        raise LabError(f"{directory.name} has no scenario.toml, so it cannot be repeated")
    try:
        load_scenario(file)
    except LabError as error:
        written = info.versions.get("txlab", "?")
        raise LabError(f"{directory.name}, of txlab {written}, cannot be repeated as it is: {error}") from None
    loaded = load_scenario(file, overrides, seed=seed, device=device)
    compute = loaded.scenario.compute
    settings = [f"{key} {value}" for key, value in compute.model_dump().items()]
    changed = [*overrides, *([f"seed={seed}"] if seed is not None else []), *([f"device={device}"] if device else [])]
    print(sanitize(f"like {directory.name}: seed {loaded.scenario.seed}, {', '.join(settings)}"), file=sys.stderr)
    if changed:
        print(sanitize(f"but for {', '.join(changed)}"), file=sys.stderr)
    here = versions() | {"host": socket.gethostname()}
    there = info.versions | {"host": info.host}
    other = [f"{key} {there[key]} there, {value} here" for key, value in here.items() if there.get(key, value) != value]
    if by_hand := len(pending_changes((), rows_behind(RunDirectory(directory), 0)[0])):
        other.append(f"{by_hand} change{'s' if by_hand > 1 else ''} by hand while it ran, which are not repeated")
    if compute.threads == 0:
        other.append("it had no resolved settings, which are now measured")
    if other:
        print(sanitize(f"so perhaps not bit for bit: {'; '.join(other)}"), file=sys.stderr)
    return loaded


def check_device(loaded: LoadedScenario) -> None:
    """Check that a requested device is available before anything is created."""
    device = loaded.scenario.compute.device
    if device not in ("auto", "cpu"):
        from txlab.runs.writing import set_thread_environment

        set_thread_environment()
        from txlab.engine.device import choose_device

        choose_device(device)


def check_data(loaded: LoadedScenario, detach: bool = False) -> None:
    """Check the user's text, map or tokenizer before anything is created.

    The errors of a detached process are not seen, so for it the text is also tokenized as in the run. Learning byte
    pairs would take long: for them the bytes are counted instead, since a text too short in bytes is too short in byte
    pairs.
    """
    from txlab.experiments.tokenizer_store import KINDS, tokenizer_named
    from txlab.runs.scenario import NAMED_TEXTS

    scenario: Any = loaded.scenario
    world: Any = getattr(scenario, "world", None)
    if getattr(world, "file", ""):
        from txlab.experiments.tabular.world import world_of_map

        world_of_map(world)
    data: Any = getattr(scenario, "data", None)
    text, tokenizer = getattr(data, "text", None), getattr(data, "tokenizer", None)
    if not isinstance(text, str) or not isinstance(tokenizer, str) or getattr(data, "source", "text") != "text":
        return
    if tokenizer not in KINDS:
        tokenizer_named(tokenizer)
    mixture = getattr(data, "mixture", None) or []
    if all(part in NAMED_TEXTS for part in ([each.text for each in mixture] or [text])):
        return
    if not detach:
        from txlab.experiments.corpora import load_corpus
        from txlab.experiments.kinds.language_model.data import read_parts

        read_parts(data) if mixture else load_corpus(text)
        return
    from txlab.experiments.kinds.language_model.data import build_data

    quick = data.model_copy(update={"tokenizer": "bytes"}) if tokenizer == "bpe" else data
    build_data(scenario.model_copy(update={"data": quick}))
