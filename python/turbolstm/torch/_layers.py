"""What all layers share: how a call becomes passes of networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch.nn.utils.rnn import PackedSequence

from . import _packing
from ._cpu import CpuCall, Runs
from ._cuda import CudaCall
from ._function import Apply
from ._networks import RUNS, WANTED, WHERE, Compiled, Settings, describe


def _without_dynamo(function):
    """torch.compile leaves the function as it is and compiles around it."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    return function if disable is None else disable(function)


def autocast_type(device: str) -> torch.dtype | None:
    """What autocast turns tensors into, None where it is off."""
    try:
        if not torch.is_autocast_enabled(device):
            return None
        return torch.get_autocast_dtype(device)
    except TypeError:  # older releases ask in other words
        if device == "cpu":
            return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
        return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None


class Batch(NamedTuple):
    """What a call has beside tensors that gradients flow through."""

    steps: int
    batch: int
    lengths: torch.Tensor | None = None  # int32 [B]
    resets: torch.Tensor | None = None  # uint8 [T, B]
    rows: bool = False  # on the CPU: Step values are the rows of a PackedSequence
    zeros: bool = False  # on a GPU: Step values have zeros at padded steps


class Layers(torch.nn.Module):
    batch_first: bool
    input_size: int
    threads: int
    _runs: Runs

    def _settings(self) -> Settings:
        raise NotImplementedError

    def _begin(self, threads: int):
        self.threads = threads  # 0: as many as torch.get_num_threads() says
        self._runs = Runs()
        self._cotangents = ()  # outputs whose gradients have been given so far

    def _used_outputs(self, given: Iterable[str] = ()) -> tuple[str, ...]:
        self._cotangents = tuple(sorted({*self._cotangents, *given}))
        return self._cotangents or ("y",)

    def __prepare_scriptable__(self):
        raise RuntimeError(
            f"{WHERE} torch.jit.script cannot compile these layers; torch.compile leaves them as they are, "
            "turbolstm.onnx.export writes them as ONNX"
        )

    @_without_dynamo
    def _call(self, input, hx, lengths, reset):
        if torch.jit.is_tracing():
            raise RuntimeError(
                f"{WHERE} torch.jit.trace and what is built on it cannot record these layers; torch.compile leaves them "
                "as they are, turbolstm.onnx.export writes them as ONNX"
            )
        packed = isinstance(input, PackedSequence)
        x = input.data if packed else input
        self._check_place("input", x)
        cast = autocast_type(x.device.type)
        self._check_tensor("input", x, cast)
        compiled = describe(self._settings())
        state_names = list(compiled.states)
        if not (hx is None or isinstance(hx, (torch.Tensor, tuple, list))):
            raise TypeError(f"{WHERE} hx is a {type(hx).__name__}, wants a tensor for each state: {', '.join(state_names)}")
        states = () if hx is None else (hx,) if isinstance(hx, torch.Tensor) else tuple(hx)
        if states and len(states) != len(state_names):
            raise ValueError(
                f"{WHERE} got {len(states)} initial states, wants {len(state_names)}: {', '.join(state_names)}"
            )
        for name, state in zip(state_names, states):
            self._check_place("initial state " + name, state, x)
            self._check_tensor("initial state " + name, state, cast, x)
        if packed:
            if lengths is not None or reset is not None:
                raise ValueError(f"{WHERE} a PackedSequence has lengths of its own and takes no reset mask")
            outputs = self._run_packed(compiled, input, x, states, cast)
        else:
            outputs = self._run_padded(compiled, x, states, lengths, reset, cast)
        y, finals = outputs[0], outputs[1:]
        return y, finals[0] if len(finals) == 1 else finals

    def _run_packed(self, compiled: Compiled, input: PackedSequence, x, states, cast):
        if x.dim() != 2:
            raise ValueError(f"{WHERE} the data of a PackedSequence have {x.dim()} axes, wants 2: [rows, I]")
        self._check_features(x)
        sizes = input.batch_sizes
        steps, batch = len(sizes), int(sizes[0])
        self._check_states(compiled, states, batch)
        if input.sorted_indices is not None:
            states = [state.index_select(1, input.sorted_indices) for state in states]
        if x.is_cuda:
            rows = _packing.Rows(sizes, x.device)
            call = Batch(steps, batch, rows.lengths, zeros=True)
            y, *finals = self._run(call, compiled, rows.pad(x), states, cast)
            y = rows.pack(y)
        else:
            call = Batch(steps, batch, _packing.lengths_of(sizes), rows=True)
            y, *finals = self._run(call, compiled, x, states, cast)
        if input.unsorted_indices is not None:
            finals = [final.index_select(1, input.unsorted_indices) for final in finals]
        return (PackedSequence(y, sizes, input.sorted_indices, input.unsorted_indices), *finals)

    def _run_padded(self, compiled: Compiled, x, states, lengths, reset, cast):
        if x.dim() not in (2, 3):
            raise ValueError(f"{WHERE} the input has {x.dim()} axes, wants 3 (a batch) or 2 (one sequence)")
        self._check_features(x)
        reset = None if reset is None else torch.as_tensor(reset)
        one = x.dim() == 2
        if one:
            for state in states:
                if state.dim() != 2:
                    raise ValueError(f"{WHERE} an initial state of one sequence has {state.dim()} axes, wants 2")
            x = x.unsqueeze(1)
            states = [state.unsqueeze(1) for state in states]
            reset = None if reset is None else reset.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
            reset = None if reset is None else reset.transpose(0, 1)
        steps, batch = x.shape[:2]
        self._check_states(compiled, states, batch)
        if lengths is not None:
            if isinstance(lengths, (int, str)):
                raise TypeError(f"{WHERE} lengths are a {type(lengths).__name__}, wants integers, one for each sequence")
            lengths = _packing.check_lengths(torch.as_tensor(lengths), steps, batch, x.device)
        if reset is not None:
            reset = _packing.check_reset(reset, steps, batch, x.device)
        y, *finals = self._run(Batch(steps, batch, lengths, reset), compiled, x, states, cast)
        if one:
            return (y.squeeze(1), *(final.squeeze(1) for final in finals))
        return (y.transpose(0, 1) if self.batch_first else y, *finals)

    def _run(self, batch: Batch, compiled: Compiled, x, states, cast):
        own = self._parameters  # quicker than attributes; others may have put something in their place
        parameters = [own[name] if name in own else getattr(self, name) for name, _ in compiled.parameters]
        kind = x.device.type
        # Autocast gives 16-bit tensors to layers that keep parameters of another type.
        wanted = (torch.float32,) if kind == "cpu" else RUNS[kind] if cast is not None else (x.dtype,)
        for (name, shape), parameter in zip(compiled.parameters, parameters):
            if parameter.dtype not in wanted or parameter.device != x.device or parameter.shape != shape:
                raise ValueError(
                    f"{WHERE} the parameter {name} is {parameter.dtype} {list(parameter.shape)} on {parameter.device}, "
                    f"wants {wanted[0]} {list(shape)} on {x.device}, where the input is"
                )
        given = len(states) > 0
        if kind == "cpu":
            x = x.float().contiguous()
            states = [state.float() for state in states]
            call = CpuCall(self, *batch[:5], given)
        else:
            call = CudaCall(self, compiled, batch, x, cast, given)
        tensors = (x, *states, *parameters)
        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
            return call.infer(tensors)
        wanted = [tensor.requires_grad for tensor in tensors]
        names = call.names(compiled)
        call.gradients = tuple(name for parts, want in zip(names, wanted) if want for name in parts)
        return Apply.apply(call, *tensors)

    @staticmethod
    def _check_place(what: str, tensor, beside=None):
        """beside: what it has to be on one device with."""
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{WHERE} the {what} is a {type(tensor).__name__}, wants a torch.Tensor")
        if tensor.device.type not in RUNS:
            raise RuntimeError(f"{WHERE} the {what} is on {tensor.device}, wants {WANTED}")
        if beside is not None and tensor.device != beside.device:
            raise ValueError(f"{WHERE} the {what} is on {tensor.device}, wants {beside.device}, where the input is")

    @staticmethod
    def _check_tensor(what: str, tensor, cast: torch.dtype | None, beside=None):
        """cast: what autocast makes of tensors, None where it is off. beside: what it has to have the type of."""
        kind = tensor.device.type
        if tensor.layout != torch.strided:
            raise ValueError(f"{WHERE} the {what} has the layout {tensor.layout}, wants a dense tensor")
        if tensor.dtype not in RUNS["cuda"] or (
            cast is None
            and (tensor.dtype not in RUNS[kind] or (beside is not None and tensor.dtype != beside.dtype))
        ):
            wanted = WANTED if beside is None else f"{beside.dtype}, as the input is"
            raise ValueError(f"{WHERE} the {what} is {tensor.dtype}, wants {wanted}")

    def _check_features(self, x):
        if x.shape[-1] != self.input_size:
            raise ValueError(f"{WHERE} the input has {x.shape[-1]} features, wants input_size = {self.input_size}")

    @staticmethod
    def _check_states(compiled: Compiled, states, batch: int):
        for (name, infos), state in zip(compiled.states.items(), states):
            wanted = (len(infos), batch, infos[0].size)
            if tuple(state.shape) != wanted:
                raise ValueError(
                    f"{WHERE} the initial state {name} has the shape {list(state.shape)}, wants {list(wanted)}"
                )

    def _draw(self, names: Iterable[str]):
        """Initial values as the cell's source wants them, from PyTorch's generator."""
        network = describe(self._settings()).network
        seed = int(torch.randint(2**62, ()))
        with torch.no_grad():
            for name in names:
                getattr(self, name).copy_(torch.from_numpy(network.initial_values(name, seed)))
