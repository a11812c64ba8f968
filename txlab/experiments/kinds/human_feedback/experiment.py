"""A run of human feedback: its stages in order, the results that each passes on, and its frames (MATH H1–H4).

Notable: each stage is a separate `GradientExperiment`, so the schedule, clipping, refused updates and moments work as
in every other kind; a checkpoint holds the present stage's state and the weights produced by earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from txlab.engine.device import describe
from txlab.engine.policy_gradient import clipped_policy_loss, clipped_value_loss
from txlab.engine.rlhf.kl import k1
from txlab.engine.rlhf.preferences import Line, Question, Ranking
from txlab.engine.rlhf.reward import Normaliser, ScalarGPT
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError, nearest
from txlab.experiments.kinds.human_feedback.direct import BestOfN, DirectPreference
from txlab.experiments.kinds.human_feedback.imitation import Imitation, StageScenario
from txlab.experiments.kinds.human_feedback.materials import Handed, Texts, freeze, task_of, tokenizer_of
from txlab.experiments.kinds.human_feedback.policy import PolicyLearning
from txlab.experiments.kinds.human_feedback.ranking import RewardLearning, read_rankings
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario
from txlab.experiments.learning.gradient import load_weights, rebuild_model
from txlab.experiments.loaded_model import LoadedModel, Special, differing
from txlab.experiments.protocol import Adjustable, Frame, Sample, State
from txlab.experiments.randomness import derived_seed
from txlab.experiments.tokenizer_store import fingerprint

LEAST_BETA = 0.01  # the result of applying a factor to β = 0
Stage = Imitation | RewardLearning | PolicyLearning | DirectPreference | BestOfN


class HumanFeedback:
    """An Experiment (see protocol).

    plan    (stage, steps, β) of each stage       number   the present one
    handed  results of earlier stages            stage    the present stage's learner
    lines   the labellers' lines so far, in order

    A finished stage stays the present one until the next step is due, so that evaluations and checkpoints of its last
    step are still of this stage.
    """

    def __init__(self, scenario: HumanFeedbackScenario) -> None:
        self.scenario, self.plan = scenario, scenario.plan()
        self.texts = Texts(scenario)
        shape = scenario.model.shape(self.texts.tokenizer.vocabulary)
        weights = torch.Generator().manual_seed(derived_seed(scenario.seed, "weights", 0))
        with torch.random.fork_rng(devices=[]):
            self.handed = Handed(freeze(GPT(shape, weights)).to(self.texts.device))
        if not scenario.rankings.steps:
            self.handed.rankings = tuple(read_rankings(scenario.rankings.preferences))
        self.number, self.before = 0, 0
        self.lines: list[Line] = []
        self._stage: Stage | None = None

    # Stages

    @property
    def stage(self) -> Stage:
        """The present stage, made when it is first asked for: a start or a checkpoint comes before."""
        if self._stage is None:
            self._stage = self.make_stage(self.number)
            if isinstance(self._stage, RewardLearning):
                self._stage.offer(self.lines)
        return self._stage

    def make_stage(self, number: int) -> Stage:
        """A stage before its first step. LabError if its prerequisites are missing."""
        name, _, beta = self.plan[number]
        scenario, texts, handed = self.scenario, self.texts, self.handed
        if name in ("pretraining", "demonstrations"):
            section = getattr(scenario, name)
            part = StageScenario(seed=scenario.seed, train=section, compute=scenario.compute, model=scenario.model)
            return Imitation(part, texts, handed, answers_only=name == "demonstrations")
        if name == "rankings":
            return RewardLearning(scenario, texts, handed)
        method = scenario.policy.method
        if method == "dpo":
            return DirectPreference(scenario, texts, handed, beta)
        if handed.reward is None:
            raise LabError(
                f'policy.method = "{method}" follows a reward model, and there is none: give rankings.steps some, '
                "or start.run a run that has learnt one"
            )
        return (BestOfN if method == "best-of-n" else PolicyLearning)(scenario, texts, handed, beta)

    @property
    def within(self) -> int:
        """Steps of the present stage that were made."""
        return 0 if self._stage is None else self._stage.step_count

    @property
    def step_count(self) -> int:
        return self.before + self.within

    @property
    def steps(self) -> int:
        return self.scenario.length()

    def step(self) -> Mapping[str, float | Tensor]:
        """One step of the present stage; the last one passes its results on."""
        self.go_on()
        name, steps, beta = self.plan[self.number]
        metrics = self.stage.step()
        if name == "policy" and len(self.scenario.policy.betas) > 1:
            metrics = {f"{metric}/β={beta:g}": value for metric, value in metrics.items()}
        if self.within >= steps:
            self.hand_on()
        return metrics

    def go_on(self) -> None:
        """Begin the next stage if this one is finished."""
        steps = self.plan[self.number][1]
        if self.within >= steps and self.number + 1 < len(self.plan):
            self.before += steps
            self.number += 1
            self._stage = None

    def hand_on(self) -> None:
        """Freeze the results of a finished stage, for those that follow."""
        stage = self.stage
        if isinstance(stage, Imitation):
            self.handed.fine_tuned = freeze(stage.full_model())
        elif isinstance(stage, RewardLearning):
            self.handed.normaliser = stage.normaliser()
            self.handed.reward = freeze(stage.full_model())
            self.handed.rankings = tuple(stage.rankings)

    def verify(self) -> None:
        self.stage.verify()

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """val_loss, val_accuracy, or what DPO's answers are worth, of the present stage."""
        name, _, beta = self.plan[self.number]
        metrics = self.stage.evaluate()
        if name == "policy" and len(self.scenario.policy.betas) > 1:
            metrics = {f"{metric}/β={beta:g}": value for metric, value in metrics.items()}
        return metrics

    # People

    @property
    def asked(self) -> Sequence[Question]:
        """The questions of the rankings so far, in order."""
        stage = self._stage
        return stage.asked if isinstance(stage, RewardLearning) else ()

    @property
    def given(self) -> Sequence[Ranking]:
        """The rankings of the simulated labeller, which the run keeps in addition to human ones."""
        stage = self._stage
        rankings = stage.rankings if isinstance(stage, RewardLearning) else self.handed.rankings
        return [ranking for ranking in rankings if ranking.by == "simulated"]

    def offer(self, lines: Sequence[Line]) -> None:
        """Lines that people (or the simulated labeller) have written, in their order, each once."""
        self.lines += lines
        if isinstance(self._stage, RewardLearning):
            self._stage.offer(lines)

    @property
    def waiting(self) -> str:
        """What the next step is waiting for, in one sentence; "" = nothing. Adds the questions to be answered."""
        self.go_on()
        stage = self.stage
        if not isinstance(stage, RewardLearning):
            return ""
        stage.ask()
        return stage.waiting

    # Inspection

    def put_together(self) -> AbstractContextManager[None]:
        """See GradientExperiment."""
        stage = self.stage
        return nullcontext() if isinstance(stage, BestOfN) else stage.put_together()

    def model(self) -> GPT:
        """The language model as it is now."""
        stage = self.stage
        return self.handed.fine_tuned if isinstance(stage, RewardLearning) else stage.policy

    def probe(self) -> list[str]:
        return self.texts.prompts("probe prompts", 0, self.scenario.probe.prompts)

    @torch.no_grad()
    def frame(self) -> Frame:
        """The answers to the probe prompts, the ranking just taken, or answers of an update token by token."""
        stage, prompts = self.stage, self.probe()
        facts: dict[str, Any] = {"stage": self.plan[self.number][0], "stages": self.spans()}
        tensors: dict[str, Tensor] = {}
        tokens: dict[str, Sequence[str]] = {}
        texts = {f"prompt/{i}": prompt for i, prompt in enumerate(prompts)}
        known = self.texts.task.gold is not None
        imitates = isinstance(stage, Imitation)
        for when, model in (("before", self.handed.fine_tuned), ("during", self.model())):
            if imitates and when == "before":
                continue
            episodes = self.texts.sample_answers(model, prompts, "probe answers", 0)
            texts |= {f"{when}/{i}": self.texts.answer(episodes, i) for i in range(len(prompts))}
            label = "before" if when == "before" else "now"
            if self.handed.reward is not None:
                facts.setdefault("probe_scores", {})[label] = round_scores(self.handed.proxy(episodes))
            if known:
                facts[f"gold_{label}"] = self.texts.gold(prompts, episodes)
        if isinstance(stage, RewardLearning) and stage.last:
            ranking = stage.last["ranking"]
            facts["ranking"] = {**ranking.as_row(), "answers": list(ranking.answers), "ranks": list(ranking.ranks)}
            tensors = {"ranking/scores": stage.last["before"], "ranking/scores_after": stage.last["after"]}
        if isinstance(stage, RewardLearning) and stage.adjusted["human"] and stage.taken < stage.section.steps:
            facts["open"], tensors["open/scores"] = stage.score_open()
        if isinstance(stage, PolicyLearning) and stage.rollout is not None:
            self._episodes(stage, tensors, tokens, texts, facts)
        return Frame(self.step_count, tensors, tokens, texts, facts)

    def _episodes(
        self,
        stage: PolicyLearning,
        tensors: dict[str, Tensor],
        tokens: dict[str, Sequence[str]],
        texts: dict[str, str],
        facts: dict[str, Any],
    ) -> None:
        """The first answers of the last update, token by token; NaN behind their end."""
        rollout, section = stage.rollout, stage.section
        assert rollout is not None
        some = torch.arange(min(self.scenario.probe.episodes, len(rollout.episodes)))
        episodes = rollout.episodes.rows(some)
        mask, T = episodes.mask, episodes.mask.shape[1]
        logprobs = episodes.logprobs(episodes.logits(stage.policy, self.texts.temperature))
        old, advantage = rollout.logprobs[some, :T], rollout.whitened[some, :T]
        _, ratio, clipped = clipped_policy_loss(logprobs, old, advantage, mask, section.clip_ratio)
        shown = {
            "kl_token": k1(old, rollout.reference[some, :T]),
            "exact_kl": rollout.exact[some, :T],
            "reward": rollout.rewards[some, :T],
            "value": rollout.values[some, :T],
            "delta": rollout.deltas[some, :T],
            "advantage": rollout.advantages[some, :T],
            "whitened": advantage,
            "return": rollout.returns[some, :T],
            "ratio": ratio,
            "logprob": old,
            "reference": rollout.reference[some, :T],
            "clipped": clipped.float(),
        }
        if stage.learns_values:
            before, returns = rollout.values[some, :T], rollout.returns[some, :T]
            _, value_clipped = clipped_value_loss(stage.values(episodes), before, returns, mask, section.clip_value)
            shown["value_clipped"] = value_clipped.float()
        for name, tensor in shown.items():
            tensors[f"episode/{name}"] = tensor.float().masked_fill(~mask, torch.nan)
        tensors["episode/score"], tensors["episode/gold"] = rollout.scores[some], rollout.golds[some]
        for row in range(len(some)):
            ids = episodes.answers[row][mask[row]].tolist()
            tokens[f"episode/{row}"] = [self.texts.tokenizer.label(token) for token in ids]
            texts[f"episode/prompt/{row}"] = rollout.prompts[row]
        facts |= {
            "method": section.method,
            "beta": self.plan[self.number][2] if "beta" not in stage.adjusted else stage.adjusted["beta"],
            "gamma": section.gamma,
            "lambda": section.gae,
            "clip": section.clip_ratio,
            "value_clip": section.clip_value,
            "whiten_mean": rollout.whiten_mean,
            "whiten_sd": rollout.whiten_sd,
        }

    def spans(self) -> list[list[Any]]:
        """[stage, first step, last step] of all stages; a β is named if there are several."""
        several, spans, first = len(self.scenario.policy.betas) > 1, [], 0
        for name, steps, beta in self.plan:
            spans.append([f"{name} β={beta:g}" if several and name == "policy" else name, first, first + steps])
            first += steps
        return spans

    def samples(self) -> Sequence[Sample]:
        """An answer to each of some prompts, redrawn at every step: a flipped sign shows here immediately."""
        prompts = self.probe()[:4]
        episodes = self.texts.sample_answers(self.model(), prompts, "samples", self.step_count)
        return [Sample(prompt, self.texts.answer(episodes, i)) for i, prompt in enumerate(prompts)]

    def facts(self) -> Mapping[str, Any]:
        scenario, parameters = self.scenario, sum(p.numel() for p in self.handed.fine_tuned.parameters())
        notes = []
        if any(name == "rankings" for name, *_ in self.plan) and scenario.rankings.labeller == "human":
            notes.append("rankings are up to you: txlab rank RUN, or screen 7; the run waits for them")
        compute = {**scenario.compute.model_dump(), "name": describe(torch.device(scenario.compute.device))}
        several = len(scenario.policy.betas) > 1 and bool(scenario.policy.steps)
        headline = [f"gold/β={beta:g}" for beta in scenario.policy.betas] if several else []
        return {
            "parameters": parameters,
            "stages": self.spans(),
            "task": scenario.task.source,
            "gold_unit": self.texts.task.unit,
            "compute": compute,
            "notes": notes,
            **({"headline": headline} if headline else {}),
        }

    def adjustable(self) -> Mapping[str, Adjustable]:
        """Those of the present stage; a policy has "beta", the rankings have "human": 1 = people rank, 0 = not."""
        self.go_on()  # a change between two stages applies to the next
        stage = self.stage
        if isinstance(stage, BestOfN):
            return {}
        adjustable = dict(stage.adjustable())
        return (
            adjustable | {"beta": replace(adjustable["beta"], least=LEAST_BETA)} if "beta" in adjustable else adjustable
        )

    def adjust(self, name: str, value: float) -> None:
        self.go_on()
        stage = self.stage
        if isinstance(stage, BestOfN):
            raise LabError(f"{name!r} cannot be changed: the best of n answers learns nothing")
        if name == "human" and value == 0 and self.texts.task.gold is None:
            raise LabError("no labeller can be simulated for these records: the criterion of a good answer is unknown")
        if name not in stage.adjusted:
            raise LabError(
                f"{name!r} cannot be changed in this stage{nearest(name, stage.adjusted)}; "
                f"allowed: {', '.join(stage.adjusted)}"
            )
        stage.adjust(name, value)

    # Checkpoints

    def state_dict(self) -> State:
        handed = self.handed
        return {
            "number": self.number,
            "before": self.before,
            "step": self.step_count,
            "present": self.stage.state_dict(),
            "model": self.model().state_dict(),
            "fine_tuned": handed.fine_tuned.state_dict(),
            "reward": None if handed.reward is None else handed.reward.state_dict(),
            "normaliser": [handed.normaliser.shift, handed.normaliser.scale],
            "rankings": [ranking.as_row() for ranking in handed.rankings],
        }

    def load_state_dict(self, state: State) -> None:
        """LabError if it is of another scenario."""
        if not 0 <= int(state["number"]) < len(self.plan):
            raise LabError("the checkpoint is of a run with other stages")
        self.number, self.before, self._stage = int(state["number"]), int(state["before"]), None
        load_weights(self.handed.fine_tuned, state["fine_tuned"])
        self.handed.reward = None
        if state["reward"] is not None:
            self.handed.reward = self._scalar(state["reward"])
        self.handed.normaliser = Normaliser(*state["normaliser"])
        self.handed.rankings = tuple(Ranking.of_row(row) for row in state["rankings"])
        self.stage.load_state_dict(state["present"])

    def _scalar(self, weights: Mapping[str, Tensor]) -> ScalarGPT:
        scalar = ScalarGPT.begin_from(self.handed.fine_tuned).to(self.texts.device)
        load_weights(scalar, weights)
        return freeze(scalar)  # type: ignore[no-any-return]

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Begin with another run's language model, and with its reward model if it has learnt one."""
        own = {name: tensor for name, tensor in weights.items() if not name.startswith("beside.")}
        load_weights(self.handed.fine_tuned, own)
        scalar = {
            name.removeprefix("beside.reward."): tensor for name, tensor in weights.items() if "beside.reward." in name
        }
        if scalar:
            shift, scale = scalar.pop("normaliser").tolist()
            self.handed.reward, self.handed.normaliser = self._scalar(scalar), Normaliser(shift, scale)


