"""`txlab analyse FILE`: the cost of each move of the games in a file, by a player that evaluates moves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.games.analysis import JudgedMove, Total
    from txlab.engine.games.catalogue import GameEntry
    from txlab.engine.games.records.record import PlayedGame, Record


def analyse(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a .mat file, or strings of moves such as 4453")],
    judge: Annotated[
        str | None,
        typer.Option("--judge", metavar="PLAYER", help="the player that judges; else perfect, or the newest run"),
    ] = None,
    plies: Annotated[
        int | None, typer.Option("--plies", metavar="N", help="how far a run of backgammon looks ahead, 1 or 2", min=1)
    ] = None,
    visits: Annotated[
        int | None,
        typer.Option("--visits", metavar="N", help="how many visits a run of Connect Four searches", min=1),
    ] = None,
    game: Annotated[str | None, typer.Option("--game", metavar="GAME", help="if the file does not name it")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="only marked moves")] = False,
    json: Annotated[bool, typer.Option("--json", help="one JSON object per line: moves, then the players")] = False,
) -> None:
    """Evaluate each move of a game: its cost in expected points.

    The cost is the value of the best move less that of the move played, by a player's values. ?! marks a loss from .04
    points on, ? from .08, ?? from .16.
    """
    from txlab.cli.players import ahead_of, display_name, newest_run_of, player_named
    from txlab.cli.records import read_record
    from txlab.engine.games.analysis import Total, judge_moves

    entry, record = read_record(file, game)
    if judge is None:
        judge = entry.players[0].name
        judge = judge if judge != "random" else newest_run_of(entry)
    if judge is None:
        learn = f"; txlab run {entry.scenario} makes one" if entry.scenario else ""
        raise LabError(f"there is no run that plays {entry.title} to judge by; give --judge{learn}")
    ahead = ahead_of(plies, visits)
    player = player_named(entry, judge, "--judge", ahead=ahead)
    judge = judge if ahead is None else display_name(entry, player, judge, ahead)
    totals = {name: Total(name) for name in record.names()}
    form = JsonLines(entry, judge) if json else Lines(entry, judge, errors)
    form.begin(record)
    stopped = False
    try:
        for number, played in enumerate(record.games, 1):
            form.game(number, played)
            for move in judge_moves(played, player):
                totals[move.name].add(move)
                form.move(number, move)
    except KeyboardInterrupt:
        stopped = True
    form.end(list(totals.values()))
    if stopped:
        raise KeyboardInterrupt


class JsonLines:
    """One JSON object per line."""

    def __init__(self, entry: GameEntry, judge: str) -> None:
        self.entry, self.judge = entry, judge

    def say(self, **values: Any) -> None:
        from txlab.cli.output import print_json

        print_json(values)

    def begin(self, record: Record) -> None:
        self.say(event="begin", game=self.entry.name, judge=self.judge, players=record.names(), games=len(record.games))

    def game(self, number: int, played: PlayedGame) -> None:
        self.say(
            event="game", number=number, first=played.names[0], second=played.names[1], points=played.points,
            winner=played.winner() or None,
        )  # fmt: skip

    def move(self, number: int, move: JudgedMove) -> None:
        rules = self.entry.game
        self.say(
            event="move", game=number, number=move.number, player=move.name,
            sign=rules.SIGNS[0 if move.side > 0 else 1], position=rules.text(move.position),
            move=rules.name_of_move(move.position, move.move), choices=move.choices, value=move.value,
            best=None if move.best_value is None else rules.name_of_move(move.position, move.best),
            best_value=move.best_value, loss=move.loss, mark=move.mark,
        )  # fmt: skip

    def end(self, totals: list[Total]) -> None:
        for each in totals:
            self.say(
                event="player", name=each.name, moves=each.moves, choices=each.choices, judged=each.judged,
                loss=each.loss, loss_per_move=each.loss_per_move, marks=each.marks,
            )  # fmt: skip


class Lines(JsonLines):
    """Text: a block of lines for each game, and a table of the players."""

    def __init__(self, entry: GameEntry, judge: str, errors: bool) -> None:
        super().__init__(entry, judge)
        self.errors = errors
        self.heading: str | None = None

    def begin(self, record: Record) -> None:
        from txlab.cli.terminal import plural, sanitize

        print(f"{sanitize(self.entry.title)}: {plural(len(record.games), 'game')}, judged by {sanitize(self.judge)}")

    def game(self, number: int, played: PlayedGame) -> None:
        from txlab.cli.terminal import plural, sanitize

        first, second = self.entry.game.SIGNS
        who = f"{first} {sanitize(played.names[0])}, {second} {sanitize(played.names[1])}"
        if played.points is None:
            result = "not finished"
        elif not played.points:
            result = "drawn"
        else:
            result = f"{first if played.points > 0 else second} wins {plural(abs(played.points), 'point')}"
        self.heading = f"\ngame {number}: {who}; {result}"

    def move(self, number: int, move: JudgedMove) -> None:
        from txlab.cli.match import points_text
        from txlab.cli.terminal import colour_text

        if self.errors and not move.mark:
            return
        if self.heading is not None:
            print(self.heading)
            self.heading = None
        rules = self.entry.game
        name = rules.name_of_move(move.position, move.move)
        sign = rules.SIGNS[0 if move.side > 0 else 1]
        begin = f"{move.number:4}  {sign}  {name:<24}"
        if move.loss is None or move.value is None or move.best_value is None:
            print(f"{begin}  {'no choice' if move.choices < 2 else 'not judged'}")
            return
        line = f"{begin}  {points_text(move.value):>7}"
        if move.best != move.move:
            best = rules.name_of_move(move.position, move.best)
            lost = points_text(move.loss).lstrip("+")
            line += f"  loses {lost:>5} {move.mark:<2}  best {best}, {points_text(move.best_value)}"
        print(colour_text(line, {"??": 31, "?": 33}[move.mark]) if move.mark in ("??", "?") else line.rstrip())

    def end(self, totals: list[Total]) -> None:
        from txlab.cli.match import points_text
        from txlab.cli.output import Column, table
        from txlab.cli.terminal import group_digits, sanitize

        titles = ("moves", "judged", "points lost", "a move", "?!", "?", "??")
        rows = []
        for each in totals:
            per_move = "–" if each.loss_per_move is None else points_text(each.loss_per_move).lstrip("+")
            rows.append(
                [
                    sanitize(each.name), group_digits(each.moves), group_digits(each.judged),
                    points_text(each.loss).lstrip("+"), sanitize(per_move),
                    *(group_digits(each.marks[mark]) for mark in ("?!", "?", "??")),
                ]
            )  # fmt: skip
        print()
        print(table([Column("player"), *(Column(title, "right") for title in titles)], rows))
        sys.stdout.flush()
