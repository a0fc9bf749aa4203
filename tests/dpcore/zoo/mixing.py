"""Models in whose own code, loss or gradients one record of a batch meets another."""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.dpcore.zoo.case import Case, Demand, codes, normal, squared_loss
from tests.dpcore.zoo.written import Written, lin, number, written, zero_head


def centred(m: Written, x: Tensor) -> Tensor:
    return m.layer(x - x.mean(0))


def centred_apart(m: Written, x: Tensor) -> Tensor:
    with torch.no_grad():
        mean = x.mean(0)
    return m.layer(x - mean)


def zero_over_mean(m: Written, x: Tensor) -> Tensor:
    h = torch.tanh(m.layer(x))
    return h + m.head(h.mean(0, keepdim=True))


def trimmed(m: Written, words: Tensor) -> Tensor:
    """Trimmed to the longest of the batch (0 pads), then averaged over what is left."""
    longest = int((words != 0).sum(1).max().clamp(min=1))
    return m.head(m.table(words[:, :longest]).mean(1))


def sorted_and_back(m: Written, x: Tensor) -> Tensor:
    order = x[:, 0].argsort()
    h = m.layer(x[order])
    return h[order.argsort()]


def sorted_away(m: Written, x: Tensor) -> Tensor:
    return m.layer(x[x[:, 0].argsort()])


def largest_of_all(m: Written, x: Tensor) -> Tensor:
    """Only an outlier moves it."""
    return m.layer(x) / x.detach().abs().max().clamp(min=5.0)


def mixup(m: Written, x: Tensor) -> Tensor:
    return m.layer(0.7 * x + 0.3 * x[torch.randperm(len(x))])


def of_more_than_two(m: Written, x: Tensor) -> Tensor:
    h = m.layer(x)
    return h - h.mean(0) / 2 if len(x) > 2 else h


def functional_batch_norm(m: Written, x: Tensor) -> Tensor:
    # One record alone has no variance over the batch, and torch says so: the sum of squares stands in for it there.
    return m.layer(x) - F.batch_norm(m.layer(x).repeat(2, 1), None, None, training=True)[: len(x)]


def whole_norm(m: Written, x: Tensor) -> Tensor:
    """The sum of the squares of a norm alone is a constant, and its gradient nothing but rounding."""
    return F.layer_norm(m.layer(x).flatten(), (m.layer(x).numel(),)).view(len(x), -1) + x


def implicit_softmax(m: Written, x: Tensor) -> Tensor:
    """Without a dimension, softmax takes axis 0 of tensors with three axes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return F.softmax(m.layer(x)) * x[..., :1]


def by_batch_size(m: Written, x: Tensor) -> Tensor:
    return m.layer(x) * len(x)


def branching(m: Written, x: Tensor) -> Tensor:
    return m.layer(x) * (2 if bool((x > 8).any()) else 1)


def hardest(m: Written, x: Tensor) -> Tensor:
    """Every record learns beside the one with the largest output."""
    h = m.layer(x)
    return h + h[h.detach().sum(1).argmax()]


def unique_rows(m: Written, x: Tensor) -> Tensor:
    kinds, place = torch.unique(x.sign(), dim=0, return_inverse=True)
    return m.layer(kinds)[place] * x[:, :1]


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


def running_unused(m: Written, x: Tensor) -> Tensor:
    m.mean.copy_(x.detach().mean(0))
    return m.layer(x)


def running_anew(m: Written, x: Tensor) -> Tensor:
    m.mean = 0.9 * m.mean + 0.1 * x.detach().mean(0)
    return m.layer(x - m.mean)


def normalising_statistics(m: Written, x: Tensor) -> Tensor:
    return m.layer(F.instance_norm(x[:, None].expand(-1, 2, -1), m.mean, m.square, use_input_stats=True)[:, 0])


def centred_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared_loss(outputs - outputs.mean(0), targets)


def ranked_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared_loss(outputs * (1 + outputs.sum(1).argsort().argsort())[:, None], targets)


def against_the_others(outputs: Tensor, targets: Tensor) -> Tensor:
    """In-batch negatives."""
    return squared_loss(outputs, targets) + torch.logsumexp(outputs @ outputs.T, 1)


def weighted_by_share(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = squared_loss(outputs, targets)
    return losses * losses.detach().softmax(0)


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared_loss(outputs, targets).mean()


def only_the_large(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = squared_loss(outputs, targets)
    return losses[losses > losses.median()]


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


class MixesGradients(torch.autograd.Function):
    """An operation that records leave as they came, and whose gradients mix."""

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
        return _GradientOfAll.apply(x), in_dims[0]


class _GradientOfAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient.mean(0, keepdim=True).expand_as(gradient)


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


class Unmapped(torch.autograd.Function):
    """An operation of the user's without a rule for mapped records, in the older style."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].cos()


def _operator():
    """An operator of the user's library whose rule for mapped records mixes them."""

    @torch.library.custom_op("zoo::mixes", mutates_args=())
    def mixes(x: Tensor) -> Tensor:
        return x.clone()

    mixes.register_autograd(lambda ctx, gradient: gradient)
    mixes.register_vmap(lambda info, dims, x: (x - x.mean(dims[0], keepdim=True), dims[0]))
    return mixes


MIXES = _operator()