def round_scores(scores: Tensor) -> list[float]:
    return [round(float(score), 4) for score in scores]


def open_model(scenario: HumanFeedbackScenario, state: State) -> LoadedModel:
    """The language model of a checkpoint: the policy, or the model fine-tuned so far; with its reward model."""
    task = task_of(scenario.task)
    tokenizer = tokenizer_of(task)
    model = rebuild_model(lambda: GPT(scenario.model.shape(tokenizer.vocabulary)), state["model"])
    model.set_dropout(0.0)
    beside: dict[str, Tensor] = {}
    if state["reward"] is not None:
        beside = {f"reward.{name}": tensor for name, tensor in state["reward"].items()}
        beside["reward.normaliser"] = torch.tensor(state["normaliser"], dtype=torch.float64)
    example = Texts(scenario).prompts("probe prompts", 0, 1)[0]
    return LoadedModel("gpt", model, tokenizer, special=Special(), example=example, beside=beside)


def adopt(scenario: HumanFeedbackScenario, opened: LoadedModel) -> HumanFeedbackScenario:
    """The scenario with the shape of the model it starts from. LabError if they do not agree."""
    where = f"start.run = {scenario.start.run!r}"
    follows = scenario.policy.steps and scenario.policy.method != "dpo"
    if follows and not scenario.rankings.steps and not opened.beside:
        raise LabError(
            f'policy.method = "{scenario.policy.method}" follows a reward model, and {where} has learnt none: give '
            "rankings.steps some, or start from a run that has"
        )
    if opened.kind != "gpt":
        raise LabError(f"{where} is a model of the kind {opened.kind}; {scenario.kind} starts from a decoder")
    tokenizer = tokenizer_of(task_of(scenario.task))
    if fingerprint(tokenizer) != fingerprint(opened.tokenizer):
        raise LabError(f"{where} reads other tokens than the task {scenario.task.source!r}, whose model it is to begin")
    shape: Any = opened.model.shape
    section, given = scenario.model, scenario.model.model_fields_set
    theirs = {name: getattr(shape, name) for name in type(section).model_fields if name != "dropout"}
    model = section.model_copy(update={name: value for name, value in theirs.items() if name not in given})
    if wrong := differing(model.shape(shape.vocabulary), shape, ("positions", "context")):
        name, ours = wrong[0], model.shape(shape.vocabulary)
        raise LabError(f"{where} has {name} = {getattr(shape, name)!r}, and [model] {getattr(ours, name)!r}")
    return scenario.model_copy(update={"model": model})
