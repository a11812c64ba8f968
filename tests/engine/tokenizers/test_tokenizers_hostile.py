"""Files that lie, loop, swell or break off: each reader says one sentence, soon, and in little memory."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import tracemalloc
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from txlab.engine.tokenizers.added_tokens import AddedToken, Finder, read_added_tokens
from txlab.engine.tokenizers.bases import GPT2, Alphabet
from txlab.engine.tokenizers.elementary import WordTokenizer
from txlab.engine.tokenizers.files import export_tokenizer, load_tokenizer, save_tokenizer, tokenizer_of
from txlab.engine.tokenizers.gpt2_files import LETTERS
from txlab.engine.tokenizers.json_files import LARGEST_FILE
from txlab.engine.tokenizers.patterns import chunks, compile_pattern
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.errors import LabError

pytestmark = pytest.mark.evidence

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
LETTERS_ONLY = {letter: i for i, letter in enumerate(LETTERS.values())}


def refused(path: Path, said: str = "") -> str:
    """The sentence; reading takes not much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(LabError, match=said) as error:
            load_tokenizer(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 600 << 20
    message = str(error.value)
    assert path.name[:20] in message
    assert "\n" not in message
    assert len(message) < 600
    return message


def hugging(**model: object) -> dict[str, object]:
    return {
        "added_tokens": [],
        "pre_tokenizer": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": LETTERS_ONLY | {"ab": 256}, "merges": ["a b"]} | model,
    }


def added(**changes: object) -> dict[str, object]:
    return hugging() | {"added_tokens": [{"id": 300, "content": "<e>"} | changes]}


def split_at(pattern: object) -> dict[str, object]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    last = BYTE_LEVEL | {"use_regex": False}
    return hugging() | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, last]}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"model": None}, "model must be an object"),
        ({"model": {}}, "it"),
        ({"model": {"type": ["BPE"]}}, "it"),
        (hugging(vocab=None), "vocab must be an object"),
        (hugging(vocab=["a"]), "vocab must be an object"),
        (hugging(vocab=LETTERS_ONLY | {"ab": "256"}), "the id of 'ab' must be a whole number"),
        (hugging(vocab=LETTERS_ONLY | {"ab": 256.0}), "the id of 'ab' must be a whole number"),
        (hugging(vocab=LETTERS_ONLY | {"ab": True}), "the id of 'ab' must be a whole number"),
        (hugging(vocab=LETTERS_ONLY | {"ab": -1}), "the id of 'ab' is -1; allowed"),
        (hugging(vocab=LETTERS_ONLY | {"ab": 10**9}), "the id of 'ab' is 1000000000; allowed"),
        (hugging(vocab=LETTERS_ONLY | {"ab": 10**4000}), "the id of 'ab' is 1000"),
        (hugging(vocab=LETTERS_ONLY | {"ab": 7}), "the id 7 is given to two tokens"),
        (hugging(vocab=LETTERS_ONLY), "merge 0 joins 'a' and 'b', and 'ab' is not in vocab"),
        (hugging(merges=None), "merges must be a list"),
        (hugging(merges="a b"), "merges must be a list"),
        (hugging(merges=["a b c"]), "merge 0 is not two names"),
        (hugging(merges=["a"]), "merge 0 is not two names"),
        (hugging(merges=[["a", "b", "c"]]), "merge 0 is not two names"),
        (hugging(merges=[["a", 1]]), "merge 0 is not two names"),
        (hugging(merges=[["", "ab"]]), "merge 0 is not two names"),
        (hugging(merges=[["a", "zz"]]), "'zz' is not in vocab"),
        (hugging(merges=["a b", "a b"]), "merge 1 joins tokens .* which an earlier merge joined already"),
        (hugging(ignore_merges="yes"), "ignore_merges must be true or false"),
        (hugging() | {"added_tokens": {}}, "added_tokens must be a list"),
        (hugging() | {"added_tokens": [7]}, "an added token must be an object"),
        (added(content=7), "the content of an added token must be text"),
        (added(content=""), "out of bounds or a duplicate"),
        (added(id=None), "the id of the added token '<e>' must be a whole number"),
        (added(id=10**12), "out of bounds or a duplicate"),
        (added(id=97), "two different tokens have the id 97"),
        (added(content="ab", id=300), "the added token 'ab' has the ids 300 and 256"),
        (hugging() | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": 5}}, "pretokenizers must be a list"),
        (hugging() | {"pre_tokenizer": BYTE_LEVEL | {"use_regex": 1}}, "use_regex must be true or false"),
        (split_at(5), "the Regex of Split must be text"),
    ],
)
def test_a_tokenizer_json_with_false_contents_is_a_readable_error(content: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    refused(path, said)


@pytest.mark.parametrize(
    ("vocab", "merges", "said"),
    [
        ("[]", "", "vocab.json: vocab must be an object"),
        ("{", "", r"vocab.json: it is not JSON: .* at line 1, column 2"),
        ('{"a": 1, "a": 2}', "", "vocab.json: the key 'a' occurs twice"),
        ('{"a": NaN}', "", "vocab.json: NaN is not a JSON number"),
        ('{"a": -Infinity}', "", "vocab.json: -Infinity is not a JSON number"),
        ('{"a": 1e999}', "", "the id of 'a' must be a whole number, not inf"),
        ('{"a": 1}', "", "the byte 0x21 has no token"),
        (json.dumps(LETTERS_ONLY), "a b", "merge 0 joins 'a' and 'b', and 'ab' is not in vocab"),
        (json.dumps(LETTERS_ONLY), "#version: 0.2\na  b", "merges.txt: line 2 is not two names"),
        (json.dumps(LETTERS_ONLY), "a", "merges.txt: line 1 is not two names"),
        (json.dumps(LETTERS_ONLY | {"<e>": 256, "<f>": 256}), "", "the id 256 is given to two tokens"),
    ],
)
def test_two_gpt2_files_with_false_contents_are_readable_errors(
    vocab: str, merges: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "vocab.json").write_text(vocab)
    (tmp_path / "merges.txt").write_text(merges)
    refused(tmp_path, said)


ALL_BYTES = b"".join(b64encode(bytes([byte])) + f" {byte}\n".encode() for byte in range(256))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"YQ== 1\n", "the byte 0x00 has no rank"),
        (ALL_BYTES + b"YWI= 97\n", "line 257 gives the rank a second time"),
        (ALL_BYTES + b"YQ== 300\n", "line 257 gives a token a second time"),
        (ALL_BYTES + b"YWI=\n", "line 257 is not a token in base64 and its rank"),
        (ALL_BYTES + b"YWI= 256 257\n", "line 257 is not a token"),
        (ALL_BYTES + b"YWI= -1\n", "line 257 is not a token"),
        (ALL_BYTES + b"YWI= 1.5\n", "line 257 is not a token"),
        (ALL_BYTES + b"YWI= " + b"9" * 5000, "line 257 is not a token"),
        (ALL_BYTES + b"YWI= 999999999\n", "line 257 has the rank 999999999; allowed"),
        (ALL_BYTES + b"YW!= 256\n", "line 257 has broken base64"),
        (ALL_BYTES + b"YWI 256\n", "line 257 has broken base64"),
        (ALL_BYTES + b"\xff\xfe 256\n", "line 257 has broken base64"),
        (ALL_BYTES + b"==== 256\n", "line 257 has"),
        (ALL_BYTES + b64encode(b"a" * 10_000) + b" 256\n", "line 257 has a token of 10000 bytes"),
    ],
)
def test_a_rank_file_with_false_contents_is_a_readable_error(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tiktoken"
    path.write_bytes(data)
    refused(path, said)


def bpe(**changes: object) -> dict[str, object]:
    return {"format": 1, "kind": "bpe", "pattern": "gpt4", "special": [], "merges": [[97, 98]]} | changes


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bpe(counts=[1, 2]), "1 merges but 2 counts"),
        (bpe(counts=["many"]), "a count must be a whole number"),
        (bpe(ids=[256, 257]), "1 merges but 2 ids"),
        (bpe(ids=[10**15]), "token id 1000000000000000 is out of bounds"),
        (bpe(ids=[97]), "two different tokens have the id 97"),
        (bpe(special={"<e>": 256}), "two different tokens have the id 256"),
        (bpe(special={"<e>": 2**40}), "out of bounds"),
        (bpe(tokens=[[300]]), "is not a token and its bytes"),
        (bpe(tokens=[[300, "xy"]]), "is not a token and its bytes"),
        (bpe(tokens=[[97, "6162"]]), "two different tokens have the id 97"),
        (bpe(whole=1), "whole must be true or false"),
        (bpe(base={}), "neither bytes with ids nor an alphabet"),
        (bpe(base={"kind": "bytes", "ids": [0] * 256}), "256 different token ids"),
        (bpe(base={"kind": "bytes", "ids": [*range(255), 10**9]}), "256 different token ids"),
        (bpe(base={"kind": "alphabet", "letters": "a b", "end_of_artefact": "*"}), "sorted by code point"),
        (bpe(base={"kind": "alphabet", "letters": "ab"}), "an alphabet has the keys"),
        (
            bpe(base={"kind": "alphabet", "letters": "ab", "end_of_artefact": "*"}, merges=[[0, 18]]),
            "of which one never merges",
        ),
        (bpe(extra=1), "'extra' is not one of them"),
        ({"format": 1, "kind": "bpe"}, "'merges' is missing"),
        ({"format": 1, "kind": "words", "units": ["a", "a"]}, "different texts"),
        ({"format": 1, "kind": "words", "units": [1]}, "a unit must be text"),
        ({"format": True, "kind": "bytes"}, "not a tokenizer of format 1"),
    ],
)
def test_our_own_file_with_false_contents_is_a_readable_error(content: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(content))
    refused(path, said)


