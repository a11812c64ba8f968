"""Added tokens, what is put around a text, and where tokens lie: as Hugging Face's library and transformers have it."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from random_models import randomised, transformers
from test_weights_tokenizers import WORDS
from test_weights_tokenizers import marian as marian  # the fixture
from token_strings import random_strings, undisputed

from txlab.engine.tokenizers.bases import GPT2
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.files import content_of, export_tokenizer, load_tokenizer, tokenizer_of
from txlab.engine.tokenizers.huggingface import huggingface_tokenizer
from txlab.engine.tokenizers.offsets import token_spans, token_spans_of_bytes
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.engine.tokenizers.trees import explain_token
from txlab.engine.tokenizers.word_pieces import WordPieceTokenizer
from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.weights.tokenizers import folder_tokenizers, write_tokenizers
from txlab.errors import LabError
from txlab.runs.models import open_folder

tokenizers = pytest.importorskip("tokenizers")

FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
ADDED = ["<new token>", "Καλημέρα", "the", "don't", "  ", "\n", "foo", "foo_bar", "_b", "<m>", " <n>", "é", "猫", "1"]
ADDED += ["<|endoftext|>x", "e", "\u0301", "The", "Ġthe", "a b"]
GLUE = [" ", "  ", "x", "\n", " a", "é", "b_", ""]


@pytest.fixture(scope="module")
def strings() -> list[str]:
    return undisputed(random_strings(2_612))[0]


@pytest.fixture(scope="module")
def merged(strings: list[str]) -> BytePairTokenizer:
    return train_tokenizer(strings[:500], 600, "gpt2", ["<|endoftext|>"], GPT2)


@pytest.fixture(scope="module")
def plain(merged: BytePairTokenizer, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plain") / "tokenizer.json"
    export_tokenizer(merged, path, "huggingface")
    return path.read_text()


def mixed(draw: random.Random, texts: list[str], strings: list[str]) -> str:
    return "".join(draw.choice([*texts, *GLUE, draw.choice(strings)]) for _ in range(draw.randint(1, 7)))


def theirs_or_none(inner: Any, text: str, special: bool) -> Any:
    """The library's encoding; None where it panics, as it does where a token is inside what another one strips."""
    inner.encode_special_tokens = not special
    try:
        return inner.encode(text, add_special_tokens=False)
    except BaseException as error:
        if "PanicException" not in type(error).__name__:
            raise
        return None


def test_added_tokens_of_any_flags_are_those_of_the_library(plain: str, strings: list[str]) -> None:
    draw = random.Random(0)
    compared = 0
    for kind in range(24):
        inner = tokenizers.Tokenizer.from_str(plain)
        for content in draw.sample(ADDED, draw.randint(1, 8)):
            flags = {flag: draw.random() < 0.3 for flag in FLAGS}
            inner.add_tokens([tokenizers.AddedToken(content, special=draw.random() < 0.3, **flags)])
        if kind % 3:
            inner.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True, add_prefix_space=kind % 3 == 1)
        content = json.loads(inner.to_str())
        ours = huggingface_tokenizer(content)
        assert isinstance(ours, BytePairTokenizer)
        again = tokenizer_of(json.loads(content_of(ours)))
        added = [entry["content"] for entry in content["added_tokens"]]
        for text in [mixed(draw, added, strings) for _ in range(40)]:
            for special in (False, True):
                if (found := theirs_or_none(inner, text, special)) is None:
                    continue
                compared += 1
                said = (added, text, special)
                assert ours.encode(text, special=special) == found.ids == again.encode(text, special=special), said
                lying = token_spans(ours, text, special=special)
                assert [(p.token, (p.start, p.stop)) for p in lying] == [*zip(found.ids, found.offsets, strict=True)], (
                    said
                )
        long = " ".join(mixed(draw, added, strings) for _ in range(2_000))[:30_000]
        if (found := theirs_or_none(inner, long, False)) is not None:
            assert ours.encode_long(long).tolist() == found.ids
    assert compared > 1_800


