"""The pictures of the README, from real runs: python assets/make_screens.py RUNS_FOLDER

    lab.png         the catalogue and the runs of the folder, in whatever state they are
    train.png       the newest gpt-docs run (else gpt-tiny): curves, numbers, samples
    attention.png   the newest translate run: how words of the target look at their source, in the sharpest head
    why.png         the newest gpt-copy run, its strongest induction head, where it copies: asked why
    copying.png     that head switched off, and what comes next then
    tokens.png      a text by the byte pair encoding learnt here and by bytes, beside each other
    training.png    that encoding, as it is learnt
    words.png       the newest words-source run: the map of its words, coloured by the nearest of four marked ones
    feedback.png    the newest over-optimisation run: proxy and gold of its policies over √KL
    arena.png       SARSA and Q-learning on the cliff, after some hundred thousand updates
    play.png        tic-tac-toe against a learner of 30 000 games, with what it sees on the squares
    gradients.png   the newest vanishing-gradient run: how long the gradient is at every step back
    playground.png  a spiral learnt by two layers of eight neurons
    descent.png     Himmelblau's four minima, and where four methods go from one start
    strength.png    TD-Gammon's points a game over the games it had played, from assets/texts/td_gammon.toml

They are written to assets/screens (a second argument names another folder).
Notable: they are drawn from the program itself on runs that exist, so a picture cannot show what is not there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from textual.pilot import Pilot

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "tui")]

from picture import picture  # noqa: E402

from txlab.drawing.picture import COLOURS, drawing  # noqa: E402
from txlab.drawing.picture import save as write_picture  # noqa: E402
from txlab.engine.descent.known import KNOWN  # noqa: E402
from txlab.engine.games.learner import SelfPlaySettings as Rules  # noqa: E402
from txlab.engine.tokenizers.trees import merge_tree  # noqa: E402
from txlab.errors import LabError  # noqa: E402
from txlab.experiments.reference_numbers.games_backgammon import TESAURO, strengths  # noqa: E402
from txlab.experiments.schema import grouped  # noqa: E402
from txlab.runs.directory import RunInfo  # noqa: E402
from txlab.runs.folder import list_runs  # noqa: E402
from txlab.tui.app import TxlabApp  # noqa: E402
from txlab.tui.screens.arena.screen import ArenaScreen  # noqa: E402
from txlab.tui.screens.attention.screen import AttentionScreen  # noqa: E402
from txlab.tui.screens.attention.source import strongest  # noqa: E402
from txlab.tui.screens.descent.screen import DescentScreen, camera_of  # noqa: E402
from txlab.tui.screens.feedback.screen import FeedbackScreen  # noqa: E402
from txlab.tui.screens.lab.screen import LabScreen  # noqa: E402
from txlab.tui.screens.play.lesson_dialog import Lesson  # noqa: E402
from txlab.tui.screens.play.screen import PlayScreen  # noqa: E402
from txlab.tui.screens.playground.screen import PlaygroundScreen  # noqa: E402
from txlab.tui.screens.recurrent.screen import RecurrentScreen  # noqa: E402
from txlab.tui.screens.tokens.screen import TokensScreen  # noqa: E402
from txlab.tui.screens.tokens.token_view import TokensView  # noqa: E402
from txlab.tui.screens.train.screen import TrainScreen  # noqa: E402
from txlab.tui.screens.vectors.screen import WordsScreen  # noqa: E402
from txlab.tui.settings import Settings  # noqa: E402
from txlab.tui.widgets.heatmap import Heatmap  # noqa: E402
from txlab.tui.widgets.rows import Rows  # noqa: E402
from txlab.tui.widgets.thumbnails import Thumbnails  # noqa: E402
from txlab.tui.widgets.why import WhyPanel, WhyScreen  # noqa: E402

SIZE = (120, 36)
PATIENCE = 30.0  # seconds for a screen to have read its run; the first `why` imports torch


def newest(root: Path, *scenarios: str) -> Path:
    """The newest run of the first of the scenarios that has one with frames."""
    infos = [(path, RunInfo.load(path)) for path in list_runs(root)]
    for scenario in scenarios:
        for path, info in infos:
            if info.scenario == scenario and any((path / "frames").glob("*")):
                return path
    raise SystemExit(f"{root} has no run of {' or '.join(scenarios)}: txlab run {scenarios[0]}")


async def until(pilot: Pilot[None], ready: Callable[[], object]) -> None:
    for _ in range(int(PATIENCE / 0.1)):
        await pilot.pause(0.1)
        if ready():
            break
    else:
        raise SystemExit("the screen never had what the picture shows")
    await pilot.pause(0.5)


def on_the_diagonal(weights: np.ndarray) -> int:
    """The middle row of the longest stretch in which each row looks one further on than the row before: the copying."""
    looks = weights.argmax(axis=1)
    best: list[int] = [len(looks) - 1]
    now: list[int] = []
    for row in range(1, len(looks)):
        follows = looks[row] == looks[row - 1] + 1 and looks[row] < row - 1
        now = [*now, row] if follows else []
        best = now if len(now) >= len(best) else best
    return best[len(best) // 2]


def save(app: TxlabApp, folder: Path, name: str) -> None:
    path = folder / f"{name}.png"
    picture(app).save(path, optimize=True)
    print(path)


async def draw(root: Path, folder: Path) -> None:
    app = TxlabApp(root=root, settings=Settings())
    async with app.run_test(size=SIZE) as pilot:
        lab = app.screen
        assert isinstance(lab, LabScreen)
        seen = min(len(list_runs(root)), 10)
        await until(pilot, lambda: lab.loaded and len(lab.glances) >= seen)
        lab.query_one("#catalogue", Rows).select("gpt-copy")
        await pilot.pause(0.5)
        save(app, folder, "lab")

        app.look_at(newest(root, "gpt-docs", "gpt-tiny"))
        await until(pilot, lambda: isinstance(app.screen, TrainScreen) and app.screen.snap)
        save(app, folder, "train")

        await draw_translation(app, pilot, newest(root, "translate"), folder)
        await draw_copying(app, pilot, newest(root, "gpt-copy"), folder)
        await draw_tokens(app, pilot, folder)
        await draw_words(app, pilot, newest(root, "words-source"), folder)
        app.look_at(newest(root, "over-optimisation"), "feedback")
        await until(pilot, lambda: isinstance(app.screen, FeedbackScreen) and app.screen.snap)
        save(app, folder, "feedback")
        await draw_arena(app, pilot, folder)
        await draw_play(app, pilot, folder)
        await draw_descent(app, pilot, folder)
        await draw_playground(app, pilot, folder)
        app.look_at(newest(root, "vanishing-gradient"), "recurrent")
        await until(pilot, lambda: isinstance(app.screen, RecurrentScreen) and app.screen.gradients.chart)
        save(app, folder, "gradients")


async def attention_on(app: TxlabApp, pilot: Pilot[None], run: Path) -> AttentionScreen:
    app.look_at(run, "attention")
    await until(
        pilot, lambda: isinstance(app.screen, AttentionScreen) and app.current_run == run and app.screen.recorded
    )
    assert isinstance(app.screen, AttentionScreen)
    return app.screen


async def choose(pilot: Pilot[None], screen: AttentionScreen, layer: int, head: int, row: int) -> None:
    """Show that head, with the cursor where the row looks most."""
    screen.query_one(Thumbnails).choose(layer, head)
    await pilot.pause(0.5)
    heatmap = screen.query_one(Heatmap)
    heatmap.move_to(row, heatmap.strongest(row))
    await pilot.pause(0.5)


async def draw_translation(app: TxlabApp, pilot: Pilot[None], run: Path, folder: Path) -> None:
    screen = await attention_on(app, pilot, run)
    while screen.patterns.site != "cross":
        await pilot.press("a")
        await pilot.pause(0.2)
    assert screen.recorded is not None
    patterns = screen.recorded.patterns["cross"].astype(np.float32)  # (L, H, T, S)
    sharpness = patterns.max(-1).mean(-1)  # (L, H)
    layer, head = np.unravel_index(int(sharpness.argmax()), sharpness.shape)
    await choose(pilot, screen, int(layer), int(head), patterns.shape[2] // 3)
    save(app, folder, "attention")


async def draw_copying(app: TxlabApp, pilot: Pilot[None], run: Path, folder: Path) -> None:
    screen = await attention_on(app, pilot, run)
    assert screen.recorded is not None
    (layer, head), *_ = strongest(screen.recorded.scores["self"], "induction", 1) or [(0, 0)]
    weights = screen.recorded.patterns["self"][layer, head].astype(np.float32)
    await choose(pilot, screen, layer, head, on_the_diagonal(weights))
    await pilot.press("w")
    await until(pilot, lambda: isinstance(app.screen, WhyScreen) and app.screen.query_one(WhyPanel).explanation)
    save(app, folder, "why")
    await pilot.press("escape")
    await pilot.press("x")
    await until(pilot, lambda: screen.patterns.next_tokens.kl is not None)
    save(app, folder, "copying")
    await pilot.press("escape")


async def draw_tokens(app: TxlabApp, pilot: Pilot[None], folder: Path) -> None:
    """The text beside itself by bytes, the cursor on the token with the most merges; then how it is learnt."""
    await pilot.press("2")
    screen = app.screen
    assert isinstance(screen, TokensScreen)
    await until(pilot, lambda: screen.training.quiet and screen.text.lanes)
    await pilot.press("c", *"bytes", "enter", "escape")
    await until(pilot, lambda: len(screen.text.lanes) == 2)
    tokenizer, ids = screen.text.lanes[0].tokenizer, screen.text.lanes[0].ids
    deepest = max(range(len(ids)), key=lambda place: merge_tree(tokenizer, int(ids[place])).depth())
    screen.query_one("#view", TokensView).to_token(deepest)
    await pilot.pause(0.5)
    save(app, folder, "tokens")
    await pilot.press("t")
    await pilot.pause(1.0)
    save(app, folder, "training")


async def draw_words(app: TxlabApp, pilot: Pilot[None], run: Path, folder: Path) -> None:
    app.look_at(run, "words")
    await until(pilot, lambda: isinstance(app.screen, WordsScreen) and app.current_run == run and app.screen.laid)
    screen = app.screen
    assert isinstance(screen, WordsScreen)
    assert screen.laid is not None
    for word in ("LETTER", "KeyError", "encode", "red"):
        screen.map.go_to(screen.laid.embedding.row(word))
        await pilot.pause(0.2)
        await pilot.press("m")
    await pilot.pause(0.5)
    save(app, folder, "words")


async def draw_arena(app: TxlabApp, pilot: Pilot[None], folder: Path) -> None:
    await pilot.press("6")
    screen = app.screen
    assert isinstance(screen, ArenaScreen)
    await until(pilot, lambda: screen.session.experiment is not None)
    await pilot.press("space")
    await until(pilot, lambda: screen.session.updates > 300_000)
    await pilot.press("space", "full_stop")
    await pilot.pause(0.5)
    save(app, folder, "arena")


async def draw_descent(app: TxlabApp, pilot: Pilot[None], folder: Path) -> None:
    await app.run_action("app.open_screen('descent')")
    await until(pilot, lambda: isinstance(app.screen, DescentScreen) and app.screen.shown)
    screen = app.screen
    assert isinstance(screen, DescentScreen)
    home = camera_of(next(known for known in KNOWN if known.name == "Himmelblau"))
    screen.functions.open("Himmelblau")
    await until(pilot, lambda: screen.home == home and screen.shown is not None and screen.shown.frame.step < 60)
    await until(pilot, lambda: screen.home == home and screen.shown is not None and screen.shown.frame.step >= 60)
    screen.session.pause()
    await until(pilot, lambda: screen.session.idle)
    save(app, folder, "descent")


async def draw_playground(app: TxlabApp, pilot: Pilot[None], folder: Path) -> None:
    await app.run_action("app.open_screen('playground')")
    await until(pilot, lambda: isinstance(app.screen, PlaygroundScreen) and app.screen.shown)
    screen = app.screen
    assert isinstance(screen, PlaygroundScreen)
    screen.session.run()
    await until(pilot, lambda: screen.session.updates >= 300)
    screen.session.pause()
    await until(pilot, lambda: screen.session.idle)
    save(app, folder, "playground")


async def draw_play(app: TxlabApp, pilot: Pilot[None], folder: Path) -> None:
    """It learns, sits down as O, and its values stand on the squares after two moves of each."""
    await pilot.press("t")
    screen = app.screen
    assert isinstance(screen, PlayScreen)
    screen.lessons.learn(Lesson(Rules(), games=30_000, seed=1))
    await until(pilot, lambda: screen.lessons.session.updates == 30_000 and screen.lessons.session.idle)
    await pilot.press("enter")
    await until(pilot, lambda: len(screen.game.moves) == 2)
    save(app, folder, "play")


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
        axes.set_xticks(ticks, ["0", *map(grouped, ticks[1:])])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("games against itself")
        axes.set_ylabel("points a game, 95 % intervals")
        axes.set_title("TD-Gammon: 80 hidden units, 198 inputs, λ = .7, α = .1", loc="left")
        axes.grid(True, axis="y")
        axes.legend(fontsize=8, loc="lower right")
        write_picture(figure, folder / "strength.png")
    print(folder / "strength.png")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python assets/make_screens.py RUNS_FOLDER [FOLDER]")
    target = Path(sys.argv[2]) if len(sys.argv) == 3 else HERE / "screens"
    target.mkdir(parents=True, exist_ok=True)
    try:
        draw_strength(target)
        asyncio.run(draw(Path(sys.argv[1]).absolute(), target))
    except LabError as error:
        sys.exit(str(error))
