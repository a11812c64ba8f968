"""Examples of chapter G: games. A small one is solved exactly; of backgammon and Connect Four, one step of learning and
one choice of the search, in miniature."""

from __future__ import annotations

from operator import sub

import numpy as np
import torch
from torch import nn

from txlab.engine.explain import Explaining, Explanation, number
from txlab.engine.games import perfect_play, tictactoe
from txlab.engine.games.connect_four.search import selection
from txlab.engine.games.game import FIRST
from txlab.engine.games.learner import SelfPlaySettings, make_learner
from txlab.engine.rl.network import NetworkTD
from txlab.engine.rl.update import change_step
from txlab.experiments.formulas.example import Example, Input

Row = list[float]


def position_value(position: str, guess: float, alpha: float) -> Explanation:
    """V of a position, by `solve_game`, and what a learner makes of it in one move, by `SelfPlayLearner`."""
    solution = perfect_play.solve_game(tictactoe)
    graph, at = solution.graph, tictactoe.read(position)
    n = graph.number_of(at)
    if graph.ended[n]:
        return perfect_play.explain(solution, at)
    learner = make_learner(graph, SelfPlaySettings(alpha=alpha, epsilon=0.0, initial=guess), seed=0)
    moves = graph.moves(n)
    seen = [learner.table[to] for _, to in moves]
    learner.position = n
    learner.step()
    choice, other, sign = ("max", "min", "X") if graph.mover[n] == FIRST else ("min", "max", "O")
    why = Explaining("what does the learner think of this position after one move?", learner.table[n])
    why.equation(
        f"V(s) = {choice}ₐ V(s·a), for {sign} is to move;  learner: V̂(s) ← V̂(s) + α [V̂(s′) − V̂(s)]",
        "G1",
        "exhaustive search; Sutton and Barto 2018, section 1.5",
    )
    why.input("s", tictactoe.text(at), f"{sign} is to move; X wins +1, O wins −1")
    why.input("V̂", guess, "the learner's first guess, of every position in which the game is not over")
    why.input("α", alpha, "step size")
    exact = [int(solution.value[to]) for _, to in moves]
    for (move, to), value in zip(moves, exact, strict=True):
        replies = [number(int(solution.value[reply])) for _, reply in graph.moves(to)]
        form = f"{other}({', '.join(replies)})" if replies else "the game has ended"
        why.step(f"V(s·{tictactoe.MOVES[move]})", form, value)
    why.step("V(s)", f"{choice} of these", int(solution.value[n]), perfect_play.verdict(solution, at))
    why.step("V̂(s·a)", "as the learner knows them", seen, "the rules say how a finished game ended")
    target = max(seen) if choice == "max" else min(seen)
    why.step("V̂(s′)", f"{choice} of these: the move it makes", target)
    why.compute("δ", "{} − {}", sub, target, guess)
    why.steps.append(change_step("V̂(s)", guess, alpha, target - guess))
    return why.result()


def learnt_game(s0: Row, s1: Row, w: Row, u: float, won: int, alpha: float, lam: float) -> Explanation:
    """V of the first position after a game of two moves, by `NetworkTD`: V(s) = σ(u σ(w·s)).

    `backgammon.network.update` is the same with 198 inputs and 80 hidden units, in float32.
    """
    # On "meta" the layers draw no first weights, so the random state of the process stays as it is.
    into, out = (nn.Linear(width, 1, bias=False, device="meta", dtype=torch.float64) for width in (2, 1))
    learner = NetworkTD([nn.Sequential(into, nn.Sigmoid(), out, nn.Sigmoid())], [alpha], [lam], gamma=1.0)
    given = {"0.weight": [[w]], "2.weight": [[[u]]]}
    learner.parameters = {name: torch.tensor(value, dtype=torch.float64) for name, value in given.items()}
    learner.begin()
    first, second = (torch.tensor([s], dtype=torch.float64) for s in (s0, s1))

    def hidden(x: torch.Tensor) -> float:
        return torch.sigmoid(x @ learner.parameters["0.weight"][0, 0]).item()

    why = Explaining("what is the first position worth after this game?", 0.0)
    equation = "w ← w + α [V(s′; w) − V(s; w)] e,  e ← λ e + ∇V(s; w);  V(s; w) = σ(u σ(w·s))"
    why.equation(equation, "G2", "Tesauro 1992, eq. 1")
    why.input("s₀", s0, "two inputs of the first position")
    why.input("s₁", s1, "of the second; then the game ends")
    why.input("w", w, "weights into the hidden unit")
    why.input("u", u, "its weight to the output")
    why.input("z", won, "the result: 1 if the game is won")
    why.input("α", alpha, "step size")
    why.input("λ", lam, "decay of traces")
    for move, x, ended in (("₁", first, False), ("₂", second, True)):
        here, slopes = learner.gradients(x)
        there = float(won) if ended else learner.values(second).item()
        why.step(f"h{move}(s)", "σ(w·s)", hidden(x), "the hidden unit before this move")
        why.step(f"V{move}(s)", "σ(u h)", here.item())
        if not ended:
            why.step(f"h{move}(s′)", "σ(w·s′)", hidden(second), "after it, with the same weights")
        why.step(f"V{move}(s′)", "z" if ended else "σ(u h′)", there)
        why.compute(f"δ{move}", "{} − {}", sub, there, here.item())
        why.step(f"∇V{move}", "∂V(s)/∂w₁, w₂, u", flat(slopes))
        reward = torch.tensor([float(won) if ended else 0.0], dtype=torch.float64)
        learner.learn(x, reward, second, torch.tensor([ended]))
        why.step(f"e{move}", "λ e + ∇V(s)", flat(learner.traces))
        why.step(f"w{move}", "w + α δ e", flat(learner.parameters), "w₁, w₂, u")
    why.value = learner.values(first).item()
    why.step("h(s₀)", "σ(w·s₀)", hidden(first), "with the last weights")
    why.step("V(s₀)", "σ(u h)", why.value)
    return why.result()


