"""The byte pair encoding of a training text, learnt once and remembered.

Notable: what is remembered is only a saving of time: the name of the file is a digest of the text and of all that
decides the merges, and a file that does not read as such an encoding is learnt again.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from platformdirs import user_cache_dir

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.files import load_tokenizer, save_tokenizer
from txlab.errors import LabError

PATTERN = "gpt4"
RULES = 1  # goes up when the same text would give other merges


def trained_tokenizer(text: str, vocabulary: int) -> BytePairTokenizer:
    """The encoding learnt from this text; raises LabError for a vocabulary below 257."""
    if vocabulary <= 256:
        raise LabError(f"data.vocabulary = {vocabulary} is too small for bpe, which has the 256 bytes; at least 257")
    digest = sha256(f"{RULES}/{PATTERN}/{vocabulary}/".encode() + text.encode()).hexdigest()
    remembered = Path(user_cache_dir("txlab")) / "tokenizers" / f"{digest[:32]}.json"
    with suppress(LabError):
        tokenizer = load_tokenizer(remembered)
        if isinstance(tokenizer, BytePairTokenizer) and (tokenizer.pattern, tokenizer.special) == (PATTERN, ()):
            return tokenizer
    tokenizer = BytePairTokenizer.trained([text], vocabulary, PATTERN)
    with suppress(OSError):  # a read-only home: learnt again next time
        remembered.parent.mkdir(parents=True, exist_ok=True)
        save_tokenizer(tokenizer, remembered)
    return tokenizer
