"""Models that private steps are timed on, and their data; `opacus` where Opacus needs layers of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpcore.gradients.chain import cross_entropy
from trainables.models.pretrained import import_torchvision

import_torchvision()
CLASSES = 10


def logistic(opacus: bool) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, CLASSES))


def mlp(opacus: bool) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, CLASSES))


def cnn(opacus: bool) -> nn.Module:
    """The two-convolution MNIST model of Opacus's and TensorFlow Privacy's tutorials."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, CLASSES),
    )


WIDTH, TIME = 64, 32


class Block(nn.Module):
    def __init__(self, opacus: bool) -> None:
        super().__init__()
        if opacus:
            from opacus.layers import DPMultiheadAttention

            self.attention = DPMultiheadAttention(WIDTH, 4, batch_first=True)
        else:
            self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norms[0](x + self.attention(x, x, x, need_weights=False)[0])
        return self.norms[1](x + self.narrow(torch.relu(self.wide(x))))


class Transformer(nn.Module):
    """Two layers over sequences [B, 32, 28]. Opacus has no rule for a parameter of the model's own: there its table of
    positions is an embedding that is asked for every record."""

    def __init__(self, opacus: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(28, WIDTH)
        self.opacus = opacus
        if opacus:
            self.places = nn.Embedding(TIME, WIDTH)
        else:
            self.positions = nn.Parameter(torch.randn(TIME, WIDTH))
        self.blocks = nn.ModuleList([Block(opacus), Block(opacus)])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        places = self.places(torch.arange(TIME).expand(len(x), -1)) if self.opacus else self.positions
        h = self.inner(x) + places
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean(1))


WORDS, LENGTH, EMBEDDED = 10_000, 128, 32


class MeanOfWords(nn.Module):
    def __init__(self, opacus: bool) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(WORDS, EMBEDDED), nn.Linear(EMBEDDED, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.table(words).mean(1))


def bag_of_words(opacus: bool) -> nn.Module:
    return nn.Sequential(nn.EmbeddingBag(WORDS, EMBEDDED, mode="mean"), nn.Linear(EMBEDDED, CLASSES))


@dataclass(frozen=True)
class Timed:
    """make: from whether Opacus will run it to the model. draw: inputs of so many records. goal: least speed against
    plain SGD, None without one. targets, loss: of so many records, and [B] of outputs and targets. batch: records.
    opacus: whether it ends in a time that one waits for."""

    make: Callable[[bool], nn.Module]
    draw: Callable[[int], Tensor]
    goal: float | None = None
    targets: Callable[[int], Tensor] = lambda size: torch.randint(0, CLASSES, (size,))
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy
    batch: int = 256
    opacus: bool = True


def _images(size: int) -> Tensor:
    return torch.randn(size, 1, 28, 28)


def _words(size: int) -> Tensor:
    return torch.randint(0, WORDS, (size, LENGTH))


TIMED = {
    "LR 784-10": Timed(logistic, _images),
    "MLP 784-256-10": Timed(mlp, _images, 0.8),
    "CNN": Timed(cnn, _images, 0.7),
    "Transformer": Timed(Transformer, lambda size: torch.randn(size, TIME, 28), 0.6),
    "Embedding, mean": Timed(MeanOfWords, _words),
    "EmbeddingBag": Timed(bag_of_words, _words),
}


# What people fine-tune, in shapes that a core computes in a second: four layers, 256 wide, 128 tokens.


class Said(nn.Module):
    """The logits of a model of transformers. Opacus asks that positions are looked up for every record."""

    def __init__(self, model: nn.Module, positions: bool = False) -> None:
        super().__init__()
        self.model, self.positions = model, positions

    def forward(self, x: Tensor) -> Tensor:
        more = {"position_ids": torch.arange(x.shape[1]).expand(len(x), -1)} if self.positions else {}
        found: Tensor = self.model(x, **more).logits
        return found


def token_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over each record's tokens; shape [B]."""
    return F.cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(1)


def gpt2(opacus: bool, layers: int = 4, width: int = 256, vocabulary: int = 4096) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    shape: dict[str, Any] = {"n_layer": layers, "n_embd": width, "n_head": width // 64, "n_positions": LENGTH}
    off: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return Said(GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, **shape, **off, use_cache=False)), opacus)


ENCODER: dict[str, Any] = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4}
ENCODER |= {"intermediate_size": 1024, "num_labels": CLASSES}
ENCODER |= dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)


def bert_lora(opacus: bool) -> nn.Module:
    from peft import LoraConfig, get_peft_model
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(vocab_size=WORDS, **ENCODER))
    adapters = LoraConfig(r=8, target_modules=["query", "value"], modules_to_save=["classifier"])
    return Said(get_peft_model(model, adapters))


def vit(opacus: bool) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return Said(ViTForImageClassification(ViTConfig(image_size=64, patch_size=8, **ENCODER)))


def convnext(opacus: bool) -> nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    shape: dict[str, Any] = {"hidden_sizes": [32, 64, 128, 256], "depths": [1, 1, 2, 1], "image_size": 64}
    return Said(ConvNextForImageClassification(ConvNextConfig(**shape, num_labels=CLASSES)))


class Lstm(nn.Module):
    def __init__(self, opacus: bool) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(WORDS, 64), nn.Linear(128, CLASSES)
        if opacus:
            from opacus.layers import DPLSTM

            self.cell = DPLSTM(64, 128, batch_first=True)
        else:
            self.cell = nn.LSTM(64, 128, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.cell(self.table(x))[0][:, -1])
        return found


def _codes(vocabulary: int, length: int = LENGTH) -> Callable[[int], Tensor]:
    return lambda size: torch.randint(0, vocabulary, (size, length))


def _pictures(size: int) -> Tensor:
    return torch.randn(size, 3, 64, 64)


GOAL = 1 / 1.6
FINE_TUNED = {
    "GPT-2-shaped": Timed(gpt2, _codes(4096), GOAL, _codes(4096), token_loss, 8),
    "BERT-shaped, LoRA 8": Timed(bert_lora, _codes(WORDS), GOAL, batch=16),
    "ViT-shaped": Timed(vit, _pictures, GOAL, batch=16),
    "ConvNeXt-shaped": Timed(convnext, _pictures, GOAL, batch=16),
    "LSTM": Timed(Lstm, _codes(WORDS, 64), GOAL, batch=64),
    "EmbeddingBag": TIMED["EmbeddingBag"],
    "GPT-2 of width 768, one layer": Timed(
        lambda opacus: gpt2(opacus, 1, 768, 50_257),
        _codes(50_257, 32),
        GOAL,
        _codes(50_257, 32),
        token_loss,
        16,
        opacus=False,
    ),
}