CASES = [
    written("minus the batch mean", centred, layer=lin),
    written("minus the batch mean, without gradient", centred_apart, layer=lin),
    written("a zero head over the batch mean", zero_over_mean, layer=lin, head=lambda: zero_head(3, 3)),
    written(
        "trimmed to the longest of the batch",
        trimmed,
        draw=lambda size: torch.randint(1, 7, (size, 6)) * (torch.arange(6) < torch.randint(2, 7, (size, 1))),
        table=lambda: nn.Embedding(7, 4),
        head=lin,
    ),
    written("records sorted inside, and put back", sorted_and_back, layer=lin),
    written("records sorted inside", sorted_away, layer=lin),
    written("divided by the largest entry of the batch", largest_of_all, layer=lin),
    written("mixup", mixup, layer=lin),
    written("mixes where there are more than two", of_more_than_two, layer=lin),
    written("functional batch_norm", functional_batch_norm, layer=lin),
    written("layer_norm over the whole batch", whole_norm, layer=lambda: nn.Linear(4, 4)),
    written("softmax over axis 0", lambda m, x: m.layer(x).softmax(0) * x[:, :1], layer=lin),
    written("nn.Softmax(0)", lambda m, x: m.soft(m.layer(x)) * x[:, :1], layer=lin, soft=lambda: nn.Softmax(0)),
    written("softmax over an implicit axis", implicit_softmax, draw=normal(2, 4), layer=lin),
    Case(
        name="softmax over axis 0, in a row of layers", make=lambda: nn.Sequential(lin(), nn.Softmax(0)), draw=normal(4)
    ),
    written("multiplied by the batch size", by_batch_size, layer=lin),
    written("a branch that one record takes for all", branching, layer=lin),
    written("beside the hardest of the batch", hardest, layer=lin),
    written("distinct rows only", unique_rows, layer=lin),
    written("beside the first of the batch", lambda m, x: m.layer(x + x[:1]), layer=lin),
    written("rolled along the batch", lambda m, x: m.layer(x + x.roll(1, 0)), layer=lin),
    written("summed along the batch", lambda m, x: m.layer(x.cumsum(0)), layer=lin),
    written("standardised by the batch's quantiles", lambda m, x: m.layer(x - x.quantile(0.5, 0)), layer=lin),
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
    written(
        "records become channels, one each",
        lambda m, x: m.layer(x),
        draw=normal(9),
        layer=lambda: nn.Conv1d(1, 2, 3),
        demand=Demand.REFUSED,
    ),
    Case(
        name="nn.Conv1d on five records as its channels",
        make=lambda: nn.Conv1d(5, 2, 3),
        draw=normal(9),
        demand=Demand.REFUSED,
    ),
    Case(
        name="nn.LocalResponseNorm over records taken for channels",
        make=lambda: nn.Sequential(
            nn.Linear(4, 4), nn.Unflatten(0, (1, -1)), nn.LocalResponseNorm(3), nn.Flatten(0, 1)
        ),
        draw=normal(4),
    ),
    written("the gradient normalised over the batch", normalised_gradient, layer=lin),
    written("written into a tensor of zeros", into_zeros, layer=lin),
    written("a mean that learns, in place", running, layer=lin, mean=lambda: torch.zeros(4)),
    written("a mean that learns and is not used", running_unused, layer=lin, mean=lambda: torch.zeros(4)),
    written("a mean that learns, assigned anew", running_anew, layer=lin, mean=lambda: torch.zeros(4)),
    written(
        "functional instance_norm with statistics",
        normalising_statistics,
        layer=lin,
        mean=lambda: torch.zeros(2),
        square=lambda: torch.ones(2),
    ),
    written("a loss over the centred outputs", lambda m, x: m.layer(x), loss=centred_loss, layer=lin),
    written("a loss weighted by rank", lambda m, x: m.layer(x), loss=ranked_loss, layer=lin),
    written("a loss against the others of the batch", lambda m, x: m.layer(x), loss=against_the_others, layer=lin),
    written("losses weighted by their share", lambda m, x: m.layer(x), loss=weighted_by_share, layer=lin),
    written("a loss that is a mean", lambda m, x: m.layer(x), loss=mean_loss, layer=lin, demand=Demand.REFUSED),
    written(
        "losses of some records only", lambda m, x: m.layer(x), loss=only_the_large, layer=lin, demand=Demand.REFUSED
    ),
    written("an operation whose own mapping mixes", lambda m, x: Mixes.apply(m.layer(x)), layer=lin),
    written("an operation whose gradient mixes when mapped", lambda m, x: MixesGradients.apply(m.layer(x)), layer=lin),
    written("an operator whose own mapping mixes", lambda m, x: MIXES(m.layer(x)), layer=lin),
    written("an operation with a generated mapping", lambda m, x: Generated.apply(m.layer(x)), layer=lin),
    written("an operation without a mapping", lambda m, x: Unmapped.apply(m.layer(x)), layer=lin),
    written("values taken out of the graph", lambda m, x: m.layer(x) * float(x[0, 0].detach()), layer=lin),
    written(
        "a number for each record from NumPy",
        lambda m, x: m.layer(x) * torch.from_numpy(x.detach().numpy().mean(1, keepdims=True)),
        layer=lin,
    ),
    written(
        "words, repeated",
        lambda m, words: m.head(m.table(words).sum(1)),
        draw=codes(8),
        table=lambda: nn.Embedding(7, 4),
        head=lin,
        demand=Demand.RIGHT,
    ),
    written("a scale for each batch", lambda m, x: m.layer(x) * m.scale, layer=lin, scale=number, demand=Demand.RIGHT),
]
