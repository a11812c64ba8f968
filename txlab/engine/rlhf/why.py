"""Explanations of an advantage, a ratio and the loss of a pair of answers (MATH H2, H4, M8), from the numbers that a
run has recorded: nothing that the run has computed is derived again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from operator import mul, sub

from txlab.engine.explain import HALF, Explaining, Explanation, Step, compute_step
from txlab.engine.rlhf.preferences import Ranking

TERMS = 12  # deltas of a sum that are written out


def pairs_in_order(ranking: Ranking, scores: Sequence[float]) -> tuple[int, int]:
    """(pairs that the scores order as the ranking does, pairs that are not tied)."""
    pairs = ranking.pairs()
    return sum(scores[winner] > scores[loser] for winner, loser in pairs), len(pairs)


@dataclass(frozen=True)
class TokenNumbers:
    """The record of each token of one answer, (T,) each; see the frames of `human_feedback`.

    rewards (with the KL term, and the score on the last token), values V, deltas δ, advantages A, whitened, logprobs
    ln π of when it was drawn, references ln π_ref, ratios π / π_old after the update
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
    delta = answer.deltas[t]
    why = Explaining(f"why is δ of token {t + 1}, {answer.tokens[t]!r}, {delta:.4g}?", delta, answer.tokens, t)
    why.equation("δₜ = rₜ + γ Vₜ₊₁ − Vₜ", "M8", "Schulman et al. 2016, eq. 10")
    why.input("rₜ", r, "−β KL, and the answer's score on the last token")
    why.input("Vₜ", value, "the expected rest of the return")
    why.input("Vₜ₊₁", after, last)
    why.input("γ", of.gamma)
    why.compute("δₜ", "{} + {} · {} − {}", lambda r, g, v, w: r + g * v - w, r, of.gamma, after, value)
    return why.result(HALF)


def explain_advantage(answer: TokenNumbers, t: int, of: Settings) -> Explanation:
    """A_t = Σ_k (γλ)^k δ_{t+k}, and (A_t − μ) / σ. MATH M8; Schulman et al. 2016, eq. 16."""
    decay, deltas = of.gamma * of.lam, answer.deltas[t:]
    terms = [decay**k * delta for k, delta in enumerate(deltas)]
    advantage, token = answer.advantages[t], answer.tokens[t]
    why = Explaining(f"why is the advantage of token {t + 1}, {token!r}, {advantage:.4g}?", advantage, answer.tokens, t)
    source = "Schulman et al. 2016, eq. 16; whitened as in Ziegler et al. 2019"
    why.equation("Aₜ = Σₖ (γλ)ᵏ δₜ₊ₖ,   whitened (Aₜ − μ) / σ", "M8", source)
    why.input("γλ", decay)
    why.input("μ", of.mean, "mean of A")
    why.input("σ", of.sd, "its sd")
    for k, delta in enumerate(deltas[:TERMS]):
        note = f"δ of token {t + k + 1}, {answer.tokens[t + k]!r}"
        why.compute(f"k = {k}", "{} · {}", mul, decay**k, delta, note=note)
    if len(terms) > TERMS:
        rest = f"{len(terms) - TERMS} more, to the end of the answer"
        why.step("the rest", f"Σ (γλ)ᵏ δₜ₊ₖ, k ≥ {TERMS}", sum(terms[TERMS:]), rest)
    why.step("Aₜ", "their sum", sum(terms))
    if of.sd > 0:
        form, note = "({} − {}) / {}", "over all tokens of the batch: the policy's training signal"
        why.means(compute_step("whitened", form, lambda a, μ, σ: (a - μ) / σ, advantage, of.mean, of.sd, note=note))
    return why.result(HALF, scale=sum(map(abs, terms)))


