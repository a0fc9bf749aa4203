"""Records kept apart: what proves it, the look at made-up records, and what is refused."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, rnn
from torch.utils.checkpoint import checkpoint

from dpcore.gradients import MixesExamples, PrivateGradients, Refused, Route, chain, engine, isolated, isolation
from dpcore.gradients.chain import PROVED_LAYERS, PROVED_LOSSES, cross_entropy, loss_proves_isolation, squared_error
from dpcore.gradients.layers.linear import linear
from dpcore.gradients.layers.protocol import Kind
from dpcore.gradients.precision import all_digits
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.gradient_oracle import Centred, Positions
from tests.dpcore.zoo.case import Written, lin, zero_head

torch.set_num_threads(1)
B, C = 5, 0.1


def look(model, inputs, loss=oracle.squared_loss, **given):
    found = PrivateGradients(model, loss, **given)
    found.check(inputs, torch.randn(len(inputs)))
    return found


MIXING = [
    Centred(True),
    Centred(False),
    # No loss moves with the others of a batch, and every gradient does.
    Written(lambda m, x: m.head(x - x.mean(0)), head=zero_head(3, 2)),
    Written(lambda m, x: m.layer(x - x.mean(0) if len(x) > 2 else x), layer=lin(3, 2)),
]


@pytest.mark.parametrize("model", MIXING)
def test_a_model_that_takes_something_of_its_batch_is_refused_with_a_sentence(model):
    with pytest.raises(MixesExamples, match="together than alone"):
        look(model, torch.randn(8, 3))


def test_no_private_record_is_looked_at(monkeypatch):
    """A refusal would depend on it: a step does what it does alike whatever the records are."""
    monkeypatch.setattr(engine, "isolation_check", None)
    PrivateGradients(Centred(True), oracle.squared_loss).clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)


def partly() -> nn.Module:
    """One of its layers is reached by no gradient."""
    return Written(lambda m, x: m.used(x) + m.idle(x).detach(), used=lin(3, 2), idle=lin(3, 2))


def masked(mask) -> nn.Module:
    """Draws at random by `mask`."""
    return Written(lambda m, x: m.layer(x * mask(x)), layer=lin(6, 4))


def halved(layer, uses):
    found = linear(layer, uses)
    found._gradients_UO = found._gradients_UO / 2
    return found


def shifted(layer, uses):
    found = linear(layer, uses)
    found._gradients_UO = found._gradients_UO.roll(1, 0)
    return found


def short(layer, uses):
    found = linear(layer, uses)
    found.squared_norms = found.squared_norms / 4
    return found


@pytest.mark.parametrize("overflows", [False, True])
@pytest.mark.parametrize("wrong", [halved, shifted, short])
def test_a_wrong_rule_is_found(wrong, overflows):
    inputs = torch.randn(B, 20)
    if overflows:
        inputs[0] = 1e19
    with pytest.raises(Refused, match="by autograd"):
        look(nn.Linear(20, 3), inputs, kinds={nn.Linear: Kind(wrong)})


# What is told of a model.


def test_parameters_that_no_record_reaches_are_named():
    with pytest.warns(UserWarning, match=r"depends on idle\.weight, idle\.bias"):
        found = look(partly(), torch.randn(B, 3))
    assert found.unreached == ("idle.weight", "idle.bias")
    assert found.routes["used.weight"] is Route.ONE_PASS


def test_routes_and_loops_are_those_of_the_pass():
    assert set(PrivateGradients(Positions(), oracle.squared_loss).routes.values()) == {Route.ONE_PASS}
    found = look(Positions(), torch.randint(0, 7, (B, 4)))
    assert found.routes == {"words.weight": Route.ONE_PASS, "places.weight": Route.PER_RECORD}
    recurrent = Written(lambda m, x: m.cell(x)[0][:, -1], cell=nn.LSTM(6, 4, batch_first=True, proj_size=2))
    found = look(recurrent, torch.randn(B, 4, 6))
    assert found.looped == ("layer 'cell' (LSTM)",)
    assert set(found.routes.values()) == {Route.LOOP}


# What a model draws.

DRAWING = {
    "a row of layers": lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 2)),
    "code of one's own": lambda: masked(torch.rand_like),
}


def summed(found, inputs, targets):
    """The sum where somebody seeded torch's generator, as at the head of a file."""
    torch.manual_seed(0)
    tensors = found.clipped_sum(inputs, targets, clip_norm=C).tensors
    return torch.cat([one.flatten() for one in tensors.values()])


