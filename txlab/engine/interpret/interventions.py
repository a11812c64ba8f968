"""Interventions in a model's forward pass: scale heads and blocks, cut edges, patch, edit weights (MATH T1–T5).

Each intervention is a small frozen dataclass that converts to JSON and back and describes itself in a sentence; it acts
through the hooks of one pass, so nothing is attached to the model. An edited weight is restored bit for bit, also when
the pass fails. Rows of a pattern whose mask is edited are recomputed from their scores, by the function that the model
itself calls, so cutting an edge is exactly a custom mask. Layers, heads and positions count from 0 here; sentences
count layers and heads from 1, as the screen does, and positions from 0, like ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from txlab.engine.interpret.sites import Model, Site, Text, block_at, head_of, run, sites
from txlab.engine.transformer.blocks import pattern
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.former_names import current_name
from txlab.engine.transformer.hooks import NO_HOOKS, Hook, Hooks, keeping, together
from txlab.engine.transformer.variants import VARIANTS, switch_on
from txlab.errors import LabError, nearest

Part = Literal["attention", "cross", "feed_forward"]
PARTS: dict[Part, str] = {"attention": "attention", "cross": "cross-attention", "feed_forward": "feed-forward"}


@dataclass(frozen=True)
class ScaleHead:
    """Multiplies what one head adds to the stream, W_O α V, by `factor`; 0 switches it off."""

    site: str
    layer: int
    head: int
    factor: float = 0.0

    @property
    def says(self) -> str:
        name = f"{_of(self.site)}head {self.layer + 1}.{self.head + 1}"
        return f"{name} is switched off" if self.factor == 0 else f"what {name} adds counts {self.factor:g} times"


@dataclass(frozen=True)
class ScaleBlock:
    """Multiplies what one branch of a block adds to the stream (biases included) by `factor`; 0 switches it off."""

    site: str
    layer: int
    part: Part
    factor: float = 0.0

    @property
    def says(self) -> str:
        name = f"the {PARTS.get(self.part, self.part)} of {_of(self.site)}block {self.layer + 1}"
        return f"{name} is switched off" if self.factor == 0 else f"what {name} adds counts {self.factor:g} times"


@dataclass(frozen=True)
class Edge:
    """Sets whether position `row` may attend to `column`: in one head, or (None) in all heads, or in all layers.

    An edge that is cut gets the score −∞; one that is added gets its own score, whatever the mask says. The softmax of
    the row is taken under this mask; a row with nothing left is zeros.
    """

    site: str
    layer: int | None
    head: int | None
    row: int
    column: int
    allowed: bool = False

    @property
    def says(self) -> str:
        layer = "any layer" if self.layer is None else f"layer {self.layer + 1}"
        where = f"any head of {layer}" if self.head is None else f"head {self.head + 1} of {layer}"
        if self.layer is not None and self.head is not None:
            where = f"head {self.layer + 1}.{self.head + 1}"
        may = "may" if self.allowed else "may not"
        return f"in {_of(self.site)}{where}, position {self.row} {may} look at position {self.column}"


@dataclass(frozen=True)
class Patch:
    """Replaces the activation of `position` at a place by that of `from_position` in the second text.

    None for the position patches every position (the two texts must then be equally long); `head`, at a place that has
    heads, patches only that head. A place is one of `places(model)`, e.g. "blocks.1.resid_post" or
    "blocks.0.attention.heads".
    """

    place: str
    position: int | None
    from_position: int | None = None
    head: int | None = None

    @property
    def says(self) -> str:
        here = "every position" if self.position is None else f"position {self.position}"
        there = self.position if self.from_position is None else self.from_position
        whose = "" if there is None or there == self.position else f" position {there} of"
        head = "" if self.head is None else f" (head {self.head + 1})"
        return f"at {self.place}{head}, {here} has what{whose} the second text has there"


@dataclass(frozen=True)
class EditWeight:
    """Changes one entry of a parameter, given by name and index, during the pass, then restores it."""

    parameter: str
    index: tuple[int, ...]
    value: float

    @property
    def says(self) -> str:
        return f"{self.parameter}[{', '.join(map(str, self.index))}] is {self.value:g}"


@dataclass(frozen=True)
class Erratum:
    """Runs the model with an error of one of the lecture texts; `name` is one of variants.VARIANTS."""

    name: str

    @property
    def says(self) -> str:
        return f"read as written: {VARIANTS[self.name].says}" if self.name in VARIANTS else f"erratum {self.name}"


Intervention = ScaleHead | ScaleBlock | Edge | Patch | EditWeight | Erratum
KINDS: dict[str, type[Any]] = {
    "scale-head": ScaleHead,
    "scale-block": ScaleBlock,
    "edge": Edge,
    "patch": Patch,
    "edit-weight": EditWeight,
    "erratum": Erratum,
}


def _of(site: str) -> str:
    """Return the site as a word before the head, if the model has more than one."""
    return "" if site == "self" else f"{site} "


def to_json(intervention: Intervention) -> dict[str, Any]:
    """Return {"kind": "scale-head", "site": "self", …}: plain values only."""
    kind = next(name for name, of in KINDS.items() if isinstance(intervention, of))
    return {"kind": kind} | {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(intervention).items()
    }


def from_json(data: Mapping[str, Any]) -> Intervention:
    """Read what `to_json` wrote. LabError for an unknown kind, a missing or extra key, or a value of the wrong type."""
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise LabError(f"no intervention is of kind {kind!r}; allowed: {', '.join(KINDS)}")
    given = {name: value for name, value in data.items() if name != "kind"}
    allowed = {field.name: str(field.type) for field in fields(KINDS[kind])}
    for name, value in given.items():
        if name not in allowed:
            raise LabError(f"{kind} has no key {name!r}{nearest(name, allowed)}; it has: {', '.join(allowed)}")
        if not _fits(value, allowed[name]):
            raise LabError(f"{kind}: {name} must be {_words(allowed[name])}, not {value!r}")
    if "index" in given:
        given["index"] = tuple(given["index"])
    try:
        made: Intervention = KINDS[kind](**given)
    except TypeError:
        raise LabError(
            f"{kind} needs more than {', '.join(given) or 'nothing'}; it has: {', '.join(allowed)}"
        ) from None
    return made


def _fits(value: object, declared: str) -> bool:
    if value is None:
        return "None" in declared
    if declared.startswith("tuple"):
        return isinstance(value, list | tuple) and all(type(entry) is int for entry in value)
    if declared == "Part":
        return value in get_args(Part)
    wanted = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}[declared.split(" ")[0]]
    return type(value) in wanted


def _words(declared: str) -> str:
    words = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
    if declared == "Part":
        return "one of " + ", ".join(get_args(Part))
    if declared.startswith("tuple"):
        return "a list of whole numbers"
    return words[declared.split(" ")[0]] + (" or null" if "None" in declared else "")


def places(model: Model) -> dict[str, tuple[int, ...]]:
    """Return all named places of a model, in the order of the forward pass, with the shape there for one token."""
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, value: Tensor) -> None:
        shapes[name] = tuple(value.shape)

    shortest = Text((0,), (0,) if len(sites(model)) > 1 else ())
    run(model, shortest, Hooks({"*": note}))
    return shapes


@contextmanager
def intervening(
    model: Model, text: Text, interventions: Iterable[Intervention], second: Text | None = None
) -> Iterator[Hooks]:
    """Yield the hooks of one pass over `text` under all these interventions; inside, the model is edited as needed.

    At one place, interventions act in the order given, errata first. Patches come from a pass over `second` through the
    same model, with weight edits and errata but no other intervention. LabError if one of them is not possible in this
    model with this text.
    """
    given = list(interventions)
    with ExitStack() as stack:
        stack.enter_context(edit_weights(model, given))
        errata = NO_HOOKS
        for wish in given:
            if isinstance(wish, Erratum):
                errata = stack.enter_context(switch_on(wish.name, model, errata))
        yield together(errata, hooks_for(model, given, text, second, errata))


def hooks_for(
    model: Model,
    interventions: Iterable[Intervention],
    text: Text,
    second: Text | None = None,
    errata: Hooks = NO_HOOKS,
) -> Hooks:
    """Return the hooks of the interventions that need nothing else (heads, blocks, edges, patches).

    The hooks of an edge store scores between two places, so they serve one pass at a time.
    """
    given = list(interventions)
    patches = [wish for wish in given if isinstance(wish, Patch)]
    other = _second_text(model, patches, second, errata) if patches else {}
    parts: list[Hooks] = []
    for wish in given:
        if isinstance(wish, ScaleHead):
            site = head_of(model, wish.site, wish.layer, wish.head)
            parts.append(Hooks({site.at(wish.layer, "heads"): _scale(wish.factor, wish.head)}))
        elif isinstance(wish, ScaleBlock):
            parts.append(Hooks({_branch(model, wish): _scale(wish.factor)}))
        elif isinstance(wish, Patch):
            parts.append(Hooks({wish.place: _patch(wish, other[wish.place])}))
    edges = [wish for wish in given if isinstance(wish, Edge)]
    if edges:
        # Before any patch of a pattern, so that the patched pattern is exactly that of the second text.
        parts.insert(0, Hooks(_edges(model, edges, text)))
    return together(*parts)


def parts_of(model: Model, site: str, layer: int) -> list[Part]:
    """Return the branches of a block, in their order: those that ScaleBlock can switch off."""
    block = block_at(model, head_of(model, site, layer), layer)
    missing = {"cross": block.cross is None, "feed_forward": block.feed_forward is None}
    return [part for part in PARTS if not missing.get(part)]


def _branch(model: Model, wish: ScaleBlock) -> str:
    """Return the place where a branch of a block is added: "blocks.3.feed_forward.out"."""
    site = head_of(model, wish.site, wish.layer)
    allowed = parts_of(model, wish.site, wish.layer)
    if wish.part not in allowed:
        raise LabError(f"a block of {site.name} has no part {wish.part!r}; it has: {', '.join(allowed)}")
    return f"{site.block(wish.layer)}.{wish.part}.out"


def _scale(factor: float, head: int | None = None) -> Hook:
    def scale(name: str, value: Tensor) -> Tensor:
        if head is None:
            return value * factor
        value = value.clone()
        value[:, head] *= factor  # (B, T, K)
        return value

    return scale


def _second_text(model: Model, patches: Sequence[Patch], second: Text | None, errata: Hooks) -> dict[str, Tensor]:
    """Return the activations of the second text at the patched places."""
    if second is None:
        raise LabError(f"a patch takes activations from a second text, and none was given: {patches[0].says}")
    there = places(model)
    for patch in patches:
        if patch.place not in there:
            raise LabError(f"this model has no place {patch.place!r}{nearest(patch.place, there)}")
    hooks, kept = keeping(*{patch.place for patch in patches})
    run(model, second, together(errata, hooks))
    return kept


def _patch(wish: Patch, source: Tensor) -> Hook:
    """Return the hook of one patch; at every place the position is the second-to-last axis: (…, T, ·)."""

    def put(name: str, value: Tensor) -> Tensor:
        here = value if wish.head is None else _head(value, wish)
        there = source if wish.head is None else _head(source, wish)
        if here.shape[-1] != there.shape[-1]:
            raise LabError(f"{wish.place} is as wide as the text is long: patching it needs two texts of one length")
        value = value.clone()
        here = value if wish.head is None else value[:, wish.head]
        if wish.position is None:
            if here.shape != there.shape:
                raise LabError(f"patching every position at {wish.place} needs two texts of the same number of tokens")
            here.copy_(there)
            return value
        from_position = wish.position if wish.from_position is None else wish.from_position
        for what, position, length in (
            ("text", wish.position, here.shape[-2]),
            ("second text", from_position, there.shape[-2]),
        ):
            if not -length <= position < length:
                raise LabError(f"the {what} has {length} tokens; there is no position {position} to patch")
        here[..., wish.position, :] = there[..., from_position, :]
        return value

    return put


def _head(value: Tensor, wish: Patch) -> Tensor:
    if value.dim() != 4:
        raise LabError(
            f"{wish.place} has no heads of its own; those that have: query, key, value, scores, pattern, heads"
        )
    if not 0 <= (wish.head or 0) < value.shape[1]:
        raise LabError(f"{wish.place} has no head {(wish.head or 0) + 1}; allowed: 1 to {value.shape[1]}")
    return value[:, wish.head]


def _edges(model: Model, edges: Sequence[Edge], text: Text) -> dict[str, Hook]:
    """Return hooks at `scores` and `pattern` of every layer with a changed edge; they recompute the affected rows."""
    by_layer: dict[tuple[str, int], tuple[Site, list[Edge]]] = {}
    for edge in edges:
        site = head_of(model, edge.site, edge.layer or 0, edge.head)
        rows, columns = len(site.queries_of(text)), len(site.keys_of(text))
        if not (0 <= edge.row < rows and 0 <= edge.column < columns):
            raise LabError(
                f"{site.name} attention has rows 0 to {rows - 1} and columns 0 to {columns - 1} on this text; "
                f"{edge.row}, {edge.column} is outside"
            )
        for layer in range(site.layers) if edge.layer is None else (edge.layer,):
            by_layer.setdefault((site.name, layer), (site, []))[1].append(edge)
    hooks: dict[str, Hook] = {}
    for (_, layer), (site, its) in by_layer.items():
        hooks[site.at(layer, "scores")], hooks[site.at(layer, "pattern")] = _edge_hooks(site, its)
    return hooks


def _edge_hooks(site: Site, edges: Sequence[Edge]) -> tuple[Hook, Hook]:
    rows = sorted({edge.row for edge in edges})
    before: list[Tensor] = []

    def keep(name: str, value: Tensor) -> None:
        before[:] = [value[..., rows, :]]  # (B, H, rows, S): scores before the mask

    def form(name: str, value: Tensor) -> Tensor:
        (scored,) = before
        H, T, S = value.shape[-3:]
        allowed = site.mask.allowed_pairs(T, S, value.device)
        allowed = torch.ones(T, S, dtype=torch.bool, device=value.device) if allowed is None else allowed
        its = [replace(edge, row=rows.index(edge.row)) for edge in edges]
        value = value.clone()
        value[..., rows, :] = pattern(scored, with_edges(allowed[rows], its, H))
        return value

    return keep, form


def with_edges(allowed: Tensor, edges: Iterable[Edge], heads: int) -> Tensor:
    """Return the mask (T, S) with these edges changed, for each head: (H, T, S). The last change of an edge counts."""
    allowed = allowed.expand(heads, *allowed.shape).clone()
    for edge in edges:
        allowed[slice(None) if edge.head is None else edge.head, edge.row, edge.column] = edge.allowed
    return allowed


@contextmanager
def edit_weights(model: Model, interventions: Iterable[Intervention]) -> Iterator[None]:
    """Context manager that applies the weight edits among the interventions and restores the weights bit for bit.

    LabError, with nothing changed, for a parameter or an index that does not exist.
    """
    edits = [
        replace(wish, parameter=current_name(wish.parameter)) for wish in interventions if isinstance(wish, EditWeight)
    ]
    parameters = dict(model.named_parameters()) if edits else {}
    for edit in edits:
        if edit.parameter not in parameters:
            close = nearest(edit.parameter, parameters)
            raise LabError(f"this model has no parameter {edit.parameter!r}{close}")
        shape = tuple(parameters[edit.parameter].shape)
        inside = all(-size <= place < size for place, size in zip(edit.index, shape, strict=False))
        if len(edit.index) != len(shape) or not inside:
            given = ", ".join(map(str, edit.index))
            raise LabError(f"{edit.parameter} is {' × '.join(map(str, shape))}; [{given}] is not a place in it")
    old: list[tuple[nn.Parameter, tuple[int, ...], Tensor]] = []
    try:
        with torch.no_grad():
            for edit in edits:
                parameter = parameters[edit.parameter]
                old.append((parameter, edit.index, parameter[edit.index].clone()))
                parameter[edit.index] = edit.value
        yield
    finally:
        with torch.no_grad():
            for parameter, index, value in reversed(old):
                parameter[index] = value


def remarks(model: Model, interventions: Iterable[Intervention]) -> list[str]:
    """Return remarks on these interventions in this model, a sentence each: a weight that is used twice."""
    sentences = []
    for wish in interventions:
        if isinstance(wish, EditWeight) and (also := _also(model, wish.parameter)):
            sentences.append(f"{wish.parameter} is {also}: the edit acts in both")
    return sentences


def _also(model: Model, parameter: str) -> str:
    """Return the uses of a shared parameter; "" if it has only one."""
    uses = ["the embedding", "the unembedding" * model.shape.tied]
    if isinstance(model, EncoderDecoder):
        uses = ["the target's embedding", "the source's" * model.shape.shared, "the unembedding" * model.shape.tied]
    table = "embed_target.weight" if isinstance(model, EncoderDecoder) else "embed.weight"
    uses = [use for use in uses if use]
    return " and ".join(uses) if parameter == table and len(uses) > 1 else ""
