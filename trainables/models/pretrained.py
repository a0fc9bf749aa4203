"""Weights that a model of the user's own loads: known by a digest, for no seed draws them again.

A code fingerprint holds the files of the user's packages. Weights that a module loads from a hub, or from a folder that
an environment names, are in none of them.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from trainables.adaptation import AS_BUILT, Adaptation, check_folder, folder_of, tensor_files
from trainables.metrics import MASKED
from trainables.system import DatasetSpec, Task


def pretrained_fingerprint(make: Callable[[], nn.Module]) -> str:
    """Digest of the tensors of a model that are the same under two seeds of torch's generator."""
    first, second = seeded(0, make), seeded(1, make)
    drawn = dict([*second.named_parameters(), *second.named_buffers()])
    tensors = dict([*first.named_parameters(), *first.named_buffers()])
    return digest({name: one for name, one in tensors.items() if name in drawn and torch.equal(one, drawn[name])})


def seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    """What `make` returns under a seed of torch's generator, which is as it was afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def untrained(model: nn.Module) -> dict[str, Tensor]:
    """What training never moves: frozen parameters, and buffers that are kept in no state either."""
    frozen = {name: one for name, one in model.named_parameters() if not one.requires_grad}
    return {**frozen, **dict(model.named_buffers())}


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and values, whatever the order."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().resolve_conj().contiguous()
        found.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


# Weights that are loaded into a model, adapters beside its layers, and what of all that is trained.

_SHOWN = 5
"""Names in a message."""
_ADAPTER = ".lora_"
"""In the name of an adapter's parameter, as peft calls them."""
_TEXT, _MASK, _IMAGE = "input_ids", "attention_mask", "pixel_values"


