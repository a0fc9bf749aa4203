"""Tanh networks trained on the risk-averse loss, several at once: a target beside its copies, or shadow models.

    J(W) = (1/alpha) ln mean exp(alpha l_i(W)) + 2 lambda ||W||^2        (Lu et al. 2021, equations 22-23)

One hidden layer, softmax cross-entropy l, Adam on mini-batches. The mean inside the logarithm is a batch's, as in the
publication: a biased estimate of the objective. Nothing here is private.

K models, N records, M inputs, H hidden neurons, C classes, B batch.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.audit.attacks import AttackExamples, prediction_features
from trainables.models.networks import Flattened, keras
from trainables.models.registry import outputs, width
from trainables.system import DatasetSpec, State

Array = NDArray[np.float64]

EVALUATION_ROWS = 4096


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
    params: Any,
    seed: int,
    device: str = "cpu",
) -> Networks:
    """K networks, the k-th on the records at positions `members[k]`.

    members  shape [K, n], positions in 0..N-1; every network has n records
    params   hidden, epochs, learning_rate, batch_size; alpha and regularisation of the objective
    seed     public: initial weights and the order of batches
    """
    generator = torch.Generator().manual_seed(seed)
    count, size = members.shape
    networks = _initial(count, inputs_NM.shape[1], params.hidden, classes, generator, device)
    inputs, labels = torch.from_numpy(inputs_NM).to(device), torch.from_numpy(labels_N).to(device)
    rows = torch.from_numpy(members)
    optimiser = torch.optim.Adam(networks.parameters(), lr=params.learning_rate)
    for _ in range(params.epochs):
        order = torch.stack([torch.randperm(size, generator=generator) for _ in range(count)])
        shuffled = rows.gather(1, order).to(device)
        for start in range(0, size, params.batch_size):
            batch = shuffled[:, start : start + params.batch_size]
            logits = networks.forward(inputs[batch])
            losses = F.cross_entropy(logits.flatten(0, 1), labels[batch].flatten(), reduction="none").view(batch.shape)
            objective = _risk_averse(losses, params.alpha).sum()
            norm = networks.first.square().sum() + networks.second.square().sum()
            optimiser.zero_grad(set_to_none=True)
            (objective + 2 * params.regularisation * norm).backward()  # type: ignore[no-untyped-call]
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


# What learns from shadow models what a member's prediction looks like.

ATTACK = "attack."
"""Before the names of its arrays in a state."""
MEMBER = 0.5
"""Called a member from this probability on: shadows have as many members as non-members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackModel:
    """One hidden layer of tanh neurons on scaled features; what it knows are shadows, nothing of a target.

    low, high      [F] range of each feature over the shadows' predictions: what lies outside is cut to it
    first, second  weights [F, H] and [H]; first_bias [H], second_bias [1]
    top            how many probabilities the features hold, in decreasing order
    """

    low: Array
    high: Array
    first: Array
    first_bias: Array
    second: Array
    second_bias: Array
    top: int

    def scores(self, probabilities: Array, labels: NDArray[np.integer]) -> Array:
        """Probability of membership, [N], of predictions [N, C] for records of classes `labels` [N]."""
        features = _scaled(prediction_features(probabilities, labels, self.top), self.low, self.high)
        logits = np.tanh(features @ self.first + self.first_bias) @ self.second + self.second_bias
        scores: Array = 0.5 * (1 + np.tanh(logits / 2))
        return scores

    def called(self, probabilities: Array, labels: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of such records it calls members, [N], at the threshold fixed beforehand."""
        return self.scores(probabilities, labels) >= MEMBER

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Arrays by name, for a checkpoint; it is made of validation records alone."""
        return {f"{ATTACK}{name}": np.asarray(value) for name, value in asdict(self).items()}

    @classmethod
    def from_state(cls, state: State) -> AttackModel:
        """That of a run with shadows, by its state. Raises KeyError without one."""
        own = {name.removeprefix(ATTACK): value for name, value in state.items() if name.startswith(ATTACK)}
        return cls(**own | {"top": int(state[f"{ATTACK}top"])})  # type: ignore[arg-type]


_UNITS, _DECAY, _RATE, _BATCH = 64, 1e-6, 0.01, 100
"""Hidden units, weight of ||W||^2, step size of Adam and batches of the attack's network (Lu et al. 2021)."""


def train_attack(examples: AttackExamples, *, seed: int, epochs: int) -> AttackModel:
    """The attack network on all shadows' predictions together, by Adam.

    seed  public: initial weights and the order of batches
    """
    low, high = examples.features.min(axis=0), examples.features.max(axis=0)
    features = torch.from_numpy(_scaled(examples.features, low, high).astype(np.float32))
    members = torch.from_numpy(examples.members.astype(np.float32))
    generator = torch.Generator().manual_seed(seed)
    bound = (6 / (features.shape[1] + _UNITS)) ** 0.5
    first = (torch.rand(features.shape[1], _UNITS, generator=generator) * 2 * bound - bound).requires_grad_()
    second = (torch.randn(_UNITS, generator=generator) * _UNITS**-0.5).requires_grad_()
    first_bias, second_bias = torch.zeros(_UNITS, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.Adam([first, first_bias, second, second_bias], lr=_RATE)
    for _ in range(epochs):
        order = torch.randperm(len(features), generator=generator)
        for rows in order.split(_BATCH):
            logits = torch.tanh(torch.addmm(first_bias, features[rows], first)) @ second + second_bias
            loss = F.binary_cross_entropy_with_logits(logits, members[rows])
            loss = loss + _DECAY * (first.square().sum() + second.square().sum())
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    weights = [one.detach().double().numpy() for one in (first, first_bias, second, second_bias)]
    named = dict(zip(("first", "first_bias", "second", "second_bias"), weights, strict=True))
    return AttackModel(low=low, high=high, **named, top=examples.features.shape[1] - 1)


def _scaled(features: Array, low: Array, high: Array) -> Array:
    """Features in [-1, 1]; a feature that never varied is 0."""
    span = np.where(high > low, high - low, 1.0)
    scaled: Array = np.where(high > low, 2 * (np.clip(features, low, high) - low) / span - 1, 0.0)
    return scaled


# The publication's network as a model of the gradient systems: `trainables.systems.lu2021_network:tanh_128`.

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
