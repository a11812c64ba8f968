"""`txlab words`: what word vectors know (MATH K6), and files of them.

The vectors are those of a run of word2vec, of the tokens of a language model, or of a file in the formats of word2vec
and GloVe.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from txlab.cli import options
from txlab.cli.models import bar, print_explanation, shares, token_label
from txlab.cli.output import Column, print_answer, print_json, table
from txlab.cli.terminal import ascii_only, coloured, columns, numeral, plural, shown, spaced
from txlab.cli.tokenizer import free_place
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.embeddings.embedding import Embedding
    from txlab.engine.embeddings.evaluation import Accuracy, Agreement
    from txlab.engine.embeddings.formats import Decoding


def opened(name: str, context: bool, decoding: Decoding) -> Embedding:
    from txlab.runs.embeddings import open_embedding
    from txlab.runs.writing import set_thread_environment

    set_thread_environment()
    embedding = open_embedding(name, decoding=decoding)
    return embedding.contexts() if context else embedding


def neighbours(
    name: options.Vectors,
    word: Annotated[str, typer.Argument(metavar="WORD")],
    count: options.Count = 10,
    context: options.Contexts = False,
    decoding: options.Decoding = "replace",
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """The words with the largest cosines to a word."""
    from txlab.engine.embeddings.neighbours import nearest

    embedding = opened(name, context, decoding)
    row = embedding.row(word)
    found = nearest(embedding.units, embedding.units[row], count, [row])
    answer(embedding, {"word": word}, found, json, csv)


def analogy(
    name: options.Vectors,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    count: options.Count = 10,
    context: options.Contexts = False,
    decoding: options.Decoding = "replace",
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """The words nearest to A - B + C, without these three: king - man + woman."""
    from txlab.engine.embeddings.neighbours import analogy as nearest_to

    embedding = opened(name, context, decoding)
    rows = embedding.row(a), embedding.row(b), embedding.row(c)
    answer(embedding, {"a": a, "b": b, "c": c}, nearest_to(embedding.units, *rows, count), json, csv)


def answer(
    embedding: Embedding, question: dict[str, str], found: list[tuple[int, float]], json: bool, csv: bool
) -> None:
    """Print words with their cosines, and how often they occur if that is known."""
    words, counts = [embedding.words[row] for row, _ in found], embedding.counts
    answers: list[dict[str, Any]] = [{"word": embedding.words[row], "cosine": cosine} for row, cosine in found]
    if counts is not None:
        answers = [each | {"count": int(counts[row])} for each, (row, _) in zip(answers, found, strict=True)]
    if print_answer({"vectors": about(embedding), **question, "answers": answers}, "answers", json, csv):
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
    name: options.Vectors,
    words: Annotated[list[str], typer.Argument(metavar="WORD WORD...", help="one pair of words, or several")],
    context: options.Contexts = False,
    decoding: options.Decoding = "replace",
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """The cosine of two words, or of several pairs."""
    if len(words) % 2:
        raise LabError(f"words are compared in pairs, and {len(words)} of them are given")
    from txlab.engine.embeddings.neighbours import cosine

    embedding = opened(name, context, decoding)
    pairs, vectors = list(zip(words[::2], words[1::2], strict=True)), embedding.vectors
    cosines = [cosine(vectors[embedding.row(one)], vectors[embedding.row(two)]) for one, two in pairs]
    found = [{"words": list(pair), "cosine": cosine} for pair, cosine in zip(pairs, cosines, strict=True)]
    if print_answer({"vectors": about(embedding), "pairs": found}, "pairs", json, csv):
        return
    head = [Column("word"), Column("word"), Column("cosine")]
    rows = [
        [token_label(one, 40), token_label(two, 40), cosine]
        for (one, two), cosine in zip(pairs, shares(cosines), strict=True)
    ]
    print(table(head, rows))
    print_about(embedding)


def explain(
    name: options.Vectors,
    one: Annotated[str, typer.Argument(metavar="WORD")],
    other: Annotated[str, typer.Argument(metavar="WORD")],
    update: Annotated[
        bool, typer.Option("--update", help="the update that moved the first as a centre, the second as its context")
    ] = False,
    context: options.Contexts = False,
    decoding: options.Decoding = "replace",
    json: options.Json = False,
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
    name: options.Vectors,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="analogy questions (': section', then four words a line), or scored pairs"),
    ],
    case: Annotated[bool, typer.Option("--case", help="upper and lower case differ")] = False,
    most: Annotated[
        int | None, typer.Option("--most", metavar="N", help="only the N most frequent words; else 300 000", min=1)
    ] = None,
    context: options.Contexts = False,
    decoding: options.Decoding = "replace",
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """Accuracy in analogy questions, or Spearman's rank correlation with human scores of pairs."""
    from txlab.engine.embeddings.evaluation import RESTRICTED, Pair, agreement, analogies, read_evaluation, total

    asked: Any = read_evaluation(file)
    embedding = opened(name, context, decoding)
    answer: dict[str, Any] = {"vectors": about(embedding)}
    if isinstance(asked[0], Pair):
        found = agreement(embedding, asked, not case, most or RESTRICTED)
        answer |= {"spearman": found.rho, "in_vocabulary": found.known, "pairs": found.pairs}
        if not print_answer(answer, "", json, csv):
            print_agreement(found)
    else:
        sections = analogies(embedding, asked, not case, most or RESTRICTED)
        *keys, whole = (
            {"name": each.name, "accuracy": each.accuracy, "right": each.right}
            | {"in_vocabulary": each.known, "questions": each.questions}
            for each in [*sections, total(sections)]
        )
        if not print_answer(answer | {"sections": keys, "total": whole}, "sections", json, csv):
            print_accuracies([*sections, total(sections)])
    if not (json or csv):
        print_about(embedding)


def print_accuracies(found: list[Accuracy]) -> None:
    def cells(each: Accuracy) -> list[str]:
        accuracy = percent(each.right, each.known)
        covered = percent(each.known, each.questions)
        return [shown(each.name), accuracy, spaced(each.right), spaced(each.known), spaced(each.questions), covered]

    head = [Column("section", loose=True), Column("accuracy", "right"), Column("right", "right")]
    head += [Column("in vocabulary", "right"), Column("questions", "right"), Column("share", "right")]
    print(table(head, [cells(each) for each in found]))


def print_agreement(found: Agreement) -> None:
    from txlab.drawing.text import formula

    rho = formula("Spearman's ρ", ascii_only())
    defined = numeral(found.rho) if found.rho == found.rho else "not defined"
    covered = percent(found.known, found.pairs)
    print(f"{rho} {defined}, over {spaced(found.known)} of {spaced(found.pairs)} pairs: {covered} in the vocabulary")


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def export(
    name: options.Vectors,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    form: Annotated[
        Literal["word2vec", "word2vec-binary", "glove"],
        typer.Option("--format", help="word2vec's text, its binary, or GloVe's text"),
    ] = "word2vec",
    context: options.Contexts = False,
    decoding: options.Decoding = "replace",
    replace: options.Replace = False,
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
