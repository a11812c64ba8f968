"""A tokenizer from a file or folder, whoever made it, and back.

Notable: a file is somebody else's until it is checked; whatever is wrong with it ends in one LabError that names it,
and nothing in it is ever run. The form is told by what is in the file, not by what it is called.
"""

from pathlib import Path

from txlab.engine.tokenizers.json_files import read_json, write_aside
from txlab.engine.tokenizers.own_files import AnyTokenizer, content_of, tokenizer_of
from txlab.errors import LabError

__all__ = ["AnyTokenizer", "load_tokenizer", "save_tokenizer", "tokenizer_of"]


def save_tokenizer(tokenizer: AnyTokenizer, path: Path) -> None:
    """Write our own form, complete or not at all."""
    write_aside(path, content_of(tokenizer))


def load_tokenizer(path: Path) -> AnyTokenizer:
    """Read and check a tokenizer; LabError names the file and says what is wrong."""
    try:
        return tokenizer_of(read_json(path))
    except LabError as error:
        raise LabError(f"tokenizer file {str(path)!r}: {error}") from None
