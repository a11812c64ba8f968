"""Open any model by its name: a run, one of its checkpoints, or a folder with published weights.

A running run is opened at its newest complete checkpoint while it continues; its data is not loaded. An OpenModel
encodes the user's text as the model's input, and shows its tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txlab.errors import LabError
from txlab.experiments.loaded_model import LoadedModel, ModelKind, Special
from txlab.runs import checkpoints
from txlab.runs.directory import ALIVE, RunDirectory, RunInfo, info_of, state_of
from txlab.runs.finding import find_run
from txlab.runs.folder import is_run
from txlab.runs.frames import FrameIndex
from txlab.runs.remote.state import remote_state

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.engine.games.players import Player
    from txlab.engine.interpret.sites import Model, Text
    from txlab.engine.tokenizers.tokenizer import Tokenizer
    from txlab.engine.transformer.weights import Loaded
    from txlab.engine.transformer.weights.generation_configs import Generation
    from txlab.experiments.kind import Kind
    from txlab.experiments.protocol import State
    from txlab.experiments.schema import Scenario


CONFIG = "config.json"
ENOUGH = 1.0  # seconds for the rows of a log, which no model needs


@dataclass(frozen=True)
class OpenModel:
    """A model with its tokenizer.

    name     the name shown: the run's or the folder's
    origin   the run's directory, or the folder
    step     the step of the checkpoint; None for a folder of published weights
    steps    the checkpoints of this run that can be opened
    example, example_target   an initial text; "" = none
    note     a sentence about the model for the user; "" = none
    generation   the folder's generation settings; None for a run
    typed_special   whether special tokens typed by the user become these tokens, or stay plain text
    beside   other models learnt with it, by name (a reward model)
    """

    name: str
    kind: ModelKind
    model: Model
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None = None
    step: int | None = None
    origin: Path = Path()
    steps: tuple[int, ...] = ()
    special: Special = field(default_factory=Special)
    example: str = ""
    example_target: str = ""
    note: str = ""
    generation: Generation | None = None
    typed_special: bool = False
    beside: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """ "2026-11-20_143012_gpt-docs@1200" """
        return self.name if self.step is None else f"{self.name}@{self.step}"

    @property
    def context(self) -> int | None:
        """The number of positions of the model; None if it is unlimited."""
        return getattr(self.model.shape, "context", None)

    @property
    def never(self) -> tuple[int, ...]:
        """Ids that are never generated: those a folder forbids; for a run, padding and the start token of a target."""
        if self.generation is not None:
            return tuple(self.generation.rules.never)
        special = self.special
        return (*as_tuple(special.pad), *(as_tuple(special.begin) if self.kind == "encoder-decoder" else ()))

    @property
    def weights(self) -> dict[str, Tensor]:
        """All parameters by name; those of `beside` have names that begin with "beside."."""
        return {**self.model.state_dict(), **{f"beside.{name}": tensor for name, tensor in self.beside.items()}}

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the weights, independent of where they were read from: a digest of all parameters by name."""
        return digest_of(self.weights)

    def with_special(self) -> OpenModel:
        """The same model, with typed special tokens recognised; LabError if its tokenizer has none."""
        from txlab.engine.tokenizers.tokenizer import specials_of

        for tokenizer in (self.tokenizer, self.target_tokenizer):
            if tokenizer is not None and not specials_of(tokenizer):
                raise LabError(f"--special is for tokenizers with special tokens, and that of {self.title} has none")
        return replace(self, typed_special=True)

    # From a text to the model's input

    def ids(self, text: str) -> tuple[int, ...]:
        """The ids of a text or source, with the special tokens that this model adds. "[MASK]" is BERT's mask."""
        special = self.special
        ids = self._encode(text)
        if special.around is not None:
            before, behind = special.around
            return (*before, *ids, *behind)
        if self.kind == "encoder-decoder":
            return (*as_tuple(special.source_begin), *ids, *as_tuple(special.source_end))
        if self.kind == "bert":
            return (*as_tuple(special.begin), *ids, *as_tuple(special.end))
        return (*as_tuple(special.begin), *ids)

    @property
    def reads_pairs(self) -> bool:
        return bool(self.special.between)

    def pair(self, first: str, second: str) -> Text:
        """Two texts as BERT reads them: [CLS] first [SEP] second [SEP], with segments 0 and 1; RoBERTa's pairs have
        </s></s> between them and no segments. An empty second text counts as none, as in the models' tokenizers."""
        from txlab.engine.interpret.sites import Text

        if not self.reads_pairs:
            raise LabError(
                f"{self.title} reads one text; pairs are for models such as BERT and RoBERTa, "
                "with a tokenizer that puts around two texts what it puts around one"
            )
        if not second:
            return Text(self.ids(first))
        special, shape = self.special, self.model.shape
        begin, end = special.around or (as_tuple(special.begin), as_tuple(special.end))
        before = (*begin, *self._encode(first), *special.between)
        after = (*self._encode(second), *end)
        has_segments = len(special.between) == 1 and getattr(shape, "segments", 0) > 1
        return Text((*before, *after), segments=(0,) * len(before) + (1,) * len(after) if has_segments else ())

    def _encode(self, text: str) -> list[int]:
        from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
        from txlab.engine.tokenizers.tokenizer import specials_of

        mask = self.special.names.get(self.special.mask) if self.special.mask is not None else None
        known = self.typed_special and mask in specials_of(self.tokenizer)
        if not mask or mask not in text or known:
            return self._encode_typed(self.tokenizer, text)
        parts = text.split(mask)
        if isinstance(self.tokenizer, BytePairTokenizer) or mask == "<mask>":
            # Words begin with their space, in RoBERTa too, so the space before a mask belongs to the hidden word.
            parts[:-1] = [part.removesuffix(" ") for part in parts[:-1]]
        ids: list[int] = []
        for number, part in enumerate(parts):
            ids += [self.special.mask] if number else []  # type: ignore[list-item]
            ids += self._encode_typed(self.tokenizer, part)
        return ids

    def _encode_typed(self, tokenizer: Any, text: str) -> list[int]:
        return list(tokenizer.encode(text, special=True) if self.typed_special else tokenizer.encode(text))

    def target_ids(self, text: str, end: bool = True) -> tuple[int, ...]:
        """The ids of a target as an encoder–decoder reads it: the start token first, the end token last."""
        ids = self._encode_typed(self.target_tokenizer or self.tokenizer, text)
        return (*as_tuple(self.special.begin), *ids, *(as_tuple(self.special.end) if end else ()))

    def text(self, source: str, target: str | None = None, pair: str | None = None) -> Text:
        """The model's input. `target` is for an encoder–decoder (without it, only the start token); `pair` is a second
        text, for BERT-like models."""
        from txlab.engine.interpret.sites import Text

        if self.kind == "vision":
            raise LabError(f"{self.title} reads pictures, not texts")
        if self.kind != "encoder-decoder":
            if target is not None:
                raise LabError(f"{self.title} is not an encoder–decoder: it reads one text, and has no target")
            return Text(self.ids(source)) if pair is None else self.pair(source, pair)
        if pair is not None:
            raise LabError(f"{self.title} reads a source and a target, not a pair of texts")
        return Text(self.ids(source), self.target_ids(target or "", end=False))

    # From ids to text

    def labels(self, ids: Iterable[int]) -> list[str]:
        """Each token as text to show, unescaped."""
        return [self._label(self.tokenizer, token, self.special.names) for token in ids]

    def target_labels(self, ids: Iterable[int]) -> list[str]:
        """The same for target tokens of an encoder–decoder, and for the predictions of any model."""
        names = self.special.target_names or self.special.names
        return [self._label(self.target_tokenizer or self.tokenizer, token, names) for token in ids]

    def _label(self, tokenizer: Tokenizer, token: int, names: Mapping[int, str]) -> str:
        if token in names:
            return names[token]
        # A model may have more rows than its tokenizer has tokens: the rest pads the table.
        return tokenizer.label(token) if token < tokenizer.vocabulary else f"[{token}]"

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids; special tokens, and rows that are not tokens, are left out."""
        tokenizer = self.target_tokenizer or self.tokenizer
        names = self.special.target_names or self.special.names
        return tokenizer.decode([token for token in ids if token not in names and token < tokenizer.vocabulary])


def as_tuple(token: int | None) -> tuple[int, ...]:
    return () if token is None else (token,)


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """The SHA-256 of the names, shapes and numbers of a state dict; about half a gigabyte per second."""
    from hashlib import sha256

    import torch

    digest = sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def open_model(name: str, root: Path | None = None, step: int | None = None) -> OpenModel:
    """Open a model by name, in eval mode, on the CPU.

    name  "latest", a run's name or directory, "RUN@1200" (its checkpoint nearest to that step), a checkpoint's
          directory, or a folder with config.json and *.safetensors
    step  the same as @: the checkpoint nearest to it; None = the newest

    Raises LabError, one sentence with the nearest name.
    """
    place, asked = find_model(name, root)
    step = asked if step is None else step
    return open_checkpoint(RunDirectory(place), step) if is_run(place) else open_folder(place)


def find_model(name: str, root: Path | None = None) -> tuple[Path, int | None]:
    """The run or folder that a name refers to, and the requested step."""
    path = existing_path(name)
    folder = path.resolve() if path is not None and path.is_dir() else None
    in_checkpoints = folder is not None and folder.parent.name == "checkpoints" and folder.name.isdecimal()
    if folder is not None and in_checkpoints and is_run(folder.parents[1]):
        return folder.parents[1], int(folder.name)
    if folder is not None and not is_run(folder) and holds_model(folder):
        return folder, None
    try:
        return find_run(name, root, ENOUGH), None
    except LabError:
        asked = re.fullmatch(r"(.+)@(\d{1,12})", name, re.DOTALL)
        if asked:
            return find_run(asked[1], root, ENOUGH), int(asked[2])
        if folder is not None:
            raise LabError(
                f"{name} is a folder with neither a run (run.json) nor a model ({CONFIG} and *.safetensors)"
            ) from None
        raise


def existing_path(name: str) -> Path | None:
    """The path of that name, if something is there; accepts any string."""
    try:
        path = Path(name).expanduser()
        return path if name and path.exists() else None
    except (OSError, ValueError, RuntimeError):
        return None


def holds_model(folder: Path) -> bool:
    """Whether a folder looks like published weights; only reading them tells for certain."""
    try:
        return any(path.name == CONFIG or path.suffix in (".safetensors", ".bin") for path in folder.iterdir())
    except OSError:
        return False


def open_checkpoint(run: RunDirectory, step: int | None = None) -> OpenModel:
    """Open a run's model at its newest checkpoint, or at that nearest to `step`; damaged checkpoints are skipped."""
    from txlab.experiments.kind import kind_named

    nearest, state, steps = load_checkpoint(run, step)
    scenario = scenario_of(run)
    opened = kind_named(scenario.kind).open_model(scenario, state)
    return open_as(opened, run.name, run.path, nearest, steps)


