"""A model of others from a local folder: checked by its head, then read tensor by tensor into a model of ours.

Notable: everything that can be wrong is found before memory is taken: the config's numbers by themselves, then names,
kinds and shapes in the files' heads against the model that the config describes (built without memory, on the meta
device), then the size against the memory at hand. What is then read is checked for NaN and infinities, and lies in
memory once.
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

from txlab.engine.tokenizers.json_files import shown
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
# Of the free memory this much stays free: a model that just fits leaves nothing for its activations.
SPARED = 0.1
CONTAINER = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Loaded:
    """A model that was read, in eval mode.

    tokenizer         None where the folder has none or a library is missing: facts["tokenizer"] then says why
    target_tokenizer  the decoder's, where it has its own
    kind              "gpt", "bert" or "encoder-decoder"
    special           "start", "begin", "end", "pad", "mask", "separator" → id, as far as the folder says
    around            what the folder's tokenizer puts before and behind a text; None where it does not say
    between           and between two texts; None where it does not say, or treats two as something else than one
    facts             model_type, family, architecture, parameters, stored ("F16"), files, left_out (names of tensors
                      that belong to other heads), head, tokenizer and around (sentences, where one is missing),
                      caveat
    generation        how the folder says that the model is to write; of BERT nothing
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
    """Read a folder with config.json and *.safetensors, and the tokenizer beside them; LabError names the folder.

    `dtype`: float32, or float64 for comparisons; weights stored in 16 bits are widened.
    """
    if dtype not in (torch.float32, torch.float64):
        raise LabError(f"models are read in float32 or float64, not {dtype}")
    path = Path(folder)
    try:
        found = read_folder(path)
        family = family_of(found.config)
        config = Config(found.config)
        places = {family.canonical(name): place for name, place in found.places.items()}
        shape = family.settle(family.describe(config), partial(repeats, places))
        checked = check(found, family, shape, dtype)
        tokenizers = folder_tokenizers(path, family.kind)
        vocabulary = vocabulary_sizes(shape)[-1]
        generation = UNSAID if family.kind == "bert" else read_generation(path, found.config, vocabulary)
        special = tokenizers.special | special_tokens(family, config, vocabulary)
        special |= {role: token for role, token in generation.special.items() if role in family.special}
        if family.kind == "bert":  # its tokenizer's names say it; a config of RoBERTa may have its defaults alone
            special |= tokenizers.special
        check_vocabulary(tokenizers, shape)
        model = fill(checked, family, shape, dtype)
    except LabError as error:
        raise LabError(f"model folder {str(path)!r}: {error}") from None
    except OSError as error:  # a folder that may not be entered
        raise LabError(f"model folder {str(path)!r}: it cannot be read: {error.strerror or error}") from None
    architectures = found.config.get("architectures")
    facts: dict[str, Any] = {
        "model_type": found.config["model_type"],
        "family": family.name,
        "architecture": str(architectures[0])[:80] if isinstance(architectures, list) and architectures else "",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "stored": ", ".join(sorted({checked.places[piece.theirs].dtype for piece in checked.pieces})),
        "files": found.files,
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
            f"config.json has model_type = {shown(given)}, an architecture that is not known here{near}; "
            f"known: {', '.join(FAMILIES)}"
        )
    return FAMILIES[given]


def special_tokens(family: Family, config: Config, vocabulary: int) -> dict[str, int]:
    """Role → id, as far as config.json says."""
    found = {ours: config.token_id(theirs, vocabulary) for ours, theirs in family.special.items()}
    return {role: token for role, token in found.items() if token is not None}


def repeats(places: Mapping[str, TensorLocation], name: str, other: str) -> bool:
    """Whether a tensor is not there, or is the same as another one to the bit."""
    if name not in places or other not in places:
        return name not in places
    one, two = places[name], places[other]
    if (one.dtype, one.shape) != (two.dtype, two.shape) or one.dtype not in FLOATS:
        return False
    return all(torch.equal(a, b) for (_, a), (_, b) in zip(blocks(one), blocks(two), strict=True))


def check_vocabulary(tokenizers: FolderTokenizers, shape: Any) -> None:
    """A token without a row in the table would be found out only when somebody types it."""
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
    """What was found right by the heads alone: `places` by today's names, the pieces that are there and those that a
    checkpoint may lack, what repeats a parameter, and what is left out."""

    places: dict[str, TensorLocation]
    pieces: Sequence[WeightMap]
    absent: Sequence[WeightMap]
    copies: Sequence[tuple[str, str]]
    left_out: list[str]


