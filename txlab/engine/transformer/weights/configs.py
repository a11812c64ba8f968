"""config.json as numbers that can be believed: each has its bounds, and a sentence for whoever breaks them.

Notable: what is not read here is not silently ignored where it would change the numbers; a family lists those keys with
the only values that this engine computes (`must_be`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from txlab.engine.tokenizers.bases import MOST_TOKENS
from txlab.engine.tokenizers.json_files import shown
from txlab.engine.transformer.blocks import Activation
from txlab.errors import LabError, nearest

MOST_LAYERS = 1024
WIDEST = 1 << 17  # D and F; the largest models have 2^14 and 2^16
LONGEST = 1 << 20  # T, where positions are learned and so are in the file
LONGEST_COMPUTED = 1 << 14  # T, where they are computed and no file vouches for them

# Names of others for the same functions; quick_gelu, x σ(1.702 x), and others are no function of this engine.
ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
}
# Our names as transformers knows them.
NAMES_OF: dict[Activation, str] = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "swish": "silu"}


class Config:
    """The object in config.json; every question raises LabError where the answer is out of bounds."""

    def __init__(self, content: Mapping[str, Any], file: str = "config.json") -> None:
        self.content, self.file = content, file

    def __contains__(self, key: str) -> bool:
        return self.content.get(key) is not None

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number from low to high; null counts as absent."""
        given = self.content.get(key)
        if given is None:
            if default is None:
                raise LabError(f"{self.file} has no {key}")
            return default
        if type(given) is not int or not low <= given <= high:
            raise LabError(f"{self.file} has {key} = {shown(given)}; allowed: whole numbers from {low} to {high:,}")
        return given

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A number from low to high; null counts as absent."""
        given = self.content.get(key)
        if given is None:
            if default is None:
                raise LabError(f"{self.file} has no {key}")
            return default
        if type(given) not in (int, float) or not low <= given <= high:
            raise LabError(f"{self.file} has {key} = {shown(given)}; allowed: from {low:g} to {high:g}")
        return float(given)

    def share(self, key: str, default: float) -> float:
        """A share of dropout, in [0, 1)."""
        given = self.content.get(key)
        if given is None:
            return default
        if type(given) not in (int, float) or not 0 <= given < 1:
            raise LabError(f"{self.file} has {key} = {shown(given)}; allowed: from 0 to below 1")
        return float(given)

    def epsilon(self, key: str, default: float) -> float:
        """ε of LayerNorm: below 1e-30 it is lost beside any variance in float32."""
        given = self.content.get(key)
        if given is None:
            return default
        if type(given) not in (int, float) or not math.isfinite(given) or not 1e-30 <= given <= 1:
            raise LabError(f"{self.file} has {key} = {shown(given)}; allowed: from 1e-30 to 1")
        return float(given)

    def flag(self, key: str, default: bool) -> bool:
        given = self.content.get(key)
        if given is None:
            return default
        if not isinstance(given, bool):
            raise LabError(f"{self.file} has {key} = {shown(given)}; allowed: true, false")
        return given

    def activation(self, key: str, default: str) -> Activation:
        given = self.content.get(key)
        given = default if given is None else given
        if not isinstance(given, str) or given not in ACTIVATIONS:
            raise LabError(
                f"{self.file} has {key} = {shown(given)}, which is not computed here"
                f"{nearest(str(given)[:40], ACTIVATIONS)}; allowed: {', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[given]

    def heads(self, key: str, width_key: str, width: int) -> int:
        heads = self.whole(key, 1, width)
        if width % heads:
            raise LabError(f"{self.file} has {key} = {heads}, which does not divide {width_key} = {width}")
        return heads

    def tokens(self, key: str, default: int | None = None) -> int:
        return self.whole(key, 1, MOST_TOKENS, default)

    def must_be(self, only: Mapping[str, Any]) -> None:
        """Keys whose other values are another model: LabError for them; absent and null are fine."""
        for key, wanted in only.items():
            given = self.content.get(key)
            if given is not None and (type(given) is not type(wanted) or given != wanted):
                raise LabError(
                    f"{self.file} has {key} = {shown(given)}, which is another model than is computed here; "
                    f"allowed: {str(wanted).lower() if isinstance(wanted, bool) else wanted}"
                )

    def token_id(self, key: str, vocabulary: int) -> int | None:
        """The id of a special token, or None; of several the first."""
        given = self.content.get(key)
        if isinstance(given, list) and given:
            given = given[0]
        if given is None:
            return None
        # GPT-2's config says 50256 whatever the vocabulary is; such an id is of no use and no harm.
        if type(given) is not int or given < 0:
            raise LabError(f"{self.file} has {key} = {shown(given)}; allowed: ids from 0 to {vocabulary - 1}")
        return given if given < vocabulary else None
