"""Sums, half precision and noise as the device makes them, against the CPU and against what is proved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from dpcore.gradients import PrivateGradients
from dpcore.gradients.chain import cross_entropy
from dpcore.noise import NoiseSource, PseudorandomNoise, SecureNoise
from tests.benchmarks.step_models import CLASSES
from tests.dpcore import gradient_oracle
from tests.gpu.results import Figure, Setting
from tests.gpu.steps import MODELS

CLIP = 0.7
SAME_SUM = 1e-3
"""Relative distance of a device's sum to the exact one: products of float32 in another order, and the device's own
convolutions."""
SAME_NORM = 1e-6
"""How far above the clip bound one record's contribution may lie: the rounding of float32 sums."""
ALARM = 1e-6
"""Chance that noise that is right is called wrong."""


def _model(name: str) -> tuple[nn.Module, Callable[[int], Tensor]]:
    torch.manual_seed(1)
    return MODELS[name].make(False), MODELS[name].draw


def _batch(draw: Callable[[int], Tensor], size: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return draw(size), torch.randint(0, CLASSES, (size,))


def _flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([one.detach().double().cpu().flatten() for one in tensors.values()])


def sums(setting: Setting) -> Iterator[Figure]:
    """Clipped sums on the device and on the CPU, both against one record at a time in float64 on the CPU."""
    for name in MODELS:
        model, draw = _model(name)
        inputs, targets = _batch(draw, 3 if setting.small else 16)
        exact = _flat(gradient_oracle.clipped_sum(model.double(), cross_entropy, inputs.double(), targets, CLIP))
        model = model.float()
        distances = {}
        for where in dict.fromkeys(("cpu", setting.device)):
            moved = model.to(where)
            found = PrivateGradients(moved, cross_entropy).clipped_sum(
                inputs.to(where), targets.to(where), clip_norm=CLIP
            )
            distances[where] = float((_flat(dict(found.tensors)) - exact).norm() / exact.norm())
            assert distances[where] <= SAME_SUM, f"{name} on {where}: {distances[where]:.2e} from the exact sum"
        yield Figure(f"{name}, from the exact sum", distances[setting.device])
        if setting.device != "cpu":
            yield Figure(f"{name}, on the CPU", distances["cpu"])


@contextmanager
def _reduced_products() -> Iterator[None]:
    """As a model's own code may ask for: float32 products of fewer digits (TF32 on GPUs, bfloat16 on some CPUs)."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def norms(setting: Setting) -> Iterator[Figure]:
    """No record's contribution exceeds the clip bound: in half precision, and where float32 products are reduced."""
    records = 3 if setting.small else 16
    worst: dict[str, float] = {}
    for name in MODELS:
        model, draw = _model(name)
        model = model.to(setting.torch_device)
        inputs, targets = (one.to(setting.torch_device) for one in _batch(draw, records))
        for precision in ("bfloat16", "float16", "float32"):
            reduced = precision == "float32"
            gradients = PrivateGradients(model, cross_entropy, precision=precision)
            for one in range(records):
                rows = slice(one, one + 1)
                with _reduced_products() if reduced else _as_it_is():
                    found = gradients.clipped_sum(inputs[rows] * 30, targets[rows], clip_norm=CLIP)
                norm = float(_flat(dict(found.tensors)).norm())
                told = "float32, reduced products" if reduced else precision
                assert norm <= CLIP * (1 + SAME_NORM), f"{name}, {told}: a record of norm {norm / CLIP:.9f} clip norms"
                worst[told] = max(worst.get(told, 0.0), norm / CLIP)
    for told, largest in worst.items():
        yield Figure(f"{told}: largest norm over the bound, less 1,", largest - 1)


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def noise(setting: Setting) -> Iterator[Figure]:
    """Both sources fill tensors of the device with standard normal draws; the time of a million."""
    size = 50_000 if setting.small else 1_000_000
    generator = torch.Generator(setting.torch_device).manual_seed(5)
    sources: tuple[NoiseSource, ...] = (SecureNoise(), PseudorandomNoise(generator))
    for source in sources:
        for kind in (torch.float32, torch.bfloat16):
            tensor = torch.zeros(size, dtype=kind, device=setting.torch_device)
            began = time.perf_counter()
            filled = source.fill_(tensor)
            if setting.device == "cuda":
                torch.cuda.synchronize()
            seconds = time.perf_counter() - began
            assert filled is tensor
            assert filled.device.type == setting.device
            draws = filled.double().cpu().numpy()
            told = f"{source.name}, {str(kind).removeprefix('torch.')}"
            square = float(np.square(draws).sum())
            tails = 2 * min(stats.chi2.cdf(square, size), stats.chi2.sf(square, size))
            # bfloat16 rounds each draw by up to 1/256 of itself: the variance stays, the distribution is in steps.
            likely = tails if kind != torch.float32 else min(tails, stats.kstest(draws, "norm").pvalue)
            assert likely > ALARM, f"{told}: not standard normal (p = {likely:.1e})"
            yield Figure(told, 1e3 * seconds * 1e6 / size, "ms a million")
