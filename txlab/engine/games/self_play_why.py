"""Explaining the table of a self-play learner: the last update of a cell, term by term (MATH G1).

The loops recorded the numbers when they made the update; nothing is recomputed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import sub

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.games.game import Position
from txlab.engine.games.learner import OF_POSITIONS, SelfPlayLearner
from txlab.engine.rl.update import change_step

SOURCE = {
    "td": "Sutton and Barto 2018, sections 1.5 and 6.8",
    "td-lambda": "Sutton and Barto 2018, sections 6.8 and 12.2",
    "q-learning": "Sutton and Barto 2018, section 6.5; Watkins 1989",
    "sarsa": "Sutton and Barto 2018, section 6.4; Rummery and Niranjan 1994",
}


def cell_of(learner: SelfPlayLearner, position: Position, move: int) -> int:
    """The cell of the table with the value of the move: its after-state, or the move itself. LabError if illegal."""
    graph = learner.graph
    n = graph.number_of(position)
    to = graph.number_of(graph.game.after(position, move))
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
    game, value, record = graph.game, learner.table[cell], record_of(learner, cell)
    n = cell if rule in OF_POSITIONS else int(graph.before[cell])
    thing = game.text(graph.positions[n])
    if rule not in OF_POSITIONS:
        thing += f", {game.MOVES[int(graph.move[cell])]}"
    question = f"why is {thing} worth {value:+.4f}, {game.SIGNS[0]}'s view?"
    why = Explaining(question, value)
    if record is None:
        ended = rule in OF_POSITIONS and bool(graph.ended[n])
        known = "known from the rules" if ended else "play has not learnt here yet"
        equation = "V(s) = outcome(s), where the game has ended" if ended else f"{letters(learner, n)[0]} = initial"
        why.equation(equation, "G1", SOURCE[rule])
        why.input("outcome(s)" if ended else "initial", value, known)
        why.measurement("never updated", known, "as it was at the beginning")
        return why.result()
    left, led = game.text(graph.positions[record.left]), game.text(graph.positions[record.to])
    own, compared, drawn_to = letters(learner, record.to)
    compared_to = record.target - record.delta
    traced = "e(x) " if rule == "td-lambda" else ""
    why.equation(f"{own} ← {own} + α {traced}[ {drawn_to} − {compared} ]", "G1", SOURCE[rule])
    why.input(own, record.before, f"before: {thing}")
    why.input("α", record.alpha)
    why.input(drawn_to, record.target, f"{'the game ended in' if not learner.after[record.to] else 's′ ='} {led}")
    why.compute("δ", "{} − {}", sub, record.target, compared_to, note=f"game {record.game + 1}, ply {record.ply}")
    if traced:
        back = int(graph.ply[record.left] - graph.ply[n])
        why.input(compared, compared_to, f"before: {left}, the position that was left")
        why.step("e(x)", f"λ^{back}", record.e, f"{left} came {back} plies later" if back else "left just then")
        why.steps.append(change_step(own, record.before, record.alpha, record.e, record.delta))
    else:
        why.steps.append(change_step(own, record.before, record.alpha, record.delta))
    return why.result()