def check(folder: ModelFolder, family: Family, shape: Any, dtype: torch.dtype) -> Checked:
    """Names, kinds and shapes in the heads against the shape; LabError before anything is allocated."""
    places: dict[str, TensorLocation] = {}
    for name, place in folder.places.items():
        if family.canonical(name) in places:
            raise LabError(f"the tensor {shown(name)} is there twice, under an old name and today's")
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
            raise LabError(f"the weights have the tensor {shown(name)}, which this {family.name} has no place for")
    ours_of = named(unallocated(family, shape))  # what is missing was found above, so its size is no invention
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
    """Bytes that can be taken without pushing anything out; in a container, of what it may have."""
    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):  # no such files elsewhere; "max" where there is no limit
        limit, used = (int((CONTAINER / name).read_text()) for name in ("memory.max", "memory.current"))
        counts = dict(line.split() for line in (CONTAINER / "memory.stat").read_text().splitlines())
        # What was read from files and can be forgotten counts as used there.
        free = min(free, max(limit - used + int(counts.get("inactive_file", 0)), 0))
    return free


DRAWS = (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)


class Unfilled(TorchFunctionMode):
    """No random numbers are drawn: without memory there is nothing to fill, and torch takes 3 s to find that out."""

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        if call in DRAWS:
            return arguments[0] if arguments else keywords["tensor"]
        return call(*arguments, **(keywords or {}))


def unallocated(family: Family, shape: Any) -> Model:
    """The model with shapes and without memory."""
    with torch.device("meta"), Unfilled():
        return family.build(shape)


def named(model: nn.Module) -> dict[str, Tensor]:
    """Parameters, and the buffers that are computed, by name."""
    return dict(model.named_parameters()) | dict(model.named_buffers())


@torch.no_grad()
def fill(checked: Checked, family: Family, shape: Any, dtype: torch.dtype) -> Model:
    """Allocate the model and read every tensor into its place; LabError for values that are not finite."""
    model = unallocated(family, shape)
    try:
        for module in model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, nn.Parameter(torch.empty(parameter.shape, dtype=dtype)))
    except (RuntimeError, MemoryError):
        raise LabError("there is not enough memory for the model") from None
    compute_tables(model, shape, dtype)
    ours_of = named(model)
    for piece in checked.pieces:
        read_into(piece, checked.places[piece.theirs], ours_of[piece.ours])
    for piece in checked.absent:
        neutral(piece.ours, ours_of[piece.ours])
    for theirs, ours in checked.copies:
        compare(theirs, checked.places[theirs], ours, ours_of[ours])
    return model.eval()


def compute_tables(model: Model, shape: Any, dtype: torch.dtype) -> None:
    """What no file has: GPT-2 and BERT learn their positions, Marian's are sinusoids, Llama's turn."""
    if "position_table" in dict(model.named_buffers()):
        table = torch.empty(0)
        if isinstance(shape, EncoderDecoderShape):
            table = sinusoids(shape.context, shape.width, shape.half_sinusoids)
        elif shape.positions == "rotary":
            table = rotary_angles(shape.context, shape.head_width, shape.rotary, dtype)
        model.register_buffer("position_table", table.to(dtype), persistent=False)


def read_into(piece: WeightMap, place: TensorLocation, ours: Tensor) -> None:
    """Fill the piece's part of our parameter, a block of rows of theirs at a time."""
    into = ours[None] if piece.row else ours.T if piece.turned else ours
    for first, stored in blocks(place):
        rows = stored.to(into.dtype)
        # A NaN or an infinity survives any sum, so most blocks are asked with one pass over them.
        if not isfinite(float(rows.sum())) and not bool(rows.isfinite().all()):
            raise LabError(
                f"the tensor {piece.theirs} has {int((~rows.isfinite()).sum())} values that are no finite numbers, "
                f"in rows {first} to {first + len(rows) - 1}"
            )
        there = slice(first, first + len(rows))
        into[there if piece.rows is None else list(piece.rows[there])] = rows


def neutral(name: str, ours: Tensor) -> None:
    """What stands in for weights that a checkpoint lacks: W = I, γ = 1, b = 0."""
    if ours.dim() == 2:
        torch.nn.init.eye_(ours)
    else:
        ours.fill_(1.0 if name.endswith("weight") else 0.0)


def compare(theirs: str, place: TensorLocation, ours: str, value: Tensor) -> None:
    """LabError where a tensor that must be the same as another one is not.

    Tied weights are the same to the bit; sinusoids were rounded, in 16 bits to 3 digits.
    """
    given = read_tensor(place).to(value.dtype)
    close = 1e-3 if ours == "position_table" else 0.0
    if not bool(((given - value).abs() <= close).all()):
        what = "the sinusoids that Marian adds" if close else "those it is tied to"
        raise LabError(f"the tensor {theirs} differs from {what}, so this is another model than config.json says")
