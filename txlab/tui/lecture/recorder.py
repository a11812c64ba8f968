"""A lecture recorded by doing: each screen, its run and the keys pressed there become steps of a file.

Notable: a screen that is left is dropped, so that each step begins, as when it is played, with a new one. The key that
opens a screen, with the dialog in which it was typed, belongs to no step: the step after it names the screen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import tomli_w
from textual import events
from textual.screen import Screen
from textual.widgets import Input

from txlab.errors import LabError, convert_os_errors
from txlab.files import atomic_write
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.lecture import TYPED, Step
from txlab.tui.console import Console
from txlab.tui.lecture.keys import PLAYER_KEYS
from txlab.tui.lecture.strip import remove_strip, show_strip

UNSAID = "(what you say here)"


@dataclass(frozen=True)
class Pressed:
    """A key as it came: whether it typed into a line, and how many screens were in front of each other."""

    event: events.Key
    typing: bool
    depth: int


class Recorder:
    """Takes the place of a player while a lecture is recorded."""

    notes_shown, waiting, trouble = False, "", ""

    def __init__(self, app: Console, file: Path) -> None:
        self.app, self.file = app, file
        self.runs: dict[Path, dict[str, Any]] = {}
        self.steps: list[dict[str, Any]] = []
        self.pressed: list[Pressed] = []
        self.mode = app.current_mode or "lab"
        self.new = True  # the screen has no step yet
        self.asking = False

    @property
    def step(self) -> Step:
        say = "pgdn ends a step and asks for its sentence; so does opening another screen. ^l ends the recording."
        return Step(title=f"recording {self.file.name}", say=say, screen=self.mode)

    @property
    def position(self) -> str:
        return f"step {len(self.steps) + 1}"

    def begin(self) -> None:
        self.app.screen_change_signal.subscribe(self.app, self.screen_changed)
        self.app.watch(self.app, "current_run", self.run_changed, init=False)
        show_strip(self.app.screen, self)

    def settings_of(self, scenario: str) -> list[str]:
        return []

    # What happens.

    def admits(self, event: events.InputEvent) -> bool:
        """Note a key before it is handled."""
        if not isinstance(event, events.Key) or self.asking:
            return True
        if event.key == "ctrl+q":
            self.end_step(UNSAID)
        elif event.key not in PLAYER_KEYS:
            typing = isinstance(self.app.focused, Input) and event.is_printable
            self.pressed.append(Pressed(event, typing, len(self.app.screen_stack)))
        return True

    def forget_cause(self) -> list[Pressed]:
        """Drop the key that is being handled, with the dialog in which it was pressed; return the keys after it."""
        handled = [place for place, each in enumerate(self.pressed) if each.event is self.app.key_order.current]
        if not handled:
            return []
        first = max((place for place in range(handled[0] + 1) if self.pressed[place].depth == 1), default=0)
        later, self.pressed = self.pressed[handled[0] + 1 :], self.pressed[:first]
        return later

    def run_changed(self) -> None:
        """A key has chosen or started a run, which steps name."""
        if self.app.lecture is self and self.app.current_mode == self.mode == "lab":
            self.pressed += self.forget_cause()

    def screen_changed(self, screen: Screen[object]) -> None:
        if self.app.lecture is not self:
            remove_strip(screen)
            return
        if self.app.current_mode not in (self.mode, None):
            later = self.forget_cause()
            if self.pressed and self.mode != "lab":  # where one only looks for a run
                self.end_step(UNSAID)
            left, self.mode, self.new, self.pressed = self.mode, self.app.current_mode or "", True, later
            self.app.call_later(self.drop, left)
        show_strip(screen, self)

    async def drop(self, mode: str) -> None:
        """Remove a screen that was left; the next visit is a new one."""
        entry = next((entry for entry in self.app.entries if entry.name == mode), None)
        if entry is not None and mode != self.app.current_mode:
            await self.app.remove_mode(mode)
            self.app.add_mode(mode, entry.open)

    # Steps.

    def forward(self) -> None:
        """End a step: ask for its sentence."""
        from txlab.tui.screens.dialogs import AskValue

        def said(text: str | None) -> None:
            self.asking = False
            if text is not None:
                self.end_step(text or UNSAID)
            show_strip(self.app.screen, self)

        if not self.asking:
            self.asking = True
            self.app.push_screen(AskValue("What do you say here?", "A sentence or two, shown under the screen."), said)

    def back(self) -> None:
        """Drop the last step."""
        if self.steps:
            self.new = not self.steps.pop().get("keep", False)
            self.write()
            show_strip(self.app.screen, self)

    def toggle_notes(self) -> None: ...

    def leave(self) -> None:
        """End the recording."""
        if self.pressed and self.mode != "lab":
            self.end_step(UNSAID)
        self.app.lecture = None
        remove_strip(self.app.screen)
        self.app.notify(
            f"{len(self.steps)} steps are in {self.file}. txlab lecture {self.file} --prepare computes what they show, "
            "without --prepare it plays them",
            markup=False,
        )

    def end_step(self, say: str) -> None:
        if not self.pressed and not self.new:
            return
        step: dict[str, Any] = {"say": say}
        if self.new:
            step |= {"screen": self.mode} | self.run_shown()
        else:
            step |= {"keep": True}
        if self.pressed:
            step["keys"] = written_keys(self.pressed)
        self.steps.append(step)
        self.new, self.pressed = False, []
        self.write()

    def run_shown(self) -> dict[str, str]:
        """Return the run of the screen, and remember how to train it again."""
        path = self.app.current_run
        if path is None or self.mode == "lab":
            return {}
        if path not in self.runs:
            self.runs[path] = described_run(path, {run["name"] for run in self.runs.values()})
        return {"run": self.runs[path]["name"]}

    def write(self) -> None:
        """Write the file as it is now."""
        contents = {"title": self.file.stem, "run": list(self.runs.values()), "step": self.steps}
        text = tomli_w.dumps({key: value for key, value in contents.items() if value}, multiline_strings=True)
        try:
            with convert_os_errors(f"{self.file} cannot be written"):
                atomic_write(self.file, text.encode())
        except LabError as error:
            self.app.report(error)


def described_run(path: Path, taken: set[str]) -> dict[str, Any]:
    """Return the [[run]] of a run: its scenario, or its own file of one, and the settings that differ."""
    from txlab.runs.scenario import installed_scenarios

    info = RunInfo.load(RunDirectory(path))
    name = next(
        name for name in (info.scenario, *(f"{info.scenario}-{n}" for n in range(2, 10_000))) if name not in taken
    )
    if info.scenario not in installed_scenarios():
        return {"name": name, "scenario": str(path / "scenario.toml")}
    changes = [f"{key}={json.dumps(value)}" for key, value in info.changes.items()]
    return {"name": name, "scenario": info.scenario} | ({"set": changes} if changes else {})


def written_keys(pressed: list[Pressed]) -> list[str]:
    """Return keys as a lecture writes them: typed letters as one text, repeated keys with their number."""
    written: list[str] = []
    for typing, group in groupby(pressed, lambda each: each.typing):
        keys = [each.event for each in group]
        if typing:
            written.append("type " + "".join(key.character or "" for key in keys))
            continue
        for name, same in groupby(TYPED.get(key.key, key.key) for key in keys):
            name, times = "space" if name == " " else name, len(list(same))
            written.append(name if times == 1 else f"{name} {times}")
    return written
