"""The tokenizers next to the weights: the same ids as transformers' own, read from its folders, and back.

BERT's is compared on every character that Unicode 8 knows and on random strings of them; what is younger the library
may class differently (600 of 1.1 million characters), which is no mistake of either.
"""

from __future__ import annotations

import json
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from random_models import transformers
from token_strings import random_strings

from txlab.engine.tokenizers.bases import GPT2
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer
from txlab.engine.tokenizers.huggingface import ForeignTokenizer
from txlab.engine.tokenizers.sentence_pieces import SentencePieceTokenizer
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.engine.tokenizers.word_pieces import WordPieceTokenizer, clean_character
from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights import load_model, save_model
from txlab.engine.transformer.weights.tokenizers import folder_tokenizers
from txlab.errors import LabError

normalizers = pytest.importorskip("tokenizers.normalizers")
splitters = pytest.importorskip("tokenizers.pre_tokenizers")

TEXT = (
    Path(__file__).read_text()
    + "The cats unwanted: Ångström's naïve café, ΣΑΣ, İstanbul, 漢字かな交じり文, ＡＢＣ ﬁn! "
)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS += sorted({c for c in TEXT + TEXT.lower() if not c.isspace()})
WORDS += [f"##{c}" for c in sorted({c for c in TEXT + TEXT.lower() if c.isalnum()})]
WORDS += ["the", "cat", "##ca", "##ts", "un", "##want", "##ed", "cafe", "naive", "café", "def", "σασ", "angstrom", "im"]


def transformers_bert(folder: Path, **options: Any) -> Any:
    (folder / "words.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8", newline="\n")
    return transformers.BertTokenizer(vocab=str(folder / "words.txt"), **options)


OPTIONS = [
    {},
    {"do_lower_case": False},
    {"strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"tokenize_chinese_chars": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "cased", "accents", "cased, no accents", "no ideographs"])
@pytest.mark.parametrize("form", ["tokenizer.json", "vocab.txt"])
def test_word_pieces_are_those_of_transformers(tmp_path: Path, options: dict[str, bool], form: str) -> None:
    theirs = transformers_bert(tmp_path, **options)
    folder = tmp_path / "m"
    if form == "tokenizer.json":
        theirs.save_pretrained(folder)
    else:
        folder.mkdir()
        (tmp_path / "words.txt").rename(folder / "vocab.txt")
        (folder / "tokenizer_config.json").write_text(json.dumps(options))
    found = folder_tokenizers(folder, "bert")
    ours = found.source
    assert isinstance(ours, WordPieceTokenizer)
    assert found.special == {"begin": 2, "end": 3, "separator": 3, "mask": 4, "pad": 0}
    draw = random.Random(4)
    texts = [
        TEXT,
        "",
        " ",
        "\0a\ufffdb\u200dc",
        "a" * 101,
        "cat" * 33,
        "[MASK] of [SEP]s",
        "e\u0301 é ﷺ",
        "x\u3000y\u2028z",
    ]
    texts += [TEXT[(i := draw.randrange(len(TEXT))) : i + draw.randint(1, 40)] for _ in range(300)]
    for text in [*texts, *known(random_strings(600))]:
        wanted = theirs(text, add_special_tokens=False).input_ids
        assert ours.encode(text, special=True) == wanted, text
        assert ours.decode(wanted) == theirs.decode(wanted), text


@pytest.mark.parametrize("options", OPTIONS[1:], ids=["cased", "accents", "cased, no accents", "no ideographs"])
def test_how_words_are_cleaned_is_what_the_folder_says_and_not_the_file(
    tmp_path: Path, options: dict[str, bool]
) -> None:
    folder = tmp_path / "m"
    transformers_bert(tmp_path).save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | options))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = folder_tokenizers(folder, "bert").source
    plain = transformers_bert(tmp_path)
    assert ours.encode(TEXT) == theirs(TEXT, add_special_tokens=False, split_special_tokens=True).input_ids
    assert ours.encode(TEXT) != plain(TEXT, add_special_tokens=False, split_special_tokens=True).input_ids


def words_of(tokenizer: WordPieceTokenizer, text: str) -> list[str]:
    return [word for _, word in tokenizer.words(tokenizer.clean(text))]


@cache
def alike(character: str) -> bool:
    """Whether the library knows this character as Python does, in every way of cleaning."""
    text = f"a{character}b"
    for lower in (True, False):
        for strip in (True, False):
            clean = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
            wanted = [word for word, _ in splitters.BertPreTokenizer().pre_tokenize_str(clean.normalize_str(text))]
            if words_of(WordPieceTokenizer(["[UNK]"], lower, not strip), text) != wanted:
                return False
    return True


