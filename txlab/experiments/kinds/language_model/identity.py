"""Which text and which tokenizer a checkpoint belongs to.

Notable: a checkpoint carries its tokenizer, so that it opens where its corpus is not (see `opened`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.errors import LabError
from txlab.experiments.kinds.language_model.trained_tokenizers import Asked, tokenizer_for
from txlab.experiments.loaded_model import kept_tokenizer, tokenizer_kept
from txlab.experiments.protocol import State
from txlab.experiments.tokenizer_store import fingerprint


class Named(Protocol):
    """Data that have names; see `data.Data`."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def tokenizer_fingerprint(self) -> str: ...

    @property
    def tokenizer(self) -> Tokenizer: ...


class AskedText(Asked, Protocol):
    """What [data] says of the text."""

    @property
    def text(self) -> str: ...


def identity(data: Named) -> State:
    """What a checkpoint says of its data."""
    return {
        "corpus": data.fingerprint,
        "tokenizer": data.tokenizer_fingerprint,
        "tokenizer_file": kept_tokenizer(data.tokenizer),
    }


def refuse_other(state: State, data: Named, asked: AskedText) -> None:
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


def tokenizer_of_state(state: State, asked: Asked, training_text: Callable[[], str]) -> Tokenizer:
    """The tokenizer that the checkpoint carries; one that carries none is given what its scenario names."""
    kept = tokenizer_kept(state.get("tokenizer_file"))
    if kept is not None:
        return kept
    learnt = asked.tokenizer in ("characters", "words", "bpe")
    found = tokenizer_for(asked, training_text() if learnt else "")
    if state.get("tokenizer", fingerprint(found)) != fingerprint(found):
        raise LabError(
            f"data.tokenizer = {asked.tokenizer!r} is not the tokenizer that this run began with, and the "
            "checkpoint does not carry that one"
        )
    return found
