"""Explanations of the numbers of a run of human feedback (MATH H1–H5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from operator import mul
from typing import Any

from txlab.engine.explain import Explaining, Explanation, Operand, Step, compute_step
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario
from txlab.experiments.learning.explanations import MeanLoss, explain_norm_of_updates, explain_step, explain_sum
from txlab.experiments.learning.schema import Optimizer
from txlab.experiments.metric import metric_of


@dataclass(frozen=True)
class Meaning:
    """A metric's equation and where it comes from; `steps` computes from the other metrics of its row."""

    equation: str
    math: str
    source: str
    operands: Sequence[tuple[str, str, str]] = ()  # (letter, metric, note)
    steps: Callable[[HumanFeedbackScenario, Mapping[str, float]], list[Step]] = lambda scenario, values: []


ANSWERS = MeanLoss("L = −(1/N) Σₜ ln π(aₜ | x, a₁ … aₜ₋₁)", "H1", "the tokens of the answers")
MEANINGS = {
    "proxy": Meaning(
        "proxy = (1/B) Σ (r(x, y) − shift) / scale", "H2, H4",
        "computed here; mean 0, sd 1 on the fine-tuned model's answers (Ziegler et al. 2019, §2.1)",
        [("β", "beta", "the price of a nat"), ("KL", "kl", "nats an answer")],
        lambda scenario, values: explain_penalty(scenario, values),
    ),
    "gold": Meaning(
        "gold = (1/B) Σ gold(x, y)", "H2", "computed here: the simulated labeller's criterion, without its noise",
        [("proxy", "proxy", "the reward model's score of the same answers")],
    ),
    "kl": Meaning(
        "KL = (1/B) Σₜ Σᵥ π(v) (ln π(v) − ln π_ref(v))", "H5", "exact over the vocabulary, summed over an answer",
        [("T", "length", "tokens an answer"), ("k1", "k1", "the estimate from the tokens that were drawn")],
        lambda scenario, values: [
            compute_step("KL / T", "{} / {}", lambda kl, T: kl / T, values["kl"], values["length"], note="nats a token")
        ] if values.get("length") else [],
    ),
    "root_kl": Meaning(
        "√KL", "H5", "Bai et al. 2022, §4.3: the reward grows roughly with √KL", [("KL", "kl", "nats an answer")],
    ),
    "k1": Meaning("k1 = ln π(a) − ln π_ref(a), a ~ π", "H5", "Schulman 2020: unbiased, of great variance",
                  [("KL", "kl", "exact")]),
    "k2": Meaning("k2 = ½ (ln π(a) − ln π_ref(a))²", "H5", "Schulman 2020: biased", [("KL", "kl", "exact")]),
    "k3": Meaning("k3 = eᵈ − 1 − d,  d = ln π_ref(a) − ln π(a)", "H5",
                  "Schulman 2020: unbiased; far from 0 its rare large values are missed", [("KL", "kl", "exact")]),
    "entropy": Meaning(
        "H = −(1/N) Σₜ Σᵥ π(v) ln π(v)", "F5", "over the tokens of the answers", [],
        lambda scenario, values: [
            compute_step("exp H", "exp({})", exp, values["entropy"], note="equivalent tokens")],
    ),
    "clip_fraction": Meaning(
        "share of tokens where −A clamp(ρ, 1 ± ε) > −A ρ", "M8",
        "Schulman et al. 2017, eq. 7: they have no gradient (counted as in TRL; CleanRL counts every |ρ − 1| > ε)",
        [("ratio", "ratio", "mean of ρ = π / π_old")],
    ),
    "ratio": Meaning("ρ = π(a) / π_old(a)", "M8", "Schulman et al. 2017, eq. 6; 1 at the first reading of an answer"),
    "policy_loss": Meaning(
        "mean of max(−A ρ, −A clamp(ρ, 1 − ε, 1 + ε))", "M8", "Schulman et al. 2017, eq. 7",
        [("clipped", "clip_fraction", "share of tokens")],
    ),
    "value_loss": Meaning(
        "½ mean of max((V − R)², (V′ − R)²),  V′ = V_old + clamp(V − V_old)", "H4", "Ziegler et al. 2019, their code",
        [("clipped", "value_clip_fraction", "share of tokens"), ("explained", "explained_variance", "of the returns")],
    ),
    "explained_variance": Meaning(
        "1 − Var(R − V) / Var(R)", "M8", "computed here, before the values learn from these answers: 1 is perfect, "
        "0 is a constant",
    ),
    "accuracy": Meaning(
        "share of pairs (w, l) with r(w) > r(l)", "H2", "counted on the ranking just given, before learning from it"),
    "accuracy_20": Meaning(
        "share of pairs (w, l) with r(w) > r(l)", "H2", "counted on the last 20 rankings, before learning from each",
        [("rankings", "rankings", "taken in so far")],
    ),
    "val_accuracy": Meaning(
        "share of pairs with r(w) > r(l) where gold(w) > gold(l)", "H2", "counted on answers that are never ranked"),
    "beta": Meaning(
        "β ← β (1 + clip(KL/target − 1, ±0.2) · B/horizon)", "H4", "Ziegler et al. 2019, §2.2; fixed without a target",
        [("KL", "kl", "nats an answer")],
    ),
    "preferred": Meaning(
        "share of pairs with (ln π − ln π_ref)(w) > (ln π − ln π_ref)(l)", "H4", "counted on the pairs of this batch"),
    "rankings": Meaning("n", "H2", "counted: rankings taken in, without those taken back"),
    "length": Meaning("T", "H4", "mean over the answers of this update, end tokens included"),
    "n": Meaning("n", "H5", "answers of which the best is taken"),
    "kl_loss": Meaning(
        "mean of eᵈ − 1 − d,  d = ln π_ref(a) − ln π(a)", "H5",
        "Shao et al. 2024, eq. 4: k3 of the policy as it learns, over the tokens of an update; its price in the loss "
        "of GRPO is β", [("β", "beta", "the price of a nat")],
        lambda scenario, values: [
            compute_step("β · kl_loss", "{} · {}", mul, values["beta"], values["kl_loss"], note="its part of the loss")
        ] if "beta" in values else [],
    ),
    "ptx_loss": Meaning("−(1/N) Σₜ ln π(aₜ | s_t), on demonstrations", "H4", "Ouyang et al. 2022, eq. 2"),
    "value_clip_fraction": Meaning("share of tokens where the clipped error is the greater", "H4",
                                   "Ziegler et al. 2019, their code"),
    "margin": Meaning(
        "β [(ln π − ln π_ref)(w) − (ln π − ln π_ref)(l)]", "H4",
        "Rafailov et al. 2023, eq. 7: the reward that π implies"),
}  # fmt: skip


