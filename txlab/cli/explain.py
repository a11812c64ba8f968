"""`txlab explain`: explains a number computed by a model, with the numbers behind it (MATH T1–T9, H5).

The answers are computed by the same functions as the console's `w`. By default, the most likely next token is
explained. `--lens` and `--direct` print a table first, each line of which can be explained in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.interventions import Wishes, head_asked
from txlab.cli.models import about, bar, print_explanation, print_model, shares, token_label
from txlab.cli.output import Column, print_json, table
from txlab.cli.reading import SCORES, Reading, read
from txlab.cli.terminal import ascii_only, columns, numeral
from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.engine.interpret.direct import DirectEffects, LogitTerm, Neurons
    from txlab.engine.interpret.effects import Lens

CANDIDATES = 3  # tokens per line of the lens
PARTS = 16  # lines of direct effects
NEURONS = 12  # lines
EXACT = "#"  # before a number: the token with that id


def explain(
    name: options.Model,
    text: options.Text = None,
    target: options.Target = None,
    pair: options.Pair = None,
    file: options.File = None,
    special: options.Special = False,
    site: options.Site = None,
    layer: Annotated[int | None, typer.Option("--layer", metavar="N", help="from 1; of --lens from 0", min=0)] = None,
    head: Annotated[str | None, typer.Option("--head", metavar="HEAD", help="2.3 = the third head of layer 2")] = None,
    row: Annotated[
        int | None, typer.Option("--row", metavar="N", help="with --head: the query position, from 0")
    ] = None,
    column: Annotated[int | None, typer.Option("--column", metavar="N", help="the key position, from 0")] = None,
    following: Annotated[
        str | None, typer.Option("--next", metavar="TOKEN", help=f"a next token's probability; {EXACT}12 is token 12")
    ] = None,
    position: Annotated[
        int | None, typer.Option("--position", metavar="N", help="after which token; else the last")
    ] = None,
    lens: Annotated[bool, typer.Option("--lens", help="the prediction of each layer; with --layer: why")] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="each part's contribution to the token's logit; with --head or --part: why")
    ] = False,
    against: Annotated[
        str | None, typer.Option("--against", metavar="TOKEN", help="with --direct: the logit less this token's")
    ] = None,
    part: Annotated[str | None, typer.Option("--part", metavar="PART", help="a line of --direct, by its name")] = None,
    kl: Annotated[bool, typer.Option("--kl", help="how far interventions move the prediction")] = False,
    roll: Annotated[bool, typer.Option("--rollout", help="with --row and --column: through all layers")] = False,
    neurons: Annotated[
        bool, typer.Option("--neurons", help="the neurons of --layer that move the token's logit most")
    ] = False,
    circuits: Annotated[
        bool, typer.Option("--circuits", help="the circuits of all heads, without a text; with --head: one head")
    ] = False,
    score: Annotated[
        str | None, typer.Option("--score", metavar="SCORE", help=f"of --head: {', '.join(SCORES)}")
    ] = None,
    off: options.Off = None,
    scale: options.Scale = None,
    cut: options.Cut = None,
    allow: options.Allow = None,
    patch: options.Patch = None,
    second: options.Second = None,
    edit: options.Edit = None,
    erratum: options.Erratum = None,
    json: options.Json = False,
) -> None:
    """Explain a number of a model."""
    wishes = Wishes.of(second, off=off, scale=scale, cut=cut, allow=allow, patch=patch, edit=edit, erratum=erratum)
    asked = only_one(
        lens=lens, direct=direct, kl=kl, rollout=roll, score=score is not None, neurons=neurons, circuits=circuits
    )
    if (against is not None and asked not in ("direct", "neurons")) or (part is not None and asked != "direct"):
        raise LabError(f"{'--against' if against is not None else '--part'} is for --direct")
    site, layer_index, head_index = head_asked(head, layer if layer or asked != "lens" else None, site)
    if asked == "circuits":
        from txlab.cli.circuits import explain_circuits

        unasked = {
            "--target": target,
            "--pair": pair,
            "--next": following,
            "--position": position,
            "--row": row,
            "--column": column,
        }
        weights_only(text is not None or file is not None, wishes, unasked)
        explain_circuits(name, site, layer_index, head_index, json)
        return
    if asked == "neurons" and head is not None:
        raise LabError("--neurons is about a feed-forward, which has no heads; leave --head out")
    reading = read(name, text, file, target, site, wishes, special, pair)
    where = (layer_index, head_index)
    if asked == "lens" and layer is None:
        answer = show_lens(reading, lens_of(reading, position), json)
    elif asked == "neurons":
        effects = direct_of(reading, position, following, against)
        answer = show_neurons(reading, neurons_of(reading, effects, layer_index), json)
    elif asked == "direct" and head is None and part is None:
        answer = show_direct(reading, direct_of(reading, position, following, against), json)
    else:
        if asked == "lens":
            explanation = why_of_lens(reading, position, layer or 0, following)
        elif asked == "direct":
            explanation = why_of_part(reading, direct_of(reading, position, following, against), where, part)
        elif asked == "kl":
            explanation = why_of_kl(reading, position)
        elif asked == "rollout":
            explanation = why_of_rollout(reading, row, column)
        elif asked == "score":
            explanation = why_of_score(reading, where, score or "")
        elif row is not None or column is not None or head is not None:
            explanation = why_of_pattern(reading, where, row, column)
        else:
            explanation = why_of_next(reading, position, following)
        answer = {"explanation": explanation.as_json()}
        if not json:
            print_explanation(explanation)
    if json:
        print_json({"model": about(reading.model), **reading.answer(), **answer})


def only_one(**asked: bool) -> str:
    """Return the question that was asked, or ""."""
    given = [name for name, yes in asked.items() if yes]
    if len(given) > 1:
        raise LabError(f"--{given[0]} and --{given[1]} are two questions; ask one of them")
    return given[0] if given else ""


def weights_only(text: bool, wishes: Wishes, unasked: dict[str, Any]) -> None:
    """Raise LabError for options that do not apply to a question about the weights alone."""
    if text:
        raise LabError("--circuits reads the weights and no text; leave the text out")
    if wishes != Wishes():
        raise LabError("--circuits reads the weights as they are; leave what is switched or edited out")
    for option, value in unasked.items():
        if value is not None:
            raise LabError(f"--circuits reads the weights, where {option} means nothing; leave it out")


# Answers.


def why_of_pattern(
    reading: Reading, where: tuple[int | None, int | None], row: int | None, column: int | None
) -> Explanation:
    from txlab.engine.interpret.why import why_pattern, with_form

    layer, head = a_head(where, "--row and --column")
    if row is None or column is None:
        raise LabError("a weight of a pattern has a --head, a --row and a --column")
    queries, keys = reading.queries, reading.keys
    row, column = inside("--row", row, len(queries)), inside("--column", column, len(keys))
    seen, site = look_at(reading), reading.site.name
    answer = why_pattern(seen, site, layer, head, row, column, queries, keys)
    return with_form(answer, reading.model.model, seen, site, layer, head, row, column)


def why_of_next(reading: Reading, position: int | None, following: str | None) -> Explanation:
    from txlab.engine.interpret.why import why_next

    place, seen = reading.place(position), look_at(reading)
    token = token_of(reading, "--next", following)
    if token is None:
        token = int(seen.logits[place].argmax())
    after = "" if reading.model.kind == "bert" else reading.predicting[place]
    return why_next(seen, place, token, names_of(reading), after)


def why_of_lens(reading: Reading, position: int | None, layer: int, following: str | None) -> Explanation:
    from txlab.engine.interpret.why import why_lens

    token = token_of(reading, "--next", following)
    lens = lens_of(reading, position, 10 if token is None else reading_vocabulary(reading))
    if not 0 <= layer < len(lens.ids):
        raise LabError(f"--layer {layer} is not in the lens; allowed: 0 (the embedding) to {len(lens.ids) - 1}")
    rank = 0 if token is None else lens.ids[layer].tolist().index(token)
    return why_lens(lens, layer, rank, names_of(reading))


def why_of_part(
    reading: Reading, effects: DirectEffects, where: tuple[int | None, int | None], part: str | None
) -> Explanation:
    """Explain the term given by a head or by its name."""
    from txlab.engine.interpret.why import why_direct

    names = names_of(reading)
    if part is not None:
        by_name = {one.name: one for one in effects.parts}
        if part not in by_name:
            raise LabError(
                f"--part {part!r} is not a part of this logit{nearest(part, by_name)}; --direct lists them all"
            )
        return why_direct(effects, by_name[part], names)
    layer, head = a_head(where, "--direct")
    wanted = "cross" if reading.site.name == "cross" else None
    for one in effects.parts:
        if (one.kind, one.layer, one.head) == ("head", layer, head) and (wanted is None or one.site == wanted):
            return why_direct(effects, one, names)
    raise LabError(f"head {layer + 1}.{head + 1} is not in the stream that predicts; --direct lists all parts")


def why_of_kl(reading: Reading, position: int | None) -> Explanation:
    from txlab.engine.interpret.effects import effect
    from txlab.engine.interpret.why import why_kl

    if not reading.given:
        raise LabError("--kl needs at least one intervention; for example --off 2.3")
    place = reading.place(position)
    change = effect(reading.model.model, reading.text, reading.given, reading.second, place)
    return why_kl(change, names_of(reading))


def why_of_rollout(reading: Reading, row: int | None, column: int | None) -> Explanation:
    from txlab.engine.interpret.why import why_rollout

    if row is None or column is None:
        raise LabError("--rollout is asked about one place: give --row and --column")
    row, column = inside("--row", row, len(reading.queries)), inside("--column", column, len(reading.keys))
    return why_rollout(look_at(reading), reading.site.name, row, column, reading.keys)


def why_of_score(reading: Reading, where: tuple[int | None, int | None], score: str) -> Explanation:
    from txlab.engine.interpret.sites import head_of
    from txlab.engine.interpret.why import why_score

    if score not in SCORES:
        raise LabError(f"--score {score!r} is not known{nearest(score, SCORES)}; allowed: {', '.join(SCORES)}")
    layer, head = a_head(where, "--score")
    head_of(reading.model.model, reading.site.name, layer, head)
    return why_score(look_at(reading), reading.site.name, layer, head, score, reading.queries)


def a_head(where: tuple[int | None, int | None], what: str) -> tuple[int, int]:
    layer, head = where
    if layer is None or head is None:
        raise LabError(f"{what} asks about one head; name it with --head 2.3")
    return layer, head


def inside(option: str, place: int, length: int) -> int:
    """Return a position, counted from the end if negative; raise LabError outside the text."""
    if not -length <= place < length:
        raise LabError(f"{option} {place} is outside; allowed: 0 to {length - 1}, or from the end -1")
    return place % length


def look_at(reading: Reading) -> Any:
    from txlab.engine.interpret.activation_cache import run_with_cache

    return run_with_cache(reading.model.model, reading.text, reading.given, reading.second)


def lens_of(reading: Reading, position: int | None, k: int = CANDIDATES) -> Lens:
    from txlab.engine.interpret.effects import lens

    place = reading.place(position)
    return lens(reading.model.model, reading.text, place, k, reading.given, reading.second)


def direct_of(reading: Reading, position: int | None, following: str | None, against: str | None) -> DirectEffects:
    """Return the direct effects on the logit of a token, by default the most likely one."""
    from txlab.engine.interpret.direct import direct_effects

    model, place = reading.model.model, reading.place(position)
    token = token_of(reading, "--next", following)
    if token is None:
        token = int(look_at(reading).logits[place].argmax())
    other = token_of(reading, "--against", against)
    return direct_effects(model, reading.text, token, other, place, reading.given, reading.second)


def names_of(reading: Reading) -> Any:
    return lambda token: reading.model.target_labels([token])[0]


def reading_vocabulary(reading: Reading) -> int:
    shape: Any = reading.model.model.shape
    return int(getattr(shape, "vocabulary", 0) or shape.target_vocabulary)


def token_of(reading: Reading, option: str, given: str | None) -> int | None:
    """Return the token of a text, an id ("#12") or a special token's name. Raises LabError if it is several tokens."""
    if given is None:
        return None
    model, size = reading.model, reading_vocabulary(reading)
    if given.startswith(EXACT) and given[1:].isascii() and given[1:].isdecimal():
        token = int(given[1:13])
        if token >= size:
            raise LabError(f"{option} {given} is not a token of {model.title}; allowed: {EXACT}0 to {EXACT}{size - 1}")
        return token
    special = {name: token for token, name in (model.special.target_names or model.special.names).items()}
    if given in special:
        return special[given]
    ids = (model.target_tokenizer or model.tokenizer).encode(given)
    if len(ids) != 1:
        parts = ", ".join(map(repr, model.target_labels(ids[:8]))) or "none"
        raise LabError(
            f"{option} {given!r} is not one token but {len(ids)}: {parts}; {EXACT}12 names a token by its id"
        )
    return ids[0]


