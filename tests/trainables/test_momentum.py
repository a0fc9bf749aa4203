"""Momentum of noisy-sgd: torch's rule, no part of the claim, restored from checkpoints, and absent unless given."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from sweeps.spec.parse import load_spec
from tests.trainables.noisy_sgd_cases import fitted, given_noise, parameters, planned, tiny
from trainables.systems.noisy_sgd import NOISY_SGD
from trainables.training.optimisers import HeavyBall, scheduled, steadily

SPEC = {
    "name": "one",
    "data": {"source": "digits"},
    "privacy": {"epsilon": 4.0, "delta": 1e-4},
    "objectives": [{"metric": "accuracy"}],
    "search": {"sampler": "random", "trials": 2},
}
STEPS = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 64, "epochs": 1}


def test_it_moves_as_torch_does() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    heavy, published = HeavyBall(ours, steadily(0.3), 0.9), torch.optim.SGD(theirs.parameters(), lr=0.3, momentum=0.9)
    for number in range(5):
        gradient = {name: torch.randn_like(one) for name, one in ours.named_parameters()}
        heavy.update(gradient, number)
        for name, one in theirs.named_parameters():
            one.grad = gradient[name]
        published.step()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_the_claim_is_the_same_with_it() -> None:
    data = tiny()
    plain, heavy = (planned(NOISY_SGD, data.facts, **given) for given in ({}, {"momentum": 0.9}))
    assert (heavy.guarantee, heavy.mechanism) == (plain.guarantee, plain.mechanism)
    assert "momentum" not in plain.config
    assert heavy.config["momentum"] == 0.9


def test_a_run_goes_on_with_the_velocity_that_it_had() -> None:
    data = tiny()
    # Every record in every batch, and noise of a thousandth: what differs is what was remembered.
    plan = given_noise(NOISY_SGD, data.facts, 0.2, batch_size=200, epochs=8, momentum=0.9, model="linear")
    _, whole, _ = fitted(NOISY_SGD, plan, data).final
    step, half, _ = fitted(NOISY_SGD, plan, data, to_step=4).final
    _, resumed, _ = fitted(NOISY_SGD, plan, data, from_step=step, state=half, attempt=2).final
    still = half | {name: np.zeros_like(one) for name, one in half.items() if name.startswith("velocity.")}
    _, forgetful, _ = fitted(NOISY_SGD, plan, data, from_step=step, state=still, attempt=2).final
    near, far = (np.abs(parameters(one) - parameters(whole)).max() for one in (resumed, forgetful))
    assert near < 0.02 < 0.1 < far


def test_a_spec_without_it_has_the_digest_that_it_had() -> None:
    specs = [load_spec({**SPEC, "systems": {"noisy-sgd": {**STEPS, **one}}}) for one in ({}, {"momentum": 0.0})]
    assert specs[0].digest == specs[1].digest
    assert "momentum" not in specs[0].canonical()["systems"]["noisy-sgd"]
    given = load_spec({**SPEC, "systems": {"noisy-sgd": {**STEPS, "momentum": {"uniform": [0, 0.9]}}}})
    assert given.digest != specs[0].digest
    assert load_spec(given.canonical()) == given


@pytest.mark.parametrize(
    ("schedule", "warmup", "sizes"),
    [
        ("constant", 0.0, [2.0] * 8),
        ("linear", 0.0, [2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25]),
        ("linear", 0.5, [0.5, 1.0, 1.5, 2.0, 2.0, 1.5, 1.0, 0.5]),
        ("constant", 0.3, [1.0, *[2.0] * 7]),
        ("cosine", 0.0, [1 + math.cos(math.pi * t / 8) for t in range(8)]),
        ("cosine", 0.25, [1.0, 2.0, *[1 + math.cos(math.pi * t / 6) for t in range(6)]]),
    ],
)
def test_a_schedule_is_its_formula(schedule: str, warmup: float, sizes: list[float]) -> None:
    rate_of = scheduled(2.0, schedule, warmup, 8)
    assert [rate_of(number) for number in range(8)] == pytest.approx(sizes)
