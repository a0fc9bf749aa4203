"""Mechanisms as values: what they count, what they refuse, and that what is written down comes back."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Gaussian, NonPrivate, PoissonSampled, PureDP, Repeated, phases
from dpcore.mechanisms import protocol
from dpcore.mechanisms.average_case import AverageCase
from dpcore.mechanisms.noisy_sum import NoisySum
from dpcore.mechanisms.protocol import Mechanism, Scheduled, unprotected
from dpcore.mechanisms.sampled_gaussian import SampledGaussian, Sequence, part_at
from dpcore.sampling import PoissonSampling

GAUSSIAN = SampledGaussian(
    sampling=PoissonSampling(rate=0.1), clip_norm=0.5, noise_multiplier=1.3, steps=7, expected_batch_size=20
)
VALUES: tuple[Mechanism, ...] = (
    GAUSSIAN,
    Sequence(parts=(GAUSSIAN, replace(GAUSSIAN, noise_multiplier=2.0, steps=4))),
    NoisySum(clip=0.8, noise_multiplier=3.0, steps=5),
    AverageCase(
        sampling=PoissonSampling(rate=0.1), fixed=True, clip_norm=None, deviation=2.0, steps=6, expected_batch_size=20
    ),
    Scheduled(schedule=((PureDP(epsilon=0.1, adjacency=Adjacency.REPLACE_ONE), 3), (NonPrivate(), 2))),
    unprotected(9),
)
EVERY = pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)


@EVERY
def test_a_mechanism_comes_back_from_its_written_form(value: Mechanism) -> None:
    assert isinstance(value, Mechanism)
    assert protocol.from_dict(json.loads(json.dumps(protocol.to_dict(value), allow_nan=False))) == value


@EVERY
def test_ranges_of_steps_add_up_to_the_whole(value: Mechanism) -> None:
    whole = phases(value.event())
    assert sum(whole.values()) == value.steps
    for cut in range(value.steps + 1):
        both = phases(Composed(events=(value.event(0, cut), value.event(cut))))
        assert both == whole
    for wrong in ((-1, None), (3, 2), (0, value.steps + 1)):
        with pytest.raises(InvalidValue, match="to_step"):
            value.event(*wrong)


@pytest.mark.parametrize("value", [-100.0, 0.0, 0.5, 1.0, 100.0, np.inf, -np.inf, np.nan])
def test_one_value_moves_a_noisy_sum_by_no_more_than_its_clip(value: float) -> None:
    """A value below 0 moved it as far as it was long, and one that is no number made it none."""
    released, others = NoisySum(clip=0.8, noise_multiplier=3.0, steps=5), np.full(9, 0.5)
    moved = released.clipped_sum(np.append(others, value)) - released.clipped_sum(others)
    assert 0 <= moved <= released.sensitivity(Adjacency.ADD_REMOVE) + 1e-12


def test_a_sampled_gaussian_counts_what_it_draws() -> None:
    step = PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=1.3))
    assert GAUSSIAN.event() == Repeated(event=step, count=7)
    assert GAUSSIAN.event(2, 5) == Repeated(event=step, count=3)
    assert GAUSSIAN.sensitivity(Adjacency.ADD_REMOVE) == 0.5
    assert GAUSSIAN.sensitivity(Adjacency.REPLACE_ONE) == 1.0
    assert GAUSSIAN.deviation == pytest.approx(0.65)


@pytest.mark.parametrize(
    ("name", "value"),
    [("clip_norm", 0.0), ("clip_norm", float("inf")), ("noise_multiplier", float("nan")), ("steps", -1)],
)
def test_a_sampled_gaussian_is_checked_once(name: str, value: float) -> None:
    with pytest.raises(InvalidValue, match=name):
        replace(GAUSSIAN, **{name: value})


def test_it_noises_no_sum_but_of_its_own_clip_norm() -> None:
    """Mutant: a sum clipped at twice the counted norm would be noised half as much as it needs."""
    import torch

    from dpcore.gradients import ClippedSum
    from dpcore.noise import SecureNoise

    sums = {"w": torch.zeros(3)}
    assert set(GAUSSIAN.noisy_mean(ClippedSum(tensors=sums, clip_norm=0.5), SecureNoise())) == {"w"}
    with pytest.raises(InvalidValue, match=r"counted 0\.5"):
        GAUSSIAN.noisy_mean(ClippedSum(tensors=sums, clip_norm=1.0), SecureNoise())


def test_parts_follow_each_other() -> None:
    later = replace(GAUSSIAN, noise_multiplier=2.0, steps=4)
    whole = Sequence(parts=(GAUSSIAN, later))
    assert [part_at(whole, step).noise_multiplier for step in (0, 6, 7, 10)] == [1.3, 1.3, 2.0, 2.0]
    assert whole.event(8, 10) == later.event(0, 2)
    with pytest.raises(IndexError):
        part_at(whole, 11)
    with pytest.raises(InvalidValue, match="one clip norm"):
        Sequence(parts=(GAUSSIAN, replace(GAUSSIAN, clip_norm=1.0)))


def test_kinds_are_told_apart() -> None:
    with pytest.raises(ValueError, match="taken"):
        protocol.mechanism("gaussian")(type("Mine", (), {}))
    with pytest.raises(InvalidValue, match="kind"):
        protocol.from_dict({"kind": "unheard-of"})
    with pytest.raises(InvalidValue, match="mechanism"):
        protocol.from_dict({"kind": "pure-dp", "epsilon": 1.0})
    with pytest.raises(ValueError, match="sampled-gaussian"):
        protocol.from_dict({"kind": "sampled-gaussian", "steps": 3})
