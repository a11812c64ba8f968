"""`txlab score`: the probability a model gives to a text: each token, all of them, perplexity (MATH R1).

Only a decoder-only model defines the probability of a text; BERT gives a pseudo-log-likelihood, an encoder–decoder the
probability of a target given its source.
"""

from __future__ import annotations

from math import exp, isfinite, log
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.models import about, bar, open_text_model, print_model, read_text, shares, token_label
from txlab.cli.output import Column, print_answer, table
from txlab.cli.terminal import ascii_only, columns, group_digits, numeral, plural
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.transformer.scoring import Score
    from txlab.runs.models import OpenModel

LONGEST_LABEL = 20  # cells


def score(
    name: options.Model,
    text: options.Text = None,
    target: options.Target = None,
    pair: options.Pair = None,
    file: options.File = None,
    stride: Annotated[
        int,
        typer.Option(
            "--stride",
            metavar="TOKENS",
            help="for a text longer than the context: the shift from window to window; 0 = half the context",
            min=0,
        ),
    ] = 0,
    special: options.Special = False,
    json: options.Json = False,
    csv: options.Csv = False,
    every: options.EveryToken = False,
) -> None:
    """The log-probability of a text, token by token, under a model."""
    given = read_text(text, file)
    assert given is not None
    model = open_text_model(name, special)
    result = score_of(model, given, target, stride, pair)
    labels = model.target_labels([token.token for token in result.tokens])
    size = count_scored_bytes(model, result, given if target is None else target)
    content = {"model": about(model), **answer(model, result, labels, size)} if json or csv else {}
    if print_answer(content, "tokens", json, csv):
        return
    print_table(model, result, labels, None if every else options.ROWS)
    print_totals(model, result, size)
    print_model(model)


def score_of(model: OpenModel, text: str, target: str | None, stride: int = 0, pair: str | None = None) -> Score:
    """Return the score that suits the model. Raises LabError for a target it cannot have, or a missing one."""
    from txlab.engine.transformer.scoring import score_masked, score_target, score_text

    inner: Any = model.model
    read = model.text(text, target, pair) if pair is not None else None  # LabError if the model does not read pairs
    if model.kind == "encoder-decoder":
        if target is None:
            raise LabError(f"{model.title} writes a target for a source: say with --target which one to score")
        return score_target(inner, model.ids(text), model.target_ids(target))
    if target is not None:
        raise LabError(f"{model.title} reads one text; --target is for an encoder–decoder")
    if model.kind == "bert":
        special = model.special
        if special.mask is None:
            raise LabError(f"{model.title} has no mask token, and so no score")
        if read is None:
            return score_masked(inner, model.ids(text), special.mask, list(special.names))
        return score_masked(inner, read.ids, special.mask, list(special.names), read.segments)
    return score_text(inner, model.ids(text), stride)


def count_scored_bytes(model: OpenModel, scores: Score, text: str) -> int:
    """Return the number of UTF-8 bytes of the scored tokens; 0 where that is not defined.

    They are the bytes of the text as the tokenizer normalizes it, without a space that it puts before the text. A first
    token without a predecessor is not scored and does not count, unless it is a special token put before the text.
    """
    from txlab.engine.tokenizers.elementary import NumberTokenizer
    from txlab.engine.tokenizers.offsets import Spanning, token_spans
    from txlab.experiments.kinds.language_model.symbols import SymbolTokenizer

    tokenizer = model.target_tokenizer or model.tokenizer
    if model.kind == "bert" or isinstance(tokenizer, SymbolTokenizer | NumberTokenizer):
        return 0
    around = model.special.around
    put_before = around[0] if around is not None else model.special.begin is not None
    unscored = [
        t.token for t in scores.tokens[:1] if not t.scored and not put_before and t.token < tokenizer.vocabulary
    ]
    if not isinstance(tokenizer, Spanning):
        return len(text.encode()) - sum(len(tokenizer.token_bytes(token)) for token in unscored)
    parts = [span.data for span in token_spans(tokenizer, text, model.typed_special)]
    if unscored:
        return len(b"".join(parts[1:]))
    return len(b"".join(parts)) - (parts[:1] != [] and parts[0][:1] == b" " and not text[0].isspace())


