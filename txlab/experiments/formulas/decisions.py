"""Examples of chapter M: decision processes and temporal differences, with worlds of two or three states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from txlab.engine.explain import Explaining, Explanation, Operand, Step
from txlab.engine.policy_gradient import clipped_policy_loss, gae
from txlab.engine.rl.dynamic_programming import backup, best_policy, greedy, values
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.features import tabular
from txlab.engine.rl.policies import break_tie, shares, weights
from txlab.engine.rl.prediction import OnlineTD
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.returns import lambda_returns, n_step_returns, returns
from txlab.engine.rl.rules.one_step import EXPECTED_SARSA, Q_LEARNING, SARSA, OneStep, OneStepRule
from txlab.engine.rl.rules.reinforce import Reinforce, ReinforceWithBaseline
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.transition_table import ENDED, GOES_ON
from txlab.engine.rl.update import Update, error_step
from txlab.engine.rl.why import why_value
from txlab.experiments.formulas.example import Example, Input, Misprint

Row = list[float]

GAMMA = Input("gamma", 0.9, "discount", 0, 1)
ALPHA = Input("alpha", 0.5, "step size", 0, 1)
RACE = (
    Input("p", 0.5, "probability that a cool car gets warm when fast, and that a warm one stays warm when slow", 0, 1),
    Input("rewards", [1.0, 2.0, -10.0], "slow, fast, and fast with a warm car, which overheats", -100, 100, 1),
    Input("gamma", 0.9, "discount", 0, 0.99),
)


def race(p: float, rewards: Row, gamma: float) -> Process:
    """A car is cool or warm and drives slowly or fast; an overheated one is out of the race."""
    slow, fast, overheats = rewards
    outcomes = {
        (0, 0): [Outcome(1.0, 0, slow)],
        (0, 1): [Outcome(1 - p, 0, fast), Outcome(p, 1, fast)],
        (1, 0): [Outcome(1 - p, 0, slow), Outcome(p, 1, slow)],
        (1, 1): [Outcome(1.0, 2, overheats)],
    }
    return compile_process(("slow", "fast"), ("cool", "warm", "overheated"), outcomes, start=0, discount=gamma)


def value_of_policy(p: float, rewards: Row, gamma: float, fast: Row) -> Explanation:
    """v(cool), by `solve_values`, and Bellman's equation for it, by `why_value`."""
    process = race(p, rewards, gamma)
    policy = np.array([[1 - share, share] for share in fast] + [[0.0, 0.0]])
    v = solve_values(process, policy, gamma)
    transitions = [
        [
            sum(shares[a] * each.probability for a in (0, 1) for each in process.outcomes(s, a) if each.next == then)
            for then in (0, 1)
        ]
        for s, shares in enumerate(policy[:2].tolist())
    ]
    earned = (policy * process.expected_reward.reshape(policy.shape)).sum(axis=1)
    bellman = why_value(process, v, 0, rule=policy)
    first = (
        Step("P_π", "Σₐ π(a|s) p(s′|s, a)", transitions, "between cool and warm"),
        Step("r_π", "Σₐ π(a|s) Σ p r", earned[:2].tolist(), "of cool and warm"),
        Step("v", "(I − γ P_π)⁻¹ r_π", v[:2].tolist(), "of cool and warm"),
    )
    given = (
        Operand("p", p, RACE[0].note),
        Operand("r", rewards, RACE[1].note),
        Operand("fast", fast, "π(fast|s) in cool and warm"),
    )
    return replace(
        bellman,
        question="what is a cool car worth under this policy?",
        equation="v = (I − γ P_π)⁻¹ r_π;  v(s) = Σₐ π(a|s) q(s, a),  q(s, a) = Σ p(s′, r | s, a) [r + γ v(s′)]",
        operands=[*given, *bellman.operands],
        steps=[*first, *bellman.steps[:-1]],  # without its last: the number as it was on a screen
    )


