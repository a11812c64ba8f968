"""Backgammon's figures: the exact ones hold and no neighbour of them does, the others are measured as they say."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from txlab.experiments.reference_numbers import Figure, games_backgammon

pytestmark = pytest.mark.evidence

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


def test_the_table_has_tesauros_results_next_to_ours() -> None:
    remark = FIGURES["td-gammon-versions"].measure(lambda text: None)[-1].remark
    lines = remark.splitlines()
    assert "−13 points in 51 games" in lines[1]
    assert "−1 point in 40 games" in lines[3]
    assert "1 500 000 games, 2 plies" in lines[3]
    assert "not here" in lines[-1]
    gnubg, pubeval = (
        next(
            e for e in games_backgammon.strengths() if (e.units, e.games, e.plies, e.against) == (80, 300_000, 1, judge)
        )
        for judge in ("gnubg", "pubeval")
    )
    assert lines[1].endswith(f"+{pubeval.points:.2f} ± {pubeval.error:.2f}")
    assert f"−{-gnubg.points:.2f} ± {gnubg.error:.2f}" in lines[1]


def test_an_unmeasured_version_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(games_backgammon, "strengths", lambda: ())
    assert games_backgammon.version_line(games_backgammon.TESAURO[0]).count("not measured") == 2


def test_each_match_was_measured_once_and_the_more_games_the_stronger() -> None:
    """The points grow from each snapshot to the next, as far as their errors tell; --out adds what it measures."""
    matches: dict[tuple[int, int, str], list[games_backgammon.Strength]] = {}
    for each in games_backgammon.strengths():
        matches.setdefault((each.units, each.plies, each.against), []).append(each)
    for found in matches.values():
        found.sort(key=lambda each: each.games)
        for one, other in pairwise(found):
            assert one.games < other.games
            assert other.points > one.points - 3 * (one.error**2 + other.error**2) ** 0.5


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
