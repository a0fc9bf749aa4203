"""Units of several records: one clip of the sum of their gradients, records still apart from each other."""

import pytest
import torch
from torch import nn

from dpcore.checks import InvalidValue
from dpcore.gradients import PrivateGradients
from dpcore.gradients.layers import KINDS
from dpcore.gradients.units import UnitRows
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.gradient_models import CASES, assert_same, case

torch.set_num_threads(1)
U, K = 3, 2


def clipped_units(model, loss_fn, inputs, targets, taken, clip_norm):
    """One record, one backward pass at a time; the gradients of a unit's taken records add up before the clip."""
    total = {name: torch.zeros_like(one).double() for name, one in model.named_parameters() if one.requires_grad}
    columns = inputs if isinstance(inputs, tuple) else (inputs,)
    for unit in range(len(taken)):
        present = taken[unit].nonzero()[:, 0]
        if not len(present):
            continue
        rows = oracle.rows(model, loss_fn, tuple(one[unit][present] for one in columns), targets[unit][present])
        summed = {name: several.double().sum(0) for name, several in rows.items()}
        for name, one in summed.items():
            total[name] += one * min(1.0, clip_norm / max(oracle.norm(summed), 1e-300))
    return total


def in_units(tensor):
    return tensor.unflatten(0, (U, K))


@pytest.mark.parametrize("kinds", [KINDS, {}], ids=["one pass", "per record"])
@pytest.mark.parametrize("name", CASES)
def test_every_layer_clips_the_sum_of_a_unit_s_records(name, kinds):
    model, inputs, targets, _ = case(name)
    inputs = tuple(in_units(one) for one in inputs) if isinstance(inputs, tuple) else in_units(inputs)
    targets = in_units(targets)
    taken = torch.tensor([[True, True], [False, True], [False, False]])
    engine = PrivateGradients(model, oracle.squared_loss, unit_records=K, kinds=kinds)
    whole = engine.clipped_sum(inputs, targets, clip_norm=2.0).tensors
    everything = torch.ones(U, K, dtype=torch.bool)
    assert_same(whole, clipped_units(model, oracle.squared_loss, inputs, targets, everything, 2.0))
    some = engine.clipped_sum(inputs, targets, clip_norm=2.0, taken=taken, microbatch_size=2).tensors
    assert_same(some, clipped_units(model, oracle.squared_loss, inputs, targets, taken, 2.0))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


@pytest.mark.parametrize("filler", [0.0, 1e30, float("nan"), float("inf")])
def test_what_stands_in_an_empty_place_has_no_influence(filler):
    inputs, targets = torch.randn(4, 3, 5), torch.randint(0, 3, (4, 3))
    taken = torch.rand(4, 3) < 0.6
    engine = PrivateGradients(network(), oracle.cross_entropy, unit_records=3)
    expected = engine.clipped_sum(inputs, targets, clip_norm=0.3, taken=taken).tensors
    inputs[~taken] = filler
    targets[~taken] = 2
    found = engine.clipped_sum(inputs, targets, clip_norm=0.3, taken=taken).tensors
    assert all(torch.equal(found[name], one) for name, one in expected.items())


def moved_by_a_unit() -> float:
    inputs, targets = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1)), torch.zeros(4, 3).long()
    inputs[3] *= 30
    engine = PrivateGradients(network(), oracle.cross_entropy, unit_records=3)
    whole, rest = (engine.clipped_sum(inputs[:units], targets[:units], clip_norm=0.3).tensors for units in (4, 3))
    return oracle.norm({name: one - rest[name] for name, one in whole.items()})


def test_one_more_unit_moves_the_sum_by_at_most_the_clip_norm(monkeypatch):
    assert 0.29 < moved_by_a_unit() <= 0.3 * (1 + 1e-5)
    # Mutant: every record clipped on its own, as if it were a unit.
    monkeypatch.setattr(UnitRows, "of", classmethod(lambda cls, size, records, taken: cls(size * records, 1)))
    monkeypatch.setattr(UnitRows, "present", lambda self, column: column.flatten(0, 1))
    assert moved_by_a_unit() > 0.3 * (1 + 1e-5)


def test_shapes_that_do_not_fit_are_refused():
    engine = PrivateGradients(network(), oracle.cross_entropy, unit_records=3)
    inputs, targets = torch.randn(2, 3, 5), torch.zeros(2, 3).long()
    with pytest.raises(InvalidValue, match="3 records for each unit"):
        engine.clipped_sum(inputs[:, :2], targets[:, :2], clip_norm=1.0)
    with pytest.raises(InvalidValue, match="taken"):
        engine.clipped_sum(inputs, targets, clip_norm=1.0, taken=torch.ones(2, 3))
    with pytest.raises(InvalidValue, match="unit_records"):
        PrivateGradients(network(), oracle.cross_entropy, unit_records=0)
