"""The exact figures of tic-tac-toe hold; the learnt ones are measured as they say, here with fewer games."""

from __future__ import annotations

from dataclasses import replace

import pytest

from txlab.experiments.reference_numbers import Figure, rl_tictactoe

EXACT = [figure for figure in rl_tictactoe.FIGURES if figure.seconds <= 1]
LEARNT = [figure for figure in rl_tictactoe.FIGURES if figure.seconds > 1]


@pytest.mark.parametrize("figure", EXACT, ids=lambda figure: figure.name)
def test_an_exact_figure_holds_in_every_number(figure: Figure) -> None:
    measured = figure.measure(lambda text: None)
    assert len(measured) == len(figure.numbers)
    for number, found in zip(figure.numbers, measured, strict=True):
        assert number.holds(found), f"{number.label}: {found.value}"
        assert not replace(number, value=number.value + 2 * 10.0**-number.digits).holds(found)


@pytest.mark.parametrize("figure", LEARNT, ids=lambda figure: figure.name)
def test_a_learner_that_has_hardly_played_does_not_hold(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl_tictactoe, "SELF_PLAY_GAMES", 300)
    monkeypatch.setattr(rl_tictactoe, "SEEDS", 2)
    said: list[str] = []
    measured = figure.measure(said.append)
    assert len(measured) == len(figure.numbers)
    assert not any(number.holds(found) for number, found in zip(figure.numbers, measured, strict=True))
    assert said[-1].endswith("300 games, seed 2 of 2")
    assert measured[0].runs == 2
