"""Networks by name: of flattened inputs, of images, and of codes. B batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.models.registry import outputs, width
from trainables.system import DatasetSpec, InputSpec

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


def dense(facts: DatasetSpec, *hidden: int) -> nn.Module:
    """width -> so many ReLU units, layer after layer -> outputs."""
    sizes = [width(facts), *hidden]
    units = [one for before, after in pairwise(sizes) for one in (nn.Linear(before, after), nn.ReLU())]
    return keras(Flattened(nn.Sequential(*units, nn.Linear(sizes[-1], outputs(facts)))))


def two_hidden(facts: DatasetSpec, hidden: int) -> nn.Module:
    """Two hidden layers: the three-layer net of Wu et al. 2020."""
    return dense(facts, hidden, hidden)


# The two-convolution net.
#
# Source  Abadi et al. 2016; layers as in TensorFlow Privacy's MNIST tutorial, which Bu et al. 2020 used.

DENSE_UNITS = 32


class WithChannels(nn.Module):
    """`body` on images [B, C, H, W]; grey images come as [B, H, W]."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, image: Tensor) -> Tensor:
        result: Tensor = self.body(image.unsqueeze(1) if image.ndim == 3 else image)
        return result


def two_convolutions(facts: DatasetSpec, hidden: int) -> nn.Module:
    """16 filters 8x8 stride 2, pool 2 stride 1, 32 filters 4x4 stride 2, pool 2 stride 1, 32 ReLU units."""
    (feature,), channels = facts.features.values(), _channels(facts)
    convolutions = nn.Sequential(
        nn.Conv2d(channels, 16, 8, stride=2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
    )
    with torch.no_grad():
        flat = convolutions(torch.zeros(1, channels, *feature.shape[-2:])).shape[1]
    head = nn.Sequential(nn.Linear(flat, DENSE_UNITS), nn.ReLU(), nn.Linear(DENSE_UNITS, outputs(facts)))
    return keras(WithChannels(nn.Sequential(*convolutions, *head)))


# Residual nets with GroupNorm, for private gradients: no layer mixes the records of a batch.
#
# Source He, Zhang, Ren & Sun 2016: ResNet-20 (section 4.2, parameter-free shortcuts) and ResNet-18 (Table 1,
# projection shortcuts); GroupNorm from Wu & He 2018. Departures GroupNorm in place of BatchNorm, with at least 4
# channels and at most 32 groups. ResNet-18 keeps its first 7 x 7 convolution and its pooling whatever the size of the
# images.

LARGEST_GROUPS, LEAST_CHANNELS = 32, 4


def normalisation(channels: int) -> nn.GroupNorm:
    """GroupNorm over `channels`."""
    return nn.GroupNorm(min(LARGEST_GROUPS, channels // LEAST_CHANNELS), channels)


class Halved(nn.Module):
    """The shortcut without parameters: every `stride`-th pixel, and zeros for the new channels."""

    def __init__(self, stride: int, more_channels: int) -> None:
        super().__init__()
        self.stride, self.more_channels = stride, more_channels

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more_channels))


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, [B, before, H, W] -> [B, after, H / stride, W / stride].

    Only the unit between the two convolutions is a ReLU module: dropout is put behind those.
    """

    def __init__(self, before: int, after: int, stride: int, *, projected: bool) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
            normalisation(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            normalisation(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if projected and (stride > 1 or before != after):
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), normalisation(after))
        elif stride > 1 or before != after:
            self.shortcut = Halved(stride, after - before)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.convolutions(x) + self.shortcut(x))


class Stem(nn.Module):
    """The first convolution, normalised, and what follows it."""

    def __init__(self, convolution: nn.Conv2d, after: nn.Module) -> None:
        super().__init__()
        self.convolution, self.normalisation, self.after = convolution, normalisation(convolution.out_channels), after

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.after(F.relu(self.normalisation(self.convolution(x))))
        return result


def resnet20(facts: DatasetSpec, hidden: int) -> nn.Module:
    """Stages of 3 blocks with 16, 32 and 64 channels; `hidden` has no use here."""
    stem = Stem(nn.Conv2d(_channels(facts), 16, 3, padding=1, bias=False), nn.Identity())
    return _net(stem, [(16, 3, 1), (32, 3, 2), (64, 3, 2)], facts, projected=False)


def resnet18(facts: DatasetSpec, hidden: int) -> nn.Module:
    """Stages of 2 blocks with 64, 128, 256 and 512 channels; `hidden` has no use here."""
    first = nn.Conv2d(_channels(facts), 64, 7, stride=2, padding=3, bias=False)
    stem = Stem(first, nn.MaxPool2d(3, stride=2, padding=1))
    return _net(stem, [(64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2)], facts, projected=True)


def _net(stem: Stem, stages: list[tuple[int, int, int]], facts: DatasetSpec, *, projected: bool) -> nn.Module:
    layers: list[nn.Module] = [stem]
    before = stem.convolution.out_channels
    for channels, blocks, stride in stages:
        for position in range(blocks):
            layers.append(Block(before, channels, stride if position == 0 else 1, projected=projected))
            before = channels
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs(facts))]
    return _initial(WithChannels(nn.Sequential(*layers)))


def _channels(facts: DatasetSpec) -> int:
    (feature,) = facts.features.values()
    return feature.shape[0] if len(feature.shape) == 3 else 1


def _initial(module: nn.Module) -> nn.Module:
    """Convolutions as He et al. 2015 draw them; the rest as PyTorch does."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return module


def with_dropout(module: nn.Module, rate: float) -> nn.Module:
    """`module` with dropout of `rate` in [0, 1) behind every ReLU module; in place. The weights stay as they are."""
    if rate == 0:
        return module
    for name, child in module.named_children():
        if isinstance(child, nn.ReLU):
            setattr(module, name, nn.Sequential(child, nn.Dropout(rate)))
        else:
            with_dropout(child, rate)
    return module


# Embedding and average pooling.
#
# Source  Bu et al. 2020, section 4.1 (IMDb). Padding is averaged in like any word, as in the published code.

EMBEDDING_UNITS = 16


class EmbeddingPool(nn.Module):
    """Codes [B, L] -> mean over L of their embeddings -> hidden ReLU units -> outputs."""

    def __init__(self, facts: DatasetSpec, hidden: int) -> None:
        super().__init__()
        (words,) = _codes(facts)
        self.embedding = nn.Embedding(words, EMBEDDING_UNITS)
        self.head = nn.Sequential(nn.Linear(EMBEDDING_UNITS, hidden), nn.ReLU(), nn.Linear(hidden, outputs(facts)))
        keras(self)

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.head(self.embedding(tokens).mean(dim=1))
        return result


def _codes(facts: DatasetSpec) -> list[int]:
    """How many there are of each input."""
    return [feature.cardinality or 0 for feature in facts.features.values()]


# Models of ratings: of (user, item) pairs, and of items alone, for users whom nobody has met.
#
# Source TwoBranch: Bu et al. 2020, section 4.1 (MovieLens), after He et al. 2017: generalised matrix factorisation
# with 5 factors, multiplied, beside 10-factor embeddings, concatenated; one linear output layer with one column per
# star. The released code trains it as classification and judges the expected star under the softmax.

PRODUCT_FACTORS, PLAIN_FACTORS = 5, 10


class TwoBranch(nn.Module):
    """Codes [B], [B] -> [B, outputs]; `hidden` has no use here."""

    def __init__(self, facts: DatasetSpec, hidden: int) -> None:
        super().__init__()
        users, items = _codes(facts)
        self.user_product = nn.Embedding(users, PRODUCT_FACTORS)
        self.item_product = nn.Embedding(items, PRODUCT_FACTORS)
        self.user_plain = nn.Embedding(users, PLAIN_FACTORS)
        self.item_plain = nn.Embedding(items, PLAIN_FACTORS)
        self.output = nn.Linear(PRODUCT_FACTORS + 2 * PLAIN_FACTORS, outputs(facts))
        keras(self)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        product = self.user_product(user) * self.item_product(item)
        result: Tensor = self.output(torch.cat([product, self.user_plain(user), self.item_plain(item)], dim=1))
        return result


class ItemTable(nn.Module):
    """Codes [B] -> [B, outputs]: one row of outputs per item on top of what all items share, all of them 0 at first."""

    def __init__(self, facts: DatasetSpec, hidden: int) -> None:
        super().__init__()
        (items,) = _codes(facts)
        self.rows = nn.Embedding(items, outputs(facts))
        self.shared = nn.Parameter(torch.zeros(outputs(facts)))
        nn.init.zeros_(self.rows.weight)

    def forward(self, item: Tensor) -> Tensor:
        result: Tensor = self.rows(item) + self.shared
        return result


# Linear models on inputs as they are: `trainables.systems.linear` for whoever asks outside.

_SMALLEST = 1e-300


class UnitNormRows(nn.Module):
    """Inputs [n, *shape], in the order of the features, to rows [n, width] of norm at most 1, float64.

    The same numbers as `trainables.systems.linear.rows`, whose arguments these are.
    """

    def __init__(self, features: Mapping[str, InputSpec], clip_norm: float, bias: bool) -> None:
        super().__init__()
        self._codes = tuple(one.cardinality for one in features.values())
        self._clip_norm, self._bias = clip_norm, bias

    def forward(self, *inputs: Tensor) -> Tensor:
        """Each row depends on its record alone; a record with a value that is no number becomes zero."""
        rows = torch.cat(_columns(inputs, self._codes), dim=1)
        rows = torch.where(rows.isfinite().all(dim=1, keepdim=True), rows, 0.0)
        # Divided by the largest entry first, squares neither over- nor underflow.
        largest = rows.abs().amax(dim=1, keepdim=True).clamp(min=_SMALLEST)
        norms = largest * (rows / largest).square().sum(dim=1, keepdim=True).sqrt()
        rows = rows / norms.clamp(min=self._clip_norm)
        if not self._bias:
            return rows
        return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1) / math.sqrt(2)


class LinearClassifier(nn.Module):
    """Logits [n, classes], float64: rows of norm at most 1 times the released weights, shape (width, classes)."""

    def __init__(self, theta: NDArray[np.generic], facts: DatasetSpec, clip_norm: float, bias: bool) -> None:
        super().__init__()
        self.rows = UnitNormRows(facts.features, clip_norm, bias)
        self.theta = nn.Parameter(torch.tensor(np.asarray(theta, dtype=np.float64)), requires_grad=False)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The logits of n records."""
        logits: Tensor = self.rows(*inputs) @ self.theta
        return logits


def _columns(inputs: Sequence[Tensor], codes: Sequence[int | None]) -> list[Tensor]:
    """Each input as columns [n, its width], a category as one column per value."""
    found = []
    for values, cardinality in zip(inputs, codes, strict=True):
        values = values.unsqueeze(-1).flatten(1)
        if cardinality is not None:
            values = (values.unsqueeze(-1) == torch.arange(cardinality, device=values.device)).flatten(1)
        found.append(values.double())
    return found