def known(texts: list[str]) -> list[str]:
    """The texts without characters that are younger than what the library knows."""
    return ["".join(filter(alike, text)) for text in texts]


@pytest.mark.parametrize(("lower", "accents"), [(True, None), (False, True)])
def test_every_character_is_cleaned_and_cut_as_in_the_library(lower: bool, accents: bool | None) -> None:
    clean = normalizers.BertNormalizer(lowercase=lower, strip_accents=None if accents is None else not accents)
    split = splitters.BertPreTokenizer()
    ours = WordPieceTokenizer(["[UNK]"], lower, accents)
    younger = 0
    for point in range(0x30000):
        if 0xD800 <= point < 0xE000:
            continue
        text = f"a{chr(point)}b"
        wanted = [word for word, _ in split.pre_tokenize_str(clean.normalize_str(text))]
        if words_of(ours, text) != wanted:
            younger += 1
            assert point > 0x600, hex(point)
    assert younger < 620
    clean_character.cache_clear()


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian tokenizer made on the spot: two SentencePiece models and one vocabulary."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("marian")
    pieces = {"</s>": 0, "<unk>": 1}
    for side, words in (
        ("source", "the cat sees {} mice in the house"),
        ("target", "die Katze sieht {} Mäuse im Haus"),
    ):
        sentences = [words.format(n * 7) for n in range(400)]
        with (folder / f"{side}.spm").open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences), model_writer=file, vocab_size=60, minloglevel=2
            )
        inner = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for i in range(inner.get_piece_size()):
            pieces.setdefault(inner.id_to_piece(i), len(pieces))
    pieces = {
        name: token for token, name in enumerate([*(name for name in pieces if name != "<s>"), ">>de<<", "<pad>"])
    }
    (folder / "vocab.json").write_text(json.dumps(pieces))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    return folder


MARIAN_TEXTS = [
    ">>de<< the cat sees 中 Mäuse",
    "",
    "  two  spaces ",
    "the </s> cat<unk>",
    ">>xx<<hello",
    "ﬁnd ½",
    "a\nb",
]


def test_sentence_pieces_are_those_of_transformers(marian: Path, tmp_path: Path) -> None:
    theirs = transformers.MarianTokenizer.from_pretrained(marian)
    theirs.save_pretrained(tmp_path / "m")
    for folder in (marian, tmp_path / "m"):
        found = folder_tokenizers(folder, "encoder-decoder")
        assert found.source.vocabulary == found.target.vocabulary == theirs.vocab_size
        for text in MARIAN_TEXTS:
            wanted = theirs(text, add_special_tokens=False).input_ids
            assert found.source.encode(text, special=True) == wanted
            assert found.source.decode(wanted) == theirs.decode(wanted)
            wanted = theirs(text_target=text, add_special_tokens=False).input_ids
            assert found.target.encode(text, special=True) == wanted
            assert found.target.decode(wanted) == theirs.decode(wanted, use_source_tokenizer=False)
    assert found.source.encode("</s>") != [0]  # typed text makes no special token
    assert found.source.label(found.source.encode("the")[0]).startswith(" ")


def test_a_missing_library_or_file_is_reported_instead_of_a_tokenizer(
    marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no tokenizer" in folder_tokenizers(tmp_path, "gpt").missing
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    found = folder_tokenizers(marian, "encoder-decoder")
    assert found.source is None
    assert "pip install 'txlab[sentencepiece]'" in found.missing
    (tmp_path / "source.spm").write_bytes(b"")
    with pytest.raises(LabError, match=r"no target\.spm"):
        folder_tokenizers(tmp_path, "encoder-decoder")


@pytest.mark.parametrize("content", [b"", b"\0" * 50, b"\x0a\xff\xff\xff\xff\x0f", b"no model at all"])
def test_a_broken_sentence_piece_model_is_a_readable_error(marian: Path, tmp_path: Path, content: bytes) -> None:
    for name in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / name).write_bytes((marian / name).read_bytes())
    (tmp_path / "source.spm").write_bytes(content)
    with pytest.raises(LabError, match=r"source\.spm"):
        folder_tokenizers(tmp_path, "encoder-decoder")