def load_checkpoint(
    run: RunDirectory, step: int | None = None, arrays: bool = False
) -> tuple[int, State, tuple[int, ...]]:
    """(step, state, the steps of all checkpoints) of a run's newest checkpoint, or of that nearest to `step`; tensors
    as NumPy's `arrays` if requested. That of a run on another machine is fetched first."""
    info = info_of(run)
    if info.kind == "recorded":
        raise LabError(f"{run.name} was recorded by another program, and has no model that can be opened")
    far, there = remote_state(run.path), []
    if far is not None:
        from txlab.runs.remote.fetching import fetch_nearest

        there = fetch_nearest(run, step)
    wanted = checkpoints.order_of(checkpoints.sound(run), step)
    if not wanted:
        name = run.name if far is None else f"{far.host}:{run.name}"
        advice = f"; txlab resume {run.name} continues it" if info.status != "failed" and far is None else ""
        if state_of(run, info).status in ALIVE:
            advice = f"; it runs, and txlab control {name} checkpoint makes one"
        raise LabError(f"{name} has no checkpoint yet, so there is no model to open{advice}")
    damage: list[LabError] = []
    for nearest in wanted:
        # A checkpoint that a running process removes meanwhile, or that is damaged, is skipped as if it were absent.
        try:
            return nearest, checkpoints.load(run, nearest, arrays), tuple(sorted({*wanted, *there}))
        except LabError as error:
            damage.append(error)
    raise damage[0]