def improved_policy(p: float, rewards: Row, gamma: float, policy: list[int], by_best: bool = False) -> Explanation:
    """One improvement of a policy, by `backup` and `greedy`; `by_best`: with v* where v_π belongs."""
    process = race(p, rewards, gamma)
    used = best_policy(process, np.zeros(3), gamma) if by_best else np.eye(2)[[*policy, 0]] * [[1], [1], [0]]
    v = solve_values(process, used, gamma)
    q = backup(process, v, gamma)
    better = greedy(q)
    after = solve_values(process, better, gamma)
    why = Explaining("what is a cool car worth under the improved policy?", float(after[0]))
    why.equation("π′(s) = argmaxₐ q(s, a),  q(s, a) = Σ p(s′, r | s, a) [r + γ v(s′)]", "M2", "Howard 1960; Wang §6.1")
    why.input("p", p, RACE[0].note)
    why.input("r", rewards, RACE[1].note)
    why.input("γ", gamma, "discount")
    why.input("π", policy, "cool, warm: 0 slow, 1 fast")
    why.step("v", "v* of the best policy" if by_best else "v_π = (I − γ P_π)⁻¹ r_π", v[:2].tolist(), "cool, warm")
    why.step("q(cool)", "r + γ v(s′), expected", q[0].tolist(), "slow, fast")
    why.step("q(warm)", "r + γ v(s′), expected", q[1].tolist(), "slow, fast")
    why.step("max q", "maxₐ q(s, a)", values(q)[:2].tolist(), "what a sweep of value iteration would give")
    why.step("π′", "argmaxₐ q(s, a)", better[:2].tolist(), "cool, warm: the shares of slow and fast")
    why.step("v_π′", "(I − γ P_π′)⁻¹ r_π′", after[:2].tolist(), "cool, warm")
    why.step("v_π′(cool)", "its first entry", float(after[0]))
    return why.result()


def improved_by_best(p: float, rewards: Row, gamma: float, policy: list[int]) -> Explanation:
    return improved_policy(p, rewards, gamma, policy, by_best=True)


def discounted(rewards: Row, gamma: float) -> Explanation:
    """G₀, by `returns`."""
    powers = [gamma**k for k in range(len(rewards))]
    why = Explaining("what is the return of these rewards?", float(returns(np.array(rewards), gamma)[0]))
    why.equation("Gₜ = Σₖ γᵏ Rₜ₊ₖ₊₁ = Rₜ₊₁ + γ Gₜ₊₁", "M3", "Sutton and Barto 2018, eq. 3.8 and 3.9")
    why.input("R", rewards, "one a step; then the episode ends")
    why.input("γ", gamma, "discount")
    why.step("γᵏ", "weights of the rewards", powers)
    why.step("γᵏ R", "what each adds to G₀", [each * r for each, r in zip(powers, rewards, strict=True)])
    after = 0.0
    for t in reversed(range(len(rewards))):
        why.compute(f"G_{t}", "{} + {} · {}", lambda r, γ, g: r + γ * g, rewards[t], gamma, after)
        after = rewards[t] + gamma * after
    return why.result()


def with_traces(v: Row, rewards: Row, alpha: float, gamma: float, lam: float) -> Explanation:
    """v(A) after an episode A, B, C, end: by `OnlineTD`, and by `lambda_returns`, which must agree."""
    learner = OnlineTD(tabular(3), np.array(v), alpha, lam, gamma, "accumulating")
    steps = []
    for t, reward in enumerate(rewards):
        update = learner.learn(t, reward, min(t + 1, 2), ended=t == 2)
        note = "nothing follows C" if t == 2 else f"from {'ABC'[t]} to {'ABC'[t + 1]}"
        steps += [
            replace(error_step(reward, gamma, update.there, update.here, note), name=f"δ{'₁₂₃'[t]}"),
            Step(f"e{'₁₂₃'[t]}", "γ λ e + 1 where the walk is", learner.trace.tolist(), "A, B, C"),
            Step(f"v{'₁₂₃'[t]}", "v + α δ e", learner.weights.tolist(), "A, B, C"),
        ]
    R, along = np.array(rewards), np.array([*v, 0.0])
    why = Explaining("what is A worth after an episode through A, B and C?", float(learner.weights[0]))
    why.equation("v ← v + α δ e,  e ← γ λ e + ∇v(s);  v(A) ← v(A) + α (G^λ − v(A))", "M4", "Sutton 1988; Mehlig")
    why.input("v", v, "of A, B, C before")
    why.input("r", rewards, "on leaving A, B, C")
    why.input("α", alpha, "step size")
    why.input("γ", gamma, "discount")
    why.input("λ", lam, "decay of traces")
    why.steps += steps
    ahead = [float(n_step_returns(R, along, n, gamma)[0]) for n in (1, 2, 3)]
    why.step("G⁽ⁿ⁾", "n rewards, then γⁿ v", ahead, "of A, n = 1, 2, 3")
    why.step("weights", "(1 − λ) λⁿ⁻¹, the rest for the last", [1 - lam, (1 - lam) * lam, lam**2])
    target = float(lambda_returns(R, along, lam, gamma)[0])
    why.step("G^λ", "their mean with these weights", target)
    form = "{} + {} · ({} − {})"
    why.compute("v(A)", form, lambda v, α, g, w: v + α * (g - w), v[0], alpha, target, v[0], note="the same as v₃(A)")
    return why.result()


