"""`txlab play tictactoe`: a game against the perfect player, a random one, one that learns first, or a run's player;
and ratings of all of them (`--tournament`)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated

import typer

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.cli.play_table import Why
    from txlab.engine.games.players import Player

GAMES = ("tictactoe",)
OPPONENTS = ("perfect", "random", "td")
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
    chosen = random.Random(seed)
    if tournament:
        from txlab.cli.play_table import print_ratings

        print_ratings(LEARNT if games is None else games, seed or 0, json)
        return
    from txlab.cli.play_table import ShellGame, said_for

    opponent, why = opponent_of(against, LEARNT if games is None else games, seed or 0)
    ShellGame(opponent, why, second, chosen, values, said_for(json)).sit()


def opponent_of(name: str, games: int, seed: int) -> tuple[Player, Why | None]:
    """Return the opponent and the function that explains its values, if any. Raises LabError for an unknown name."""
    from txlab.engine.games import tictactoe
    from txlab.engine.games.players import perfect_player, random_player

    if name == "perfect":
        return perfect_player(tictactoe), None
    if name == "random":
        return random_player(tictactoe), None
    if name == "td":
        from txlab.cli.play_table import learnt

        return learnt(games, seed)
    from txlab.runs.finding import find_run
    from txlab.runs.models import player_of_run

    try:
        run = find_run(name)
    except LabError as error:
        close = nearest(name, OPPONENTS)
        if close:
            raise LabError(
                f"--against: {name!r} is not known{close}; allowed: {', '.join(OPPONENTS)}, or a run"
            ) from None
        raise LabError(f"--against: {error}; or one of {', '.join(OPPONENTS)}") from None
    return player_of_run(run), None
