"""The pictures of README.md and docs/, made by the program itself: python assets/make_pictures.py RUNS [NAME …]

    NAME.png      a picture for each step of assets/pictures.toml, by its title
    session.gif   the lecture first-steps played from its first step to its last, with a run that trains meanwhile
    strength.png  TD-Gammon's points a game over the games it had played, from assets/texts/td_gammon.toml
    walk.png      the error of each α and λ on the nineteen states, as `txlab plot --sweep`
    gpt-docs.png  the loss of gpt-docs, as `txlab plot`

RUNS is the folder of the lecture's runs, which `txlab lecture assets/pictures.toml --prepare --folder RUNS` trains. The
pictures are written to assets/screens; without names, all of them.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path

from PIL import Image
from textual.pilot import Pilot

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "tui")]

from picture import picture  # noqa: E402

from txlab.drawing.picture import COLOURS, drawing  # noqa: E402
from txlab.drawing.picture import save as write_picture  # noqa: E402
from txlab.errors import LabError, choices  # noqa: E402
from txlab.experiments.reference_numbers.games_backgammon import TESAURO, strengths  # noqa: E402
from txlab.experiments.schema import group_digits  # noqa: E402
from txlab.runs.directory import state_of  # noqa: E402
from txlab.runs.lecture import FIRST_STEPS, load_lecture  # noqa: E402
from txlab.runs.lecture_runs import find_lecture_run  # noqa: E402
from txlab.tui.app import TxlabApp  # noqa: E402
from txlab.tui.lecture.go_to import go_to  # noqa: E402
from txlab.tui.lecture.player import Player  # noqa: E402
from txlab.tui.screen_registry import screen_names  # noqa: E402
from txlab.tui.settings import Settings  # noqa: E402

PICTURES = HERE / "pictures.toml"
SCREENS = HERE / "screens"
SIZE = (120, 36)
SESSION = (100, 30)  # cells of the animated picture
LETTER = 13  # pixels of its font
COLOURS_OF_SESSION = 48
LOOK = 0.5  # seconds between two looks at the screen while something is computed
SHOWN = 0.25  # seconds for which such a frame is shown: the session runs at twice its speed there
READING = 4.0  # seconds for which the last frame of a step is shown
LEARNED = 450  # steps after which gpt-copy copies
MOST = 24  # frames of a step: of more, every second one is dropped


async def draw_screens(runs: Path, names: list[str]) -> None:
    """Draw the steps of the lecture of pictures with these titles."""
    lecture = load_lecture(str(PICTURES), screen_names())
    app = TxlabApp(root=runs, settings=Settings())
    async with app.run_test(size=SIZE) as pilot:
        for step in lecture.steps:
            if step.title in names:
                run = find_lecture_run(lecture, step.run, runs, runs) if step.run else None
                if step.run and run is None:
                    raise LabError(f"{runs} has no run {step.run}: txlab lecture {PICTURES} --prepare --folder {runs}")
                await as_a_worker(app, pilot, go_to(app, step.place, run))
                (await still_picture(app, pilot)).save(SCREENS / f"{step.title}.png", optimize=True)
                print(SCREENS / f"{step.title}.png", flush=True)


async def as_a_worker(app: TxlabApp, pilot: Pilot[None], work: Coroutine[None, None, None]) -> None:
    """Await work that presses keys, as the console does: in a worker of the group "lecture"."""
    await app.run_worker(work, group="lecture", exclusive=True).wait()
    await pilot.pause()


async def still_picture(app: TxlabApp, pilot: Pilot[None]) -> Image.Image:
    """The screen once nothing on it changes."""
    before, now = None, picture(app)
    while now != before:
        await pilot.pause(LOOK)
        before, now = now, picture(app)
    return now


def draw_session(path: Path) -> None:
    """Play the first lecture in an empty folder of runs, and write what is seen as an animated picture."""
    with tempfile.TemporaryDirectory() as folder:
        write_session(asyncio.run(played(Path(folder))), path)


async def played(folder: Path) -> list[tuple[Image.Image, float]]:
    """The frames of the first lecture, each with the seconds for which it is shown."""
    frames: list[tuple[Image.Image, float]] = []
    app = TxlabApp(root=folder, settings=Settings())
    async with app.run_test(size=SESSION) as pilot:
        app.play_lecture(FIRST_STEPS, folder, 0)
        player = app.lecture
        assert isinstance(player, Player)
        for number in range(len(player.lecture.steps)):
            if number:
                player.forward()
            frames += await frames_of_step(app, pilot, player, number)
    subprocess.run([sys.executable, "-P", "-m", "txlab", "stop", str(app.current_run)], check=True, cwd=HERE.parent)
    return frames


async def frames_of_step(
    app: TxlabApp, pilot: Pilot[None], player: Player, number: int
) -> list[tuple[Image.Image, float]]:
    """The different pictures of a step while its state is reached and, on Train, while its run learns to copy."""

    def is_there() -> bool:
        if player.reached != number:
            return False
        return app.current_mode != "train" or bool(app.current_run and state_of(app.current_run).step >= LEARNED)

    seen: list[Image.Image] = []

    def look() -> None:
        now = picture(app, size=LETTER)
        if now.size[1] >= SESSION[1] * LETTER and (not seen or now != seen[-1]):  # smaller: a screen not laid out yet
            seen.append(now)

    look()
    while not is_there():
        await pilot.pause(LOOK)
        look()
    await pilot.pause(2 * LOOK)
    look()
    while len(seen) > MOST:
        seen = [*seen[:-1:2], seen[-1]]
    return [*((each, SHOWN) for each in seen[:-1]), (seen[-1], READING)]


def write_session(frames: list[tuple[Image.Image, float]], path: Path) -> None:
    """Write an animated GIF with one palette, that of the frames next to each other."""
    width, height = frames[0][0].size
    sheet = Image.new("RGB", (width, height * len(frames)))
    for place, (frame, _) in enumerate(frames):
        sheet.paste(frame, (0, place * height))
    palette = sheet.quantize(COLOURS_OF_SESSION, dither=Image.Dither.NONE)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame, _ in frames]
    milliseconds = [round(1000 * seconds) for _, seconds in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=milliseconds, loop=0, optimize=True)
    megabytes, seconds = path.stat().st_size / 1e6, sum(milliseconds) / 1000
    print(path, f"{megabytes:.2f} MB, {len(frames)} frames, {seconds:.0f} s", flush=True)


def draw_plot(path: Path, run: Path, *options: str) -> None:
    """Draw a figure as the command does."""
    command = [sys.executable, "-P", "-m", "txlab", "plot", str(run), *options, "--out", str(path)]
    subprocess.run(command, check=True, cwd=HERE.parent)


def draw_strength(folder: Path) -> None:
    """Against both judges, and Tesauro's versions against grandmasters; the untrained network is at the left."""
    untrained = 2_000  # where 0 is on a logarithmic axis
    kept = [each for each in strengths() if each.units == 80]
    with drawing("light", (8.4, 4.4)) as (figure, axes):
        for colour, judge, plies, name in (
            (COLOURS["light"][1], "pubeval", 1, "against pubeval, Tesauro's linear program"),
            (COLOURS["light"][1], "pubeval", 2, "the same, two plies"),
            (COLOURS["light"][0], "gnubg", 1, "against gnubg, which looks no ply ahead"),
            (COLOURS["light"][0], "gnubg", 2, "the same, two plies"),
        ):
            found = sorted(
                (each for each in kept if (each.against, each.plies) == (judge, plies)), key=lambda e: e.games
            )
            axes.errorbar(
                [each.games or untrained for each in found], [each.points for each in found],
                yerr=[1.96 * each.error for each in found], color=colour, capsize=2, label=name,
                marker="o" if plies == 1 else "D", markersize=4, linestyle="-" if plies == 1 else "none",
            )  # fmt: skip
        axes.plot(
            [each.games for each in TESAURO], [each.a_game for each in TESAURO], "*", color=COLOURS["light"][6],
            markersize=11, label="Tesauro's 1.0, 2.0, 2.1 against grandmasters, as printed",
        )  # fmt: skip
        for each in TESAURO:
            axes.annotate(
                each.name, (each.games, each.a_game), (-7, -3), textcoords="offset points", ha="right", size=8
            )
        axes.axhline(0, color=COLOURS["light"][6], linewidth=0.8)
        axes.set_xscale("log")
        ticks = [untrained, 10_000, 30_000, 100_000, 300_000, 1_500_000]
        axes.set_xticks(ticks, ["0", *map(group_digits, ticks[1:])])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("games against itself")
        axes.set_ylabel("points a game, 95 % intervals")
        axes.set_title("TD-Gammon: 80 hidden units, 198 inputs, λ = .7, α = .1", loc="left")
        axes.grid(True, axis="y")
        axes.legend(fontsize=8, loc="lower right")
        write_picture(figure, folder / "strength.png")
    print(folder / "strength.png")


def main(runs: Path, names: list[str]) -> None:
    screens = [step.title for step in load_lecture(str(PICTURES), screen_names()).steps]
    others: dict[str, Callable[[], object]] = {
        "session": lambda: draw_session(SCREENS / "session.gif"),
        "strength": lambda: draw_strength(SCREENS),
        "walk": lambda: draw_plot(SCREENS / "walk.png", runs / "walk", "--sweep"),
        "gpt-docs": lambda: draw_plot(SCREENS / "gpt-docs.png", runs / "gpt"),
    }
    for name in names:
        if name not in (*screens, *others):
            raise LabError(f"no picture is called {name!r}{choices(name, (*screens, *others))}")
    asyncio.run(draw_screens(runs, [name for name in screens if name in names or not names]))
    for name, draw in others.items():
        if name in names or not names:
            draw()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python assets/make_pictures.py RUNS [NAME …]")
    SCREENS.mkdir(parents=True, exist_ok=True)
    try:
        main(Path(sys.argv[1]).absolute(), sys.argv[2:])
    except LabError as error:
        sys.exit(str(error))
