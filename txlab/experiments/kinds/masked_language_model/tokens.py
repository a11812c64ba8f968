"""The three tokens that an encoder reads beside those of its tokenizer, and texts with gaps as it reads them (T10).

Notable: they come after the tokenizer's own V, so that any tokenizer will do. Byte pairs keep the space before a word
in the word's own token, so a space before [MASK] belongs to what the mask hides.
"""

from __future__ import annotations

from collections.abc import Sequence

from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.experiments.loaded_model import Special

SPECIAL = ("[CLS]", "[SEP]", "[MASK]")
MASK = SPECIAL[2]


def special_of(tokenizer: Tokenizer) -> Special:
    """[CLS] = V, [SEP] = V + 1, [MASK] = V + 2."""
    begin, end, mask = (tokenizer.vocabulary + n for n in range(3))
    return Special(begin=begin, end=end, mask=mask, names=dict(zip((begin, end, mask), SPECIAL, strict=True)))


def encoded(tokenizer: Tokenizer, text: str, most: int | None = None) -> list[int]:
    """[CLS] text [SEP] as ids, "[MASK]" in the text as that token; of the text at most `most` tokens.

    >>> from txlab.engine.tokenizers.elementary import ByteTokenizer
    >>> encoded(ByteTokenizer(), "a[MASK]c")
    [256, 97, 258, 99, 257]
    """
    special = special_of(tokenizer)
    assert special.begin is not None
    assert special.end is not None
    assert special.mask is not None
    ids: list[int] = []
    parts = text.split(MASK)
    for number, part in enumerate(parts):
        ids += [special.mask] if number else []
        before_mask = number < len(parts) - 1
        ids += tokenizer.encode(part.removesuffix(" ") if before_mask and takes_space(tokenizer) else part)
    return [special.begin, *ids[:most], special.end]


def takes_space(tokenizer: Tokenizer) -> bool:
    """Whether a word's token begins with the space before it, as byte pairs learn it."""
    return hasattr(tokenizer, "merges")


def label(tokenizer: Tokenizer, token: int) -> str:
    place = token - tokenizer.vocabulary
    return SPECIAL[place] if 0 <= place < len(SPECIAL) else tokenizer.label(token)


def decoded(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of ids, with [MASK] in it and without [CLS] and [SEP]."""
    special = special_of(tokenizer)
    parts: list[list[int]] = [[]]
    for token in ids:
        if token == special.mask:
            parts.append([])
        elif token not in special.names:
            parts[-1].append(token)
    return MASK.join(tokenizer.decode(part) for part in parts)
