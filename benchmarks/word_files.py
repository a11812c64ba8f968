"""Files of word vectors compared with gensim: python benchmarks/word_files.py [--words N]

Whether gensim reads our files and we gensim's, to the bit, in word2vec's text and binary and in GloVe's
text; how long reading and writing takes; and whether both give the same answers to the analogy questions and the pairs
of words that gensim has in its test data. Needs gensim (`pip install gensim`), used only here.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from clock import cpu_seconds

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.evaluation import agreement, analogies, read_evaluation, total
from txlab.engine.embeddings.formats import FORMATS, read_vectors, write_vectors


def same(words: Any, vectors: np.ndarray, of: Embedding) -> str:
    equal = list(words) == list(of.words) and np.array_equal(vectors.view(np.uint32), of.vectors.view(np.uint32))
    return "equal to the bit" if equal else "DIFFERENT"


def files(embedding: Embedding, folder: Path) -> None:
    from gensim.models import KeyedVectors

    theirs = KeyedVectors(embedding.vectors.shape[1])
    theirs.add_vectors(list(embedding.words), embedding.vectors)
    print("{} words, {} numbers each; processor seconds".format(*embedding.vectors.shape))
    for form in FORMATS:
        one_form(embedding, theirs, form, folder)


def one_form(embedding: Embedding, theirs: Any, form: str, folder: Path) -> None:
    binary, header, ours, other = form == "word2vec-binary", form != "glove", folder / "ours", str(folder / "theirs")
    read_by: list[Any] = []
    write = cpu_seconds(lambda: write_vectors(embedding, ours, form))
    their_write = cpu_seconds(lambda: theirs.save_word2vec_format(other, binary=binary, write_header=header))
    read = cpu_seconds(lambda: read_by.append(read_vectors(Path(other))))
    their_read = cpu_seconds(
        lambda: read_by.append(theirs.load_word2vec_format(str(ours), binary=binary, no_header=not header))
    )
    we, they = read_by
    print(f"  {form:16} gensim reads ours: {same(they.index_to_key, they.vectors, embedding)}", end="")
    print(f"; we read gensim's: {same(we.words, we.vectors, embedding)}")
    print(f"  {'':16} write {write:.1f} (gensim {their_write:.1f}), read {read:.1f} (gensim {their_read:.1f})")


def evaluations() -> None:
    """Vectors drawn at random, but for a direction planted in some sections, so that there is something to find."""
    from gensim.models import KeyedVectors
    from gensim.test.utils import datapath

    sections: Any = read_evaluation(Path(datapath("questions-words.txt")))
    draws = np.random.default_rng(1)
    words = list(dict.fromkeys(word for section in sections for question in section.questions for word in question))
    words = words[: 3 * len(words) // 4] + [word.lower() for word in words[:200] if word.lower() not in words]
    vectors = draws.standard_normal((len(words), 20)).astype(np.float32)
    ids = {word: row for row, word in enumerate(words)}
    for section in sections[:3]:
        way = 2 * draws.standard_normal(20)
        for a, b, *_ in section.questions:
            if a in ids and b in ids:
                vectors[ids[b]] = vectors[ids[a]] + way + 0.3 * draws.standard_normal(20)
    ours, theirs = Embedding(tuple(words), vectors), KeyedVectors(20)
    theirs.add_vectors(words, vectors)
    for fold in (True, False):
        accuracies = analogies(ours, sections, fold)
        _, sections_of = theirs.evaluate_word_analogies(datapath("questions-words.txt"), case_insensitive=fold)
        pairs = [(len(each["correct"]), len(each["correct"]) + len(each["incorrect"])) for each in sections_of]
        equal = [(each.right, each.known) for each in [*accuracies, total(accuracies)]] == pairs
        same = "as" if equal else "NOT AS"
        print(f"questions-words.txt, folded {fold}: {total(accuracies)}, {same} gensim in every section")
        for name in ("wordsim353.tsv", "simlex999.txt"):
            asked: Any = read_evaluation(Path(datapath(name)))
            agreed = agreement(ours, asked, fold)
            _, (rho, _), _ = theirs.evaluate_word_pairs(datapath(name), case_insensitive=fold)
            print(f"{name}, folded {fold}: {agreed}, gensim (scipy) {rho}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--words", type=int, default=100_000)
    count = parser.parse_args().words
    try:
        import gensim
    except ImportError:
        raise SystemExit("gensim is not installed: pip install gensim") from None
    print(f"gensim {gensim.__version__}")
    draws = np.random.default_rng(1)
    scales = np.exp(draws.uniform(-20, 20, (count, 1)))
    vectors = (draws.standard_normal((count, 100)) * scales).astype(np.float32)
    with tempfile.TemporaryDirectory(prefix="txlab-words-") as folder:
        files(Embedding(tuple(f"wörd{i}" for i in range(count)), vectors), Path(folder))
    evaluations()


if __name__ == "__main__":
    main()