# Output.


def show_lens(reading: Reading, lens: Lens, json: bool) -> dict[str, Any]:
    """Print each layer's prediction, or return it for JSON."""
    from txlab.drawing.text import formula

    layers = []
    for layer in range(len(lens.ids)):
        ids, chances = lens.ids[layer].tolist(), lens.probabilities[layer].tolist()
        layers.append(list(zip(ids, reading.model.target_labels(ids), chances, strict=True)))
    if json:
        rows = [
            {
                "layer": layer,
                "kl": float(lens.kl[layer]),
                "final": float(lens.final[layer]),
                "likeliest": [{"id": token, "text": label, "probability": p} for token, label, p in likeliest],
            }
            for layer, likeliest in enumerate(layers)
        ]
        return {"lens": {"position": lens.position, "layers": rows}}
    cells = [
        [
            "embedding" if layer == 0 else str(layer),
            *(f"{token_label(label, 12)} {numeral(chance)}" for _, label, chance in likeliest),
            numeral(float(lens.kl[layer])),
        ]
        for layer, likeliest in enumerate(layers)
    ]
    head = [Column("likeliest"), *(Column("") for _ in range(lens.ids.shape[1] - 1))]
    print(table([Column("after layer"), *head, Column("KL", "right")], cells))
    print()
    last = token_label(reading.predicting[lens.position], 20)
    caption = f"what each layer would predict {'at' if reading.model.kind == 'bert' else 'after'} {last}; "
    print(formula(caption + "KL is how far it is from what the last one says, in nats", ascii_only()))
    print_model(reading.model)
    return {}


