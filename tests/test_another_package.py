"""A kind, a rule, a world, a game, a screen and reference numbers of another package, one file each, are found
everywhere where ours are: in the catalogue, the shell, the console, in answers to `w`, and by `verify`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tui"))

from picture import text_of
from recorded import settle

from txlab.engine.games.catalogue import game_named, load_installed
from txlab.engine.games.players import RandomPlayer
from txlab.engine.games.playing import Playing
from txlab.engine.games.tournament import tournament
from txlab.experiments.kind import explain_metric, kind_named, kind_names
from txlab.tui.app import TxlabApp
from txlab.tui.screens.play.screen import PlayScreen

FILES = {
    "kind.py": '''
"""Halving: the number x is halved at every step."""
from typing import Literal

from pydantic import Field

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kind import Kind
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Frame
from txlab.experiments.schema import Compute, Scenario, Section


class Halving(Section):
    start: float = Field(8.0, description="x at first")
    steps: int = Field(3, ge=1, description="how often it is halved")


class HalvingScenario(Scenario):
    kind: Literal["toy-halving"] = "toy-halving"
    compute: Compute = Field(default_factory=lambda: Compute(device="cpu", dtype="float32", threads=1))
    halving: Halving = Field(default_factory=Halving)

    def length(self):
        return self.halving.steps


class HalvingExperiment:
    def __init__(self, scenario):
        self.step_count, self.steps, self.x = 0, scenario.halving.steps, scenario.halving.start

    def step(self):
        self.x, self.step_count = self.x / 2, self.step_count + 1
        return {"x": self.x}

    def evaluate(self):
        return {}

    def verify(self):
        pass

    def frame(self):
        return Frame(self.step_count, texts={"x": str(self.x)})

    def samples(self):
        return ()

    def facts(self):
        return {"unit": "halvings", "units_per_step": 1, "compute": {"device": "cpu"}}

    def adjustable(self):
        return {}

    def adjust(self, name, value):
        pass

    def state_dict(self):
        return {"step": self.step_count, "x": self.x}

    def load_state_dict(self, state):
        self.step_count, self.x = state["step"], state["x"]


class HalvingKind(Kind):
    name = "toy-halving"
    title = "Halving a number"
    schema = HalvingScenario
    METRICS = (Metric("x", "toys", "the toy", "halved", primary=True),)
    screen = "toy"

    def build(self, scenario):
        return HalvingExperiment(scenario)

    def explain_metric(self, scenario, name, step, values, facts):
        steps = [Step("x", f"{scenario.halving.start:g} / 2^{step}", values["x"])]
        return Explanation("why x?", "xₙ = x₀ / 2ⁿ", "F1", "toy", [Operand("n", step, "steps")], steps)


KIND = HalvingKind()
''',
    "rule.py": '''
"""Like Q-learning, and afraid of the worst."""
from txlab.engine.rl.rules.one_step import OneStepRule


class Pessimist(OneStepRule):
    name, title, source = "toy-rule", "A toy rule", "nobody"
    letters = "minₐ′ Q(s′,a′)"

    @staticmethod
    def target(after, best, k, exploration):
        return min(after)

    def targets(self, now, step):
        return now.xp.bottom(now.xp.rows(now.table["q"], now.base + step.next))


RULE = Pessimist()
''',
    "world.py": '''
"""A row of cells."""
from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.world import NamedWorld, Option


def row(cells):
    return parse_map("step: -1\\n\\nS" + "." * cells + "G\\n")


WORLD = NamedWorld("toy-row", "A toy row", "nowhere", row, {"cells": Option(3, "cells between", 1, 9)})
''',
    "screen.py": '''
"""A screen that says one thing, and a key of it."""
from txlab.tui.bindings import bind
from txlab.tui.screen_registry import ScreenEntry
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.plain_text import Words


class ToyScreen(BenchScreen):
    BINDINGS = [bind("k", "wind", "wind the toy up", "wind", id="toy.wind", synonyms="spring")]

    def action_wind(self):
        self.query_one(Words).say("the toy runs")

    def compose_body(self):
        yield Words("a toy on the bench")


SCREEN = ScreenEntry("11", "toy", "Toy", "toybox.screen:ToyScreen", "something to play with")
''',
    "figures.py": '''
"""What half of eight is."""
from txlab.experiments.reference_numbers import Figures, exactly, printed

FIGURES = Figures()


@FIGURES.measured_by("toy-half", "Half of eight", "nowhere", [printed("8 / 2", 4.0, 1)])
def half(say):
    return exactly([8 / 2])
''',
    "pig.py": '''
"""Pig: a player throws a die as often as it likes and adds what it shows, or holds and keeps the sum; a 1 loses it.
A position is (turn, points of the first, of the second, the sum, the die or 0 before the throw, whether to throw)."""
from dataclasses import dataclass

from txlab.engine.games.catalogue import RANDOM, GameEntry, NamedPlayer
from txlab.engine.games.game import CHANCE, FIRST
from txlab.engine.games.players import Silent
from txlab.errors import LabError

NAME, TITLE, SIGNS, MOST_POINTS = "toy-pig", "Toy pig", ("A", "B"), 1
GOAL = 20
MOVES = ("throw", "hold")


def start():
    return FIRST, 0, 0, 0, 0, False


def mover(position):
    return CHANCE if position[5] else position[0]


def chances(position):
    turn, first, second, sum, _, throws = position
    if not throws:
        return ()
    lost = (-turn, first, second, 0, 1, False)
    return [(lost, 1 / 6)] + [((turn, first, second, sum + die, die, False), 1 / 6) for die in range(2, 7)]


def outcome(position):
    return 1 if position[1] >= GOAL else -1 if position[2] >= GOAL else None


def legal(position):
    return () if position[5] or outcome(position) is not None else (0, 1) if position[3] else (0,)


def after(position, move):
    if move not in legal(position):
        raise LabError(f"{move!r} is not a move of Pig here")
    turn, first, second, sum, die, _ = position
    if move == 0:
        return turn, first, second, sum, 0, True
    return (-turn, first + sum, second, 0, 0, False) if turn > 0 else (-turn, first, second + sum, 0, 0, False)


def name_of_move(position, move):
    return MOVES[move]


def name_of_throw(position):
    return str(position[4]) if position[4] else ""


def ways(position):
    return {(move,): move for move in legal(position)}


def text(position):
    turn, first, second, sum, die, throws = position
    return f"{'AB'[turn < 0]} {first} {second} {sum} {die} {'throws' if throws else 'chooses'}"


def read(text):
    words = text.split()
    if len(words) != 6 or words[0] not in SIGNS or not all(word.isdecimal() for word in words[1:5]):
        raise LabError(f"{text!r} is not a position of Pig")
    return (1 if words[0] == "A" else -1, *map(int, words[1:5]), words[5] == "throws")


@dataclass(frozen=True)
class Holds(Silent):
    """Holds at 8; values are the chance of not throwing a 1, for show."""
    game: object
    name: str = "careful"
    quick = True

    def move(self, position, draw):
        return 1 if position[3] >= 8 else 0

    def values(self, position):
        return {move: (0.5, 0.25)[move == 0] for move in legal(position)}


GAME = GameEntry(NAME, TITLE, "toybox.pig", (NamedPlayer("careful", "holds at 8", "toybox.pig:Holds"), RANDOM))
''',
    "board.py": '''
"""Pig's board: two sums, and two places to choose from."""
from txlab.drawing.boards import BoardPiece


