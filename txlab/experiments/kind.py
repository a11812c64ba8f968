"""The interface of a kind of experiment to the rest of the program, and the discovery of kinds.

A kind is a module or a package in `txlab/experiments/kinds/` with an object `KIND`; its name is that of the file, with
- for _. Other installed packages add kinds through entry points of the group `txlab.kinds` ("module:object"). There is
no list of kinds: code that depends on the kind of a run asks its `Kind`.

Importing a kind must import neither torch nor textual, because validating a scenario imports its kind. Methods that
need torch import it inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from txlab.errors import LabError, choices
from txlab.experiments import kinds
from txlab.experiments.metric import Metric, metric_of
from txlab.experiments.schema import Scenario
from txlab.plugins import import_in_turn, load_plugin, plugins

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.engine.games.players import Player
    from txlab.experiments.loaded_model import LoadedModel
    from txlab.experiments.protocol import Experiment, Frame, State

ENTRY_POINTS = "txlab.kinds"


@dataclass(frozen=True)
class Strength:
    """A run's record of the strength of its player.

    about    the measure and the opponent: "points a game against its copy of 0 games, 95 % interval"
    metrics  the names of the metrics that `of` takes, in that order
    of       returns (value, low, high); both ends are the value if it is computed exactly
    games    the games of a step, or the name of the metric that counts those so far
    most     the games in all; 0 = not known beforehand
    """

    about: str
    metrics: tuple[str, ...]
    of: Callable[..., tuple[float, float, float]]
    games: int | str
    most: int = 0


class Kind:
    """One kind of experiment. The base class serves runs of an unknown kind, such as those of another program.

    title       one line for display         schema   the class of its scenarios
    METRICS     the metrics that it records, in the order of lists; see metric.py
    screen      the screen that shows its runs
    attends     whether its network has attention, so that the Attention screen opens its runs
    remembers   whether its frames have the states of recurrent units, which Recurrent shows
    draws       whether its frames have curves or vectors of its own (curve/…, points/…), which Figure shows
    writes      whether its runs may record texts as samples
    plays_from  "frames" or "checkpoints", the input of `player`; "" = its runs have no player
    looks_ahead the unit of a player's `looking`, "plies", and its maximum
    looks_quickly  how far a player looks in rating games, of which there are hundreds; None = as usual
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    schema: ClassVar[type[Scenario]] = Scenario
    METRICS: ClassVar[Sequence[Metric]] = ()
    screen: ClassVar[str] = "train"
    attends: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    writes: ClassVar[bool] = True
    plays_from: ClassVar[Literal["", "frames", "checkpoints"]] = ""
    looks_ahead: ClassVar[tuple[str, int]] = ("", 0)
    looks_quickly: ClassVar[int | None] = None

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Return the scenario with every `auto` decided and everything explicit that a second run must repeat.

        `say` is called with a line before a long measurement.
        """
        usual = {"thread_mode": "operations", "cuda_graphs": False}
        left = {name: value for name, value in usual.items() if getattr(scenario.compute, name) == "auto"}
        if not left:
            return scenario
        return scenario.model_copy(update={"compute": scenario.compute.model_copy(update=left)})

    def reasons(self, scenario: Any) -> Sequence[str]:
        """Why `resolve` decided as it did in this process, a sentence each."""
        return ()

    def build(self, scenario: Any) -> Experiment:
        """Build the experiment of a validated scenario, before its first step; a remaining `auto` is decided first."""
        raise NotImplementedError

    def open_model(self, scenario: Any, state: State) -> LoadedModel:
        """Load the model of a checkpoint, without its data. LabError if the kind has no model or it does not fit."""
        raise LabError(f"an experiment of the kind {self.name} does not have a text model")

    def player(self, scenario: Any, kept: Frame | State | None, looking: int | None = None) -> Player:
        """The player of a run (MATH G), from one of its frames or the state of a checkpoint.

        kept      None: the player before the first step; only for kinds that play from checkpoints
        looking   how far it looks: plies, visits; None = as usual
        """
        raise LabError(f"a run of the kind {self.name} has no player")

    def strength(self, scenario: Any, facts: Mapping[str, Any]) -> Strength | None:
        """How strong a run's player was, from the run's metrics; None if it records none.

        facts   the facts of run.json
        """
        return None

    def validation_text(self, scenario: Any) -> str:
        """Return the validation text of a scenario, which its model does not learn from; "" = it has none.

        LabError if the corpus cannot be read.
        """
        return ""

    def adopt(self, scenario: Any, opened: LoadedModel) -> Any:
        """Return the scenario with the shape settings it leaves open taken from the model that it starts from.

        LabError if its own settings disagree with that model or its tokenizer.
        """
        raise LabError(f"an experiment of the kind {self.name} cannot start from weights")

    def metric(self, name: str) -> Metric:
        """The metric of that name, declared or guessed.

        >>> Kind().metric("memory_mb").unit, Kind().metric("loss").unit
        ('MB', '')
        >>> kind_named("mdp-control").metric("return/sarsa").unit, kind_named("language-model").metric("loss").unit
        ('return of an episode', 'nats')
        """
        return metric_of(name, self.METRICS)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain the value of metric `name` in a row; None if there is nothing to add to the number.

        values  the latest metrics at that step, including this one
        facts   the facts of run.json, for what depends on the machine or the corpus
        """
        return None

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """Explain `frame.tensors[tensor][index]`. LabError if the frame lacks the data for it."""
        from txlab.experiments.learning.explanations import explain_attention

        return explain_attention(frame, tensor, index)

    def explain_scenario(self, scenario: Any, seconds: float = 0.0) -> Explanation | None:
        """Parameters, memory and FLOPs of a scenario's model before it has run; None if no model is trained.

        seconds   the expected duration, 0 = unknown; if given, the answer ends in FLOP/s.
        LabError if something is known only once the data have been read.
        """
        return None

    def require_divisible(self, scenario: Any, count: int) -> None:
        """Raise LabError if `count` > 1 processes cannot compute the scenario together."""
        raise LabError(
            f"compute.processes = {count}: an experiment of the kind {self.name} cannot be split between processes; "
            "allowed: 1"
        )

    def require_possible(self, scenario: Any) -> None:
        """Raise LabError if this machine could never compute the scenario; called before anything is written."""


