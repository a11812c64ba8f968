"""An opponent that learns first, and ratings of it at several ages, for `txlab play`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.engine.games.players import Player


def learnt(games: int, seed: int) -> tuple[Player, Callable[[Sequence[int], int], Explanation | None]]:
    """TD(0) after so many games against itself, and why it values a move as it does."""
    from txlab.drawing.tictactoe_words import position_of
    from txlab.engine.games import tictactoe
    from txlab.engine.games.graph import compiled
    from txlab.engine.games.learner import SelfPlaySettings, make_learner
    from txlab.engine.games.self_play_why import explain

    learner = make_learner(compiled(tictactoe), SelfPlaySettings(), seed)
    learner.run(games)

    return learner.player(), lambda moves, square: explain(learner, position_of(moves), square)


AGES = (0, 100, 1_000, 10_000, 100_000)
GAMES = 1_000  # between every two


def print_ratings(games: int, seed: int, json: bool) -> None:
    """TD(0) at its ages up to so many games, the perfect and the random player: their ratings, best first."""
    from dataclasses import asdict

    from txlab.cli.terminal import Column, shown, table
    from txlab.cli.tokenize import spaced
    from txlab.engine.games import tictactoe
    from txlab.engine.games.graph import compiled
    from txlab.engine.games.learner import SelfPlaySettings, make_learner
    from txlab.engine.games.players import perfect_player, random_player
    from txlab.engine.games.tournament import tournament

    learner = make_learner(compiled(tictactoe), SelfPlaySettings(), seed)
    players = [perfect_player(tictactoe), random_player(tictactoe)]
    for age in sorted({*(age for age in AGES if age < games), games}):
        learner.run(age - learner.games)
        players.append(learner.player(f"TD(0), {spaced(age)} games"))
    standings = tournament(players, GAMES, seed)
    assert standings is not None  # nobody stops it
    rows = standings.rows()
    if json:
        from txlab.cli.models import print_json

        print_json({"games_between_two": GAMES, "players": [asdict(row) for row in rows]})
        return
    head = [Column("player"), *(Column(name, "right") for name in ("rating", "error", "won", "drawn", "lost"))]
    print(
        table(
            head,
            [[shown(row.name), *map(spaced, (row.rating, row.error, row.won, row.drawn, row.lost))] for row in rows],
        )
    )
    print(f"\n{spaced(GAMES)} games between every two, half from either seat, the first move drawn; one standard error")
