"""A model's parameters, or sums shaped like them, as few flat tensors: one message for all small tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Layout:
    """Order, shapes and types of the trainable parameters; equal on both sides of a link.

    names   by type of accumulation: float32 for half-precision parameters too, which it holds exactly
    """

    names: Mapping[torch.dtype, tuple[str, ...]]
    shapes: Mapping[str, torch.Size]

    @classmethod
    def of(cls, model: nn.Module) -> Layout:
        """The layout of `model`'s trainable parameters."""
        names: dict[torch.dtype, tuple[str, ...]] = {}
        shapes = {}
        for name, one in model.named_parameters():
            if one.requires_grad:
                kind = torch.promote_types(one.dtype, torch.float32)
                names[kind] = (*names.get(kind, ()), name)
                shapes[name] = one.shape
        return cls(names, shapes)

    def zeros(self, device: torch.device) -> list[Tensor]:
        """One flat tensor of zeros for each type."""
        return [
            torch.zeros(sum(self.shapes[name].numel() for name in names), dtype=kind, device=device)
            for kind, names in self.names.items()
        ]

    @torch.no_grad()
    def pack(self, tensors: Mapping[str, Tensor], into: Sequence[Tensor]) -> None:
        """Copy `tensors` (by name) into the flat ones."""
        for flat, names in zip(into, self.names.values(), strict=True):
            for name, part in zip(names, self._parts(flat, names), strict=True):
                part.copy_(tensors[name])

    def unpack(self, flat: Sequence[Tensor]) -> dict[str, Tensor]:
        """Views into the flat tensors, by name and in their shapes."""
        out: dict[str, Tensor] = {}
        for one, names in zip(flat, self.names.values(), strict=True):
            out |= dict(zip(names, self._parts(one, names), strict=True))
        return {name: out[name] for name in self.shapes}

    def _parts(self, flat: Tensor, names: tuple[str, ...]) -> list[Tensor]:
        sizes = [self.shapes[name].numel() for name in names]
        return [part.view(self.shapes[name]) for name, part in zip(names, flat.split(sizes), strict=True)]
