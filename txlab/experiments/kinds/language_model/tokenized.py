"""A corpus as tokens: a training share, a validation share that was never trained on, and windows of both (MATH K1).

Notable: the share is cut off the text before it is tokenised, and a tokenizer is learnt from the training share alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.huggingface import ForeignTokenizer
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.errors import LabError
from txlab.experiments.corpora import Corpus, Split

if TYPE_CHECKING:
    from txlab.experiments.kinds.language_model.schema import Look


@dataclass(frozen=True)
class TokenizedText:
    """`train` and `validation` (n) ids, packed; `boundary` as in Split."""

    corpus: Corpus
    boundary: str
    train: NDArray[Any]
    validation: NDArray[Any]
    train_bytes: int
    validation_bytes: int

    @classmethod
    def of(cls, corpus: Corpus, split: Split, tokenizer: Tokenizer, length: int, said: str) -> TokenizedText:
        """LabError, beginning with what was `said`, where a share is shorter than a window of `length` tokens."""
        train, validation = (
            packed(tokenizer.encode_long(text), tokenizer.vocabulary) for text in (split.train, split.validation)
        )
        for share, tokens in (("training", train), ("validation", validation)):
            if len(tokens) < length:
                raise LabError(
                    f"{said} is too short: its {share} share has {len(tokens)} tokens and "
                    f"model.context = {length - 1} needs at least {length}; give a longer text or a "
                    "smaller context"
                )
        return cls(
            corpus,
            split.boundary,
            train,
            validation,
            len(split.train.encode()),
            len(split.validation.encode()),
        )

    def facts(self) -> Mapping[str, Any]:
        return {
            "name": self.corpus.name,
            "fingerprint": self.corpus.fingerprint,
            "documents": len(self.corpus.documents),
            "left_out": self.corpus.left_out,
            "bytes": self.corpus.size,
            "train_bytes": self.train_bytes,
            "train_tokens": len(self.train),
            "validation_bytes": self.validation_bytes,
            "validation_tokens": len(self.validation),
            "validation_cut": self.boundary,
        }


def windows(tokens: NDArray[Any], starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """(n, length): the tokens from each start on."""
    found: NDArray[np.int64] = tokens[starts[:, None] + np.arange(length)].astype(np.int64)
    return found


def packed(ids: NDArray[np.uint32], vocabulary: int) -> NDArray[Any]:
    """Two bytes a token where they suffice."""
    return ids.astype(np.uint16) if vocabulary <= 1 << 16 else ids


def spread(length: int, context: int, batches: int, batch: int) -> NDArray[np.int64]:
    """Where the validation windows start: evenly over the text, and never so many that a token is scored twice.

    Whole batches, unless the text does not fill even one.

    >>> spread(100, 10, batches=3, batch=1).tolist()
    [0, 44, 89]
    """
    fitting = (length - 1) // context
    count = min(batches, fitting // batch) * batch or fitting
    return np.linspace(0, length - context - 1, count).astype(np.int64)


def bytes_a_token(tokenizer: Tokenizer, scored: NDArray[np.int64]) -> float:
    """Bytes of the text that these tokens make, a token; nan for a tokenizer that may drop cases or accents, whose
    text is not the bytes that were there."""
    if isinstance(tokenizer, ForeignTokenizer):
        return nan
    return len(tokenizer.decode_bytes(scored.flatten().tolist())) / scored.size


def probe_of(look: Look, tokenizer: Tokenizer, validation: str, most: int) -> list[int]:
    """The first `most` tokens of look.text, else of the validation text. LabError for fewer than two."""
    beginning = validation[: 64 * look.positions]  # enough: no token of the probe is that long on average
    return probe_from(look, tokenizer.encode(look.text or beginning), most)


def probe_from(look: Look, ids: list[int], most: int) -> list[int]:
    """As many of these as a frame shows. LabError for fewer than two."""
    probe = ids[: min(look.positions, most)]
    if len(probe) < 2:
        raise LabError(f"look.text = {look.text!r} has {len(probe)} token; a probe needs at least 2")
    return probe


def prompts_of(prompts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """Each prompt as ids; LabError for one without any."""
    found = [tokenizer.encode(prompt) for prompt in prompts]
    for prompt, ids in zip(prompts, found, strict=True):
        if not ids:
            raise LabError(f"sampling.prompts has {prompt!r}, which has no token to begin with")
    return found