UNKNOWN = Kind()
_registered: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Register a kind in this process only, as tests do."""
    _registered[kind.name] = kind


def kind_named(name: str) -> Kind:
    """The kind of that name. LabError with the nearest name and all allowed ones."""
    kind = _find(name)
    if kind is None:
        known = kind_names()
        raise LabError(f"kind = {name!r} is not an experiment{choices(name, known)}")
    return kind


def kind_of_run(name: object) -> Kind:
    """The kind of a run, for viewing; `UNKNOWN` if it is not known, as for another program's runs."""
    try:
        return (_find(name) if isinstance(name, str) else None) or UNKNOWN
    except LabError:  # the kind of a broken installed package
        return UNKNOWN


def kind_names() -> list[str]:
    """All kinds, by name."""
    return sorted({*_built_in_names(), *plugins(ENTRY_POINTS), *_registered})


def explain_metric(
    scenario: Mapping[str, Any],
    name: str,
    step: int,
    values: Mapping[str, float],
    facts: Mapping[str, Any] | None = None,
) -> Explanation | None:
    """Explain the value of metric `name` in row `step`; None if there is nothing to add to the number.

    scenario  the run's scenario.toml as a dict; other arguments as in `Kind.explain_metric`
    """
    kind = kind_of_run(scenario.get("kind"))
    if kind is UNKNOWN or name not in values:
        return None
    from txlab.experiments.machine_explanations import explain_machine

    asked = kind.schema.model_validate(dict(scenario))
    explanation = kind.explain_metric(asked, name, step, values, facts or {})
    return explanation or explain_machine(asked, name, step, values, facts or {})


def explain_scenario(scenario: Scenario, seconds: float = 0.0) -> Explanation | None:
    """The size of a scenario's model and the cost of a step; see `Kind.explain_scenario`."""
    return kind_named(scenario.kind).explain_scenario(scenario, seconds)


@cache
def _built_in_names() -> frozenset[str]:
    return frozenset(module.name.replace("_", "-") for module in iter_modules(kinds.__path__))


def _find(name: str) -> Kind | None:
    if name in _registered:
        return _registered[name]
    if name in _built_in_names():
        kind: Kind = import_in_turn(f"{kinds.__name__}.{name.replace('-', '_')}").KIND
        return kind
    point = plugins(ENTRY_POINTS).get(name)
    return None if point is None else load_plugin(point, Kind)
