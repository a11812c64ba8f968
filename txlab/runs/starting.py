"""Initial weights of a run: found, checked and copied when the run is prepared (MATH T12).

Weights and tokenizer are copied into the new run, so that it no longer needs the old one and can be resumed anywhere,
even after the old one was deleted. Its scenario.toml records which run and step they came from, and a digest of the
weights, which is checked when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txlab.errors import LabError, one_line, prefix_errors
from txlab.experiments.schema import Scenario, Start
from txlab.files import closing
from txlab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import torch

    from txlab.runs.models import OpenModel

WEIGHTS = "start.safetensors"
TOKENIZER = "start-tokenizer.json"


@dataclass(frozen=True)
class Found:
    """What a scenario starts from.

    scenario   with shape, run, step and fingerprint filled in
    weights    None if only the shape was requested
    tokenizer  as text, if it is stored in the run; data.tokenizer then names its file
    """

    scenario: Scenario
    weights: Mapping[str, torch.Tensor] | None
    tokenizer: str | None


def start_of(scenario: Scenario) -> Start:
    """The [start] table of a scenario; empty for a kind that has none."""
    start = getattr(scenario, "start", None)
    return start if isinstance(start, Start) else Start()  # type: ignore[call-arg]


def find_start(scenario: Scenario, root: Path | None = None) -> Found | None:
    """Find the weights named by `start.run` and fit the scenario to them; None if it is empty.

    Raises LabError, one sentence, if there is no such run, it has no checkpoint or another kind of model, or its shape
    or tokenizer does not agree.
    """
    from txlab.experiments.kind import kind_named
    from txlab.experiments.loaded_model import LoadedModel, encode_tokenizer
    from txlab.experiments.tokenizer_store import kind_of

    start = start_of(scenario)
    if not start.run:
        return None
    model = open_start(start, root)
    if start.fingerprint and start.fingerprint != model.fingerprint:
        raise LabError(
            f"start.run = {start.run!r} has other weights now (fingerprint {model.fingerprint[:12]}) than start."
            f"fingerprint says ({start.fingerprint[:12]}); leave that key out to start from the present ones"
        )
    opened = LoadedModel(
        model.kind, model.model, model.tokenizer, model.target_tokenizer, model.special, beside=model.beside
    )
    adopted = kind_named(scenario.kind).adopt(scenario, opened)
    changes: dict[str, Any] = {
        "start": start.model_copy(
            update={"run": str(model.origin), "step": model.step or 0, "fingerprint": model.fingerprint}
        )
    }
    kept = None
    data = getattr(adopted, "data", None)
    if data is not None and getattr(data, "source", "text") == "text" and hasattr(data, "tokenizer"):
        if kind_of(model.tokenizer) == "bytes":
            changes["data"] = data.model_copy(update={"tokenizer": "bytes"})
        else:
            kept = encode_tokenizer(model.tokenizer)
            changes["data"] = data.model_copy(update={"tokenizer": TOKENIZER})
    weights = {name: tensor.detach().clone() for name, tensor in model.weights.items()}
    return Found(adopted.model_copy(update=changes), weights if start.weights else None, kept)


def open_start(start: Start, root: Path | None) -> OpenModel:
    """The model that [start] names."""
    from txlab.runs.models import find_model, open_model
    from txlab.runs.root import default_root
    from txlab.runs.scenario import shipped_scenarios

    place = f"start.run = {start.run!r}"
    try:
        find_model(start.run, root)
    except LabError as error:
        if start.run not in shipped_scenarios():
            raise LabError(f"{place}: {error}") from None
        where = Path(root or default_root()).absolute()
        raise LabError(f"{place}: no run of it is in {where} yet; first run it: txlab run {start.run}") from None
    with prefix_errors(place):
        model = open_model(start.run, root, start.step or None)
    if start.step and model.step != start.step:
        there = ", ".join(map(str, model.steps)) or "none; it is not a run"
        raise LabError(f"start.step = {start.step} is not a checkpoint of {model.name}; there are: {there}")
    return model


def describe_start(start: Start) -> str:
    """ "2026-11-20_143012_gpt-docs@1800" """
    return Path(start.run).name + (f"@{start.step}" if start.step else "")


def write_start(run: RunDirectory, model: Found) -> None:
    """Write weights and tokenizer into the new run. Raises OSError."""
    if model.tokenizer is not None:
        run.write(TOKENIZER, model.tokenizer.encode(), durable=True)
    if model.weights is not None:
        from safetensors.torch import save

        # Names that share memory (a tied table) would be refused, so each is stored separately.
        tensors = {name: tensor.contiguous() for name, tensor in model.weights.items()}
        run.write(WEIGHTS, save(tensors), durable=True)


def read_start(run: RunDirectory, scenario: Scenario) -> dict[str, torch.Tensor] | None:
    """The initial weights of a run; None for random ones. LabError if they are missing or damaged."""
    start = start_of(scenario)
    if not start.run or not start.weights:
        return None
    from txlab.runs.models import digest_of
    from txlab.runs.tensor_files import load_tensors

    path = run.path / WEIGHTS
    try:
        with run.folder() as top, closing(top.open(WEIGHTS)) as descriptor:
            weights = load_tensors(descriptor, None, as_torch=True)
    except Exception as error:  # damage may raise anything
        missing = isinstance(error, FileNotFoundError)
        reason = "it is not there" if missing else f"{type(error).__name__}: {one_line(error)[:200]}"
        raise LabError(f"{path}, the weights that this run begins with, cannot be read: {reason}") from None
    if digest_of(weights) != start.fingerprint:
        raise LabError(f"{path} does not hold the weights that start.fingerprint in {run.scenario_file} names")
    return weights


def portable(scenario: Scenario, run: RunDirectory) -> Scenario:
    """The scenario as written into its run: a tokenizer inside the run is named by a relative path, as the run may be
    moved."""
    data = getattr(scenario, "data", None)
    if getattr(data, "tokenizer", None) != str(run.path / TOKENIZER):
        return scenario
    return scenario.model_copy(update={"data": data.model_copy(update={"tokenizer": TOKENIZER})})  # type: ignore[union-attr]
