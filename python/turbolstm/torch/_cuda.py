"""Calls of layers on NVIDIA GPUs: passes of networks that work in PyTorch's memory, on its current stream."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import torch

from .._core import DeviceNetwork
from ._networks import PRECISIONS, WHERE, Settings, describe

_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_PRECISION_OF = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def _recurrent_tf32() -> bool:
    """Whether PyTorch's own recurrent layers may round float32 operands to tf32."""
    rnn = getattr(torch.backends.cudnn, "rnn", None)
    chosen = getattr(rnn, "fp32_precision", None)
    return chosen == "tf32" if chosen in ("tf32", "ieee") else torch.backends.cudnn.allow_tf32


def _precision(settings: Settings, dtype: torch.dtype) -> str:
    """Of products, for tensors of a type."""
    own = _PRECISION_OF.get(dtype)
    if settings.precision == "auto":
        return own or ("tf32" if _recurrent_tf32() else "fp32")
    if own not in (None, settings.precision):
        raise ValueError(
            f"{WHERE} the layer has precision={settings.precision!r} and got {dtype} tensors, wants torch.float32 "
            f"tensors, or {PRECISIONS[0]!r}"
        )
    return settings.precision


class CudaNetwork:
    """A network on a device, with where its inputs and outputs are among a call's tensors."""

    def __init__(self, network: DeviceNetwork, settings: Settings, cotangents: Iterable[str]):
        self.network = network
        self.cotangents = frozenset(cotangents)
        plain = describe(settings)
        # By name: the tensor of a call (x, states, parameters), its part of a state's size, and the same of outputs
        # (y, final states).
        sources = {"x": (0, 0)}
        results = {"y": (0, 0)}
        self.final_shapes = []
        for i, infos in enumerate(plain.states.values(), 1):
            for part, info in enumerate(infos):
                sources[info.initial] = (i, part * info.size)
                results[info.final] = (i, part * info.size)
            self.final_shapes.append((len(infos), infos[0].size))
        given = [info for info in network.inputs if not info.late]
        states = len({sources[info.name][0] for info in given if info.name in sources}) - 1
        for i, (name, _) in enumerate(plain.parameters, 1 + states):
            sources[name] = (i, 0)
        self.inputs = [
            (info.late, *(results[info.name[2:]] if info.late else sources[info.name])) for info in network.inputs
        ]
        self.types = {info.name: _TYPES[info.type] for info in (*network.inputs, *network.outputs)}
        self.outputs = [
            (info.late, *(sources[info.name[2:]] if info.late else results[info.name])) for info in network.outputs
        ]
        self.made = {info.name for info in network.outputs}
        self.reread = sorted({results[info.name][0] for info in network.outputs if info.reread})
        self.output_size = next(info.features[0] for info in network.outputs if info.name == "y")
        self.needs = functools.lru_cache(maxsize=256)(network.memory_needs)


@functools.lru_cache(maxsize=512)
def _compile(settings, given_states, gradients, cotangents, precision, narrow, device) -> CudaNetwork:
    network = DeviceNetwork(
        **settings.options(precision), given_states=given_states, gradients=gradients, cotangents=cotangents,
        narrow_io=narrow, device=device,
    )  # fmt: skip
    return CudaNetwork(network, settings, cotangents)


