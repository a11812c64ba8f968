"""Models rebuilt from a checkpoint for inspection, and scenarios that start from such a model: settings they leave open
are taken from the model, settings they give must agree with it (MATH T12).

Loading needs neither the data nor the optimizer. A checkpoint carries its tokenizer (`encode_tokenizer`: some bytes per
token, against kilobytes of weights and moments), so it loads on a machine without the corpus. Notable: a key of a
scenario counts as given when the user set it (`model_fields_set`), not when it differs from its default, so that
"4 layers" can be insisted on although 4 is the default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import ValidationError

from txlab.errors import LabError, prefix_errors
from txlab.experiments.schema import Scenario
from txlab.experiments.tokenizer_store import KINDS, fingerprint, kind_of, tokenizer_named

if TYPE_CHECKING:
    from torch import Tensor, nn

    from txlab.engine.tokenizers.files import AnyTokenizer
    from txlab.engine.tokenizers.tokenizer import Tokenizer

S = TypeVar("S", bound=Scenario)
ModelKind = Literal["gpt", "bert", "encoder-decoder", "vision", "recurrent"]


@dataclass(frozen=True)
class Special:
    """Ids of special tokens; None = this model has none.

    begin         put before a text (BERT's [CLS]) or a target (the token a decoder starts with)
    end           put after a text (BERT's [SEP]) or a target
    ends          all tokens that end generated text, if there are several; empty = `end` alone
    mask          BERT's [MASK]
    between       put between the two texts of a pair, if the model reads pairs (BERT's [SEP], RoBERTa's </s></s>)
    source_begin, source_end   put around the source of an encoder–decoder
    around        what a folder's own tokenizer puts before and after a text, if specified; replaces all of the above
    names         how special ids are shown, including those that no tokenizer knows; of the text or source
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
        """The ids at which generation stops."""
        return self.ends or (() if self.end is None else (self.end,))


@dataclass(frozen=True)
class LoadedModel:
    """`model` in eval mode, on the CPU, float32; `tokenizer` of the text or source.

    example, example_target   a text like the model's training data, shown first on a screen; "" = none
    beside    models trained with it, by name (a reward model), for a run that starts from it
    """

    kind: ModelKind
    model: nn.Module
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None = None
    special: Special = field(default_factory=Special)
    example: str = ""
    example_target: str = ""
    beside: Mapping[str, Tensor] = field(default_factory=dict)


def encode_tokenizer(tokenizer: Tokenizer) -> str | None:
    """Return a tokenizer as text for a checkpoint; None if it follows from its scenario alone (symbols of a task)."""
    from txlab.engine.tokenizers.files import content_of
    from txlab.engine.tokenizers.huggingface import ForeignTokenizer

    if isinstance(tokenizer, ForeignTokenizer):
        return str(tokenizer.inner.to_str())
    try:
        return content_of(tokenizer).decode()
    except LabError:
        return None


def tokenizer_kept(kept: object) -> AnyTokenizer | None:
    """Return the tokenizer that `encode_tokenizer` wrote; None for None. LabError if it is not a tokenizer."""
    from txlab.engine.tokenizers.files import tokenizer_of_json

    if kept is None:
        return None
    try:
        content = json.loads(kept) if isinstance(kept, str) else kept
    except (ValueError, RecursionError):
        raise LabError("the tokenizer in the checkpoint is not valid JSON") from None
    with prefix_errors("the tokenizer in the checkpoint"):
        return tokenizer_of_json(content)


# Starting from a model


def adopt_shape(
    scenario: S,
    opened: LoadedModel,
    wanted: ModelKind,
    beside: int = 0,
) -> S:
    """Return the scenario with [model] filled in from `opened` and data.vocabulary set to that of its tokenizer.

    wanted    the kind of model that this kind of experiment trains
    beside    number of the model's ids that its tokenizer does not know (such as [MASK])

    LabError names the first disagreement. Dropout is not part of a shape, nor is the context if positions are computed
    rather than learnt.
    """
    untyped: Any = scenario
    where = f"start.run = {untyped.start.run!r}"
    if opened.kind != wanted:
        raise LabError(f"{where} is a model of the kind {opened.kind}; {scenario.kind} starts from one of {wanted}")
    shape: Any = opened.model.shape
    section = untyped.model
    theirs = {name: getattr(shape, name) for name in type(section).model_fields if hasattr(shape, name)}
    given = {name: getattr(section, name) for name in section.model_fields_set}
    theirs.pop("dropout", None)
    try:
        model = type(section).model_validate(theirs | given)
    except ValidationError as error:
        row = error.errors(include_url=False)[0]
        key = str(row["loc"][0]) if row["loc"] else "the shape"
        if key in given or not row["loc"]:
            raise LabError(f"{where} and [model] do not agree: {row['msg']}") from None
        raise LabError(f"{where} has {key} = {theirs.get(key)!r}, which no scenario can train: {row['msg']}") from None
    filled: S = scenario.model_copy(update={"model": model})
    ours = model.shape(shape.vocabulary)
    for name in differing(ours, shape, ("positions", "context")):
        here, there = getattr(ours, name), getattr(shape, name)
        if name in given:
            raise LabError(
                f"model.{name} = {here!r} does not agree with {where}, which has {there!r}; leave it out to take that"
            )
        raise LabError(f"{where} has {name} = {there!r}, which no scenario can train; ours have {here!r}")
    data = untyped.data
    if getattr(data, "source", "text") == "text":
        agreeing_tokenizer(data, opened, where)
    rows = shape.vocabulary - beside
    if opened.tokenizer.vocabulary != rows:
        raise LabError(
            f"{where} has {rows} rows for tokens, and its tokenizer {opened.tokenizer.vocabulary} tokens; a model is "
            "trained on where they agree"
        )
    if opened.tokenizer.vocabulary >= 2:
        filled = filled.model_copy(update={"data": data.model_copy(update={"vocabulary": opened.tokenizer.vocabulary})})
    return filled


def differing(ours: Any, theirs: Any, unless_computed: Iterable[str]) -> list[str]:
    """The fields that make two shapes differ in weights or function; F is compared by its computed value."""
    positions, context = unless_computed
    free = {"dropout", "feed_forward", "one_hot"}
    if getattr(theirs, positions, "learned") != "learned":
        free.add(context)
    names = [f.name for f in fields(theirs) if f.name not in free and getattr(ours, f.name) != getattr(theirs, f.name)]
    return names or (["feed_forward"] if ours.inner != theirs.inner else [])


def agreeing_tokenizer(data: Any, opened: LoadedModel, where: str) -> None:
    """Raise LabError if data.tokenizer was given and differs from the model's own, which is used in any case.

    A kind that is learnt from the text agrees with any tokenizer of that kind: a trained model cannot learn new tokens.
    """
    theirs = kind_of(opened.tokenizer)
    if encode_tokenizer(opened.tokenizer) is None:
        raise LabError(f"{where} reads symbols of a generated task, and cannot continue with a text")
    if "tokenizer" not in data.model_fields_set:
        return
    if data.tokenizer in KINDS:
        agrees = data.tokenizer == theirs
    else:
        agrees = fingerprint(tokenizer_named(data.tokenizer)) == fingerprint(opened.tokenizer)
    learnt = data.tokenizer == "bpe" and "vocabulary" in data.model_fields_set
    if agrees and learnt and data.vocabulary != opened.tokenizer.vocabulary:
        raise LabError(
            f"data.vocabulary = {data.vocabulary} does not agree with {where}, whose tokenizer has "
            f"{opened.tokenizer.vocabulary} tokens; leave it out to take those"
        )
    if not agrees:
        raise LabError(
            f"data.tokenizer = {data.tokenizer!r} is not the tokenizer of {where} ({theirs}, "
            f"{opened.tokenizer.vocabulary} tokens); leave it out to take that one"
        )
