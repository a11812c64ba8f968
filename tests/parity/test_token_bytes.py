"""The bytes of each token are its own: for twenty tokenizers, made here with the libraries, and 500 odd strings, they
are what the token's name spells, and joined they are the text as the library's own normalizer changes it."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from txlab.engine.tokenizers.files import load_tokenizer
from txlab.engine.tokenizers.offsets import token_spans
from txlab.engine.tokenizers.tokenizer import Tokenizer

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers, trainers  # noqa: E402
from tokenizers import decoders as decoding  # noqa: E402

CORPUS = [
    "the cat sat on the mat",
    "naïve café 🦙🦙 über Straße",
    "Привет мир",
    "你好，世界",
    "hello HELLO 123 4567",
] * 8
CHARACTERS = [
    *"aeté cAT\t\n 019.,!#_<>|'▁Ġ",
    *("\r\n", "\0", "\u200d", "\u200b", "\ufeff", "\u00a0", "\u3000", "\u0301", "e\u0301", "\u0323\u0307"),
    *("🦙", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "\U0001f98a\ufe0f", "한국어", "\u1112\u1161\u11ab", "ﬁ", "Ⅷ", "ｔｈｅ", "½"),
    *("שלום", "مرحبا", "नमस्ते", "ไทย", "你好", "世", "𝔘", "ß", "İ", "ς", "the ", " cat", "##s", "<0xF0>", "<unk>"),
    *("[UNK]", "</w>", "<|end|>", "[NEW]", "  <mask>"),
]  # fmt: skip


@cache
def odd_strings(count: int = 500) -> list[str]:
    chance = random.Random(20)
    found = ["", " ", "a", "🦙", "🦙" * 300, "a" * 3000, " " * 500, "e\u0301" * 200, "\u200d", "\0"]
    while len(found) < count:
        found.append("".join(chance.choices(CHARACTERS, k=chance.randint(1, 12))))
    return found


def byte_of_letter() -> dict[str, int]:
    """GPT-2's table of letters, written out again: printable Latin-1 as it is, other bytes from U+0100 on."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    return {chr(byte): byte for byte in kept} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_OF = byte_of_letter()


def trained(model: Any, trainer: Any, **parts: Any) -> Any:
    made = tokenizers.Tokenizer(model)
    for name, part in parts.items():
        setattr(made, name, part)
    made.train_from_iterator(CORPUS, trainer)
    return made


def byte_level(size: int = 320, **parts: Any) -> Any:
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    parts.setdefault("pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=False))
    return trained(models.BPE(), trainer, decoder=decoding.ByteLevel(), **parts)


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def fallback_pairs(**parts: Any) -> Any:
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>", *BYTES], limit_alphabet=20, show_progress=False
    )
    made = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), trainer, **parts)
    content = json.loads(made.to_str())
    content["added_tokens"] = content["added_tokens"][:1]
    return tokenizers.Tokenizer.from_str(json.dumps(content))


def unigram(fallback: bool, **parts: Any) -> Any:
    special = ["<unk>", *(BYTES if fallback else [])]
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=special, unk_token="<unk>", initial_alphabet=[], show_progress=False
    )
    made = trained(models.Unigram(), trainer, **parts)
    content = json.loads(made.to_str())
    content["added_tokens"] = content["added_tokens"][:1]
    content["model"]["byte_fallback"] = fallback
    if fallback:  # without single characters most text falls back to bytes
        keep = [piece for piece in content["model"]["vocab"] if len(piece[0]) != 1 or piece[0] in "▁aet"]
        content["model"]["vocab"] = keep
    return tokenizers.Tokenizer.from_str(json.dumps(content))


def word_piece(**parts: Any) -> Any:
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]", "[CLS]"], show_progress=False)
    return trained(models.WordPiece(unk_token="[UNK]"), trainer, **parts)


def with_added(made: Any) -> Any:
    made.add_tokens([AddedToken("[NEW]", normalized=False), AddedToken("<mask>", lstrip=True, normalized=False)])
    made.add_special_tokens(["<|end|>"])
    return made


