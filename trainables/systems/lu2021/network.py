"""Tanh networks trained on the risk-averse loss, several at once: a target beside its copies, or shadow models.

    J(W) = (1/alpha) ln mean exp(alpha l_i(W)) + 2 lambda ||W||^2        (Lu et al. 2021, equations 22-23)

One hidden layer, softmax cross-entropy l, Adam on mini-batches. The mean inside the logarithm is a batch's, as in the
publication: a biased estimate of the objective. Nothing here is private.

K models, N records, M inputs, H hidden neurons, C classes, B batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.models.dense import Flattened, keras
from trainables.models.registry import outputs, width
from trainables.system import DatasetSpec, State

EVALUATION_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a network is trained.

    alpha           risk aversion, above 0; towards 0 the mean loss
    regularisation  lambda of 2 lambda ||W||^2, biases left out
    batch_size      records; the last batch of an epoch may be smaller
    """

    alpha: float
    regularisation: float
    hidden: int
    learning_rate: float
    batch_size: int
    epochs: int


@dataclass(frozen=True, slots=True)
class Networks:
    """K trained networks: weights [K, M, H], [K, H, C] and biases [K, 1, H], [K, 1, C], float32."""

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor

    @torch.no_grad()
    def logits(self, inputs_NM: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of every network on every record; shape [K, N, C]."""
        parts = []
        for start in range(0, len(inputs_NM), EVALUATION_ROWS):
            rows = torch.from_numpy(inputs_NM[start : start + EVALUATION_ROWS]).to(self.first.device)
            # One network after the other: side by side, K copies of the records would be made.
            each = [
                torch.tanh(rows @ first + first_bias) @ second + second_bias
                for first, first_bias, second, second_bias in zip(*self.parameters(), strict=True)
            ]
            parts.append(torch.stack(each).double().cpu().numpy())
        return np.concatenate(parts, axis=1)

    def parameters(self) -> list[Tensor]:
        """The tensors that are trained."""
        return [self.first, self.first_bias, self.second, self.second_bias]

    def forward(self, inputs_KBM: Tensor) -> Tensor:
        """Logits [K, B, C] of every network on records of its own."""
        hidden = torch.tanh(torch.baddbmm(self.first_bias, inputs_KBM, self.first))
        return torch.baddbmm(self.second_bias, hidden, self.second)


def train(
    inputs_NM: NDArray[np.float32],
    labels_N: NDArray[np.int64],
    members: NDArray[np.int64],
    classes: int,
    recipe: Recipe,
    seed: int,
    device: str = "cpu",
) -> Networks:
    """K networks, the k-th on the records at positions `members[k]`.

    members  shape [K, n], positions in 0..N-1; every network has n records
    seed     public: initial weights and the order of batches
    """
    generator = torch.Generator().manual_seed(seed)
    count, size = members.shape
    networks = _initial(count, inputs_NM.shape[1], recipe.hidden, classes, generator, device)
    inputs, labels = torch.from_numpy(inputs_NM).to(device), torch.from_numpy(labels_N).to(device)
    rows = torch.from_numpy(members)
    optimiser = torch.optim.Adam(networks.parameters(), lr=recipe.learning_rate)
    for _ in range(recipe.epochs):
        order = torch.stack([torch.randperm(size, generator=generator) for _ in range(count)])
        shuffled = rows.gather(1, order).to(device)
        for start in range(0, size, recipe.batch_size):
            batch = shuffled[:, start : start + recipe.batch_size]
            logits = networks.forward(inputs[batch])
            losses = F.cross_entropy(logits.flatten(0, 1), labels[batch].flatten(), reduction="none").view(batch.shape)
            objective = _risk_averse(losses, recipe.alpha).sum()
            norm = networks.first.square().sum() + networks.second.square().sum()
            optimiser.zero_grad(set_to_none=True)
            (objective + 2 * recipe.regularisation * norm).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return networks


def _risk_averse(losses_KB: Tensor, alpha: float) -> Tensor:
    return (torch.logsumexp(alpha * losses_KB, dim=1) - math.log(losses_KB.shape[1])) / alpha


def _initial(count: int, inputs: int, hidden: int, classes: int, generator: torch.Generator, device: str) -> Networks:
    def glorot(rows: int, columns: int) -> Tensor:
        bound = math.sqrt(6 / (rows + columns))
        drawn = torch.rand(count, rows, columns, generator=generator) * 2 * bound - bound
        return drawn.to(device).requires_grad_()

    def zeros(columns: int) -> Tensor:
        return torch.zeros(count, 1, columns, device=device, requires_grad=True)

    return Networks(glorot(inputs, hidden), zeros(hidden), glorot(hidden, classes), zeros(classes))


# The publication's network as a model of the gradient systems: `trainables.systems.lu2021.network:tanh_128`.

HIDDEN = 128
_PREFIX = "parameter.body"


def tanh_128(facts: DatasetSpec) -> nn.Module:
    """width -> 128 tanh units -> outputs (Table IV of Lu et al. 2021)."""
    layers = nn.Sequential(nn.Linear(width(facts), HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, outputs(facts)))
    return keras(Flattened(layers))


def logits_of(state: State, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """What a `tanh_128` in the state of a finished run says to `inputs` [N, width]; shape [N, classes]."""
    first, first_bias, second, second_bias = (
        np.asarray(state[f"{_PREFIX}.{layer}.{kind}"], dtype=np.float64)
        for layer in (0, 2)
        for kind in ("weight", "bias")
    )
    logits: NDArray[np.float64] = np.tanh(inputs @ first.T + first_bias) @ second.T + second_bias
    return logits
