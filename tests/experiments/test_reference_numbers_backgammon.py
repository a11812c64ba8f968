"""Backgammon's figures: the exact ones hold and no neighbour of them does, the others are measured as they say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from txlab.experiments.reference_numbers import Figure, games_backgammon

FIGURES: dict[str, Figure] = {figure.name: figure for figure in games_backgammon.FIGURES}


@pytest.mark.parametrize("name", ["backgammon-counts", "td-gammon-versions"])
def test_an_exact_figure_holds_in_every_number(name: str) -> None:
    figure = FIGURES[name]
    for number, found in zip(figure.numbers, figure.measure(lambda text: None), strict=True):
        assert number.holds(found), f"{number.label}: {found.value}"
        assert not replace(number, value=number.value + 2 * 10.0**-number.digits).holds(found)


def test_games_of_random_moves_are_those_of_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(games_backgammon, "RANDOM_GAMES", 60)
    figure = FIGURES["backgammon-random"]
    measured = figure.measure(lambda text: None)
    assert [found.runs for found in measured] == [60] * 4
    assert all(number.holds(found) for number, found in zip(figure.numbers, measured, strict=True))


def test_the_table_has_tesauros_results_and_ours_beside_them() -> None:
    remark = FIGURES["td-gammon-versions"].measure(lambda text: None)[-1].remark
    lines = remark.splitlines()
    assert "−13 points in 51 games" in lines[1]
    assert "−0.38 ± 0.02" in lines[1]
    assert "−1 point in 40 games" in lines[3]
    assert "1 500 000 games, 2 plies" in lines[3]
    assert "not here" in lines[-1]


def test_a_network_that_has_hardly_played_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    for name, value in {"SEEDS": 2, "GAMES": 4, "EARLIER": 2, "PAIRS": 3, "PAIRS_OF_TWO_PLIES": 1}.items():
        monkeypatch.setattr(games_backgammon, name, value)
    figure = FIGURES["td-gammon-learning"]
    assert figure.needs == ""
    said: list[str] = []
    measured = figure.measure(said.append)
    assert said[-1] == "4 games, seed 2 of 2"
    assert not any(number.holds(found) for number, found in zip(figure.numbers, measured, strict=True))
    assert measured[-1].remark.count("seed ") == 2
