"""Every kind of layer, by its rule and mapped over records, against one example at a time."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpcore.checks import InvalidValue
from dpcore.gradients import MixesExamples, PrivateGradients, Refused, Route, noisy_mean_gradient
from dpcore.noise import SecureNoise
from tests.dpcore import gradient_oracle as oracle

torch.set_num_threads(1)


class Twice(nn.Module):
    """A layer used twice in one pass."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


class TwoTables(nn.Module):
    """Two inputs, one table used for both, as a factorisation of ratings does."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, left, right):
        return self.head(self.table(left) * self.table(right))


class PooledWords(nn.Module):
    def __init__(self, padding_idx=None) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 5, padding_idx=padding_idx)
        self.head = nn.Linear(5, 2)

    def forward(self, codes):
        return self.head(self.table(codes).mean(1))


class OwnParameter(nn.Module):
    """No rule: parameters that belong to the model itself."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(6) + 0.5)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(x * self.scale))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(6, 4, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0][:, -1]


class Branching(nn.Module):
    """Control flow by value: vmap cannot serve it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x):
        return x * self.scale if float(x.detach().sum()) > 0 else -2 * x * self.scale


def frozen(model: nn.Module, *names: str) -> nn.Module:
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


def codes(*shape: int):
    return lambda: torch.randint(0, 7, shape)


def normal(*shape: int):
    return lambda: torch.randn(*shape)


B = 6
# name: (model, inputs, how the gradients must be found)
CASES = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), normal(B, 6), Route.ONE_PASS),
    "linear no bias": (lambda: nn.Linear(6, 5, bias=False), normal(B, 6), Route.ONE_PASS),
    "linear small": (lambda: nn.Linear(3, 2), normal(B, 9, 3), Route.ONE_PASS),
    "linear gram": (lambda: nn.Linear(40, 50), normal(B, 3, 40), Route.ONE_PASS),
    "linear gram no bias": (lambda: nn.Linear(40, 50, bias=False), normal(B, 3, 40), Route.ONE_PASS),
    "linear two axes": (lambda: nn.Linear(4, 3), normal(B, 2, 3, 4), Route.ONE_PASS),
    "linear frozen weight": (lambda: frozen(nn.Linear(6, 5), "weight"), normal(B, 6), Route.ONE_PASS),
    "linear frozen weight, sequence": (lambda: frozen(nn.Linear(6, 5), "weight"), normal(B, 4, 6), Route.ONE_PASS),
    "linear frozen bias": (lambda: frozen(nn.Linear(6, 5), "bias"), normal(B, 6), Route.ONE_PASS),
    "frozen first layer": (
        lambda: frozen(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)), "0.weight", "0.bias"),
        normal(B, 6),
        Route.ONE_PASS,
    ),
    "in-place activation": (
        lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)),
        normal(B, 6),
        Route.ONE_PASS,
    ),
    "linear twice": (lambda: Twice(nn.Linear(6, 6)), normal(B, 6), Route.ONE_PASS),
    "linear twice, wide": (lambda: Twice(nn.Linear(40, 40)), normal(B, 40), Route.ONE_PASS),
    "linear twice, sequence": (lambda: Twice(nn.Linear(5, 5, bias=False)), normal(B, 3, 5), Route.ONE_PASS),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2), normal(B, 4, 17), Route.ONE_PASS),
    "conv1d groups": (lambda: nn.Conv1d(4, 6, 3, groups=2, bias=False), normal(B, 4, 9), Route.ONE_PASS),
    "conv2d": (
        lambda: nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 4, (2, 3), stride=(2, 1))),
        normal(B, 3, 7, 6),
        Route.ONE_PASS,
    ),
    "conv2d dilated groups": (
        lambda: nn.Conv2d(6, 4, 3, stride=2, padding=(2, 1), dilation=(1, 2), groups=2),
        normal(B, 6, 8, 9),
        Route.ONE_PASS,
    ),
    "conv2d depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4), normal(B, 4, 6, 6), Route.ONE_PASS),
    "conv2d same": (lambda: nn.Conv2d(2, 3, (3, 4), padding="same"), normal(B, 2, 6, 5), Route.ONE_PASS),
    "conv2d circular": (
        lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="circular"),
        normal(B, 2, 6, 5),
        Route.ONE_PASS,
    ),
    "conv2d frozen bias": (lambda: frozen(nn.Conv2d(2, 3, 3), "bias"), normal(B, 2, 6, 5), Route.ONE_PASS),
    "conv2d frozen weight": (lambda: frozen(nn.Conv2d(2, 3, 3), "weight"), normal(B, 2, 6, 5), Route.ONE_PASS),
    "conv2d twice": (lambda: Twice(nn.Conv2d(3, 3, 3, padding=1)), normal(B, 3, 5, 5), Route.ONE_PASS),
    "conv2d remainder": (lambda: nn.Conv2d(2, 3, 3, stride=3), normal(B, 2, 8, 7), Route.ONE_PASS),
    "conv2d transposed input": (
        lambda: nn.Conv2d(2, 3, 3),
        lambda: torch.randn(B, 2, 6, 5).transpose(2, 3),
        Route.ONE_PASS,
    ),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, stride=(1, 2, 1)), normal(B, 2, 3, 4, 3), Route.ONE_PASS),
    "embedding": (lambda: nn.Embedding(7, 4), codes(B), Route.ONE_PASS),
    "embedding, repeated words": (PooledWords, codes(B, 12), Route.ONE_PASS),
    "embedding, padding": (lambda: PooledWords(padding_idx=0), codes(B, 12), Route.ONE_PASS),
    "embedding, padding, one word": (lambda: nn.Embedding(7, 4, padding_idx=3), codes(B), Route.ONE_PASS),
    "embedding twice": (TwoTables, lambda: (torch.randint(0, 11, (B,)), torch.randint(0, 11, (B,))), Route.ONE_PASS),
    "layer norm": (lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5)), normal(B, 6), Route.ONE_PASS),
    "layer norm, sequence": (lambda: nn.LayerNorm([3, 5]), normal(B, 2, 3, 5), Route.ONE_PASS),
    "layer norm, no bias": (lambda: nn.LayerNorm(5, bias=False), normal(B, 4, 5), Route.ONE_PASS),
    "layer norm twice": (lambda: Twice(nn.LayerNorm(5)), normal(B, 5), Route.ONE_PASS),
    "rms norm": (lambda: nn.RMSNorm(5), normal(B, 4, 5), Route.ONE_PASS),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)), normal(B, 3, 6, 6), Route.ONE_PASS),
    "group norm, frozen bias": (lambda: frozen(nn.GroupNorm(2, 4), "bias"), normal(B, 4, 3), Route.ONE_PASS),
    "own parameter": (OwnParameter, normal(B, 6), Route.PER_RECORD),
    "recurrent": (Recurrent, normal(B, 3, 6), Route.LOOP),
    "transposed convolution": (lambda: nn.ConvTranspose2d(2, 3, 2), normal(B, 2, 4, 4), Route.PER_RECORD),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), normal(B, 3, 4, 4), Route.PER_RECORD),
    "batch norm, evaluation": (lambda: nn.BatchNorm1d(4).eval(), normal(B, 4), Route.PER_RECORD),
}


def case(name: str):
    torch.manual_seed(len(name))
    make, draw, route = CASES[name]
    model, inputs = make(), draw()
    return model, inputs, torch.randn(B), route


def assert_same(found, expected) -> None:
    """float32 against float32 rows summed in float64: 2e-5 of the largest entry."""
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        torch.testing.assert_close(found[name].double(), one, rtol=2e-5, atol=2e-5 * max(1.0, float(one.abs().max())))


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


def test_one_layer_without_a_rule_leaves_the_others_in_one_pass():
    model, inputs, targets, _ = case("own parameter")
    engine = PrivateGradients(model, oracle.squared_loss)
    engine.clipped_sum(inputs, targets, clip_norm=1.0)
    assert engine.routes == {
        "scale": Route.PER_RECORD,
        "head.weight": Route.ONE_PASS,
        "head.bias": Route.ONE_PASS,
    }


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


@settings(max_examples=40)
@given(
    batch=st.integers(1, 5),
    positions=st.lists(st.integers(1, 4), max_size=2),
    width=st.integers(1, 12),
    outputs=st.integers(1, 12),
    bias=st.booleans(),
)
def test_linear_layers_of_any_shape(batch, positions, width, outputs, bias):
    torch.manual_seed(2)
    layer = nn.Linear(width, outputs, bias=bias)
    inputs, targets = torch.randn(batch, *positions, width), torch.randn(batch)
    found = PrivateGradients(layer, oracle.squared_loss).clipped_sum(inputs, targets, clip_norm=0.7)
    assert_same(found.tensors, oracle.clipped_sum(layer, oracle.squared_loss, inputs, targets, 0.7))


def test_a_branch_on_values_is_refused_with_its_place():
    torch.manual_seed(0)
    engine = PrivateGradients(Branching(), oracle.squared_loss)
    with pytest.raises(Refused, match=r"(?s)layer '\(model\)' \(Branching\), line \d+ of .*must not branch on values"):
        engine.clipped_sum(torch.randn(B, 6), torch.randn(B), clip_norm=1.0)


class Positions(nn.Module):
    """The second table is called with positions, not with a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(7, 4), nn.Embedding(9, 4)

    def forward(self, x):
        return self.words(x) + self.places(torch.arange(x.shape[1]))


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
    found = engine.clipped_sum(inputs, targets, clip_norm=0.5)
    assert_same(found.tensors, oracle.clipped_sum(model, oracle.squared_loss, inputs, targets, 0.5))
    assert {name for name, route in engine.routes.items() if route is Route.PER_RECORD} == per_record


