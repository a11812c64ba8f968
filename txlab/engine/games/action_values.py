"""Q-learning and SARSA on moves, by self-play (MATH G1, M5, M6; Sutton and Barto 2018, sections 6.4 and 6.5).

    Q-learning   Q(s, a) ← Q(s, a) + α (best Q(s′, ·) − Q(s, a)),   best: the highest where the first player moves in
                 s′, the lowest where the second does
    SARSA        Q(s, a) ← Q(s, a) + α (Q(s′, a′) − Q(s, a)),       a′: the move that was made there
    both         Q(s, a) ← Q(s, a) + α (r − Q(s, a)),               where the game ended in s′

Notable: γ = 1, and Q is told from the first player's view for the moves of both. A move at random teaches as any other
does: Q-learning is off-policy by its target, SARSA learns what moves are worth to somebody who slips with ε.
"""

from __future__ import annotations

from txlab.engine.games.learner import Learner


class ActionValues(Learner):
    """`table` is Q (E). A record is (ply, game, s, s′, α, r or what Q(s, a) was drawn to, δ, a′ or −1, Q before)."""

    pending: int  # the move whose update waits for the next one: its number, or −1

    def begin(self) -> list[float]:
        self.pending = -1
        return [self.settings.initial] * len(self.graph.move)

    def advance(self, plies: int, games: int) -> None:
        if self.settings.rule == "sarsa":
            self.sarsa(plies, games)
        else:
            self.q_learning(plies, games)

    def q_learning(self, plies: int, games: int) -> None:
        settings, Q, records = self.settings, self.table, self.records
        after, mover, outcome, results = self.after, self.mover, self.outcome, self.results
        first = self.graph.first.tolist()
        alpha = settings.alpha
        s, t, game = self.position, self.plies, self.games
        epsilon, last = settings.epsilon_of(game), game + games
        values = Q[first[s] : first[s + 1]]
        best = max(values) if mover[s] > 0 else min(values)
        for explore, which in self.draws(plies, games):
            if explore < epsilon:
                a = int(which * len(values))
            else:
                ties = values.count(best)
                if ties == 1:
                    a = values.index(best)
                else:
                    a = [place for place, value in enumerate(values) if value == best][int(which * ties)]
            to, cell = after[s][a], first[s] + a
            t += 1
            ended = not after[to]
            if ended:
                target = outcome[to]
            else:
                values = Q[first[to] : first[to + 1]]
                target = best = max(values) if mover[to] > 0 else min(values)
            before = Q[cell]
            delta = target - before
            Q[cell] = before + alpha * delta
            records[cell] = (t, game, s, to, alpha, target, delta, -1.0, before)
            s = to
            if ended:
                results[int(outcome[to])] += 1
                game += 1
                s = 0
                values = Q[first[0] : first[1]]
                best = max(values) if mover[0] > 0 else min(values)
                epsilon = settings.epsilon_of(game)
                if game == last:
                    break
        self.position, self.plies, self.games = s, t, game

    def sarsa(self, plies: int, games: int) -> None:
        settings, Q, records = self.settings, self.table, self.records
        after, mover, outcome, results = self.after, self.mover, self.outcome, self.results
        first, earlier = self.graph.first.tolist(), self.graph.before
        alpha = settings.alpha
        s, t, game, pending = self.position, self.plies, self.games, self.pending
        left = int(earlier[pending]) if pending >= 0 else -1  # the position in which the pending move was made
        epsilon, last = settings.epsilon_of(game), game + games
        for explore, which in self.draws(plies, games):
            values = Q[first[s] : first[s + 1]]
            if explore < epsilon:
                a = int(which * len(values))
            else:
                best = max(values) if mover[s] > 0 else min(values)
                ties = values.count(best)
                if ties == 1:
                    a = values.index(best)
                else:
                    a = [place for place, value in enumerate(values) if value == best][int(which * ties)]
            to, cell = after[s][a], first[s] + a
            t += 1
            if pending >= 0:
                before, target = Q[pending], values[a]
                delta = target - before
                Q[pending] = before + alpha * delta
                records[pending] = (t, game, left, s, alpha, target, delta, a, before)
            if after[to]:
                left, pending, s = s, cell, to
            else:
                before = values[a]
                delta = outcome[to] - before
                Q[cell] = before + alpha * delta
                records[cell] = (t, game, s, to, alpha, outcome[to], delta, -1.0, before)
                results[int(outcome[to])] += 1
                game += 1
                s, pending = 0, -1
                epsilon = settings.epsilon_of(game)
                if game == last:
                    break
        self.position, self.plies, self.games, self.pending = s, t, game, pending

    def unfinished(self) -> list[int]:
        return [self.pending]

    def resume(self, kept: list[int]) -> None:
        self.pending = kept[0]
