"""What defines a family of models whose weights can be read and written: its shape, and the mapping of names.

One list of `WeightMap`s serves both directions, so that reading and writing cannot drift apart. Each maps a stored
tensor to rows of our parameter: our [W_Q; W_K; W_V] is one matrix; other formats have three, or one in another order,
or transposed (GPT-2's Conv1D stores (in, out), and a square one would load silently without the transpose). Every
number in a config.json is checked against bounds (`Config`); keys that would change the result but are not supported
here are listed with the only values allowed (`must_be`).

Notable: Hugging Face's rotary positions pair feature n of a head with n + r/2, ours 2n with 2n + 1 (Su et al. 2021,
eq. 34). A score is a sum over features, so the two differ only in the order of the rows of W_Q and W_K: `their_rows`.
The setting is `rope_parameters` since transformers 5, and was `rope_theta` and `rope_scaling` before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from txlab.engine.tokenizers.bases import MOST_TOKENS
from txlab.engine.tokenizers.json_files import format_value
from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.blocks import Activation
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.positions import Rotary
from txlab.errors import LabError, nearest

MOST_LAYERS = 1024
WIDEST = 1 << 17  # D and F; the largest models have 2^14 and 2^16
LONGEST = 1 << 20  # T, where positions are learnt and so stored in the file
LONGEST_COMPUTED = 1 << 14  # T, where positions are computed, so the file cannot confirm it

# Other libraries' names for our activations; quick_gelu, x σ(1.702 x), and others are not supported.
ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
}
# Our activations under the names of transformers.
NAMES_OF: dict[Activation, str] = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "swish": "silu"}


class Config:
    """The object in config.json; every getter raises LabError for a value out of bounds."""

    def __init__(self, content: Mapping[str, Any], file: str = "config.json") -> None:
        self.content, self.file = content, file

    def __contains__(self, key: str) -> bool:
        return self.content.get(key) is not None

    def checked_value(self, key: str, default: Any, allowed: Callable[[Any], bool], sentence: str) -> Any:
        """Return the value if it is allowed; null counts as absent, and None as a default means that it is required."""
        given = self.content.get(key)
        if given is None:
            if default is None:
                raise LabError(f"{self.file} has no {key}")
            return default
        if not allowed(given):
            raise LabError(f"{self.file} has {key} = {format_value(given)}; allowed: {sentence}")
        return given

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """Return an integer from low to high."""
        sentence = f"whole numbers from {low} to {high:,}"
        number: int = self.checked_value(
            key, default, lambda given: type(given) is int and low <= given <= high, sentence
        )
        return number

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """Return a number from low to high."""
        sentence = f"from {low:g} to {high:g}"
        return float(
            self.checked_value(key, default, lambda given: is_number(given) and low <= given <= high, sentence)
        )

    def share(self, key: str, default: float) -> float:
        """Return a dropout probability, in [0, 1)."""
        sentence = "from 0 to below 1"
        return float(self.checked_value(key, default, lambda given: is_number(given) and 0 <= given < 1, sentence))

    def epsilon(self, key: str, default: float) -> float:
        """Return ε of LayerNorm: below 1e-30 it is negligible compared with any variance in float32."""
        return self.number(key, 1e-30, 1, default)

    def flag(self, key: str, default: bool) -> bool:
        value: bool = self.checked_value(key, default, lambda given: isinstance(given, bool), "true, false")
        return value

    def activation(self, key: str, default: str) -> Activation:
        given = self.content.get(key)
        given = default if given is None else given
        if not isinstance(given, str) or given not in ACTIVATIONS:
            raise LabError(
                f"{self.file} has {key} = {format_value(given)}, which is not supported here"
                f"{nearest(str(given)[:40], ACTIVATIONS)}; allowed: {', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[given]

    def heads(self, key: str, width_key: str, width: int) -> int:
        heads = self.whole(key, 1, width)
        if width % heads:
            raise LabError(f"{self.file} has {key} = {heads}, which does not divide {width_key} = {width}")
        return heads

    def tokens(self, key: str, default: int | None = None) -> int:
        return self.whole(key, 1, MOST_TOKENS, default)

    def must_be(self, only: Mapping[str, Any]) -> None:
        """Raise LabError if a key has a value that would mean another model; absent and null are fine."""
        for key, wanted in only.items():
            given = self.content.get(key)
            if given is not None and (type(given) is not type(wanted) or given != wanted):
                raise LabError(
                    f"{self.file} has {key} = {format_value(given)}, which is not supported here; "
                    f"allowed: {str(wanted).lower() if isinstance(wanted, bool) else wanted}"
                )

    def token_id(self, key: str, vocabulary: int) -> int | None:
        """Return the id of a special token, the first if there are several; None if no token has it."""
        given = self.content.get(key)
        if isinstance(given, list) and given:
            given = given[0]
        if given is None:
            return None
        # GPT-2's config says 50256 whatever the vocabulary is, others say −1: useless but harmless.
        if type(given) is not int:
            raise LabError(f"{self.file} has {key} = {format_value(given)}; allowed: ids from 0 to {vocabulary - 1}")
        return given if 0 <= given < vocabulary else None


def is_number(given: Any) -> bool:
    return type(given) in (int, float)


# How the fields of our shapes are read, from (config, key, default); the heads must divide the width.
READERS: dict[str, Callable[[Config, str, Any], Any]] = {
    "layers": lambda config, key, default: config.whole(key, 1, MOST_LAYERS, default),
    "width": lambda config, key, default: config.whole(key, 1, WIDEST, default),
    "feed_forward": lambda config, key, default: config.whole(key, 1, WIDEST, default),
    "context": lambda config, key, default: config.whole(key, 1, LONGEST, default),
    "segments": lambda config, key, default: config.whole(key, 1, 1024, default),
    "vocabulary": Config.tokens,
    "activation": Config.activation,
    "dropout": Config.share,
    "epsilon": Config.epsilon,
    "tied": Config.flag,
}


def read_fields(config: Config, keys: Mapping[str, str], **defaults: Any) -> dict[str, Any]:
    """Read the fields of a shape from `keys`, key of config.json → field; a field without a default is required."""
    fields: dict[str, Any] = {}
    for key, ours in keys.items():
        if ours == "heads":
            width_key = next(key for key, ours in keys.items() if ours == "width")  # before the heads in every table
            fields[ours] = config.heads(key, width_key, fields["width"])
        else:
            fields[ours] = READERS[ours](config, key, defaults.get(ours))
    return fields


def format_fields(shape: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys of config.json that `keys` (key → field) names, with the values of a shape."""
    values = {key: getattr(shape, "inner" if ours == "feed_forward" else ours) for key, ours in keys.items()}
    return {key: NAMES_OF[value] if keys[key] == "activation" else value for key, value in values.items()}


