"""Every kind of layer, by its rule and mapped over records, against one example at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpcore.checks import InvalidValue
from dpcore.gradients import MixesExamples, PrivateGradients, Refused, Route
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.gradient_models import CASES, B, Branching, Positions, assert_same, case

torch.set_num_threads(1)


@pytest.mark.parametrize("clip_share", [0.5, 100.0])
@pytest.mark.parametrize("name", CASES)
def test_same_as_one_example_at_a_time(name, clip_share):
    model, inputs, targets, route = case(name)
    row = oracle.rows(model, oracle.squared_loss, inputs, targets)
    norms = torch.sqrt(sum(one.flatten(1).square().sum(1) for one in row.values()))
    clip_norm = clip_share * float(norms.median())
    engine = PrivateGradients(model, oracle.squared_loss)
    expected = oracle.clipped_sum(model, oracle.squared_loss, inputs, targets, clip_norm)
    assert_same(engine.clipped_sum(inputs, targets, clip_norm=clip_norm).tensors, expected)
    assert route in engine.routes.values()
    mapped = PrivateGradients(model, oracle.squared_loss, kinds={})
    assert_same(mapped.clipped_sum(inputs, targets, clip_norm=clip_norm).tensors, expected)
    assert set(mapped.routes.values()) == {Route.LOOP if route is Route.LOOP else Route.PER_RECORD}


@settings(max_examples=40)
@given(
    batch=st.integers(0, 5),
    channels=st.integers(1, 3),
    outputs=st.integers(1, 3),
    groups=st.integers(1, 2),
    size=st.tuples(st.integers(5, 9), st.integers(5, 9)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
)
def test_convolutions_of_any_shape(batch, channels, outputs, groups, size, kernel, stride, padding, dilation):
    torch.manual_seed(1)
    layer = nn.Conv2d(
        channels * groups, outputs * groups, kernel, stride, padding=padding, dilation=dilation, groups=groups
    )
    inputs, targets = torch.randn(batch, channels * groups, *size), torch.randn(batch)
    found = PrivateGradients(layer, oracle.squared_loss).clipped_sum(inputs, targets, clip_norm=0.7)
    if batch:
        assert_same(found.tensors, oracle.clipped_sum(layer, oracle.squared_loss, inputs, targets, 0.7))
    else:
        assert all(bool((one == 0).all()) for one in found.tensors.values())


def test_a_branch_on_values_is_refused_with_its_place():
    torch.manual_seed(0)
    engine = PrivateGradients(Branching(), oracle.squared_loss)
    with pytest.raises(Refused, match=r"(?s)layer '\(model\)' \(Branching\), line \d+ of .*must not branch on values"):
        engine.clipped_sum(torch.randn(B, 6), torch.randn(B), clip_norm=1.0)


class Flattened(nn.Module):
    """Batch and positions flattened together before the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x.reshape(-1, 3)).view(len(x), -1)


class Tied(nn.Module):
    """A weight used by its layer and again by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)

    def forward(self, x):
        return nn.functional.linear(self.table(x), self.table.weight)


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize(
    ("make", "draw", "per_record"),
    [
        (Positions, lambda b: torch.randint(0, 7, (b, 5)), {"places.weight"}),
        (Positions, lambda b: torch.randint(0, 7, (b, 2)), {"places.weight"}),
        (Flattened, lambda b: torch.randn(b, 4, 3), set()),
        (Tied, lambda b: torch.randint(0, 7, (b,)), {"table.weight"}),
    ],
)
def test_no_axis_is_guessed(make, draw, per_record, batch):
    """Also where the number of positions happens to equal the number of examples."""
    torch.manual_seed(0)
    model, inputs, targets = make(), draw(batch), torch.randn(batch)
    engine = PrivateGradients(model, oracle.squared_loss)
    engine.check(draw(2), torch.randn(2))
    found = engine.clipped_sum(inputs, targets, clip_norm=0.5)
    assert_same(found.tensors, oracle.clipped_sum(model, oracle.squared_loss, inputs, targets, 0.5))
    assert {name for name, route in engine.routes.items() if route is Route.PER_RECORD} == per_record


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(4),
        nn.BatchNorm2d(4),
        nn.SyncBatchNorm(4),
        nn.BatchNorm1d(4, track_running_stats=False).eval(),
        nn.InstanceNorm1d(4, track_running_stats=True),
        nn.Embedding(4, 4, scale_grad_by_freq=True),
        nn.Embedding(4, 4, max_norm=1.0),
    ],
)
def test_layers_that_mix_examples_are_refused(layer):
    with pytest.raises(MixesExamples, match=r"(?s)layer '1'"):
        PrivateGradients(nn.Sequential(nn.Linear(4, 4), layer), oracle.squared_loss)


def test_no_trace_is_left_on_the_model():
    model, inputs, targets, _ = case("conv2d")
    images = torch.randn(B, 4, 3, 4)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    generator = torch.get_rng_state()
    engine = PrivateGradients(model, oracle.squared_loss)
    engine.clipped_sum(inputs, targets, clip_norm=1.0)
    with pytest.raises(InvalidValue, match="one loss per example"):
        PrivateGradients(model, nn.MSELoss()).clipped_sum(inputs, images, clip_norm=1.0)
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())
    assert all(one.grad is None for one in model.parameters())
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    assert torch.equal(generator, torch.get_rng_state())


# Padding is decided where the table is looked up, not by the type of the layer that does.


class Scaled(nn.Embedding):
    """As Gemma and BART have it."""

    def forward(self, x):
        return 3 * super().forward(x)


class LookedUp(nn.Module):
    """By the function, the padding counted from the end."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(7, 4))

    def forward(self, x):
        return nn.functional.embedding(x, self.table, padding_idx=-7)


class Pooled(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table, self.head = table, nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.table(x).mean(1))


class Ragged(nn.Module):
    """As many bags as records, whatever they hold: one of them has all that the others lost."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 3, mode="sum")

    def forward(self, x):
        return self.bag(x.flatten(), torch.arange(len(x)))


@pytest.mark.parametrize("table", [Scaled(7, 4, padding_idx=0), LookedUp()], ids=["subclass", "function"])
def test_the_padding_row_is_not_trained_whoever_looks_it_up(table):
    model = Pooled(table)
    codes, targets = torch.randint(1, 7, (6, 5)), torch.randint(0, 3, (6,))
    codes[:, 3:] = 0
    engine = PrivateGradients(model, oracle.cross_entropy)
    engine.check(torch.randint(0, 7, (8, 5)), torch.randint(0, 3, (8,)))
    found = engine.clipped_sum(codes, targets, clip_norm=0.1).tensors
    assert_same(found, oracle.clipped_sum(model, oracle.cross_entropy, codes, targets, 0.1))
    [row] = [one[0] for name, one in found.items() if name.startswith("table")]
    assert not row.any()


def test_a_ragged_bag_is_refused():
    engine = PrivateGradients(Ragged(), oracle.cross_entropy)
    with pytest.raises(MixesExamples):
        engine.check(torch.randint(0, 7, (8, 5)), torch.randint(0, 3, (8,)))
