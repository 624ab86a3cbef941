"""Calls of layers on the CPU."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

import numpy
import torch

from .._core import Run
from ._networks import WHERE, Compiled, compile_network, describe


def _find_pause():
    """OpenMP's omp_pause_resource_all, or None where there is none or nothing to gain.

    After each of PyTorch's operators its OpenMP threads spin for some milliseconds, on the cores that our threads want.
    Paused they end; the next operator that wants them starts them again, in some ten microseconds each.
    """
    if os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive":
        return None
    try:
        pause = ctypes.CDLL(None).omp_pause_resource_all
    except (AttributeError, OSError, TypeError):
        return None
    pause.argtypes, pause.restype = [ctypes.c_int], ctypes.c_int
    return pause


_PAUSE = _find_pause()
_SOFT = 1  # omp_pause_soft


# Multiply-adds a thread that are worth it: a few tenths of a millisecond.
_WORTH_PAUSING = 1 << 24


class Runs:
    """Runs of one module that nobody uses at the moment, by network. Copies begin with none."""

    def __init__(self):
        self._idle: dict[Compiled, list[Run]] = {}
        self._process = os.getpid()

    def __deepcopy__(self, memo):
        return Runs()

    def __reduce__(self):
        return Runs, ()

    def lend(self, compiled: Compiled) -> Lease:
        if self._process != os.getpid():  # a forked child lacks the threads of these
            self.__init__()
        try:
            run = self._idle[compiled].pop()
        except (KeyError, IndexError):
            run = compiled.network.run()
        return Lease(self, compiled, run)

    def take_back(self, compiled: Compiled, run: Run):
        run.unbind()
        self._idle.setdefault(compiled, []).append(run)


class Lease:
    """A run as long as somebody uses it."""

    def __init__(self, home: Runs, compiled: Compiled, run: Run):
        self._home, self.compiled, self.run = home, compiled, run
        self._process = os.getpid()

    def end(self):
        run, self.run = self.run, None
        if run is not None and self._process == os.getpid():
            self._home.take_back(self.compiled, run)

    def __del__(self):
        self.end()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous()


class CpuCall:
    """One call of a module: all that is needed to run it, and to run it once more."""

    def __init__(self, layer, steps: int, batch: int, lengths, resets, rows: bool, given_states: bool):
        self.layer, self.settings, self.runs = layer, layer._settings(), layer._runs
        if self.settings.precision not in ("auto", "fp32", "bf16"):
            raise ValueError(f"{WHERE} the precision {self.settings.precision} needs a GPU; the input is on the CPU")
        self.shape = (steps, batch, lengths, resets)
        self.rows = rows
        self.given_states = given_states
        self.threads = layer.threads or torch.get_num_threads()
        settings = self.settings
        self.work = steps * batch * settings.num_layers * 4 * settings.hidden_size
        self.work *= settings.input_size + settings.hidden_size  # roughly
        self.training = layer.training and self.settings.is_random
        self.seed = int(torch.randint(2**62, ())) if self.training else 0
        self.gradients: tuple[str, ...] = ()
        self.lease: Lease | None = None

    def compiled(self, cotangents: Iterable[str] = ()) -> Compiled:
        return compile_network(self.settings, self.given_states, self.gradients, tuple(cotangents), self.threads)

    def names(self, compiled: Compiled) -> list[list[str]]:
        """Of each tensor of a call, in order: the names of its parts."""
        names = [["x"]]
        if self.given_states:
            names += [[info.initial for info in infos] for infos in compiled.states.values()]
        return names + [[name] for name, _ in compiled.parameters]

    def forward(self, compiled: Compiled, tensors) -> Lease:
        lease = self.runs.lend(compiled)
        run = lease.run
        run.set_shape(*self.shape)
        for names, tensor in zip(self.names(compiled), tensors):
            tensor = _plain(tensor)
            if names == ["x"]:
                run.bind("x", tensor, self.rows)
            elif len(names) == 1 and not self._is_state(names[0]):
                run.bind(names[0], tensor)
            else:
                for name, part in zip(names, tensor.unbind()):
                    run.bind(name, part)
        self.quiet_openmp()
        run.forward(self.training, self.seed)
        return lease

    def quiet_openmp(self):
        if _PAUSE is not None and self.threads > 1 and self.work > _WORTH_PAUSING * self.threads:
            _PAUSE(_SOFT)

    @staticmethod
    def _is_state(name: str) -> bool:
        return "_0_l" in name

    def read(self, lease: Lease) -> tuple[torch.Tensor, ...]:
        """y [T, B, D * (P or H)] or its rows, then the final states, each [D * L, B, n]."""
        y = torch.empty(lease.run.output_shape("y", self.rows))
        lease.run.read_into("y", y, self.rows)
        outputs = [y]
        for infos in lease.compiled.states.values():
            final = torch.empty(len(infos), self.shape[1], infos[0].size)
            for info, part in zip(infos, final.unbind()):
                lease.run.read_into(info.final, part)
            outputs.append(final)
        return tuple(outputs)

    def infer(self, tensors) -> tuple[torch.Tensor, ...]:
        lease = self.forward(self.compiled(), tensors)
        try:
            return self.read(lease)
        finally:
            lease.end()

    def begin(self, tensors) -> tuple[torch.Tensor, ...]:
        """The forward pass of training. The backward pass is compiled for the outputs used so far."""
        self.lease = self.forward(self.compiled(self.layer._used_outputs()), tensors)
        return self.read(self.lease)

    def reread(self, outputs) -> tuple[torch.Tensor, ...]:
        """Outputs that the backward pass reads."""
        return ()

    def finish(self, tensors, reread, gradients) -> list[torch.Tensor | None]:
        """The backward pass: gradients of y and final states (None where unused) to those of the tensors."""
        names = self.names(describe(self.settings))
        given = self._given(gradients)
        used = self.layer._used_outputs(given)
        lease, self.lease = self.lease, None
        if lease is None or not given.keys() <= lease.compiled.cotangents:
            # Done before (a retained graph), or an output counts that has not counted so far.
            if lease is not None:
                lease.end()
            lease = self.forward(self.compiled(used), tensors)
        try:
            for name in lease.compiled.cotangents:
                rows = self.rows and name == "y"
                gradient = given.get(name)
                if gradient is None:
                    gradient = numpy.zeros(lease.run.output_shape(name, rows), numpy.float32)
                else:
                    gradient = _plain(gradient)
                lease.run.bind("d." + name, gradient, rows)
            self.quiet_openmp()
            lease.run.backward()
            return [self._gradient(lease, parts, tensor) for parts, tensor in zip(names, tensors)]
        finally:
            lease.end()

    def _given(self, gradients) -> dict[str, torch.Tensor]:
        given = {} if gradients[0] is None else {"y": gradients[0]}
        for infos, gradient in zip(describe(self.settings).states.values(), gradients[1:]):
            if gradient is not None:
                given.update((info.final, part) for info, part in zip(infos, gradient.unbind()))
        return given

    def _gradient(self, lease: Lease, names: list[str], like: torch.Tensor) -> torch.Tensor | None:
        if names[0] not in self.gradients:
            return None
        gradient = torch.empty(like.shape)
        parts = gradient.unbind() if self._is_state(names[0]) else [gradient]
        for name, part in zip(names, parts):
            if "d." + name in lease.compiled.outputs:
                lease.run.read_into("d." + name, part, self.rows and name == "x")
            else:  # no used output depends on it
                part.zero_()
        return gradient
