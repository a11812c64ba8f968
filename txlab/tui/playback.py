"""The common part of screens with time: the time line, the keys that run, step and move through it, and the header.

A screen gives its `Playback` a function that reads its data from a source, and one that draws them. The panel shows the
app's current run, if the screen shows runs of its kind, else the screen's live source, if it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.timer import Timer

from txlab.drawing.formatting import STATES, count
from txlab.drawing.spark import BARS, RISING
from txlab.drawing.text import visible, width
from txlab.experiments.kind import kind_of_run
from txlab.runs.summary import handle_in
from txlab.sources.live import PACES, Picture, next_pace
from txlab.sources.recorded import Recorded
from txlab.sources.source import Source, Status
from txlab.tui.bindings import MOVING, bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.run_watch import RunWatch, View
from txlab.tui.screen_registry import SCREENS
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.plain_text import Parts, Words, spread
from txlab.tui.session import Session
from txlab.tui.theme import Signs
from txlab.tui.widgets.terminal import is_ascii
from txlab.tui.widgets.timeline import TimeLine

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind
    from txlab.runs.control import Request

NO_RUN = "No run is chosen."
FRAMES, MOST_FRAMES = 5, 100  # a second, when the frames are played; and of one film
OF_LIVE = {"run.pause", "run.step", "run.back", "run.slower"}  # keys that only explain recordings


class Playback(Panel):
    """`source` is what is shown; `at` the selected step, None follows the newest frame.

    opens   the kinds of runs that the screen shows. Without a live source, the newest of these is opened if none is
            chosen
    live    an experiment of this screen; `unit` is the name of its updates
    hint    the message when a key would change a recording
    title   of the header, as many parts as fit; its arguments are the cells left by the panel's full text there, and by
            the shortest one
    branch  makes the live source continue from the recorded frame on the screen
    """

    KEYS: ClassVar = (
        bind(
            "space",
            "pause",
            "pause or continue the run; of one that has ended, play the frames",
            "pause",
            id="run.pause",
            synonyms="resume continue space play film",
        ),
        bind("full_stop", "step", "make one step and pause again", "step", id="run.step"),
        bind("comma,backspace", "undo", "take the last step back", "step back", id="run.back", key_display=","),
        bind(
            "x",
            "stop",
            "stop the run; it saves a checkpoint first",
            "stop",
            id="run.stop",
            synonyms="kill cancel abort end",
        ),
        bind("minus", "pace(-1)", "go slower or faster", "speed", id="run.slower", key_display="- +"),
        bind("plus,equals_sign", "pace(1)", "go faster", id="run.faster", key_display="+"),
        bind("l", "branch", "continue from the recorded run by hand", "continue by hand", id="run.branch"),
        bind(
            "left_square_bracket",
            "earlier",
            "go back and forth through what was recorded",
            "earlier, later",
            id="time.earlier",
            heading=MOVING,
            key_display="[ ]",
            synonyms="rewind timeline scrub history previous",
        ),
        bind(
            "right_square_bracket",
            "later",
            "go to the next recorded step",
            id="time.later",
            synonyms="later",
            heading=MOVING,
        ),
        bind(
            "left_curly_bracket",
            "first",
            "go to the first recorded step",
            id="time.first",
            synonyms="frame",
            heading=MOVING,
        ),
        bind(
            "right_curly_bracket",
            "last",
            "go back to the newest step, and follow it",
            id="time.last",
            synonyms="live",
            heading=MOVING,
        ),
    )
    DEFAULT_CSS = "Playback { height: 1; width: 1fr; } Playback.-timeless { display: none; }"

    class Asked(Message):
        """A request was left in the run's inbox."""

        def __init__(self, ident: str, request: Request) -> None:
            super().__init__()
            self.ident, self.request = ident, request

    class Stepped(Message):
        """The live source is run, paused or stepped by a key."""

    def __init__(
        self,
        view: View,
        opens: Callable[[Kind], bool],
        live: Session[Any] | None = None,
        *,
        unit: str = "step",
        fastest: float = PACES[-1],
        hint: str = "",
        title: Callable[[int, int], Parts] | None = None,
        branch: Callable[[Recorded], object] | None = None,
    ) -> None:
        super().__init__()
        self.view, self.opens, self.live = view, opens, live
        self.unit, self.hint, self.title, self.branch = unit, hint, title, branch
        self.paces = PACES if fastest == PACES[-1] else (*(pace for pace in PACES if 0 < pace < fastest), fastest)
        self.source: Source | None = live
        self.recorded: Recorded | None = None  # the current run, possibly not shown yet
        self.now = Status()
        self.at: int | None = None
        self.trouble = ""  # why there is no frame
        self.gone = ""  # the name of a shown run whose folder was deleted or moved
        self.pace_chosen: bool | None = None  # whether - and + change the pace, if they can change something else too
        self.of_run = True  # whether the time line has the frames of the run
        self.checkpoints: np.ndarray[Any, Any] | None = None  # to be marked on it; the view sets them in `show`
        self.drawn: Picture[Any] | None = None  # of the live source
        self.playing = self.reading = False  # the frames one after the other; whether the last one is not shown yet
        self.film: Timer | None = None  # calls `play_on` while they are played
        self.timeline, self.header = TimeLine(id="timeline"), Words(id="header")
        self.watch_run = RunWatch(self, self)
        if live is not None:
            live.show, live.failed = self.show_live, lambda sentence: self.tell(sentence, "error")

    def compose(self) -> ComposeResult:
        yield self.timeline

    def on_mount(self) -> None:
        self.set_class(self.live is not None and not self.live.can_replay, "-timeless")
        self.watch(self.app, "current_run", self.run_changed)
        self.set_interval(1 / float(getattr(self.app, "refresh_rate", 4.0)), self.watch_run.look_again)
        self.film = self.set_interval(1 / FRAMES, self.play_on, pause=True)
        self.show_header()
        if self.source is None:
            self.invite()

    # The source.

    @property
    def path(self) -> Path | None:
        """The current run."""
        return self.recorded.path if self.recorded is not None else None

    @property
    def run(self) -> Recorded | None:
        """The run that is shown."""
        return self.source if isinstance(self.source, Recorded) else None

    @property
    def status(self) -> str:
        """A word: running, paused, done …; "" while nothing is known."""
        return self.now.word

    @property
    def can_edit(self) -> bool:
        """Whether the source is an experiment that can be changed."""
        return self.source is not None and self.source.can_edit

    @property
    def present(self) -> bool:
        """Whether the screen shows the present state of an experiment that can be queried."""
        return self.can_edit and self.at is None

    def shows(self, kind: Kind) -> bool:
        """Whether the screen shows runs of a kind; those of other programs may record anything."""
        return (self.live is None and not kind.name) or self.opens(kind)

    def come_to_front(self) -> None:
        self.watch_run.visible = True
        self.watch_run.read_if_idle()
        if self.live is None and self.app.current_run is None:  # type: ignore[attr-defined]
            self.watch_run.open_newest(self.opens)

    def unseen(self) -> None:
        self.play(False)
        self.watch_run.visible = False
        self.app.far = None  # type: ignore[attr-defined]

    def run_changed(self, path: Path | None) -> None:
        if path == self.path:
            return
        before = self.path
        self.gone = before.name if path is None and before is not None and not before.exists() else ""
        self.recorded = Recorded(path, self.app.reader_for, self.note_request) if path is not None else None  # type: ignore[attr-defined]
        self.app.far = None  # type: ignore[attr-defined]
        self.watch_run.follow()
        if self.live is None:
            self.timeline.forget()
            self.turn_to(self.recorded)
        elif path is None and not self.can_edit:
            self.go_live()
        self.wants_read()

    def look_at_run(self, path: Path) -> None:
        """Show a run chosen on this screen, even if it was left before."""
        self.watch_run.watching = True
        self.app.current_run = path  # type: ignore[attr-defined]
        self.wants_read()

    def go_live(self) -> None:
        """Leave the run, and show the experiment of this screen as it was left; without one, say what it shows."""
        self.watch_run.watching = False
        if self.live is None and self.recorded is not None:
            run = self.recorded
            self.turn_to(None)
            called = handle_in(run.path, run.reader.info)
            self.invite(describe_other_kind(called, kind_of_run(run.reader.info.kind)))
        if self.live is not None and not self.can_edit:
            self.turn_to(self.live)
            self.show_present()

    def turn_to(self, source: Source | None) -> None:
        """Show another source, from its newest frame on."""
        if self.live is not None and source is not self.live:
            self.live.pause()
        self.source, self.now, self.trouble, self.checkpoints = source, Status(), "", None
        self.play(False)
        self.reading = False
        self.at = self.timeline.at = None
        self.set_class(source is not None and not source.can_replay, "-timeless")
        self.view.source_changed()
        if source is None:
            self.invite()
        elif isinstance(self.screen, BenchScreen):
            self.screen.occupy()
        self.call_after_refresh(self.screen.refresh_bindings)

    def invite(self, reason: str = "") -> None:
        """Offer a run or a scenario in place of the screen's body; without a reason because no run is chosen, or
        because it is gone."""
        reason = reason or (f"{self.gone} was deleted or moved." if self.gone else NO_RUN)
        if isinstance(self.screen, BenchScreen):
            self.screen.invite(reason, self.opens)

    # The shown frame.

    def show_live(self, picture: Picture[Any]) -> None:
        """Called for each picture of the live source."""
        known, self.drawn = self.drawn, picture
        if self.can_edit:
            if known is not None and known.experiment is not picture.experiment:
                self.turn_to(self.live)
            self.show_present()
        if known is None or known.running != picture.running:
            self.screen.refresh_bindings()

    def show_present(self) -> None:
        live = self.live
        if live is not None and live.picture is not None:
            self.take(live, live.status, live.steps, self.view.read(live, self.at, True), "")

    def take(self, source: Source, status: Status, steps: np.ndarray[Any, Any], picture: Any, trouble: str) -> None:
        """Show data read from a source."""
        if source is not self.source:
            self.turn_to(source)
        before, self.now, self.reading = self.now, status, False
        if trouble and trouble != self.trouble:
            self.tell(trouble, "warning")
        self.trouble = trouble
        if picture is not None:
            self.view.show(picture)
        if self.of_run:
            self.timeline.set_frames(steps, status.total, status.step, self.checkpoints, status.ended)
        self.show_header()
        if before.word != status.word:
            self.call_after_refresh(self.screen.refresh_bindings)

    def wants_read(self) -> None:
        """Read the run now, whether or not it grew."""
        self.watch_run.want()

    @on(TimeLine.Moved)
    def time_moved(self, event: TimeLine.Moved) -> None:
        """Show another frame, and notify the screen."""
        self.at, self.reading = None if event.live else event.step, True
        if self.can_edit:
            self.show_present()
        else:
            self.wants_read()

    def to_present(self) -> None:
        """Show the newest frame, and follow."""
        if self.at is not None:
            self.at = self.timeline.at = None
            self.timeline.refresh()

    # The header.

    def show_header(self) -> None:
        if self.title is None or not self.is_attached:
            return
        cells, groups = self.screen.size.width - 2, self.groups()
        taken = [sum(width(text) for text, _ in group) for group in groups]
        left = self.title(max(0, cells - sum(taken)), max(0, cells - taken[-1] - 1))
        self.header.say(spread(left, groups, cells))

    @property
    def ascii(self) -> bool:
        return is_ascii(self)

    def state(self) -> str:
        """`● 60 updates/s`, `‖ paused`, or the status of a run: `✓ done`"""
        word = self.status
        if self.can_edit and word == "running" and self.now.speed:
            return f"{Signs.live} {count(self.now.speed)} {self.unit}s/s"
        sign = {"running": Signs.live, "paused": Signs.paused, "done": Signs.done, "failed": Signs.failed}.get(word, "")
        return f"{sign} {STATES.get(word, word)}".strip()

    def groups(self) -> list[Parts]:
        """The right part of the header, the least important text first: the pace in words, the selectable pace, and
        whether it runs; or the name of the run, and its status. Without a time line also the step."""
        style = "bold $accent" if self.status == "running" else "$quiet" if self.can_edit else ""
        state: Parts = [(f"   {self.state()}", style)]
        step = count(self.timeline.step or 0)
        if self.live is None or self.source is None or not self.can_edit:
            of = f" of {count(self.now.total)}" if self.now.total > (self.timeline.step or 0) else ""
            name = visible(self.source.name, self.ascii) if self.source is not None else ""
            return [[(f"  {name}", "$quiet")], [*state, (f"  step {step}{of}", "")]]
        if not self.source.can_replay:
            state.append((f"  step {count(self.now.step)}", ""))
        pace, chosen = self.live.pace, self.pace_chosen
        words = f"{count(pace)} {self.unit}s/s" if pace else f"one {self.unit} a key"
        words = "as fast as it goes" if pace == float("inf") else words
        style = "bold $accent" if chosen else "$quiet"
        before, after = ("", "") if chosen is None else (Signs.left, Signs.right) if chosen else (" ", " ")
        at, bars = self.paces.index(pace), pace_bars(len(self.paces), self.ascii)
        speed: Parts = [
            (f"  {before}speed ", style),
            *((bars[: at + 1], "$accent"), (bars[at + 1 :], "$rule")),
            (after, style),
        ]
        return [[(f"  {words}", "$quiet")], speed, state]

    # Frames as a film.

    @property
    def can_play(self) -> bool:
        """Whether the frames of a run that has ended can be shown one after the other."""
        source = self.run
        return self.live is None and source is not None and not source.can_pause and len(self.timeline.steps) > 1

    def play(self, on: bool) -> None:
        """Show the frames one after the other, from the first one if the last one is shown."""
        if on != self.playing:
            self.playing = on
            if self.film is not None:
                self.film.resume() if on else self.film.pause()
            if on and self.timeline.index >= len(self.timeline.steps) - 1:
                self.timeline.first()
            self.screen.refresh_bindings()

    def play_on(self) -> None:
        """Show the next frame as soon as the one before is on the screen; of many frames only some."""
        if self.playing and not self.reading:
            steps = self.timeline.steps
            following = self.timeline.index + max(1, len(steps) // MOST_FRAMES)
            if following < len(steps) - 1:
                self.timeline.show_frame(following)
            else:
                self.play(False)
                self.timeline.last()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        source, live = self.source, self.live
        if action == "pause":
            return live is not None or (source is not None and source.can_pause) or self.can_play
        if action == "step":
            return live is not None or (source is not None and source.can_step)
        if action == "stop":
            return source is not None and source.can_stop
        if action == "undo":
            return live is not None and live.can_undo
        if action == "pace":
            return live is not None
        if action == "branch":
            return self.branch is not None and source is not None and source.can_branch
        return source is None or source.can_replay

    def word_for(self, binding: Binding) -> str:
        source, ident = self.source, binding.id
        if ident == "run.pause" and self.can_edit:
            return "pause" if self.live is not None and self.live.running else "run"
        if ident == "run.pause" and source is not None and source.can_pause:
            return "go on" if self.status == "paused" else "pause"
        if ident == "run.pause" and self.can_play:
            return "pause" if self.playing else "play"
        if ident == "run.step" and source is not None and source.can_step:
            return self.unit if self.can_edit else "step"
        if ident in OF_LIVE and not self.can_edit:
            return ""
        return "" if ident == "time.earlier" and not len(self.timeline.steps) else binding.description

    def ready(self) -> bool:
        """Whether there is an experiment to change. For a recorded run, say how to get one; from an earlier frame,
        return to the present, to which changes apply."""
        if not self.can_edit:
            self.tell(self.hint)
            return False
        self.to_present()
        return self.live is not None and (self.live.experiment is not None or self.live.alive)

    def ask(self, request: str, key: str | None = None, value: float | None = None, count: int = 1) -> None:
        """Leave a request in the inbox of the run; `Asked` is posted with its id."""
        run = self.run
        if run is None:
            self.tell("no run is chosen: press enter on one in the Lab (1)")
            return
        run_in_thread(self, lambda: run.request(request, key, value, count), "ask", keys=False)

    def note_request(self, ident: str, request: Request) -> None:
        self.post_message(self.Asked(ident, request))

    def action_pause(self) -> None:
        """Run, or pause; at the lowest pace, make one update."""
        live = self.live
        if self.source is not None and not self.can_edit and self.source.can_pause:
            self.ask("resume" if self.status == "paused" else "pause")
        elif self.can_play:
            self.play(not self.playing)
        elif self.ready() and live is not None:
            if not live.running and not live.pace:
                live.step()
            else:
                live.run(not live.running)
            self.post_message(self.Stepped())

    def action_step(self) -> None:
        if self.source is not None and not self.can_edit and self.source.can_step:
            self.ask("step", count=1)
        elif self.ready() and self.live is not None:
            self.live.step()
            self.post_message(self.Stepped())

    def action_undo(self) -> None:
        """Take the last update back, and pause."""
        if self.ready() and self.live is not None:
            self.live.undo()

    def action_pace(self, by: int) -> None:
        """Go slower or faster."""
        live = self.live
        if self.ready() and live is not None:
            live.pace = next_pace(live.pace, by, self.paces)
            if live.running:
                live.run(live.pace > 0)
            self.show_header()

    def action_stop(self) -> None:
        from txlab.tui.screens.dialogs import Confirm

        run = self.run
        if run is None:
            return
        what = "It saves a checkpoint first and can be resumed."
        if run.by_another_program:
            what = "Its loop is asked to end" + (", and saves first." if run.takes("checkpoint") else ".")
        self.app.push_screen(
            Confirm(f"Stop {run.name}?", what, "stop"), lambda sure: self.ask("stop") if sure else None
        )

    def action_branch(self) -> None:
        """Continue by hand from the frame that is shown."""
        if self.branch is not None and (run := self.run) is not None:
            self.branch(run)

    def action_earlier(self) -> None:
        self.play(False)
        self.timeline.earlier()

    def action_later(self) -> None:
        self.play(False)
        self.timeline.later()

    def action_first(self) -> None:
        self.play(False)
        self.timeline.first()

    def action_last(self) -> None:
        self.play(False)
        self.timeline.last()


def describe_other_kind(run: str, kind: Kind) -> str:
    """Return why a screen does not show a run, and which one does."""
    entry = next((each for each in SCREENS if each.name == kind.screen), None)
    where = f" {entry.title}{f' ({entry.key})' if entry.key else ''} shows it." if entry is not None else ""
    what = f" ({kind.title.partition(':')[0].lower()})" if kind.title else ""
    return f"{run}{what} records nothing that this screen shows.{where}"


def pace_bars(paces: int, ascii: bool) -> str:
    """Return a rising bar for each pace.

    >>> pace_bars(8, False), pace_bars(5, False)
    ('▁▂▃▄▅▆▇█', '▁▃▅▆█')
    """
    bars = RISING if ascii else BARS
    return "".join(bars[round(place * (len(bars) - 1) / (paces - 1))] for place in range(paces))
