"""95 % intervals: exact ones of a share and of the expected score of games that may be drawn, and one of a mean.

    share        [a, b] with P(X ≥ k | a) = P(X ≤ k | b) = .025, X ~ Bin(n, ·)            Clopper and Pearson 1934
    score        s = ½ + D (q − ½),  q = P(won | decided),  D = P(decided): the ends of the intervals of q and D that
                 put s furthest out. It lies on one side of ½ exactly if the sign test of the decided games has p < .05.
    difference   400 log₁₀(s / (1 − s)), which is infinite for s = 0 and 1                MATH H6
    mean         of n values between a and b: Student's, with two more values added at each end of that range

Notable: normal approximations (1.96 standard errors) cover far less than 95 % for few or one-sided results, where the
estimated error tends to 0. The exact intervals cover at least 95 % for every n, are never of width 0, and are wider for
fewer results with the same shares; that of a mean covers 94 % or more, where Student's own, for values most of which
are equal, covers 2 % to 90 %. tests/engine/test_intervals.py simulates it.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, log10

LEVEL = 0.95


def share_interval(k: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a probability after k of n; (0, 1) if n is 0. Clopper and Pearson 1934.

    >>> [round(end, 4) for end in share_interval(20, 20)]
    [0.8316, 1.0]
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is not a share")
    tail = (1 - level) / 2
    low = 0.0 if k == 0 else beta_quantile(tail, k, n - k + 1)
    high = 1.0 if k == n else 1 - beta_quantile(tail, n - k, k + 1)
    return low, high


def score_interval(won: int, drawn: int, lost: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of the expected score, a draw counting ½. Without draws it is that of the share won.

    >>> [round(end, 3) for end in score_interval(1, 0, 0)], [round(end, 3) for end in score_interval(0, 10, 0)]
    ([0.025, 1.0], [0.346, 0.654])
    """
    decided, games = won + lost, won + drawn + lost
    low, high = share_interval(won, decided, level)
    fewest, most = share_interval(decided, games, level)
    if not drawn:
        fewest = 1.0  # no draws as far as is known; an undetected rate of draws moves s by less than 1/n
    return (
        0.5 + (low - 0.5) * (most if low < 0.5 else fewest),
        0.5 + (high - 0.5) * (most if high > 0.5 else fewest),
    )


def rating_difference(score: float) -> float:
    """400 log₁₀(s / (1 − s)).

    >>> rating_difference(0.5), round(rating_difference(10 / 11)), rating_difference(1.0)
    (0.0, 400, inf)
    """
    if score <= 0 or score >= 1:
        return -inf if score <= 0 else inf
    return 400 * log10(score / (1 - score))


def difference_interval(won: int, drawn: int, lost: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of R − R′ in points of Elo's scale; an end is infinite where the results set no bound.

    >>> [round(end) for end in difference_interval(30, 0, 10)], difference_interval(0, 0, 0)
    ([62, 335], (-inf, inf))
    """
    low, high = score_interval(won, drawn, lost, level)
    return rating_difference(low), rating_difference(high)


def covered_by_standard_error(n: int) -> float:
    """How often mean ± s/√n of n ≥ 2 normal values contains the true mean: P(|T| ≤ 1), T of Student's t with n − 1
    degrees of freedom (Student 1908). Two times in three holds for many values only.

    >>> [round(covered_by_standard_error(n), 2) for n in (2, 3, 5, 30, 1000)]
    [0.5, 0.58, 0.63, 0.67, 0.68]
    """
    return 1 - incomplete_beta((n - 1) / n, (n - 1) / 2, 0.5)


def student_quantile(n: int, level: float = LEVEL) -> float:
    """t for which mean ± t s/√n of n ≥ 2 normal values contains the true mean in `level` of all cases.

    >>> round(student_quantile(5), 3), round(student_quantile(2), 2)
    (2.776, 12.71)
    """
    x = beta_quantile(1 - level, (n - 1) / 2, 0.5)  # P(|T| > t) = I_x((n − 1)/2, ½),  x = (n − 1) / (n − 1 + t²)
    t: float = ((n - 1) * (1 / x - 1)) ** 0.5
    return t


def mean_interval(mean: float, deviation: float, n: int, least: float, most: float) -> tuple[float, float]:
    """The 95 % interval of the expectation of n ≥ 1 values in [least, most] that have this mean and deviation.

        m = (n mean + least + most) / (n + 2)
        s² = (Σ (xᵢ − m)² + 2 (least − m)² + 2 (most − m)²) / (n + 1)
        m ∓ t s / √(n + 2),  t of n + 1 degrees of freedom, no further than least and most

    deviation  √(Σ (xᵢ − mean)² / n). The imaginary values at the ends do for any values what those of Agresti and
               Coull 1998 do for a share: values that happen to be equal do not make the interval one of width 0.

    >>> [round(end, 3) for end in mean_interval(0.0, 0.0, 200, -3, 3)], mean_interval(3.0, 0.0, 1, -3, 3)
    ([-0.059, 0.059], (-3, 3))
    """
    middle, error = with_ends(mean, deviation, n, least, most)
    half = student_quantile(n + 2) * error
    return max(least, middle - half), min(most, middle + half)


def with_ends(mean: float, deviation: float, n: int, least: float, most: float) -> tuple[float, float]:
    """m and s / √(n + 2) of `mean_interval`."""
    middle = (n * mean + least + most) / (n + 2)
    squares = n * (deviation**2 + (mean - middle) ** 2) + 2 * (least - middle) ** 2 + 2 * (most - middle) ** 2
    return middle, (squares / ((n + 1) * (n + 2))) ** 0.5


def probability_above(mean: float, deviation: float, n: int, least: float, most: float, bound: float = 0.0) -> float:
    """The probability that the expectation of n values is above `bound`, by the model of `mean_interval`: Student's
    distribution of n + 1 degrees of freedom about m. It is above .975 exactly if that interval is above the bound.

    >>> probability_above(0.0, 1.0, 10, -3, 3), round(probability_above(1.0, 1.0, 10, -3, 3), 3)
    (0.5, 0.901)
    """
    middle, error = with_ends(mean, deviation, n, least, most)
    if error == 0:  # all values are equal, and are the only possible one
        return 0.5 if middle == bound else float(middle > bound)
    t = (middle - bound) / error
    tail = incomplete_beta((n + 1) / (n + 1 + t * t), (n + 1) / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail


# The beta distribution


@lru_cache(maxsize=4096)
def beta_quantile(p: float, a: float, b: float) -> float:
    """x with I_x(a, b) = p, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if incomplete_beta(middle, a, b) < p else (low, middle)
    return (low + high) / 2


def incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b), the distribution function of Beta(a, b), by its continued fraction. DLMF 8.17.22."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly: I_x(a, b) = 1 − I_{1 − x}(b, a)
        return 1 - incomplete_beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)  # Lentz 1976
    d = 1 / (d or tiny)
    fraction = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction
