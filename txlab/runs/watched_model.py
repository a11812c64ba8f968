"""A module of a user's loop that is probed at regular steps, on one short input.

Notable: gradients are gone when a loop logs (it zeroes them first, or last), but they are complete whenever an
optimizer steps; so their norms are taken there, by a hook that is active only at the step before a probe.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from txlab.errors import LabError, one_line
from txlab.experiments.protocol import Frame

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from txlab.engine.interpret.any_module import Seen

LARGEST = 8 << 20  # bytes of the patterns in a frame
EXPLAINED = 1 << 20  # bytes of the queries and keys in a frame, from which `w` explains a weight
CANDIDATES = 5  # next tokens a position
SITES = {
    "self": ("attention", "probe", "probe"),
    "encoder": ("encoder", "source", "source"),
    "decoder": ("decoder", "target", "target"),
    "cross": ("cross", "target", "source"),
}  # of a module → the prefix of its tensors in a frame, and the names of its row and column tokens


@dataclass(frozen=True)
class Look:
    """The result of a probe: patterns as a frame, norms as metrics, and notes for the user."""

    frame: Frame | None
    values: Mapping[str, Any]
    note: str = ""


class WatchedModel:
    """Probes `model` when `look(step)` finds it due, and once at `step`; see Recording.watch."""

    def __init__(
        self, model: Any, probe: Any, step: int, every: int, tokens: Sequence[str] | None, tokenizer: Any
    ) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        from txlab.engine.interpret.any_module import plain

        if not isinstance(model, torch.nn.Module):
            raise LabError(f"watch takes a torch module, not {type(model).__name__}")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise LabError(f"watch takes a number of steps from 1 on, not {every!r}")
        self.model, self.every, self.tokenizer = plain(model), every, tokenizer
        self.args, self.kwargs = arguments_of(probe, tokenizer)
        self.tokens = list(tokens) if tokens is not None else None
        self.thread = threading.get_ident()
        self.norms: dict[str, Tensor] = {}  # of the gradients, by the layers, as of the last update before a look
        self.armed = False
        self.seen_at, self.due = step, step - step % every + every
        try:
            seen = self._look_into()
        except LabError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise LabError(f"{type(model).__name__} could not be called with the probe: {why}") from error
        if not seen.patterns and not seen.layers:
            raise LabError(f"{type(model).__name__} has neither attention nor layers that could be watched")
        size = max((2 * pattern.numel() for pattern in seen.patterns.values()), default=0)
        if size > LARGEST:
            raise LabError(f"the patterns of this probe take {size >> 20} MiB, and 8 are allowed: take a shorter one")
        self.layers, self.names = seen.layers, shortest(seen.layers)
        self.parameters = {layer: list(self.model.get_submodule(layer).parameters()) for layer in self.layers}
        self.optimizers: dict[int, bool] = {}  # id → whether it updates this model
        self.hook = register_optimizer_step_pre_hook(self._before_update)
        none = "no attention was seen in the model: norms of activations and gradients alone are recorded"
        self.first = self._make_look(step, seen, seen.left_out if seen.patterns else none)

    def leave(self) -> None:
        self.hook.remove()

    def look(self, step: int) -> Look | None:
        """Probe the model if it is due; called for each step, from any thread. Exceptions of the model propagate."""
        if step <= self.seen_at or threading.get_ident() != self.thread:
            return None
        stride, self.seen_at = step - self.seen_at, step
        due = step >= self.due
        if due:
            self.due = step - step % self.every + self.every
        self.armed = step + stride >= self.due
        if not due:
            return None
        try:
            return self._make_look(step, self._look_into())
        finally:
            self.norms = {}

    def _look_into(self) -> Seen:
        import torch

        from txlab.engine.interpret.any_module import look_into

        device = next((each.device for each in self.model.parameters()), torch.device("cpu"))
        return look_into(self.model, *move_to(self.args, device), **move_to(self.kwargs, device))

    def _before_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Take the norms of the gradients, ‖∇‖₂ over the parameters of each layer."""
        if not self.armed:
            return
        import torch

        from txlab.engine.torch_internals import norms

        ours = self.optimizers.get(id(optimizer))
        if ours is None:
            mine = {id(each) for each in self.model.parameters()}
            ours = any(id(each) in mine for group in optimizer.param_groups for each in group["params"])
            self.optimizers[id(optimizer)] = ours
        if not ours:
            return
        with torch.no_grad():
            for layer, parameters in self.parameters.items():
                if grads := [each.grad for each in parameters if each.grad is not None and not each.grad.is_sparse]:
                    self.norms[layer] = torch.stack([norm.float() for norm in norms(grads)]).norm()

    def _make_look(self, step: int, seen: Seen, note: str = "") -> Look:
        frame = None
        if seen.patterns:
            tensors, tokens, facts = self._frame(seen)
            texts = {"probe": "".join(tokens["probe"])} if "probe" in tokens else {}
            frame = Frame(step, tensors, tokens, texts, facts)
        values: dict[str, Any] = {f"gradient_norm/{self.names[layer]}": norm for layer, norm in self.norms.items()}
        if step:  # a metric of step 0 would precede the loop's own metrics
            values |= {f"activation_norm/{self.names[layer]}": norm for layer, norm in seen.norms.items()}
        return Look(frame, values, note)

    def _frame(self, seen: Seen) -> tuple[dict[str, Any], dict[str, list[str]], dict[str, Any]]:
        """Tensors, labels and facts, by the names that the Attention screen reads."""
        from txlab.engine.interpret.activation_cache import induction_scores, previous_token_scores

        tensors: dict[str, Any] = {}
        tokens: dict[str, list[str]] = {}
        for site, pattern in seen.patterns.items():
            prefix, rows, columns = SITES[site]
            tensors[f"{prefix}/pattern"] = pattern.half()
            for name, length in ((rows, pattern.size(-2)), (columns, pattern.size(-1))):
                tokens.setdefault(name, self._labels(name, length))
            if site in seen.products and sum(4 * part.numel() for part in seen.products[site]) <= EXPLAINED:
                tensors[f"{prefix}/query"], tensors[f"{prefix}/key"] = seen.products[site]
            ids = self._ids(rows, pattern.size(-2))
            if site != "cross":
                tensors[f"{prefix}/previous"] = previous_token_scores(pattern)
                if ids:
                    tensors[f"{prefix}/induction"] = induction_scores(pattern, ids)
        stream = seen.patterns.get("self", seen.patterns.get("decoder"))
        causal = stream is not None and not bool(stream.triu(1).any())
        facts = {"mask": "causal" if causal else "none", "predicts": "next" if causal else "place"}
        if seen.logits is not None and stream is not None and len(seen.logits) == stream.size(-2):
            probability, token = seen.logits.softmax(-1).topk(min(CANDIDATES, seen.logits.size(-1)))
            tensors["next/probability"] = probability
            tokens["next"] = [self._label(each) for each in token.flatten().tolist()]
        return {name: tensor.cpu() for name, tensor in tensors.items()}, tokens, facts

    def _ids(self, name: str, length: int) -> list[int]:
        """The token ids of a text of the probe; [] if it has none that fit."""
        import torch

        keys = {"target": ("decoder_input_ids", "tgt"), "source": ("input_ids", "src")}.get(name, ("input_ids",))
        named = [self.kwargs[key] for key in keys if key in self.kwargs]
        place = 1 if name == "target" else 0
        for each in [*named, *self.args[place : place + 1], *(() if named else self.kwargs.values())]:
            whole = isinstance(each, torch.Tensor) and not each.is_floating_point() and each.dtype != torch.bool
            if whole and each.ndim in (1, 2) and each.size(-1) == length:
                ids: list[int] = each.reshape(-1, length)[0].tolist()
                return ids
        return []

    def _labels(self, name: str, length: int) -> list[str]:
        if self.tokens is not None and len(self.tokens) == length and name in ("probe", "source"):
            return self.tokens
        ids = self._ids(name, length)
        return [self._label(each) for each in ids] or [str(place + 1) for place in range(length)]

    def _label(self, token: int) -> str:
        if self.tokenizer is not None and hasattr(self.tokenizer, "decode"):
            try:
                return str(self.tokenizer.decode([token]))
            except Exception:  # a model may have more logits than its tokenizer has tokens
                return f"⟨{token}⟩"
        return str(token)


