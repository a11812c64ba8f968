"""A tokenizer from a file or folder, whoever made it, and back.

Notable: a file is somebody else's until it is checked; whatever is wrong with it ends in one LabError that names it,
and nothing in it is ever run. The form is told by what is in the file; only merges.txt and vocab.json, which need each
other, are told by their names.
"""

import os
import re
from pathlib import Path

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.folders import completed
from txlab.engine.tokenizers.foreign import ForeignTokenizer
from txlab.engine.tokenizers.gpt2_files import MERGES, VOCAB, read_gpt2, write_gpt2
from txlab.engine.tokenizers.huggingface import huggingface_tokenizer, write_huggingface
from txlab.engine.tokenizers.json_files import read_json, write_aside
from txlab.engine.tokenizers.own_files import OwnTokenizer, content_of, tokenizer_of
from txlab.engine.tokenizers.rank_files import read_ranks, tokenizer_of_js, write_ranks
from txlab.engine.tokenizers.sentence_pieces import SentencePieceTokenizer, read_sentence_model
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.errors import LabError, nearest
from txlab.files import open_regular

__all__ = ["FORMS", "AnyTokenizer", "export_tokenizer", "load_tokenizer", "save_tokenizer", "tokenizer_of"]

# What a form does not keep, as the end of "the file …".
FORMS = {
    "txlab": "",
    "huggingface": "does not keep the counts of the merges",
    "tiktoken": "has the ranks alone: the splitting pattern and special tokens are in the .json beside it",
    "gpt2": "does not say which tokens are special",
}
AnyTokenizer = OwnTokenizer | ForeignTokenizer | SentencePieceTokenizer
RANK_LINE = re.compile(rb"\s*[A-Za-z0-9+/=]+[ \t]+\d+\s*?(\n|$)")


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write our own form, complete or not at all."""
    write_aside(path, content_of(tokenizer))


def export_tokenizer(tokenizer: Tokenizer, path: Path, form: str) -> str:
    """Write a form of others: `huggingface` a tokenizer.json, `tiktoken` a rank file, `gpt2` a folder of two files.

    Returns what the form does not keep, "" if nothing. LabError where it cannot say what this tokenizer is.
    """
    if form not in FORMS:
        raise LabError(f"{form!r} is not a form of tokenizers{nearest(form, FORMS)}; allowed: {', '.join(FORMS)}")
    if form == "txlab":
        save_tokenizer(tokenizer, path)
        return ""
    if not isinstance(tokenizer, BytePairTokenizer):
        raise LabError(f"the form {form} is for byte pair encodings; a {type(tokenizer).__name__} has none there")
    {"huggingface": write_huggingface, "tiktoken": write_ranks, "gpt2": write_gpt2}[form](tokenizer, path)
    return FORMS[form]


def load_tokenizer(path: Path, pattern: str | None = None) -> AnyTokenizer:
    """Read and check a tokenizer: our form, a tokenizer.json, ranks, a folder of vocab.json and merges.txt, or a .spm.

    `pattern`: how text is split, for the forms that do not say (rank files, GPT-2's two files). LabError names the
    file and says what is wrong. A pattern that had to be guessed is a warning (errors.Guess).
    """
    try:
        return read(path, pattern)
    except LabError as error:
        raise LabError(f"tokenizer file {str(path)!r}: {error}") from None


def read(path: Path, pattern: str | None) -> AnyTokenizer:
    try:
        if path.is_dir():
            if (path / "tokenizer.json").exists() and not (path / "tokenizer.json").is_dir():
                return tokenizer_of_json(completed(read_json(path / "tokenizer.json"), path))
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
    except ValueError:  # a NUL in the name
        raise LabError("it cannot be read: no such name is possible") from None
    if path.suffix in (".spm", ".model"):
        return read_sentence_model(path)
    return tokenizer_of_json(read_json(path), pattern)


def tokenizer_of_json(content: object, pattern: str | None = None) -> AnyTokenizer:
    """The tokenizer that parsed JSON describes, in our form, Hugging Face's or js-tiktoken's."""
    if isinstance(content, dict) and "bpe_ranks" in content:
        return tokenizer_of_js(content, pattern)
    if isinstance(content, dict) and "model" in content and "format" not in content:
        return huggingface_tokenizer(content)
    return tokenizer_of(content)
