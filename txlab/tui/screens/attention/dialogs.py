"""Two dialogs of the Attention screen: which model to open, and which weight to edit.

Names are completed from runs, folders under `models/` here, and parameters of the open model; paths work as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Input

from txlab.drawing.formatting import count
from txlab.drawing.run_names import name_runs
from txlab.drawing.text import visible
from txlab.errors import LabError, nearest
from txlab.runs.folder import is_run, list_runs
from txlab.tui.screens.attention.source import Edit
from txlab.tui.screens.dialogs import Choose, Dialog, describe_enter, key_hints
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.terminal import is_ascii

if TYPE_CHECKING:
    from txlab.runs.models import OpenModel

RECORDING = "the recording"
MOST = 200  # runs to offer


def open_dialog(recorded: bool) -> Choose:
    """Ask for a model by name; answers RECORDING, a listed name, or the typed text if it matches none."""
    first = [(RECORDING, "back to the frames of this run", False)] if recorded else []
    title = "Open a model: a run, RUN@STEP, HOST:RUN, or a folder with config.json and *.safetensors"
    return Choose(title, first, free=describe_enter("opens"))


def offer_models(dialog: Choose, root: Path) -> None:
    """Add the models found here to the dialog; called in a thread."""
    models = models_here(root)
    called = name_runs(root / name for name, _ in models if is_run(root / name))
    dialog.app.call_later(dialog.offer, [(name, about, False) for name, about in models], called)


def models_here(root: Path) -> list[tuple[str, str]]:
    """Return (name, description): runs with a checkpoint, newest first, and folders with weights under models/."""
    models: list[tuple[str, str]] = []
    for path in list_runs(root)[:MOST]:
        steps = sorted(int(each.name) for each in (path / "checkpoints").glob("[0-9]*") if each.name.isdecimal())
        if steps:
            models.append(
                (path.name, f"run, {len(steps)} checkpoint{'s' * (len(steps) > 1)}, newest at {count(steps[-1])}")
            )
    folders: dict[Path, str] = {}
    for folder in (Path("models"), root.parent / "models"):
        for config in sorted(folder.glob("*/config.json")):
            folders.setdefault(config.resolve(), str(config.parent))
    return models + [(name, "folder with weights") for name in folders.values()]


class EditWeightScreen(Dialog[Edit]):
    """Edits one number of a parameter: its name, its index, and its value while the model reads."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave it", id="weight.leave")]

    def __init__(self, opened: OpenModel) -> None:
        super().__init__()
        self.parameters = dict(opened.model.named_parameters())

    def compose(self) -> ComposeResult:
        names = list(self.parameters)
        with Vertical(classes="dialog"):
            yield Words(Content("Edit one number of a weight"), classes="dialog-title")
            yield Words("→ completes the name; taking the edit back restores the value", classes="dialog-body")
            yield Input(placeholder="name", id="name", suggester=SuggestFromList(names, case_sensitive=False))
            yield Input(placeholder="index, as 3, 4", id="index", select_on_focus=False)
            yield Input(placeholder="value", id="value", select_on_focus=False)
            yield Words("", id="verdict")
            yield Words(key_hints(("tab", "next"), ("enter", "do it"), ("esc", "leave it")), classes="dialog-keys")

    def on_mount(self) -> None:
        self.query_one("#name", Input).focus()
        self.judge()

    def edit(self) -> tuple[Edit, str]:
        """Return the edit so far and its effect, as in `0.12 → 2.5`. LabError if it is invalid."""
        name, index, value = (self.query_one(f"#{each}", Input).value.strip() for each in ("name", "index", "value"))
        if name not in self.parameters:
            raise LabError(f"no parameter is called {name!r}{nearest(name, self.parameters)}" if name else "which one?")
        shape = tuple(self.parameters[name].shape)
        try:
            places = tuple(int(part) for part in index.strip("[]").replace(",", " ").split())
        except ValueError:
            raise LabError(f"{index!r} is not an index: whole numbers, as 3, 4") from None
        if len(places) != len(shape) or not all(0 <= at < size for at, size in zip(places, shape, strict=False)):
            sizes = " × ".join(map(str, shape))
            raise LabError(f"{name} is {sizes}; the index has {len(shape)} whole numbers from 0 on")
        now = float(self.parameters[name].detach()[places])
        try:
            number = float(value.replace("−", "-"))
        except ValueError:
            raise LabError(f"it is {now:.4g} now; which value?") from None
        edit = {"kind": "edit-weight", "parameter": name, "index": list(places), "value": number}
        return edit, f"{now:.4g} → {number:g}"

    def judge(self) -> Edit | None:
        try:
            edit, words = self.edit()
        except LabError as error:
            edit, words = None, str(error)
        shown = visible(words, is_ascii(self))
        self.query_one("#verdict", Words).say(Content.styled(shown, "$quiet"))
        return edit

    def on_input_changed(self) -> None:
        self.judge()

    def on_input_submitted(self) -> None:
        edit = self.judge()
        if edit is not None:
            self.dismiss(edit)
        else:
            self.focus_next()

    def action_leave(self) -> None:
        self.dismiss(None)
