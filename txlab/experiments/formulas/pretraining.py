"""Examples of size and training: what a model costs, mixtures of texts, and tasks given by examples (MATH T11–T13)."""

from __future__ import annotations

from functools import partial
from operator import add, mul

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.transformer.costs import costs, memory
from txlab.engine.transformer.gpt import GPTShape
from txlab.experiments.formulas.example import Example, Input, Misprint
from txlab.experiments.kinds.language_model.explanations import add_parts
from txlab.experiments.kinds.language_model.few_shot import best_possible

# T11


def size(
    layers: int,
    width: int,
    heads: int,
    head_width: int,
    feed_forward: int,
    gated: str,
    vocabulary: int,
    context: int,
    form: str = "",
) -> Explanation:
    """Weights, work and memory of a decoder-only model, by `engine.transformer.costs`."""
    N, D, H, K, F, V, T = layers, width, heads, head_width, feed_forward, vocabulary, context
    if form == "gpt2-xl":
        H, K, F = 12, max(1, width // 12), 3072
    elif form == "gpt3-xl":
        H = heads * 3 // 2
    matrices = 3 if gated == "yes" else 2
    shape = GPTShape(N, H, D, T, V, F, head_dim=K, gated=gated == "yes")
    cost, kept = costs(shape), memory(shape)
    why = Explaining("how many bytes does training this model need?", kept.training)
    why.equation(
        "w = N (4 D² + 2 D F) + V D,  FLOPs a token ≈ 2 w + 4 N T D forward", "T11", "Kaplan et al. 2020, §2.1"
    )
    why.input("N, D, H, dₖ", [N, D, H, K], "layers, width, heads, width of a head")
    why.input("F, V, T", [F, V, T], "width of the feed-forward layer, tokens, context")
    why.compute("H dₖ", "{} · {}", mul, H, K, note=f"D = {D}" + " in most models" * (H * K != D))
    why.compute("4 D H dₖ", "4 · {} · {}", lambda D, across: 4 * D * across, D, H * K, note="4 D² where H dₖ = D")
    why.compute(f"{matrices} D F", f"{matrices} · {{}} · {{}}", lambda D, F: matrices * D * F, D, F)
    in_block = 4 * D * H * K + matrices * D * F
    why.compute("V D", "{} · {}", mul, V, D, note="the table of tokens, which also unembeds")
    why.compute("w", "{} · {} + {}", lambda N, block, table: N * block + table, N, in_block, V * D)
    why.step("FLOPs forward", "2 w + 4 N T H dₖ", cost.forward_flops_per_token, "a token, at full context")
    why.compute("FLOPs in training", "3 · {}", lambda forward: 3 * forward, cost.forward_flops_per_token)
    rest = cost.parameters - cost.matmul_weights
    why.step("others", "biases, gains and positions", rest, "no products")
    why.compute("parameters", "{} + {}", add, cost.matmul_weights, rest)
    why.compute("memory", "16 · {}", lambda parameters: 16 * parameters, cost.parameters, note="bytes, in training")
    return why.result()


T11 = Example(
    "T11",
    (
        Input("layers", 48, "N; the first values are those of GPT-2 XL", 1, 200, 1),
        Input("width", 1600, "D", 1, 50000, 64),
        Input("heads", 25, "H", 1, 200, 1),
        Input("head_width", 64, "dₖ, D / H in most models", 1, 1000, 8),
        Input("feed_forward", 6400, "F, 4 D in most models", 1, 200000, 256),
        Input("gated", "no", "whether the feed-forward layer has a third matrix", allowed=("no", "yes")),
        Input("vocabulary", 50257, "V", 1, 500000, 1000),
        Input("context", 1024, "T", 1, 200000, 256),
    ),
    size,
    "How many parameters has the model, and how many bytes does training it need?",
    {
        "gpt2-xl": Misprint(
            "Wang's table gives GPT-2 XL 12 heads and F = 3072, those of GPT-2 small; 12 do not even divide its width.",
            partial(size, form="gpt2-xl"),
            "H dₖ",
        ),
        "gpt3-xl": Misprint(
            "GPT-3's table gives its XL size 24 heads of 128 in a width of 2048: half as many again as fill the width.",
            partial(size, form="gpt3-xl"),
            "H dₖ",
        ),
    },
)

# T12


def mixture(weights: list[float], losses: list[float], tokens: list[float], drawn: float) -> Explanation:
    """The loss of a mixture, by the explanation of a run's own, and how often each text has been read."""
    total = sum(weights)
    shares = [each / total for each in weights]
    loss = sum(map(mul, shares, losses))
    why = Explaining("what is the loss of the mixture?", loss)
    why.equation(
        "L = Σᵢ wᵢ Lᵢ,  epochs of text i = tokens drawn from it / its tokens", "T12", "Brown et al. 2020, §2.2"
    )
    why.input("weights", weights, "of each text")
    why.input("tokens", tokens, "billions in each text")
    why.input("drawn", drawn, "billions in all")
    why.step("w", "weights / their sum", shares, "sums to 1")
    why.step("drawn from each", "w · drawn", [share * drawn for share in shares], "billions")
    epochs = [share * drawn / there for share, there in zip(shares, tokens, strict=True)]
    why.step("epochs", "drawn from each / tokens", epochs, "above 1 a text is read again")
    names = [f"text {number}" for number in range(1, len(shares) + 1)]
    add_parts(why, list(zip(names, shares, losses, strict=True)), "nats a token")
    return why.result()


T12 = Example(
    "T12",
    (
        Input("weights", [60.0, 22.0, 3.0], "of each text", 1, 100, 1),
        Input("losses", [3.0, 2.5, 2.0], "Lᵢ, nats a token", 0, 20),
        Input(
            "tokens",
            [410.0, 19.0, 3.0],
            "billions of tokens in each text; the first values are three of GPT-3's texts",
            0.5,
            10000,
            1,
        ),
        Input("drawn", 300.0, "billions of tokens drawn in all", 0, 10000, 50),
    ),
    mixture,
    "Which text is read more often than once, and what is the loss of the mixture?",
)

# T13


def in_context(examples: int, letters: int, answers: int) -> Explanation:
    """The best possible accuracy after k examples, by the task's own `best_possible`."""
    why = Explaining(
        f"how often can an answer be right after {examples} examples?", best_possible(examples, letters, answers)
    )
    why.equation("P(right) = 1 − (1 − 1/n)ᵏ (1 − 1/m)", "T13", "Brown et al. 2020, §2")
    why.input("k", examples, "examples before the question")
    why.input("n", letters, "letters")
    why.input("m", answers, "answers")
    why.compute("one other", "1 − 1 / {}", lambda n: 1 - 1 / n, letters, note="an example is of another letter")
    unseen = (1 - 1 / letters) ** examples
    why.step("not shown", f"(1 − 1/{letters})^{examples}", unseen, "the letter asked for is in no example")
    why.compute("wrong guess", "1 − 1 / {}", lambda m: 1 - 1 / m, answers)
    why.compute("wrong", "{} · {}", mul, unseen, 1 - 1 / answers, note="not shown, and guessed wrongly")
    why.compute("P(right)", "1 − {}", lambda wrong: 1 - wrong, unseen * (1 - 1 / answers))
    return why.result()


T13 = Example(
    "T13",
    (
        Input("examples", 4, "k, before the question", 0, 100, 1),
        Input("letters", 4, "n, that may be asked for", 1, 26, 1),
        Input("answers", 8, "m, one of them for each letter", 1, 26, 1),
    ),
    in_context,
    "How often can the answer be right after k examples?",
)

EXAMPLES = [T11, T12, T13]
