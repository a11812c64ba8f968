"""Shared by the stages of a run: the task's texts as tokens, and the models that one stage passes to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from txlab.engine.device import choose_device
from txlab.engine.rlhf.preferences import Ranking
from txlab.engine.rlhf.reward import Normaliser, ScalarGPT
from txlab.engine.rlhf.rollouts import Episodes, sample
from txlab.engine.rlhf.tasks import END, Task, task_named
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError
from txlab.experiments.kinds.human_feedback.schema import FeedbackTask, HumanFeedbackScenario
from txlab.experiments.randomness import derived_seed, generator

Tokenizer = ByteTokenizer | CharacterTokenizer
DRAWN_AT_ONCE = 256  # answers: more rows a step gain nothing here, and a long batch waits for its longest


def task_of(section: FeedbackTask) -> Task:
    """The generated task, or that of a file of instruction records. LabError if it cannot be read."""
    if section.source != "file":
        return task_named(section.source)
    from txlab.engine.rlhf.instructions import prompt_of, read_instructions

    records = {prompt_of(record): record.output for record in read_instructions(Path(section.records))}
    prompts = list(records)
    return Task(
        "file", lambda draws: prompts[draws.integers(len(prompts))], lambda draws, prompt: records[prompt], None, "", ""
    )


def tokenizer_of(task: Task) -> Tokenizer:
    """Characters of a generated task; bytes of a file, so that any language model of bytes can be begun from."""
    return CharacterTokenizer(task.characters) if task.characters else ByteTokenizer()


def device_of(scenario: HumanFeedbackScenario) -> torch.device:
    """Where the models learn, write and are scored. LabError if it is not here."""
    asked = scenario.compute.device
    return choose_device("cpu" if asked == "auto" else asked)


class Texts:
    """The task's texts as tokens on `device`, every draw a function of (seed, purpose, number)."""

    def __init__(self, scenario: HumanFeedbackScenario) -> None:
        self.seed, self.most = scenario.seed, scenario.task.tokens
        self.temperature, self.context = scenario.task.temperature, scenario.model.context
        self.task = task_of(scenario.task)
        self.device = device_of(scenario)
        self.tokenizer = tokenizer_of(self.task)
        (self.end,) = self.tokenizer.encode(END)
        digits = range(16) if isinstance(self.tokenizer, CharacterTokenizer) else ()
        self.never = tuple(digits)  # which represent characters that no text here has

    def draws(self, purpose: str, number: int) -> np.random.Generator:
        return generator(self.seed, purpose, number)

    def prompts(self, purpose: str, number: int, count: int) -> list[str]:
        draws = self.draws(purpose, number)
        return [self.task.prompt(draws) for _ in range(count)]

    def demonstrations(self, purpose: str, count: int) -> list[tuple[str, str]]:
        """(prompt, answer) pairs."""
        draws = self.draws(purpose, 0)
        prompts = [self.task.prompt(draws) for _ in range(count)]
        return [(prompt, self.task.demonstrate(draws, prompt)) for prompt in prompts]

    def prompt_ids(self, prompt: str) -> list[int]:
        """LabError if no room is left for an answer."""
        ids = self.tokenizer.encode(prompt)
        if len(ids) + self.most > self.context > 0:
            raise LabError(
                f"model.context = {self.context} does not hold a prompt of {len(ids)} tokens and an answer of "
                f"task.tokens = {self.most}: {prompt[:40]!r}"
            )
        return ids

    def answer_ids(self, answer: str) -> list[int]:
        """The answer and its end; beyond task.tokens it is cut off, and then has no end."""
        return [*self.tokenizer.encode(answer), self.end][: self.most]

    def pack_answers(self, pairs: Sequence[tuple[str, str]]) -> Episodes:
        """Prompts with their answers as tensors."""
        prompts = [self.prompt_ids(prompt) for prompt, _ in pairs]
        return Episodes.of(prompts, [self.answer_ids(answer) for _, answer in pairs], self.pad, self.device)

    @property
    def pad(self) -> int:
        return 0 if self.end else 1

    def answer(self, episodes: Episodes, row: int) -> str:
        """An answer as text, without its end."""
        ids = episodes.answers[row][episodes.mask[row]].tolist()
        return self.tokenizer.decode(ids[:-1] if ids[-1] == self.end else ids)

    def sample_answers(self, model: GPT, prompts: Sequence[str], purpose: str, number: int) -> Episodes:
        """One answer to each prompt, drawn with a generator of its own."""
        draws = torch.Generator().manual_seed(derived_seed(self.seed, purpose, number))
        ids = [self.prompt_ids(prompt) for prompt in prompts]
        return sample(model, ids, self.most, self.end, draws, self.temperature, self.never)

    def gold(self, prompts: Sequence[str], episodes: Episodes) -> list[float]:
        """The gold score of each answer; LabError where it is unknown (records from a file)."""
        if self.task.gold is None:
            raise LabError("records from a file have no gold score; you have to rank them")
        return [self.task.gold(prompt, self.answer(episodes, row)) for row, prompt in enumerate(prompts)]


@dataclass
class Handed:
    """Results of the stages so far: None or empty = not yet.

    fine_tuned   the language model of the imitating stages; the reference ρ of a policy
    reward       the reward model, and the normaliser of its scores
    rankings     those that the reward model has learnt from
    """

    fine_tuned: GPT
    reward: ScalarGPT | None = None
    normaliser: Normaliser = field(default_factory=Normaliser)
    rankings: tuple[Ranking, ...] = ()

    @torch.no_grad()
    def proxy(self, episodes: Episodes) -> torch.Tensor:
        """(B,) normalised scores of the reward model; NaN without one."""
        if self.reward is None:
            return torch.full((len(episodes),), torch.nan, device=episodes.ids.device)
        return self.normaliser(episodes.scores(self.reward))


def freeze(model: Any) -> Any:
    """A model that is only read: without dropout and gradients."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if isinstance(model, GPT):
        model.set_dropout(0.0)
    return model.eval()


def copy_model(make: Callable[[], Any], source: GPT) -> Any:
    """A model of the same weights that shares nothing with `source`."""
    with torch.random.fork_rng(devices=[]):
        model = make()
    model.load_state_dict(source.state_dict())
    return model
