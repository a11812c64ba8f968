"""Runs of human feedback for the Feedback screen: written by the recorder as the kind writes them, and a real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from recorded import app_on, settle, still_open
from textual.pilot import Pilot

import txlab
from txlab.engine.rlhf.preferences import Question, Ranking, encode_line
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.preferences import QUESTIONS, Answers, append
from txlab.tui.app import TxlabApp
from txlab.tui.screens.feedback.screen import FeedbackScreen

STAGES = [["demonstrations", 0, 10], ["rankings", 10, 50], ["policy", 50, 70]]
SWEEP = [*STAGES[:2], ["policy β=0.3", 50, 70], ["policy β=0", 70, 90]]


def question(number: int, answers: int = 4) -> Question:
    return Question(
        f"q{number:04d}", f"film: heat {number}\nreview:", tuple(f" answer {number}.{i}" for i in range(answers))
    )


def feedback_run(
    root: Path,
    name: str = "people",
    step: int = 10,
    questions: int = 40,
    labeller: str = "human",
    stages: Sequence[Sequence[object]] = STAGES,
    texts: Sequence[str] = (" dull, bold", " bold, bright", " clever, fine"),
    prompt: str = "film: heat\nreview:",
) -> Path:
    """A run at `step` of these stages, alive, with its questions asked."""
    last = int(stages[-1][2])  # type: ignore[call-overload]
    config = {"rankings": {"labeller": labeller, "steps": 40}}
    run = txlab.record(name, root=root, steps=last, title="people rank")
    still_open.append(run)
    directory = RunDirectory(run.path)
    if questions:
        append(directory, QUESTIONS, [encode_line(question(number)) for number in range(1, questions + 1)])
    rng = np.random.default_rng(3)
    shown = {f"prompt/{i}": prompt for i in range(2)}
    for at in range(1, step + 1):
        stage = next(str(name) for name, first, end in stages if at <= int(end))  # type: ignore[call-overload]
        facts: dict[str, object] = {"stage": stage.partition(" ")[0], "stages": [list(each) for each in stages]}
        kept, tensors, tokens = dict(shown), {}, {}
        for i in range(2):
            kept |= {f"before/{i}": texts[0], f"during/{i}": f"{texts[1]} {at}"}
        facts |= {"gold_before": [-1.25, 2.0], "gold_now": [at / 10, 2.0]}
        if stage == "rankings":
            asked = question(at - 10)
            ranking = Ranking(f"sim-{asked.id}", asked.id, asked.prompt, asked.answers, (2, 1, 3, 4), "simulated")
            facts["ranking"] = ranking.as_row() | {"answers": list(asked.answers), "ranks": [2, 1, 3, 4]}
            tensors["ranking/scores"] = np.array([0.5, 0.25, -1, -2], np.float32)
            tensors["ranking/scores_after"] = np.array([0.5, 1.25, -1, -2], np.float32)
            if labeller == "human":
                facts["open"] = [f"q{number:04d}" for number in range(1, questions + 1)]
                tensors["open/scores"] = rng.standard_normal((questions, 4)).astype(np.float32)
            run.log(at, loss=1 / at, rankings=at - 10, accuracy=0.75, accuracy_20=0.5 + at / 200, val_accuracy=0.6)
        elif stage.startswith("policy"):
            mark = stage.removeprefix("policy ") if " " in stage else ""
            mark = f"/{mark}" if mark else ""
            x = (at - 50 if at <= 70 else at - 70) / 5
            beta = 0.3 if at <= 70 else 0.0
            row = {"loss": 1.0, "proxy": x / 2, "gold": x - x * x / 4, "kl": x * x, "root_kl": x, "beta": beta}
            run.log(at, **{f"{metric}{mark}": value for metric, value in row.items()})
            facts["probe_scores"] = {"before": [0.0, 0.5], "now": [x, 0.5]}
            facts |= {"beta": 0.3, "gamma": 1.0, "lambda": 0.95, "clip": 0.2, "value_clip": 0.2}
            facts |= {"whiten_mean": 0.1, "whiten_sd": 2.0}
            tensors |= episode_tensors(rng)
            tokens |= {"episode/0": list(texts[2][:6]), "episode/1": ["a", "b", "\n"]}
            kept |= {"episode/prompt/0": prompt, "episode/prompt/1": prompt}
        else:
            run.log(at, loss=3 / at, lr=1e-3)
        run.frame(at, tensors, tokens=tokens, texts=kept, facts=facts)
    info = RunInfo.load(directory)
    info.kind, info.facts = "human-feedback", {**info.facts, "stages": [list(each) for each in stages]}
    info.save(directory)
    run.recorder.info.kind, run.recorder.info.facts = info.kind, info.facts
    lines = [f"[rankings]\nlabeller = '{config['rankings']['labeller']}'\nsteps = 40\n"]
    (run.path / "scenario.toml").write_text("kind = 'human-feedback'\n" + lines[0])
    return run.path


def episode_tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Two episodes of 6 and 3 tokens whose δ, advantages and returns agree with their rewards and values."""
    T, gamma, lam = 6, 1.0, 0.95
    found = {name: np.full((2, T), np.nan, np.float32) for name in ("reward", "value", "delta", "advantage", "return")}
    for row, length in enumerate((6, 3)):
        rewards, values = rng.standard_normal(length), rng.standard_normal(length)
        after = np.append(values[1:], 0.0)
        deltas = rewards + gamma * after - values
        advantages = np.array(
            [sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, length)) for t in range(length)]
        )
        for name, found_row in zip(found, (rewards, values, deltas, advantages, advantages + values), strict=True):
            found[name][row, :length] = found_row
    mask = np.isfinite(found["reward"])
    logprob = np.where(mask, -1.0, np.nan)
    found |= {"whitened": (found["advantage"] - 0.1) / 2.0, "logprob": logprob, "reference": logprob - 0.25}
    found |= {"kl_token": np.where(mask, 0.25, np.nan), "exact_kl": np.where(mask, 0.3, np.nan)}
    found |= {"ratio": np.where(mask, 1.3, np.nan), "clipped": np.where(mask, found["whitened"] > 0, np.nan)}
    found |= {"value_clipped": np.where(mask, 0.0, np.nan)}
    named = {f"episode/{name}": np.asarray(values, np.float32) for name, values in found.items()}
    return {**named, "episode/score": np.array([1.5, -0.5], np.float32), "episode/gold": np.array([2, -1], np.float32)}


def screen_of(app: TxlabApp) -> FeedbackScreen:
    assert isinstance(app.screen, FeedbackScreen)
    return app.screen


async def opened(pilot: Pilot[None], app: TxlabApp) -> FeedbackScreen:
    await pilot.press("f7")
    await settle(pilot, lambda: screen_of(app).snap is not None)
    return screen_of(app)


def answers_of(run: Path) -> Answers:
    found = Answers(RunDirectory(run))
    found.refresh()
    return found


__all__ = ["answers_of", "app_on", "feedback_run", "opened", "question", "screen_of"]