Model = GPT | Bert | EncoderDecoder


@dataclass(frozen=True)
class WeightMap:
    """Maps the stored tensor `theirs` to our parameter `ours`, or to some of its rows.

    rows    for each stored row the index of ours; None = all, in order
    turned  the stored tensor is the transpose
    row     the stored tensor has a leading dimension of one: (1, V) for (V)
    stream  the dimensions of ours that are features of the residual stream (D), permuted if their order changes
    """

    theirs: str
    ours: str
    rows: Sequence[int] | None = None
    turned: bool = False
    row: bool = False
    stream: tuple[int, ...] = ()

    def cut(self, ours: Tensor) -> Tensor:
        """Slice the stored tensor out of our parameter."""
        part = ours if self.rows is None else ours[list(self.rows)]
        return part[None] if self.row else part.T if self.turned else part

    def shape(self, ours: Tensor) -> tuple[int, ...]:
        """Return the shape that the stored tensor must have."""
        shape = (len(ours if self.rows is None else self.rows), *ours.shape[1:])
        return (1, *shape) if self.row else shape[::-1] if self.turned else shape


def third(number: int, width: int) -> range:
    """Return the rows of W_Q (0), W_K (1) or W_V (2) in [W_Q; W_K; W_V] (3D, D)."""
    return range(number * width, (number + 1) * width)


def vocabulary_sizes(shape: Any) -> tuple[int, ...]:
    """Return the number of rows of the token table, or of the source's and the target's."""
    if hasattr(shape, "vocabulary"):
        return (shape.vocabulary,)
    return shape.source_vocabulary, shape.target_vocabulary


def only(family: str, *needs: tuple[str, object, object]) -> None:
    """Raise LabError for the first (what, given, needed) that differs: the format cannot represent it."""
    for what, given, needed in needs:
        if given != needed:
            raise LabError(f"{family}'s format does not support {what} = {given!r}; it requires {needed!r}")


