"""Loads a pretrained model from a local folder: headers are checked, then tensors are read one by one.

Everything is validated before memory is allocated: the config's numbers by themselves, then names, dtypes and shapes in
the headers against the model that the config describes (built on the meta device, without memory), then the size
against the available memory. Values are checked for NaN and infinities as they are read, and are in memory only once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from txlab.engine.tokenizers.json_files import format_value
from txlab.engine.transformer.encoder_decoder import EncoderDecoderShape
from txlab.engine.transformer.positions import rotary_angles, sinusoids
from txlab.engine.transformer.weights.bert import BERT, DISTILBERT, ROBERTA, ROBERTA_PRE
from txlab.engine.transformer.weights.families import Config, Family, Model, WeightMap, vocabulary_sizes
from txlab.engine.transformer.weights.generation_configs import UNSAID, Generation, read_generation
from txlab.engine.transformer.weights.gpt2 import GPT2
from txlab.engine.transformer.weights.llama import LLAMA, MISTRAL, QWEN2
from txlab.engine.transformer.weights.marian import MARIAN, PEGASUS
from txlab.engine.transformer.weights.neox import NEOX
from txlab.engine.transformer.weights.safetensors import (
    FLOATS,
    ModelFolder,
    TensorLocation,
    blocks,
    read_folder,
    read_tensor,
)
from txlab.engine.transformer.weights.tokenizers import FolderTokenizers, folder_tokenizers
from txlab.errors import LabError, nearest

FAMILIES: dict[str, Family] = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "gpt_neox": NEOX,
    "bert": BERT,
    "roberta": ROBERTA,
    "roberta-prelayernorm": ROBERTA_PRE,
    "distilbert": DISTILBERT,
    "marian": MARIAN,
    "pegasus": PEGASUS,
}
# The share of free memory to leave free: a model that just fits leaves nothing for its activations.
SPARED = 0.1
CONTAINER = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Loaded:
    """A loaded model, in eval mode.

    tokenizer         None if the folder has none or a library is missing: facts["tokenizer"] then says why
    target_tokenizer  the decoder's, if it differs
    kind              "gpt", "bert" or "encoder-decoder"
    special           "start", "begin", "end", "pad", "mask", "separator" → id, as far as the folder specifies them
    around            the tokens that the tokenizer puts before and after a text; None if not specified
    between           the tokens between two texts; None if not specified, or if pairs use a different template
    facts             model_type, family, architecture, parameters, stored ("F16"), files, left_out (names of tensors
                      that belong to other heads), head, tokenizer and around (sentences, where one is missing),
                      caveat
    generation        the generation settings in the folder; empty for BERT
    """

    model: Model
    tokenizer: Any
    target_tokenizer: Any
    kind: str
    special: dict[str, int] = field(default_factory=dict)
    around: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    generation: Generation = UNSAID
    between: tuple[int, ...] | None = None


def load_model(folder: Path | str, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> Loaded:
    """Load a folder with config.json, *.safetensors and optionally a tokenizer; LabError names the folder.

    `dtype`: float32, or float64 for comparisons; weights stored in 16 bits are widened.
    """
    if dtype not in (torch.float32, torch.float64):
        raise LabError(f"models are read in float32 or float64, not {dtype}")
    path = Path(folder)
    try:
        stored = read_folder(path)
        family = family_of(stored.config)
        config = Config(stored.config)
        places = {family.canonical(name): place for name, place in stored.places.items()}
        shape = family.settle(family.describe(config), partial(repeats, places))
        checked = check(stored, family, shape, dtype)
        tokenizers = folder_tokenizers(path, family.kind)
        vocabulary = vocabulary_sizes(shape)[-1]
        generation = UNSAID if family.kind == "bert" else read_generation(path, stored.config, vocabulary)
        special = tokenizers.special | special_tokens(family, config, vocabulary)
        special |= {role: token for role, token in generation.special.items() if role in family.special}
        if family.kind == "bert":  # the tokenizer names them; RoBERTa's config may have only defaults
            special |= tokenizers.special
        check_vocabulary(tokenizers, shape)
        model = fill(checked, family, shape, dtype)
    except LabError as error:
        raise LabError(f"model folder {str(path)!r}: {error}") from None
    except OSError as error:  # a folder without read permission
        raise LabError(f"model folder {str(path)!r}: it cannot be read: {error.strerror or error}") from None
    architectures = stored.config.get("architectures")
    facts: dict[str, Any] = {
        "model_type": stored.config["model_type"],
        "family": family.name,
        "architecture": str(architectures[0])[:80] if isinstance(architectures, list) and architectures else "",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "stored": ", ".join(sorted({checked.places[piece.theirs].dtype for piece in checked.pieces})),
        "files": stored.files,
        "left_out": checked.left_out,
    }
    if checked.absent:
        facts["head"] = family.without
    if sentence := family.caveat(config, shape):
        facts["caveat"] = sentence
    if tokenizers.missing:
        facts["tokenizer"] = tokenizers.missing
    placed = between = None
    if tokenizers.around is not None and tokenizers.source is not None:
        placed = tokenizers.around.before, tokenizers.around.behind
        between = tokenizers.around.between
        if tokenizers.around.unknown:
            facts["around"] = tokenizers.around.unknown
    return Loaded(
        model.to(device), tokenizers.source, tokenizers.target, family.kind, special, placed, facts, generation, between
    )


def family_of(config: Mapping[str, Any]) -> Family:
    given = config.get("model_type")
    if not isinstance(given, str) or given not in FAMILIES:
        near = nearest(given[:40], FAMILIES) if isinstance(given, str) else ""
        raise LabError(
            f"config.json has model_type = {format_value(given)}, an architecture that is not supported here{near}; "
            f"known: {', '.join(FAMILIES)}"
        )
    return FAMILIES[given]


def special_tokens(family: Family, config: Config, vocabulary: int) -> dict[str, int]:
    """Return role → id of the special tokens that config.json specifies."""
    ids = {ours: config.token_id(theirs, vocabulary) for ours, theirs in family.special.items()}
    return {role: token for role, token in ids.items() if token is not None}


def repeats(places: Mapping[str, TensorLocation], name: str, other: str) -> bool:
    """Whether a tensor is missing, or is bit for bit equal to another one."""
    if name not in places or other not in places:
        return name not in places
    one, two = places[name], places[other]
    if (one.dtype, one.shape) != (two.dtype, two.shape) or one.dtype not in FLOATS:
        return False
    return all(torch.equal(a, b) for (_, a), (_, b) in zip(blocks(one), blocks(two), strict=True))


def check_vocabulary(tokenizers: FolderTokenizers, shape: Any) -> None:
    """Raise LabError if a token has no row in the table; it would otherwise fail only when that token is used."""
    sizes = vocabulary_sizes(shape)
    for tokenizer, size in ((tokenizers.source, sizes[0]), (tokenizers.target or tokenizers.source, sizes[-1])):
        if tokenizer is not None and tokenizer.vocabulary > size:
            raise LabError(f"its tokenizer has {tokenizer.vocabulary:,} tokens, and the model knows {size:,}")
    if tokenizers.around is not None:
        for token in (*tokenizers.around.before, *(tokenizers.around.between or ()), *tokenizers.around.behind):
            if token >= sizes[0]:
                raise LabError(f"its tokenizer puts the token {token} around a text, and the model knows {sizes[0]:,}")


@dataclass(frozen=True)
class Checked:
    """The result of checking the headers: `places` by current names, the pieces that are present and those that a
    checkpoint may lack, copies of parameters, and what is left out."""

    places: dict[str, TensorLocation]
    pieces: Sequence[WeightMap]
    absent: Sequence[WeightMap]
    copies: Sequence[tuple[str, str]]
    left_out: list[str]


def check(folder: ModelFolder, family: Family, shape: Any, dtype: torch.dtype) -> Checked:
    """Check names, dtypes and shapes in the headers against the shape; LabError before anything is allocated."""
    places: dict[str, TensorLocation] = {}
    for name, place in folder.places.items():
        if family.canonical(name) in places:
            raise LabError(f"the tensor {format_value(name)} is there twice, under an old name and today's")
        places[family.canonical(name)] = place
    wanted = family.pieces(shape)
    absent = [piece for piece in wanted if family.optional and re.fullmatch(family.optional, piece.theirs)]
    if any(piece.theirs in places for piece in absent):
        absent = []
    lacking = {piece.theirs for piece in absent}
    pieces = [piece for piece in wanted if piece.theirs not in lacking]
    for piece in pieces:
        if piece.theirs not in places:
            raise LabError(f"the weights have no tensor {piece.theirs}, which config.json asks for")
    copies = [(theirs, ours) for theirs, ours in family.copies(shape) if theirs in places]
    known = {piece.theirs for piece in pieces} | {theirs for theirs, _ in copies}
    left_out: list[str] = []
    for name in sorted(set(places) - known):
        if any(re.fullmatch(pattern, name) for pattern in family.elsewhere):
            left_out.append(name)
        elif not any(re.fullmatch(pattern, name) for pattern in family.harmless):
            raise LabError(
                f"the weights have the tensor {format_value(name)}, which this {family.name} has no place for"
            )
    ours_of = tensors_by_name(
        build_unallocated(family, shape)
    )  # all tensors are present, so the size claimed by the config is real
    for theirs, needed in [
        *((piece.theirs, piece.shape(ours_of[piece.ours])) for piece in pieces),
        *((theirs, tuple(ours_of[ours].shape)) for theirs, ours in copies),
    ]:
        place = places[theirs]
        if place.dtype not in FLOATS:
            raise LabError(f"the tensor {theirs} is {place.dtype}; weights are {', '.join(FLOATS)}")
        if place.shape != needed:
            raise LabError(f"the tensor {theirs} has the shape {place.shape}; config.json says {needed}")
    size = sum(tensor.numel() for tensor in ours_of.values()) * dtype.itemsize
    free = memory_at_hand()
    if size > free * (1 - SPARED):
        raise LabError(f"the model needs {size / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free")
    return Checked(places, pieces, absent, copies, left_out)


def memory_at_hand() -> int:
    """Return the bytes available without swapping, respecting the limit of a container."""
    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):  # no such files elsewhere; "max" where there is no limit
        limit, used = (int((CONTAINER / name).read_text()) for name in ("memory.max", "memory.current"))
        counts = dict(line.split() for line in (CONTAINER / "memory.stat").read_text().splitlines())
        # The limit counts the reclaimable file cache as used.
        free = min(free, max(limit - used + int(counts.get("inactive_file", 0)), 0))
    return free


DRAWS = (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)


class Unfilled(TorchFunctionMode):
    """Skips random initialisation: on the meta device there is nothing to fill, yet torch spends 3 s on it."""

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        if call in DRAWS:
            return arguments[0] if arguments else keywords["tensor"]
        return call(*arguments, **(keywords or {}))


def build_unallocated(family: Family, shape: Any) -> Model:
    """Return the model with shapes but without memory."""
    with torch.device("meta"), Unfilled():
        return family.build(shape)


def tensors_by_name(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and computed buffers by name."""
    return dict(model.named_parameters()) | dict(model.named_buffers())


