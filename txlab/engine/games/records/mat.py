"""Matches of backgammon in the format of Jellyfish, ".mat", as GNU Backgammon, XG and others write and read it.

     0 point match

     Game 1
     Ann : 0                        Bob : 0
      1)                             31: 8/5 6/5
      2) 64: 24/18 13/9              55: 8/3* 8/3* 6/1 6/1
      3) 62:                         …
          Wins 2 points

The player on the left is the first (X). Each column has its own point numbers, 24 … 1; 25 is the bar, 0 is off, a
star a hit; nothing after the dice is a player who cannot move. A match to 0 points has no end. The format has no
definition: it is written here as by GNU Backgammon's ExportGameJF, column for column, and what others write is read
too: "bar" and "off", "13/7" with both dice, "8/5(2)", comments, names in tags, cube actions, games that were resigned.

Notable: points are those of the file, so they include the doubling cube's factor; moves are not affected by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from txlab.engine.games.backgammon.rules import BAR, Board, Steps, step
from txlab.engine.games.game import CHANCE, FIRST, SECOND, Game, Position, read_move
from txlab.engine.games.records.record import PlayedGame, Record, Turn, numbered_lines
from txlab.errors import LabError, prefix_errors

ENDING = ".mat"
NOTE = "a match of backgammon in the format of Jellyfish"
SECOND_COLUMN = 34  # where GNU Backgammon begins the right column
BETWEEN = 18  # what begins before this column is on the left
LONGEST_NAME = 24
MOST_POINTS = 10_000

TAG = re.compile(r'^\s*[;#]\s*\[(?P<key>[A-Za-z0-9 ]+?) "(?P<value>[^"]*)"\]')
LENGTH = re.compile(r"^\s*(\d{1,5}) point match\b", re.IGNORECASE | re.ASCII | re.MULTILINE)
GAME = re.compile(r"^\s*Game (\d{1,6})$", re.IGNORECASE | re.ASCII)
SCORES = re.compile(r"^\s*([^:]+?)\s*:\s*\d{1,6}\s+([^:]+?)\s*:\s*\d{1,6}$", re.ASCII)
NUMBER = re.compile(r"^\s*\d{1,5}\)", re.ASCII)
ENTRY = re.compile(r"(?<!\S)(?:([1-6])([1-6]):|(doubles?|takes?|drops?|wins?|resigns?)\b)", re.IGNORECASE)
NO_MOVE = re.compile(r"\?*|cannot move\.?", re.IGNORECASE)


# Writing


def write(game: Game, record: Record) -> str:
    """The games of two players, of whom the first player of the first game is on the left. LabError for others."""
    names = record.names() or ["X", "O"]
    if len(names) != 2:
        raise LabError(f"a match of backgammon has two players; these games have {len(names)}")
    left, right = map(short_name, names)
    if left == right:
        left, right = f"{left[: LONGEST_NAME - 2]} 1", f"{right[: LONGEST_NAME - 2]} 2"
    tags = [f'; [Player {number} "{printable(name)}"]' for number, name in enumerate(names, 1)]
    lines = [*tags, "", f" {record.length} point match", ""]
    scores = [0, 0]
    for number, each in enumerate(record.games, 1):
        lines += [f" Game {number}", f" {f'{left} : {scores[0]}':<31}{right} : {scores[1]}"]
        lines += [*rows(each, names[0]), ""]
        points = each.points_of(names[0])
        if points:
            scores[0 if points > 0 else 1] += abs(points)
    return "\n".join(lines) + "\n"


def rows(played: PlayedGame, left: str) -> list[str]:
    """The numbered rows of a game, and who wins how many points."""
    left_side = FIRST if played.names[0] == left else SECOND
    entries = [(FIRST if turn.position[0] == left_side else SECOND, turn_text(turn)) for turn in played.turns]
    for before, side, words in reversed(played.actions):
        entries.insert(before, (FIRST if side == left_side else SECOND, f" {words}"))
    cells: list[str] = []
    for side, text in entries:
        if (side == FIRST) != (len(cells) % 2 == 0):
            cells.append("")
        cells.append(text)
    lines = [
        f"{at // 2 + 1:3d}) {cells[at]:<27} {''.join(cells[at + 1 : at + 2])}".rstrip()
        for at in range(0, len(cells), 2)
    ]
    if played.points:
        points = abs(played.points)
        indent = 6 if (played.points > 0) == (left_side == FIRST) else SECOND_COLUMN
        lines.append(f"{'':{indent}}Wins {points} point{'' if points == 1 else 's'}")
    return lines


def turn_text(turn: Turn) -> str:
    """ "31: 8/5 6/5" """
    _, dice, own, other = turn.position
    return f"{dice[0]}{dice[1]}: {' '.join(hops((own, other), turn.move))}".rstrip()  # type: ignore[arg-type]


def hops(board: Board, steps: Steps) -> list[str]:
    """One "from/to" for each die, with a star where a checker is hit."""
    words = []
    for point, die in steps:
        reached = step(board, point, die)
        if reached is None:
            raise LabError(f"no checker can go from {point + 1} by {die}")
        hit = "*" if reached[1][BAR] > board[1][BAR] else ""
        words.append(f"{point + 1}/{max(point - die, -1) + 1}{hit}")
        board = reached
    return words


def printable(name: str) -> str:
    return "".join(sign if sign.isprintable() and sign != '"' else "?" for sign in name)


def short_name(name: str) -> str:
    """The name as written in the columns: without a colon, which ends it, and of limited length."""
    short = " ".join(printable(name).replace(":", ".").split()) or "?"
    return short if len(short) <= LONGEST_NAME else f"{short[:9]}..{short[11 - LONGEST_NAME :]}"


# Reading


@dataclass
class Reading:
    """A game as far as it has been read."""

    game: Game
    position: Position
    turns: list[Turn] = field(default_factory=list)
    actions: list[tuple[int, int, str]] = field(default_factory=list)
    points: int | None = None
    ended: str = ""  # why nothing may follow
    names: tuple[str, str] | None = None

    def entry(self, side: int, dice: tuple[int, int] | None, words: str) -> None:
        """Take an entry of one column: a throw with its move, or an action."""
        if dice is not None:
            self.throw(side, dice, words)
            return
        action = words.split()[0].casefold()
        if action.startswith("win"):
            self.win(side, words)
        elif not action.startswith("resign"):
            self.actions.append((len(self.turns), side, " ".join(words.split())[:40]))
            if action.startswith("drop"):
                self.ended = "the double was dropped"

    def throw(self, side: int, dice: tuple[int, int], words: str) -> None:
        outcome = self.game.outcome(self.position)
        if self.ended or outcome is not None:
            raise LabError(f"a move after the end of the game: {self.ended or 'all checkers have been borne off'}")
        thrown = max(dice), min(dice)
        options = [each for each, _ in self.game.chances(self.position)]
        begun = self.position[0] != CHANCE
        if begun and self.position[0] != side:
            raise LabError(f"{self.player(side)} moves out of turn")
        position = next((each for each in options if each[1] == thrown and each[0] == side), None)
        if position is None:
            raise LabError(f"a game begins with two different dice, not {dice[0]}-{dice[1]}")
        legal = self.game.legal(position)
        if NO_MOVE.fullmatch(words):
            if len(legal) > 1:  # the dice had been thrown when the player resigned
                self.ended = f"{self.player(side)} made no move"
                return
            move = legal[0]
        elif words.casefold().startswith("illegal play"):
            raise LabError("a game with an illegal play cannot be followed")
        else:
            move = read_move(self.game, position, words)
        self.turns.append(Turn(position, move))
        self.position = self.game.after(position, move)

    def win(self, side: int, words: str) -> None:
        match = re.match(r"wins?\s+(\d{1,5})\s+points?\b", words, re.IGNORECASE | re.ASCII)
        if match is None or not 0 < int(match[1]) <= MOST_POINTS:
            raise LabError(f"{words[:40]!r} should be 'Wins 1 point'")
        outcome = self.game.outcome(self.position)
        if outcome is not None and (outcome > 0) != (side == FIRST):
            raise LabError(f"{self.player(side)} is to win, but has not borne off all checkers; the other has")
        self.points = int(match[1]) * side
        self.ended = self.ended or "a player has won"

    def player(self, side: int) -> str:
        return (self.names or ("the left player", "the right player"))[0 if side == FIRST else 1]

    def finish(self, names: tuple[str, str]) -> PlayedGame:
        points = self.game.outcome(self.position) if self.points is None else self.points
        return PlayedGame(names, tuple(self.turns), points, tuple(self.actions))


def recognises(game: Game, text: str) -> bool:
    return LENGTH.search(text[:20_000]) is not None


def read(game: Game, text: str) -> Record:
    """LabError naming the line where the text is not such a file, or where a game does not follow the rules."""
    tags: dict[str, str] = {}
    length: int | None = None
    games: list[Reading] = []
    for number, line in numbered_lines(text):
        with prefix_errors(f"line {number}"):
            if not line.strip():
                continue
            if line.lstrip()[0] in ";#":
                if tag := TAG.match(line):
                    tags[tag["key"]] = tag["value"]
                if line.lstrip("; ").startswith("Set Pos=") or tags.get("Variation", "Backgammon") != "Backgammon":
                    raise LabError("only games that begin in the usual position of backgammon can be read")
            elif length is None:
                match = LENGTH.match(line)
                if match is None:
                    raise LabError(f"{line.strip()[:40]!r} should be '0 point match', as such files begin")
                length = int(match[1])
            elif GAME.match(line):
                games.append(Reading(game, game.start()))
            elif not games:
                raise LabError(f"{line.strip()[:40]!r} should be 'Game 1'")
            elif games[-1].names is None:
                games[-1].names = read_names(line)
            else:
                read_row(games[-1], line)
    if length is None:
        raise LabError("line 1: there is no match in it; such files begin with '0 point match'")
    if not games:
        raise LabError("there is no game in it; a game begins with 'Game 1'")
    first = games[0].names or ("X", "O")
    names = tags.get("Player 1") or first[0], tags.get("Player 2") or first[1]
    if names[0] == names[1]:
        names = f"{names[0]} 1", f"{names[1]} 2"
    return Record(tuple(each.finish(names) for each in games), length)


def read_names(line: str) -> tuple[str, str]:
    if match := SCORES.match(line):
        return match[1], match[2]
    parts = re.split(r"\s{2,}", line.strip())
    if len(parts) != 2 or NUMBER.match(line):
        raise LabError(f"{line.strip()[:40]!r} should be the players and their points, 'Ann : 0    Bob : 0'")
    return parts[0], parts[1]


def read_row(reading: Reading, line: str) -> None:
    """Take the entries of one row, at most one in each column."""
    begin = number.end() if (number := NUMBER.match(line)) else 0
    line = " " * begin + line[begin:]
    if not line.strip():
        return  # the row of a move that was not made
    starts = list(ENTRY.finditer(line, begin))
    if not starts or line[begin : starts[0].start()].strip():
        raise LabError(f"{line[begin:].strip()[:40]!r} is not a throw and a move, as in '31: 8/5 6/5'")
    if len(starts) > 2:
        raise LabError("a row has at most one entry for each player")
    ends = [*(each.start() for each in starts[1:]), len(line)]
    for place, (entry, end) in enumerate(zip(starts, ends, strict=True)):
        is_left = place == 0 and (len(starts) == 2 or entry.start() < BETWEEN)
        dice = (int(entry[1]), int(entry[2])) if entry[1] else None
        words = line[entry.end() if dice else entry.start() : end].strip()
        reading.entry(FIRST if is_left else SECOND, dice, words)
