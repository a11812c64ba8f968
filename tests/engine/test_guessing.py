"""The guessing game: bits that a code really needs, counted over the same bytes for the player and the model."""

from __future__ import annotations

from math import inf, isclose, lgamma, log, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.engine.guessing import GUESSES, GuessingGame, guess_bits, guess_probability, stretches, why_guessing


def krichevsky_trofimov(ranks: list[int]) -> float:
    """−log₂ of the probability of the whole sequence: Dirichlet's integral in closed form, no rank after another."""
    m = GUESSES + 1
    counts = [ranks.count(rank) for rank in range(m)]
    ln_p = lgamma(m / 2) - lgamma(len(ranks) + m / 2) + sum(lgamma(n + 0.5) - lgamma(0.5) for n in counts)
    return -ln_p / log(2)


@given(st.lists(st.integers(0, GUESSES), max_size=60))
def test_the_bits_of_a_game_are_those_of_one_code_for_all_its_ranks(ranks: list[int]) -> None:
    bits = sum(guess_bits(rank, 1, ranks[:at]) for at, rank in enumerate(ranks))
    assert isclose(bits, krichevsky_trofimov(ranks) + 8 * ranks.count(0), abs_tol=1e-9)


@given(st.lists(st.integers(0, GUESSES), max_size=40))
def test_the_code_can_be_decoded(earlier: list[int]) -> None:
    """Kraft's inequality, with every byte that the user may fail to guess."""
    assert isclose(sum(guess_probability(rank, earlier) for rank in range(GUESSES + 1)), 1)
    words = [guess_bits(rank, 1, earlier) for rank in range(1, GUESSES + 1)] + [guess_bits(0, 1, earlier)] * 256
    assert sum(2**-bits for bits in words) <= 1 + 1e-12


def test_who_always_knows_needs_fewer_and_fewer_bits() -> None:
    costs = [guess_bits(1, 1, [1] * n) for n in range(100)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == pytest.approx(log2(GUESSES + 1))
    assert costs[-1] < 0.05


def played(text: str, sizes: list[int], model_bits: list[float], keys: str) -> GuessingGame:
    found = stretches(text, sizes)
    game = GuessingGame(found, [sum(model_bits[one.first : one.end]) for one in found])
    for key in keys:
        game.guess(key)
    return game


def test_a_game_counts_the_guess_that_was_right() -> None:
    game = played("cat", [1, 1, 1], [1.0, 2.0, 3.0], "xc" + "a" + "wrong")  # five wrong guesses: t is shown
    assert game.ranks == [2, 1, 0]
    assert game.over
    assert game.text == "cat"
    assert game.model == pytest.approx(2.0)
    by_hand = -log2(1 / 6) - log2(0.5 / 4) - log2(0.5 / 5) + 8
    assert game.person == pytest.approx(by_hand / 3)


def test_the_same_wrong_guess_twice_counts_once() -> None:
    game = played("cat", [1, 1, 1], [1.0] * 3, "xxxxxxxc")
    assert game.ranks == [2]


def test_both_are_counted_over_the_same_bytes() -> None:
    """Tokens of several characters, and a character of several tokens: only what is whole for both counts."""
    sizes, bits = [3, 1, 1, 1], [4.0, 1.0, 2.5, 0.5]  # the, space, two bytes of é
    game = played("the é", sizes, bits, "th")
    assert (game.size, game.model_total, game.person_total, game.text) == (0, 0, 0, "th")
    game.guess("e")
    assert (game.size, game.model_total) == (3, 4.0)
    assert game.person_total == pytest.approx(sum(game.bits))
    game.guess(" ")
    assert game.size == 4
    game.give_up()
    assert (game.size, game.model_total) == (6, 8.0)
    assert game.last == ("é", pytest.approx(guess_bits(0, 2, [1] * 4)), 3.0)


@given(st.text(min_size=1, max_size=12), st.lists(st.integers(1, 4), max_size=20))
def test_stretches_are_the_text_in_whole_tokens(text: str, cuts: list[int]) -> None:
    text = text.encode(errors="ignore").decode()
    data, sizes = len(text.encode()), []
    for size in cuts:
        if sum(sizes) + size <= data:
            sizes.append(size)
    found = stretches(text, sizes)
    assert text.startswith("".join(one.text for one in found))
    assert all(sum(sizes[one.first : one.end]) == one.size for one in found)
    assert [one.first for one in found] == [0, *(one.end for one in found)][: len(found)]


def test_the_explanation_has_the_numbers_of_the_game() -> None:
    game = played("cat", [1, 1, 1], [1.0, 2.0, 3.0], "xca")
    said = why_guessing(game)
    assert said.result == game.person
    steps = {step.name: step.result for step in (*said.steps, *said.meaning)}
    assert steps["p(1)"] == pytest.approx(0.5 / 4)
    assert (steps["you"], steps["model"]) == (game.person, game.model)
    assert why_guessing(played("cat", [3], [inf], "c")).result == pytest.approx(log2(GUESSES + 1))