def clip_like() -> Any:
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        end_of_word_suffix="</w>",
        special_tokens=["<unk>"],
        show_progress=False,
    )
    split = pre_tokenizers.Split(Regex(r"\s+"), "removed")
    splits = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    model = models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")
    made = trained(model, trainer, normalizer=normalizers.NFC(), pre_tokenizer=splits)
    content = json.loads(made.to_str())
    vocab = content["model"]["vocab"]
    for letter in pre_tokenizers.ByteLevel.alphabet():  # as in CLIP, each byte also ends a word
        vocab.setdefault(f"{letter}</w>", len(vocab))
    return tokenizers.Tokenizer.from_str(json.dumps(content))


SPLITS = [
    pre_tokenizers.Digits(individual_digits=True),
    pre_tokenizers.Split(Regex(r"\p{L}+|\s+"), "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
]
LLAMA = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
BERT = normalizers.BertNormalizer(lowercase=True)
MADE: dict[str, Callable[[], Any]] = {
    "byte level, NFC": lambda: byte_level(normalizer=normalizers.NFC()),
    "byte level, NFKC": lambda: byte_level(normalizer=normalizers.NFKC()),
    "byte level, NFD": lambda: byte_level(normalizer=normalizers.NFD()),
    "byte level, lowercase": lambda: byte_level(normalizer=normalizers.Lowercase()),
    "byte level, several splits": lambda: byte_level(pre_tokenizer=pre_tokenizers.Sequence(SPLITS)),
    "byte level, prefix": lambda: byte_level(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "byte level, plain": byte_level,
    "byte level, trimmed": lambda: byte_level(
        normalizer=normalizers.NFC(), post_processor=tokenizers.processors.ByteLevel(trim_offsets=True)
    ),
    "byte level, added": lambda: with_added(byte_level(normalizer=normalizers.NFC())),
    "byte level, normalizer": lambda: byte_level(
        normalizer=normalizers.ByteLevel(), pre_tokenizer=pre_tokenizers.Split(Regex("Ġ?[^Ġ]+"), "isolated")
    ),
    "clip": clip_like,
    "byte fallback, Prepend": lambda: fallback_pairs(normalizer=LLAMA),
    "byte fallback, Metaspace": lambda: fallback_pairs(pre_tokenizer=pre_tokenizers.Metaspace()),
    "byte fallback, Replace": lambda: fallback_pairs(
        normalizer=normalizers.Replace(" ", "▁"), pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous")
    ),
    "Unigram, Metaspace": lambda: unigram(False, pre_tokenizer=pre_tokenizers.Metaspace()),
    "Unigram, byte fallback": lambda: unigram(
        True, normalizer=normalizers.NFKC(), pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first")
    ),
    "WordPiece": lambda: word_piece(normalizer=BERT, pre_tokenizer=pre_tokenizers.BertPreTokenizer()),
    "WordPiece, white space": lambda: word_piece(
        normalizer=normalizers.NFKC(), pre_tokenizer=pre_tokenizers.WhitespaceSplit()
    ),
    "sentencepiece, BPE": lambda: sentence_pieces("bpe", True),
    "sentencepiece, Unigram": lambda: sentence_pieces("unigram", True),
    "sentencepiece, unknown": lambda: sentence_pieces("unigram", False),
}


def sentence_pieces(kind: str, fallback: bool) -> Any:
    sentencepiece = pytest.importorskip("sentencepiece")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=written,
        vocab_size=330 if fallback else 60,
        model_type=kind,
        byte_fallback=fallback,
        hard_vocab_limit=False,
        character_coverage=0.98,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


@cache
def pair(name: str, folder: Path) -> tuple[Any, Tokenizer]:
    """The library's tokenizer, and ours as it is read from the library's file."""
    theirs = MADE[name]()
    path = folder / ("m.model" if name.startswith("sentencepiece") else "tokenizer.json")
    path.write_bytes(theirs.serialized_model_proto()) if path.suffix == ".model" else theirs.save(str(path))
    return theirs, load_tokenizer(path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return cache(lambda name: tmp_path_factory.mktemp("tokenizer"))


def normal_text(name: str, theirs: Any, text: str) -> bytes:
    """The text as the library's normalizer leaves it, with ▁ for what it is, a space; without white space for
    tokenizers that throw it away."""
    if name.startswith("sentencepiece"):
        return str(theirs.normalize(text)).replace("▁", " ").encode()
    normal = text if theirs.normalizer is None else str(theirs.normalizer.normalize_str(text))
    if name == "byte level, normalizer":
        return bytes(map(BYTE_OF.__getitem__, normal))
    if name.startswith("WordPiece") or name == "clip":
        return re.sub(r"\s", "", normal).encode()
    return (normal if name.startswith("byte level") else normal.replace("▁", " ")).encode()


def spelled(name: str, token: str) -> bytes | None:
    """What the name of a token spells; None for an unknown token."""
    if token in ("<unk>", "[UNK]"):
        return None
    if name.startswith(("byte level", "clip")):
        return bytes(map(BYTE_OF.__getitem__, token.removesuffix("</w>") if name == "clip" else token))
    if re.fullmatch("<0x[0-9A-F]{2}>", token) and ("fallback" in name or name.startswith("sentencepiece")):
        return bytes([int(token[3:5], 16)])
    return token.removeprefix("##" if name.startswith("WordPiece") else "").replace("▁", " ").encode()


@pytest.mark.parametrize("name", MADE)
def test_joined_bytes_of_tokens_are_the_normalized_text(name: str, folder: Callable[[str], Path]) -> None:
    theirs, ours = pair(name, folder(name))
    for text in odd_strings():
        found = token_spans(ours, text)
        joined, expected = b"".join(piece.data for piece in found), normal_text(name, theirs, text)
        if "Metaspace" in name or "prefix" in name or name == "Unigram, byte fallback":
            # The pre-tokenizer puts a space before what it splits, where there is none.
            assert joined == (b"" if not text or expected[:1] == b" " else b" ") + expected
        else:
            assert joined == expected


@pytest.mark.parametrize("name", MADE)
def test_each_token_has_the_bytes_that_its_name_spells(name: str, folder: Callable[[str], Path]) -> None:
    theirs, ours = pair(name, folder(name))
    named = theirs.id_to_piece if name.startswith("sentencepiece") else theirs.id_to_token
    added = {"[NEW]", "<mask>"} if name.endswith("added") else set()
    for text in odd_strings():
        found = token_spans(ours, text)
        assert [piece.token for piece in found] == ours.encode(text)
        data = text.encode()
        for piece in found:
            own = spelled(name, named(piece.token)) if named(piece.token) not in added else None
            if own is not None and text[piece.start : piece.stop] != named(piece.token):
                assert piece.data == own
                assert ours.token_bytes(piece.token) == own or name.startswith("WordPiece")
            assert piece.byte_start == len(text[: piece.start].encode()) or piece.data
            here = data[piece.byte_start : piece.byte_stop]
            assert len(text[: piece.start].encode()) <= piece.byte_start
            assert piece.byte_stop <= len(text[: piece.stop].encode())
            assert here in piece.data or here.decode()  # a part of a character is exactly the token's


@pytest.mark.parametrize("name", ["byte level, NFC", "byte fallback, Prepend", "sentencepiece, BPE"])
def test_parts_of_a_character_have_their_own_bytes_and_places(name: str, folder: Callable[[str], Path]) -> None:
    _, ours = pair(name, folder(name))
    text = "a 🦘"  # not in the corpus
    found = [piece for piece in token_spans(ours, text) if piece.stop == 3 and piece.data not in (b" ", b"a", b" a")]
    assert b"".join(piece.data for piece in found).lstrip() == "🦘".encode()
    assert len(found) > 2
    assert [piece.byte_start for piece in found][1:] == [piece.byte_stop for piece in found][:-1]
    assert found[-1].byte_stop == len(text.encode())
    assert {(piece.start, piece.stop) for piece in found[1:]} == {(2, 3)}
    assert b"".join(text.encode()[p.byte_start : p.byte_stop] for p in found).lstrip() == "🦘".encode()


def test_an_unknown_token_has_the_bytes_that_it_replaces(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "the": 1, "##s": 2}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path / "tokenizer.json")
    assert [piece.data for piece in token_spans(ours, "THÉS Élan")] == [b"the", b"s", b"elan"]
    # Bytes without a letter of their own: one unknown token each.
    letters = tokenizers.Tokenizer(models.BPE({"<unk>": 0, "a": 1, "ð": 2}, [], unk_token="<unk>"))
    letters.normalizer, letters.pre_tokenizer = normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.save(str(tmp_path / "letters.json"))
    ours = load_tokenizer(tmp_path / "letters.json")
    assert [piece.data for piece in token_spans(ours, "a🦙a")] == [b"a", b"\xf0", b"\x9f", b"\xa6", b"\x99", b"a"]


def test_a_name_that_looks_like_a_byte_or_a_space_is_text_where_the_file_has_no_such_rule(tmp_path: Path) -> None:
    vocab = {"<unk>": 0, "<0xF0>": 1, "▁x": 2, "##y": 3}
    inner = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path / "tokenizer.json")
    text = "<0xF0> ▁x ##y"
    assert [piece.data for piece in token_spans(ours, text)] == [word.encode() for word in text.split()]
    assert [ours.token_bytes(token) for token in (1, 2, 3)] == [word.encode() for word in text.split()]


@pytest.mark.parametrize("begun", [False, True], ids=["bare", "after <s>"])
@pytest.mark.parametrize("name", ["byte level, NFC", "byte fallback, Prepend", "Unigram, Metaspace"])
def test_bits_per_byte_count_the_bytes_of_the_scored_tokens(name: str, begun: bool, tmp_path: Path) -> None:
    from txlab.cli.score import count_scored_bytes, score_of
    from txlab.engine.transformer.gpt import GPT, GPTShape
    from txlab.engine.transformer.weights import save_model
    from txlab.runs.models import open_folder

    theirs = MADE[name]()
    theirs.add_special_tokens(["<s>"])
    if begun:
        ends = [("<s>", theirs.token_to_id("<s>"))]
        theirs.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=ends)
    theirs.save(str(tmp_path / "tokenizer.json"))
    save_model(GPT(GPTShape(1, 1, 4, 64, theirs.get_vocab_size())), load_tokenizer(tmp_path), tmp_path / "m")
    (tmp_path / "m" / "tokenizer.json").write_text((tmp_path / "tokenizer.json").read_text())
    model = open_folder(tmp_path / "m")
    for text in ("the cat", "🦘 cat", "e\u0301e\u0301", " the"):
        found = score_of(model, text, None)
        whole = len(normal_text(name, theirs, text)) - (name == "byte fallback, Prepend" and text[0] != " ")
        first = len(token_spans(model.tokenizer, text)[0].data)
        prefix = name != "byte level, NFC" and text[0] != " "
        assert count_scored_bytes(model, found, text) == (whole if begun else whole - first + prefix)


def test_the_card_of_a_token_shows_its_own_bytes(folder: Callable[[str], Path]) -> None:
    from txlab.tui.screens.tokens.detail_panel import card
    from txlab.tui.screens.tokens.encoded_text import index, lane_of

    _, ours = pair("byte level, NFC", folder("byte level, NFC"))
    document = index("e\u0301 🦘".encode())
    lane = lane_of("nfc", ours, document, False, lambda done, total: None)
    cards = [card(document, lane, token, True).plain for token in range(len(lane))]
    assert "bytes     c3 a9\n" in cards[0]
    assert b"".join(lane.data(document, token) for token in range(len(lane))) == "é 🦘".encode()
    assert "bytes     98\n" in cards[-1]
    assert "byte 4 of 4" in cards[-1]
