"""Training under units: what is drawn, clipped and claimed is a person with fifty rows; per-record training, read so,
is refuted.

A verdict is wrong on a true claim with probability at most 5%; seeds are fixed besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dpcore.audit.audit import AuditOutcome, AuditVerdict
from dpcore.gradients import ClippedSum, PrivateGradients
from tests.dpcore import gradient_oracle
from tests.trainables.recording import CPU, audited, facts_of, gradient_task, linear
from trainables.data import records
from trainables.hyperparameters import read
from trainables.measures import audits
from trainables.measures.audits import curve_of
from trainables.registry import SYSTEMS
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, RunSettings, Scalar, Split
from trainables.systems import vandermaaten2020 as voters
from trainables.systems.vandermaaten2020 import MemberHyperparameters
from trainables.training import private_sgd
from trainables.training.losses import loss_function
from trainables.training.private_sgd import LocalSums
from trainables.units import Unit

torch.set_num_threads(1)
ROWS, PERSONS, CLIP = 50, 120, 2.0
STEPS: dict[str, Scalar] = {"model": "linear", "batch_size": 12, "epochs": 2}
KNOBS: dict[str, dict[str, Scalar]] = {
    "noisy-sgd": {**STEPS, "learning_rate": 0.2, "clip_norm": CLIP},
    "noisy-adam": {**STEPS, "learning_rate": 0.05, "clip_norm": CLIP},
    "clipped-sgld": {**STEPS, "step_size": 1e-3, "halve_every": 5},
    "dp-sgld": {**STEPS, "step_size": 0.05, "halve_every": 5, "clip_norm": CLIP},
}


def people(rows: Callable[[int], int] = lambda person: ROWS, k: int = ROWS) -> Dataset:
    """A table of PERSONS people with `rows` each: two clouds in three dimensions, a person's rows in one of them."""
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(PERSONS), [rows(person) for person in range(PERSONS)])
    labels = owner % 2
    points = np.clip(0.3 + 0.4 * labels[:, None] + 0.1 * rng.standard_normal((len(owner), 3)), 0, 1).astype(np.float32)
    facts = facts_of((3,), n=PERSONS, n_validation=PERSONS, unit=Unit(column="person", max_records=k))
    whole = Split(inputs={"x": points}, targets=labels)
    train, units = records.by_unit(whole, owner, facts.unit)
    return records.dataset(facts, train, whole, units=units)


def planned(name: str, facts: DatasetSpec, epsilon: float = 1.0, **knobs: Scalar) -> PrivacyPlan:
    target = PrivacyTarget(epsilon=epsilon, delta=1e-5, unit="person")
    plan = SYSTEMS[name].plan({**KNOBS.get(name, VOTES), **knobs}, facts, target, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


# What a step adds up


def local(data: Dataset, **changes: Any) -> LocalSums:
    return LocalSums(gradient_task(**changes), linear(data), data, CPU)


def flat(total: ClippedSum) -> torch.Tensor:
    return torch.cat([one.flatten() for one in total.tensors.values()])


def uneven() -> Dataset:
    return people(lambda person: 1 + (7 * person) % 20, k=12)


@pytest.mark.parametrize("clip_norm", [0.1, 2.0, 100.0])
@pytest.mark.parametrize("microbatch", [None, 30])
def test_a_step_adds_up_each_persons_clipped_sum(clip_norm: float, microbatch: int | None) -> None:
    """Against one record at a time; persons with fewer rows than k among them."""
    data = uneven()
    assert data.units is not None
    model = linear(data)
    inputs, targets = torch.from_numpy(data.train.inputs["x"]), torch.from_numpy(data.train.targets)
    rows = gradient_oracle.rows(model, loss_function(data.facts), inputs, targets)
    each = torch.cat([one.flatten(1) for one in rows.values()], 1).double()
    expected = torch.zeros(each.shape[1], dtype=torch.float64)
    for start, stop in zip(data.units.offsets[:-1], data.units.offsets[1:], strict=True):
        person = each[start:stop].sum(0)
        expected += person * min(1.0, clip_norm / float(person.norm()))
    found = flat(local(data, clip_norm=clip_norm, microbatch=microbatch).next()).double()
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-6)


class ClipsRecords:
    """A mutant: every record of a unit is clipped by itself."""

    def __init__(self, model, loss_fn, *, unit_records, precision, automatic):
        self.engine = PrivateGradients(model, loss_fn, precision=precision)

    def clipped_sum(self, inputs, targets, *, clip_norm, taken, microbatch_size):
        inputs, targets = (tuple(one[taken] for one in some) for some in (inputs, targets))
        return self.engine.clipped_sum(inputs, targets, clip_norm=clip_norm)


