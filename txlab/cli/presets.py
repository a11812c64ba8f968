"""`txlab presets`: models of the literature, their parameter counts, and how well they fit into this machine.

Notable: only one block of each is built, on the meta device, so 175 billion parameters are counted on a laptop. A
narrow terminal gets two tables one below the other, a wide one the same columns side by side.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_rows, table
from txlab.cli.terminal import ascii_only, columns, meter, sanitize
from txlab.drawing.formatting import count
from txlab.errors import LabError, choices

if TYPE_CHECKING:
    from txlab.engine.transformer.costs import AnyShape
    from txlab.engine.transformer.presets import Preset

WIDE = 144  # columns that the two tables need side by side
METER, BAR = 24, "█░"  # cells of a bar, and its signs
LEGEND = (
    "N layers, D width, H heads, F feed-forward, T context, V vocabulary; parameters, ours and as published. "
    "Memory: weights in bfloat16 and float32; training with AdamW in float32; sequence, its activations; cache of 1000 "
    "tokens. FLOPs: forward, a token; total, the whole training, where its tokens are published."
)


def presets(
    name: Annotated[
        str | None, typer.Argument(metavar="PRESET", help="show this preset in full, or the model of a scenario")
    ] = None,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """The models of the literature: shape, parameters, memory, FLOPs."""
    from txlab.engine.transformer.presets import PRESETS

    chosen = list(PRESETS.values()) if name is None else [preset_or_scenario(name)[0]]
    if print_rows(map(facts, chosen), json, csv):
        return
    if name is None:
        print_all(chosen)
    else:
        print_one(chosen[0])


def preset_or_scenario(name: str) -> tuple[Preset, float]:
    """A preset, and 0; or the model of a scenario as one without published numbers, and its tokens a step.

    LabError for a name that is neither, and for a scenario that trains no transformer or whose size is not known yet.
    """
    from txlab.engine.transformer.presets import PRESETS, Preset, PresetShape, preset_named
    from txlab.experiments.kind import kind_named
    from txlab.experiments.learning.kind import GradientKind
    from txlab.runs.scenario import load_scenario, shipped_scenarios

    known = shipped_scenarios()
    if name in PRESETS or (name not in known and not name.endswith(".toml")):
        if name not in PRESETS and name.lower().replace("-", "")[:4] != "gpt4":
            raise LabError(f"no preset or scenario is called {name!r}{choices(name, [*PRESETS, *known])}")
        return preset_named(name), 0.0
    scenario: Any = load_scenario(name, []).scenario
    kind = kind_named(scenario.kind)
    if not isinstance(kind, GradientKind):
        raise LabError(f"{name} trains no transformer; `txlab run {name} --dry-run` says what it costs")
    shape: Any = kind.shape_of(scenario)
    if not isinstance(shape, PresetShape):
        raise LabError(f"{name} trains no transformer of texts; `txlab run {name} --dry-run` says what it costs")
    step = float(scenario.train.batch * shape.context)
    about = scenario.about
    return Preset(name, about.title or name, shape, about.source, 0.0, 1.0, step * scenario.train.steps), step


def facts(preset: Preset) -> dict[str, Any]:
    """Return the numbers of a preset: parameters, bytes, FLOPs, by the words that head the table's columns."""
    from txlab.engine.transformer.costs import costs, memory
    from txlab.engine.transformer.presets import agrees, compared_parameters, parameters, parts, training_flops

    cost, room = costs(preset.shape), memory(preset.shape)
    return {
        "name": preset.name,
        "title": preset.title,
        "source": preset.source,
        "shape": letters(preset.shape),
        "parameters": parameters(preset.shape),
        "ours": compared_parameters(preset),
        "published": int(preset.published) or None,
        "differ": compared_parameters(preset) / preset.published - 1 if preset.published else None,
        "agrees": agrees(preset) if preset.published else None,
        "parts": parts(preset.shape),
        "memory": {
            "bfloat16": room.weights // 2,
            "float32": room.weights,
            "training": room.training,
            "sequence": room.activations or None,
            "cache": room.cache or None,
        },
        "flops": {
            "forward": cost.forward_flops_per_token,
            "forward_and_backward": cost.flops_per_token,
            "total": training_flops(preset) or None,
            "published": preset.flops or None,
        },
        "tokens": preset.tokens or None,
        "mixture": mixture_facts(preset.name),
        "notes": list(preset.notes),
    }


