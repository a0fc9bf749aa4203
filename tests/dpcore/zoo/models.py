"""Models of every kind: parameters, uses of layers, what stands around a model, and code in which records meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from tests.dpcore.gradient_oracle import squared_loss
from tests.dpcore.zoo.case import Case, Demand, Written, codes, frozen, lin, normal, number, plain, written

R, S, X = Demand.RIGHT, Demand.SAFE, Demand.REFUSED
CASES: list[Case] = []


# Parameters of every kind: tied, frozen, parametrized, expanded, complex, of no dimension, in any precision.


def tied_table(m: Written, words: Tensor) -> Tensor:
    return F.linear(torch.tanh(m.table(words)), m.table.weight).mean(1)


def shared(first: nn.Module, second: nn.Module) -> nn.Module:
    second.weight = first.weight
    return second


def language_model() -> nn.Module:
    """Words, positions, a class token, attention, and an output layer tied to the words."""
    table = nn.Embedding(7, 8)
    return Written(
        _language,
        table=table,
        places=nn.Embedding(4, 8),
        token=number(1, 1, 8),
        temperature=number(),
        attention=nn.MultiheadAttention(8, 2, batch_first=True),
        norm=nn.LayerNorm(8),
        head=shared(table, nn.Linear(8, 7)),
    )


def _language(m: Written, words: Tensor) -> Tensor:
    h = m.table(words) + m.places(torch.arange(words.shape[1]))
    h = torch.cat([m.token.expand(len(h), -1, -1), h], 1)
    h = m.norm(h + m.attention(h, h, h, need_weights=False)[0])
    return m.head(h[:, 0]) * m.temperature


def adapted(m: Written, x: Tensor) -> Tensor:
    """A frozen layer and a low-rank one beside it (Hu et al. 2022)."""
    return m.base(x) + m.up(m.down(x))


class Tracked(torch.Tensor):
    """A subclass of tensors that only carries a name."""


def subclassed() -> nn.Module:
    layer = nn.Linear(4, 3)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Tracked))
    return layer


def complex_model() -> nn.Module:
    return Written(lambda m, x: torch.view_as_real(m.layer(x.to(torch.complex64))).flatten(1), layer=_complex_layer())


def _complex_layer() -> nn.Linear:
    return nn.Linear(4, 3, dtype=torch.complex64)


def mixed_types(m: Written, x: Tensor) -> Tensor:
    return m.fine(m.coarse(x).double()).float()


def halves(size: int) -> Tensor:
    return torch.randn(size, 4).bfloat16()


def float_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared_loss(outputs.float(), targets)


CASES += [
    plain("words, positions, class token, attention, tied output", language_model, draw=codes(4), tolerance=1e-5),
    written(
        "a class token",
        lambda m, x: m.head(torch.cat([m.token.expand(len(x), -1), m.layer(x)], 1)),
        token=lambda: number(1, 2),
        layer=lin,
        head=lambda: nn.Linear(5, 2),
        demand=R,
    ),
    written("output tied to the words", tied_table, draw=codes(3), table=lambda: nn.Embedding(7, 4), demand=R),
    written("a parameter that nothing uses", lambda m, x: m.layer(x), layer=lin, spare=lambda: number(3), demand=S),
    plain("biases alone", lambda: frozen(nn.Sequential(lin(), nn.Tanh(), nn.Linear(3, 2)), "bias")),
    plain(
        "spectral normalisation, which learns", lambda: nn.Sequential(parametrizations.spectral_norm(lin())), demand=S
    ),
    plain("a weight of a subclass of tensors", subclassed, demand=S),
    plain("complex weights", complex_model, demand=S),
    plain(
        "float64",
        lambda: nn.Sequential(lin(), nn.Tanh(), nn.Linear(3, 2)).double(),
        draw=lambda size: torch.randn(size, 4).double(),
        tolerance=1e-12,
    ),
    plain("float32 and float64", lambda: Written(mixed_types, coarse=lin(), fine=nn.Linear(3, 2).double())),
    plain(
        "bfloat16",
        lambda: nn.Sequential(lin(), nn.Tanh(), nn.Linear(3, 2)).bfloat16(),
        draw=halves,
        loss=float_loss,
        tolerance=3e-2,
    ),
]


# Layers that are called in unusual ways: twice, past their hooks, in place, by hand, by some records only.


def hidden_alias(m: Written, x: Tensor) -> Tensor:
    """The layer's weight, kept a second time where no list of parameters shows it."""
    return m.layer(x) + F.linear(x, m.kept[0])