def explain_metric(
    scenario: HumanFeedbackScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """Explain a metric by the others of its row; None if there is nothing to add."""
    metric, _, policy = name.partition("/")
    if not isfinite(values[name]):
        return None
    own = {each.partition("/")[0]: value for each, value in values.items() if each.partition("/")[2] == policy}
    stage, first, train = stage_at(scenario, step)
    if metric in ("loss", "val_loss"):
        return explain_loss(scenario, stage, metric, own, facts)
    if metric_of(metric).group == "aside":
        if metric == "grad_norm" and stage == "policy" and scenario.policy.method != "dpo":
            updates = scenario.policy.epochs * scenario.policy.minibatches
            return explain_norm_of_updates(train, own[metric], step, updates)
        return explain_step(_Part(train), ANSWERS, metric, own, step - first, facts)
    meaning = MEANINGS.get(metric)
    if meaning is None:
        return None
    why = Explaining(f"why is {metric} {values[name]:.4g} at step {step}?", values[name])
    why.equation(meaning.equation, meaning.math, meaning.source)
    why.operands += [Operand(letter, own[each], note) for letter, each, note in meaning.operands if each in own]
    if metric == "root_kl" and "kl" in own:
        why.compute("√KL", "√{}", sqrt, max(own["kl"], 0.0))
    else:
        why.measurement(metric)
    why.means(*meaning.steps(scenario, own))
    if "accuracy" in metric or metric == "preferred":
        why.means(Step("1/2", "1 / 2", 0.5, "by guessing"))
    return why.result()


@dataclass(frozen=True)
class _Part:
    train: Optimizer


def stage_at(scenario: HumanFeedbackScenario, step: int) -> tuple[str, int, Optimizer]:
    """(stage, the step before its first, its table) of the stage that made step `step`."""
    first, stages = 0, scenario.plan()
    while len(stages) > 1 and step > first + stages[0][1]:
        first += stages.pop(0)[1]
    name = stages[0][0]
    train = getattr(scenario, name)
    if name == "rankings":  # its rate rises while rankings come in, and falls while it settles
        train = train.model_copy(update={"warmup": train.steps, "steps": train.steps + train.settling})
    return name, first, train


def explain_penalty(scenario: HumanFeedbackScenario, values: Mapping[str, float]) -> list[Step]:
    """The proxy minus the KL penalty, where that is the policy's objective."""
    if not {"beta", "kl", "length"} <= set(values):
        return []
    beta, kl, policy = values["beta"], values["kl"], scenario.policy
    if policy.method == "grpo":
        meaning = "nats a token, which the loss pays for; the scores enter it as advantages within their group"
        terms = beta, kl, values["length"]
        return [compute_step("β KL / T", "{} · {} / {}", lambda beta, kl, T: beta * kl / T, *terms, note=meaning)]
    note = "the policy's objective"
    if policy.method == "ppo" and policy.gamma < 1:
        note += f", but for the discount γ = {policy.gamma:g}"
    if policy.method == "ppo" and policy.whiten_rewards:
        note += "; its rewards are whitened"
    return [
        compute_step(
            "proxy − β KL", "{} − {} · {}", lambda r, beta, kl: r - beta * kl, values["proxy"], beta, kl, note=note
        )
    ]


def explain_loss(
    scenario: HumanFeedbackScenario, stage: str, name: str, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """The loss of each stage is another one."""
    if stage in ("pretraining", "demonstrations"):
        mean = ANSWERS if stage == "demonstrations" else MeanLoss()
        return explain_step(_Part(getattr(scenario, stage)), mean, name, values, 0, facts)
    value = values[name]
    prompts = "prompts of the batch whose answers are not all tied"
    if stage == "rankings" and scenario.rankings.loss == "choice":
        K = scenario.rankings.answers
        why = Explaining(f"what does a choice loss of {value:.4g} mean?", value)
        why.equation("L = −(1/B′) Σ_prompts ln softmax(r)_best", "H3", "Ziegler et al. 2019, eq. 1")
        why.input("B′", f"at most {scenario.rankings.batch}", prompts)
        why.input("K", K, "answers to choose from")
        why.measurement("L", "nats a choice")
        why.means(
            compute_step("exp(−L)", "exp(−{})", lambda loss: exp(-loss), value, note="probability of the best one"),
            compute_step("ln K", "ln {}", log, K, note="by guessing"),
        )
        return why.result()
    if stage == "rankings":
        why = Explaining(f"what does a ranking loss of {value:.4g} mean?", value)
        why.equation("L = −(1/B′) Σ_prompts (1/#pairs) Σ ln σ(r_w − r_l)", "H2", "Ouyang et al. 2022, eq. 1")
        why.input("B′", f"at most {scenario.rankings.batch}", prompts)
        why.measurement("L", "nats a pair, averaged over a prompt's pairs first")
        why.means(
            compute_step(
                "exp(−L)", "exp(−{})", lambda loss: exp(-loss), value, note="probability of a pair, as a mean"
            ),
            Step("ln 2", "ln 2", log(2), "by guessing"),
        )
        return why.result()
    policy = scenario.policy
    if policy.method == "dpo":
        why = Explaining(f"what does a DPO loss of {value:.4g} mean?", value)
        why.equation(
            "L = −mean ln σ(β [(ln π − ln π_ref)(w) − (ln π − ln π_ref)(l)])", "H4", "Rafailov et al. 2023, eq. 7"
        )
        why.measurement("L", "nats a pair")
        why.means(Step("ln 2", "ln 2", log(2), "where it begins: π = π_ref"))
        return why.result()
    return explain_sum(
        f"what makes up a loss of {value:.4g}?",
        "H4",
        "Shao et al. 2024, eq. 3" if policy.method == "grpo" else "Ziegler et al. 2019; Ouyang et al. 2022, eq. 2",
        value,
        [
            ("L_policy", "", 1.0, values.get("policy_loss")),
            ("L_value", "c", policy.value_coefficient, values.get("value_loss")),
            ("L_KL", "β", values.get("beta", 0.0), values.get("kl_loss")),
            ("L_pre-training", "γ", policy.pretraining_mix, values.get("ptx_loss")),
        ],
    )
