"""nn.MultiheadAttention: four linear maps, each with a linear layer's rule, and the biases of keys and values.

H heads, L queries, S keys, E width of all heads together. The attention between them has no parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpcore.gradients.layers.linear import product
from dpcore.gradients.layers.protocol import Contribution, Materialised, Tap, Use, trainable

_WHOLE, _PARTS, _OUT = "in", ("q", "k", "v"), "out"
_ROWS = ("bias_k", "bias_v")


def attention_forward(
    module: nn.Module,
    tap: Tap,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What nn.MultiheadAttention returns, its projections tapped. As there, `is_causal` is a hint beside a mask."""
    layer = cast(nn.MultiheadAttention, module)
    if is_causal and attn_mask is None:
        raise RuntimeError("is_causal needs attn_mask beside it, as nn.MultiheadAttention says")
    batched, same = query.ndim == 3, query is key and key is value
    x_q, x_k, x_v = (_batch_first(one, layer.batch_first) for one in (query, key, value))
    q, k, v = _projected(layer, tap, x_q, x_k, x_v, same)
    # As there: where the hint is taken, it stands for the mask, and hides what is appended to the keys as well.
    hinted = is_causal and key_padding_mask is None and not need_weights
    mask = None if hinted else _mask(layer, attn_mask, key_padding_mask, q)
    if layer.bias_k is not None and layer.bias_v is not None:
        # A row for each record, so that its gradient is the record's own.
        k = torch.cat([k, tap(k, layer.bias_k + torch.zeros_like(k[:, :1]), "bias_k")], 1)
        v = torch.cat([v, tap(v, layer.bias_v + torch.zeros_like(v[:, :1]), "bias_v")], 1)
    if layer.add_zero_attn:
        k, v = (torch.cat([one, torch.zeros_like(one[:, :1])], 1) for one in (k, v))
    if mask is not None:
        mask = F.pad(mask, (0, k.shape[1] - mask.shape[-1]))
    q, k, v = (one.unflatten(2, (layer.num_heads, -1)).transpose(1, 2) for one in (q, k, v))
    dropout = layer.dropout if layer.training else 0.0
    weights = None
    if need_weights:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        weights = F.dropout((scores if mask is None else scores + mask).softmax(-1), dropout)
        mixed = weights @ v
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout, hinted)
    mixed = mixed.transpose(1, 2).flatten(2)
    output = tap(mixed, F.linear(mixed, layer.out_proj.weight, layer.out_proj.bias), _OUT)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if not batched:
        return output.squeeze(0), None if weights is None else weights.squeeze(0)
    return output if layer.batch_first else output.transpose(0, 1), weights


def _batch_first(one: Tensor, batch_first: bool) -> Tensor:
    if one.ndim == 2:
        return one.unsqueeze(0)
    return one if batch_first else one.transpose(0, 1)


def _projected(
    layer: nn.MultiheadAttention, tap: Tap, x_q: Tensor, x_k: Tensor, x_v: Tensor, same: bool
) -> tuple[Tensor, ...]:
    bias = layer.in_proj_bias
    if layer._qkv_same_embed_dim and same:
        return tap(x_q, F.linear(x_q, layer.in_proj_weight, bias), _WHOLE).chunk(3, -1)
    weights: Sequence[Any] = (
        layer.in_proj_weight.chunk(3)
        if layer._qkv_same_embed_dim
        else (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    )
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(
        tap(x, F.linear(x, weight, one), part)
        for x, weight, one, part in zip((x_q, x_k, x_v), weights, biases, _PARTS, strict=True)
    )


def _mask(
    layer: nn.MultiheadAttention, attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor
) -> Tensor | None:
    """What is added to the scores, [N or 1, H or 1, L or 1, S]; True hides a key."""
    masks = []
    if attn_mask is not None:
        attn_mask = _added(attn_mask, q)
        masks.append(attn_mask if attn_mask.ndim == 2 else attn_mask.unflatten(0, (len(q), layer.num_heads)))
    if key_padding_mask is not None:
        hidden = key_padding_mask.unsqueeze(0) if key_padding_mask.ndim == 1 else key_padding_mask
        masks.append(_added(hidden, q)[:, None, None, :])
    if not masks:
        return None
    return masks[0] if len(masks) == 1 else masks[0] + masks[1]


def _added(mask: Tensor, q: Tensor) -> Tensor:
    if mask.dtype is not torch.bool:
        return mask.to(q.dtype)
    return torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask, float("-inf"))


def attention(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.MultiheadAttention, its uses tapped by `attention_forward`."""
    layer = cast(nn.MultiheadAttention, module)
    names, by_part = trainable(layer), _by_part(uses)
    pieces: list[Piece] = []

    def linear_map(part: str, weight: str, bias: str, block: int | None = None) -> None:
        own = {local for local, name in (("weight", weight), ("bias", bias)) if name in names}
        if own and part in by_part:
            pieces.append(Piece(product(by_part[part], own), {"weight": weight, "bias": bias}, block))

    linear_map(_WHOLE, "in_proj_weight", "in_proj_bias")
    for block, part in enumerate(_PARTS):
        if layer._qkv_same_embed_dim:
            linear_map(part, "in_proj_weight", "in_proj_bias", block)
        else:
            linear_map(part, f"{part}_proj_weight", "in_proj_bias", block)
    linear_map(_OUT, "out_proj.weight", "out_proj.bias")
    for row in _ROWS:
        if row in names and row in by_part:
            total = torch.stack([use.gradients.flatten(1, -2).sum(1) for use in by_part[row]]).sum(0)
            pieces.append(Piece(Materialised({row: total[:, None, None]}), {row: row}, None))
    return Together(pieces, names)


def _by_part(uses: Sequence[Use]) -> dict[str, list[Use]]:
    """Where the fused projection of one use and the single ones of another share a weight, both count as single."""
    apart = any(use.part in _PARTS for use in uses)
    out: dict[str, list[Use]] = {}
    for use in uses:
        if use.part == _WHOLE and apart:
            for part, gradients in zip(_PARTS, use.gradients.chunk(3, -1), strict=True):
                out.setdefault(part, []).append(replace(use, gradients=gradients, part=part))
        else:
            out.setdefault(use.part, []).append(use)
    return out


@dataclass(frozen=True, slots=True)
class Piece:
    """names: the layer's parameter for each of the contribution's own; block: which third of it, None for all of it.
    A weight of its own (`q_proj_weight`) is whole even where the bias is a third."""

    contribution: Contribution
    names: Mapping[str, str]
    block: int | None


class Together:
    """Pieces of parameters that do not overlap."""

    def __init__(self, pieces: Sequence[Piece], parameters: Mapping[str, nn.Parameter]) -> None:
        self._pieces, self._parameters = pieces, parameters
        self.squared_norms = torch.stack([one.contribution.squared_norms for one in pieces]).sum(0)

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for piece in self._pieces:
            for local, found in piece.contribution.weighted_sum(weights_U).items():
                name = piece.names[local]
                shape = self._parameters[name].shape
                if found.shape == shape:
                    out[name] = found
                else:
                    assert piece.block is not None
                    out.setdefault(name, found.new_zeros(shape)).chunk(3)[piece.block].copy_(found)
        return out
