"""TD(0) and TD(λ) on after-states, by self-play (MATH G1; Sutton and Barto 2018, sections 1.5, 6.8 and 12.2).

    δ = V(s′) − V(s), where the game ended in s′: δ = r − V(s);    V(x) ← V(x) + α δ e(x) for every x of this game

with e(s) = 1 for the position just left and λ times as much for each one before it; λ = 0 is TD(0), V(s) alone.

Notable: a position never comes back within a game, so the traces are no table but the way that the game took. The way
is forgotten at each new game and, where exploring moves teach nothing, at each of those as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from txlab.engine.games.learner import Learner


def picker(cells: list[int]) -> Callable[[list[float]], Sequence[float]]:
    """What takes the values of these cells out of a table, in one call where a loop would make one for each."""
    if len(cells) > 1:
        return itemgetter(*cells)
    return itemgetter(slice(cells[0], cells[0] + 1) if cells else slice(0))


class AfterStates(Learner):
    """`table` is V (N). A record is (ply, game, s, s′, α, r or V(s′), δ, e, V before)."""

    way: list[int]

    def begin(self) -> list[float]:
        self.way = []
        self.picked = [picker(each) for each in self.after]
        return [self.outcome[n] if not self.after[n] else self.settings.initial for n in range(self.graph.size)]

    def advance(self, plies: int, games: int) -> None:
        settings, V, records = self.settings, self.table, self.records
        after, mover, outcome, results = self.after, self.mover, self.outcome, self.results
        alpha, all_teach = settings.alpha, settings.exploring
        lam = settings.lam if settings.rule == "td-lambda" else 0.0
        picked = self.picked
        s, way, t, game = self.position, self.way, self.plies, self.games
        epsilon, last = settings.epsilon_of(game), game + games
        for explore, which in self.draws(plies, games):
            follow = after[s]
            greedy = explore >= epsilon
            if greedy:
                values = picked[s](V)
                best = max(values) if mover[s] > 0 else min(values)
                ties = values.count(best)
                if ties == 1:
                    to = follow[values.index(best)]
                else:
                    to = [n for n, value in zip(follow, values, strict=True) if value == best][int(which * ties)]
            else:
                to = follow[int(which * len(follow))]
            t += 1
            if greedy or all_teach:
                before = V[s]
                delta = V[to] - before
                V[s] = before + alpha * delta
                records[s] = (t, game, s, to, alpha, V[to], delta, 1.0, before)
                if lam:
                    e = lam
                    for x in reversed(way):
                        before = V[x]
                        V[x] = before + alpha * delta * e
                        records[x] = (t, game, s, to, alpha, V[to], delta, e, before)
                        e *= lam
                    way.append(s)
            elif lam:
                way.clear()
            if after[to]:
                s = to
            else:
                results[int(outcome[to])] += 1
                game += 1
                s = 0
                way.clear()
                epsilon = settings.epsilon_of(game)
                if game == last:
                    break
        self.position, self.plies, self.games = s, t, game

    def unfinished(self) -> list[int]:
        return list(self.way)

    def resume(self, kept: list[int]) -> None:
        self.way = kept
