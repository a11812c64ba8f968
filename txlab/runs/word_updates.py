"""Explains the relation of two words in a run of word2vec: the update that last moved them, recomputed (MATH K4, K5).

Windows and noise are functions of seed and step, so the step in which a pair last met is found without computing
vectors. The checkpoint before it is then restored, and the run repeated up to this step, bit for bit.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.errors import LabError, nearest
from txlab.experiments.kinds.word_vectors import KIND
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, info_of, state_of
from txlab.runs.folder import is_run
from txlab.runs.models import find_model, scenario_of
from txlab.runs.process import pending_changes, rows_behind
from txlab.runs.remote.address import mirror_of

if TYPE_CHECKING:
    from txlab.engine.embeddings.blocks import Block
    from txlab.engine.embeddings.word2vec import Word2Vec
    from txlab.engine.explain import Explanation


def open_updates(what: str, root: Path | None = None) -> tuple[WordUpdates, int | None]:
    """The updates of a run, and the step given in its name: "RUN", "latest", "RUN@1200", see `open_model`. Of a run on
    another machine the whole log is read, and the checkpoint fetched."""
    from txlab.runs.remote.fetching import fetch_nearest
    from txlab.runs.remote.mirroring import open_run

    place, step = find_model(what, root)
    if not is_run(place):
        raise LabError(f"{what} is not a run, so it has no updates")
    run = RunDirectory(place)
    if (address := mirror_of(place)) is not None:
        open_run(address, whole=True)  # a change of the rate in its log decides every later step
        with suppress(LabError):  # without a checkpoint the run is repeated from its beginning
            fetch_nearest(run, step)
    return WordUpdates(run), step


class WordUpdates:
    """The updates of a run; `experiment` is at the step of the last query.

    LabError if the run is of another kind, or its text cannot be read any more.
    """

    def __init__(self, run: RunDirectory) -> None:
        from txlab.experiments.kinds.word_vectors.experiment import WordVectors

        if info_of(run).kind != "word-vectors":
            raise LabError(f"{run.name} is not a run of word2vec, so no update of it moved a pair of words")
        scenario: Any = scenario_of(run)
        self.run, self.experiment = run, WordVectors(KIND.resolve(scenario))
        self.start = self.experiment.state_dict()
        self.lock = Lock()  # the console queries in a thread, and again before the answer
        self.words = self.experiment.text.vocabulary.words

    def last(self, centre: str, context: str, step: int | None = None, objective: str = "") -> Explanation:
        """Explain the update that moved a centre and a context last, up to `step` (None = up to now), by the first
        objective of the run or by another one of it.

        With CBOW the first word was in the window, and the second was predicted. With skip-gram and a full softmax
        every step moves every pair: the explanation is of the prediction of that step. LabError if a word is unknown,
        they never met, or the run does not learn by this objective.
        """
        models = self.experiment.models
        if objective and objective not in models:
            raise LabError(f"{self.run.name} has no vectors by {objective}; allowed: {', '.join(models)}")
        with self.lock:
            return self._last(centre, context, step, models[objective] if objective else self.experiment.model)

    def _last(self, centre: str, context: str, step: int | None, model: Word2Vec) -> Explanation:
        from txlab.engine.embeddings.why import why_predicted

        made = state_of(self.run).step
        step = made if step is None else step
        if not 0 <= step <= made:
            raise LabError(f"step {step} is not in {self.run.name}; allowed: 0 to {made}")
        v, u = self._row(centre), self._row(context)
        if model.method.objective == "softmax" and model.method.architecture == "skip-gram":
            self._go_to(step)
            return why_predicted(model.v, model.u, v, u, self.words)
        last_met = self._last_block if model.in_blocks else self._last_stretch
        for before in range(step - 1, -1, -1):
            if v in self._text(before) and (place := last_met(model, before, v, u)) is not None:
                break
        else:
            raise LabError(
                f"{centre!r} and {context!r} have not met up to step {step}: nothing has moved them together"
            )
        self._go_to(before)
        start = self.experiment.state_dict()
        explain = self._explain_in_block if model.in_blocks else self._explain_by_prediction
        explanation = explain(model, before, place, v, u)
        self.experiment.load_state_dict(start)
        return explanation

    # Skip-gram with shared noise: blocks.

    def _blocks(self, model: Word2Vec, step: int) -> list[Block]:
        return list(model.blocks(self.experiment.windows(step), self.experiment.noise_draws(step)))

    def _last_block(self, model: Word2Vec, step: int, v: int, u: int) -> int | None:
        """The last block of a step in which a centre and a context meet, if there is one."""
        from txlab.engine.embeddings.why import meetings

        met = [place for place, block in enumerate(self._blocks(model, step)) if meetings(block, v, u).any()]
        return met[-1] if met else None

    def _explain_in_block(self, model: Word2Vec, step: int, place: int, v: int, u: int) -> Explanation:
        from txlab.engine.embeddings.why import learn_and_trace, why_pair_moved

        parts, alpha = self._blocks(model, step), self.experiment.rate(step)
        model.learn_blocks(parts[:place], alpha)
        return why_pair_moved(learn_and_trace(parts[place], model.v, model.u, alpha, v, u), step + 1, v, u, self.words)

    # Everything else: predictions one by one.

    def _last_stretch(self, model: Word2Vec, step: int, v: int, u: int) -> int | None:
        from txlab.engine.embeddings.why_prediction import takes_part

        if u not in self._text(step):
            return None
        stretches = model.stretches(self.experiment.windows(step))
        met = [place for place, each in enumerate(stretches) if takes_part(each, model.method, v, u)]
        return met[-1] if met else None

    def _explain_by_prediction(self, model: Word2Vec, step: int, place: int, v: int, u: int) -> Explanation:
        from txlab.engine.embeddings.why_prediction import learn_and_trace, why_prediction_moved

        alpha, draws = self.experiment.rate(step), self.experiment.noise_draws(step)
        for number, stretch in enumerate(model.stretches(self.experiment.windows(step))):
            if number == place:
                break
            model.learn_examples(stretch, alpha, draws)
        prediction = learn_and_trace(model, stretch, draws, alpha, v, u)
        tree = model.method.objective == "hierarchical"
        turns = [int(each) for each in model.turns[u].tolist() if each] if tree else []
        return why_prediction_moved(prediction, model.method, step + 1, v, self.words, turns)

    def _row(self, word: str) -> int:
        ids = self.experiment.text.vocabulary.ids
        if word not in ids:
            raise LabError(f"the word {word!r} has no vector{nearest(word, self.words)}")
        return ids[word]

    def _text(self, step: int) -> np.ndarray:
        """The words of a step, before subsampling: far cheaper to search than its blocks."""
        words = self.experiment.scenario.train.words
        start = step % self.experiment.steps_an_epoch * words
        return np.asarray(self.experiment.text.ids[start : start + words])

    def _go_to(self, step: int) -> None:
        """Restore the newest checkpoint up to `step`, and repeat the following steps, including the user's changes."""
        checkpoint, _ = checkpoints.read_newest(self.run, step)
        self.experiment.load_state_dict(checkpoint.state if checkpoint else self.start)
        rows, _ = rows_behind(self.run, checkpoint.about.log_bytes if checkpoint else 0)
        changes = pending_changes(checkpoint.about.pending if checkpoint else (), rows)
        while True:
            while changes and changes[0]["step"] <= self.experiment.step_count:
                change = changes.pop(0)
                self.experiment.adjust(change["key"], change["to"])
            if self.experiment.step_count == step:
                return
            self.experiment.step()
