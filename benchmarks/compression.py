"""What general compressors make of a scenario's validation text, in bits per byte: the bar for a language model.

    python benchmarks/compression.py [SCENARIO …]          (default: gpt-docs gpt-source)

alone       8 · size(compressed validation) / bytes
with train  8 · (size(training + validation) − size(training)) / bytes: what the compressor has learnt from the training
            text counts, as it does for the model. gzip and bz2 look back 32 kB and 900 kB at most; xz all the way.

Notable: a model's val_bits_per_byte leaves out the windows' first tokens and the size of its weights; a compressor
pays for everything. It is a bar to pass, not a race.
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
