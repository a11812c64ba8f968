"""The scenarios of "human-feedback": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, Start, several

if TYPE_CHECKING:
    from txlab.engine.transformer.gpt import GPTShape


MethodName = Literal["ppo", "rloo", "grpo", "dpo", "best-of-n"]


class FeedbackTask(Section):
    """The prompts, and the criterion of a good answer."""

    source: Literal["reviews", "spelling", "file"] = Field(
        "reviews", description="a generated task with a known gold score; file: instruction records"
    )
    records: str = Field("", description="of source = file: instruction records in Alpaca's form (JSON)")
    tokens: Annotated[int, Field(ge=1, le=4096)] = Field(48, description="T, maximum tokens of an answer")
    temperature: Annotated[float, Field(gt=0, le=10)] = Field(1.0, description="sampling temperature of answers")


class FeedbackModel(learning.TransformerSection):
    """The decoder (MATH T9) that initialises policy, reward model and value function."""

    layers: PositiveInt = Field(3, description="N, blocks")
    width: PositiveInt = Field(96, description="D, the model's width")
    context: Annotated[int, Field(ge=2, le=65_536)] = Field(72, description="T, positions")
    positions: Literal["learned", "sinusoidal", "rotary"] = "rotary"

    def shape(self, vocabulary: int) -> GPTShape:
        """The decoder's shape for a vocabulary, which the tokenizer determines."""
        from txlab.engine.transformer.gpt import GPTShape

        return GPTShape(vocabulary=vocabulary, **self.model_dump())


class Pretraining(learning.Optimizer):
    """Training on every token of the task's texts, prompts included (MATH T9)."""

    steps: NonNegativeInt = Field(0, description="updates; 0 = none")
    batch: PositiveInt = Field(32, description="texts a step")


class Demonstrations(learning.Optimizer):
    """Supervised fine-tuning on the answers alone (MATH H1)."""

    steps: NonNegativeInt = Field(300, description="updates; 0 = none")
    batch: PositiveInt = Field(32, description="demonstrations a step")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 4e-3
    warmup: NonNegativeInt = Field(30, description="steps of linear warm-up")
    count: PositiveInt = Field(2000, description="number of demonstrations")


class Rankings(learning.Optimizer):
    """Ranked answers, and the reward model that learns from them (MATH H2); a step takes in one more ranking.

    The rate rises while rankings come in, because few of them are soon learnt by heart, and falls in the settling
    updates: .90 of unseen pairs in the right order instead of .82 with a constant rate (250 × 6 answers, seed 0).
    """

    steps: NonNegativeInt = Field(250, description="number of rankings used; 0 = none")
    answers: Annotated[int, Field(ge=2, le=9)] = Field(6, description="K, answers to a prompt")
    batch: PositiveInt = Field(6, description="prompts an update, all pairs of each of them together")
    loss: Literal["pairs", "choice"] = Field(
        "pairs", description="pairs: all pairs of a ranking; choice: only which answer is best counts (MATH H3)"
    )
    settling: NonNegativeInt = Field(120, description="updates on all rankings after the last one")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 1e-3
    labeller: Literal["simulated", "human"] = Field(
        "simulated", description="who ranks at first; you can take over (human = 1) and leave (human = 0)"
    )
    noise: Annotated[float, Field(ge=0, le=100)] = Field(0.7, description="of the simulated labeller, in gold points")
    bias: Annotated[float, Field(ge=-100, le=100)] = Field(0.0, description="its length bias, per ten characters")
    tie: Annotated[float, Field(ge=0, le=100)] = Field(0.0, description="answers that differ by less are tied")
    preferences: str = Field("", description="a file of rankings (JSON lines), used before any question is asked")
    normalise: Literal["samples", "demonstrations"] = Field(
        "samples", description="samples: scores have mean 0, sd 1 on them; demonstrations: they average 0"
    )


