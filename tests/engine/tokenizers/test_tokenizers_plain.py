"""Bytes, characters, one-hot vectors and tokenizer files (MATH K1, K3)."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlab.engine.tokenizers
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer
from txlab.engine.tokenizers.files import load_tokenizer, save_tokenizer, tokenizer_of
from txlab.engine.tokenizers.tokenizer import embedding_product, one_hot, unembedding
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.errors import LabError

PLAIN = [ByteTokenizer(), CharacterTokenizer.of("the cat sees a mouse é漢\n"), CharacterTokenizer("")]


@pytest.mark.parametrize("tokenizer", PLAIN, ids=["bytes", "characters", "no characters"])
@given(text=st.text(), data=st.binary())
def test_every_text_and_every_byte_string_comes_back(tokenizer, text: str, data: bytes) -> None:  # type: ignore[no-untyped-def]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= token < tokenizer.vocabulary for token in ids)
    assert tokenizer.encode_long(text).tolist() == ids == tokenizer.encode_bytes(text.encode())
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


def test_bytes_are_their_values() -> None:
    assert ByteTokenizer().encode("é!") == [0xC3, 0xA9, 0x21]
    assert ByteTokenizer().label(0xC3) == "\\xc3"
    assert ByteTokenizer().decode([0xC3]) == "\ufffd"


def test_characters_are_in_the_order_of_their_code_points_and_unknown_ones_are_spelled() -> None:
    tokenizer = CharacterTokenizer.of("banana!")
    assert tokenizer.characters == "!abn"
    assert tokenizer.vocabulary == 16 + 4
    assert tokenizer.encode("nab!") == [19, 17, 18, 16]
    assert tokenizer.encode("aé") == [17, 0xC, 0x3, 0xA, 0x9]
    assert [tokenizer.label(token) for token in (0xC, 19)] == ["⟨c⟩", "n"]


def test_a_digit_without_its_partner_stands_for_nothing() -> None:
    tokenizer = CharacterTokenizer.of("ab")
    assert tokenizer.decode([16, 6, 17, 6, 1, 6]) == "aba"  # 6, then b; 61 is "a"; 6 alone


def test_the_one_hot_vectors_are_orthonormal_and_their_product_is_the_look_up() -> None:
    rng = np.random.default_rng(1)
    ids, w_e = [3, 0, 3, 6], rng.normal(size=(5, 7))  # D = 5, V = 7
    t = one_hot(ids, 7)
    assert (one_hot(range(7), 7) @ one_hot(range(7), 7).T == np.eye(7)).all()
    rows = w_e.T[ids]
    assert (embedding_product(t, w_e) == rows).all()
    assert rows.shape == (4, 5)
    # Tied, W_U = W_Eᵀ: the logit of a token is the inner product with its own vector.
    logits = unembedding(rows, w_e.T)
    assert logits[1, 6] == pytest.approx(sum(w_e[d, 0] * w_e[d, 6] for d in range(5)), rel=1e-14)
    with pytest.raises(LabError, match="token 7 is not in the vocabulary"):
        one_hot([7], 7)


def test_the_look_up_of_torch_is_the_same_product() -> None:
    import torch

    table = torch.nn.Embedding(7, 5).double()
    product = embedding_product(one_hot([2, 5], 7), table.weight.detach().numpy().T)
    assert (product == table(torch.tensor([2, 5])).detach().numpy()).all()


@pytest.mark.parametrize(
    "tokenizer",
    [
        ByteTokenizer(),
        CharacterTokenizer.of("a\n\"é'"),
        train_tokenizer(["the cat the cat"], 262, special=["<|é|>"]),
    ],
    ids=["bytes", "characters", "bpe"],
)
def test_a_saved_tokenizer_is_the_same_tokenizer(tokenizer, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "tokenizer.json"
    save_tokenizer(tokenizer, path)
    loaded = load_tokenizer(path)
    assert type(loaded) is type(tokenizer)
    assert loaded.vocabulary == tokenizer.vocabulary
    text = "the cat \"é' <|é|>\n"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]


def bpe_file(**changes: object) -> dict[str, object]:
    return {"format": 1, "kind": "bpe", "pattern": "gpt4", "special": [], "merges": [[97, 98]]} | changes


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"format": 2, "kind": "bytes"},
        {"format": 1, "kind": ["bpe"]},
        {"format": 1, "kind": "wordpiece"},
        {"format": 1, "kind": "bytes", "run": "rm"},
        {"format": 1, "kind": "characters"},
        {"format": 1, "kind": "characters", "characters": "ba"},
        {"format": 1, "kind": "characters", "characters": "\ud800"},
        {"format": 1, "kind": "characters", "characters": 5},
        bpe_file(pattern="(a+)+$"),
        bpe_file(pattern=None),
        bpe_file(special="abc"),
        bpe_file(special=[1]),
        bpe_file(special=["\ud800"]),
        bpe_file(merges={}),
        bpe_file(merges=[[97]]),
        bpe_file(merges=[["a", "b"]]),
        bpe_file(merges=[[97, True]]),
        bpe_file(merges=[[97.0, 98]]),
        bpe_file(merges=[[-1, 98]]),
        bpe_file(merges=[[97, 256]]),
        bpe_file(merges=[[97, 98], [97, 98]]),
        bpe_file(merges=[[97, 97]] + [[256 + i, 256 + i] for i in range(60)]),
    ],
)
def test_a_hostile_file_is_an_error_that_names_it(content: object, tmp_path: Path) -> None:
    with pytest.raises(LabError):
        tokenizer_of(content)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(content))
    with pytest.raises(LabError, match=r"tokenizer file '.*bad\.json'") as error:
        load_tokenizer(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 10_000], ids=lambda d: repr(d[:4]))
def test_invalid_json_is_reported_as_invalid(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(LabError, match=r"bad\.json': it is not JSON"):
        load_tokenizer(path)
    with pytest.raises(LabError, match="it cannot be read: No such file"):
        load_tokenizer(tmp_path / "none.json")


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(txlab.engine.tokenizers.__path__)])
def test_the_examples_in_the_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"txlab.engine.tokenizers.{name}")).failed == 0
