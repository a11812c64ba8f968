"""GPT-2's own form: a folder with vocab.json (name → id) and merges.txt (one merge a line, in rank order).

Notable: neither file says what the splitting pattern or the special tokens are. The pattern is GPT-2's, and a special
token is what no merge makes and is no single byte, as <|endoftext|> there; what the folder's other files say of added
tokens goes first.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from txlab.engine.tokenizers.added_tokens import AddedToken
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.folders import beside
from txlab.engine.tokenizers.json_files import read_bytes, read_json, shown, write_aside
from txlab.engine.tokenizers.named_merges import BYTE_OF, merge_names, names, tokenizer_of_names, vocabulary_of
from txlab.errors import LabError

VOCAB, MERGES = "vocab.json", "merges.txt"
END_OF_WORD = "</w>"


def read_gpt2(folder: Path, pattern: str = "gpt2") -> BytePairTokenizer:
    """LabError, naming which of the two files, for anything wrong with them."""
    try:
        vocab = vocabulary_of(read_json(folder / VOCAB))
    except LabError as error:
        raise LabError(f"{VOCAB}: {error}") from None
    try:
        merges = list(merge_lines(read_bytes(folder / MERGES)))
    except LabError as error:
        raise LabError(f"{MERGES}: {error}") from None
    if any(name.endswith(END_OF_WORD) for _, name in merges[:100]):
        raise LabError(
            f"its words end with {END_OF_WORD}, as CLIP's and GPT-1's do, which is no byte-level encoding; give its "
            "tokenizer.json (transformers writes one), which the library tokenizers can run"
        )
    made = {left + right for left, right in merges}
    special = {name: token for name, token in vocab.items() if name not in made and name not in BYTE_OF}
    added = beside(folder, [AddedToken(name, token) for name, token in special.items()], vocab)
    special = {token.content: token.id for token in added if token.plain}
    return tokenizer_of_names(vocab, merges, special, pattern, added=[token for token in added if not token.plain])


def merge_lines(data: bytes) -> Iterator[tuple[str, str]]:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise LabError(f"byte {error.start} is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        parts = line.rstrip("\r").split(" ")
        if parts == [""] or (number == 1 and line.startswith("#version")):
            continue
        if len(parts) != 2 or "" in parts:
            raise LabError(f"line {number} is not two names with a space between them: {shown(line)}")
        yield parts[0], parts[1]


def write_gpt2(tokenizer: BytePairTokenizer, folder: Path) -> None:
    """LabError where the form cannot say what this tokenizer is."""
    if tokenizer.pattern != "gpt2":
        raise LabError(f"GPT-2's form has GPT-2's splitting pattern, this tokenizer has {shown(tokenizer.pattern)}")
    if tokenizer.loose:
        raise LabError(f"GPT-2's form has no tokens that no merge makes, as {min(tokenizer.loose)} here")
    if tokenizer.added:
        raise LabError(f"GPT-2's form does not say what the added token {shown(tokenizer.added[0].content)} is")
    vocab = names(tokenizer)
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merge_names(tokenizer))]
    folder.mkdir(parents=True, exist_ok=True)
    write_aside(folder / VOCAB, json.dumps(vocab, ensure_ascii=False).encode())
    write_aside(folder / MERGES, ("\n".join(lines) + "\n").encode())
