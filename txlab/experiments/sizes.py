"""How large the model of a scenario is and what a step of it costs, before it has run (MATH T8–T11, T14).

Notable: nothing is allocated and no text is read; what only the text can tell is refused in a sentence that says who
will know. torch is imported inside, with the shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from txlab.engine.explain import Explanation, Operand, Step
from txlab.errors import LabError
from txlab.experiments.kinds.image_classification.schema import ImageScenario
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.learning.schema import Train
from txlab.experiments.schema import Scenario, Start
from txlab.experiments.tokenizer_store import tokenizer_named

if TYPE_CHECKING:
    from txlab.engine.transformer.costs import Costs

SOURCE = "Kaplan et al. 2020, §2.1; Chowdhery et al. 2022, appendix B"


def explain_scenario(scenario: Scenario, seconds: float = 0.0) -> Explanation | None:
    """Parameters, memory and FLOPs of what a scenario trains; None for kinds that train no model.

    seconds   how long the scenario is said to take, 0 = unknown: with it the answer ends in FLOP/s.
    LabError where the vocabulary is only known once the text has been read.
    """
    if isinstance(scenario, LanguageModelScenario):
        return explain_decoder(scenario, seconds)
    if isinstance(scenario, MaskedLanguageModelScenario):
        return explain_encoder(scenario, seconds)
    if isinstance(scenario, TranslationScenario):
        return explain_translator(scenario, seconds)
    if isinstance(scenario, ImageScenario):
        return explain_vision(scenario, seconds)
    return None


def refuse_unknown(start: Start) -> None:
    if start.run and not start.fingerprint:
        raise LabError("how large it is depends on the run that it starts from; its own run will say (w on the run)")


def vocabulary_of(tokenizer: str, learnt: int) -> int:
    """Tokens that a text's tokenizer will have; `learnt` is what a byte pair encoding is asked to learn."""
    if tokenizer in ("characters", "words"):
        raise LabError(f"how large it is depends on how many {tokenizer} its text has; its run will say (w on the run)")
    return learnt if tokenizer == "bpe" else tokenizer_named(tokenizer).vocabulary


def explain_decoder(scenario: LanguageModelScenario, seconds: float) -> Explanation:
    """The decoder of a language model, with every matrix counted."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.kinds.language_model.shape import shape_of

    refuse_unknown(scenario.start)
    data = scenario.data
    reads = data.source == "text"
    shape = shape_of(scenario, vocabulary_of(data.tokenizer, data.vocabulary) if reads else data.vocabulary)
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    cost = costs(shape)
    in_block = (cost.matmul_weights - V * D) // N
    said, made, maps = "4 D² + 2 D F", f"4 · {D}² + 2 · {D} · {F}", "W_Q, W_K, W_V, W_O; W₁, W₂"
    if shape.gated or shape.groups < shape.heads:
        G, matrices = shape.groups, 3 if shape.gated else 2
        said = f"2 D² (1 + G/H) + {matrices} D F"
        made, maps = f"2 · {D}² · (1 + {G}/{shape.heads}) + {matrices} · {D} · {F}", maps + ", W₃" * shape.gated
    beside = ["" if shape.tied else "W_E", "positions" if shape.positions == "learned" else "", "norms"]
    beside += ["biases"] if shape.bias else []
    return explained(
        Size(cost, N, T, D, "token", ", ".join(filter(None, beside))),
        scenario.train,
        seconds,
        equation=f"FLOPs a step = B · T · (6 w + 12 N T D),  w = N ({said}) + V D",
        math="T9, T11",
        operands=[
            *dimensions(N, shape.heads, D, F),
            Operand("T", T, "context"),
            Operand("V", V, "symbols" if not reads else "bytes" if data.tokenizer == "bytes" else "tokens"),
        ],
        weights=[
            Step("a block", made, in_block, maps),
            Step(
                "w", f"{N} · {in_block} + {V} · {D}", N * in_block + V * D, "with W_U: what a token is multiplied with"
            ),
        ],
    )


def explain_encoder(scenario: MaskedLanguageModelScenario, seconds: float) -> Explanation:
    """An encoder that fills gaps."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.kinds.masked_language_model.shape import shape_of

    refuse_unknown(scenario.start)
    data = scenario.data
    shape = shape_of(scenario, vocabulary_of(data.tokenizer, data.vocabulary) + 3)  # [CLS], [SEP], [MASK]
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    cost = costs(shape)
    made = f"{N} · (4 · {D}² + 2 · {D} · {F}) + {D}² + {V} · {D}"
    return explained(
        Size(cost, N, T, D, "token", "tables, norms, biases"),
        scenario.train,
        seconds,
        equation="FLOPs a step = B · T · (6 w + 12 N T D),  w = N (4 D² + 2 D F) + D² + V D",
        math="T10, T11",
        operands=[
            *dimensions(N, shape.heads, D, F),
            Operand("T", T, "context"),
            Operand("V", V, "tokens, with [CLS], [SEP] and [MASK]"),
        ],
        weights=[Step("w", made, cost.matmul_weights, "what a token is multiplied with")],
    )


