"""Rank files: OpenAI's are known by what is in them, ours say how text is split, of others the pattern is a guess."""

from __future__ import annotations

import json
import sys
import warnings
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tiktoken.load
from tiktoken_ext import openai_public

sys.path.insert(0, str(Path(__file__).parent))
from token_strings import random_strings, undisputed

from txlab.engine.tokenizers import rank_files
from txlab.engine.tokenizers.bases import GPT2
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer, merge_chunk
from txlab.engine.tokenizers.files import export_tokenizer, load_tokenizer
from txlab.engine.tokenizers.patterns import ALSO, O200K, PATTERNS, expression, name_or_pattern
from txlab.engine.tokenizers.rank_files import ENCODINGS, Encoding
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.errors import Guess, LabError

TEXT = Path(__file__).read_text()
ENDS = ["a\n  ", "a \n\n \t", "a\r\n", " \n ", "\n", "a  ", "'S", "'ſ", "x'LL y", "12345", "a\n b\n", "\u2003\n"]
END = "<|endoftext|>"


@pytest.fixture(scope="module")
def strings() -> list[str]:
    return [*ENDS, *undisputed(random_strings(1_500))[0]]


@pytest.fixture(scope="module")
def ours(strings: list[str]) -> BytePairTokenizer:
    return train_tokenizer([TEXT, *strings], 900, "gpt2", base=GPT2)


def published(monkeypatch: pytest.MonkeyPatch, name: str) -> dict[str, Any]:
    """What tiktoken says of an encoding; instead of its ranks the sum that it checks them by."""
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda _, expected_hash: expected_hash)
    monkeypatch.setattr(openai_public, "data_gym_to_mergeable_bpe_ranks", lambda **_: None)
    found: dict[str, Any] = openai_public.ENCODING_CONSTRUCTORS[name]()
    return found


@pytest.mark.parametrize("name", sorted(openai_public.ENCODING_CONSTRUCTORS))
def test_what_is_known_of_openais_encodings_is_what_tiktoken_says(
    name: str, monkeypatch: pytest.MonkeyPatch, strings: list[str], ours: BytePairTokenizer
) -> None:
    said, known = published(monkeypatch, name), ENCODINGS[name]
    special = said["special_tokens"]
    if name == "o200k_harmony":
        del special["<|reserved_200018|>"]  # the second name of an id
    assert dict(known.special) == special
    assert said["mergeable_ranks"] in (known.sha256, None)
    # Their pattern cuts every string as ours does: seen in an encoding whose tokens are whole chunks.
    ranks = {data: token for token, data in enumerate(ours.bytes_of)}
    theirs = tiktoken.Encoding("theirs", pat_str=said["pat_str"], mergeable_ranks=ranks, special_tokens={})
    again = BytePairTokenizer(ours.merges, name_or_pattern(said["pat_str"]), base=GPT2)
    assert again.pattern == name_or_pattern(known.pattern)
    for string in strings:
        assert again.encode(string) == theirs.encode(string, disallowed_special=()), repr(string)
        assert again.fast.encode(string).tolist() == again.encode(string)


def test_the_pattern_of_2023_and_todays_differ_at_the_end_of_a_text() -> None:
    old, new = (BytePairTokenizer([], name) for name in ("gpt4", "cl100k"))
    cuts = [[chunk for chunk, _ in each.stretches("a\n  ")] for each in (old, new)]
    assert cuts == [["a", "\n", "  "], ["a", "\n  "]]
    assert [chunk for chunk, _ in new.stretches("a\n  b")] == ["a", "\n", " ", " b"]
    assert ALSO[openai_public.r50k_pat_str] == "gpt2"