def explain_ratio(answer: TokenNumbers, t: int, of: Settings) -> Explanation:
    """ρ = π / π_old and max(−A ρ, −A clamp(ρ, 1 ± ε)). MATH M8; Schulman et al. 2017, eq. 7."""
    ratio, advantage = answer.ratios[t], answer.whitened[t]
    clamped = min(max(ratio, 1 - of.clip), 1 + of.clip)
    cut = -advantage * clamped > -advantage * ratio
    note = "clipped: no gradient flows any more" if cut else "not clipped"
    question = f"why is the ratio of token {t + 1}, {answer.tokens[t]!r}, {ratio:.4g}, and is it clipped?"
    why = Explaining(question, ratio, answer.tokens, t)
    equation = "ρₜ = π(aₜ) / π_old(aₜ),   loss max(−A ρ, −A clamp(ρ, 1 − ε, 1 + ε))"
    why.equation(equation, "M8", "Schulman et al. 2017, eq. 7")
    why.input("ln π_old", answer.logprobs[t], "when it was drawn")
    why.input("A", advantage, "whitened" if of.method == "ppo" else "of the whole answer, within its group")
    why.input("ε", of.clip)
    why.measurement("ρ", "after the update, of all weights")
    if ratio > 0:
        why.means(Step("ln π", "ln π_old + ln ρ", answer.logprobs[t] + log(ratio), "after the update"))
    why.means(
        compute_step("−A ρ", "−{} · {}", lambda a, r: -a * r, advantage, ratio)
        if advantage >= 0
        else compute_step("−A ρ", "{} · {}", mul, -advantage, ratio),
        Step("clamp(ρ)", f"clamp({ratio:.4g}, {1 - of.clip:.4g}, {1 + of.clip:.4g})", clamped),
        Step("loss", "the greater of −A ρ and −A clamp(ρ)", max(-advantage * ratio, -advantage * clamped), note),
    )
    return why.result()


def explain_kl(answer: TokenNumbers, t: int, of: Settings) -> Explanation:
    """−β (ln π − ln π_ref), the token's share of the price of having moved; GRPO: β k3, in the loss. MATH H4, H5."""
    pi, ref = answer.logprobs[t], answer.references[t]
    paid = compute_step("−β k1", "−{} · {}", lambda beta, k: -beta * k, of.beta, pi - ref)
    equation, source = "k1 = ln π(aₜ) − ln π_ref(aₜ),   paid −β k1", "Ziegler et al. 2019, eq. 2"
    if of.method == "rloo":
        paid = replace(paid, note="of the answer's score, before it is compared with the others")
    if of.method == "grpo":
        equation, source = "k3 = eᵈ − 1 − d,  d = ln π_ref(aₜ) − ln π(aₜ) = −k1,   paid β k3", "Shao et al. 2024, eq. 4"
        k3 = exp(ref - pi) - 1 - (ref - pi)
        paid = compute_step("β k3", "{} · {}", mul, of.beta, k3, note="its term of the loss, a mean over tokens")
    why = Explaining(f"what does token {t + 1}, {answer.tokens[t]!r}, pay for the KL?", pi - ref)
    why.equation(equation, "H4, H5", source)
    why.input("ln π", pi, "of the policy that drew it")
    why.input("ln π_ref", ref, "of the fine-tuned model")
    why.input("β", of.beta)
    why.compute("k1", "{} − {}", sub, pi, ref, note="nats; negative if it is less likely now")
    why.means(paid)
    return why.result()


def explain_pair(ranking: Ranking, scores: Sequence[float], winner: int, loser: int) -> Explanation:
    """−ln σ(r_w − r_l) of one pair of a ranking. MATH H2; Ouyang et al. 2022, eq. 1."""
    better, worse = scores[winner], scores[loser]
    first, second = ranking.answers[winner].strip(), ranking.answers[loser].strip()
    pairs = ranking.pairs()
    difference = better - worse
    loss = log(1 + exp(-difference)) if difference > -30 else -difference
    why = Explaining(f"what does it cost that {first!r} was ranked before {second!r}?", loss)
    source = "Ouyang et al. 2022, eq. 1; Wang's copy lacks the minus sign"
    why.equation("L = −ln σ(r(w) − r(l)),   σ(x) = 1 / (1 + e⁻ˣ)", "H2", source)
    why.input("r(w)", better, "score of the preferred answer")
    why.input("r(l)", worse, "score of the rejected answer")
    why.compute("r(w) − r(l)", "{} − {}", sub, better, worse)
    why.step("σ", f"1 / (1 + e^{-difference:.4g})", exp(-loss), "probability that the model gives this order")
    why.step("L", "−ln σ", loss, f"one of {len(pairs)} pairs of this ranking, which are averaged; ties are left out")
    return why.result()
