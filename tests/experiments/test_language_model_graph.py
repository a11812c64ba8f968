"""Attention along any directed graph, from a scenario: what reaches a node, and how it is seen (MATH T2, K3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from decided import DECIDED
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from txlab.engine.interpret.activation_cache import run_with_cache
from txlab.engine.interpret.sites import Text
from txlab.engine.interpret.why import why_pattern
from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.scoring import score_text
from txlab.errors import LabError
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.kinds.language_model.symbols import origins
from txlab.experiments.learning.explanations import explain_attention
from txlab.experiments.learning.text_data import NOT_SCORED
from txlab.runs.scenario import load_scenario

GRAPH = ["0>1>2>0", "5>4>3", "3>3"]  # a ring, a chain that runs backwards to a node that sees itself; 5 sees no other


def scenario(**changes: Any) -> LanguageModelScenario:
    sections: dict[str, Any] = {
        "seed": 2,
        "data": {"source": "graph", "vocabulary": 9},
        "model": {"layers": 2, "heads": 2, "width": 16, "context": 6, "graph": GRAPH},
        "train": {"steps": 20, "batch": 16, "warmup": 2, "validation_batches": 2},
        "sampling": {"prompts": []},
        "probe": {"positions": 6},
        "compute": DECIDED,
    }  # fmt: skip
    for name, section in changes.items():
        sections[name] = {**sections[name], **section}
    return LanguageModelScenario.model_validate(sections)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14), st.integers(1, 5))
def test_an_origin_is_where_the_only_walk_of_that_length_begins(edges: list[tuple[int, int]], hops: int) -> None:
    """Powers of the adjacency matrix count walks."""
    sees = np.zeros((6, 6), dtype=np.int64)
    for j, i in edges:
        sees[i, j] = 1
    walks = np.linalg.matrix_power(sees, hops)
    wanted = [int(row.argmax()) if row.sum() == 1 else None for row in walks]
    assert origins(6, edges, hops) == wanted


def test_a_node_is_asked_for_the_symbol_two_edges_before_it() -> None:
    batch = KIND.build(scenario()).data.train_batch(3)
    # 3 is reached by 5>4>3, 4>3>3 and 3>3>3: it has no single answer; nor have 4 and 5, which no walk of two reaches.
    assert (batch.targets[:, 3:] == NOT_SCORED).all()
    assert torch.equal(batch.targets[:, :3], batch.inputs[:, [1, 2, 0]])


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
@torch.no_grad()
def test_a_symbol_travels_one_edge_a_layer_and_nowhere_else(layers: int, kernel: str) -> None:
    model = KIND.build(scenario(model={"layers": layers})).model.double().eval()
    for parameter in model.parameters():
        parameter.normal_(0, 0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    sees = np.eye(6, dtype=np.int64)  # what is on a node stays there
    for j, i in scenario().model.edges:
        sees[i, j] = 1
    reached = np.linalg.matrix_power(sees, layers) > 0
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    before = model(ids, kernel)[0]
    for node in range(6):
        changed = ids.clone()
        changed[0, node] = 8
        moved = (model(changed, kernel)[0] - before).abs().amax(-1) > 1e-9
        assert moved.tolist() == reached[:, node].tolist()


def test_it_learns_with_as_many_layers_as_hops() -> None:
    experiment = KIND.build(scenario(train={"steps": 60, "learning_rate": 1e-2}, model={"width": 32, "heads": 1}))
    for _ in range(60):
        measured = experiment.step()
    assert measured["copy_accuracy"] > 0.95


def test_the_pattern_of_a_graph_is_seen_kept_and_explained() -> None:
    experiment = KIND.build(scenario())
    frame = experiment.frame()
    pattern = np.asarray(frame.tensors["attention/pattern"])
    edges = set(experiment.shape.edges)
    for i in range(6):
        seen = {j for j in range(6) if (pattern[:, :, i, j] > 0).all()}
        assert seen == {j for j in range(6) if (j, i) in edges}
        assert pattern[0, 0, i].sum() == pytest.approx(1.0 if i != 5 else 0.0, abs=1e-3)
    for i, j in ((3, 4), (5, 0), (0, 1)):
        why = explain_attention(frame, "attention/pattern", (1, 1, i, j))
        assert why.result == pytest.approx(pattern[1, 1, i, j], abs=1e-3)
    state = experiment.state_dict()
    model = KIND.open_model(scenario(), state).model
    text = Text(tuple(experiment.data.probe))
    seen = run_with_cache(model, text)
    np.testing.assert_allclose(seen.pattern("self", 1, 1), pattern[1, 1], atol=1e-3)
    np.testing.assert_allclose(seen.pattern("self", 1, 1, slice(2, 5), slice(1, 6)), pattern[1, 1, 2:5, 1:6], atol=1e-3)
    assert why_pattern(seen, "self", 1, 0, 3, 4).result == pytest.approx(pattern[1, 0, 3, 4], abs=1e-3)
    assert why_pattern(seen, "self", 1, 0, 5, 5).result == 0.0
    shorter = run_with_cache(model, Text(text.ids[:4]))  # on the first nodes: 3 now sees itself alone
    assert shorter.pattern("self", 0, 0)[3].tolist() == [0, 0, 0, 1]


def test_what_says_nothing_of_the_next_token_is_not_asked_for_it() -> None:
    model = KIND.build(scenario()).model
    for ask in (lambda: score_text(model, [1, 2]), lambda: list(generate(model, [1], 3, generator=None))):
        with pytest.raises(LabError, match="does not predict the next token"):
            ask()


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"model": {"graph": ["0>6"]}}, "'0>6' in graph joins no positions; for example '0>1>2', from 0 to 5"),
        ({"model": {"graph": ["0-1"]}}, "'0-1' in graph"),
        ({"model": {"graph": ["0>1", "3"]}}, "'3' in graph"),
        ({"model": {"graph": []}}, "require each other"),
        ({"data": {"source": "text"}}, "require each other"),
        ({"model": {"graph": ["0>1"]}}, "no node of model.graph has a single walk of data.hops = 2"),
        ({"data": {"vocabulary": 3}}, "does not suit the graph task"),
    ],
)
def test_an_impossible_graph_is_a_readable_error(changes: dict[str, Any], part: str) -> None:
    with pytest.raises((ValidationError, LabError)) as found:
        KIND.build(scenario(**changes))
    assert part in str(found.value)


def test_one_hot_rows_times_the_table_are_its_rows() -> None:
    """MATH K3: the same losses, and the same gradient of the table."""
    looked, multiplied = (KIND.build(scenario(model={"embedding": how})) for how in ("look-up", "one-hot"))
    assert multiplied.shape.one_hot
    ids = looked.data.train_batch(0).inputs
    assert torch.equal(looked.model(ids), multiplied.model(ids))
    for _ in range(5):
        assert float(looked.step()["loss"]) == pytest.approx(float(multiplied.step()["loss"]), rel=1e-5)
    one, other = (each.model.embed.weight for each in (looked, multiplied))
    torch.testing.assert_close(one, other, atol=1e-4, rtol=0)


def test_the_shipped_scenario_has_its_graph_and_its_one_hot_rows() -> None:
    found = load_scenario("attention-graph").scenario
    assert isinstance(found, LanguageModelScenario)
    assert found.model.embedding == "one-hot"
    assert origins(16, found.model.edges, 2) == [4, 5, 0, 1, 2, 3, 8, 9, *[None] * 4, *[10] * 4]