def with_alias() -> nn.Module:
    layer = lin()
    return Written(hidden_alias, layer=layer, kept=[layer.weight])


def with_view() -> nn.Module:
    """A view of the parameter made once, in the constructor."""
    scale = number(4)
    return Written(lambda m, x: m.layer(x * m.kept[0]), scale=scale, layer=lin(), kept=[scale.view(1, 4)])


def detached_once(m: Written, x: Tensor) -> Tensor:
    return m.layer(x) + m.layer(2 * x).detach()


def routed_by_index(m: Written, x: Tensor) -> Tensor:
    """Each expert is called on its own records alone."""
    chosen = x[:, 0] > 0
    out = torch.zeros(len(x), 3)
    out[chosen] = m.left(x[chosen])
    out[~chosen] = m.right(x[~chosen])
    return out


def penalised(model: nn.Module) -> Callable[..., Tensor]:
    """The loss knows the model, and adds the size of its weight to every record's loss."""
    layer = model.layer

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_loss(outputs, targets) + layer.weight.square().sum()  # type: ignore[union-attr,operator]

    return loss


def learned_loss(model: nn.Module) -> Callable[..., Tensor]:
    """The loss puts the outputs through a layer of the model."""
    head = model.head

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_loss(head(outputs), targets)  # type: ignore[operator]

    return loss


def two_inputs(size: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 7, (size,)), torch.randn(size, 4)


class Doubled(nn.Linear):
    """A subclass that computes something else than its base."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(2 * x) + x.sum(-1, keepdim=True)


CASES += [
    written(
        "a layer and its weight by hand",
        lambda m, x: m.layer(x) + F.linear(x.tanh(), m.layer.weight),
        layer=lin,
        demand=R,
    ),
    written("a layer used twice, once detached", detached_once, layer=lin, demand=R),
    written("experts called on their own records", routed_by_index, left=lin, right=lin, demand=S),
    plain("a subclass of nn.Linear", lambda: Doubled(4, 3)),
    plain("a weight kept a second time, hidden", with_alias, demand=S),
    plain("a view of a weight, made once", with_view, demand=S),
    Case(
        name="a loss that adds the weight's size",
        make=lambda: Written(lambda m, x: m.layer(x), layer=lin()),
        draw=normal(4),
        bound=penalised,
    ),
    Case(
        name="a loss with a layer of the model",
        make=lambda: Written(lambda m, x: m.layer(x), layer=lin(), head=nn.Linear(3, 2)),
        draw=normal(4),
        bound=learned_loss,
    ),
    Case(
        name="two inputs, of codes and of numbers",
        make=lambda: Written(lambda m, a, b: m.head(m.table(a) * b), table=nn.Embedding(7, 4), head=lin()),
        draw=two_inputs,
        demand=R,
    ),
]


# Hooks, compilers, checkpoints and contexts around a model, and state that it keeps in Python.


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


class _Prefixed(nn.Module):
    """A model under the name that compiled ones have for it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, x: Tensor) -> Tensor:
        return self._orig_mod(x)


def recomputed(m: Written, x: Tensor, reentrant: bool = False) -> Tensor:
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


def attention_by_hand(m: Written, x: Tensor, how: Callable[..., Tensor]) -> Tensor:
    return how(x, *m.qkv(x).chunk(3, 2))


