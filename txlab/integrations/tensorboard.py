"""A run instead of TensorBoard's event files: `from txlab import SummaryWriter`, with the rest of the program
unchanged.

Scalars, texts, images, histograms, figures and hyperparameters are recorded; other methods of torch's writer
(add_graph, add_embedding, add_audio …) are accepted and ignored, which is noted once. Notable: steps belong to a tag,
and may come in any order; without a step a tag counts its calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from txlab.errors import LabError
from txlab.runs.origin import command_line
from txlab.runs.pictures import as_array
from txlab.runs.record import record

SHOWN = 8  # images of a batch, side by side


class SummaryWriter:
    """A drop-in for torch.utils.tensorboard.SummaryWriter; `run` is the recording, with features that torch's writer
    lacks.

    A relative `log_dir` is the run's name, in the folder of runs, without the "runs/" that programs put before it; an
    absolute one has the name as its last part, and its parent is the folder of runs.
    """

    def __init__(
        self,
        log_dir: str | Path | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
        **named: Any,
    ) -> None:
        """`named` are arguments of `txlab.record`; max_queue and flush_secs are ignored: rows are written
        immediately."""
        program = next((Path(word).stem for word in command_line()[1:] if word.endswith(".py")), "run")
        place = Path(log_dir) if log_dir else Path(program)
        parts = place.parts[1:] if place.parts[:1] == ("runs",) else place.parts
        name = (place.name if place.is_absolute() else "/".join(parts)) + comment
        self.run = record(name or "run", root=place.parent if place.is_absolute() else None, **named)
        self.steps: dict[str, int] = {}  # of tags logged without steps
        self.left_out: set[str] = set()

    @property
    def log_dir(self) -> str:
        return str(self.run.path)

    def get_logdir(self) -> str:
        return str(self.run.path)

    def _step(self, tag: str, step: Any) -> int:
        number = self.steps.get(tag, -1) + 1 if step is None else int(step)
        self.steps[tag] = number
        return number

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: Any = None, *_: Any, **__: Any
    ) -> None:
        self.run.add(self._step(tag, global_step), {tag: scalar_value})

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, walltime: Any = None
    ) -> None:
        values = {f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}
        self.run.add(self._step(main_tag, global_step), values)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: Any = None) -> None:
        self.run.text(self._step(tag, global_step), tag, str(text_string))

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None, dataformats: str = "CHW"
    ) -> None:
        array, order = as_array(img_tensor), dataformats.upper()
        if len(order) != array.ndim:
            raise LabError(f"{tag}: an image of shape {array.shape} is not {dataformats}")
        if "C" in order:
            array = np.moveaxis(array, order.index("C"), -1)
        self._show(tag, array, global_step)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None, dataformats: str = "NCHW"
    ) -> None:
        array, order = as_array(img_tensor), dataformats.upper()
        if sorted(order) != sorted("NCHW") or array.ndim != 4:
            raise LabError(f"{tag}: images of shape {array.shape} are not {dataformats}")
        array = np.transpose(array, [order.index(axis) for axis in "NHWC"])
        self._show(tag, np.concatenate(list(array[:SHOWN]), axis=1), global_step)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: Any = None
    ) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        self._show(tag, np.asarray(canvas.buffer_rgba())[..., :3], global_step)
        if close and "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close(figure)

    def _show(self, tag: str, image: Any, step: Any) -> None:
        self.run.image(max(self._step(tag, step), self.run.framed), tag, image)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = 64,
        walltime: Any = None,
        max_bins: int | None = None,
    ) -> None:
        many = bins if isinstance(bins, int) else max_bins or 64
        self.run.histogram(max(self._step(tag, global_step), self.run.framed), tag, values, min(many, 512))

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], *_: Any, **named: Any
    ) -> None:
        self.run.configure(hparam_dict)
        for tag, value in metric_dict.items():
            self.add_scalar(tag, value, named.get("global_step"))

    def flush(self) -> None:
        """Write values that wait on a device; all others are written already."""
        self.run.flush()

    def close(self) -> None:
        self.run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.run.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Any other add_*: accepted, and noted once."""
        if not name.startswith("add_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def leave_out(*_: Any, **__: Any) -> None:
            if name not in self.left_out:
                self.left_out.add(name)
                self.run.note(0, f"{name} is left out: a run has no place for it")

        return leave_out
