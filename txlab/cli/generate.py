"""`txlab generate`: what a model writes: a continuation, a translation, or what stands behind a mask (MATH T8–T10).

Notable: the same seed writes the same text. In a terminal it is written as it is made; what a token leaves unfinished
(half of a character) waits for the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from math import exp
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli.models import FileOption, JsonOption, Name
from txlab.errors import LabError

if TYPE_CHECKING:
    import torch

    from txlab.runs.models import OpenModel

TEMPERATURE = 0.8  # of a continuation; a translation is greedy unless asked otherwise
SHOWN = 5  # candidates for a mask
UNFINISHED = "\ufffd"


def generate(
    name: Name,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="the text to go on from, or to translate; - is standard input"),
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", metavar="N", help="at most so many", min=1)] = 100,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature", metavar="T", help=f"0 = always the likeliest; else {TEMPERATURE}, translating: 0", min=0
        ),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", metavar="K", help="only the K likeliest; 0 = all", min=0)] = 0,
    top_p: Annotated[
        float, typer.Option("--top-p", metavar="P", help="only the likeliest that have mass P together, 0 < P <= 1")
    ] = 1.0,
    beam: Annotated[
        int, typer.Option("--beam", metavar="K", help="the likeliest whole texts, searched with K beams", min=0)
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="the same seed writes the same text", min=0)] = 0,
    file: FileOption = None,
    json: JsonOption = False,
) -> None:
    """Go on from a prompt, translate, or fill in [MASK]."""
    from txlab.cli.models import given_text, opened

    if beam and (temperature or top_k or top_p < 1):
        raise LabError("--beam searches and draws nothing: --temperature, --top-k and --top-p are not for it")
    if not 0 < top_p <= 1:
        raise LabError(f"--top-p {top_p:g} is not allowed: above 0 and at most 1; --temperature 0 takes the likeliest")
    given = given_text(prompt, file)
    assert given is not None
    model = opened(name)
    if model.kind == "bert":
        fill(model, given, json)
        return
    if beam:
        search(model, given, tokens, beam, json)
        return
    if temperature is None:
        temperature = 0.0 if model.kind == "encoder-decoder" else TEMPERATURE
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    written = stopping(model, drawn(model, given, tokens, seed, sampling))
    if json:
        from txlab.cli.models import about, print_json

        ids = list(written)
        text = continued(model, before(model, given), ids)
        answer: dict[str, Any] = {"model": about(model), "prompt": given, "text": text, "ids": ids}
        print_json(answer | {"ended": len(ids) < tokens, "seed": seed, **sampling})
        return
    stream(model, "" if model.kind == "encoder-decoder" else given, written)


def drawn(model: OpenModel, prompt: str, tokens: int, seed: int, sampling: dict[str, Any]) -> Iterator[int]:
    """The ids that the model writes, one by one."""
    import torch

    from txlab.engine.transformer.generation import generate as go_on

    generator = torch.Generator().manual_seed(seed)
    ids = prompt_ids(model, prompt)
    if model.kind == "encoder-decoder":
        return iter(target_of(model, ids, tokens, generator, sampling))
    return go_on(cast(model), ids, tokens, generator=generator, end=model.special.end, **sampling)


def cast(model: OpenModel) -> Any:
    return model.model


def target_of(
    model: OpenModel,
    source: Sequence[int],
    tokens: int,
    generator: torch.Generator | None = None,
    sampling: dict[str, Any] | None = None,
) -> list[int]:
    """What an encoder–decoder writes for a source, its end included; greedy unless told otherwise."""
    from txlab.engine.transformer.generation import generate_target

    special = model.special
    if special.begin is None:
        raise LabError(f"{model.title} does not say which token a target begins with")
    never = [] if special.pad is None else [special.pad]
    (written,) = generate_target(
        cast(model), [source], tokens, start=special.begin, end=special.end, never=never, generator=generator,
        **(sampling or {}),
    )  # fmt: skip
    return written


def prompt_ids(model: OpenModel, prompt: str) -> tuple[int, ...]:
    """The prompt as the model reads it; LabError if nothing is left of it, or too much for a source."""
    ids = model.ids(prompt)
    if not ids:
        raise LabError("the prompt has no token to go on from; give a text")
    if model.kind == "encoder-decoder" and model.context is not None and len(ids) > model.context:
        raise LabError(f"the source has {len(ids)} tokens; {model.title} reads at most {model.context}")
    return ids


def stopping(model: OpenModel, ids: Iterable[int]) -> Iterator[int]:
    """Up to the token that ends a text, without it."""
    for token in ids:
        if token == model.special.end:
            return
        yield token


def stream(model: OpenModel, prompt: str, ids: Iterable[int]) -> None:
    """Prompt and continuation, each piece as soon as it is whole; the prompt is quieter where there are colours."""
    from txlab.cli.models import write_text
    from txlab.cli.terminal import colours

    if prompt and colours():
        sys.stdout.write("\x1b[90m")
    write_text(prompt)
    if prompt and colours():
        sys.stdout.write("\x1b[0m")
    for piece in pieces(model, before(model, prompt), ids):
        write_text(piece)
    sys.stdout.write("\n")


def before(model: OpenModel, prompt: str) -> tuple[int, ...]:
    """The tokens that a continuation is joined to: some tokenizers write a space, or not, by what stands before."""
    return () if model.kind == "encoder-decoder" else model.ids(prompt)


def continued(model: OpenModel, first: Sequence[int], ids: Sequence[int]) -> str:
    """The text of `ids` where it follows `first`."""
    whole, start = model.decode([*first, *ids]), model.decode(first)
    return whole[len(start) :] if whole.startswith(start) else model.decode(ids)


def pieces(model: OpenModel, first: Sequence[int], ids: Iterable[int]) -> Iterator[str]:
    """The text of a growing row of tokens behind `first`, as far as it can no longer change."""
    so_far: list[int] = []
    told = 0
    for token in ids:
        so_far.append(token)
        text = continued(model, first, so_far)
        whole = len(text.rstrip(UNFINISHED))
        if len(text) - whole > 3:  # four bytes without a character will not become one
            whole = len(text)
        if whole > told:
            yield text[told:whole]
            told = whole
    text = continued(model, first, so_far)
    if len(text) > told:
        yield text[told:]


def search(model: OpenModel, prompt: str, tokens: int, beams: int, json: bool) -> None:
    """The likeliest whole texts, best first, with their log-probabilities."""
    from txlab.cli.models import about, print_json, write_text
    from txlab.cli.terminal import coloured, numeral
    from txlab.engine.transformer.beam import beam_search

    special, ids = model.special, prompt_ids(model, prompt)
    options: dict[str, Any] = {}
    if model.kind == "encoder-decoder":
        options = {"start": special.begin, "never": [] if special.pad is None else [special.pad]}
    found = beam_search(cast(model), ids, tokens, beams=beams, end=special.end, **options)
    texts = [([token for token in one.ids if token != special.end], one.logp) for one in found]
    if json:
        first = before(model, prompt)
        answers = [{"text": continued(model, first, row), "ids": row, "log_probability": p} for row, p in texts]
        print_json({"model": about(model), "prompt": prompt, "beams": beams, "texts": answers})
        return
    for row, logp in texts:
        print(coloured(f"{numeral(logp)} nats", 90), end="  ")
        write_text("" if model.kind == "encoder-decoder" else prompt)
        write_text(continued(model, before(model, prompt), row) + "\n")


def fill(model: OpenModel, text: str, json: bool) -> None:
    """What BERT puts where [MASK] stands: the likeliest tokens of each, and the text with the first of them."""
    from txlab.cli.models import about, bar, print_json, print_model, shares, token_label, write_text
    from txlab.cli.terminal import Column, table

    ids = model.ids(text)
    candidates = masks(model, ids)
    filled = list(ids)
    for place, found in candidates:
        filled[place] = found[0][0]
    whole = model.decode(filled)
    if json:
        places = [
            {
                "position": place,
                "candidates": [
                    {"id": token, "text": label, "probability": p}
                    for (token, p), label in zip(found, model.labels([t for t, _ in found]), strict=True)
                ],
            }
            for place, found in candidates
        ]
        print_json({"model": about(model), "prompt": text, "text": whole, "ids": filled, "masks": places})
        return
    write_text(whole)
    print("\n")
    rows = []
    for number, (_, found) in enumerate(candidates, 1):
        labels = model.labels([token for token, _ in found])
        for label, p, (_, chance) in zip(labels, shares([p for _, p in found]), found, strict=True):
            rows.append([f"mask {number}" if label is labels[0] else "", token_label(label, 24), p, bar(chance, 20)])
    print(table([Column(""), Column("token"), Column("p"), Column(" " * 20)], rows))
    print()
    print_model(model)


def masks(model: OpenModel, ids: Sequence[int]) -> list[tuple[int, list[tuple[int, float]]]]:
    """Each masked place with its likeliest tokens and their probabilities. LabError without a mask, or too long."""
    import torch

    special = model.special
    places = [place for place, token in enumerate(ids) if token == special.mask]
    if not places:
        written = special.names.get(special.mask, "[MASK]") if special.mask is not None else "[MASK]"
        raise LabError(f"{model.title} fills in what is hidden: write {written} where a token is to be guessed")
    context = model.context
    if context is not None and len(ids) > context:
        raise LabError(f"the text has {len(ids)} tokens; {model.title} reads at most {context}")
    with torch.inference_mode():
        logp = cast(model)(torch.tensor([list(ids)]))[0].double().log_softmax(-1)  # (T, V)
    found = []
    for place in places:
        best = logp[place].topk(min(SHOWN, logp.shape[-1]))
        found.append(
            (place, [(token, exp(p)) for p, token in zip(best.values.tolist(), best.indices.tolist(), strict=True)])
        )
    return found