def one_step(
    rule: OneStepRule, q: float, after: Row, taken: int, r: float, alpha: float, gamma: float, epsilon: float
) -> tuple[float, Update]:
    """The rule's value of s′, whose actions are worth `after`, and its update of Q(s,a), by the glass box."""
    outcomes = {(0, 0): [Outcome(1.0, 1, r)], **{(1, a): [Outcome(1.0, 2, 0.0, True)] for a in range(3)}}
    process = compile_process(("a", "b", "c"), ("s", "s′", "end"), outcomes, start=0, discount=gamma)
    agent = OneStep(rule, process, Settings(alpha=alpha, epsilon=epsilon), seed=0)
    value = rule.target(after, max(after), taken - 1, agent.exploration)
    return value, agent.explain_update(0, 0, (0, (r, 1, GOES_ON), q, after, value, taken - 1))


def begin_step(
    result: float, equation: str, math: str, source: str, q: float, r: float, alpha: float, gamma: float
) -> Explaining:
    why = Explaining("what is Q(s,a) after this step?", result)
    why.equation(equation, math, source)
    why.input("Q(s,a)", q, "before")
    why.input("r", r, "reward")
    why.input("α", alpha, "step size")
    why.input("γ", gamma, "discount")
    return why


def sarsa(
    q: float, after: Row, taken: int, r: float, alpha: float, gamma: float, epsilon: float, tau: float
) -> Explanation:
    """Q(s,a), by `SARSA`, and how likely a′ is, by `shares`."""
    value, update = one_step(SARSA, q, after, taken, r, alpha, gamma, epsilon)
    equation = "Q(s,a) ← Q(s,a) + α [r + γ Q(s′,a′) − Q(s,a)]"
    why = begin_step(update.after, equation, "M5", SARSA.source, q, r, alpha, gamma)
    why.input("Q(s′,·)", after, "the three actions in s′")
    why.input("a′", taken, "the action taken there, 1 to 3")
    why.step(
        "ε-greedy", "ε/|A| + (1 − ε) [a is best]", shares(np.array(after), epsilon, 1.0, False).tolist(), "π(·|s′)"
    )
    why.step("softmax", "exp(Q / τ) / Σ exp(Q / τ)", shares(np.array(after), 1.0, tau, True).tolist(), "π(·|s′)")
    why.step("Q(s′,a′)", "of the action taken, best or not", value)
    why.steps += update.explanation.steps[-2:]
    return why.result()


def q_learning(
    q: float,
    q1: Row,
    q2: Row,
    taken: int,
    r: float,
    alpha: float,
    gamma: float,
    epsilon: float,
    by: OneStepRule = Q_LEARNING,
) -> Explanation:
    """Q(s,a), by `Q_LEARNING`, with the targets of its relatives."""
    expected, _ = one_step(EXPECTED_SARSA, q, q1, taken, r, alpha, gamma, epsilon)
    value, update = one_step(by, q, q1, taken, r, alpha, gamma, epsilon)
    equation = "Q(s,a) ← Q(s,a) + α [r + γ maxₐ′ Q(s′,a′) − Q(s,a)]"
    why = begin_step(update.after, equation, "M6", Q_LEARNING.source, q, r, alpha, gamma)
    why.input("Q(s′,·)", q1, "the three actions in s′; for double Q-learning Q₁")
    why.input("Q₂(s′,·)", q2, "its second table")
    why.input("a′", taken, "the action taken in s′, 1 to 3")
    why.input("ε", epsilon, "share of random actions")
    why.step("expected", "(1 − ε) maxₐ′ Q + ε mean Q", expected, "the target of Expected SARSA")
    why.step("double", "Q₂(s′, argmaxₐ′ Q₁)", q2[break_tie(q1, 0.0)], "the target of double Q-learning")
    why.step("target", by.letters, value, "the action taken does not enter" if by is Q_LEARNING else "as in SARSA")
    why.steps += update.explanation.steps[-2:]
    return why.result()


