"""Blackjack against a dealer who draws to 17, with an endless deck; 1 for a win, 0 for a draw, −1 for a loss.

Notable: below 12 another card can only help, so the states begin at 12, as in the book: the player's sum, the card that
the dealer shows, and whether an ace counts as 11. A natural (an ace and a ten, dealt) is a separate state, because it
wins against all but a natural. The numbers are those of Gymnasium's Blackjack-v1 with its default rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import numpy as np

from txlab.engine.rl.process import Outcome, compile_process
from txlab.engine.rl.world import Layout, NamedWorld, Option, World

CARDS = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}
SUMS, SHOWN = range(12, 22), range(1, 11)
BUST = 22  # any sum above 21
Hand = tuple[int, bool]
"""(sum, whether an ace counts as 11)"""


def with_card(hand: Hand, card: int) -> Hand:
    """Add a card; an ace counts as 11 unless that would be a bust.

    >>> with_card((12, False), 1), with_card((18, True), 7), with_card((10, False), 1)
    ((13, False), (15, False), (21, True))
    """
    total, soft = hand[0] + card, hand[1]
    if card == 1 and total + 10 <= 21:
        total, soft = total + 10, True
    elif total > 21 and soft:
        total, soft = total - 10, False
    return min(total, BUST), soft


def draw_to(hand: Hand, least: int) -> dict[Hand, float]:
    """{hand: probability} when cards are drawn until the sum is `least` or more."""
    if hand[0] >= least:
        return {hand: 1.0}
    hands: dict[Hand, float] = defaultdict(float)
    for card, p in CARDS.items():
        for end, q in draw_to(with_card(hand, card), least).items():
            hands[end] += p * q
    return hands


@cache
def dealer(shown: int) -> Mapping[int, float]:
    """{sum: probability} of the dealer, 22 for a bust."""
    totals: dict[int, float] = defaultdict(float)
    for (total, _), p in draw_to(with_card((0, False), shown), 17).items():
        totals[total] += p
    return totals


def outcomes_of(state: int, wins: float, draws: float) -> list[Outcome]:
    """The end of the game; the next state is arbitrary because nothing follows."""
    all_three = ((wins, 1.0), (draws, 0.0), (1.0 - wins - draws, -1.0))
    return [Outcome(p, state, reward, True) for p, reward in all_three if p > 1e-15]


def blackjack(exploring: bool) -> World:
    """Actions stick and hit; 100 states with an ace that counts as 11, 100 without, 10 with a natural; γ = 1."""
    hands = [(total, soft, shown) for soft in (True, False) for total in SUMS for shown in SHOWN]
    number = {hand: s for s, hand in enumerate(hands)}
    outcomes: dict[tuple[int, int], list[Outcome]] = {}

    def hit(s: int, total: int, soft: bool, shown: int) -> list[Outcome]:
        after: dict[Hand, float] = defaultdict(float)
        for card, p in CARDS.items():
            after[with_card((total, soft), card)] += p
        lost = sum(p for (sum_, _), p in after.items() if sum_ == BUST)
        going = [Outcome(p, number[sum_, ace, shown], 0.0) for (sum_, ace), p in after.items() if sum_ < BUST]
        return [*going, *([Outcome(lost, s, -1.0, True)] if lost else [])]

    for (total, soft, shown), s in number.items():
        law = dealer(shown)
        wins = sum(p for against, p in law.items() if against < total or against == BUST)
        outcomes[s, 0] = outcomes_of(s, wins, law.get(total, 0.0))
        outcomes[s, 1] = hit(s, total, soft, shown)
    naturals = {shown: len(hands) + shown - 1 for shown in SHOWN}
    for shown, s in naturals.items():
        both = {1: CARDS[10], 10: CARDS[1]}.get(shown, 0.0)
        outcomes[s, 0] = outcomes_of(s, 1.0 - both, both)
        outcomes[s, 1] = hit(s, 21, True, shown)

    start = np.zeros(len(hands) + len(naturals))
    if exploring:
        start[: len(hands)] = 1 / len(hands)
    else:
        for shown, q in CARDS.items():
            for one, p in CARDS.items():
                for two, r in CARDS.items():
                    dealt = with_card(with_card((0, False), one), two)
                    if dealt == (21, True):
                        start[naturals[shown]] += p * q * r
                        continue
                    for (total, soft), more in draw_to(dealt, SUMS[0]).items():
                        start[number[total, soft, shown]] += p * q * r * more
    signs = {shown: "A" if shown == 1 else str(shown) for shown in SHOWN}
    names = [f"{'soft ' if soft else ''}{total} v {signs[shown]}" for total, soft, shown in hands]
    names += [f"natural v {signs[shown]}" for shown in SHOWN]
    # One row per sum, 21 at the top, below a row of naturals; the labels are on the left and on top.
    place = [[int(not soft), SUMS[-1] - total + 2, shown] for total, soft, shown in hands]
    place += [[0, 1, shown] for shown in SHOWN]
    marks = {(0, shown): sign for shown, sign in signs.items()} | {(1, 0): "nat"}
    marks |= {(SUMS[-1] - total + 2, 0): str(total) for total in SUMS}
    layers = ("an ace that counts as 11", "no ace that counts as 11")
    process = compile_process(["stick", "hit"], names, outcomes, start / start.sum())
    layout = Layout(len(SUMS) + 2, len(SHOWN) + 1, np.array(place), layers, marks)
    note = "Rows are the player's sum, or a natural; columns the card that the dealer shows."
    return World("blackjack", "", process, layout, notes=(note,))


WORLD = NamedWorld(
    "blackjack",
    "Blackjack",
    "Sutton and Barto 2018, examples 5.1 to 5.3; Gymnasium Blackjack-v1",
    blackjack,
    {"exploring": Option(False, "whether an episode begins in any of the 200 states, with equal probability")},
)
