"""A model, a text that it reads, and what is done to it meanwhile: what `attend` and `explain` both begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txlab.cli.intervening import Wishes, interventions
from txlab.cli.models import given_text, opened
from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.interpret.interventions import Intervention
    from txlab.engine.interpret.sites import Site, Text
    from txlab.runs.models import OpenModel

SCORES = ("previous", "induction", "duplicate", "first")
LONGEST_TARGET = 256  # tokens that an encoder–decoder writes where no target is given


@dataclass(frozen=True)
class Reading:
    """`text` as the model reads it, under `given`; `second` is what patches come from; `site` is what is looked at."""

    model: OpenModel
    text: Text
    site: Site
    given: Sequence[Intervention]
    second: Text | None = None
    written: bool = False  # the target is what the model itself wrote

    @property
    def queries(self) -> list[str]:
        """Labels of the rows."""
        ids = self.site.queries_of(self.text)
        target = self.site.name in ("decoder", "cross")
        return self.model.target_labels(ids) if target else self.model.labels(ids)

    @property
    def keys(self) -> list[str]:
        """Labels of the columns."""
        ids = self.site.keys_of(self.text)
        return self.model.target_labels(ids) if self.site.name == "decoder" else self.model.labels(ids)

    @property
    def predicting(self) -> list[str]:
        """Labels of the stream whose next tokens are predicted."""
        ids = self.text.predicting
        return self.model.target_labels(ids) if self.text.target else self.model.labels(ids)

    def place(self, position: int | None) -> int:
        """A position of the stream that predicts, from its end if negative; None = the last, or BERT's first mask."""
        length = len(self.text.predicting)
        if position is None:
            mask = self.model.special.mask
            ids = self.text.predicting
            return ids.index(mask) if mask is not None and mask in ids else length - 1
        if not -length <= position < length:
            raise LabError(f"--position {position} is outside the text; allowed: 0 to {length - 1}, or from the end -1")
        return position % length

    def answer(self) -> dict[str, Any]:
        """What was read, for JSON."""
        from txlab.engine.interpret.interventions import to_json

        found: dict[str, Any] = {
            "text": {"ids": list(self.text.ids), "labels": self.model.labels(self.text.ids)},
            "interventions": [to_json(wish) for wish in self.given],
        }
        if self.text.segments:
            found["text"]["segments"] = list(self.text.segments)
        if self.text.target:
            target = {"ids": list(self.text.target), "labels": self.model.target_labels(self.text.target)}
            found["target"] = target | {"written": self.written}
        return found


def read(
    name: str,
    text: str | None,
    file: Path | None,
    target: str | None,
    site: str | None,
    wishes: Wishes,
    special: bool = False,
    pair: str | None = None,
) -> Reading:
    """Open the model, make the text what it reads, and understand the interventions. LabError in one sentence."""
    from txlab.engine.interpret.sites import site_named

    source = given_text(text, file)
    assert source is not None
    model = opened(name, special)
    site = site or ("cross" if model.kind == "encoder-decoder" else "self")
    looked = site_named(model.model, site)
    seen, written = model.text(source, target, pair), False
    if not seen.ids:
        raise LabError("the text has no tokens, so there is nothing to look at")
    if model.kind == "encoder-decoder" and target is None:
        seen, written = with_target(model, seen), True
    second = None if wishes.second is None else model.text(wishes.second, target, pair)
    if second is not None and model.kind == "encoder-decoder" and target is None:
        second = with_target(model, second)
    return Reading(model, seen, looked, interventions(wishes, site), second, written)


def with_target(model: OpenModel, text: Text) -> Text:
    """A source with the target that the model writes for it, without the token that ends it."""
    from txlab.cli.generate import target_of
    from txlab.engine.interpret.sites import Text

    context = model.context or LONGEST_TARGET
    if len(text.ids) > context:
        raise LabError(f"the source has {len(text.ids)} tokens; {model.title} reads at most {context}")
    ids = target_of(model, text.ids, min(LONGEST_TARGET, context - 1))
    return Text(text.ids, (*text.target, *(token for token in ids if token not in model.special.stops)))


# Which heads are meant


def chosen(head: str | None, layer: int | None) -> tuple[str | None, int | None, int | None]:
    """Site (if the head names one), layer and head, from 0."""
    from txlab.cli.intervening import head_named

    if head is None:
        return None, None if layer is None else layer - 1, None
    if head.isascii() and head.isdecimal():
        if layer is None:
            raise LabError(f"--head {head} needs --layer; or name both: --head 2.{head}")
        if not 1 <= len(head) <= 9 or int(head) < 1:
            raise LabError(f"--head {head} is not allowed: heads are counted from 1")
        return None, layer - 1, int(head) - 1
    site, its_layer, index = head_named(head)
    if layer is not None and layer - 1 != its_layer:
        raise LabError(f"--head {head} is in layer {its_layer + 1}, not in --layer {layer}")
    return site, its_layer, index


def agreed(site: str | None, named: str | None) -> str | None:
    """The kind of attention that --site and --head name."""
    from txlab.cli.intervening import SITES

    if site is not None and site not in SITES:
        raise LabError(f"--site {site!r} is no attention{nearest(site, SITES)}; allowed: {', '.join(SITES)}")
    if site is not None and named is not None and site != named:
        raise LabError(f"--site {site} and --head {named}:… are two different kinds of attention")
    return site or named