class Centred(nn.Module):
    def __init__(self, detached: bool) -> None:
        super().__init__()
        self.layer, self.detached = nn.Linear(3, 2), detached

    def forward(self, x):
        mean = x.mean(0)
        return self.layer(x - (mean.detach() if self.detached else mean))


@pytest.mark.parametrize("detached", [False, True])
def test_what_a_model_takes_over_its_batch_it_takes_over_one_record(detached):
    model, inputs, targets = Centred(detached), torch.randn(B, 3), torch.randn(B)
    found = PrivateGradients(model, oracle.squared_loss).clipped_sum(inputs, targets, clip_norm=1.0)
    assert_same(found.tensors, oracle.clipped_sum(model, oracle.squared_loss, inputs, targets, 1.0))


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


def test_batch_norm_back_in_training_mode_is_refused():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    engine = PrivateGradients(model, oracle.squared_loss)
    engine.clipped_sum(torch.randn(B, 4), torch.randn(B), clip_norm=1.0)
    model.train()
    with pytest.raises(MixesExamples):
        engine.clipped_sum(torch.randn(B, 4), torch.randn(B), clip_norm=1.0)


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


def test_dropout_is_the_example_s_own():
    """A mask per example: no warning, and the same sum given the same global draw."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 2))
    engine, inputs, targets = PrivateGradients(model, oracle.squared_loss), torch.randn(B, 6), torch.randn(B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.clipped_sum(inputs, targets, clip_norm=1.0)
        torch.manual_seed(3)
        one = engine.clipped_sum(inputs, targets, clip_norm=1.0)
        torch.manual_seed(3)
        two = engine.clipped_sum(inputs, targets, clip_norm=1.0)
    assert set(engine.routes.values()) == {Route.ONE_PASS}
    assert all(torch.equal(one.tensors[name], two.tensors[name]) for name in one.tensors)


def test_bad_values_are_refused():
    model = nn.Linear(3, 2)
    engine = PrivateGradients(model, oracle.squared_loss)
    for clip_norm in (0, -1, float("nan"), "1"):
        with pytest.raises(InvalidValue, match="clip_norm"):
            engine.clipped_sum(torch.randn(2, 3), torch.randn(2), clip_norm=clip_norm)
    unclipped = engine.clipped_sum(torch.randn(2, 3), torch.randn(2), clip_norm=float("inf"))
    with pytest.raises(InvalidValue, match="clip_norm"):
        noisy_mean_gradient(unclipped, noise_multiplier=1.0, expected_batch_size=2.0, noise=SecureNoise())
    with pytest.raises(InvalidValue, match="one row per example"):
        engine.clipped_sum(torch.randn(2, 3), torch.randn(3), clip_norm=1.0)
    with pytest.raises(InvalidValue, match="microbatch_size"):
        engine.clipped_sum(torch.randn(2, 3), torch.randn(2), clip_norm=1.0, microbatch_size=0)
    with pytest.raises(ValueError, match="no trainable parameter"):
        PrivateGradients(frozen(nn.Linear(2, 2), "weight", "bias"), oracle.squared_loss)