@pytest.mark.parametrize("name", DRAWING)
def test_a_public_seed_decides_no_mask(name):
    model, inputs, targets = DRAWING[name](), torch.randn(B, 6), torch.randn(B)
    found = look(model, inputs)
    assert model.training
    assert not torch.equal(summed(found, inputs, targets), summed(found, inputs, targets))
    torch.manual_seed(0)
    drawn = torch.get_rng_state()
    found.clipped_sum(inputs, targets, clip_norm=C)
    assert torch.equal(torch.get_rng_state(), drawn)
    asked = isolated(model)
    assert not torch.equal(asked(inputs), asked(inputs))


@pytest.mark.parametrize("name", DRAWING)
def test_with_a_known_seed_one_record_would_move_all_that_come_after_it(name, monkeypatch):
    """The mutant: a stream that begins with a seed that everybody knows. Then masks are the example's own, by its
    place: the same for the same batch."""
    monkeypatch.setattr(isolation.secrets, "token_bytes", bytes)
    inputs, targets = torch.randn(40, 6), torch.randn(40)
    model = DRAWING[name]()
    whole, again, without = (
        summed(PrivateGradients(model, oracle.squared_loss), inputs[start:], targets[start:]) for start in (0, 0, 1)
    )
    assert torch.equal(whole, again)
    assert (whole - without).norm() > 2 * C


def forked(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.rand_like(x)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (lambda x: torch.rand(x.shape, generator=torch.Generator().manual_seed(0)), "a generator of its own"),
        (forked, "draws from a generator of its own"),
        (lambda x: torch.rand_like(x) if torch.manual_seed(0) else x, "a generator of its own"),
    ],
)
def test_draws_from_a_seed_are_refused(mask, words):
    with pytest.raises(Refused, match=words):
        look(masked(mask), torch.randn(B, 6))


# Losses that need no mapping: each row its own at the shapes where they are taken as they are, mapped elsewhere.


def batch(loss, size: int = 6):
    if loss is cross_entropy:
        return torch.randn(size, 4), torch.randint(0, 4, (size,))
    return torch.randn(size, 1), torch.randn(size)


@pytest.mark.parametrize("loss", PROVED_LOSSES)
def test_a_row_depends_on_itself_alone(loss):
    outputs, targets = batch(loss)
    assert loss_proves_isolation(loss, outputs, (targets,))
    alone = torch.cat([loss(outputs[b : b + 1], targets[b : b + 1]) for b in range(len(targets))])
    torch.testing.assert_close(loss(outputs, targets), alone)


@pytest.mark.parametrize(
    ("loss", "outputs", "targets"),
    [
        (squared_error, (6, 6), (6,)),  # every record against every other
        (squared_error, (6, 1), (6, 1)),
        (cross_entropy, (6, 4), (6, 4)),  # shares of classes
        (cross_entropy, (6,), (6,)),
        (oracle.cross_entropy, (6, 4), (6,)),  # the same code, not the same function
    ],
)
def test_other_shapes_and_other_functions_are_mapped(loss, outputs, targets):
    answers = torch.zeros(targets, dtype=torch.int64 if loss is cross_entropy and len(targets) == 1 else torch.float32)
    assert not loss_proves_isolation(loss, torch.zeros(outputs), (answers,))


# What cannot be seen through is refused at once.


def complex_bias(model):
    model.shift = nn.Parameter(torch.zeros(2, dtype=torch.complex64))


