"""A record for whose values an operation raises an error contributes zero: that a step failed would tell of it."""

import pytest
import torch
from torch import nn

from dpcore.gradients import PrivateGradients, Refused
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.gradient_models import assert_same

torch.set_num_threads(1)
B = 7


class Rooted(nn.Module):
    """Of a record whose first number is below 0 no root is taken: an error."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x) * torch.linalg.cholesky(x[:, :1, None])[:, 0]


def records(size, *bad):
    torch.manual_seed(0)
    inputs, targets = torch.rand(size, 3) + 0.5, torch.randn(size)
    inputs[list(bad), 0] = -1.0
    good = [row for row in range(size) if row not in bad]
    return inputs, targets, good


@pytest.mark.parametrize("bad", [(0,), (6,), (2, 3), (0, 1, 2, 4, 5, 6)])
@pytest.mark.parametrize("first", [True, False])
def test_it_contributes_zero_and_leaves_the_others_as_they_are(bad, first):
    inputs, targets, good = records(B, *bad)
    model = Rooted()
    engine = PrivateGradients(model, oracle.squared_loss)
    if not first:
        engine.clipped_sum(inputs[good], targets[good], clip_norm=0.5)
    found = engine.clipped_sum(inputs, targets, clip_norm=0.5).tensors
    assert_same(found, oracle.clipped_sum(model, oracle.squared_loss, inputs[good], targets[good], 0.5))


@pytest.mark.parametrize("first", [True, False])
def test_a_batch_of_no_others_is_an_empty_one(first):
    engine, (inputs, targets, _) = PrivateGradients(Rooted(), oracle.squared_loss), records(2, 0, 1)
    if not first:
        engine.clipped_sum(inputs.abs(), targets, clip_norm=0.5)
    found = engine.clipped_sum(inputs, targets, clip_norm=0.5).tensors
    assert oracle.norm(found) == 0


def test_in_units_the_others_of_its_unit_stay():
    inputs, targets, _ = records(6, 3)
    model = Rooted()
    engine = PrivateGradients(model, oracle.squared_loss, unit_records=2)
    taken = torch.tensor([[True, True], [True, True], [True, False]])
    found = engine.clipped_sum(inputs.view(3, 2, 3), targets.view(3, 2), clip_norm=0.5, taken=taken).tensors
    clean = inputs.abs().view(3, 2, 3)
    taken[1, 1] = False
    expected = PrivateGradients(model, oracle.squared_loss, unit_records=2).clipped_sum(
        clean, targets.view(3, 2), clip_norm=0.5, taken=taken
    )
    assert_same(found, {name: one.double() for name, one in expected.tensors.items()})


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else self.layer(-x)


def test_what_fails_for_every_record_is_refused():
    engine = PrivateGradients(Branches(), oracle.squared_loss)
    with pytest.raises(Refused, match="must not branch on values"):
        engine.clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)
