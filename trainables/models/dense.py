"""Models of flattened inputs. B batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.models.registry import outputs, width
from trainables.system import DatasetSpec

# Starting weights as Keras draws them, which is what the published experiments ran with.

EMBEDDING_RANGE = 0.05


def keras(module: nn.Module) -> nn.Module:
    """Glorot & Bengio 2010 uniform weights, zero biases, embeddings uniform on +-0.05; in place."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Embedding):
            nn.init.uniform_(layer.weight, -EMBEDDING_RANGE, EMBEDDING_RANGE)
    return module


class Flattened(nn.Module):
    """`body` on all inputs, flattened and side by side: [B, width]."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, *inputs: Tensor) -> Tensor:
        flat = [one.flatten(1) if one.ndim > 1 else one.unsqueeze(1) for one in inputs]
        result: Tensor = self.body(flat[0] if len(flat) == 1 else torch.cat(flat, dim=1))
        return result


def linear(facts: DatasetSpec, hidden: int) -> nn.Module:
    """One linear layer; `hidden` has no use here."""
    return keras(Flattened(nn.Linear(width(facts), outputs(facts))))


def mlp(facts: DatasetSpec, hidden: int) -> nn.Module:
    """width -> hidden ReLU units -> outputs."""
    return keras(
        Flattened(nn.Sequential(nn.Linear(width(facts), hidden), nn.ReLU(), nn.Linear(hidden, outputs(facts))))
    )


def two_hidden(facts: DatasetSpec, hidden: int) -> nn.Module:
    """width -> hidden ReLU units -> hidden ReLU units -> outputs: the three-layer net of Wu et al. 2020."""
    return keras(
        Flattened(
            nn.Sequential(
                nn.Linear(width(facts), hidden),
                nn.ReLU(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Linear(hidden, outputs(facts)),
            )
        )
    )
