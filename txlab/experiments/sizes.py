"""How large the model of a scenario is and what a step of it costs, before it has run (MATH T8–T11, T14).

Notable: nothing is allocated and no text is read; what only the text can tell is refused in a sentence that says who
will know. torch is imported inside, with the shapes.
"""

from __future__ import annotations

from txlab.engine.explain import Explanation, Operand, Step
from txlab.errors import LabError
from txlab.experiments.language_model.schema import LanguageModelScenario
from txlab.experiments.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.schema import Scenario, Start
from txlab.experiments.shelf import tokenizer_named
from txlab.experiments.translation.schema import TranslationScenario
from txlab.experiments.vision.schema import ImageScenario

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
    from txlab.experiments.language_model.shape import shape_of

    data, train = scenario.data, scenario.train
    vocabulary = data.vocabulary
    refuse_unknown(scenario.start)
    in_bytes = data.source == "text" and data.tokenizer == "bytes"
    shape = shape_of(scenario, vocabulary_of(data.tokenizer, vocabulary) if data.source == "text" else vocabulary)
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    cost, B = costs(shape), train.batch
    in_block, work = 4 * D * D + 2 * D * F, cost.flops_per_token * B * T
    left = cost.parameters - cost.matmul_weights
    beside = ["" if shape.tied else "W_E", "positions" if shape.positions == "learned" else "", "norms"]
    beside += ["biases"] if shape.bias else []
    steps = [
        Step("a block", f"4 · {D}² + 2 · {D} · {F}", in_block, "W_Q, W_K, W_V, W_O; W₁, W₂"),
        Step("w", f"{N} · {in_block} + {V} · {D}", cost.matmul_weights, "with W_U: what a token is multiplied with"),
        Step("parameters", f"w + {left}", cost.parameters, " ".join(["and", ", ".join(b for b in beside if b)])),
        Step(
            "memory",
            f"16 · {cost.parameters} / 10⁶",
            16e-6 * cost.parameters,
            "MB: float32 weight, gradient, 2 moments",
        ),
        Step("FLOPs a token", f"6 · {cost.matmul_weights} + 12 · {N} · {T} · {D}", cost.flops_per_token),
        Step("FLOPs a step", f"{B} · {T} · {cost.flops_per_token}", work, f"{B * T} tokens a step"),
        Step(
            "in all", f"{train.steps} · {powered(work)}", train.steps * work, f"FLOPs, for {train.steps * B * T} tokens"
        ),
    ]
    if seconds > 0:
        steps.append(Step("FLOP/s", f"{powered(train.steps * work)} / {seconds:g} s", train.steps * work / seconds))
    return Explanation(
        question=f"how large is it, and why does a step cost {powered(work)} FLOPs?",
        equation="FLOPs a step = B · T · (6 w + 12 N T D),  w = N (4 D² + 2 D F) + V D",
        math="T9, T11",
        source=SOURCE,
        operands=[
            Operand("N", N, f"layers, of {shape.heads} heads each"),
            Operand("D", D, "width"),
            Operand("F", F, "width of the feed-forward layer"),
            Operand("T", T, "context"),
            Operand("V", V, "bytes" if in_bytes else "tokens" if data.source == "text" else "symbols"),
            Operand("B", B, "sequences a step"),
        ],
        steps=steps,
        result=float(work),
    )