def in_heads(one: Tensor) -> Tensor:
    return one.unflatten(2, (2, 2)).transpose(1, 2)


attend = F.scaled_dot_product_attention
HIDDEN = torch.eye(3).bool() | torch.rand(3, 3, generator=torch.Generator().manual_seed(0)).gt(0.5)
ATTENTIONS: dict[str, Callable[..., Tensor]] = {
    "three axes": lambda x, *qkv: attend(*qkv),
    "causal": lambda x, *qkv: attend(*map(in_heads, qkv), is_causal=True).transpose(1, 2).flatten(2),
    "one mask": lambda x, *qkv: attend(*map(in_heads, qkv), HIDDEN),
    "a mask of each record": lambda x, *qkv: attend(*map(in_heads, qkv), x[:, None, None, :, 0] < 9),
    "an added mask that is learned from": lambda x, q, k, v: attend(q, k, v, q @ k.mT),
    "keys that all share": lambda x, q, k, v: attend(q, HIDDEN.float()[None].expand(len(q), 3, 3)[..., :1] + 0 * k, v),
    "five axes": lambda x, *qkv: attend(*(in_heads(one)[:, None] for one in qkv)),
}


CASES += [
    plain("a forward hook that scales", lambda: hooked("register_forward_hook", lambda m, i, o: 2 * o), demand=S),
    plain("a full backward hook", lambda: hooked("register_full_backward_hook", with_gradient_of), demand=S),
    plain("a hook on a parameter", lambda: parameter_hook(lambda g: 2 * g), demand=S),
    plain(
        "a full backward hook on all layers",
        network,
        demand=S,
        around=lambda: everywhere("register_module_full_backward_hook", with_gradient_of),
    ),
    Case(
        name="compiled",
        make=lambda: torch.compile(network(), backend="eager"),  # type: ignore[arg-type]
        reference=lambda: _Prefixed(network()),
        draw=normal(4),
        demand=R,
    ),
    written("checkpointed", recomputed, layer=lin, head=lambda: nn.Linear(3, 2), demand=R),
    written("checkpointed, reentrant", partial(recomputed, reentrant=True), layer=lin, head=lambda: nn.Linear(3, 2)),
    plain("autocast inside", lambda: Written(in_half_precision, layer=lin()), demand=S, tolerance=3e-2),
    written("a part without gradient", without_gradient, layer=lin, head=lambda: nn.Linear(3, 2)),
    written("a counter that counts", counting, layer=lin, calls=lambda: 0),
    written("the batch before, remembered", remembering, layer=lin, last=lambda: None),
    written("the first batch, cached", caching, layer=lin, cache=dict),
    *(
        written(
            f"attention by hand, {name}",
            partial(attention_by_hand, how=how),
            draw=normal(3, 4),
            qkv=lambda: nn.Linear(4, 12),
            demand=R,
        )
        for name, how in ATTENTIONS.items()
    ),
]


# Models in whose own code, loss or gradients one record of a batch meets another.


def trimmed(m: Written, words: Tensor) -> Tensor:
    """Trimmed to the longest of the batch (0 pads), then averaged over what is left."""
    longest = int((words != 0).sum(1).max().clamp(min=1))
    return m.head(m.table(words[:, :longest]).mean(1))


def largest_of_all(m: Written, x: Tensor) -> Tensor:
    """Only an outlier moves it."""
    return m.layer(x) / x.detach().abs().max().clamp(min=5.0)


def of_more_than_two(m: Written, x: Tensor) -> Tensor:
    h = m.layer(x)
    return h - h.mean(0) / 2 if len(x) > 2 else h


def functional_batch_norm(m: Written, x: Tensor) -> Tensor:
    # One record alone has no variance over the batch, and torch says so: the sum of squares stands in for it there.
    return m.layer(x) - F.batch_norm(m.layer(x).repeat(2, 1), None, None, training=True)[: len(x)]