@torch.no_grad()
def fill(checked: Checked, family: Family, shape: Any, dtype: torch.dtype) -> Model:
    """Allocate the model and read every tensor into its place; LabError for values that are not finite."""
    model = build_unallocated(family, shape)
    try:
        for module in model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, nn.Parameter(torch.empty(parameter.shape, dtype=dtype)))
    except (RuntimeError, MemoryError):
        raise LabError("there is not enough memory for the model") from None
    compute_tables(model, shape, dtype)
    ours_of = tensors_by_name(model)
    for piece in checked.pieces:
        read_into(piece, checked.places[piece.theirs], ours_of[piece.ours])
    for piece in checked.absent:
        neutral(piece.ours, ours_of[piece.ours])
    for theirs, ours in checked.copies:
        compare(theirs, checked.places[theirs], ours, ours_of[ours])
    return model.eval()


def compute_tables(model: Model, shape: Any, dtype: torch.dtype) -> None:
    """Compute the position tables that no file stores: Marian's sinusoids, Llama's rotary angles."""
    if "position_table" in dict(model.named_buffers()):
        table = torch.empty(0)
        if isinstance(shape, EncoderDecoderShape):
            table = sinusoids(shape.context, shape.width, shape.half_sinusoids)
        elif shape.positions == "rotary":
            table = rotary_angles(shape.context, shape.head_width, shape.rotary, dtype)
        model.register_buffer("position_table", table.to(dtype), persistent=False)


