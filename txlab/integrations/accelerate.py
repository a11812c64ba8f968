"""accelerate as a run: `Accelerator(log_with=TxlabTracker("mine"))`; after this import `log_with="txlab"` works too.

The loop is the user's, so it handles requests itself: `run = accelerator.get_tracker("txlab").tracker`, then
`run.learning_rate(optimizer, scheduler)`, and `if not run.poll(): break` once per step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    import accelerate.tracking
    from accelerate.tracking import GeneralTracker
except ModuleNotFoundError as error:
    raise ImportError(f"{__name__} needs accelerate: pip install accelerate ({error})") from None

from txlab.errors import LabError
from txlab.runs.as_json import text_of
from txlab.runs.logger_run import LoggerRun
from txlab.runs.loop_values import metric
from txlab.runs.recording import Recording


class TxlabTracker(GeneralTracker):  # type: ignore[misc]
    """A tracker whose `tracker` is a Recording, silent in all processes but the first. `named`: of `txlab.record`."""

    name = "txlab"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, run_name: str = "accelerate", **named: Any) -> None:
        super().__init__()
        self.lasting = LoggerRun(run_name, **named)
        self.run  # noqa: B018  # begun now, so that a folder that cannot be written is refused before the training

    @property
    def run(self) -> Recording:
        return self.lasting.run

    @property
    def tracker(self) -> Recording:
        return self.run

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        self.run.configure(values)

    def log(self, values: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        """Record numbers; a dictionary of numbers as NAME/KEY, and any other value as a text under its name."""
        at = step if step is not None else 0 if self.run.silent else self.run.recorder.step
        numbers: dict[str, Any] = {}
        for name, value in values.items():
            inside = value.items() if isinstance(value, Mapping) else [("", value)]
            for key, each in inside:
                numbers[f"{text_of(name)}/{text_of(key)}" if key != "" else text_of(name)] = each
        for name in list(numbers):
            try:
                numbers[name] = metric(at, name, numbers[name])
            except LabError:
                self.run.text(at, name, text_of(numbers.pop(name)))
        self.run.add(self.lasting.place(at, numbers) if step is not None else at, numbers)

    def log_images(self, values: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        for name, images in values.items():
            for place, image in enumerate(images):
                at = max(self.run.framed, step or 0)
                self.run.image(at, name if len(images) == 1 else f"{name} {place + 1}", image)

    def finish(self) -> None:
        self.lasting.end()


if register := getattr(accelerate.tracking, "register_tracker_class", None):  # since 1.14
    register(TxlabTracker)
