"""How well general compressors do on a scenario's validation text, in bits per byte: a baseline for language models.

    python benchmarks/compression.py [SCENARIO …]          (default: gpt-docs gpt-source)

alone       8 · size(compressed validation) / bytes
with train  8 · (size(training + validation) − size(training)) / bytes: the compressor may use the training text, as the
            model does. gzip and bz2 look back 32 kB and 900 kB at most; xz to the beginning.

Notable: a model's val_bits_per_byte leaves out the first tokens of windows and the size of the weights, while a
compressor's size includes everything. So this is a baseline, not an exact comparison.
"""

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable

from txlab.experiments.corpora import load_corpus
from txlab.runs.scenario import load_scenario

XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip -9": lambda data: gzip.compress(data, 9, mtime=0),
    "bzip2 -9": lambda data: bz2.compress(data, 9),
    "xz -9e": lambda data: lzma.compress(data, filters=XZ),
}


def main(names: list[str]) -> None:
    for name in names:
        scenario = load_scenario(name).scenario
        corpus = load_corpus(scenario.data.text)  # type: ignore[attr-defined]
        split = corpus.split(scenario.data.validation)  # type: ignore[attr-defined]
        train, validation = split.train.encode(), split.validation.encode()
        print(f"{name}: {corpus.name}, {len(train):,} bytes to learn from, {len(validation):,} to be tested on")
        print(f"  {'bits per byte':12} {'alone':>8} {'with train':>11}")
        for tool, compress in COMPRESSORS.items():
            alone = 8 * len(compress(validation)) / len(validation)
            after = 8 * (len(compress(train + validation)) - len(compress(train))) / len(validation)
            print(f"  {tool:12} {alone:9.3f} {after:11.3f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["gpt-docs", "gpt-source"])
