"""Shadow models as one group, and a network that learns from them what a member's prediction looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.audit.attacks import (
    AttackExamples,
    Decisions,
    attack_examples,
    decide,
    disjoint_splits,
    prediction_features,
)

Array = NDArray[np.float64]
FitMany = Callable[[NDArray[np.bool_]], Array]
"""inside [K, N] -> probabilities [K, N, C]: trains model k on the records of row k, and asks every model everything.

All rows hold equally many records. The K models are the caller's to train together.
"""

MEMBER = 0.5
"""Called a member from this probability on: shadows have as many members as non-members."""


def train_shadows(
    fit: FitMany,
    labels: NDArray[np.integer],
    *,
    shadows: int,
    size: int,
    rng: np.random.Generator,
    top: int | None = None,
) -> AttackExamples:
    """What `shadows` models say about their `size` members and as many non-members each.

    labels  [N] classes of the attacker's own records, which the target was not trained on
    size    at most N // 2
    top     see `prediction_features`; by default all probabilities, in decreasing order

    Raises InvalidValue (sizes, probabilities that are none).
    """
    splits = disjoint_splits(len(labels), size, shadows, rng)
    probabilities = fit(splits.inside)
    return attack_examples(probabilities, labels, splits, probabilities.shape[-1] if top is None else top)


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

    def decisions(
        self,
        member_probabilities: Array,
        member_labels: NDArray[np.integer],
        other_probabilities: Array,
        other_labels: NDArray[np.integer],
    ) -> Decisions:
        """What the attack calls the target's members and non-members, at the threshold fixed beforehand."""
        members = self.scores(member_probabilities, member_labels)
        return decide(members, self.scores(other_probabilities, other_labels), MEMBER)

    def priv_leak(
        self,
        member_probabilities: Array,
        member_labels: NDArray[np.integer],
        other_probabilities: Array,
        other_labels: NDArray[np.integer],
    ) -> float:
        """TPR - FPR, in [-1, 1]."""
        return self.decisions(member_probabilities, member_labels, other_probabilities, other_labels).advantage

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Arrays by name, for a checkpoint."""
        return {name: np.asarray(value) for name, value in asdict(self).items()}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[np.generic]]) -> AttackModel:
        """The inverse of `state`."""
        return cls(**{**state, "top": int(state["top"])})  # type: ignore[arg-type]


def train_attack(
    examples: AttackExamples,
    *,
    seed: int,
    hidden: int = 64,
    regularisation: float = 1e-6,
    learning_rate: float = 0.01,
    batch_size: int = 100,
    epochs: int = 100,
) -> AttackModel:
    """The attack network on all shadows' predictions together, by Adam; the defaults are those of Lu et al. (2021).

    regularisation  weight of ||W||^2
    seed            public: initial weights and the order of batches
    """
    import torch
    import torch.nn.functional as F

    checks.count(minimum=1, hidden=hidden, batch_size=batch_size, epochs=epochs)
    low, high = examples.features.min(axis=0), examples.features.max(axis=0)
    features = torch.from_numpy(_scaled(examples.features, low, high).astype(np.float32))
    members = torch.from_numpy(examples.members.astype(np.float32))
    generator = torch.Generator().manual_seed(seed)
    bound = (6 / (features.shape[1] + hidden)) ** 0.5
    first = (torch.rand(features.shape[1], hidden, generator=generator) * 2 * bound - bound).requires_grad_()
    second = (torch.randn(hidden, generator=generator) * hidden**-0.5).requires_grad_()
    first_bias, second_bias = torch.zeros(hidden, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.Adam([first, first_bias, second, second_bias], lr=learning_rate)
    for _ in range(epochs):
        order = torch.randperm(len(features), generator=generator)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            logits = torch.tanh(torch.addmm(first_bias, features[rows], first)) @ second + second_bias
            loss = F.binary_cross_entropy_with_logits(logits, members[rows])
            loss = loss + regularisation * (first.square().sum() + second.square().sum())
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    weights = [one.detach().double().numpy() for one in (first, first_bias, second, second_bias)]
    return AttackModel(
        low=low,
        high=high,
        first=weights[0],
        first_bias=weights[1],
        second=weights[2],
        second_bias=weights[3],
        top=examples.features.shape[1] - 1,
    )


def _scaled(features: Array, low: Array, high: Array) -> Array:
    """Features in [-1, 1]; a feature that never varied is 0."""
    span = np.where(high > low, high - low, 1.0)
    scaled: Array = np.where(high > low, 2 * (np.clip(features, low, high) - low) / span - 1, 0.0)
    return scaled