def mixture_facts(name: str) -> dict[str, Any] | None:
    """Return the texts that a preset learnt from; None if they are not known. Printed and derived numbers apart."""
    from txlab.engine.transformer.mixtures import mixture_of

    mixture = mixture_of(name)
    if mixture is None:
        return None
    rows = [
        {
            "text": text.name,
            "weight": text.weight,
            "epochs_printed": text.epochs,
            "epochs_derived": mixture.epochs_of(text) or None,
            "tokens_printed": text.tokens or None,
            "tokens_derived": None if text.tokens else mixture.tokens_of(text),
            "bytes_a_token_derived": text.disk / mixture.tokens_of(text) if text.disk else None,
        }
        for text in mixture.texts
    ]
    return {"source": mixture.source, "tokens": mixture.tokens, "scenario": mixture.scenario, "texts": rows}


def letters(shape: AnyShape) -> dict[str, int | list[int] | None]:
    """Return the shape in the letters of `txlab formulas`: N D H K F T V; None if not published."""
    from txlab.engine.transformer.encoder_decoder import EncoderDecoderShape
    from txlab.engine.transformer.vision import VisionShape

    assert not isinstance(shape, VisionShape)  # no preset has one
    depth: int | list[int]
    if isinstance(shape, EncoderDecoderShape):
        depth, vocabulary = [shape.encoder_layers, shape.decoder_layers], shape.target_vocabulary
    else:
        depth, vocabulary = shape.layers, shape.vocabulary
    return {
        "N": depth,
        "D": shape.width,
        "H": shape.heads,
        "K": shape.head_width,
        "F": shape.inner,
        "T": shape.context or None,
        "V": vocabulary,
    }


def print_all(chosen: list[Preset]) -> None:
    right = "right"
    memory, flops = ("bfloat16", "float32", "training", "sequence", "cache"), ("forward", "total")
    shapes = [Column("name"), *(Column(each, right) for each in (*"NDHFTV", "ours", "published", "differ"))]
    costs = [Column(each, right) for each in (*memory, *flops)]
    first, second = [], []
    for preset in chosen:
        content = facts(preset)
        room, work, shape = content["memory"], content["flops"], content["shape"]
        stacks = "+".join(map(str, shape["N"])) if isinstance(shape["N"], list) else str(shape["N"])
        cells = [
            preset.name,
            stacks,
            *(unknown() if shape[letter] is None else str(shape[letter]) for letter in "DHFTV"),
        ]
        first.append([*cells, amount(content["ours"]), amount(preset.published), percent(content["differ"], 1)])
        second.append([*(size(room[each]) for each in memory), *(power(work[each]) for each in flops)])
    if columns() > WIDE:
        print(table([*shapes, *costs], [one + two for one, two in zip(first, second, strict=True)]))
    else:
        print(table(shapes, first))
        print()
        names = [[preset.name] for preset in chosen]
        print(table([Column("name"), *costs], [one + two for one, two in zip(names, second, strict=True)]))
    print()
    for paragraph in (
        LEGEND,
        "txlab presets NAME shows where its parameters are, and how much of it this machine holds.",
    ):
        print(textwrap.fill(paragraph, min(columns() - 1, 100)))


def print_one(preset: Preset) -> None:
    content = facts(preset)
    room, work, width = content["memory"], content["flops"], min(columns() - 1, 100)
    print(f"{preset.name}: {preset.title}")
    print(textwrap.fill(sanitize(preset.source), width))
    print("\n" + textwrap.fill(describe_shape(content["shape"]), width))

    total = content["parameters"]
    rows = [
        [label, count(many), meter(many / total, METER, BAR), f"{100 * many / total:.1f} %"]
        for label, many in content["parts"].items()
    ]
    rows.append(["all", count(total), "", ""])
    if content["ours"] != total:
        rows.append(["without the token table", count(content["ours"]), "", ""])
    if preset.published:
        verdict = "agrees" if content["agrees"] else percent(content["differ"], 2)
        rows.append(["published", amount(preset.published), "", verdict])
    head = [Column("parameters"), Column("", "right"), Column(""), Column("", "right")]
    print("\n" + table(head, rows))

    rows = [
        ["weights in bfloat16", size(room["bfloat16"])],
        ["weights in float32", size(room["float32"])],
        ["training: weights, gradients, two moments of AdamW", size(room["training"])],
        ["activations of one sequence of T tokens, about", size(room["sequence"])],
        ["keys and values of 1000 tokens, float32", size(room["cache"])],
    ]
    print("\n" + table([Column("memory"), Column("", "right")], [row for row in rows if row[1] != unknown()]))

    rows = [
        ["forward, a token", power(work["forward"])],
        ["training, a token", power(work["forward_and_backward"])],
        [f"training, {amount(preset.tokens)} tokens", power(work["total"])],
        ["training, as published", power(work["published"])],
    ]
    print("\n" + table([Column("FLOPs"), Column("", "right")], [row for row in rows if row[1] != unknown()]))
    print_held(room)
    print_mixture(preset.name, width)
    for note in preset.notes:
        print("\n" + textwrap.fill(sanitize(note), width))


