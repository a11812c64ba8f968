"""How long a printed line takes to be read, by kind of line: `python benchmarks/printed.py --before COMMIT`.

The reader of an earlier commit (with the tables it had, if any) takes turns with this one, a few milliseconds each;
the ratio of a kind is the median of the ratios of the turns, so that other load affects both equally.
"""

from __future__ import annotations

import argparse
import importlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from types import ModuleType

from txlab.runs import stdout_parser as printed
from txlab.runs import stdout_tables as printed_tables

BAR = " {p:3d}%|███▌      | {n}/3125 [01:02<04:10, 12.43it/s, loss={x:.3f}]"
KINDS = {
    "nanoGPT": "iter {n}: loss {x:.4f}, time 145.32ms, mfu 12.34%",
    "nanoGPT's evaluation": "step {n}: train loss {x:.4f}, val loss 2.4512",
    "Keras": "{n}/3125 [=====>....] - ETA: 12s - loss: {x:.4f} - accuracy: 0.8912",
    "Keras's epoch": "3125/3125 - 21s - loss: {x:.4f} - accuracy: 0.8911 - val_loss: 0.4012 - val_accuracy: 0.87",
    "Trainer": "{{'loss': {x:.4f}, 'grad_norm': 1.2341, 'learning_rate': 4.9e-05, 'epoch': {e:.2f}}}",
    "JSON": '{{"step": {n}, "loss": {x:.6f}, "lr": 0.0003, "grad_norm": 0.71, "tokens_per_second": 71234.5}}',
    "tqdm": BAR,
    "tqdm alone": " {p:3d}%|███▌      | {n}/3125 [01:02<04:10, 12.43it/s]",
    "PyTorch's example": "Train Epoch: 3 [{n}/60000 (1%)]\tLoss: {x:.6f}",
    "key=value": "step={n} loss={x:.4f} lr=1.2e-04 grad_norm=0.8123 tok/s=81234",
    "a logger": "2024-11-20 10:00:00,123 INFO train: step {n} | loss {x:.4f} | lr 0.0003",
    "a sentence": "Saved the checkpoint of step {n} under /data/runs/gpt/ckpt_000{n}.pt in 1.2 s",
    "text without numbers": "Loading the data set and preparing the tokenizer, which may take a while …",
}


def lines_of(form: str, count: int) -> list[str]:
    return [form.format(n=n, p=n * 100 // 3125, x=3.0 - n / 2000, e=n / 1000) for n in range(1, count + 1)]


def earlier(commit: str, folder: Path) -> Callable[[str], object]:
    """The reader of lines of an earlier commit, whose package is imported under another name."""
    archive = subprocess.run(["git", "archive", commit, "txlab"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    (folder / "txlab").rename(folder / "earlier_txlab")
    for path in folder.rglob("*.py"):
        path.write_text(re.sub(r"\b(from|import) txlab\b", r"\1 earlier_txlab", path.read_text()))
    sys.path.insert(0, str(folder))
    parser, tables = first_of(folder, "stdout_parser", "printed"), first_of(folder, "stdout_tables", "printed_tables")
    assert parser is not None
    read = tables.Lines().read if tables else parser.read_line
    return lambda line: read(parser.plain(line))


def first_of(folder: Path, *names: str) -> ModuleType | None:
    there = [name for name in names if (folder / "earlier_txlab" / "runs" / f"{name}.py").exists()]
    return importlib.import_module(f"earlier_txlab.runs.{there[0]}") if there else None


def present() -> Callable[[str], object]:
    read = printed_tables.Lines().read
    return lambda line: read(printed.plain(line))


def seconds(read: Callable[[str], object], lines: list[str]) -> float:
    begun = time.process_time()
    for line in lines:
        read(line)
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", help="a commit to compare with")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--lines", type=int, default=100, help="of a turn")
    asked = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        before = earlier(asked.before, Path(folder)) if asked.before else None
        for kind, form in KINDS.items():
            lines, now = lines_of(form, asked.lines), present()
            pairs = []
            for turn in range(asked.turns + 1):
                order = [now, before or now][:: 1 if turn % 2 else -1]
                taken = {read: seconds(read, lines) for read in order}
                pairs.append((taken[now], taken[before or now]))
            spent = [median(each) / asked.lines * 1e6 for each in zip(*pairs[1:], strict=True)]
            ratios.append(median(new / old for new, old in pairs[1:]))
            comparison = f"   before {spent[1]:6.1f}   ratio {ratios[-1]:.2f}" if before else ""
            print(f"  {kind:22} {spent[0]:6.1f} µs a line{comparison}", flush=True)
    if before:
        print(f"geometric mean of the ratios {geometric_mean(ratios):.2f}   (wanted: at most 1.03)")


if __name__ == "__main__":
    main()
