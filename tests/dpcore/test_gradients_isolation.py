"""Records kept apart by construction: what proves it, what watches over it, and what is refused."""

import pytest
import torch
from torch import nn

from dpcore.gradients import PrivateGradients, Refused, chain, isolated
from dpcore.gradients.precision import all_digits
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.gradient_models import Centred, assert_same

torch.set_num_threads(1)

B = 5

LAYERS = [
    (nn.Sequential(nn.Linear(4, 4), nn.Tanh()), (4,)),
    (nn.Linear(4, 3), (2, 4)),
    (nn.Embedding(7, 3), None),
    (nn.LayerNorm(4), (3, 4)),
    (nn.RMSNorm(4), (4,)),
    (nn.GroupNorm(2, 4), (4, 3)),
    (nn.Flatten(), (2, 3)),
    (nn.Softmax(1), (4,)),
    (nn.LogSoftmax(-1), (2, 4)),
    (nn.Conv1d(2, 3, 2), (2, 5)),
    (nn.Conv2d(2, 3, 2), (2, 4, 4)),
    (nn.Conv3d(2, 3, 2), (2, 3, 3, 3)),
    *((kind(1) if "Adaptive" in kind.__name__ else kind(2), (2, *[4] * axes)) for axes, kinds in {
        1: (nn.AvgPool1d, nn.AdaptiveAvgPool1d, nn.MaxPool1d),
        2: (nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.MaxPool2d),
        3: (nn.AvgPool3d, nn.AdaptiveAvgPool3d, nn.MaxPool3d),
    }.items() for kind in kinds),
    *((kind(0.5), (4, *[3] * axes)) for axes, kind in enumerate((nn.Dropout1d, nn.Dropout2d, nn.Dropout3d), 1)),
    *((kind(0.5), (4,)) for kind in (nn.Dropout, nn.AlphaDropout)),
    (nn.Threshold(0.1, 0.0), (4,)),
    *((kind(), (2, 4)) for kind in (
        nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
        nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Softshrink, nn.Tanhshrink, nn.Hardtanh,
        nn.Hardsigmoid, nn.Hardswish, nn.Hardshrink,
    )),
]  # fmt: skip


def moved_rows(layer: nn.Module, shape) -> set[int]:
    """Rows of the output that move with row 0 of the input; dropout draws the same masks both times."""
    torch.manual_seed(0)
    one = torch.randint(0, 7, (B, 3)) if shape is None else torch.randn(B, *shape)
    other = one.clone()
    other[0] = (one[0] + 1) % 7 if shape is None else one[0] * 50 + 3
    found = []
    for inputs in (one, other):
        torch.manual_seed(1)
        found.append(layer(inputs))
    assert chain.proves_isolation(layer, (one,))
    return {row for row in range(B) if not torch.equal(found[0][row], found[1][row])}


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda one: type(one).__name__)
def test_what_structure_proves_is_so(layer, shape):
    assert moved_rows(layer, shape) <= {0}


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Softmax(0), (4,)),
        (nn.Softmax(-2), (4,)),
        (nn.Softmax(), (4,)),
        (nn.Conv1d(B, 2, 2), (5,)),
        (nn.Dropout2d(0.5), (3, 3)),
        (nn.MaxPool2d(2), (4, 4)),
        (nn.Flatten(0), (4,)),
        (nn.LayerNorm((B, 4)), (4,)),
        (nn.BatchNorm1d(4).eval(), (4,)),
        (nn.Sequential(nn.Linear(4, 4), nn.Softmax(0)), (4,)),
        (nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), (4,)),
        (type("Own", (nn.Linear,), {})(4, 4), (4,)),
    ],
)
def test_what_may_mix_at_this_rank_is_not_proved(layer, shape):
    assert not chain.proves_isolation(layer, (torch.randn(B, *shape),))


