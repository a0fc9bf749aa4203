"""nn.MultiheadAttention and nn.EmbeddingBag in one pass, against one record at a time and PyTorch's own forward."""

import itertools

import pytest
import torch
from torch import nn

from dpcore.gradients import PrivateGradients, Route
from tests.dpcore import gradient_oracle as oracle

torch.set_num_threads(1)
B, T, E = 5, 4, 8


class Attends(nn.Module):
    """Attention as it is called in one of several ways."""

    def __init__(self, call: str = "self", frozen: tuple[str, ...] = (), **options) -> None:
        super().__init__()
        options = {"batch_first": True, **options}
        self.layer = nn.MultiheadAttention(E, 2, **options)
        with torch.no_grad():
            for one in self.layer.parameters():
                one.copy_(0.5 * torch.randn_like(one))
        for name in frozen:
            self.layer.get_parameter(name).requires_grad_(False)
        self.call, self.first = call, options["batch_first"]

    def forward(self, x):
        x = x if self.first else x.transpose(0, 1)
        time = 1 if self.first else 0
        other = x.narrow(time, 0, T - 1).tanh()
        causal = torch.ones(T, T, dtype=torch.bool).triu(1)
        hidden = (x if self.first else x.transpose(0, 1))[:, :, 0] > 1.5
        match self.call:
            case "self":
                out = self.layer(x, x, x)[0]
            case "without weights":
                out = self.layer(x, x, x, need_weights=False)[0]
            case "weights of each head":
                out, weights = self.layer(x, x, x, average_attn_weights=False)
                out = (out if self.first else out.transpose(0, 1)) + weights.sum((1, 3))[:, :, None]
                return out
            case "average weights":
                out, weights = self.layer(x, x, x)
                out = (out if self.first else out.transpose(0, 1)) * weights[..., :1]
                return out
            case "cross":
                out = self.layer(x, other, other)[0]
            case "three inputs":
                out = self.layer(x, other, other.cos())[0]
            case "causal":
                out = self.layer(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0]
            case "added mask":
                out = self.layer(x, x, x, attn_mask=causal.double() * -2)[0]
            case "mask of each head":
                heads = torch.stack([causal, causal.T]).double().repeat(x.shape[1 - time], 1, 1) * -3
                out = self.layer(x, x, x, attn_mask=heads)[0]
            case "padding":
                out = self.layer(x, x, x, key_padding_mask=hidden)[0]
            case "padding and mask":
                out = self.layer(x, x, x, key_padding_mask=hidden, attn_mask=causal)[0]
            case "twice":
                out = self.layer(x, x, x)[0]
                out = self.layer(out, out, out)[0]
            case "fused and apart":
                out = self.layer(x, x, x)[0]
                out = self.layer(out, other, other)[0]
            case "one record's own":
                out = torch.stack([self.layer(one, one, one)[0] for one in x])
            case "windows":
                # Two windows of each record stand where records would.
                halves = x.reshape(-1, T // 2, E)
                out = self.layer(halves, halves, halves)[0].reshape(x.shape)
        return out if self.first else out.transpose(0, 1)


CALLS = [
    "self",
    "without weights",
    "weights of each head",
    "average weights",
    "cross",
    "three inputs",
    "causal",
    "added mask",
    "mask of each head",
    "padding",
    "padding and mask",
    "twice",
    "fused and apart",
]
OPTIONS: dict[str, dict] = {
    "plain": {},
    "sequence first": {"batch_first": False},
    "bias_k and bias_v": {"add_bias_kv": True},
    "zero attention": {"add_zero_attn": True},
    "all of it, sequence first": {"add_bias_kv": True, "add_zero_attn": True, "batch_first": False},
    "no bias": {"bias": False},
    "separate": {"kdim": E, "vdim": E},
}
CASES = [(call, name) for call, name in itertools.product(CALLS, OPTIONS)] + [
    ("one record's own", "plain"),
    ("windows", "plain"),
    ("windows", "bias_k and bias_v"),
]


def separate(options: dict, model: nn.Module) -> nn.Module:
    """Projections of their own though all widths agree: PyTorch fuses them only then."""
    if "kdim" in options:
        layer = model.layer
        layer._qkv_same_embed_dim = False
        for name in ("q", "k", "v"):
            layer.register_parameter(f"{name}_proj_weight", nn.Parameter(0.5 * torch.randn(E, E)))
        layer.register_parameter("in_proj_weight", None)
    return model


def made(call: str, name: str, **more) -> nn.Module:
    torch.manual_seed(0)
    return separate(OPTIONS[name], Attends(call, **OPTIONS[name], **more)).double()


def inputs(batch: int = B) -> torch.Tensor:
    return torch.randn(batch, T, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def assert_right(model: nn.Module, x: torch.Tensor, *, captured: bool = True, loss=oracle.squared_loss, tol=1e-9):
    y = torch.randn(len(x), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    engine = PrivateGradients(model, loss)
    clip = 0.7 * float(sorted(oracle.norm(row) for row in rows_of(model, loss, x, y))[len(x) // 2])
    found = engine.clipped_sum(x, y, clip_norm=clip).tensors
    expected = oracle.clipped_sum(model, loss, x, y, clip)
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        torch.testing.assert_close(found[name].double(), one, rtol=tol, atol=tol)
    if captured:
        assert set(engine.routes.values()) == {Route.ONE_PASS}, engine.routes


def rows_of(model, loss, x, y):
    by_name = oracle.rows(model, loss, x, y)
    return [{name: several[b] for name, several in by_name.items()} for b in range(len(y))]


@pytest.mark.parametrize(("call", "name"), CASES)
def test_attention_is_that_of_one_record_at_a_time(call, name):
    assert_right(made(call, name), inputs())


@pytest.mark.parametrize("frozen", [("in_proj_weight",), ("in_proj_bias",), ("out_proj.weight", "out_proj.bias")])
@pytest.mark.parametrize("call", ["self", "cross", "fused and apart"])
def test_frozen_parts_are_left_out(call, frozen):
    assert_right(made(call, "plain", frozen=frozen), inputs())


# EmbeddingBag


class Bags(nn.Module):
    def __init__(self, call: str = "once", **options) -> None:
        super().__init__()
        self.bag, self.head, self.call = nn.EmbeddingBag(9, 3, **options), nn.Linear(3, 2), call
        self.scores = nn.Embedding(9, 1)

    def forward(self, words):
        match self.call:
            case "once":
                h = self.bag(words)
            case "twice":
                h = self.bag(words) + self.bag(words[:, :2]).tanh()
            case "several bags":
                h = self.bag(words.reshape(-1, 3)).view(len(words), -1, 3).tanh().sum(1)
            case "weighted":
                h = self.bag(words, per_sample_weights=self.scores(words)[..., 0])
            case "same words for all":
                h = self.bag(torch.arange(4)[None]).expand(len(words), -1) * words.double().mean(1, keepdim=True)
        return self.head(h)


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
    model = Bags(call, mode=mode, padding_idx=padding).double()
    if call != "weighted":
        model.scores.requires_grad_(False)
    words = torch.randint(0, 9, (B, 6))
    words[0] = 2  # nothing but padding, where there is padding
    assert_right(model, words, captured=mode != "max" and call != "same words for all")