def print_mixture(name: str, width: int) -> None:
    """Print the texts that the model learnt from; what follows from the printed numbers is labelled derived."""
    from txlab.engine.transformer.mixtures import mixture_of

    mixture = mixture_of(name)
    if mixture is None:
        return
    printed = any(text.tokens for text in mixture.texts)
    rows = [
        [
            text.name,
            f"{100 * text.weight:g} %",
            amount(mixture.tokens_of(text)),
            f"{text.epochs:.2f}",
            f"{mixture.epochs_of(text):.2f}" if printed else f"{text.disk / mixture.tokens_of(text):.2f}",
        ]
        for text in mixture.texts
    ]
    head = (
        ("texts, as printed", "weight", "tokens", "epochs", "epochs, derived")
        if printed
        else ("texts, as printed", "weight", "tokens, derived", "epochs", "bytes a token, derived")
    )
    print("\n" + table([Column(head[0]), *(Column(each, "right") for each in head[1:])], rows))
    about = f"{mixture.source}; {amount(mixture.tokens)} tokens read. txlab run {mixture.scenario} reads texts so."
    print(textwrap.fill(sanitize(f"{about} {mixture.note}"), width))


def describe_shape(shape: dict[str, Any]) -> str:
    layers = shape["N"]
    stacks = f"{layers[0]} + {layers[1]} layers" if isinstance(layers, list) else f"{layers} layers"
    context = f"T {shape['T']} positions" if shape["T"] else "context not published"
    own = "" if shape["H"] * shape["K"] == shape["D"] else f", which is not D / H = {shape['D'] / shape['H']:g}"
    return (
        f"N {stacks}, D {shape['D']} wide, H {shape['H']} heads of K {shape['K']}{own}, F {shape['F']} neurons, "
        f"{context}, V {count(shape['V'])} tokens"
    )


def print_held(room: dict[str, Any]) -> None:
    """Print how much of it fits into this machine's memory, as bars."""
    import psutil

    memory = psutil.virtual_memory()
    rows = []
    for label, needed in {
        "weights in bfloat16": room["bfloat16"],
        "weights in float32": room["float32"],
        "training, one sequence": room["training"] + (room["sequence"] or 0),
    }.items():
        share = needed / memory.total
        verdict = "fits" if needed <= memory.available else "fits, when alone"
        if share > 1:
            verdict = f"{share:.3g} such machines" if share < 1000 else f"{share:.0f} such machines"
        rows.append([label, size(needed), meter(min(share, 1.0), METER, BAR), verdict])
    head = [Column("this machine"), Column("", "right"), Column(""), Column("")]
    print(f"\n{table(head, rows)}")
    print(f"of {size(memory.total)}, of which {size(memory.available)} are free")


def percent(share: float, digits: int) -> str:
    """Format a deviation with its sign unless it is zero: +0.6 %, −3.0 %, 0.0 %."""
    text = f"{100 * share:+.{digits}f} %"
    if not float(text[:-2]):
        return text[1:]
    return text if ascii_only() else text.replace("-", "−")


def amount(number: float) -> str:
    """Format a large number: 124.4 M, 1.558 B."""
    if not number:
        return unknown()
    unit, letter = next((pair for pair in ((1e12, "T"), (1e9, "B"), (1e6, "M")) if number >= pair[0]), (1.0, ""))
    return f"{number / unit:.4g} {letter}".strip()


def size(number: float | None) -> str:
    """Format bytes in decimal units, three digits: 498 MB, 2.79 TB."""
    if not number:
        return unknown()
    unit, name = next((pair for pair in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")) if number >= pair[0]), (1e3, "kB"))
    scaled = number / unit
    return f"{scaled:.0f} {name}" if scaled >= 100 else f"{scaled:.3g} {name}"


def power(number: float | None) -> str:
    """Format a number of operations: 2.85e11."""
    return unknown() if not number else f"{number:.2e}".replace("e+", "e").replace("e0", "e")


def unknown() -> str:
    """Return the placeholder for unpublished values."""
    return "-" if ascii_only() else "–"
