"""Training on many cards, on paper: memory by part and rank, bytes on the wire, and the time of a step (MATH T11).

d copies of the model (data), each divided by t within every matrix (tensor) and by p among the layers (pipeline); the
copies hold everything (DDP) or a d-th of weights, gradients and moments each (FSDP, ZeRO-3). Of a card:

    P_r = (N/p blocks + tables) / t                                          parameters of a rank
    weights 4 P_r, gradients 4 P_r, moments 8 P_r bytes, each / d if sharded; 2 P_r of bfloat16 copies, of two blocks
    activations of a micro-batch of N/p layers, of p of them at once (1F1B), / t              Korthikanti et al. 2022
    data wire     DDP 2 (d−1)/d · 4 P_r;  FSDP (d−1)/d · (2 m · 2 P_r + 4 P_r)             Rajbhandari et al. 2020, §7
    tensor wire   4 N/p · m · 2 (t−1)/t · b T D · 2                                              Shoeybi et al. 2019
    bubble        (p − 1) / (m + p − 1) of the time                                    Narayanan et al. 2021, §2.2.1
    step = max(data wire, (max(arithmetic, memory traffic) + tensor wire + pipeline wire) / (1 − bubble))

m micro-batches of b sequences. The cards of a data group that are in the same machine, k = node / t, share what comes
over the network, so it travels at min(link, k · network). Notable: this is a roofline. Products of matrices reach the
data sheet's peak, traffic its bandwidth, and the gradients travel while the backward pass computes; so the share of
peak is the most that can be reached, and printed ones are a half to two thirds of it (`txlab verify plan`). FLOPs are
6 w + 12 N T D a token; recomputation costs time and does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, isfinite

from txlab.engine.device import data_sheet
from txlab.engine.transformer.costs import AnyShape, costs, step_memory
from txlab.engine.transformer.encoder_decoder import EncoderDecoderShape
from txlab.errors import LabError, choices

DAY = 86400.0
USABLE = 0.94  # of a card's memory: the rest is CUDA's own, NCCL's buffers, and fragments
FORMS = ("data-parallel", "FSDP", "tensor", "pipeline")


@dataclass(frozen=True)
class Card:
    """A card by its maker's data sheet, and the usual machine around it. All rates are of one direction.

    flops   dense bfloat16 FLOP/s      memory   bytes      bandwidth   of its memory, bytes/s
    link    to the other cards of its machine, bytes/s     node   cards of a machine
    network between machines, bytes/s for each card
    """

    name: str
    title: str
    flops: float
    memory: float
    bandwidth: float
    link: float
    node: int
    network: float


def _card(name: str, title: str, cuda: str, memory: float, link: float, network: float, bandwidth: float = 0.0) -> Card:
    sheet = data_sheet(cuda)
    assert sheet is not None
    return Card(name, title, sheet.bfloat16, memory, sheet.bandwidth or bandwidth, link, 8, network)


CARDS = {
    card.name: card
    for card in (
        _card("a100", "A100 SXM, 80 GB", "NVIDIA A100-SXM4-80GB", 80e9, 300e9, 25e9),
        _card("h100", "H100 SXM, 80 GB", "NVIDIA H100 80GB HBM3", 80e9, 450e9, 50e9),
        _card("h200", "H200 SXM, 141 GB", "NVIDIA H200", 141e9, 450e9, 50e9),
        _card("b200", "B200 SXM, 180 GB", "NVIDIA B200", 180e9, 900e9, 50e9),
        _card("mi300x", "MI300X, 192 GB", "AMD Instinct MI300X", 192e9, 448e9, 50e9, 5.3e12),
    )
}
"""NVLink's data sheets give both directions together: 600, 900, 900 and 1800 GB/s. Machines of eight, as their makers
build them, have a network card of 200 (A100) or 400 Gb/s for each."""


def card_named(name: str) -> Card:
    """The card of that name. LabError with the nearest one."""
    if name.lower() not in CARDS:
        raise LabError(f"no card is called {name!r}{choices(name.lower(), CARDS)}")
    return CARDS[name.lower()]


@dataclass(frozen=True)
class Split:
    """data d · tensor t · pipeline p · sharded: FSDP among the d · recompute: activations of a block, from its input ·
    micro b, sequences of a micro-batch"""

    data: int
    tensor: int = 1
    pipeline: int = 1
    sharded: bool = False
    recompute: bool = False
    micro: int = 1

    @property
    def cards(self) -> int:
        return self.data * self.tensor * self.pipeline

    @property
    def letters(self) -> str:
        """As short as possible: "FSDP 128 t8 b2 r"."""
        numbers = [(self.tensor, "t"), (self.pipeline, "p"), (self.micro, "b")]
        parts = [
            f"{'FSDP' if self.sharded else 'data'} {self.data}",
            *(f"{x}{many}" for many, x in numbers if many > 1),
        ]
        return " ".join([*parts, *(["r"] if self.recompute else [])])

    def __str__(self) -> str:
        """ "FSDP 128 × tensor 8, recomputing" """
        parts = [f"{'FSDP' if self.sharded else 'data'} {self.data}"] if self.data > 1 else []
        parts += [f"{name} {many}" for name, many in (("tensor", self.tensor), ("pipeline", self.pipeline)) if many > 1]
        whole = " × ".join(parts) or "one card"
        return (
            whole + (f", {self.micro} at once" if self.micro > 1 else "") + (", recomputing" if self.recompute else "")
        )


@dataclass(frozen=True)
class Plan:
    """A training of a shape on paper.

    memory    bytes of a rank by part, of the fullest one
    wire      bytes that a card sends in a step, by purpose
    seconds   of a step by cause, as in the module's formula; "bubble" is what waiting adds
    step      seconds of a step
    share     of the data sheet's peak, recomputation not counted
    limit     what binds: "memory" (it does not fit, or is impossible), "arithmetic", "bandwidth" of the card's memory,
              "links" within a machine, "network", or "waiting" in the pipeline
    days      of the whole training; card_hours, of all cards
    """

    split: Split
    card: Card
    memory: Mapping[str, float]
    wire: Mapping[str, float]
    seconds: Mapping[str, float]
    step: float
    share: float
    limit: str
    days: float
    card_hours: float
    flops: float
    steps: float
    refused: str = ""

    @property
    def total_memory(self) -> float:
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        return not self.refused


def layers_of(shape: AnyShape) -> int:
    return shape.encoder_layers + shape.decoder_layers if isinstance(shape, EncoderDecoderShape) else shape.layers


def make_plan(shape: AnyShape, card: Card, split: Split, batch: float, tokens: float) -> Plan:
    """The plan of training a shape on `tokens`, in steps of `batch` tokens.

    LabError if its context is not known. A split that is impossible, or does not fit, says so in `refused`.
    """
    if not shape.context:
        raise LabError("its context is not published, so neither activations nor FLOPs follow; give --context")
    N, T, D = layers_of(shape), shape.context, shape.width
    V: int = getattr(shape, "target_vocabulary", getattr(shape, "vocabulary", 0))
    d, t, p = split.data, split.tensor, split.pipeline
    cost = costs(shape)
    table = V * D * (1 if getattr(shape, "tied", True) else 2)
    block = (cost.parameters - table) / N
    stage = ceil(N / p)  # layers of the fullest rank
    own = (stage * block + (V * D if p > 1 else table)) / t  # P_r; with p > 1 the first or the last stage has one table
    sequences = batch / T
    b = split.micro
    micro = max(1.0, sequences / (d * b))  # m
    memory = _memory(shape, split, own, block, stage, micro)
    wire = {
        "data": (d - 1) / d * (4 * micro * own + 4 * own if split.sharded else 8 * own),
        "tensor": 4 * stage * micro * 2 * (t - 1) / t * b * T * D * 2,
        "pipeline": 2 * micro * b * T * D * 2 / t if p > 1 else 0.0,
    }
    work = cost.flops_per_token * batch / split.cards
    again = 4 / 3 if split.recompute else 1.0
    traffic = micro * (again * 3 * 2 * own + 2 * memory["activations"] / (min(p, micro) or 1)) + 28 * own / (
        d if split.sharded else 1
    )
    across_machines = split.cards > card.node
    seconds = {
        "arithmetic": again * work / card.flops,
        "memory traffic": traffic / card.bandwidth,
        "tensor wire": wire["tensor"] / (card.link if t <= card.node else card.network),
        "pipeline wire": wire["pipeline"] / (card.network if across_machines else card.link),
        "data wire": wire["data"]
        / (min(card.link, max(1, card.node // t) * card.network) if across_machines else card.link),
    }
    busy = max(seconds["arithmetic"], seconds["memory traffic"]) + seconds["tensor wire"] + seconds["pipeline wire"]
    bubble = (p - 1) / (micro + p - 1)
    seconds["bubble"] = busy * bubble / (1 - bubble)
    step = max(busy + seconds["bubble"], seconds["data wire"])
    steps = tokens / batch
    refused = _refusal(shape, card, split, sum(memory.values()), sequences)
    return Plan(
        split=split,
        card=card,
        memory=memory,
        wire=wire,
        seconds=seconds,
        step=step,
        share=work / card.flops / step,
        limit="memory" if refused else _limit(seconds, step),
        days=steps * step / DAY,
        card_hours=steps * step * split.cards / 3600,
        flops=cost.flops_per_token * tokens,
        steps=steps,
        refused=refused,
    )


def _memory(shape: AnyShape, split: Split, own: float, block: float, stage: int, micro: float) -> dict[str, float]:
    """Bytes by part of the fullest rank."""
    shards = split.data if split.sharded else 1
    N, T, D = layers_of(shape), shape.context, shape.width
    whole = step_memory(shape, 1, bfloat16=True).activations  # of all layers, and the logits
    V: int = getattr(shape, "target_vocabulary", getattr(shape, "vocabulary", 0))
    ends = 4.0 * T * (D + V)
    layer = (whole - ends) / N
    at_once = min(split.pipeline, micro)  # micro-batches whose activations are kept, in the first stage
    kept = stage * at_once * (2.0 * T * D if split.recompute else layer) + (layer if split.recompute else 0.0)
    gathered = min(2 * block / split.tensor, own) if split.sharded else own
    return {
        "weights": 4 * own / shards,
        "gradients": 4 * own / shards,
        "moments": 8 * own / shards,
        "copies in bfloat16": 2 * gathered,
        "activations": split.micro * (kept + (ends if split.pipeline == 1 else 0.0)) / split.tensor,
    }


def _refusal(shape: AnyShape, card: Card, split: Split, needed: float, sequences: float) -> str:
    """Why a split cannot be; "" = it can."""
    if split.data * split.micro > sequences:
        return f"{split.data} copies, and {sequences:.0f} sequences a step: some would have none"
    if shape.heads % split.tensor:
        return f"{shape.heads} heads are not divisible by {split.tensor}"
    if split.pipeline > layers_of(shape):
        return f"{layers_of(shape)} layers, and {split.pipeline} stages"
    if needed > USABLE * card.memory:
        return f"{needed / 1e9:.3g} GB a card, of {card.memory / 1e9:.0f}"
    return ""


def _limit(seconds: Mapping[str, float], step: float) -> str:
    """The cause that adds most to the time of a step."""
    if seconds["data wire"] >= step:
        return "network"
    words = {
        "arithmetic": "arithmetic",
        "memory traffic": "bandwidth",
        "tensor wire": "links",
        "pipeline wire": "network",
        "bubble": "waiting",
    }
    return words[max(words, key=lambda cause: seconds[cause])]


def named_splits(shape: AnyShape, card: Card, cards: int, batch: float, tokens: float) -> dict[str, Plan]:
    """One plan for each of FORMS, with as many cards: the best of its form, or the least memory if none fits."""
    forms: dict[str, list[Plan]] = {form: [] for form in FORMS}
    for plan in all_plans(shape, card, cards, batch, tokens):
        split = plan.split
        if split.pipeline > 1:
            forms["pipeline"].append(plan)
        elif split.tensor > 1:
            forms["tensor"].append(plan)
        else:
            forms["FSDP" if split.sharded else "data-parallel"].append(plan)
    return {form: _best(plans) for form, plans in forms.items() if plans}


def best_plan(shape: AnyShape, card: Card, cards: int, batch: float, tokens: float) -> Plan:
    """The quickest plan that fits on so many cards; if none does, the one of least memory."""
    return _best(list(all_plans(shape, card, cards, batch, tokens)))


def _best(plans: list[Plan]) -> Plan:
    fitting = [plan for plan in plans if plan.fits]
    if fitting:
        return min(fitting, key=lambda plan: (plan.step, plan.split.tensor, plan.split.pipeline))
    possible = [plan for plan in plans if isfinite(plan.total_memory)]
    return min(possible, key=lambda plan: plan.total_memory)


def all_plans(shape: AnyShape, card: Card, cards: int, batch: float, tokens: float) -> Iterator[Plan]:
    """Every split into powers of two within a machine (t) and divisors of the layers (p), with and without sharding
    and recomputation, and micro-batches of 1 to 32 sequences."""
    N = layers_of(shape)
    stages = [p for p in range(1, N + 1) if N % p == 0 and cards % p == 0]
    for t in (t for t in (1, 2, 4, 8) if t <= min(card.node, cards) and cards % t == 0 and shape.heads % t == 0):
        for p in (p for p in stages if cards % (t * p) == 0):
            d = cards // (t * p)
            for sharded in (False, True) if d > 1 else (False,):
                for recompute in (False, True):
                    for b in (b for b in (1, 2, 4, 8, 16, 32) if b == 1 or d * b * shape.context <= batch):
                        yield make_plan(shape, card, Split(d, t, p, sharded, recompute, b), batch, tokens)


def numbers_of_cards(cards: int) -> list[int]:
    """A quarter of them to four times as many.

    >>> numbers_of_cards(1024), numbers_of_cards(1)
    ([256, 512, 1024, 2048, 4096], [1, 2, 4])
    """
    return sorted({cards // 4 or 1, cards // 2 or 1, cards, 2 * cards, 4 * cards})
