"""What any torch module attends to on one input, captured as it computes, without knowing the module (MATH T1).

A pattern α (H, T, S) is computed in one of three ways, and a torch function mode intercepts each of them:

    F.scaled_dot_product_attention     α = softmax(Q Kᵀ / √K + mask), recomputed
    F.multi_head_attention_forward     of nn.MultiheadAttention: called with need_weights, head by head
    softmax over the last dimension    of (B, H, T, S), or (B, T, T) for a head that is a separate module: α itself

Notable: a mode is also what makes nn.TransformerEncoderLayer and nn.MultiheadAttention leave their fast paths, in which
no function call can be intercepted. The pass runs without gradients but not in inference mode: tables of positions that
a module caches in its first call could not be used for training afterwards. `training` is set in each module and not by
`eval()`, which some override (adapters that merge their weights then). Attention in custom kernels (flash-attn,
flex_attention) is not captured.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from txlab.errors import LabError

SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax)
CROSS = re.compile(r"cross|encdec|enc_dec|encoder_attn|multihead_attn|src_attn|context_attn", re.IGNORECASE)
MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def attention_pattern(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """α = softmax(Q Kᵀ · scale + mask), as F.scaled_dot_product_attention defines it: (…, T, K), (…, S, K) → (…, T, S).

    scale is 1/√K unless given; a mask of booleans is True where a weight may be; with `enable_gqa` a head of the keys
    serves several of the queries. A row that may look nowhere is zero. Computed in float32 at least.
    """
    kind = torch.promote_types(query.dtype, torch.float32)
    query, key = query.to(kind), key.to(kind)
    if enable_gqa and key.size(-3) != query.size(-3):
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
    scores = query @ key.transpose(-2, -1) * (scale if scale is not None else 1 / math.sqrt(query.size(-1)))
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, -torch.inf)
    if attn_mask is not None:
        bools = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if bools else scores + attn_mask.to(kind)
    return scores.softmax(-1).nan_to_num(0.0)


@dataclass(frozen=True)
class Caught:
    """One computation of attention: α (H, T, S) of the first sequence, and the path of the module that made it.

    query, key  (H, T, K), (H, S, K), if α is the softmax of their products over √K under no mask or the causal one
    """

    path: str
    pattern: Tensor
    query: Tensor | None = None
    key: Tensor | None = None


@dataclass(frozen=True)
class Seen:
    """The record of one pass through a module.

    patterns  site ("self", or "encoder", "decoder", "cross") → α (L, H, T, S)
    products  site → queries (L, H, T, K) and keys (L, H, S, K), from which α is explained, where they were captured
    layers    the paths of the modules that are the layers, in the order of the pass
    norms     path of a layer → mean over the positions of ‖h‖₂ of what it gave on
    logits    (T, V) of the first sequence, if the module returned some for every position
    left_out  a sentence about patterns that do not fit the others; "" if there are none
    """

    patterns: dict[str, Tensor] = field(default_factory=dict)
    products: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    norms: dict[str, float] = field(default_factory=dict)
    logits: Tensor | None = None
    left_out: str = ""


class _Watching(TorchFunctionMode):
    """Records the attention patterns computed while it is active; `batch` sequences pass through the module."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.batch = batch
        self.stack: list[str] = [""]
        self.caught: list[Caught] = []
        self.norms: dict[str, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            return self._multi_head(*args, **kwargs)
        result = func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            self._dot_product(*args, **kwargs)
        elif func in SOFTMAX and _over_last(args, kwargs) and _looks_like_attention(result):
            self._keep(result)
        return result

    def _dot_product(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        if query.ndim > 3:  # the first sequence is enough
            query, key = query[:1], key[:1]
            if attn_mask is not None and attn_mask.ndim == query.ndim:
                attn_mask = attn_mask[:1]
        self._keep(attention_pattern(query, key, attn_mask, is_causal, scale, enable_gqa))
        if attn_mask is None and scale in (None, query.size(-1) ** -0.5) and query.ndim == 4:
            heads = query.size(-3)
            key = key.repeat_interleave(heads // key.size(-3), -3)
            last = self.caught[-1]
            self.caught[-1] = Caught(last.path, last.pattern, query[0].detach().float(), key[0].detach().float())

    def _multi_head(self, *args: Any, **kwargs: Any) -> Any:
        given = MULTI_HEAD.bind(*args, **kwargs)
        given.apply_defaults()
        wanted, averaged = given.arguments["need_weights"], given.arguments["average_attn_weights"]
        given.arguments |= {"need_weights": True, "average_attn_weights": False}
        weights: Tensor
        output, weights = F.multi_head_attention_forward(*given.args, **given.kwargs)  # type: ignore[assignment]
        self._keep(weights if weights.ndim == 4 else weights[None])
        if not wanted:
            return output, None
        return output, weights.mean(-3) if averaged else weights

    def _keep(self, pattern: Tensor) -> None:
        """Keep the first sequence of (B, H, T, S), (B, T, S) or (B · H, T, S)."""
        if pattern.ndim > 4 or pattern.ndim < 3:
            return
        first = pattern[0] if pattern.ndim == 4 else pattern[: max(1, len(pattern) // self.batch)]
        self.caught.append(Caught(self.stack[-1], first.detach().to(torch.promote_types(first.dtype, torch.float32))))

    def enter(self, path: str) -> None:
        self.stack.append(path)

    def left(self, path: str, output: Any) -> None:
        self.stack.pop()
        if path.rpartition(".")[2].isdigit():
            h = next((part for part in _tensors(output) if part.is_floating_point() and part.ndim >= 2), None)
            if h is not None:
                self.norms[path] = h.detach().float().norm(dim=-1).mean()


def look_into(module: nn.Module, *args: Any, **kwargs: Any) -> Seen:
    """Call a module once and return what its attention looked at. Leaves its mode, its gradients and all random numbers
    as they were. Raises whatever the module raises, and LabError if its weights are spread over several processes."""
    module = plain(module)
    given = [*_tensors(args), *_tensors(kwargs)]
    mode = _Watching(len(given[0]) if given and given[0].ndim > 1 else 1)
    with _restore_afterwards(module), _follow_modules(module, mode), torch.no_grad(), mode:
        output = module(*args, **kwargs)
    return _arrange(mode, _logits(output, given))


def plain(module: nn.Module) -> nn.Module:
    """The module inside the wrappers of torch.compile and of data-parallel training.

    LabError for FSDP, where a pass through the module needs all processes.
    """
    while True:
        name = type(module).__name__
        if hasattr(module, "_orig_mod"):
            module = module._orig_mod  # type: ignore[assignment]
        elif name in ("DistributedDataParallel", "DataParallel"):
            module = module.module  # type: ignore[assignment]
        elif any(type(each).__name__.startswith(("FSDP", "FullySharded")) for each in module.modules()):
            raise LabError("the weights of this module are spread over several processes (FSDP): it cannot be watched")
        else:
            return module


@contextlib.contextmanager
def _restore_afterwards(module: nn.Module) -> Iterator[None]:
    """In evaluation mode, uncompiled; afterwards modes and random generators are restored."""
    modes = [(each, each.training) for each in module.modules()]
    cards = sorted({p.device.index or 0 for p in module.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(cards), torch.compiler.set_stance("force_eager"):
        try:
            for each, _ in modes:
                each.training = False
            yield
        finally:
            for each, training in modes:
                each.training = training


@contextlib.contextmanager
def _follow_modules(module: nn.Module, mode: _Watching) -> Iterator[None]:
    """Let the mode know which module computes."""
    handles = []
    try:
        for path, each in module.named_modules():
            handles.append(each.register_forward_pre_hook(lambda m, a, path=path: mode.enter(path)))  # type: ignore[misc]
            handles.append(each.register_forward_hook(lambda m, a, out, path=path: mode.left(path, out)))  # type: ignore[misc]
        yield
    finally:
        for handle in handles:
            handle.remove()


def _over_last(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return isinstance(dim, int) and dim in (-1, args[0].ndim - 1 if args else -1)


def _looks_like_attention(weights: Tensor) -> bool:
    return weights.ndim == 4 or (weights.ndim == 3 and weights.size(-1) == weights.size(-2))


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in tuples, lists and mappings, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)


def _logits(output: Any, given: Sequence[Tensor]) -> Tensor | None:
    """(T, V): the logits of every position, if the module takes token ids and returned them."""
    ids = next((each for each in given if each.ndim == 2 and not each.is_floating_point()), None)
    logits = getattr(output, "logits", None)
    if logits is None:
        logits = next(_tensors(output), None)
    if ids is None or not isinstance(logits, Tensor) or logits.ndim != 3 or logits.shape[:2] != ids.shape:
        return None
    return logits[0].detach().float() if logits.is_floating_point() and logits.size(-1) > 1 else None


# Layers and sites


def _arrange(mode: _Watching, logits: Tensor | None) -> Seen:
    """Put heads together into layers, and layers into sites."""
    grouped: list[Caught] = []
    for caught in mode.caught:
        group = _group(caught)
        last = grouped[-1] if grouped else None
        if group != caught.path and last and last.path == group and last.pattern.shape[1:] == caught.pattern.shape[1:]:
            grouped[-1] = Caught(group, torch.cat([last.pattern, caught.pattern]))
        else:
            grouped.append(replace(caught, path=group))
    sites: dict[str, list[Caught]] = {}
    crossing = [_crosses(each, grouped) for each in grouped]
    for each, cross in zip(grouped, crossing, strict=True):
        words = each.path.lower().split(".")
        inside = "encoder" if any("encoder" in word for word in words) else "decoder"
        sites.setdefault("cross" if cross else inside if any(crossing) else "self", []).append(each)
    patterns, products, left_out = {}, {}, ""
    for site, members in sites.items():
        shape, _ = Counter(tuple(each.pattern.shape) for each in members).most_common(1)[0]
        fitting = [each for each in members if tuple(each.pattern.shape) == shape]
        patterns[site] = torch.stack([each.pattern for each in fitting])
        queries = [each.query for each in fitting if each.query is not None]
        keys = [each.key for each in fitting if each.key is not None]
        if len(queries) == len(fitting) and len({(q.shape, k.shape) for q, k in zip(queries, keys, strict=True)}) == 1:
            products[site] = torch.stack(queries), torch.stack(keys)
        if len(fitting) < len(members):
            left_out = f"{len(members) - len(fitting)} layers of another shape than {shape} are left out"
    layers = list(dict.fromkeys(filter(None, (_layer(each.path) for each in grouped))))
    if not layers:  # nothing attends: the longest list of modules
        lists = Counter(path.rpartition(".")[0] for path in mode.norms)
        longest = max(lists, key=lambda name: lists[name], default="")
        layers = [path for path in mode.norms if path.rpartition(".")[0] == longest]
    norms = {path: float(mode.norms[path]) for path in layers if path in mode.norms}
    return Seen(patterns, products, tuple(layers), norms, logits, left_out)


def _group(caught: Caught) -> str:
    """The path of the layer's attention: for a head that is a module in a list of heads, that of the list."""
    names = caught.path.split(".")
    if len(caught.pattern) > 1 or not names[-1].isdigit():
        return caught.path
    container = names[-2] if len(names) > 1 else ""
    inner = sum(name.isdigit() for name in names) > 1 or "head" in container.lower()
    return ".".join(names[:-1]) if inner else caught.path


def _layer(path: str) -> str:
    """The part of a path up to its last number: `transformer.h.3.attn` → `transformer.h.3`."""
    names = path.split(".")
    last = max((place for place, name in enumerate(names) if name.isdigit()), default=-1)
    return ".".join(names[: last + 1])


def _crosses(caught: Caught, all_caught: Sequence[Caught]) -> bool:
    """Whether this attention looks at another text: other lengths, or a name that says so where the other's does
    not."""
    if caught.pattern.size(-1) != caught.pattern.size(-2):
        return True
    layer, own = _layer(caught.path), caught.path.removeprefix(_layer(caught.path))
    beside = [each for each in all_caught if each is not caught and _layer(each.path) == layer]
    return bool(layer and CROSS.search(own)) and any(not CROSS.search(each.path.removeprefix(layer)) for each in beside)
