"""`txlab generate`: a continuation, a translation, or the tokens for a mask (MATH T8–T10).

The same seed gives the same text. In a terminal it is written as it is generated; an incomplete character waits for the
next token.
"""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import exp
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.interventions import Wishes, interventions
from txlab.cli.models import about, bar, open_text_model, print_model, read_text, shares, token_label, write_text
from txlab.cli.output import Column, print_json, table
from txlab.cli.terminal import colour_text, colours, numeral, sanitize
from txlab.errors import LabError

if TYPE_CHECKING:
    import torch

    from txlab.engine.interpret.interventions import Intervention
    from txlab.engine.transformer.generation import Rules
    from txlab.runs.models import OpenModel

TOKENS = 100
TEMPERATURE = 0.8  # of a continuation; a translation is greedy by default
TEMPERATURE_HELP = f"0 = always the likeliest token; by default {TEMPERATURE}, for translations 0"
SHOWN = 5  # candidates for a mask
UNFINISHED = "\ufffd"


def generate(
    name: options.Model,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="the text to continue, or to translate; - is standard input"),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", metavar="N", help=f"at most N tokens; else its folder's limit, or {TOKENS}", min=1),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", metavar="T", help=TEMPERATURE_HELP, min=0)
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="K", help="draw from the K likeliest tokens; 0 = from all", min=0)
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", metavar="P", help="draw from the likeliest tokens of mass P, 0 < P <= 1")
    ] = None,
    beam: Annotated[
        int | None, typer.Option("--beam", metavar="K", help="beam search with K beams; 0 = draw instead", min=0)
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option("--length-penalty", metavar="A", help="rank the texts of a search by log p / length^A"),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option("--repetition-penalty", metavar="R", help="above 1: tokens of the text become less likely"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="the same seed writes the same text", min=0)] = 0,
    file: options.File = None,
    special: options.Special = False,
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
    """Continue a prompt, translate, or fill in [MASK]. Options that are not given come from the folder's
    generation_config.json, where it has one. With an intervention (--off, --scale, --cut, --allow, --patch, --edit,
    --erratum) the text is written without and with it."""
    if beam and (temperature or top_k or (top_p is not None and top_p < 1)):
        raise LabError("--beam searches and draws nothing: --temperature, --top-k and --top-p are not for it")
    if top_p is not None and not 0 < top_p <= 1:
        raise LabError(f"--top-p {top_p:g} is not allowed: above 0 and at most 1; --temperature 0 takes the likeliest")
    if repetition_penalty is not None and not 0 < repetition_penalty <= 1e6:
        raise LabError(f"--repetition-penalty {repetition_penalty:g} is not allowed: above 0; 1 = none")
    if length_penalty is not None and not -100 <= length_penalty <= 100:
        raise LabError(f"--length-penalty {length_penalty:g} is not allowed: from -100 to 100; 0 = none")
    given = read_text(prompt, file)
    assert given is not None
    model = open_text_model(name, special)
    wishes = Wishes.of(second, off=off, scale=scale, cut=cut, allow=allow, patch=patch, edit=edit, erratum=erratum)
    given_interventions = interventions(wishes, "cross" if model.kind == "encoder-decoder" else "self")
    if given_interventions and (model.kind == "bert" or beam):
        raise LabError("interventions are for texts that are written token by token: neither for masks nor for --beam")
    if model.kind == "bert":
        fill(model, given, json)
        return
    from txlab.engine.transformer.generation import continues

    asked = {
        "max_new_tokens": tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "num_beams": beam,
        "length_penalty": length_penalty,
        "repetition_penalty": repetition_penalty,
    }
    if model.kind == "gpt":
        continues(model.model)  # type: ignore[arg-type]
    ids = prompt_ids(model, given)
    how = manner(model, {key: value for key, value in asked.items() if value is not None}, len(ids))
    if not json and (line := how.describe()):
        print(sanitize(line), file=sys.stderr)
    if given_interventions:
        compare_written(model, given, given_interventions, second, how, seed, json)
        return
    if how.beams:
        search(model, given, how, json, every=beam is not None)
        return
    written = stopping(model, draw_ids(model, ids, how, seed))
    if json:
        row = list(written)
        text = decode_continuation(model, before(model, given), row)
        answer: dict[str, Any] = {"model": about(model), "prompt": given, "text": text, "ids": row}
        print_json(answer | {"ended": len(row) < how.tokens, "seed": seed, **how.sampling, **how.as_json()})
        return
    stream(model, "" if model.kind == "encoder-decoder" else given, written)


