"""The speed of learning and applying byte pair encoding, compared with rustbpe, tiktoken and Hugging Face's tokenizers.

    python benchmarks/tokens.py            about two minutes; medians of ratios of CPU time, taking turns
    python benchmarks/tokens.py --check    exact merges and encodings of the whole corpus and 100 000 strings

training   5 MB of python-source to a vocabulary of 4096, splitting included; target: at most 6 × rustbpe
recounting the same merges by counting all pairs again before each (algorithm 1 as published, over the same distinct
           chunks). A few of its merges are timed, at the beginning, in the middle and at the end of the training, and
           the rest is extrapolated; the ratio is to our whole merging. Target: at least 500
encoding   the same 5 MB with the same ranks, by our fast and by our plain encoder; target for the fast one: at least
           0.8 of tiktoken's speed
growth     the exponent of CPU time from a text to one four times as long (1 linear, 2 quadratic), and the peak memory

CPU time is measured because the machine is shared; rustbpe's includes all its threads. Training texts are different
parts of the corpus, not copies, except for the single endless chunk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import rustbpe
from clock import cpu_seconds

from txlab.engine.cores import cores
from txlab.engine.tokenizers.bases import GPT2
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer, FastEncoder
from txlab.engine.tokenizers.gpt2_files import merge_names
from txlab.engine.tokenizers.patterns import PATTERNS
from txlab.engine.tokenizers.plain import merge_pair
from txlab.engine.tokenizers.training import Trainer, count_chunks, train_merges
from txlab.experiments.corpora import load_corpus

VOCABULARY = 4096
PARITY = Path(__file__).resolve().parent.parent / "tests" / "parity"


def megabytes(count: float) -> str:
    return load_corpus("python-source").text.encode()[: int(count * 1e6)].decode(errors="ignore")


def by_turns(repeats: int, **works: Callable[[], object]) -> dict[str, list[float]]:
    """CPU seconds of each, without the first round."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for i in range(repeats + 1):
        for name, work in works.items():
            spent = cpu_seconds(work)
            if i:
                taken[name].append(spent)
    return taken


def ratio(over: list[float], under: list[float]) -> str:
    ratios = sorted(a / b for a, b in zip(over, under, strict=True))
    return f"{median(ratios):.2f} ({ratios[0]:.2f} … {ratios[-1]:.2f})"


def rust(text: str, vocabulary: int, pattern: str = "gpt4") -> dict[bytes, int]:
    theirs = rustbpe.Tokenizer()
    theirs.train_from_iterator(iter([text]), vocabulary, pattern=PATTERNS[pattern])
    return {bytes(data): rank for data, rank in theirs.get_mergeable_ranks()}


def training(text: str, repeats: int) -> None:
    taken = by_turns(
        repeats,
        rustbpe=lambda: rust(text, VOCABULARY),
        ours=lambda: train_merges(count_chunks([text]), VOCABULARY),
        splitting=lambda: count_chunks([text]),
    )
    size = len(text.encode()) / 1e6
    times = ", ".join(f"{name} {median(spent):.2f} s" for name, spent in taken.items())
    print(f"training, {size:.1f} MB to {VOCABULARY}: {times} (part of ours)")
    print(f"  ours / rustbpe: {ratio(taken['ours'], taken['rustbpe'])}   (wanted: at most 6)")


