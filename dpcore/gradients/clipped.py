"""The clipped sum as a value beside its bound, and the noisy mean made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dpcore import checks
from dpcore.noise import NoiseSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedSum:
    """Sum over examples of gradients clipped to `clip_norm` over all parameters together. Private: not yet noised.

    tensors    {parameter name: sum, shaped like the parameter}
    clip_norm  L2 bound of one example's contribution to all tensors together; infinite where nothing was clipped: such
               a sum has no sensitivity, and `noisy_mean_gradient` refuses it
    """

    tensors: Mapping[str, Tensor]
    clip_norm: float


def noisy_mean_gradient(
    clipped: ClippedSum, *, noise_multiplier: float, expected_batch_size: float, noise: NoiseSource
) -> dict[str, Tensor]:
    """(sum + noise_multiplier * clip_norm * N(0, I)) / expected_batch_size, shaped like the parameters.

    noise_multiplier     sigma over the clip norm, above 0
    expected_batch_size  rate * n, public and fixed; never the realised size, which is a fact about the
                         data (under add-remove, dividing by it is not covered by the proof)

    An empty batch is noised like any other. Source: Abadi et al. 2016, Algorithm 1, with the public
    divisor; Bu et al. 2020. Raises InvalidValue.
    """
    checks.positive_finite(
        noise_multiplier=noise_multiplier, expected_batch_size=expected_batch_size, clip_norm=clipped.clip_norm
    )
    return noised_mean(clipped.tensors, noise_multiplier * clipped.clip_norm, expected_batch_size, noise)


def noised_mean(
    tensors: Mapping[str, Tensor], deviation: float, expected_batch_size: float, noise: NoiseSource
) -> dict[str, Tensor]:
    """(sum + deviation * N(0, I)) / expected_batch_size, whatever bounds the sum: no claim follows by itself."""
    sums = list(tensors.values())
    # One draw for all parameters: small tensors cost a call each otherwise.
    sizes = [one.numel() for one in sums]
    drawn = noise.fill_(torch.empty(sum(sizes), dtype=sums[0].dtype, device=sums[0].device))
    drawn.mul_(deviation / expected_batch_size)
    parts = [part.view_as(one) for part, one in zip(torch.split_with_sizes(drawn, sizes), sums, strict=True)]
    torch._foreach_add_(parts, sums, alpha=1.0 / expected_batch_size)
    return dict(zip(tensors, parts, strict=True))