def compare_written(
    model: OpenModel,
    prompt: str,
    given: Sequence[Intervention],
    second: str | None,
    how: Manner,
    seed: int,
    json: bool,
) -> None:
    """Print what the model writes without and with the interventions, from the same random numbers."""
    import torch

    from txlab.engine.interpret.continuations import write_under
    from txlab.engine.interpret.interventions import remarks, to_json

    text, other = model.text(prompt), None if second is None else model.text(second)
    rows = [
        list(
            write_under(
                model.model, text, how.tokens, wishes, other, context=model.context, end=model.special.stops,
                rules=how.rules, generator=torch.Generator().manual_seed(seed), **how.sampling,
            )
        )
        for wishes in ((), tuple(given))
    ]  # fmt: skip
    texts = [decode_continuation(model, before(model, prompt), row) for row in rows]
    parts_at = next((at for at, pair in enumerate(zip(*rows, strict=False)) if pair[0] != pair[1]), min(map(len, rows)))
    same = rows[0] == rows[1]
    told = [*(wish.says for wish in given), *remarks(model.model, given)]
    if json:
        plain, edited = ({"text": words, "ids": row} for words, row in zip(texts, rows, strict=True))
        answer = {"model": about(model), "prompt": prompt, "interventions": [to_json(wish) for wish in given]}
        answer |= {"remarks": list(remarks(model.model, given)), "without": plain, "with": edited}
        print_json(answer | {"parts_at": None if same else parts_at, "seed": seed, **how.sampling})
        return
    for sentence in told:
        print(sanitize(sentence))
    print("the texts are the same" if same else f"the texts part at token {parts_at + 1}")
    for title, words in zip(("without", "with"), texts, strict=True):
        print(colour_text(f"\n{title}", 90))
        write_text(("" if model.kind == "encoder-decoder" else prompt) + words + "\n")


@dataclass(frozen=True)
class Manner:
    """The decoding settings: those given, else from the model's folder, else our defaults.

    beams      0 = no beam search
    limited    the file asks for more tokens than the model reads; by default only that many are written
    applied, ignored   the settings of the folder's `file` that apply here, and the others
    """

    tokens: int
    beams: int
    sampling: Mapping[str, Any]
    searching: Mapping[str, Any]
    rules: Rules
    file: str = ""
    limited: bool = False
    applied: Mapping[str, Any] = field(default_factory=dict)
    ignored: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return for JSON the settings from a file, and the repetition penalty if there is one."""
        repetition = {} if self.rules.repetition == 1 else {"repetition_penalty": self.rules.repetition}
        if not (self.applied or self.ignored):
            return repetition
        return repetition | {"from_file": {"file": self.file, "applied": self.applied, "ignored": self.ignored}}

    def describe(self) -> str:
        """Describe the settings from a file, in one line; "" if there are none."""
        parts = []
        for verb, keys in (("applied", self.applied), ("ignored", self.ignored)):
            settings = [f"{key[:40]} = {json_.dumps(value)[:40]}" for key, value in islice(keys.items(), MOST_TOLD)]
            more = [f"and {len(keys) - len(settings)} more"] if len(keys) > len(settings) else []
            parts += [f"{verb} {', '.join(settings + more)}"] if settings else []
        parts += [f"at most {self.tokens} tokens without --tokens"] if self.limited else []
        return f"{self.file}: {'; '.join(parts)}" if parts else ""


WINDOW = 4096  # default limit of tokens for a model with unlimited context, if its file asks for more
MOST_TOLD = 30  # settings of a file named in a line; fewer are read
# Keys of a generation_config.json that apply to only one way of decoding.
DRAWING = {"temperature", "top_k", "top_p"}
SEARCHING = {"num_beams", "length_penalty", "early_stopping", "renormalize_logits"}


def manner(model: OpenModel, asked: Mapping[str, Any], before: int) -> Manner:
    """Return the decoding settings after a prompt (or source) of `before` tokens; `asked` uses the file's keys."""
    from txlab.engine.transformer.weights.generation_configs import UNSAID

    folder, target = model.generation or UNSAID, model.kind == "encoder-decoder"
    settings = {key: value for key, value in folder.given.items() if key not in asked}
    draws = any(asked.get(key) for key in ("temperature", "top_k")) or asked.get("top_p", 1) < 1
    beams = asked.get("num_beams", 0)
    if "num_beams" not in asked and not draws and "temperature" not in asked and settings.get("num_beams", 1) > 1:
        beams = settings["num_beams"]
    folder.needs(key for key in used_keys(asked, settings, target, beams, draws) if key not in asked)
    of_folder = settings if settings.get("do_sample") else {}  # its sampling settings
    usual = 0.0 if target or (settings.get("do_sample") is False and not draws) else TEMPERATURE
    temperature = asked.get("temperature", of_folder.get("temperature", usual))
    repetition = asked.get("repetition_penalty", folder.rules.repetition)
    rules = replace(folder.rules, never=model.never, repetition=repetition)
    counts = set(settings) - (DRAWING | {"do_sample"} if beams else SEARCHING)
    counts -= DRAWING if not temperature or not of_folder else set()
    counts -= {"max_length"} if {"max_new_tokens"} & (set(asked) | counts) else set()
    counts -= {"do_sample"} if bool(settings.get("do_sample")) != bool(temperature) else set()
    tokens, unasked = asked.get("max_new_tokens"), folder.most(1 if target else before) or TOKENS
    most = max(model.context or WINDOW, TOKENS)
    return Manner(
        tokens=tokens or min(unasked, most),
        beams=beams,
        sampling={
            "temperature": temperature,
            "top_k": asked.get("top_k", of_folder.get("top_k", 0)),
            "top_p": asked.get("top_p", of_folder.get("top_p", 1.0)),
        },
        searching={
            "alpha": asked.get("length_penalty", settings.get("length_penalty", 0.0)),
            "penalty": "power",
            "early_stopping": settings.get("early_stopping", True),
        },
        rules=rules,
        file=folder.file,
        limited=tokens is None and unasked > most,
        applied={key: settings[key] for key in settings if key in counts},
        ignored={key: settings[key] for key in settings if key not in counts} | dict(folder.unknown),
    )


