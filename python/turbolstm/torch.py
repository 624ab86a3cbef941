"""Recurrent layers for PyTorch: drop-ins for ``torch.nn.LSTM``, ``GRU`` and ``RNN``, and any other cell by name.

They run float32 tensors on the CPU, and have what PyTorch's lack: ``lengths``, ``reset`` masks, zoneout, recurrent
dropout, layer normalisation, peepholes. The input is read where it lies when it is contiguous in [T, B, I] (so with
``batch_first`` it is copied once), as are parameters, states and the data of a ``PackedSequence``; outputs and gradients
are copied once into tensors of PyTorch's. What the backward pass needs stays in memory of the library until then.

Letters of shapes: T time, B batch, I input, H hidden, P projection, L layers, D directions, n elements of a state.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterable
from typing import NamedTuple

import numpy
import torch
from torch.nn.utils.rnn import PackedSequence

from ._core import Network, Run

__all__ = ["GRU", "LSTM", "RNN", "Recurrent", "replace"]

_WHERE = "[turbolstm.torch]"


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


class _Settings(NamedTuple):
    """What a network is compiled from, beside what is differentiated."""

    cell: str
    input_size: int
    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    bidirectional: bool = False
    proj_size: int = 0
    dropout: float = 0.0
    recurrent_dropout: float = 0.0
    zoneout: float = 0.0
    clip: float | None = None
    coupled_gates: bool = False
    heads: int = 1
    delay: int = 2
    residual: bool = False
    reversed: tuple[bool, ...] = ()
    precision: str = "fp32"

    @property
    def is_random(self) -> bool:
        return self.dropout > 0 or self.recurrent_dropout > 0 or self.zoneout > 0


class _Compiled:
    """A network with the names that a call goes through, looked up once."""

    def __init__(self, network: Network, cotangents: tuple[str, ...]):
        self.network = network
        self.cotangents = frozenset(cotangents)
        self.parameters = [(value.name, value.features) for value in network.parameters]
        self.outputs = {value.name for value in network.outputs}
        self.output_size = next(value.features[0] for value in network.outputs if value.name == "y")
        self.states: dict[str, list] = {}  # by state: its layers and directions, as PyTorch stacks them
        for info in network.states:
            self.states.setdefault(info.state, []).append(info)


@functools.lru_cache(maxsize=512)
def _compile(
    settings: _Settings,
    given_states: bool = False,
    gradients: tuple[str, ...] = (),
    cotangents: tuple[str, ...] = (),
    threads: int = 1,
) -> _Compiled:
    options = settings._asdict()
    options["reversed"] = list(settings.reversed)
    if settings.num_layers == 1:
        options["dropout"] = 0.0  # it acts between layers
    network = Network(**options, given_states=given_states, gradients=gradients, cotangents=cotangents, threads=threads)
    return _Compiled(network, cotangents)


class _Runs:
    """Runs of one module that nobody uses at the moment, by network. Copies begin with none."""

    def __init__(self):
        self._idle: dict[_Compiled, list[Run]] = {}
        self._process = os.getpid()

    def __deepcopy__(self, memo):
        return _Runs()

    def __reduce__(self):
        return _Runs, ()

    def lend(self, compiled: _Compiled) -> _Lease:
        if self._process != os.getpid():  # a forked child lacks the threads of these
            self.__init__()
        try:
            run = self._idle[compiled].pop()
        except (KeyError, IndexError):
            run = compiled.network.run()
        return _Lease(self, compiled, run)

    def take_back(self, compiled: _Compiled, run: Run):
        run.unbind()
        self._idle.setdefault(compiled, []).append(run)


class _Lease:
    """A run as long as somebody uses it."""

    def __init__(self, home: _Runs, compiled: _Compiled, run: Run):
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


class _Call:
    """One call of a module: all that is needed to run it, and to run it once more."""

    def __init__(self, layer: _Layers, steps: int, batch: int, lengths, resets, rows: bool, given_states: bool):
        self.layer, self.settings, self.runs = layer, layer._settings(), layer._runs
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
        self.lease: _Lease | None = None

    def compiled(self, cotangents: Iterable[str] = ()) -> _Compiled:
        return _compile(self.settings, self.given_states, self.gradients, tuple(cotangents), self.threads)

    def names(self, compiled: _Compiled) -> list[list[str]]:
        """Of each tensor of a call, in order: the names of its parts."""
        names = [["x"]]
        if self.given_states:
            names += [[info.initial for info in infos] for infos in compiled.states.values()]
        return names + [[name] for name, _ in compiled.parameters]

    def forward(self, compiled: _Compiled, tensors) -> _Lease:
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

    def read(self, lease: _Lease) -> tuple[torch.Tensor, ...]:
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

    def finish(self, tensors, gradients) -> list[torch.Tensor | None]:
        """The backward pass: gradients of y and final states (None where unused) to those of the tensors."""
        names = self.names(_compile(self.settings))
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
        for infos, gradient in zip(_compile(self.settings).states.values(), gradients[1:]):
            if gradient is not None:
                given.update((info.final, part) for info, part in zip(infos, gradient.unbind()))
        return given

    def _gradient(self, lease: _Lease, names: list[str], like: torch.Tensor) -> torch.Tensor | None:
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


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call: _Call, *tensors):
        ctx.set_materialize_grads(False)
        ctx.call = call
        ctx.save_for_backward(*tensors)
        return call.begin(tensors)

    @staticmethod
    def backward(ctx, *gradients):
        tensors = ctx.saved_tensors
        if all(gradient is None for gradient in gradients):
            return (None,) * (1 + len(tensors))
        with torch.no_grad():
            results = ctx.call.finish(tensors, gradients)
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
            f"{_WHERE} double backward is not supported: a gradient of a recurrent layer was differentiated again; "
            "use torch.nn's layer for this"
        )


def _without_dynamo(function):
    """torch.compile leaves the function as it is and compiles around it."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    return function if disable is None else disable(function)