@pytest.mark.parametrize(
    "pattern",
    [
        *["(a+)+$", "(?:a|a)+b", "(?R)", r"(a)\1", "[[a]]", "[a&&b]", "^a", r"\bx", "a**", "(", ")", "[a", "{", "+"],
        *["a{5000}", "a{2,1}", "(?:a){2}", r"\p{Nonsense}", r"\X", "(?P<x>a)", "(?<x>a)", "(?(1)a)", "(?#x)"],
        *["x" * 5000, "(" * 900],
    ],
)
def test_a_pattern_that_could_run_away_or_be_read_in_two_ways_is_refused(pattern: str) -> None:
    with pytest.raises(LabError, match="splitting pattern"):
        tokenizer_of(bpe(pattern=pattern))


def test_a_pattern_that_is_only_slow_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.engine.tokenizers.patterns.PATIENCE", 0.2)
    pattern = r"\s*\s*\s*\s*\s*\s*x|q"
    with pytest.raises(LabError, match="takes too long on this text"):
        list(chunks(" " * 3000, pattern))
    assert compile_pattern(pattern)


def test_what_a_pattern_leaves_out_or_matches_empty_is_still_there() -> None:
    assert list(chunks("ab12 cd", r"[0-9]+")) == ["ab", "12", " cd"]
    assert list(chunks("ab12", r"[0-9]*")) == ["ab", "12"]
    assert list(chunks("ab", r"z?")) == ["ab"]