def test_a_hook_ends_the_proof():
    layer, inputs = nn.Linear(4, 4), torch.randn(B, 4)
    handle = layer.register_forward_hook(lambda _, __, out: out - out.mean(0))
    assert not chain.proves_isolation(layer, (inputs,))
    handle.remove()
    assert chain.proves_isolation(layer, (inputs,))
    layer.forward = lambda x: x - x.mean(0)
    assert not chain.proves_isolation(layer, (inputs,))


# The loss is mapped too, also where the model needs no mapping.


class Penalised(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.held = (weight,)

    def forward(self, outputs, targets):
        return oracle.squared_loss(outputs, targets) + self.held[0].square().sum()


@pytest.mark.parametrize("model", [nn.Linear(3, 2), Centred(detached=True)])
def test_a_loss_that_holds_on_to_a_parameter_is_refused(model):
    """Its part of the gradient would be missing from every norm."""
    weight = next(model.parameters())
    engine = PrivateGradients(model, Penalised(weight))
    with pytest.raises(Refused, match="a reference of its own"):
        engine.clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)


@pytest.mark.parametrize(
    ("first", "shape"),
    [(nn.Embedding(7, 4), None), (nn.Linear(3, 4), (3,)), (nn.Linear(3, 4), (5, 3)), (nn.LayerNorm(4), (4,))],
)
@pytest.mark.parametrize("between", [nn.Identity(), nn.Flatten()])
def test_operations_in_place_behind_a_layer_change_no_norm(first, shape, between):
    torch.manual_seed(0)
    inputs = torch.randint(0, 7, (B, 2)) if shape is None else torch.randn(B, *shape)
    width = between(first(inputs)).shape[-1]
    model = nn.Sequential(first, between, nn.ELU(inplace=True), nn.Linear(width, 3), nn.ReLU(inplace=True))
    targets = torch.randn(B)
    found = PrivateGradients(model, oracle.squared_loss).clipped_sum(inputs, targets, clip_norm=0.5).tensors
    assert_same(found, oracle.clipped_sum(model, oracle.squared_loss, inputs, targets, 0.5))


# The guard: rules and capture against autograd.


class Doubled(nn.Linear):
    def forward(self, x):
        return super().forward(x.mul_(-2.0))


@pytest.mark.parametrize("make", [lambda: nn.Sequential(nn.ELU(inplace=True), nn.Linear(3, 2)), lambda: Doubled(3, 2)])
def test_a_model_that_works_on_its_inputs_in_place_is_given_each_record_once(make):
    """The look at the first eight records changed them for the step: whose they were moved the sum by more."""
    torch.manual_seed(0)
    model, inputs, targets = make(), torch.randn(20, 3), torch.randn(20)
    expected = oracle.clipped_sum(model, oracle.squared_loss, inputs.clone(), targets, 0.5)
    found = PrivateGradients(model, oracle.squared_loss).clipped_sum(inputs, targets, clip_norm=0.5).tensors
    assert_same(found, expected)


# What is told of a model.


def test_an_autocast_around_the_step_does_not_round_its_sums():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 3))
    engine, inputs, targets = PrivateGradients(model, oracle.squared_loss), 5 * torch.randn(1, 20), torch.randn(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = engine.clipped_sum(inputs, targets, clip_norm=0.01).tensors
    assert {one.dtype for one in found.values()} == {torch.float32}
    assert oracle.norm(found) <= 0.01 * (1 + 1e-6)


def test_of_two_threads_the_last_puts_the_switch_back():
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32"
    try:
        one, other = all_digits(), all_digits()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert products.fp32_precision == "ieee"
        other.__exit__(None, None, None)
        assert products.fp32_precision == "tf32"
    finally:
        products.fp32_precision = before


# Judged apart.


@pytest.mark.parametrize("size", [1, 2, 7])
def test_outputs_are_those_of_each_record_alone(size):
    model, inputs = Centred(detached=True).eval(), torch.randn(size, 3)
    alone = torch.cat([model(inputs[b : b + 1]) for b in range(size)])
    torch.testing.assert_close(isolated(model)(inputs), alone)
    assert size == 1 or not torch.allclose(model(inputs), alone)