def head_of(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that give the answers: of a folder's model those outside of its base, and its pooler, or timm's
    classifier; else those of the last module that has parameters of its own."""
    if isinstance(model, FolderModel):
        of_head = _of_head(model.base)
        body = {id(one) for name, one in model.base.named_parameters() if not name.startswith(of_head)}
        return [one for one in model.parameters() if id(one) not in body]
    return _layers(model)[-1] if any(True for _ in model.parameters()) else []


def _of_head(base: nn.Module) -> tuple[str, ...]:
    """How names in a base begin of what is of the head all the same."""
    classifier = getattr(base, "pretrained_cfg", {}).get("classifier") or "pooler"
    return tuple(f"{one}." for one in ([classifier] if isinstance(classifier, str) else classifier))


def _layers(model: nn.Module) -> list[list[nn.Parameter]]:
    """Of a folder's model its blocks, in order; else the parameters of each module that has some of its own."""
    if isinstance(model, FolderModel):
        head = {id(one) for one in head_of(model)}
        found = ([one for one in block.parameters() if id(one) not in head] for block in _blocks(model.base))
    else:
        found = (list(one.parameters(recurse=False)) for one in model.modules())
    return [one for one in found if one]


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """The members of the outermost lists of modules: layers, or the stages that have them."""
    for child in module.children():
        yield from child if isinstance(child, nn.ModuleList | nn.Sequential) else _blocks(child)


def trained_groups(model: nn.Module) -> dict[str, dict[str, nn.Parameter]]:
    """What is trained, by name: the "head", the "adapters", and the "body", which is all else."""
    head, found = {id(one) for one in head_of(model)}, dict[str, dict[str, nn.Parameter]]()
    for name, one in model.named_parameters():
        if one.requires_grad:
            group = "adapters" if _ADAPTER in name else "head" if id(one) in head else "body"
            found.setdefault(group, {})[name] = one
    return found


def adapted(model: nn.Module, adaptation: Adaptation) -> nn.Module:
    """`model` with its weights loaded and its adapters, of whose parameters those require a gradient that are trained;
    in place. On the meta device all is checked, and nothing is loaded. Raises InvalidValue."""
    if adaptation == AS_BUILT:
        return model
    if adaptation.weights:
        _load(model, adaptation.weights)
    head = head_of(model)
    trained = {id(one) for one in _trained(model, adaptation, head)}
    if adaptation.rank:
        _add_adapters(model, adaptation, {id(one) for one in head})
    for name, one in model.named_parameters():
        one.requires_grad_(id(one) in trained or _ADAPTER in name)
    return model


def _trained(model: nn.Module, adaptation: Adaptation, head: list[nn.Parameter]) -> list[nn.Parameter]:
    """Of the model's own parameters, those that its builder froze left out. Raises InvalidValue (train)."""
    train, layers = adaptation.train, _layers(model)
    word, _, count = train.partition("-")
    layers = layers if isinstance(model, FolderModel) else layers[:-1]
    if train == "all":
        chosen = head if adaptation.rank else list(model.parameters())
    elif train == "head":
        chosen = head
    elif train == "bias":
        chosen = [*head, *(one for name, one in model.named_parameters() if name.rpartition(".")[2] == "bias")]
    elif word == "last" and count.isdecimal() and 1 <= int(count) <= len(layers):
        chosen = [*head, *(one for layer in layers[-int(count) :] for one in layer)]
    else:
        raise InvalidValue(
            "train", train, f"all, head, bias, or last-1 to last-{len(layers)}, the layers before the head"
        )
    return [one for one in chosen if one.requires_grad]


def _load(model: nn.Module, place: str) -> None:
    """Take all tensors from files; a head of which they have nothing stays as it was drawn. Raises InvalidValue."""
    if isinstance(model, FolderModel):
        raise InvalidValue("weights", place, "none beside a model that is a folder, which brings its own", "Drop it.")
    own, shapes = model.state_dict(keep_vars=True), dict[str, tuple[int, ...]]()
    files = tensor_files("weights", place)
    for file in files:
        with safe_open(file, "pt") as opened:
            shapes |= {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    # A tensor of two names is in a file once.
    present, head = {id(own[name]) for name in shapes if name in own}, {id(one) for one in head_of(model)}
    drawn = head if head.isdisjoint(present) else set()
    _refuse_tensors(
        "weights",
        place,
        [name for name, one in own.items() if id(one) not in present | drawn],
        [name for name in shapes if name not in own],
        [
            f"{name} is {shape}, not {tuple(own[name].shape)}"
            for name, shape in shapes.items()
            if name in own and tuple(own[name].shape) != shape
        ],
    )
    if torch.get_default_device().type != "meta":
        tensors = {name: one.to(own[name].dtype) for file in files for name, one in load_file(file).items()}
        # As they lie in the files, where no tensor has two names: processes of a machine share what is not trained.
        model.load_state_dict(tensors, strict=False, assign=len({*map(id, own.values())}) == len(own))


def _refuse_tensors(name: str, value: str, missing: list[str], left: list[str], other: list[str]) -> None:
    """Raises InvalidValue where there are any."""
    for said, names in (("without it", missing), ("left over in it", left), ("of another shape", other)):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            expected = f"every tensor of the model but a new head; {said}: {', '.join(sorted(names)[:_SHOWN])}{more}"
            raise InvalidValue(name, value, expected, "Take this model's own, without the head of another task.")


def _add_adapters(model: nn.Module, adaptation: Adaptation, head: set[int]) -> None:
    """Low-rank adapters beside the linear layers that are meant; in place. Raises InvalidValue."""
    with _library("lora.rank", adaptation.rank):
        from peft import LoraConfig, inject_adapter_in_model
        from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN
        from transformers.pytorch_utils import Conv1D
    linear = {
        name: one
        for name, one in model.named_modules()
        if isinstance(one, nn.Linear | Conv1D) and id(one.weight) not in head
    }
    asked = [one.strip() for one in adaptation.targets.split(",")] if adaptation.targets else []
    if not asked and isinstance(model, FolderModel):
        asked = list(KNOWN.get(model.model.config.model_type, ()))
    chosen = {} if asked else linear
    for end in asked:
        chosen |= (found := {name: one for name, one in linear.items() if f".{name}".endswith(f".{end}")})
        if not found:
            ends = sorted({name.rpartition(".")[2] for name in linear})
            raise InvalidValue(
                "lora.targets", end, f"the end of a name of a linear layer but the head: {', '.join(ends)}"
            )
    if not chosen:
        raise InvalidValue(
            "lora.rank", adaptation.rank, "a model with a linear layer besides its head", "Leave lora out."
        )
    for name, one in chosen.items():
        if adaptation.rank > min(one.weight.shape):
            expected = f"at most {min(one.weight.shape)}, the width of {name} {tuple(one.weight.shape)}"
            raise InvalidValue("lora.rank", adaptation.rank, expected)
    with _library("lora.rank", adaptation.rank):
        # Of layers whose weights are transposed it warns, and sees by itself.
        inject_adapter_in_model(
            LoraConfig(r=adaptation.rank, lora_alpha=adaptation.alpha, target_modules=list(chosen)),  # type: ignore[arg-type]
            model,
        )


def merged(model: nn.Module) -> nn.Module:
    """`model` with its adapters added to the layers that they stand beside, whose names it has then; in place."""
    for name, one in list(model.named_modules()):
        if hasattr(one, "base_layer") and hasattr(one, "merge"):
            one.merge()
            model.set_submodule(name, one.get_base_layer())
    return model


class FolderModel(nn.Module):
    """A model of transformers, or one of timm inside, with its head: inputs in the order of the data's features ->
    [B, outputs].

    model   gives `logits`
    inputs  the argument of its forward pass that each input is
    """

    def __init__(self, model: Any, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs

    @property
    def base(self) -> Any:
        """The model without its head."""
        return self.model.base_model

    def forward(self, *inputs: Tensor) -> Tensor:
        given = dict(zip(self.inputs, inputs, strict=True))
        image = given.get(_IMAGE)
        if image is not None and image.ndim == 3:
            given[_IMAGE] = image.unsqueeze(1)
        answer: Tensor = self.model(**given, return_dict=True).logits
        return answer


def of_folder(name: str, facts: DatasetSpec, outputs: int) -> FolderModel:
    """The model of a folder, with a head of so many outputs, which is drawn where the folder has none of that size.

    On the meta device it has no numbers, and none of the folder's are looked at. Raises InvalidValue.
    """
    check_folder(name)
    folder, inputs = str(Path(folder_of(name)).expanduser()), _inputs(name, facts)
    kind, serves = "AutoModelForSequenceClassification", "a sequence of token codes"
    if _IMAGE in inputs:
        kind, serves = "AutoModelForImageClassification", "an image"
    if facts.task is Task.TOKENS:
        kind, serves = "AutoModelForCausalLM", "the next of its token codes"
        if facts.loss == MASKED:
            kind, serves = "AutoModelForMaskedLM", "masked token codes"
    local = {"local_files_only": True, "trust_remote_code": False}
    with _library("model", name) as transformers:
        labels = {} if facts.task is Task.TOKENS else {"num_labels": outputs}
        config = transformers.AutoConfig.from_pretrained(folder, use_cache=False, **labels, **local)
        _check_sizes(name, facts, config)
        if own := getattr(config, "model_args", None):
            # Of timm: how many outputs is said above, and a checkpoint besides is none of the folder's.
            config.model_args = {key: one for key, one in own.items() if key not in ("num_classes", "checkpoint_path")}
        maker = getattr(transformers, kind)
        if type(config) not in maker._model_mapping:
            expected = f"a model for {serves}, and transformers has none that is {config.model_type} ({kind})"
            raise InvalidValue("model", name, expected, "Take one that was made for it.")
        if torch.get_default_device().type == "meta":
            made = maker.from_config(config, trust_remote_code=False)
        else:
            made, loading = maker.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **local,
            )
            _check_loaded(name, made, loading)
    paddings = [one.padding for one in facts.features.values() if one.padding is not None]
    if paddings or getattr(made.config, "pad_token_id", 0) is None:
        # Some heads look for the last code that is no padding; without any all codes are of the text.
        made.config.pad_token_id = paddings[0] if paddings else -1
    found = FolderModel(made, inputs)
    if unknown := set(inputs) - set(inspect.signature(made.forward).parameters):
        expected = f"inputs that {type(made).__name__} takes, by their names, and not {', '.join(sorted(unknown))}"
        raise InvalidValue("model", name, expected, "Call the columns as its forward pass does.")
    return found


def tiny_bert(facts: DatasetSpec, hidden: int) -> FolderModel:
    """Two layers of `hidden` units over a sequence of codes, fitted to nothing."""
    (feature,) = facts.features.values()
    with _library("model", "tiny-bert") as transformers:
        config = transformers.BertConfig(
            vocab_size=feature.cardinality,
            hidden_size=hidden,
            num_hidden_layers=2,
            num_attention_heads=1 + (hidden % 2 == 0),
            intermediate_size=2 * hidden,
            max_position_embeddings=feature.shape[0],
            num_labels=facts.classes or 1,
        )
        return FolderModel(transformers.BertForSequenceClassification(config), (_TEXT,))


def _inputs(name: str, facts: DatasetSpec) -> tuple[str, ...]:
    """What each feature is to a model of transformers: a sequence of codes, an image, or what it is called."""
    own = [one for one in facts.features.values() if not one.mask_of]
    if len(own) > 1:
        return tuple(_MASK if one.mask_of else name for name, one in facts.features.items())
    (feature,) = own
    if feature.cardinality is not None and len(feature.shape) == 1:
        return (_TEXT, _MASK)[: len(facts.features)]
    if feature.cardinality is None and len(feature.shape) in (2, 3):
        return (_IMAGE,)
    raise InvalidValue("model", name, f"one sequence of token codes or one image; {facts.dataset} has {feature.shape}")


def _check_sizes(name: str, facts: DatasetSpec, config: Any) -> None:
    """Raises InvalidValue for sequences longer than positions, for more codes than there are embeddings, and for an
    encoder with a decoder, whose head finds its answer by a code that ends a sequence."""
    if config.is_encoder_decoder:
        raise InvalidValue(
            "model", name, f"an encoder or a decoder; {config.model_type} is both", "Take one of the two."
        )
    for key, feature in facts.features.items():
        positions, codes = getattr(config, "max_position_embeddings", None), getattr(config, "vocab_size", None)
        if feature.cardinality is not None and len(feature.shape) == 1 and not feature.mask_of:
            if positions is not None and feature.shape[0] > positions:
                expected = f"at most {positions} positions; {key} has {feature.shape[0]}"
                raise InvalidValue("model", name, expected, "Cut the sequences, or take a model with more positions.")
            tokens = facts.task is Task.TOKENS
            if codes is not None and (feature.cardinality > codes or (tokens and feature.cardinality != codes)):
                most = "exactly" if tokens else "at most"
                expected = f"{most} {codes} codes, as many as it has embeddings; {key} has {feature.cardinality}"
                raise InvalidValue("model", name, expected, "Take the tokenizer that the model was trained with.")


def _check_loaded(name: str, made: Any, loading: Mapping[str, Any]) -> None:
    """Raises InvalidValue for tensors of the base that the folder lacks, has besides, or has in another shape.

    A head may be missing there or have another shape, and another task's may be left over.
    """
    base, prefix = dict(made.base_model.named_children()), f"{made.base_model_prefix}."
    of_head = _of_head(made.base_model)

    def of_base(tensor: str) -> bool:
        inside = tensor.removeprefix(prefix)
        return not inside.startswith(of_head) and (tensor.startswith(prefix) or inside.partition(".")[0] in base)

    _refuse_tensors(
        "model",
        name,
        [one for one in loading["missing_keys"] if of_base(one)],
        [one for one in loading["unexpected_keys"] if of_base(one)],
        [
            f"{one} is {tuple(there)}, not {tuple(asked)}"
            for one, there, asked in loading["mismatched_keys"]
            if of_base(one)
        ],
    )


@contextmanager
def _library(name: str, value: object) -> Iterator[Any]:
    """transformers, offline and silent. Raises InvalidValue where it is not installed, and for what it raises."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        with warnings.catch_warnings(action="ignore"):
            import_torchvision()
            yield transformers
    except InvalidValue:
        raise
    except ImportError as error:
        extra = "timm" if str(value).startswith("timm:") else "models"
        remedy = f"Install them: pip install private-sweeps[{extra}]."
        raise InvalidValue(name, value, f"transformers and peft ({_first_line(error)})", remedy) from error
    except Exception as error:
        # Whatever transformers meets in a folder that somebody made.
        expected = f"a model that transformers {transformers.__version__} can make: {_first_line(error)}"
        raise InvalidValue(name, value, expected) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


_DECLARED: list[torch.library.Library] = []


def import_torchvision() -> None:
    """Import torchvision, where it is installed: whatever of transformers and timm needs it finds it then.

    Where its own library was built for another torch it raises at import, for it says something of two operators that
    this library declares. They are declared here then, without any code: it is asked for transforms alone.
    """
    with suppress(ModuleNotFoundError):
        try:
            import_module("torchvision")
        except RuntimeError:
            if not _DECLARED:
                _DECLARED.append(torch.library.Library("torchvision", "DEF"))
                for operator in ("nms", "qnms"):
                    _DECLARED[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            import_module("torchvision")
