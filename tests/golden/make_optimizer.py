"""Writes pytorch_optimizer.safetensors: five steps of each torch.optim rule that we have, from the
same weights and gradients, and gradients clipped by their norm. Needs torch; run in this folder."""

import torch
from safetensors.torch import save_file

STEPS = 5
SHAPES = {"weight": (5, 7), "bias": (3,)}
RULES = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_decay": (torch.optim.SGD, dict(lr=0.1, weight_decay=0.02)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.02)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.02, nesterov=True)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam_decay": (torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.99), eps=1e-4, weight_decay=0.1)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
}

generator = torch.Generator().manual_seed(0)
initial = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
gradients = {
    # Small and large ones: Adam's epsilon matters for the first, clipping for the second.
    name: torch.randn((STEPS, *shape), generator=generator)
    * 10.0 ** torch.linspace(-6, 1, STEPS).reshape(-1, *[1] * len(shape))
    for name, shape in SHAPES.items()
}
tensors = {f"initial.{n}": t for n, t in initial.items()}
tensors |= {f"gradient.{n}": t for n, t in gradients.items()}

for rule, (kind, options) in RULES.items():
    weights = {n: torch.nn.Parameter(t.clone()) for n, t in initial.items()}
    optimizer = kind(weights.values(), **options, foreach=False)
    history = {n: [] for n in weights}
    for step in range(STEPS):
        for name, weight in weights.items():
            weight.grad = gradients[name][step].clone()
        optimizer.step()
        for name, weight in weights.items():
            history[name].append(weight.detach().clone())
    for name, weight in weights.items():
        tensors[f"{rule}.{name}"] = torch.stack(history[name])
        for slot, value in optimizer.state[weight].items():
            if slot != "step" and value is not None:
                tensors[f"{rule}.{name}.{slot}"] = value.clone()

for step in range(STEPS):
    clipped = {n: torch.nn.Parameter(torch.zeros(s)) for n, s in SHAPES.items()}
    for name, weight in clipped.items():
        weight.grad = gradients[name][step].clone()
    norm = torch.nn.utils.clip_grad_norm_(clipped.values(), 1.0)
    tensors[f"clip.norm.{step}"] = norm
    for name, weight in clipped.items():
        tensors[f"clip.{name}.{step}"] = weight.grad

save_file(tensors, "pytorch_optimizer.safetensors")
