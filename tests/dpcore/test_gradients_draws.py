"""What a model draws follows from no seed that somebody set, and from no record's place in a batch."""

import threading

import pytest
import torch
from torch import nn

from dpcore.gradients import PrivateGradients, Refused, isolated, isolation
from tests.dpcore import gradient_oracle as oracle

torch.set_num_threads(1)
B = 5
C = 0.1


class Masked(nn.Module):
    def __init__(self, mask) -> None:
        super().__init__()
        self.layer, self.mask = nn.Linear(6, 4), mask

    def forward(self, x):
        return self.layer(x * self.mask(x))


MODELS = {
    "a row of layers": lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 2)),
    "code of one's own": lambda: Masked(torch.rand_like),
}


def summed(engine, inputs, targets):
    """The sum where somebody seeded torch's generator, as at the head of a file."""
    torch.manual_seed(0)
    tensors = engine.clipped_sum(inputs, targets, clip_norm=C).tensors
    return torch.cat([one.flatten() for one in tensors.values()])


@pytest.mark.parametrize("name", MODELS)
def test_a_public_seed_decides_no_mask(name):
    engine, inputs, targets = PrivateGradients(MODELS[name](), oracle.squared_loss), torch.randn(B, 6), torch.randn(B)
    before = torch.get_rng_state()
    one, two = (summed(engine, inputs, targets) for _ in range(2))
    assert not torch.equal(one, two)
    torch.manual_seed(0)
    drawn = torch.get_rng_state()
    engine.clipped_sum(inputs, targets, clip_norm=C)
    assert torch.equal(torch.get_rng_state(), drawn)
    torch.set_rng_state(before)


@pytest.mark.parametrize("name", MODELS)
def test_with_a_known_seed_one_record_would_move_all_that_come_after_it(name, monkeypatch):
    """The mutant: a stream that begins anew with a seed that everybody knows."""
    monkeypatch.setattr(isolation.secrets, "token_bytes", bytes)
    inputs, targets = torch.randn(40, 6), torch.randn(40)
    model = MODELS[name]()
    found = []
    for start in (0, 1):
        monkeypatch.setattr(isolation, "_kept", {})
        found.append(summed(PrivateGradients(model, oracle.squared_loss), inputs[start:], targets[start:]))
    whole, without = found
    assert (whole - without).norm() > 2 * C


def forked(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.rand_like(x)


REFUSED = {
    "a generator of its own": lambda x: torch.rand(x.shape, generator=torch.Generator().manual_seed(0)),
    "two copies of a record": forked,
    "sets the seed": lambda x: torch.rand_like(x) if torch.manual_seed(0) else x,
}


@pytest.mark.parametrize("words", REFUSED)
def test_draws_from_a_seed_are_refused(words):
    engine = PrivateGradients(Masked(REFUSED[words]), oracle.squared_loss)
    with pytest.raises(Refused, match=words):
        engine.clipped_sum(torch.randn(B, 6), torch.randn(B), clip_norm=C)


def test_answers_are_drawn_by_no_public_seed_either():
    asked, inputs = isolated(Masked(torch.rand_like)), torch.randn(B, 6)
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        found.append(asked(inputs))
    assert not torch.equal(*found)


def test_blocks_within_each_other_put_the_generator_back_at_the_end():
    cpu, before = torch.device("cpu"), torch.get_rng_state()
    with isolation.secret_draws(cpu):
        with isolation.secret_draws(cpu):
            torch.rand(1)
        assert not torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_that_another_thread_begins_waits_for_its_seed():
    """It set the seed of all threads, and those who computed were refused."""
    cpu, begun = torch.device("cpu"), threading.Event()

    def begin():
        with isolation.seeded_draws(0):
            begun.set()

    other = threading.Thread(target=begin)
    with isolation.secret_draws(cpu):
        other.start()
        assert not begun.wait(0.05)
    other.join()
    assert begun.is_set()
