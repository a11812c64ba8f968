"""One pass of a model over one text: logits, queries, keys, residual stream, patterns on demand (MATH T1, T2).

Notable: L × H × T² numbers are never stored. Twelve layers of twelve heads on 1024 tokens would be 604 MB; their
queries and keys are 75 MB, the residual stream 41, and a window of a pattern is formed from them on demand, with the
full softmax of its rows. If an intervention changes the scores or patterns of a layer, that layer is formed whole, by
the same hooks that acted in the model, and cached until another layer is requested. Attention rollout (MATH T4)
averages the heads and counts the residual stream as half: A′ = ½ A + ½ I, multiplied over the layers (Abnar & Zuidema
2020, §3). In a decoder that reads an encoder each branch is such a half step in turn; what cross-attention reads is
first rolled out through the encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, pairwise
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from txlab.engine.interpret.interventions import Intervention, intervening
from txlab.engine.interpret.sites import Model, Site, Text, run, sites, stream_of
from txlab.engine.transformer.blocks import pattern, scores
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks, keeping, together
from txlab.engine.transformer.masks import Causal
from txlab.errors import LabError

ALL = slice(None)
BAND = 64  # rows formed at a time in a pass over a whole layer: 3 MB for twelve heads of 1024 keys


@dataclass
class ActivationCache:
    """The activations of a model on a text; positions, layers and heads count from 0.

    logits            (T, V) of the predicting stream
    sites             by name
    queries, keys     of each site, (L, H, T, K) and (L, H, S, K), as they enter the product
    residual_stream   (N + 1, T, D), the predicting stream: its embedding, and the output of each of its N blocks
    interventions     that were active in the pass
    """

    text: Text
    logits: Tensor = field(repr=False)
    sites: dict[str, Site] = field(repr=False)
    queries: dict[str, Tensor] = field(repr=False)
    keys: dict[str, Tensor] = field(repr=False)
    residual_stream: Tensor = field(repr=False)
    interventions: tuple[Intervention, ...] = ()
    _hooks: Hooks = field(default=NO_HOOKS, repr=False)
    _formed: tuple[tuple[str, int], Tensor] | None = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def probabilities(self, position: int | slice = -1) -> Tensor:
        """Return the softmax of the logits at a position, (V), or at several, (t, V)."""
        return self.logits[position].softmax(-1)

    def following(self, position: int = -1, most: int = 10) -> tuple[Tensor, Tensor]:
        """Return the likeliest tokens at a position, ids (k) and probabilities (k), likeliest first."""
        probabilities, ids = self.probabilities(position).topk(min(most, self.logits.shape[-1]))
        return ids, probabilities

    def size(self, site: str) -> tuple[int, int]:
        """Return the numbers of rows and columns of a site's patterns: (T, S)."""
        return self.queries[site].shape[-2], self.keys[site].shape[-2]

    def patterns(self, site: str) -> Tensor:
        """Return α of every head, whole: (L, H, T, S). For short texts, such as those shown during training."""
        attention, (T, S) = self.sites[site], self.size(site)
        if self._hooks.hooks:
            return torch.stack([self._alpha(site, layer, None, ALL) for layer in range(attention.layers)])
        q, k = self.queries[site], self.keys[site]
        return pattern(scores(q, k), attention.mask.allowed_pairs(T, S, q.device))

    def pattern(self, site: str, layer: int, head: int, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """Return a window of α of one head: (t, s), each row normalised over all keys that it may attend to."""
        return self._alpha(site, layer, head, rows)[0][:, columns]

    def row(self, site: str, layer: int, head: int, i: int) -> Tensor:
        """Return α[i] of one head: (S)."""
        return self._alpha(site, layer, head, slice(i, i + 1) if i != -1 else slice(-1, None))[0][0]

    def row_sums(self, site: str, layer: int, head: int, without_first: bool = False) -> Tensor:
        """Return Σⱼ α[i, j] of each row: (T); with `without_first` over j ≥ 1 only. The first token is often a sink."""
        sums = [band[0, :, int(without_first) :].sum(-1) for _, band in self.bands(site, layer, head)]
        return torch.cat(sums)

    def attention_received(self, site: str, layer: int, head: int) -> Tensor:
        """Return how much attention each position receives, the mean over rows of α[i, j]: (S)."""
        total = sum(band[0].sum(0) for _, band in self.bands(site, layer, head))
        assert isinstance(total, Tensor)
        return total / self.size(site)[0]

    def average(self, site: str, layer: int | None = None, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """Return the mean α over the heads of a layer, or (None) over all layers too: (t, s)."""
        layers = range(self.sites[site].layers) if layer is None else [layer]
        total = sum(self._alpha(site, which, None, rows)[..., columns].mean(0) for which in layers)
        assert isinstance(total, Tensor)
        return total / len(layers)

    def thumbnails(self, site: str, layer: int, size: int = 16, pool: str = "max") -> Tensor:
        """Return every head of a layer as a small picture: (H, size, size), or (H, T, S) if the text is shorter.

        pool   "max": the largest α in a tile, so that a thin diagonal stays visible; "mean": the tile's mean
        """
        if pool not in ("max", "mean"):
            raise LabError(f"thumbnails are pooled by max or mean, not by {pool!r}")
        T, S = self.size(site)
        tall, wide = min(size, T), min(size, S)
        tops = [place * T // tall for place in range(tall + 1)]
        lefts = np.array([place * S // wide for place in range(wide)])
        lines = []
        for top, bottom in pairwise(tops):
            alpha = self._alpha(site, layer, None, slice(top, bottom))  # (H, rows of the tile, S)
            lines.append(alpha.amax(1) if pool == "max" else alpha.mean(1))
        pooled = torch.stack(lines, 1).cpu().numpy()  # (H, tall, S)
        if pool == "max":
            return torch.from_numpy(np.maximum.reduceat(pooled, lefts, axis=-1))
        widths = np.diff([*lefts, S])
        return torch.from_numpy(np.add.reduceat(pooled, lefts, axis=-1) / widths.astype(pooled.dtype))

    def all_thumbnails(self, site: str, size: int = 16, pool: str = "max") -> Iterator[tuple[int, Tensor]]:
        """Yield (layer, its thumbnails), so that a screen can draw each layer as it arrives."""
        for layer in range(self.sites[site].layers):
            yield layer, self.thumbnails(site, layer, size, pool)

    def scores(self, site: str) -> dict[str, Tensor]:
        """Return the head scores, numbers in [0, 1]: name → (L, H), see `scores_of_layer`."""
        layers = [self.scores_of_layer(site, layer) for layer in range(self.sites[site].layers)]
        return {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]}

    def scores_of_layer(self, site: str, layer: int) -> dict[str, Tensor]:
        """Return the scores of each head of one layer (H), computed a band of rows at a time. Olsson et al. 2022.

        previous    mean over i ≥ 1 of α[i, i − 1]
        induction   mean of Σⱼ α[i, j] over j < i with token j−1 = token i, over the rows that have such a j
        duplicate   mean, over the rows whose token occurred before, of the attention to its earlier occurrences
        first       mean over i ≥ 1 of α[i, 0], the attention that a sink draws

        Induction is NaN if there is no such j, duplicate if no token occurs twice, and all are for a one-token text.
        In cross-attention, which attends to another text, only `first` is meaningful.
        """
        return {name: looked.mean(-1) for name, (_, looked) in self.terms_of_scores(site, layer).items()}

    def terms_of_scores(self, site: str, layer: int, head: int | None = None) -> dict[str, tuple[Tensor, Tensor]]:
        """Return the terms of the scores: name → the rows that count (n) and their attention, (H, n) or (1, n)."""
        device = self.keys[site].device
        ids = self.sites[site].keys_of(self.text)
        tokens, places = torch.tensor(ids, device=device), torch.arange(len(ids), device=device)
        terms: dict[str, list[tuple[Tensor, Tensor]]] = {}
        for rows, alpha in self.bands(site, layer, head):  # (H, t, S)
            place = torch.arange(rows.start, rows.stop, device=device)
            late = place[place >= 1]
            parts = {"first": (late, alpha[:, late - rows.start, 0])}
            if site != "cross":
                after, again = (which[rows] for which in repeats(ids, device))  # (t, T), (t)
                earlier = (tokens[place, None] == tokens) & (places < place[:, None])  # (t, T)
                came = earlier.any(-1)
                parts["previous"] = late, alpha[:, late - rows.start, late - 1]
                parts["induction"] = place[again], (alpha[:, again] * after[again]).sum(-1)
                parts["duplicate"] = place[came], (alpha[:, came] * earlier[came]).sum(-1)
            for name, part in parts.items():
                terms.setdefault(name, []).append(part)
        return {
            name: (torch.cat([which for which, _ in parts]), torch.cat([looked for _, looked in parts], -1))
            for name, parts in terms.items()
        }

    def bands(self, site: str, layer: int, head: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Yield the patterns of one layer, of all heads or one, a band of rows at a time: (rows, α (H, t, S))."""
        T = self.size(site)[0]
        for top in range(0, T, BAND):
            rows = slice(top, min(top + BAND, T))
            yield rows, self._alpha(site, layer, head, rows)

    def _alpha(self, site: str, layer: int, head: int | None, rows: slice) -> Tensor:
        """Return α of some rows of one head, or of all heads of a layer: (1 or H, t, S)."""
        self._check(site, layer, head)
        heads = ALL if head is None else slice(head, head + 1)
        if self._hooks.within(self.sites[site].at(layer)).want("scores", "pattern"):
            return self._whole(site, layer)[heads, rows]
        T, S = self.size(site)
        first, last, _ = rows.indices(T)
        q, k = self.queries[site][layer, heads, first:last], self.keys[site][layer, heads]  # (h, t, K), (h, S, K)
        mask = self.sites[site].mask
        if not isinstance(mask, Causal):
            allowed = mask.allowed_pairs(T, S, q.device)
            return pattern(scores(q, k), None if allowed is None else allowed[first:last])
        # Keys after the last row have weight 0 and are skipped.
        place = torch.arange(last, device=q.device)
        alpha = pattern(scores(q, k[:, :last]), place <= place[first:, None])
        return torch.nn.functional.pad(alpha, (0, S - last))

    def _whole(self, site: str, layer: int) -> Tensor:
        """Return all patterns of a layer that an intervention changes, formed as in the model: (H, T, S)."""
        with self._lock:
            if self._formed is None or self._formed[0] != (site, layer):
                T, S = self.size(site)
                inside = self._hooks.within(self.sites[site].at(layer))
                q, k = self.queries[site][layer, None], self.keys[site][layer, None]  # (1, H, ·, K)
                allowed = self.sites[site].mask.allowed_pairs(T, S, q.device)
                with torch.no_grad():
                    alpha = inside("pattern", pattern(inside("scores", scores(q, k)), allowed))
                self._formed = (site, layer), alpha[0]
            return self._formed[1]

    def _check(self, site: str, layer: int, head: int | None) -> None:
        if site not in self.sites:
            raise LabError(f"this model has no attention called {site!r}; there is: {', '.join(self.sites)}")
        attention = self.sites[site]
        if not 0 <= layer < attention.layers or (head is not None and not 0 <= head < attention.heads):
            asked = f"{layer + 1}" if head is None else f"{layer + 1}.{head + 1}"
            raise LabError(
                f"{site} attention has no head {asked}; allowed: 1.1 to {attention.layers}.{attention.heads}"
            )


@torch.no_grad()
def run_with_cache(
    model: Model,
    text: Text,
    interventions: Iterable[Intervention] = (),
    second: Text | None = None,
    hooks: Hooks = NO_HOOKS,
) -> ActivationCache:
    """Run the model once on a text, under any interventions, and store its activations.

    second   the text that patches come from
    hooks    further hooks, which act after the interventions

    LabError if an intervention is not possible here, or the text does not fit.
    """
    given = tuple(interventions)
    there = sites(model)
    with intervening(model, text, given, second) as reaching:
        reaching = together(reaching, hooks)
        stream = stream_of(model)
        wanted = [site.place.format(layer="*") + name for site in there for name in (".query", ".key")]
        keep, kept = keeping(*wanted, *stream.places)
        logits = run(model, text, together(reaching, keep))
    return ActivationCache(
        text=text,
        logits=logits,
        sites={site.name: site for site in there},
        queries={site.name: _stack(kept, site, "query") for site in there},
        keys={site.name: _stack(kept, site, "key") for site in there},
        residual_stream=torch.cat([kept.pop(place) for place in stream.places]),
        interventions=given,
        _hooks=reaching,
    )


def _stack(kept: dict[str, Tensor], site: Site, what: str) -> Tensor:
    """Stack the tensors stored in every layer: (L, H, T, K)."""
    return torch.cat([kept.pop(site.at(layer, what)) for layer in range(site.layers)])


def rollout(cache: ActivationCache, site: str, layers: int | None = None) -> Tensor:
    """R = A′_l … A′_1 with A′ = ½ A + ½ I: (T, S) after the first `layers` layers (all of them where None).

    "self", "encoder"  the share of each token of the text in each position; rows sum to 1
    "decoder"          the share of each token of the target in each position
    "cross"            the share of each token of the source; a row of both together sums to 1
    """
    if site not in cache.sites:
        raise LabError(f"this model has no attention called {site!r}; there is: {', '.join(cache.sites)}")
    most = cache.sites[site].layers
    layers = most if layers is None else layers
    if not 0 <= layers <= most:
        raise LabError(f"{site} attention can be rolled out through 0 to {most} layers, not {layers}")
    return next(islice(rollouts(cache, site), layers, None))


def rollouts(cache: ActivationCache, site: str) -> Iterator[Tensor]:
    """Yield R (T, S) after 0, 1, … layers."""
    looks = "decoder" if site == "cross" else site  # the site that the rows belong to
    reached = torch.eye(cache.size(looks)[0], dtype=cache.logits.dtype, device=cache.logits.device)
    if site in ("self", "encoder"):
        yield reached
        for layer in range(cache.sites[site].layers):
            reached = half_step(cache.average(site, layer), reached)
            yield reached
        return
    encoded = rollout(cache, "encoder")  # (S, S)
    target, source = reached, encoded.new_zeros(len(reached), len(encoded))  # (T, T), (T, S)
    yield target if site == "decoder" else source
    for layer in range(cache.sites["decoder"].layers):
        average = cache.average("decoder", layer)  # (T, T)
        read = cache.average("cross", layer) @ encoded  # (T, S)
        target, source = half_step(average, target) / 2, (half_step(average, source) + read) / 2
        yield target if site == "decoder" else source


def half_step(average: Tensor, reached: Tensor) -> Tensor:
    """Return (½ A + ½ I) R, one layer further: A (T, T), R (T, S) → (T, S)."""
    return (average @ reached + reached) / 2


def previous_token_scores(patterns: Tensor) -> Tensor:
    """mean over i ≥ 1 of α[i, i−1]: patterns (L, H, T, T) → (L, H); NaN for a text of one token. Olsson et al. 2022."""
    return patterns.diagonal(offset=-1, dim1=-2, dim2=-1).mean(-1)


def induction_scores(patterns: Tensor, ids: Sequence[int]) -> Tensor:
    """Return each head's attention to what followed earlier occurrences of a token: (L, H, T, T) → (L, H) in [0, 1].

    The mean of Σⱼ α[i, j] over j < i with token(j−1) = token(i), over the positions i that have such a j. After an
    immediate repeat that j is the position itself, which does not count. NaN if no i has a j. On a text whose second
    half repeats its first, a perfect induction head scores 1. Olsson et al. 2022 ("prefix matching").
    """
    after, rows = repeats(tuple(ids), patterns.device)
    looked = (patterns * after).sum(-1)  # (L, H, T)
    return looked[..., rows].mean(-1)


@lru_cache(maxsize=8)
def repeats(ids: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return after[i, j], whether the token before j < i is the token at i: (T, T); and the rows with any such j: (T).

    Cached, because one text is looked at thousands of times during training.
    """
    tokens = torch.tensor(ids, device=device)
    after = torch.zeros(len(ids), len(ids), dtype=torch.bool, device=device)
    after[:, 1:] = tokens[:, None] == tokens[None, :-1]
    after = after.tril(-1)
    return after, after.any(-1)
