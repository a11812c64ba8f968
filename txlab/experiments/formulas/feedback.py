"""Examples of chapter H: learning from human feedback, with three or four answers and tokens."""

from __future__ import annotations

from functools import partial
from math import comb, exp, log
from operator import add, sub, truediv

import torch

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.rlhf.instructions import prompt_of, record_of
from txlab.engine.rlhf.kl import exact_kl, k1, k2, k3, token_rewards
from txlab.engine.rlhf.preferences import Ranking
from txlab.engine.rlhf.ratings import FIRST, elo, expected_score
from txlab.engine.rlhf.reward import choice_loss, ranking_loss
from txlab.engine.rlhf.rollouts import Episodes
from txlab.experiments.formulas.example import Example, Input, Misprint, Rows

tensor = partial(torch.tensor, dtype=torch.float64)


def add_sum(why: Explaining, name: str, terms: list[float], note: str = "", minus: bool = False) -> None:
    """A step that is the sum of the terms, or minus it."""
    form = " + ".join(["{}"] * len(terms))
    if minus:
        why.compute(name, f"−({form})", lambda *each: -sum(each), *terms, note=note)
    else:
        why.compute(name, form, lambda *each: sum(each), *terms, note=note)


# H1


def demonstration(prompt: list[int], answer: list[int], logits: Rows) -> Explanation:
    """The loss on the answer's tokens, by `engine.rlhf.rollouts.Episodes`."""
    episode = Episodes.of([prompt], [answer], 0)
    rows = episode.states(tensor(logits)[None])
    logs = episode.logprobs(rows)[0].tolist()
    first = len(prompt)
    why = Explaining("what does this demonstration cost?", -sum(logs))
    why.equation("L = −Σ_{t in the answer} ln p(yₜ | prompt, y₁ … yₜ₋₁)", "H1", "Ouyang et al. 2022, appendix C.1")
    why.input("prompt", prompt, "ids")
    why.input("answer", answer, "ids")
    why.input("logits", logits, "row t scores token t + 1")
    why.step("rows", "the last of the prompt, and so on", list(range(first, first + len(answer))), "that are read")
    why.step("z", "logits of these rows", rows[0].tolist())
    why.step("p(yₜ)", "softmax(z) at the token", [exp(each) for each in logs])
    why.step("ln p(yₜ)", "nats", logs, "the prompt's own tokens do not count")
    add_sum(why, "L", logs, "nats", minus=True)
    return why.result()


H1 = Example(
    "H1",
    (
        Input("prompt", [2, 0], "ids of the prompt", 0, 2, 1),
        Input("answer", [1, 0], "ids of the answer", 0, 2, 1),
        Input(
            "logits",
            [[9.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 5.0]],
            "of the next token, a row a token of prompt and answer",
            -20,
            20,
        ),
    ),
    demonstration,
    "Which rows of the logits count, and what is the loss?",
)

# H2


def ranked(rewards: list[float], ranks: list[int], form: str = "") -> Explanation:
    """The loss of one prompt's ranking, by `engine.rlhf.reward.ranking_loss`."""
    found = ranking_loss(tensor([rewards]), torch.tensor([ranks])).per_prompt.item()
    pairs = Ranking("", "", "", tuple("abcd"), tuple(ranks)).pairs()
    why = Explaining("what does this ranking cost?", -found if form else found)
    why.equation("L = −1 / C(K, 2) · Σ_{w ≻ l} ln σ(r(x, y_w) − r(x, y_l))", "H2", "Ouyang et al. 2022, eq. 1")
    why.input("r", rewards, "of answers a, b, c, d")
    why.input("ranks", ranks, "1 is the best; equal numbers are ties")
    why.compute("pairs", "{} − {}", sub, comb(4, 2), comb(4, 2) - len(pairs), note="C(4, 2) less those that are tied")
    if not pairs:
        why.step("L", "no pair is ordered", 0.0)
        return why.result()
    logs = []
    for winner, loser in pairs:
        one, other = "abcd"[winner], "abcd"[loser]
        apart = rewards[winner] - rewards[loser]
        why.compute(f"r({one}) − r({other})", "{} − {}", sub, rewards[winner], rewards[loser])
        logs.append(torch.nn.functional.logsigmoid(tensor(apart)).item())
        why.step(f"ln σ, {one} ≻ {other}", "−ln(1 + e⁻ˣ)", logs[-1])
    add_sum(why, "Σ", logs)
    form_of = "{} / {}" if form else "−({}) / {}"
    why.compute("L", form_of, lambda s, n: (s if form else -s) / n, sum(logs), len(pairs), note="nats a pair")
    return why.result()


