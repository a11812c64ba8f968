"""Examples of chapter T, with models of two or three numbers: attention, layers, whole models, and their training."""

from __future__ import annotations

from txlab.experiments.formulas import attention, layers, pretraining, whole_models

EXAMPLES = [*attention.EXAMPLES, *layers.EXAMPLES, *whole_models.EXAMPLES, *pretraining.EXAMPLES]
