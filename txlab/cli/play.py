"""`txlab play GAME`: a game against the perfect player, a random one, one that learns first, or a run's player; and
ratings of all players (`--tournament`)."""

from __future__ import annotations

import random
from typing import Annotated, Literal

import typer

from txlab.cli import options
from txlab.cli.players import LEARNS, LEARNT, learns_at_once
from txlab.errors import LabError


def play(
    game: Annotated[str, typer.Argument(metavar="GAME", help="tictactoe, connect-four, backgammon")],
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="PLAYER", help="a run, RUN@STEP, perfect, random, td (learns first)"),
    ] = None,
    games: Annotated[
        int | None,
        typer.Option("--games", metavar="N", help=f"games td learns by first, up to {LEARNT}", min=0),
    ] = None,
    plies: Annotated[
        int | None, typer.Option("--plies", metavar="N", help="how far a run of backgammon looks ahead, 1 or 2", min=1)
    ] = None,
    visits: Annotated[
        int | None,
        typer.Option("--visits", metavar="N", help="how many visits a run of Connect Four searches", min=1),
    ] = None,
    seat: Annotated[Literal["first", "second"], typer.Option("--seat", help="which player you are, X or O")] = "first",
    second: Annotated[bool, typer.Option("--second", help="the same as --seat second")] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="seed of dice and choices", min=0, max=2**31)
    ] = None,
    values: Annotated[bool, typer.Option("--values", help="begin with the values of your moves shown")] = False,
    tournament: Annotated[bool, typer.Option("--tournament", help="rate all players in a tournament")] = False,
    record: options.Games = None,
    json: options.JsonLines = False,
) -> None:
    """Play against a trained or a perfect player.

    Moves are numbers of squares or columns, or names: 8/5 6/5, bar/22, 13/8(2). h, u, v, w, n and q help.
    """
    from txlab.cli.players import ahead_of, display_name, player_named, usual_player
    from txlab.engine.games.catalogue import game_named

    entry = game_named(game)
    if games is not None and against != LEARNS and not tournament:
        raise LabError("--games is the training of td; give it with --against td, or with --tournament")
    if games is not None and games > LEARNT:
        raise LabError(f"--games: {games} is not allowed; allowed: at most {LEARNT}")
    if tournament and not learns_at_once(entry):
        raise LabError(f"--tournament takes too long in {entry.title}; txlab match compares two of its players")
    ahead = ahead_of(plies, visits)
    from txlab.cli.play_table import ShellGame, output_for, print_ratings

    games = LEARNT if games is None else games
    if tournament:
        print_ratings(entry, games, seed or 0, json)
        return
    if record is not None:
        from txlab.cli.records import require_folder

        require_folder(record)
    name = usual_player(entry) if against is None else against
    opponent = player_named(entry, name, "--against", games, seed or 0, ahead)
    name = display_name(entry, opponent, name, ahead)
    seed = random.randrange(2**31) if seed is None else seed
    you = -1 if second or seat == "second" else 1
    table = ShellGame(entry, opponent, name, you, seed, values, output_for(entry, json))
    try:
        table.sit()
    finally:
        if record is not None:
            table.write(record)
