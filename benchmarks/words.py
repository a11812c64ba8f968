"""Words per second of word2vec, beside gensim: python benchmarks/words.py [--words N] [--repeats N]

Both learn the identifiers of Python's standard library by skip-gram with negative sampling: width 100, window 5, 5
negatives, subsampling 1e-3, one epoch, on one thread and on two. They take turns, so that other load on the machine
affects both alike; the output gives medians, and the medians of the ratios within a repeat. Ours is measured as a run
computes it, windows and noise included, without recording. Then both learn the planted text of `words-planted`, and
answer which synonyms and analogies they found. Needs gensim (`pip install gensim`), on which nothing else here depends.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from txlab.engine.embeddings.neighbours import unit
from txlab.experiments.kinds.word_vectors import KIND, WordText, WordVectorScenario
from txlab.experiments.kinds.word_vectors.experiment import WordVectors
from txlab.experiments.kinds.word_vectors.text import sentences_of


def experiment(threads: int, data: dict[str, Any], vectors: dict[str, Any], train: dict[str, Any]) -> WordVectors:
    scenario = WordVectorScenario.model_validate(
        {"kind": "word-vectors", "data": data, "vectors": vectors, "train": train, "compute": {"threads": threads}}
    )
    return KIND.build(scenario)


def gensim_of(sentences: list[list[str]], threads: int, **how: Any) -> Any:
    from gensim.models import Word2Vec

    model = Word2Vec(sg=1, window=5, negative=5, workers=threads, seed=1, **how)
    model.build_vocab(sentences)
    return model


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def speeds(words: int, repeats: int) -> None:
    source = {"text": "python-source", "words": "identifiers", "minimum": 10}
    section = WordText.model_validate(source)
    sentences, known = [], 0
    for sentence in sentences_of(section, 1):
        sentences.append(sentence)
        known += len(sentence)
        if known >= words:
            break
    for threads in (1, 2):
        ours, theirs = [], []
        for _ in range(repeats):
            made = experiment(threads, source, {}, {"epochs": 1, "words": 10_000})
            torch.set_num_threads(threads)
            steps = min(made.steps, -(-words // 10_000))
            ours.append(10_000 * steps / timed(lambda made=made, steps=steps: [made.step() for _ in range(steps)]))
            model = gensim_of(sentences, threads, vector_size=100, min_count=10, sample=1e-3)
            count = model.corpus_count
            theirs.append(
                known / timed(lambda model=model, count=count: model.train(sentences, total_examples=count, epochs=1))
            )
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        print(
            f"{threads} thread{'s' if threads > 1 else ' '}  ours {statistics.median(ours) / 1e3:6.0f} k words/s"
            f"   gensim {statistics.median(theirs) / 1e3:6.0f} k words/s"
            f"   ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} … {max(ratios):.2f})"
        )


def quality() -> None:
    planted = {"source": "planted", "words": "spaces", "sentences": "line", "minimum": 1}
    vectors = {"width": 64, "subsample": 0.0, "block": 128}
    made = experiment(1, planted, vectors, {"epochs": 6, "words": 5000})
    for _ in range(made.steps):
        made.step()
    print(f"planted text, 6 epochs   ours    {told(made)}")
    sentences = list(sentences_of(WordText.model_validate(planted), 1))
    model = gensim_of(sentences, 1, vector_size=64, min_count=1, sample=0)
    model.train(sentences, total_examples=model.corpus_count, epochs=6)
    order = [model.wv.key_to_index[word] for word in made.text.vocabulary.words]
    made.model.v.copy_(torch.from_numpy(unit(model.wv.vectors[order]).astype(np.float32)))
    print(f"                         gensim  {told(made)}")


def told(made: WordVectors) -> str:
    return ", ".join(f"{name} {share:.3f}" for name, share in made.evaluate().items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--words", type=int, default=300_000, help="of the library, to learn from")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    try:
        import gensim
    except ImportError:
        raise SystemExit("gensim is not installed: pip install gensim") from None
    print(f"gensim {gensim.__version__}, torch {torch.__version__}")
    speeds(options.words, options.repeats)
    quality()


if __name__ == "__main__":
    main()