def explain_translator(scenario: TranslationScenario, seconds: float) -> Explanation:
    """An encoder–decoder, at its full context: real pairs are shorter, and cost less."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.kinds.translation.shape import shape_of

    shape = shape_of(scenario)
    E, N, D, F, T = shape.encoder_layers, shape.decoder_layers, shape.width, shape.inner, shape.context
    V, cost = shape.target_vocabulary, costs(shape)
    made = f"{E} · (4 · {D}² + 2 · {D} · {F}) + {N} · (8 · {D}² + 2 · {D} · {F}) + {V} · {D}"
    return explained(
        Size(cost, E + 2 * N, T, D, "position", "tables, norms, biases"),
        scenario.train,
        seconds,
        equation="FLOPs a step ≤ B · T · (6 w + 12 (Nₑ + 2 N_d) T D)",
        math="T8, T11",
        operands=[
            Operand("Nₑ", E, f"layers of the encoder, of {shape.heads} heads each"),
            Operand("N_d", N, "layers of the decoder, each with cross-attention too"),
            *dimensions(N, shape.heads, D, F)[1:],
            Operand("T", T, "most tokens of a source and of a target; a position is one of each"),
            Operand("V", V, f"tokens of the target; the source has {shape.source_vocabulary}"),
        ],
        weights=[Step("w", made, cost.matmul_weights, "what a position is multiplied with")],
    )


def explain_vision(scenario: ImageScenario, seconds: float) -> Explanation:
    """A vision transformer."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.kinds.image_classification.shape import shape_of

    shape = shape_of(scenario)
    N, D, F, T = shape.layers, shape.width, shape.inner, shape.context
    cost = costs(shape)
    rest = cost.matmul_weights - N * (4 * D * D + 2 * D * F)
    made = f"{N} · (4 · {D}² + 2 · {D} · {F}) + {rest}"
    also = " and the class token" if shape.pooling == "class" else ""
    return explained(
        Size(cost, N, T, D, "patch", "positions, norms, biases"),
        scenario.train,
        seconds,
        equation="FLOPs a step = B · T · (6 w + 12 N T D)",
        math="T11, T14",
        operands=[*dimensions(N, shape.heads, D, F), Operand("T", T, f"patches of an image{also}")],
        weights=[Step("w", made, cost.matmul_weights, "with the patches' map and, once an image, the classes")],
    )


@dataclass(frozen=True)
class Size:
    """What is counted: `layers` × `context` × `width` is what a unit's attention costs, in units of 12 FLOPs; `beside`
    are the parameters that no unit is multiplied with."""

    cost: Costs
    layers: int
    context: int
    width: int
    unit: str
    beside: str

    @property
    def several(self) -> str:
        return self.unit + ("es" if self.unit.endswith("ch") else "s")


def dimensions(layers: int, heads: int, width: int, feed_forward: int) -> list[Operand]:
    return [
        Operand("N", layers, f"layers, of {heads} heads each"),
        Operand("D", width, "width"),
        Operand("F", feed_forward, "width of the feed-forward layer"),
    ]


def explained(
    size: Size, train: Train, seconds: float, *, equation: str, math: str, operands: list[Operand], weights: list[Step]
) -> Explanation:
    """From the weights that multiply to the whole training."""
    cost, B, T, unit = size.cost, train.batch, size.context, size.unit
    work = cost.flops_per_token * B * T
    attention = f"12 · {size.layers} · {T} · {size.width}"
    steps = [
        *weights,
        Step("parameters", f"w + {cost.parameters - cost.matmul_weights}", cost.parameters, f"and {size.beside}"),
        Step(
            "memory",
            f"16 · {cost.parameters} / 10⁶",
            16e-6 * cost.parameters,
            "MB: float32 weight, gradient, 2 moments",
        ),
        Step(f"FLOPs a {unit}", f"6 · {cost.matmul_weights} + {attention}", cost.flops_per_token),
        Step("FLOPs a step", f"{B} · {T} · {cost.flops_per_token}", work, f"{B * T} {size.several} a step"),
        Step(
            "in all",
            f"{train.steps} · {powered(work)}",
            train.steps * work,
            f"FLOPs, {train.steps * B * T} {size.several}",
        ),
    ]
    if seconds > 0:
        steps.append(Step("FLOP/s", f"{powered(train.steps * work)} / {seconds:g} s", train.steps * work / seconds))
    return Explanation(
        question=f"how large is it, and why does a step cost {powered(work)} FLOPs?",
        equation=equation,
        math=math,
        source=SOURCE,
        operands=[*operands, Operand("B", B, "sequences, pairs or images a step")],
        steps=steps,
        result=float(work),
    )


def powered(number: float) -> str:
    """A large number to read: 1245708288 → "1.25 · 10⁹"."""
    digits, _, exponent = f"{number:.2e}".partition("e")
    return f"{digits} · 10{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
