"""Calls of layers as functions that PyTorch differentiates."""

from __future__ import annotations

import torch

from ._networks import WHERE


class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, *tensors):
        """call: a CpuCall or a CudaCall; tensors: the input, initial states, parameters."""
        ctx.set_materialize_grads(False)
        ctx.call = call
        outputs = call.begin(tensors)
        ctx.count = len(tensors)
        ctx.save_for_backward(*tensors, *call.reread(outputs))
        return outputs

    @staticmethod
    def backward(ctx, *gradients):
        saved = ctx.saved_tensors
        tensors, reread = saved[: ctx.count], saved[ctx.count :]
        if all(gradient is None for gradient in gradients):
            return (None,) * (1 + len(tensors))
        with torch.no_grad():
            results = ctx.call.finish(tensors, reread, gradients)
        if torch.is_grad_enabled():  # create_graph: whoever differentiates these gets told
            made = [result for result in results if result is not None]
            sources = [t for t in (*tensors, *gradients) if t is not None and t.requires_grad]
            refusing = iter(_RefuseSecond.apply(len(made), *made, *sources))
            results = [None if result is None else next(refusing) for result in results]
        return (None, *results)


class _RefuseSecond(torch.autograd.Function):
    @staticmethod
    def forward(ctx, count: int, *tensors):
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError(
            f"{WHERE} double backward is not supported: a gradient of a recurrent layer was differentiated again; "
            "use torch.nn's layer for this"
        )
