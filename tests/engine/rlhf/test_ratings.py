"""Comparisons of two models: what they add up to, and how their file is read (MATH H6)."""

from __future__ import annotations

import random
from math import inf, log10
from typing import Any

import numpy as np
import orjson
import pytest

from txlab.drawing.verdict import verdict_lines
from txlab.engine.rlhf.comparisons import Comparison, Contestant, comparison_line, standing
from txlab.engine.rlhf.preferences import Undo
from txlab.engine.rlhf.ratings import Verdict, comparisons_needed, elo, expected_score, sign_test, verdict
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


def judged(won: int, lost: int, ties: int) -> Verdict:
    results = ["a"] * won + ["b"] * lost + ["tie"] * ties
    return verdict([comparison(result, number) for number, result in enumerate(results)], "old", "new")


def test_the_difference_is_that_of_the_share_of_points() -> None:
    found = judged(30, 10, 0)
    assert found.difference == pytest.approx(400 * log10(3), abs=1e-9)
    assert expected_score(1500 + found.difference, 1500) == pytest.approx(0.75)
    assert judged(5, 5, 3).difference == pytest.approx(0, abs=1e-9)
    assert judged(7, 2, 1).difference == pytest.approx(-judged(2, 7, 1).difference)
    assert judged(20, 0, 0).difference == inf


def test_ties_draw_ratings_together_and_make_them_surer() -> None:
    few, many = judged(8, 4, 0), judged(8, 4, 40)
    assert 0 < many.difference < few.difference
    assert np.ptp(many.interval) < np.ptp(few.interval)


def test_the_interval_contains_0_exactly_if_the_sign_test_finds_nothing() -> None:
    for won in range(0, 40, 3):
        for lost in range(0, 40, 3):
            for ties in (0, 1, 7):
                found = judged(won, lost, ties)
                low, high = found.interval
                assert (low <= 0 <= high) == (found.p >= 0.05)
                assert found.significant == (found.p < 0.05)
                assert low < high
                if won + lost + ties:
                    assert low <= found.difference <= high


def test_one_judgement_is_not_taken_for_knowledge() -> None:
    said = verdict_lines(judged(1, 0, 0), ("new", "old"))
    assert said[1] == "difference not known yet; 95 % interval: above −637"
    assert "difference not known yet; 95 % interval: below +637" in verdict_lines(judged(0, 1, 0), ("new", "old"))
    assert verdict_lines(judged(0, 0, 10), ("new", "old"))[1] == "difference +0, 95 % interval −111 to +111"
    sure = verdict_lines(judged(20, 0, 0), ("new", "old"))
    assert sure[1] == "difference above +277; the other end of the 95 % interval is not known yet"


def test_a_pair_that_several_people_judge_counts_once() -> None:
    """They agree more than by chance, so each further rater would make the interval too narrow."""
    one = [comparison("a", 1), comparison("b", 2), comparison("tie", 3)]
    many = [comparison(each.result, int(each.pair[1:]), by=f"judge {j}") for each in one for j in range(9)]
    found = verdict(many, "old", "new")
    assert (found.won, found.lost, found.ties) == (1, 1, 1)
    split = [comparison("a", 1, by="ann"), comparison("b", 1, by="ben")]
    assert verdict(split, "old", "new").ties == 1
    assert verdict([*split, comparison("a", 1, by="cem")], "old", "new").won == 1


def test_the_sign_test_is_the_sum_of_the_binomial_tails() -> None:
    for n in (1, 6, 11):
        for won in range(n + 1):
            heads = np.array([bin(i).count("1") for i in range(2**n)])  # all sequences, equally likely
            extreme = np.abs(heads - n / 2) >= abs(won - n / 2)
            assert sign_test(won, n - won) == pytest.approx(float(extreme.mean()), abs=1e-12)
    assert sign_test(0, 0) == 1.0


def test_a_difference_means_something_at_about_the_number_that_was_foretold() -> None:
    assert comparisons_needed(3, 3, 5) is None
    foretold = comparisons_needed(12, 8, 10)
    assert foretold == 144  # lead .2: (1.96 / .2)² = 96 decided ones, and as many ties to each as so far
    assert sign_test(round(96 * 0.6), round(96 * 0.4)) == pytest.approx(0.05, abs=0.02)
    assert comparisons_needed(5, 0, 0) == 6
    assert sign_test(5, 0) > 0.05 > sign_test(6, 0)


def test_a_verdict_counts_the_games_of_its_two_players_in_any_order() -> None:
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
    nothing = verdict([], "old", "new")
    assert (nothing.elo, nothing.interval, nothing.p, nothing.needed) == ((1500.0, 1500.0), (-inf, inf), 1.0, None)


def test_a_line_is_written_read_and_taken_back_by_its_author() -> None:
    one, two = comparison("a", 1), comparison("tie", 2, by="ben")
    for line in (one, two):
        assert comparison_line(orjson.dumps(line.as_row())) == line
    undo = Undo("u1", "c2", "ann")
    assert comparison_line(orjson.dumps(undo.as_row())) == undo
    assert standing([one, two, one, undo]) == [one, two]
    assert standing([one, two, Undo("u2", "c2", "ben")]) == [one]


ODD: list[Any] = [None, 3, -1, 1e400, True, [], {}, "", "x" * 30_000, "\x1b[2J", "ab", "\u202e", {"model": 1}, [["a"]]]


@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_spoilt_lines_are_read_or_refused_with_an_error(seed: int) -> None:
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
