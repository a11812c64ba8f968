"""Words per second of word2vec, compared with gensim: python benchmarks/words.py [--words N] [--repeats N]

Both learn the same words by skip-gram with negative sampling: width 100, window 5, 5 negatives, subsampling 1e-3, one
epoch (five of the manual), on one thread and on two. They take turns, so that other load on the machine affects both
equally. The output has medians of words per second, by the clock and by processor time, and of the ratios within a
repeat. The words of the vocabulary are counted before subsampling. Ours is a run with its windows, noise and recording,
and the same bits with one thread and with two. With two, one learns and the other prepares: `path` is the processor
time of the first, compared with half of gensim's. Then both learn the planted text of `words-planted`, and report which
synonyms and analogies they found. Needs gensim (`pip install gensim`), used only here.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from txlab.engine.embeddings.neighbours import unit
from txlab.experiments.kinds.word_vectors import KIND
from txlab.experiments.kinds.word_vectors.experiment import WordVectors
from txlab.experiments.kinds.word_vectors.schema import WordText, WordVectorScenario
from txlab.experiments.kinds.word_vectors.text import sentences_of
from txlab.experiments.schema import Record
from txlab.runs.control import Inbox
from txlab.runs.directory import new_info
from txlab.runs.folder import create_run_directory
from txlab.runs.loop import run_loop
from txlab.runs.recorder import Recorder

RECORD = Record(evaluate_every=0, sample_every=100, frame_every=20, checkpoint_every=100)  # as scenarios/words-*
TEXTS = {"python-source": "identifiers", "python-docs": "letters"}
EPOCHS = {"python-source": 1, "python-docs": 5}


class Spent(NamedTuple):
    """Seconds by the clock, of all threads, and of the calling one."""

    wall: float
    processor: float
    path: float


def measure_time(work: Callable[[], object]) -> Spent:
    clocks = (time.perf_counter, time.process_time, time.thread_time)
    begun = [clock() for clock in clocks]
    work()
    return Spent(*(clock() - start for clock, start in zip(clocks, begun, strict=True)))


def experiment(threads: int, data: dict[str, Any], vectors: dict[str, Any], train: dict[str, Any]) -> WordVectors:
    scenario = WordVectorScenario.model_validate(
        {"kind": "word-vectors", "data": data, "vectors": vectors, "train": train, "compute": {"threads": threads}}
    )
    return KIND.build(scenario)


def run_recorded(made: WordVectors, folder: Path) -> Spent:
    run = create_run_directory(folder, "words")
    info = new_info(run, "words", "word-vectors", steps=made.steps)
    info.save(run)
    recorder = Recorder(run, info)
    spent_on = measure_time(lambda: run_loop(made, recorder, Inbox(run), RECORD))
    recorder.finish("done", "")
    assert made.step_count == made.steps
    return spent_on


def gensim_of(sentences: list[list[str]], threads: int, **how: Any) -> Any:
    from gensim.models import Word2Vec

    model = Word2Vec(sg=1, window=5, negative=5, workers=threads, seed=1, **how)
    model.build_vocab(sentences)
    return model


def first_sentences(text: str, words: int) -> list[list[str]]:
    section = WordText.model_validate({"text": text, "words": TEXTS[text]})
    sentences: list[list[str]] = []
    known = 0
    for sentence in sentences_of(section, 1):
        if sentence and known < words:
            sentences.append(sentence)
            known += len(sentence)
    return sentences


def speeds(text: str, words: int, repeats: int, folder: Path) -> None:
    sentences = first_sentences(text, words)
    file = folder / f"{text}.txt"
    file.write_text("\n".join(" ".join(sentence) for sentence in sentences), encoding="utf-8")
    data = {"text": str(file), "words": "spaces", "sentences": "line", "minimum": 5}
    for threads in (1, 2):
        ours, theirs = [], []
        for _ in range(repeats):
            made = experiment(threads, data, {}, {"epochs": EPOCHS[text], "words": 10_000})
            known = made.text.vocabulary.known
            ours.append(run_recorded(made, folder))
            model = gensim_of(sentences, threads, vector_size=100, min_count=5, sample=1e-3)
            assert sum(model.wv.get_vecattr(word, "count") for word in model.wv.key_to_index) == known
            theirs.append(
                measure_time(partial(model.train, sentences, total_examples=len(sentences), epochs=EPOCHS[text]))
            )
        known *= EPOCHS[text]
        print(f"{text}, {known:,} words, {threads} thread{'s' if threads > 1 else ''}, thousand words a second:")
        for clock in Spent._fields[: 1 + threads]:
            us, them = ([getattr(each, clock) for each in each_words] for each_words in (ours, theirs))
            if clock == "path":  # compared with the best that gensim's two workers could do
                them = [each.processor / threads for each in theirs]
            ratios = [other / one for one, other in zip(us, them, strict=True)]
            print(
                f"  {clock:10}  ours {known / statistics.median(us) / 1e3:5.0f}"
                f"   gensim {known / statistics.median(them) / 1e3:5.0f}"
                f"   ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} … {max(ratios):.2f})",
                flush=True,
            )


def quality() -> None:
    planted = {"source": "planted", "words": "spaces", "sentences": "line", "minimum": 1}
    vectors = {"width": 64, "subsample": 0.0, "block": 128}
    made = experiment(1, planted, vectors, {"epochs": 6, "words": 5000})
    for _ in range(made.steps):
        made.step()
    print(f"planted text, 6 epochs   ours    {describe(made)}")
    sentences = list(sentences_of(WordText.model_validate(planted), 1))
    model = gensim_of(sentences, 1, vector_size=64, min_count=1, sample=0)
    model.train(sentences, total_examples=model.corpus_count, epochs=6)
    order = [model.wv.key_to_index[word] for word in made.text.vocabulary.words]
    made.model.v.copy_(torch.from_numpy(unit(model.wv.vectors[order]).astype(np.float32)))
    print(f"                         gensim  {describe(made)}")


def describe(made: WordVectors) -> str:
    return ", ".join(f"{name} {share:.3f}" for name, share in made.evaluate().items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--words", type=int, default=300_000, help="of each text, to learn from")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    try:
        import gensim
    except ImportError:
        raise SystemExit("gensim is not installed: pip install gensim") from None
    print(f"gensim {gensim.__version__}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory(prefix="txlab-words-") as folder:
        for text in TEXTS:
            speeds(text, options.words, options.repeats, Path(folder))
    quality()


if __name__ == "__main__":
    main()
