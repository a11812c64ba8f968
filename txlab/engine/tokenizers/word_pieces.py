"""WordPiece, as BERT reads text: clean and lower-case, split into words and marks, longest known piece first (MATH K1).

Notable: decoding does not restore the text (case, accents and spaces are lost, and a word without pieces becomes
[UNK]), so the round trip is not promised. Characters are lower-cased one by one, as in BERT's own code and the library:
Python's lower() would turn the last Σ of a word into ς. The library may classify characters that are newer than
Unicode 8 differently. Text becomes a special token only on request.
Source: Devlin et al. 2019, §3; Wu et al. 2016, §4.1; google-research/bert, tokenization.py.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import regex

from txlab.engine.tokenizers.added_tokens import AddedToken, AddedTokens, read_added_tokens
from txlab.engine.tokenizers.bases import MOST_TOKENS
from txlab.engine.tokenizers.folders import beside
from txlab.engine.tokenizers.gpt2_files import vocabulary_of
from txlab.engine.tokenizers.json_files import format_value, read_bytes
from txlab.engine.tokenizers.tokenizer import Piece, TextOnly, legible, unknown_token, utf8
from txlab.errors import LabError

VOCAB = "vocab.txt"
UNKNOWN = "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
INSIDE = "##"  # begins the name of a piece inside a word
LONGEST_WORD = 100  # characters; longer words become [UNK]
# Blocks of ideographs, each of which is a word of its own (BERT's code; without Hangul and kana).
IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
DROPPED = ("Cc", "Cf", "Co", "Cs")  # controls; unassigned characters stay, as in the library
MARKS = regex.compile(r"[!-/:-@\[-`{-~\p{P}]")
RUNS = re.compile(r"\S+")  # as str.split() cuts
# Replacements that tidy decoded text, token by token, as the library does.
TIDIED = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


@lru_cache(maxsize=1 << 16)
def clean_character(character: str, lower: bool, accents: bool, ideographs: bool) -> str:
    """The replacement of a character before the text is split into words: nothing, a space, itself, or several
    characters.

    >>> [clean_character(c, True, False, True) for c in "É\\t\\0中"]
    ['e', ' ', '', ' 中 ']
    """
    if character in "\t\n\r" or (character.isspace() and unicodedata.category(character)[0] == "Z"):
        return " "
    if character == "\ufffd" or unicodedata.category(character) in DROPPED:
        return ""
    text = character
    if not accents:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    if lower:
        text = "".join(c.lower() for c in text)
    alone = ideographs and any(first <= ord(character) <= last for first, last in IDEOGRAPHS)
    return f" {text} " if alone else text


class WordPieceTokenizer(TextOnly):
    """V = the lines of vocab.txt.

    >>> names = ["[UNK]", "the", "cat", "##s", ","]
    >>> [WordPieceTokenizer(names).label(token) for token in WordPieceTokenizer(names).encode("The cats, Øx")]
    ['the', 'cat', '##s', ',', '[UNK]']
    """

    called = "WordPiece"

    def __init__(
        self,
        names: Sequence[str],
        lower: bool = True,
        accents: bool | None = None,
        ideographs: bool = True,
        special: Iterable[str] = SPECIAL,
        added: Iterable[AddedToken] = (),
    ) -> None:
        """`names`: the tokens in the order of their ids (among duplicates the last counts; "" is a hole).

        lower       whether letters are lower-cased
        accents     whether accents are kept; None: only if letters are not lower-cased
        ideographs  whether each is a word of its own
        special     names of special tokens; those not in `names` are ignored
        added       further tokens, or flags of these
        """
        if len(names) > MOST_TOKENS:
            raise LabError(f"there are {len(names):,} tokens; at most {MOST_TOKENS:,} are read")
        self.names = {token: name for token, name in enumerate(names) if name}
        self.token_of = {name: token for token, name in self.names.items()}
        if UNKNOWN not in self.token_of:
            raise LabError(f"there is no token {UNKNOWN}, which replaces words without pieces")
        self.lower, self.ideographs = lower, ideographs
        self.accents = not lower if accents is None else accents
        tokens = {name: AddedToken(name, self.token_of[name]) for name in special if name in self.token_of}
        for token in added:
            if self.names.get(token.id, token.content) != token.content:
                raise LabError(
                    f"the added token {format_value(token.content)} has the id {token.id}, which is another's"
                )
            # Such a token is decoded as the text that it is compared with.
            self.names[token.id] = self.clean(token.content) if token.normalized else token.content
            if self.token_of.get(token.content, token.id) != token.id:
                raise LabError(f"the added token {format_value(token.content)} has two ids, {token.id} among them")
            tokens[token.content] = token
        self.vocabulary = max(len(names), max(self.names) + 1)
        self.added_tokens = AddedTokens(tokens.values(), self.clean)
        self.special_of = {token.content: token.id for token in tokens.values() if token.special}
        self.special = tuple(self.special_of)
        self.longest = max(map(len, self.token_of))

    def encode(self, text: str, special: bool = False) -> list[int]:
        """`special`: texts of special tokens become these tokens; [CLS] and [SEP] are never added."""
        utf8(text)
        ids: list[int] = []
        for start, stop, token in self.added_tokens.exact.cut(text, special):
            if token is not None:
                ids.append(token)
                continue
            clean = self.clean(text[start:stop])
            for first, last, inner in self.added_tokens.normalized.cut(clean, special):
                if inner is not None:
                    ids.append(inner)
                    continue
                for _, word in self.words(clean[first:last]):
                    ids += self.pieces(word)
        return ids

    def spans(self, text: str, special: bool = False) -> list[Piece]:
        """The tokens of `encode`, each with its place, and its bytes of the clean text; [UNK] has those of its word."""
        utf8(text)
        pieces: list[Piece] = []
        for start, stop, token in self.added_tokens.exact.cut(text, special):
            if token is not None:
                pieces.append(Piece(token, start, stop, text[start:stop].encode()))
                continue
            parts = [self.clean(character) for character in text[start:stop]]
            clean = "".join(parts)
            owner = [start + i for i, part in enumerate(parts) for _ in part]  # for each clean character
            for first, last, inner in self.added_tokens.normalized.cut(clean, special):
                if inner is not None:
                    data = clean[first:last].encode()
                    pieces.append(Piece(inner, owner[first], owner[last - 1] + 1, data))
                    continue
                for at, word in self.words(clean[first:last]):
                    place = first + at
                    for piece in self.pieces(word):
                        name = self.names[piece]
                        size = (
                            len(word)
                            if name == UNKNOWN
                            else len(name.removeprefix(INSIDE) if place > first + at else name)
                        )
                        end = place + size
                        pieces.append(Piece(piece, owner[place], owner[end - 1] + 1, clean[place:end].encode()))
                        place = end
        return pieces

    def clean(self, text: str) -> str:
        """The text without control characters, lower-cased if asked for, with spaces around ideographs."""
        return "".join(clean_character(character, self.lower, self.accents, self.ideographs) for character in text)

    def words(self, clean: str) -> Iterator[tuple[int, str]]:
        """The words and punctuation marks of a clean text, and where they begin."""
        for run in RUNS.finditer(clean):
            start, stop = run.span()
            for mark in MARKS.finditer(clean, start, stop):
                if mark.start() > start:
                    yield start, clean[start : mark.start()]
                yield mark.start(), mark.group()
                start = mark.end()
            if start < stop:
                yield start, clean[start:stop]

    def pieces(self, word: str) -> list[int]:
        """The longest known prefix, then the longest known "##" piece, and so on; [UNK] if none fits."""
        if len(word) > LONGEST_WORD:
            return [self.token_of[UNKNOWN]]
        ids: list[int] = []
        start = 0
        while start < len(word):
            before = INSIDE if start else ""
            for stop in range(min(len(word), start + self.longest), start, -1):
                token = self.token_of.get(before + word[start:stop])
                if token is not None:
                    break
            else:
                return [self.token_of[UNKNOWN]]
            ids.append(token)
            start = stop
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token's name, without the ## of a piece inside a word."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        name = self.names.get(token, "")
        return (name if name in self.special_of else name.removeprefix(INSIDE)).encode()

    def decode(self, ids: Iterable[int]) -> str:
        """Words with spaces between them, pieces inside words joined, and no space before marks that end a phrase."""
        parts: list[str] = []
        for place, token in enumerate(ids):
            if not 0 <= token < self.vocabulary:
                raise unknown_token(token, self.vocabulary)
            name = self.names.get(token, "")
            if place:
                name = name.removeprefix(INSIDE) if name.startswith(INSIDE) else f" {name}"
            for old, new in TIDIED:
                name = name.replace(old, new)
            parts.append(name)
        return "".join(parts)

    def label(self, token: int) -> str:
        """The token's name, with its ##."""
        self.token_bytes(token)
        return legible(self.names.get(token, "").encode())


