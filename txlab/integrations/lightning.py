"""Lightning as a run: `Trainer(logger=TxlabLogger("mine"), callbacks=[TxlabCallback(watch=ids)])`.

The logger records what a module logs; the callback handles requests and probes the module. Notable: fit, validate and
test of one logger are one run (`LoggerRun`). Lightning logs some values at earlier steps, and the same step twice; both
are recorded. Steps are updates of the optimizer, so with accumulated gradients a pause waits for the update.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.loggers.logger import Logger
    from lightning.pytorch.utilities import rank_zero_only
except ImportError as error:
    try:  # the package's other name
        from pytorch_lightning.callbacks import Callback
        from pytorch_lightning.loggers.logger import Logger
        from pytorch_lightning.utilities import rank_zero_only
    except ModuleNotFoundError:
        raise ImportError(f"{__name__} needs lightning: pip install lightning ({error})") from None

from txlab.errors import LabError, one_line
from txlab.runs import agreement
from txlab.runs.logger_run import LoggerRun
from txlab.runs.recording import Recording

ENDS = {"success": "done", "finished": "done", "failed": "failed"}


class TxlabLogger(Logger):  # type: ignore[misc]
    """A Logger whose `experiment` is a Recording, begun when it is needed. `named`: arguments of `txlab.record`."""

    def __init__(self, name: str = "lightning", **named: Any) -> None:
        super().__init__()
        self.lasting = LoggerRun(name, **named)

    @property
    def experiment(self) -> Recording:
        return self.lasting.run

    @property
    def name(self) -> str:
        return self.lasting.name

    @property
    def version(self) -> str:
        return self.lasting.known.path.name if self.lasting.known is not None else ""

    @property
    def log_dir(self) -> str | None:
        return str(self.lasting.known.path) if self.lasting.known is not None else None

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(self, params: Mapping[str, Any] | Namespace, *_: Any, **__: Any) -> None:
        self.experiment.configure(vars(params) if isinstance(params, Namespace) else params)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        run = self.experiment
        run.add(run.recorder.step if step is None else self.lasting.place(step, metrics), metrics)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_image(self, key: str, images: list[Any], step: int | None = None, **_: Any) -> None:
        run = self.experiment
        for place, image in enumerate(images):
            at = max(run.framed, run.recorder.step if step is None else self.lasting.place(step, ()))
            run.image(at, key if len(images) == 1 else f"{key} {place + 1}", image)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def finalize(self, status: str) -> None:
        if (run := self.lasting.known) is not None and run.open:
            error = sys.exc_info()[1] if status == "failed" else None
            if isinstance(error, KeyboardInterrupt):
                self.lasting.end("interrupted", type(error).__name__)
            elif error is not None:
                self.lasting.end("failed", f"{type(error).__name__}: {one_line(error)}", error)
            else:
                stopped = run.steering.stopping and status != "failed"
                self.lasting.end(None if stopped else ENDS.get(status, "done"))  # type: ignore[arg-type]


class TxlabCallback(Callback):  # type: ignore[misc]
    """Lets the user pause, step, save, stop and change the learning rate of a training whose logger is a TxlabLogger.

    watch  an input of the module: its attention there is recorded every `every` steps
    """

    def __init__(self, watch: Any = None, every: int = 100, tokenizer: Any = None) -> None:
        self.probe, self.every, self.tokenizer = watch, every, tokenizer
        self.run: Recording | None = None
        self.lasting: LoggerRun | None = None
        self.step = -1

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        logger = next((each for each in trainer.loggers if isinstance(each, TxlabLogger)), None)
        if logger is None:
            raise LabError(
                "TxlabCallback needs a TxlabLogger among the trainer's loggers: Trainer(logger=TxlabLogger())"
            )
        self.lasting = logger.lasting
        self.lasting.begin_training(trainer.global_step)
        run = self.run = logger.experiment
        first = self.lasting.first
        if not run.silent and trainer.estimated_stepping_batches > 0:
            most = trainer.estimated_stepping_batches
            run.recorder.info.steps = first + int(most) if most != float("inf") else 0
        self.step = trainer.global_step
        if trainer.optimizers:
            schedulers = [each.scheduler for each in trainer.lr_scheduler_configs]
            run.learning_rate(trainer.optimizers[0], schedulers[0] if schedulers else None)

        def save(step: int) -> Path:
            path = Path(trainer.default_root_dir) / "checkpoints" / f"step={step - first}.ckpt"
            trainer.save_checkpoint(path)
            return path

        run.saves(save)
        if self.probe is not None:
            run.watch(pl_module, self.probe, self.every, tokenizer=self.tokenizer)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if self.run is None or self.lasting is None or trainer.global_step == self.step:
            return  # gradients are still being accumulated
        self.step = trainer.global_step
        if self.step % trainer.log_every_n_steps == 0 and trainer.optimizers:
            self.run.add(self.lasting.first + self.step, {"lr": trainer.optimizers[0].param_groups[0]["lr"]})
        if not self.run.poll(self.lasting.first + self.step, together=agreement.several()):
            trainer.should_stop = True
            trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None  # which would delay the stop
