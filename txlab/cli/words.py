"""`txlab words`: queries of word vectors (MATH K6), and their files.

The vectors are from a run of word2vec, the tokens of a language model, or a file in the formats of word2vec and GloVe.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from txlab.cli import options
from txlab.cli.models import bar, print_explanation, shares, token_label
from txlab.cli.output import Column, print_answer, print_json, table
from txlab.cli.terminal import ascii_only, colour_text, columns, group_digits, numeral, plural, sanitize
from txlab.cli.tokenizer import free_place
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.embeddings.embedding import Embedding
    from txlab.engine.embeddings.evaluation import Accuracy, Agreement
    from txlab.engine.embeddings.formats import Decoding


def open_vectors(name: str, context: bool, decoding: Decoding) -> Embedding:
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

    embedding = open_vectors(name, context, decoding)
    row = embedding.row(word)
    neighbours_of_word = nearest(embedding.units, embedding.units[row], count, [row])
    answer(embedding, {"word": word}, neighbours_of_word, json, csv)


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

    embedding = open_vectors(name, context, decoding)
    rows = embedding.row(a), embedding.row(b), embedding.row(c)
    answer(embedding, {"a": a, "b": b, "c": c}, nearest_to(embedding.units, *rows, count), json, csv)


def answer(
    embedding: Embedding, question: dict[str, str], nearest_rows: list[tuple[int, float]], json: bool, csv: bool
) -> None:
    """Print words with their cosines, and how often they occur if that is known."""
    words, counts = [embedding.words[row] for row, _ in nearest_rows], embedding.counts
    answers: list[dict[str, Any]] = [{"word": embedding.words[row], "cosine": cosine} for row, cosine in nearest_rows]
    if counts is not None:
        answers = [each | {"count": int(counts[row])} for each, (row, _) in zip(answers, nearest_rows, strict=True)]
    if print_answer({"vectors": about(embedding), **question, "answers": answers}, "answers", json, csv):
        return
    length = 10 if columns() < 60 else 20
    cosines = shares([cosine for _, cosine in nearest_rows])
    rows = [
        [token_label(word, 40), cosine, bar(max(0.0, value), length)]
        for word, cosine, (_, value) in zip(words, cosines, nearest_rows, strict=True)
    ]
    head = [Column("word"), Column("cosine"), Column(" " * length)]
    if counts is not None:
        head.append(Column("count", "right"))
        rows = [[*cells, group_digits(int(counts[row]))] for cells, (row, _) in zip(rows, nearest_rows, strict=True)]
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
        raise LabError(f"words are compared in pairs, and {len(words)} are given")
    from txlab.engine.embeddings.neighbours import cosine

    embedding = open_vectors(name, context, decoding)
    pairs, vectors = list(zip(words[::2], words[1::2], strict=True)), embedding.vectors
    cosines = [cosine(vectors[embedding.row(one)], vectors[embedding.row(two)]) for one, two in pairs]
    similarities = [{"words": list(pair), "cosine": cosine} for pair, cosine in zip(pairs, cosines, strict=True)]
    if print_answer({"vectors": about(embedding), "pairs": similarities}, "pairs", json, csv):
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
    """Explain the similarity of two words; with --update, the update that last moved them."""
    from txlab.engine.embeddings.neighbours import explain_similarity

    if update:
        from txlab.runs.embeddings import objective_asked
        from txlab.runs.word_updates import open_updates
        from txlab.runs.writing import set_thread_environment

        set_thread_environment()
        run, objective = objective_asked(name)
        updates, step = open_updates(run)
        explanation = updates.last(one, other, step, objective)
    else:
        embedding = open_vectors(name, context, decoding)
        rows = embedding.row(one), embedding.row(other)
        explanation = explain_similarity((one, other), embedding.vectors[rows[0]], embedding.vectors[rows[1]])
    if json:
        print_json({"explanation": explanation.as_json()})
    else:
        print_explanation(explanation)


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
    embedding = open_vectors(name, context, decoding)
    answer: dict[str, Any] = {"vectors": about(embedding)}
    if isinstance(asked[0], Pair):
        result = agreement(embedding, asked, not case, most or RESTRICTED)
        answer |= {"spearman": result.rho, "in_vocabulary": result.known, "pairs": result.pairs}
        if not print_answer(answer, "", json, csv):
            print_agreement(result)
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


def print_accuracies(accuracies: list[Accuracy]) -> None:
    def cells(each: Accuracy) -> list[str]:
        accuracy = percent(each.right, each.known)
        covered = percent(each.known, each.questions)
        return [
            sanitize(each.name),
            accuracy,
            group_digits(each.right),
            group_digits(each.known),
            group_digits(each.questions),
            covered,
        ]

    head = [Column("section", loose=True), Column("accuracy", "right"), Column("right", "right")]
    head += [Column("in vocabulary", "right"), Column("questions", "right"), Column("share", "right")]
    print(table(head, [cells(each) for each in accuracies]))


def print_agreement(result: Agreement) -> None:
    from txlab.drawing.text import formula

    rho = formula("Spearman's ρ", ascii_only())
    defined = numeral(result.rho) if result.rho == result.rho else "not defined"
    covered = percent(result.known, result.pairs)
    print(
        f"{rho} {defined}, over {group_digits(result.known)} of {group_digits(result.pairs)} pairs: "
        f"{covered} in the vocabulary"
    )


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

    embedding = open_vectors(name, context, decoding)
    path = free_place(file, replace, "FILE")
    # Many tokens of a language model begin with a space, which in these files ends a word.
    spaced = [word for word in embedding.words if WHITE_SPACE.search(word)]
    if spaced:
        words = (label(word) if WHITE_SPACE.search(word) else word for word in embedding.words)
        embedding = dataclasses.replace(embedding, words=distinct(words))
    write_vectors(embedding, path, form)
    count, width = embedding.vectors.shape
    print(sanitize(f"{path}: {plural(count, 'word')}, {width} numbers each"))
    if any(read_otherwise(embedding).values()):
        print_about(embedding)
    if spaced:
        print(
            sanitize(f"{plural(len(spaced), 'word')} with white space written as on the screens, {label(spaced[0])!r}")
        )


def about(embedding: Embedding) -> dict[str, Any]:
    """Describe the vectors for JSON."""
    count, width = embedding.vectors.shape
    description = {"title": embedding.title, "words": count, "width": width}
    return description | {name: number for name, number in read_otherwise(embedding).items() if number}


def read_otherwise(embedding: Embedding) -> dict[str, int]:
    """Count the words of a file that were changed when they were read."""
    return {"not_utf8": embedding.broken, "left_out": embedding.left_out}


def print_about(embedding: Embedding) -> None:
    """Print the source of the vectors in one dimmed line."""
    count, width = embedding.vectors.shape
    summary = f"{embedding.title}: {group_digits(count)} words, {width} numbers each"
    if embedding.broken:
        summary += f"; {plural(embedding.broken, 'word')} not in UTF-8"
    if embedding.left_out:
        summary += f"; {plural(embedding.left_out, 'word')} left out, being there a second time"
    print(colour_text(sanitize(summary), 90))