def test_added_tokens_go_out_to_the_library_and_come_back(plain: str, tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer.from_str(plain)
    inner.add_tokens(["<new token>", tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    ours = huggingface_tokenizer(json.loads(inner.to_str()))
    export_tokenizer(ours, tmp_path / "out.json", "huggingface")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "out.json"))
    text = "x <new token>  <mask> <|endoftext|>y"
    assert again.encode(text).ids == inner.encode(text).ids == ours.encode(text, special=True)
    assert ours.encode(text) != ours.encode(text, special=True)  # nothing typed becomes a special token unasked
    new = inner.token_to_id("<new token>")
    assert new in ours.encode(text)
    assert ours.decode(ours.encode("x <new token>y")) == "x <new token>y"
    assert "an added token" in str(explain_token(ours, new).operands[0].note)
    for form in ("tiktoken", "gpt2"):
        with pytest.raises(LabError, match="<new token>"):
            export_tokenizer(ours, tmp_path / form, form)


def test_trimmed_offsets_are_those_of_the_library(plain: str, strings: list[str]) -> None:
    for prefix in (False, True):
        inner = tokenizers.Tokenizer.from_str(plain)
        inner.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True, add_prefix_space=prefix)
        inner.encode_special_tokens = True
        ours = huggingface_tokenizer(json.loads(inner.to_str()))
        texts = [*strings, " a", "  a", " ", "   "]
        whole = huggingface_tokenizer(json.loads(plain))
        differ = 0
        for text, found in zip(texts, inner.encode_batch(texts), strict=True):
            lying = token_spans_of_bytes(ours, text.encode())
            assert [(piece.start, piece.stop) for piece in lying] == found.offsets, repr(text)
            assert b"".join(piece.data for piece in lying) == text.encode()  # the bytes of a token stay
            differ += [(piece.start, piece.stop) for piece in token_spans(whole, text)] != found.offsets
        assert differ > 800


def gpt2_folder(merged: BytePairTokenizer, folder: Path, **options: Any) -> Any:
    export_tokenizer(merged, folder, "gpt2")
    theirs = transformers.GPT2Tokenizer.from_pretrained(folder, **options)
    theirs.add_tokens(["<new token>", "Καλημέρα"])
    theirs.add_tokens([transformers.AddedToken("<w>", single_word=True, lstrip=True)])
    theirs.add_special_tokens({"pad_token": "<pad>"})
    return theirs


TYPED = "Καλημέρα <new token>s <w> x<w> and <|endoftext|><pad> don't"


def save_gpt2(theirs: Any, folder: Path) -> Any:
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, n_positions=128, vocab_size=len(theirs))
    model = randomised(transformers.GPT2LMHeadModel(config), torch.float32)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("form", ["tokenizer.json", "old files", "added_tokens_decoder"])
