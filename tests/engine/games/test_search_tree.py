"""A search looked into while it grows: its tree, and each visit, against a plain recursive search."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from calculator import miscalculated
from independent import puct
from test_connect_four_search import C, guess
from waiting import LONGEST

from txlab.engine.games.catalogue import OURS
from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.network import Evaluate, Remembered
from txlab.engine.games.connect_four.players import SearchPlayer, SolverPlayer, rollout_player
from txlab.engine.games.connect_four.solver import solver
from txlab.engine.games.connect_four.tree import PuctSearch, PuctTree
from txlab.engine.games.search_tree import Path, favourite_line, positions


def choices_of(node: puct.Node, position: tuple[int, int], moves: Path) -> list[tuple[int, float, float]]:
    """(move, Q, U) of what a visit chooses in a plain tree, before it is made."""
    found = []
    for move in moves:
        found.append((move, node.Q(move), node.U(move, C)))
        legal = rules.legal(position)
        assert move == max(legal, key=lambda a: node.Q(a) + node.U(a, C))
        position = rules.after(position, move)
        if move in node.below:
            node = node.below[move]
    return found


@pytest.mark.parametrize("text", ["", "4433", "4444441", "71727"])
def test_each_visit_is_the_selection_the_expansion_the_value_and_the_backup_of_a_plain_search(text: str) -> None:
    position = rules.read(text)
    search, plain = PuctSearch("search", position, guess, C), puct.new_node(position, guess, False)
    ended = 0
    for number in range(1, 121):
        search.visit()
        tree = search.tree()
        visit = tree.last
        assert visit is not None
        expected = choices_of(plain, position, visit.path)
        found = [number for each in visit.choices for number in (each.move, each.before.Q, each.before.U)]
        assert found == pytest.approx([number for each in expected for number in each])
        value = puct.visit(plain, position, guess, C)
        assert visit.choices[0].back == pytest.approx(value)
        node, sign = plain, 1.0
        for choice in visit.choices:
            assert choice.back == pytest.approx(sign * value)
            assert (node.N[choice.move] - 1, node.N[choice.move]) == (choice.before.N, choice.after.N)
            assert pytest.approx(node.Q(choice.move)) == choice.after.Q
            node, sign = node.below.get(choice.move, node), -sign
        assert visit.value == pytest.approx(sign * value)
        reached = positions(rules, position, visit.path)[-1]
        assert visit.expanded == (rules.outcome(reached) is None)
        assert (tree.node(visit.path) is not None) == visit.expanded
        ended += not visit.expanded
        assert (tree.visits, search.visits, tree.nodes) == (number, number, 1 + number - ended)


def walked(tree: PuctTree, plain: puct.Node, path: Path = ()) -> int:
    """Compare all nodes; return their number."""
    node = tree.node(path)
    assert node is not None
    assert node.visits == 1 + sum(plain.N)
    assert node.value == pytest.approx((plain.V + sum(plain.W)) / node.visits)
    assert [each.move for each in node.branches] == list(rules.legal(node.position))
    for each in node.branches:
        assert plain.N[each.move] == each.N
        assert pytest.approx(plain.P[each.move]) == each.P
        assert pytest.approx((plain.Q(each.move), plain.U(each.move, C))) == (each.Q, each.U)
        assert (each.move in plain.below) == (tree.node((*path, each.move)) is not None)
    return 1 + sum(walked(tree, below, (*path, move)) for move, below in plain.below.items())


def test_a_tree_equals_a_plain_searchs_and_stays_fixed_while_the_search_continues() -> None:
    position = rules.read("4444441")
    search = PuctSearch("search", position, guess, C)
    for _ in range(90):
        search.visit()
    tree = search.tree()
    for _ in range(60):
        search.visit()
    assert walked(tree, puct.searched(position, guess, 90, C)) == tree.nodes
    assert walked(search.tree(), puct.searched(position, guess, 150, C)) == search.tree().nodes
    line = favourite_line(tree)
    for at in range(len(line)):
        node = tree.node(line[:at])
        assert node is not None
        assert node.favourite.move == line[at]


def test_a_tree_continues_from_the_players_search_which_stays_unchanged() -> None:
    player = SearchPlayer("search", guess, visits=50, c=C)
    position = rules.read("44")
    fresh = player.tree(position)
    assert fresh is not None
    assert fresh.visits == 0
    values = player.values(position)
    search = player.tree(position)
    assert search is not None
    assert (search.visits, search.tree().last) == (50, None)
    for _ in range(30):
        search.visit()
    assert player.values(position) == values
    tree = search.tree()
    assert isinstance(tree, PuctTree)
    walked(tree, puct.searched(position, guess, 80, C))
    assert search.anew().visits == 0


def test_what_is_explained_of_a_move_is_its_score_and_of_the_root_its_value() -> None:
    search = PuctSearch("search", rules.read("4433"), guess, C)
    for _ in range(200):
        search.visit()
    tree = search.tree()
    for path in ((), (2,), favourite_line(tree)[:2], favourite_line(tree)[:3]):
        why = tree.explain(path)
        assert miscalculated([*why.steps, *why.meaning], within=1e-3) == []
        node = tree.node(path[:-1])
        assert node is not None
        assert why.result == pytest.approx(node.branch(path[-1]).score if path else node.value)


def test_a_player_has_a_tree_exactly_where_it_searches() -> None:
    for entry in OURS:
        trees = {each.name: each.make_player(entry.game).tree(entry.game.start()) is not None for each in entry.players}
        searching = {"perfect", "search"} if entry.name == "connect-four" else set()
        assert {name for name, has in trees.items() if has} == searching
    solved = rules.play(rules.read_moves("4444433355522277117711"))
    assert rules.plies(solved) >= solver().quick_from
    assert SolverPlayer().tree(solved) is None
    assert rollout_player(rules).tree(solved) is not None  # type: ignore[arg-type]
    assert rollout_player(rules).tree(rules.read("1212121")) is None  # type: ignore[arg-type]  # X has won


def test_a_network_queried_by_two_threads_concurrently_answers_each() -> None:
    """The second of two threads that ask about a position waits until the first has its answer."""
    asking, go_on = threading.Event(), threading.Event()

    def slow(own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asking.set()
        assert go_on.wait(LONGEST)
        return guess(own, both)

    ask: Evaluate = Remembered(slow)
    own, both = (np.array([each]) for each in rules.own_and_both(rules.read("4453")))
    answers: list[tuple[np.ndarray, np.ndarray]] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(own, both))) for _ in range(2)]
    threads[0].start()
    assert asking.wait(LONGEST)
    threads[1].start()
    threads[1].join(0.2)  # without a lock it has answered by now
    go_on.set()
    for thread in threads:
        thread.join(LONGEST)
    expected = guess(own, both)
    mirrored = guess(rules.mirror(own), rules.mirror(both))
    assert len(answers) == 2
    for priors, values in answers:
        assert values[0] in (expected[1][0], mirrored[1][0])
        assert priors[0].tolist() in (expected[0][0].tolist(), mirrored[0][0, ::-1].tolist())