def _autocasts(device: str) -> bool:
    try:
        return torch.is_autocast_enabled(device)
    except TypeError:  # older releases ask without an argument
        return torch.is_autocast_cpu_enabled()


class _Layers(torch.nn.Module):
    """What all layers share: how a call becomes runs of networks."""

    batch_first: bool
    threads: int
    _runs: _Runs

    def _settings(self) -> _Settings:
        raise NotImplementedError

    def _begin(self, threads: int):
        self.threads = threads  # 0: as many as torch.get_num_threads() says
        self._runs = _Runs()
        self._cotangents = ()  # outputs whose gradients have been given so far

    def _used_outputs(self, given: Iterable[str] = ()) -> tuple[str, ...]:
        self._cotangents = tuple(sorted({*self._cotangents, *given}))
        return self._cotangents or ("y",)

    @_without_dynamo
    def _call(self, input, hx, lengths, reset):
        packed = isinstance(input, PackedSequence)
        x = input.data if packed else input
        self._check_tensor("input", x)
        if x.dtype != torch.float32:
            x = x.float()
        compiled = _compile(self._settings())
        state_names = list(compiled.states)
        states = () if hx is None else (hx,) if isinstance(hx, torch.Tensor) else tuple(hx)
        if states and len(states) != len(state_names):
            raise ValueError(
                f"{_WHERE} got {len(states)} initial states, wants {len(state_names)}: {', '.join(state_names)}"
            )
        for name, state in zip(state_names, states):
            self._check_tensor(f"initial state {name}", state)
        if packed:
            if lengths is not None or reset is not None:
                raise ValueError(f"{_WHERE} a PackedSequence has lengths of its own and takes no reset mask")
            outputs = self._run_packed(compiled, input, x, states)
        else:
            outputs = self._run_padded(compiled, x, states, lengths, reset)
        y, finals = outputs[0], outputs[1:]
        return y, finals[0] if len(finals) == 1 else finals

    def _run_packed(self, compiled: _Compiled, input: PackedSequence, x, states):
        if x.dim() != 2:
            raise ValueError(f"{_WHERE} the data of a PackedSequence have {x.dim()} axes, wants 2: [rows, I]")
        self._check_features(x)
        sizes = input.batch_sizes
        batch = int(sizes[0])
        lengths = (sizes.unsqueeze(1) > torch.arange(batch)).sum(0).to(torch.int32)
        self._check_states(compiled, states, batch)
        if input.sorted_indices is not None:
            states = [state.index_select(1, input.sorted_indices) for state in states]
        call = _Call(self, len(sizes), batch, lengths, None, True, len(states) > 0)
        y, *finals = self._run(call, compiled, x, states)
        if input.unsorted_indices is not None:
            finals = [final.index_select(1, input.unsorted_indices) for final in finals]
        return (PackedSequence(y, sizes, input.sorted_indices, input.unsorted_indices), *finals)

    def _run_padded(self, compiled: _Compiled, x, states, lengths, reset):
        if x.dim() not in (2, 3):
            raise ValueError(f"{_WHERE} the input has {x.dim()} axes, wants 3 (a batch) or 2 (one sequence)")
        self._check_features(x)
        reset = None if reset is None else torch.as_tensor(reset)
        one = x.dim() == 2
        if one:
            for state in states:
                if state.dim() != 2:
                    raise ValueError(f"{_WHERE} an initial state of one sequence has {state.dim()} axes, wants 2")
            x = x.unsqueeze(1)
            states = [state.unsqueeze(1) for state in states]
            reset = None if reset is None else reset.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
            reset = None if reset is None else reset.transpose(0, 1)
        steps, batch = x.shape[:2]
        self._check_states(compiled, states, batch)
        if lengths is not None:
            lengths = torch.as_tensor(lengths)
            if lengths.is_floating_point() or lengths.dtype == torch.bool:
                raise ValueError(f"{_WHERE} lengths are {lengths.dtype}, wants integers")
            lengths = lengths.to("cpu", torch.int64).reshape(-1).clamp(-1, 2**31 - 1).to(torch.int32)
        if reset is not None:
            if reset.dtype not in (torch.bool, torch.uint8):
                raise ValueError(f"{_WHERE} the reset mask is {reset.dtype}, wants bool")
            reset = reset.to("cpu", torch.uint8).contiguous()
        call = _Call(self, steps, batch, lengths, reset, False, len(states) > 0)
        y, *finals = self._run(call, compiled, x.contiguous(), states)
        if one:
            return (y.squeeze(1), *(final.squeeze(1) for final in finals))
        return (y.transpose(0, 1) if self.batch_first else y, *finals)

    def _run(self, call: _Call, compiled: _Compiled, x, states):
        parameters = [getattr(self, name) for name, _ in compiled.parameters]
        for (name, shape), parameter in zip(compiled.parameters, parameters):
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu" or parameter.shape != shape:
                raise ValueError(
                    f"{_WHERE} the parameter {name} is {parameter.dtype} {list(parameter.shape)} on "
                    f"{parameter.device}, wants torch.float32 {list(shape)} on the CPU"
                )
        tensors = (x, *(state.float() for state in states), *parameters)
        wanted = [tensor.requires_grad for tensor in tensors] if torch.is_grad_enabled() else [False]
        if not any(wanted):
            return call.infer(tensors)
        names = call.names(compiled)
        call.gradients = tuple(name for parts, want in zip(names, wanted) if want for name in parts)
        return _Apply.apply(call, *tensors)

    @staticmethod
    def _check_tensor(what: str, tensor):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{_WHERE} the {what} is a {type(tensor).__name__}, wants a torch.Tensor")
        if tensor.device.type != "cpu":
            raise RuntimeError(
                f"{_WHERE} the {what} is on {tensor.device}; these layers run on the CPU only, in float32. "
                "On NVIDIA GPUs the command line trains (turbolstm train --device cuda)"
            )
        if tensor.layout != torch.strided:
            raise ValueError(f"{_WHERE} the {what} has the layout {tensor.layout}, wants a dense tensor")
        is_half = tensor.dtype in (torch.bfloat16, torch.float16)
        if tensor.dtype != torch.float32 and not (is_half and _autocasts("cpu")):
            raise ValueError(f"{_WHERE} the {what} is {tensor.dtype}, wants torch.float32")

    def _check_features(self, x):
        if x.shape[-1] != self.input_size:
            raise ValueError(f"{_WHERE} the input has {x.shape[-1]} features, wants input_size = {self.input_size}")

    @staticmethod
    def _check_states(compiled: _Compiled, states, batch: int):
        for (name, infos), state in zip(compiled.states.items(), states):
            wanted = (len(infos), batch, infos[0].size)
            if tuple(state.shape) != wanted:
                raise ValueError(
                    f"{_WHERE} the initial state {name} has the shape {list(state.shape)}, wants {list(wanted)}"
                )

    def _draw(self, names: Iterable[str]):
        """Initial values as the cell's source wants them, from PyTorch's generator."""
        network = _compile(self._settings()).network
        seed = int(torch.randint(2**62, ()))
        with torch.no_grad():
            for name in names:
                getattr(self, name).copy_(torch.from_numpy(network.initial_values(name, seed)))


