"""Small dialogs: a confirmation, a choice, a value.

Each one answers through `dismiss`, closes with Esc, and shows data as data, never as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Vertical
from textual.content import Content
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widgets import Input

from txlab.drawing.run_names import fit_handle
from txlab.drawing.text import fit, visible, width
from txlab.errors import LabError
from txlab.runs.remote.address import address_of
from txlab.tui.screens.plain_text import Words
from txlab.tui.textual_internals import SteadyScreen, forget_painted, picture_behind
from txlab.tui.widgets.path_line import PathLine

Answer = TypeVar("Answer")


def key_hints(*pairs: tuple[str, str]) -> Content:
    parts: list[Content] = []
    for key, word in pairs:
        parts += [Content.styled(key, "bold $accent"), Content.styled(f" {word}   ", "$quiet")]
    return Content.assemble(*parts)


def describe_enter(verb: str) -> Callable[[str], str]:
    """What enter does with the name of a run, a model or a file that is not listed: for `Choose.free`.

    >>> describe_enter("opens")("box:words@20"), describe_enter("opens")("box:"), describe_enter("reads")("words@20")
    ('opens words of the machine box, at step 20', 'opens the newest run of the machine box', 'reads words, at step 20')
    >>> describe_enter("opens")("box:/data/runs/x"), describe_enter("opens")("models/gpt2")
    ('opens /data/runs/x of the machine box', 'opens models/gpt2')
    """

    def describe(typed: str) -> str:
        name, at, step = typed.rpartition("@")
        name, when = (name, f", at step {step}") if at and name and step.isdecimal() else (typed, "")
        address = address_of(name)
        if address is None:
            return f"{verb} {name}{when}"
        run = address.path or (address.run if address.run != "latest" else "the newest run")
        return f"{verb} {run} of the machine {address.host}{when}"

    return describe


class Behind(Visual):
    """The lines of a screen as they were painted."""

    def __init__(self, strips: list[Strip]) -> None:
        self.strips = strips

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        return self.strips if height is None else self.strips[:height]

    def get_optimal_width(self, rules: Any, container_width: int) -> int:
        return container_width

    def get_height(self, rules: Any, width: int) -> int:
        return len(self.strips)


class Dialog(ModalScreen[Answer], SteadyScreen[Answer]):
    """A screen in front of another one that answers exactly once, at any typing speed.

    The screen behind stays visible, dimmed and unchanged since the dialog opened. Textual tints it segment by segment
    at every change; here the picture is taken once for each size and theme, with one look-up per style, and a running
    run behind the dialog sends nothing to the terminal.

    A late answer, when a further screen is already in front, is dropped: Textual would pop that screen instead of this
    one (its `is_current` is true behind a modal screen too).
    """

    # Most dialogs look the same at every size; others override this.
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = []
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = []
    behind: Behind | None = None
    taken: tuple[object, ...] = ()
    answered = False

    def begin(self) -> None:
        """Reset a cached dialog before it is shown again (see `dialog_cache`)."""
        self.answered = False

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        if self.answered or not self.is_active:
            return AwaitComplete()
        self.answered = True
        return super().dismiss(result)

    def render(self) -> Any:
        drawn = super().render()
        if not isinstance(drawn, BackgroundScreen):
            return drawn
        now = (self.app.size, self.app.theme, drawn.screen)
        if self.behind is None or now != self.taken:
            strips = picture_behind(drawn.screen)
            if strips is None:
                return drawn
            known: dict[RichStyle, RichStyle] = {}
            self.behind, self.taken = Behind([dim(strip, drawn.color, known) for strip in strips]), now
        return self.behind

    def on_screen_suspend(self) -> None:
        """Release the picture of the screen behind and, unless the dialog is cached, everything painted."""
        self.behind = None
        if not self.app.is_screen_installed(self):
            forget_painted(self)


def dim(strip: Strip, tint: Color, known: dict[RichStyle, RichStyle]) -> Strip:
    """Return a line with every colour blended with `tint`; `known` caches the styles."""

    def mix(colour: RichColor | None) -> RichColor | None:
        return (Color.from_rich_color(colour) + tint).rich_color if colour is not None else None

    segments = []
    for text, style, _ in strip:
        style = style or RichStyle.null()
        if style not in known:
            colours = RichStyle.from_color(mix(style.color), mix(style.bgcolor))
            known[style] = style.clear_meta_and_links() + colours
        segments.append(Segment(text, known[style]))
    return Strip(Segment.simplify(segments), strip.cell_length)


class Confirm(Dialog[bool]):
    """A confirmation: `y` or enter confirms, any other way out cancels."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "yes", id="confirm.yes"),
        Binding("n,escape,q", "answer(False)", "no", id="confirm.no"),
    ]

    def __init__(self, question: str, consequence: str, verb: str = "yes") -> None:
        super().__init__()
        self.question, self.consequence, self.verb = question, consequence, verb

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Words(Content(visible(self.question)), classes="dialog-title")
            yield Words(Content(visible(self.consequence)), classes="dialog-body")
            yield Words(key_hints(("y enter", self.verb), ("n", "leave it")), classes="dialog-keys")

    def action_answer(self, sure: bool) -> None:
        self.dismiss(sure)


