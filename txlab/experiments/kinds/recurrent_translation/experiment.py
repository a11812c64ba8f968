"""Recurrent cells that learn to translate (MATH R4): what TranslationExperiment does, with another model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from txlab.engine.interpret.sites import looking
from txlab.engine.recurrent.cells import CELLS
from txlab.engine.recurrent.sums import parts_of_sums
from txlab.engine.recurrent.translation import RecurrentTranslator, flops_per_pair
from txlab.experiments.kinds.recurrent_translation.schema import RecurrentTranslationScenario
from txlab.experiments.kinds.translation.data import PairData
from txlab.experiments.kinds.translation.experiment import TranslationExperiment, open_model, trial_of
from txlab.experiments.recurrent_states import place

__all__ = ["experiment_of", "open_model", "trial_of"]


def experiment_of(scenario: RecurrentTranslationScenario) -> RecurrentTranslationExperiment:
    """The experiment of a scenario without "auto"."""
    return RecurrentTranslationExperiment(scenario, PairData(scenario))


class RecurrentTranslationExperiment(TranslationExperiment):
    """See TranslationExperiment."""

    @torch.no_grad()
    def look_at(self, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, dict[str, Tensor], dict[str, Any]]:
        """As there, of the one attention: cross/pattern (1, 1, T, S), the inputs of its scores, and v (H)."""
        model = cast(RecurrentTranslator, self.model)
        with looking(model):
            seen = model.look(torch.tensor([source], device=self.device), torch.tensor([target], device=self.device))
            queries = model.scores.queries(seen.states)
        shown = {"cross/pattern": seen.pattern[None].half(), "cross/query": queries[None], "cross/key": seen.keys[None]}
        if model.scores.v is not None:
            shown["cross/v"] = model.scores.v.clone()
        facts = {"sites": ["cross"], "masks": ["none"], "layers": 1, "heads": 1, "attention": self.shape.attention}
        units, about = self.units(model, source, target)
        shown |= units
        facts |= about
        return seen.logits[0].float().softmax(-1), shown, facts

    def units(
        self, model: RecurrentTranslator, source: Sequence[int], target: Sequence[int]
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Every gate and state of the decoder over the target, the parts of their sums, and the states that it begins
        with; facts."""
        cell = CELLS[self.shape.cell]
        with looking(model):
            first = model.first_states(model.encode(torch.tensor([source], device=self.device)))
            x = model.embed_target(torch.tensor(target, device=self.device))
            _, values = model.decoder.look_at(x, first)
        begins = {name: torch.cat(layers) for name, layers in zip(cell.state, zip(*first, strict=True), strict=True)}
        states = {place(name, cell.state): value for name, value in values.items()}
        states |= {f"first/{name}": value for name, value in begins.items()}
        states |= parts_of_sums(model.decoder, x, values, begins["h"])
        about = {"cell": cell.name, "rule": cell.rule, "source": cell.source, "state": list(cell.state)}
        return states, {**about, "tokens": "target"}

    def flops_per_pair(self, read: Iterable[tuple[int, int]]) -> float:
        return flops_per_pair(self.shape, read)
