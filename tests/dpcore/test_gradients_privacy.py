"""What the proof needs: bounded influence of one example, noise of the right size, nothing else that shows."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from dpcore.checks import InvalidValue
from dpcore.gradients import ClippedSum, PrivateGradients, Refused, noisy_mean_gradient
from dpcore.gradients import engine as engine_module
from dpcore.gradients.layers import KINDS
from dpcore.gradients.layers.protocol import Materialised
from dpcore.gradients.units import UnitRows, clip_factors
from dpcore.noise import SecureNoise
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.oracles import noise
from tests.dpcore.zoo.layers import CASES

torch.set_num_threads(1)
ROUTES = [KINDS, {}]
ROUTE_NAMES = ["one pass", "per record"]
CLIP = 0.8
# float32 rounding of a sum of at most 20 rows of norm CLIP.
ROUNDING = 1e-5


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.GroupNorm(3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 6), nn.Tanh(), nn.Linear(6, 4)
    )


def examples(batch: int, scale: float = 1.0, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    return (
        scale * torch.randn(batch, 1, 6, 6, generator=generator),
        torch.randint(0, 4, (batch,), generator=generator),
    )


def influence(engine: PrivateGradients, inputs, targets, clip_norm: float = CLIP) -> float:
    """How far the last example moves the sum."""
    whole = engine.clipped_sum(inputs, targets, clip_norm=clip_norm).tensors
    without = engine.clipped_sum(inputs[:-1], targets[:-1], clip_norm=clip_norm).tensors
    return oracle.norm({name: one - without[name] for name, one in whole.items()})


@pytest.mark.parametrize("kinds", ROUTES, ids=ROUTE_NAMES)
@settings(max_examples=20)
@given(batch=st.integers(1, 6), scale=st.sampled_from([1e-12, 1e-3, 1.0, 1e2, 1e6, 1e18]), seed=st.integers(0, 999))
def test_one_more_example_moves_the_sum_by_at_most_the_clip_norm(kinds, batch, scale, seed):
    inputs, targets = examples(batch, 1.0, seed)
    inputs[-1] *= scale
    engine = PrivateGradients(network(), oracle.cross_entropy, kinds=kinds)
    assert influence(engine, inputs, targets) <= CLIP * (1 + ROUNDING)


@pytest.mark.parametrize("kinds", ROUTES, ids=ROUTE_NAMES)
@settings(max_examples=25)
@given(scale=st.sampled_from([0.0, 1e-30, 1e-18, 1e-6, 1.0, 1e3, 1e6, 1e12, 1e17]), seed=st.integers(0, 999))
def test_a_clip_that_is_automatic_leaves_less_than_the_clip_norm_of_every_gradient(kinds, scale, seed):
    """C x / (x + 0.01) of a norm x, in float32: below C strictly, huge, tiny or zero (Bu et al. 2023, AUTO-S)."""
    model, (inputs, targets) = network(), examples(1, 1.0, seed)

    def loss(outputs, targets):
        return scale * oracle.cross_entropy(outputs, targets)

    tensors = PrivateGradients(model, loss, kinds=kinds, automatic=True).clipped_sum(inputs, targets, clip_norm=CLIP)
    left, before = (
        oracle.norm(tensors.tensors),
        oracle.norm({k: one[0] for k, one in oracle.rows(model, loss, inputs, targets).items()}),
    )
    assert left < CLIP
    assert tensors.clip_norm == CLIP
    assert left == pytest.approx(CLIP * before / (before + 0.01), rel=1e-4, abs=1e-30)


def linear_with(inputs_scale: float, gradient_scale: float):
    torch.manual_seed(0)
    model = nn.Linear(784, 10, bias=False)
    inputs = torch.full((1, 784), inputs_scale)
    return PrivateGradients(model, lambda out, _: (out * gradient_scale).sum(1)), inputs, torch.zeros(1)


@pytest.mark.parametrize(("inputs_scale", "gradient_scale"), [(1e-23, 1e18), (1e-30, 1e18), (1e15, 1e-20), (1e-20, 1)])
def test_squares_that_vanish_in_float32_do_not_loosen_the_bound(inputs_scale, gradient_scale):
    engine, inputs, targets = linear_with(inputs_scale, gradient_scale)
    clip_norm = 1e-5
    assert influence(engine, inputs, targets, clip_norm) <= clip_norm * (1 + ROUNDING)


def test_cancelling_positions_do_not_loosen_the_bound():
    """Two positions of opposite sign, 1e4 times their sum: float32 Gram matrices would lose the difference."""
    torch.manual_seed(0)
    model = nn.Linear(60, 50, bias=False)
    row = 100 * torch.randn(60)
    inputs = torch.stack([row, row * (1 + 1e-4)])[None]
    sign = torch.tensor([1.0, -1.0])[None, :, None]
    engine = PrivateGradients(model, lambda out, _: (out * sign).sum((1, 2)))
    moved = influence(engine, inputs, torch.zeros(1), 0.1)
    assert moved <= 0.1 * (1 + ROUNDING)
    assert moved >= 0.1 * (1 - 1e-2)


# The known mistakes, each of which the sensitivity test must see.


def divides_by_the_factor(squared_norms_B, clip_norm):
    return 1.0 / clip_factors(squared_norms_B, clip_norm).clamp(min=1e-30)


def divides_by_norm_over_clip_without_minimum(squared_norms_B, clip_norm):
    return (squared_norms_B.sqrt() / clip_norm).clamp(max=1.0)


def clips_the_batch_mean(squared_norms_B, clip_norm):
    return torch.full_like(squared_norms_B, float(clip_factors(squared_norms_B.mean()[None], clip_norm)))


def forgets_to_clip(squared_norms_B, clip_norm):
    return torch.ones_like(squared_norms_B)


def largest_influence(kinds) -> float:
    found = []
    for scale in (0.1, 1.0, 30.0):
        for seed in range(4):
            inputs, targets = examples(5, 1.0, seed)
            inputs[-1] *= scale
            engine = PrivateGradients(network(), oracle.cross_entropy, kinds=kinds)
            found.append(influence(engine, inputs, targets))
    return max(found)


@pytest.mark.parametrize("kinds", ROUTES, ids=ROUTE_NAMES)
@pytest.mark.parametrize(
    "mutant",
    [divides_by_the_factor, divides_by_norm_over_clip_without_minimum, clips_the_batch_mean, forgets_to_clip],
)
def test_wrong_factors_are_caught(monkeypatch, mutant, kinds):
    monkeypatch.setattr(engine_module, "clip_factors", mutant)
    assert largest_influence(kinds) > CLIP * (1 + ROUNDING)


def test_clipping_each_parameter_separately_is_caught(monkeypatch):
    """sqrt(number of parameters) times the sensitivity."""

    def per_layer(self, weights_B):
        out = {}
        for name, one in self._gradients.items():
            factors = clip_factors(one.flatten(1).double().square().sum(1), CLIP)
            out[name] = torch.einsum("b,b...->...", factors.to(one.dtype), one)
        return out

    monkeypatch.setattr(Materialised, "weighted_sum", per_layer)
    with pytest.raises(Refused, match=r"add up to|by autograd"):
        PrivateGradients(network(), oracle.cross_entropy, kinds={}).check(*examples(5))
    assert largest_influence({}) > CLIP * (1 + ROUNDING)


# Records that are not finite.


def weighted_loss(outputs, targets):
    """Cross-entropy times a weight that travels with the record, so that a loss can be made infinite or NaN."""
    labels, weights = targets
    return oracle.cross_entropy(outputs, labels) * weights


@pytest.mark.parametrize("kinds", ROUTES, ids=ROUTE_NAMES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e30])
@pytest.mark.parametrize("where", ["input", "loss"])
def test_a_record_that_is_not_finite_counts_as_zero_and_leaves_the_others_alone(kinds, bad, where):
    inputs, labels = examples(6)
    weights = torch.ones(6)
    engine = PrivateGradients(network(), weighted_loss, kinds=kinds)
    expected = engine.clipped_sum(inputs[1:], (labels[1:], weights[1:]), clip_norm=CLIP).tensors
    if where == "input":
        inputs[0] = bad
    else:
        weights[0] = bad
    found = engine.clipped_sum(inputs, (labels, weights), clip_norm=CLIP).tensors
    if bad == 1e30:
        # Finite: clipped or, where its square overflows, left out; never more than the clip norm.
        assert oracle.norm({k: v - expected[k] for k, v in found.items()}) <= CLIP * (1 + ROUNDING)
        return
    for name, one in expected.items():
        torch.testing.assert_close(found[name], one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kinds", ROUTES, ids=ROUTE_NAMES)
def test_a_batch_of_nothing_but_broken_records_and_an_empty_batch_are_zero(kinds):
    inputs, targets = examples(3)
    engine = PrivateGradients(network(), oracle.cross_entropy, kinds=kinds)
    for found in (
        engine.clipped_sum(inputs * float("nan"), targets, clip_norm=CLIP),
        engine.clipped_sum(inputs[:0], targets[:0], clip_norm=CLIP),
    ):
        shapes = {name: one.shape for name, one in network().named_parameters()}
        assert {name: one.shape for name, one in found.tensors.items()} == shapes
        assert oracle.norm(found.tensors) == 0.0


@pytest.mark.parametrize("kinds", ROUTES, ids=ROUTE_NAMES)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100])
def test_microbatches_change_nothing(kinds, size):
    inputs, targets = examples(7)
    engine = PrivateGradients(network(), oracle.cross_entropy, kinds=kinds)
    whole = engine.clipped_sum(inputs, targets, clip_norm=CLIP).tensors
    parts = engine.clipped_sum(inputs, targets, clip_norm=CLIP, microbatch_size=size).tensors
    for name, one in whole.items():
        torch.testing.assert_close(parts[name], one, rtol=1e-5, atol=1e-6)


# The noisy mean.


@pytest.mark.parametrize("source", [noise("gradients-test"), SecureNoise()], ids=lambda one: one.name)
def test_every_coordinate_gets_noise_of_sigma_times_clip_over_the_public_batch_size(source):
    """Chi-square of each coordinate and correlation of pairs over 2000 draws; fails by chance below 1e-9."""
    multiplier, clip_norm, expected, draws = 1.3, 0.7, 25.6, 2000
    total = ClippedSum(tensors={"a": torch.full((2, 3), 5.0), "b": torch.tensor(-2.0)}, clip_norm=clip_norm)
    rows = []
    for _ in range(draws):
        mean = noisy_mean_gradient(total, noise_multiplier=multiplier, expected_batch_size=expected, noise=source)
        assert {k: v.shape for k, v in mean.items()} == {"a": (2, 3), "b": ()}
        rows.append(torch.cat([mean["a"].flatten(), mean["b"].view(1)]).double().numpy())
    centre = np.array([5.0] * 6 + [-2.0]) / expected
    z = (np.array(rows) - centre) / (multiplier * clip_norm / expected)
    alarm = 1e-9 / 40
    for coordinate in z.T:
        square = (coordinate**2).sum()
        assert alarm < stats.chi2.cdf(square, draws) < 1 - alarm
        assert abs(coordinate.mean()) * np.sqrt(draws) < stats.norm.isf(alarm)
    correlation = np.corrcoef(z.T)[np.triu_indices(7, 1)]
    assert np.abs(correlation).max() < stats.norm.isf(alarm) / np.sqrt(draws) * 1.05


def along(outputs, directions):
    return (outputs * directions).sum((1, 2))


@pytest.mark.parametrize("module", ["linear", "tied"])
def test_terms_that_cancel_leave_no_more_than_the_clip_norm(module):
    """A record whose two positions cancel has a gradient of zero; what float32 leaves of it was not clipped."""
    torch.manual_seed(0)
    model, inputs, directions = nn.Sequential(nn.Linear(64, 64)), 100 * torch.randn(1, 2, 64), torch.randn(1, 2, 64)
    if module == "tied":
        model, inputs = nn.Sequential(nn.Embedding(64, 64), nn.Linear(64, 64)), torch.tensor([[5, 5]])
        model[0].weight = nn.Parameter(100 * model[0].weight.detach())
        model[1].weight = model[0].weight
    engine = PrivateGradients(model, along)
    directions *= 100
    inputs[:, 1], directions[:, 1] = inputs[:, 0], -directions[:, 0]
    found = engine.clipped_sum(inputs, directions, clip_norm=1e-3).tensors
    assert oracle.norm(found) <= 1e-3 * (1 + 1e-5)
    # The mutant: the exact norm alone.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["dpcore.gradients.layers.linear"], "ROUNDOFF", 0.0)
        assert oracle.norm(engine.clipped_sum(inputs, directions, clip_norm=1e-3).tensors) > 0.01


@pytest.mark.parametrize("length", [3e18, 1.1e19, 1.6e19])
def test_a_factor_that_float32_holds_in_a_few_bits_loosens_no_bound(length):
    """The least factors of float32 lie 1.4e-45 apart: rounded to one, a record's share grew by a third."""
    engine = PrivateGradients(nn.Linear(1, 1, bias=False), lambda outputs, scales: outputs[:, 0] * scales)
    engine.clipped_sum(torch.ones(2, 1), torch.ones(2), clip_norm=1.0)
    for scale in np.linspace(0.5, 1.0, 20):
        inputs, scales = torch.full((1, 1), length), torch.full((1,), float(scale * length))
        assert oracle.norm(engine.clipped_sum(inputs, scales, clip_norm=1e-6).tensors) <= 1e-6 * (1 + ROUNDING)