def as_sarsa(
    q: float, q1: Row, q2: Row, taken: int, r: float, alpha: float, gamma: float, epsilon: float
) -> Explanation:
    return q_learning(q, q1, q2, taken, r, alpha, gamma, epsilon, by=SARSA)


def policy_gradient(theta: Row, taken: int, G: float, b: float, alpha: float) -> Explanation:
    """The policy after one episode of one step, by `Reinforce`."""
    outcomes = {(0, a): [Outcome(1.0, 1, G, True)] for a in range(3)}
    process = compile_process(("1", "2", "3"), ("s", "end"), outcomes, start=0)
    agent = Reinforce(ReinforceWithBaseline(), process, Settings(alpha=alpha), seed=0)
    agent.rows[0], agent.worth[0], k = list(theta), b, taken - 1
    before = weights(agent.rows[0], 1.0)
    agent.learn([(0, k, (G, 1, ENDED))])
    after = agent.policy()[0].tolist()
    why = Explaining(f"how likely is action {taken} afterwards?", after[k])
    why.equation("θ ← θ + α ∇ ln π(a|s; θ) (G − b(s))", "M7", "Williams 1992; Sutton and Barto 2018, eq. 13.11")
    why.input("θ", theta, "preferences of the three actions in s")
    why.input("a", taken, "the action taken, 1 to 3")
    why.input("G", G, "the return that followed")
    why.input("b", b, "the baseline: the return expected in s")
    why.input("α", alpha, "step size")
    why.step("π", "exp θ / Σ exp θ", before)
    why.step("∇ ln π", f"[action is {taken}] − π", [(j == k) - share for j, share in enumerate(before)], "sums to 0")
    why.compute("G − b", "{} − {}", lambda g, b: g - b, G, b, note="positive: better than expected")
    why.step("θ′", "θ + α (G − b) ∇ ln π", list(agent.rows[0]))
    why.step("π′", "exp θ′ / Σ exp θ′", after)
    why.step("π′(a)", f"entry {taken}", after[k], f"before: {before[k]:.4g}")
    return why.result()


def clipped_objective(rewards: Row, v: Row, gamma: float, lam: float, old: Row, new: Row, clip: float) -> Explanation:
    """L of an episode of three steps, by `gae` and `clipped_policy_loss`."""
    R, V, before, now = (torch.tensor([each], dtype=torch.float64) for each in (rewards, v, old, new))
    deltas, advantages, _ = gae(R, V, gamma=gamma, lam=lam)
    loss, ratio, _ = clipped_policy_loss(now.log(), before.log(), advantages, None, clip)
    A, clamped = advantages[0].tolist(), ratio.clamp(1 - clip, 1 + clip)
    free, held = (ratio * advantages)[0].tolist(), (clamped * advantages)[0].tolist()
    why = Explaining("what is the objective of these three steps?", -loss.item())
    why.equation("L = E[min(ρ Â, clip(ρ, 1 − ε, 1 + ε) Â)],  Âₜ = Σ_l (γ λ)ˡ δₜ₊ₗ", "M8", "Schulman et al. 2017, eq. 7")
    why.input("r", rewards, "of three steps; then the episode ends")
    why.input("v", v, "the critic's values of the three states")
    why.input("γ", gamma, "discount")
    why.input("λ", lam, "decay of traces")
    why.input("π_old", old, "probabilities of the actions taken, then")
    why.input("π", new, "now")
    why.input("ε", clip, "how far the ratio may gain")
    why.step("δ", "r + γ v(s′) − v(s)", deltas[0].tolist(), "v = 0 after the end")
    why.step("Â", "Âₜ = δₜ + γ λ Âₜ₊₁", A)
    why.step("ρ", "π / π_old", ratio[0].tolist())
    why.step("clip(ρ)", f"from {1 - clip:.4g} to {1 + clip:.4g}", clamped[0].tolist())
    why.step("ρ Â", "ρ · Â", free)
    why.step("clip(ρ) Â", "clip(ρ) · Â", held)
    least = [min(pair) for pair in zip(free, held, strict=True)]
    why.step("min", "the smaller of the two", least, "where it is clip(ρ) Â alone, no gradient flows")
    why.compute("L", "({} + {} + {}) / 3", lambda a, b, c: (a + b + c) / 3, *least)
    return why.result()


