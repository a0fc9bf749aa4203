"""Private gradients of what people fine-tune, against one record at a time: architectures by ways of training them.

    python -m tests.benchmarks.architectures [--only GPT-2] [--ways LoRA]

A cell is the largest relative error of the norms and of the clipped sum, or the words of a refusal. Models are tiny and
random, of the real classes; nothing is downloaded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import typer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dpcore.gradients import PrivateGradients, Refused
from dpcore.gradients.units import GhostNorms, UnitRows
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.zoo.judging import relative_error
from trainables.models.pretrained import import_torchvision

import_torchvision()
RECORDS, TOKENS, WORDS, WIDTH, CLASSES = 5, 6, 23, 8, 3
NEAR = 1e-5
"""Largest relative error of a cell that counts as equal."""


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each record: of its class, or the mean over its tokens; shape [B]."""
    each = F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
    return each.view(len(targets), -1).mean(1)


class Said(nn.Module):
    """A model of transformers that is given `names` in their order, and what it says of them."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        found = self.model(**dict(zip(self.names, inputs, strict=True)))
        return found.logits if hasattr(found, "logits") else found.last_hidden_state


# What is fed: padded token ids and their mask, images, or numbers.


def tokens(size: int) -> tuple[Tensor, ...]:
    """Codes with padding (0) behind the words, and the ordinary two-dimensional mask."""
    words = torch.arange(TOKENS) < torch.randint(2, TOKENS + 1, (size, 1))
    return torch.randint(1, WORDS, (size, TOKENS)) * words, words.long()


def in_and_out(size: int) -> tuple[Tensor, ...]:
    codes, mask = tokens(size)
    return codes, mask, torch.randint(1, WORDS, (size, TOKENS))


def codes(size: int) -> tuple[Tensor, ...]:
    return (tokens(size)[0],)


def images(size: int) -> tuple[Tensor, ...]:
    return (torch.randn(size, 3, 32, 32),)


def numbers(size: int) -> tuple[Tensor, ...]:
    return (torch.randn(size, TOKENS, WIDTH),)


def a_class(size: int) -> Tensor:
    return torch.randint(0, CLASSES, (size,))


def a_word_each(size: int) -> Tensor:
    return torch.randint(0, WORDS, (size, TOKENS))


# Models, each by the way in which its weights are tied.


def of_transformers(name: str, config: str, tied: bool, **arguments: Any) -> nn.Module:
    import transformers

    off = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "dropout"), 0.0)
    off |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop", "dropout_rate", "summary_first_dropout"), 0.0)
    given = (TINY if "hidden_sizes" not in arguments else {}) | off | {"tie_word_embeddings": tied, **arguments}
    return getattr(transformers, name)(getattr(transformers, config)(**given))


TINY: dict[str, Any] = {
    **dict.fromkeys(("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads"), 2),
    **dict.fromkeys(("intermediate_size", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"), 12),
    **dict.fromkeys(("bos_token_id", "eos_token_id", "num_key_value_heads"), 1),
    **dict.fromkeys(("pad_token_id", "decoder_start_token_id"), 0),
    **{
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "max_position_embeddings": 16,
        "head_dim": 4,
        "num_labels": CLASSES,
        "scale_embedding": True,
    },
}
"""By the names of all configurations: each takes those that it knows."""
VIT: dict[str, Any] = {"image_size": 32, "patch_size": 16}
CONVNEXT: dict[str, Any] = {
    "hidden_sizes": [4, 6, 8, 8],
    "depths": [1, 1, 1, 1],
    "image_size": 32,
    "num_labels": CLASSES,
}


class Blocks(nn.Module):
    """Blocks one after the other between what comes first and a head."""

    def __init__(
        self, first: nn.Module, blocks: Sequence[nn.Module], head: nn.Module, pool: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__()
        self.first, self.blocks, self.head, self.pool = first, nn.ModuleList(blocks), head, pool

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.pool(x))


class Again(nn.Module):
    """A block that is computed again in the backward pass."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.block, x, use_reentrant=False)


