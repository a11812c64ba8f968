"""Why an advantage, a ratio and the loss of a pair of answers are what they are (MATH H2, H4, M8), from the numbers
that a run has recorded: nothing is derived a second time that the run has computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from operator import mul

from txlab.engine.explain import Explanation, Operand, Step, computed
from txlab.engine.rlhf.preferences import Ranking

TERMS = 12  # deltas of a sum that are written out


def pairs_in_order(ranking: Ranking, scores: Sequence[float]) -> tuple[int, int]:
    """(pairs that the scores order as the ranking does, pairs that are not tied)."""
    pairs = ranking.pairs()
    return sum(scores[winner] > scores[loser] for winner, loser in pairs), len(pairs)


@dataclass(frozen=True)
class TokenNumbers:
    """What was recorded of each token of one answer, (T,) each; see the frames of `human_feedback`.

    rewards (with the KL term, and the score on the last token), values V, deltas δ, advantages A, whitened, logprobs
    ln π of when it was drawn, references ln ρ, ratios π / π_old after the update
    """

    tokens: Sequence[str]
    rewards: Sequence[float]
    values: Sequence[float]
    deltas: Sequence[float]
    advantages: Sequence[float]
    whitened: Sequence[float]
    logprobs: Sequence[float]
    references: Sequence[float]
    ratios: Sequence[float]


@dataclass(frozen=True)
class Settings:
    """γ, λ, β, ε of the update, μ, σ of the advantages of its whole batch, and the method: ppo, rloo or grpo."""

    gamma: float
    lam: float
    beta: float
    clip: float
    mean: float
    sd: float
    method: str = "ppo"


def explain_delta(answer: TokenNumbers, t: int, of: Settings) -> Explanation:
    """δ_t = r_t + γ V_{t+1} − V_t. MATH M8; Schulman et al. 2016, eq. 10."""
    after = answer.values[t + 1] if t + 1 < len(answer.values) else 0.0
    r, value = answer.rewards[t], answer.values[t]
    last = "the last token: no value follows" if t + 1 == len(answer.values) else "of the next token"
    return Explanation(
        question=f"why is δ of token {t + 1}, {answer.tokens[t]!r}, {answer.deltas[t]:.4g}?",
        equation="δₜ = rₜ + γ Vₜ₊₁ − Vₜ",
        math="M8",
        source="Schulman et al. 2016, eq. 10",
        operands=[
            Operand("rₜ", r, "−β KL, and the answer's score on the last token"),
            Operand("Vₜ", value, "what was expected from here on"),
            Operand("Vₜ₊₁", after, last),
            Operand("γ", of.gamma),
        ],
        steps=[computed("δₜ", "{} + {} · {} − {}", lambda r, g, v, w: r + g * v - w, r, of.gamma, after, value)],
        labels=answer.tokens,
        asked=t,
    )


def explain_advantage(answer: TokenNumbers, t: int, of: Settings) -> Explanation:
    """A_t = Σ_k (γλ)^k δ_{t+k}, and (A_t − μ) / σ. MATH M8; Schulman et al. 2016, eq. 16."""
    decay, deltas = of.gamma * of.lam, answer.deltas[t:]
    terms = [decay**k * delta for k, delta in enumerate(deltas)]
    steps = [
        computed(
            f"k = {k}",
            "{} · {}",
            lambda power, delta: power * delta,
            decay**k,
            delta,
            note=f"δ of token {t + k + 1}, {answer.tokens[t + k]!r}",
        )
        for k, delta in enumerate(deltas[:TERMS])
    ]
    if len(terms) > TERMS:
        rest = f"{len(terms) - TERMS} more, to the end of the answer"
        steps.append(Step("the rest", f"Σ (γλ)ᵏ δₜ₊ₖ, k ≥ {TERMS}", sum(terms[TERMS:]), rest))
    steps.append(Step("Aₜ", "their sum", sum(terms)))
    meaning = []
    if of.sd > 0:
        meaning.append(
            computed(
                "whitened",
                "({} − {}) / {}",
                lambda a, mean, sd: (a - mean) / sd,
                answer.advantages[t],
                of.mean,
                of.sd,
                note="over all tokens of the batch: what the policy learns from",
            )
        )
    return Explanation(
        question=f"why is the advantage of token {t + 1}, {answer.tokens[t]!r}, {answer.advantages[t]:.4g}?",
        equation="Aₜ = Σₖ (γλ)ᵏ δₜ₊ₖ,   whitened (Aₜ − μ) / σ",
        math="M8",
        source="Schulman et al. 2016, eq. 16; whitened as in Ziegler et al. 2019",
        operands=[Operand("γλ", decay), Operand("μ", of.mean, "mean of A"), Operand("σ", of.sd, "its sd")],
        steps=steps,
        meaning=meaning,
        labels=answer.tokens,
        asked=t,
    )


def explain_ratio(answer: TokenNumbers, t: int, of: Settings) -> Explanation:
    """ρ = π / π_old and max(−A ρ, −A clamp(ρ, 1 ± ε)). MATH M8; Schulman et al. 2017, eq. 7."""
    ratio, advantage = answer.ratios[t], answer.whitened[t]
    clamped = min(max(ratio, 1 - of.clip), 1 + of.clip)
    cut = -advantage * clamped > -advantage * ratio
    note = "clipped: no gradient flows any more" if cut else "not clipped"
    return Explanation(
        question=f"why is the ratio of token {t + 1}, {answer.tokens[t]!r}, {ratio:.4g}, and is it clipped?",
        equation="ρₜ = π(aₜ) / π_old(aₜ),   loss max(−A ρ, −A clamp(ρ, 1 − ε, 1 + ε))",
        math="M8",
        source="Schulman et al. 2017, eq. 7",
        operands=[
            Operand("ln π_old", answer.logprobs[t], "when it was drawn"),
            Operand("A", advantage, "whitened" if of.method == "ppo" else "of the whole answer, within its group"),
            Operand("ε", of.clip),
        ],
        steps=[
            Step("ln π", "ln π_old + ln ρ", answer.logprobs[t] + log(ratio) if ratio > 0 else 0.0, "after the update"),
            Step("ρ", "exp(ln π − ln π_old)", ratio),
        ],
        meaning=[
            computed("−A ρ", "−{} · {}", lambda a, r: -a * r, advantage, ratio)
            if advantage >= 0
            else computed("−A ρ", "{} · {}", lambda a, r: a * r, -advantage, ratio),
            Step("clamp(ρ)", f"clamp({ratio:.4g}, {1 - of.clip:.4g}, {1 + of.clip:.4g})", clamped),
            Step("loss", "the greater of −A ρ and −A clamp(ρ)", max(-advantage * ratio, -advantage * clamped), note),
        ],
        labels=answer.tokens,
        asked=t,
    )


def explain_kl(answer: TokenNumbers, t: int, of: Settings) -> Explanation:
    """−β (ln π − ln ρ), the token's share of the price of having moved; with GRPO β k3, in the loss. MATH H4, H5."""
    pi, rho = answer.logprobs[t], answer.references[t]
    paid = computed("−β k1", "−{} · {}", lambda beta, k: -beta * k, of.beta, pi - rho)
    equation, source = "k1 = ln π(aₜ) − ln ρ(aₜ),   paid −β k1", "Ziegler et al. 2019, eq. 2"
    if of.method == "rloo":
        paid = replace(paid, note="of the answer's score, before it is compared with the others")
    if of.method == "grpo":
        equation, source = "k3 = eᵈ − 1 − d,  d = ln ρ(aₜ) − ln π(aₜ) = −k1,   paid β k3", "Shao et al. 2024, eq. 4"
        k3 = exp(rho - pi) - 1 - (rho - pi)
        paid = computed("β k3", "{} · {}", mul, of.beta, k3, note="its term of the loss, a mean over tokens")
    return Explanation(
        question=f"what does token {t + 1}, {answer.tokens[t]!r}, pay for the KL?",
        equation=equation,
        math="H4, H5",
        source=source,
        operands=[
            Operand("ln π", pi, "of the policy that drew it"),
            Operand("ln ρ", rho, "of the fine-tuned model"),
            Operand("β", of.beta),
        ],
        steps=[
            computed("k1", "{} − {}", lambda a, b: a - b, pi, rho, note="nats; negative if it is less likely now"),
        ],
        meaning=[
            paid,
        ],
    )


