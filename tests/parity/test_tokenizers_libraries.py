"""Merges, encodings and files against rustbpe, tiktoken and Hugging Face's tokenizers (MATH K2).

The whole corpus at both sizes and 100 000 strings take a minute: `python benchmarks/tokens.py --check`.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from pathlib import Path

import pytest
import tiktoken
import tiktoken.load
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.engine.tokenizers.bases import GPT2, Alphabet
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer
from txlab.engine.tokenizers.files import content_of, export_tokenizer, load_tokenizer, save_tokenizer, tokenizer_of
from txlab.engine.tokenizers.gpt2_files import LETTERS, merge_names
from txlab.engine.tokenizers.huggingface import ForeignTokenizer, huggingface_tokenizer
from txlab.engine.tokenizers.offsets import token_spans
from txlab.engine.tokenizers.patterns import O200K, PATTERNS, expression
from txlab.engine.tokenizers.rank_files import read_ranks
from txlab.engine.tokenizers.training import count_chunks, train_merges, train_tokenizer
from txlab.errors import LabError
from txlab.experiments.corpora import load_corpus

sys.path.insert(0, str(Path(__file__).parent))
from token_strings import random_strings, undisputed

rustbpe = pytest.importorskip("rustbpe")
tokenizers = pytest.importorskip("tokenizers")

END = "<|end|>"


@pytest.fixture(scope="module")
def source() -> str:
    return load_corpus("python-source").text[:1_500_000]


@pytest.fixture(scope="module")
def strings() -> list[str]:
    return undisputed(random_strings(8_000))[0] + ["a" * 100_000, " " * 3_000, "\n" * 3_000, "ab" * 5_000, ""]


@pytest.fixture(scope="module", params=["gpt2", "gpt4", O200K], ids=["gpt2", "gpt4", "o200k"])
def ours(request: pytest.FixtureRequest, source: str, strings: list[str]) -> BytePairTokenizer:
    # Learnt from the strings too, so that their marks and joiners are in tokens and not only bytes.
    texts = [source[:300_000], *strings[:4_000]]
    return train_tokenizer(texts, 3000, request.param, [END], GPT2)


def hugging_face_trained(texts: list[str], vocabulary: int, pattern: str):  # type: ignore[no-untyped-def]
    from tokenizers import Regex, models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(expression(pattern)), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=byte_level.alphabet(), show_progress=False),
    )
    return tokenizer


@pytest.mark.parametrize("vocabulary", [4096, 16384])
def test_the_merges_are_those_of_rustbpe(vocabulary: int) -> None:
    source = load_corpus("python-source").text[:2_500_000]
    theirs = rustbpe.Tokenizer()
    theirs.train_from_iterator(iter([source]), vocabulary, pattern=PATTERNS["gpt4"])
    tokenizer = train_merges(count_chunks([source]), vocabulary).tokenizer()
    assert tokenizer.vocabulary == vocabulary
    assert {bytes(data): rank for data, rank in theirs.get_mergeable_ranks()} == {
        data: token for token, data in enumerate(tokenizer.bytes_of)
    }


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4"])
def test_the_merges_over_gpt2s_order_of_bytes_are_those_of_hugging_face(source: str, pattern: str) -> None:
    # Both give ties to the lowest pair of ids; theirs sorts the bytes by the letters that represent them.
    theirs = json.loads(hugging_face_trained([source], 4096, pattern).to_str())["model"]["merges"]
    tokenizer = train_merges(count_chunks([source], pattern), 4096, GPT2).tokenizer(pattern)
    assert [tuple(merge) for merge in theirs] == merge_names(tokenizer)


def test_encodings_are_those_of_tiktoken_with_our_ranks(
    ours: BytePairTokenizer, strings: list[str], tmp_path: Path
) -> None:
    said = export_tokenizer(ours, tmp_path / "ours.tiktoken", "tiktoken")
    assert "splitting pattern" in said
    ranks = tiktoken.load.load_tiktoken_bpe(str(tmp_path / "ours.tiktoken"))
    theirs = tiktoken.Encoding(
        "ours", pat_str=expression(ours.pattern), mergeable_ranks=ranks, special_tokens=dict(ours.special_of)
    )
    for string in strings:
        expected = theirs.encode(string, disallowed_special=())
        assert ours.encode(string) == expected, repr(string[:80])
        assert ours.fast.encode(string).tolist() == expected, repr(string[:80])
        assert ours.decode(expected) == string
    special = f"a{END}b"
    assert ours.encode(special, special=True) == theirs.encode(special, allowed_special="all")


def test_encodings_are_those_of_hugging_face_from_our_file(
    ours: BytePairTokenizer, strings: list[str], tmp_path: Path
) -> None:
    export_tokenizer(ours, tmp_path / "tokenizer.json", "huggingface")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert [found.ids for found in theirs.encode_batch(strings)] == [ours.encode(s, special=True) for s in strings]
    assert theirs.encode(f"a{END}b").ids == ours.encode(f"a{END}b", special=True)
    assert theirs.get_vocab_size() == ours.vocabulary
    assert theirs.decode(ours.encode("héllo 🙂")) == "héllo 🙂"
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(again, BytePairTokenizer)
    assert (again.merges, again.pattern, again.special_of) == (ours.merges, ours.pattern, ours.special_of)


def test_gpt2s_two_files_are_read_by_both_libraries(source: str, strings: list[str], tmp_path: Path) -> None:
    ours = train_tokenizer([source[:200_000]], 1500, "gpt2", ["<|endoftext|>"], GPT2)
    export_tokenizer(ours, tmp_path / "ours", "gpt2")
    vocab, merges = str(tmp_path / "ours" / "vocab.json"), str(tmp_path / "ours" / "merges.txt")
    ranks = tiktoken.load.data_gym_to_mergeable_bpe_ranks(vocab_bpe_file=merges, encoder_json_file=vocab)
    assert ranks == {data: token for token, data in enumerate(ours.bytes_of[:-1])}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(vocab, merges))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    some = strings[:2000]
    assert [found.ids for found in theirs.encode_batch(some)] == [ours.encode(string) for string in some]
    for path in (tmp_path / "ours", tmp_path / "ours" / "vocab.json", tmp_path / "ours" / "merges.txt"):
        again = load_tokenizer(path)
        assert isinstance(again, BytePairTokenizer)
        assert (again.merges, again.special_of, again.pattern) == (ours.merges, ours.special_of, "gpt2")


def test_an_encoding_learnt_by_hugging_face_is_read(source: str, strings: list[str], tmp_path: Path) -> None:
    theirs = hugging_face_trained([source[:200_000]], 1000, "gpt4")
    theirs.add_special_tokens([END])
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path)
    assert isinstance(ours, BytePairTokenizer)
    assert ours.special == (END,)
    assert [found.ids for found in theirs.encode_batch(strings)] == [ours.encode(s, special=True) for s in strings]


def test_the_merges_are_recovered_from_rustbpes_ranks(source: str, tmp_path: Path) -> None:
    theirs = rustbpe.Tokenizer()
    theirs.train_from_iterator(iter([source[:300_000]]), 2000, pattern=PATTERNS["gpt4"])
    lines = [b64encode(bytes(data)).decode() + f" {rank}\n" for data, rank in theirs.get_mergeable_ranks()]
    (tmp_path / "any.tiktoken").write_text("".join(lines))
    ours = load_tokenizer(tmp_path / "any.tiktoken")
    assert isinstance(ours, BytePairTokenizer)
    assert ours.merges == train_merges(count_chunks([source[:300_000]]), 2000).tokenizer().merges
    assert load_tokenizer(tmp_path / "any.tiktoken", pattern="gpt2").pattern == "gpt2"  # type: ignore[union-attr]


SHORT = st.text("ab", min_size=2, max_size=5)


@settings(max_examples=120)
@given(st.lists(SHORT, unique=True, max_size=20), st.randoms(use_true_random=False), st.text("aabbc", max_size=40))
def test_arbitrary_ranks_mean_what_they_mean_to_tiktoken(words: list[str], rng, text: str) -> None:  # type: ignore[no-untyped-def]
    tokens = [bytes([byte]) for byte in range(256)] + [word.encode() for word in words]
    rng.shuffle(tokens)
    same_as_tiktoken(tokens, text)


def same_as_tiktoken(tokens: list[bytes], text: str) -> list[str]:
    """All our ways against theirs, the rank of each token being its place; the bytes of the tokens."""
    ranks = {data: rank for rank, data in enumerate(tokens)}
    theirs = tiktoken.Encoding("any", pat_str=PATTERNS["gpt4"], mergeable_ranks=ranks, special_tokens={})
    expected = theirs.encode(text)
    ours = from_ranks(ranks)
    assert ours.encode(text) == expected
    assert ours.fast.encode(text).tolist() == expected
    assert [piece.token for piece in token_spans(ours, text)] == expected
    assert tokenizer_of(json.loads(content_of(ours))).encode(text) == expected
    return [ours.label(token) for token in expected]


def test_a_token_made_of_tokens_of_higher_rank_is_made_all_the_same() -> None:
    single = [bytes([byte]) for byte in range(256)]
    assert same_as_tiktoken([*single, b"abcd", b"ab", b"cd"], "xabcdx") == ["x", "abcd", "x"]
    assert same_as_tiktoken([*single, b"abc"], "abc") == ["abc"]
    assert same_as_tiktoken([*single, b"abc"], "abcx") == ["a", "b", "c", "x"]


def from_ranks(ranks: dict[bytes, int]) -> BytePairTokenizer:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.tiktoken"
        path.write_bytes(b"".join(b64encode(data) + f" {rank}\n".encode() for data, rank in ranks.items()))
        return read_ranks(path)


def named_encoding(tokens: list[str], merges: list[tuple[str, str]], whole: bool = False) -> dict[str, object]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE",
        "ignore_merges": whole,
        "vocab": {name: token for token, name in enumerate(tokens)},
        "merges": [list(merge) for merge in merges],
    }
    return {"version": "1.0", "added_tokens": [], "pre_tokenizer": byte_level, "decoder": byte_level, "model": model}


@st.composite
def named_encodings(draw: st.DrawFn) -> dict[str, object]:
    """Vocabularies in any order with merges in any order, several of which may make the same token."""
    words = draw(st.lists(st.text("ab", min_size=2, max_size=4), unique=True, max_size=12))
    tokens = draw(st.permutations([*LETTERS.values(), *words]))
    splits = [(w[:i], w[i:]) for w in words for i in range(1, len(w)) if w[:i] in tokens and w[i:] in tokens]
    merges = draw(st.permutations(splits))[: draw(st.integers(0, 30))]
    return named_encoding(tokens, merges, draw(st.booleans()))


def same_as_hugging_face(content: dict[str, object], text: str) -> list[str]:
    """All our ways against theirs; the bytes of the tokens."""
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    ours = huggingface_tokenizer(json.loads(json.dumps(content)))
    assert isinstance(ours, BytePairTokenizer)
    expected = theirs.encode(text).ids
    assert ours.encode(text) == expected
    assert ours.fast.encode(text).tolist() == expected
    assert [token for _, tokens in ours.stretches(text) for token in tokens] == expected
    assert tokenizer_of(json.loads(content_of(ours))).encode(text) == expected
    return [ours.label(token) for token in expected]


@settings(max_examples=150)
@given(named_encodings(), st.text("aabbbc ", max_size=40))
def test_arbitrary_merges_mean_what_they_mean_to_hugging_face(content: dict[str, object], text: str) -> None:
    same_as_hugging_face(content, text)


def test_a_merge_that_makes_a_pair_of_lower_rank_lets_it_go_first() -> None:
    # All at once, a b a b would become ab ab; one by one, ab a comes first.
    tokens = [*LETTERS.values(), "ab", "aba"]
    assert same_as_hugging_face(named_encoding(tokens, [("ab", "a"), ("a", "b")]), "abab") == ["aba", "b"]


def test_a_token_that_two_merges_make_has_the_rank_of_the_one_that_happens() -> None:
    # abc is made of ab c first of all, if ab were there; but bc is merged before ab, and bcd before a bc.
    tokens = [*LETTERS.values(), "ab", "bc", "abc", "bcd"]
    merges = [("ab", "c"), ("b", "c"), ("a", "b"), ("bc", "d"), ("a", "bc")]
    assert same_as_hugging_face(named_encoding(tokens, merges), "abcd") == ["a", "bcd"]


def test_a_token_that_nothing_makes_is_only_a_whole_chunk() -> None:
    content = named_encoding([*LETTERS.values(), "ab"], [], whole=True)
    assert same_as_hugging_face(content, "ab") == ["ab"]
    assert same_as_hugging_face(content, "abb") == ["a", "b", "b"]


def test_ids_with_holes_and_special_tokens_in_the_middle_survive_all_forms(tmp_path: Path) -> None:
    base = train_tokenizer(["the cat the cat sat " * 3], 262, "gpt2", base=GPT2)
    ids = [300, 301, 310, 311, 400, 401]
    moved = [tuple(ids[part - 256] if part >= 256 else part for part in pair) for pair in base.merges]
    ours = BytePairTokenizer(moved, "gpt2", {"<a>": 305, "<b>": 256}, base=GPT2, ids=ids)  # type: ignore[arg-type]
    assert (ours.vocabulary, ours.token_bytes(299), ours.rank_of(310), ours.rank_of(305)) == (402, b"", 2, None)
    text = "the cat <a> sat<b>"
    save_tokenizer(ours, tmp_path / "own.json")
    for form, name in (("huggingface", "tokenizer.json"), ("gpt2", "folder"), ("txlab", "ours.json")):
        export_tokenizer(ours, tmp_path / name, form)
        again = load_tokenizer(tmp_path / name)
        assert isinstance(again, BytePairTokenizer)
        assert again.encode(text, special=True) == ours.encode(text, special=True)
        assert again.decode(ours.encode(text, special=True)) == text
        assert again.encode_long(text * 1000).tolist() == ours.encode(text * 1000)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert theirs.encode(text).ids == ours.encode(text, special=True)


def test_other_kinds_are_run_by_the_library(tmp_path: Path) -> None:
    from tokenizers import models, normalizers, pre_tokenizers

    vocab = {"[UNK]": 0, "the": 1, "cat": 2, "##s": 3, "sat": 4}
    theirs = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    theirs.normalizer = normalizers.Lowercase()
    theirs.pre_tokenizer = pre_tokenizers.Whitespace()
    theirs.add_special_tokens(["[CLS]"])
    theirs.enable_padding(length=10**12)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(ours, ForeignTokenizer)
    assert (ours.kind, ours.vocabulary) == ("WordPiece", 6)
    text = "The cats sat 🙂"
    assert ours.encode(text) == ours.encode_long(text).tolist() == [1, 2, 3, 4, 0]
    assert [(p.token, p.data, p.start, p.byte_start) for p in token_spans(ours, text)] == [
        (1, b"the", 0, 0),
        (2, b"cat", 4, 4),
        (3, b"s", 7, 7),
        (4, b"sat", 9, 9),
        (0, "🙂".encode(), 13, 13),
    ]
    assert (ours.label(3), ours.token_bytes(1)) == ("s", b"the")
    assert 5 not in ours.encode("[CLS]")
    with pytest.raises(LabError, match=r"byte 0 is not UTF-8, and a tokenizer of the kind WordPiece reads text only"):
        ours.encode_bytes(b"\xff")
    with pytest.raises(LabError, match="ForeignTokenizer cannot be saved in txlab's format"):
        save_tokenizer(ours, tmp_path / "own.json")


def test_without_the_library_other_kinds_are_one_clear_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {"model": {"type": "WordPiece", "vocab": {"a": 0}}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(LabError, match=r"kind 'WordPiece', which needs the library tokenizers: .*txlab\[tokenizers\]"):
        load_tokenizer(tmp_path)


def test_byte_level_files_need_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_tokenizer(BytePairTokenizer([(97, 98)]), tmp_path / "tokenizer.json", "huggingface")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert load_tokenizer(tmp_path).encode("ab") == [256]


@pytest.mark.parametrize(
    ("tokenizer", "form", "said"),
    [
        (ByteTokenizer(), "tiktoken", "is for byte pair encodings, not for a ByteTokenizer"),
        (BytePairTokenizer([]), "tiktokn", r"not a tokenizer format \(nearest: tiktoken\)"),
        (BytePairTokenizer([]), "gpt2", "GPT-2's splitting pattern, this tokenizer has 'gpt4'"),
        (BytePairTokenizer([], base=Alphabet("ab")), "tiktoken", "an encoding of an alphabet"),
        (BytePairTokenizer([], base=Alphabet("ab")), "huggingface", "an encoding of an alphabet"),
        (BytePairTokenizer([(97, 98), (98, 99), (97, 257)]), "tiktoken", "tiktoken would merge otherwise"),
        (BytePairTokenizer([(97, 98), (98, 99)], ids=[257, 256]), "tiktoken", "do not rise with its merges"),
        (BytePairTokenizer([(97, 98), (98, 99), (97, 257), (256, 99)]), "huggingface", "258 and 259 would both"),
    ],
)
def test_a_form_that_cannot_say_it_says_so(tokenizer, form: str, said: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LabError, match=said):
        export_tokenizer(tokenizer, tmp_path / "out", form)
    assert not any(tmp_path.iterdir())
