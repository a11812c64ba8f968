"""The names in the frames of planning, prediction, control and the arena's matches.

A side is one learner, or one setting of one; i is its number from 0.

    tensors   i/q (S, A), NaN where an action is not allowed      i/v (S)      i/policy (S, A), its current policy
              i/trace (S, A), or (S) for rules of V alone         i/path (n), the states that its policy leads through
              i/preferences (S, A) instead of i/q, for REINFORCE  i/greedy (S, A), planning: where another is evaluated
              i/spread (S), the deviation over the runs           i/weights (D), Baird's
              true/v (S), prediction only: the true values
              sweep/score, sweep/error (sides, …axes): a sweep of settings; facts["sweep"] names the axes
    facts     world      the table [world], from which the process can be compiled again
              sides      [{rule, title, gamma, alpha, lam, epsilon, …}]; None for a number that the rule does not have
                         planners of the arena also: sweeps, delta (Δ of the last whole sweep), improvements
              states     the current state of each, −1 for none    episodes, updates   how many each has finished, made
              warnings   control and matches: of each, a sentence if it diverges, else ""
              last       the last update of each, as `last_of` writes it, or None

A frame can be read without its run, scenario or learner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from txlab.engine.rl.rules import rule_named
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.update import Term


def facts_of(world: Mapping[str, Any], sides: Sequence[Mapping[str, Any]], **given: Sequence[Any]) -> dict[str, Any]:
    """The facts that every frame has, one entry per side; states, episodes, updates and last default to those before
    any update."""
    n = len(sides)
    nothing = {"states": [-1] * n, "episodes": [0] * n, "updates": [0] * n, "last": [None] * n}
    return {"world": dict(world), "sides": list(sides), **nothing, **{key: list(each) for key, each in given.items()}}


def side_of(
    rule: str,
    title: str,
    gamma: float,
    alpha: float | None = None,
    lam: float | None = None,
    epsilon: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One side: its rule, its numbers, and facts of its kind."""
    return {"rule": rule, "title": title, "gamma": gamma, "alpha": alpha, "lam": lam, "epsilon": epsilon, **more}


def learner_side(settings: Settings, gamma: float, heat: float | None = None, **more: Any) -> dict[str, Any]:
    """A control learner's side, with all its numbers. `heat`: the current ε, or τ of softmax; None = as set."""
    if heat is not None:
        soft = settings.policy == "softmax"
        settings = replace(settings, temperature=heat) if soft else replace(settings, epsilon=heat)
    rule = rule_named(settings.rule)
    names = ["beta", "traces", "policy", "temperature", "decay", "floor", "initial"]
    names += [name for name in ("n", "planning") if name in rule.parameters]
    parameters = {name: getattr(settings, name) for name in names}
    return side_of(
        settings.rule, rule.title, gamma, settings.alpha, settings.lam, settings.epsilon, **parameters, **more
    )


def last_of(
    state: int,
    reward: float,
    following: int,
    done: bool,
    delta: float,
    terms: Iterable[Term],
    action: int = -1,
    **more: Any,
) -> dict[str, Any]:
    """An update as JSON facts: the transition, the error, and the rule with the number for each letter."""
    return {
        "state": state,
        "action": action,
        "reward": reward,
        "next": following,
        "done": done,
        "delta": delta,
        "terms": [[term.letters, term.value] for term in terms],
        **more,
    }
