"""Data parallel training by torch.distributed: the `ParallelStrategy` of a batch that one of several processes
computes.

ddp    Every process has the whole model. After the backward pass the gradients are added up, in buckets.
fsdp   Every process holds a part of each parameter, its gradient and its moments (torch's `fully_shard`): blocks are
       gathered while they compute.

Notable: gradients are sums, never means of means, since every process divides by the number scored in the whole batch.
Where a kind calls its model itself, the outputs are gathered by `AllGatherRows`, and every process computes the loss of
the whole batch; the gradient of the process's rows is then multiplied by `count` and averaged over the processes, so
that gradients that bypass the model (a penalty on the weights) are right as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from txlab.engine.torch_internals import copy_, map_tensors, multiply_
from txlab.errors import LabError
from txlab.experiments.learning.parallel_strategy import ParallelStrategy

Model = TypeVar("Model", bound=nn.Module)
BUCKET = 25 << 20  # bytes of gradients per all-reduce, as in torch's DistributedDataParallel


class AllGatherRows(torch.autograd.Function):
    """(b, …) the rows of this process, b equal in all → (count · b, …), the rows of all of them.

    Backward: each process takes the gradient of its rows, times `count`.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        count = dist.get_world_size()
        return gradient.chunk(count)[dist.get_rank()] * count


class ReplicatedStrategy(ParallelStrategy):
    """Every process has the whole model."""

    def __init__(self) -> None:
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.partial = False  # whether the gradients of this update are of this process's rows only

    def local_rows(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        self.partial = True
        return [tensor.tensor_split(self.count)[self.rank] for tensor in tensors]

    def sum_measured(self, measured: dict[str, Tensor]) -> dict[str, Tensor]:
        if not measured:
            return measured
        both = torch.stack([value.detach().double() for value in measured.values()])
        dist.all_reduce(both)
        return {name: both[i].to(value.dtype) for i, (name, value) in enumerate(measured.items())}

    @contextmanager
    def split_rows(self, model: nn.Module) -> Iterator[None]:
        self.partial = False
        hooks = []
        for root in roots(model):
            asked: list[int] = []  # rows of the calls that have not returned
            hooks.append(root.register_forward_pre_hook(self._split_inputs(asked), with_kwargs=True))
            hooks.append(root.register_forward_hook(self._gather_outputs(asked)))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _split_inputs(self, asked: list[int]) -> Callable[..., Any]:
        def split(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            first = next((each for each in (*given, *named.values()) if isinstance(each, Tensor) and each.dim()), None)
            rows = 0 if self.partial or first is None else len(first)
            asked.append(rows)
            if not rows:
                return None
            each = -(-rows // self.count)
            # All processes have the same number of rows, so the last one is repeated; its output is discarded.
            mine = torch.arange(self.rank * each, (self.rank + 1) * each).clamp(max=rows - 1)

            def own(tensor: Tensor) -> Tensor:
                return tensor[mine.to(tensor.device)] if tensor.dim() and len(tensor) == rows else tensor

            return map_tensors(own, given), map_tensors(own, named)

        return split

    def _gather_outputs(self, asked: list[int]) -> Callable[..., Any]:
        def put_together(module: nn.Module, given: tuple[Any, ...], answer: Any) -> Any:
            rows = asked.pop()
            if not rows:
                return None
            return map_tensors(lambda one: AllGatherRows.apply(one)[:rows], answer)  # type: ignore[no-untyped-call]

        return put_together

    def reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        gradients = [p.grad for p in parameters if p.grad is not None]
        for bucket in buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(flat)
            if not self.partial:
                flat /= self.count
            pieces = torch.split(flat, [gradient.numel() for gradient in bucket])
            copy_(bucket, [piece.view_as(one) for piece, one in zip(pieces, bucket, strict=True)])

    def any_rank(self, flags: Tensor) -> Tensor:
        counts = flags.int()
        dist.all_reduce(counts)
        return counts > 0


class ShardedStrategy(ReplicatedStrategy):
    """Every process holds a part of each parameter."""

    splits_models = True

    def __init__(self, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        super().__init__()
        self.mesh = init_device_mesh(device.type, (self.count,))
        self.is_unsharded = False  # whether the parameters are gathered temporarily

    def place_model(self, model: Model) -> Model:
        from torch.distributed.fsdp import fully_shard

        from txlab.engine.transformer.blocks import Block

        # Warns about in-place operations on outputs, of which there are none here.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        for root in roots(model):
            for block in [module for module in root.modules() if isinstance(module, Block)]:
                fully_shard(block, mesh=self.mesh)
            fully_shard(root, mesh=self.mesh)
            root.register_forward_hook(self._reshard)
        for module in sharded_modules(model):
            if not hasattr(module, "set_force_sum_reduction_for_comms"):
                raise LabError(f'compute.parallel = "fsdp" needs torch 2.9 or later, not {torch.__version__}')
            # Both: a factor alone is refused by gloo in float32, and a mean was once silently a sum there.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
        return model

    def _reshard(self, root: Any, *_: object) -> None:
        """A root stays gathered after its forward pass, for the backward pass; without one it would stay so, and its
        parameters would not be the optimizer's."""
        if not torch.is_grad_enabled() and not self.is_unsharded:
            root.reshard()

    def reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        if not self.partial:  # they were added up in the backward pass
            multiply_([self.local_shard(p.grad) for p in parameters if p.grad is not None], 1 / self.count)

    def global_norm(self, norm: Tensor) -> Tensor:
        square = norm.square()
        dist.all_reduce(square)
        return square.sqrt()

    def local_shard(self, tensor: Tensor) -> Tensor:
        whole: Any = tensor
        return whole.to_local() if is_sharded(tensor) else tensor

    def distribute_like(self, tensor: Tensor, as_is: Tensor) -> Tensor:
        from torch.distributed.tensor import distribute_tensor

        if not is_sharded(as_is) or is_sharded(tensor):
            return tensor
        there: Any = as_is
        # Every process has the whole tensor and takes its part: nothing is sent.
        return distribute_tensor(tensor.to(as_is.device), there.device_mesh, there.placements, src_data_rank=None)

    @contextmanager
    def unshard(self, model: nn.Module) -> Iterator[None]:
        modules = sharded_modules(model)
        for module in modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        self.is_unsharded = True
        try:
            yield
        finally:
            self.is_unsharded = False
            tops = roots(model)
            for module in modules:
                module.set_reshard_after_forward(module not in tops, recurse=False)
                module.reshard()

    def full_copy(self, model: Model, make: Callable[[], Model]) -> Model:
        made = make()
        made.load_state_dict({name: gather(tensor) for name, tensor in model.state_dict().items()})
        return made


def roots(model: nn.Module) -> list[nn.Module]:
    """The modules that are called: the model, or several models that one nn.ModuleDict holds."""
    return list(model.values()) if isinstance(model, nn.ModuleDict) else [model]


def sharded_modules(model: nn.Module) -> list[Any]:
    """Its modules with divided parameters, outermost first."""
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def is_sharded(tensor: object) -> bool:
    """Whether each process holds a part of it."""
    return hasattr(tensor, "to_local")


def gather(tensor: Any) -> Any:
    """A divided tensor as a whole, in every process."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The gradients in their order, in groups of one dtype and at most BUCKET bytes or one gradient."""
    bucket: list[Tensor] = []
    size = 0
    for gradient in gradients:
        if bucket and (size + gradient.nbytes > BUCKET or gradient.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(gradient)
        size += gradient.nbytes
    if bucket:
        yield bucket