def test_files_that_are_not_regular_are_readable_errors(tmp_path: Path) -> None:
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    refused(tmp_path / "loop.json", "it cannot be read: Too many levels")
    refused(tmp_path, "a folder with neither tokenizer.json nor vocab.json and merges.txt")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "not a regular file")
    refused(Path("/dev/zero"), "not a regular file")
    with pytest.raises(LabError, match="it is not a valid file name"):
        load_tokenizer(tmp_path / "a\0b")
    (tmp_path / "tokenizer.json").mkdir()
    refused(tmp_path, "neither tokenizer.json")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    refused(tmp_path / "huge.json", "larger than")
    (tmp_path / "nothing.tiktoken").write_bytes(b"")
    refused(tmp_path / "nothing.tiktoken", "it is not JSON")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        (b'{"format": 1, "kind": ' + b"[" * 900 + b"]" * 900 + b"}", "kind = "),
        (b"[" + b"[]," * 1_300_000 + b"[]]", "more than 2,500,000 values"),
        (b'{"format": 1, "kind": "' + b":" * 1_000_001 + b'"}', "more than 1,000,000 keys"),
        (b'{"format": 1, "kind": ' + b"9" * 5000 + b"}", "it is not JSON that can be read: Exceeds the limit"),
        (b'{"format": 1, "kind": "' + b"x" * 1_000_000 + b'"}', "is not known"),
        ('{"format": 1}'.encode("utf-16"), "it is not JSON: byte 0 is not UTF-8"),
        (b"\xef\xbb\xbf{}", "it is not JSON"),
        (b'{"model": {"type": "BPE", "type": "BPE"}}', "the key 'type' occurs twice"),
    ],
)
def test_json_that_swells_or_sinks_is_a_readable_error(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    refused(path, said)


@pytest.mark.parametrize("pattern", [{"String": "a"}, {"String": ""}, {"Regex": "x*"}])
def test_a_normalizer_that_doubles_a_text_again_and_again_is_refused(pattern: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    double = {"type": "Replace", "pattern": pattern, "content": "aa"}
    byte_level = BYTE_LEVEL | {"trim_offsets": True}
    for times, fits in ((3, True), (12, False)):
        steps = {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [double] * times}]}
        path.write_text(json.dumps(hugging() | {"normalizer": steps, "pre_tokenizer": byte_level}))
        if fits:
            load_tokenizer(path)
        else:
            refused(path, "its normalizer may make a text 1000 times as long")


