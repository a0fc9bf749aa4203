"""Embedding and average pooling.

Source  Bu et al. 2020, section 4.1 (IMDb). Padding is averaged in like any word, as in the published code.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.models.dense import keras
from trainables.models.registry import outputs
from trainables.system import DatasetSpec

EMBEDDING_UNITS = 16


class EmbeddingPool(nn.Module):
    """Codes [B, L] -> mean over L of their embeddings -> hidden ReLU units -> outputs."""

    def __init__(self, words: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, EMBEDDING_UNITS)
        self.head = nn.Sequential(nn.Linear(EMBEDDING_UNITS, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.head(self.embedding(tokens).mean(dim=1))
        return result


def embedding_pool(facts: DatasetSpec, hidden: int) -> nn.Module:
    """See EmbeddingPool."""
    (feature,) = facts.features.values()
    assert feature.cardinality is not None
    return keras(EmbeddingPool(feature.cardinality, hidden, outputs(facts)))


# Models of ratings: of (user, item) pairs, and of items alone, for users whom nobody has met.
#
# Source TwoBranch: Bu et al. 2020, section 4.1 (MovieLens), after He et al. 2017: generalised matrix factorisation
# with 5 factors, multiplied, beside 10-factor embeddings, concatenated; one linear output layer with one column per
# star. The released code trains it as classification and judges the expected star under the softmax.

PRODUCT_FACTORS, PLAIN_FACTORS = 5, 10


class TwoBranch(nn.Module):
    """Codes [B], [B] -> [B, outputs]."""

    def __init__(self, users: int, items: int, outputs: int) -> None:
        super().__init__()
        self.user_product = nn.Embedding(users, PRODUCT_FACTORS)
        self.item_product = nn.Embedding(items, PRODUCT_FACTORS)
        self.user_plain = nn.Embedding(users, PLAIN_FACTORS)
        self.item_plain = nn.Embedding(items, PLAIN_FACTORS)
        self.output = nn.Linear(PRODUCT_FACTORS + 2 * PLAIN_FACTORS, outputs)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        product = self.user_product(user) * self.item_product(item)
        result: Tensor = self.output(torch.cat([product, self.user_plain(user), self.item_plain(item)], dim=1))
        return result


class ItemTable(nn.Module):
    """Codes [B] -> [B, outputs]: one row of outputs per item on top of what all items share. It starts at zero."""

    def __init__(self, items: int, outputs: int) -> None:
        super().__init__()
        self.rows = nn.Embedding(items, outputs)
        self.shared = nn.Parameter(torch.zeros(outputs))
        nn.init.zeros_(self.rows.weight)

    def forward(self, item: Tensor) -> Tensor:
        result: Tensor = self.rows(item) + self.shared
        return result


def item_table(facts: DatasetSpec, hidden: int) -> nn.Module:
    """See ItemTable; `hidden` has no use here."""
    (feature,) = facts.features.values()
    assert feature.cardinality is not None
    return ItemTable(feature.cardinality, outputs(facts))


def two_branch(facts: DatasetSpec, hidden: int) -> nn.Module:
    """See TwoBranch; `hidden` has no use here."""
    users, items = (feature.cardinality for feature in facts.features.values())
    assert users is not None
    assert items is not None
    return keras(TwoBranch(users, items, outputs(facts)))
