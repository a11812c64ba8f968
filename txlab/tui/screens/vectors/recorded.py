"""The word vectors of a recorded run: at a step, its name, and the path of a word. Called in threads.

Notable: any program may record frames and facts, so nothing about them is taken for granted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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


def words_at(reader: RunReader, step: int, objective: str = "") -> Embedding:
    """All words where there is a checkpoint, those of the frame elsewhere. LabError if the frame has none."""
    path, info = reader.directory.path, reader.info
    called = handle_of(info, read_label(path), scenario_name(path, info.scenario))
    if info.kind == "word-vectors" and step in checkpoints.steps(reader.directory):
        with suppress(LabError):  # damaged, or removed meanwhile
            return embedding_of_state(checkpoints.load(reader.directory, step, arrays=True), called, objective)
    return embedding_of_frame(reader.frames.read(step), called, objective)


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