# Units of several records: one clip of the sum of their gradients, records still apart from each other.

U, K = 3, 2


def clipped_units(model, loss_fn, inputs, targets, taken, clip_norm):
    """One record, one backward pass at a time; the gradients of a unit's taken records add up before the clip."""
    total = {name: torch.zeros_like(one).double() for name, one in model.named_parameters() if one.requires_grad}
    columns = inputs if isinstance(inputs, tuple) else (inputs,)
    for unit in range(len(taken)):
        present = taken[unit].nonzero()[:, 0]
        if not len(present):
            continue
        rows = oracle.rows(model, loss_fn, tuple(one[unit][present] for one in columns), targets[unit][present])
        summed = {name: several.double().sum(0) for name, several in rows.items()}
        for name, one in summed.items():
            total[name] += one * min(1.0, clip_norm / max(oracle.norm(summed), 1e-300))
    return total


def in_units(tensor):
    return tensor.unflatten(0, (U, K))


@pytest.mark.parametrize("kinds", ROUTES, ids=ROUTE_NAMES)
@pytest.mark.parametrize("case", [one for one in CASES if one.by_rule], ids=lambda one: one.name)
def test_every_layer_clips_the_sum_of_a_unit_s_records(case, kinds):
    model, (inputs, targets) = case.model(), case.batch(U * K, seed=0)
    inputs = tuple(in_units(one) for one in inputs) if isinstance(inputs, tuple) else in_units(inputs)
    targets = in_units(targets)
    taken = torch.tensor([[True, True], [False, True], [False, False]])
    engine = PrivateGradients(model, case.loss, unit_records=K, kinds=kinds)
    whole = engine.clipped_sum(inputs, targets, clip_norm=2.0).tensors
    everything = torch.ones(U, K, dtype=torch.bool)
    oracle.assert_same(whole, clipped_units(model, case.loss, inputs, targets, everything, 2.0))
    some = engine.clipped_sum(inputs, targets, clip_norm=2.0, taken=taken, microbatch_size=2).tensors
    oracle.assert_same(some, clipped_units(model, case.loss, inputs, targets, taken, 2.0))


