"""Explaining the table of a self-play learner: the last update of a cell, term by term (MATH G1).

The loops recorded the numbers when they made the update; nothing is recomputed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import sub

from txlab.engine.explain import Explanation, Operand, Step, substituted
from txlab.engine.games.game import Position
from txlab.engine.games.learner import OF_POSITIONS, SelfPlayLearner

SOURCE = {
    "td": "Sutton and Barto 2018, sections 1.5 and 6.8",
    "td-lambda": "Sutton and Barto 2018, sections 6.8 and 12.2",
    "q-learning": "Sutton and Barto 2018, section 6.5; Watkins 1989",
    "sarsa": "Sutton and Barto 2018, section 6.4; Rummery and Niranjan 1994",
}


def cell_of(learner: SelfPlayLearner, position: Position, move: int) -> int:
    """The cell of the table with the value of the move: its after-state, or the move itself. LabError if illegal."""
    graph = learner.graph
    n = graph.numbered(position)
    to = graph.numbered(graph.game.after(position, move))
    if learner.settings.rule in OF_POSITIONS:
        return to
    return int(graph.first[n]) + learner.after[n].index(to)


@dataclass(frozen=True)
class CellUpdate:
    """The numbers of one update of one cell, as recorded by the loop (see learner.py)."""

    ply: int
    game: int
    left: int  # s
    to: int  # s′
    alpha: float
    target: float
    delta: float
    e: float
    next_edge: int  # SARSA's a′, as a move of the graph; −1 = none
    before: float

    @property
    def after(self) -> float:
        return self.before + self.alpha * self.delta * self.e


def record_of(learner: SelfPlayLearner, cell: int) -> CellUpdate | None:
    """The last update of the cell; None = never."""
    if not learner.records[cell]:
        return None
    ply, game, s, to, alpha, target, delta, last, before = learner.records[cell]
    e, edge = (last, -1) if learner.settings.rule in OF_POSITIONS else (1.0, int(last))
    if edge >= 0:
        edge += int(learner.graph.first[int(to)])
    return CellUpdate(int(ply), int(game), int(s), int(to), alpha, target, delta, e, edge, before)


def letters(learner: SelfPlayLearner, to: int) -> tuple[str, str, str]:
    """(the cell, the value that δ subtracts, the target) in the rule's notation, if the move led to position `to`."""
    ended = not learner.after[to]
    choice = "maxₐ′ Q(s′,a′)" if learner.mover[to] > 0 else "minₐ′ Q(s′,a′)"
    match learner.settings.rule:
        case "td":
            return "V(s)", "V(s)", "r" if ended else "V(s′)"
        case "td-lambda":
            return "V(x)", "V(s)", "r" if ended else "V(s′)"
        case "q-learning":
            return "Q(s,a)", "Q(s,a)", "r" if ended else choice
    return "Q(s,a)", "Q(s,a)", "r" if ended else "Q(s′,a′)"


def explain(learner: SelfPlayLearner, position: Position, move: int) -> Explanation:
    """Explain the learner's value of this move: the last update of its after-state, or of the move itself."""
    return explain_cell(learner, cell_of(learner, position, move))


def explain_cell(learner: SelfPlayLearner, cell: int) -> Explanation:
    """Explain the value in a cell of the table."""
    graph, rule = learner.graph, learner.settings.rule
    game, value, found = graph.game, learner.table[cell], record_of(learner, cell)
    n = cell if rule in OF_POSITIONS else int(graph.before[cell])
    thing = game.text(graph.positions[n])
    if rule not in OF_POSITIONS:
        thing += f", {game.MOVES[int(graph.move[cell])]}"
    question = f"why is {thing} worth {value:+.4f}, {game.SIGNS[0]}'s view?"
    if found is None:
        ended = rule in OF_POSITIONS and bool(graph.ended[n])
        known = "known from the rules" if ended else "play has not learnt here yet"
        return Explanation(
            question=question,
            equation="V(s) = outcome(s), where the game has ended" if ended else f"{letters(learner, n)[0]} = initial",
            math="G1",
            source=SOURCE[rule],
            operands=[Operand("outcome(s)" if ended else "initial", value, known)],
            steps=[Step("never updated", "as it was at the beginning", value, known)],
        )
    left, led = game.text(graph.positions[found.left]), game.text(graph.positions[found.to])
    own, compared, drawn_to = letters(learner, found.to)
    compared_to = found.target - found.delta
    operands = [
        Operand(own, found.before, f"before: {thing}"),
        Operand("α", found.alpha),
        Operand(drawn_to, found.target, f"{'the game ended in' if not learner.after[found.to] else 's′ ='} {led}"),
    ]
    expression = substituted("{} − {}", sub, found.target, compared_to)
    steps = [Step("δ", expression, found.delta, f"game {found.game + 1}, ply {found.ply}")]
    expression = substituted("{} + {} · {}", lambda v, α, δ: v + α * δ, found.before, found.alpha, found.delta)
    if rule == "td-lambda":
        back = int(graph.ply[found.left] - graph.ply[n])
        operands.append(Operand(compared, compared_to, f"before: {left}, the position that was left"))
        steps.append(
            Step("e(x)", f"λ^{back}", found.e, f"{left} came {back} plies later" if back else "left just then")
        )
        factors = found.before, found.alpha, found.e, found.delta
        expression = substituted("{} + {} · {} · {}", lambda v, α, e, δ: v + α * e * δ, *factors)
    steps.append(Step(own, expression, found.after))
    return Explanation(
        question=question,
        equation=f"{own} ← {own} + α {'e(x) ' if rule == 'td-lambda' else ''}[ {drawn_to} − {compared} ]",
        math="G1",
        source=SOURCE[rule],
        operands=operands,
        steps=steps,
    )
