"""`txlab words`: what word vectors know (MATH K6), and files of them.

The vectors are those of a run of word2vec, of the tokens of a language model, or of a file in the formats of word2vec
and GloVe.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from txlab.cli.models import JsonOption, bar, print_explanation, print_json, shares, token_label
from txlab.cli.terminal import Column, ascii_only, coloured, columns, numeral, plural, shown, spaced, table
from txlab.cli.tokenizer import Replace, free_place
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.embeddings.embedding import Embedding
    from txlab.engine.embeddings.evaluation import Accuracy, Pair, Section
    from txlab.engine.embeddings.formats import Decoding

Vectors = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="a run (its name, directory, latest, RUN@1200; RUN:nce of several objectives), a folder, or a file",
    ),
]
Count = Annotated[int, typer.Option("--count", metavar="N", help="answers", min=1)]
ContextOption = Annotated[
    bool, typer.Option("--context", help="u, the vectors of words as contexts, instead of v, those of centres")
]
# What is done with bytes of a file's words that are not UTF-8.
DecodingOption = Annotated[
    Literal["replace", "ignore", "strict"],
    typer.Option("--unicode-errors", help="bytes of a file's words that are not UTF-8: replaced, left out, or refused"),
]


def opened(name: str, context: bool, decoding: Decoding) -> Embedding:
    from txlab.runs.embeddings import open_embedding
    from txlab.runs.writing import set_thread_environment

    set_thread_environment()
    embedding = open_embedding(name, decoding=decoding)
    return embedding.contexts() if context else embedding


def neighbours(
    name: Vectors,
    word: Annotated[str, typer.Argument(metavar="WORD")],
    count: Count = 10,
    context: ContextOption = False,
    decoding: DecodingOption = "replace",
    json: JsonOption = False,
) -> None:
    """The words with the largest cosines to a word."""
    from txlab.engine.embeddings.neighbours import nearest

    embedding = opened(name, context, decoding)
    row = embedding.row(word)
    found = nearest(embedding.units, embedding.units[row], count, [row])
    answer(embedding, {"word": word}, found, json)


def analogy(
    name: Vectors,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    count: Count = 10,
    context: ContextOption = False,
    decoding: DecodingOption = "replace",
    json: JsonOption = False,
) -> None:
    """The words nearest to A - B + C, without these three: king - man + woman."""
    from txlab.engine.embeddings.neighbours import analogy as nearest_to

    embedding = opened(name, context, decoding)
    rows = embedding.row(a), embedding.row(b), embedding.row(c)
    answer(embedding, {"a": a, "b": b, "c": c}, nearest_to(embedding.units, *rows, count), json)


def answer(embedding: Embedding, question: dict[str, str], found: list[tuple[int, float]], json: bool) -> None:
    """Print words with their cosines, and how often they occur if that is known."""
    words, counts = [embedding.words[row] for row, _ in found], embedding.counts
    if json:
        answers: list[dict[str, Any]] = [{"word": embedding.words[row], "cosine": cosine} for row, cosine in found]
        if counts is not None:
            answers = [each | {"count": int(counts[row])} for each, (row, _) in zip(answers, found, strict=True)]
        print_json({"vectors": about(embedding), **question, "answers": answers})
        return
    length = 10 if columns() < 60 else 20
    cosines = shares([cosine for _, cosine in found])
    rows = [
        [token_label(word, 40), cosine, bar(max(0.0, value), length)]
        for word, cosine, (_, value) in zip(words, cosines, found, strict=True)
    ]
    head = [Column("word"), Column("cosine"), Column(" " * length)]
    if counts is not None:
        head.append(Column("count", "right"))
        rows = [[*cells, spaced(int(counts[row]))] for cells, (row, _) in zip(rows, found, strict=True)]
    print(table(head, rows))
    print_about(embedding)


def similarity(
    name: Vectors,
    words: Annotated[list[str], typer.Argument(metavar="WORD WORD...", help="one pair of words, or several")],
    context: ContextOption = False,
    decoding: DecodingOption = "replace",
    json: JsonOption = False,
) -> None:
    """The cosine of two words, or of several pairs."""
    if len(words) % 2:
        raise LabError(f"words are compared in pairs, and {len(words)} of them are given")
    from txlab.engine.embeddings.neighbours import cosine

    embedding = opened(name, context, decoding)
    pairs, vectors = list(zip(words[::2], words[1::2], strict=True)), embedding.vectors
    cosines = [cosine(vectors[embedding.row(one)], vectors[embedding.row(two)]) for one, two in pairs]
    if json:
        found = [{"words": list(pair), "cosine": cosine} for pair, cosine in zip(pairs, cosines, strict=True)]
        print_json({"vectors": about(embedding), "pairs": found})
        return
    head = [Column("word"), Column("word"), Column("cosine")]
    rows = [
        [token_label(one, 40), token_label(two, 40), cosine]
        for (one, two), cosine in zip(pairs, shares(cosines), strict=True)
    ]
    print(table(head, rows))
    print_about(embedding)


def explain(
    name: Vectors,
    one: Annotated[str, typer.Argument(metavar="WORD")],
    other: Annotated[str, typer.Argument(metavar="WORD")],
    update: Annotated[
        bool, typer.Option("--update", help="the update that moved the first as a centre, the second as its context")
    ] = False,
    context: ContextOption = False,
    decoding: DecodingOption = "replace",
    json: JsonOption = False,
) -> None:
    """Why two words are as similar as they are; with --update, what moved them last."""
    from txlab.engine.embeddings.neighbours import explain_similarity

    if update:
        from txlab.runs.embeddings import objective_asked
        from txlab.runs.word_updates import open_updates
        from txlab.runs.writing import set_thread_environment

        set_thread_environment()
        run, objective = objective_asked(name)
        updates, step = open_updates(run)
        told = updates.last(one, other, step, objective)
    else:
        embedding = opened(name, context, decoding)
        rows = embedding.row(one), embedding.row(other)
        told = explain_similarity((one, other), embedding.vectors[rows[0]], embedding.vectors[rows[1]])
    if json:
        print_json({"explanation": told.as_json()})
    else:
        print_explanation(told)


def evaluate(
    name: Vectors,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="analogy questions (': section', then four words a line), or scored pairs"),
    ],
    case: Annotated[bool, typer.Option("--case", help="upper and lower case differ")] = False,
    most: Annotated[
        int | None, typer.Option("--most", metavar="N", help="only the N most frequent words; else 300 000", min=1)
    ] = None,
    context: ContextOption = False,
    decoding: DecodingOption = "replace",
    json: JsonOption = False,
) -> None:
    """Accuracy in analogy questions, or Spearman's rank correlation with human scores of pairs."""
    from txlab.engine.embeddings.evaluation import RESTRICTED, Pair, read_evaluation

    asked: Any = read_evaluation(file)
    embedding = opened(name, context, decoding)
    most = most or RESTRICTED
    if isinstance(asked[0], Pair):
        evaluate_pairs(embedding, asked, not case, most, json)
    else:
        evaluate_analogies(embedding, asked, not case, most, json)