def answer(model: OpenModel, scores: Score, labels: list[str], size: int) -> dict[str, Any]:
    """Return everything as JSON. Logarithms are in nats unless their name says bits."""
    from txlab.engine.transformer.scoring import FORMULAS

    likeliest = iter(model.target_labels([token.likeliest for token in scores.tokens if token.scored]))
    return {
        "score": scores.name,
        "formula": FORMULAS[scores.name],
        "tokens": [
            {
                "id": token.token,
                "text": label,
                "log_probability": token.logp,
                "probability": exp(token.logp) if token.scored else None,
                "rank": token.rank or None,
                "entropy": token.entropy,
                "seen": token.seen if token.scored else None,
                "likeliest": (
                    {"id": token.likeliest, "text": next(likeliest), "probability": exp(token.likeliest_logp)}
                    if token.scored
                    else None
                ),
            }
            for token, label in zip(scores.tokens, labels, strict=True)
        ],
        "scored": scores.score_tokens,
        "total": scores.total if scores.score_tokens else None,
        "total_bits": scores.total / log(2) if scores.score_tokens else None,
        "mean": scores.mean,
        "perplexity": scores.perplexity,
        "bytes": size or None,
        "bits_per_byte": scores.bits_per_byte(size),
        "stride": scores.stride or None,
        "context": model.context,
    }


def print_table(model: OpenModel, scores: Score, labels: list[str], most: int | None) -> None:
    """Print each token, log p, p as a number and a bar, its rank, and the model's own prediction."""
    tokens = scores.tokens[:most]
    if not tokens:
        return
    likeliest = model.target_labels([max(0, token.likeliest) for token in tokens])
    logs = shares([token.logp for token in tokens if token.scored])
    chances = iter(zip(logs, shares([exp(token.logp) for token in tokens if token.scored]), strict=True))
    length = 10 if columns() < 96 else 20
    rows = []
    for token, label, best in zip(tokens, labels, likeliest, strict=False):
        shown = token_label(label, LONGEST_LABEL)
        if not token.scored:
            rows.append([shown, "", "", "", "", ""])
            continue
        logp, p = next(chances)
        instead = f"{token_label(best, LONGEST_LABEL)} {numeral(exp(token.likeliest_logp))}" if token.rank > 1 else ""
        rows.append([shown, logp, p, bar(exp(token.logp), length), group_digits(token.rank), instead])
    head = [Column("token"), Column("log p"), Column("p"), Column(" " * length), Column("rank", "right")]
    print(table([*head, Column("likeliest", loose=True)], rows))
    if left := len(scores.tokens) - len(tokens):
        print(f"\nand {group_digits(left)} more; --all shows them, --json has them")
    print()


def print_totals(model: OpenModel, scores: Score, size: int) -> None:
    from txlab.drawing.text import formula

    if not scores.score_tokens:
        print("no token has anything before it, so there is nothing to score")
        return
    print(
        f"{scores.name}: {numeral(scores.total)} nats = {numeral(scores.total / log(2))} bits, "
        f"over {plural(scores.score_tokens, 'token')}"
    )
    what = "pseudo-perplexity" if model.kind == "bert" else "perplexity"
    line = f"{what} {numeral(scores.perplexity)}, {numeral(scores.mean)} nats per token"
    bits = scores.bits_per_byte(size)
    print(line + (f", {numeral(bits)} bits per byte" if isfinite(bits) else ""))
    first = scores.tokens[0]
    if model.kind in ("gpt", "recurrent") and not first.scored and first.token not in model.special.names:
        print("the first token has no predecessor, and is not scored")
    if model.kind == "bert":
        note = "each token was hidden in turn: Σ log p(xₜ | the others) is not the probability of a text"
        print(formula(note, ascii_only()))
    if scores.stride:
        context = model.context or 0
        print(
            f"read in windows of {group_digits(context)} tokens, a stride of {group_digits(scores.stride)} apart: "
            f"a token sees at least {group_digits(context - scores.stride + 1)} tokens before it, or all there are"
        )
