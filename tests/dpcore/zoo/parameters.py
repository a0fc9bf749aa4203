"""Parameters of every kind: tied, frozen, parametrized, expanded, complex, of no dimension, in any precision."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from tests.dpcore.zoo.case import Demand, codes, normal, squared_loss
from tests.dpcore.zoo.written import Written, frozen, lin, number, plain, wide, written, zero_head

R, S = Demand.RIGHT, Demand.SAFE


def tied_table(m: Written, words: Tensor) -> Tensor:
    return F.linear(torch.tanh(m.table(words)), m.table.weight).mean(1)


def shared(first: nn.Module, second: nn.Module) -> nn.Module:
    second.weight = first.weight
    return second


def tied_layers() -> nn.Module:
    first = nn.Linear(4, 4)
    return nn.Sequential(first, nn.Tanh(), shared(first, nn.Linear(4, 4)))


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


def doubles(shape: int):
    return lambda size: torch.randn(size, shape, dtype=torch.float64)


def halves(size: int) -> Tensor:
    return torch.randn(size, 4).bfloat16()


def float_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared_loss(outputs.float(), targets)


def spectral(m: nn.Module) -> nn.Module:
    return parametrizations.spectral_norm(m)


CASES = [
    plain("words, positions, class token, attention, tied output", language_model, draw=codes(4), tolerance=1e-5),
    written(
        "a class token",
        lambda m, x: m.head(torch.cat([m.token.expand(len(x), -1), m.layer(x)], 1)),
        token=lambda: number(1, 2),
        layer=lin,
        head=lambda: nn.Linear(5, 2),
        demand=R,
    ),
    written(
        "positions as many as records",
        lambda m, x: m.head(x + m.places(torch.arange(5))),
        draw=normal(5, 4),
        places=lambda: nn.Embedding(5, 4),
        head=lin,
        demand=R,
    ),
    written("output tied to the words", tied_table, draw=codes(3), table=lambda: nn.Embedding(7, 4), demand=R),
    plain("two layers with one weight", tied_layers),
    written("a parameter that nothing uses", lambda m, x: m.layer(x), layer=lin, spare=lambda: number(3), demand=S),
    written(
        "a head that is zero",
        lambda m, x: m.head(torch.tanh(m.layer(x))),
        layer=lin,
        head=lambda: zero_head(3, 2),
        demand=R,
    ),
    plain("biases alone", lambda: frozen(nn.Sequential(lin(), nn.Tanh(), nn.Linear(3, 2)), "bias")),
    written(
        "low-rank adapters",
        adapted,
        base=lambda: frozen(lin()),
        down=lambda: nn.Linear(4, 2, bias=False),
        up=lambda: zero_head(2, 3),
        demand=R,
    ),
    plain("spectral normalisation, which learns", lambda: nn.Sequential(spectral(lin())), demand=S),
    plain("a weight of a subclass of tensors", subclassed, demand=S),
    plain("complex weights", complex_model, demand=S),
    written(
        "a complex scale",
        lambda m, x: torch.view_as_real(m.layer(x) * m.scale).flatten(1),
        layer=lin,
        scale=lambda: nn.Parameter(torch.randn(3, dtype=torch.complex64)),
        demand=S,
    ),
    written(
        "a spectrum inside",
        lambda m, x: m.head(torch.fft.rfft(m.layer(x)).abs()),
        layer=wide,
        head=lambda: nn.Linear(3, 2),
        demand=R,
    ),
    plain(
        "float64", lambda: nn.Sequential(lin(), nn.Tanh(), nn.Linear(3, 2)).double(), draw=doubles(4), tolerance=1e-12
    ),
    plain(
        "float64, expanded",
        lambda: Written(lambda m, x: m.layer(x) * m.scale, layer=lin(), scale=number()).double(),
        draw=doubles(4),
        tolerance=1e-12,
    ),
    plain(
        "float64, attention",
        lambda: nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True).double(),
        draw=lambda size: torch.randn(size, 3, 4).double(),
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
    plain(
        "bfloat16, expanded",
        lambda: Written(lambda m, x: m.layer(x) * m.scale, layer=lin(), scale=number()).bfloat16(),
        draw=halves,
        loss=float_loss,
        tolerance=3e-2,
    ),
]
