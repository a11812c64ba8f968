"""Texts as tokens, as windows, and as the batches of training steps (MATH K1–K3).

The validation share is split off before the text is tokenised, and a tokenizer is learnt from the training share alone.
A checkpoint carries its tokenizer, so that it loads without its corpus (see `loaded_model`). torch is imported inside
functions, because data is also used before anything is trained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.huggingface import ForeignTokenizer
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.errors import LabError
from txlab.experiments.corpora import Corpus, Split
from txlab.experiments.loaded_model import encode_tokenizer, tokenizer_kept
from txlab.experiments.protocol import State
from txlab.experiments.tokenizer_store import fingerprint, kind_of, tokenizer_for

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from txlab.experiments.kinds.language_model.schema import ProbeText

Tally: TypeAlias = "Mapping[str, tuple[float, int]]"  # name of a metric → (sum, how many it is the sum of)

NOT_SCORED = -100  # torch's cross_entropy ignores such targets


@dataclass(frozen=True)
class Batch:
    """`inputs` (B, T) int64; `targets` (B, T) int64, the token that follows each input, or −100 if not scored.

    weight  the weight of each of its targets in a validation loss over several batches
    source  the text of a mixture that it comes from; "" = there is only one
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    weight: float = 1.0
    source: str = ""


def as_batch(windows: NDArray[np.int64], scored: NDArray[np.bool_] | None = None) -> Batch:
    """(n, T + 1) tokens → inputs and the tokens that follow them; `scored` (n, T): which targets count."""
    import torch

    targets = windows[:, 1:] if scored is None else np.where(scored, windows[:, 1:], NOT_SCORED)
    return Batch(torch.from_numpy(windows[:, :-1].copy()), torch.from_numpy(np.ascontiguousarray(targets)))