def test_added_tokens_are_bounded_in_number_and_length() -> None:
    entry = {"id": 1, "content": "<e>"}
    with pytest.raises(LabError, match="more than 200,000 added tokens"):
        read_added_tokens([entry] * 200_001)
    with pytest.raises(LabError, match="is longer than 1000 characters"):
        read_added_tokens([entry, entry | {"content": "x" * 1001}])


def test_added_tokens_are_found_as_a_regular_expression_of_their_texts_finds_them() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        texts = sorted({"".join(draw.choices("ab-]", k=draw.randint(1, 4))) for _ in range(draw.randint(1, 9))})
        text = "".join(draw.choices("ab-]", k=draw.randint(0, 40)))
        finder = Finder({each: AddedToken(each, number) for number, each in enumerate(texts)})
        anywhere = re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))))
        assert [*finder.matches(text)] == [match.span() for match in anywhere.finditer(text)], (texts, text)


def test_many_added_tokens_are_found_without_a_long_preparation() -> None:
    finder = Finder({f"<{n}>": AddedToken(f"<{n}>", n) for n in range(100_000)})
    assert [*finder.matches("<7> or <99999>, not <100000>")] == [(0, 3), (7, 14)]


def test_a_rank_file_of_tokens_that_nothing_makes_does_not_take_for_ever(tmp_path: Path) -> None:
    rng = random.Random(1)
    lines = [b64encode(rng.randbytes(500)) + f" {256 + i}\n".encode() for i in range(1_000)]
    path = tmp_path / "random.tiktoken"
    path.write_bytes(ALL_BYTES + b"".join(lines))
    refused(path, "1000 tokens, the first of rank 256, are not made by any merge")


# Fuzzing: valid files, changed at random; a tokenizer or a LabError comes out, nothing else.


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("valid")
    ours = train_tokenizer(["the cat sat on the mat " * 4], 264, "gpt2", ["<|e|>"], GPT2)
    export_tokenizer(ours, folder / "tokenizer.json", "huggingface")
    export_tokenizer(ours, folder / "ranks.tiktoken", "tiktoken")
    export_tokenizer(ours, folder / "gpt2", "gpt2")
    save_tokenizer(ours, folder / "bytes.json")
    save_tokenizer(WordTokenizer.of("the cat"), folder / "words.json")
    save_tokenizer(train_tokenizer(["the cat the"], 40, base=Alphabet.of(["the cat"])), folder / "alphabet.json")
    return folder


