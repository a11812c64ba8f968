"""Random keys in the Arena: running, editing, tuning, walking, worlds and dialogs in any order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from arena_screen import app_on, opened
from recorded import leave_dialogs, settle
from test_monkey import BATCH, PRINTED, SIZES, Caged
from textual import events

pytestmark = pytest.mark.evidence

ARENA_EVENTS = 300
KEYS = [
    *"mmgghcsrpwoauvnbdtlyy<>", "number_sign", "full_stop", "full_stop", "space", "space", "minus", "plus", "tab", "up",
    "down", "left", "right", "enter", "escape", "escape", "left_square_bracket", "right_square_bracket", "backspace",
    "left_curly_bracket", "right_curly_bracket", "0",
]  # fmt: skip
SIGNS = {**PRINTED, "number_sign": "#"}


async def test_random_keys_in_the_arena_break_nothing(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.chdir(tmp_path)  # type: ignore[attr-defined]
    choice = random.Random(5)
    app = Caged(root=tmp_path, settings=app_on(tmp_path).settings)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        for done in range(0, ARENA_EVENTS, BATCH):
            for _ in range(BATCH):
                if choice.random() < 0.1:
                    x, y = (choice.randrange(edge) for edge in app.size)
                    for kind in (events.MouseDown, events.MouseUp, events.Click):
                        app.screen.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))  # type: ignore
                else:
                    key = choice.choice(KEYS)
                    app.post_message(events.Key(key, SIGNS.get(key, key if len(key) == 1 else None)))
            await pilot.pause()
            if done % (4 * BATCH) == 0:
                await pilot.resize_terminal(*choice.choice(SIZES))
                await pilot.press("escape", "escape", "6")
            assert app._exception is None, f"event {done}: {app._exception!r}"
        await leave_dialogs(pilot)
        screen.session.pause()
        await settle(pilot, lambda: screen.choice.making.idle and not screen.session.alive)
        assert not screen.session.alive
        assert app._exception is None
