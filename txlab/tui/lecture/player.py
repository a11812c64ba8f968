"""The player of a lecture: one key forward, one back; each step restores its state.

Notable: a step that keeps the state before it is added to the screen if no key was pressed since; otherwise it
is reached again from the last full step, so that it always looks the same. The key that leads on (`press`) may be
pressed by hand; going forward presses it too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from rich.style import Style
from textual import events
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from txlab.drawing.formatting import count
from txlab.errors import LabError
from txlab.runs.lecture import Lecture, Step, pressed_keys
from txlab.runs.lecture_progress import forget_progress, write_progress
from txlab.runs.lecture_runs import find_lecture_run
from txlab.tui.console import Console
from txlab.tui.lecture.go_to import add, close_dialogs, go_to, newest_run, press, settle
from txlab.tui.lecture.keys import PLAYER_KEYS
from txlab.tui.lecture.strip import PointedWords, remove_strip, show_strip

UNTIL = 0.5  # seconds between two looks at the step of the run
POINTED = "-pointed"  # class of the widgets pointed at


class Player:
    """A lecture in the console. `number` is the step shown, from 0; `reached` the one whose state the console has, None
    while that is being set; `touched` whether a key or the mouse was used since."""

    def __init__(self, app: Console, lecture: Lecture, folder: Path, notes: bool = False) -> None:
        self.app, self.lecture, self.folder = app, lecture, folder
        self.notes_shown = notes
        self.number = 0
        self.reached: int | None = None
        self.touched = False
        self.waiting = self.trouble = ""
        self.early: list[events.InputEvent] = []  # that came while a state was being set

    @property
    def step(self) -> Step:
        return self.lecture.steps[self.number]

    @property
    def position(self) -> str:
        return f"{self.number + 1} of {len(self.lecture.steps)}"

    def begin(self, number: int = 0, again: bool = False) -> None:
        """Begin at a step; `again`: it is that at which the lecture was left."""
        self.app.screen_change_signal.unsubscribe(self.app)  # of a lecture before this one
        self.app.screen_change_signal.subscribe(self.app, self.screen_changed)
        self.number, self.waiting = number, "going on here" if again and number else ""
        self.app.hall = self.app.hall or self.lecture.contents.hall
        self.go(number)

    # Going.

    def go(self, number: int, pressed: bool = False) -> None:
        """Go to a step; `pressed`: the key that leads to it was pressed by hand."""
        if 0 <= number < len(self.lecture.steps):
            self.app.run_worker(self.show(number, pressed), group="lecture", exclusive=True, exit_on_error=False)

    def forward(self) -> None:
        if self.number + 1 == len(self.lecture.steps):
            self.app.notify(f"this was the last step of {self.lecture.name}; ctrl+l leaves the lecture", markup=False)
        self.go(self.number + 1)

    def back(self) -> None:
        self.go(self.number - 1)

    async def show(self, number: int, pressed: bool) -> None:
        """Show a step: its sentence at once, then its state."""
        before, self.reached = self.reached, None
        self.early.clear()
        led = before is not None and number == before + 1 and not pressed  # by going forward
        if number != self.number:
            self.number, self.waiting = number, ""
        self.trouble = ""
        self.keep_place()
        self.point()
        try:
            await self.restore(number, before, led, pressed)
        except LabError as error:
            self.trouble = str(error)
        except Exception as error:  # a step that fails must not end a lecture
            self.app.report(error)
        self.reached, self.touched = number, False
        self.point()
        for event in self.early:
            self.app.post_message(event)
        if self.step.until:
            await self.wait_for_run(self.step.until)

    async def restore(self, number: int, before: int | None, led: bool, pressed: bool) -> None:
        steps = self.lecture.steps
        if steps[number].live:
            await self.enter(steps[number], steps[number - 1].press if led and number else "")
        elif steps[number].keep and before == number - 1 and (pressed or not self.touched):
            await self.follow(number, pressed)
        else:
            full = self.lecture.full_step(number)
            await go_to(self.app, steps[full].place, await self.run_of(steps[full]))
            for later in range(full + 1, number + 1):
                await self.follow(later, False)

    async def follow(self, number: int, pressed: bool) -> None:
        """Add a step that keeps the state before it: the key that leads to it, unless pressed by hand, and its own."""
        leading = self.lecture.steps[number - 1].press
        if pressed:
            await settle(self.app)
        elif leading:
            await press(self.app, (leading,))
        await add(self.app, self.lecture.steps[number].place)

    async def enter(self, step: Step, leading: str) -> None:
        """Enter a live step: the screen stays as it was left, with the newest run of the scenario."""
        await settle(self.app, live=True)
        if leading:
            await press(self.app, (leading,), live=True)
        if step.screen:
            await close_dialogs(self.app)
            if step.run:
                scenario = self.lecture.runs[step.run].scenario
                self.app.current_run = await asyncio.to_thread(newest_run, scenario, self.app.root)
            if step.screen != self.app.current_mode:
                await self.app.switch_mode(step.screen)
            await settle(self.app, live=True)
        await press(self.app, tuple(step.keys), live=True)

    def settings_of(self, scenario: str) -> list[str]:
        """Return the settings with which a run of this scenario is started by hand, as live steps show it."""
        runs = (self.lecture.runs[step.run] for step in self.lecture.steps if step.live and step.run)
        return next((run.set for run in runs if run.scenario == scenario), [])

    async def run_of(self, step: Step) -> Path | None:
        if not step.run:
            return None
        found = await asyncio.to_thread(find_lecture_run, self.lecture, step.run, self.folder, self.app.root)
        if found is None:
            raise LabError(f"the run {step.run} is missing: txlab lecture {self.lecture.argument} --prepare trains it")
        return found

    async def wait_for_run(self, step: int) -> None:
        """Go on by itself once the current run has reached a step."""
        from txlab.runs.directory import state_of

        while self.app.is_running and self.app.current_run is not None:
            with suppress(LabError, OSError):
                state = await asyncio.to_thread(state_of, self.app.current_run)
                if state.step >= step:
                    break
                self.waiting = f"step {count(state.step)} of {count(step)}"
                self.draw()
            await asyncio.sleep(UNTIL)
        self.waiting = ""
        self.app.call_later(self.forward)

    def keep_place(self) -> None:
        """Keep the step for a console that dies; the last one is the end of the lecture."""
        if self.number + 1 == len(self.lecture.steps):
            forget_progress(self.lecture)
            return
        with suppress(OSError):
            write_progress(self.lecture, self.number)

    # Keys by hand.

    def admits(self, event: events.InputEvent) -> bool:
        """Whether a key or the mouse is handled now. While a state is being set only the lecture's own keys are; others
        wait until it is there."""
        own = isinstance(event, events.Key) and event.key in (*PLAYER_KEYS, "ctrl+q")
        if isinstance(event, events.MouseMove) or own:
            return True
        if self.reached is None:
            self.early.append(event)
            return False
        if isinstance(event, events.Key) and self.leads_on(event):
            self.app.call_later(self.go, self.number + 1, True)
        else:
            self.touched = True
        return True

    def leads_on(self, event: events.Key) -> bool:
        """Whether this is the key that leads to the next step; while one types, a letter is a letter."""
        typing = isinstance(self.app.focused, Input) and event.is_printable
        return bool(self.step.press) and next(pressed_keys([self.step.press]))[0] == event.key and not typing

    def toggle_notes(self) -> None:
        self.notes_shown = not self.notes_shown
        self.draw()

    def leave(self) -> None:
        """End the lecture; the console stays as it is, but for the hall mode of the lecture."""
        forget_progress(self.lecture)
        self.app.workers.cancel_group(self.app, "lecture")
        self.app.lecture = None
        if self.lecture.contents.hall:
            self.app.hall = self.app.begins_in_hall
        self.clear(self.app.screen)

    # Drawing.

    def screen_changed(self, screen: Screen[object]) -> None:
        if self.app.lecture is self:
            self.draw()
            self.app.call_after_refresh(self.point)
        else:
            self.clear(screen)

    def clear(self, screen: Screen[object]) -> None:
        """Remove what a lecture that was left shows on a screen."""
        remove_strip(screen)
        for widget in screen.query(f".{POINTED}"):
            widget.remove_class(POINTED)
        self.app.pointed = None
        repaint(screen)

    def draw(self) -> None:
        """Show the step on the screen in front."""
        show_strip(self.app.screen, self)

    def point(self) -> None:
        """Point at the step's words and widgets, once its state is there."""
        if self.app.lecture is not self:
            return
        pointed = self.step.point if self.reached == self.number else []
        words = [word for word in pointed if not word.startswith("#")]
        colours = self.app.theme_variables
        style = Style(bold=True, color=colours["background"], bgcolor=colours["accent"])
        self.app.pointed = PointedWords(words, style) if words else None
        for widget in self.app.screen.walk_children(Widget):
            widget.set_class(widget.id is not None and f"#{widget.id}" in pointed, POINTED)
        repaint(self.app.screen)
        self.draw()


def repaint(screen: Screen[object]) -> None:
    """Paint every widget again, with other words pointed at."""
    for widget in screen.walk_children(Widget):
        widget.refresh()
