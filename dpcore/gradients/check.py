"""One look at a model, on made-up records: eight together, each of them alone, and as private gradients form them.

Isolation needs no check: it holds by construction. But a model that takes something of its batch (`x - x.mean(0)`)
becomes another model where each record passes alone, and would be trained as that in silence: it is refused here, where
the plain model says something else of eight records together than of each alone. The same numbers check the machinery
of capture, rules and mapped axes: norms and sums must be those of each record alone by autograd.

No private record is ever looked at, so that no refusal depends on one.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dpcore.gradients import mapping
from dpcore.gradients.hooks import Columns, Passes
from dpcore.gradients.refusals import MixesExamples, NotComputed, Refused, of_the_machine
from dpcore.gradients.units import GhostNorms, UnitRows

RECORDS = 8
"""Made-up records that are looked at, at most."""
_FULL, _HALF = 0.02, 0.1
"""Relative errors: of products in float32 (a GPU may form them in 19 bits), and in half precision."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check has seen.

    layers      captured, on whose outputs some record's loss depends
    parameters  given once per record, on which some record's loss depends
    looped      operations that PyTorch cannot map and that go through records one at a time: right, and slow
    """

    layers: frozenset[str]
    parameters: frozenset[str]
    looped: frozenset[str]


def isolation_check(passes: Passes, inputs: Columns, targets: Columns) -> Checked:
    """Look at made-up records, tensors [N, ...] each with N of 2 to `RECORDS`. Raises Refused, MixesExamples.

    A model that draws at random is compared in evaluation mode; one that draws there too is not compared. Records
    whose gradients are not finite are left out.
    """
    looped: set[str] = set()
    states = _random_states(inputs)
    with _loops_noted(looped), Watching():
        recorded = passes.recorded(inputs, targets)
    checked = Checked(frozenset(recorded.uses), frozenset(recorded.gradients), frozenset(looped))
    modes = {module: module.training for module in passes.model.modules()}
    try:
        if drew := _drew(states, inputs):
            passes.model.eval()
            states = _random_states(inputs)
            recorded = passes.recorded(inputs, targets)
            drew = _drew(states, inputs)
        if not drew:
            _compare(passes, GhostNorms.of(recorded, UnitRows(len(targets[0]), 1), passes), inputs, targets)
    finally:
        for module, mode in modes.items():
            module.training = mode
    return checked


def _compare(passes: Passes, norms: GhostNorms, inputs: Columns, targets: Columns) -> None:
    """Raises Refused, MixesExamples."""
    size, parameters = len(targets[0]), passes.slots.parameters
    half = passes.precision.half is not None or any(one.dtype.itemsize < 4 for one in parameters.values())
    tolerance = _HALF if half else _FULL
    # Different weights: what one record gains of another does not cancel in their sum.
    weights_N = torch.linspace(0.5, 1.5, size, dtype=torch.float64)
    expected = {name: torch.zeros_like(one, dtype=torch.float64) for name, one in parameters.items()}
    losses, lengths, fine = [], [], []
    for record in range(size):
        loss, gradients = _plain(passes, inputs, targets, [record], torch.ones(1))
        length = sum(float(one.square().sum()) for one in gradients.values()) ** 0.5
        losses.append(loss)
        lengths.append(length)
        if torch.isfinite(loss).all() and length < float("inf") and bool(norms.finite[record]):
            fine.append(record)
            for name, one in gradients.items():
                expected[name] += one * weights_N[record]
    if not fine:
        return
    few_N, whole = weights_N[fine], sum(float(weights_N[record]) * lengths[record] for record in fine)
    together, gradients = _plain(passes, inputs, targets, fine, few_N)
    separate = torch.cat(losses)[fine]
    slack = tolerance * max(float(separate.abs().max()), 1e-6)
    if together.shape != separate.shape or not torch.allclose(together, separate, rtol=0.0, atol=slack):
        raise MixesExamples(_mixing("the loss of a record is another", len(fine)))
    for name, one in gradients.items():
        if float((one - expected[name]).norm()) > tolerance * whole:
            raise MixesExamples(_mixing(f"the gradient of {name!r} is another", len(fine)))
    in_sum_N = torch.zeros(size, dtype=torch.float64, device=norms.squared_norms.device)
    in_sum_N[fine] = few_N.to(in_sum_N.device)
    found = norms.weighted_sum(in_sum_N)
    for name, one in expected.items():
        got = found[name].double() if name in found else torch.zeros_like(one)
        if float((got - one).norm()) > tolerance * max(float(one.norm()), float(got.norm()), tolerance * whole):
            raise Refused(_escaped(f"the norm of all gradients of {name!r}", float(one.norm()), float(got.norm())))
    for record in fine:
        # Rules may round a norm up, never down.
        norm = float(norms.squared_norms[record]) ** 0.5
        if norm < (1 - tolerance) * lengths[record]:
            raise Refused(_escaped("the norm of one record's gradient", lengths[record], norm))


def _escaped(what: str, by_autograd: float, found: float) -> str:
    return (
        f"{what} is {by_autograd:.6g} by autograd, and {found:.6g} as private gradients form it. Something in this "
        "model escapes the capture of layers; please report it with the model."
    )


def _mixing(what: str, records: int) -> str:
    return (
        f"{what} among {records} made-up records together than alone: the model or the loss takes something of its "
        "batch (its mean, its largest value, its longest text) or draws from a generator of its own. Private training "
        "passes each record alone, so that another model would be trained. Take it of each record instead."
    )


def _plain(
    passes: Passes, inputs: Columns, targets: Columns, rows: list[int], weights_N: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses [N] of the records `rows` by the model as it is, and the gradients of their weighted sum, float64.

    Raises NotComputed.
    """
    parameters, scale = passes.slots.parameters, passes.precision.scale
    inputs, targets = (tuple(one[rows] for one in columns) for columns in (inputs, targets))
    try:
        with torch.enable_grad():
            losses_N = passes.loss_fn(passes.outputs(*inputs), targets[0] if len(targets) == 1 else targets)
            scaled = (losses_N * weights_N.to(losses_N)).sum() * scale
        found: Any = [None] * len(parameters)
        if scaled.requires_grad:
            found = torch.autograd.grad(scaled, list(parameters.values()), allow_unused=True)
    except (RuntimeError, ValueError, NotImplementedError, IndexError) as error:
        if of_the_machine(error):
            raise
        raise NotComputed(f"the model cannot be computed for {len(rows)} made-up records at once: {error}") from error
    return losses_N.detach(), {
        name: torch.zeros_like(leaf, dtype=torch.float64) if one is None else one.to_dense().double() / scale
        for (name, leaf), one in zip(parameters.items(), found, strict=True)
    }


