"""Files of tokenizers, changed at random: the command answers with a tokenizer that is right, or one sentence and 2.

`TXLAB_MUTATIONS=100 pytest …` changes each of the sixteen files so often (1 600), and the same way each time.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import txlab.cli
from txlab.engine.tokenizers.bases import GPT2, Alphabet
from txlab.engine.tokenizers.elementary import CharacterTokenizer, WordTokenizer
from txlab.engine.tokenizers.files import export_tokenizer, load_tokenizer, save_tokenizer
from txlab.engine.tokenizers.huggingface import huggingface_tokenizer
from txlab.engine.tokenizers.offsets import token_spans
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.engine.transformer.weights.tokenizers import folder_tokenizers
from txlab.errors import LabError

tokenizers = pytest.importorskip("tokenizers")

EACH = int(os.environ.get("TXLAB_MUTATIONS", "8"))
TEXT = "the cat <new> sat on the mat <|e|> é\n  <m> the</s>"
VALUES: list[Any] = [None, True, False, 0, 1, -1, 97, 256, 300, 10**6, 10**30, 1.5, [], {}, [[]], ["a", "b"], "", "a"]
VALUES += ["ab", "Ġ", "Ġt", "<new>", "</s>", "\x00", "(", "gpt4", "\ud800", "BPE", "Sequence", "ByteLevel", "\\p{L}+"]
BYTES = [b"\n", b" ", b'"', b"[", b"}", b"9" * 30, b"NaN", b"\xff", b"\0", b"Ig== 5\n", b"null", b","]
# The file that is changed → what is then opened.
FORMS = {
    "tokenizer.json": "",
    "words/tokenizer.json": "words",
    "bert/tokenizer.json": "bert",
    "bert/vocab.txt": "bert",
    "bert/tokenizer_config.json": "bert",
    "gpt2/vocab.json": "gpt2",
    "gpt2/merges.txt": "gpt2",
    "gpt2/added_tokens.json": "gpt2",
    "gpt2/special_tokens_map.json": "gpt2",
    "fast/tokenizer_config.json": "fast",
    "ranks.tiktoken": "",
    "ranks.tiktoken.json": "ranks.tiktoken",
    "js.json": "",
    "own.json": "",
    "alphabet.json": "",
    "any.spm": "",
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("valid")
    for name in ("gpt2", "fast", "bert", "words"):
        (folder / name).mkdir()
    plain = train_tokenizer([TEXT * 4], 300, "gpt2", ["<|e|>"], GPT2)
    export_tokenizer(plain, folder / "ranks.tiktoken", "tiktoken")
    export_tokenizer(plain, folder / "gpt2", "gpt2")
    export_tokenizer(plain, folder / "plain.json", "huggingface")
    inner = tokenizers.Tokenizer.from_file(str(folder / "plain.json"))
    inner.add_tokens(["<new>", tokenizers.AddedToken("<m>", lstrip=True, single_word=True, special=True)])
    end = ("<|e|>", inner.token_to_id("<|e|>"))
    inner.post_processor = tokenizers.processors.Sequence(
        [
            tokenizers.processors.ByteLevel(trim_offsets=True),
            tokenizers.processors.TemplateProcessing(single="<|e|> $A", pair="<|e|> $A $B", special_tokens=[end]),
        ]
    )
    for name in ("tokenizer.json", "fast/tokenizer.json"):
        inner.save(str(folder / name))
    save_tokenizer(huggingface_tokenizer(json.loads(inner.to_str())), folder / "own.json")
    save_tokenizer(train_tokenizer([TEXT], 70, "none", base=Alphabet.of([TEXT])), folder / "alphabet.json")
    save_tokenizer(CharacterTokenizer.of(TEXT), folder / "characters.json")
    save_tokenizer(WordTokenizer.of(TEXT), folder / "words.json")
    decoder = {"300": {"content": "<s>", "special": True, "normalized": False}, "301": {"content": "<x>"}}
    (folder / "fast/tokenizer_config.json").write_text(
        json.dumps({"added_tokens_decoder": decoder, "bos_token": "<s>", "extra_special_tokens": ["<|e|>"]})
    )
    (folder / "gpt2/added_tokens.json").write_text(json.dumps({"<new>": 300, "</s>": 301}))
    named = {"eos_token": {"content": "</s>", "lstrip": False}, "pad_token": "<|e|>", "additional_special_tokens": []}
    (folder / "gpt2/special_tokens_map.json").write_text(json.dumps(named))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "on", "<", ">", "m", "##at"]
    (folder / "bert/vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "bert/tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": True, "added_tokens_decoder": {"14": {"content": "<New>", "normalized": True}}})
    )
    theirs = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: token for token, word in enumerate(words)}, unk_token="[UNK]")
    )
    theirs.normalizer = tokenizers.normalizers.BertNormalizer()
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    theirs.add_special_tokens(words[:5])
    theirs.save(str(folder / "bert/tokenizer.json"))
    level = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "the": 1, "cat": 2}, unk_token="[UNK]"))
    level.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    level.save(str(folder / "words/tokenizer.json"))
    lines = [line.split() for line in (folder / "ranks.tiktoken").read_text().splitlines()]
    ranks = "! 0 " + " ".join(word for word, _ in sorted(lines, key=lambda line: int(line[1])))
    (folder / "js.json").write_text(
        json.dumps({"pat_str": "\\p{L}+|\\s", "special_tokens": {"<|e|>": 320}, "bpe_ranks": ranks})
    )
    sentencepiece = pytest.importorskip("sentencepiece")
    with (folder / "any.spm").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([f"the cat sees {n} mice" for n in range(300)]),
            model_writer=file,
            vocab_size=40,
            minloglevel=2,
        )
    return folder


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in entries for place in places(part, (*path, key)))]


def changed_json(content: Any, draw: random.Random) -> Any:
    """One place replaced, removed, doubled or renamed; near the root as often as deep down."""
    content = copy.deepcopy(content)
    every = places(content)[1:]
    if not every:
        return draw.choice(VALUES)
    depth = draw.randint(1, max(map(len, every)))
    *above, key = draw.choice([path for path in every if len(path) == depth])
    parent = content
    for step in above:
        parent = parent[step]
    act = draw.choice(["set", "set", "near", "remove", "double"])
    if act == "remove":
        del parent[key]
    elif act == "set":
        parent[key] = draw.choice(VALUES)
    elif act == "near":  # what is elsewhere, or a number next to it
        old = parent[key]
        parent[key] = (
            old + draw.choice([-1, 1]) if type(old) is int else not old if type(old) is bool else at(content, draw)
        )
    elif isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    else:
        parent[draw.choice(["x", "ids", "vocab", "the", "<|e|>", "301"])] = copy.deepcopy(parent[key])
    return content


def at(content: Any, draw: random.Random) -> Any:
    for step in draw.choice(places(content)[1:]):
        content = content[step]
    return copy.deepcopy(content)


def changed_bytes(data: bytes, draw: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        start = draw.randint(0, len(raw))
        raw[start : min(len(raw), start + draw.choice([0, 1, 1, 2, 12]))] = draw.choice([*BYTES, b""])
    return bytes(raw[: draw.randint(0, len(raw))] if draw.random() < 0.2 else raw)


def changed(data: bytes, name: str, draw: random.Random) -> bytes:
    if not name.endswith(".json") or draw.random() < 0.3:
        return changed_bytes(data, draw)
    content = json.loads(data)
    for _ in range(draw.randint(1, 3)):
        content = changed_json(content, draw)
    return json.dumps(content).encode()


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Path], tuple[int, str, str]]:
    def called(path: Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["txlab", "tokenize", "--json", "--all", "--tokenizer", str(path), TEXT])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            txlab.cli.main()
        said = capfd.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return called


def sound(tokenizer: Any) -> None:
    """What it makes of texts is in its vocabulary and in the text, and can be shown."""
    for special in (False, True) if getattr(tokenizer, "special", ()) else (False,):
        ids = tokenizer.encode(TEXT, special=True) if special else tokenizer.encode(TEXT)
        found = token_spans(tokenizer, TEXT, special=special)
        assert [piece.token for piece in found] == ids
        assert all(0 <= token < tokenizer.vocabulary for token in ids)
        assert all(0 <= piece.start <= piece.stop <= len(TEXT) for piece in found)
        tokenizer.decode(ids)
    tokenizer.encode_long("the cat " * 1_300)
    [tokenizer.label(token) for token in range(min(tokenizer.vocabulary, 400))]


def bert_is_sound(folder: Path) -> bool:
    """False where it is refused, in one line."""
    try:
        found = folder_tokenizers(folder, "bert").source
    except LabError as error:
        return "\n" in str(error)
    if found is not None:
        sound(found)
    return True


def same_as_the_library(path: Path, ids: list[int]) -> bool:
    """Whether it was compared: not where the library refuses the file, or numbers its added tokens itself."""
    content = json.loads(path.read_bytes())
    # A template may have the text twice; that is for models to refuse.
    content |= {"truncation": None, "padding": None, "post_processor": None}
    try:
        inner = tokenizers.Tokenizer.from_str(json.dumps(content))
        inner.encode_special_tokens = True
        theirs = inner.encode(TEXT, add_special_tokens=False).ids
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return False
    if any(inner.token_to_id(entry["content"]) != entry["id"] for entry in content.get("added_tokens", [])):
        return False
    assert ids == theirs
    return True


@pytest.mark.parametrize("name", FORMS)
def test_a_changed_file_is_read_rightly_or_refused_with_an_error(
    name: str, valid: Path, tmp_path: Path, command: Callable[[Path], tuple[int, str, str]]
) -> None:
    draw = random.Random(name)
    outcomes = {"read": 0, "refused": 0, "compared": 0}
    original = (valid / name).read_bytes()
    for number in range(EACH):
        folder = tmp_path / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        beside = (valid / name).parent  # what a file is read with is in its own folder
        if beside == valid:
            folder.mkdir()
            shutil.copy(valid / "ranks.tiktoken", folder)
        else:
            shutil.copytree(beside, folder / beside.name)
        (folder / name).write_bytes(changed(original, name, draw))
        opened = folder / (FORMS[name] or name)
        if name in ("bert/vocab.txt", "bert/tokenizer_config.json") and number % 2:
            (folder / "bert/tokenizer.json").unlink()
        if opened.name == "bert":
            outcomes["read" if bert_is_sound(opened) else "refused"] += 1
            continue
        status, out, error = command(opened)
        said = f"{name} {number}: {error}"
        if status:
            assert (status, out, len(error.splitlines())) == (2, "", 1), said
            assert error.startswith("txlab: "), said
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        sound(load_tokenizer(opened))
        if opened.name == "tokenizer.json":
            outcomes["compared"] += same_as_the_library(opened, json.loads(out)["ids"])
    assert outcomes["refused"]
    if name == "tokenizer.json" and EACH > 20:
        assert outcomes["compared"]


def test_every_unchanged_file_is_read(valid: Path, command: Callable[[Path], tuple[int, str, str]]) -> None:
    for name, opened in FORMS.items():
        if opened != "bert":
            assert command(valid / (opened or name))[0] == 0, name
    assert folder_tokenizers(valid / "bert", "bert").source.vocabulary == 15
    assert load_tokenizer(valid / "gpt2").encode("<new>") == [300]
