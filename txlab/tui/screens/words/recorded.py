"""The word vectors of a recorded run: at a step, the alignment of their pictures, the path of a word. Called in
threads.

Notable: any program may record frames and facts, so they are checked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from txlab.drawing.run_names import name_runs
from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.plane import Projection
from txlab.errors import LabError
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, info_of
from txlab.runs.embeddings import embedding_of_state, objective_asked, objectives_of, open_embedding
from txlab.runs.folder import is_run
from txlab.runs.models import existing_path, find_model
from txlab.runs.reader import RunReader
from txlab.runs.summary import handle_in
from txlab.tui.screens.words.picture import Laid, Look, embedding_of_frame, lay, vectors_of

if TYPE_CHECKING:
    from txlab.tui.screens.dialogs import Choose

PATH_FRAMES = 40  # of a run, for the path of a word
MOST_KNOWN = 64  # pictures to which others are aligned


def words_at(reader: RunReader, step: int, objective: str = "") -> Embedding:
    """All words if there is a checkpoint, else the frame's words. LabError if the frame has none."""
    path, info = reader.directory.path, reader.info
    called = handle_in(path, info)
    if info.kind == "word-vectors" and step in checkpoints.steps(reader.directory):
        with suppress(LabError):  # damaged, or removed meanwhile
            return embedding_of_state(checkpoints.load(reader.directory, step, arrays=True), called, objective)
    return embedding_of_frame(reader.frames.read(step), called, objective)


class Pictures:
    """The alignment of a run's pictures. A picture depends on its step alone, not on those viewed before it.

    Notable: starting from the first frame, the last one within 1 step of it is aligned, then within 2, 4, 8, …, and on
    those the requested picture: all pictures between two powers of two are aligned to the same one, and a jump reads a
    dozen frames.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], Projection] = {}

    def lay(self, reader: RunReader, embedding: Embedding, step: int, look: Look, of: int = 0, name: str = "") -> Laid:
        """The words of a step in the plane. The words of its frame decide the axes, also where a checkpoint has more:
        whether that was already written, or by which name the run was opened, changes nothing."""
        projection = self.before(reader, step, look)
        laid = None
        if not look.pairs and step in reader.frames.steps:
            with suppress(LabError):  # a checkpoint without a frame of such vectors
                seen = embedding_of_frame(reader.frames.read(step), reader.directory.path.name, look.objective)
                plane = projection.lay(seen, vectors_of(seen, look))
                points = projection.place(embedding, vectors_of(embedding, look))
                laid = Laid(embedding, look, replace(plane, points=points), projection)
        laid = laid or lay(embedding, look, projection)
        return replace(laid, step=step, of=of or len(embedding.words), objective=name)

    def before(self, reader: RunReader, step: int, look: Look) -> Projection:
        """The picture to which the one at a step is aligned. Vectors by another objective are aligned to those by the
        first."""
        projection = Projection(look.pairs)
        if look.pairs:
            return projection
        frames = reader.frames.steps
        within = [0, *(1 << power for power in range(int(step - frames[0]).bit_length()))]
        places = np.searchsorted(frames, frames[0] + np.array(within), "right") - 1
        keys = [key for key in dict.fromkeys(frames[places].tolist()) if key < step]
        first = replace(look, objective="")
        laid: tuple[object, ...] = (len(reader.rows("rewind")), look.context)
        for key in [*keys, *([step] if look.objective else [])]:
            laid = (*laid, key)
            if laid not in self.known:
                projection = copy.copy(projection)
                with suppress(LabError):  # a frame without such vectors is left out
                    embedding = embedding_of_frame(reader.frames.read(key), reader.directory.path.name)
                    projection.lay(embedding, vectors_of(embedding, first))
                self.known[laid] = projection
                if len(self.known) > MOST_KNOWN:
                    del self.known[next(iter(self.known))]
            projection = self.known[laid]
        return copy.copy(projection)


def open_vectors(what: str, root: Path, look: Look, reader_for: Callable[[Path], RunReader]) -> Laid:
    """Word vectors opened by name, in the plane; those of a run as they are on its time line. LabError as
    `open_embedding`."""
    embedding = open_embedding(what, root)
    name, objective = objective_asked(what)
    if existing_path(what) is None or not Path(what).expanduser().is_file():
        place, _ = find_model(name, root)
        if is_run(place) and info_of(RunDirectory(place)).kind == "word-vectors":
            reader, step = reader_for(place), int(embedding.title.removesuffix(f":{objective}").rpartition("@")[2])
            first = not objective or objective in objectives_in(reader)[:1]
            if len(reader.frames.steps):
                look = replace(look, objective="" if first else objective)
                return replace(Pictures().lay(reader, embedding, step, look), step=None)
    return lay(embedding, look, Projection(look.pairs))


def objectives_in(reader: RunReader) -> tuple[str, ...]:
    """The objectives of the run, the first one first; () if there is only one."""
    vectors = reader.scenario.get("vectors")
    if not isinstance(vectors, dict) or not isinstance(vectors.get("beside"), list):
        return ()
    names = [each for each in (vectors.get("objective"), *vectors["beside"]) if isinstance(each, str)]
    return tuple(dict.fromkeys(names)) if len(names) > 1 else ()


def offer_vectors(dialog: Choose, root: Path) -> None:
    """Add the available word vectors to the dialog: models, and each objective of a run with several."""
    from txlab.tui.screens.attention.dialogs import models_here

    rows: list[tuple[str, str, bool]] = []
    models = models_here(root)
    called = name_runs(root / name for name, _ in models if is_run(root / name))
    for name, about in models:
        rows.append((name, about, False))
        with suppress(LabError):
            run = RunDirectory(root / name)
            if is_run(run.path) and info_of(run).kind == "word-vectors" and len(names := objectives_of(run)) > 1:
                rows += [(f"{name}:{each}", f"its vectors by {each}", False) for each in names[1:]]
                called |= {f"{name}:{each}": f"{called.get(name, name)}:{each}" for each in names[1:]}
    dialog.app.call_later(dialog.offer, rows, called)


def words_in_all(reader: RunReader) -> int:
    """The number of words of the run; 0 = unknown."""
    count = reader.info.facts.get("vocabulary")
    return count if isinstance(count, int) else 0


def words_asked(reader: RunReader, embedding: Embedding) -> tuple[str, ...]:
    """The probe words of the scenario that have a vector."""
    look = reader.scenario.get("probe")
    asked = look.get("words") if isinstance(look, dict) else None
    return tuple(word for word in asked if word in embedding.ids) if isinstance(asked, list) else ()


@dataclass(frozen=True)
class WordPath:
    """The positions (m, 2) of a word in the frames from step `first` to step `last`."""

    word: str
    points: np.ndarray
    first: int
    last: int


def path_of(
    reader: RunReader, word: str, step: int | None, look: Look, projection: Projection, late: Callable[[], bool]
) -> WordPath:
    """The positions of a word in the frames up to a step, on the axes of the present picture."""
    steps = [int(each) for each in reader.frames.steps if step is None or each <= step]
    points, known = [], []
    for each in sorted({steps[place] for place in np.linspace(0, len(steps) - 1, PATH_FRAMES).round().astype(int)}):
        if late():
            break
        embedding = embedding_of_frame(reader.frames.read(each), reader.directory.path.name, look.objective)
        row = embedding.ids.get(word)
        if row is not None:
            points.append(projection.place(embedding, vectors_of(embedding, look))[row])
            known.append(each)
    return WordPath(word, np.array(points).reshape(-1, 2), *((known[0], known[-1]) if known else (0, 0)))
