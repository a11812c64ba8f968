"""A recurrent network that learns to predict the next token (MATH R1–R3): the experiment of "language-model" with
another model; and its frames, with the states and gates of every unit over the probe text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from txlab.engine.recurrent.cells import CELLS
from txlab.engine.recurrent.language_model import RecurrentLM
from txlab.engine.recurrent.sums import parts_of_sums
from txlab.experiments.kinds.language_model.data import build_data, training_text
from txlab.experiments.kinds.language_model.experiment import LanguageModelExperiment, task_tokenizer
from txlab.experiments.learning.gradient import rebuild_model
from txlab.experiments.learning.text_data import tokenizer_of_state
from txlab.experiments.learning.text_experiment import MOST, expected_tokens, summed_loss
from txlab.experiments.learning.timing import Trial
from txlab.experiments.loaded_model import LoadedModel
from txlab.experiments.protocol import Frame, State
from txlab.experiments.recurrent_states import place

if TYPE_CHECKING:
    from txlab.experiments.kinds.recurrent_language_model.schema import RecurrentScenario


def experiment_of(scenario: Any) -> LanguageModelExperiment[RecurrentLM]:
    """The experiment of a scenario without "auto"."""
    data = build_data(scenario)
    shape = scenario.model.shape(data.vocabulary)
    return LanguageModelExperiment(scenario, data, shape, lambda generator: RecurrentLM(shape, generator), look_at)


@torch.no_grad()
def look_at(experiment: LanguageModelExperiment[RecurrentLM]) -> Frame:
    """state/NAME and gate/NAME (N, T, H) of every layer, token and unit of the probe, and the parts of their sums; the
    likeliest next tokens."""
    model, data = experiment.model, experiment.data
    shape, ids = model.shape, data.probe
    cell = CELLS[shape.cell]
    with experiment.quiet():
        logits, values = model.look_at(ids)
        read = model.embed_ids(torch.tensor(ids, device=logits.device))
        tensors = {place(name, cell.state): value for name, value in values.items()}
        tensors |= parts_of_sums(model.recurrent, read, values)
    most = min(experiment.scenario.probe.next_tokens, shape.vocabulary)
    tensors["next/probability"], token = logits.softmax(-1).topk(most)
    likeliest = token.flatten().tolist()
    labels = {each: data.label(each) for each in {*ids, *likeliest}}
    return Frame(
        step=experiment.step_count,
        tensors={name: tensor.cpu() for name, tensor in tensors.items()},
        tokens={"probe": [labels[each] for each in ids], "next": [labels[each] for each in likeliest]},
        texts={"probe": data.decode(ids)},
        facts={"cell": shape.cell, "state": list(cell.state), "rule": cell.rule, "source": cell.source},
    )


def trial_of(scenario: RecurrentScenario) -> Trial[RecurrentLM]:
    """A trial step of this scenario on random tokens."""
    data, train = scenario.data, scenario.train
    vocabulary = expected_tokens(data.tokenizer, data.vocabulary) if data.source == "text" else data.vocabulary
    shape = scenario.model.shape(min(vocabulary, MOST))
    batch = train.batch // train.accumulate
    ids = torch.randint(shape.vocabulary, (batch, shape.window), generator=torch.Generator().manual_seed(0))
    steps = train.steps * train.accumulate
    return Trial(
        lambda generator: RecurrentLM(shape, generator),
        train,
        steps,
        summed_loss,
        lambda: (ids, ids),
        batch,
        shape.dropout,
    )


def open_model(scenario: RecurrentScenario, state: State) -> LoadedModel:
    """The model and tokenizer of a checkpoint; LabError if they do not match this scenario."""
    data = scenario.data
    reads = data.source == "text"
    tokenizer = tokenizer_of_state(state, data, lambda: training_text(data)) if reads else task_tokenizer(data)
    model = rebuild_model(lambda: RecurrentLM(scenario.model.shape(tokenizer.vocabulary)), state["model"])
    example = scenario.probe.text or next((prompt for prompt in scenario.sampling.prompts if prompt), "")
    return LoadedModel("recurrent", model, tokenizer, example=example)
