"""The kind "human-feedback": pre-training, demonstrations, rankings and a policy that follows them (MATH H1–H7), one
stage after the other in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txlab.engine.explain import Explanation
from txlab.experiments.kind import Kind
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario
from txlab.experiments.metric import Metric
from txlab.experiments.schema import Compute

if TYPE_CHECKING:
    from txlab.experiments.loaded_model import LoadedModel
    from txlab.experiments.protocol import Experiment, State

ALONE = (
    Metric("gold", "", "gold", "the labeller's criterion", less=False, primary=True),
    Metric("proxy", "", "proxy", "the reward model's score", less=False, primary=True),
    Metric("kl", "nats an answer", "KL", "from the fine-tuned model"),
    Metric("root_kl", "√nats", "√KL"),
    Metric("accuracy", "", "accuracy", "on the ranking just given, before learning from it", less=False),
    Metric(
        "accuracy_20", "", "accuracy", "on the last 20 rankings, before learning from each", less=False, primary=True
    ),
    Metric("val_accuracy", "", "accuracy", "pairs of unseen answers, by the gold score", less=False),
    Metric("loss", "nats", less=True, primary=True),
    Metric("val_loss", "nats", "val", less=True),
    *(Metric(name, "nats an answer") for name in ("k1", "k2", "k3")),
    Metric("kl_loss", "nats a token"),
    Metric("entropy", "nats a token"),
    Metric("length", "tokens"),
)


class HumanFeedbackKind(Kind):
    name = "human-feedback"
    title = "Human feedback"
    attends = True
    schema = HumanFeedbackScenario
    METRICS = (*ALONE, *(Metric(f"{each.key}/", each.unit, less=each.less) for each in ALONE))  # "kl/β=0.05" of a sweep
    screen = "feedback"

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Return the scenario with [compute] decided: models this small gain nothing from bfloat16 or the compiler."""
        from txlab.engine.cores import cores

        compute: Compute = scenario.compute
        chosen = {
            "dtype": "float32",
            "attention": "sdpa",
            "thread_mode": "operations",
            "compile": False,
            "cuda_graphs": False,
        }
        chosen = {name: value for name, value in chosen.items() if getattr(compute, name) == "auto"}
        device = "cpu" if compute.device == "auto" else compute.device
        threads = compute.threads or max(1, min(2, cores() // compute.processes))
        decided = compute.model_copy(update={**chosen, "device": device, "threads": threads})
        return scenario.model_copy(update={"compute": decided})

    def require_divisible(self, scenario: Any, count: int) -> None:
        from txlab.experiments.learning.kind import require_rows, require_whole_models

        for name in ("pretraining", "demonstrations", "policy"):
            section = getattr(scenario, name)
            if section.steps:
                parts = getattr(section, "minibatches", 1)
                given = f"{name}.batch" + (f" / {name}.minibatches" if parts > 1 else "")
                require_rows(count, section.batch // parts, given)
        require_whole_models(scenario)

    def require_possible(self, scenario: Any) -> None:
        """LabError if the instruction records or the rankings that it names cannot be read."""
        if scenario.rankings.preferences:
            from txlab.experiments.kinds.human_feedback.ranking import read_rankings

            read_rankings(scenario.rankings.preferences)
        if scenario.task.records:
            from txlab.engine.rlhf.instructions import read_instructions

            read_instructions(Path(scenario.task.records))

    def build(self, scenario: Any) -> Experiment:
        """The run before its first step. LabError if its records or preferences cannot be read."""
        from txlab.experiments.kinds.human_feedback.experiment import HumanFeedback
        from txlab.experiments.learning.gradient import prepare

        resolved = self.resolve(scenario)
        prepare(resolved.compute)
        return HumanFeedback(resolved)

    def open_model(self, scenario: Any, state: State) -> LoadedModel:
        from txlab.experiments.kinds.human_feedback.experiment import open_model

        return open_model(scenario, state)

    def adopt(self, scenario: Any, opened: LoadedModel) -> Any:
        from txlab.experiments.kinds.human_feedback.experiment import adopt

        return adopt(scenario, opened)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        from txlab.experiments.kinds.human_feedback.explanations import explain_metric

        return explain_metric(scenario, name, step, values, facts)


KIND = HumanFeedbackKind()