H2 = Example(
    "H2",
    (
        Input("rewards", [2.0, 0.5, 1.0, -1.0], "r of four answers a, b, c, d", -50, 50),
        Input("ranks", [1, 2, 3, 4], "their places: 1 is the best, equal numbers are ties", 1, 4, 1),
    ),
    ranked,
    "Which pair costs most, and what is the loss of the ranking?",
    {
        "no-minus-sign": Misprint(
            "Wang's copy lacks the minus sign: descending it would make wrong orders likelier.",
            partial(ranked, form="no-minus-sign"),
            "L",
        )
    },
)

# H3


def chosen(rewards: list[float], best: int) -> Explanation:
    """The loss of a choice among four, by `engine.rlhf.reward.choice_loss`."""
    ranks = [1 if number == best else 2 for number in range(1, 5)]
    why = Explaining("what does this choice cost?", choice_loss(tensor([rewards]), torch.tensor([ranks])).item())
    why.equation("L = −ln (exp r_b / Σᵢ exp rᵢ)", "H3", "Ziegler et al. 2019, eq. 1")
    why.input("r", rewards, "of four answers")
    why.input("b", best, "the answer that was chosen")
    terms = [exp(each) for each in rewards]
    why.step("exp r", "of each answer", terms)
    add_sum(why, "Σ", terms)
    p = terms[best - 1] / sum(terms)
    why.compute("p(b)", "{} / {}", truediv, terms[best - 1], sum(terms), note="that the model makes this choice")
    why.compute("L", "−ln {}", lambda p: -log(p), p, note="nats; ln 4 = 1.386 by guessing")
    return why.result()


H3 = Example(
    "H3",
    (
        Input("rewards", [2.0, 0.5, 1.0, -1.0], "r of four answers", -50, 50),
        Input("best", 1, "b, the answer that was chosen", 1, 4, 1),
    ),
    chosen,
    "How likely does the model make this choice, and what does it cost?",
)

# H4


def penalised(
    score: float, policy: list[float], tuned: list[float], beta: float, gamma: float, pretraining: list[float]
) -> Explanation:
    """The reward less the penalty, token by token, by `engine.rlhf.kl`, and the mix with pre-training."""
    apart = k1(tensor(policy).log(), tensor(tuned).log())
    rewards = token_rewards(tensor([score]), apart[None], beta, torch.ones(1, len(policy), dtype=torch.bool))[0]
    logs = tensor(pretraining).log()
    mean = logs.mean().item()
    why = Explaining("what does the policy gain by this answer?", rewards.sum().item() + gamma * mean)
    equation = "R(x, y) = r(x, y) − β ln(π(y|x) / π_SFT(y|x)),  mix: + γ E[ln π(x)]"
    why.equation(equation, "H4", "Ziegler et al. 2019, eq. 2; Ouyang et al. 2022, eq. 2")
    why.input("r", score, "of the whole answer")
    why.input("π", policy, "probability of each token of the answer, by the policy")
    why.input("π_SFT", tuned, "by the fine-tuned model")
    why.input("β", beta)
    why.input("γ", gamma)
    why.step("ln(π / π_SFT)", "of each token", apart.tolist(), "nats")
    why.step("rewards", "−β ln(π / π_SFT), and r at the last token", rewards.tolist())
    add_sum(why, "R", rewards.tolist())
    why.step("ln π(x)", "of each token of the pre-training text", logs.tolist())
    why.step("E[ln π(x)]", "their mean", mean)
    why.compute("R + mix", "{} + {} · {}", lambda R, g, mean: R + g * mean, rewards.sum().item(), gamma, mean)
    return why.result()


H4 = Example(
    "H4",
    (
        Input("score", 1.0, "r of the answer", -20, 20),
        Input("policy", [0.6, 0.9, 0.8], "π of each token of the answer", 0.001, 1, 0.05),
        Input("tuned", [0.5, 0.3, 0.7], "π_SFT of the same tokens", 0.001, 1, 0.05),
        Input("beta", 0.2, "β, the price of a nat", 0, 10),
        Input("gamma", 0.0, "γ, the weight of the pre-training text", 0, 100),
        Input("pretraining", [0.5, 0.25], "π of two tokens of that text", 0.001, 1, 0.05),
    ),
    penalised,
    "Which token pays most for having become likelier, and what is left of the reward?",
)

# H5


