"""The declaration of a metric: its unit, its label, its place in a list, and whether less is better.

A kind declares its metrics once, in `METRICS`; the metrics of every run, and of other programs' runs, are in COMMON,
the one table of guesses. All code that shows a metric uses the `Metric` of its name.

Names carry three facts themselves. "return/sarsa" is of the family "return/", whose members are drawn together;
"val_loss", or "eval/loss", is "loss" on unseen data; "return_low/sarsa" is an edge of the band of its metric.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

UNSEEN = ("val", "eval", "valid", "validation")
_PART = re.compile(rf"(train|{'|'.join(UNSEEN)})([/_])(.+)", re.DOTALL)
PARTS = tuple(f"{part}/" for part in ("train", *UNSEEN))
_PER_SECOND = "_per_second"


@dataclass(frozen=True)
class Metric:
    """One metric, or a family of metrics.

    key      its name in the log. One that ends in "/" or "_" is a family: all names that begin so and end in anything,
             "return/sarsa", or in a number, "accuracy_16"
    unit     of its values; "" if it has none, or it is unknown
    label    in a column of numbers; "" = the key, with spaces
    note     next to the number
    title    of a chart of the whole family; "" = its unit
    less     whether less is better; None if unknown
    primary  whether it is among the first, in the order of declaration
    group    "result": of learning; "aside": shown only on request; "machine": of speed and memory
    """

    key: str
    unit: str = ""
    label: str = ""
    note: str = ""
    title: str = ""
    less: bool | None = None
    primary: bool = False
    group: Literal["result", "aside", "machine"] = "result"

    @property
    def is_family(self) -> bool:
        return self.key.endswith(("/", "_"))

    def includes(self, name: str) -> bool:
        """Whether the name is this metric, or one of this family."""
        if not self.is_family or not name.startswith(self.key):
            return name == self.key
        return self.key.endswith("/") or name.removeprefix(self.key).isdecimal()


COMMON = (
    Metric("loss", less=True),
    Metric("val_loss", label="val", less=True),
    Metric("bits_per_byte", "bits/byte", label="bits/byte", less=True, group="aside"),
    Metric("val_bits_per_byte", "bits/byte", label="bits/byte", less=True),
    Metric("lr", group="aside"),
    Metric("grad_norm", label="‖grad‖", group="aside"),
    Metric("tokens_per_second", "tokens/s", group="machine"),
    Metric("steps_per_second", "steps/s", group="machine"),
    Metric("memory_mb", "MB", label="memory", group="machine"),
    Metric("memory_reserved_mb", "MB", group="machine"),
    Metric("host_memory_mb", "MB", group="machine"),
    Metric("share_of_peak", label="of peak", group="machine"),
    Metric("share_of_data_sheet", label="of sheet", group="machine"),
    Metric("seconds_left", "s", group="machine"),
    Metric("gpu_used_mb", "MB", group="machine"),
    Metric("gpu_total_mb", "MB", group="machine"),
    Metric("gpu_busy", label="busy", group="machine"),
    Metric("gpu_celsius", "°C", label="temperature", group="machine"),
    Metric("gpu_watts", "W", label="power", group="machine"),
    Metric("gpu_watts_limit", "W", group="machine"),
    Metric("gpu_slowed", label="slowed", group="machine"),
)
"""Metrics of any run, by any program."""

USUAL = ("loss", "val_loss", "val_bits_per_byte")
"""The primary metrics of a kind that declares none."""


# Parts of the names that programs give to quantities of training: less is better, more is better, neither.
LOSSES = (
    "loss|nll|ppl|perplexity|bpb|bpc|bits_per|cross_entropy|xent|elbo|kl_?div|entropy|mse|mae|rmse|error_rate|wer|cer"
)
SCORES = "acc|accuracy|auc|bleu|rouge|map|iou|dice|psnr|ssim|fid|f1|precision|recall|reward|return|rew_mean|score|elo"
OTHERS = "lr|learning_rate|grad|norm|mfu|tps|tok|tokens|throughput|fps|sps"
_RETURN = re.compile(
    r"(?:^|[/_])(?:ep|episodic|episode|mean|average|eval|test)_?(?:ep_?)?(?:rew|ret)\w*$|^reward$", re.I
)
_SCORE = re.compile(rf"(?:^|[_/.@-])(?:{SCORES})(?:$|[_/.@\d-])|acc(?:uracy)?$", re.I)
_LOSS = re.compile(rf"(?:^|[_/.-])(?:{LOSSES})(?:$|[_/.\d-])|loss$", re.I)
_PART_OF_LOSS = re.compile(r"entropy|policy|value|actor|critic|aux|kl|reg|box|cls|dfl|std", re.I)
_ASIDE = re.compile(
    rf"(?:^|[_/.-])(?:{OTHERS}|epochs?|steps?|iterations?|time\w*|len\w*|entropy|kl|clip\w*|memory|runtime|size|index)(?:$|[_/.\d-])|_std$",
    re.I,
)


def by_meaning(names: Sequence[str]) -> list[str]:
    """Names of an unknown program, the most telling first: the return of an episode, a loss, a score, then what is
    neither a rate, a time nor an entropy.

    >>> by_meaning(["train/entropy_loss", "rollout/ep_len_mean", "rollout/ep_rew_mean"])[0]
    'rollout/ep_rew_mean'
    >>> by_meaning(["policy/entropy", "lr", "eval_accuracy"]), by_meaning(["train/value_loss", "train/loss"])[0]
    (['eval_accuracy', 'policy/entropy', 'lr'], 'train/loss')
    """

    def rank(name: str) -> int:
        loss, whole = _LOSS.search(name) is not None, _PART_OF_LOSS.search(name) is None
        telling = (_RETURN.search(name) is not None, loss and whole, _SCORE.search(name) is not None and whole)
        return next(
            (place for place, is_so in enumerate(telling) if is_so), 5 if _ASIDE.search(name) else 4 if loss else 3
        )

    return sorted(names, key=lambda name: (rank(name), is_validation(name), name.lower() != "loss"))


def metric_of(name: str, own: Iterable[Metric] = ()) -> Metric:
    """The metric of that name: declared in `own`, of COMMON, of a family in `own`, or derived from the name alone.

    >>> metric_of("gpu_watts").unit, metric_of("words_per_second").group
    ('W', 'machine')
    >>> returns = Metric("return/", "return of an episode")
    >>> metric_of("return/sarsa", [returns]).unit, metric_of("return_low/sarsa", [returns]).unit
    ('return of an episode', 'return of an episode')
    """
    own = tuple(own)
    wanted = band_of(name) or name
    for declared in (*own, *COMMON):
        if declared.key == wanted:
            return replace(declared, key=name)
    for declared in own:
        if declared.includes(wanted):
            return replace(declared, key=name)
    if name.endswith(_PER_SECOND):
        return Metric(name, f"{name.removesuffix(_PER_SECOND).replace('_', ' ')}/s", group="machine")
    return Metric(name)


def family_of(name: str, own: Iterable[Metric] = ()) -> str:
    """The family with whose members a metric is drawn, "" if it is drawn alone.

    >>> family_of("epochs/python-docs"), family_of("train/loss"), family_of("accuracy_16", [Metric("accuracy_")])
    ('epochs/', '', 'accuracy_')
    """
    for declared in own:
        if declared.is_family and declared.includes(name):
            return declared.key
    head, slash, _ = name.partition("/")
    group = head + slash
    return group if slash and group not in PARTS else ""  # train/loss goes with val/loss, not with train/lr


def relatives(names: Iterable[str], own: Sequence[Metric] = ()) -> dict[str, list[str]]:
    """Each of the names with those that are drawn together with it, itself included; accuracy_8 before accuracy_16."""
    families: dict[str, list[str]] = {}
    families_of = {name: families.setdefault(family_of(name, own) or name, []) for name in names}
    for name, members in families_of.items():
        members.append(name)
    for family, members in families.items():
        if family.endswith("_"):
            members.sort(key=lambda name: (len(name), name))
    return families_of


def primary_metrics(names: Sequence[str], own: Sequence[Metric] = (), headline: Any = None) -> list[str]:
    """The recorded `names` that come first, most important first; if none is known, the first by its meaning, with its
    validation metric.

    headline  facts()["headline"] of a run whose experiment names its own; anything but a list is ignored

    >>> primary_metrics(["lr", "val_loss", "loss"])
    ['loss', 'val_loss']
    >>> primary_metrics(["return/sarsa", "steps"], headline=["return/sarsa"])
    ['return/sarsa']
    >>> primary_metrics(["epoch", "train/loss", "eval/loss"]), primary_metrics(["reward", "length"])
    (['train/loss', 'eval/loss'], ['reward'])
    >>> primary_metrics(["aux_loss", "Loss"])
    ['Loss']
    """
    is_given, known = isinstance(headline, list), dict.fromkeys(names)
    wanted = [str(name) for name in headline] if is_given else [each.key for each in own if each.primary] or list(USUAL)
    present = [name for name in wanted if name in known]
    if present and (is_given or present[0] == wanted[0]):
        return present
    first = by_meaning(names)[:1]
    if present and (not first or first == present[:1] or not (_RETURN.search(first[0]) or _LOSS.search(first[0]))):
        return present
    return first + [validation for name in first if (validation := validation_of(name, known))]


def in_order(names: Sequence[str], own: Sequence[Metric] = (), facts: Mapping[str, Any] | None = None) -> list[str]:
    """The names as a list shows them: the primary ones, those marked "aside" of every run, the rest in recorded order,
    and those of the machine."""
    groups = {name: metric_of(name, own).group for name in names}
    common = [each.key for each in COMMON if groups.get(each.key, "machine") != "machine"]
    listed = dict.fromkeys([*primary_metrics(names, own, (facts or {}).get("headline")), *common, *names])
    return sorted(listed, key=lambda name: groups[name] == "machine")


def validation_of(name: str, names: Collection[str]) -> str:
    """The one of `names` that measures on unseen data what `name` measures in training, or "".

    >>> validation_of("train/loss", ["train/loss", "eval/loss"]), validation_of("loss", ["loss", "val_loss"])
    ('eval/loss', 'val_loss')
    """
    part = _PART.fullmatch(name)
    if part and part[1] != "train":
        return ""
    between, what = (part[2], part[3]) if part else ("_/", name)
    return next((other for sign in between for unseen in UNSEEN if (other := f"{unseen}{sign}{what}") in names), "")


def is_validation(name: str) -> bool:
    """Whether the name of a metric says that it was measured on unseen data.

    >>> is_validation("eval/loss"), is_validation("val_loss/python-docs"), is_validation("value")
    (True, True, False)
    """
    part = _PART.fullmatch(name)
    return part is not None and part[1] != "train"


def short(name: str) -> str:
    """A short form of a name: the quantity, without the split or the variant.

    >>> short("train/loss"), short("return/expected-sarsa"), short("loss")
    ('loss', 'return', 'loss')
    """
    part = _PART.fullmatch(name)
    return part[3] if part else name.partition("/")[0]


def band_of(name: str) -> str:
    """The metric whose band has this one as an edge, "" if there is none.

    >>> band_of("return_low/sarsa"), band_of("return/sarsa")
    ('return/sarsa', '')
    """
    group, _, label = name.partition("/")
    edge = next((edge for edge in ("_low", "_high") if group.endswith(edge)), "")
    return f"{group.removesuffix(edge)}/{label}" if edge and label else ""


def edges_of(name: str, values: Mapping[str, float]) -> list[float]:
    """The edges of a metric's band, low and high, as far as they are there."""
    group, _, label = name.partition("/")
    return [values[edge] for end in ("low", "high") if (edge := f"{group}_{end}/{label}") in values]