def draws_records(self: LocalSums, chosen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """A mutant: a coin for every record, and the drawn ones of a unit clipped together."""
    rows, taken = self._units.rows(np.arange(self._present), self._unit_records)
    taken &= np.random.default_rng(len(chosen)).random(taken.shape) < self._task.rate
    seen = taken.any(axis=1)
    return torch.from_numpy(rows[seen]), torch.from_numpy(taken[seen])


def drawn_together(draws: int = 400) -> tuple[int, int]:
    """(batches that hold a part of some person's rows, persons in all batches), at rate 0.05."""
    data = uneven()
    sums, seen = local(data, rate=0.05), list[tuple[torch.Tensor, torch.Tensor]]()
    sums._gradients = SimpleNamespace(  # type: ignore[assignment]
        clipped_sum=lambda inputs, targets, *, taken, **_: seen.append((inputs[0], taken))
    )
    for _ in range(draws):
        sums.next()
    owners = np.repeat(np.arange(data.present), np.diff(data.units.offsets))
    owner = {row.tobytes(): unit for unit, row in zip(owners, data.train.inputs["x"], strict=True)}
    sizes = np.diff(data.units.offsets)
    parts = persons = 0
    for inputs, taken in seen:
        broken = False
        for rows, there in zip(inputs.numpy(), taken.numpy(), strict=True):
            units = {owner[row.tobytes()] for row in rows[there]}
            assert len(units) == 1
            persons += 1
            broken |= int(there.sum()) < sizes[units.pop()]
        parts += broken
    return parts, persons


def test_batches_hold_whole_persons_each_by_one_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 batches of 120 coins at 0.05: within 5 deviations (6e-7); and no person is there in part."""
    parts, persons = drawn_together()
    assert parts == 0
    assert abs(persons - 400 * 6) < 5 * (400 * 120 * 0.05 * 0.95) ** 0.5
    monkeypatch.setattr(LocalSums, "_batch", draws_records)
    parts, persons = drawn_together(20)
    assert parts == 20


VOTES: dict[str, Scalar] = {"regularisation": 0.001, "bias": True, "queries": 100, "composition": "standard"}


def changed_votes() -> list[int]:
    """How many of 40 models say something else of somebody when one person is left out, for each of three persons."""
    data = people(lambda person: 5, k=5)
    assert data.units is not None
    plan = planned("subsample-and-aggregate", data.facts, epsilon=50.0, models=40)
    knobs = read(MemberHyperparameters, plan.config)
    before = voters.winners(knobs, data, RunSettings())
    changed = []
    for gone in range(3):
        rows, units = data.units.picked(np.delete(np.arange(data.present), gone))
        less = replace(data, train=records.taken(data.train, rows), units=units)
        after = voters.winners(knobs, less, RunSettings())
        changed.append(int((before != after).any(axis=1).sum()))
    return changed


def parts_of_records(units: object, models: int) -> list[np.ndarray]:
    """A mutant: parts are made of records, so that a person is in several."""
    return [np.arange(number, units.records, models) for number in range(models)]  # type: ignore[attr-defined]


def test_a_person_changes_one_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(changed_votes()) == 1
    monkeypatch.setattr(voters, "parts_by_unit", parts_of_records)
    assert max(changed_votes()) > 1


# Audits


def refuted(name: str, canaries: int = 600) -> bool:
    """Whether an audit by persons, each of 50 equal records, refutes the claim of a system."""
    data = people()
    plan = planned(name, data.facts, batch_size=24, epochs=1)
    setting = audited(plan, data, 0, bytes(32))
    curve = curve_of(setting)
    found = audits.gather(setting, "f-dp", canaries=canaries, curve=curve)
    assert "each a person of 50 equal records" in found.design
    return AuditVerdict(audit=found.audit, guarantee=plan.guarantee, curve=curve).outcome is AuditOutcome.REFUTED


@pytest.mark.parametrize("name", sorted(KNOBS))
def test_persons_as_canaries_stay_within_the_claim(name: str) -> None:
    assert not refuted(name)


@pytest.mark.parametrize("mutant", ["clip", "draw"])
def test_units_that_are_not_enforced_are_refuted(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant == "clip":
        monkeypatch.setattr(private_sgd, "PrivateGradients", ClipsRecords)
    else:
        monkeypatch.setattr(LocalSums, "_batch", draws_records)
    assert refuted("noisy-sgd", canaries=1500)