# Contributions to a logit.


def show_direct(reading: Reading, effects: DirectEffects, json: bool) -> dict[str, Any]:
    """Print the contribution of each part of the model to a logit, or return it for JSON."""
    from txlab.drawing.text import formula

    if json:
        parts = [{"name": one.name, "kind": one.kind, "value": one.value} for one in effects.parts]
        return {"direct": logit_json(reading, effects) | {"scales": list(effects.scales), "parts": parts}}
    largest: Sequence[LogitTerm] = effects.largest(PARTS)
    values = [one.value for one in largest]
    print_contributions([Column("part")], [[one.name] for one in largest], values)
    if left := len(effects.parts) - len(largest):
        print(f"{left} more parts  {numeral(effects.logit - sum(values))}")
    print()
    what = logit_words(reading, effects)
    print(formula(f"all {len(effects.parts)} parts together are {what}, {numeral(effects.logit)}", ascii_only()))
    print_model(reading.model)
    return {}


def neurons_of(reading: Reading, effects: DirectEffects, layer: int | None) -> Neurons:
    """Return the neurons of a block (from 0), by default the one whose feed-forward layer changes the logit most."""
    from txlab.engine.interpret.direct import neurons

    if layer is None:
        parts = [part for part in effects.parts if part.kind == "feed_forward"]
        layer = max(parts, key=lambda part: abs(part.value)).layer or 0 if parts else 0
    model, token, other = reading.model.model, effects.token, effects.against
    return neurons(model, reading.text, layer, token, other, effects.position, reading.given, reading.second)


