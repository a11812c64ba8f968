"""The cost of a transformer, computed from its shape: parameters, and floating-point operations of a training step.

MATH T8–T11, T14. A table look-up is not arithmetic, so embeddings and positions count as parameters but not as FLOPs,
while the unembedding counts even where it is tied. Norms, softmax and activations are left out, as is customary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from txlab.engine.transformer.bert import BertShape
from txlab.engine.transformer.blocks import has_bias
from txlab.engine.transformer.encoder_decoder import EncoderDecoderShape
from txlab.engine.transformer.gpt import GPTShape
from txlab.engine.transformer.positions import BUCKETS
from txlab.engine.transformer.vision import VisionShape

AnyShape = GPTShape | BertShape | EncoderDecoderShape | VisionShape


@dataclass(frozen=True)
class Costs:
    """parameters     all of them, a tied matrix once
    matmul_weights    entries of the matrices that a token is multiplied by
    flops_per_token   forward and backward, at full context

    A "token" is a position of the text; for an encoder–decoder a position of the target together with one of the
    source; for a vision transformer a patch (or its class token).
    """

    parameters: int
    matmul_weights: int
    flops_per_token: int

    @property
    def forward_flops_per_token(self) -> int:
        """A third of training: the backward pass costs twice the forward one."""
        return self.flops_per_token // 3


@singledispatch
def costs(shape: object) -> Costs:
    """Return the parameters and FLOPs of a shape, without allocating the model.

    FLOPs per token = 6 · matmul_weights + 12 · N · T · D. A weight costs a multiplication and an addition forward and
    twice that backward (gradients of input and weight): 6. In attention QKᵀ and αV cost 2·T·D each per token and layer
    forward, three times that in all: 12·T·D; entries above the diagonal are computed, and so counted.
    Kaplan et al. 2020, §2.1; Chowdhery et al. 2022, appendix B.
    """
    raise TypeError(f"{type(shape).__name__} is not the shape of a transformer")


@costs.register
def _(shape: GPTShape) -> Costs:
    """Where the context is not published (T = 0), the attention term is left out."""
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    across, grouped = shape.across, shape.groups * shape.head_width  # H·K, G·K
    matrices = 3 if shape.gated else 2
    maps = 2 * D * (across + grouped) + matrices * D * F  # W_Q and W_O, W_K and W_V; W₁, W₂ and the gate's
    sizes = {"qkv": across + 2 * grouped, "out": D, "feed_forward": (matrices - 1) * F + D if F else 0}
    biases = sum(size for part, size in sizes.items() if has_bias(shape.bias, part))
    norm = 2 * D if shape.normalisation == "layer" and has_bias(shape.bias, "norm") else D
    norms_in_block = 1 if not F or (shape.norm == "post" and shape.block == "parallel") else 2
    parameters = N * (maps + biases + norms_in_block * norm) + V * D
    parameters += {"learned": T * D, "relative": BUCKETS * shape.heads}.get(shape.positions, 0)
    parameters += norm if shape.norm == "pre" else 0
    parameters += 0 if shape.tied else V * D
    return _count(parameters, N * maps + V * D, N * T * across)


@costs.register
def _(shape: BertShape) -> Costs:
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    tables = (
        V + shape.skipped + T + shape.segments
    ) * D + 2 * D  # tokens, positions, segments, and the norm of their sum
    head = D * D + D + 2 * D + V + (0 if shape.tied else V * D)  # a map with its norm, and the bias of the logits
    used = D * D + V * D
    if shape.classes:  # applied once a text
        head, used = (D + 1) * shape.classes, D * shape.classes // T
    parameters = tables + N * block(D, F) + (2 * D if shape.norm == "pre" else 0) + head
    return _count(parameters, N * in_block(D, F) + used, N * T * D)


@costs.register
def _(shape: EncoderDecoderShape) -> Costs:
    """Source and target have the full context each; a source position passes through the encoder and the key and value
    maps of every cross-attention."""
    E, N, D, F, T = shape.encoder_layers, shape.decoder_layers, shape.width, shape.inner, shape.context
    S, V, bias = shape.source_vocabulary, shape.target_vocabulary, shape.bias
    cross = 4 * D * D + (4 * D if bias else 0)
    norm = 2 * D if bias else D
    parameters = E * block(D, F, bias=bias) + N * (block(D, F, bias=bias, norms=3) + cross)
    parameters += (
        V * D + (0 if shape.shared else S * D) + (0 if shape.tied else V * D) + (V if shape.output_bias else 0)
    )
    parameters += 2 * T * D if shape.positions == "learned" else 0
    parameters += 2 * norm if shape.norm == "pre" else 0
    matmul_weights = E * in_block(D, F) + N * (in_block(D, F) + 4 * D * D) + V * D
    return _count(parameters, matmul_weights, (E + 2 * N) * T * D)


@costs.register
def _(shape: VisionShape) -> Costs:
    """The head is applied once per image, so its cost is spread over the image's T positions, rounded down."""
    N, D, F, T = shape.layers, shape.width, shape.inner, shape.context
    embedding = shape.patch_numbers * D
    head = D * shape.classes
    parameters = embedding + D + (D if shape.pooling == "class" else 0) + T * D + N * block(D, F) + 2 * D
    parameters += head + shape.classes
    patches = shape.side**2
    per_image = N * in_block(D, F) * T + embedding * patches + head
    return _count(parameters, per_image // T, N * T * D)


def in_block(D: int, F: int) -> int:
    """Return the number of matrix entries in a block: W_Q, W_K, W_V, W_O; W₁, W₂."""
    return 4 * D * D + 2 * D * F


def block(D: int, F: int, *, bias: bool = True, norms: int = 2) -> int:
    """Return the number of parameters of a block: its matrices, their biases, and its norms."""
    return in_block(D, F) + (4 * D + F + D if bias else 0) + norms * (2 * D if bias else D)


def _count(parameters: int, matmul_weights: int, looked: int) -> Costs:
    """`looked` is N · T · D, the positions attended to in all layers times the width."""
    return Costs(parameters, matmul_weights, 6 * matmul_weights + 12 * looked)


@dataclass(frozen=True)
class Memory:
    """Memory in bytes.

    weights      in float32; half of it in bfloat16
    training     float32 weights, gradients and the two moments of AdamW: 16 bytes per parameter
    activations  kept for the backward pass of one sequence of T positions, estimated; 0 = the context is not published
    cache        keys and values of 1000 positions in float32; 0 for a model that does not generate
    """

    weights: int
    training: int
    activations: int
    cache: int


def memory(shape: AnyShape) -> Memory:
    """Return the memory that a shape needs, without allocating the model.

    Activations are in float32, without recomputation, for an attention that stores no T × T pattern. A position keeps
    in each block 4 D numbers (inputs of two norms and two branches; 8 D where torch decomposes RMSNorm, as it does on a
    CPU), 4 H·K (queries, keys and values of each head, and the heads' outputs) and 2 F (neurons before and after f;
    gated 4 F), and D + V at the end, for the last norm and the logits: Korthikanti et al. 2022, eq. 2, without its
    dropout masks. Temporaries are not included.
    """
    weights = 4 * costs(shape).parameters
    across = shape.heads * shape.head_width
    if isinstance(shape, EncoderDecoderShape):
        cache = 2 * shape.decoder_layers * 2 * across  # for a target and a source position
    else:
        grouped = shape.groups * shape.head_width if isinstance(shape, GPTShape) else across
        cache = 2 * shape.layers * grouped if isinstance(shape, GPTShape) else 0
    return Memory(weights, 4 * weights, _activations(shape), 4 * 1000 * cache)


def _activations(shape: AnyShape, size: int = 4, pattern: bool = False) -> int:
    """Bytes kept for the backward pass of one sequence, see `memory`.

    size     bytes of a number that a product reads or makes: 2 under autocast, which leaves norms, residuals and the
             softmax of the logits in float32
    pattern  whether attention keeps a T × T pattern for each head
    """
    D, F, T = shape.width, shape.inner, shape.context
    across = shape.heads * shape.head_width
    neurons = 4 * F if isinstance(shape, GPTShape) and shape.gated else 2 * F
    norms = 8 * D if isinstance(shape, GPTShape) and shape.normalisation == "rms" else 4 * D
    branches = 2 * D if F else D  # of the norms' numbers, those that products read
    norms = norms if F else norms // 2  # one norm and one branch
    heads = 4 * across + (shape.heads * T if pattern else 0)
    kept = 4 * (norms - branches) + size * (branches + heads + neurons)  # bytes per position and block
    if isinstance(shape, EncoderDecoderShape):
        crossing = 4 * D + size * (D + heads)
        blocks = shape.encoder_layers * kept + shape.decoder_layers * (kept + crossing)
        V = shape.target_vocabulary
    else:
        blocks = shape.layers * kept
        V = 0 if isinstance(shape, VisionShape) else shape.vocabulary
    return T * (blocks + 4 * (D + V))


@dataclass(frozen=True)
class StepMemory:
    """Bytes that a training step needs, by purpose; AdamW's moments are two numbers a parameter.

    copies   of the weights in bfloat16, which autocast makes for a step; 0 in float32
    """

    weights: int
    gradients: int
    moments: int
    copies: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.moments + self.copies + self.activations


def step_memory(shape: AnyShape, sequences: int, *, bfloat16: bool = False, pattern: bool = False) -> StepMemory:
    """The memory of a training step, computed from its shape; see `memory`.

    sequences  of one micro-batch
    bfloat16   computed under autocast; weights, gradients and moments stay in float32
    pattern    attention by products and a softmax, which keeps the T × T patterns
    """
    cost, size = costs(shape), 2 if bfloat16 else 4
    weights = 4 * cost.parameters
    return StepMemory(
        weights,
        weights,
        2 * weights,
        2 * cost.matmul_weights if bfloat16 else 0,
        sequences * _activations(shape, size, pattern),
    )
