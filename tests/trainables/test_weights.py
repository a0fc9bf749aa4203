"""Weights in the loss: clipped after them, so that they raise no sensitivity; refused where no proof covers them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gradients.chain import cross_entropy
from tests.sweeps.specs import people
from tests.sweeps.test_spec import of
from tests.trainables.recording import CPU, gradient_task, linear
from tests.trainables.registry_cases import CANDIDATES, data_of
from trainables.data import SOURCES, records
from trainables.measures.canaries import PIECES, Watched, draw_signs, planted
from trainables.planning import check_weights
from trainables.registry import SYSTEMS
from trainables.system import Dataset, PrivacyPlan, PrivacyTarget, Weights, traits_of
from trainables.training.losses import loss_function
from trainables.training.private_sgd import LocalSums

__all__ = ["people"]

TAKING = {"noisy-sgd", "noisy-adam", "clipped-sgld", "dp-sgld"}
COLUMN = Weights(column="weight", high=1e6)
C = 0.3


def weighted(data: Dataset, declared: Weights, weights: np.ndarray | None = None) -> Dataset:
    train = replace(data.train, weights=weights)
    return replace(data, facts=replace(data.facts, weights=declared), train=train)


def summed(data: Dataset) -> Tensor:
    """The clipped sum over all records."""
    parts = LocalSums(gradient_task(clip_norm=C), linear(data), data, CPU).next().tensors
    return torch.cat([parts[name].flatten() for name, _ in linear(data).named_parameters()])


def by_hand(data: Dataset, weights: np.ndarray) -> Tensor:
    """One record at a time: the gradient of its weighted loss, clipped."""
    model = linear(data)
    total = torch.zeros(sum(one.numel() for one in model.parameters()))
    for row, weight in enumerate(weights):
        inputs = [torch.from_numpy(np.asarray(one[row : row + 1])) for one in data.train.inputs.values()]
        loss = float(weight) * cross_entropy(model(*inputs), torch.from_numpy(data.train.targets[row : row + 1]))[0]
        parts: tuple[nn.Parameter, ...] = torch.autograd.grad(loss, list(model.parameters()))
        flat = torch.cat([one.flatten() for one in parts])
        total += flat * min(1.0, C / max(float(flat.norm()), 1e-30))
    return total


def test_the_sum_is_of_weighted_gradients_that_are_clipped_then() -> None:
    data, rng = data_of("noisy-sgd"), np.random.default_rng(1)
    column = rng.uniform(0, 2, len(data.train)).astype(np.float32)
    column[:5] = 0.0
    each = np.array([0.25, 3.0], dtype=np.float32)[data.train.targets]
    for declared, weights in (
        (Weights(classes=(0.25, 3.0)), each),
        (Weights(column="weight", high=2.0), column),
        (Weights(classes=(0.25, 3.0), column="weight", high=2.0), each * column),
    ):
        found = summed(weighted(data, declared, column if declared.column else None))
        assert torch.allclose(found, by_hand(data, weights), rtol=1e-4, atol=1e-5)
    assert torch.allclose(summed(data), by_hand(data, np.ones(len(data.train))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weight", [0.0, 1.0, 1e6])
def test_no_weight_moves_the_sum_by_more_than_the_clip_norm(weight: float) -> None:
    """The mutant that clips before it weighs moves it by 1e6 clip norms."""
    data = data_of("noisy-sgd")
    weights = np.ones(len(data.train), dtype=np.float32)
    weights[0] = weight
    fewer = records.taken(replace(data.train, weights=weights), np.arange(1, len(weights)))
    whole, rest = weighted(data, COLUMN, weights), replace(weighted(data, COLUMN, weights), train=fewer)
    moved = float((summed(whole) - summed(rest)).norm())
    assert moved <= C * (1 + 1e-4)
    assert (moved == 0) == (weight == 0)


@pytest.mark.parametrize(
    "declared", [Weights(classes=(0.0, 1e-4)), Weights(column="weight", high=1e-4), Weights(column="weight", high=9.0)]
)
def test_canaries_of_an_audit_are_longer_than_the_clip_however_light_records_are(declared: Weights) -> None:
    """A canary of the weight of some record would be a ten-thousandth as long, or not there, and the audit blind."""
    data, rng = data_of("noisy-sgd"), np.random.default_rng(1)
    light = np.zeros(len(data.train), dtype=np.float32) if declared.column else None
    data = planted(weighted(data, declared, light), np.ones(8, dtype=bool), rng, replaced=False)
    twin = Watched.of(CANDIDATES["noisy-sgd"].plan, 1, bytes(32), signs=draw_signs(8, rng), clip_norm=C)
    model, loss = twin.attach(linear(data), loss_function(data.facts))
    parts = LocalSums(gradient_task(clip_norm=C), model, data, CPU, loss=loss).next().tensors
    pieces = torch.stack([parts[f"rows.{piece}.weight"][1:, 0] for piece in range(PIECES)], 1)
    assert torch.allclose(pieces.norm(dim=1), torch.full((8,), C), rtol=1e-4)


def test_records_without_their_weights_train_nothing() -> None:
    with pytest.raises(InvalidValue, match="the column weight of every record"):
        summed(weighted(data_of("noisy-sgd"), COLUMN))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_takes_weights_by_name_or_refuses_them(name: str) -> None:
    system, facts = SYSTEMS[name], replace(data_of("noisy-sgd").facts, weights=Weights(classes=(1.0, 5.0)))
    assert traits_of(system).weights == (name in TAKING)
    if name in TAKING:
        check_weights(system, facts)
    else:
        with pytest.raises(InvalidValue, match=f"no weights with {name}"):
            check_weights(system, facts)


@pytest.mark.parametrize("name", sorted(TAKING))
def test_event_and_claim_are_those_without_weights(name: str) -> None:
    plan = CANDIDATES[name].plan
    facts = replace(data_of(name).facts, weights=Weights(classes=(1.0, 5.0)))
    target = PrivacyTarget(epsilon=2.0, delta=1e-4, adjacency=Adjacency.ADD_REMOVE, solve="none")
    again = SYSTEMS[name].plan(plan.config, facts, target, {})
    assert isinstance(again, PrivacyPlan)
    assert again.event() == plan.event()


def table(people: Any, **changes: Any) -> dict[str, Any]:
    raw = of(people)
    return raw | {"data": raw["data"] | changes}


def test_a_table_declares_them_and_cuts_them_to_their_bound(people) -> None:
    raw = table(people, class_weights=[1, 5], weight={"column": "a", "high": 0.5})
    options = {name: one for name, one in raw["data"].items() if name != "source"}
    data = SOURCES["table"].load(options)
    assert data.facts.weights == Weights(classes=(1.0, 5.0), column="a", high=0.5)
    assert any("before its gradient is clipped" in line for line in data.facts.treatment)
    assert any("Weights were declared without looking" in line for line in data.facts.assumptions)
    frame = pd.read_parquet(people)
    expected = np.sort(frame["a"].clip(upper=0.5).to_numpy(np.float32))
    found = np.concatenate([part.weights for part in (data.train, data.validation) if part.weights is not None])
    assert np.allclose(np.sort(found), expected)
    plain = SOURCES["table"].load({name: one for name, one in options.items() if "weight" not in name})
    assert plain.fingerprint != data.fingerprint
