"""The kinds of layer that one pass serves. A newcomer is one file with a rule and one line here."""

from __future__ import annotations

from torch import nn

from dpcore.gradients.layers.attention import attention, attention_forward
from dpcore.gradients.layers.convolution import convolution
from dpcore.gradients.layers.embedding import bag_forward, embedding, embedding_bag
from dpcore.gradients.layers.linear import linear, transposed
from dpcore.gradients.layers.normalisation import group_norm, layer_norm
from dpcore.gradients.layers.protocol import Kind, Kinds
from dpcore.gradients.layers.recurrent import recurrent, recurrent_forward

KINDS: Kinds = {
    nn.Linear: Kind(linear),
    nn.Conv1d: Kind(convolution),
    nn.Conv2d: Kind(convolution),
    nn.Conv3d: Kind(convolution),
    nn.Embedding: Kind(embedding),
    nn.LayerNorm: Kind(layer_norm),
    nn.RMSNorm: Kind(layer_norm),
    nn.GroupNorm: Kind(group_norm),
    nn.EmbeddingBag: Kind(embedding_bag, bag_forward),
    nn.MultiheadAttention: Kind(attention, attention_forward),
    **dict.fromkeys((nn.LSTM, nn.GRU, nn.RNN), Kind(recurrent, recurrent_forward)),
    "transformers.pytorch_utils.Conv1D": Kind(transposed),
    "timm.layers.norm.LayerNorm": Kind(layer_norm),
    # the next kind of layer goes here
}