JSON_FILES = ["tokenizer.json", "gpt2/vocab.json", "bytes.json", "words.json", "alphabet.json"]
TEXTS = ["", "a", "ab", "Ġ", "\x00", "(", "gpt4", "\ud800"]
VALUES = st.sampled_from([None, True, 0, -1, 97, 256, 10**6, 10**30, 1.5, [], {}, [[]], ["a", "b"], *TEXTS])
INSERTED = st.sampled_from([b"\n", b" ", b'"', b"[", b"9" * 30, b"NaN", b""])


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    found = [path]
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in entries:
        found += places(part, (*path, key))
    return found


def changed(content: object, draw: st.DataObject) -> object:
    """One place replaced, removed, doubled, or swapped with another; near the root as often as deep down."""
    content = copy.deepcopy(content)
    every = places(content)[1:]
    depth = draw.draw(st.integers(1, max(map(len, every))))
    where = draw.draw(st.sampled_from([path for path in every if len(path) == depth]))
    parent: object = content
    for key in where[:-1]:
        parent = parent[key]  # type: ignore[index]
    key, act = where[-1], draw.draw(st.sampled_from(["set", "set", "remove", "double"]))
    if act == "set":
        parent[key] = draw.draw(VALUES)  # type: ignore[index]
    elif act == "remove":
        del parent[key]  # type: ignore[attr-defined]
    elif isinstance(parent, list):
        parent.append(parent[key])  # type: ignore[call-overload]
    else:
        parent[draw.draw(st.sampled_from(["x", "ids", "vocab", "the", "<|e|>"]))] = parent[key]  # type: ignore[index]
    return content


def tried(path: Path) -> None:
    """A tokenizer that works, or a sentence."""
    try:
        tokenizer = load_tokenizer(path)
        ids = tokenizer.encode("the cat sat <|e|> é")
        assert all(0 <= token < tokenizer.vocabulary for token in ids)
        tokenizer.encode_long("the cat " * 2000)
        tokenizer.decode(ids)
        [tokenizer.label(token) for token in range(min(tokenizer.vocabulary, 500))]
    except LabError:
        pass


FUZZ = settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", JSON_FILES)
@FUZZ
@given(data=st.data())
def test_valid_json_changed_at_random_is_a_tokenizer_or_a_sentence(name: str, valid: Path, data: st.DataObject) -> None:
    content = json.loads((valid / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content = changed(content, data)
        if not content:
            break
    tried(rewritten(valid, name, json.dumps(content).encode()))


@pytest.mark.parametrize("name", [*JSON_FILES, "ranks.tiktoken", "gpt2/merges.txt"])
@FUZZ
@given(data=st.data())
def test_bytes_changed_at_random_are_a_tokenizer_or_a_sentence(name: str, valid: Path, data: st.DataObject) -> None:
    raw = bytearray((valid / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        stop = data.draw(st.integers(start, min(len(raw), start + 12)))
        raw[start:stop] = data.draw(st.binary(max_size=8) | INSERTED)
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    tried(rewritten(valid, name, bytes(raw)))


def rewritten(valid: Path, name: str, data: bytes) -> Path:
    """The changed file in the place of the valid one, next to its unchanged neighbour."""
    folder = valid.parent / "changed" / "gpt2"
    folder.mkdir(parents=True, exist_ok=True)
    for neighbour in ("vocab.json", "merges.txt"):
        (folder / neighbour).write_bytes((valid / "gpt2" / neighbour).read_bytes())
    path = valid.parent / "changed" / name
    path.write_bytes(data)
    return path.parent if name.startswith("gpt2/") else path
