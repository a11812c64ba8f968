"""Ratings from results: one number a player, from which follows how often it beats any other (MATH G1, H6).

    P(i beats j) = 1 / (1 + 10^((Rⱼ − Rᵢ)/400)), a draw counting as half a win

Notable: the ratings are those of the greatest likelihood (Bradley and Terry 1952; Zermelo 1929), and not Elo's running
ones (Elo 1978), which depend on the order of the games. Draws make results less uncertain than wins and losses that
sum to the same, so the errors come from the results' own spread (the sandwich, White 1982), not from the model's. One
drawn game of every player against an average one is added: a player that never lost a point would have no rating else.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from txlab.errors import LabError

SCALE = 400 / log(10)  # points of rating for a factor e in the odds
ROUNDS = 200


@dataclass(frozen=True)
class Ratings:
    """rating      (P) float64, their mean being `centre`
    error       (P) float64, standard error of each, beside the mean of all
    covariance  (P, P) float64 of the ratings
    """

    rating: np.ndarray
    error: np.ndarray
    covariance: np.ndarray

    def difference(self, i: int, j: int) -> tuple[float, float]:
        """(Rᵢ − Rⱼ, its standard error)."""
        variance = self.covariance[i, i] + self.covariance[j, j] - 2 * self.covariance[i, j]
        return float(self.rating[i] - self.rating[j]), float(np.sqrt(max(variance, 0.0)))


def ratings(won: np.ndarray, drawn: np.ndarray, centre: float = 1500.0, prior: float = 1.0) -> Ratings:
    """Bradley–Terry ratings of greatest likelihood, by Newton's method.

        log L = Σᵢⱼ (wonᵢⱼ + ½ drawnᵢⱼ) log σ(θᵢ − θⱼ) + ½ prior Σᵢ (log σ(θᵢ) + log σ(−θᵢ))
        R = centre + 400 θ / ln 10

    won    (P, P): how often i beat j         drawn  (P, P), symmetric: how often they drew; the diagonals are not read
    prior  drawn games of every player against an average one; 0 = none: LabError where somebody then has no rating
    """
    won, drawn = np.array(won, dtype=np.float64), np.array(drawn, dtype=np.float64)
    P = len(won)
    np.fill_diagonal(won, 0.0)
    np.fill_diagonal(drawn, 0.0)
    games = won + won.T + drawn  # (P, P)
    score = (won + 0.5 * drawn).sum(axis=1)
    if prior == 0 and ((score == 0) | (score == games.sum(axis=1))).any():
        raise LabError("a player that won or lost every game has no rating of greatest likelihood; give a prior")
    theta = np.zeros(P)
    for _ in range(ROUNDS):
        expected = sigmoid(theta[:, None] - theta[None, :])
        average = sigmoid(theta)
        slope = score - (games * expected).sum(axis=1) + prior * (0.5 - average)
        bend = curvature(games * expected * (1 - expected), prior * average * (1 - average))
        # without a prior only differences are determined: the smallest of the steps that agree
        step = np.linalg.lstsq(bend, slope, rcond=1e-12)[0]
        theta += step / max(1.0, float(np.abs(step).max()))  # at most e in the odds at once: Newton may overshoot
        if np.abs(step).max() < 1e-12:
            break
    expected = sigmoid(theta[:, None] - theta[None, :])
    average = sigmoid(theta)
    bend = curvature(games * expected * (1 - expected), prior * average * (1 - average))
    # Σ over the games of (result − expected)², once for each pair
    spread = won * (1 - expected) ** 2 + won.T * expected**2 + drawn * (0.5 - expected) ** 2
    inverse = np.linalg.pinv(bend, rcond=1e-12, hermitian=True)
    beside = np.eye(P) - 1 / P
    covariance = SCALE**2 * beside @ inverse @ curvature(spread, np.zeros(P)) @ inverse @ beside
    rating = centre + SCALE * (theta - theta.mean())
    return Ratings(rating, np.sqrt(np.maximum(np.diag(covariance), 0.0)), covariance)


def sigmoid(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / (1 + np.exp(-x))
    return found


def curvature(pairs: np.ndarray, own: np.ndarray) -> np.ndarray:
    """(P, P): Σ over pairs of their weight times (eᵢ − eⱼ)(eᵢ − eⱼ)ᵀ, and `own` on the diagonal."""
    found: np.ndarray = np.diag(pairs.sum(axis=1) + own) - pairs
    return found
