"""`txlab tokenize` and `txlab tokenizer`: what they print, what they write, and what they refuse."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_cli_processes import Terminal
from waiting import LONGEST

import txlab.cli
from txlab.cli.tokenizer_compare import cuts_of, differences
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.experiments.sentences import languages
from txlab.experiments.tokenizer_store import names_of_saved, save_named, tokenizer_named

TEXT = "the cat sees a mouse and the mouse sees the cat; a bird sings.\n" * 20


class Said:
    """What a command printed, and its exit status."""

    def __init__(self, status: int, out: str, error: str) -> None:
        self.status, self.out, self.error = status, out, error

    def refused(self) -> str:
        """The one line with which a wrong input is answered."""
        assert (self.status, self.out) == (2, "")
        (line,) = self.error.splitlines()
        return line


Call = Callable[..., Said]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """Call the command in this process, with an empty shelf and `stdin` as its standard input."""
    monkeypatch.setenv("TXLAB_TOKENIZERS", str(tmp_path / "shelf"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def called(*words: str, stdin: bytes = b"") -> Said:
        monkeypatch.setattr(sys, "argv", ["txlab", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            txlab.cli.main()
        said = capsys.readouterr()
        assert "\x1b" not in said.out + said.err  # without a terminal nothing is written to one
        return Said(int(ended.value.code or 0), said.out, said.err)

    return called


@pytest.fixture
def animals(call: Call) -> BytePairTokenizer:
    """A byte pair encoding with a special token, saved as "animals"."""
    tokenizer = train_tokenizer([TEXT], 280, special=["<|end|>"])
    save_named(tokenizer, "animals")
    return tokenizer


def process(*words: str, **options) -> subprocess.CompletedProcess[bytes]:  # type: ignore[no-untyped-def]
    return subprocess.run([sys.executable, "-m", "txlab", *words], capture_output=True, check=False, **options)


class TestTokenize:
    def test_shows_ids_tokens_bytes_and_places(self, call: Call) -> None:
        said = call("tokenize", "--tokenizer", "bytes", "aé\n \x1b")
        head, *rows, empty, counts, ratios, which = said.out.splitlines()
        assert head.split() == ["id", "token", "bytes", "characters", "bytes", "at"]
        assert [row.split() for row in rows] == [
            ["97", "a", "61", "0:1", "0:1"],
            ["195", r"\xc3", "c3", "1:2", "1:2"],
            ["169", r"\xa9", "a9", "1:2", "2:3"],
            ["10", "↵", "0a", "2:3", "3:4"],
            ["32", "·", "20", "3:4", "4:5"],
            ["27", "␛", "1b", "4:5", "5:6"],
        ]
        assert empty == ""
        assert counts == "6 tokens, 6 bytes, 5 characters, 1 word"
        assert ratios == "1.000 bytes per token, 6.000 tokens per word"
        assert which == "tokenizer bytes: bytes, 256 tokens"

    def test_has_a_default_that_needs_no_file(self, call: Call) -> None:
        said = call("tokenize", "The function returns", "--ids")
        assert said.status == 0, said.error
        ids = [int(word) for word in said.out.split()]
        assert len(ids) <= 4
        assert tokenizer_named("python-docs").decode(ids) == "The function returns"
        assert "tokenizer python-docs: bpe, 4 096 tokens" in call("tokenize", "x").out

    @pytest.mark.parametrize("words", [["-"], []])
    def test_reads_standard_input(self, call: Call, words: list[str]) -> None:
        said = call("tokenize", "--tokenizer", "bytes", "--ids", *words, stdin="aé\n".encode())
        assert said.out == "97 195 169 10\n"

    def test_reads_a_file(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "text").write_bytes(b"\xff\x00a")
        assert call("tokenize", "--tokenizer", "bytes", "--ids", "--file", "text").out == "255 0 97\n"

    def test_takes_bytes_that_are_not_text(self, call: Call, animals: BytePairTokenizer) -> None:
        data = b"the cat\xff\xe2\x82 sees"
        said = call("tokenize", "--tokenizer", "animals", "--json", stdin=data)
        answer = json.loads(said.out)
        assert animals.decode_bytes(answer["ids"]) == data
        assert b"".join(bytes.fromhex(piece["bytes"]) for piece in answer["pieces"]) == data
        assert any(piece["text"] == r"\xff" for piece in answer["pieces"])
        done = process("tokenize", "--tokenizer", "bytes", "--ids", input=data)
        assert done.stdout.split() == [b"%d" % byte for byte in data]
        # As an argument, too.
        done = process("tokenize", b"a\xff", "--tokenizer", "bytes", "--ids")  # type: ignore[arg-type]
        assert done.stdout == b"97 255\n"

    def test_json_is_one_object_with_all_there_is(self, call: Call, animals: BytePairTokenizer) -> None:
        text = "the cat, é"
        answer = json.loads(call("tokenize", "--tokenizer", "animals", "--json", text).out)
        assert answer["ids"] == animals.encode(text) == [piece["id"] for piece in answer["pieces"]]
        assert answer["tokenizer"] == {"name": "animals", "kind": "bpe", "vocabulary": animals.vocabulary}
        assert (answer["bytes"], answer["characters"], answer["words"]) == (11, 10, 3)
        assert answer["tokens"] == len(answer["ids"])
        assert answer["bytes_per_token"] == pytest.approx(11 / len(answer["ids"]))
        for piece in answer["pieces"]:
            assert text.encode()[piece["byte_start"] : piece["byte_stop"]] == bytes.fromhex(piece["bytes"])
        assert answer["pieces_left_out"] == 0

    def test_an_empty_text_has_no_tokens_and_is_valid_json(self, call: Call) -> None:
        answer = json.loads(call("tokenize", "", "--json").out)
        assert (answer["ids"], answer["tokens"], answer["bytes_per_token"]) == ([], 0, None)
        assert call("tokenize", "", "--ids").out == "\n"
        assert call("tokenize", "").out.startswith("0 tokens, 0 bytes")

    def test_what_is_typed_forges_no_special_token_unless_allowed(self, call: Call, animals: BytePairTokenizer) -> None:
        (end,) = animals.encode("<|end|>", special=True)
        words = ["tokenize", "--tokenizer", "animals", "the<|end|>cat"]
        plain = json.loads(call(*words, "--json").out)
        assert end not in plain["ids"]
        assert not any(piece["special"] for piece in plain["pieces"])
        allowed = json.loads(call(*words, "--json", "--special").out)
        assert allowed["ids"] == animals.encode("the<|end|>cat", special=True)
        assert [piece["id"] for piece in allowed["pieces"] if piece["special"]] == [end]
        assert "(special)" in call(*words, "--special").out
        assert "--special" in call("tokenize", "--tokenizer", "animals", "--special", stdin=b"\xff").refused()
        assert "has none" in call("tokenize", "--tokenizer", "bytes", "--special", "x").refused()

    def test_a_long_text_gets_no_endless_table_unless_asked(self, call: Call, tmp_path: Path) -> None:
        text = "a b\n" * 25_000
        (tmp_path / "long").write_text(text)
        words = ["tokenize", "--tokenizer", "bytes", "--file", "long"]
        said = call(*words)
        assert len(said.out.splitlines()) < 220
        assert "99 800 more" in said.out
        assert "100 000 tokens, 100 000 bytes" in said.out
        answer = json.loads(call(*words, "--json").out)
        assert (len(answer["ids"]), len(answer["pieces"]), answer["pieces_left_out"]) == (100_000, 200, 99_800)
        assert len(json.loads(call(*words, "--json", "--all").out)["pieces"]) == 100_000
        ids = call(*words, "--ids").out
        assert list(map(int, ids.split())) == list(text.encode())
        assert ids.count("\n") == 1

    def test_a_long_text_takes_the_fast_way(
        self, call: Call, animals: BytePairTokenizer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []
        slow = BytePairTokenizer.encode
        monkeypatch.setattr(BytePairTokenizer, "encode", lambda self, text: asked.append(len(text)) or slow(self, text))
        monkeypatch.setattr(BytePairTokenizer, "encode_bytes", lambda self, data: asked.append(len(data)))
        said = call("tokenize", "--tokenizer", "animals", "--ids", stdin=(TEXT * 20).encode())
        assert asked == []
        assert [int(word) for word in said.out.split()] == slow(animals, TEXT * 20)

    @pytest.mark.parametrize("form", [[], ["--ids"], ["--json", "--all"]])
    @pytest.mark.parametrize("unbuffered", ["", "1"])
    def test_a_closed_pipe_is_not_a_failure(self, form: list[str], unbuffered: str) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "txlab", "tokenize", "--tokenizer", "bytes", *form],
            input=b"abc " * 50_000,
            stdout=writing,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")

    def test_ascii_stays_ascii(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TXLAB_ASCII", "1")
        said = call("tokenize", "é 日本 \u202e👋\n")
        assert said.status == 0
        assert said.out.isascii()

    @pytest.mark.parametrize(
        ("words", "parts"),
        [
            (["x", "--tokenizer", "animels"], ["'animels'", "nearest: animals", "bytes"]),
            (["x", "--tokenizer", "broken.json"], ["broken.json"]),
            (["x", "--tokenizer", "a\x1b[2J"], ["no tokenizer is called"]),
            (["x", "--tokenizer", ""], ["no tokenizer is called"]),
            (["x", "--file", "broken.json"], ["not both"]),
            (["--file", "missing"], ["missing", "No such file"]),
            (["--file", "."], ["it is a folder"]),
            (["x", "--ids", "--json"], ["--ids and --json"]),
        ],
    )
    def test_a_wrong_input_is_a_readable_error(
        self, call: Call, animals: BytePairTokenizer, tmp_path: Path, words: list[str], parts: list[str]
    ) -> None:
        (tmp_path / "broken.json").write_text('{"format": 1, "kind": "bpe"}')
        line = call("tokenize", *words).refused()
        for part in parts:
            assert part in line


class TestTrain:
    def test_saves_under_a_name_and_says_how_to_use_it(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text(TEXT)
        said = call("tokenizer", "train", "text.txt", "--vocabulary", "280", "--name", "mine", "--special", "<|end|>")
        assert said.status == 0, said.error
        expected = train_tokenizer([TEXT], 280, special=["<|end|>"])
        saved = tokenizer_named("mine")
        assert isinstance(saved, BytePairTokenizer)
        assert (saved.merges, saved.pattern, saved.special) == (expected.merges, "gpt4", ("<|end|>",))
        assert saved.vocabulary == 280
        assert "280 tokens" in said.out
        assert "--set data.tokenizer=mine" in said.out
        assert f"{len(expected.encode(TEXT))} tokens" in said.out

    def test_learns_nothing_of_what_special_tokens_are_written_with(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("<|end|>ab★" * 50)
        words = ["tokenizer", "train", "text.txt", "--vocabulary", "300", "--special", "<|end|>", "--out", "x.json"]
        assert call(*words).status == 0
        learnt = tokenizer_named("x.json")
        assert [data for data in map(learnt.token_bytes, range(256, 258)) if b"<" in data] == []
        assert call(*words, "--base", "alphabet", "--replace").status == 0
        letters = tokenizer_named("x.json")
        assert isinstance(letters, BytePairTokenizer)
        assert [letters.token_bytes(token) for token in letters.made] == [b"ab"]

    def test_where_ties_go_is_a_setting(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("ab\nac\nbz\nba\n" * 50)
        words = ["tokenizer", "train", "text.txt", "--vocabulary", "258", "--replace", "--out", "x.json"]
        made = {}
        for rule in ([], ["--ties", "first"], ["--ties", "greatest"]):
            assert call(*words, *rule).status == 0
            made[" ".join(rule)] = list(map(tokenizer_named("x.json").token_bytes, (256, 257)))
        assert made[""] == made["--ties first"] != made["--ties greatest"]
        assert made["--ties greatest"] == [b"bz", b"ba"]
        assert "first" in call(*words, "--ties", "frist").error

    def test_the_counts_of_the_merges_are_kept(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text(TEXT)
        call("tokenizer", "train", "text.txt", "--vocabulary", "270", "--name", "mine")
        saved = tokenizer_named("mine")
        assert isinstance(saved, BytePairTokenizer)
        assert len(saved.counts) == 14
        first = saved.token_bytes(256).decode()
        assert saved.counts[0] == TEXT.count(first)

    @pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "none"])
    @pytest.mark.parametrize("base", ["bytes", "alphabet"])
    def test_every_base_goes_with_every_pattern(self, call: Call, tmp_path: Path, base: str, pattern: str) -> None:
        (tmp_path / "text.txt").write_text(TEXT)
        words = ["--vocabulary", "300", "--base", base, "--pattern", pattern, "--out", "mine.json"]
        said = call("tokenizer", "train", "text.txt", *words)
        assert said.status == 0, said.error
        saved = tokenizer_named("mine.json")
        assert isinstance(saved, BytePairTokenizer)
        assert saved.pattern == pattern
        assert saved.decode_bytes(saved.encode(TEXT + "é\0★ x")) == (TEXT + "é\0★ x").encode()

    def test_learns_from_files_folders_and_standard_input_together(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        for name in ("a.txt", "b.txt"):
            (tmp_path / "folder" / name).write_text("abcabc " * 10)
        (tmp_path / "c.txt").write_text("xyxy " * 50)
        words = ["train", "folder", "c.txt", "-", "--vocabulary", "266", "--out", "out.json"]
        said = call("tokenizer", *words, stdin=b"uvuv " * 90)
        assert said.status == 0, said.error
        saved = tokenizer_named("out.json")
        tokens = [saved.token_bytes(token) for token in range(256, 266)]
        assert b"uv" in tokens
        assert b"xy" in tokens
        assert {b"ab", b"bc"} & set(tokens)

    def test_says_when_there_is_nothing_left_to_merge(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("abab")
        said = call("tokenizer", "train", "text.txt", "--vocabulary", "5000", "--out", "out.json")
        assert "fewer than the 5 000 requested" in said.out
        assert tokenizer_named("out.json").vocabulary == 257

    @pytest.mark.parametrize(
        ("words", "parts"),
        [
            (["text.txt", "--name", "x"], ["--vocabulary"]),
            (["--vocabulary", "300", "--name", "x"], ["SOURCE"]),
            (["text.txt", "--vocabulary", "300"], ["--name", "--out"]),
            (["text.txt", "--vocabulary", "300", "--name", "x", "--out", "y"], ["--name", "--out"]),
            (["text.txt", "--vocabulary", "300", "--name", "../x"], ["'../x'"]),
            (["text.txt", "--vocabulary", "300", "--name", "bytes"], ["'bytes'"]),
            (["text.txt", "--vocabulary", "300", "--name", "animals"], ["saved already"]),
            (["text.txt", "--vocabulary", "300", "--out", "text.txt"], ["exists already", "--replace"]),
            (["text.txt", "--vocabulary", "300", "--out", "none/x.json"], ["folder that does not exist"]),
            (["text.txt", "--vocabulary", "256", "--name", "x"], ["256", "at least 257"]),
            (["text.txt", "--vocabulary", "257", "--name", "x", "--special", "s"], ["1 special", "at least 258"]),
            (["text.txt", "--vocabulary", "20", "--name", "x", "--base", "alphabet"], ["alphabet", "at least"]),
            (["text.txt", "--vocabulary", "x", "--name", "x"], ["'x'", "whole number"]),
            (["text.txt", "--vocabulary", "300", "--name", "x", "--special", ""], ["--special"]),
            (["text.txt", "--vocabulary", "300", "--name", "x", "--special", "a", "--special", "a"], ["--special"]),
            (["text.txt", "--vocabulary", "300", "--name", "x", "--pattern", "gpt3"], ["'gpt3'", "gpt4"]),
            (["text.txt", "--vocabulary", "300", "--name", "x", "--base", "byte"], ["'byte'", "nearest: bytes"]),
            (["text.txt", "--vocabulary", "300", "--name", "x", "--special", "\udcff"], ["surrogate"]),
            (["text.txt", "--vocabulary", "300", "--name", "x", "--special", "★", "--base", "alphabet"], ["already"]),
            (["text.text", "--vocabulary", "300", "--name", "x"], ["SOURCE 'text.text'"]),
            (["python-doc", "--vocabulary", "300", "--name", "x"], ["nearest: python-docs"]),
            (["picture", "--vocabulary", "300", "--name", "x"], ["not UTF-8"]),
            (["empty", "--vocabulary", "300", "--name", "x"], ["empty"]),
            (["-", "--vocabulary", "300", "--name", "x"], ["standard input is empty"]),
            (["-", "-", "--vocabulary", "300", "--name", "x"], ["only once"]),
        ],
    )
    def test_a_wrong_input_is_a_readable_error_and_nothing_is_written(
        self, call: Call, animals: BytePairTokenizer, tmp_path: Path, words: list[str], parts: list[str]
    ) -> None:
        (tmp_path / "text.txt").write_text(TEXT)
        (tmp_path / "picture").write_bytes(b"\x89PNG\xff")
        (tmp_path / "empty").write_text("")
        before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
        line = call("tokenizer", "train", *words).refused()
        for part in parts:
            assert part in line
        assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before

    def test_a_shelf_that_cannot_be_written_is_found_before_the_learning(
        self, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "shelf").write_text("a file stands in the way")
        (tmp_path / "text.txt").write_text(TEXT)
        monkeypatch.setattr("txlab.engine.tokenizers.training.Trainer.step", lambda self: pytest.fail("it learnt"))
        words = ["tokenizer", "train", "text.txt", "--vocabulary", "300", "--name", "x"]
        assert "cannot be written" in call(*words).refused()

    def test_replaces_when_told(self, call: Call, animals: BytePairTokenizer, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text(TEXT)
        said = call("tokenizer", "train", "text.txt", "--vocabulary", "260", "--name", "animals", "--replace")
        assert said.status == 0, said.error
        assert tokenizer_named("animals").vocabulary == 260

    @pytest.mark.parametrize("columns", [30, 100])
    def test_ctrl_c_leaves_nothing_and_130(self, tmp_path: Path, columns: int) -> None:
        (tmp_path / "shelf").mkdir()
        words = [sys.executable, "-m", "txlab", "tokenizer", "train", "python-source"]
        environment = os.environ | {"TXLAB_TOKENIZERS": str(tmp_path / "shelf"), "TERM": "xterm-256color"}
        environment.pop("COLUMNS", None)
        terminal = Terminal([*words, "--vocabulary", "200000", "--name", "x"], environment, columns)
        assert terminal.read_until(lambda written: written.count(b"\r") > 2)
        os.write(terminal.descriptor, b"\x03")
        assert terminal.end() == 130, terminal.written[-2000:]
        assert b"Traceback" not in terminal.written
        assert list((tmp_path / "shelf").iterdir()) == []
        # The line was drawn over itself, and is gone.
        assert terminal.written.replace(b"^C", b"").endswith(b"\r\x1b[K")
        assert b"\n" not in terminal.written.replace(b"^C", b"")

    def test_without_a_terminal_an_interruption_is_as_quiet(self, tmp_path: Path) -> None:
        words = [sys.executable, "-m", "txlab", "tokenizer", "train", "-", "--vocabulary", "300", "--out", "x.json"]
        begun = subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            # It reads until the pipe is closed, so once a megabyte was taken it is at it, and soon waits for more.
            assert begun.stdin is not None
            begun.stdin.write(b"a " * (1 << 19))
            begun.stdin.flush()
            time.sleep(0.2)
            begun.send_signal(signal.SIGINT)
            assert begun.wait(timeout=LONGEST) == 130
        finally:
            begun.kill()
        assert list(tmp_path.iterdir()) == []


class TestCompare:
    def test_counts_tokens_bytes_and_words_of_each(self, call: Call, animals: BytePairTokenizer) -> None:
        text = "the cat sees"
        answer = json.loads(call("tokenizer", "compare", "animals", "bytes", "--text", text, "--json").out)
        ours, theirs = answer["tokenizers"]
        assert (ours["name"], ours["kind"], theirs["kind"]) == ("animals", "bpe", "bytes")
        assert (ours["tokens"], theirs["tokens"]) == (len(animals.encode(text)), 12)
        assert (ours["words"], theirs["tokens_per_word"]) == (3, 4.0)
        assert ours["bytes_per_token"] == pytest.approx(12 / ours["tokens"])

    def test_compares_language_by_language(self, call: Call, animals: BytePairTokenizer) -> None:
        answer = json.loads(call("tokenizer", "compare", "animals", "bytes", "--json").out)
        assert [row["name"] for row in answer["languages"]] == [language.name for language in languages()]
        for row, language in zip(answer["languages"], languages(), strict=True):
            assert row["tokenizers"][0]["tokens"] == len(animals.encode(language.text))
            assert row["tokenizers"][1]["tokens"] == len(language.text.encode())
        assert "differences" not in answer
        shown = call("tokenizer", "compare", "animals", "bytes").out
        for language in languages():
            assert language.name in shown

    def test_shows_where_they_differ(self, call: Call, animals: BytePairTokenizer) -> None:
        text = "a cat; a bird\x00é"
        words = ["tokenizer", "compare", "animals", "bytes", "--text", text]
        answer = json.loads(call(*words, "--json").out)
        for place in answer["differences"]:
            parts = ["".join(part) for part in place["tokens"]]
            assert parts[0] == text.encode()[place["start"] : place["stop"]].decode()
            assert place["tokens"][0] != place["tokens"][1]
        assert answer["differences_left_out"] == 0
        shown = call(*words).out
        assert "c│a│t" in shown
        assert "\0" not in shown
        same = call("tokenizer", "compare", "bytes", "bytes", "--text", text).out
        assert "they split it identically" in same

    def test_differences_are_between_the_cuts_that_all_share(self) -> None:
        text = "the cat sees é a mouse " * 3
        tokenizers = [
            train_tokenizer([TEXT], 270),
            train_tokenizer([TEXT], 300, "gpt2"),
            CharacterTokenizer.of("abcdefghijklmnopqrstuvwxyz "),  # é is spelt out
        ]
        ids = [np.array(tokenizer.encode(text), dtype=np.uint32) for tokenizer in tokenizers]
        found = differences(tokenizers, ids, text.encode(), None)
        # Independently: the places where each cuts, by decoding ever longer beginnings.
        cuts = [
            {len(tokenizer.decode_bytes(each[:n].tolist())) for n in range(len(each) + 1)}
            for tokenizer, each in zip(tokenizers, ids, strict=True)
        ]
        for tokenizer, each, expected in zip(tokenizers, ids, cuts, strict=True):
            assert cuts_of(tokenizer, each, text.encode()).tolist() == sorted(expected)
        shared = sorted(set.intersection(*cuts))
        union = set.union(*cuts)
        differing = [(a, b) for a, b in itertools.pairwise(shared) if any(a < place < b for place in union)]
        assert [(one.start, one.stop) for one in found.shown] == differing
        assert found.share(len(text.encode())) == sum(b - a for a, b in differing) / len(text.encode())
        for one in found.shown:
            assert all(b"".join(parts) == text.encode()[one.start : one.stop] for parts in one.parts)

    def test_takes_bytes_that_are_not_text_and_files(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"\xff\xfea\x00")
        said = call("tokenizer", "compare", "bytes", "python-docs", "--file", "data")
        assert said.status == 0, said.error
        assert "4 bytes" in said.out

    def test_long_differences_are_cut_and_counted(self, call: Call, animals: BytePairTokenizer, tmp_path: Path) -> None:
        (tmp_path / "long").write_text(TEXT * 3)
        words = ["tokenizer", "compare", "animals", "bytes", "--file", "long", "--json"]
        answer = json.loads(call(*words).out)
        assert len(answer["differences"]) == 20
        assert len(json.loads(call(*words, "--all").out)["differences"]) == 20 + answer["differences_left_out"]

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (["bytes"], "two to 4"),
            (["bytes"] * 5, "two to 4"),
            (["bytes", "animels"], "nearest: animals"),
            (["bytes", "animals", "--text", "x", "--file", "y"], "not both"),
            (["bytes", "animals", "--file", "missing"], "missing"),
        ],
    )
    def test_a_wrong_input_is_a_readable_error(
        self, call: Call, animals: BytePairTokenizer, words: list[str], part: str
    ) -> None:
        assert part in call("tokenizer", "compare", *words).refused()


class TestATokenizerOfOthers:
    @pytest.fixture
    def lower(self, call: Call, tmp_path: Path) -> str:
        """A WordPiece that drops cases, as only its library can run it."""
        tokenizers = pytest.importorskip("tokenizers")
        words = {"[UNK]": 0, "the": 1, "cat": 2, "##s": 3, ".": 4}
        inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="[UNK]"))
        inner.normalizer = tokenizers.normalizers.Lowercase()
        inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        inner.save(str(tmp_path / "lower.json"))
        return "lower.json"

    def test_is_shown_with_its_places(self, call: Call, lower: str) -> None:
        answer = json.loads(call("tokenize", "--tokenizer", lower, "--json", "The cats. Öl").out)
        assert answer["ids"] == [1, 2, 3, 4, 0]
        assert [(piece["start"], piece["stop"]) for piece in answer["pieces"]] == [
            (0, 3),
            (4, 7),
            (7, 8),
            (8, 9),
            (10, 12),
        ]
        assert answer["tokenizer"]["kind"] == "WordPiece"

    def test_is_compared_by_its_places_too(self, call: Call, lower: str) -> None:
        words = ["tokenizer", "compare", lower, "bytes", "--text", "The cat", "--json"]
        answer = json.loads(call(*words).out)
        assert [place["tokens"][0] for place in answer["differences"]] == [["The"], ["cat"]]

    def test_reads_text_only(self, call: Call, lower: str) -> None:
        assert "not UTF-8" in call("tokenize", "--tokenizer", lower, stdin=b"\xff").refused()
        assert "--special" in call("tokenize", "--tokenizer", lower, "--special", "x").refused()


class TestRankFiles:
    @pytest.fixture
    def ranks(self, call: Call, tmp_path: Path) -> str:
        """Ranks that do not say how text is split, on the shelf."""
        save_named(train_tokenizer([TEXT], 290, "gpt2"), "plain")
        call("tokenizer", "export", "plain", "--form", "tiktoken", "--out", "shelf/ranks.tiktoken")
        (tmp_path / "shelf" / "ranks.tiktoken.json").unlink()
        return "ranks"

    def test_a_guess_is_reported_on_stderr_and_in_json(self, call: Call, ranks: str) -> None:
        for words in (
            ["tokenize", "--tokenizer", ranks, "a\n  b"],
            ["tokenizer", "compare", ranks, "bytes"],
            ["tokenizer", "export", ranks, "--form", "txlab", "--out", "x.json", "--replace"],
            ["tokenizer", "list"],
        ):
            said = call(*words)
            assert said.status == 0
            (line,) = said.error.splitlines()
            assert line.startswith("txlab: warning: 'ranks.tiktoken' does not say how text is split")
            if "export" not in words:
                answer = json.loads(call(*words, "--json").out.splitlines()[-1])
                assert "gpt4 is a guess" in answer["warnings"][0]

    def test_a_named_pattern_is_not_a_guess(self, call: Call, ranks: str) -> None:
        chosen = ["--tokenizer", ranks, "--pattern", "gpt2", "a\n  b"]
        said = call("tokenize", *chosen, "--ids")
        assert said.error == ""
        assert said.out.split() == list(map(str, train_tokenizer([TEXT], 290, "gpt2").encode("a\n  b")))
        assert call("tokenizer", "compare", ranks, "bytes", "--pattern", "o200k").error == ""
        words = ["--form", "huggingface", "--out", "x.json", "--pattern", "cl100k"]
        assert call("tokenizer", "export", ranks, *words).error == ""
        assert tokenizer_named("x.json").pattern == "cl100k"  # type: ignore[union-attr]
        assert "nearest: cl100k" in call("tokenize", "--tokenizer", ranks, "--pattern", "cl100", "x").refused()

    def test_exported_files_are_next_to_it_and_are_not_listed_as_tokenizers(
        self, call: Call, ranks: str, tmp_path: Path
    ) -> None:
        beside = tmp_path / "shelf" / "ranks.tiktoken.json"
        beside.write_text("mine")
        words = ["tokenizer", "export", "plain", "--form", "tiktoken", "--out", "shelf/ranks.tiktoken"]
        (tmp_path / "shelf" / "ranks.tiktoken").unlink()
        assert "exists already" in call(*words).refused()
        assert beside.read_text() == "mine"
        assert call(*words, "--replace").status == 0
        assert names_of_saved() == ["plain", "ranks"]
        assert call("tokenize", "--tokenizer", ranks, "x").error == ""


class TestExport:
    @pytest.mark.parametrize("form", ["txlab", "huggingface", "gpt2", "tiktoken"])
    def test_writes_what_can_be_read_again(self, call: Call, tmp_path: Path, form: str) -> None:
        tokenizer = train_tokenizer([TEXT], 290, "gpt2")
        save_named(tokenizer, "plain")
        out = {"txlab": "p.json", "huggingface": "tokenizer.json", "gpt2": "two", "tiktoken": "p.tiktoken"}[form]
        said = call("tokenizer", "export", "plain", "--form", form, "--out", out)
        assert said.status == 0, said.error
        assert out in said.out
        assert ("special tokens" in said.out) == (form == "tiktoken")  # what the form does not keep
        ids = call("tokenize", "--tokenizer", out, "--ids", "the cat").out
        assert len(ids.split()) == len(tokenizer.encode("the cat"))
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert "exists already" in call("tokenizer", "export", "plain", "--form", form, "--out", out).refused()
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        assert call("tokenizer", "export", "plain", "--form", form, "--out", out, "--replace").status == 0

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (["letters", "--form", "tiktoken", "--out", "x"], "tiktoken"),
            (["letters", "--form", "txlab", "--out", "none/x"], "folder that does not exist"),
            (["animels", "--form", "txlab", "--out", "x"], "nearest: animals"),
            (["animals", "--form", "hugginface", "--out", "x"], "nearest: huggingface"),
            (["animals", "--out", "x"], "--form"),
            (["animals", "--form", "txlab"], "--out"),
        ],
    )
    def test_a_wrong_input_is_a_readable_error_and_nothing_is_written(
        self, call: Call, animals: BytePairTokenizer, tmp_path: Path, words: list[str], part: str
    ) -> None:
        save_named(CharacterTokenizer.of(TEXT), "letters")
        before = sorted(tmp_path.rglob("*"))
        assert part in call("tokenizer", "export", *words).refused()
        assert sorted(tmp_path.rglob("*")) == before


class TestList:
    def test_says_where_nothing_is(self, call: Call) -> None:
        said = call("tokenizer", "list")
        assert said.status == 0
        assert "no tokenizer is saved" in said.out
        assert call("tokenizer", "list", "--json").out == ""

    def test_names_each_and_what_it_is(self, call: Call, animals: BytePairTokenizer, tmp_path: Path) -> None:
        save_named(ByteTokenizer(), "plain")
        (tmp_path / "shelf" / "broken.json").write_text("{")
        assert names_of_saved() == ["animals", "broken", "plain"]
        rows = [json.loads(line) for line in call("tokenizer", "list", "--json").out.splitlines()]
        assert [row["name"] for row in rows] == ["animals", "broken", "plain"]
        assert (rows[0]["kind"], rows[0]["vocabulary"], rows[0]["special"]) == ("bpe", 280, 1)
        assert "JSON" in rows[1]["error"]
        shown = call("tokenizer", "list").out
        assert "unreadable" in shown
        assert "animals" in shown


def test_the_help_needs_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from txlab.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('heavy:', {'numpy', 'torch', 'textual', 'regex', 'tiktoken'} & set(sys.modules))\n"
    )
    for words in (["--help"], ["tokenize", "--help"], ["tokenizer", "--help"], ["tokenizer", "train", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("heavy: set()\n"), words


@pytest.mark.parametrize(
    "words", [["tokenize"], ["tokenizer"], *(["tokenizer", c] for c in ("train", "compare", "export", "list"))]
)
def test_the_help_speaks_no_types_and_cuts_nothing_off(call: Call, words: list[str]) -> None:
    said = call(*words, "--help")
    usage, *rest = said.out.splitlines()
    assert not re.search(r"[{}<>|]|\[\[", usage)
    assert "<str>" not in "".join(rest)
    assert "..." not in said.out.partition("Commands:")[2]


def test_a_wrong_subcommand_is_a_readable_error(call: Call) -> None:
    assert "'train'" in call("tokenizer", "tran").refused()
    assert "tokenizer --help" in call("tokenizer").refused()