def show_neurons(reading: Reading, contributions: Neurons, json: bool) -> dict[str, Any]:
    """Print the neurons of a block that change a logit most, or return all of them for JSON."""
    from txlab.drawing.text import formula

    ranked: list[int] = contributions.effects.abs().argsort(descending=True).tolist()
    its_part = ("feed_forward", contributions.layer)
    value = next(part.value for part in contributions.direct.parts if (part.kind, part.layer) == its_part)
    if json:
        neurons = [
            {
                "neuron": at,
                "activation": float(contributions.activations[at]),
                "value": float(contributions.effects[at]),
            }
            for at in ranked
        ]
        answer = {"layer": contributions.layer + 1, **logit_json(reading, contributions.direct), "feed_forward": value}
        return {"neurons": answer | {"neurons": neurons}}
    effects = [float(contributions.effects[at]) for at in ranked[:NEURONS]]
    active = shares([float(contributions.activations[at]) for at in ranked[:NEURONS]])
    cells = [[str(at), activation] for at, activation in zip(ranked, active, strict=False)]
    print_contributions([Column("neuron", "right"), Column("activation")], cells, effects)
    whole, many = float(contributions.effects.sum()), len(ranked)
    if many > len(effects):
        print(f"{many - len(effects)} more neurons  {numeral(whole - sum(effects))}")
    print()
    what = f"{logit_words(reading, contributions.direct)}, {numeral(contributions.direct.logit)}"
    summary = f"feed-forward {contributions.layer + 1} adds {numeral(value)} to {what}: "
    print(formula(f"{summary}its {many} neurons, and its bias {numeral(value - whole)}", ascii_only()))
    print_model(reading.model)
    return {}


def print_contributions(head: Sequence[Column], cells: Sequence[Sequence[str]], values: Sequence[float]) -> None:
    """Print the contribution of each part to a logit, as a number and as a bar, next to the cells that name it."""
    largest = max(map(abs, values), default=1.0) or 1.0
    length = 16 if columns() < 96 else 32
    rows = [
        [*named, adds, bar(abs(value) / largest, length), "takes" if value < 0 else "adds"]
        for named, adds, value in zip(cells, shares(values), values, strict=True)
    ]
    print(table([*head, Column("adds"), Column(" " * length), Column("")], rows))


def logit_words(reading: Reading, effects: DirectEffects) -> str:
    """ "the logit of cat", or "the logit of cat less that of dog" """
    names = names_of(reading)
    what = f"the logit of {token_label(names(effects.token), 20)}"
    return what if effects.against is None else f"{what} less that of {token_label(names(effects.against), 20)}"


def logit_json(reading: Reading, effects: DirectEffects) -> dict[str, Any]:
    """Return the name of the logit and its value, for JSON."""
    names = names_of(reading)
    return {
        "position": effects.position,
        "token": {"id": effects.token, "text": names(effects.token)},
        "against": None if effects.against is None else {"id": effects.against, "text": names(effects.against)},
        "logit": effects.logit,
    }