def steps_to_open(run: RunDirectory) -> list[int]:
    """The steps of the checkpoints that a model can be opened at, ascending, also if they would be fetched first."""
    if remote_state(run.path) is None:
        return checkpoints.sound(run)
    from txlab.runs.remote.fetching import steps_there

    return steps_there(run)


def scenario_of(run: RunDirectory) -> Scenario:
    """The scenario of a run. Unlike with `load_scenario`, its training text need not exist any more."""
    from txlab.runs.scenario import check, read_text, tables_in

    path = run.scenario_file
    text = read_text(path)
    return check(tables_in(text, path), text, path, {})


def held_out_text(opened: OpenModel) -> tuple[str, str]:
    """A text that the model has not been trained on, as far as is known, and its description: the validation text of
    its run, else Python's documentation. LabError if the corpus of the run cannot be read."""
    from txlab.experiments.corpora import load_corpus
    from txlab.experiments.kind import kind_named

    if is_run(opened.origin):
        scenario = scenario_of(RunDirectory(opened.origin))
        if text := kind_named(scenario.kind).validation_text(scenario):
            return text, "its validation text"
    return load_corpus("python-docs").text, "Python's documentation"


def open_as(opened: LoadedModel, name: str, origin: Path, step: int | None, steps: tuple[int, ...]) -> OpenModel:
    return OpenModel(name=name, origin=origin, step=step, steps=steps, **vars(opened))


