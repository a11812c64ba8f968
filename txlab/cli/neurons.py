"""`txlab explain MODEL TEXT --neurons`: the neurons of one block that move a logit most (MATH T5, T6).

Notable: without --layer it is the block whose feed-forward moves the logit most, and the answer says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txlab.cli.reading import Reading
    from txlab.engine.interpret.direct import Neurons

NEURONS = 12  # lines


def neurons_of(
    reading: Reading, position: int | None, following: str | None, against: str | None, layer: int | None
) -> Neurons:
    """The neurons of a block (from 0), of the one that moves the logit most if none is given."""
    from txlab.cli.explain import direct_of
    from txlab.engine.interpret.direct import neurons

    effects = direct_of(reading, position, following, against)
    if layer is None:
        parts = [part for part in effects.parts if part.kind == "feed_forward"]
        layer = max(parts, key=lambda part: abs(part.value)).layer or 0
    model, text = reading.model.model, reading.text
    token, other, place = effects.token, effects.against, effects.position
    return neurons(model, text, layer, token, other, place, reading.given, reading.second)


def part_value(found: Neurons) -> float:
    """What the whole feed-forward adds."""
    return next(part.value for part in found.direct.parts if (part.kind, part.layer) == ("feed_forward", found.layer))


def order(found: Neurons) -> list[int]:
    """Neurons by |effect|, largest first."""
    ranked: list[int] = found.effects.abs().argsort(descending=True).tolist()
    return ranked


def print_neurons(reading: Reading, found: Neurons) -> None:
    from txlab.cli.explain import names_of
    from txlab.cli.models import bar, print_model, shares, token_label
    from txlab.cli.terminal import Column, ascii_only, columns, numeral, table
    from txlab.drawing.text import formula

    shown = order(found)[:NEURONS]
    effects = [float(found.effects[at]) for at in shown]
    active = shares([float(found.activations[at]) for at in shown])
    largest = max(map(abs, effects), default=1.0) or 1.0
    length = 16 if columns() < 96 else 32
    rows = [
        [str(at), is_, adds, bar(abs(value) / largest, length), "takes" if value < 0 else "adds"]
        for at, is_, adds, value in zip(shown, active, shares(effects), effects, strict=True)
    ]
    heads = [Column("neuron", "right"), Column("activation"), Column("adds"), Column(" " * length), Column("")]
    print(table(heads, rows))
    many = len(found.effects)
    rest = float(found.effects.sum()) - sum(effects)
    if many > len(shown):
        print(f"{many - len(shown)} more neurons  {numeral(rest)}")
    print()
    what = f"the logit of {token_label(names_of(reading)(found.direct.token), 20)}"
    if found.direct.against is not None:
        what += f" less that of {token_label(names_of(reading)(found.direct.against), 20)}"
    value = part_value(found)
    said = f"feed-forward {found.layer + 1} adds {numeral(value)} to {what}, {numeral(found.direct.logit)}: "
    bias = numeral(value - float(found.effects.sum()))
    print(formula(f"{said}its {many} neurons, and its bias {bias}", ascii_only()))
    print_model(reading.model)


def neurons_json(reading: Reading, found: Neurons) -> dict[str, Any]:
    from txlab.cli.explain import names_of

    names, direct = names_of(reading), found.direct
    against = None if direct.against is None else {"id": direct.against, "text": names(direct.against)}
    return {
        "layer": found.layer + 1,
        "position": direct.position,
        "token": {"id": direct.token, "text": names(direct.token)},
        "against": against,
        "logit": direct.logit,
        "feed_forward": part_value(found),
        "neurons": [
            {"neuron": at, "activation": float(found.activations[at]), "value": float(found.effects[at])}
            for at in order(found)
        ],
    }
