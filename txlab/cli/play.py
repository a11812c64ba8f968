"""`txlab play tictactoe`: a game against the perfect player, a random one, one that learns first, or a run's player;
and ratings of all of them (`--tournament`)."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from txlab.errors import LabError, nearest

GAMES = ("tictactoe",)
LEARNT = 100_000  # games of `--against td`: as many as in the figures of `txlab verify`, about a second


def play(
    game: Annotated[str, typer.Argument(metavar="GAME", help="tictactoe")],
    against: Annotated[
        str, typer.Option("--against", metavar="PLAYER", help="perfect, random, td (learns first), or a run")
    ] = "perfect",
    games: Annotated[
        int | None,
        typer.Option("--games", metavar="N", help=f"games td learns by first, up to {LEARNT}", min=0),
    ] = None,
    second: Annotated[bool, typer.Option("--second", help="the other side begins: you are O")] = False,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="the same choices again", min=0)] = None,
    values: Annotated[bool, typer.Option("--values", help="begin with the values it sees on the squares")] = False,
    tournament: Annotated[bool, typer.Option("--tournament", help="let all play each other, and rate them")] = False,
    json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """Play against what has learnt, or against what cannot lose. Squares are 1 to 9; h, u, v, w, n and q help."""
    if game not in GAMES:
        raise LabError(f"GAME: {game!r} is not known{nearest(game, GAMES)}; allowed: {', '.join(GAMES)}")
    if games is not None and against != "td" and not tournament:
        raise LabError("--games is how long td learns; give it with --against td, or with --tournament")
    if games is not None and games > LEARNT:
        raise LabError(f"--games: {games} is not allowed; allowed: at most {LEARNT}")
    from txlab.cli.play_table import ShellGame, opponent_of, print_ratings, said_for

    games = LEARNT if games is None else games
    if tournament:
        print_ratings(games, seed or 0, json)
        return
    opponent, why = opponent_of(against, games, seed or 0)
    ShellGame(opponent, why, second, random.Random(seed), values, said_for(json)).sit()