def _like(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What a kernel can read: of this type, contiguous, at a multiple of 16 bytes."""
    if tensor.dtype != dtype or not tensor.is_contiguous():
        tensor = tensor.detach().to(dtype).contiguous()
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.detach().clone()


def _find_stream():
    """The address of the current stream of a device's index."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # ten times as quick
    return raw or (lambda index: torch.cuda.current_stream(index).cuda_stream)


_stream = _find_stream()


class CudaCall:
    """One call of a module: all that is needed to run it, and to run it once more."""

    def __init__(self, layer, plain, batch, x: torch.Tensor, cast: torch.dtype | None, given_states: bool):
        """plain: the layer's network as describe() has it. batch: a Batch whose tensors are on x's device. cast: what
        autocast makes of tensors, None where it is off."""
        self.layer, self.plain, self.settings = layer, plain, layer._settings()
        self.steps, self.batch, self.lengths, self.resets = batch[:4]
        self.padding_is_zero = batch.zeros
        self.device = x.device
        self.dtype = cast or x.dtype  # of outputs
        self.precision = _precision(self.settings, self.dtype)
        self.given_states = given_states
        if given_states and self.resets is not None:
            self.resets = self.resets * 2  # to zeros, not to the states given
        self.numbers = None
        if layer.training and self.settings.is_random:
            self.numbers = torch.randint(2**62, (2,), device=self.device)
            self.numbers[1:] = 1 << 32  # masks are drawn
        self.gradients: tuple[str, ...] = ()
        self.kept: torch.Tensor | None = None

    def compiled(self, cotangents: tuple[str, ...] = ()) -> CudaNetwork:
        narrow = self.dtype != torch.float32
        return _compile(
            self.settings, self.given_states, self.gradients, cotangents, self.precision, narrow, self.device.index
        )

    def names(self, compiled) -> list[list[str]]:
        """Of each tensor of a call, in order: the names of its parts."""
        names = [["x"]]
        if self.given_states:
            names += [[info.initial for info in infos] for infos in compiled.states.values()]
        return names + [[name] for name, _ in compiled.parameters]

    def infer(self, tensors) -> tuple[torch.Tensor, ...]:
        compiled = self.compiled()
        return self._results(self._forward(compiled, tensors))

    def begin(self, tensors) -> tuple[torch.Tensor, ...]:
        """The forward pass of training. The backward pass is compiled for the outputs used so far."""
        self._run_forward(tensors)
        return self._results(self.raw)

    def reread(self, outputs) -> list[torch.Tensor]:
        """Outputs that the backward pass reads; those that have another type than the caller's are ours alone."""
        reread = [i for i in self.network.reread if outputs[i] is self.raw[i]]
        raw = [self.raw[i] if i in self.network.reread and i not in reread else None for i in range(len(outputs))]
        self.raw, self.reread_numbers = raw, reread
        return [outputs[i] for i in reread]

    def finish(self, tensors, reread, gradients) -> list[torch.Tensor | None]:
        """The backward pass: gradients of y and final states (None where unused) to those of the tensors."""
        given = self._given(gradients)
        used = self.layer._used_outputs(given)
        if self.kept is None or not given <= self.network.cotangents:
            # Done before (a retained graph), or an output counts that has not counted so far.
            self._run_forward(tensors, used)
        else:
            for i, output in zip(self.reread_numbers, reread):
                self.raw[i] = output
        results = self._backward(self.network, tensors, self._late_inputs(gradients))
        self.kept = self.ready = self.raw = None
        return results

    def _run_forward(self, tensors, used: Iterable[str] = ()):
        self.network = self.compiled(tuple(used) or self.layer._used_outputs())
        self.raw = self._forward(self.network, tensors)

    def _results(self, raw) -> tuple[torch.Tensor, ...]:
        return tuple(output if output.dtype == self.dtype else output.to(self.dtype) for output in raw)

    def _pad(self, values: torch.Tensor) -> torch.Tensor:
        """Step values with zeros at padded steps."""
        if self.lengths is None or self.padding_is_zero or self.steps == 0:
            return values
        padded = torch.arange(self.steps, device=self.device).unsqueeze(1) >= self.lengths
        return values.detach().masked_fill(padded.unsqueeze(2), 0)

    def _forward(self, compiled: CudaNetwork, tensors) -> list[torch.Tensor]:
        types = compiled.types
        self.ready = [_like(self._pad(tensors[0]), types["x"])]
        self.ready += [_like(tensor, torch.float32) for tensor in tensors[1:]]
        empty = functools.partial(torch.empty, device=self.device)
        outputs = [empty((self.steps, self.batch, compiled.output_size), dtype=types["y"])]
        for parts, size in compiled.final_shapes:
            outputs.append(empty((parts, self.batch, size), dtype=torch.float32))
        ragged, resets = self.lengths is not None, self.resets is not None
        kept, forward, self.late_bytes = compiled.needs(self.steps, self.batch, ragged, resets)
        self.kept = empty(kept, dtype=torch.uint8)
        scratch = empty(forward, dtype=torch.uint8)
        self._enqueue(compiled.network.forward, compiled, scratch, outputs, (), ())
        return outputs

    def _late_inputs(self, gradients) -> list[torch.Tensor]:
        """Gradients of y and final states as kernels read them; zeros where there are none."""
        late = []
        for i, gradient in enumerate(gradients):
            wanted = self.network.types.get("d.y", torch.float32) if i == 0 else torch.float32
            if gradient is not None:
                late.append(_like(self._pad(gradient.detach()) if i == 0 else gradient, wanted))
            elif any(late_one and number == i for late_one, number, _ in self.network.inputs):
                parts, size = (self.steps, self.network.output_size) if i == 0 else self.network.final_shapes[i - 1]
                late.append(torch.zeros((parts, self.batch, size), dtype=wanted, device=self.device))
            else:
                late.append(None)
        return late

    def _backward(self, compiled: CudaNetwork, tensors, late) -> list[torch.Tensor | None]:
        gradients: list[torch.Tensor | None] = []
        for names, tensor in zip(self.names(self.plain), tensors):
            if names[0] not in self.gradients:
                gradients.append(None)
                continue
            made = [("d." + name) in compiled.made for name in names]
            new = torch.empty if all(made) else torch.zeros  # zeros: no used output depends on it
            dtype = compiled.types.get("d." + names[0], torch.float32)
            gradients.append(new(tensor.shape, dtype=dtype, device=self.device))
        scratch = torch.empty(self.late_bytes, dtype=torch.uint8, device=self.device)
        self._enqueue(compiled.network.backward, compiled, scratch, self.raw, gradients, late)
        return [
            gradient if gradient is None or gradient.dtype == tensor.dtype else gradient.to(tensor.dtype)
            for gradient, tensor in zip(gradients, tensors)
        ]

    def _enqueue(self, enqueue, compiled: CudaNetwork, scratch, outputs, gradients, late):
        def addresses(values):
            return [0 if value is None else value.data_ptr() for value in values]

        row = self.batch * 4  # bytes of one element of a state of all sequences
        given, starts = addresses(self.ready), addresses(late)
        made, ends = addresses(outputs), addresses(gradients)
        inputs = [
            (starts[i] if starts and starts[i] else 0) + part * row if is_late else given[i] + part * row
            for is_late, i, part in compiled.inputs
        ]
        results = [
            (ends[i] + part * row if ends else 0) if is_late else made[i] + part * row
            for is_late, i, part in compiled.outputs
        ]
        enqueue(
            self.steps, self.batch, _stream(self.device.index), self.kept.data_ptr(),
            scratch.data_ptr(), inputs, results,
            0 if self.lengths is None else self.lengths.data_ptr(),
            0 if self.resets is None else self.resets.data_ptr(),
            0 if self.numbers is None else self.numbers.data_ptr(),
        )  # fmt: skip

    def _given(self, gradients) -> set[str]:
        given = set() if gradients[0] is None else {"y"}
        for infos, gradient in zip(self.plain.states.values(), gradients[1:]):
            if gradient is not None:
                given.update(info.final for info in infos)
        return given
