"""What a family of models must say so that its weights can be read and written: its shape, and whose name is whose.

Notable: one list of pieces serves both directions, so that what is read and what is written cannot drift apart. A piece
is a tensor of theirs and the rows of our parameter that it is: our [W_Q; W_K; W_V] is one matrix, theirs are three, or
one in another order, or one that lies on its side (GPT-2's Conv1D keeps (in, out), and a square one would load silently
if nobody turned it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.weights.configs import Config
from txlab.errors import LabError

Model = GPT | Bert | EncoderDecoder


@dataclass(frozen=True)
class Piece:
    """Their tensor `theirs` is our parameter `ours`, or some of its rows.

    rows    for each of their rows the number of ours; None = all, in their order
    turned  theirs is the transpose
    row     theirs has one dimension more, of one row: (1, V) for (V)
    stream  the dimensions of ours that are features of the residual stream (D); what a change of their order permutes
    """

    theirs: str
    ours: str
    rows: Sequence[int] | None = None
    turned: bool = False
    row: bool = False
    stream: tuple[int, ...] = ()

    def cut(self, ours: Tensor) -> Tensor:
        """Their tensor, cut out of our parameter."""
        part = ours if self.rows is None else ours[list(self.rows)]
        return part[None] if self.row else part.T if self.turned else part

    def shape(self, ours: Tensor) -> tuple[int, ...]:
        """The shape that theirs must have."""
        shape = (len(ours if self.rows is None else self.rows), *ours.shape[1:])
        return (1, *shape) if self.row else shape[::-1] if self.turned else shape


def third(number: int, width: int) -> range:
    """The rows of W_Q (0), W_K (1) or W_V (2) in [W_Q; W_K; W_V] (3D, D)."""
    return range(number * width, (number + 1) * width)


def vocabulary_sizes(shape: Any) -> tuple[int, ...]:
    """The rows of the table, or of the source's and the target's."""
    if hasattr(shape, "vocabulary"):
        return (shape.vocabulary,)
    return shape.source_vocabulary, shape.target_vocabulary


def only(family: str, *needs: tuple[str, object, object]) -> None:
    """LabError for the first (what, given, needed) that differ: what a family's form cannot say."""
    for what, given, needed in needs:
        if given != needed:
            raise LabError(f"{family}'s form cannot say {what} = {given!r}; it has {needed!r}")


@dataclass(frozen=True)
class Family:
    """One model_type of config.json.

    name       as people know it
    kind       "gpt", "bert" or "encoder-decoder"
    describe   config → the shape of our model; LabError where it is not one that is computed here
    tell       shape → the keys of a config.json; LabError names what the family cannot say
    build      shape → model
    canonical  a name of theirs as a checkpoint of today would have it (old ones lack a prefix, or say gamma)
    pieces     shape → all that must be there
    copies     (their name, our parameter) of what a checkpoint may say a second time; it must say the same
    settle     shape → shape, where config.json leaves something to the tensors: the second argument says of two names
               whether the first is not there or repeats the second
    repeated   shape → pieces that transformers wants written a second time, under a second name
    optional   a pattern of names that a checkpoint may lack, all of them together: a head, or a bias
    without    what is said of a checkpoint that lacks them
    harmless   patterns of names that say nothing: buffers of masks and numbers of positions
    elsewhere  patterns of names that belong to another head than the one that predicts tokens
    caveat     config, shape → what should be known of the model, a sentence; "" = nothing
    """

    name: str
    kind: str
    describe: Callable[[Config], Any]
    tell: Callable[[Any], dict[str, Any]]
    build: Callable[[Any], Model]
    canonical: Callable[[str], str]
    pieces: Callable[[Any], Sequence[Piece]]
    copies: Callable[[Any], Sequence[tuple[str, str]]]
    settle: Callable[[Any, Callable[[str, str], bool]], Any] = lambda shape, repeats: shape
    repeated: Callable[[Any], Sequence[Piece]] = lambda shape: ()
    optional: str = ""
    without: str = ""
    harmless: Sequence[str] = ()
    elsewhere: Sequence[str] = ()
    caveat: Callable[[Config, Any], str] = lambda config, shape: ""
    # Keys of config.json that name a special token: our word for it → theirs.
    special: dict[str, str] = field(default_factory=dict)
