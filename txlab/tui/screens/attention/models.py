"""Two dialogs of the Attention screen: which model is opened, and which weight is edited.

Notable: names are completed from what there is: runs and folders under `models/` here, parameters of the open model;
a path may be typed as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Input

from txlab.drawing.text import visible
from txlab.errors import LabError, nearest
from txlab.tui.screens.attention.switches import whole_numbers
from txlab.tui.screens.dialogs import Choose, Dialog, key_hints
from txlab.tui.screens.words import Words

if TYPE_CHECKING:
    from txlab.runs.models import OpenModel

RECORDED = "the recording"
MOST = 200  # runs that are offered


def models_here(root: Path) -> list[tuple[str, str]]:
    """(name, what it is): runs with a checkpoint, newest first, and folders with weights under models/."""
    from txlab.runs.finding import list_runs

    found: list[tuple[str, str]] = []
    for path in list_runs(root)[:MOST]:
        steps = sorted(int(each.name) for each in (path / "checkpoints").glob("[0-9]*") if each.name.isdecimal())
        if steps:
            found.append((path.name, f"run, {len(steps)} checkpoint{'s' * (len(steps) > 1)}, newest at {steps[-1]}"))
    seen: set[Path] = set()
    for folder in (Path("models"), root.parent / "models"):
        for config in sorted(folder.glob("*/config.json")) if folder.is_dir() else []:
            name = str(config.parent)
            if config.resolve() not in seen:
                seen.add(config.resolve())
                found.append((name, "folder with weights of others"))
    return found


class OpenModelScreen(Choose):
    """A model by its name; answers "" for the recording, and what was typed where it is none of the list."""

    def __init__(self, root: Path, recorded: bool = False) -> None:
        first = [(RECORDED, "back to the frames of this run", False)] if recorded else []
        super().__init__(
            "Open a model: a run, RUN@STEP, or a folder with config.json and *.safetensors", [*first, ("…", "", False)]
        )
        self.root, self.first = root, first

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self.look, thread=True, group="models", exit_on_error=False)

    def look(self) -> None:
        found = models_here(self.root)
        self.app.call_later(self.take, found)

    def take(self, found: list[tuple[str, str]]) -> None:
        if self.is_attached:
            self.choices = [*self.first, *((name, about, False) for name, about in found)]
            words = self.query_one(Input).value.lower().split()
            self.found = [row for row in self.choices if all(word in f"{row[0]} {row[1]}".lower() for word in words)]
            self.draw()

    def on_input_submitted(self) -> None:
        typed = self.query_one(Input).value.strip()
        name = self.found[self.index][0] if self.found else typed
        if name == "…" or not name:
            return
        self.dismiss("" if name == RECORDED else name)


class EditWeightScreen(Dialog[Mapping[str, Any]]):
    """A number of a parameter: its name, its index, its value while the model reads."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave it", id="weight.leave")]

    def __init__(self, opened: OpenModel) -> None:
        super().__init__()
        self.parameters = dict(opened.model.named_parameters())

    def compose(self) -> ComposeResult:
        names = list(self.parameters)
        with Vertical(classes="dialog"):
            yield Words(Content("Edit one number of a weight"), classes="dialog-title")
            yield Words("→ completes the name; switched off, the old value is back", classes="dialog-body")
            yield Input(placeholder="name", id="name", suggester=SuggestFromList(names, case_sensitive=False))
            yield Input(placeholder="index, as 3, 4", id="index", select_on_focus=False)
            yield Input(placeholder="value", id="value", select_on_focus=False)
            yield Words("", id="verdict")
            yield Words(key_hints(("tab", "next"), ("enter", "do it"), ("esc", "leave it")), classes="dialog-keys")

    def on_mount(self) -> None:
        self.query_one("#name", Input).focus()
        self.judge()

    def edit(self) -> Mapping[str, Any]:
        """The switch as it stands. LabError says what is wrong."""
        name, index, value = (self.query_one(f"#{each}", Input).value.strip() for each in ("name", "index", "value"))
        if name not in self.parameters:
            raise LabError(f"no parameter is called {name!r}{nearest(name, self.parameters)}" if name else "which one?")
        shape = tuple(self.parameters[name].shape)
        sizes = " × ".join(map(str, shape))
        places = whole_numbers(index)
        if len(places) != len(shape) or not all(0 <= at < size for at, size in zip(places, shape, strict=False)):
            raise LabError(f"{name} is {sizes}; the index has {len(shape)} whole numbers from 0 on")
        now = float(self.parameters[name].detach()[places])
        try:
            number = float(value.replace("−", "-"))
        except ValueError:
            raise LabError(f"it is {now:.4g} now; which value?") from None
        return {"kind": "edit-weight", "parameter": name, "index": list(places), "value": number}

    def judge(self) -> Mapping[str, Any] | None:
        try:
            edit, said, style = self.edit(), "", "$quiet"
        except LabError as error:
            edit, said, style = None, str(error), "$quiet"
        if edit is not None:
            now = float(self.parameters[edit["parameter"]].detach()[tuple(edit["index"])])
            said = f"{now:.4g} → {edit['value']:g}"
        self.query_one("#verdict", Words).say(Content.styled(visible(said, getattr(self.app, "ascii", False)), style))
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