def explain_pair(ranking: Ranking, scores: Sequence[float], winner: int, loser: int) -> Explanation:
    """−ln σ(r_w − r_l) of one pair of a ranking. MATH H2; Ouyang et al. 2022, eq. 1."""
    better, worse = scores[winner], scores[loser]
    first, second = ranking.answers[winner].strip(), ranking.answers[loser].strip()
    pairs = ranking.pairs()
    difference = better - worse
    loss = log(1 + exp(-difference)) if difference > -30 else -difference
    return Explanation(
        question=f"what does it cost that {first!r} was ranked before {second!r}?",
        equation="L = −ln σ(r(w) − r(l)),   σ(x) = 1 / (1 + e⁻ˣ)",
        math="H2",
        source="Ouyang et al. 2022, eq. 1; Wang's copy lacks the minus sign",
        operands=[
            Operand("r(w)", better, "score of the one ranked better"),
            Operand("r(l)", worse, "score of the one ranked worse"),
        ],
        steps=[
            computed("r(w) − r(l)", "{} − {}", lambda a, b: a - b, better, worse),
            Step("σ", f"1 / (1 + e^{-difference:.4g})", exp(-loss), "probability that the model gives this order"),
            Step(
                "L", "−ln σ", loss, f"one of {len(pairs)} pairs of this ranking, which are averaged; ties are left out"
            ),
        ],
    )
