"""Loading a tokenizer from a file or folder of any format, and saving it; and our own format, {"format": 1, "kind": …}.

A file is not trusted until it is checked: any fault raises one LabError that names it, and nothing in it is ever
executed. The format is recognised by the file's content; only merges.txt and vocab.json, which need each other, are
recognised by name. Our own format stores a byte pair encoding as its pairs of ids, so the tokens cannot contradict
them, with the count of each merge in training, which no other format keeps.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.added_tokens import read_added_tokens
from txlab.engine.tokenizers.bases import BYTES, Alphabet, Base, Bytes
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer, WordTokenizer
from txlab.engine.tokenizers.folders import complete_tokenizer
from txlab.engine.tokenizers.gpt2_files import MERGES, VOCAB, read_gpt2, write_gpt2
from txlab.engine.tokenizers.huggingface import ForeignTokenizer, huggingface_tokenizer, write_huggingface
from txlab.engine.tokenizers.json_files import format_value, read_json, require_list, text, whole_number, write_aside
from txlab.engine.tokenizers.rank_files import read_ranks, tokenizer_of_js, write_ranks
from txlab.engine.tokenizers.sentence_pieces import SentencePieceTokenizer, read_sentence_model
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.errors import LabError, nearest, prefix_errors
from txlab.files import open_regular

FORMAT = 1
# The required and optional keys of each kind.
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "bytes": (set(), set()),
    "characters": ({"characters"}, set()),
    "words": ({"units"}, set()),
    "bpe": ({"pattern", "special", "merges"}, {"base", "counts", "ids", "tokens", "whole", "added", "offsets"}),
}
OwnTokenizer = ByteTokenizer | CharacterTokenizer | WordTokenizer | BytePairTokenizer


def content_of(tokenizer: Tokenizer) -> bytes:
    """The content of a tokenizer's file in our own format."""
    content: dict[str, Any] = {"format": FORMAT}
    if isinstance(tokenizer, BytePairTokenizer):
        content |= {"kind": "bpe", "pattern": tokenizer.pattern, "special": list(tokenizer.given)}
        after = tokenizer.base.after
        if tokenizer.base != BYTES:
            content["base"] = base_content(tokenizer.base)
        if tokenizer.made != list(range(after, after + len(tokenizer.merges))):
            content["ids"] = tokenizer.made
        if tokenizer.spelt:
            content["tokens"] = [[token, data.hex()] for token, data in tokenizer.spelt.items()]
        if tokenizer.given != tokenizer.place_special(list(tokenizer.given)):
            content["special"] = dict(tokenizer.given)
        if tokenizer.whole:
            content["whole"] = True
        if tokenizer.added:
            content["added"] = [token.entry() for token in tokenizer.added]
        if tokenizer.offsets != "whole":
            content["offsets"] = tokenizer.offsets
        if tokenizer.counts:
            content["counts"] = list(tokenizer.counts)
        content["merges"] = tokenizer.merges
    elif isinstance(tokenizer, CharacterTokenizer):
        content |= {"kind": "characters", "characters": tokenizer.characters}
    elif isinstance(tokenizer, WordTokenizer):
        content |= {"kind": "words", "units": list(tokenizer.texts)}
    elif isinstance(tokenizer, ByteTokenizer):
        content |= {"kind": "bytes"}
    else:
        raise LabError(
            f"a {type(tokenizer).__name__} cannot be saved in txlab's format; keep the file that it came from"
        )
    return json.dumps(content, ensure_ascii=False).encode()


def base_content(base: Base) -> dict[str, Any]:
    if isinstance(base, Bytes):
        return {"kind": "bytes", "ids": list(base.ids)}
    return {"kind": "alphabet", "letters": base.letters, "end_of_artefact": base.end_of_artefact}


