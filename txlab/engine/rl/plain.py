"""The rules to read first: SARSA, Expected SARSA, Q-learning, SARSA(λ), Watkins' Q(λ) with dictionaries (MATH M5, M6).

Slow, and shares only the draws and the process with the fast learners. The tests compare the
fast forms with it, bit for bit. An action is chosen with draws 0 and 1 of its step, the outcome with draw 2, the next
start with draw 3.
"""

from __future__ import annotations

from collections.abc import Callable

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.process import Process

Table = dict[tuple[int, int], float]


class Plain:
    """A learner: `act` chooses ε-greedily from `value`, `happen` samples an outcome, `live` is the loop."""

    def __init__(self, process: Process, seed: int, alpha: float, epsilon: float) -> None:
        self.process, self.seed, self.alpha, self.epsilon, self.gamma = process, seed, alpha, epsilon, process.discount
        self.q: Table = {(s, a): 0.0 for s in range(process.size) for a in self.actions(s)}
        self.returns: list[float] = []
        self.value: Callable[[int, int], float] = lambda s, a: self.q[s, a]

    def actions(self, s: int) -> list[int]:
        return [a for a in range(self.process.choices) if self.process.allowed[s, a]]

    def draw(self, t: int) -> list[float]:
        draws: list[float] = uniforms(self.seed, t, 1)[0, 0].tolist()
        return draws

    def act(self, s: int, t: int) -> int:
        u, actions = self.draw(t), self.actions(s)
        if u[0] < self.epsilon:
            return actions[int(u[1] * len(actions))]
        best = [a for a in actions if self.value(s, a) == max(self.value(s, b) for b in actions)]
        return best[int(u[1] * len(best))]

    def happen(self, s: int, a: int, t: int) -> tuple[float, int, bool]:
        u, below = self.draw(t)[2], 0.0
        outcomes = self.process.outcomes(s, a)
        for each in outcomes:
            below += each.probability
            if u < below:
                return each.reward, each.next, each.done
        return outcomes[-1].reward, outcomes[-1].next, outcomes[-1].done

    def begin(self, t: int) -> int:
        """The first state of the episode that follows step t − 1."""
        u, below = self.draw(t - 1)[3], 0.0
        for s, p in enumerate(self.process.start.tolist()):
            below += p
            if u < below:
                return s
        raise AssertionError("the start has no probability")

    def top(self, s: int) -> float:
        return max(self.q[s, a] for a in self.actions(s))

    def live(self, rule: str, steps: int, lam: float = 0.0, replacing: bool = False) -> None:
        s, total, began = self.begin(0), 0.0, 0
        a: int | None = None
        e: Table = {}
        for t in range(steps):
            ahead = rule in ("sarsa", "sarsa-lambda", "watkins-q-lambda")
            if a is None or not ahead:
                a = self.act(s, t)
            r, then, done = self.happen(s, a, t)
            cut = self.process.limit > 0 and t - began + 1 == self.process.limit
            b = self.act(then, t + 1) if ahead and not done else None
            value = 0.0
            if not done:
                match rule:
                    case "sarsa" | "sarsa-lambda":
                        assert b is not None
                        value = self.q[then, b]
                    case "expected-sarsa":
                        values = [self.q[then, c] for c in self.actions(then)]
                        value = (1 - self.epsilon) * max(values) + self.epsilon * (sum(values) / len(values))
                    case _:
                        value = self.top(then)
            delta = r + self.gamma * value - self.q[s, a]
            if rule.endswith("lambda"):
                e[s, a] = 1.0 if replacing else e.get((s, a), 0.0) + 1.0
                greedy = b is None or self.q[then, b] == self.top(then)
                share = self.alpha * delta
                fade = self.gamma * (lam if rule == "sarsa-lambda" or greedy else 0.0)
                for pair in e:
                    self.q[pair] += share * e[pair]
                    e[pair] *= fade
            else:
                self.q[s, a] += self.alpha * delta
            total += r
            s, a = then, b
            if done or cut:
                self.returns.append(total)
                s, a, total, began, e = self.begin(t + 1), None, 0.0, t + 1, {}
