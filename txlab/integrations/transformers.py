"""Hugging Face's Trainer as a run: `Trainer(…, callbacks=[TxlabCallback("mine", watch="a short text")])`.

Notable: the Trainer's scheduler computes the learning rate from its base rates at each step, so those are scaled; a
change shows in the `lr` of the next step. A pause blocks within a step; stop and checkpoint are the Trainer's own
(`should_training_stop`, `should_save`), so `resume_from_checkpoint` works as usual. A second `train()` and an
`evaluate()` after it belong to the same run (`LoggerRun`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as error:
    raise ImportError(f"{__name__} needs transformers: pip install transformers ({error})") from None

from txlab.runs import agreement
from txlab.runs.logger_run import LoggerRun
from txlab.runs.recording import Recording

RENAMED = {"learning_rate": "lr"}  # the name used by screens and requests


class TxlabCallback(TrainerCallback):  # type: ignore[misc]
    """Records a training by the Trainer, and lets the user pause, step, change and stop it.

    watch  a text or an input of the model: its attention there is recorded every `every` steps
    named  arguments of `txlab.record`; `run` is the recording while it trains
    """

    def __init__(self, name: str = "trainer", watch: Any = None, every: int = 100, **named: Any) -> None:
        self.name, self.probe, self.every, self.named = name, watch, every, named
        self.run: Recording | None = None
        self.lasting: LoggerRun | None = None
        self.saving = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **around: Any) -> None:
        config = {**args.to_sanitized_dict(), **(self.named.get("config") or {})}
        model: Any = around.get("model")
        if hasattr(getattr(model, "config", None), "to_diff_dict"):
            config["model"] = model.config.to_diff_dict()
        if self.lasting is None:
            self.lasting = LoggerRun(self.name, **{"steps": state.max_steps, **self.named, "config": config})
        self.lasting.begin_training(state.global_step)
        run, first = self.lasting.run, self.lasting.first
        self.run = run
        if first and not run.silent:
            run.recorder.info.steps = first + state.max_steps
        run.learning_rate(around["optimizer"], around.get("lr_scheduler"))

        def save(step: int) -> Path:
            self.saving = True
            return Path(args.output_dir) / f"checkpoint-{step - first}"

        run.saves(save)
        if self.probe is not None:
            run.watch(model, self.probe, self.every, tokenizer=around.get("processing_class"))

    def on_step_end(self, args: Any, state: Any, control: Any, **around: Any) -> None:
        if self.run is not None and self.lasting is not None:
            at = self.lasting.first + state.global_step
            control.should_training_stop |= not self.run.poll(at, together=agreement.several())
            control.should_save |= self.saving

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        if self.lasting is not None:
            numbers = {RENAMED.get(n, n): v for n, v in (logs or {}).items() if isinstance(v, (int, float))}
            numbers.pop("total_flos", None)
            at = self.lasting.place(state.global_step, numbers)
            self.lasting.run.add(at, numbers)

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        """After a training, `evaluate()` continues its run; the numbers have been logged."""
        if self.lasting is not None and self.run is None:
            self.lasting.end()

    on_predict = on_evaluate

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.run is not None and self.lasting is not None and not self.saving:
            at = self.lasting.first + state.global_step
            self.run.checkpoint(at, Path(args.output_dir) / f"checkpoint-{state.global_step}")
        self.saving = False

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.run is not None and self.lasting is not None:
            loss = next((row["loss"] for row in reversed(state.log_history) if "loss" in row), 0.0)
            self.lasting.end(
                "failed" if not math.isfinite(loss) else None, "" if math.isfinite(loss) else "loss is NaN"
            )
            self.run = None
