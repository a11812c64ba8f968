"""`txlab export RUN --form huggingface FOLDER`: a model trained here, as a folder that `transformers` loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txlab.runs.models import OpenModel


def export_model(name: str, folder: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer; LabError names what that form cannot say."""
    from txlab.cli.models import opened
    from txlab.cli.terminal import shown
    from txlab.engine.transformer.weights import save_model

    model = opened(name)
    tokenizer = model.tokenizer if has_form(model.tokenizer) else None
    target = model.target_tokenizer if has_form(model.target_tokenizer) else None
    notes = save_model(model.model, tokenizer, folder, target_tokenizer=target, special=roles(model), never=model.never)
    if tokenizer is None:
        notes = [*notes, "the tokenizer is left out: it has no form that could be written"]
    print(shown(str(folder)))
    for note in notes:
        print(shown(note))


def has_form(tokenizer: Any) -> bool:
    """Whether there is a file for it; the symbols of a generated task follow from the task alone."""
    from txlab.engine.tokenizers.huggingface import ForeignTokenizer
    from txlab.engine.tokenizers.sentence_pieces import SentencePieceTokenizer
    from txlab.engine.tokenizers.word_pieces import WordPieceTokenizer
    from txlab.experiments.loaded_model import kept_tokenizer

    if tokenizer is None or isinstance(tokenizer, ForeignTokenizer | SentencePieceTokenizer | WordPieceTokenizer):
        return tokenizer is not None
    return kept_tokenizer(tokenizer) is not None


def roles(model: OpenModel) -> dict[str, int]:
    """Special tokens in the words of the folder's form."""
    special = model.special
    named = {"end": special.end, "pad": special.pad, "mask": special.mask}
    named["start" if model.kind == "encoder-decoder" else "begin"] = special.begin
    return {role: token for role, token in named.items() if token is not None}
