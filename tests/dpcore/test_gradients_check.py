"""The look at made-up records, and what is never drawn from a seed that somebody set."""

import pytest
import torch
from torch import nn

from dpcore.gradients import MixesExamples, PrivateGradients, Refused, Route, engine, isolated, isolation
from dpcore.gradients.chain import PROVED_LOSSES, cross_entropy, loss_proves_isolation, squared_error
from dpcore.gradients.layers import Kind
from dpcore.gradients.layers.linear import linear
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.gradient_models import Centred, Masked, Partly, Positions, Recurrent

torch.set_num_threads(1)
B, C = 5, 0.1


def look(model, inputs, loss=oracle.squared_loss, **given):
    found = PrivateGradients(model, loss, **given)
    found.check(inputs, torch.randn(len(inputs)))
    return found


class ZeroHead(nn.Module):
    """No loss moves with the others of a batch, and every gradient does."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        return self.head(x - x.mean(0))


class BeyondTwo(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0) if len(x) > 2 else x)


@pytest.mark.parametrize("model", [Centred(True), Centred(False), ZeroHead(), BeyondTwo(3, 2)])
def test_a_model_that_takes_something_of_its_batch_is_refused_with_a_sentence(model):
    with pytest.raises(MixesExamples, match="together than alone"):
        look(model, torch.randn(8, 3))


def test_no_private_record_is_looked_at(monkeypatch):
    """A refusal would depend on it: a step does what it does alike whatever the records are."""
    monkeypatch.setattr(engine, "isolation_check", None)
    PrivateGradients(Centred(True), oracle.squared_loss).clipped_sum(torch.randn(B, 3), torch.randn(B), clip_norm=1.0)


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
        found = look(Partly(), torch.randn(B, 3))
    assert found.unreached == ("idle.weight", "idle.bias")
    assert found.routes["used.weight"] is Route.ONE_PASS


def test_routes_and_loops_are_those_of_the_pass():
    assert set(PrivateGradients(Positions(), oracle.squared_loss).routes.values()) == {Route.ONE_PASS}
    found = look(Positions(), torch.randint(0, 7, (B, 4)))
    assert found.routes == {"words.weight": Route.ONE_PASS, "places.weight": Route.PER_RECORD}
    found = look(Recurrent(), torch.randn(B, 4, 6))
    assert found.looped == ("layer 'cell' (LSTM)",)
    assert set(found.routes.values()) == {Route.LOOP}


# What a model draws.

DRAWING = {
    "a row of layers": lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 2)),
    "code of one's own": lambda: Masked(torch.rand_like),
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
        look(Masked(mask), torch.randn(B, 6))


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
    model = Partly()
    REFUSED[words](model)
    with pytest.raises(Refused, match=words):
        PrivateGradients(model, oracle.squared_loss)
