"""Word vectors open by name, whatever they belong to: a run of word2vec, the tokens of a model, a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from txlab.engine.tokenizers.elementary import ByteTokenizer
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.vision import VisionShape, VisionTransformer
from txlab.errors import LabError
from txlab.experiments.loaded_model import Special
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.embeddings import distinct, embedding_of_model, open_embedding
from txlab.runs.models import OpenModel, open_model
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

FEW = [
    "data.tokens=7000",
    "train.words=1000",
    "train.epochs=1",
    "vectors.width=8",
    "record.checkpoint_every=4",
    "compute.threads=1",
]


def trained(root: Path, *changes: str) -> Path:
    run = prepare(load_scenario("words-planted", [*FEW, *changes]), root=root)
    execute(run)
    return run


@pytest.fixture(scope="module")
def words_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("runs"))


def test_a_run_of_word2vec_opens_with_both_tables_of_its_newest_checkpoint(words_run: Path) -> None:
    opened = open_embedding("latest", words_run.parent)
    state = checkpoints.load(RunDirectory(words_run), checkpoints.sound(RunDirectory(words_run))[-1])
    assert opened.words == tuple(state["words"])
    assert opened.counts is not None
    assert opened.context is not None
    assert opened.counts.tolist() == sorted(opened.counts.tolist(), reverse=True)
    np.testing.assert_array_equal(opened.vectors, state["v"].numpy())
    np.testing.assert_array_equal(opened.context, state["u"].numpy())
    assert opened.vectors.dtype == np.float32


def test_a_step_behind_the_name_means_that_checkpoint(words_run: Path) -> None:
    early = open_embedding(f"{words_run}@4")
    assert early.title == f"{words_run.name}@4"
    np.testing.assert_array_equal(early.vectors, open_embedding(str(words_run), step=4).vectors)
    np.testing.assert_array_equal(early.vectors, open_embedding(str(words_run / "checkpoints" / "00000004")).vectors)
    assert not np.array_equal(early.vectors, open_embedding(str(words_run)).vectors)


def test_each_objective_of_a_run_opens_by_its_name(tmp_path: Path) -> None:
    beside = 'vectors.beside=["nce","hierarchical"]'
    run = RunDirectory(trained(tmp_path, 'vectors.objective="softmax"', beside, "vectors.block=64"))
    newest = checkpoints.steps(run)[-1]
    state = checkpoints.load(run, newest, arrays=True)
    nce = open_embedding("latest:nce", tmp_path)
    assert np.array_equal(nce.vectors, state["beside"]["nce"]["v"])
    assert nce.title == f"{run.name}@{newest}:nce"
    assert nce.context is not None
    assert open_embedding("latest:hierarchical", tmp_path).context is None
    assert np.array_equal(open_embedding("latest:softmax", tmp_path).vectors, state["v"])
    at_4 = open_embedding("words-planted@4:nce", tmp_path)
    assert np.array_equal(at_4.vectors, checkpoints.load(run, 4, arrays=True)["beside"]["nce"]["v"])
    with pytest.raises(LabError, match="has no vectors by sampling; allowed: softmax, nce, hierarchical"):
        open_embedding("latest:sampling", tmp_path)


def test_the_nodes_of_a_tree_are_not_contexts(tmp_path: Path) -> None:
    opened = open_embedding(str(trained(tmp_path, 'vectors.objective="hierarchical"')))
    assert opened.context is None
    assert len(opened.vectors) == len(opened.words)
    with pytest.raises(LabError, match=f"{opened.title} has one vector a word"):
        opened.contexts()


def test_the_words_of_a_language_model_are_its_tokens(tiny_run: Path) -> None:
    opened, model = open_embedding(f"{tiny_run.name}@6", tiny_run.parent), open_model(f"{tiny_run}@6")
    np.testing.assert_array_equal(opened.vectors, model.model.state_dict()["embed.weight"].numpy())
    assert opened.title == model.title
    assert opened.words[ord("a")] == "a"
    assert opened.context is None  # W_U is W_E


def test_a_file_opens_by_its_path_and_is_titled_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text("the 1 2\ncat 3 4\n")
    opened = open_embedding(str(tmp_path / "small.txt"))
    assert (opened.words, opened.title, opened.counts) == (("the", "cat"), "small.txt", None)


def test_the_words_of_a_translator_are_the_tokens_of_its_source() -> None:
    for shared in (False, True):
        model = EncoderDecoder(EncoderDecoderShape(1, 1, 2, 8, 259, 259, 24, shared=shared))
        special = Special(begin=256, end=257, names={256: "[begin]", 257: "[end]"})
        found = embedding_of_model(OpenModel("here", "encoder-decoder", model, ByteTokenizer(), special=special))
        table = model.embed_target if model.embed_source is None else model.embed_source
        np.testing.assert_array_equal(found.vectors, table.weight.detach().numpy())
        assert (found.words[97], *found.words[-3:]) == ("a", "[begin]", "[end]", "[258]")
        assert found.context is None


def test_the_unembedding_is_the_table_of_contexts_where_it_is_not_the_embedding() -> None:
    model = GPT(GPTShape(1, 2, 8, 16, 256, tied=False))
    found = embedding_of_model(OpenModel("here", "gpt", model, ByteTokenizer()))
    assert model.unembed is not None
    np.testing.assert_array_equal(found.contexts().vectors, model.unembed.weight.detach().numpy())
    np.testing.assert_array_equal(found.vectors, model.embed.weight.detach().numpy())
    assert found.contexts().words == found.words


def test_a_model_of_pictures_has_no_words() -> None:
    model = VisionTransformer(VisionShape(1, 2, 8, 8, 4, 2))
    with pytest.raises(LabError, match="here reads pictures: it has no words"):
        embedding_of_model(OpenModel("here", "vision", model, ByteTokenizer()))  # type: ignore[arg-type]


def test_equal_labels_become_different_words() -> None:
    assert distinct(["a", "a#2", "a", "", "a"]) == ("a", "a#2", "a#2#2", "#3", "a#4")


def test_words_are_not_looked_for_where_there_is_nothing(tmp_path: Path, words_run: Path) -> None:
    with pytest.raises(LabError, match="there is no run 'absent'"):
        open_embedding("absent", words_run.parent)
    (tmp_path / "vectors.txt").write_text("1 1\na 1\n")
    for name, near in [("none.bin", ""), ("vectors.vec", ""), ("vector.txt", "vectors.txt")]:
        with pytest.raises(LabError, match="does not exist: it is neither a file of word vectors nor a run") as refused:
            open_embedding(str(tmp_path / name), words_run.parent)
        assert near in str(refused.value)
    with pytest.raises(LabError, match="neither a run"):
        open_embedding(str(tmp_path))
    with pytest.raises(LabError, match=r"there is no run 'a.*b'"):
        open_embedding("a\0b", words_run.parent)
