"""Lengths, masks of resets and the rows of packed sequences."""

from __future__ import annotations

import torch

from ._networks import WHERE


def lengths_of(sizes: torch.Tensor) -> torch.Tensor:
    """int32 [B], longest first, from a PackedSequence's batch_sizes."""
    return (sizes.unsqueeze(1) > torch.arange(int(sizes[0]))).sum(0).to(torch.int32)


def check_lengths(lengths: torch.Tensor, steps: int, batch: int, device: torch.device) -> torch.Tensor:
    """int32 [B] on the device. Those that are on a GPU already are bounded to 0..T there, as looking at them would wait."""
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise ValueError(f"{WHERE} lengths are {lengths.dtype}, wants integers")
    lengths = lengths.reshape(-1)
    if lengths.shape != (batch,):
        raise ValueError(f"{WHERE} got {len(lengths)} lengths, wants one for each of {batch} sequences")
    if device.type == "cpu":
        lengths = lengths.cpu()
    if lengths.is_cuda:
        if lengths.device != device:
            raise ValueError(f"{WHERE} lengths are on {lengths.device}, wants {device}, where the input is")
        return lengths.clamp(0, steps).to(torch.int32)
    wrong = ((lengths < 0) | (lengths > steps)).nonzero()
    if len(wrong) > 0:
        raise ValueError(f"{WHERE} lengths[{int(wrong[0])}] is {int(lengths[wrong[0]])}, wants 0 to {steps}")
    lengths = lengths.to(torch.int32)
    return lengths if device.type == "cpu" else to_device(lengths, device)


def check_reset(reset: torch.Tensor, steps: int, batch: int, device: torch.device) -> torch.Tensor:
    """uint8 [T, B] on the device."""
    if reset.dtype not in (torch.bool, torch.uint8):
        raise ValueError(f"{WHERE} the reset mask is {reset.dtype}, wants bool")
    if device.type == "cpu":
        return reset.to("cpu", torch.uint8).contiguous()
    if reset.shape != (steps, batch):
        raise ValueError(f"{WHERE} the reset mask has the shape {list(reset.shape)}, wants {[steps, batch]}")
    if reset.is_cuda and reset.device != device:
        raise ValueError(f"{WHERE} the reset mask is on {reset.device}, wants {device}, where the input is")
    reset = reset if reset.is_cuda else to_device(reset, device)
    return (reset if reset.dtype == torch.bool else reset != 0).contiguous().view(torch.uint8)


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Enqueued behind what the stream has to do. Error while a CUDA graph is recorded: it would read the host's memory."""
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"{WHERE} lengths, masks and packed sequences of the host cannot be part of a CUDA graph, whose replays would "
            f"not see new ones; wants lengths= or reset= as tensors on {device}"
        )
    return tensor.pin_memory().to(device, non_blocking=True)


class Rows:
    """Where the rows of a PackedSequence lie in a padded batch on a GPU."""

    def __init__(self, sizes: torch.Tensor, device: torch.device):
        """sizes: [T], on the CPU, as PackedSequence.batch_sizes."""
        self._steps, self._batch = len(sizes), int(sizes[0])
        self.lengths = self._places = None  # all sequences are equally long
        if int(sizes[-1]) < self._batch:
            self.lengths = to_device(lengths_of(sizes), device)
            there = sizes.unsqueeze(1) > torch.arange(self._batch)
            self._places = to_device(there.view(-1).nonzero().view(-1), device)

    def pad(self, rows: torch.Tensor) -> torch.Tensor:
        """[rows, F] to [T, B, F], zeros behind the ends."""
        if self._places is None:
            return rows.view(self._steps, self._batch, -1)
        padded = rows.new_zeros(self._steps * self._batch, rows.shape[1])
        return padded.index_copy(0, self._places, rows).view(self._steps, self._batch, -1)

    def pack(self, padded: torch.Tensor) -> torch.Tensor:
        """[T, B, F] to [rows, F]."""
        rows = padded.reshape(self._steps * self._batch, padded.shape[2])
        return rows if self._places is None else rows.index_select(0, self._places)