def _random_states(inputs: Columns) -> list[Tensor]:
    devices = {one.device for one in inputs if one.device.type == "cuda"}
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]


def _drew(before: list[Tensor], inputs: Columns) -> bool:
    return any(not torch.equal(one, other) for one, other in zip(before, _random_states(inputs), strict=True))


class Watching(TorchFunctionMode):
    """Inside the block, refuses calls of a model's code that a mapped pass would answer otherwise than a plain one."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function == _REQUIRES_GRAD and mapping.axis(args[0]) is not None and not _asked_by_torch():
            raise Refused(
                "the model asks whether a tensor requires a gradient, which no tensor of a mapped pass says. Decide by "
                "self.training, or leave the question out; hooks on tensors are not run."
            )
        if (kwargs or {}).get("generator") is not None:
            raise Refused(
                "the model draws from a generator of its own: with a seed that somebody set, what a record draws "
                "follows from its place in the batch. Draw without one (torch.rand_like(x)); the seed is kept secret."
            )
        return function(*args, **(kwargs or {}))


_REQUIRES_GRAD = torch.Tensor.requires_grad.__get__  # type: ignore[attr-defined]


def _asked_by_torch() -> bool:
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith("torch.")


@contextmanager
def _loops_noted(names: set[str]) -> Iterator[None]:
    """Adds to `names` the operations of the block that PyTorch cannot map and takes one record at a time."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        found = re.search(r"batching rule for (\S+?)\. ", str(one.message))
        if found:
            names.add(found[1])
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