def tokenizer_of(content: object) -> OwnTokenizer:
    """The tokenizer that parsed JSON in our own format describes; raises LabError if anything is wrong with it."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or type(content["format"]) is not int:
        raise LabError(f"it is not a tokenizer of format {FORMAT}")
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise LabError(
            f"kind = {format_value(kind)} is not known{nearest(str(kind)[:80], KINDS)}; allowed: {', '.join(KINDS)}"
        )
    must, may = KINDS[kind]
    keys = set(content) - {"format", "kind"}
    if not must <= keys <= must | may:
        wrong = sorted(keys - must - may) or sorted(must - keys)
        raise LabError(
            f"kind {kind} has the keys {', '.join(sorted(must | may)) or 'format and kind only'}; "
            f"{format_value(wrong[0])} is {'not one of them' if keys - must - may else 'missing'}"
        )
    if kind == "bytes":
        return ByteTokenizer()
    if kind == "characters":
        return CharacterTokenizer(text(content["characters"], "characters"))
    if kind == "words":
        return WordTokenizer([text(unit, "a unit") for unit in require_list(content["units"], "units")])
    return byte_pairs_of(content)


def byte_pairs_of(content: dict[str, Any]) -> BytePairTokenizer:
    pairs: list[tuple[int, int]] = []
    for rank, pair in enumerate(require_list(content["merges"], "merges")):
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(token) is int for token in pair)):
            raise LabError(f"merge {rank} is not a pair of token ids")
        pairs.append((pair[0], pair[1]))
    given = content["special"]
    special: list[str] | dict[str, int]
    if isinstance(given, dict):
        special = {name: whole_number(token, "the id of a special token") for name, token in given.items()}
    else:
        special = [text(name, "a special token") for name in require_list(given, "special")]
    ids = content.get("ids")
    whole = content.get("whole", False)
    if not isinstance(whole, bool):
        raise LabError(f"whole must be true or false, not {format_value(whole)}")
    return BytePairTokenizer(
        pairs,
        text(content["pattern"], "pattern"),
        special,
        base=base_of(content["base"]) if "base" in content else None,
        counts=[whole_number(count, "a count") for count in require_list(content.get("counts", []), "counts")],
        ids=None if ids is None else [whole_number(token, "an id") for token in require_list(ids, "ids")],
        tokens=dict(read_known_token(entry) for entry in require_list(content.get("tokens", []), "tokens")),
        whole=whole,
        added=read_added_tokens(require_list(content.get("added", []), "added")),
        offsets=text(content.get("offsets", "whole"), "offsets"),
    )


def read_known_token(entry: object) -> tuple[int, bytes]:
    if isinstance(entry, list) and len(entry) == 2:
        try:
            return whole_number(entry[0], "an id"), bytes.fromhex(text(entry[1], "the bytes of a token"))
        except ValueError:
            pass
    raise LabError(f"{format_value(entry)} is not a token and its bytes in hexadecimal digits")


def base_of(content: object) -> Base:
    if isinstance(content, dict) and content.get("kind") == "bytes" and set(content) == {"kind", "ids"}:
        return Bytes(tuple(whole_number(token, "the id of a byte") for token in require_list(content["ids"], "ids")))
    if isinstance(content, dict) and content.get("kind") == "alphabet":
        if set(content) != {"kind", "letters", "end_of_artefact"}:
            raise LabError("an alphabet has the keys letters and end_of_artefact")
        return Alphabet(text(content["letters"], "letters"), text(content["end_of_artefact"], "end_of_artefact"))
    raise LabError(f"base = {format_value(content)} is neither bytes with ids nor an alphabet")


__all__ = ["FORMS", "AnyTokenizer", "export_tokenizer", "load_tokenizer", "save_tokenizer", "tokenizer_of"]

# What a format loses, as the end of "the file …".
FORMS = {
    "txlab": "",
    "huggingface": "does not keep the counts of the merges",
    "tiktoken": "has the ranks alone: the splitting pattern and special tokens are in the .json next to it",
    "gpt2": "does not say which tokens are special",
}
AnyTokenizer = OwnTokenizer | ForeignTokenizer | SentencePieceTokenizer
RANK_LINE = re.compile(rb"\s*[A-Za-z0-9+/=]+[ \t]+\d+\s*?(\n|$)")


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write our own format, completely or not at all."""
    write_aside(path, content_of(tokenizer))


def export_tokenizer(tokenizer: Tokenizer, path: Path, form: str) -> str:
    """Write another format: `huggingface` a tokenizer.json, `tiktoken` a rank file, `gpt2` a folder of two files.

    Returns what the format loses, "" if nothing. Raises LabError if it cannot represent this tokenizer.
    """
    if form not in FORMS:
        raise LabError(f"{form!r} is not a tokenizer format{nearest(form, FORMS)}; allowed: {', '.join(FORMS)}")
    if form == "txlab":
        save_tokenizer(tokenizer, path)
        return ""
    if not isinstance(tokenizer, BytePairTokenizer):
        raise LabError(f"the format {form} is for byte pair encodings, not for a {type(tokenizer).__name__}")
    {"huggingface": write_huggingface, "tiktoken": write_ranks, "gpt2": write_gpt2}[form](tokenizer, path)
    return FORMS[form]


def load_tokenizer(path: Path, pattern: str | None = None) -> AnyTokenizer:
    """Read and check a tokenizer: our format, tokenizer.json, ranks, a folder of vocab.json and merges.txt, or a .spm.

    `pattern`: how text is split, for formats that do not say (rank files, GPT-2's two files). LabError names the file
    and says what is wrong. A pattern that had to be guessed is a warning (errors.Guess).
    """
    with prefix_errors(f"tokenizer file {str(path)!r}"):
        return read(path, pattern)


def read(path: Path, pattern: str | None) -> AnyTokenizer:
    try:
        if path.is_dir():
            if (path / "tokenizer.json").exists() and not (path / "tokenizer.json").is_dir():
                return tokenizer_of_json(complete_tokenizer(read_json(path / "tokenizer.json"), path))
            if (path / VOCAB).exists() and (path / MERGES).exists():
                return read_gpt2(path, pattern or "gpt2")
            raise LabError(f"it is a folder with neither tokenizer.json nor {VOCAB} and {MERGES}")
        if path.name in (VOCAB, MERGES) and (path.parent / VOCAB).exists() and (path.parent / MERGES).exists():
            return read_gpt2(path.parent, pattern or "gpt2")
        if path.is_file():
            with os.fdopen(open_regular(path), "rb", buffering=0) as file:
                if RANK_LINE.match(file.read(4096) or b""):
                    return read_ranks(path, pattern)
    except OSError as error:
        raise LabError(f"it cannot be read: {error.strerror or error}") from None
    except ValueError:  # a null byte in the name
        raise LabError("it cannot be read: it is not a valid file name") from None
    if path.suffix in (".spm", ".model"):
        return read_sentence_model(path)
    return tokenizer_of_json(read_json(path), pattern)


def tokenizer_of_json(content: object, pattern: str | None = None) -> AnyTokenizer:
    """The tokenizer that parsed JSON describes, in our format, Hugging Face's or js-tiktoken's."""
    if isinstance(content, dict) and "bpe_ranks" in content:
        return tokenizer_of_js(content, pattern)
    if isinstance(content, dict) and "model" in content and "format" not in content:
        return huggingface_tokenizer(content)
    return tokenizer_of(content)
