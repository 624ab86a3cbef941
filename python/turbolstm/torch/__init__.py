"""Recurrent layers for PyTorch: drop-ins for ``torch.nn.LSTM``, ``GRU`` and ``RNN``, and any other cell by name.

They run float32 tensors on the CPU, and float32, bfloat16 and float16 tensors on NVIDIA GPUs, and have what PyTorch's
lack: ``lengths``, ``reset`` masks, zoneout, recurrent dropout, layer normalisation, peepholes.

On the CPU the input is read where it lies when it is contiguous in [T, B, I] (so with ``batch_first`` it is copied
once), as are parameters, states and the data of a ``PackedSequence``; outputs and gradients are copied once into tensors
of PyTorch's, and what the backward pass needs stays in memory of the library until then.

On a GPU inputs, float32 parameters, outputs and gradients lie where PyTorch has put them, and so does what the backward
pass needs: all memory comes from PyTorch's allocator but what kernels work in. Work is enqueued on the current stream;
nothing waits for the device, and the caller may record a CUDA graph.

Letters of shapes: T time, B batch, I input, H hidden, P projection, L layers, D directions, n elements of a state.
"""

from ._modules import GRU, LSTM, RNN, Recurrent
from ._replace import replace

__all__ = ["GRU", "LSTM", "RNN", "Recurrent", "replace"]

for _class in (GRU, LSTM, RNN, Recurrent):
    _class.__module__ = __name__  # what users see and pickled models name
