"""Many independent learners in parallel: error bars over seeds, sweeps over settings (MATH M5–M7)."""