@dataclass(frozen=True)
class Family:
    """One model_type of config.json.

    name       its common name
    kind       "gpt", "bert" or "encoder-decoder"
    describe   config → the shape of our model; LabError if it is not supported
    tell       shape → the keys of a config.json; LabError names what the format cannot represent
    build      shape → model
    canonical  a stored name → its name in a current checkpoint (old ones lack a prefix, or say gamma)
    pieces     shape → all required tensors
    copies     (stored name, our parameter) of tensors that a checkpoint may store twice; the copies must be equal
    settle     shape → shape, where config.json leaves something to the tensors: the second argument says of two names
               whether the first is missing or repeats the second
    repeated   shape → pieces that transformers expects a second time, under a second name
    optional   a pattern of names that a checkpoint may lack, all of them together: a head, or a bias
    without    the message about a checkpoint that lacks them
    harmless   patterns of names that can be ignored: buffers of masks and position numbers
    elsewhere  patterns of names of heads other than the one that predicts tokens
    caveat     config, shape → a sentence that the user should know about the model; "" = nothing
    """

    name: str
    kind: str
    describe: Callable[[Config], Any]
    tell: Callable[[Any], dict[str, Any]]
    build: Callable[[Any], Model]
    canonical: Callable[[str], str]
    pieces: Callable[[Any], Sequence[WeightMap]]
    copies: Callable[[Any], Sequence[tuple[str, str]]]
    settle: Callable[[Any, Callable[[str, str], bool]], Any] = lambda shape, repeats: shape
    repeated: Callable[[Any], Sequence[WeightMap]] = lambda shape: ()
    optional: str = ""
    without: str = ""
    harmless: Sequence[str] = ()
    elsewhere: Sequence[str] = ()
    caveat: Callable[[Config, Any], str] = lambda config, shape: ""
    # Keys of config.json that name a special token: our role → the key.
    special: dict[str, str] = field(default_factory=dict)


# "dynamic" changes the base only for texts longer than max_position_embeddings, which are not read here.
KINDS = ("default", "linear", "dynamic", "llama3")
SAID = {
    "rope_type", "type", "rope_theta", "factor", "partial_rotary_factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings",
}  # fmt: skip


def read_rotary(
    config: Config, head_width: int, partial: float = 1.0, old: tuple[str, str] = ("rope_theta", "")
) -> Rotary:
    """Read the rotary settings of a config; `partial` and the `old` keys (base and share) depend on the family."""
    given: Any = config.content.get("rope_scaling") or config.content.get("rope_parameters") or {}  # an empty one too
    if not isinstance(given, dict):
        raise LabError(f"config.json has rope_parameters = {format_value(given)}; allowed: an object")
    if more := sorted(set(given) - SAID):
        raise LabError(f"config.json has rope_parameters with {format_value(more[0])}, which is not supported here")
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in KINDS:
        near = nearest(kind[:40], KINDS) if isinstance(kind, str) else ""
        raise LabError(
            f"config.json has rope_type = {format_value(kind)}, which is not supported here{near}; "
            f"allowed: {', '.join(KINDS)}"
        )
    base_key, share_key = old
    settings = Config({base_key: config.content.get(base_key), share_key: config.content.get(share_key)} | given)
    base = settings.number("rope_theta", 1.0001, 1e12, settings.number(base_key, 1.0001, 1e12, 10_000.0))
    share = settings.number("partial_rotary_factor", 0.0, 1.0, settings.number(share_key, 0.0, 1.0, partial))
    width = int(head_width * share)
    if width < 2 or width % 2:
        raise LabError(f"config.json turns {width} of a head's {head_width} features; allowed: even numbers from 2")
    if kind == "llama3":
        slow, fast = settings.number("low_freq_factor", 1e-6, 1e6), settings.number("high_freq_factor", 1e-6, 1e6)
        if slow >= fast:
            raise LabError(f"config.json has low_freq_factor = {slow:g}; allowed: below high_freq_factor = {fast:g}")
        longest = config.whole("max_position_embeddings", 1, LONGEST)
        trained = settings.whole("original_max_position_embeddings", 1, LONGEST, longest)
        trained = config.whole("original_max_position_embeddings", 1, LONGEST, trained)  # takes precedence
        return Rotary(base, width, settings.number("factor", 1e-6, 1e6), slow, fast, trained)
    return Rotary(base, width, settings.number("factor", 1e-6, 1e6) if kind == "linear" else 1.0)


def tell_rotary(rotary: Rotary, head_width: int) -> dict[str, Any]:
    """Return the rope_parameters of a config."""
    width = rotary.width or head_width
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": rotary.base}
    if width < head_width:
        parameters["partial_rotary_factor"] = width / head_width
    if rotary.fast > rotary.slow:
        parameters |= {
            "rope_type": "llama3",
            "factor": rotary.stretch,
            "original_max_position_embeddings": rotary.trained,
        }
        parameters |= {"low_freq_factor": rotary.slow, "high_freq_factor": rotary.fast}
    elif rotary.stretch != 1:
        parameters |= {"rope_type": "linear", "factor": rotary.stretch}
    return parameters


def their_order(rotary: Rotary, head_width: int) -> list[int]:
    """Return the index of our feature for each feature of a head, in the stored order.

    >>> their_order(Rotary(width=4), 6)
    [0, 2, 1, 3, 4, 5]
    """
    width = rotary.width or head_width
    return [*range(0, width, 2), *range(1, width, 2), *range(width, head_width)]


def their_rows(heads: int, head_width: int, order: Sequence[int], start: int = 0) -> tuple[int, ...]:
    """Return rows of [W_Q; W_K; W_V] of `heads` heads from `start` on, in the stored order."""
    return tuple(start + head * head_width + feature for head in range(heads) for feature in order)
