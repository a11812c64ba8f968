"""The word vectors of a recorded run: at a step, how their pictures are turned, the path of a word. Called in threads.

Notable: any program may record frames and facts, so nothing about them is taken for granted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.plane import Projection
from txlab.errors import LabError
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, info_of
from txlab.runs.embeddings import embedding_of_state, objectives_of
from txlab.runs.folder import is_run
from txlab.runs.label import handle_of, read_label
from txlab.runs.reader import RunReader
from txlab.runs.summary import scenario_name
from txlab.tui.screens.vectors.picture import Look, embedding_of_frame, vectors_of

if TYPE_CHECKING:
    from txlab.tui.screens.dialogs import Choose

PATH_FRAMES = 40  # of a run, for the path of a word
MOST_KNOWN = 64  # pictures on which others are laid


def words_at(reader: RunReader, step: int, objective: str = "") -> Embedding:
    """All words where there is a checkpoint, those of the frame elsewhere. LabError if the frame has none."""
    path, info = reader.directory.path, reader.info
    called = handle_of(info, read_label(path), scenario_name(path, info.scenario))
    if info.kind == "word-vectors" and step in checkpoints.steps(reader.directory):
        with suppress(LabError):  # damaged, or removed meanwhile
            return embedding_of_state(checkpoints.load(reader.directory, step, arrays=True), called, objective)
    return embedding_of_frame(reader.frames.read(step), called, objective)


class Pictures:
    """How the pictures of a run are turned to lie on each other. A picture depends on its step alone, and not on those
    that were looked at before it.

    Notable: the first frame is laid, on it the last one within 1 step of it, then within 2, 4, 8, …, and on those the
    picture that is wanted: all pictures between two powers of two lie on the same one, and a jump reads a dozen frames.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], Projection] = {}

    def before(self, reader: RunReader, step: int, look: Look) -> Projection:
        """What the picture at a step is laid on. The vectors by another objective are laid on those by the first."""
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


def objectives_in(reader: RunReader) -> tuple[str, ...]:
    """The objectives that the run learns by beside each other, the first one first; () if there is one alone."""
    vectors = reader.scenario.get("vectors")
    if not isinstance(vectors, dict) or not isinstance(vectors.get("beside"), list):
        return ()
    found = [each for each in (vectors.get("objective"), *vectors["beside"]) if isinstance(each, str)]
    return tuple(dict.fromkeys(found)) if len(found) > 1 else ()


def offer_vectors(dialog: Choose, root: Path) -> None:
    """Add what has word vectors to the dialog: models, and each objective that a run learns by beside others."""
    from txlab.tui.screens.attention.dialogs import models_here

    found: list[tuple[str, str, bool]] = []
    for name, about in models_here(root):
        found.append((name, about, False))
        with suppress(LabError):
            run = RunDirectory(root / name)
            if is_run(run.path) and info_of(run).kind == "word-vectors" and len(names := objectives_of(run)) > 1:
                found += [(f"{name}:{each}", f"its vectors by {each}", False) for each in names[1:]]
    dialog.app.call_later(dialog.offer, found)


def words_in_all(reader: RunReader) -> int:
    """How many words the run learns; 0 = unknown."""
    found = reader.info.facts.get("vocabulary")
    return found if isinstance(found, int) else 0


def word_asked(reader: RunReader, embedding: Embedding) -> str:
    """The first word that the scenario asks about, or else the most frequent one."""
    look = reader.scenario.get("look")
    asked = look.get("words") if isinstance(look, dict) else None
    words = [word for word in asked if isinstance(word, str)] if isinstance(asked, list) else []
    return next((word for word in words if word in embedding.ids), embedding.words[0])


def path_of(
    reader: RunReader, word: str, step: int | None, look: Look, projection: Projection, late: Callable[[], bool]
) -> np.ndarray:
    """Where a word was in the frames up to a step, (m, 2), on the axes of the present picture."""
    steps = [int(each) for each in reader.frames.steps if step is None or each <= step]
    points = []
    for each in sorted({steps[place] for place in np.linspace(0, len(steps) - 1, PATH_FRAMES).round().astype(int)}):
        if late():
            break
        embedding = embedding_of_frame(reader.frames.read(each), reader.directory.path.name, look.objective)
        row = embedding.ids.get(word)
        if row is not None:
            points.append(projection.place(embedding, vectors_of(embedding, look))[row])
    return np.array(points).reshape(-1, 2)