def explain_encoder(scenario: MaskedLanguageModelScenario, seconds: float) -> Explanation:
    """An encoder that fills gaps."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.masked_language_model.shape import shape_of

    refuse_unknown(scenario.start)
    data, train = scenario.data, scenario.train
    shape = shape_of(scenario, vocabulary_of(data.tokenizer, data.vocabulary) + 3)  # [CLS], [SEP], [MASK]
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    cost = costs(shape)
    head = D * D + V * D
    return explained(
        "FLOPs a step = B · T · (6 w + 12 N T D),  w = N (4 D² + 2 D F) + D² + V D",
        "T10, T11",
        operands=[
            Operand("N", N, f"layers, of {shape.heads} heads each"),
            Operand("D", D, "width"),
            Operand("F", F, "width of the feed-forward layer"),
            Operand("T", T, "context"),
            Operand("V", V, "tokens, with [CLS], [SEP] and [MASK]"),
            Operand("B", train.batch, "sequences a step"),
        ],
        weights=Step(
            "w", f"{N} · (4 · {D}² + 2 · {D} · {F}) + {head}", cost.matmul_weights, "what a token is multiplied with"
        ),
        parameters=cost.parameters,
        unit=Step("FLOPs a token", f"6 · {cost.matmul_weights} + 12 · {N} · {T} · {D}", cost.flops_per_token),
        units=(train.batch * T, f"{train.batch} · {T}", "tokens"),
        steps=train.steps,
        seconds=seconds,
    )


def explain_translator(scenario: TranslationScenario, seconds: float) -> Explanation:
    """An encoder–decoder, at its full context: real pairs are shorter, and cost less."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.translation.shape import shape_of

    shape, train = shape_of(scenario), scenario.train
    E, N, D, F, T = shape.encoder_layers, shape.decoder_layers, shape.width, shape.inner, shape.context
    cost = costs(shape)
    return explained(
        "FLOPs a step ≤ B · T · (6 w + 12 (Nₑ + 2 N_d) T D)",
        "T8, T11",
        operands=[
            Operand("Nₑ", E, f"layers of the encoder, of {shape.heads} heads each"),
            Operand("N_d", N, "layers of the decoder, each with cross-attention too"),
            Operand("D", D, "width"),
            Operand("F", F, "width of the feed-forward layers"),
            Operand("T", T, "most tokens of a source and of a target"),
            Operand("V", shape.target_vocabulary, f"tokens of the target; the source has {shape.source_vocabulary}"),
            Operand("B", train.batch, "pairs a step"),
        ],
        weights=Step(
            "w",
            f"{E} · (4 · {D}² + 2 · {D} · {F}) + {N} · (8 · {D}² + 2 · {D} · {F}) + {shape.target_vocabulary} · {D}",
            cost.matmul_weights,
            "what a position of the source and one of the target are multiplied with",
        ),
        parameters=cost.parameters,
        unit=Step(
            "FLOPs a position", f"6 · {cost.matmul_weights} + 12 · {E + 2 * N} · {T} · {D}", cost.flops_per_token
        ),
        units=(train.batch * T, f"{train.batch} · {T}", "positions, if all pairs were as long as they may be"),
        steps=train.steps,
        seconds=seconds,
    )


def explain_vision(scenario: ImageScenario, seconds: float) -> Explanation:
    """A vision transformer."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.vision.shape import shape_of

    shape, train = shape_of(scenario), scenario.train
    N, D, F, T = shape.layers, shape.width, shape.inner, shape.context
    cost = costs(shape)
    return explained(
        "FLOPs a step = B · T · (6 w + 12 N T D)",
        "T11, T14",
        operands=[
            Operand("N", N, f"layers, of {shape.heads} heads each"),
            Operand("D", D, "width"),
            Operand("F", F, "width of the feed-forward layer"),
            Operand("T", T, "patches of an image" + (" and the class token" if shape.pooling == "class" else "")),
            Operand("B", train.batch, "images a step"),
        ],
        weights=Step(
            "w", f"{N} · (4 · {D}² + 2 · {D} · {F}) + …", cost.matmul_weights, "with the patches' map and the classes"
        ),
        parameters=cost.parameters,
        unit=Step("FLOPs a patch", f"6 · {cost.matmul_weights} + 12 · {N} · {T} · {D}", cost.flops_per_token),
        units=(train.batch * T, f"{train.batch} · {T}", "patches"),
        steps=train.steps,
        seconds=seconds,
    )


def explained(
    equation: str,
    math: str,
    operands: list[Operand],
    weights: Step,
    parameters: int,
    unit: Step,
    units: tuple[int, str, str],
    steps: int,
    seconds: float,
) -> Explanation:
    """From the weights that multiply to the whole training; `units` are how many a step has, how, and of what."""
    count, product, what = units
    a_unit = float(unit.result)  # type: ignore[arg-type]
    work = int(a_unit) * count
    told = [
        weights,
        Step("parameters", f"w + {parameters - int(float(weights.result))}", parameters, "and tables, norms, biases"),  # type: ignore[arg-type]
        Step("memory", f"16 · {parameters} / 10⁶", 16e-6 * parameters, "MB: float32 weight, gradient, 2 moments"),
        unit,
        Step("FLOPs a step", f"{product} · {int(a_unit)}", work, f"{count} {what}"),
        Step("in all", f"{steps} · {powered(work)}", steps * work, "FLOPs"),
    ]
    if seconds > 0:
        told.append(Step("FLOP/s", f"{powered(steps * work)} / {seconds:g} s", steps * work / seconds))
    return Explanation(
        question=f"how large is it, and why does a step cost {powered(work)} FLOPs?",
        equation=equation,
        math=math,
        source=SOURCE,
        operands=operands,
        steps=told,
        result=float(work),
    )


def powered(number: float) -> str:
    """A large number to read: 1245708288 → "1.25 · 10⁹"."""
    digits, _, exponent = f"{number:.2e}".partition("e")
    return f"{digits} · 10{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
