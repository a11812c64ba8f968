"""Many independent learners at once: error bars over seeds, sweeps over settings (MATH M5–M7)."""

from txlab.engine.rl.sweeps.sweep import Cancelled, OneByOne, Sweep, greedy_returns, policies, sweep_in

__all__ = ["Cancelled", "OneByOne", "Sweep", "greedy_returns", "policies", "sweep_in"]
