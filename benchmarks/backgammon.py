"""TD-Gammon: games a second while learning, and its strength against gnubg and pubeval.

    python benchmarks/backgammon.py [RUN …] [--games 5000] [--plies 1 2] [--copies [GAMES …]] [--out FILE]
                                    [--speed 3000] [--random 0]

For each run directory of the kind td-gammon: points a game of its newest checkpoint, and with --copies of the copies
that it keeps after 0, 10 000 … games (all, or those named), without a doubling cube, gammons 2, backgammons 3. Every
game is played twice with the same dice, the seats exchanged; the error is the standard error over these pairs. --out
adds each result to a TOML file; assets/texts/td_gammon.toml, from which the curve in docs/games.md and the table of
`txlab verify games` are made, was written that way.

The judges are those of gnubg-nn (PyPI, GPL: a program for tests, which txlab does not need): gnubg's evaluation without
lookahead, and pubeval, the linear evaluation that Tesauro published. They are calibrated first, by known results: gnubg
against pubeval .603 ± .024 over 3 000 games, pubeval against random moves 2.46 ± .04. --random plays games of random
moves by gnubg's rules alone, from which the reference numbers of `txlab verify games` come. Without gnubg-nn only the
speed is measured.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from math import hypot
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from clock import cpu_seconds

from txlab.engine.games.backgammon import choice
from txlab.engine.games.backgammon.learner import TDGammon
from txlab.engine.games.backgammon.network import Network
from txlab.engine.games.backgammon.rules import START, Board, Dice, after_states, points_won, swap_sides
from txlab.experiments.schema import group_digits
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory

Player = Callable[[Board, Dice], Board]
"""The after-state, turned to the opponent, that it moves to."""

CALIBRATION_GAMES = 3000
KNOWN = {"gnubg against pubeval": (0.603, 0.024), "pubeval against random moves": (2.46, 0.04)}


def judges() -> ModuleType | None:
    try:
        import gnubg_nn
    except ImportError:
        return None
    module: ModuleType = gnubg_nn
    return module


# Players


def gnubg_player(gnubg: ModuleType) -> Player:
    """gnubg at 0 plies. It names points from 1, the bar 25, off 0; a position is (opponent, player to roll)."""

    def move(board: Board, dice: Dice) -> Board:
        pairs = gnubg.best_move([list(board[1]), list(board[0])], *dice)
        return apply_pairs(board, [(start - 1, end - 1) for start, end in pairs])

    return move


def pubeval_player(gnubg: ModuleType) -> Player:
    """pubeval. It names points from 0, the bar 24, off below 0, in a flat list."""

    def move(board: Board, dice: Dice) -> Board:
        flat = list(gnubg.pub_best_move([list(board[1]), list(board[0])], *dice))
        return apply_pairs(board, list(zip(flat[::2], flat[1::2], strict=True)))

    return move


def apply_pairs(board: Board, pairs: list[tuple[int, int]]) -> Board:
    own, other = map(list, board)
    for start, end in pairs:
        own[start] -= 1
        if end >= 0:
            own[end] += 1
            if other[23 - end] == 1:
                other[23 - end], other[24] = 0, other[24] + 1
    return tuple(other), tuple(own)


def random_player(seed: int) -> Player:
    chance = random.Random(seed)
    return lambda board, dice: swap_sides(chance.choice(after_states(board, dice)))


def network_player(net: Network, plies: int) -> Player:
    compiled = choice.load_compiled()
    if compiled is None:
        return lambda board, dice: choice.best_after_state(net, board, dice, plies)[0]
    room, work = (compiled.room_of(), compiled.room_of()), compiled.workspace(net.units)
    weights, reached = net.weights(), np.empty((2, 25), dtype=np.int8)

    def move(board: Board, dice: Dice) -> Board:
        compiled.choose(weights, np.array(board, dtype=np.int8), *dice, plies, choice.WIDTH, room, work, reached)
        own, other = reached.tolist()
        return tuple(own), tuple(other)

    return move


# Games


def points_of(first: Player, second: Player, seed: int) -> tuple[int, int]:
    """(points of the player who rolls first, plies) of a game with the dice of this seed."""
    chance, board, ply = random.Random(seed), START, 0
    while True:
        dice = chance.randint(1, 6), chance.randint(1, 6)
        while not ply and dice[0] == dice[1]:
            dice = chance.randint(1, 6), chance.randint(1, 6)
        board = (first, second)[ply % 2](board, dice)
        won = -points_won(board)
        if won:
            return (won if ply % 2 == 0 else -won), ply + 1
        ply += 1


def match(one: Player, other: Player, games: int) -> tuple[float, float, float]:
    """(points a game of `one`, standard error, share of games won): pairs with the same dice, one from either seat."""
    pairs = [(points_of(one, other, seed)[0], -points_of(other, one, seed)[0]) for seed in range(games // 2)]
    points = np.array(pairs)
    means = points.mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1) / len(means) ** 0.5), float((points > 0).mean())


def calibrate(gnubg: ModuleType, games: int) -> bool:
    """Whether the judges reproduce known results, within three standard errors; printed."""
    players = gnubg_player(gnubg), pubeval_player(gnubg), random_player(1)
    right = True
    for (name, (value, error)), one, other in zip(KNOWN.items(), players, players[1:], strict=False):
        mean, own_error, _ = match(one, other, games)
        agrees = abs(mean - value) <= 3 * hypot(error, own_error)
        right &= agrees
        print(f"{name:34} {mean:+.3f} ± {own_error:.3f}, known {value:+.3f} ± {error:.3f}{'' if agrees else '  WRONG'}")
    return right


def random_games(gnubg: ModuleType, games: int) -> dict[str, tuple[float, float]]:
    """Games of random moves by gnubg's rules: (mean, standard error) of plies and of the shares of each result.

    Nothing of txlab's rules is used: the moves are gnubg's, and a game is over when a side has no checkers.
    """
    rows = []
    chance = random.Random(1)
    for _ in range(games):
        board, ply = [list(START[1]), list(START[0])], 0  # (opponent, player to roll)
        while True:
            dice = chance.randint(1, 6), chance.randint(1, 6)
            while not ply and dice[0] == dice[1]:
                dice = chance.randint(1, 6), chance.randint(1, 6)
            keys = gnubg.moves(board, *dice)
            reached = [list(side) for side in gnubg.board_from_position_key(chance.choice(keys))] if keys else board
            board, ply = [reached[1], reached[0]], ply + 1
            if not sum(board[0]):
                break
        loser = board[1]
        gammon = sum(loser) == 15
        backgammon = gammon and sum(loser[18:]) > 0
        rows.append((ply, gammon and not backgammon, backgammon, ply % 2))
    table = np.array(rows, dtype=float)
    names = ("plies a game", "share won as gammons", "share won as backgammons", "share won by who rolls first")
    errors = table.std(axis=0, ddof=1) / games**0.5
    return {
        name: (float(mean), float(error)) for name, mean, error in zip(names, table.mean(axis=0), errors, strict=True)
    }


def networks(path: Path, copies: list[int] | None) -> dict[int, Network]:
    """Networks in the newest checkpoint of a run, by the games they had played: the newest, or copies ([]: all)."""
    run = RunDirectory(path)
    step = checkpoints.newest(run)
    assert step is not None, f"{path} has no checkpoint"
    state: dict[str, Any] = checkpoints.load(run, step)
    kept = {int(age): weights for age, weights in state["copies"].items()}
    newest = int(state["learner"]["games"])
    kept[newest] = state["learner"]["weights"]
    wanted = [newest] if copies is None else copies or list(kept)
    absent = [age for age in wanted if age not in kept]
    if absent:
        raise SystemExit(f"{path.name} keeps no copy of {absent[0]} games; it has {', '.join(map(str, sorted(kept)))}")
    return {age: Network(*(np.array(each, dtype=np.float32) for each in kept[age])) for age in sorted(wanted)}


def games_a_second(games: int, units: int) -> float:
    """Games learnt from a processor second, the first `games` of a learner; compiled beforehand."""
    TDGammon(units, 2).run(1)
    learner = TDGammon(units, 1)
    return games / cpu_seconds(lambda: learner.run(games))


def as_toml(net: Network, age: int, plies: int, against: str, points: float, error: float, played: int) -> str:
    return f"""
