"""How quickly the arena responds while two learners run at full speed: python benchmarks/arena_latency.py

The real program in a pseudo-terminal of 120 × 40, on the cliff, SARSA next to Q-learning. It prints, together with the
times for the same keys while paused:

    key → painted    milliseconds from writing a key to the last byte of the change that it paints: p50 and p95. While
                     running, the learners are redrawn all the time, so a key is recognised by the line it changes: the
                     one above the worlds, or those of the sides (the time line and the worlds are ignored)
    pictures         changes of the worlds' lines that reach the terminal, per second
    updates          per second, as shown on the screen; and for the same loop without a screen
    leaving          seconds from ctrl+q to the end of the process
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import select
import statistics
import tempfile
import time
from pathlib import Path

from tui_latency import BURST, Console

HEADS = slice(2, 5)  # the line above the worlds, and those of the sides
WORLDS = slice(5, 17)
ALWAYS = (  # what changes in those lines without a key press
    r"[\d−.]+ updates/s|episode [\d ]+|on-line [−\d.]+|greedy (goes in circles|does not arrive|[−\d.]+)| {2,}"
)
# (name, keys before, keys pressed in turn): each changes a line of HEADS
GROUPS = [
    ("other side (tab)", "", ("\t", "\t")),
    ("what cells show (v)", "", ("v",)),
    ("speed (- +)", "", ("-", "+")),
    ("turn a number (< >)", "p", (">", "<")),
]


class Arena(Console):
    def heads(self) -> str:
        """The text that only keys change, without the counts of episodes and returns."""
        text = "\n".join(self.screen.display[HEADS])
        return re.sub(ALWAYS, " ", text)

    def press(self, key: str, longest: float = 0.6) -> float | None:
        """Milliseconds until a line that only keys change has changed.

        The output is only collected while the clock runs, because parsing it into a screen takes longer than painting.
        """
        self.drain(0.0, 0.02)
        before = self.heads()
        begun = time.perf_counter()
        os.write(self.fd, key.encode())
        came: list[tuple[float, bytes]] = []
        while (left := begun + longest - time.perf_counter()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                came.append((time.perf_counter(), os.read(self.fd, 65536)))
        milliseconds = None
        for at, data in came:
            with contextlib.suppress(Exception):
                self.stream.feed(data)
            if milliseconds is None and self.heads() != before:
                milliseconds = 1000 * (at - begun)
        return milliseconds

    def pictures(self, seconds: float) -> float:
        """Changes of the worlds' lines per second."""
        came: list[bytes] = []
        last, begun = 0.0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            if select.select([self.fd], [], [], 0.05)[0]:
                now = time.perf_counter()  # a pause since the last bytes: a new picture begins
                data = os.read(self.fd, 65536)
                if now - last > BURST or not came:
                    came.append(data)
                else:
                    came[-1] += data
                last = time.perf_counter()
        seen, changes = "", 0
        for data in came:
            with contextlib.suppress(Exception):
                self.stream.feed(data)
            drawn = "\n".join(self.screen.display[WORLDS])
            changes, seen = changes + (drawn != seen), drawn
        return changes / seconds

    def speed(self) -> float:
        match = re.search(r"([\d ]+) updates/s", "\n".join(self.screen.display[HEADS]))
        return float(match.group(1).replace(" ", "")) if match else 0.0


def alone(seconds: float) -> float:
    """Updates per second of the same match without a screen, one of each learner at a time."""
    from txlab.engine.rl.settings import Settings
    from txlab.engine.rl.worlds import world_named
    from txlab.experiments.tabular.match import Match

    match = Match(world_named("cliff"), [Settings("sarsa"), Settings("q-learning")], 0)
    begun = time.perf_counter()
    while (took := time.perf_counter() - begun) < seconds:
        match.run(20_000)
    return match.updates / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=16, help="presses of each group")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long pictures are counted")
    options = parser.parse_args()
    print(f"120 × 40, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        arena = Arena(Path(folder))
        arena.until("txlab")
        time.sleep(2)
        os.write(arena.fd, b"6")
        arena.until("Q-learning")
        time.sleep(1)
        for running in (False, True):
            if running:
                os.write(arena.fd, b" ")
                arena.until("updates/s")
                time.sleep(2)
            every: list[float] = []
            for name, before, keys in GROUPS:
                os.write(arena.fd, before.encode())
                arena.drain(0.05, 0.3)
                times = []
                for index in range(options.keys):
                    times.append(arena.press(keys[index % len(keys)]))
                known = [each for each in times if each is not None]
                every += known
                os.write(arena.fd, b"\x1b")
                arena.drain(0.05, 0.3)
                print(f"{'running' if running else 'paused '}  {name:<24}{percentiles(known)}")
            print(f"{'running' if running else 'paused '}  {'all of them':<24}{percentiles(every)}")
        arena.drain(0.02, 2.0)
        print(f"pictures a second        {arena.pictures(options.seconds):.1f}")
        print(f"updates a second         {arena.speed():,.0f}")
        begun = time.perf_counter()
        arena.leave()
        print(f"leaving                  {time.perf_counter() - begun:.2f} s")
    print(f"updates without a screen {alone(2.0):,.0f}")


def percentiles(values: list[float]) -> str:
    if len(values) < 2:
        return "no answer"
    high = statistics.quantiles(values, n=20)[18]
    return f"p50 {statistics.median(values):6.1f} ms   p95 {high:6.1f} ms   ({len(values)})"


if __name__ == "__main__":
    main()
