"""Jack's car rental: two places with random rentals and returns, and cars moved between them overnight.

Notable: the two places are independent, so the distribution of each is computed alone and the joint one is their outer
product. The counts are not truncated: the probability of all counts above 20 cars is summed exactly.
"""

from __future__ import annotations

from math import exp, factorial

import numpy as np

from txlab.engine.rl.process import Process, check
from txlab.engine.rl.world import Layout, NamedWorld, World

MOST_CARS = 20
MOST_MOVED = 5
ASKED = (3.0, 4.0)
RETURNED = (3.0, 2.0)
RENT, MOVING = 10.0, 2.0


def poisson(mean: float, count: int) -> np.ndarray:
    """(count + 1): P(0) … P(count − 1), and P(count or more)."""
    probabilities = np.array([exp(-mean) * mean**n / factorial(n) for n in range(count)])
    return np.append(probabilities, 1 - probabilities.sum())


def day(asked: float, returned: float) -> tuple[np.ndarray, np.ndarray]:
    """(21, 21) P(cars in the evening | in the morning) and (21) the expected number that are rented out.

    A returned car can be rented from the next day on.
    """
    law = np.zeros((MOST_CARS + 1, MOST_CARS + 1))
    rented = np.zeros(MOST_CARS + 1)
    for cars in range(MOST_CARS + 1):
        out = poisson(asked, cars)  # requests are turned away when no car is left
        rented[cars] = out @ np.arange(cars + 1)
        for gone, p in enumerate(out):
            left = cars - gone
            law[cars, left:] += p * poisson(returned, MOST_CARS - left)
    return law, rented


def car_rental() -> World:
    """(n₁, n₂) cars in the evening; up to 5 are moved overnight at 2 each; every car rented earns 10; γ = .9.

    Action a from −5 to 5 moves a cars from the first place to the second. Rewards are expectations for each pair, which
    leaves every value unchanged. It never ends; an episode begins with 10 and 10 cars and is cut off after 100 days.
    """
    n = MOST_CARS + 1
    (law1, rent1), (law2, rent2) = (day(a, r) for a, r in zip(ASKED, RETURNED, strict=True))
    moves = range(-MOST_MOVED, MOST_MOVED + 1)
    counts, probability, reward = [], [], []
    for first in range(n):
        for second in range(n):
            for moved in moves:
                if not -second <= moved <= first:
                    counts.append(0)
                    continue
                one, two = min(first - moved, MOST_CARS), min(second + moved, MOST_CARS)
                counts.append(n * n)
                probability.append(np.outer(law1[one], law2[two]).ravel())
                reward.append(RENT * (rent1[one] + rent2[two]) - MOVING * abs(moved))
    pairs = len(probability)
    start = np.zeros(n * n)
    start[10 * n + 10] = 1.0
    process = Process(
        actions=tuple(f"{moved:+d}" if moved else "0" for moved in moves),
        states=tuple(f"({first},{second})" for first in range(n) for second in range(n)),
        first=np.concatenate([[0], np.cumsum(counts)]),
        next=np.tile(np.arange(n * n), pairs),
        probability=np.concatenate(probability),
        reward=np.repeat(reward, n * n),
        done=np.zeros(pairs * n * n, dtype=bool),
        start=start,
        discount=0.9,
        limit=100,
    )
    check(process)
    # The second place's cars go to the right and the first place's upwards, as in the book's figure.
    places = np.array([[0, MOST_CARS - first, second] for first in range(n) for second in range(n)])
    notes = ("Nothing ends an episode here: it is cut off after 100 days.",)
    return World("car-rental", "", process, Layout(n, n, places), notes=notes)


WORLD = NamedWorld("car-rental", "Jack's car rental", "Sutton and Barto 2018, example 4.2, figure 4.2", car_rental)
