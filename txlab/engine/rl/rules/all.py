"""Which rules there are, and the learner of each."""

from __future__ import annotations

from txlab.engine.rl.agent import Agent
from txlab.engine.rl.rules.double_q import DoubleQ
from txlab.engine.rl.rules.dyna_q import DynaQ
from txlab.engine.rl.rules.expected_sarsa import ExpectedSarsa
from txlab.engine.rl.rules.monte_carlo import MonteCarlo
from txlab.engine.rl.rules.n_step_sarsa import NStepSarsa
from txlab.engine.rl.rules.q_learning import QLearning
from txlab.engine.rl.rules.reinforce import Reinforce, ReinforceWithBaseline
from txlab.engine.rl.rules.sarsa import Sarsa
from txlab.engine.rl.rules.td_lambda import TdLambda
from txlab.engine.rl.rules.value_iteration import ValueIteration
from txlab.engine.rl.rules.with_traces import SarsaLambda, WatkinsLambda
from txlab.engine.rl.settings import Rule

LEARNERS: tuple[type[Agent], ...] = (
    Sarsa,
    ExpectedSarsa,
    QLearning,
    DoubleQ,
    NStepSarsa,
    DynaQ,
    SarsaLambda,
    WatkinsLambda,
    MonteCarlo,
    Reinforce,
    ReinforceWithBaseline,
    TdLambda,
    ValueIteration,
)
AGENTS: dict[Rule, type[Agent]] = {each.rule: each for each in LEARNERS}
