"""Screen 5, Words: vectors as a map that moves while they are learnt, nearest words, analogies.

It shows the frames of the current run, at the live edge or at a step, or an embedding opened by name: another run, the
tokens of a language model, a file. A second one can be shown next to it.

Notable: reading, aligning and projecting happen in threads; the event loop draws, and finds the nearest words of one
word, which takes some milliseconds for 50 000.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.text import visible
from txlab.engine.embeddings.neighbours import explain_similarity
from txlab.engine.embeddings.plane import Projection
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, info_of
from txlab.tui.bindings import WHY, bind
from txlab.tui.key_order import keys_wait, run_in_thread
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import ROUTED
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.dialogs import AskValue, Choose, describe_enter
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.words import text
from txlab.tui.screens.words.picture import Laid, Look, lay, turn_to, vectors_of
from txlab.tui.screens.words.recorded import (
    Pictures,
    WordPath,
    objectives_in,
    offer_vectors,
    open_vectors,
    path_of,
    words_asked,
    words_at,
    words_in_all,
)
from txlab.tui.screens.words.text import analogy_words, axis_pairs, find_word
from txlab.tui.widgets.table import Table
from txlab.tui.widgets.why import Answer, ask_why
from txlab.tui.widgets.word_map import CLOSER, WordMap, WordsPicture

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.runs.word_updates import WordUpdates
    from txlab.sources.recorded import Recorded


NAMES = "a run, RUN@STEP, HOST:RUN, a folder with a model, or a file"
COLOURS = 6  # groups of words that a map has colours for


class WordsScreen(BenchScreen):
    """`laid` is the shown embedding, `second` the one next to it, `analogy` the words a, b, c of the query."""

    CSS_PATH = "words.tcss"
    AUTO_FOCUS = "#map"
    HELP_ABOUT = (
        "Each dot is a word, placed by its vector: words used in similar contexts are close together. Arrows move "
        "from label to label, / finds a word, + zooms in. On the right are the nearest words by cosine; tab moves "
        "there, enter jumps to one of them. A dot has the colour of the word, of those named at the top, that it is "
        "nearest to; m marks others. Space plays the run, [ and ] step through it; the map is aligned between steps, "
        "so only relative changes move. t draws the path of the word since the first step."
    )
    PANELS = (Playback,)
    KEY_ORDER = (
        "words.search", "words.closer", "run.pause", "words.analogy", "words.mark", "words.axes", "words.view",
        "words.trail", "words.open", "words.compare", "words.objective", "screen.why", "time.earlier", "words.colour",
    )  # fmt: skip
    KEYS_WHEN_EMPTY = ("open",)
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("slash", "search", "find a word", "find", id="words.search", synonyms="search filter"),
        bind(
            "plus,equals_sign",
            "zoom(1)",
            "come closer to the word, or go back",
            "zoom",
            id="words.closer",
            key_display="+ -",
        ),
        bind("minus", "zoom(-1)", "go back from the word", id="words.further", synonyms="zoom out"),
        bind("a", "analogy", "ask an analogy, a − b + c", "analogy", id="words.analogy", synonyms="king man woman"),
        bind(
            "m",
            "mark",
            "mark the word; dots take the colour of the nearest mark",
            "mark",
            id="words.mark",
            synonyms="colour cluster",
        ),
        bind(
            "p", "axes", "name the axes by pairs of words", "axes", id="words.axes", synonyms="principal components pca"
        ),
        bind("v", "vectors", "turn to context vectors, or to centre vectors", "context", id="words.view"),
        bind("t", "trail", "draw the path of the word over the run", "path", id="words.trail"),
        bind("f", "colour", "colour the dots by frequency, or by the nearest mark", "colours", id="words.colour"),
        bind("o", "open", "open the vectors of another run, a model or a file", "open", id="words.open"),
        bind(
            "c",
            "compare",
            "compare with a second embedding",
            "compare",
            id="words.compare",
            synonyms="second beside",
        ),
        bind(
            "b",
            "objective",
            "go to the vectors of the next objective of the run",
            "objective",
            id="words.objective",
            synonyms="softmax nce sampling hierarchical loss",
        ),
        WHY,
        bind("i", "side", "show the list instead of the map", "list", id="words.side"),
        bind("tab", "other", "go from the map to the list and back", id="words.other"),
        bind("enter", "enter", "go to the word chosen in the list", id="words.enter"),
        bind("escape", "leave", "take back what was asked last", id="words.leave"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.run = Playback(self, lambda kind: kind.screen == "words")
        self.map, self.second_map = WordMap(id="map"), WordMap(id="second")
        self.about, self.table = Words(id="about"), Table(id="nearest")
        self.opening = LatestTask(self, "embedding", self.show_failure)
        self.second_task = LatestTask(self, "second embedding", self.show_failure)
        self.trail_task = LatestTask(self, "path of a word", self.show_failure)
        self.look = Look()
        self.by_frequency = False
        self.forget()

    def compose_body(self) -> ComposeResult:
        yield Words(id="header")
        yield Rule()
        with Horizontal(id="panels"):
            with Horizontal(id="maps"):
                yield self.map
                yield self.second_map
            with Vertical(id="side"):
                yield self.about
                yield self.table
        yield Rule()
        yield self.run

    def on_mount(self) -> None:
        self.source_changed()

    # The source.

    def forget(self) -> None:
        """Forget the data and the pending work of another source."""
        self.second_task.forget()
        self.trail_task.forget()
        self.laid: Laid | None = None
        self.second: Laid | None = None
        self.opened = ""
        self.analogy: tuple[str, str, str] | None = None
        self.marks: tuple[str, ...] = ()
        self.path: WordPath | None = None
        self.listed: list[tuple[int, float]] = []
        self.trail = False
        self.updates: WordUpdates | None = None
        self.word = ""  # the cursor's word
        self.asked: tuple[str, ...] = ()  # the words that the run asks about
        self.objectives: tuple[str, ...] = ()  # of the run, if there are several
        self.seen: tuple[object, ...] = ()  # the inputs of the worker's last read
        self.pictures = Pictures()

    def source_changed(self) -> None:
        self.opening.forget()
        self.forget()
        self.look = replace(self.look, objective="")
        self.map.camera = None
        self.map.cursor = 0
        self.remove_class("-two", "-timeless")
        self.say_empty(f"reading {self.run.path.name}…" if self.run.path is not None else "")

    def say_empty(self, reason: str) -> None:
        self.query_one("#header", Words).say(Content.styled(visible(reason), "$quiet"))
        self.map.show(WordsPicture())
        self.caption.say(())
        self.about.say("")
        self.table.set_table((), ())

    def show_failure(self, sentence: str) -> None:
        self.tell(sentence, "error")
        if self.laid is None:
            self.say_empty(sentence)

    # The run: read in a thread, shown on the event loop.

    def read(self, source: Recorded, at: int | None, changed: bool) -> Laid | str | None:
        if self.opened:
            return None
        reader, frames = source.reader, source.steps
        if not len(frames):
            return "no word vectors are recorded yet"
        place = len(frames) - 1 if at is None else int(np.searchsorted(frames, at, "right")) - 1
        step = int(frames[max(0, place)])
        wanted = (reader.directory.path, step, self.look)
        if wanted == self.seen:
            return None
        self.seen = wanted
        try:
            self.objectives = objectives_in(reader)
            embedding = words_at(reader, step, self.look.objective)
            self.asked = words_asked(reader, embedding)
            return self.pictures.lay(reader, embedding, step, self.look, words_in_all(reader), self.objective)
        except LabError as error:
            return str(error)

    def show(self, laid: Laid | str) -> None:
        if not self.opened:
            if isinstance(laid, str):
                self.laid = None
                self.say_empty(laid)
            else:
                self.show_laid(laid)

    def show_laid(self, laid: Laid) -> None:
        """Show another picture, with the cursor on the same word."""
        self.laid = laid
        if self.second is not None:
            self.second = turn_to(self.second, laid)
        self.path = None  # it is on the axes of the previous picture
        self.map.cursor = laid.embedding.ids.get(self.word or self.anchors[0], 0)
        self.draw()
        if self.trail:
            self.want_path()
        self.refresh_bindings()

    @property
    def anchors(self) -> tuple[str, ...]:
        """The words that the dots are coloured by: those marked here, else those that the run asks about, else the most
        frequent ones that say something by themselves."""
        laid = self.laid
        if laid is None:
            return ()
        for words in (self.marks, self.asked):
            if known := tuple(word for word in words if word in laid.embedding.ids):
                return known[:COLOURS]
        return tuple(laid.embedding.words[row] for row in laid.named[:COLOURS].tolist())

    # Drawing.

    def draw(self) -> None:
        """Draw the maps and the list for the cursor's word."""
        laid = self.laid
        if laid is None:
            return
        cursor = min(self.map.cursor, len(laid.embedding.words) - 1)
        arrows: list[tuple[np.ndarray, np.ndarray]] = []
        extra: list[int] = []
        if self.analogy is not None and not all(word in laid.embedding.ids for word in self.analogy):
            self.analogy = None  # a frame has fewer words than a checkpoint
        if self.analogy is not None:
            self.listed = laid.analogy(self.analogy)
            a, b, c = (laid.embedding.ids[word] for word in self.analogy)
            points = laid.plane.points
            extra = [a, b, c]
            if self.listed:
                extra.append(self.listed[0][0])
                arrows = [(points[b], points[a]), (points[c], points[self.listed[0][0]])]
        else:
            self.listed = laid.nearest(cursor)
        near = [row for row, _ in self.listed[:10]] if self.analogy is None else extra
        self.map.show(self.picture(laid, near, arrows, self.path))
        self.draw_second()
        self.say(cursor)

    def picture(
        self,
        laid: Laid,
        near: list[int],
        arrows: list[tuple[np.ndarray, np.ndarray]],
        path: WordPath | None,
    ) -> WordsPicture:
        marked = [laid.embedding.ids[word] for word in self.anchors if word in laid.embedding.ids]
        frequencies = laid.frequencies() if self.by_frequency else None
        classes = frequencies if frequencies is not None else laid.groups(marked) if marked else None
        ends = ("", "") if path is None else (f"step {count(path.first)}", f"step {count(path.last)}")
        return WordsPicture(
            laid.embedding.words,
            laid.plane.points,
            classes,
            frequencies is not None,
            near,
            marked,
            laid.named,
            None if path is None else path.points,
            ends,
            arrows,
        )

    def draw_second(self) -> None:
        if self.second is None or self.laid is None:
            return
        word = self.laid.embedding.words[self.map.cursor]
        row = self.second.embedding.ids.get(word)
        near = [each for each, _ in self.second.nearest(row, 10)] if row is not None else []
        self.second_map.cursor = row if row is not None else 0
        self.second_map.show(self.picture(self.second, near, [], None))

    def say(self, cursor: int) -> None:
        """Describe the view in the header and next to the map."""
        laid, ascii = self.laid, self.ascii
        assert laid is not None
        grouped = not self.map.picture.ordered
        marks = [(mark, self.map.colour_of(place)) for place, mark in enumerate(self.anchors if grouped else ())]
        words = text.header(laid, self.second, marks, self.path, self.size.width - 2, ascii)
        self.query_one("#header", Words).say(words)
        self.about.say(text.about(laid, cursor, self.analogy, ascii))
        self.caption.say(text.sentence(laid, cursor, self.analogy, self.listed))
        self.table.set_table(*text.table(laid, cursor, self.listed, self.analogy is not None, self.second, ascii))

    # The cursor.

    @on(WordMap.Moved, "#map")
    def cursor_moved(self) -> None:
        if self.laid is not None:
            self.word = self.laid.embedding.words[self.map.cursor]
        self.path = None
        self.draw()
        if self.trail:
            self.want_path()

    @on(WordMap.Moved, "#second")
    def cursor_moved_there(self, event: WordMap.Moved) -> None:
        if self.second is not None and self.laid is not None:
            row = self.laid.embedding.ids.get(self.second.embedding.words[event.row])
            if row is not None:
                self.map.go_to(row)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "side":
            return self.laid is not None and self.has_class("-tiny")
        if action == "trail":
            return self.laid is not None and self.run.path is not None and not self.opened
        if action == "objective":
            return bool(self.objectives) and not self.opened
        if action in ("search", "zoom", "analogy", "mark", "axes", "vectors", "colour", "compare", "enter"):
            return self.laid is not None
        if action == ROUTED and self.opened:
            return False
        return super().check_action(action, parameters)

    def word_for(self, binding: Binding) -> str:
        if binding.id == "words.view" and self.look.context:
            return "centre"
        return super().word_for(binding)

    def ask(self, title: str, about: str, value: str, check: Callable[[str], str], then: Callable[[str], None]) -> None:
        """Ask for a line of text; `check` raises LabError or returns a preview."""
        self.app.push_screen(
            AskValue(title, about, value, check), lambda typed: then(typed) if typed is not None else None
        )

    def action_search(self) -> None:
        laid = self.laid
        assert laid is not None

        def check(typed: str) -> str:
            row = find_word(laid.embedding, typed)
            return "" if row is None else f"{laid.embedding.words[row]}, rank {count(row + 1)}"

        example = laid.embedding.words[int(laid.named[0])]

        def go(typed: str) -> None:
            row = find_word(laid.embedding, typed)
            if row is not None:
                self.analogy = None
                self.map.go_to(row)

        self.ask("Find a word", f"a word, or its beginning, as in {example}", "", check, go)

    def action_zoom(self, by: int) -> None:
        for each in (self.map, self.second_map):
            each.zoom(CLOSER**by)

    def action_analogy(self) -> None:
        """Ask for a, b, c; the list then shows the words nearest to a − b + c."""
        laid = self.laid
        assert laid is not None

        def check(typed: str) -> str:
            return "{1} is to {0} as {2} is to …".format(*(analogy_words(laid.embedding, typed) or "abc"))

        def show(typed: str) -> None:
            self.analogy = analogy_words(laid.embedding, typed)
            self.draw()

        words = self.analogy or laid.telling_analogy(self.map.cursor)
        about = "three words; enter asks this one" if words else "three words"
        self.ask("An analogy: a − b + c", about, " ".join(words or ()), check, show)

    def action_mark(self) -> None:
        """Colour all words by the nearest marked one, instead of those of the run; again: remove this mark."""
        assert self.laid is not None
        word = self.laid.embedding.words[self.map.cursor]
        self.marks = tuple(each for each in self.marks if each != word) if word in self.marks else (*self.marks, word)
        self.by_frequency = False
        self.draw()

    def action_colour(self) -> None:
        """Toggle colouring the dots by the frequency of their words, or by the nearest mark."""
        if self.laid is not None and self.laid.embedding.counts is None:
            self.tell(f"{self.laid.embedding.title} does not say how frequent its words are")
            return
        self.by_frequency = not self.by_frequency
        self.draw()

    def action_axes(self) -> None:
        """Name the axes by two pairs of words, or go back to the principal axes."""
        laid = self.laid
        assert laid is not None

        def check(typed: str) -> str:
            named = axis_pairs(laid.embedding, typed)
            return "x: {} − {}   y: {} − {}".format(*named[0], *named[1]) if named else "the two principal axes"

        def show(typed: str) -> None:
            self.change(replace(self.look, pairs=axis_pairs(laid.embedding, typed)))

        start = ", ".join(" ".join(pair) for pair in self.look.pairs)
        words = laid.telling_analogy(self.map.cursor)
        example = "as in: {0} {1}, {0} {2}; ".format(*words) if words else ""
        self.ask("Axes by two pairs of words", f"{example}empty = principal axes", start, check, show)

    def action_vectors(self) -> None:
        """Toggle centre and context vectors."""
        laid = self.laid
        assert laid is not None
        wanted = replace(self.look, context=not self.look.context)
        try:
            vectors_of(laid.embedding, wanted)
        except LabError as error:
            self.tell(str(error), "warning")
            return
        self.change(wanted)

    @property
    def objective(self) -> str:
        """The objective whose vectors are shown, "" if the run has only one."""
        return self.look.objective or next(iter(self.objectives), "")

    def action_objective(self) -> None:
        """The vectors of the next objective that the run learns by, at the same step."""
        names = ["", *self.objectives[1:]]
        at = names.index(self.look.objective) if self.look.objective in names else 0
        self.look = replace(self.look, objective=names[(at + 1) % len(names)])
        self.path, self.map.camera = None, None
        self.run.wants_read()

    def change(self, look: Look) -> None:
        """Change the view of the same words."""
        self.look, self.path, self.map.camera = look, None, None
        laid = self.laid
        if not self.opened:
            self.run.wants_read()
        elif laid is not None:
            projection = Projection(look.pairs)
            self.opening.want(lambda _: lay(laid.embedding, look, projection), self.show_laid)

    def action_trail(self) -> None:
        """Draw the path of the word under the cursor over the run."""
        self.trail = not self.trail
        self.path = None
        self.trail_task.forget()
        if self.trail:
            self.want_path()
        else:
            self.draw()

    def want_path(self) -> None:
        laid, path = self.laid, self.run.path
        if laid is None or path is None:
            return
        word = laid.embedding.words[self.map.cursor]

        def walk(task: LatestTask) -> WordPath:
            reader = self.app.reader_for(path)  # type: ignore[attr-defined]
            return path_of(reader, word, laid.step, laid.look, laid.projection, lambda: task.late)

        self.trail_task.want(walk, self.show_path)

    def show_path(self, path: WordPath) -> None:
        self.path = path
        self.draw()

    def action_open(self) -> None:
        """Open other word vectors by name, or go back to the run."""
        self.choose(
            "Open word vectors: a run, RUN@STEP, HOST:RUN, a folder with a model, or a file", "opens", self.open
        )

    def open(self, what: str) -> None:
        root, look = self.app.root, self.look  # type: ignore[attr-defined]
        look, reader_for = replace(look, objective=""), self.app.reader_for  # type: ignore[attr-defined]

        def show(laid: Laid) -> None:
            self.forget()
            self.opened = what
            self.add_class("-timeless")
            self.remove_class("-two")
            self.map.camera = None
            self.show_laid(laid)

        self.query_one("#header", Words).say(Content.styled(f"opening {visible(what)}…", "$quiet"))
        self.opening.want(lambda _: open_vectors(what, root, look, reader_for), show, holds_keys=True)

    def action_compare(self) -> None:
        """Show a second embedding next to this one, or remove it."""
        if self.second is not None:
            self.second = None
            self.remove_class("-two")
            self.call_after_refresh(self.draw)
            return
        self.choose(
            "Compare with: a run, RUN@STEP, HOST:RUN, a folder with a model, or a file", "compares with", self.beside
        )

    def beside(self, what: str) -> None:
        root, look = self.app.root, Look(context=self.look.context)  # type: ignore[attr-defined]
        reader_for = self.app.reader_for  # type: ignore[attr-defined]

        def show(laid: Laid) -> None:
            self.second = laid if self.laid is None else turn_to(laid, self.laid)
            self.second_map.camera = None
            self.add_class("-two")
            self.call_after_refresh(self.draw)

        self.second_task.want(lambda _: open_vectors(what, root, look, reader_for), show, holds_keys=True)

    def choose(self, title: str, verb: str, then: Callable[[str], None]) -> None:
        root: Path = self.app.root  # type: ignore[attr-defined]
        dialog = Choose(title, [], free=describe_enter(verb))
        self.app.push_screen(dialog, lambda name: then(name) if name else None)
        offer = run_in_thread(self, lambda: offer_vectors(dialog, root), "models", keys=False)
        keys_wait(self, offer)

    def action_side(self) -> None:
        """Show the list instead of the map on a tiny terminal."""
        self.toggle_class("-side")
        (self.table if self.has_class("-side") else self.map).focus()

    def action_other(self) -> None:
        """Move the focus from the map to the list and back."""
        (self.map if self.table.has_focus else self.table).focus()

    def action_enter(self) -> None:
        """Go to the word chosen in the list."""
        if self.table.has_focus and self.table.cursor < len(self.listed):
            self.analogy = None
            self.map.go_to(self.listed[self.table.cursor][0])

    def action_leave(self) -> None:
        """Undo the last query: the analogy, the second map, the marks, the opened vectors."""
        if self.analogy is not None:
            self.analogy = None
        elif self.second is not None:
            self.action_compare()
        elif self.marks:
            self.marks = ()
        elif self.opened:
            self.source_changed()
            self.run.wants_read()
        self.map.focus()
        self.draw()

    def action_why(self) -> None:
        """Explain the cosine of the word under the cursor and the one chosen in the list, and their last update."""
        laid = self.laid
        if laid is None or not self.listed:
            self.tell("There is no number here yet to ask about.")
            return
        embedding = laid.embedding
        vectors = embedding.contexts().vectors if laid.look.context else embedding.vectors
        one, other = self.map.cursor, self.listed[min(self.table.cursor, len(self.listed) - 1)][0]
        if self.analogy is not None:  # the list shows cosines with a − b + c, and not with the cursor's word
            a, b, c = (laid.units[embedding.ids[word]] for word in self.analogy)
            asked = "{} − {} + {}".format(*self.analogy), embedding.words[other]
            ask_why(self.app, lambda: explain_similarity(asked, a - b + c, laid.units[other]), again=self.action_why)
            return
        words = embedding.words[one], embedding.words[other]
        path, step = self.run.path, laid.step
        moved = [
            partial(self.last_update, path, step, self.look.objective, *pair)
            for pair in (words, words[::-1])
            if path and step
        ]

        def answers() -> list[Answer]:
            learnt = path is not None and info_of(RunDirectory(path)).kind == "word-vectors"
            return [explain_similarity(words, vectors[one], vectors[other]), *(moved if learnt else ())]

        ask_why(self.app, answers, again=self.action_why)

    def last_update(self, path: Path, step: int, objective: str, centre: str, context: str) -> Explanation:
        """The update up to `step` that moved a centre and a context; in a thread, since the run is repeated for it."""
        from txlab.runs.word_updates import WordUpdates

        updates = self.updates
        if updates is None or updates.run.path != path:
            self.updates = updates = WordUpdates(RunDirectory(path))
        return updates.last(centre, context, step, objective)
