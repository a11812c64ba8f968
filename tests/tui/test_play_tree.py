"""The search tree on the Play screen: opened, walked while it grows, one visit at a time, and ended with its dialog."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from picture import text_of
from play_screen import app_on, opened, type_on
from recorded import explained, settle
from test_play_games import playing, quick
from textual.pilot import Pilot
from waiting import LONGEST

from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.players import FreshRollouts
from txlab.engine.games.connect_four.tree import PuctTree
from txlab.engine.games.game import SECOND
from txlab.sources.live import Live
from txlab.tui.screens.play.screen import PlayScreen
from txlab.tui.screens.play.tree_dialog import LiveTree, TreeDialog
from txlab.tui.session import Session
from txlab.tui.widgets.why import WhyScreen

__all__ = ["quick"]  # a fixture

MOVES = "4453"


async def at_the_board(pilot: Pilot[None]) -> PlayScreen:
    """Connect Four after a few moves, when the agent's search of the position is known."""
    screen = await playing(pilot, "connect-four", 1)
    screen.game.put_moves(rules.read_moves(MOVES))
    await settle(pilot, lambda: screen.game.your_move and not screen.game.answers.awaited)
    return screen


async def tree_on(pilot: Pilot[None], paused: bool = True) -> tuple[PlayScreen, TreeDialog]:
    """The tree of that position; paused, it is that of the search that the agent has made, or a little more."""
    screen = await at_the_board(pilot)
    await pilot.press("T")
    await settle(pilot, lambda: isinstance(pilot.app.screen, TreeDialog) and pilot.app.screen.shown)
    dialog = pilot.app.screen
    assert isinstance(dialog, TreeDialog)
    if paused:
        await pilot.press("space")
        await settle(pilot, lambda: dialog.session.idle)
    return screen, dialog


async def walk(pilot: Pilot[None], *keys: str) -> None:
    """Press keys while the search runs, and wait until they are done: `press` would wait for the search to rest."""
    for key in keys:
        await type_on(pilot, key)
        await settle(pilot, lambda: pilot.app.key_order.idle)  # type: ignore[attr-defined]


def shown(dialog: TreeDialog) -> PuctTree:
    assert isinstance(dialog.shown, PuctTree)
    return dialog.shown


def selected(tree: PuctTree) -> list[int]:
    """The path of the next visit, by the formula on the arrays of the tree."""
    place, path, position = 0, [], tree.position
    while True:
        N, W, P = tree.N[place].tolist(), tree.W[place].tolist(), tree.P[place].tolist()
        scores = {
            a: (W[a] / N[a] if N[a] else 0.0) + tree.c * P[a] * sqrt(1 + sum(N)) / (1 + N[a])
            for a in rules.legal(position)
        }
        path.append(max(scores, key=scores.__getitem__))
        position, place = rules.after(position, path[-1]), int(tree.child[place, path[-1]])
        if place == 0:
            return path