[[measured]]
units = {net.units}
games = {age}
plies = {plies}
against = "{against}"
points = {points:.4f}
error = {error:.4f}
played = {played}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--games", type=int, default=5000, help="against each judge")
    parser.add_argument("--plies", type=int, nargs="+", choices=(1, 2), default=[1])
    parser.add_argument(
        "--copies", type=int, nargs="*", help="judge the copies of earlier networks, all or after these games"
    )
    parser.add_argument("--out", type=Path, help="a TOML file to which the results are added")
    parser.add_argument("--speed", type=int, default=3000, help="games by which the speed is measured; 0 = not")
    parser.add_argument("--random", type=int, default=0, help="games of random moves by gnubg's rules")
    options = parser.parse_args()
    if options.speed:
        compiled = choice.load_compiled() is not None
        games = options.speed if compiled else 3
        for units in (80, 40):
            rate = games_a_second(games, units)
            how = "compiled by Numba" if compiled else "plain Python: Numba is not installed"
            print(f"{units} units, the first {group_digits(games)} games: {rate:.4g} games a processor second, {how}")
    gnubg = judges()
    if gnubg is None:
        print("gnubg-nn is not installed, so nothing is judged: pip install gnubg-nn")
        return
    for name, (mean, error) in random_games(gnubg, options.random).items() if options.random else ():
        print(f"random moves, {group_digits(options.random)} games: {name} {mean:.5g} ± {error:.2g}")
    if not options.runs:
        return
    if not calibrate(gnubg, CALIBRATION_GAMES):
        raise SystemExit("the judges do not reproduce known results, so nothing is judged")
    for path in options.runs:
        for age, net in networks(path, options.copies).items():
            for plies in options.plies:
                for name, judge in (("gnubg", gnubg_player(gnubg)), ("pubeval", pubeval_player(gnubg))):
                    mean, error, won = match(network_player(net, plies), judge, options.games)
                    player = f"{path.name}, {group_digits(age)} games, {plies} {'ply' if plies == 1 else 'plies'}"
                    print(f"{player}, against {name}: {mean:+.3f} ± {error:.3f}, {won:.3f} won", flush=True)
                    if options.out is not None:
                        with options.out.open("a") as file:
                            file.write(as_toml(net, age, plies, name, mean, error, options.games))


if __name__ == "__main__":
    main()
