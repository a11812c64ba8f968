"""What a decoder costs, counted on paper: parameters, and floating-point operations of a training step (MATH T9, T11).

Notable: a look-up in a table is no arithmetic, so embeddings and positions count as parameters and not as FLOPs, while
the unembedding counts also where it is tied. Norms, softmax and activations are left out, as everybody leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass

from txlab.engine.transformer.gpt import GPTShape


@dataclass(frozen=True)
class Costs:
    """parameters     all of them, a tied matrix once
    matmul_weights    entries of the matrices that a token is multiplied with
    flops_per_token   forward and backward, at full context
    """

    parameters: int
    matmul_weights: int
    flops_per_token: int


def costs(shape: GPTShape) -> Costs:
    """Parameters and FLOPs of a shape, without allocating it.

    FLOPs a token = 6 · matmul_weights + 12 · N · T · D. A weight costs a multiplication and an addition forward and
    twice that backward (gradients by input and by weight): 6. In attention QKᵀ and αV cost 2·T·D each a token and
    layer forward, three times that in all: 12·T·D; what lies above the diagonal is computed, and counted.
    Kaplan et al. 2020, §2.1; Chowdhery et al. 2022, appendix B.
    """
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    in_block = 4 * D * D + 2 * D * F  # W_Q, W_K, W_V, W_O; W₁, W₂
    biases = 4 * D + F + D
    norm = 2 * D if shape.bias else D
    norms_in_block = 1 if shape.norm == "post" and shape.block == "parallel" else 2
    block = in_block + norms_in_block * norm + (biases if shape.bias else 0)
    parameters = N * block + V * D
    parameters += T * D if shape.positions == "learned" else 0
    parameters += norm if shape.norm == "pre" else 0
    parameters += 0 if shape.tied else V * D
    matmul_weights = N * in_block + V * D
    return Costs(parameters, matmul_weights, 6 * matmul_weights + 12 * N * T * D)
