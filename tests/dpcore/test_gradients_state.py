"""What a model keeps from one call to the next is seen, wherever it keeps it, and refused by name."""

import logging

import pytest
import torch
from torch import nn

from dpcore.gradients import MixesExamples, PrivateGradients, Refused
from tests.dpcore import gradient_oracle as oracle

torch.set_num_threads(1)

B = 5


class Keeps(nn.Module):
    def __init__(self, keep) -> None:
        super().__init__()
        self.layer, self.keep = nn.Linear(3, 2), keep
        self.seen, self.number, self.table = [], 0, {"a": [0]}
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.keep(self, x)
        return self.layer(x)


@pytest.mark.parametrize(
    ("name", "keep"),
    [
        ("seen", lambda m, x: m.seen.append(x)),
        ("number", lambda m, x: setattr(m, "number", m.number + 1)),
        ("table", lambda m, x: m.table["a"].append(1)),
        ("last", lambda m, x: setattr(m, "last", x.detach())),
        ("mean", lambda m, x: setattr(m, "mean", x.detach().mean(0))),
        ("mean", lambda m, x: m.mean.add_(1.0)),
    ],
)
def test_what_a_model_keeps_of_a_call_is_refused_with_its_name(name, keep):
    engine = PrivateGradients(Keeps(keep), oracle.squared_loss)
    with pytest.raises(Refused, match=rf"layer '\(model\)' \(Keeps\) changes '{name}'"):
        engine.clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)


class Beside(nn.Module):
    """Keeps in its class."""

    seen: list[torch.Tensor] = []  # noqa: RUF012

    def __init__(self, keep) -> None:
        super().__init__()
        self.layer, self.keep = nn.Linear(3, 2), keep

    def forward(self, x, kept=[]):  # noqa: B006
        self.keep(self, x, kept)
        return self.layer(x)


IN_THE_FILE: dict[str, torch.Tensor] = {}


def enclosing():
    own: list[torch.Tensor] = []
    return lambda m, x, _: own.append(x.detach())


@pytest.mark.parametrize(
    ("name", "keep"),
    [
        ("Beside.seen", lambda m, x, _: m.seen.append(x.detach())),
        ("Beside.last", lambda m, x, _: setattr(type(m), "last", x.detach())),
        ("Beside.forward", lambda m, x, kept: kept.append(x.detach())),
        (f"IN_THE_FILE of {__name__}", lambda m, x, _: IN_THE_FILE.update(mean=x.detach())),
        ("keep", enclosing()),
    ],
)
def test_what_a_model_keeps_beside_itself_is_refused(name, keep):
    """In a class, a default, a global or a closure: from the second batch on another record could move by it."""
    engine = PrivateGradients(Beside(keep), oracle.squared_loss)
    with pytest.raises(Refused, match=f"changes '{name}'"):
        engine.clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)


def test_what_a_hook_keeps_is_refused():
    model, own = nn.Sequential(nn.Linear(3, 2)), []
    model[0].register_forward_hook(lambda *call: own.append(call[2].detach()))
    engine = PrivateGradients(model, oracle.squared_loss)
    with pytest.raises(Refused, match="changes 'a hook"):
        engine.clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)


def test_what_a_hook_keeps_in_a_layer_of_torch_is_refused():
    model = nn.Sequential(nn.Linear(3, 2))
    model[0].register_forward_hook(lambda layer, _, output: layer.__dict__.setdefault("seen", []).append(output))
    engine = PrivateGradients(model, oracle.squared_loss)
    with pytest.raises(Refused, match="changes 'seen'"):
        engine.clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)


def test_a_model_that_keeps_nothing_may_log_and_read_what_its_file_holds():
    table = [1.0, 2.0]

    def keep(m, x, _):
        logging.getLogger(__name__).debug("%s", table)

    engine = PrivateGradients(Beside(keep), oracle.squared_loss)
    summed = engine.clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)
    assert any(bool(one.any()) for one in summed.tensors.values())


def test_a_record_written_into_a_buffer_is_refused_with_its_place():
    engine = PrivateGradients(Keeps(lambda m, x: m.mean.add_(x[0].detach())), oracle.squared_loss)
    with pytest.raises(Refused, match=r"\(Keeps\), line \d+"):
        engine.clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)


def test_statistics_that_changed_since_are_refused():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    engine, inputs, targets = PrivateGradients(model, oracle.squared_loss), torch.randn(B, 4), torch.randn(B)
    engine.clipped_sum(inputs, targets, clip_norm=1.0)
    model.train()(inputs)
    model.eval()
    with pytest.raises(MixesExamples, match="has changed since"):
        engine.clipped_sum(inputs, targets, clip_norm=1.0)