def small_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


@pytest.mark.parametrize("filler", [0.0, 1e30, float("nan"), float("inf")])
def test_what_stands_in_an_empty_place_has_no_influence(filler):
    inputs, targets = torch.randn(4, 3, 5), torch.randint(0, 3, (4, 3))
    taken = torch.rand(4, 3) < 0.6
    engine = PrivateGradients(small_network(), oracle.cross_entropy, unit_records=3)
    expected = engine.clipped_sum(inputs, targets, clip_norm=0.3, taken=taken).tensors
    inputs[~taken] = filler
    targets[~taken] = 2
    found = engine.clipped_sum(inputs, targets, clip_norm=0.3, taken=taken).tensors
    assert all(torch.equal(found[name], one) for name, one in expected.items())


def moved_by_a_unit() -> float:
    inputs, targets = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1)), torch.zeros(4, 3).long()
    inputs[3] *= 30
    engine = PrivateGradients(small_network(), oracle.cross_entropy, unit_records=3)
    whole, rest = (engine.clipped_sum(inputs[:units], targets[:units], clip_norm=0.3).tensors for units in (4, 3))
    return oracle.norm({name: one - rest[name] for name, one in whole.items()})


def test_one_more_unit_moves_the_sum_by_at_most_the_clip_norm(monkeypatch):
    assert 0.29 < moved_by_a_unit() <= 0.3 * (1 + 1e-5)
    # Mutant: every record clipped on its own, as if it were a unit.
    monkeypatch.setattr(UnitRows, "of", classmethod(lambda cls, size, records, taken: cls(size * records, 1)))
    monkeypatch.setattr(UnitRows, "present", lambda self, column: column.flatten(0, 1))
    assert moved_by_a_unit() > 0.3 * (1 + 1e-5)


def test_shapes_that_do_not_fit_are_refused():
    engine = PrivateGradients(small_network(), oracle.cross_entropy, unit_records=3)
    inputs, targets = torch.randn(2, 3, 5), torch.zeros(2, 3).long()
    with pytest.raises(InvalidValue, match="3 records for each unit"):
        engine.clipped_sum(inputs[:, :2], targets[:, :2], clip_norm=1.0)
    with pytest.raises(InvalidValue, match="taken"):
        engine.clipped_sum(inputs, targets, clip_norm=1.0, taken=torch.ones(2, 3))
    with pytest.raises(InvalidValue, match="unit_records"):
        PrivateGradients(small_network(), oracle.cross_entropy, unit_records=0)
