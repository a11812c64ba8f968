"""Open word vectors: those of a run of word2vec, the token embeddings of a language model, or a file.

A language model's words are its tokens: v is the embedding W_E, and u the unembedding W_U if it has its own table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.formats import Decoding, read_vectors
from txlab.errors import LabError, nearest
from txlab.experiments.kinds.word_vectors.schema import ObjectiveName
from txlab.experiments.protocol import State
from txlab.runs.directory import RunDirectory, info_of
from txlab.runs.folder import is_run
from txlab.runs.models import (
    OpenModel,
    existing_path,
    find_model,
    load_checkpoint,
    open_checkpoint,
    open_folder,
    scenario_of,
)
from txlab.runs.remote.address import address_of, mirror_of

if TYPE_CHECKING:
    from txlab.experiments.kinds.word_vectors.schema import WordVectorScenario

OBJECTIVE = re.compile(rf"(.+):({'|'.join(get_args(ObjectiveName))})", re.DOTALL)


def open_embedding(
    what: str, root: Path | None = None, step: int | None = None, decoding: Decoding = "replace"
) -> Embedding:
    """Open word vectors by name.

    what  a file of word vectors, or as in `open_model`: a run's name or directory, "latest", "RUN@1200", "HOST:RUN", a
          checkpoint's directory, a folder of published weights; of a run that learns by several objectives in parallel,
          "RUN:nce" or "RUN@1200:nce" are the vectors of one of them
    step  the same as @: the checkpoint nearest to it; None = the newest
    decoding  of a file, see `read_vectors`

    LabError, one sentence, if there is no match, or it has no words.
    """
    if (file := existing_path(what)) is not None and file.is_file():
        return read_vectors(file, decoding)
    what, objective = objective_asked(what)
    try:
        place, asked = find_model(what, root)
    except LabError:
        there = existing_path(what)
        if (
            address_of(what) is None
            and not (there and there.is_dir())
            and ("/" in what or Path(what).suffix.lower() in SUFFIXES)
        ):
            missing = f"{what} does not exist: it is neither a file of word vectors nor a run"
            raise LabError(missing + similar_file(what)) from None
        raise
    step = asked if step is None else step
    if not is_run(place):
        return embedding_of_model(open_folder(place))
    run = RunDirectory(place)
    if info_of(run).kind != "word-vectors":
        return embedding_of_model(open_checkpoint(run, step))
    far = mirror_of(place)
    called = run.name if far is None else f"{far.host}:{run.name}"
    if objective and objective not in (known := objectives_of(run)):
        raise LabError(f"{called} has no vectors by {objective}; allowed: {', '.join(known)}")
    found, state, _ = load_checkpoint(run, step, arrays=True)
    return embedding_of_state(state, f"{called}@{found}{objective and f':{objective}'}", objective)


SUFFIXES = (".txt", ".vec", ".bin", ".gz", ".model", ".kv", ".glove", ".w2v")


def similar_file(what: str) -> str:
    """The file of the nearest name in the same folder, to be named in an error."""
    try:
        path = Path(what).expanduser()
        return nearest(path.name, [each.name for each in islice(path.parent.iterdir(), 1000)])
    except (OSError, ValueError, RuntimeError):
        return ""


def objective_asked(what: str) -> tuple[str, str]:
    """("RUN", "nce") of "RUN:nce"; without an objective, it is the run's first one, "".

    >>> objective_asked("latest:nce"), objective_asked("latest@20")
    (('latest', 'nce'), ('latest@20', ''))
    """
    match = OBJECTIVE.fullmatch(what)
    return (match[1], match[2]) if match else (what, "")


def objectives_of(run: RunDirectory) -> tuple[str, ...]:
    """The objectives that a run of word vectors learns by, the first one first. LabError if its scenario is damaged."""
    scenario: WordVectorScenario = scenario_of(run)  # type: ignore[assignment]
    return scenario.vectors.objective, *scenario.vectors.beside


def embedding_of_state(state: State, title: str = "", objective: str = "") -> Embedding:
    """The word vectors of a checkpoint, by the first objective or another one of the run. With hierarchical softmax, u
    belongs to the nodes of the tree and is left out.

    LabError if the checkpoint contradicts itself.
    """
    tables = state.get("beside", {}).get(objective, state)
    words, v, u = tuple(state["words"]), tables["v"], tables["u"]
    if len(words) != len(v) or len(set(words)) != len(words):
        raise LabError(f"{title} has {len(v)} vectors for {len(set(words))} words")
    return Embedding(words, v, state["counts"], u if u.shape == v.shape else None, title)


def embedding_of_model(opened: OpenModel) -> Embedding:
    """The token embedding of a language model, for an encoder–decoder that of its source; LabError for pictures."""
    model: Any = opened.model
    if opened.kind == "vision":
        raise LabError(f"{opened.title} reads pictures: it has no words")
    if opened.kind == "encoder-decoder":
        table, output = model.embed_target if model.embed_source is None else model.embed_source, None
    else:
        table, output = model.embed, model.unembed
    vectors = table.weight.detach().float().numpy()
    context = None if output is None else output.weight.detach().float().numpy()
    words = distinct(opened.labels(range(len(vectors))))
    return Embedding(words, vectors, context=context, title=opened.title)


def distinct(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels of tokens 0, 1, 2 …, with the id appended to a label that is empty or already used by an earlier
    token.

    >>> distinct(["a", "b", "a", ""])
    ('a', 'b', 'a#2', '#3')
    """
    names: dict[str, None] = {}
    for token, label in enumerate(labels):
        while label in names or not label:
            label += f"#{token}"
        names[label] = None
    return tuple(names)
