"""Where a process gets to and from where it can end, against powers of its graph."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from txlab.engine.rl.maps.compiling import can_end, reachable
from txlab.engine.rl.process import Outcome, compile_process

outcome = st.tuples(st.integers(0, 5), st.sampled_from([0.0, 1.0]), st.booleans())


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1), outcome, st.integers(0, 5)), max_size=9), st.integers(0, 5)
)
def test_reaching_is_what_powers_of_the_graph_say(
    pairs: list[tuple[int, int, tuple[int, float, bool], int]], start: int
) -> None:
    outcomes = {(start, 0): [Outcome(1.0, start, 0.0)]}
    for s, a, (to, p, done), other in pairs:
        outcomes[s, a] = [Outcome(p, to, -1.0, done), Outcome(1 - p, other, -1.0)]
    process = compile_process(["a", "b"], [str(s) for s in range(6)], outcomes, start)
    graph, ends = np.eye(6, dtype=bool), process.terminal.copy()
    for (s, _), found in outcomes.items():
        for each in found:
            graph[s, each.next] |= each.probability > 0
            ends[s] |= each.probability > 0 and each.done
    closure = np.linalg.matrix_power(graph.astype(np.int64), 6) > 0
    assert reachable(process).tolist() == closure[start].tolist()
    assert can_end(process).tolist() == (closure[:, ends].any(axis=1)).tolist()


def test_a_process_that_ends_in_place_can_end() -> None:
    process = compile_process(
        ["a"], ["0", "1"], {(0, 0): [Outcome(1.0, 0, 0.0, True)], (1, 0): [Outcome(1.0, 1, 0.0)]}, 0
    )
    assert can_end(process).tolist() == [True, False]
    assert reachable(process).tolist() == [True, False]
