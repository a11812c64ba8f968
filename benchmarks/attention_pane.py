"""Opening and scrolling 1024 tokens in a model of 12 × 12 heads: `python benchmarks/attention_pane.py`.

Target: ≥ 20 pictures a second while scrolling, and an event loop that is never blocked for more than 50 ms. The model
has the shape of GPT-2 small with random weights; the app is the real one at 120 × 40 without a terminal. A key counts
as answered when the new window and the next tokens have been computed and everything has been painted. The ratio is to
the plain way: all patterns computed once, and the whole matrix of a head given to the widget.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from textual.pilot import Pilot

from txlab.tui import idle_gc as garbage
from txlab.tui.app import TxlabApp
from txlab.tui.screens.attention import bench as attention_bench
from txlab.tui.screens.attention.bench import Task
from txlab.tui.screens.attention.screen import AttentionScreen
from txlab.tui.settings import Settings


def open_page(tokens: int, layers: int, heads: int, width: int, vocabulary: int) -> object:
    import torch

    from txlab.engine.tokenizers.elementary import ByteTokenizer
    from txlab.engine.transformer.gpt import GPT, GPTShape
    from txlab.runs.models import OpenModel

    shape = GPTShape(layers, heads, width, tokens, vocabulary)
    model = GPT(shape, torch.Generator().manual_seed(0)).eval()
    text = "".join(chr(97 + (7 * place * place + place // 3) % 26) if place % 6 else " " for place in range(tokens))
    return OpenModel("random", "gpt", model, ByteTokenizer(), example=text)


class Beat:
    """Measures the longest time for which the event loop was blocked."""

    def __init__(self) -> None:
        self.gaps: list[float] = []

    async def listen(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.002)
            self.gaps.append(time.perf_counter() - before - 0.002)

    def longest(self) -> str:
        gaps, self.gaps = self.gaps or [0.0], []
        return f"longest hold-up of the event loop {1000 * max(gaps):.0f} ms"


def is_settled(screen: AttentionScreen) -> bool:
    pattern = screen.patterns.pattern
    shape, (top, left) = pattern.plan(), pattern.origin
    known = pattern.window.holds((top, top + shape.rows), (left, left + shape.columns))
    return known and screen.patterns.reading.idle and not screen._dirty_widgets and not pattern._repaint_required


async def until(true: object, longest: float = 120.0) -> float:
    begun = time.perf_counter()
    while not true():  # type: ignore[operator]
        if time.perf_counter() - begun > longest:
            raise SystemExit("it did not settle")
        await asyncio.sleep(0.001)
    return time.perf_counter() - begun


async def measure(options: argparse.Namespace, folder: Path) -> None:
    import torch

    torch.set_num_threads(options.threads)
    model = open_page(options.tokens, options.layers, options.heads, options.width, options.vocabulary)
    import txlab.runs.models as models

    models.open_model = lambda *_, **__: model  # type: ignore[assignment, return-value]
    attention_bench.checkpoint_at = lambda _: None
    app = TxlabApp(root=folder, settings=Settings())
    async with app.run_test(size=(120, 40)) as pilot:
        garbage.take_over()  # as on a terminal: with torch loaded, Python's own collection takes half a second
        beat = Beat()
        listening = asyncio.create_task(beat.listen())
        await show(app, pilot, beat, options)
        listening.cancel()
    plain = model.model  # type: ignore[attr-defined]
    from txlab.engine.interpret.activation_cache import run_with_cache
    from txlab.engine.interpret.sites import Text

    begun = time.perf_counter()
    patterns = run_with_cache(plain, Text(tuple(range(97, 97 + 26)) * (options.tokens // 26))).patterns("self")
    print(f"plain: all patterns together, {patterns.numel() * 4 / 1e6:.0f} MB, {time.perf_counter() - begun:.1f} s")


async def show(app: TxlabApp, pilot: Pilot[None], beat: Beat, options: argparse.Namespace) -> None:
    await pilot.press("4")
    await pilot.pause(1.0)
    screen = app.screen
    assert isinstance(screen, AttentionScreen)
    beat.longest()
    begun = time.perf_counter()
    screen.model.do(Task("random"))
    await until(lambda: screen.model.live is not None and is_settled(screen))
    print(f"opened and painted        {time.perf_counter() - begun:6.2f} s   {beat.longest()}")
    await until(lambda: screen.patterns.forming.idle)
    heads = options.layers * options.heads
    print(f"all {heads} heads small, scores {time.perf_counter() - begun:6.2f} s   {beat.longest()}")
    pattern = screen.patterns.pattern
    walks = {
        "cursor up": [(-1, 0)] * 200,
        "cursor left and up": [(0, -1), (-1, 0)] * 100,
        "eight rows up": [(-8, 0)] * 60,
        "whole window away": [(-80, -80), (60, 90), (200, 100), (-150, 30)] * 15,
    }
    for name, moves in walks.items():
        pattern.move_to(options.tokens - 1, options.tokens - 1)
        await until(lambda: is_settled(screen))
        times = []
        for down, right in moves:
            started = time.perf_counter()
            pattern.action_move(down, right)
            await until(lambda: is_settled(screen))
            times.append(time.perf_counter() - started)
        middle, slow = statistics.median(times), statistics.quantiles(times, n=20)[18]
        print(
            f"{name:<20} {len(times) / sum(times):6.0f} pictures/s   p50 {1000 * middle:5.1f} ms   "
            f"p95 {1000 * slow:5.1f} ms   {beat.longest()}"
        )
    times = []
    for key in "lljjhhkk" * 3:
        started = time.perf_counter()
        before = screen.patterns.reading.generation
        screen.patterns.action_head(*{"l": (0, 1), "h": (0, -1), "j": (1, 0), "k": (-1, 0)}[key])
        await until(lambda before=before: screen.patterns.reading.generation != before and is_settled(screen))
        times.append(time.perf_counter() - started)
    print(f"another head         {len(times) / sum(times):6.0f} pictures/s   {beat.longest()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="txlab-pane-") as folder:
        asyncio.run(measure(options, Path(folder)))


if __name__ == "__main__":
    main()