REFUSED = {
    "is complex": complex_bias,
    "has a gradient hook": lambda model: model.used.weight.register_hook(lambda g: g),
    "has a backward hook": lambda model: model.used.register_full_backward_hook(lambda *_: None),
    "is a Wrapped": lambda model: setattr(model.used, "weight", type("Wrapped", (nn.Parameter,), {})(torch.ones(2, 3))),
    "has no shape yet": lambda model: setattr(model, "used", nn.LazyLinear(2)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_seen_through_is_refused_at_once(words):
    model = partly()
    REFUSED[words](model)
    with pytest.raises(Refused, match=words):
        PrivateGradients(model, oracle.squared_loss)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(3, 2, batch_first=True)

    def forward(self, x):
        lengths = x[:, :, 0].ge(0).sum(1).clamp(min=1)
        return self.cell(rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[1][0][0]


def counting(m, x):
    m.calls += 1
    return m.layer(x)


def changes_what_was_read(m, x):
    def block(x):
        kept = x * 1.0
        out = m.layer(kept)
        kept += out
        return kept

    return checkpoint(block, x, use_reentrant=False)


NOT_COMPUTED = {
    "its input was changed in place after the call": lambda: Written(changes_what_was_read, layer=lin(3, 3)),
    "the padded sequence, and take each record": Packed,
    "weight_norm, which keeps nothing": lambda: nn.Sequential(parametrizations.spectral_norm(lin(3, 2))),
    "changes 'calls' while it computes": lambda: Written(counting, layer=lin(3, 2), calls=torch.zeros(())),
    "choose by torch.where": lambda: Written(lambda m, x: m.layer(x) if x.sum() > 0 else x, layer=lin(3, 2)),
    "Keep it a tensor": lambda: Written(lambda m, x: m.layer(x) * x.sum().item(), layer=lin(3, 2)),
    "Keep the shape": lambda: Written(lambda m, x: m.layer(x) + x[x > 0].sum(), layer=lin(3, 2)),
    "Use use_reentrant=False": lambda: Written(
        lambda m, x: checkpoint(m.layer, x, use_reentrant=True), layer=lin(3, 2)
    ),
}


@pytest.mark.parametrize("words", NOT_COMPUTED)
def test_what_cannot_be_computed_for_each_record_is_said_with_a_remedy(words):
    shape = (B, 4, 3) if NOT_COMPUTED[words] is Packed else (B, 3)
    with pytest.raises(Refused, match=re.escape(words)):
        look(NOT_COMPUTED[words](), torch.randn(*shape))


# What structure proves: no row of the output but the first moves with the first row of the input.

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
    (nn.Threshold(0.1, 0.0), (4,)),
]
for axes in (1, 2, 3):
    convolution, *pools = (getattr(nn, f"{kind}{axes}d") for kind in ("Conv", "AvgPool", "AdaptiveAvgPool", "MaxPool"))
    LAYERS += [(convolution(2, 3, 2), (2, *[4] * axes)), *((kind(2), (2, *[4] * axes)) for kind in pools)]
    LAYERS.append((getattr(nn, f"Dropout{axes}d")(0.5), (4, *[3] * axes)))
ELEMENTWISE = {kind for kind, rule in PROVED_LAYERS.items() if rule is PROVED_LAYERS[nn.ReLU]} - {nn.Threshold}
LAYERS += [(kind(), (2, 4)) for kind in sorted(ELEMENTWISE, key=lambda kind: kind.__name__)]


def test_every_proved_layer_is_held_to_it():
    assert {type(layer) for layer, _ in LAYERS} - {nn.Sequential} == set(PROVED_LAYERS)


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
    oracle.assert_same(found, oracle.clipped_sum(model, oracle.squared_loss, inputs, targets, 0.5))


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
    oracle.assert_same(found, expected)


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


def test_a_seed_that_is_set_only_where_records_are_private_is_refused():
    model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 1))

    def loss(outputs, targets):
        torch.manual_seed(0)
        return oracle.squared_loss(outputs, targets)

    with pytest.raises(Refused, match="sets the seed"):
        PrivateGradients(model, loss).clipped_sum(torch.randn(5, 6), torch.randn(5), clip_norm=1.0)


def test_what_one_record_alone_leaves_in_a_model_that_is_judged_is_refused():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen.add_(x.sum().detach())
            return x

    with pytest.raises(Refused, match="changes 'seen' while it computes"):
        isolated(Counting())(torch.ones(1, 3))