class Residual(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


class Mixer(nn.Module):
    """Over tokens, then over channels (Tolstikhin et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.tokens, self.channels = nn.Linear(TOKENS, TOKENS), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.gelu(self.tokens(self.norms[0](x).transpose(1, 2))).transpose(1, 2)
        return x + F.gelu(self.channels(self.norms[1](x)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + self.attention(h, h, h, need_weights=False)[0]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, WIDTH, mode="mean", padding_idx=0)

    def forward(self, x: Tensor) -> Tensor:
        return self.bag(x)[:, None]


def over_tokens(x: Tensor) -> Tensor:
    return x.mean(1)


def over_places(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def sharing(first: nn.Module, second: nn.Module, tied: bool) -> None:
    """The second layer's weight is the first's, where weights are tied."""
    if tied:
        second.weight = first.weight


def resnet(tied: bool) -> nn.Module:
    def block() -> list[nn.Module]:
        return [nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.GroupNorm(2, WIDTH), nn.ReLU(inplace=True)]

    blocks = [Residual(*block(), *block()[:2]) for _ in range(2)]
    sharing(blocks[0].layers[0], blocks[1].layers[0], tied)
    return Blocks(nn.Conv2d(3, WIDTH, 3, 2), blocks, nn.Linear(WIDTH, CLASSES), over_places)


def mixer(tied: bool) -> nn.Module:
    blocks = [Mixer(), Mixer()]
    sharing(blocks[0].channels, blocks[1].channels, tied)
    return Blocks(nn.Linear(WIDTH, WIDTH), blocks, nn.Linear(WIDTH, CLASSES), over_tokens)


def attention(tied: bool) -> nn.Module:
    first = nn.Linear(WIDTH, WIDTH)
    feeding = Residual(nn.Linear(WIDTH, WIDTH), nn.GELU())
    sharing(first, feeding.layers[0], tied)
    return Blocks(first, [Attention(), feeding], nn.Linear(WIDTH, CLASSES), over_tokens)


def lstm(tied: bool) -> nn.Module:
    table, head = nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.Linear(WIDTH, WORDS)
    sharing(table, head, tied)
    return Blocks(table, [Recurrent()], head, nn.Identity())


def bag(tied: bool) -> nn.Module:
    table, feeding = Bag(), Residual(nn.Linear(WIDTH, WORDS), nn.Tanh(), nn.Linear(WORDS, WIDTH))
    sharing(table.bag, feeding.layers[0], tied)
    return Blocks(table, [feeding], nn.Linear(WIDTH, CLASSES), over_tokens)


def language_model(tied: bool) -> nn.Module:
    table, head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
    sharing(table, head, tied)
    return Blocks(table, [Attention(), Mixer()], head, nn.Identity())


class ByFunction(nn.Module):
    """A table by the function, scaled, its padding counted from the end."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WORDS, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return 3 * F.embedding(x, self.weight, padding_idx=-WORDS)


def by_function(tied: bool) -> nn.Module:
    table, feeding = ByFunction(), Residual(nn.Linear(WIDTH, WORDS), nn.Tanh(), nn.Linear(WORDS, WIDTH))
    sharing(table, feeding.layers[0], tied)
    return Blocks(table, [feeding], nn.Linear(WIDTH, CLASSES), over_tokens)


@dataclass(frozen=True)
class Architecture:
    """make: from whether weights are tied to the model. draw, targets: of so many records. names: of what a model of
    transformers is given. head, adapted: parts of the names of its last layer, and of those that LoRA adapts. blocks:
    name of the list of blocks that are computed again, where the model has no such switch of its own."""

    make: Callable[[bool], nn.Module]
    draw: Callable[[int], tuple[Tensor, ...]]
    targets: Callable[[int], Tensor]
    head: str = "head"
    adapted: str | list[str] = "all-linear"
    names: tuple[str, ...] = ()
    blocks: str = "blocks"


MASKED = ("input_ids", "attention_mask")
NAMES: dict[Any, tuple[str, ...]] = {
    tokens: MASKED,
    in_and_out: (*MASKED, "decoder_input_ids"),
    images: ("pixel_values",),
}


def _hf(
    name: str,
    config: str,
    head: str,
    draw: Callable[[int], tuple[Tensor, ...]] = tokens,
    targets: Callable[[int], Tensor] = a_class,
    blocks: str = "",
    **arguments: Any,
) -> Architecture:
    def make(tied: bool) -> nn.Module:
        return of_transformers(name, f"{config}Config", tied, **arguments)

    return Architecture(make, draw, targets, head, names=NAMES[draw], blocks=blocks)


ARCHITECTURES = {
    "GPT-2": _hf("GPT2LMHeadModel", "GPT2", "lm_head", targets=a_word_each),
    "BERT": _hf("BertForMaskedLM", "Bert", "cls", targets=a_word_each),
    # Its output is tied to its words whatever the configuration says.
    "T5": _hf("T5ForConditionalGeneration", "T5", "shared", in_and_out, a_word_each),
    "Llama": _hf("LlamaForCausalLM", "Llama", "lm_head", targets=a_word_each),
    "ViT": _hf("ViTForImageClassification", "ViT", "classifier", images, **VIT),
    "ConvNeXt": _hf(
        "ConvNextForImageClassification",
        "ConvNext",
        "classifier",
        images,
        blocks="convnext.encoder.stages",
        **CONVNEXT,
    ),
    "ResNet with GroupNorm": Architecture(resnet, images, a_class, adapted=["layers.0", "layers.3"]),
    "LSTM": Architecture(lstm, codes, a_word_each, adapted=["first", "head"]),
    "EmbeddingBag": Architecture(bag, codes, a_class),
    "MLP-Mixer": Architecture(mixer, numbers, a_class),
    "nn.MultiheadAttention": Architecture(attention, numbers, a_class, adapted=["first", "layers.0"]),
    "Tied language model": Architecture(language_model, codes, a_word_each),
}
RELATIVE: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "pooler_dropout": 0.0}
PADDED = {
    "GPT-2, classes": _hf("GPT2ForSequenceClassification", "GPT2", "score"),
    "BERT, classes": _hf("BertForSequenceClassification", "Bert", "classifier"),
    "DeBERTa-v2": _hf("DebertaV2ForSequenceClassification", "DebertaV2", "classifier", **RELATIVE),
    "Gemma 3 (scaled table)": _hf("Gemma3ForCausalLM", "Gemma3Text", "lm_head", targets=a_word_each),
    "BART (scaled table)": _hf("BartForConditionalGeneration", "Bart", "lm_head", in_and_out, a_word_each),
    "F.embedding with padding": Architecture(by_function, codes, a_class),
}
"""More models with padding in every batch, some of whose tables are not nn.Embedding itself."""