STEP = (
    Input("r", -1.0, "reward", -10, 10, 1),
    ALPHA,
    GAMMA,
    Input("epsilon", 0.1, "share of random actions", 0, 1),
)

EXAMPLES = [
    Example(
        "M1",
        (*RACE, Input("fast", [0.5, 0.0], "the policy: shares of fast in cool and in warm", 0, 1)),
        value_of_policy,
        "What is a cool car worth under this policy?",
    ),
    Example(
        "M2",
        (*RACE, Input("policy", [1, 1], "the present policy in cool and warm: 0 slow, 1 fast", 0, 1, 1)),
        improved_policy,
        "Where does the improved policy drive fast, and what is a cool car then worth?",
        {
            "improved-by-v-star": Misprint(
                "Wang §6.1 improves the policy by V*, the values of the best policy, which are what is sought.",
                improved_by_best,
                "v",
            )
        },
    ),
    Example(
        "M3",
        (Input("rewards", [1.0, 0.0, -2.0, 10.0], "rewards, one a step", -100, 100, 1, grows=True), GAMMA),
        discounted,
        "What are these rewards worth at the first step?",
    ),
    Example(
        "M4",
        (
            Input("v", [0.5, 0.5, 0.5], "values of A, B, C before", -10, 10),
            Input("rewards", [0.0, 0.0, 1.0], "on leaving A, B, C", -10, 10),
            ALPHA,
            GAMMA,
            Input("lam", 0.8, "decay of traces", 0, 1),
        ),
        with_traces,
        "Only the last step was rewarded: how much of it does the value of A gain?",
    ),
    Example(
        "M5",
        (
            Input("q", 0.5, "Q(s,a) before", -10, 10),
            Input("after", [1.0, 2.0, -3.0], "Q(s′,·) of the three actions where the step led", -10, 10, 0.5),
            Input("taken", 3, "the action a′ that is taken there", 1, 3, 1),
            *STEP,
            Input("tau", 1.0, "temperature of the softmax policy", 0.05, 10),
        ),
        sarsa,
        "How likely was a′ under the ε-greedy policy, and does Q(s,a) rise or fall?",
    ),
    Example(
        "M6",
        (
            Input("q", 0.5, "Q(s,a) before", -10, 10),
            Input("q1", [1.0, 2.0, -3.0], "Q(s′,·), or the first table of two", -10, 10, 0.5),
            Input("q2", [1.5, 0.5, 0.0], "the second table of double Q-learning", -10, 10, 0.5),
            Input("taken", 3, "the action a′ that is taken in s′", 1, 3, 1),
            *STEP,
        ),
        q_learning,
        "The action taken next was exploratory: by which value of s′ does Q(s,a) change?",
        {
            "approximates-sarsa": Misprint(
                "Mehlig calls Q-learning an approximation to SARSA, whose target is the value of the action taken.",
                as_sarsa,
                "target",
            )
        },
    ),
    Example(
        "M7",
        (
            Input("theta", [1.0, 0.0, -1.0], "preferences of three actions", -10, 10, 0.5),
            Input("taken", 2, "the action taken", 1, 3, 1),
            Input("G", 5.0, "the return that followed", -10, 10, 1),
            Input("b", 3.0, "baseline: the return expected in s", -10, 10, 1),
            ALPHA,
        ),
        policy_gradient,
        "Does the action become likelier, and what is its probability afterwards?",
    ),
    Example(
        "M8",
        (
            Input("rewards", [0.0, 0.0, 1.0], "of three steps", -10, 10, 0.5),
            Input("v", [0.2, 0.4, 0.6], "the critic's values of the three states", -10, 10),
            Input("gamma", 0.9, "discount", 0, 1),
            Input("lam", 0.8, "decay of traces", 0, 1),
            Input("old", [0.5, 0.5, 0.2], "probabilities of the actions when they were taken", 0.01, 1),
            Input("new", [0.7, 0.4, 0.3], "their probabilities now", 0.01, 1),
            Input("clip", 0.2, "ε of the clipped ratio", 0, 1),
        ),
        clipped_objective,
        "Which of the three ratios does the minimum clip, and what is L?",
    ),
]
