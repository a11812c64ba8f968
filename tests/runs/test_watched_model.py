"""A model that is watched while a user's loop trains it: frames that the Attention screen opens, norms as curves."""

import math
from pathlib import Path

import numpy as np
import pytest

import txlab
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory
from txlab.runs.events import read_rows
from txlab.runs.frames import FrameIndex
from txlab.tui.screens.attention.recorded import attention_of

torch = pytest.importorskip("torch")
nn = torch.nn

TEXT = "the cat"


class Letters:
    """A tokenizer as simple as they get."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(each) for each in ids)


class Tiny(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(128, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 128)

    def forward(self, ids):  # type: ignore[no-untyped-def]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        return self.head(self.blocks(self.embed(ids), mask, is_causal=True))


def train(root: Path, steps: int = 12, every: int = 5, **watched: object) -> tuple[Path, Tiny]:
    torch.manual_seed(0)
    model = Tiny()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ids = torch.tensor([Letters().encode("the cat sat on the mat")])
    with txlab.record("mine", root=root) as run:
        run.watch(model, TEXT, every=every, tokenizer=Letters(), **watched)  # type: ignore[arg-type]
        for step in range(1, steps + 1):
            loss = nn.functional.cross_entropy(model(ids)[0, :-1], ids[0, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(step, loss=loss)
    return run.path, model


def test_the_attention_screen_opens_a_watched_model(tmp_path: Path) -> None:
    path, _ = train(tmp_path)
    frames = FrameIndex(path / "frames")
    frames.refresh()
    assert frames.steps.tolist() == [0, 5, 10]
    found = attention_of(frames.read(10))
    assert found is not None
    site = found.sites["self"]
    assert (site.layers, site.heads, site.rows, site.mask) == (2, 2, tuple(TEXT), "causal")
    assert found.texts == (TEXT,)
    assert found.scores["self"].keys() == {"induction", "previous"}
    assert found.next_tokens("self", 3).after == " "
    assert len(found.next_tokens("self", 3).candidates) == 5
    assert np.allclose(found.patterns["self"].sum(-1), 1, atol=2e-3)


def test_norms_of_gradients_are_those_at_the_update_and_cost_no_other_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    norm = torch._foreach_norm
    monkeypatch.setattr(torch, "_foreach_norm", lambda grads: taken.append(len(grads)) or norm(grads))
    path, _ = train(tmp_path)
    assert len(taken) == 2 * 2  # two layers, at steps 5 and 10
    rows = [row for row in read_rows(RunDirectory(path).events)[0] if row["event"] == "metrics"]
    normed = {row["step"]: row["values"] for row in rows if "gradient_norm/layers.0" in row["values"]}
    assert list(normed) == [5, 10]
    assert set(normed[5]) == {f"{what}_norm/layers.{layer}" for what in ("gradient", "activation") for layer in (0, 1)}
    torch.manual_seed(0)
    model = Tiny()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ids = torch.tensor([Letters().encode("the cat sat on the mat")])
    for step in range(1, 6):  # the same training, unwatched: to the bit, and its gradients at step 5
        loss = nn.functional.cross_entropy(model(ids)[0, :-1], ids[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        if step == 5:
            grads = [p.grad.flatten() for p in model.blocks.layers[1].parameters()]
            assert normed[5]["gradient_norm/layers.1"] == pytest.approx(float(torch.cat(grads).norm()), rel=1e-5)
        optimizer.step()
        assert next(row for row in rows if row["step"] == step)["values"]["loss"] == float(loss)


def test_what_cannot_be_watched_is_reported_before_the_training(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        with pytest.raises(LabError, match="Tiny could not be called with the probe: IndexError"):
            run.watch(Tiny(), torch.tensor([[1000]]))
        with pytest.raises(LabError, match="needs a tokenizer"):
            run.watch(Tiny(), "text")
        with pytest.raises(LabError, match="not dict"):
            run.watch({}, "text")
        with pytest.raises(LabError, match="from 1 on"):
            run.watch(Tiny(), torch.tensor([[1]]), every=0)
        with pytest.raises(LabError, match="a shorter one"):
            run.watch(Tiny(), torch.zeros(1, 1200, dtype=torch.long))


def test_a_later_failure_of_a_probe_is_noted_once_and_the_loop_continues(tmp_path: Path) -> None:
    model = Tiny()
    with txlab.record("mine", root=tmp_path) as run:
        run.watch(model, torch.tensor([[1, 2]]), every=1)
        model.head = None
        for step in range(1, 4):
            run.log(step, loss=1.0)
    rows = read_rows(RunDirectory(run.path).events)[0]
    assert sum("could not be looked into" in row.get("text", "") for row in rows) == 1
    assert math.isclose(sum(row["event"] == "metrics" for row in rows), 3)


def test_a_weight_of_a_watched_model_is_explained_from_its_own_queries_and_keys(tmp_path: Path) -> None:
    from txlab.experiments.kind import kind_of_run

    class Own(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.qkv = nn.Embedding(9, 8), nn.ModuleList(nn.Linear(8, 24) for _ in range(2))

        def forward(self, ids):  # type: ignore[no-untyped-def]
            x = self.embed(ids)
            for layer in self.qkv:
                q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in layer(x).split(8, -1))
                y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + y.transpose(1, 2).flatten(2)
            return x

    with txlab.record("mine", root=tmp_path) as run:
        run.watch(Own(), torch.tensor([[1, 2, 3, 1]]))
    frames = FrameIndex(run.path / "frames")
    frames.refresh()
    frame = frames.read(0)
    said = kind_of_run("recorded").explain_frame(frame, "attention/pattern", (1, 0, 3, 2))
    assert float(said.result) == pytest.approx(float(frame.tensors["attention/pattern"][1, 0, 3, 2]), abs=1e-3)
