"""A look at the first records of a kind: do the gradients found one by one add up to what autograd says?

It checks the machinery (capture, rules, mapped axes). Isolation needs no check: it holds by construction.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils import deterministic

from dpcore.gradients.hooks import Columns, Passes, backward
from dpcore.gradients.isolation import Watching
from dpcore.gradients.refusals import Refused
from dpcore.gradients.units import Parts

RECORDS = 8
"""Records that are looked at, at most."""
_FULL, _HALF = 0.02, 0.1
"""Relative errors: of products in float32 (a GPU may form them in 19 bits), and in half precision."""
_ROUNDING = 1e-2
"""What may be lost where records cancel, as a share of the sum of their norms."""
_ESCAPED = "Something in this model escapes the capture of layers; please report it with the model."


def check_gradients(
    passes: Passes,
    parts_of: Callable[[Columns, Columns], Parts],
    inputs: Columns,
    targets: Columns,
) -> bool:
    """Compare a sum over records with random weights, and the norm of the first; whether there was any to look at.
    Raises Refused.

    inputs, targets  tensors [N, ...]; records whose gradient is not finite are left out. What is random in the model
                     draws the same twice, and generators are left as they were
    """
    devices = sorted({one.device.index or 0 for one in inputs if one.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        before = _random_state(devices)
        with Watching():
            parts = parts_of(inputs, targets)
        drew = any(not torch.equal(a, b) for a, b in zip(before, _random_state(devices), strict=True))
        if not bool(parts.finite.all()):
            left = [tuple(one[parts.finite] for one in columns) for columns in (inputs, targets)]
            return bool(len(left[1][0])) and check_gradients(passes, parts_of, *left)
        if not drew:
            _refuse_hidden_draws(passes, inputs, targets)
        _put_back(before, devices)
        leaves, losses_N = _reference(passes, inputs, targets, parts if drew else None)
        _put_back(before, devices)
        _refuse_unwritten(passes, inputs, targets, losses_N.detach())
    precision = passes.precision
    half = precision.half is not None or any(one.dtype.itemsize < 4 for one in leaves.values())
    tolerance = _HALF if half else _FULL
    generator = torch.Generator().manual_seed(0)
    weights_N = (0.5 + torch.rand(len(targets[0]), generator=generator)).to(targets[0].device)
    expected = _gradients(leaves, losses_N, weights_N, precision.scale)
    found = parts.weighted_sum(weights_N.double())
    lengths = float((weights_N.double() * parts.squared_norms.sqrt()).sum())
    for name, one in expected.items():
        got = found[name].double() if name in found else torch.zeros_like(one)
        lost = float((got - one).norm())
        # Half precision may overflow in autograd's products alone: nothing is shown by it.
        if (
            math.isfinite(float(one.norm()))
            and lost > tolerance * max(float(got.norm()), float(one.norm())) + _ROUNDING * lengths
        ):
            raise Refused(
                f"parameter {name!r}: the records' gradients add up to a norm of {float(got.norm()):.6g}, autograd "
                f"gives {float(one.norm()):.6g} (difference {lost:.3g}). {_ESCAPED}"
            )
    first = torch.zeros_like(weights_N)
    first[0] = 1.0
    alone = _gradients(leaves, losses_N, first, precision.scale)
    squared = sum(float(one.square().sum()) for one in alone.values())
    if parts.rest is not None and drew:
        squared += float(parts.rest.squared_norms[0])
    norm = float(parts.squared_norms[0]) ** 0.5
    # Rules may round a norm up, never down.
    if math.isfinite(squared) and norm < (1 - tolerance) * squared**0.5:
        raise Refused(f"one record's gradient has norm {squared**0.5:.6g} by autograd, {norm:.6g} by rules. {_ESCAPED}")
    return True


def _refuse_hidden_draws(passes: Passes, inputs: Columns, targets: Columns) -> None:
    """Raises Refused where two copies of a record differ in their losses, though torch's generator was not moved."""
    if passes.chain(inputs) is not None:
        return
    twice = [tuple(one[:1].repeat(2, *[1] * (one.ndim - 1)) for one in columns) for columns in (inputs, targets)]
    one, other = passes.losses(*twice).detach()
    if not torch.allclose(one, other, rtol=_FULL, equal_nan=True):
        raise Refused(
            f"two copies of a record in one batch have the losses {float(one):.6g} and {float(other):.6g}, though "
            "torch's generator was not moved: what a record draws follows from its place in the batch. Draw from "
            "torch's generator, without a seed."
        )


def _refuse_unwritten(passes: Passes, inputs: Columns, targets: Columns, written_N: Tensor) -> None:
    """Raises Refused where losses are no numbers, unlike `written_N`, once memory that was not written holds none:
    what stands there may be of other records (`torch.empty`)."""
    if passes.chain(inputs) is not None:
        return
    with _unwritten_is_nan():
        losses_N = passes.losses(inputs, targets).detach()
    if bool((torch.isfinite(written_N) & ~torch.isfinite(losses_N)).any()):
        raise Refused(
            "the model or the loss reads memory that nobody has written (torch.empty), in which other records may "
            "stand. Use torch.zeros_like, or write all of it."
        )


@contextmanager
def _unwritten_is_nan() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _reference(
    passes: Passes, inputs: Columns, targets: Columns, parts: Parts | None
) -> tuple[Mapping[str, Tensor], Tensor]:
    """The leaves of an isolated pass without capture, and its losses.

    parts  given where the model draws at random: then all but the captured layers are mapped as they were, so that the
           same numbers are drawn for the same records, and only captured layers are compared
    """
    names = set(passes.slots.parameters)
    if parts is not None:
        names = {name for layer in parts.by_layer for name in passes.owned(layer)}
    leaves = {name: one.detach().requires_grad_() for name, one in passes.slots.parameters.items() if name in names}
    plain = passes.chain(inputs) is not None
    others = {} if plain else passes.per_record(len(targets[0]))
    mapped = {name: one for name, one in others.items() if name not in names}
    return leaves, passes.losses(inputs, targets, plain=plain, mapped=mapped, shared=leaves)


def _gradients(leaves: Mapping[str, Tensor], losses_N: Tensor, weights_N: Tensor, scale: float) -> dict[str, Tensor]:
    """Of the weighted sum of the losses, in float64."""
    found: Sequence[Tensor | None] = [None] * len(leaves)
    if losses_N.requires_grad and leaves:
        weights_N = weights_N.to(losses_N.dtype) * scale
        found = backward(losses_N, list(leaves.values()), weights_N, retain_graph=True)
    return {
        name: torch.zeros_like(leaf, dtype=torch.float64) if one is None else one.to_dense().double() / scale
        for (name, leaf), one in zip(leaves.items(), found, strict=True)
    }


def _random_state(devices: list[int]) -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]


def _put_back(states: list[Tensor], devices: list[int]) -> None:
    torch.set_rng_state(states[0])
    for device, state in zip(devices, states[1:], strict=True):
        torch.cuda.set_rng_state(state, device)
