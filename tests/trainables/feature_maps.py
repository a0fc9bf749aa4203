"""Feature maps of one's own, right and wrong, as a user's file beside a spec has them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.system import DatasetSpec


def sizes(facts: DatasetSpec) -> tuple[int, int]:
    (image,) = facts.features.values()
    return image.shape  # type: ignore[return-value]


class Rows(nn.Module):
    """Three weighted means of each row and of each column: [B, 3, height + width]."""

    def __init__(self, facts: DatasetSpec) -> None:
        super().__init__()
        height, width = sizes(facts)
        generator = torch.Generator().manual_seed(7)
        self.down = nn.Parameter(torch.rand(3, height, generator=generator))
        self.right = nn.Parameter(torch.rand(3, width, generator=generator))

    def forward(self, image: Tensor) -> Tensor:
        return torch.cat([self.down @ image, self.right @ image.mT], -1)


class Side(nn.Module):
    """The numbers of a record beside the square of its scan."""

    def forward(self, x: Tensor, scan: Tensor) -> Tensor:
        return torch.cat([x, scan.square()], 1)


class Centred(nn.Module):
    """Minus the mean of the batch: records are mixed."""

    def forward(self, image: Tensor) -> Tensor:
        return image - 1e-2 * image.mean(0)


class Noisy(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image + torch.rand_like(image)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, image: Tensor) -> Tensor:
        self.seen.add_(image.mean())  # type: ignore[operator]
        return image + 0 * self.seen


class Widening(nn.Module):
    """Divides by the largest number seen so far, once one is beyond its first range: a quantiser's observer.

    kept  how: "buffer", or "block", a buffer that is written to without gradients
    """

    def __init__(self, kept: str) -> None:
        super().__init__()
        self.kept = kept
        self.largest: Tensor
        self.register_buffer("largest", torch.tensor(20.0))

    def forward(self, image: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.kept != "block"):
            self.largest.copy_(torch.maximum(self.largest, image.abs().max()))
        return image / self.largest


class Clamping(nn.Module):
    """Writes to what it is given, where that is beyond a range."""

    def forward(self, image: Tensor) -> Tensor:
        return image.clamp_(-20, 20) * 2


class Branching(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image if image.sum() > 0 else -image


class Logarithm(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return torch.log(image - 10)


def rows(facts: DatasetSpec) -> nn.Module:
    return Rows(facts)


def side(facts: DatasetSpec) -> nn.Module:
    return Side()


def centred(facts: DatasetSpec) -> nn.Module:
    return Centred()


def over_the_batch(facts: DatasetSpec) -> nn.Module:
    """In evaluation mode, and without statistics: those of the batch."""
    return nn.Sequential(nn.Unflatten(1, (1, -1)), nn.BatchNorm2d(1, track_running_stats=False))


def noisy(facts: DatasetSpec) -> nn.Module:
    return Noisy()


def remembering(facts: DatasetSpec) -> nn.Module:
    return Remembering()


def widening(facts: DatasetSpec) -> nn.Module:
    return Widening("buffer")


def widening_in_a_block(facts: DatasetSpec) -> nn.Module:
    return Widening("block")


def clamping(facts: DatasetSpec) -> nn.Module:
    return Clamping()


def branching(facts: DatasetSpec) -> nn.Module:
    return Branching()


def logarithm(facts: DatasetSpec) -> nn.Module:
    return Logarithm()


def no_module(facts: DatasetSpec) -> object:
    return lambda image: image


def public_statistics(facts: DatasetSpec) -> nn.Module:
    """A normalisation by statistics that it came with is a fixed map."""
    module = nn.Sequential(nn.Unflatten(1, (1, -1)), nn.BatchNorm2d(1))
    module[1].running_mean.fill_(0.3)  # type: ignore[union-attr,operator]
    return module