def open_folder(folder: Path) -> OpenModel:
    """Open published weights with the tokenizer of the same folder; without one, texts are written as token ids."""
    from txlab.engine.tokenizers.elementary import NumberTokenizer
    from txlab.engine.transformer.weights import load_model

    loaded = load_model(folder)
    shape: Any = loaded.model.shape
    kind: ModelKind = loaded.kind  # type: ignore[assignment]
    notes = [loaded.facts[name] for name in ("head", "caveat", "tokenizer", "around") if name in loaded.facts]
    tokenizer, target = loaded.tokenizer, loaded.target_tokenizer
    if tokenizer is None:
        tokenizer = NumberTokenizer(getattr(shape, "vocabulary", 0) or shape.source_vocabulary)
        notes.append("so a text is a row of token ids, with spaces between them")
        if kind == "encoder-decoder":
            target = NumberTokenizer(shape.target_vocabulary)
    return OpenModel(
        name=folder.name,
        kind=kind,
        model=loaded.model,
        tokenizer=tokenizer,
        target_tokenizer=target,
        origin=folder,
        special=special_of(loaded, kind, tokenizer, target or tokenizer),
        note="; ".join(notes),
        generation=loaded.generation,
    )


# The names in BERT's published vocabularies, for special tokens whose ids a folder does not give.
NAMED = {"begin": "[CLS]", "separator": "[SEP]", "mask": "[MASK]"}