def test_a_folders_added_tokens_are_those_of_its_own_tokenizer(
    merged: BytePairTokenizer, tmp_path: Path, form: str
) -> None:
    theirs = gpt2_folder(merged, tmp_path / "made")
    folder = tmp_path / "m"
    folder.mkdir()
    if form == "tokenizer.json":
        theirs.save_pretrained(folder)
    else:
        for name in ("vocab.json", "merges.txt"):
            (folder / name).write_bytes((tmp_path / "made" / name).read_bytes())
        theirs.save_pretrained(tmp_path / "saved")
        entries = json.loads((tmp_path / "saved" / "tokenizer.json").read_text())["added_tokens"]
        config: dict[str, Any] = {"tokenizer_class": "GPT2Tokenizer", "pad_token": "<pad>"}
        if form == "old files":  # which do not keep flags
            (folder / "added_tokens.json").write_text(json.dumps({e["content"]: e["id"] for e in entries}))
            (folder / "special_tokens_map.json").write_text(
                json.dumps(
                    {
                        "pad_token": {
                            "content": "<pad>",
                            "lstrip": False,
                            "rstrip": False,
                            "single_word": False,
                            "normalized": False,
                        }
                    }
                )
            )
            del config["pad_token"]
        else:
            decoder = {str(entry.pop("id")): entry for entry in entries}
            config["added_tokens_decoder"] = decoder
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
    save_gpt2(theirs, folder)
    opened = open_folder(folder)
    asked = opened.with_special()
    for text in [TYPED, "<new token>", "", " <w> <w>", *random_strings(100)]:
        found = theirs(text, return_offsets_mapping=True)
        assert list(asked.ids(text)) == found.input_ids, text
        lying = token_spans(opened.tokenizer, text, special=True)
        assert [(piece.start, piece.stop) for piece in lying] == found.offset_mapping, text
    unasked = theirs(TYPED, split_special_tokens=True).input_ids
    assert list(opened.ids(TYPED)) == unasked != list(asked.ids(TYPED))
    ids = theirs("x Καλημέρα<new token>y", split_special_tokens=True).input_ids
    assert opened.tokenizer.decode(ids) == theirs.decode(ids) == "x Καλημέρα<new token>y"
    assert load_tokenizer(folder).encode(TYPED) == unasked  # `txlab tokenize --tokenizer FOLDER` too


def gpt2_generic(folder: Path, **config: Any) -> None:
    """Say nothing in tokenizer_config.json but this."""
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about | config))


@pytest.mark.parametrize("form", ["template", "template, add_bos_token", "add_bos_token", "add_bos_token, old files"])
def test_what_the_own_tokenizer_puts_around_a_text_is_put_there(
    merged: BytePairTokenizer, tmp_path: Path, form: str
) -> None:
    theirs = gpt2_folder(merged, tmp_path / "made")
    folder = tmp_path / "m"
    processors = tokenizers.processors
    special = [(name, theirs.convert_tokens_to_ids(name)) for name in ("<|endoftext|>", "<pad>")]
    single = "<|endoftext|> <pad> $A <pad>"
    template = processors.TemplateProcessing(single=single, pair=single + " $B", special_tokens=special)
    plain = processors.ByteLevel(trim_offsets=False)
    theirs._tokenizer.post_processor = processors.Sequence([plain, template]) if "template" in form else plain
    theirs.save_pretrained(folder)
    gpt2_generic(folder, **({"add_bos_token": True} if "add" in form else {}))
    if "old" in form:
        (folder / "tokenizer.json").unlink()
        for name in ("vocab.json", "merges.txt"):
            (folder / name).write_bytes((tmp_path / "made" / name).read_bytes())
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True})
        )
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    model = save_gpt2(theirs, folder)
    opened = open_folder(folder)
    text = "the cat <new token>"
    wanted = theirs(text).input_ids
    added = {"template": 3, "template, add_bos_token": 3, "add_bos_token": 0, "add_bos_token, old files": 1}[form]
    assert len(wanted) - len(theirs(text, add_special_tokens=False).input_ids) == added
    assert list(opened.ids(text)) == wanted
    assert ("has add_bos_token, which has no effect with" in opened.note) == (form == "add_bos_token")
    options = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    written = model.generate(torch.tensor([wanted]), max_new_tokens=12, **options)[0, len(wanted) :].tolist()
    assert [*generate(opened.model, opened.ids(text), 12, temperature=0.0, generator=torch.Generator())] == written


def test_a_post_processor_that_is_not_read_is_reported(merged: BytePairTokenizer, tmp_path: Path) -> None:
    theirs = gpt2_folder(merged, tmp_path / "made")
    theirs.save_pretrained(tmp_path / "m")
    save_gpt2(theirs, tmp_path / "m")
    path = tmp_path / "m" / "tokenizer.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"post_processor": {"type": "Newer"}}))
    assert (
        "post-processor 'Newer' of its tokenizer is not read: texts get no added tokens"
        in open_folder(tmp_path / "m").note
    )
    template = {"type": "BertProcessing", "sep": ["x", 10**5], "cls": ["x", 0]}
    path.write_text(json.dumps(content | {"post_processor": template}))
    with pytest.raises(LabError, match="puts the token 100000 around a text"):
        open_folder(tmp_path / "m")


