"""Where the time of learning from feedback goes: python benchmarks/rlhf.py [--repeats N] [--pipeline]

The model, task and settings are those of `feedback-reviews`: 64 answers of up to 48 characters an update of PPO.
1. Shares of an update: drawing answers; the reward model's scores; rereading them with policy, reference and value
   function; learning in two passes of four minibatches. Median over the updates of each share.
2. Batched generation with the cache and by the same function without it, which reads every answer from the start for
   each new token. Both draw the same answers (it is checked); they alternate, and the median ratio is printed.
3. With --pipeline, the whole scenario as `txlab run` does it, recording included: seconds of each stage.
Everything but the third on one thread.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from txlab.engine.transformer.generation import generate_batch
from txlab.experiments.kinds.human_feedback import KIND
from txlab.experiments.kinds.human_feedback.experiment import HumanFeedback
from txlab.experiments.kinds.human_feedback.policy import PolicyLearning
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario


def at_the_policy() -> HumanFeedback:
    """The experiment in its last stage; the earlier ones are short, for how good they are costs no time."""
    scenario = HumanFeedbackScenario.model_validate(
        {
            "compute": {"threads": 1},
            "demonstrations": {"steps": 150},
            "rankings": {"steps": 20, "settling": 10},
            "policy": {"steps": 1000},
        }
    )
    experiment: HumanFeedback = KIND.build(scenario)  # type: ignore[assignment]
    while not isinstance(experiment.stage, PolicyLearning):
        experiment.step()
        experiment.go_on()
    return experiment


def time_calls(seconds: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            seconds[name] += time.perf_counter() - begun

    return call


def shares(experiment: HumanFeedback, repeats: int) -> None:
    stage = experiment.stage
    assert isinstance(stage, PolicyLearning)
    seconds_of: dict[str, float] = defaultdict(float)
    stage.texts.sample_answers = time_calls(seconds_of, "generation", stage.texts.sample_answers)  # type: ignore[method-assign]
    stage.handed.proxy = time_calls(seconds_of, "reward", stage.handed.proxy)  # type: ignore[method-assign]
    stage.collect = time_calls(seconds_of, "collect", stage.collect)  # type: ignore[method-assign]
    stage.update = time_calls(seconds_of, "learning", stage.update)  # type: ignore[method-assign]
    parts: dict[str, list[float]] = defaultdict(list)
    for number in range(repeats + 1):
        seconds_of.clear()
        begun = time.perf_counter()
        experiment.step()
        whole = time.perf_counter() - begun
        if number:  # the first one warms up
            seconds_of["reading"] = seconds_of.pop("collect") - seconds_of["generation"] - seconds_of["reward"]
            for name, seconds in seconds_of.items():
                parts[name].append(seconds / whole)
            parts["ms"].append(1000 * whole)
    shares_text = ", ".join(
        f"{name} {statistics.median(parts[name]):.1%}" for name in ("generation", "reward", "reading", "learning")
    )
    print(f"an update takes {statistics.median(parts['ms']):.0f} ms: {shares_text}")


def cache(experiment: HumanFeedback, repeats: int) -> None:
    texts, model = experiment.texts, experiment.model()
    prompts = [texts.prompt_ids(prompt) for prompt in texts.prompts("benchmark", 0, 64)]
    ways: dict[bool, list[float]] = {True: [], False: []}
    written = {}
    for _ in range(repeats + 1):
        for cached in ways:
            draws = torch.Generator().manual_seed(1)
            begun = time.perf_counter()
            written[cached] = generate_batch(
                model,
                prompts,
                texts.most,
                generator=draws,
                temperature=1.0,
                never=texts.never,
                end=texts.end,
                cached=cached,
            )
            ways[cached].append(time.perf_counter() - begun)
    assert written[True] == written[False], "with and without the cache different answers were drawn"
    ratio = statistics.median(slow / fast for fast, slow in zip(ways[True][1:], ways[False][1:], strict=True))
    tokens = sum(map(len, written[True]))
    with_cache, without = (1000 * statistics.median(ways[cached][1:]) for cached in (True, False))
    print(
        f"64 answers of {tokens} tokens: {with_cache:.0f} ms with the cache, {without:.0f} without, ratio {ratio:.1f}"
    )


def pipeline(threads: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "txlab", "run", "feedback-reviews", "--out", f"{folder}/run"]
        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        begun = time.perf_counter()
        subprocess.run([*command, f"--set=compute.threads={threads}"], check=True, env=environment, capture_output=True)
        whole = time.perf_counter() - begun
        rows = [json.loads(line) for line in (Path(folder) / "run/events.jsonl").read_text().splitlines()]
        timed_rows = [row for row in rows if row["event"] == "metrics"]
        info = json.loads((Path(folder) / "run/run.json").read_text())
        ends = {}
        for name, first, last in info["facts"]["stages"]:
            inside = [row["time"] for row in timed_rows if first < row["step"] <= last]
            ends[name] = max(inside) - min(inside)
        parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in ends.items())
        print(f"feedback-reviews on {threads} threads: {whole:.0f} s ({parts})")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="updates, and turns of each generation")
    parser.add_argument("--pipeline", action="store_true", help="run the whole scenario too, about three minutes")
    asked = parser.parse_args()
    experiment = at_the_policy()
    shares(experiment, asked.repeats)
    cache(experiment, asked.repeats)
    if asked.pipeline:
        pipeline(2)


if __name__ == "__main__":
    main()
