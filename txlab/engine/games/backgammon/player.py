"""A network that plays backgammon under the protocol of all games, and explains its values (MATH G2).

    value(a) = −E(s′)                 1 ply: E is the network's equity of the after-state, seen by the other side
    value(a) = −Σ p(roll) max −E(s″)  2 plies: of the `WIDTH` best; the mean over the replies that the network likes

The effect of an input on a value is measured by removing it: E compared with E with the input at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Step, compute_step
from txlab.engine.games.backgammon import choice, game
from txlab.engine.games.backgammon.game import allowed_moves, board_of
from txlab.engine.games.backgammon.inputs import NAMES, TURN, inputs_of
from txlab.engine.games.backgammon.network import LOSE_GAMMON, WIN, WIN_GAMMON, Network, equity, forward
from txlab.engine.games.backgammon.rules import ROLLS, START, Board, Steps, points_won, swap_sides
from txlab.engine.games.game import FIRST, Game, Move, Position
from txlab.engine.games.players import Player, RandomPlayer, Silent
from txlab.engine.games.playing import CHOICE, DICE

TOLD = 4  # inputs named on either side
OTHER = {"own": "opponent's", "opponent's": "own"}
WORDS = ("win", "win gammon", "lose gammon")


@dataclass(frozen=True, eq=False)
class NetworkPlayer(Silent):
    """Plays the move that a network values most. plies   1 or 2: how far it looks ahead"""

    name: str
    net: Network
    plies: int = 1

    @property
    def game(self) -> Game:
        return game

    def move(self, position: Position, draw: float) -> Steps:
        values = self.values(position)
        return max(values, key=values.__getitem__)

    def values(self, position: Position) -> dict[Move, float]:
        """Of all moves by 1 ply; of the `WIDTH` best of these by 2 plies."""
        moves = {
            swap_sides(reached): steps for reached, steps in allowed_moves(board_of(position), position[1]).items()
        }
        expected = dict(zip(moves, choice.expect_points(self.net, list(moves)), strict=True))
        if self.plies > 1 and len(moves) > 1:
            best = sorted(moves, key=expected.__getitem__)[: choice.WIDTH]
            expected = dict(zip(best, choice.expect_points(self.net, best, 2), strict=True))
        return {moves[board]: -value for board, value in expected.items()}

    def notes(self, position: Position) -> dict[Move, str]:
        """The probability to win, by the network's after-state: "53 %"."""
        notes = {}
        for reached, steps in allowed_moves(board_of(position), position[1]).items():
            after = swap_sides(reached)
            win = 1.0 if points_won(after) else 1 - float(forward(self.net, inputs_of(after))[1][WIN])
            notes[steps] = f"{100 * win:.0f} %"
        return notes

    def sees(self, position: Position) -> str:
        return f"points that {self.name} expects"

    def match(self, other: NetworkPlayer, seeds: np.ndarray) -> np.ndarray:
        return choice.match(self.net, other.net, seeds, (self.plies, other.plies))

    def explain(self, position: Position, move: Move) -> Explanation | None:
        values = self.values(position)
        return explain_move(self, position, move, values) if move in values else None

    def outcomes(self, first: Player, second: Player, throws: np.ndarray, choices: np.ndarray) -> np.ndarray | None:
        return outcomes(first, second, throws, choices)


def outcomes(first: Player, second: Player, throws: np.ndarray, choices: np.ndarray) -> np.ndarray | None:
    """See PlaysWholeGames: by the compiled loops, 12 to 40 times as fast, for networks and random players."""
    kernel = choice.load_compiled()
    players = (first, second)
    if kernel is None or any(type(each) not in (NetworkPlayer, RandomPlayer) for each in players):
        return None
    nets = [each.net if isinstance(each, NetworkPlayer) else Network.initialize(1, 0) for each in players]
    plies = np.array([each.plies if isinstance(each, NetworkPlayer) else 0 for each in players])
    start = game.start()
    openings, rolls = (game.chances(position) for position in (start, (FIRST, (), *board_of(start))))
    dice = [
        (np.array([reached[1] for reached, _ in each]), np.array([probability for _, probability in each]))
        for each in (openings, rolls)
    ]
    points = np.zeros(len(throws), dtype=np.int64)
    kernel.play_out(
        tuple(net.weights() for net in nets), np.array(START, dtype=np.int8), throws, choices,
        np.array([DICE, CHOICE]), *dice, plies, choice.WIDTH, points,
    )  # fmt: skip
    return points


