"""Comparisons of two models: what they add up to, and how their file is read (MATH H6)."""

from __future__ import annotations

import random
from math import log10
from typing import Any

import numpy as np
import orjson
import pytest

from txlab.engine.games.tournament import ratings
from txlab.engine.rlhf.comparisons import Comparison, Contestant, comparison_line, standing
from txlab.engine.rlhf.preferences import Undo
from txlab.engine.rlhf.ratings import Verdict, difference, elo, expected_score, needed, sign_test, verdict
from txlab.errors import LabError


def comparison(result: str, number: int = 0, one: str = "old", other: str = "new", by: str = "ann") -> Comparison:
    return Comparison(
        f"c{number}", f"p{number}", "film", Contestant(one, "x"), Contestant(other, "y"), "ab", result, by
    )


def test_running_ratings_are_those_of_a_plain_loop() -> None:
    results = [1.0, 0.5, 0.0, 1.0, 1.0]
    one, other = 1500.0, 1500.0
    for result in results:
        expected = 1 / (1 + 10 ** ((other - one) / 400))
        one, other = one + 32 * (result - expected), other + 32 * ((1 - result) - (1 - expected))
    assert elo(results) == pytest.approx((one, other), abs=1e-9)
    assert sum(elo(results)) == pytest.approx(3000)
    assert elo(results[::-1]) != pytest.approx((one, other), abs=1e-3)  # they depend on the order
    assert elo([]) == (1500.0, 1500.0)


def test_the_difference_has_its_closed_form_without_ties_and_added_games() -> None:
    wins = np.array([[0, 30], [10, 0]])
    gap, error = ratings(wins, np.zeros((2, 2)), prior=0).difference(0, 1)
    assert gap == pytest.approx(400 * log10(3), abs=1e-9)
    # the variance of the log-odds of 30 in 40 is 1 / (40 · ¾ · ¼)
    assert error == pytest.approx(400 / np.log(10) * (1 / 7.5) ** 0.5, rel=1e-9)
    assert difference(30, 10, 0)[0] == pytest.approx(gap, rel=0.06)  # the added games pull it a little to 0
    assert expected_score(1500 + gap, 1500) == pytest.approx(0.75)


def test_ties_draw_ratings_together_and_make_them_surer() -> None:
    few, many = difference(8, 4, 0), difference(8, 4, 40)
    assert 0 < many[0] < few[0]
    assert many[1] < few[1]
    assert difference(5, 5, 3)[0] == pytest.approx(0, abs=1e-9)
    assert difference(7, 2, 1)[0] == pytest.approx(-difference(2, 7, 1)[0])


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_the_interval_holds_the_truth_in_95_of_100_cases(share: float) -> None:
    draws = np.random.default_rng(3).binomial(100, share, size=2000)
    truth = 400 * log10(share / (1 - share))
    inside = 0
    for won, count in zip(*np.unique(draws, return_counts=True), strict=True):
        gap, error = difference(int(won), 100 - int(won), 0)
        inside += int(count) * (abs(gap - truth) <= 1.959964 * error)
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)


def test_the_sign_test_is_the_sum_of_the_binomial_tails() -> None:
    for n in (1, 6, 11):
        for won in range(n + 1):
            heads = np.array([bin(i).count("1") for i in range(2**n)])  # all sequences, equally likely
            extreme = np.abs(heads - n / 2) >= abs(won - n / 2)
            assert sign_test(won, n - won) == pytest.approx(float(extreme.mean()), abs=1e-12)
    assert sign_test(0, 0) == 1.0


def test_a_difference_means_something_at_about_the_number_that_was_foretold() -> None:
    assert needed(3, 3, 5) is None
    foretold = needed(12, 8, 10)
    assert foretold == 144  # lead .2: (1.96 / .2)² = 96 decided ones, and as many ties to each as so far
    assert sign_test(round(96 * 0.6), round(96 * 0.4)) == pytest.approx(0.05, abs=0.02)
    assert needed(5, 0, 0) == 6
    assert sign_test(5, 0) > 0.05 > sign_test(6, 0)


def test_a_verdict_counts_what_is_between_its_two_whoever_is_called_a() -> None:
    lines = [comparison(result, i) for i, result in enumerate(["a", "b", "tie", "skip", "b"])]
    lines.append(comparison("a", 9, "new", "old"))
    lines.append(comparison("a", 10, "old", "another"))
    found = verdict(lines, "old", "new")
    assert (found.won, found.lost, found.ties) == (1, 3, 1)
    turned = verdict(lines, "new", "old")
    assert (turned.won, turned.lost) == (3, 1)
    assert turned.difference == pytest.approx(-found.difference)
    assert turned.elo == pytest.approx(found.elo[::-1])
    low, high = found.interval
    assert low < found.difference < high
    assert not found.significant
    assert verdict([], "old", "new") == Verdict(0, 0, 0, (1500.0, 1500.0), 0.0, 0.0, 1.0, None)


def test_a_line_is_written_and_read_and_taken_back_by_whoever_wrote_it() -> None:
    one, two = comparison("a", 1), comparison("tie", 2, by="ben")
    for line in (one, two):
        assert comparison_line(orjson.dumps(line.as_row())) == line
    undo = Undo("u1", "c2", "ann")
    assert comparison_line(orjson.dumps(undo.as_row())) == undo
    assert standing([one, two, one, undo]) == [one, two]
    assert standing([one, two, Undo("u2", "c2", "ben")]) == [one]


ODD: list[Any] = [None, 3, -1, 1e400, True, [], {}, "", "x" * 30_000, "\x1b[2J", "ab", "\u202e", {"model": 1}, [["a"]]]


@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_spoilt_lines_are_read_or_refused_in_one_sentence(seed: int) -> None:
    choice, refused = random.Random(seed), 0
    for _ in range(250):
        row: dict[str, Any] = comparison("a").as_row()
        for _ in range(choice.randint(1, 3)):
            place = row if choice.random() < 0.7 else choice.choice([row["a"], row["b"]])
            if isinstance(place, dict):
                name = choice.choice(list(place) or ["id"])
                place[name] = choice.choice(ODD)
                if choice.random() < 0.2:
                    del place[name]
            row.setdefault("a", {})
            row.setdefault("b", {})
        data = orjson.dumps(row)
        if choice.random() < 0.3:
            at = choice.randrange(len(data))
            data = data[:at] + bytes([choice.randrange(256)]) + data[at + 1 :]
        said = ""
        try:
            line = comparison_line(data)
            assert comparison_line(orjson.dumps(line.as_row())) == line
        except LabError as error:
            said = str(error)
            refused += 1
        assert said.isprintable()
        assert len(said) < 200
    assert 125 < refused < 250
