"""Shared by the commands that run a model on a text: opening the model, reading the text, and writing the output.

Heads and layers are counted from 1, as on the screen (head 2.3 is the third of layer 2), positions and ids from 0. Text
is read as UTF-8, and escaped wherever it is written to a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txlab.cli.terminal import ascii_only, colour_text, columns, numeral, print_lines, sanitize
from txlab.cli.tokenize import read_bytes
from txlab.drawing.formatting import align_numbers
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.runs.models import OpenModel


def open_text_model(name: str, special: bool = False) -> OpenModel:
    """Open a model by name; raise LabError for one that does not read text.

    `special`: in the input, the texts of special tokens become these tokens.
    """
    from txlab.runs.models import open_model
    from txlab.runs.writing import set_thread_environment

    set_thread_environment()
    model = open_model(name)
    if model.kind == "vision":
        raise LabError(f"{model.title} reads pictures, not texts")
    return model.with_special() if special else model


def read_text(text: str | None, file: Path | None, needed: bool = True) -> str | None:
    """Return the argument, a file or standard input, which must be UTF-8; None if nothing is given or needed."""
    data = read_bytes(text, file, needed)
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        place = f"--file {str(file)!r}" if file is not None else "the text"
        raise LabError(f"{place} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from None


def about(model: OpenModel) -> dict[str, Any]:
    """Describe the model for JSON, with a note if it needs one."""
    description = {"name": model.name, "step": model.step, "kind": model.kind, "origin": str(model.origin)}
    return description | ({"note": model.note} if model.note else {})


def sizes(model: OpenModel) -> str:
    """ "gpt, 2 layers of 4 heads" """
    shape: Any = model.model.shape
    if model.kind == "encoder-decoder" and not hasattr(shape, "cell"):
        return f"encoder-decoder, {shape.encoder_layers} + {shape.decoder_layers} layers of {shape.heads} heads"
    layers = f"{shape.layers} layer{'s' * (shape.layers != 1)}"
    if hasattr(shape, "cell"):
        return f"{shape.cell}{' encoder-decoder' * (model.kind != 'recurrent')}, {layers} of {shape.width} units"
    return f"{model.kind}, {layers} of {shape.heads} heads"


def print_model(model: OpenModel) -> None:
    """Print the model in one quiet line at the end."""
    print(colour_text(sanitize(f"{model.title}: {sizes(model)}"), 90))
    if model.note:
        print(colour_text(sanitize(model.note), 90))


STYLES = {
    "question": "bold",
    "equation": "",
    "quiet": "dim",
    "heading": "bold",
    "name": "cyan",
    "value": "",
    "asked": "bold yellow",
    "wrong": "red",
}
"""How an explanation is printed, a style for each of `drawing.explanation.PARTS`."""


def print_explanation(explanation: Explanation) -> None:
    """Print the explanation of a number, as the console's `w` shows it."""
    from txlab.drawing.explanation import explanation_lines

    print_lines(explanation_lines(explanation, min(120, columns() - 1), STYLES, ascii_only()))


def token_label(text: str, cells: int = 0) -> str:
    """Format a token for the terminal: escaped, spaces marked, cut to `cells` cells (0 = whole)."""
    from txlab.drawing.text import cut, label, width

    shown = label(text, ascii_only())
    if cells and width(shown) > cells:
        return cut(shown, cells - 1) + ("~" if ascii_only() else "…")
    return shown


def bar(share: float, cells: int) -> str:
    """Draw a bar of share · `cells` cells."""
    from txlab.drawing.spark import bar

    return bar(share, cells, ascii_only())


def write_text(text: str) -> None:
    """Write a text without adding a line end: raw to a pipe, escaped line by line to a terminal."""
    from txlab.drawing.text import visible_lines

    if sys.stdout.isatty():
        text = "\n".join(visible_lines(text, ascii_only()))
    sys.stdout.write(text)
    sys.stdout.flush()


def shares(values: Sequence[float]) -> list[str]:
    """Format probabilities with aligned decimal points."""
    return align_numbers([numeral(value) for value in values])


# Exporting a model as a folder in another format: `txlab export RUN --format huggingface FOLDER`.


def export_model(name: str, folder: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer; raise LabError if the format cannot express the model."""
    from txlab.engine.transformer.weights import save_model

    model = open_text_model(name)
    tokenizer = model.tokenizer if has_form(model.tokenizer) else None
    target = model.target_tokenizer if has_form(model.target_tokenizer) else None
    notes = save_model(model.model, tokenizer, folder, target_tokenizer=target, special=roles(model), never=model.never)
    if tokenizer is None:
        notes = [*notes, "the tokenizer is left out: no file format can represent it"]
    print(sanitize(str(folder)))
    for note in notes:
        print(sanitize(note))


def has_form(tokenizer: Any) -> bool:
    """Whether a tokenizer has a file format; the symbols of a generated task follow from the task alone."""
    from txlab.engine.tokenizers.huggingface import ForeignTokenizer
    from txlab.engine.tokenizers.sentence_pieces import SentencePieceTokenizer
    from txlab.engine.tokenizers.word_pieces import WordPieceTokenizer
    from txlab.experiments.loaded_model import encode_tokenizer

    if tokenizer is None or isinstance(tokenizer, ForeignTokenizer | SentencePieceTokenizer | WordPieceTokenizer):
        return tokenizer is not None
    return encode_tokenizer(tokenizer) is not None


def roles(model: OpenModel) -> dict[str, int]:
    """Return the special tokens by their names in the folder's format."""
    special = model.special
    named = {"end": special.end, "pad": special.pad, "mask": special.mask}
    named["start" if model.kind == "encoder-decoder" else "begin"] = special.begin
    return {role: token for role, token in named.items() if token is not None}