def read_into(piece: WeightMap, place: TensorLocation, ours: Tensor) -> None:
    """Fill the piece's part of our parameter, a block of stored rows at a time."""
    into = ours[None] if piece.row else ours.T if piece.turned else ours
    for first, stored in blocks(place):
        rows = stored.to(into.dtype)
        # A NaN or an infinity survives any sum, so most blocks are checked in one pass.
        if not isfinite(float(rows.sum())) and not bool(rows.isfinite().all()):
            raise LabError(
                f"the tensor {piece.theirs} has {int((~rows.isfinite()).sum())} values that are not finite, "
                f"in rows {first} to {first + len(rows) - 1}"
            )
        there = slice(first, first + len(rows))
        into[there if piece.rows is None else list(piece.rows[there])] = rows


def neutral(name: str, ours: Tensor) -> None:
    """Fill in weights that a checkpoint lacks: W = I, γ = 1, b = 0."""
    if ours.dim() == 2:
        torch.nn.init.eye_(ours)
    else:
        ours.fill_(1.0 if name.endswith("weight") else 0.0)


def compare(theirs: str, place: TensorLocation, ours: str, value: Tensor) -> None:
    """Raise LabError if a tensor differs from the one that it must equal.

    Tied weights are equal bit for bit; sinusoids were rounded, in 16 bits to 3 digits.
    """
    given = read_tensor(place).to(value.dtype)
    close = 1e-3 if ours == "position_table" else 0.0
    if not bool(((given - value).abs() <= close).all()):
        what = "the sinusoids that Marian adds" if close else "those it is tied to"
        raise LabError(f"the tensor {theirs} differs from {what}, so this is another model than config.json says")
