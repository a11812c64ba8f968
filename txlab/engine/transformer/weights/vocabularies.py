"""The tokenizer that lies in a model's folder, whatever form it has.

Notable: a folder without one, or with one that needs a library that is not there, still has a model to look into; then
there is a sentence in place of a tokenizer. A tokenizer that is there and broken is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.files import load_tokenizer


@dataclass(frozen=True)
class FolderTokenizers:
    """`source` reads texts, `target` the decoder's where it has its own; `missing` says why there is none."""

    source: Any = None
    target: Any = None
    special: dict[str, int] = field(default_factory=dict)
    missing: str = ""


def folder_tokenizers(folder: Path, kind: str) -> FolderTokenizers:
    """The tokenizers of a model's folder; LabError, without the folder's name, for a broken one."""
    if (folder / "tokenizer.json").exists() or (folder / "merges.txt").exists():
        return FolderTokenizers(load_tokenizer(folder))
    return FolderTokenizers(missing="the folder has no tokenizer")
