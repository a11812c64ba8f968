"""Maps: what a user draws means what it shows, edits keep it legal, and what cannot be is said in one sentence."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from txlab.engine.rl.maps.compiling import ENDLESS, compile_map, match_states
from txlab.engine.rl.maps.drawn import ACTIONS, Map, parse_map
from txlab.engine.rl.maps.tiles import Tile
from txlab.engine.rl.process import Outcome
from txlab.engine.rl.world import World
from txlab.engine.rl.worlds import change_world, world_named
from txlab.errors import LabError


def outcomes(world: World, row: int, column: int, action: str) -> list[Outcome]:
    state = world.layout.state_at(row, column)
    assert state is not None
    return world.process.outcomes(state, world.process.actions.index(action))


def goes(world: World, row: int, column: int, action: str) -> dict[tuple[int, int], float]:
    """{cell: probability} of what follows."""
    return {tuple(world.layout.place[o.next, 1:]): o.probability for o in outcomes(world, row, column, action)}


def drawn(text: str) -> World:
    return compile_map(parse_map(text))


def test_states_are_the_free_cells_in_reading_order() -> None:
    world = drawn("S.C\n#.G")
    assert world.process.states == ("(0,0)", "(0,1)", "(1,1)", "(1,2)")
    assert world.process.terminal.tolist() == [False, False, False, True]
    assert world.layout.marks == {(0, 0): "S", (0, 2): "C", (1, 0): "#", (1, 2): "G"}
    assert world.map is not None
    assert world.map.rows == ("S.C", "#.G")


def test_walls_and_edges_stop_a_move_and_the_cliff_sends_back() -> None:
    world = drawn("step: -1\n\nS.C\n#.G")
    assert outcomes(world, 0, 0, "up") == [Outcome(1.0, 0, -1.0)]
    assert outcomes(world, 0, 0, "down") == [Outcome(1.0, 0, -1.0)]
    assert outcomes(world, 0, 1, "right") == [Outcome(1.0, 0, -100.0)]
    assert outcomes(world, 1, 1, "right") == [Outcome(1.0, 3, -1.0, True)]


def test_slip_goes_to_the_two_sides_evenly_and_what_was_meant_comes_first() -> None:
    world = drawn("slip: 0.2\n\n...\n.S.\n..G")
    assert goes(world, 1, 1, "up") == pytest.approx({(0, 1): 0.8, (1, 0): 0.1, (1, 2): 0.1})
    assert next(iter(goes(world, 1, 1, "left"))) == (1, 0)
    king = compile_map(replace(parse_map("slip: 0.2\n\n...\n.S.\n..G"), moves="king-stay"))
    assert goes(king, 1, 1, "up") == pytest.approx({(0, 1): 0.8, (0, 0): 0.1, (0, 2): 0.1})
    assert goes(king, 1, 1, "stay") == {(1, 1): 1.0}
    row = drawn("moves: sideways\nslip: 0.2\n\n.S.G")
    assert goes(row, 0, 1, "left") == pytest.approx({(0, 0): 0.8, (0, 2): 0.2})


def test_outcomes_that_are_the_same_are_one() -> None:
    world = drawn("slip: 2/3\n\nS.\n.G")
    assert goes(world, 0, 0, "left") == pytest.approx({(0, 0): 2 / 3, (1, 0): 1 / 3})
    assert len(outcomes(world, 0, 0, "left")) == 2


def test_wind_is_that_of_the_column_left_and_blows_over_the_cells_between() -> None:
    world = drawn("wind: 0 2 0\n\n.G.\n.H.\n.S.\n...")
    assert goes(world, 2, 1, "right") == {(0, 2): 1.0}
    assert goes(world, 2, 0, "right") == {(2, 1): 1.0}
    assert goes(world, 3, 1, "down") == {(2, 1): 1.0}  # a displacement of one up in all: S&B sum before they clip
    down = drawn("wind: 0 -1\n\nS.\n..\nG.")
    assert goes(down, 0, 1, "right") == {(1, 1): 1.0}


def test_wind_is_stopped_by_walls() -> None:
    world = drawn("wind: 3 0\n\nG.\n#.\nS.\n..")
    assert goes(world, 3, 0, "left") == {(2, 0): 1.0}


def test_a_kings_move_slides_along_a_wall() -> None:
    world = drawn("moves: king\n\nS#G\n...")
    assert goes(world, 0, 0, "up-right") == {(0, 0): 1.0}
    assert goes(world, 1, 0, "up-right") == {(1, 1): 1.0}
    assert goes(world, 1, 1, "down-left") == {(1, 0): 1.0}


def test_a_king_goes_round_a_corner_both_ways() -> None:
    world = drawn("moves: king\n\nS#G\n...")
    assert goes(world, 0, 0, "down-right") == {(1, 1): 1.0}
    assert goes(world, 1, 1, "up-left") == {(0, 0): 1.0}
    assert goes(world, 1, 1, "up-right") == {(0, 2): 1.0}


def test_bumping_is_paid_where_one_stays_and_not_for_staying() -> None:
    world = drawn("moves: king-stay\nbump: -5\nstep: -1\n\nS.G")
    assert [o.reward for o in outcomes(world, 0, 0, "left")] == [-5]
    assert [o.reward for o in outcomes(world, 0, 0, "stay")] == [-1]
    assert [o.reward for o in outcomes(world, 0, 0, "up-right")] == [-1]  # slides to the right


def test_own_signs_pay_add_lead_and_are_left() -> None:
    world = drawn(
        "step: -1\nA: leads to a\na: floor\nP: pays 3\nQ: adds 3\nL: leaving pays 7, leaving leads to a\n"
        "\nSA.PQ\n.a.LC\n....G"
    )
    assert [(o.next, o.reward) for o in outcomes(world, 0, 0, "right")] == [(world.layout.state_at(1, 1), -1)]
    assert [o.reward for o in outcomes(world, 0, 2, "right")] == [3]
    assert [o.reward for o in outcomes(world, 0, 3, "right")] == [2]
    for action in ACTIONS["4"]:
        assert goes(world, 1, 3, action) == {(1, 1): 1.0}
        assert [o.reward for o in outcomes(world, 1, 3, action)] == [7]


def test_several_starts_are_alike_and_the_cliff_sends_to_any_of_them() -> None:
    world = drawn("start: any\n\nS.S\n.C.\n..G")
    assert world.process.start[:3].tolist() == [0.5, 0, 0.5]
    assert goes(world, 0, 1, "down") == {(0, 0): 0.5, (0, 2): 0.5}
    everywhere = drawn("start: everywhere\n\n..H\n#.G")
    assert everywhere.process.start.tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3, 0])


def test_a_world_that_nothing_ends_is_cut_off_and_says_so() -> None:
    world = drawn("P: pays 3\n\nS.P")
    assert world.process.limit == ENDLESS
    assert "cut off after 1000 steps" in world.notes[0]
    assert drawn("limit: 7\nP: pays 3\n\nS.P").process.limit == 7
    assert drawn("S.G").process.limit == 0
    assert "cut off after 50" in drawn("limit: 50\n\nS.G#.").notes[0]


IMPOSSIBLE = [
    ("", "there is no map"),
    ("S..", "the map has neither a goal nor a reward: "),
    ("step: -1\n\nS..", "the map has neither a goal nor a reward: "),
    ("title: nothing\n", "there is no map"),
    ("..G", "no start"),
    ("S.S\n..G", "2 starts, at (0,0) and (0,2)"),
    ("start: everywhere\n\nGH#", "no cell to start in"),
    ("S#G", "the goal at (0,2) cannot be reached"),
    ("SHG", "the goal at (0,2) cannot be reached"),
    (
        "wind: 0 1\n\n..\nS.\n.G",
        "",
    ),  # a column's wind moves an agent that leaves it: reachable from the left
    ("wind: 1 1 1\n\n...\n...\nS.G", "the goal at (2,2) cannot be reached"),
    ("S.G\n###\n...", "from the cell at (2,0)"),
    ("A: leads to a\n\nSA.G", "A leads to a, of which the map has 0 cells"),
    ("A: leads to a\na: floor\n\nSAa\na.G", "2 cells"),
    ("A: leads to C\n\nSAC\n..G", "which cannot be occupied"),
    ("S.G\n..", "line 2: 2 cells where the first row has 3"),
    ("S.x", "line 1: column 3: x has no meaning"),
    ("S.G\n. .", "column 2: ' ' is not a sign"),
    ("S.世", r"'\u4e16' is not a sign"),
    ("S.\x1b[31mG", r"'\x1b' is not a sign"),
    ("S.\tG", r"'\t' is not a sign"),
    ("stepp: 1\n\nSG", "line 1: 'stepp' is not a key of a map (nearest: step)"),
    ("step: one\n\nSG", "line 1: step = 'one' must be a number"),
    ("step: nan\n\nSG", "must be a number"),
    ("step: 1/0\n\nSG", "must be a number"),
    ("step: 1e300\n\nSG", "line 1: step: the reward"),
    ("slip: 1.5\n\nSG", "line 1: slip = 1.5 must be from 0 to 1"),
    ("discount: -1\n\nSG", "discount = -1"),
    ("limit: 1.5\n\nSG", "limit = '1.5' must be a whole number"),
    ("limit: ٣\n\nSG", "must be a whole number"),
    ("limit: -3\n\nSG", "limit = -3"),
    ("limit: 999999999\n\nSG", "limit = 999999999"),
    ("moves: queen\n\nSG", "allowed: 4, king"),
    ("start: here\n\nSG", "allowed: one, any, everywhere"),
    ("wind: 1 2 3\n\nSG", "3 numbers where the map has 2 columns"),
    ("wind: 10 0\n\nSG", "from −9 to 9"),
    ("wind: " + "0 " * 500 + "\n\nSG", "400 columns at most"),
    ("step: 1\nstep: 2\n\nSG", "line 2: step is given twice"),
    (".: wall\n\nSG", "always floor"),
    ("#: floor\n\nSG", "always wall"),
    ("A: jumps\n\nSG", "allowed: floor, wall"),
    ("A: pays\n\nSG", "A says 'pays'"),
    ("A: pays much\n\nSG", "a number must follow"),
    ("A: leads to nowhere\n\nSG", "a sign"),
    ("A: pays 1, pays 2\n\nSG", "twice"),
    ("A: pays 1, adds 2\n\nSG", "only one of the two"),
    ("A: wall, pays 1\n\nSG", "is a wall"),
    ("A: goal, leads to a\n\nSG", "ends the episode"),
    ("A: leads to a, leaving pays 1\n\nSG", "elsewhere on arrival"),
    ("SG\n\nstep: 1", "line 3: 'step: 1' has a colon"),
    ("S.\n\n.G", "line 3: the map continues after an empty line"),
    ("title: \x1b[2J\n\nSG", "line 1: title must be one printable line"),
    ("title: " + "x" * 200 + "\n\nSG", "at most 120"),
    ("." * 401, "400 columns"),
    (("." * 300 + "\n") * 300, "is too large"),
]


@pytest.mark.parametrize(("text", "said"), IMPOSSIBLE)
def test_an_impossible_setting_is_a_readable_error(text: str, said: str) -> None:
    if not said:
        drawn(text)
        return
    with pytest.raises(LabError) as caught:
        drawn(text)
    message = str(caught.value)
    assert said in message
    assert message.isprintable()
    assert len(message) < 400


def test_an_enormous_map_is_refused_before_anything_large_is_made() -> None:
    row = "." * 10_000
    text = "\n".join([row] * 10_000)  # 100 MB, made before the measurement
    tracemalloc.start()
    with pytest.raises(LabError, match="too large"):
        parse_map(text)
    with pytest.raises(LabError, match="too large"):
        Map(rows=(row,) * 10_000)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_starts_everywhere_and_cliffs_to_all_of_them_are_bounded() -> None:
    half = ("." * 100 + "\n") * 99
    cliffs = ("C." * 50 + "\n") * 99
    with pytest.raises(LabError, match="more than 4000000 outcomes"):
        drawn(f"start: everywhere\nmoves: king\n\n{half}{cliffs}G" + "." * 99)


# Edits


def test_edits_give_new_maps_and_leave_the_old_one_alone() -> None:
    old = parse_map("S..\n..G")
    new = old.with_cell(0, 1, "#").with_cell(1, 0, "H").with_slip(0.1)
    assert old.rows == ("S..", "..G")
    assert new.rows == ("S#.", "H.G")
    assert new.slip == 0.1


def test_a_new_start_takes_the_place_of_the_old_one() -> None:
    assert parse_map("S..\n..G").with_cell(1, 0, "S").rows == ("...", "S.G")
    assert parse_map("start: any\n\nS..\n..G").with_cell(1, 0, "S").rows == ("S..", "S.G")


def test_a_reward_gets_its_own_sign_and_shares_it_with_equals() -> None:
    map = parse_map("step: -1\n\nS..\n..G").with_reward(0, 1, 5).with_reward(0, 2, 5).with_reward(1, 2, 9)
    assert map.rows == ("S11", "..2")
    assert map.signs == {"1": Tile(pays=5.0), "2": Tile(goal=True, pays=9.0)}
    world = compile_map(map)
    assert [o.reward for o in outcomes(world, 0, 0, "right")] == [5]
    assert outcomes(world, 1, 1, "right") == [Outcome(1.0, 5, 9.0, True)]
    start = map.with_reward(0, 0, 2)
    assert compile_map(start).process.start[0] == 1.0


def test_turning_a_reward_many_times_uses_up_no_signs() -> None:
    map = parse_map("S..\n..G")
    for reward in range(200):
        map = map.with_reward(0, 1, reward)
    assert map.tile(0, 1).pays == 199
    assert parse_map(map.text()) == map


def test_a_reward_that_is_there_already_changes_nothing_and_takes_no_sign_that_others_mean() -> None:
    cliff = parse_map("SC.\n..G")
    assert cliff.with_reward(0, 1, -100) == cliff
    door = parse_map("1: floor\nA: leads to 1\n\nS..\n..G").with_reward(0, 1, 5)
    assert door.rows == ("S2.", "..G")


@pytest.mark.parametrize(
    "edit",
    [
        lambda map: map.with_cell(2, 0, "."),
        lambda map: map.with_cell(-1, 0, "."),
        lambda map: map.with_cell(0, 0, "x"),
        lambda map: map.with_cell(0, 0, "..."),
        lambda map: map.with_cell(0, 0, ""),
        lambda map: map.with_reward(0, 9, 1),
        lambda map: map.with_reward(0, 1, 1),
        lambda map: map.with_reward(0, 0, float("nan")),
        lambda map: map.with_reward(0, 0, float("inf")),
        lambda map: map.with_slip(1.1),
        lambda map: map.with_slip(float("nan")),
    ],
)
def test_edits_that_cannot_be_are_refused(edit: object) -> None:
    with pytest.raises(LabError) as caught:
        edit(parse_map("S#\n.G"))  # type: ignore[operator]
    assert str(caught.value).isprintable()


def test_what_was_learnt_is_carried_over_by_the_cell() -> None:
    old = drawn("S..\n..G")
    assert old.map is not None
    new = compile_map(old.map.with_cell(0, 1, "#"))
    assert match_states(old, new).tolist() == [0, 2, 3, 4, 5]
    assert match_states(new, old).tolist() == [0, -1, 1, 2, 3, 4]
    hole = compile_map(old.map.with_cell(0, 1, "H"))
    assert match_states(old, hole).tolist() == [0, -1, 2, 3, 4, 5]
    assert match_states(hole, old).tolist() == [0, -1, 2, 3, 4, 5]
    king = compile_map(replace(old.map, moves="king"))
    assert (match_states(old, king) == -1).all()


def test_what_was_learnt_is_carried_over_by_the_layer() -> None:
    taxi = world_named("taxi")
    assert match_states(taxi, taxi).tolist() == list(range(500))


# Overrides


def test_discount_limit_and_slip_can_be_others() -> None:
    cliff = world_named("cliff")
    other = change_world(cliff, discount=0.9, limit=77, slip=0.5)
    assert (other.process.discount, other.process.limit) == (0.9, 77)
    assert (other.name, other.title, other.source) == (cliff.name, cliff.title, cliff.source)
    assert np.diff(other.process.first).max() > 1
    taxi = change_world(world_named("taxi"), discount=0.9, limit=0)
    assert (taxi.process.discount, taxi.process.limit) == (0.9, 0)
    assert change_world(cliff) is cliff
    for arguments in ({"slip": 0.1}, {"limit": -1}, {"discount": 2.0}):
        with pytest.raises(LabError):
            change_world(world_named("taxi"), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", ["٣", "１", "1_0", "²", "1e400", "nan", "1/0", "inf"])
def test_a_number_is_finite_and_of_ascii_digits(number: str) -> None:
    with pytest.raises(LabError, match=r"line 1: step = .* must be a number"):
        parse_map(f"step: {number}\n\nS.G")
