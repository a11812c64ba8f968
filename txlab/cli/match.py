"""`txlab match A B`: two players against each other, with the same luck for both, and the confidence in the result."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from txlab.cli import options
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.games.catalogue import GameEntry
    from txlab.engine.games.match import Score
    from txlab.engine.games.records.record import PlayedGame

MOST = 1_000_000
REDRAWN, SAID = 0.2, 30.0  # seconds between redraws of the line on a terminal, and between lines elsewhere
WHOLE = 50  # games from which compiling is worthwhile (half a minute, once per machine)
WAYS = ("move by move", "as whole games, compiled")
MODEL = "Student's distribution of the means of the pairs"


def match(
    a: Annotated[str, typer.Argument(metavar="PLAYER", help="a run, RUN@STEP, perfect, random …")],
    b: Annotated[str, typer.Argument(metavar="PLAYER", help="the other")],
    games: Annotated[int, typer.Option("--games", metavar="N", help="an even number", min=2, max=MOST)] = 100,
    plies: Annotated[
        str | None,
        typer.Option("--plies", metavar="N", help="how far runs of backgammon look ahead: 2, or 1,2"),
    ] = None,
    visits: Annotated[
        str | None, typer.Option("--visits", metavar="N", help="visits of runs of Connect Four: 400, or 100,400")
    ] = None,
    game: Annotated[str | None, typer.Option("--game", metavar="GAME", help="if the players leave it open")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="the same dice again", min=0, max=2**31)] = 0,
    opening: Annotated[
        int | None,
        typer.Option("--opening", metavar="N", help="random first moves; else 1 or 2 without dice", min=0, max=20),
    ] = None,
    record: options.Games = None,
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """Let two players play each other, with the same dice for both.

    Games are played in pairs: the same dice, or the same random first moves, once with each in the first seat. ctrl-c
    ends a match with the result so far.
    """
    if games % 2:
        raise LabError(f"--games: {games} is not allowed; allowed: even numbers, for each sits first in half of them")
    from txlab.cli.output import print_answer
    from txlab.cli.players import display_name, each_ahead, game_for, player_named
    from txlab.cli.records import require_folder, write_record
    from txlab.engine.games.match import Score, can_play_whole, play_match
    from txlab.engine.games.players import PlaysWholeGames

    entry = game_for(game, [a, b])
    if record is not None:
        require_folder(record)
    ahead = each_ahead(plies, visits, entry, (a, b))
    first, second = (
        player_named(entry, name, "PLAYER", seed=seed, ahead=far) for name, far in zip((a, b), ahead, strict=True)
    )
    names = display_name(entry, first, a, ahead[0]), display_name(entry, second, b, ahead[1])
    if names[0] == names[1]:
        names = names[0], f"{names[1]} (2)"
    whole = record is None and not opening and games >= WHOLE and can_play_whole(first, second)
    played: list[PlayedGame] = []
    stopped = False
    with Progress(games) as progress:
        try:
            for each in play_match(first, second, games, seed, opening, names, whole=whole):
                played.append(each)
                progress.show(len(played))
        except KeyboardInterrupt:
            stopped = True
    if record is not None and played:
        write_record(entry, played, record)
    score = Score.of(played, names[0], entry.game.MOST_POINTS)
    if not print_answer(result(entry, score, names, games, seed, played, WAYS[whole]), "", json, csv):
        print_result(entry, score, names, games, played)
        if any(isinstance(player, PlaysWholeGames) for player in (first, second)):
            print(f"played {WAYS[whole]}")
    if stopped:
        raise KeyboardInterrupt


class Progress:
    """One line that is redrawn on a terminal, or a line now and then, on standard error: results can be piped."""

    def __init__(self, games: int) -> None:
        self.games, self.begun = games, time.monotonic()
        self.drawn = self.begun
        self.redraws = sys.stderr.isatty()

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now - self.drawn < (REDRAWN if self.redraws else max(SAID, 0.1 * (now - self.begun))):
            return
        self.drawn = now
        line = self.line(done, (now - self.begun) / done * (self.games - done))
        with suppress(OSError):
            sys.stderr.write(f"\r{line}\x1b[K" if self.redraws else f"{line}\n")
            sys.stderr.flush()

    def line(self, done: int, left: float) -> str:
        from txlab.cli.terminal import columns, group_digits, meter
        from txlab.drawing.formatting import duration

        text = f"{group_digits(done)}/{group_digits(self.games)} games, {duration(left)} left"
        room = min(30, columns() - 4 - len(text))
        return f"{meter(done / self.games, room)}  {text}" if self.redraws and room > 5 else text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.redraws and self.drawn != self.begun:
            with suppress(OSError):
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()


def luck_of(entry: GameEntry) -> str:
    from txlab.engine.games.tournament import random_moves

    return "first moves" if random_moves(entry.game) else "dice"


def different(played: list[PlayedGame]) -> int:
    """The number of different games: deterministic players repeat themselves in games without dice. Games without
    recorded turns have dice."""
    turns = [tuple(each.turns) for each in played]
    return len(set(turns)) if any(turns) else len(turns)


def print_result(entry: GameEntry, score: Score, names: tuple[str, str], games: int, played: list[PlayedGame]) -> None:
    from txlab.cli.output import Column, table
    from txlab.cli.terminal import group_digits, plural, sanitize
    from txlab.engine.games.game import wins

    many = plural(len(score.points), "game") + ("" if len(score.points) == games else f" of {group_digits(games)}")
    print(f"{sanitize(entry.title)}: {many}, two with the same {luck_of(entry)}, the seats exchanged")
    if not score.points:
        print("no game was finished")
        return
    sizes, kinds = score.sizes(), wins(entry.game)
    titles = ["won", *(f"{kind}s" for kind in kinds[1:]), "drawn", "lost", "points", "a game"]
    rows = []
    for name, sign in zip(names, (1, -1), strict=True):
        won = sum(count for points, count in sizes.items() if points * sign > 0)
        lost = sum(count for points, count in sizes.items() if points * sign < 0)
        large = [sizes[sign * points] for points in range(2, len(kinds) + 1)]
        total = sign * sum(score.points)
        cells = [group_digits(each) for each in (won, *large, sizes[0], lost)]
        rows.append([sanitize(name), *cells, format_signed(total), points_text(sign * score.mean)])
    print()
    print(table([Column("player"), *(Column(title, "right") for title in titles)], rows))
    print()
    print(verdict(score, *map(sanitize, names)))
    if (distinct := different(played)) < len(played):
        print(f"{group_digits(distinct)} of the games are different")


def verdict(score: Score, a: str, b: str) -> str:
    """The conclusion of the match about A and B."""
    interval, better = score.interval(), score.better()
    if interval is None or better is None:
        return f"which of {a} and {b} is better is not known yet: no pair of games is complete"
    from txlab.cli.terminal import plural, wrap_for_terminal

    low, high = map(points_text, interval)
    pairs = plural(len(score.pairs), "pair")
    first = f"{a} makes {points_text(score.mean)} points a game; 95 % interval {low} to {high}, from {pairs}"
    second = f"probability that {a} is better than {b}: {probability_text(better)}, by {MODEL}"
    return f"{wrap_for_terminal(first)}\n{wrap_for_terminal(second)}"


def probability_text(value: float) -> str:
    """ ".974", "> .999", "< .001"."""
    from txlab.drawing.formatting import share

    return "> .999" if value > 0.9995 else "< .001" if value < 0.0005 else share(value, 3)


def points_text(value: float) -> str:
    from txlab.cli.terminal import ascii_only
    from txlab.drawing.formatting import plain
    from txlab.drawing.game_words import points_text

    return plain(points_text(value)) if ascii_only() else points_text(value)


def format_signed(value: int) -> str:
    from txlab.cli.terminal import group_digits

    return ("+" if value > 0 else "") + group_digits(value)


def result(
    entry: GameEntry, score: Score, names: tuple[str, str], games: int, seed: int, played: list[PlayedGame], way: str
) -> dict[str, Any]:
    """Return the result for programs."""
    sizes: Counter[int] = score.sizes()
    interval = score.interval()
    return {
        "game": entry.name,
        "players": list(names),
        "games": len(score.points),
        "of": games,
        "seed": seed,
        "won": score.won,
        "drawn": score.drawn,
        "lost": score.lost,
        "games_by_points": {f"{points:+d}" if points else "0": sizes[points] for points in sorted(sizes)},
        "points_a_game": score.mean if score.points else None,
        "interval": None if interval is None else list(interval),
        "pairs": len(score.pairs),
        "probability_better": score.better(),
        "model": MODEL,
        "played": way,
        "different_games": different(played),
    }