class _DropIn(_Layers):
    """What LSTM, GRU and RNN add to PyTorch's class of that name."""

    def __init__(
        self,
        *args,
        layer_norm: bool = False,
        peephole: bool = False,
        recurrent_dropout: float = 0.0,
        zoneout: float = 0.0,
        precision: str = "fp32",
        threads: int = 0,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self._begin(threads)
        self.layer_norm, self.peephole = layer_norm, peephole
        self.recurrent_dropout, self.zoneout, self.precision = recurrent_dropout, zoneout, precision
        known = dict(self.named_parameters())
        like = next(iter(known.values()))
        if not self._is_plain():
            names = []
            for name, shape in _compile(self._settings()).parameters:
                names.append(name)
                if name not in known:
                    empty = torch.empty(shape, dtype=like.dtype, device=like.device)
                    self.register_parameter(name, torch.nn.Parameter(empty))
            if like.device.type != "meta":
                self._draw(names)
        else:
            _compile(self._settings())  # an option out of its range is an error now

    def _is_plain(self) -> bool:
        return not (self.layer_norm or self.peephole)

    def _cell(self) -> str:
        raise NotImplementedError

    def _settings(self) -> _Settings:
        return _Settings(
            cell=self._cell(),
            input_size=self.input_size,
            hidden_size=self.hidden_size,
            num_layers=self.num_layers,
            bias=self.bias,
            bidirectional=self.bidirectional,
            proj_size=self.proj_size,
            dropout=self.dropout,
            recurrent_dropout=self.recurrent_dropout,
            zoneout=self.zoneout,
            precision=self.precision,
        )

    def reset_parameters(self):
        super().reset_parameters()
        if "_runs" in self.__dict__ and not self._is_plain():
            self._draw(name for name, _ in _compile(self._settings()).parameters)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        for name, default in (("layer_norm", False), ("peephole", False), ("recurrent_dropout", 0.0),
                              ("zoneout", 0.0), ("precision", "fp32")):  # fmt: skip
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text

    def forward(self, input, hx=None, *, lengths=None, reset=None):
        """Runs the layers.

        Args:
            input: [T, B, I], with batch_first [B, T, I], of one sequence [T, I]; or a PackedSequence.
            hx: initial states (h_0, of an LSTM also c_0), each [D * L, B, n], of one sequence [D * L, n]; None: zeros.
            lengths: [B] integers from 0 to T: later steps are padding. Their outputs are zeros.
            reset: bool, [T, B] like the input: true where a sequence starts anew from zeros.

        Returns:
            output like the input with D * (P or H) features, and the final states, shaped like hx.
        """
        return self._call(input, hx, lengths, reset)


class LSTM(_DropIn, torch.nn.LSTM):
    """``torch.nn.LSTM`` with the same arguments, parameters and results.

    Also: layer_norm (Ba et al. 2016), peephole (Gers et al. 2002), recurrent_dropout (Gal and Ghahramani 2016),
    zoneout (Krueger et al. 2017), precision "bf16" of products, threads (0: as many as PyTorch uses).
    """

    def _cell(self) -> str:
        chosen = [name for name in ("layer_norm", "peephole") if getattr(self, name)]
        if self.proj_size > 0:
            chosen.append("proj_size")
        if len(chosen) > 1:
            raise ValueError(f"{_WHERE} there is no LSTM with {' and '.join(chosen)} at once")
        names = {"layer_norm": "layer_norm_lstm", "peephole": "peephole_lstm", "proj_size": "lstm_projection"}
        return names[chosen[0]] if chosen else "lstm"


class _WithoutLstmOptions(_DropIn):
    def _refuse_lstm_options(self):
        for name in ("layer_norm", "peephole"):
            if getattr(self, name):
                raise ValueError(f"{_WHERE} {type(self).__name__} has no {name}; LSTM has")


class GRU(_WithoutLstmOptions, torch.nn.GRU):
    """``torch.nn.GRU`` with the same arguments, parameters and results; also recurrent_dropout and zoneout."""

    def _cell(self) -> str:
        self._refuse_lstm_options()
        return "gru"


class RNN(_WithoutLstmOptions, torch.nn.RNN):
    """``torch.nn.RNN`` with the same arguments, parameters and results; also recurrent_dropout and zoneout."""

    def _cell(self) -> str:
        self._refuse_lstm_options()
        return "rnn_" + self.nonlinearity


class Recurrent(_Layers):
    """Layers of any cell: ``turbolstm.cells()`` lists them. Parameters have PyTorch's kind of names.

    The arguments are those of ``torch.nn.LSTM``; reversed says for each layer whether it goes backwards in time, residual
    adds the input of layers behind the first to their output, clip bounds what goes into activations, heads and delay
    are those cells' that have them. Calls and results are as LSTM's; a cell with one state takes and gives a tensor.
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        recurrent_dropout: float = 0.0,
        zoneout: float = 0.0,
        clip: float | None = None,
        coupled_gates: bool = False,
        heads: int = 1,
        delay: int = 2,
        residual: bool = False,
        reversed: Iterable[bool] = (),
        precision: str = "fp32",
        threads: int = 0,
    ):
        super().__init__()
        self.batch_first = batch_first
        self.input_size = input_size
        self._begin(threads)
        self._what = _Settings(
            cell, input_size, hidden_size, num_layers, bias, bidirectional, proj_size, float(dropout),
            float(recurrent_dropout), float(zoneout), clip, coupled_gates, heads, delay, residual, tuple(reversed),
            precision,
        )  # fmt: skip
        for name, shape in _compile(self._what).parameters:
            self.register_parameter(name, torch.nn.Parameter(torch.empty(shape)))
        self.reset_parameters()

    def _settings(self) -> _Settings:
        return self._what

    def reset_parameters(self):
        """Draws all parameters anew."""
        self._draw(name for name, _ in _compile(self._what).parameters)

    def extra_repr(self) -> str:
        defaults = _Settings._field_defaults
        parts = [f"{self._what.cell}, {self._what.input_size}, {self._what.hidden_size}"]
        parts += [f"{name}={value}" for name, value in self._what._asdict().items()
                  if name in defaults and value != defaults[name]]  # fmt: skip
        return ", ".join(parts)

    forward = _DropIn.forward


_REPLACEMENTS = {torch.nn.LSTM: LSTM, torch.nn.GRU: GRU, torch.nn.RNN: RNN}


def replace(model: torch.nn.Module) -> torch.nn.Module:
    """Turns every ``torch.nn.LSTM``, ``GRU`` and ``RNN`` of a model into this module's, and returns the model.

    They stay the same objects with the same parameters and hooks, so optimisers go on working. Classes derived from
    PyTorch's are left alone. Error, before anything is changed: one of them is not float32 on the CPU.
    """
    found = [(name, module) for name, module in model.named_modules() if type(module) in _REPLACEMENTS]
    for name, module in found:
        for parameter in module.parameters():
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
                raise ValueError(
                    f"{_WHERE} {name or 'the model'} has {parameter.dtype} parameters on {parameter.device}, wants "
                    "torch.float32 on the CPU"
                )
    for _, module in found:
        module.__class__ = _REPLACEMENTS[type(module)]
        module._begin(0)
        module.layer_norm = module.peephole = False
        module.recurrent_dropout = module.zoneout = 0.0
        module.precision = "fp32"
    return model