def known_as(name: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these ranks be those of an encoding of OpenAI's, which no test may download."""
    known = ENCODINGS[name]
    small = {text: 900 + i for i, text in enumerate(known.special)}
    monkeypatch.setitem(ENCODINGS, name, Encoding(sha256(data).hexdigest(), known.pattern, small))


def ranks_of(tokenizer: BytePairTokenizer) -> bytes:
    return b"".join(b64encode(data) + b" %d\n" % token for token, data in enumerate(tokenizer.bytes_of) if data)


@pytest.mark.parametrize("name", ["r50k_base", "p50k_edit", "cl100k_base", "o200k_base"])
def test_a_known_file_is_known_under_any_name(
    name: str, ours: BytePairTokenizer, strings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ranks_of(ours)
    known_as(name, data, monkeypatch)
    known = ENCODINGS[name]
    theirs = tiktoken.Encoding(
        name,
        pat_str=expression(name_or_pattern(known.pattern)),
        mergeable_ranks={data: token for token, data in enumerate(ours.bytes_of)},
        special_tokens=dict(known.special),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in (tmp_path / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4", tmp_path / "gpt2.tiktoken"):
            path.write_bytes(data)
            found = load_tokenizer(path)
            assert isinstance(found, BytePairTokenizer)
            for string in strings[:400]:
                assert found.encode(string) == theirs.encode(string, disallowed_special=())
            text = f"x{END}y" * 3_000
            assert found.encode_long(text).tolist() == theirs.encode(text, disallowed_special=())
            assert found.encode(text, special=True) == theirs.encode(text, allowed_special="all")


def test_the_name_chooses_among_encodings_of_the_same_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for shared in (("p50k_base", "p50k_edit"), ("o200k_base", "o200k_harmony"), ("r50k_base", "gpt2")):
        for name in shared:
            assert rank_files.encoding_of(ENCODINGS[name].sha256, name) is ENCODINGS[name]
        assert rank_files.encoding_of(ENCODINGS[shared[1]].sha256, "any") is ENCODINGS[shared[0]]


@pytest.mark.parametrize("pattern", [*PATTERNS, O200K, r"\p{L}+|\d{1,2}|\s"])
@pytest.mark.parametrize("special", [[], {END: 905, "<a>": 903}])
def test_our_own_ranks_come_back_as_they_were(
    pattern: str, special: Any, strings: list[str], tmp_path: Path, ours: BytePairTokenizer
) -> None:
    tokenizer = BytePairTokenizer(ours.merges, pattern, special, base=GPT2)
    export_tokenizer(tokenizer, tmp_path / "o200k_base.tiktoken", "tiktoken")  # a name that means something else
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load_tokenizer(tmp_path / "o200k_base.tiktoken")
    assert isinstance(again, BytePairTokenizer)
    assert (again.pattern, again.merges, again.special_of) == (pattern, tokenizer.merges, tokenizer.special_of)
    assert [again.encode(string) for string in strings[:300]] == [tokenizer.encode(string) for string in strings[:300]]
    ranks = tiktoken.load.load_tiktoken_bpe(str(tmp_path / "o200k_base.tiktoken"))  # tiktoken reads it as ever
    assert {data for data in ranks if len(data) > 1} <= set(tokenizer.bytes_of)


def test_a_pattern_that_belongs_to_other_ranks_is_refused(ours: BytePairTokenizer, tmp_path: Path) -> None:
    export_tokenizer(ours, tmp_path / "a.tiktoken", "tiktoken")
    export_tokenizer(BytePairTokenizer([(97, 98)], "none"), tmp_path / "b.tiktoken", "tiktoken")
    (tmp_path / "a.tiktoken.json").write_bytes((tmp_path / "b.tiktoken.json").read_bytes())
    with pytest.raises(LabError, match=r"a\.tiktoken\.json: it is for other ranks"):
        load_tokenizer(tmp_path / "a.tiktoken")


def test_a_guess_is_a_warning_that_says_how_to_be_sure(ours: BytePairTokenizer, tmp_path: Path) -> None:
    (tmp_path / "some.tiktoken").write_bytes(ranks_of(ours))
    (tmp_path / "o200k_base.tiktoken").write_bytes(ranks_of(ours))
    with pytest.warns(Guess, match="gpt4 is a guess, as GPT-4's; --pattern says another"):
        assert load_tokenizer(tmp_path / "some.tiktoken").pattern == "gpt4"  # type: ignore[union-attr]
    with pytest.warns(Guess, match="o200k is a guess, by its name"):
        assert load_tokenizer(tmp_path / "o200k_base.tiktoken").pattern == O200K  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_tokenizer(tmp_path / "some.tiktoken", "none").pattern == "none"  # type: ignore[union-attr]


def js_form(tokenizer: BytePairTokenizer, special: Mapping[str, int]) -> dict[str, Any]:
    words = [b64encode(data).decode() for data in tokenizer.bytes_of]
    lines = [f"! 0 {' '.join(words[:300])}", f"! 300 {' '.join(words[300:])}"]
    return {"pat_str": PATTERNS["gpt4"], "special_tokens": dict(special), "bpe_ranks": "\n".join(lines)}


def test_js_tiktokens_json_is_read(ours: BytePairTokenizer, strings: list[str], tmp_path: Path) -> None:
    content = js_form(ours, {END: 905})
    path = tmp_path / "cl100k_base.json"
    path.write_text(json.dumps(content))
    found = load_tokenizer(path)
    assert isinstance(found, BytePairTokenizer)
    assert (found.pattern, found.special_of) == ("gpt4", {END: 905})
    theirs = BytePairTokenizer(ours.merges, "gpt4", {END: 905}, base=GPT2)
    for string in strings[:300]:
        assert found.encode(string, special=True) == theirs.encode(string, special=True)
    for key, value, said in (
        ("bpe_ranks", "! x IQ==", "line 1 of bpe_ranks does not begin"),
        ("bpe_ranks", "! 0 I", "line 1 has broken base64"),
        ("bpe_ranks", "! 0 IQ==", "the byte 0x00 has no rank"),
        ("bpe_ranks", "! 0 é", "line 1 of bpe_ranks is not base64"),
        ("pat_str", 5, "pat_str must be text"),
        ("special_tokens", [], "special_tokens must be an object"),
        ("special_tokens", {"a": "b"}, "the id of 'a' must be a whole number"),
        ("special_tokens", {"a": 97}, "two different tokens have the id 97"),
    ):
        path.write_text(json.dumps(content | {key: value}))
        with pytest.raises(LabError, match=said):
            load_tokenizer(path)


def test_what_ends_words_as_clips_does_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"t": 0, "h</w>": 1, "th</w>": 2}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h</w>\n")
    with pytest.raises(LabError, match=r"words end with </w>, as CLIP's .* give its tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_a_sentence_piece_model_is_read_by_itself(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    path = tmp_path / "any.spm"
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([f"the cat sees {n} mice" for n in range(300)]),
            model_writer=file,
            vocab_size=40,
            minloglevel=2,
        )
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    found = load_tokenizer(path)
    for text in ("the cat", "", "mice 中 ﬁ", " a  b"):
        assert found.encode(text) == theirs.encode(text, out_type=int)
    assert set(found.special) == {"<unk>", "<s>", "</s>"}  # type: ignore[union-attr]
    path.write_bytes(b"\n\x05nothing")
    with pytest.raises(LabError, match="it is not a SentencePiece model"):
        load_tokenizer(path)


def plain_last_pairs(ranks: dict[bytes, int]) -> dict[int, tuple[int, int]]:
    """The last merge of each token, by merging its bytes with all tokens of lower rank."""
    found: dict[tuple[int, int], int] = {}
    order: list[int] = []
    for data, token in sorted(ranks.items(), key=lambda entry: entry[1]):
        symbols = merge_chunk([ranks[bytes([byte])] for byte in data], found, order)
        if len(symbols) == 2:
            found[symbols[0], symbols[1]] = len(order)
            order.append(token)
    return {order[rank]: pair for pair, rank in found.items()}


def test_the_merges_found_in_ranks_are_those_of_plain_merging(strings: list[str]) -> None:
    for pattern in ("gpt2", "none"):
        learnt = train_tokenizer(["ab" * 40, "a" * 70, *strings, TEXT], 1_500, pattern)
        ranks = {data: token for token, data in enumerate(learnt.bytes_of)}
        assert rank_files.recover_merges(ranks) == plain_last_pairs(ranks)
        assert list(rank_files.recover_merges(ranks).values()) == learnt.merges
