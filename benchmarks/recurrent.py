"""Forward and backward of recurrent layers: ours and torch.nn's, with the same weights, taking turns.

    python benchmarks/recurrent.py [--repeats N] [--threads N]

"fused" is how networks are trained and read, "cells" the steps one by one in the formulas of engine/recurrent/cells.py,
which is how they are inspected. Ratios are torch.nn's time over ours, medians over the repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn

from txlab.engine.recurrent.network import Recurrent, Steps

SIZES = ((12, 128, 256, 2), (32, 64, 128, 1), (32, 100, 32, 1))  # B, T, H, layers
PEERS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def time_run(run: Callable[[], Tensor], model: nn.Module) -> float:
    start = time.perf_counter()
    for parameter in model.parameters():
        parameter.grad = None
    run().square().sum().backward()  # type: ignore[no-untyped-call]
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    print(f"{asked.threads} thread(s), float32, medians of {asked.repeats}")
    print("cell  B × T × H × layers     torch.nn    fused   cells   torch.nn/fused  torch.nn/cells")
    for name, peer_class in PEERS.items():
        for B, T, H, layers in SIZES:
            peer = peer_class(H, H, layers, batch_first=True)
            ours = Recurrent(name, H, H, layers)
            with torch.no_grad():
                for mine, theirs in zip(ours.parameters(), peer.parameters(), strict=True):
                    mine.copy_(theirs)
            x = torch.randn(B, T, H)

            def step(steps: Steps, ours: Recurrent = ours, x: Tensor = x) -> Tensor:
                y: Tensor = ours(x, steps=steps)[0]
                return y

            runs: dict[str, tuple[Callable[[], Tensor], nn.Module]] = {
                "torch.nn": (lambda peer=peer, x=x: peer(x)[0], peer),  # type: ignore[misc]
                "fused": (lambda: step("fused"), ours),
                "cells": (lambda: step("cells"), ours),
            }
            times: dict[str, list[float]] = {each: [] for each in runs}
            for repeat in range(asked.repeats + 2):
                for each, (run, model) in runs.items():
                    seconds = time_run(run, model)
                    if repeat >= 2:
                        times[each].append(seconds)
            ms = {each: 1e3 * median(samples) for each, samples in times.items()}
            ratios = [
                median(a / b for a, b in zip(times["torch.nn"], times[each], strict=True))
                for each in ("fused", "cells")
            ]
            size = f"{B} × {T} × {H} × {layers}"
            print(
                f"{name:5s} {size:22s} {ms['torch.nn']:7.1f} {ms['fused']:8.1f} {ms['cells']:7.1f} ms"
                f" {ratios[0]:10.2f} {ratios[1]:15.2f}"
            )


if __name__ == "__main__":
    main()
