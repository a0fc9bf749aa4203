"""Hooks, compilers, checkpoints and contexts around a model, and state that it keeps in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks
from torch.utils.checkpoint import checkpoint

from tests.dpcore.zoo.case import Case, Demand, normal
from tests.dpcore.zoo.written import Written, lin, plain, written

R, S, X = Demand.RIGHT, Demand.SAFE, Demand.REFUSED


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def hooked(register: str, hook) -> nn.Module:
    model = network()
    getattr(model[0], register)(hook)
    return model


def parameter_hook(hook) -> nn.Module:
    model = network()
    model[0].weight.register_hook(hook)
    return model


@contextmanager
def everywhere(register: str, hook) -> Iterator[None]:
    handle = getattr(global_hooks, register)(hook)
    try:
        yield
    finally:
        handle.remove()


def with_gradient_of(module, gradients, *_) -> tuple[Tensor | None, ...]:
    return tuple(None if one is None else 2 * one for one in gradients)


def compiled(**options) -> Case:
    return Case(
        name=f"compiled{''.join(f', {name}' for name in options)}",
        make=lambda: torch.compile(network(), backend="eager", **options),  # type: ignore[arg-type]
        reference=lambda: _Prefixed(network()),
        draw=normal(4),
    )


class _Prefixed(nn.Module):
    """A model under the name that compiled ones have for it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, x: Tensor) -> Tensor:
        return self._orig_mod(x)


def recomputed(m: Written, x: Tensor, *, reentrant: bool) -> Tensor:
    # Reentrant checkpoints have no gradient unless an input asks for one.
    x = x.detach().requires_grad_() if reentrant else x
    return m.head(checkpoint(lambda one: torch.tanh(m.layer(one)), x, use_reentrant=reentrant))


def in_half_precision(m: Written, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return m.layer(x).float()


def without_gradient(m: Written, x: Tensor) -> Tensor:
    with torch.no_grad():
        h = torch.tanh(m.layer(x))
    return m.head(h)


def counting(m: Written, x: Tensor) -> Tensor:
    m.calls += 1
    return m.layer(x) * (1 + m.calls)


def remembering(m: Written, x: Tensor) -> Tensor:
    """Minus the mean of the batch before."""
    last = m.last if m.last is not None else torch.zeros(4)
    m.last = x.detach().mean(0)
    return m.layer(x - last)


def caching(m: Written, x: Tensor) -> Tensor:
    """The first batch's outputs, kept for all that come after."""
    if "h" not in m.cache:
        m.cache["h"] = x.detach().mean()
    return m.layer(x) * m.cache["h"]


CASES = [
    plain("a forward hook that scales", lambda: hooked("register_forward_hook", lambda m, i, o: 2 * o), demand=S),
    plain("a full backward hook", lambda: hooked("register_full_backward_hook", with_gradient_of), demand=S),
    plain("a hook on a parameter", lambda: parameter_hook(lambda g: 2 * g), demand=S),
    plain(
        "a full backward hook on all layers",
        network,
        demand=S,
        around=lambda: everywhere("register_module_full_backward_hook", with_gradient_of),
    ),
    compiled(),
    plain(
        "a graph of torch.export",
        lambda: torch.export.export(
            network(), (torch.zeros(4, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},)
        ).module(),
        demand=S,
        trains=None,
    ),
    written("checkpointed", lambda m, x: recomputed(m, x, reentrant=False), layer=lin, head=lambda: nn.Linear(3, 2)),
    plain("autocast inside", lambda: Written(in_half_precision, layer=lin()), demand=S, tolerance=3e-2),
    written("a part without gradient", without_gradient, layer=lin, head=lambda: nn.Linear(3, 2)),
    written("a counter that counts", counting, layer=lin, calls=lambda: 0),
    written("the batch before, remembered", remembering, layer=lin, last=lambda: None),
    written("the first batch, cached", caching, layer=lin, cache=dict),
    written(
        "attention by hand",
        lambda m, x: F.scaled_dot_product_attention(*m.qkv(x).chunk(3, 2)),
        draw=normal(3, 4),
        qkv=lambda: nn.Linear(4, 12),
        demand=R,
    ),
]