def test_byte_pairs_go_out_and_come_back_the_same_for_both(tmp_path: Path) -> None:
    for name, pattern, base in (("a", "gpt2", GPT2), ("b", "gpt4", None)):
        tokenizer = train_tokenizer([TEXT], 340, pattern, ["<|end|>"], base)
        model = GPT(GPTShape(1, 2, 8, 8, tokenizer.vocabulary))
        end = tokenizer.special_of["<|end|>"]
        assert save_model(model, tokenizer, tmp_path / name, special={"end": end}) == []
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        assert theirs.eos_token_id == end
        again = load_model(tmp_path / name)
        assert again.special == {"end": end}
        (tmp_path / name / "txlab-tokenizer.json").unlink()
        without = load_model(tmp_path / name).tokenizer
        for text in [TEXT, "", *random_strings(50)]:
            ids = tokenizer.encode(text)
            assert theirs(text, add_special_tokens=False).input_ids == ids or "<|end|>" in text
            assert again.tokenizer.encode(text) == without.encode(text) == ids


def test_bytes_are_an_encoding_that_merges_nothing(tmp_path: Path) -> None:
    assert save_model(GPT(GPTShape(1, 2, 8, 8, 256)), ByteTokenizer(), tmp_path / "m") == []
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    assert theirs("né ½", add_special_tokens=False).input_ids == list("né ½".encode())
    assert isinstance(load_model(tmp_path / "m").tokenizer, ByteTokenizer)


def test_characters_keep_our_form_and_a_sentence_says_that_it_is_alone(tmp_path: Path) -> None:
    tokenizer = CharacterTokenizer.of("abc ")
    (note,) = save_model(GPT(GPTShape(1, 2, 8, 8, tokenizer.vocabulary)), tokenizer, tmp_path / "m")
    assert "txlab-tokenizer.json only" in note
    assert load_model(tmp_path / "m").tokenizer.encode("cab!") == tokenizer.encode("cab!")


def test_word_pieces_go_out_and_come_back(tmp_path: Path) -> None:
    tokenizer = WordPieceTokenizer(WORDS, lower=False)
    model = Bert(BertShape(1, 2, 8, 8, len(WORDS)))
    assert save_model(model, tokenizer, tmp_path / "m", special={"pad": 0}) == []
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    again = load_model(tmp_path / "m").tokenizer
    wanted = tokenizer.encode(TEXT)
    assert theirs(TEXT.replace("[", "("), add_special_tokens=False).input_ids == tokenizer.encode(
        TEXT.replace("[", "(")
    )
    assert again.encode(TEXT) == wanted


def test_a_tokenizer_that_only_the_library_runs_goes_out_and_comes_back(tmp_path: Path) -> None:
    library = pytest.importorskip("tokenizers")
    inner = library.Tokenizer(library.models.WordLevel({"[UNK]": 0, "the": 1, "cat": 2}, unk_token="[UNK]"))
    inner.pre_tokenizer = library.pre_tokenizers.Whitespace()
    tokenizer = ForeignTokenizer(inner, "WordLevel", False)
    assert save_model(GPT(GPTShape(1, 2, 8, 8, 3)), tokenizer, tmp_path / "m") == []
    assert load_model(tmp_path / "m").tokenizer.encode("the cat sat") == [1, 2, 0]


def test_marians_two_tokenizers_go_out_and_come_back(marian: Path, tmp_path: Path) -> None:
    found = folder_tokenizers(marian, "encoder-decoder")
    rows = found.source.vocabulary
    model = EncoderDecoder(EncoderDecoderShape(1, 1, 2, 8, rows, rows, 8))
    assert save_model(model, found.source, tmp_path / "m", target_tokenizer=found.target, special={"end": 0}) == []
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert isinstance(again.target_tokenizer, SentencePieceTokenizer)
    for text in MARIAN_TEXTS:
        assert theirs(text, add_special_tokens=False).input_ids == again.tokenizer.encode(text, special=True)


def test_two_tokenizers_of_txlab_come_back_and_transformers_finds_none(tmp_path: Path) -> None:
    source, target = CharacterTokenizer.of("abc "), CharacterTokenizer.of("xyz ")
    model = EncoderDecoder(EncoderDecoderShape(1, 1, 2, 8, 20, 20, 8))
    (note,) = save_model(model, source, tmp_path / "m", target_tokenizer=target)
    assert "txlab-target-tokenizer.json" in note
    again = load_model(tmp_path / "m")
    assert again.tokenizer.encode("ab") == source.encode("ab")
    assert again.target_tokenizer.encode("zy") == target.encode("zy")