RULES = (
    "eos_token_id", "repetition_penalty", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
    "forced_bos_token_id", "forced_eos_token_id",
)  # fmt: skip


def used_keys(
    asked: Mapping[str, Any], settings: Mapping[str, Any], target: bool, beams: int, draws: bool
) -> Iterator[str]:
    """Yield the keys of a generation_config.json that this way of decoding depends on."""
    yield from RULES
    if target:
        yield "decoder_start_token_id"
    if "max_new_tokens" not in asked:
        yield from ("max_new_tokens", *(() if "max_new_tokens" in settings else ("max_length",)))
    if "num_beams" not in asked and "temperature" not in asked and not draws:
        yield from ("num_beams", "do_sample")
    if beams:
        yield from ("length_penalty", "early_stopping", "renormalize_logits")
    elif asked.get("temperature", 1) and settings.get("do_sample"):
        yield from ("temperature", "top_k", "top_p")


def draw_ids(model: OpenModel, ids: Sequence[int], how: Manner, seed: int) -> Iterator[int]:
    """Yield the ids that the model generates."""
    import torch

    from txlab.engine.transformer.generation import generate as go_on

    generator = torch.Generator().manual_seed(seed)
    if model.kind == "encoder-decoder":
        return iter(target_of(model, ids, how.tokens, generator, how))
    inner: Any = model.model
    return go_on(inner, ids, how.tokens, generator=generator, end=model.special.stops, rules=how.rules, **how.sampling)


def target_of(
    model: OpenModel,
    source: Sequence[int],
    tokens: int,
    generator: torch.Generator | None = None,
    how: Manner | None = None,
) -> list[int]:
    """Return an encoder–decoder's output for a source, including the end token; greedy by default."""
    from txlab.engine.transformer.generation import generate_target

    inner: Any = model.model
    special = model.special
    how = how or manner(model, {"temperature": 0.0}, len(source))
    (written,) = generate_target(
        inner, [source], tokens, start=start_of(model), end=special.stops, rules=how.rules, generator=generator,
        **how.sampling,
    )  # fmt: skip
    return written


def start_of(model: OpenModel) -> int:
    """Return the token that a target begins with."""
    if model.special.begin is None:
        raise LabError(f"{model.title} does not say which token a target begins with")
    return model.special.begin


def prompt_ids(model: OpenModel, prompt: str) -> tuple[int, ...]:
    """Encode the prompt for the model; raise LabError if it is empty, or too long for a source."""
    ids = model.ids(prompt)
    if not ids:
        raise LabError("the prompt has no token to continue from; give a text")
    if model.kind == "encoder-decoder" and model.context is not None and len(ids) > model.context:
        raise LabError(f"the source has {len(ids)} tokens; {model.title} reads at most {model.context}")
    return ids


def stopping(model: OpenModel, ids: Iterable[int]) -> Iterator[int]:
    """Yield ids up to, but without, the token that ends a text."""
    for token in ids:
        if token in model.special.stops:
            return
        yield token


def stream(model: OpenModel, prompt: str, ids: Iterable[int]) -> None:
    """Write the prompt and the continuation, each piece once it is complete; the prompt is dimmed if colours exist."""
    if prompt and colours():
        sys.stdout.write("\x1b[90m")
    write_text(prompt)
    if prompt and colours():
        sys.stdout.write("\x1b[0m")
    for piece in pieces(model, before(model, prompt), ids):
        write_text(piece)
    sys.stdout.write("\n")


def before(model: OpenModel, prompt: str) -> tuple[int, ...]:
    """Return the tokens before a continuation: some tokenizers decode a space depending on them."""
    return () if model.kind == "encoder-decoder" else model.ids(prompt)