def normalised_gradient(m: Written, x: Tensor) -> Tensor:
    h = m.layer(x)
    if h.requires_grad:
        h.register_hook(lambda g: g / (1 + g.norm()))
    return torch.tanh(h)


def into_zeros(m: Written, x: Tensor) -> Tensor:
    out = torch.zeros(len(x), 4)
    out[:, :3] = m.layer(x)
    return out


def running(m: Written, x: Tensor) -> Tensor:
    m.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
    return m.layer(x - m.mean)


def against_the_others(outputs: Tensor, targets: Tensor) -> Tensor:
    """In-batch negatives."""
    return squared_loss(outputs, targets) + torch.logsumexp(outputs @ outputs.T, 1)


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared_loss(outputs, targets).mean()


class Mixes(torch.autograd.Function):
    """An operation whose own rule for mapped records mixes them."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None: ...

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient

    @staticmethod
    def vmap(info, in_dims, x: Tensor):
        return x - x.mean(in_dims[0], keepdim=True), in_dims[0]


class Generated(torch.autograd.Function):
    """An operation of the user's with a rule that torch makes from it: correct under mapping."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].cos()


class Rounded(torch.autograd.Function):
    """Straight through, with the context in `forward`: PyTorch has no rule for it under mapping."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient


class Spread(Rounded):
    """The same over the whole batch that it is given."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x - x.mean(0)


def _operator():
    """An operator of the user's library whose rule for mapped records mixes them."""

    @torch.library.custom_op("zoo::mixes", mutates_args=())
    def mixes(x: Tensor) -> Tensor:
        return x.clone()

    mixes.register_autograd(lambda ctx, gradient: gradient)
    mixes.register_vmap(lambda info, dims, x: (x - x.mean(dims[0], keepdim=True), dims[0]))
    return mixes


MIXES = _operator()


CASES += [
    written(
        "trimmed to the longest of the batch",
        trimmed,
        draw=lambda size: torch.randint(1, 7, (size, 6)) * (torch.arange(6) < torch.randint(2, 7, (size, 1))),
        table=lambda: nn.Embedding(7, 4),
        head=lin,
    ),
    written("divided by the largest entry of the batch", largest_of_all, layer=lin),
    written("mixes where there are more than two", of_more_than_two, layer=lin),
    written("functional batch_norm", functional_batch_norm, layer=lin),
    written("attention among records", lambda m, x: (m.layer(x) @ m.layer(x).T).softmax(1) @ m.layer(x), layer=lin),
    written(
        "records and positions flattened",
        lambda m, x: m.layer(x.reshape(-1, 4)).view(len(x), -1),
        draw=normal(3, 4),
        layer=lin,
        demand=Demand.RIGHT,
    ),
    written(
        "records moved off axis 0 and back",
        lambda m, x: m.layer(x.transpose(0, 1)).transpose(0, 1),
        draw=normal(3, 4),
        layer=lin,
        demand=Demand.RIGHT,
    ),
    written("the gradient normalised over the batch", normalised_gradient, layer=lin),
    written("written into a tensor of zeros", into_zeros, layer=lin),
    written("a mean that learns, in place", running, layer=lin, mean=lambda: torch.zeros(4)),
    written("a loss against the others of the batch", lambda m, x: m.layer(x), loss=against_the_others, layer=lin),
    written("a loss that is a mean", lambda m, x: m.layer(x), loss=mean_loss, layer=lin, demand=Demand.REFUSED),
    written("an operation whose own mapping mixes", lambda m, x: Mixes.apply(m.layer(x)), layer=lin),
    written("an operator whose own mapping mixes", lambda m, x: MIXES(m.layer(x)), layer=lin),
    written("an operation without a mapping", lambda m, x: Rounded.apply(3 * m.layer(x)), layer=lin, demand=R),
    written("an operation without a mapping, which mixes", lambda m, x: Spread.apply(m.layer(x)), layer=lin),
    written("an operation with a generated mapping", lambda m, x: Generated.apply(m.layer(x)), layer=lin),
]