class Policy(learning.Optimizer):
    """Reinforcement learning on the reward model's scores (MATH H4), or an alternative to it."""

    steps: NonNegativeInt = Field(60, description="updates of rollouts; 0 = none; of best-of-n: doublings of n")
    batch: PositiveInt = Field(64, description="answers an update; pairs of dpo")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 1e-4
    warmup: NonNegativeInt = Field(0, description="steps of linear warm-up")
    decay: Literal["cosine", "constant"] = "constant"
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    method: MethodName = "ppo"
    betas: list[Annotated[float, Field(ge=0, le=100)]] = Field(
        default_factory=lambda: [0.05],
        min_length=1,
        max_length=16,
        description="β, the price of a nat: summed over an answer (ppo, rloo), or a mean over tokens (grpo), "
        "or of DPO's margin; several are trained in turn",
    )
    kl_target: Annotated[float, Field(ge=0, le=1000)] = Field(0.0, description="nats an answer; β adapts; 0 = fixed β")
    horizon: PositiveInt = Field(1000, description="answers in which an adaptive β changes by a fifth")
    epochs: PositiveInt = Field(2, description="passes over the answers of an update")
    minibatches: PositiveInt = Field(4, description="parts of each pass; batch must be a multiple")
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(1.0, description="γ")
    gae: Annotated[float, Field(ge=0, le=1)] = Field(0.95, description="λ of the advantages")
    clip_ratio: Annotated[float, Field(gt=0, le=1)] = Field(0.2, description="ε: the ratio is clipped to 1 ± ε")
    clip_value: Annotated[float, Field(gt=0, le=100)] = Field(0.2, description="values are clipped to old ± this")
    value_coefficient: Annotated[float, Field(ge=0, le=100)] = 0.1
    # The units of the values then change with every batch: gold .4 after 50 updates instead of 2.4 (seed 1).
    whiten_rewards: bool = Field(
        False, description="rewards become (r − μ)/σ + μ, over the tokens of an update (Ziegler et al. 2019)"
    )
    pretraining_mix: Annotated[float, Field(ge=0, le=1000)] = Field(0.0, description="γ of PPO-ptx, MATH H4")
    group: Annotated[int, Field(ge=2, le=64)] = Field(4, description="answers to a prompt, of rloo and grpo")

    @model_validator(mode="after")
    def parts_are_whole(self) -> Self:
        if self.batch % self.minibatches:
            raise ValueError(f"batch must be a multiple of minibatches; {self.batch} is not one of {self.minibatches}")
        if self.method in ("rloo", "grpo") and self.batch % self.group:
            raise ValueError(f"batch must be a multiple of group; {self.batch} is not one of {self.group}")
        return self


class FeedbackProbe(Section):
    """The contents of a frame."""

    prompts: Annotated[int, Field(ge=1, le=64)] = Field(6, description="prompts whose answers are shown")
    episodes: Annotated[int, Field(ge=1, le=64)] = Field(8, description="answers of an update kept token by token")
    held_out: Annotated[int, Field(ge=4, le=1024)] = Field(48, description="prompts that only evaluation uses")


class HumanFeedbackScenario(Scenario):
    """A language model that learns from human preferences."""

    kind: Literal["human-feedback"] = "human-feedback"
    task: FeedbackTask = Field(default_factory=FeedbackTask)
    model: FeedbackModel = Field(default_factory=FeedbackModel)
    pretraining: Pretraining = Field(default_factory=Pretraining)
    demonstrations: Demonstrations = Field(default_factory=Demonstrations)
    rankings: Rankings = Field(default_factory=Rankings)
    policy: Policy = Field(default_factory=Policy)
    probe: FeedbackProbe = Field(default_factory=FeedbackProbe)
    start: Start = Field(default_factory=Start)

    @model_validator(mode="after")
    def there_is_something_to_do(self) -> Self:
        if not self.length():
            raise ValueError("all stages have 0 steps; give pretraining, demonstrations, rankings or policy some")
        if (self.task.source == "file") != bool(self.task.records):
            raise ValueError('task.source = "file" and task.records = FILE require each other')
        judged = self.rankings.labeller == "human" or self.rankings.preferences
        if self.task.source == "file" and self.rankings.steps and not judged:
            raise ValueError(
                "these records have no known criterion of a good answer: give rankings.labeller = 'human' "
                "or rankings.preferences = FILE"
            )
        return self

    def length(self) -> int:
        return sum(steps for _, steps, _ in self.plan())

    def plan(self) -> list[tuple[str, int, float]]:
        """(stage, steps, β of a policy) of each stage that has any."""
        rankings = self.rankings.steps and self.rankings.steps + self.rankings.settling
        stages = [("pretraining", self.pretraining.steps, 0.0), ("demonstrations", self.demonstrations.steps, 0.0)]
        stages.append(("rankings", rankings, 0.0))
        stages += [("policy", self.policy.steps, beta) for beta in self.policy.betas]
        return [stage for stage in stages if stage[1]]

    def outline(self) -> list[tuple[str, str]]:
        model, rankings, policy = self.model, self.rankings, self.policy
        rows = [("Task", self.task.source if not self.task.records else self.task.records)]
        if self.start.run:
            rows.append(("Begins", f"with what {self.start.run} has learnt"))
        else:
            size = f"{several(model.layers, 'layer')}, {several(model.heads, 'head')}, width {model.width}"
            rows.append(("Model", f"{size}, context {model.context}"))
        if self.demonstrations.steps:
            description = (
                f"{several(self.demonstrations.count, 'answer')}, {several(self.demonstrations.steps, 'step')}"
            )
            rows.append(("Demonstrations", description))
        if rankings.steps:
            rows.append(
                ("Rankings", f"{rankings.steps} × {rankings.answers} answers, ranked by {_who(rankings.labeller)}")
            )
        if policy.steps:
            betas = ", ".join(f"{beta:g}" for beta in policy.betas)
            rows.append(("Policy", f"{policy.method}, β {betas}, {policy.steps} × {several(policy.batch, 'answer')}"))
        return rows


def _who(labeller: str) -> str:
    return "you (txlab rank RUN, or screen 7)" if labeller == "human" else "a simulated labeller"