def decode_continuation(model: OpenModel, first: Sequence[int], ids: Sequence[int]) -> str:
    """Decode `ids` as the continuation of `first`."""
    whole, start = model.decode([*first, *ids]), model.decode(first)
    return whole[len(start) :] if whole.startswith(start) else model.decode(ids)


def pieces(model: OpenModel, first: Sequence[int], ids: Iterable[int]) -> Iterator[str]:
    """Yield the text of a growing sequence of tokens after `first`, as far as it can no longer change."""
    so_far: list[int] = []
    written = 0
    for token in ids:
        so_far.append(token)
        text = decode_continuation(model, first, so_far)
        whole = len(text.rstrip(UNFINISHED))
        if len(text) - whole > 3:  # four bytes that are not a character never become one
            whole = len(text)
        if whole > written:
            yield text[written:whole]
            written = whole
    text = decode_continuation(model, first, so_far)
    if len(text) > written:
        yield text[written:]


def search(model: OpenModel, prompt: str, how: Manner, json: bool, every: bool) -> None:
    """Print the most likely texts, best first, with their log-probabilities; only the first unless `every`."""
    from txlab.engine.transformer.beam import beam_search

    inner: Any = model.model
    target = model.kind == "encoder-decoder"
    start = start_of(model) if target else None
    hypotheses = beam_search(
        inner, prompt_ids(model, prompt), how.tokens, beams=how.beams, end=model.special.stops, start=start,
        rules=how.rules, **how.searching,
    )  # fmt: skip
    texts = [([token for token in one.ids if token not in model.special.stops], one) for one in hypotheses]
    if json:
        first = before(model, prompt)
        answers = [
            {
                "text": decode_continuation(model, first, row),
                "ids": row,
                "log_probability": one.logp,
                "score": one.score,
            }
            for row, one in texts
        ]
        answer = {"model": about(model), "prompt": prompt, "beams": how.beams, "length_penalty": how.searching["alpha"]}
        print_json(answer | ({"texts": answers} if every else answers[0]) | how.as_json())
        return
    if not every:
        stream(model, "" if target else prompt, texts[0][0])
        return
    for row, one in texts:
        print(colour_text(f"{numeral(one.logp)} nats", 90), end="  ")
        write_text("" if target else prompt)
        write_text(decode_continuation(model, before(model, prompt), row) + "\n")


def fill(model: OpenModel, text: str, json: bool) -> None:
    """Print BERT's most likely tokens for each [MASK], and the text filled with the first of them."""
    ids = model.ids(text)
    candidates = masks(model, ids)
    filled = list(ids)
    places: list[dict[str, Any]] = []
    for place, likeliest in candidates:
        filled[place] = likeliest[0][0]
        labels = model.labels([token for token, _ in likeliest])
        rows = [{"id": t, "text": label, "probability": p} for (t, p), label in zip(likeliest, labels, strict=True)]
        places.append({"position": place, "candidates": rows})
    whole = model.decode(filled)
    if json:
        print_json({"model": about(model), "prompt": text, "text": whole, "ids": filled, "masks": places})
        return
    write_text(whole)
    print("\n")
    lines = []
    for number, entry in enumerate(places, 1):
        chances = [row["probability"] for row in entry["candidates"]]
        for row, p in zip(entry["candidates"], shares(chances), strict=True):
            first = f"mask {number}" if row is entry["candidates"][0] else ""
            lines.append([first, token_label(row["text"], 24), p, bar(row["probability"], 20)])
    print(table([Column(""), Column("token"), Column("p"), Column(" " * 20)], lines))
    print()
    print_model(model)


def masks(model: OpenModel, ids: Sequence[int]) -> list[tuple[int, list[tuple[int, float]]]]:
    """Return each masked position with its most likely tokens and probabilities. LabError: no mask, or too long."""
    import torch

    special = model.special
    places = [place for place, token in enumerate(ids) if token == special.mask]
    if not places:
        written = special.names.get(special.mask, "[MASK]") if special.mask is not None else "[MASK]"
        raise LabError(f"{model.title} fills in masked tokens: write {written} for a token to be predicted")
    context = model.context
    if context is not None and len(ids) > context:
        raise LabError(f"the text has {len(ids)} tokens; {model.title} reads at most {context}")
    with torch.inference_mode():
        inner: Any = model.model
        logp = inner(torch.tensor([list(ids)]))[0].double().log_softmax(-1)  # (T, V)
    best = logp.topk(min(SHOWN, logp.shape[-1]))
    rows = [zip(best.indices[place].tolist(), map(exp, best.values[place].tolist()), strict=True) for place in places]
    return [(place, list(row)) for place, row in zip(places, rows, strict=True)]
