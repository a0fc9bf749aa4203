"""Recipes of noisy-sgd: none is part of the claim, and all go on from checkpoints to the last bit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dpcore.checks import InvalidValue
from dpcore.gradients import PrivateGradients
from tests.dpcore import gradient_oracle as oracle
from tests.trainables.exam.door import without_chance
from tests.trainables.noisy_sgd_cases import given_noise, planned, tiny
from tests.trainables.recipe_cases import HERE, JITTER, RECIPES
from tests.trainables.recording import gradient_task, memory_run
from trainables.hyperparameters import read
from trainables.system import InputSpec, RunSettings, Split
from trainables.systems.noisy_sgd import NOISY_SGD, RecipeHyperparameters
from trainables.team import RecordGradient
from trainables.training.augmentation import PAD, copied
from trainables.training.made_up import made_up
from trainables.training.optimisers import Optimiser, TorchOptimiser, build_of, scheduled, steadily
from trainables.training.private_sgd import LocalSums
from trainables.units import Unit

STEPS = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 64, "epochs": 1}
EACH = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def params(**given: Any) -> RecipeHyperparameters:
    return read(RecipeHyperparameters, {**STEPS, "noise_multiplier": 1.0, **given})


def gradients(count: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    shapes = {"weight": (2, 3), "bias": (2,)}
    return [{k: torch.randn(shape, generator=generator) for k, shape in shapes.items()} for _ in range(count)]


def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def test_plain_descent_moves_as_torch_does() -> None:
    ours, theirs = layer(), layer()
    plain, published = Optimiser(ours, steadily(0.3)), TorchOptimiser(theirs, steadily(0.3), build_of(params()))
    for number, gradient in enumerate(gradients(5)):
        plain.update(gradient, number)
        published.update(gradient, number)
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))


def test_the_mean_of_the_weights_is_what_is_released() -> None:
    model, rate_of = layer(), steadily(0.1)
    start = model.weight.detach().clone()
    optimiser = TorchOptimiser(model, rate_of, build_of(params(optimizer="sgd")), ema=0.5)
    mean, theta = start.clone(), start.clone()
    for t, gradient in enumerate(gradients(20)):
        optimiser.update(gradient, t)
        theta = theta - 0.1 * gradient["weight"]
        decay = min(0.5, (1 + t) / (10 + t))
        mean = decay * mean + (1 - decay) * theta
    state = optimiser.state()
    np.testing.assert_allclose(state["parameter.weight"], mean, rtol=1e-5)
    np.testing.assert_allclose(state["moving.weight"], theta, rtol=1e-5)
    with optimiser.released():
        assert np.array_equal(model.weight.detach().numpy(), state["parameter.weight"])
    assert np.array_equal(model.weight.detach().numpy(), state["moving.weight"])


@EACH
def test_the_claim_is_the_same_with_it(recipe: dict[str, Any]) -> None:
    data = tiny()
    plain = planned(NOISY_SGD, data.facts, clip_norm=0.2 if "augmentation.of" in recipe else 1.0)
    found = planned(NOISY_SGD, data.facts, **recipe)
    # The clip that is automatic has a sensitivity of 1, as a clip norm of 1 has.
    assert (found.guarantee, found.mechanism) == (plain.guarantee, plain.mechanism)
    assert found.config.items() >= recipe.items()


@EACH
def test_a_run_that_was_broken_off_ends_at_the_same_bits(recipe: dict[str, Any]) -> None:
    """Every record in every batch and the same noise at every step: what differs is what was forgotten."""
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 0.2, batch_size=200, epochs=8, **{"model": "linear", **recipe})
    with without_chance():
        ends = []
        for cut in (0, 3):
            start: dict[str, Any] = {}
            if cut:
                start = {"from_step": cut, "state": fitted_securely(plan, data, to_step=cut).final[1], "attempt": 2}
            ends.append(fitted_securely(plan, data, **start).final)
    (_, whole, told), (_, resumed, again) = ends
    assert whole.keys() == resumed.keys()
    assert all(np.array_equal(whole[name], resumed[name]) for name in whole)
    assert told == again


def fitted_securely(plan: Any, data: Any, **run: Any) -> Any:
    one = memory_run(plan, **run)
    NOISY_SGD.fit([one], data, RunSettings(noise_source="secure"))
    return one


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"optimizer": f"{HERE}:no_optimizer"}, "moves weights by gradients alone: it raised AttributeError"),
        ({"optimizer": f"{HERE}:forgetful"}, "broken off and restored it moves elsewhere"),
        ({"optimizer": f"{HERE}:adagrad", "weight_decay": 0.1}, "unexpected keyword argument 'weight_decay'"),
        ({"augmentation.of": "flip"}, "expected images to augment: no input has a shape of"),
        ({"augmentation.of": f"{HERE}:longer"}, r"It returned \[\(torch.Size\(\[6\]\)"),
        ({"augmentation.of": f"{HERE}:of_the_world"}, "draws from the generator that it is given alone"),
    ],
)
def test_what_a_run_could_not_do_is_refused_before_it(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        planned(NOISY_SGD, tiny().facts, **given)


# Augmentations, before the clip.


def sums(data: Any, gradient: RecordGradient, model: nn.Module, clip_norm: float = 0.3) -> dict[str, torch.Tensor]:
    """The sum of a batch that everybody is in."""
    task = gradient_task(clip_norm=clip_norm, from_step=7, gradient=gradient)
    return dict(LocalSums(task, model, data, torch.device("cpu")).next().tensors)


AUGMENTED = RecordGradient(copies=3, augmentation=JITTER, seed=b"a" * 32)


def test_a_record_moves_the_sum_by_the_clipped_mean_over_its_copies() -> None:
    data, model = tiny(12), layer()
    copies = copied(AUGMENTED, {"x": torch.from_numpy(data.train.inputs["x"])}, data.facts.features, 7)["x"]
    assert len(copies.unique(dim=0)) == 36
    rows = PrivateGradients(model, oracle.cross_entropy).record_gradients(
        copies, torch.from_numpy(data.train.targets).repeat_interleave(3)
    )
    means = rows.view(12, 3, -1).mean(1)
    clipped = means * (0.3 / means.norm(dim=1, keepdim=True)).clamp(max=1.0)
    found = sums(data, AUGMENTED, model)
    torch.testing.assert_close(
        torch.cat([one.flatten() for one in found.values()]), clipped.sum(0), rtol=1e-4, atol=1e-5
    )
    # Without the first record: the copies of the others are what they were, whatever place they have.
    others = Split(inputs={"x": data.train.inputs["x"][1:]}, targets=data.train.targets[1:])
    without = sums(replace(data, train=others), AUGMENTED, model)
    moved = torch.cat([(found[name] - one).flatten() for name, one in without.items()])
    torch.testing.assert_close(moved, clipped[0], rtol=1e-3, atol=1e-5)


def test_the_copies_of_all_records_of_a_unit_are_its_rows() -> None:
    facts = replace(tiny().facts, n=4, unit=Unit(column="person", max_records=2))
    data, model = made_up(facts, 4, 0), layer()
    assert data.units is not None
    owners = np.repeat(np.arange(4), np.diff(data.units.offsets))
    inputs = torch.from_numpy(data.train.inputs["x"].copy())
    copies = copied(AUGMENTED, {"x": inputs}, facts.features, 7)["x"]
    rows = PrivateGradients(model, oracle.cross_entropy).record_gradients(
        copies, torch.from_numpy(data.train.targets).repeat_interleave(3)
    )
    means = rows.view(len(inputs), 3, -1).mean(1)
    units = torch.stack([means[torch.from_numpy(owners == one)].sum(0) for one in range(4)])
    for automatic, factors in (
        (False, (0.3 / units.norm(dim=1)).clamp(max=1.0)),
        (True, 0.3 / (units.norm(dim=1) + 0.01)),
    ):
        found = sums(data, replace(AUGMENTED, automatic=automatic), model)
        expected = (units * factors[:, None]).sum(0)
        torch.testing.assert_close(torch.cat([one.flatten() for one in found.values()]), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 5), (2, 6, 5)])
def test_images_are_flipped_and_moved(shape: tuple[int, ...]) -> None:
    image = torch.arange(1.0, math.prod(shape) + 1).view(1, *shape).repeat(4, *[1] * len(shape))
    image[1:] += torch.arange(1, 4).view(-1, *[1] * len(shape)) / 10
    features = {"image": InputSpec(shape=shape), "code": InputSpec(shape=(), cardinality=9)}
    inputs = {"image": image, "code": torch.arange(4)}

    def made(of: str, step: int) -> dict[str, torch.Tensor]:
        return copied(RecordGradient(augmentation=of, copies=16, seed=b"a" * 32), inputs, features, step)

    height, width = shape[-2:]
    wide, offsets = nn.functional.pad(image, (PAD,) * 4), range(2 * PAD + 1)
    allowed = {
        "flip": [image, image.flip(-1)],
        "crop": [wide[..., i : i + height, j : j + width] for i in offsets for j in offsets],
    }
    for of, most in (("flip", 2), ("crop", 26)):
        found = made(of, 0)
        assert torch.equal(found["code"], torch.arange(4).repeat_interleave(16))
        seen = {
            next(number for number, each in enumerate(allowed[of]) if torch.equal(each[place // 16], one))
            for place, one in enumerate(found["image"])
        }
        assert len(seen) >= most
        assert not torch.equal(made(of, 1)["image"], found["image"])
    empty = {name: one[:0] for name, one in inputs.items()}
    for of in ("flip", "crop"):
        none = copied(RecordGradient(augmentation=of, copies=16, seed=b"a" * 32), empty, features, 0)
        assert none["image"].shape == (0, *shape)


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
