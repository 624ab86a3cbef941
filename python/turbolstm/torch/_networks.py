"""What a layer's options become: networks, compiled once for every set of them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from .._core import Network

WHERE = "[turbolstm.torch]"
# By kind of device: what tensors may be.
RUNS = {"cpu": (torch.float32,), "cuda": (torch.float32, torch.bfloat16, torch.float16)}
WANTED = "torch.float32 on the CPU, or torch.float32, bfloat16 or float16 on a CUDA device"
# Of products. "auto": fp32 on the CPU; on a GPU the type of 16-bit tensors, and with float32 tensors tf32 where
# PyTorch's own recurrent layers may use it, else fp32.
PRECISIONS = ("auto", "fp32", "bf16", "tf32", "fp16", "bf16x6")
_OF_CPU = {"auto": "fp32", "fp32": "fp32", "bf16": "bf16"}


class Settings(NamedTuple):
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
    precision: str = "auto"

    @property
    def is_random(self) -> bool:
        return self.dropout > 0 or self.recurrent_dropout > 0 or self.zoneout > 0

    def options(self, precision: str) -> dict:
        """Arguments of a network."""
        options = {**self._asdict(), "reversed": list(self.reversed), "precision": precision}
        if self.num_layers == 1:
            options["dropout"] = 0.0  # it acts between layers
        return options


class Compiled:
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
def compile_network(
    settings: Settings,
    given_states: bool = False,
    gradients: tuple[str, ...] = (),
    cotangents: tuple[str, ...] = (),
    threads: int = 1,
) -> Compiled:
    network = Network(**settings.options(_OF_CPU[settings.precision]), given_states=given_states, gradients=gradients, cotangents=cotangents, threads=threads)
    return Compiled(network, cotangents)


def describe(settings: Settings) -> Compiled:
    """A network of these settings, for what it has: parameters, states. An option out of its range is an error."""
    if settings.precision not in PRECISIONS:
        raise ValueError(f"{WHERE} there is no precision {settings.precision!r}; there are {', '.join(PRECISIONS)}")
    if settings.precision not in _OF_CPU:
        settings = settings._replace(precision="fp32")
    return compile_network(settings)
