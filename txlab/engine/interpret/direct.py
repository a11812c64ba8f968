"""Direct effects: what each head, neuron and branch adds to a logit directly, not through others (MATH T5, T6, T9).

The stream is a sum, and a norm with its scale σ held fixed is a linear map; so a logit is exactly a sum over the
embedding, every head, every feed-forward and the biases. With post-LN, what a branch adds passes through all later
norms, each with its σ fixed, and the sum is exact as well. A fixed σ hides that a growing part makes all others count
less. Effects of heads on one another are not included: to see those, switch a head off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from txlab.engine.interpret.effects import check_position
from txlab.engine.interpret.interventions import Erratum, Intervention, intervening
from txlab.engine.interpret.sites import Model, ResidualStream, Text, run, stream_of, unembedding
from txlab.engine.transformer.blocks import Block
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.hooks import keeping, together
from txlab.engine.transformer.norms import Norm
from txlab.engine.transformer.variants import NORMS
from txlab.errors import LabError

PLACES = ("attention.heads", "attention.out", "cross.heads", "cross.out", "feed_forward.out")
SUMS = ("resid_pre", "resid_mid", "resid_cross", "resid_post")


@dataclass(frozen=True)
class LogitTerm:
    """One term of a logit.

    kind   "embedding", "head", "bias" (of an attention's output map), "feed_forward", "shift" (all β of the norms on
           the way), "output" (the unembedding's bias), "put in" (what interventions added to the stream)
    given  the vector of the part: α V (K) for a head, otherwise what it adds to the stream (D)
    reads  the direction along which the logit reads it, of the same width: value = reads · given
    """

    kind: str
    value: float
    site: str = ""
    layer: int | None = None
    head: int | None = None
    reads: Tensor | None = field(default=None, repr=False, compare=False)
    given: Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name to display: "cross head 2.3", "feed-forward 2", "embedding"."""
        number = 0 if self.layer is None else self.layer + 1
        before = "" if self.site in ("", "self", "decoder") else f"{self.site} "
        if self.kind == "head":
            return f"{before}head {number}.{0 if self.head is None else self.head + 1}"
        named = {
            "bias": f"bias of {before}attention {number}",
            "feed_forward": f"feed-forward {number}",
            "shift": "shifts of the norms",
            "output": "bias of the token",
            "put in": "put in by hand",
        }
        return named.get(self.kind, self.kind)


@dataclass(frozen=True)
class DirectEffects:
    """A logit, or the difference of two, as a sum.

    parts      its terms, in the order of the model; they sum to `logit`
    logit      z[token], or z[token] − z[against]
    direction  for each branch, "decoder.blocks.2.cross.out" → (D): a vector added there adds its dot product with this
               to the logit
    scales     σ of each norm on the way, in order
    """

    token: int
    against: int | None
    position: int
    parts: tuple[LogitTerm, ...]
    logit: float
    direction: dict[str, Tensor]
    scales: tuple[float, ...]

    def largest(self, most: int = 10) -> list[LogitTerm]:
        """Return the parts with the largest |value|."""
        return sorted(self.parts, key=lambda part: -abs(part.value))[:most]


@torch.no_grad()
def direct_effects(
    model: Model,
    text: Text,
    token: int,
    against: int | None = None,
    position: int = -1,
    interventions: Iterable[Intervention] = (),
    second: Text | None = None,
) -> DirectEffects:
    """Split z = Σ parts: what each part of the stream at `position` adds to the logit of `token` (minus `against`'s).

    With w = Γ C u / σ, where u is the token's row of W_U, C subtracts the mean (C = I for RMSNorm) and Γ = diag γ, a
    part c of the stream adds w · c; the norm's shift adds u · β. In float64. Elhage et al. 2021, "Residual stream as
    output accumulation".
    LabError if a logit is not such a sum: BERT's head, and errata that change the norms or the stream.
    """
    return _effects(model, text, (token, against, position), tuple(interventions), second)[0]


def _effects(
    model: Model,
    text: Text,
    asked: tuple[int, int | None, int],
    given: tuple[Intervention, ...],
    second: Text | None,
    layer: int | None = None,
) -> tuple[DirectEffects, Tensor, Tensor]:
    """Return the parts of a logit and, for one layer if given, each neuron's activation and effect: (F) twice."""
    token, against, position = asked
    stream = stream_of(model)
    reader = _reader(model, given, (token, against))
    check_position(text, position)
    wanted = [stream.at(each, place) for each in range(len(stream.blocks)) for place in PLACES + SUMS]
    if layer is not None:
        wanted.append(stream.at(layer, "feed_forward.neurons"))
    keep, kept = keeping(stream.embedding, *wanted)
    with intervening(model, text, given, second) as hooks:
        logits = run(model, text, together(hooks, keep))[position].double()
        seen = {place: value[..., position, :][0].double() for place, value in kept.items()}  # (D), heads: (H, K)
        effects = _sum(model, stream, seen, reader, logits, asked, bool(given))
        if layer is None:
            return effects, torch.empty(0), torch.empty(0)
        feed_forward = stream.blocks[layer].feed_forward
        assert feed_forward is not None  # `neurons` has refused the others
        reads = effects.direction[stream.at(layer, "feed_forward.out")] @ feed_forward.down_proj.weight.double()
        active = seen[stream.at(layer, "feed_forward.neurons")]
        return effects, active, active * reads


def _reader(
    model: Model, given: Sequence[Intervention], tokens: tuple[int, int | None]
) -> tuple[Tensor, Tensor | None]:
    """Return W_U and its bias; LabError if a logit is not a linear map of the stream."""
    table_and_bias = unembedding(model)
    if table_and_bias is None:
        raise LabError(
            "BERT's head has an activation and a norm between the stream and the logits, so what a part of the stream "
            "adds to a logit by itself is not defined; switch the part off and look at the effect instead"
        )
    for wish in given:
        if isinstance(wish, Erratum) and wish.name in NORMS:
            raise LabError(
                f"direct effects hold the norms' scales, and {wish.name} has other norms: switch it off first"
            )
        if isinstance(wish, Erratum) and wish.name == "dropped-residual":
            raise LabError(
                "direct effects are what the parts add to the stream, and dropped-residual takes what heads add out "
                "of it: switch it off first"
            )
    for token in tokens:
        if token is not None and not 0 <= token < len(table_and_bias[0]):
            raise LabError(f"there is no token {token}; allowed: 0 to {len(table_and_bias[0]) - 1}")
    return table_and_bias


def _sum(
    model: Model,
    stream: ResidualStream,
    seen: dict[str, Tensor],
    reader: tuple[Tensor, Tensor | None],
    logits: Tensor,
    asked: tuple[int, int | None, int],
    reached_into: bool,
) -> DirectEffects:
    token, against, position = asked
    weight, bias = reader
    w = weight[token].double() if against is None else weight[token].double() - weight[against].double()  # u
    logit = float(logits[token] if against is None else logits[token] - logits[against])
    scales: list[float] = []
    shift = 0.0
    direction: dict[str, Tensor] = {}

    def through(norm: Norm, x: Tensor) -> None:
        """Pull w back through one norm, so that it reads the norm's input, and count the norm's β."""
        nonlocal w, shift
        if norm.bias is not None:
            shift += float(w @ norm.bias.double())
        scales.insert(0, float(norm.scale(x)))
        w = norm.before(w) / scales[0]

    if stream.final_norm is not None:
        through(stream.final_norm, seen[stream.at(len(stream.blocks) - 1, "resid_post")])
    terms: list[LogitTerm] = []
    for layer in reversed(range(len(stream.blocks))):
        block = stream.blocks[layer]
        for branch, norm, before in reversed(_branches(block)):
            place = stream.at(layer, f"{branch}.out")
            if norm is not None:
                into = seen[stream.at(layer, before)] + seen[place]
                if block.order == "parallel":  # one norm over both branches
                    into = into + seen[stream.at(layer, "attention.out")]
                through(norm, into)
            direction[place] = w
            terms[:0] = _terms(model, stream, seen, w, layer, branch)
    terms.insert(0, _product("embedding", w, seen[stream.embedding]))
    if stream.final_norm is not None or scales:
        terms.append(LogitTerm("shift", shift))
    if bias is not None:
        terms.append(LogitTerm("output", float(bias[token] if against is None else bias[token] - bias[against])))
    if reached_into:
        terms.append(LogitTerm("put in", logit - sum(part.value for part in terms)))
    return DirectEffects(token, against, position, tuple(terms), logit, direction, tuple(scales))


def _branches(block: Block) -> list[tuple[str, Norm | None, str]]:
    """Return the branches of a block in order: name, the norm after its sum (post-LN), and where that sum began."""
    post = block.norm == "post"
    if block.order == "parallel":
        # There is one norm over both branches; going backwards it comes before the last branch.
        return [("attention", None, "resid_pre"), ("feed_forward", block.attention_norm if post else None, "resid_pre")]
    branches = [("attention", block.attention_norm if post else None, "resid_pre")]
    if block.feed_forward is None:
        return branches
    if block.cross is not None:
        branches.append(("cross", block.cross_norm if post else None, "resid_mid"))
    before = "resid_cross" if block.cross is not None else "resid_mid"
    return [*branches, ("feed_forward", block.feed_forward_norm if post else None, before)]


def _terms(
    model: Model, stream: ResidualStream, seen: dict[str, Tensor], w: Tensor, layer: int, branch: str
) -> list[LogitTerm]:
    """Return what one branch adds, split into heads and bias if it is attention."""
    block = stream.blocks[layer]
    if branch == "feed_forward":
        return [_product("feed_forward", w, seen[stream.at(layer, "feed_forward.out")], layer=layer)]
    module = block.attention if branch == "attention" else block.cross
    assert module is not None
    site = ("cross" if branch == "cross" else "decoder") if isinstance(model, EncoderDecoder) else "self"
    reads = (w @ module.out_proj.weight.double()).view(module.heads, -1)  # (H, K): W_Oᵀ w, head by head
    mixed = seen[stream.at(layer, f"{branch}.heads")]  # (H, K)
    parts = [_product("head", reads[head], mixed[head], site, layer, head) for head in range(module.heads)]
    if module.out_proj.bias is not None:
        parts.append(_product("bias", w, module.out_proj.bias.double(), site, layer))
    return parts


def _product(
    kind: str, reads: Tensor, given: Tensor, site: str = "", layer: int | None = None, head: int | None = None
) -> LogitTerm:
    return LogitTerm(kind, float(reads @ given), site, layer, head, reads, given.detach())


@dataclass(frozen=True)
class Neurons:
    """The neurons of one feed-forward at a position: activations nⱼ (F) and effects nⱼ (W₂ᵀ w)ⱼ (F)."""

    layer: int
    direct: DirectEffects
    activations: Tensor
    effects: Tensor


@torch.no_grad()
def neurons(
    model: Model,
    text: Text,
    layer: int,
    token: int,
    against: int | None = None,
    position: int = -1,
    interventions: Iterable[Intervention] = (),
    second: Text | None = None,
) -> Neurons:
    """Return what each neuron of one feed-forward adds to a logit directly, float64.

    Together with w · b₂ the effects sum to the feed-forward's part.
    """
    layers = len(stream_of(model).blocks)
    if not 0 <= layer < layers:
        raise LabError(f"the stream that predicts has no layer {layer + 1}; allowed: 1 to {layers}")
    if stream_of(model).blocks[layer].feed_forward is None:
        raise LabError(f"block {layer + 1} has no neurons: its attention has no feed-forward behind it")
    effects, active, adds = _effects(model, text, (token, against, position), tuple(interventions), second, layer)
    return Neurons(layer, effects, active, adds)
