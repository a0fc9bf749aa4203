"""nn.MultiheadAttention and nn.EmbeddingBag in one pass, against one record at a time and PyTorch's own forward."""

import itertools

import pytest
import torch
from torch import nn

from dpcore.gradients import PrivateGradients, Route
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.zoo.case import Written

torch.set_num_threads(1)
B, T, E = 5, 4, 8
CAUSAL = torch.ones(T, T, dtype=torch.bool).triu(1)


def of_each_head(x, first: bool):
    heads = torch.stack([CAUSAL, CAUSAL.T]).double()
    return heads.repeat(len(x) if first else x.shape[1], 1, 1) * -3


def weighed(layer, x, first: bool, **how):
    """Output and weights, [B, T, ...] both."""
    out, weights = layer(x, x, x, **how)
    return (out if first else out.transpose(0, 1)), weights


# (layer, x, another sequence, what to hide of each record's keys, batch first) -> output, as the layer has it; those of
# WEIGHING give [B, T, E].
CALLS = {
    "self": lambda m, x, o, h, first: m(x, x, x)[0],
    "without weights": lambda m, x, o, h, first: m(x, x, x, need_weights=False)[0],
    "cross": lambda m, x, o, h, first: m(x, o, o)[0],
    "three inputs": lambda m, x, o, h, first: m(x, o, o.cos())[0],
    "causal": lambda m, x, o, h, first: m(x, x, x, attn_mask=CAUSAL, is_causal=True, need_weights=False)[0],
    "added mask": lambda m, x, o, h, first: m(x, x, x, attn_mask=CAUSAL.double() * -2)[0],
    "mask of each head": lambda m, x, o, h, first: m(x, x, x, attn_mask=of_each_head(x, first))[0],
    "padding": lambda m, x, o, h, first: m(x, x, x, key_padding_mask=h)[0],
    "padding and mask": lambda m, x, o, h, first: m(x, x, x, key_padding_mask=h, attn_mask=CAUSAL)[0],
    "twice": lambda m, x, o, h, first: m(*[m(x, x, x)[0]] * 3)[0],
    "fused and apart": lambda m, x, o, h, first: m(m(x, x, x)[0], o, o)[0],
}


def by_heads(layer, x, first: bool):
    out, weights = weighed(layer, x, first, average_attn_weights=False)
    return out + weights.sum((1, 3))[:, :, None]


def by_average(layer, x, first: bool):
    out, weights = weighed(layer, x, first)
    return out * weights[..., :1]


def in_windows(layer, x, first: bool):
    """Two windows of each record stand where records would."""
    halves = x.reshape(-1, T // 2, E)
    return layer(halves, halves, halves)[0].reshape(x.shape)


WEIGHING = {"weights of each head": by_heads, "average weights": by_average}
APART = {
    "one record's own": lambda layer, x, first: torch.stack([layer(one, one, one)[0] for one in x]),
    "windows": in_windows,
}
OPTIONS: dict[str, dict] = {
    "plain": {},
    "sequence first": {"batch_first": False},
    "bias_k and bias_v": {"add_bias_kv": True},
    "zero attention": {"add_zero_attn": True},
    "all of it, sequence first": {"add_bias_kv": True, "add_zero_attn": True, "batch_first": False},
    "no bias": {"bias": False},
    "separate": {"kdim": E, "vdim": E},
}
CASES = [*itertools.product((*CALLS, *WEIGHING), OPTIONS)]
CASES += [("one record's own", "plain"), ("windows", "plain"), ("windows", "bias_k and bias_v")]


def made(call: str, name: str, frozen: tuple[str, ...] = ()) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(E, 2, **({"batch_first": True} | OPTIONS[name]))
    if "kdim" in OPTIONS[name]:
        # Projections of their own though all widths agree: PyTorch fuses them only then.
        layer._qkv_same_embed_dim = False
        for one in ("q", "k", "v"):
            layer.register_parameter(f"{one}_proj_weight", nn.Parameter(torch.randn(E, E)))
        layer.register_parameter("in_proj_weight", None)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    for one in frozen:
        layer.get_parameter(one).requires_grad_(False)
    first = layer.batch_first

    def forward(m: Written, x):
        given = x if first else x.transpose(0, 1)
        if call in WEIGHING or call in APART:
            return (WEIGHING | APART)[call](m.layer, given, first)
        other = x[:, : T - 1].tanh()
        out = CALLS[call](m.layer, given, other if first else other.transpose(0, 1), x[:, :, 0] > 1.5, first)
        return out if first else out.transpose(0, 1)

    return Written(forward, layer=layer).double()


def assert_right(model: nn.Module, x: torch.Tensor, captured: bool = True):
    y = torch.randn(len(x), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    engine = PrivateGradients(model, oracle.squared_loss)
    rows = oracle.rows(model, oracle.squared_loss, x, y)
    lengths = torch.stack([one.flatten(1).square().sum(1) for one in rows.values()]).sum(0).sqrt()
    clip = 0.7 * float(lengths.median())
    found = engine.clipped_sum(x, y, clip_norm=clip).tensors
    oracle.assert_same(found, oracle.clipped_sum(model, oracle.squared_loss, x, y, clip), 1e-9)
    if captured:
        assert set(engine.routes.values()) == {Route.ONE_PASS}, engine.routes


def inputs() -> torch.Tensor:
    return torch.randn(B, T, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(("call", "name"), CASES)
def test_attention_is_that_of_one_record_at_a_time(call, name):
    assert_right(made(call, name), inputs())


@pytest.mark.parametrize("frozen", [("in_proj_weight",), ("in_proj_bias",), ("out_proj.weight", "out_proj.bias")])
@pytest.mark.parametrize("call", ["self", "cross", "fused and apart"])
def test_frozen_parts_are_left_out(call, frozen):
    assert_right(made(call, "plain", frozen), inputs())


BAGS = {
    "once": lambda m, words: m.bag(words),
    "twice": lambda m, words: m.bag(words) + m.bag(words[:, :2]).tanh(),
    "several bags": lambda m, words: m.bag(words.reshape(-1, 3)).view(len(words), -1, 3).tanh().sum(1),
    "weighted": lambda m, words: m.bag(words, per_sample_weights=m.scores(words)[..., 0]),
    "same words for all": lambda m, words: (
        m.bag(torch.arange(4)[None]).expand(len(words), -1) * words.double().mean(1, keepdim=True)
    ),
}


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize(
    ("call", "mode"),
    [
        *itertools.product(["once", "twice", "several bags", "same words for all"], ["sum", "mean", "max"]),
        ("weighted", "sum"),  # PyTorch weighs words in sums alone
    ],
)
def test_bags_are_those_of_one_record_at_a_time(call, mode, padding):
    torch.manual_seed(0)
    model = Written(
        lambda m, words: m.head(BAGS[call](m, words)),
        bag=nn.EmbeddingBag(9, 3, mode=mode, padding_idx=padding),
        head=nn.Linear(3, 2),
        scores=nn.Embedding(9, 1).requires_grad_(call == "weighted"),
    ).double()
    words = torch.randint(0, 9, (B, 6))
    words[0] = 2  # nothing but padding, where there is padding
    assert_right(model, words, captured=mode != "max" and call != "same words for all")