async def test_the_tree_grows_while_it_is_walked_and_the_cursor_stays_on_its_node(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, dialog = await tree_on(pilot, paused=False)
        agent = screen.game.seats[SECOND].player
        before = dict(screen.game.answers.said)
        await walk(pilot, "plus", "plus")
        await settle(pilot, lambda: shown(dialog).visits > 40)
        await walk(pilot, "right")  # to the move that is visited most
        favourite = dialog.path
        assert len(favourite) == 1
        await walk(pilot, "right", "right", "down")  # open it, to the most visited of its moves
        path = dialog.path
        assert favourite in dialog.opened
        assert path != favourite
        now = shown(dialog).visits
        await settle(pilot, lambda: shown(dialog).visits > now + 30)
        assert dialog.path == path  # while it grew
        dialog.opened |= {(move,) for move in range(7)}
        dialog.show()  # lines above it are added
        await settle(pilot, lambda: shown(dialog).visits > now + 60)
        assert dialog.path == path
        row = dialog.row
        assert row is not None
        await settle(pilot, lambda: any("▸" in line and row.name in line for line in text_of(app).splitlines()))
        assert dialog.board.view is not None
        assert dialog.board.view.moves == path
        for _ in path:
            await walk(pilot, "left")
        assert dialog.path == ()
        await pilot.press("escape")
        await settle(pilot, lambda: app.screen is screen)
        assert agent is not None
        assert dict(screen.game.answers.said) == before  # what the agent thinks is the same


async def test_one_visit_is_exactly_one_and_goes_where_the_formula_says(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        _, dialog = await tree_on(pilot)
        for _ in range(4):
            before = shown(dialog)
            expected = selected(before)
            await pilot.press("full_stop")
            await settle(pilot, lambda now=before.visits: shown(dialog).visits > now)
            after = shown(dialog)
            assert after.visits == before.visits + 1
            assert after.last is not None
            assert list(after.last.path) == expected
            added = after.N[: len(before.N)] - before.N
            assert (added.sum(), added.max()) == (len(expected) - 1 + (added.sum() == len(expected)), 1)
            place = 0
            for level, choice in enumerate(after.last.choices):
                brought = after.W[place, choice.move] - (before.W[place, choice.move] if place < len(before.N) else 0)
                assert brought == pytest.approx(choice.back)
                assert choice.back == pytest.approx(after.last.value * (-1) ** (len(expected) - level))
                place = int(after.child[place, choice.move])
            told = text_of(app)
            assert f"visit {after.visits}" in told
            assert "expansion" in told or "has won" in told
        now = shown(dialog).visits
        for _ in range(7):
            await type_on(pilot, "full_stop")
        await settle(pilot, lambda: shown(dialog).visits >= now + 7)
        await settle(pilot, lambda: dialog.session.idle)
        assert shown(dialog).visits == now + 7
        await pilot.press("escape")


async def test_the_search_ends_with_its_dialog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[BaseException | None] = []  # how its thread has ended; an exception in one that is cancelled is lost

    def noted(session: Session[LiveTree], over: Callable[[], bool]) -> None:
        try:
            Live.work(session, over)
        except BaseException as error:
            ends.append(error)
            raise
        ends.append(None)

    monkeypatch.setattr(Session, "work", noted)
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen, dialog = await tree_on(pilot, paused=False)
        await walk(pilot, *["plus"] * 5)
        await settle(pilot, lambda: shown(dialog).visits > 30)
        assert dialog.session.alive
        await pilot.press("escape")
        await settle(pilot, lambda: app.screen is screen and ends)
        assert ends == [None]
        assert dialog.search.visits < LiveTree.steps  # it did not end by itself
        assert not [worker for worker in app.workers if worker.group == "session"]
        assert screen.game.check_action("tree", ())


@pytest.mark.parametrize("keys", [("right",), ("full_stop", "right", "w")])
async def test_keys_that_come_before_the_tree_is_there_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await at_the_board(pilot)
        screen.game.put_moves(rules.read_moves(MOVES + "1"))
        await settle(pilot, lambda: screen.game.your_move and not screen.game.answers.awaited)
        go_on, evaluate = threading.Event(), FreshRollouts.__call__

        def slow(self: FreshRollouts, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            assert go_on.wait(LONGEST)
            return evaluate(self, own, both)

        monkeypatch.setattr(FreshRollouts, "__call__", slow)
        for seat in screen.game.agents:
            getattr(seat.player, "before", seat.player).__dict__.get("known", {}).clear()
        await type_on(pilot, "T", *keys)
        dialog = app.screen
        assert isinstance(dialog, TreeDialog)
        assert dialog.shown is None
        go_on.set()
        await settle(pilot, lambda: dialog.path)
        if keys[-1] == "w":
            await settle(pilot, lambda: isinstance(app.screen, WhyScreen))
            assert len(dialog.path) == 1
            assert not dialog.session.running
            await pilot.press("escape")
        else:
            await settle(pilot, lambda: len(dialog.path) == 1)  # what is deeper may not be visited yet
        await pilot.press("escape")


async def test_a_key_after_one_visit_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        _, dialog = await tree_on(pilot)
        before = shown(dialog).visits
        go_on, evaluate = threading.Event(), FreshRollouts.__call__

        def slow(self: FreshRollouts, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            assert go_on.wait(LONGEST)
            return evaluate(self, own, both)

        monkeypatch.setattr(FreshRollouts, "__call__", slow)
        await type_on(pilot, "full_stop", "w")
        assert app.screen is dialog
        go_on.set()
        told = {each.name: each.value for each in (await explained(pilot)).operands}
        assert told["Σ N"] == before + 1
        await pilot.press("escape")
        await pilot.press("escape")


@pytest.mark.parametrize("name", ["tictactoe", "backgammon"])
async def test_without_a_search_no_tree_is_offered(tmp_path: Path, name: str) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await (opened(pilot) if name == "tictactoe" else playing(pilot, name, 3))
        assert "T tree" not in text_of(app)
        await pilot.press("T")
        assert app.screen is screen


async def test_w_explains_the_numbers_of_the_line_and_the_search_begins_again_from_nothing(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, dialog = await tree_on(pilot)
        for keys in ((), ("right",), ("right", "right")):
            await pilot.press(*keys)
            await pilot.press("w")
            why = await explained(pilot)
            row = dialog.row
            assert row is not None
            assert why.result == pytest.approx(row.branch.score if row.branch is not None else row.value)
            await pilot.press("escape")
        assert len(dialog.path) == 2
        await pilot.press("r")
        await settle(pilot, lambda: shown(dialog).visits == 0)
        assert (shown(dialog).nodes, dialog.path) == (1, ())
        await pilot.press("right", "right")
        assert "no visit has come here yet" in text_of(app)
        await pilot.press("full_stop")
        await settle(pilot, lambda: shown(dialog).visits == 1)
        assert shown(dialog).last is not None
        await pilot.press("q")
        await settle(pilot, lambda: app.screen is screen)


async def test_it_pauses_when_there_is_no_more_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveTree, "steps", 230)
    monkeypatch.setattr("txlab.tui.screens.play.tree_dialog.MOST_VISITS", 230)
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        _, dialog = await tree_on(pilot, paused=False)
        await walk(pilot, *["plus"] * 5)
        await settle(pilot, lambda: not dialog.running)
        assert shown(dialog).visits == 230
        assert "all that fit" in text_of(app)
        await pilot.press("escape")


@pytest.mark.parametrize("ascii", [False, True])
async def test_the_tree_fits_every_size(tmp_path: Path, ascii: bool) -> None:
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=(80, 24)) as pilot:
        _, dialog = await tree_on(pilot)
        await pilot.press("right", "right", "right", "full_stop")
        for columns, rows in ((60, 20), (80, 24), (120, 40), (200, 60), (20, 5)):
            await pilot.resize_terminal(120, 40)
            dialog.rows.action_edge(-1)  # it has to stay in view
            await pilot.resize_terminal(columns, rows)
            await settle(pilot, lambda: dialog.session.idle)
            text = text_of(app)
            assert not ascii or text.isascii(), sorted({c for c in text if not c.isascii()})
            if columns >= 60:
                assert f"visit {shown(dialog).visits}" in text
                head = next(line for line in text.splitlines() if " move " in line)
                assert {"N", "Q", "P", "U"} <= set(head.split())
                assert ("Q + U" in head) == (columns >= 80)
                row = dialog.row
                assert row is not None
                assert any(row.name in line and f" {row.N} " in line for line in text.splitlines()), (row, text)
                assert "-1-2-3-" in text.replace("─", "-") or "──2──" in text or "--2--" in text or columns > 80
        assert app._exception is None
        await pilot.press("escape")
