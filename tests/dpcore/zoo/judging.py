"""Every model of the zoo against one record at a time: one forward pass, one backward pass, one clip, then the sum."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from dpcore.gradients import PrivateGradients, isolated
from dpcore.gradients.layers import KINDS
from dpcore.gradients.layers.protocol import Kinds
from tests.dpcore.gradient_oracle import norm
from tests.dpcore.zoo.case import Batch, Case, Demand

SIZES = (5, 1, 3)
"""Records of the batches, in order: some models mix only where there are several, or change with the calls; and three
records of three positions look alike along either axis."""

# A tensor's error is measured against its own norm and this share of the whole gradient's: gradients that cancel to
# nothing (the bias of an attention's keys) have no digits to compare, and one that is left out still stands out.
_SHARE = 1e-2
_ROUNDING = 1e-4
"""How far rounding may carry one record's contribution beyond the clip norm, as a share of it."""

Sums = Mapping[str, Tensor]


@dataclass(frozen=True)
class Verdict:
    """What became of one model.

    routes  how the engine says it computes the model's gradients
    words   the refusal
    fault   "" where the engine met the case's demand, else what it did wrong
    """

    routes: frozenset[str] = frozenset()
    words: str = ""
    fault: str = ""


def judge(case: Case, kinds: Kinds = KINDS) -> Verdict:
    """What the engine does with `case`."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), case.around():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return _judge(case, kinds)


def _judge(case: Case, kinds: Kinds) -> Verdict:
    model = case.model()
    before = _state(model)
    try:
        engine = PrivateGradients(model, case.loss_of(model), kinds=kinds)
        engine.check(*case.batch(SIZES[-1], seed=len(SIZES)))
    except Exception as error:
        return _refused(case, error)
    routes = frozenset(map(str, engine.routes.values()))
    for number, size in enumerate(SIZES):
        inputs, targets = case.batch(size, seed=number)
        rows = None if case.demand is Demand.REFUSED else _rows(case, inputs, targets)
        clip_norm = 1.0 if rows is None else _median_norm(rows)
        try:
            found = _real(engine.clipped_sum(inputs, targets, clip_norm=clip_norm).tensors)
            without = _real(engine.clipped_sum(_but_last(inputs), _but_last(targets), clip_norm=clip_norm).tensors)
        except Exception as error:
            return _refused(case, error, answered=number)
        if rows is None:
            return Verdict(routes, fault="not refused")
        off = relative_error(found, _clipped_sum(rows, clip_norm))
        if not off <= case.tolerance:
            return Verdict(routes, fault=f"error {off:.2g} in a batch of {size}")
        moved = norm({name: one.double() - without[name].double() for name, one in found.items()})
        if moved > clip_norm * (1 + max(_ROUNDING, case.tolerance)):
            return Verdict(routes, fault=f"one record moved the sum by {moved / clip_norm:.3g} clip norms")
    if changed := [name for name, one in _state(model).items() if not torch.equal(one, before[name])]:
        return Verdict(routes, fault=f"changed {', '.join(changed)}")
    return Verdict(routes)


def judge_answers(case: Case) -> str:
    """What is wrong with the answers of `case`'s model to several records at once; "" where they are each record's
    own, or where the model is refused."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.no_grad(), case.around():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        inputs = _tuple(case.batch(SIZES[-1], seed=0)[0])
        try:
            found = isolated(case.model())(*inputs)
        except ValueError as error:
            return "" if case.demand is not Demand.RIGHT else f"refused: {error}"
        expected = [case.judged()(*(one[b : b + 1] for one in inputs)) for b in range(len(inputs[0]))]
    near = case.tolerance
    for several, *single in zip(tree_leaves(found), *map(tree_leaves, expected), strict=True):
        together, alone = several.double(), torch.cat(single).double()
        if together.shape != alone.shape or not torch.allclose(
            together, alone, rtol=max(1e-3, near), atol=max(1e-4, near), equal_nan=True
        ):
            return "differs from one record at a time"
    return ""


def _refused(case: Case, error: Exception, answered: int = 0) -> Verdict:
    words = " ".join(str(error).split())
    fault = ""
    if not isinstance(error, ValueError):
        fault = f"{type(error).__name__} instead of a refusal"
    elif case.demand is Demand.RIGHT:
        fault = "refused"
    elif answered:
        fault = f"refused after {answered} batches"
    return Verdict(words=words, fault=fault)


def _rows(case: Case, inputs: Batch, targets: Batch) -> list[dict[str, Tensor]]:
    """Each record's gradient, from a model that has seen no other record."""
    out = []
    for b in range(len(_tuple(targets)[0])):
        model = case.judged()
        parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        outputs = model(*(one[b : b + 1].clone() for one in _tuple(inputs)))
        answers = tuple(one[b : b + 1] for one in _tuple(targets))
        losses = case.loss_of(model)(outputs, answers if isinstance(targets, tuple) else answers[0])
        found = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True, materialize_grads=True)
        out.append(_real(dict(zip(parameters, (one.detach() for one in found), strict=True))))
    return out


def _real(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A complex number is two real ones."""
    return {name: torch.view_as_real(one) if one.is_complex() else one for name, one in tensors.items()}


def _median_norm(rows: list[dict[str, Tensor]]) -> float:
    """Some records are clipped by it, others are not. 1 where no record has a gradient."""
    return sorted(norm(row) for row in rows)[len(rows) // 2] * 0.9 or 1.0


def _clipped_sum(rows: list[dict[str, Tensor]], clip_norm: float) -> Sums:
    total = {name: torch.zeros_like(one, dtype=torch.float64) for name, one in rows[0].items()}
    for row in rows:
        factor = min(1.0, clip_norm / max(norm(row), 1e-300))
        for name, one in row.items():
            total[name] += one.double() * factor
    return total


def relative_error(found: Sums, expected: Sums) -> float:
    """The largest error of a tensor; infinite where one is missing or not finite."""
    if found.keys() != expected.keys():
        return float("inf")
    whole, worst = norm(expected), 0.0
    for name, one in expected.items():
        if found[name].shape != one.shape or not torch.isfinite(found[name]).all():
            return float("inf")
        off = norm({name: found[name].double() - one})
        if off > 0:
            worst = max(worst, off / (norm({name: one}) + _SHARE * whole or 1.0))
    return worst


def _state(model: nn.Module) -> dict[str, Tensor]:
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {name: one.detach().clone() for name, one in tensors if not torch.nn.parameter.is_lazy(one)}


def _but_last(batch: Batch) -> Batch:
    return tuple(one[:-1] for one in batch) if isinstance(batch, tuple) else batch[:-1]


def _tuple(batch: Batch) -> tuple[Tensor, ...]:
    return batch if isinstance(batch, tuple) else (batch,)
