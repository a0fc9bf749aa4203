"""The kinds of layer that one pass serves. A newcomer is one file with a rule and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from dpcore.gradients.layers.attention import attention, attention_forward
from dpcore.gradients.layers.convolution import convolution
from dpcore.gradients.layers.embedding import bag_forward, embedding, embedding_bag
from dpcore.gradients.layers.linear import linear
from dpcore.gradients.layers.normalisation import group_norm, layer_norm, rms_norm
from dpcore.gradients.layers.protocol import (
    Contribution,
    Kind,
    Materialised,
    NotServed,
    Tap,
    Use,
    accumulated,
    accumulation_type,
    tapped_at_the_end,
    trainable,
)

Kinds = Mapping[type[nn.Module], Kind]

# Exact types: a subclass may compute something else.
KINDS: Kinds = {
    nn.Linear: Kind(linear),
    nn.Conv1d: Kind(convolution),
    nn.Conv2d: Kind(convolution),
    nn.Conv3d: Kind(convolution),
    nn.Embedding: Kind(embedding),
    nn.LayerNorm: Kind(layer_norm),
    nn.RMSNorm: Kind(rms_norm),
    nn.GroupNorm: Kind(group_norm),
    nn.EmbeddingBag: Kind(embedding_bag, bag_forward),
    nn.MultiheadAttention: Kind(attention, attention_forward),
    # the next kind of layer goes here
}

__all__ = [
    "KINDS",
    "Contribution",
    "Kind",
    "Kinds",
    "Materialised",
    "NotServed",
    "Tap",
    "Use",
    "accumulated",
    "accumulation_type",
    "tapped_at_the_end",
    "trainable",
]