def explain_move(player: NetworkPlayer, position: Position, move: Steps, values: dict[Move, float]) -> Explanation:
    """Explain the points that a network expects of a move: its outputs for the after-state, and the inputs that
    count."""
    board = game.board_of(game.after(position, move))
    value, best = values[move], max(values.values())
    question = f"why {value:+.4f} points for {game.name_of_move(position, move)}?"
    behind = compute_step("behind the best", "{} − {}", sub, best, value, note="0: it is played")
    source = f"{player.name}; s′ is seen by the other side, who is then to roll"
    why = Explaining(question, value)
    if points_won(board):
        why.equation("value = points won", "G2", source)
        why.measurement("value", "the game has ended: points by the rules, not by the network")
        why.means(behind)
        return why.result()
    y = [float(each) for each in forward(player.net, inputs_of(board))[1]]
    own = [Step(word, "", each) for word, each in zip(WORDS, turn_outputs(y), strict=True)]
    if player.plies > 1:
        return explain_two_plies(player.net, board, question, source, value, [*own, behind])
    there = equity(np.array(y))
    why.equation("value = −equity(s′),  equity = 2·win + win gammon − lose gammon − 1", "G2", source)
    why.input("y(s′)", y, ", ".join(WORDS))
    why.compute("equity(s′)", "2 · {} + {} − {} − 1", lambda w, g, lost: 2 * w + g - lost - 1, *y)
    why.compute("value", "0 − {}", lambda expected: -expected, there)
    why.means(*own, behind, *raising(player.net, board))
    return why.result()


def turn_outputs(y: Sequence[float]) -> tuple[float, float, float]:
    """The outputs from the view of the player who moved."""
    return 1 - y[WIN], y[LOSE_GAMMON], y[WIN_GAMMON]


def explain_two_plies(
    net: Network, board: Board, question: str, source: str, value: float, meaning: list[Step]
) -> Explanation:
    """Explain a value two plies deep: the mean over the other side's rolls."""
    replies = [-choice.best_after_state(net, board, dice)[1] for dice, _ in ROLLS]
    total = sum(weight * reply for reply, (_, weight) in zip(replies, ROLLS, strict=True))
    alone = -equity(forward(net, inputs_of(board))[1])
    why = Explaining(question, value, [f"{high}-{low}" for (high, low), _ in ROLLS])
    why.equation("value = −(1/36) Σ n(roll) max −equity(s″)", "G2", source)
    why.input("max −equity(s″)", replies, "points the other side expects after its best reply to each roll")
    why.input("n(roll)", [weight for _, weight in ROLLS], "how many of 36 throws give the roll")
    why.compute("value", "0 − {} / 36", lambda each: -each / 36, total)
    why.means(Step("one ply deep", "", alone, "by the network's view of s′ alone"), *meaning)
    return why.result()


def raising(net: Network, board: Board) -> list[Step]:
    """The inputs of an after-state that raise its value most for the player who moved, and those that lower it."""
    x = inputs_of(board)
    there = equity(forward(net, x)[1])
    gains = {}
    for i in np.flatnonzero(x).tolist():
        if i < TURN:
            without = x.copy()
            without[i] = 0
            gains[i] = equity(forward(net, without)[1]) - there
    ranked = sorted(gains, key=gains.__getitem__)
    strongest = [*(i for i in ranked[: -TOLD - 1 : -1] if gains[i] > 0), *(i for i in ranked[:TOLD] if gains[i] < 0)]
    # the after-state is seen by the other side: its own points are the opponent's of the player who moved
    return [Step(side_turned(NAMES[i]), "value − value without it", gains[i]) for i in strongest]


def side_turned(name: str) -> str:
    """
    >>> side_turned("own point 6, 1 or more"), side_turned("opponent's bar")
    ("opponent's point 6, 1 or more", 'own bar')
    """
    side, _, rest = name.partition(" ")
    return f"{OTHER[side]} {rest}"