def recounting(text: str, repeats: int) -> None:
    """Our merging compared with recounting, both after splitting."""
    chunks = count_chunks([text])
    ours = [cpu_seconds(lambda: train_merges(chunks, VOCABULARY)) for _ in range(repeats)]
    merges = VOCABULARY - 256
    trainer = Trainer(chunks)
    samples: list[float] = []
    for at in (0, merges // 2, merges - 1):
        while len(trainer.merges) < at:
            trainer.step()
        rows = rows_of(trainer, chunks)
        samples += [cpu_seconds(lambda rows=rows, token=256 + at: merge_rows(rows, token)) for _ in range(2)]
    each = sum(samples) / len(samples)
    print(
        f"recounting every pair: {each:.3f} s a merge ({len(samples)} timed: {min(samples):.3f} … {max(samples):.3f});"
    )
    print(f"  {merges} merges would take {each * merges:.0f} s (extrapolated), ours take {median(ours):.2f} s")
    print(f"  recounting / ours: {each * merges / median(ours):.0f}   (wanted: at least 500)")


def rows_of(trainer: Trainer, chunks: Counter[bytes]) -> list[tuple[list[int], int]]:
    """The distinct chunks after the trainer's merges."""
    tokenizer = trainer.tokenizer()
    return [(tokenizer.encode_chunk(chunk), count) for chunk, count in chunks.items()]


def merge_rows(rows: list[tuple[list[int], int]], token: int) -> list[tuple[list[int], int]]:
    """One merge of algorithm 1 (Sennrich et al. 2016)."""
    counts: Counter[tuple[int, int]] = Counter()
    for row, count in rows:
        for pair in pairwise(row):
            counts[pair] += count
    best = min(counts, key=lambda pair: (-counts[pair], pair))
    return [(merge_pair(row, best, token), count) for row, count in rows]


def encoding(text: str, repeats: int) -> None:
    from tokenizers import Tokenizer

    tokenizer = train_merges(count_chunks([text]), VOCABULARY).tokenizer()
    theirs = tokenizer.fast.encoding
    assert theirs is not None
    hugging = hugging_face(tokenizer)
    assert isinstance(hugging, Tokenizer)
    size = len(text.encode()) / 1e6
    taken = by_turns(
        repeats,
        tiktoken=lambda: theirs.encode_to_numpy(text, disallowed_special=()),
        fast=lambda: tokenizer.fast.encode(text),
        plain=lambda: tokenizer.encode(text),
    ) | by_turns(1, hugging=lambda: hugging.encode(text))
    print(f"encoding, {size:.1f} MB, MB/s: " + ", ".join(f"{name} {size / median(t):.1f}" for name, t in taken.items()))
    print(f"  our fast way / tiktoken, speed: {ratio(taken['tiktoken'], taken['fast'])}   (wanted: at least 0.8)")
    print(f"  our plain way / tiktoken, speed: {ratio(taken['tiktoken'], taken['plain'])}")
    words = [word + " " for word in text[:200_000].split(" ")]
    taken = by_turns(
        repeats,
        tiktoken=lambda: [theirs.encode(word, disallowed_special=()) for word in words],
        plain=lambda: [tokenizer.encode(word) for word in words],
    )
    print(f"  our plain way / tiktoken, speed, {len(words)} short texts: {ratio(taken['tiktoken'], taken['plain'])}")


def hugging_face(tokenizer: BytePairTokenizer):  # type: ignore[no-untyped-def]
    from tokenizers import Tokenizer

    from txlab.engine.tokenizers.files import export_tokenizer

    with TemporaryDirectory() as folder:
        export_tokenizer(tokenizer, Path(folder) / "tokenizer.json", "huggingface")
        return Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))


GROWTH = """
import sys
from pathlib import Path
from time import process_time
from txlab.engine.tokenizers.training import count_chunks, train_merges

def memory(name):
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) / 1024

act, text = sys.argv[1], Path(sys.argv[2]).read_text()
pattern = "none" if "no pattern" in act else "gpt4"
if not act.startswith("learning"):
    tokenizer = train_merges(count_chunks([text[:200_000], "a" * 2000], pattern), 1024).tokenizer(pattern)
    tokenizer.fast.ids
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
before, began = memory("VmRSS"), process_time()
if act.startswith("learning"):
    train_merges(count_chunks([text], pattern), 512)
elif act.startswith("fast"):
    tokenizer.fast.encode(text)
else:
    tokenizer.encode(text)
print(process_time() - began, memory("VmHWM") - before)
"""