class TextData(ABC):
    """The training data of a decoder or an encoder; every batch is a pure function of (seed, step).

    vocabulary             V
    tokenizer              turns a prompt into ids and back
    fingerprint            digest of the data; a checkpoint of other data is refused
    tokenizer_fingerprint  digest of the tokenizer; a checkpoint of another one is refused
    bytes_per_token        of the validation tokens; nan if tokens are not made of bytes
    probe                  ids of the text whose attention is shown
    prompts                ids of each prompt of the scenario, in its order
    """

    vocabulary: int
    tokenizer: Tokenizer
    fingerprint: str
    tokenizer_fingerprint: str
    bytes_per_token: float = nan
    probe: list[int]
    prompts: list[list[int]]

    @abstractmethod
    def train_batch(self, step: int) -> Batch: ...

    @abstractmethod
    def validation_batches(self) -> list[Batch]: ...

    @abstractmethod
    def facts(self) -> Mapping[str, Any]: ...

    def label(self, token: int) -> str:
        return self.tokenizer.label(token)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def tally(self, targets: Tensor, logits: Tensor) -> Tally:
        """Further metrics of validation sequences: name → (sum, count)."""
        return {}

    def progress(self, updates: int) -> Mapping[str, float]:
        """Metrics of the data after that many updates, e.g. epochs; a pure function, like the batches."""
        return {}


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
    def of(cls, corpus: Corpus, split: Split, tokenizer: Tokenizer, length: int, place: str) -> TokenizedText:
        """Tokenize both shares. LabError, beginning with `place`, if one is shorter than `length` tokens."""
        train, validation = (
            pack_ids(tokenizer.encode_long(text), tokenizer.vocabulary) for text in (split.train, split.validation)
        )
        for share, tokens in (("training", train), ("validation", validation)):
            if len(tokens) < length:
                raise LabError(
                    f"{place} is too short: its {share} share has {len(tokens)} tokens and "
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
    """(n, length): the tokens from each start onwards."""
    tokens_at: NDArray[np.int64] = tokens[starts[:, None] + np.arange(length)].astype(np.int64)
    return tokens_at


def pack_ids(ids: NDArray[np.uint32], vocabulary: int) -> NDArray[Any]:
    """The ids, with two bytes each if that is enough."""
    return ids.astype(np.uint16) if vocabulary <= 1 << 16 else ids


def spread(length: int, context: int, batches: int, batch: int) -> NDArray[np.int64]:
    """The starts of the validation windows: evenly spaced, and never so many that a token is scored twice.

    They fill whole batches, unless the text is too short for even one.

    >>> spread(100, 10, batches=3, batch=1).tolist()
    [0, 44, 89]
    """
    fitting = (length - 1) // context
    count = min(batches, fitting // batch) * batch or fitting
    return np.linspace(0, length - context - 1, count).astype(np.int64)


def bytes_a_token(tokenizer: Tokenizer, scored: NDArray[np.int64]) -> float:
    """Bytes of text per token; nan for a tokenizer that may drop case or accents, whose text differs from the
    original bytes."""
    if isinstance(tokenizer, ForeignTokenizer):
        return nan
    return len(tokenizer.decode_bytes(scored.flatten().tolist())) / scored.size


def probe_of(look: ProbeText, tokenizer: Tokenizer, validation: str, most: int) -> list[int]:
    """The first `most` tokens of look.text, else of the validation text. LabError if there are fewer than two."""
    beginning = validation[: 64 * look.positions]  # enough: tokens are not that long on average
    return probe_from(look, tokenizer.encode(look.text or beginning), most)


def probe_from(look: ProbeText, ids: list[int], most: int) -> list[int]:
    """As many ids as a frame shows. LabError if there are fewer than two."""
    probe = ids[: min(look.positions, most)]
    if len(probe) < 2:
        raise LabError(f"probe.text = {look.text!r} has {len(probe)} token; a probe needs at least 2")
    return probe


def prompts_of(prompts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """Each prompt as ids. LabError for an empty one."""
    encoded = [tokenizer.encode(prompt) for prompt in prompts]
    for prompt, ids in zip(prompts, encoded, strict=True):
        if not ids:
            raise LabError(f"sampling.prompts has {prompt!r}, which has no token to begin with")
    return encoded


def tokenizer_facts(tokenizer: Tokenizer, name: str, bytes_per_token: float, seconds: float) -> Mapping[str, Any]:
    """The facts of run.json about a tokenizer; `seconds` is the time taken to read the text."""
    return {
        "kind": kind_of(tokenizer),
        "name": name,
        "fingerprint": fingerprint(tokenizer),
        "vocabulary": tokenizer.vocabulary,
        "bytes_per_token": bytes_per_token if isfinite(bytes_per_token) else None,
        "seconds": seconds,
    }


# The text and the tokenizer of a checkpoint


def identity(data: TextData) -> State:
    """A checkpoint's record of its data."""
    return {
        "corpus": data.fingerprint,
        "tokenizer": data.tokenizer_fingerprint,
        "tokenizer_file": encode_tokenizer(data.tokenizer),
    }


def refuse_other(state: State, data: TextData, asked: Any) -> None:
    """LabError for a checkpoint of another corpus or tokenizer."""
    if state["corpus"] != data.fingerprint:
        raise LabError(
            f"data.text = {asked.text!r} is not the corpus that this run began with (fingerprint "
            f"{data.fingerprint[:12]}, the checkpoint has {state['corpus'][:12]}); put that text back, or "
            "start a new run"
        )
    if state.get("tokenizer", data.tokenizer_fingerprint) != data.tokenizer_fingerprint:
        raise LabError(
            f"data.tokenizer = {asked.tokenizer!r} is not the tokenizer that this run began with "
            f"(fingerprint {data.tokenizer_fingerprint[:12]}, the checkpoint has {state['tokenizer'][:12]}); "
            "put that one back, or start a new run"
        )


def tokenizer_of_state(state: State, asked: Any, training_text: Callable[[], str]) -> Tokenizer:
    """The tokenizer in the checkpoint, else the one named by its scenario."""
    kept = tokenizer_kept(state.get("tokenizer_file"))
    if kept is not None:
        return kept
    learnt = asked.tokenizer in ("characters", "words", "bpe")
    tokenizer = tokenizer_for(asked, training_text() if learnt else "")
    if state.get("tokenizer", fingerprint(tokenizer)) != fingerprint(tokenizer):
        raise LabError(
            f"data.tokenizer = {asked.tokenizer!r} is not the tokenizer that this run began with, and the "
            "checkpoint does not carry that one"
        )
    return tokenizer