# Ways of training.


def full(given: Architecture) -> nn.Module:
    return given.make(False)


def lora(given: Architecture) -> nn.Module:
    import peft

    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=given.adapted, init_lora_weights=False)
    return peft.get_peft_model(given.make(False), config)


def head_alone(given: Architecture) -> nn.Module:
    return _training(given.make(False), lambda name: given.head in name)


def checkpointed(given: Architecture) -> nn.Module:
    model: Any = given.make(False)
    if getattr(model, "supports_gradient_checkpointing", False):
        model.gradient_checkpointing_enable({"use_reentrant": False})
        return model
    blocks = model.get_submodule(given.blocks)
    for name, block in blocks.named_children():
        setattr(blocks, name, Again(block))
    return model


def tied(given: Architecture) -> nn.Module:
    """As the model ties its weights; where it does not, two layers of one shape share theirs."""
    model = given.make(True)
    first: dict[torch.Size, nn.Linear] = {}
    if len(list(model.named_parameters())) == len(list(model.named_parameters(remove_duplicate=False))):
        for layer in model.modules():
            if isinstance(layer, nn.Linear) and layer is not first.setdefault(layer.weight.shape, layer):
                layer.weight = first[layer.weight.shape].weight
                break
    return model


def partly_frozen(given: Architecture) -> nn.Module:
    """Every other parameter."""
    model = given.make(False)
    for number, one in enumerate(model.parameters()):
        one.requires_grad_(number % 2 == 1)
    return model


