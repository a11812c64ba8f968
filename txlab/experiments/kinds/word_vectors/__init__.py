"""The kind "word-vectors": word2vec on a text (MATH K4–K6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from operator import mul
from typing import TYPE_CHECKING, Any

from txlab.engine.explain import Explaining, Explanation, Step
from txlab.experiments.kind import Kind
from txlab.experiments.kinds.word_vectors.schema import WordVectorScenario
from txlab.experiments.metric import Metric
from txlab.experiments.schema import Compute, group_digits

if TYPE_CHECKING:
    from txlab.experiments.kinds.word_vectors.experiment import WordVectors


# What is planted in the text → when an answer is right, and among what it is asked.
PLANTED = {
    "synonyms": ("the word nearest to w by cosine is its synonym", "planted words"),
    "analogies": ("the word nearest to a − b + c, without the three, has c's base and a's feature", "questions"),
}


class WordVectorsKind(Kind):
    name = "word-vectors"
    title = "Word vectors"
    schema = WordVectorScenario
    METRICS = (
        Metric("synonyms", less=False, primary=True),
        Metric("loss", "nats", less=True, primary=True),
        Metric("loss/", "nats", less=True),
        Metric("words_per_second/", "words/s", group="machine"),
    )
    screen = "words"

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Return the scenario with [compute] decided; products this small gain nothing from two threads that share
        them, so a second thread, if requested, prepares the next examples for the first."""
        chosen = {
            "dtype": "float32",
            "attention": "matmul",
            "thread_mode": "operations",
            "compile": False,
            "cuda_graphs": False,
        }
        compute: Compute = scenario.compute
        chosen = {name: value for name, value in chosen.items() if getattr(compute, name) == "auto"}
        device = "cpu" if compute.device == "auto" else compute.device
        decided = compute.model_copy(update={**chosen, "device": device, "threads": compute.threads or 1})
        return scenario.model_copy(update={"compute": decided})

    def build(self, scenario: Any) -> WordVectors:
        """The vectors before their first step. LabError if the text cannot be read or has too few words."""
        from txlab.experiments.kinds.word_vectors.experiment import WordVectors

        return WordVectors(self.resolve(scenario))

    def explain_metric(
        self,
        scenario: WordVectorScenario,
        name: str,
        step: int,
        values: Mapping[str, float],
        facts: Mapping[str, Any],
    ) -> Explanation | None:
        """Explain the loss by its objective, the rate by its line, and planted words by the query for them."""
        vectors, value = scenario.vectors, values.get(name)
        if value is None:
            return None
        words = int(facts.get("vocabulary", 0))
        family, _, objective = name.partition("/")
        if family == "loss":
            return self._explain_loss(scenario, objective or vectors.objective, step, value, words)
        if family == "words_per_second":
            return self._explain_speed(objective, value, facts)
        if family == "alike":
            question = f"why do {objective} and {vectors.objective} have {value:.3f} of their neighbours in common?"
            why = Explaining(question, value)
            why.equation(
                "alike = mean over w of #(N(w) ∩ N′(w)) / 10,  N(w) the 10 words nearest to w by cosine",
                "K6",
                f"computed here, from the vectors of {vectors.objective} and those of {objective}",
            )
            why.input("V", words, "words")
            why.measurement("alike", "counted")
            why.means(Step("by chance", f"10/{words - 1}", 10 / max(words - 1, 1)))
            return why.result()
        if name == "alpha":
            steps = int(facts.get("steps", 0))
            left = max(1 - (step - 1) / steps, 1e-4) if steps else 1.0

            why = Explaining(f"why is α {value:.4g} at step {step}?", value)
            why.equation("αₜ = α₀ max(1 − t/T, 10⁻⁴)", "K5", "the C program of Mikolov et al. 2013")
            why.input("α₀", scenario.train.alpha, "train.alpha")
            why.input("T", steps, "steps")
            if not steps:
                why.measurement("α")
                return why.result()
            why.step("s", f"max(1 − {step - 1}/{steps}, 10⁻⁴)", left, "the share of α left")
            why.compute("α", "{} · {}", mul, scenario.train.alpha, left)
            return why.result(because="it was changed while it ran")
        if family not in PLANTED:
            return None
        right, among = PLANTED[family]
        why = Explaining(f"why are {name} at {value:.3f} at step {step}?", value)
        why.equation(f"{family} = #({right}) / n", "K6", "computed here, from the text that this scenario plants")
        why.input("V", words, "words")
        why.input("D", vectors.width, "width")
        why.measurement(family, "counted")
        why.means(Step("by chance", f"1/V of the {among}", 1 / max(words - 1, 1)))
        return why.result()

    def _explain_speed(self, objective: str, value: float, facts: Mapping[str, Any]) -> Explanation:
        why = Explaining(f"why {group_digits(round(value))} words a second with {objective}?", value)
        source = "measured while it ran, since the number before"
        why.equation("words a second = words read / seconds spent on this objective", "K5", source)
        for name, count in facts.get("scores", {}).items():
            why.input(f"scores, {name}", count, "products u·h for a prediction")
        why.measurement("words/s")
        why.means(Step("a word", f"1 / {value:.4g}", 1 / value, "seconds, with all predictions of its window"))
        return why.result()

    def _explain_loss(
        self, scenario: WordVectorScenario, objective: str, step: int, value: float, words: int
    ) -> Explanation:
        vectors = scenario.vectors
        K = vectors.negatives
        per = "pair" if vectors.architecture == "skip-gram" else "centre"
        drawn = "noise words a pair"
        if objective == "sampling" and per == "pair" and vectors.strip_noise:
            N = vectors.strip_noise
            drawn += f", instead of which 16 centres share {N}, each at the weight K/{N}"
        equation, at_first, math = {
            "sampling": ("L = −ln σ(v·u) − Σₖ ln σ(−v·uₙₖ)", (f"{1 + K} ln 2", (1 + K) * log(2)), "K5"),
            "nce": ("L = −ln σ(x_o) − Σₖ ln σ(−xₙₖ),  x = v·u − ln(K q)", None, "K5"),
            "hierarchical": ("L = −Σⱼ ln σ(sⱼ v·uⱼ) on the way to the word", None, "K5"),
            "softmax": ("L = −ln p(o | v),  p = softmax(U v)", (f"ln {words}", log(max(words, 1))), "K4"),
        }[objective]
        why = Explaining(f"why is the loss {value:.4g} nats at step {step}?", value)
        why.equation(equation, math, "Wang (5)–(12); Mikolov et al. 2013")
        why.input("V", words, "words")
        why.input("K", K, drawn)
        why.measurement("L", expression=f"mean over a {per} of the first block of the step")
        if at_first:
            why.means(Step("at first", *at_first, "while u = 0"))
        return why.result()


KIND = WordVectorsKind()