@pytest.mark.parametrize("form", ["tokenizer.json", "vocab.txt"])
@pytest.mark.parametrize("lower", [True, False])
def test_bert_has_the_added_tokens_of_its_own_tokenizer(
    tmp_path: Path, strings: list[str], form: str, lower: bool
) -> None:
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    theirs = transformers.BertTokenizer(vocab=str(tmp_path / "words.txt"), do_lower_case=lower)
    theirs.add_tokens(["<New token>", "Καλημέρα", "un", "x y"])
    theirs.add_tokens(
        [
            transformers.AddedToken("<w>", single_word=True, lstrip=True, rstrip=True),
            transformers.AddedToken("É", normalized=False),
        ]
    )
    theirs.add_special_tokens({"extra_special_tokens": ["[ENT]"]})
    folder = tmp_path / "m"
    theirs.save_pretrained(folder)
    if form == "vocab.txt":
        entries = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
        decoder = {str(entry.pop("id")): entry for entry in entries}
        (folder / "tokenizer.json").unlink()
        (tmp_path / "words.txt").rename(folder / "vocab.txt")
        config = {"do_lower_case": lower, "added_tokens_decoder": decoder}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    ours = folder_tokenizers(folder, "bert").source
    assert isinstance(ours, WordPieceTokenizer)
    draw = random.Random(2)
    added = [
        "<New token>",
        "<new TOKEN>",
        "Καλημέρα",
        "καλημερα",
        "un",
        "x y",
        "<w>",
        "É",
        "é",
        "[ENT]",
        "[MASK]",
        "[ent]",
    ]
    texts = ["".join(c for c in mixed(draw, added, strings[:400]) if alike(c, lower)) for _ in range(300)]
    # NFD puts this mark before others, and then the library counts characters as if they had not moved.
    texts = [text.replace("\U0001d165", "") for text in texts]
    for text in [*texts, "Ångström's naïve 中cats e\u0301 <w>  \tcafé", "a" * 101]:
        for special in (True, False):
            found = theirs(
                text, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=not special
            )
            assert ours.encode(text, special=special) == found.input_ids, text
            assert [
                (piece.start, piece.stop) for piece in token_spans(ours, text, special=special)
            ] == found.offset_mapping, text
        assert ours.decode(found.input_ids) == theirs.decode(found.input_ids), text


def alike(character: str, lower: bool) -> bool:
    """Whether the library knows this character as Python does; not so for what is younger than Unicode 8."""
    clean = tokenizers.normalizers.BertNormalizer(lowercase=lower)
    split = tokenizers.pre_tokenizers.BertPreTokenizer()
    ours = WordPieceTokenizer(["[UNK]"], lower)
    text = f"a{character}b"
    wanted = [word for word, _ in split.pre_tokenize_str(clean.normalize_str(text))]
    return [word for _, word in ours.words(ours.clean(text))] == wanted


