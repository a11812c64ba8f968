"""The rules, how they are found by name, and the learner of a rule (MATH M2, M4–M7).

Every module of this folder lists its rules as objects in `RULES`. An installed distribution adds one by an entry point
of the group `txlab.rules`, "module:object"; entry points are read only when a name is not built in, or to list all.
Two loops use the same rule objects: the glass box (`agent`: plain lists, one learner that can be inspected) and the
sweep (`learn` or `teach`: arrays over thousands of learners).
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from txlab.engine.rl.agent import Agent, Rule
from txlab.engine.rl.environment import Environment
from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import Settings
from txlab.errors import LabError, choices
from txlab.plugins import load_plugin, plugins

ENTRY_POINTS = "txlab.rules"


@cache
def load_rules() -> dict[str, Rule]:
    """The rules of this folder by name, SARSA and its relatives first."""
    modules = [import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    modules.sort(key=lambda module: getattr(module, "ORDER", 99))
    return {rule.name: rule for module in modules for rule in module.RULES}


def rule_names() -> tuple[str, ...]:
    """The names of all rules: those of this folder, then those of other distributions."""
    return tuple(dict.fromkeys([*load_rules(), *plugins(ENTRY_POINTS)]))


@cache
def rule_named(name: str) -> Rule:
    """The rule of that name. LabError with the nearest and all names if there is none, or if it is not a rule."""
    if name in load_rules():
        return load_rules()[name]
    installed = plugins(ENTRY_POINTS)
    if name not in installed:
        names = rule_names()
        raise LabError(f"no rule is called {name!r}{choices(name, names)}")
    rule = load_plugin(installed[name], Rule)
    if rule.name != name:
        raise LabError(f"the rule {name!r} of {installed[name].value!r} calls itself {rule.name!r}")
    return rule


def make_agent(process: Process | Environment, settings: Settings, seed: int = 0) -> Agent:
    """Make a learner of `settings.rule` in this world, or in an environment that can only be stepped."""
    rule = rule_named(settings.rule)
    return rule.agent(rule, process, settings, seed)