def special_of(loaded: Loaded, kind: ModelKind, tokenizer: Tokenizer, target: Tokenizer) -> Special:
    """The special tokens of a folder, as txlab uses them.

    For published encoders, what separates the texts of a pair comes from the tokenizer; if it says nothing, it is the
    token that ends a text, twice for RoBERTa.
    """
    from txlab.engine.tokenizers.tokenizer import names_of

    ids_of, around, ends = dict(loaded.special), loaded.around, loaded.generation.ends
    if kind == "bert":
        ids = {name: token for token, name in names_of(tokenizer).items()}
        ids_of = {word: ids[name] for word, name in NAMED.items() if name in ids} | ids_of

    def names(of: Tokenizer) -> dict[int, str]:
        named = [("end", token) for token in ends] + list(ids_of.items())
        if around is not None and of is tokenizer:
            named = [(str(token), token) for token in (*around[0], *around[1])] + named
        published = NAMED | {"end": NAMED["separator"]} if kind == "bert" else {}
        return {
            token: of.label(token) if token < of.vocabulary else published.get(word, f"[{word}]")
            for word, token in named
        }

    end, pad = ids_of.get("end"), ids_of.get("pad")
    if kind == "bert":
        end = ids_of.get("separator", end)
        between: tuple[int, ...] = ()
        if end is not None and around is not None:
            between = loaded.between or ()
        elif end is not None:
            between = (end,) * (2 if loaded.facts["model_type"].startswith("roberta") else 1)
        return Special(
            ids_of.get("begin"), end, ids_of.get("mask"), pad, around=around, names=names(tokenizer), between=between
        )
    if kind == "encoder-decoder":
        special = Special(ids_of.get("start", pad), end, pad=pad, source_end=end, around=around, ends=ends)
        return replace(special, names=names(tokenizer), target_names=names(target))
    # GPT-2 has one special token, which separates texts; only some tokenizers put one before each text.
    return Special(end=end, pad=pad, around=around, names=names(tokenizer), ends=ends)


def steps_that_play(path: Path) -> tuple[int, ...]:
    """The steps of a run at which it has a player (MATH G), ascending; a run with checkpoints also has step 0,
    untrained. LabError for a run of a kind without players."""
    run = RunDirectory(path)
    if kind_that_plays(path).plays_from == "checkpoints":
        return tuple(sorted({0, *checkpoints.sound(run)}))
    frames = FrameIndex(run.frames)
    frames.refresh()
    return tuple(map(int, frames.steps))


def kind_that_plays(path: Path) -> Kind:
    from txlab.engine.games.catalogue import games
    from txlab.experiments.kind import kind_of_run

    info = RunInfo.load(path)
    kind = kind_of_run(info.kind)
    if not kind.plays_from:
        known = sorted({name for game in games().values() for name in game.kinds})
        raise LabError(
            f"{path.name} is a run of the kind {info.kind or 'unknown'}, which has no player; those that have: "
            f"{', '.join(known)}"
        )
    return kind


def player_of_run(path: Path, step: int | None = None, looking: int | None = None) -> Player:
    """The player of a run now, or at the step nearest to `step`; the run may still be learning (MATH G).

    looking   its search depth: plies, visits; None = the default
    LabError for a run of another kind, or that has not played yet.
    """
    run, kind = RunDirectory(path), kind_that_plays(path)
    if kind.plays_from == "checkpoints":
        kept = None if step == 0 else load_checkpoint(run, step)[1]
        return kind.player(scenario_of(run), kept, looking)
    frames = FrameIndex(run.frames)
    frames.refresh()
    nearest = checkpoints.order_of(list(map(int, frames.steps)), step)
    if not nearest:
        raise LabError(f"{path.name} has no frame yet: it has not played")
    return kind.player(scenario_of(run), frames.read(nearest[0]), looking)


def player_named(name: str, root: Path | None = None, looking: int | None = None) -> Player:
    """The player of a run, "RUN", or at a step of it, "RUN@STEP". LabError if there is none of that name."""
    place, step = find_model(name, root)
    if not is_run(place):
        raise LabError(f"{name[:80]} is not a run, so it has no player")
    return player_of_run(place, step, looking)
