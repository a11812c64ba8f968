"""How interventions act: as hooks of one pass, and as a model that is put back afterwards (MATH T1–T5).

Notable: nothing here is hung onto the model. A weight that is edited is put back bit for bit, also when the pass fails.
Rows of a pattern whose mask is edited are formed anew from their scores, by the function that the model itself calls,
so that cutting an edge is exactly a mask of one's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from txlab.engine.interpret.interventions import (
    PARTS,
    Edge,
    EditWeight,
    Erratum,
    Intervention,
    Patch,
    ScaleBlock,
    ScaleHead,
)
from txlab.engine.interpret.sites import Model, Site, Text, head_of, run, sites
from txlab.engine.transformer.attention import pattern
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.hooks import Hook, Hooks, keeping
from txlab.engine.transformer.variants import switched_on
from txlab.errors import LabError, nearest


def places(model: Model) -> dict[str, tuple[int, ...]]:
    """All named places of a model, in the order in which a text passes them, with the shape there for one token."""
    found: dict[str, tuple[int, ...]] = {}

    def note(name: str, value: Tensor) -> None:
        found[name] = tuple(value.shape)

    shortest = Text((0,), (0,) if len(sites(model)) > 1 else ())
    run(model, shortest, Hooks({"*": note}))
    return found


class Together(Hooks):
    """Several sets of hooks as one: at each place the first set's act first."""

    def __init__(self, parts: Sequence[Hooks]) -> None:
        self.parts = parts

    def within(self, part: str) -> Hooks:
        return Together([hooks.within(part) for hooks in self.parts])

    def __call__(self, place: str, value: Tensor) -> Tensor:
        for hooks in self.parts:
            value = hooks(place, value)
        return value

    def want(self, *places: str) -> bool:
        return any(hooks.want(*places) for hooks in self.parts)


@contextmanager
def intervening(
    model: Model, text: Text, interventions: Iterable[Intervention], second: Text | None = None
) -> Iterator[Hooks | None]:
    """The hooks of one pass over `text` under all these interventions, and the model as they want it, until the end.

    None where no hook is needed. At one place, interventions act in the order given, errata before the others. Patches
    come from a pass over `second` through the same model (edits of weights and errata make another one) that no other
    intervention touches. LabError if one of them is not possible in this model, with this text.
    """
    given = list(interventions)
    with ExitStack() as stack:
        stack.enter_context(edited(model, given))
        errata: Hooks | None = None
        for wish in given:
            if isinstance(wish, Erratum):
                errata = stack.enter_context(switched_on(wish.name, model, errata))
        yield together(errata, hooks_for(model, given, text, second, errata))


def hooks_for(
    model: Model,
    interventions: Iterable[Intervention],
    text: Text,
    second: Text | None = None,
    errata: Hooks | None = None,
) -> Hooks | None:
    """What among the interventions are hooks alone (heads, blocks, edges, patches); None where there are none.

    The hooks of an edge remember scores between two places, so they serve one pass at a time.
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
        # Before any patch of a pattern, which is then what it is in the second text.
        parts.insert(0, Hooks(_edges(model, edges, text)))
    return together(*parts)


def together(*hooks: Hooks | None) -> Hooks | None:
    """Sets of hooks one after another, those that are None left out."""
    there = [one for one in hooks if one is not None]
    return Together(there) if there else None


def _branch(model: Model, wish: ScaleBlock) -> str:
    """The place where a branch of a block is added: "blocks.3.feed_forward.out"."""
    site = head_of(model, wish.site, wish.layer)
    place = f"{site.block(wish.layer)}.{wish.part}.out"
    if wish.part not in PARTS or (wish.part == "cross" and site.name not in ("decoder", "cross")):
        allowed = [part for part in PARTS if part != "cross" or site.name in ("decoder", "cross")]
        raise LabError(f"a block of {site.name} has no part {wish.part!r}; it has: {', '.join(allowed)}")
    return place


def _scale(factor: float, head: int | None = None) -> Hook:
    def scale(name: str, value: Tensor) -> Tensor:
        if head is None:
            return value * factor
        value = value.clone()
        value[:, head] *= factor  # (B, T, K)
        return value

    return scale


def _second_text(
    model: Model, patches: Sequence[Patch], second: Text | None, errata: Hooks | None
) -> dict[str, Tensor]:
    """What the second text has at the places that are patched from."""
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
    """The hook of one patch; the position is the last axis but one at every place: (…, T, ·)."""

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
        raise LabError(f"{wish.place} has heads 1 to {value.shape[1]}; {(wish.head or 0) + 1} is none of them")
    return value[:, wish.head]


def _edges(model: Model, edges: Sequence[Edge], text: Text) -> dict[str, Hook]:
    """Hooks at `scores` and `pattern` of every layer that has an edge changed: the touched rows are formed anew."""
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
        allowed = site.mask.allowed(T, S, value.device)
        allowed = torch.ones(T, S, dtype=torch.bool, device=value.device) if allowed is None else allowed
        its = [replace(edge, row=rows.index(edge.row)) for edge in edges]
        value = value.clone()
        value[..., rows, :] = pattern(scored, with_edges(allowed[rows], its, H))
        return value

    return keep, form


def with_edges(allowed: Tensor, edges: Iterable[Edge], heads: int) -> Tensor:
    """Who may look at whom, (T, S) booleans, with these edges changed: (H, T, S). Of two wishes the later counts."""
    allowed = allowed.expand(heads, *allowed.shape).clone()
    for edge in edges:
        allowed[slice(None) if edge.head is None else edge.head, edge.row, edge.column] = edge.allowed
    return allowed


@contextmanager
def edited(model: Model, interventions: Iterable[Intervention]) -> Iterator[None]:
    """The model with the edits of weights among the interventions; afterwards with the old weights, bit for bit.

    LabError, with nothing changed, for a parameter or an index that is not there.
    """
    parameters = dict(model.named_parameters())
    edits = [wish for wish in interventions if isinstance(wish, EditWeight)]
    for edit in edits:
        if edit.parameter not in parameters:
            close = nearest(edit.parameter, parameters)
            raise LabError(f"this model has no parameter {edit.parameter!r}{close}")
        shape = tuple(parameters[edit.parameter].shape)
        inside = all(-size <= place < size for place, size in zip(edit.index, shape, strict=False))
        if len(edit.index) != len(shape) or not inside:
            given = ", ".join(map(str, edit.index))
            raise LabError(f"{edit.parameter} is {' × '.join(map(str, shape))}; [{given}] is no place in it")
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
    """What one should know about these interventions in this model, a sentence each: a weight that is used twice."""
    said = []
    for wish in interventions:
        if isinstance(wish, EditWeight) and (also := _also(model, wish.parameter)):
            said.append(f"{wish.parameter} is {also}: the edit acts in both")
    return said


def _also(model: Model, parameter: str) -> str:
    """What a parameter that serves twice is; "" where it is only what its name says."""
    uses = ["the embedding", "the unembedding" * model.shape.tied]
    if isinstance(model, EncoderDecoder):
        uses = ["the target's embedding", "the source's" * model.shape.shared, "the unembedding" * model.shape.tied]
    table = "embed_target.weight" if isinstance(model, EncoderDecoder) else "embed.weight"
    uses = [use for use in uses if use]
    return " and ".join(uses) if parameter == table and len(uses) > 1 else ""