def read_word_pieces(path: Path, config: Mapping[str, Any]) -> WordPieceTokenizer:
    """Read a vocab.txt, one token a line, and the settings in its folder; LabError does not name the file."""
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise LabError(f"byte {error.start} is not UTF-8") from None
    names = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if names[-1] == "":
        names.pop()
    vocab = {name: token for token, name in enumerate(names)}
    known = [AddedToken(name, vocab[name]) for name in SPECIAL if name in vocab]
    added = beside(path.parent, known, vocab)
    return WordPieceTokenizer(names, added=added, **options(config, "do_lower_case", "tokenize_chinese_chars"))


def options(content: Mapping[str, Any], lower: str, ideographs: str) -> dict[str, Any]:
    """The options for cleaning text, from the keys of tokenizer_config.json or of a BertNormalizer."""
    fields: dict[str, Any] = {}
    for ours, theirs in (("lower", lower), ("ideographs", ideographs), ("accents", "strip_accents")):
        given = content.get(theirs)
        if given is None:
            continue
        if not isinstance(given, bool):
            raise LabError(f"{theirs} must be true or false, not {format_value(given)}")
        fields[ours] = not given if ours == "accents" else given
    return fields


def word_pieces_of_json(content: object) -> WordPieceTokenizer | None:
    """The tokenizer of a tokenizer.json that does exactly what BERT does; None if it is of another kind."""
    if not isinstance(content, dict):
        return None
    model, cleaning, splitting = (content.get(key) for key in ("model", "normalizer", "pre_tokenizer"))
    if not (isinstance(model, dict) and isinstance(cleaning, dict) and isinstance(splitting, dict)):
        return None
    kinds = (model.get("type"), cleaning.get("type"), splitting.get("type"))
    if kinds != ("WordPiece", "BertNormalizer", "BertPreTokenizer") or cleaning.get("clean_text") is not True:
        return None
    own = (model.get("unk_token"), model.get("continuing_subword_prefix"), model.get("max_input_chars_per_word"))
    if own != (UNKNOWN, INSIDE, LONGEST_WORD):
        return None
    vocab = vocabulary_of(model.get("vocab"))
    added = read_added_tokens(content.get("added_tokens") or ())
    if any(vocab.get(token.content, token.id) != token.id for token in added):
        return None
    names = [""] * (max(vocab.values(), default=-1) + 1)
    for name, token in vocab.items():
        names[token] = name
    return WordPieceTokenizer(names, special=(), added=added, **options(cleaning, "lowercase", "handle_chinese_chars"))
