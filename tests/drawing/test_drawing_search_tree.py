"""The tree of a search in characters: each number of a line is one of the tree, and nothing is wider than its room."""

from __future__ import annotations

import pytest

from txlab.drawing.boards import value_text
from txlab.drawing.formatting import share
from txlab.drawing.search_tree import Line, heading_line, layout, line_words, row_line, tree_rows, visit_lines
from txlab.drawing.text import width
from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.players import rollout_player
from txlab.engine.games.connect_four.tree import PuctTree
from txlab.engine.games.search_tree import Path, favourite_line, positions


def searched(text: str, visits: int) -> PuctTree:
    search = rollout_player(rules).tree(rules.read(text))  # type: ignore[arg-type]
    assert search is not None
    for _ in range(visits):
        search.visit()
    tree = search.tree()
    assert isinstance(tree, PuctTree)
    return tree


TREE = searched("4453", 150)
LINE = favourite_line(TREE)
OPEN = {LINE[:1], LINE[:2], LINE[:3]}


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


def test_the_lines_are_the_moves_of_the_opened_nodes_each_below_its_parent() -> None:
    rows = tree_rows(rules, TREE, OPEN, LINE[:2])

    def expected(path: Path) -> list[Path]:
        found = [path]
        node = TREE.node(path)
        if node is not None and (path in OPEN or not path):
            for move in rules.legal(node.position):
                found += expected((*path, move))
        return found

    assert [row.path for row in rows] == expected(())
    assert {row.path for row in rows if row.passed} == {(), LINE[:1], LINE[:2]}
    for path in ((), *OPEN):
        node = TREE.node(path)
        assert node is not None
        below = [row for row in rows if row.path[:-1] == path and row.path]
        assert sum(row.N for row in below) == node.visits - 1
        assert sum(row.share for row in below) == pytest.approx(1)
        assert [row.path[-1] for row in below if row.next] == [node.next.move]


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("cells", [18, 24, 35, 48, 57, 66, 120])
def test_a_line_has_the_numbers_of_its_move_and_fills_its_room(cells: int, ascii: bool) -> None:
    at = layout(cells)
    head = text_of(heading_line(cells))
    for row in tree_rows(rules, TREE, OPEN, LINE[:2]):
        line = text_of(row_line(row, cells, row.path == LINE[:1], ascii))
        assert width(line) == width(head) + (2 if "Q+U" in at.numbers else 0)
        assert width(line) <= max(cells, 20)
        assert line.startswith((">" if ascii else "▸") if row.path == LINE[:1] else " ")
        assert line[1] == (("*" if ascii else "•") if row.passed else " ")
        assert f" {row.N} " in line
        assert value_text(row.value, 3) in line
        if row.branch is not None and "Q+U" in at.numbers:
            numbers = (share(row.branch.P), share(row.branch.U, 3), value_text(row.branch.score, 3))
            assert line.split()[-3 - row.next :][:3] == list(numbers)
            assert (line[-1] in "<›") == row.next
        if row.branch is not None and cells >= 35:
            assert row.name in line


def test_what_is_shown_on_a_narrow_screen_are_the_numbers_of_the_choice_before_bars() -> None:
    assert [layout(cells).numbers for cells in (24, 35, 57)] == [
        ("N", "Q"),
        ("N", "Q", "P", "U"),
        ("N", "Q", "P", "U", "Q+U"),
    ]
    assert layout(57).bar >= 4
    assert layout(35).bar == 0


@pytest.mark.parametrize("rows", [2, 4, 6, 12])
@pytest.mark.parametrize("cells", [30, 56, 76, 108])
def test_a_visit_is_shown_with_what_it_chose_where_it_ended_and_what_came_back(cells: int, rows: int) -> None:
    for visits in (1, 40, 150, 151):
        tree = searched("4453", visits)
        visit = tree.last
        assert visit is not None
        lines = [text_of(line) for line in visit_lines(rules, tree.position, visits, visit, cells, rows)]
        assert 2 <= len(lines) <= rows
        assert all(width(line) <= cells for line in lines)
        assert lines[0].startswith(f"visit {visits}")
        assert ("expansion" in lines[-1]) == visit.expanded
        reached = positions(rules, tree.position, visit.path)
        if cells >= 76:
            told = lines[1 if len(visit.choices) + 2 <= rows else 2 : -1]
            shown = visit.choices[len(visit.choices) - len(told) :]
            assert len(told) >= min(len(visit.choices), rows - 3)
            before = reached[len(visit.choices) - len(told) :]
            for line, choice, position in zip(told, shown, before, strict=False):
                assert line.split()[:2] == ["XO"[rules.mover(position) < 0], rules.MOVES[choice.move]]
                assert line.split()[2:] == [
                    value_text(choice.before.Q, 3), "+", share(choice.before.U, 3), "=",
                    value_text(choice.before.score, 3), value_text(choice.back, 3), str(choice.after.N),
                    value_text(choice.after.Q, 3),
                ]  # fmt: skip
            assert lines[-1].rstrip().endswith(f"V = {value_text(visit.value, 3)}") or not visit.expanded


def test_a_visit_that_ends_the_game_says_who_has_won() -> None:
    tree = searched("112233", 1)
    for _ in range(60):
        if tree.last is not None and not tree.last.expanded:
            break
        tree = searched("112233", tree.visits + 1)
    visit = tree.last
    assert visit is not None
    result = rules.outcome(positions(rules, tree.position, visit.path)[-1])
    assert result is not None
    lines = visit_lines(rules, tree.position, tree.visits, visit, 76, 9)
    assert "has won" in text_of(lines[-1])
    assert ("X has won" in text_of(lines[-1])) == (result > 0)
    row = next(row for row in tree_rows(rules, tree, set()) if row.path == (3,))
    assert row.branch is not None
    assert row.branch.ends  # the fourth in the bottom row
    assert row.sign == "■"


def test_a_line_of_moves_names_who_makes_each() -> None:
    assert line_words(rules, rules.read("44"), (3, 0, 6)) == "X 4, O 1, X 7"
