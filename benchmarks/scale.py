"""How long a run of ten million values and a recording of ten thousand frames take to appear on the screen.

    python benchmarks/scale.py [--rows 2000000] [--frames 10000]

Prints seconds and, comparable between machines, the ratio to `json.loads` of the whole log in the same process. All
files are made in a temporary folder and removed.
"""

import argparse
import json
import resource
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the log, five values each")
    parser.add_argument("--frames", type=int, default=10_000, help="frames of the recording")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="txlab-scale-"))
    try:
        measure_log(make_log(folder / "run", options.rows))
        measure_frames(folder / "recording", options.frames)
        measure_drawing()
    finally:
        shutil.rmtree(folder)


def time_work(work: Callable[[], Result]) -> tuple[float, Result]:
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def report(what: str, seconds: float, whole: float, note: str = "") -> None:
    print(f"{what:<46}{seconds:>9.3f} s   × {seconds / whole:<8.4f}{note}", flush=True)


def make_log(run: Path, rows: int) -> Path:
    """A log as a run writes it: a metrics row per step, validation every 100, and one rewind in the middle."""
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"format": 1, "name": "scale", "status": "done"}))
    noise = np.random.default_rng(0).random((1000, 4))
    with (run / "events.jsonl").open("w") as file:
        for step in range(1, rows + 1):
            a, b, c, d = noise[step % 1000]
            values = f'"lr":{b / 1000:.6f},"grad_norm":{c:.6f},"bits_per_byte":{d:.6f},"entropy":{a + b:.6f}'
            head = f'{{"event":"metrics","time":{1.79e9 + step / 100},"step":{step},"values":{{'
            file.write(f'{head}"loss":{5 / step**0.2 + a / 10:.6f},{values}}}}}\n')
            if step % 100 == 0:
                file.write(f'{{"event":"metrics","time":0.0,"step":{step},"values":{{"val_loss":{a:.6f}}}}}\n')
            if step == rows // 2:
                file.write(f'{{"event":"rewind","time":0.0,"step":{step - 500},"from":{step},"reason":"resumed"}}\n')
    return run


def measure_log(run: Path) -> None:
    from txlab.runs.reader import RunReader

    log = run / "events.jsonl"
    print(f"log: {log.stat().st_size / 1e6:.0f} MB")
    whole, count = time_work(lambda: sum(1 for line in log.open("rb") if json.loads(line)))
    report("json.loads of every row (the measure)", whole, whole, f"{count} rows")

    reader = RunReader(run)
    seconds, _ = time_work(reader.poll)
    sampled = reader.series("loss")
    report("first poll: a sampled curve", seconds, whole, f"{len(sampled)} points, latest {reader.latest('loss')}")

    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    polls: list[float] = []
    begun = time.perf_counter()
    catching: threading.Thread = reader.catch_up_in_background()
    while catching.is_alive():  # as a screen does meanwhile
        polls.append(time_work(lambda: (reader.poll(), reader.series("loss")))[0])
        time.sleep(0.02)
    seconds = time.perf_counter() - begun
    assert reader.complete
    report("complete, in the background", seconds, whole, f"{len(reader.series('loss'))} points")
    worst = f"median {statistics.median(polls) * 1000:.1f} ms, 99 % {np.percentile(polls, 99) * 1000:.1f} ms"
    report("a poll meanwhile, the longest", max(polls), whole, worst)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    print(f"{'memory for all columns':<46}{grown:>9.0f} MB")

    light = RunReader(run, light=True)
    report("light opening (a row of the list of runs)", time_work(light.poll)[0], whole)
    report("a poll with nothing new", time_work(light.poll)[0], whole)


def measure_frames(folder: Path, frames: int) -> None:
    from txlab.experiments.protocol import Frame
    from txlab.runs.frames import FrameIndex, FrameWriter

    folder.mkdir()
    draw = np.random.default_rng(0)
    pattern = draw.random((4, 4, 64, 64)).astype(np.float16)
    writer = FrameWriter(folder / "frames", 1e12)
    labels = [f"t{place}" for place in range(64)]
    seconds, _ = time_work(
        lambda: [writer.write(Frame(step, {"attention/pattern": pattern}, {"probe": labels})) for step in range(frames)]
    )
    print(f"\nrecording: {frames} frames of {pattern.nbytes // 1024} KiB, written at {frames / seconds:.0f} frames/s")
    index = FrameIndex(folder / "frames")
    print(f"{'looking the recording up':<46}{time_work(index.refresh)[0]:>9.3f} s")
    for name, order in (
        ("forwards", index.steps[:2000]),
        ("backwards", index.steps[::-1][:2000]),
        ("at random", draw.choice(index.steps, 1000)),
    ):
        seconds, _ = time_work(lambda order=order: [index.read(int(step)) for step in order])
        print(f"{'scrubbing ' + name:<46}{len(order) / seconds:>9.0f} frames/s")


def measure_drawing() -> None:
    from txlab.drawing.curve import Curve, draw

    steps = np.arange(100_000)
    curve = Curve("loss", steps, np.random.default_rng(0).normal(size=len(steps)))
    print("\ndrawing: 100 000 points in 100 × 25 cells, median of 50")
    for name, options in (
        ("as they are", {}),
        ("smoothed over 100 steps", {"smoothing": 100.0}),
        ("log x", {"log_x": True}),
    ):
        seconds = statistics.median(
            time_work(lambda options=options: draw([curve], 100, 25, **options))[0] for _ in range(50)
        )
        print(f"{name:<46}{seconds * 1000:>9.2f} ms")


if __name__ == "__main__":
    main()