def _training(model: nn.Module, chosen: Callable[[str], bool]) -> nn.Module:
    for name, one in model.named_parameters():
        one.requires_grad_(chosen(name))
    return model


WAYS: dict[str, Callable[[Architecture], nn.Module]] = {
    "full": full,
    "LoRA": lora,
    "head alone": head_alone,
    "checkpointed": checkpointed,
    "tied": tied,
    "frozen": partly_frozen,
}


@dataclass(frozen=True)
class Cell:
    """error: largest relative one of norms and of the clipped sum. refused: the words, "" where it was not."""

    error: float
    refused: str = ""

    @property
    def right(self) -> bool:
        return bool(self.refused) or self.error <= NEAR


def cell(given: Architecture, way: str) -> Cell:
    """One model trained in one way: as private gradients form it against one record at a time."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = WAYS[way](given)
        if given.names:
            model = Said(model, given.names)
        model.train()
        with torch.no_grad():
            for one in model.parameters():
                one.add_(0.3 * torch.randn_like(one))
        inputs, targets = given.draw(RECORDS), given.targets(RECORDS)
        rows = oracle.rows(model, loss, inputs, targets)
        norms = torch.stack([one.double().flatten(1).square().sum(1) for one in rows.values()]).sum(0).sqrt()
        clip = 0.9 * float(norms.median())
        factors = (clip / norms).clamp(max=1.0)
        expected = {name: torch.einsum("b,b...->...", factors, one.double()) for name, one in rows.items()}
        try:
            engine = PrivateGradients(model, loss)
            engine.check(given.draw(RECORDS), given.targets(RECORDS))
            found = engine.clipped_sum(inputs, targets, clip_norm=clip).tensors
        except Refused as error:
            return Cell(float("nan"), " ".join(str(error).split()))
        own = engine._passes
        squared = GhostNorms.of(own.recorded(inputs, (targets,)), UnitRows(RECORDS, 1), own).squared_norms
        return Cell(max(relative_error(found, expected), float((squared.sqrt() / norms - 1).abs().max())))


def main(
    only: Annotated[str, typer.Option(help="architectures whose name contains this")] = "",
    ways: Annotated[list[str] | None, typer.Option(help="all unless given")] = None,
) -> None:
    import peft
    import transformers

    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}")
    chosen = ways or [*WAYS]
    print(f"{'':26s}" + "".join(f"{way:>14s}" for way in chosen))
    cells: list[Cell] = []
    for name, given in (ARCHITECTURES | PADDED).items():
        if only in name:
            row = [cell(given, way) for way in chosen]
            cells += row
            print(f"{name:26s}" + "".join(f"{'refused' if one.refused else f'{one.error:.1g}':>14s}" for one in row))
            for way, one in zip(chosen, row, strict=True):
                if one.refused:
                    print(f"    {way}: {one.refused}")
    equal, refused = sum(one.error <= NEAR for one in cells), sum(bool(one.refused) for one in cells)
    wrong = len(cells) - equal - refused
    print(f"{equal} of {len(cells)} equal one record at a time to {NEAR:g}, {refused} refused, {wrong} wrong")
    raise typer.Exit(0 if all(one.right for one in cells) else 1)


if __name__ == "__main__":
    typer.run(main)
