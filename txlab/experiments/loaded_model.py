"""A model made again from a checkpoint, to be read, asked and looked into: what every kind of experiment gives.

Notable: opening needs neither the data nor the optimizer. A checkpoint carries its tokenizer (`kept_tokenizer`: some
bytes a token, beside the kilobytes that a token has in weights and moments), so it opens where its corpus is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from txlab.errors import LabError

if TYPE_CHECKING:
    from torch import nn

    from txlab.engine.tokenizers.files import AnyTokenizer
    from txlab.engine.tokenizers.tokenizer import Tokenizer

ModelKind = Literal["gpt", "bert", "encoder-decoder", "vision"]


@dataclass(frozen=True)
class Special:
    """Ids with a meaning of their own; None = this model has none.

    begin         put before a text (BERT's [CLS]); before a target, what a decoder starts with
    end           put behind a text (BERT's [SEP]); of a target, what says that it is over
    ends          all that end what a model writes, where they are several; empty = `end` alone
    mask          BERT's [MASK]
    between       put between the two texts of a pair, where the model reads pairs (BERT's [SEP], RoBERTa's </s></s>)
    source_begin, source_end   put around the source of an encoder–decoder
    around        what a folder's own tokenizer puts before and behind a text, where it says so; in place of all these
    names         how special ids are shown, those that no tokenizer knows among them; of the text or source
    target_names  the same for the target of an encoder–decoder; empty = `names`
    """

    begin: int | None = None
    end: int | None = None
    mask: int | None = None
    pad: int | None = None
    between: tuple[int, ...] = ()
    source_begin: int | None = None
    source_end: int | None = None
    around: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    target_names: Mapping[int, str] = field(default_factory=dict)
    ends: tuple[int, ...] = ()

    @property
    def stops(self) -> tuple[int, ...]:
        """The ids at which writing stops."""
        return self.ends or (() if self.end is None else (self.end,))


@dataclass(frozen=True)
class Opened:
    """`model` in eval mode, on the CPU, float32; `tokenizer` of the text or source.

    example, example_target   a text that this model is at home with, for a screen to begin with; "" = none
    """

    kind: ModelKind
    model: nn.Module
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None = None
    special: Special = field(default_factory=Special)
    example: str = ""
    example_target: str = ""


def kept_tokenizer(tokenizer: Tokenizer) -> str | None:
    """A tokenizer as text for a checkpoint; None for one that follows from its scenario alone (symbols of a task)."""
    from txlab.engine.tokenizers.files import content_of
    from txlab.engine.tokenizers.huggingface import ForeignTokenizer

    if isinstance(tokenizer, ForeignTokenizer):
        return str(tokenizer.inner.to_str())
    try:
        return content_of(tokenizer).decode()
    except LabError:
        return None


def tokenizer_kept(kept: object) -> AnyTokenizer | None:
    """The tokenizer that `kept_tokenizer` wrote; None for None. LabError where that is none."""
    from txlab.engine.tokenizers.files import tokenizer_of_json

    if kept is None:
        return None
    try:
        content = json.loads(kept) if isinstance(kept, str) else kept
    except (ValueError, RecursionError):
        raise LabError("the tokenizer in the checkpoint is not valid JSON") from None
    try:
        return tokenizer_of_json(content)
    except LabError as error:
        raise LabError(f"the tokenizer in the checkpoint: {error}") from None