def divergence(p: list[float], q: list[float]) -> Explanation:
    """KL(p ‖ q) and what three estimates of it say on average, by `engine.rlhf.kl`."""
    left, right = (tensor(each).log().log_softmax(-1) for each in (p, q))
    shares = left.exp()
    why = Explaining("how much is lost where q is believed and p is so?", exact_kl(left, right).item())
    why.equation("KL(p ‖ q) = Σₓ p(x) ln(p(x) / q(x))", "H5", "Kullback & Leibler 1951; Schulman 2020")
    why.step("p", "the first weights / their sum", shares.tolist())
    why.step("q", "the second weights / their sum", right.exp().tolist())
    why.step("ρ", "q / p", (right - left).exp().tolist())
    for name, expression, estimate in (("k₁", "−ln ρ", k1), ("k₂", "½ (ln ρ)²", k2), ("k₃", "ρ − 1 − ln ρ", k3)):
        values = estimate(left, right)
        why.step(name, expression, values.tolist(), "where x is drawn")
        told = "not the KL: it is biased" if estimate is k2 else "the KL: it is unbiased"
        why.step(f"Σ p {name}", "its mean over draws from p", (shares * values).sum().item(), told)
    terms = (shares * (left - right)).tolist()
    why.step("p ln(p / q)", "of each x", terms)
    add_sum(why, "KL", terms, "nats")
    return why.result(scale=sum(map(abs, terms)))


H5 = Example(
    "H5",
    (
        Input("p", [5.0, 4.0, 1.0], "weights of three things; scaled to a sum of 1", 0.1, 100, 0.5),
        Input("q", [2.0, 3.0, 5.0], "weights of the same things", 0.1, 100, 0.5),
    ),
    divergence,
    "How many nats is KL(p ‖ q), and which of the estimates have it as their mean?",
)

# H6


def rated(results: list[float], k: float) -> Explanation:
    """Ratings after each comparison, by `engine.rlhf.ratings`."""
    why = Explaining("what is the rating of A at the end?", elo(results, k)[0])
    why.equation("P(A beats B) = 1 / (1 + 10^((R_B − R_A)/400)),  R_A ← R_A + K (S_A − P)", "H6", "Elo 1978")
    why.input("R", FIRST, "of both at the beginning")
    why.input("S_A", results, "1 = A was preferred, 0.5 = neither, 0 = B")
    why.input("K", k, "the most that one comparison moves")
    for game, result in enumerate(results, 1):
        one, other = elo(results[: game - 1], k)
        p = expected_score(one, other)
        why.step(f"P, {game}", f"1 / (1 + 10^(({other:.4g} − {one:.4g})/400))".replace("-", "−"), p)
        why.compute(f"R_A, {game}", "{} + {} · ({} − {})", lambda R, K, S, P: R + K * (S - P), one, k, result, p)
    return why.result()


H6 = Example(
    "H6",
    (
        Input("results", [1.0, 1.0, 0.0], "S of model A in each comparison: 1, 0.5 or 0", 0, 1, 0.5),
        Input("k", 32.0, "K", 1, 400, 8),
    ),
    rated,
    "Where does the rating of A end, which began at 1500 like that of B?",
)

# H7


def record(instruction: str, input: str, output: str) -> Explanation:
    """What of a record is prompt and what is answer, by `engine.rlhf.instructions`, in bytes as tokens."""
    prompt = prompt_of(record_of({"instruction": instruction, "input": input, "output": output}))
    ids, wanted = (list(text.encode("utf-8", "surrogatepass")) for text in (prompt, output))
    episode = Episodes.of([ids], [[*wanted, 0]], 1)
    why = Explaining("how many tokens of this record count in the loss?", int(episode.mask.sum()))
    why.equation("{instruction, input, output} → prompt and answer → H1", "H7", "Taori et al. 2023 (Alpaca)")
    why.input("instruction", instruction)
    why.input("input", input, "left out if it is empty")
    why.input("output", output)
    why.step("prompt", "by the template", prompt, "ends where the answer begins")
    why.step("P", "bytes of the prompt", len(ids), "read, but not learnt")
    why.step("answer", "the output", output, "and an end token")
    why.compute("T", "{} + 1", lambda bytes: bytes + 1, len(wanted), note="bytes of the answer, and the end")
    why.compute("all", "{} + {}", add, len(ids), len(wanted) + 1)
    why.step("first row", "P − 1, counted from 0", len(ids) - 1, "scores the first token of the answer")
    why.step("count", "those of the answer", int(episode.mask.sum()))
    return why.result()


H7 = Example(
    "H7",
    (
        Input("instruction", "Reverse it.", "what is to be done"),
        Input("input", "abc", "what it is to be done to; may be empty"),
        Input("output", "cba", "the wanted answer"),
    ),
    record,
    "Which part of the record is learnt from, and how many tokens are that, if each byte is one?",
)

EXAMPLES = [H1, H2, H3, H4, H5, H6, H7]
