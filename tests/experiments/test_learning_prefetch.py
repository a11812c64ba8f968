"""Batches made ahead are the batches of their steps (MATH F3)."""

from __future__ import annotations

from txlab.experiments.learning.prefetch import AT_ONCE, LARGEST, Ahead


def test_every_step_gets_its_batch_in_whatever_order_it_is_asked_for() -> None:
    made: list[int] = []

    def make(step: int) -> str:
        made.append(step)
        return f"batch {step}"

    ahead = Ahead(make, 12 * 64)
    for step in [*range(40), 3, 4, 39, 100, 101, 0]:
        assert ahead(step) == f"batch {step}"
    assert made[:AT_ONCE] == list(range(AT_ONCE))  # together
    assert made[: 3 * AT_ONCE] == list(range(3 * AT_ONCE))  # and none twice while steps follow one another


def test_large_batches_are_made_one_by_one() -> None:
    made: list[int] = []
    ahead = Ahead(made.append, LARGEST)
    ahead(0)
    ahead(1)
    assert made == [0, 1]


def test_what_is_kept_is_bounded() -> None:
    ahead = Ahead(lambda step: step, 1)
    for step in range(0, 1000, 7):
        ahead(step)
        assert len(ahead.made) < AT_ONCE
