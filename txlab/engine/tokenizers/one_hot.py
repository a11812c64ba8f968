"""A token as a basis vector, and the embedding as a product with it (MATH K3; Becker-Kahn §1.2).

Notable: the look-up gives the same numbers without the V − 1 zeros, so a model takes the product only where its
scenario says embedding = "one-hot"; it costs V times the work and shows that nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.tokenizer import unknown_token

if TYPE_CHECKING:
    from torch import Tensor

Matrix = TypeVar("Matrix", NDArray[Any], "Tensor")


def one_hot(ids: Sequence[int], vocabulary: int) -> NDArray[np.float64]:
    """t (T, V): row i is the basis vector of token ids[i], so t tᵀ has 1 where two tokens are the same, else 0.

    >>> one_hot([2, 0], 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    for token in ids:
        if not 0 <= token < vocabulary:
            raise unknown_token(token, vocabulary)
    t = np.zeros((len(ids), vocabulary))
    t[np.arange(len(ids)), np.asarray(ids, dtype=np.int64)] = 1.0
    return t


def embedding_product(t: Matrix, w_e: Matrix) -> Matrix:
    """x = t W_Eᵀ: (T, V) and W_E (D, V) → (T, D), one row of the table per token. MATH K3.

    W_E maps the V basis vectors into the D features, so its columns are the tokens' vectors; a table of shape (V, D),
    as torch.nn.Embedding keeps it, is W_Eᵀ. Arrays of numpy or tensors.
    """
    x: Matrix = t @ w_e.T
    return x


def embedding_lookup(ids: Sequence[int], w_e: NDArray[Any]) -> NDArray[Any]:
    """The same rows without the product: x = (columns of W_E at the ids)ᵀ, (T, D)."""
    x: NDArray[Any] = w_e.T[np.asarray(ids, dtype=np.int64)]
    return x


def unembedding(x: NDArray[Any], w_u: NDArray[Any]) -> NDArray[Any]:
    """Logits x W_Uᵀ: (T, D) and W_U (V, D) → (T, V). Tied, W_U = W_Eᵀ: a logit is x · (that token's own vector)."""
    logits: NDArray[Any] = x @ w_u.T
    return logits
