"""Half precision changes the gradients a little and the clip bound not at all."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpcore.gradients import PrivateGradients, engine
from dpcore.gradients.layers import KINDS

HALVES = pytest.mark.parametrize("precision", ["bfloat16", "float16"])
ROUTES = pytest.mark.parametrize("kinds", [KINDS, {}], ids=["one pass", "per record"])


def losses(outputs, targets):
    return F.cross_entropy(outputs, targets, reduction="none")


def flat(tensors):
    return torch.cat([one.flatten() for one in tensors.values()])


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(144, 16), nn.Tanh(), nn.Linear(16, 5)
    )


def batch(size: int = 32):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(size, 1, 8, 8, generator=generator), torch.randint(0, 5, (size,), generator=generator)


@HALVES
@ROUTES
def test_half_precision_is_near_full_precision_and_summed_in_float32(precision, kinds):
    model, (inputs, targets) = net(), batch()
    exact = PrivateGradients(model, losses).clipped_sum(inputs, targets, clip_norm=0.7).tensors
    half = PrivateGradients(model, losses, kinds=kinds, precision=precision)
    found = half.clipped_sum(inputs, targets, clip_norm=0.7, microbatch_size=10).tensors
    assert {one.dtype for one in found.values()} == {torch.float32}
    # bfloat16 keeps 8 bits, float16 11.
    error = flat({name: found[name] - exact[name] for name in exact}).norm() / flat(exact).norm()
    assert error < (0.03 if precision == "bfloat16" else 0.003)
    assert any(not torch.equal(found[name], exact[name]) for name in exact)


@HALVES
@ROUTES
def test_the_clip_bound_holds_in_float32(precision, kinds):
    model, (inputs, targets) = net(), batch(16)
    gradients = PrivateGradients(model, losses, kinds=kinds, precision=precision)
    for example in range(16):
        rows = slice(example, example + 1)
        total = gradients.clipped_sum(inputs[rows] * 30, targets[rows], clip_norm=0.25).tensors
        norm = flat(total).double().norm()
        # Half precision alone would miss the bound by 4e-3.
        assert norm <= 0.25 * (1 + 1e-6)
        assert norm > 0.2


@ROUTES
def test_float16_keeps_gradients_below_its_own_smallest_number(kinds):
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[4.2] * 4, [-4.2] * 4]))
        model.bias.zero_()
    inputs, targets = torch.full((3, 4), 0.5), torch.zeros(3, dtype=torch.long)
    exact = PrivateGradients(model, losses).clipped_sum(inputs, targets, clip_norm=1.0).tensors["bias"]
    assert 0 < exact.abs().max() / 3 < 6e-8
    gradients = PrivateGradients(model, losses, kinds=kinds, precision="float16")
    found = gradients.clipped_sum(inputs, targets, clip_norm=1.0).tensors["bias"]
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.0)


@HALVES
def test_an_example_that_overflows_contributes_zero_and_leaves_the_others(precision):
    model, (inputs, targets) = net(), batch(8)
    broken = inputs.clone()
    broken[3] = float("inf")
    gradients = PrivateGradients(model, losses, precision=precision)
    others = [row for row in range(8) if row != 3]
    found = gradients.clipped_sum(broken, targets, clip_norm=1.0).tensors
    expected = gradients.clipped_sum(inputs[others], targets[others], clip_norm=1.0).tensors
    for name, one in found.items():
        torch.testing.assert_close(one, expected[name], rtol=1e-4, atol=1e-6)


def test_norms_and_sums_keep_all_digits_where_the_model_asked_for_fewer(monkeypatch):
    """TF32 and bfloat16 products of the sums, not of the norms, would break the bound by up to 1 part in 256."""
    products = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    seen = []

    def watched(function):
        def run(*args):
            seen.append([one.fp32_precision for one in products])
            return function(*args)

        return run

    monkeypatch.setattr(engine, "clipped_total", watched(engine.clipped_total))
    monkeypatch.setattr(engine.GhostNorms, "of", watched(engine.GhostNorms.of))
    torch.set_float32_matmul_precision("medium")
    try:
        asked = [one.fp32_precision for one in products]
        inputs, targets = batch(8)
        gradients = PrivateGradients(net(), losses)
        gradients.clipped_sum(inputs, targets, clip_norm=0.7)
        del seen[:]
        gradients.clipped_sum(inputs, targets, clip_norm=0.7)
        assert [one.fp32_precision for one in products] == asked != ["ieee", "ieee"]
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == [["ieee", "ieee"]] * 2
