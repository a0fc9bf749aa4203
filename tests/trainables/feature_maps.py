"""Feature maps of one's own, right and wrong, as a user's file beside a spec has them: each is built from the facts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.system import DatasetSpec


class Map(nn.Module):
    def __init__(self, facts: DatasetSpec) -> None:
        super().__init__()


class Rows(Map):
    """Three weighted means of each row and of each column: [B, 3, height + width]."""

    def __init__(self, facts: DatasetSpec) -> None:
        super().__init__(facts)
        (image,) = facts.features.values()
        height, width = image.shape
        generator = torch.Generator().manual_seed(7)
        self.down = nn.Parameter(torch.rand(3, height, generator=generator))
        self.right = nn.Parameter(torch.rand(3, width, generator=generator))

    def forward(self, image: Tensor) -> Tensor:
        return torch.cat([self.down @ image, self.right @ image.mT], -1)


class Noisy(Map):
    def forward(self, image: Tensor) -> Tensor:
        return image + torch.rand_like(image)


class Widening(Map):
    """Divides by the largest number seen so far, once one is beyond its first range: a quantiser's observer."""

    largest: Tensor

    def __init__(self, facts: DatasetSpec) -> None:
        super().__init__(facts)
        self.register_buffer("largest", torch.tensor(20.0))

    def forward(self, image: Tensor) -> Tensor:
        with torch.no_grad():
            self.largest.copy_(torch.maximum(self.largest, image.abs().max()))
        return image / self.largest


class Clamping(Map):
    """Writes to what it is given, where that is beyond a range."""

    def forward(self, image: Tensor) -> Tensor:
        return image.clamp_(-20, 20) * 2


class Branching(Map):
    def forward(self, image: Tensor) -> Tensor:
        return image if image.sum() > 0 else -image


class Logarithm(Map):
    def forward(self, image: Tensor) -> Tensor:
        return torch.log(image - 10)


def over_the_batch(facts: DatasetSpec) -> nn.Module:
    """In evaluation mode, and without statistics: those of the batch."""
    return nn.Sequential(nn.Unflatten(1, (1, -1)), nn.BatchNorm2d(1, track_running_stats=False))


def no_module(facts: DatasetSpec) -> object:
    return lambda image: image


def public_statistics(facts: DatasetSpec) -> nn.Module:
    """A normalisation by statistics that it came with is a fixed map."""
    module = nn.Sequential(nn.Unflatten(1, (1, -1)), nn.BatchNorm2d(1))
    module[1].running_mean.fill_(0.3)  # type: ignore[union-attr,operator]
    return module
