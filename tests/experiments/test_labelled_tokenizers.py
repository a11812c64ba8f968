"""Tokenizers whose tokens are labels promise what all tokenizers promise (MATH K1)."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.engine.tokenizers.elementary import NumberTokenizer
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.errors import LabError
from txlab.experiments.kinds.language_model.few_shot import FewShotTokenizer
from txlab.experiments.kinds.language_model.symbols import SymbolTokenizer
from txlab.experiments.kinds.translation.tokens import tokenizers_for


@pytest.mark.parametrize(
    ("tokenizer", "text", "pieces"),
    [
        (NumberTokenizer(20), "3 1 14", ["3", "1", "14"]),
        (SymbolTokenizer(30), "abca", ["a", "b", "c", "a"]),
        (FewShotTokenizer(9), "aBcA", ["a", "B", "c", "A"]),
        (tokenizers_for("dates", False)[1], "2021-03-05", list("2021-03-05")),
        (tokenizers_for("language", False)[0], "the old dog", ["the", "old", "dog"]),
    ],
)
def test_texts_bytes_and_labels_agree(tokenizer: Tokenizer, text: str, pieces: list[str]) -> None:
    ids = tokenizer.encode(text)
    assert [tokenizer.label(token) for token in ids] == pieces
    assert [tokenizer.token_bytes(token) for token in ids] == [piece.encode() for piece in pieces]
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_bytes(text.encode()) == ids
    assert tokenizer.decode_bytes(ids) == text.encode()
    long = tokenizer.encode_long(text)
    assert long.dtype == np.uint32
    assert long.tolist() == ids
    with pytest.raises(LabError):
        tokenizer.encode_bytes(b"\xff")
    with pytest.raises(LabError):
        tokenizer.label(tokenizer.vocabulary)
