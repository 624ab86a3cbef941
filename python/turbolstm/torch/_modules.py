"""The layers that users make."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ._layers import Layers
from ._networks import WHERE, Settings, describe


def _check_sizes(args, options):
    """PyTorch's own errors for these do not say which argument it was."""
    for i, name in enumerate(("input_size", "hidden_size", "num_layers")):
        value = args[i] if i < len(args) else options.get(name, 1)
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{WHERE} {name} is a {type(value).__name__}, wants an integer")
        if value < 1:
            raise ValueError(f"{WHERE} {name} is {value}, wants at least 1")


class DropIn(Layers):
    """What LSTM, GRU and RNN add to PyTorch's class of that name."""

    def __init__(
        self,
        *args,
        layer_norm: bool = False,
        peephole: bool = False,
        recurrent_dropout: float = 0.0,
        zoneout: float = 0.0,
        reversed: Iterable[bool] = (),
        precision: str = "auto",
        threads: int = 0,
        **kwargs,
    ):
        _check_sizes(args, kwargs)
        super().__init__(*args, **kwargs)
        self._begin(threads)
        self.reversed = tuple(reversed)
        self.layer_norm, self.peephole = layer_norm, peephole
        self.recurrent_dropout, self.zoneout, self.precision = recurrent_dropout, zoneout, precision
        known = dict(self.named_parameters())
        like = next(iter(known.values()))
        if not self._is_plain():
            names = []
            for name, shape in describe(self._settings()).parameters:
                names.append(name)
                if name not in known:
                    empty = torch.empty(shape, dtype=like.dtype, device=like.device)
                    self.register_parameter(name, torch.nn.Parameter(empty))
            if like.device.type != "meta":
                self._draw(names)
        else:
            describe(self._settings())  # an option out of its range is an error now

    def _is_plain(self) -> bool:
        return not (self.layer_norm or self.peephole)

    def _cell(self) -> str:
        raise NotImplementedError

    def _settings(self) -> Settings:
        return Settings(
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
            reversed=self.reversed,
            precision=self.precision,
        )

    def reset_parameters(self):
        super().reset_parameters()
        if "_runs" in self.__dict__ and not self._is_plain():
            self._draw(name for name, _ in describe(self._settings()).parameters)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        for name, default in (("layer_norm", False), ("peephole", False), ("recurrent_dropout", 0.0),
                              ("zoneout", 0.0), ("reversed", ()), ("precision", "auto")):  # fmt: skip
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


class LSTM(DropIn, torch.nn.LSTM):
    """``torch.nn.LSTM`` with the same arguments, parameters and results.

    Also: layer_norm (Ba et al. 2016), peephole (Gers et al. 2002), recurrent_dropout (Gal and Ghahramani 2016),
    zoneout (Krueger et al. 2017), reversed (for each layer of one direction, whether it goes backwards in time),
    precision of products (see the module), threads (0: as many as PyTorch uses).
    """

    def _cell(self) -> str:
        chosen = [name for name in ("layer_norm", "peephole") if getattr(self, name)]
        if self.proj_size > 0:
            chosen.append("proj_size")
        if len(chosen) > 1:
            raise ValueError(f"{WHERE} there is no LSTM with {' and '.join(chosen)} at once")
        names = {"layer_norm": "layer_norm_lstm", "peephole": "peephole_lstm", "proj_size": "lstm_projection"}
        return names[chosen[0]] if chosen else "lstm"


class _WithoutLstmOptions(DropIn):
    def _refuse_lstm_options(self):
        for name in ("layer_norm", "peephole"):
            if getattr(self, name):
                raise ValueError(f"{WHERE} {type(self).__name__} has no {name}; LSTM has")


class GRU(_WithoutLstmOptions, torch.nn.GRU):
    """``torch.nn.GRU`` with the same arguments, parameters and results; also recurrent_dropout, zoneout, reversed."""

    def _cell(self) -> str:
        self._refuse_lstm_options()
        return "gru"


class RNN(_WithoutLstmOptions, torch.nn.RNN):
    """``torch.nn.RNN`` with the same arguments, parameters and results; also recurrent_dropout, zoneout, reversed."""

    def _cell(self) -> str:
        self._refuse_lstm_options()
        return "rnn_" + self.nonlinearity


class Recurrent(Layers):
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
        precision: str = "auto",
        threads: int = 0,
    ):
        super().__init__()
        self.batch_first = batch_first
        self.input_size = input_size
        self._begin(threads)
        self._what = Settings(
            cell, input_size, hidden_size, num_layers, bias, bidirectional, proj_size, float(dropout),
            float(recurrent_dropout), float(zoneout), clip, coupled_gates, heads, delay, residual, tuple(reversed),
            precision,
        )  # fmt: skip
        for name, shape in describe(self._what).parameters:
            self.register_parameter(name, torch.nn.Parameter(torch.empty(shape)))
        self.reset_parameters()

    def _settings(self) -> Settings:
        return self._what

    def reset_parameters(self):
        """Draws all parameters anew."""
        self._draw(name for name, _ in describe(self._what).parameters)

    def extra_repr(self) -> str:
        defaults = Settings._field_defaults
        parts = [f"{self._what.cell}, {self._what.input_size}, {self._what.hidden_size}"]
        parts += [f"{name}={value}" for name, value in self._what._asdict().items()
                  if name in defaults and value != defaults[name]]  # fmt: skip
        return ", ".join(parts)

    forward = DropIn.forward