class AskValue(Dialog[str]):
    """One line of text. `check(text)` returns a sentence for the user, or raises LabError. In `path`s Tab completes."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave it", id="ask.leave")]

    def __init__(
        self,
        title: str,
        about: str = "",
        value: str = "",
        check: Callable[[str], str] | None = None,
        path: bool = False,
    ) -> None:
        super().__init__()
        self.title_text, self.about, self.value, self.path = title, about, value, path
        self.check = check or (lambda text: "")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Words(Content(visible(self.title_text)), classes="dialog-title")
            yield Words(Content(self.about), classes="dialog-body")
            yield PathLine(self.value) if self.path else Input(self.value)
            yield Words("", id="verdict")
            keys = (("tab", "complete"),) if self.path else ()
            yield Words(key_hints(*keys, ("enter", "do it"), ("esc", "leave it")), classes="dialog-keys")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.judge(self.value)

    def judge(self, text: str) -> bool:
        try:
            verdict, style, good = self.check(text), "$quiet", True
        except LabError as error:
            verdict, style, good = str(error), "$error", False
        self.query_one("#verdict", Words).say(Content.styled(visible(verdict), style))
        return good

    @on(PathLine.Offered)
    def show_names(self, event: PathLine.Offered) -> None:
        names = visible("   ".join(event.names)) or "no file or folder begins so"
        self.query_one("#verdict", Words).say(Content.styled(names, "$quiet"))

    def on_input_changed(self, event: Input.Changed) -> None:
        self.judge(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self.judge(event.value):
            self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)


class Choose(Dialog[str]):
    """A choice with a filter; `choices` are (value, description, already chosen).

    free      what enter does with text that matches no choice, which is then an answer too, as in "opens box:run"
    called    what values are called on the screen, where that is something else, as for runs; both find them
    synonyms  further words that find a value; a value that begins with the typed text comes first, then one with such a
              word
    """

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+p", "leave", "leave it", id="choose.leave"),
        Binding("up", "move(-1)", "up", id="choose.up", priority=True),
        Binding("down", "move(1)", "down", id="choose.down", priority=True),
    ]
    ROWS = 12
    WIDTH = 66  # cells of the dialog, inside its border, at least

    def __init__(
        self, title: str, choices: Sequence[tuple[str, str, bool]], free: Callable[[str], str] | None = None
    ) -> None:
        super().__init__()
        self.title_text, self.choices, self.free = title, list(choices), free
        self.synonyms: Mapping[str, str] = {}
        self.called: dict[str, str] = {}
        self.found = self.choices
        self.index = 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Words(Content(visible(self.title_text)), classes="dialog-title")
            yield PathLine(placeholder="filter") if self.free is not None else Input(placeholder="filter")
            yield Words("", id="choices", classes="dialog-body")
            keys = (("tab", "complete a path"),) if self.free is not None else ()
            keys = (("↑ ↓", "move"), *keys, ("enter", "choose"), ("esc", "close"))
            yield Words(key_hints(*keys), classes="dialog-keys")

    def begin(self, choices: Sequence[tuple[str, str, bool]] | None = None) -> None:
        super().begin()
        self.found = self.choices = self.choices if choices is None else list(choices)
        self.index = 0
        if self.is_mounted:
            with self.prevent(Input.Changed):
                self.query_one(Input).value = ""
            self.draw()

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.draw()

    def draw(self) -> None:
        self.index = max(0, min(self.index, len(self.found) - 1))
        first = max(0, min(self.index - self.ROWS // 2, len(self.found) - self.ROWS))
        parts: list[Content] = []
        most = max((width(about) for _, about, _ in self.choices), default=0)
        named = [self.name_of(value) for value, about, _ in self.choices if about or value in self.called]
        longest = max(map(width, named), default=0)
        inside = min(max(self.WIDTH, longest + most + 7), self.app.size.width * 95 // 100 - 6)
        self.query_one(".dialog").styles.width = inside + 6
        cells = inside - 7  # for a value and its description
        wide = min(longest, max(28, cells - most))
        for at, (value, about, chosen) in enumerate(self.found[first : first + self.ROWS], first):
            name = fit_handle(self.name_of(value), wide) if value in self.called else self.name_of(value)
            row = f"{'*' if chosen else ' '} {name:<{wide}}"
            parts.append(Content.styled(f"> {row}", "bold $accent") if at == self.index else Content(f"  {row}"))
            description = fit(visible(about), max(1, cells - wide)).rstrip()
            parts.append(Content.styled(f"   {description}\n", "$quiet"))
        self.query_one("#choices", Words).say(Content.assemble(*parts or [self.unlisted()]))

    def unlisted(self) -> Content:
        """What enter does with text that matches no choice."""
        typed = self.query_one(Input).value.strip()
        if self.free is None or not typed:
            return Content.styled("no match", "$quiet")
        return Content.assemble("enter ", Content.styled(visible(self.free(typed)), "bold"))

    def name_of(self, value: str) -> str:
        return visible(self.called.get(value, value))

    def offer(self, choices: Sequence[tuple[str, str, bool]], called: Mapping[str, str] | None = None) -> None:
        """Add choices found meanwhile."""
        if self.is_attached:
            self.called |= called or {}
            self.choices += choices
            self.filter()

    def filter(self) -> None:
        words = self.query_one(Input).value.lower().split()

        def rank(row: tuple[str, str, bool]) -> int:
            """How well a row matches the typed text: 0 best, 4 not at all."""
            value = self.called.get(row[0], row[0]).lower()
            about = f"{row[1]} {self.synonyms.get(row[0], '')} {row[0] if row[0] in self.called else ''}".lower()
            if value.startswith(" ".join(words)):
                return 0
            if all(any(part.startswith(word) for part in value.split()) for word in words):
                return 1
            if all(any(part.startswith(word) for part in f"{value} {about}".split()) for word in words):
                return 2
            return 3 if all(word in f"{value} {about}" for word in words) else 4

        self.found = sorted((row for row in self.choices if rank(row) < 4), key=rank)
        self.draw()

    @on(PathLine.Offered)
    def show_names(self, event: PathLine.Offered) -> None:
        """Show the paths that may be typed; typing on filters again."""
        names = visible("   ".join(event.names)) or "no file or folder begins so"
        self.query_one("#choices", Words).say(Content.styled(names, "$quiet"))

    def on_input_changed(self) -> None:
        self.index = 0
        self.filter()

    def action_move(self, by: int) -> None:
        self.index += by
        self.draw()

    def on_input_submitted(self) -> None:
        typed = self.query_one(Input).value.strip() if self.free is not None else None
        answer = self.found[self.index][0] if self.found else typed
        if answer != "":
            self.dismiss(answer)

    def action_leave(self) -> None:
        self.dismiss(None)