def test_marian_has_the_added_tokens_of_its_own_tokenizer(marian: Path, tmp_path: Path) -> None:
    theirs = transformers.MarianTokenizer.from_pretrained(marian)
    theirs.add_tokens(["<new token>", "Καλημέρα"])
    theirs.add_tokens(
        [
            transformers.AddedToken("<w>", single_word=True),
            transformers.AddedToken("<s2>", lstrip=True, rstrip=True, special=True),
        ]
    )
    theirs.save_pretrained(tmp_path / "m")
    found = folder_tokenizers(tmp_path / "m", "encoder-decoder")
    assert found.source.vocabulary == len(theirs)
    for text in [
        "the <new token>cat",
        "Καλημέρα  the",
        "x<w> <w> <w>x",
        "the  <s2>  cat",
        ">>de<<the <new token>>>de<< cat",
        "</s>a<unk>",
    ]:
        wanted = theirs(text, add_special_tokens=False).input_ids
        assert found.source.encode(text, special=True) == wanted, text
        assert found.source.decode(wanted) == theirs.decode(wanted), text
        assert [piece.token for piece in token_spans(found.source, text, special=True)] == wanted
    (new,) = theirs("<new token>", add_special_tokens=False).input_ids
    typed = found.source.encode("<s2></s><new token>")
    assert typed[-1] == new
    assert not set(typed) & set(theirs.all_special_ids) - {theirs.unk_token_id}
    (piece,) = [piece for piece in token_spans(found.source, "ﬁ 中 <new token>") if piece.token == new]
    assert (piece.start, piece.stop) == (4, 15)


def test_added_tokens_of_bert_and_marian_go_out_and_come_back(marian: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    bert = transformers.BertTokenizer(vocab=str(tmp_path / "words.txt"))
    bert.add_tokens(["<New token>", "un", transformers.AddedToken("<w>", lstrip=True, special=True)])
    bert.save_pretrained(tmp_path / "bert")
    spoken = transformers.MarianTokenizer.from_pretrained(marian)
    spoken.add_tokens(["<new token>", transformers.AddedToken("<s2>", lstrip=True, special=True)])
    spoken.save_pretrained(tmp_path / "marian")
    for theirs, kind in ((bert, "bert"), (spoken, "encoder-decoder")):
        found = folder_tokenizers(tmp_path / (kind if kind == "bert" else "marian"), kind)
        out = tmp_path / f"{kind} out"
        out.mkdir()
        assert write_tokenizers(out, found.source, found.target, {}) == []
        again = folder_tokenizers(out, kind).source
        other = type(theirs).from_pretrained(out)
        for text in ("the <New token> cat", "under  <w>the <new token>", "a  <s2> b</s>[SEP]"):
            wanted = theirs(text, add_special_tokens=False).input_ids
            assert again.encode(text, special=True) == other(text, add_special_tokens=False).input_ids == wanted
            assert again.decode(wanted) == theirs.decode(wanted)


def test_what_only_the_library_runs_makes_special_tokens_where_they_are_asked_for(tmp_path: Path) -> None:
    vocab = {"[UNK]": 0, "the": 1, "cat": 2}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.add_special_tokens(["[CLS]"])
    inner.add_tokens(["new one"])
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "added_tokens.json").write_text('{"an other": 5}')
    ours = load_tokenizer(tmp_path)
    assert ours.encode("the [CLS]new one an other") == [1, 0, 0, 0, 4, 5]
    assert ours.encode("the [CLS]new one", special=True) == [1, 3, 4]  # type: ignore[call-arg]
    assert [piece.special for piece in token_spans(ours, "the [CLS]", special=True)] == [False, True]


@pytest.mark.parametrize("name", ["GPT2Tokenizer", "RobertaTokenizerFast", "PreTrainedTokenizerFast"])
def test_what_the_class_puts_before_a_text_counts_and_not_its_file(plain: str, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(plain)
    said = {"tokenizer_class": name, "add_prefix_space": True, "eos_token": "<|endoftext|>"}
    names = ("bos", "unk", "sep", "pad", "cls", "mask")
    said |= {f"{each}_token": "<|endoftext|>" for each in names if name.startswith("Rob")}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = folder_tokenizers(folder, "gpt").source
    for text in ("the cat", " the", "", "x\ny"):
        assert ours.encode(text) == theirs(text, add_special_tokens=False).input_ids
    if name == "GPT2Tokenizer":
        (folder / "tokenizer.json").unlink()
        export_tokenizer(huggingface_tokenizer(json.loads(plain)), folder, "gpt2")
        assert "add_prefix_space" in folder_tokenizers(folder, "gpt").missing
