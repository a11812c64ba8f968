"""Saves a model trained here as a folder that `transformers` loads: config.json, model.safetensors, tokenizer.

The folder is written under a temporary name and renamed, so it is complete or absent; an existing one is never written
into. If the format cannot represent the model, nothing is written and an error says why; if it cannot represent the
tokenizer, a sentence says so and our own lossless format is written. Missing biases are stored as zeros.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.weights.bert import BERT, DISTILBERT, ROBERTA, ROBERTA_PRE
from txlab.engine.transformer.weights.families import Family, Model, WeightMap, vocabulary_sizes
from txlab.engine.transformer.weights.generation_configs import GENERATION
from txlab.engine.transformer.weights.gpt2 import GPT2
from txlab.engine.transformer.weights.llama import LLAMA
from txlab.engine.transformer.weights.marian import MARIAN, NEVER, PEGASUS, in_halves
from txlab.engine.transformer.weights.neox import NEOX
from txlab.engine.transformer.weights.safetensors import CONFIG, DTYPES, WEIGHTS
from txlab.engine.transformer.weights.tokenizers import write_tokenizers
from txlab.errors import LabError, nearest
from txlab.files import folder_made_whole

FORMS = {
    "huggingface": "config.json, model.safetensors and the tokenizer's files, as transformers' from_pretrained reads"
}


def save_model(
    model: Model,
    tokenizer: Any,
    folder: Path | str,
    form: str = "huggingface",
    *,
    target_tokenizer: Any = None,
    special: Mapping[str, int] | None = None,
    never: Collection[int] = (),
) -> list[str]:
    """Write a new folder, complete or not at all; return sentences about what it does not preserve, usually none.

    `tokenizer` may be None. `special`: ids by role: "start" (the decoder's first token), "begin", "end", "pad",
    "mask". `never`: ids that must not be generated. LabError if the format cannot represent this model, or the folder
    already exists or is not writable.
    """
    if form not in FORMS:
        raise LabError(f"{form!r} is not a model format{nearest(form, FORMS)}; allowed: {', '.join(FORMS)}")
    family = family_of(model)
    config = special_ids(family, dict(special or {})) | family.tell(model.shape)
    rows = min(vocabulary_sizes(model.shape))
    for role, token in (special or {}).items():
        if not 0 <= token < rows:
            raise LabError(f"the special token {role} = {token} is not in every vocabulary; allowed: 0 … {rows - 1}")
    path = Path(folder)
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise LabError(f"{str(path)!r} is there already; an export needs a new or an empty folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        with folder_made_whole(path) as aside:
            config["dtype"] = str(next(model.parameters()).dtype).removeprefix("torch.")
            (aside / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
            if never:
                manner = special_ids(family, dict(special or {})) | {"suppress_tokens": sorted(never)}
                (aside / GENERATION).write_text(json.dumps(manner, indent=2) + "\n")
            write_tensors(aside / WEIGHTS, pieces_of(model, family), order_of(model))
            notes = write_tokenizers(aside, tokenizer, target_tokenizer, dict(special or {}))
    except BlockingIOError:
        raise LabError(f"{str(path)!r} is being written by another process") from None
    except OSError as error:
        raise LabError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
    except ValueError:  # a NUL in the name
        raise LabError(f"{str(path)!r} cannot be written: it is not a valid file name") from None
    return notes


def family_of(model: Model) -> Family:
    """Return the family whose format may represent this model; its `tell` decides whether it does."""
    if isinstance(model, GPT):
        if model.shape.positions != "rotary":
            return GPT2
        return LLAMA if model.shape.normalisation == "rms" or model.shape.gated else NEOX
    if isinstance(model, Bert):
        if model.shape.norm == "pre":
            return ROBERTA_PRE
        return ROBERTA if model.shape.padding is not None else BERT if model.shape.segments else DISTILBERT
    if isinstance(model, EncoderDecoder):
        return PEGASUS if model.shape.norm == "pre" else MARIAN
    raise LabError(f"a {type(model).__name__} cannot be saved for transformers; GPT, Bert and EncoderDecoder can")


def special_ids(family: Family, special: dict[str, int]) -> dict[str, int | None]:
    """Return the keys of config.json that name special tokens; null for missing ones.

    A decoder without a start token begins with `begin` or, as in Marian, with padding.
    """
    if family.kind == "encoder-decoder" and "start" not in special:
        for role in ("begin", "pad", "end"):
            if role in special:
                special = special | {"start": special[role]}
                break
    ids: dict[str, int | None] = {theirs: special.get(ours) for ours, theirs in family.special.items()}
    if "mask" not in special:
        ids.pop("mask_token_id", None)
    if family.kind == "encoder-decoder":
        ids["forced_eos_token_id"] = None  # otherwise transformers' default would end every text with token 0
    return ids


def pieces_of(model: Model, family: Family) -> list[tuple[WeightMap, Tensor]]:
    """Return all tensors of the file, each with the parameter that it is sliced from, or zeros if there is none."""
    ours_of: dict[str, Tensor] = {
        name: tensor.detach() for name, tensor in [*model.named_parameters(), *model.named_buffers()]
    }
    pieces = [*family.pieces(model.shape), *family.repeated(model.shape)]
    made = [(piece, ours_of[piece.ours] if piece.ours in ours_of else no_bias(piece, ours_of)) for piece in pieces]
    if family is not PEGASUS:
        return made
    rows = max(vocabulary_sizes(model.shape))
    return [(piece, widen(tensor, rows) if piece.ours in TABLES else tensor) for piece, tensor in made]


TABLES = ("embed_source.weight", "embed_target.weight", "unembed.weight", "unembed_bias")


def widen(table: Tensor, rows: int) -> Tensor:
    """Pad a table with zero rows for missing tokens; their bias prevents them from being generated."""
    more = torch.full((rows - len(table), *table.shape[1:]), NEVER if table.dim() == 1 else 0.0, dtype=table.dtype)
    return torch.cat((table.cpu(), more))


def no_bias(piece: WeightMap, ours_of: Mapping[str, Tensor]) -> Tensor:
    """Return zeros for a bias that the model does not have, one per row of its matrix or of the unembedding."""
    beside = "embed_target" if piece.ours == "unembed_bias" else piece.ours.removesuffix(".bias")
    weight = ours_of[f"{beside}.weight"]
    return torch.zeros(len(weight), dtype=weight.dtype)


def order_of(model: Model) -> list[int] | None:
    """Return the order of the residual stream's features in the format, if it differs from ours."""
    return in_halves(model.shape) if isinstance(model, EncoderDecoder) else None


def cut(piece: WeightMap, ours: Tensor, order: Sequence[int] | None) -> Tensor:
    """Return the tensor as the file stores it."""
    if order is not None:
        for dimension in piece.stream:
            ours = ours.index_select(dimension, torch.tensor(order, device=ours.device))
    return piece.cut(ours).contiguous().cpu()


def write_tensors(path: Path, pieces: Sequence[tuple[WeightMap, Tensor]], order: Sequence[int] | None) -> None:
    """Write a safetensors file tensor by tensor, so that only one is in memory in addition to the model."""
    codes = {dtype: code for code, dtype in DTYPES.items()}
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # without it transformers refuses the file
    end = 0
    for piece, ours in pieces:
        shape = piece.shape(ours)
        size = prod(shape) * ours.dtype.itemsize
        head[piece.theirs] = {"dtype": codes[ours.dtype], "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors begin at a multiple of 8
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for piece, ours in pieces:
            file.write(cut(piece, ours, order).flatten().view(torch.uint8).numpy().data)