def growth(quick: bool) -> None:
    """CPU time and additional peak memory of each, measured in a separate process."""
    print("growth from a text to four of it (exponent 1: linear, 2: quadratic)")
    cases = {
        "learning, source": 2.5,
        "learning, source, no pattern": 0.5,
        "learning, one letter, no pattern": 0.5,
        "fast, source": 2.5,
        "plain, source": 2.5,
        "fast, one letter": 0.25,
        "plain, one letter": 0.25,
        "plain, source, no pattern": 0.25,
        "fast, spaces": 0.2,
    }
    for name, size in cases.items():
        small, large = (measure_growth(name, size * scale / (4 if quick else 1)) for scale in (1, 4))
        exponent = log(large[0] / small[0]) / log(4)
        more = f"{small[1]:6.0f} → {large[1]:6.0f} MB more"
        print(f"  {name:34} {small[0]:6.2f} → {large[0]:6.2f} s, exponent {exponent:4.2f}; {more}", flush=True)


def measure_growth(name: str, size: float) -> tuple[float, float]:
    """CPU seconds and additional peak memory in MB (Linux), measured in a separate process."""
    one = {"one letter": "a", "spaces": " "}.get(name.split(", ")[1])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_text(one * int(size * 1e6) if one else megabytes(size))
        done = subprocess.run(
            [sys.executable, "-P", "-c", GROWTH, name, path], capture_output=True, text=True, check=True
        )
    time, memory = done.stdout.split()
    return float(time), float(memory)


def check() -> None:
    """Check the whole corpus at both sizes and 100 000 strings in every encoder; stops at the first difference."""
    sys.path.insert(0, str(PARITY))
    from test_tokenizers_libraries import hugging_face_trained
    from token_strings import random_strings, undisputed

    corpus = load_corpus("python-source")
    text = corpus.text
    print(f"python-source: {corpus.size:,} bytes, {len(corpus.documents)} documents", flush=True)
    for vocabulary in (4096, 16384):
        ours = train_merges(count_chunks([text]), vocabulary).tokenizer()
        assert rust(text, vocabulary) == {data: token for token, data in enumerate(ours.bytes_of)}
        print(f"  {vocabulary}: all {len(ours.merges)} merges are rustbpe's", flush=True)
        for pattern in ("gpt2", "gpt4"):
            theirs = json.loads(hugging_face_trained([text], vocabulary, pattern).to_str())["model"]["merges"]
            ours = train_merges(count_chunks([text], pattern), vocabulary, GPT2).tokenizer(pattern)
            assert [tuple(merge) for merge in theirs] == merge_names(ours)
            print(f"  {vocabulary}, {pattern}: all {len(theirs)} merges are Hugging Face's", flush=True)
    strings, disputed = undisputed(random_strings(100_000))
    strings += ["a" * 100_000, " " * 3000, "\n" * 3000, "ab" * 50_000]
    for pattern in ("gpt2", "gpt4"):
        tokenizer = train_merges(count_chunks([text[:2_000_000], *strings[:20_000]], pattern), 8192, GPT2).tokenizer(
            pattern
        )
        fast = FastEncoder(tokenizer)
        assert fast.encoding is not None
        theirs_by_id = hugging_face(tokenizer)
        different = [
            string
            for string, expected in zip(strings, theirs_by_id.encode_batch(strings), strict=True)
            if not (
                tokenizer.encode(string)
                == fast.encode(string).tolist()
                == expected.ids
                == fast.ids[fast.encoding.encode(string, disallowed_special=())].tolist()
            )
            or tokenizer.decode(expected.ids) != string
        ]
        assert not different, different[:3]
        size = sum(len(string.encode()) for string in strings)
        print(
            f"  {pattern}: {len(strings):,} strings, {size:,} bytes: plain, fast, tiktoken, tokenizers agree",
            flush=True,
        )
    print(f"  left out of the strings: {disputed} characters that the engines' versions of Unicode class differently")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of measuring")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a fifth of the text, two repeats")
    asked = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.2f}, {cores()} cores")
    if asked.check:
        check()
        return
    text, repeats = megabytes(1 if asked.quick else 5), 2 if asked.quick else asked.repeats
    training(text, repeats)
    recounting(text, repeats)
    encoding(text, repeats)
    growth(asked.quick)
    print(f"load after: {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
