"""Losses that need no mapping: each row its own at the shapes where they are taken as they are, mapped elsewhere."""

import pytest
import torch
from torch import nn

from dpcore.gradients import PrivateGradients
from dpcore.gradients import chain as losses_module
from dpcore.gradients.chain import PROVED_LOSSES, cross_entropy, loss_proves_isolation, squared_error
from tests.dpcore import gradient_oracle as oracle

torch.set_num_threads(1)


def batch(loss, size: int = 6):
    torch.manual_seed(0)
    if loss is cross_entropy:
        return torch.randn(size, 4), torch.randint(0, 4, (size,))
    return torch.randn(size, 1), torch.randn(size)


@pytest.mark.parametrize("loss", PROVED_LOSSES)
def test_a_row_depends_on_itself_alone(loss):
    outputs, targets = batch(loss)
    assert loss_proves_isolation(loss, outputs, (targets,))
    alone = torch.cat([loss(outputs[b : b + 1], targets[b : b + 1]) for b in range(len(targets))])
    torch.testing.assert_close(loss(outputs, targets), alone)
    outputs.requires_grad_()
    for b, one in enumerate(loss(outputs, targets)):
        (gradient,) = torch.autograd.grad(one, outputs, retain_graph=True)
        assert not gradient[torch.arange(len(targets)) != b].any()


@pytest.mark.parametrize(
    ("loss", "outputs", "targets"),
    [
        (squared_error, (6, 6), (6,)),  # every record against every other
        (squared_error, (6, 1), (6, 1)),
        (squared_error, (6,), (6,)),
        (cross_entropy, (6, 4), (6, 4)),  # shares of classes
        (cross_entropy, (6, 4, 3), (6, 3)),
        (cross_entropy, (6,), (6,)),
        (oracle.cross_entropy, (6, 4), (6,)),  # the same code, not the same function
    ],
)
def test_other_shapes_and_other_functions_are_mapped(loss, outputs, targets):
    answers = torch.zeros(targets, dtype=torch.int64 if loss is cross_entropy and len(targets) == 1 else torch.float32)
    assert not loss_proves_isolation(loss, torch.zeros(outputs), (answers,))


@pytest.mark.parametrize(("loss", "width"), [(cross_entropy, 4), (squared_error, 1)])
def test_sums_are_those_of_one_record_at_a_time(loss, width):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, width))
    inputs, targets = torch.randn(6, 5), batch(loss)[1]
    found = PrivateGradients(model, loss).clipped_sum(inputs, targets, clip_norm=0.5).tensors
    for name, one in oracle.clipped_sum(model, loss, inputs, targets, 0.5).items():
        torch.testing.assert_close(found[name].double(), one, rtol=1e-5, atol=1e-6)


def test_a_loss_that_mixes_would_be_seen_here(monkeypatch):
    """Mutant: a loss over all records, put among the proved ones."""

    def centred(outputs, targets):
        return squared_error(outputs - outputs.mean(0), targets)

    monkeypatch.setattr(losses_module, "PROVED_LOSSES", {centred: lambda *_: True})
    with pytest.raises(AssertionError):
        test_a_row_depends_on_itself_alone(centred)
