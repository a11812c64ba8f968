"""Why a move in a recorded frame of self-play has the value it has: the table, the other moves, perfect play (MATH G1).

Notable: a frame keeps the table and not the updates that filled it; the last update of a cell is known to a learner
that is alive, and is asked of that one (engine/games/self_play_why.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.games.perfect_play import solved, verdict
from txlab.errors import LabError
from txlab.experiments.kinds.self_play.experiment import recorded_player
from txlab.experiments.kinds.self_play.live import GAMES
from txlab.experiments.protocol import Frame


def explain_move(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """index is (move,) of "openings", (position, move) of "shown". LabError for another tensor, or where there is no
    such move."""
    if tensor not in ("openings", "shown") or tensor not in frame.tensors:
        raise LabError(f"{tensor} has no explanation; allowed: openings, shown")
    player = recorded_player(frame)
    game, of_positions = GAMES[str(frame.facts["game"])], frame.facts["of"] == "positions"
    position = game.start() if tensor == "openings" else game.read(frame.tokens["shown"][int(index[0])])
    move, named = int(index[-1]), game.text(position)
    values = player.values(position)
    if move not in values:
        raise LabError(f"there is no move {move} in {named}")
    solution, first = solved(game), game.mover(position) > 0
    after, mover = game.after(position, move), game.SIGNS[0 if first else 1]
    best, label = max(values.values()), game.MOVES[move]
    letters = "V(s·a)" if of_positions else "Q(s,a)"
    return Explanation(
        question=f"why {values[move]:+.4f} for {label} in {named}, {mover}'s view?",
        equation=f"value(a) = {'' if first else '−'}{letters},  the table being told from {game.SIGNS[0]}'s view",
        math="G1",
        source=f"{frame.facts['title']}, {frame.facts['games']} games against itself",
        operands=[Operand("value(·)", list(values.values()), f"what {mover} sees of each move")],
        steps=[
            Step(letters, "as it stands in the table", values[move] if first else -values[move]),
            Step("behind the best", f"{best:.4f} − ({values[move]:.4f})", best - values[move], "0: it may be played"),
            Step("perfect play", "exhaustive search", verdict(solution, after), f"after {label}"),
        ],
        result=values[move],
        labels=[game.MOVES[each] for each in values],
        asked=list(values).index(move),
    )
