"""Weights that a model of the user's own loads: known by a digest, for no seed draws them again.

A code fingerprint holds the files of the user's packages. Weights that a module loads from a hub, or from a folder that
an environment names, are in none of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


def pretrained_fingerprint(make: Callable[[], nn.Module]) -> str:
    """Digest of the tensors of a model that are the same under two seeds of torch's generator."""
    first, second = seeded(0, make), seeded(1, make)
    drawn = dict([*second.named_parameters(), *second.named_buffers()])
    tensors = dict([*first.named_parameters(), *first.named_buffers()])
    return digest({name: one for name, one in tensors.items() if name in drawn and torch.equal(one, drawn[name])})


def seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    """What `make` returns under a seed of torch's generator, which is as it was afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def untrained(model: nn.Module) -> dict[str, Tensor]:
    """What training never moves: frozen parameters, and buffers that are kept in no state either."""
    frozen = {name: one for name, one in model.named_parameters() if not one.requires_grad}
    return {**frozen, **dict(model.named_buffers())}


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and values, whatever the order."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().resolve_conj().contiguous()
        found.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
