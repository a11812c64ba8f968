"""What recording costs a training loop: `python benchmarks/recording.py`. Target: ≤ 2 % of a step of 13 ms.

A step here is 13 ms of arithmetic (GPT of 809 k parameters on two cores: 13.6 ms). The same steps run bare and with
everything `txlab run` does around them: polling requests, a metrics row, machine rows, heartbeat, fdatasync, a frame
every 20 steps and a checkpoint of 10 MB every 500. Bare and recorded blocks alternate, so that other load slows both.
On a busy machine the ratio says little; see the processor time spent outside `step()` instead.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from txlab.experiments.protocol import Adjustable, Frame, Sample
from txlab.experiments.schema import Record
from txlab.runs.control import Inbox
from txlab.runs.directory import new_info
from txlab.runs.folder import create_run_directory
from txlab.runs.loop import run_loop
from txlab.runs.recorder import Recorder

STEP = 0.013
PARAMETERS = 809_000


class Busy:
    """An experiment whose step multiplies matrices for 13 ms."""

    def __init__(self, steps: int, parameters: int) -> None:
        self.steps, self.step_count, self.spent = steps, 0, 0.0  # spent: processor seconds inside step()
        self.state = {name: np.zeros(parameters, np.float32) for name in ("weights", "first", "second")}
        self.matrix = np.random.default_rng(0).random((64, 64), dtype=np.float32)

    def step(self) -> Mapping[str, float]:
        began, used = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < STEP:
            self.matrix @ self.matrix
        self.step_count += 1
        self.spent += time.process_time() - used
        return {"loss": 2.0 / self.step_count, "lr": 1e-3, "grad_norm": 0.7}

    def verify(self) -> None: ...

    def evaluate(self) -> Mapping[str, float]:
        return {}

    def frame(self) -> Frame:
        square = np.zeros((4, 4, 32, 32), np.float16)
        vectors = np.zeros((4, 4, 32, 32), np.float32)
        tensors = {"attention/pattern": square, "attention/query": vectors, "attention/key": vectors}
        return Frame(self.step_count, tensors, {"probe": ["the "] * 32, "next": [" token"] * 256})

    def samples(self) -> list[Sample]:
        return []

    def facts(self) -> Mapping[str, Any]:
        return {"unit": "tokens", "units_per_step": 768, "flops_per_step": 4e9, "peak_flops": 8e11}

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {}

    def adjust(self, name: str, value: float) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def bare(steps: int) -> float:
    experiment = Busy(steps, 1)
    began = time.perf_counter()
    while experiment.step_count < steps:
        experiment.step()
    return (time.perf_counter() - began) / steps


def run_recorded(steps: int, folder: Path, record: Record, parameters: int) -> tuple[float, float]:
    """(seconds per step, processor seconds per step outside `step()`, including the heartbeat thread)."""
    run = create_run_directory(folder, "busy")
    info = new_info(run, "busy", "busy", steps=steps)
    info.save(run)
    recorder = Recorder(run, info)
    experiment = Busy(steps, parameters)
    began, used = time.perf_counter(), time.process_time()
    run_loop(experiment, recorder, Inbox(run), record)
    wall = time.perf_counter() - began
    recorder.finish("done", "")
    return wall / steps, (time.process_time() - used - experiment.spent) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500, help="a block")
    parser.add_argument("--blocks", type=int, default=3)
    given = parser.parse_args()
    settings = {
        "rows alone": Record(evaluate_every=0, sample_every=0, frame_every=0, checkpoint_every=0),
        "rows and frames": Record(evaluate_every=0, sample_every=0, frame_every=20, checkpoint_every=0),
        "rows, frames and checkpoints": Record(evaluate_every=0, sample_every=0, frame_every=20, checkpoint_every=500),
    }
    with tempfile.TemporaryDirectory(prefix="txlab-recording-", dir=".") as folder:
        run_recorded(5, Path(folder), settings["rows alone"], 1)  # so that imports are not measured
        for name, record in settings.items():
            without, with_, outside = [], [], []
            for _ in range(given.blocks):
                without.append(bare(given.steps))
                wall, aside = run_recorded(
                    given.steps, Path(folder), record, PARAMETERS if record.checkpoint_every else 1
                )
                with_.append(wall)
                outside.append(aside)
            ratio = statistics.median(with_) / statistics.median(without)
            cost = statistics.median(outside)
            print(f"{name:29s} ratio with/without {ratio:.4f}   processor outside the step {1e6 * cost:6.0f} µs = "
                  f"{100 * cost / STEP:.2f} % of 13 ms")  # fmt: skip


if __name__ == "__main__":
    main()
