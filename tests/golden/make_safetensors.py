"""Writes safetensors_python.safetensors with the reference package: every type we read, an empty
tensor, a scalar, text beyond ASCII. Needs torch and safetensors; run it in this folder."""

import torch
from safetensors.torch import save_file

save_file(
    {
        "weight": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
        "empty": torch.zeros(0, 5),
        "scalar": torch.tensor(3.5, dtype=torch.float64),
        "ids": torch.tensor([-1, 2**31 - 1], dtype=torch.int32),
        "counter": torch.tensor([2**40], dtype=torch.int64),
        "größe.half": torch.tensor([1.0, -2.5], dtype=torch.bfloat16),
    },
    "safetensors_python.safetensors",
    metadata={"format": "pt"},
)
