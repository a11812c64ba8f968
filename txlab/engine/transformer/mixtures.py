"""Data mixtures of published models: sampling proportions and epochs of their texts (MATH T12).

    epochs of text i = wᵢ · tokens read in training / tokens of text i

Notable: a table prints two of the three, rounded, and the third follows: GPT-3's prints the tokens of each text, so its
epochs can be computed and compared; LLaMA's prints the epochs, so the tokens of each text can.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MixedText:
    """One row of a table, as printed.

    weight   sampling proportion    epochs   passes over the text
    tokens   of the text, 0 = not printed    disk   bytes of the text on disk, 0 = not printed
    """

    name: str
    weight: float
    epochs: float
    tokens: float = 0.0
    disk: float = 0.0


@dataclass(frozen=True)
class Mixture:
    """A table; `tokens` are those read in the training that its epochs are of. `prefix` begins the names of its
    presets, `scenario` is the one that reads texts of the same proportions."""

    name: str
    source: str
    tokens: float
    texts: tuple[MixedText, ...]
    prefix: str
    scenario: str
    note: str = ""

    def epochs_of(self, text: MixedText) -> float:
        """The epochs that follow from weight and tokens; 0 if the tokens are not printed."""
        return text.weight * self.tokens / text.tokens if text.tokens else 0.0

    def tokens_of(self, text: MixedText) -> float:
        """The tokens of a text: those printed, else those that follow from weight and epochs."""
        return text.tokens or text.weight * self.tokens / text.epochs


GPT3 = Mixture(
    "GPT-3",
    "Brown et al. 2020, table 2.2",
    300e9,
    (
        MixedText("common-crawl", 0.60, 0.44, 410e9),
        MixedText("webtext2", 0.22, 2.9, 19e9),
        MixedText("books1", 0.08, 1.9, 12e9),
        MixedText("books2", 0.08, 0.43, 55e9),
        MixedText("wikipedia", 0.03, 3.4, 3e9),
    ),
    "gpt3-",
    "gpt3-mixture",
    "The weights are rounded to whole percents and sum to 101 %, and the tokens to whole billions; so the epochs of "
    "WebText2, Books1 and Wikipedia that follow from them differ from the printed ones by up to a fifth.",
)
LLAMA = Mixture(
    "LLaMA",
    "Touvron et al. 2023, table 1",
    1.4e12,
    (
        MixedText("common-crawl", 0.670, 1.10, disk=3.3e12),
        MixedText("c4", 0.150, 1.06, disk=783e9),
        MixedText("github", 0.045, 0.64, disk=328e9),
        MixedText("wikipedia", 0.045, 2.45, disk=83e9),
        MixedText("books", 0.045, 2.23, disk=85e9),
        MixedText("arxiv", 0.025, 1.06, disk=92e9),
        MixedText("stackexchange", 0.020, 1.03, disk=78e9),
    ),
    "llama-",
    "llama-mixture",
    "Epochs are those of the 1.4 T tokens that 33B and 65B read; 7B and 13B read 1 T in the same proportions.",
)
MIXTURES = (GPT3, LLAMA)


def mixture_of(preset: str) -> Mixture | None:
    """The mixture that a preset was trained on; None if none is known.

    >>> mixture_of("gpt3-175b").name, mixture_of("gpt2")
    ('GPT-3', None)
    """
    return next((mixture for mixture in MIXTURES if preset.startswith(mixture.prefix)), None)