def arguments_of(probe: Any, tokenizer: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with which a probe calls the module. LabError for a text without a tokenizer."""
    import torch

    if isinstance(probe, str):
        if tokenizer is None:
            raise LabError("a probe that is a text needs a tokenizer: watch(model, text, tokenizer=…)")
        if hasattr(tokenizer, "convert_ids_to_tokens"):  # of transformers
            return (), dict(tokenizer(probe, return_tensors="pt").items())
        if not hasattr(tokenizer, "encode"):
            raise LabError(
                f"a tokenizer has encode(text) and decode(ids), and {type(tokenizer).__name__} has no encode"
            )
        encoded = tokenizer.encode(probe)
        probe = torch.tensor([list(getattr(encoded, "ids", encoded))])
    if isinstance(probe, Mapping):
        return (), dict(probe)
    if isinstance(probe, torch.Tensor):
        return (probe.detach().clone(),), {}
    if isinstance(probe, (tuple, list)):
        return tuple(probe), {}
    raise LabError(f"a probe is a tensor, a dictionary, a tuple or a text, not {type(probe).__name__}")


def move_to(value: Any, device: torch.device) -> Any:
    """The same arguments with their tensors on a device."""
    if isinstance(value, Mapping):
        return {name: move_to(each, device) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(move_to(each, device) for each in value)
    return value.to(device) if hasattr(value, "to") and hasattr(value, "device") else value


def shortest(paths: Sequence[str]) -> dict[str, str]:
    """The shortest ends of paths that tell them apart, of two names at least where there are two.

    >>> shortest(["encoder.layers.0", "decoder.layers.0"])
    {'encoder.layers.0': 'encoder.layers.0', 'decoder.layers.0': 'decoder.layers.0'}
    >>> shortest(["transformer.h.0", "transformer.h.1"])["transformer.h.1"]
    'h.1'
    """
    for count in range(2, 20):
        ends = {path: ".".join(path.split(".")[-count:]) for path in paths}
        if len(set(ends.values())) == len(paths):
            return ends
    return {path: path for path in paths}
