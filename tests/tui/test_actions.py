"""An action that Python could not read at once is read at the next try: CPython's parser is not safe in threads."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest
from recorded import app_on
from textual.actions import ActionError, parse

from txlab.tui.bindings import TRIES, parse_action


def failing(times: int) -> Callable[[str], Any]:
    """Python's `literal_eval`, which fails at first, as it does while another thread builds a syntax tree."""
    literal_eval, left = ast.literal_eval, [times]

    def evaluate(text: str) -> Any:
        if left[0]:
            left[0] -= 1
            raise SystemError("AST constructor recursion depth mismatch (before=64, after=61)")
        return literal_eval(text)

    return evaluate


def test_an_action_is_parsed_at_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    parse.cache_clear()
    monkeypatch.setattr(ast, "literal_eval", failing(TRIES - 1))
    assert parse_action("panel('SomePanel', 'some_action')") == ("", "panel", ("SomePanel", "some_action"))
    with pytest.raises(ActionError):
        parse_action("panel('SomePanel' +)")


async def test_the_console_goes_on_when_an_action_could_not_be_read_once(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        parse.cache_clear()
        monkeypatch.setattr(ast, "literal_eval", failing(1))
        app.screen.refresh_bindings()
        await pilot.press("2")
        await pilot.pause()
        assert app.current_mode == "tokens"
