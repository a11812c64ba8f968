"""Which rules there are, and the learner of each."""

from __future__ import annotations

from txlab.engine.rl.agent import Agent
from txlab.engine.rl.rules.double_q import DoubleQ
from txlab.engine.rl.rules.expected_sarsa import ExpectedSarsa
from txlab.engine.rl.rules.q_learning import QLearning
from txlab.engine.rl.rules.sarsa import Sarsa
from txlab.engine.rl.rules.value_iteration import ValueIteration
from txlab.engine.rl.rules.with_traces import SarsaLambda, WatkinsLambda
from txlab.engine.rl.settings import Rule

AGENTS: dict[Rule, type[Agent]] = {
    each.rule: each for each in (Sarsa, ExpectedSarsa, QLearning, DoubleQ, SarsaLambda, WatkinsLambda, ValueIteration)
}
