"""How quickly the playground learns, draws and answers: python benchmarks/playground.py

It prints, for each set of points in two classes, the steps and seconds to 98 % of the test points
(no noise, five seeds); the pictures a second while it learns, in the program without a terminal, at three sizes and two
speeds; and the milliseconds from a key to the last byte of what it paints, in a pseudo-terminal of 120 × 40 while it
learns at full speed, compared with the smallest Textual program in the same minute (see tui_latency.py).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from tui_latency import DOWN, LEFT, RIGHT, UP, Console, percentiles, smallest_program

SETS = ("circle", "xor", "clouds", "spiral")
# (name, keys that lead there, keys pressed in turn)
GROUPS = [
    ("cursor", "", (LEFT, UP, DOWN, RIGHT)),
    ("weights", LEFT, ("\t",)),
    ("parameters", "", ("p",)),
    ("a neuron off and on", LEFT, ("x",)),
    ("larger and back", "", ("z",)),
    ("why, and closed with q", "", ("w", "q")),
]


def learn(name: str, seed: int) -> tuple[int, float]:
    """Steps and seconds to .98, measured every 10 steps."""
    from txlab.experiments.kinds.playground import KIND
    from txlab.experiments.kinds.playground.experiment import Playground
    from txlab.runs.scenario import load_scenario

    settings = [f"data.name={name}", f"seed={seed}", f"data.seed={seed}"]
    experiment = Playground(KIND.resolve(load_scenario("playground-spiral", settings).scenario))
    begun = time.perf_counter()
    while experiment.step_count < 5000:
        experiment.step()
        if experiment.step_count % 10 == 0 and float(experiment.evaluate()["val_accuracy"]) >= 0.98:
            break
    return experiment.step_count, time.perf_counter() - begun


async def pictures(size: tuple[int, int], pace: float, seconds: float) -> tuple[float, float]:
    """Pictures that were drawn, and updates, each a second."""
    from txlab.tui.app import TxlabApp
    from txlab.tui.screens.playground.screen import PlaygroundScreen

    app = TxlabApp(Path(tempfile.mkdtemp()))
    async with app.run_test(size=size) as pilot:
        await pilot.pause(2)
        await pilot.press("9")
        screen = app.screen
        assert isinstance(screen, PlaygroundScreen)
        while screen.shown is None:
            await pilot.pause(0.1)
        drawn, draw = [0], screen.session.finish_drawing

        def count() -> None:
            drawn[0] += 1
            draw()

        screen.session.finish_drawing = count  # type: ignore[method-assign]
        screen.session.pace = pace
        screen.session.run()
        await asyncio.sleep(1)
        before, updates, begun = drawn[0], screen.session.updates, time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - begun
        return (drawn[0] - before) / took, (screen.session.updates - updates) / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=40, help="presses of each group")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long pictures are counted")
    options = parser.parse_args()
    rows = []
    for name in SETS:
        results = [learn(name, seed) for seed in range(1, 6)]
        steps, seconds = (sorted(each) for each in zip(*results, strict=True))
        rows.append(
            (f"{name} to .98", f"{steps[2]} steps, {seconds[2]:.2f} s; at most {steps[-1]}, {seconds[-1]:.2f} s")
        )
    for size in ((80, 24), (120, 40), (200, 60)):
        for pace in (60.0, float("inf")):
            shown, updates = asyncio.run(pictures(size, pace, options.seconds))
            named = f"pictures at {size[0]} × {size[1]}, {'full speed' if pace > 1e9 else f'{pace:.0f} updates/s'}"
            rows.append((named, f"{shown:.1f} a second, {updates:.0f} updates"))
    with tempfile.TemporaryDirectory() as folder:
        console = Console(Path(folder))
        console.until("txlab")
        time.sleep(4)
        os.write(console.fd, b"9")
        console.until("train")
        small = smallest_program()[1]
        middle = statistics.median(small)
        rows.append(("key → painted, smallest program", percentiles(small, middle)))
        os.write(console.fd, b"++++++ ")
        time.sleep(2)
        every: list[float] = []
        for name, there, keys in GROUPS:
            os.write(console.fd, there.encode())
            time.sleep(0.5)
            times = console.keys(keys, options.keys)
            every += times
            rows.append((f"key → painted, {name}", percentiles(times, middle)))
        rows.append(("key → painted, all of them", percentiles(every, middle)))
        console.leave()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name, value in rows:
        print(f"{name:<50}{value}")


if __name__ == "__main__":
    main()