def lines(view, columns, rows, ascii):
    turn, first, second, sum, die, _ = view.position
    drawn = [[BoardPiece(f"pigs {first:3} against {second:3}, on the table {sum:3}"[:columns], None, "first")]]
    for place, name in enumerate(("throw", "hold")):
        here = place == view.cursor
        drawn.append([BoardPiece(f"{'>' if here else ' '} {name:36}"[:columns], place, "here" if here else "value")])
    return drawn[:rows]


def step(cursor, down, right, view):
    return max(0, min(cursor + down + right, 1))


def first_place(view):
    return 0


def sentence(view):
    return f"A has {view.position[1]}, B {view.position[2]}"
''',
    "scenarios/toy-halving.toml": """
kind = "toy-halving"
[about]
title = "A toy is halved"
chapter = "F"
minutes = 0.1
""",
}
ENTRY_POINTS = """
[txlab.kinds]
toy-halving = toybox.kind:KIND
[txlab.rules]
toy-rule = toybox.rule:RULE
[txlab.worlds]
toy-row = toybox.world:WORLD
[txlab.games]
toy-pig = toybox.pig:GAME
[txlab.boards]
toy-pig = toybox.board
[txlab.screens]
toy = toybox.screen:SCREEN
[txlab.figures]
toy = toybox.figures
[txlab.scenarios]
toy = toybox.scenarios
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip would have put into site-packages."""
    folder = tmp_path_factory.mktemp("site")
    for name, content in FILES.items():
        file = folder / "toybox" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    info = folder / "toybox-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toybox\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(site))
    load_installed.cache_clear()
    yield site
    load_installed.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "toybox"]:
        del sys.modules[name]


def txlab(site: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "txlab", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_shell_lists_and_runs_them(site: Path, tmp_path: Path) -> None:
    assert "toy-halving" in txlab(site, "scenarios")
    assert "[halving]" in txlab(site, "scenarios", "toy-halving")
    run = tmp_path / "halved"
    txlab(site, "run", "toy-halving", "--set", "halving.steps=2", "--out", str(run))
    rows = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [row["values"]["x"] for row in rows if row["event"] == "metrics" and "x" in row["values"]] == [4.0, 2.0]
    few = ["control.runs=2", "control.episodes=3", "control.sync_every=1", "control.score=1"]
    sets = ["world.name=toy-row", "world.cells=4", 'learners=[{rule="toy-rule"}]', *few]
    run = tmp_path / "walked"
    txlab(site, "run", "cliff", "--out", str(run), *(word for each in sets for word in ("--set", each)))
    facts = json.loads((run / "run.json").read_text())["facts"]
    assert (facts["world"], facts["states"]) == ("A toy row", 6)


def test_verify_finds_its_figures(site: Path) -> None:
    assert "Half of eight" in txlab(site, "verify", "toy")
    assert "toy-half" in txlab(site, "verify", "--list")


def test_its_kind_answers_for_its_numbers(installed: Path) -> None:
    assert "toy-halving" in kind_names()
    assert kind_named("toy-halving").metric("x").unit == "toys"
    answer = explain_metric({"kind": "toy-halving"}, "x", 3, {"x": 1.0})
    assert answer is not None
    assert answer.result == 1.0


async def test_the_console_shows_its_scenario_its_run_and_its_screen(installed: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "halved"
    txlab(installed, "run", "toy-halving", "--out", str(run))
    app = TxlabApp(root=tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "toy-halving" in text_of(app) and "F11" in text_of(app))
        await pilot.press("tab")
        await settle(pilot, lambda: "x 1.000" in text_of(app))
        await pilot.press("enter")  # its kind says on which screen
        await settle(pilot, lambda: "a toy on the bench" in text_of(app) and "k wind" in text_of(app))
        await pilot.press("question_mark")
        await settle(pilot, lambda: "k   wind the toy up" in text_of(app))
        await pilot.press("escape", "colon", *"spring", "enter")
        await settle(pilot, lambda: "the toy runs" in text_of(app))
        await pilot.press("3")
        await settle(pilot, lambda: "the toy" in text_of(app))
        await pilot.press("w")
        await settle(pilot, lambda: "x₀ / 2ⁿ" in text_of(app))


async def test_the_console_opens_with_its_screen_for_a_run_of_its_kind(installed: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "halved"
    txlab(installed, "run", "toy-halving", "--out", str(run))
    app = TxlabApp(run=run, root=tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "a toy on the bench" in text_of(app))
        assert app.current_run == run


def test_its_game_keeps_the_promises_of_the_protocol_and_is_rated(installed: Path) -> None:
    entry = game_named("toy-pig")
    game = entry.game
    for seed in range(20):
        playing = Playing(game, seed)
        playing.throw_all()
        while not playing.ended:
            position = playing.position
            assert game.read(game.text(position)) == position
            assert set(game.ways(position).values()) == set(game.legal(position))
            playing.go_on([RandomPlayer(game).move(position, playing.draw)])
        assert sum(probability for _, probability in game.chances((1, 0, 0, 0, 0, True))) == pytest.approx(1)
    standings = tournament([entry.player("careful"), entry.player("random")], 200, seed=3)
    assert standings is not None
    assert [row.name for row in standings.rows()] == ["careful", "random"]


def test_the_shell_plays_its_game(site: Path) -> None:
    said = txlab(site, "match", "careful", "random", "--game", "toy-pig", "--games", "20", "--seed", "1")
    assert "careful" in said


async def test_the_console_plays_its_game_on_its_board(installed: Path, tmp_path: Path) -> None:
    app = TxlabApp(root=tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await app.switch_mode("play")
        screen = app.screen
        assert isinstance(screen, PlayScreen)
        await settle(pilot, lambda: screen.game.your_move)
        screen.games.prepare(game_named("toy-pig"))
        await settle(pilot, lambda: screen.game.entry.name == "toy-pig" and screen.game.your_move)
        await settle(pilot, lambda: "pigs   0 against   0" in text_of(app))
        await pilot.press("enter")  # throw
        await settle(pilot, lambda: screen.game.your_move and screen.game.playing.moves)
        assert "careful" in text_of(app)
        assert "+.50" in text_of(app) or screen.game.position[3] == 0
