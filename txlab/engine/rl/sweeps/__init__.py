"""Many independent learners at once: error bars over seeds, sweeps over settings (MATH M5–M7)."""