def evaluate_analogies(embedding: Embedding, sections: list[Section], fold: bool, most: int, json: bool) -> None:
    from txlab.engine.embeddings.evaluation import analogies, total

    found = analogies(embedding, sections, fold, most)

    def cells(each: Accuracy) -> list[str]:
        accuracy = percent(each.right, each.known)
        covered = percent(each.known, each.questions)
        return [shown(each.name), accuracy, spaced(each.right), spaced(each.known), spaced(each.questions), covered]

    if json:
        keys = [
            {"name": each.name, "accuracy": each.accuracy, "right": each.right}
            | {"in_vocabulary": each.known, "questions": each.questions}
            for each in [*found, total(found)]
        ]
        print_json({"vectors": about(embedding), "sections": keys[:-1], "total": keys[-1]})
        return
    head = [Column("section", loose=True), Column("accuracy", "right"), Column("right", "right")]
    head += [Column("in vocabulary", "right"), Column("questions", "right"), Column("share", "right")]
    print(table(head, [cells(each) for each in [*found, total(found)]]))
    print_about(embedding)


def evaluate_pairs(embedding: Embedding, pairs: list[Pair], fold: bool, most: int, json: bool) -> None:
    from txlab.drawing.text import formula
    from txlab.engine.embeddings.evaluation import agreement

    found = agreement(embedding, pairs, fold, most)
    if json:
        print_json(
            {"vectors": about(embedding), "spearman": found.rho, "in_vocabulary": found.known, "pairs": found.pairs}
        )
        return
    rho = formula("Spearman's ρ", ascii_only())
    defined = numeral(found.rho) if found.rho == found.rho else "not defined"
    covered = percent(found.known, found.pairs)
    print(f"{rho} {defined}, over {spaced(found.known)} of {spaced(found.pairs)} pairs: {covered} in the vocabulary")
    print_about(embedding)


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def export(
    name: Vectors,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    form: Annotated[
        Literal["word2vec", "word2vec-binary", "glove"],
        typer.Option("--format", help="word2vec's text, its binary, or GloVe's text"),
    ] = "word2vec",
    context: ContextOption = False,
    decoding: DecodingOption = "replace",
    replace: Replace = False,
) -> None:
    """Write vectors into a file that gensim and others read."""
    from txlab.drawing.text import label
    from txlab.engine.embeddings.formats import WHITE_SPACE, write_vectors
    from txlab.runs.embeddings import distinct

    embedding = opened(name, context, decoding)
    path = free_place(file, replace, "FILE")
    # Many tokens of a language model begin with a space, which in these files ends a word.
    spaced = [word for word in embedding.words if WHITE_SPACE.search(word)]
    if spaced:
        words = (label(word) if WHITE_SPACE.search(word) else word for word in embedding.words)
        embedding = dataclasses.replace(embedding, words=distinct(words))
    write_vectors(embedding, path, form)
    count, width = embedding.vectors.shape
    print(shown(f"{path}: {plural(count, 'word')}, {width} numbers each"))
    if any(read_otherwise(embedding).values()):
        print_about(embedding)
    if spaced:
        print(shown(f"{plural(len(spaced), 'word')} with white space written as on the screens, {label(spaced[0])!r}"))


def about(embedding: Embedding) -> dict[str, Any]:
    """Describe the vectors for JSON."""
    count, width = embedding.vectors.shape
    told = {"title": embedding.title, "words": count, "width": width}
    return told | {name: number for name, number in read_otherwise(embedding).items() if number}


def read_otherwise(embedding: Embedding) -> dict[str, int]:
    """Count the words of a file that were not read as they are written there."""
    return {"not_utf8": embedding.broken, "left_out": embedding.left_out}


def print_about(embedding: Embedding) -> None:
    """Say in one quiet line whose vectors these are."""
    count, width = embedding.vectors.shape
    said = f"{embedding.title}: {spaced(count)} words, {width} numbers each"
    if embedding.broken:
        said += f"; {plural(embedding.broken, 'word')} not in UTF-8"
    if embedding.left_out:
        said += f"; {plural(embedding.left_out, 'word')} left out, being there a second time"
    print(coloured(shown(said), 90))