def flat(parameters: dict[str, torch.Tensor]) -> Row:
    """w₁, w₂, u"""
    return [entry for each in parameters.values() for entry in each.flatten().tolist()]


def next_visit(n: list[int], q: Row, p: Row, c: float) -> Explanation:
    """The move that the search visits next, by `selection`."""
    N, W, P = np.array(n), np.array(n) * q, np.array(p) / sum(p)
    Q, U = selection(N, W, P, c)
    best = int((Q + U).argmax())
    why = Explaining("which move does the search visit next?", best + 1)
    why.equation("a = argmaxₐ [Q(s, a) + c P(s, a) √N(s) / (1 + N(s, a))]", "G3", "Rosin 2011; Silver et al. 2017")
    why.input("N(s,·)", n, "visits of the three moves")
    why.input("q", q, "mean value that the visits of each brought back")
    why.input("p", p, "how much the network likes each")
    why.input("c", c, "exploration constant")
    why.step("W", "sum of the values brought back", W.tolist())
    why.step("Q", "W / N(s, a), 0 before the first visit", Q.tolist())
    why.step("P", "p / Σ p", P.tolist())
    why.step("N(s)", "1 + Σ N(s, a)", 1 + sum(n), "the evaluation of s itself counts")
    why.step("U", "c P √N(s) / (1 + N(s, a))", U.tolist())
    why.step("Q + U", "Q(s, a) + U(s, a)", (Q + U).tolist())
    why.step("a", "argmax", best + 1)
    return why.result()


EXAMPLES = [
    Example(
        "G1",
        (
            Input("position", "XX./OO./...", "nine of X, O and ., row by row; X began"),
            Input("guess", 0.2, "what the learner thinks of any position in which the game is not over", -1, 1),
            Input("alpha", 0.1, "step size", 0, 1),
        ),
        position_value,
        "How many of the moves win, and what does the learner think of the position after one move?",
    ),
    Example(
        "G2",
        (
            Input("s0", [1.0, 0.0], "two inputs of the first position", -2, 2, 0.5),
            Input("s1", [0.5, 1.0], "of the second", -2, 2, 0.5),
            Input("w", [0.5, -0.5], "weights into the hidden unit", -5, 5, 0.5),
            Input("u", 1.0, "its weight to the output", -5, 5, 0.5),
            Input("won", 1, "the result: 1 won, 0 lost", 0, 1, 1),
            Input("alpha", 1.0, "step size", 0, 5, 0.5),
            Input("lam", 0.7, "decay of traces", 0, 1),
        ),
        learnt_game,
        "The game was won: does the value of the first position rise, and to what?",
    ),
    Example(
        "G3",
        (
            Input("n", [4, 1, 0], "visits of three moves", 0, 1000, 1),
            Input("q", [0.5, 0.2, 0.0], "mean value that the visits of each brought back", -1, 1),
            Input("p", [0.2, 0.3, 0.5], "how much the network likes each", 0.01, 1),
            Input("c", 1.5, "exploration constant", 0, 10, 0.5),
        ),
        next_visit,
        "Which of the three moves does the search visit next?",
    ),
]
