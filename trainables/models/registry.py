"""Which model serves which data, decided from public facts."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, TypeVar, get_args, get_origin

from dpcore.checks import InvalidValue
from trainables import plugins
from trainables.adaptation import AS_BUILT, Adaptation, folder_of
from trainables.metrics import WITH, Arguments
from trainables.plugins import ByName
from trainables.system import DatasetSpec, Hyperparameter, Task

if TYPE_CHECKING:
    from torch import nn

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One named model.

    builder  "module:function" in this folder, of a function (facts, hidden) -> nn.Module; called with inputs in the
             order of `facts.features`, the module returns [B, outputs(facts)]
    refuses  why the model cannot serve these facts, "" when it can
    hidden   whether the hyperparameter of that name shapes it
    """

    name: str
    doc: str
    builder: str
    refuses: Callable[[DatasetSpec], str]
    hidden: bool = False


def outputs(facts: DatasetSpec) -> int:
    """Columns of a model's output: one per class, one for a regression, of each place one per code where tokens are
    predicted. Raises InvalidValue for other tasks."""
    if facts.task in (Task.CLASSIFICATION, Task.RATING, Task.TOKENS):
        assert facts.classes is not None
        return facts.classes
    if facts.task is Task.REGRESSION:
        return 1
    raise InvalidValue("data", facts.dataset, "classes, ratings or a number to predict", "Choose another data source.")


def width(facts: DatasetSpec) -> int:
    """Numbers per record when all inputs are flattened and put side by side."""
    return sum(math.prod(feature.shape) for feature in facts.features.values())


def _dense(facts: DatasetSpec) -> str:
    coded = [name for name, feature in facts.features.items() if feature.cardinality is not None]
    return f"input {coded[0]} holds category codes, not numbers" if coded else ""


def _image(facts: DatasetSpec) -> str:
    shapes = [feature.shape for feature in facts.features.values() if feature.cardinality is None]
    if len(facts.features) != 1 or len(shapes) != 1 or len(shapes[0]) not in (2, 3):
        return "it needs one image of shape (height, width) or (channels, height, width)"
    if min(shapes[0][-2:]) < 16:
        return f"its filters need images of at least 16 x 16 pixels, these have {shapes[0][-2]} x {shapes[0][-1]}"
    return ""


def _coded(inputs: int, axes: int, needed: str, facts: DatasetSpec) -> str:
    features = facts.features.values()
    fit = all(one.cardinality is not None and len(one.shape) == axes for one in features)
    return "" if fit and len(features) == inputs else f"it needs {needed}"


_text = partial(_coded, 1, 1, "one sequence of token codes")
_pair = partial(_coded, 2, 0, "two inputs of one code each (user and item)")
_item = partial(_coded, 1, 0, "one input of one code (item)")
MODELS: ByName[ModelEntry] = ByName(
    "model",
    ModelEntry("linear", "one linear layer on the flattened input", "networks:linear", _dense),
    ModelEntry("mlp", "one hidden layer of `hidden` ReLU units", "networks:dense", _dense, hidden=True),
    ModelEntry(
        "cnn",
        "the two-convolution net of Abadi et al. 2016 (TensorFlow Privacy's; 26,010 weights on MNIST)",
        "networks:two_convolutions",
        _image,
    ),
    ModelEntry(
        "mlp3",
        "two hidden layers of `hidden` ReLU units each (Wu et al. 2020, German Credit)",
        "networks:two_hidden",
        _dense,
        hidden=True,
    ),
    ModelEntry("resnet20", "ResNet-20 with GroupNorm (He et al. 2016, CIFAR-10)", "networks:resnet20", _image),
    ModelEntry(
        "resnet18", "ResNet-18 with GroupNorm (He et al. 2016; Wu et al. 2020, IDC)", "networks:resnet18", _image
    ),
    ModelEntry(
        "embedding-pool",
        "16-unit embedding, average over all positions, `hidden` ReLU units (Bu et al. 2020, IMDb: 16)",
        "networks:EmbeddingPool",
        _text,
        hidden=True,
    ),
    ModelEntry(
        "tiny-bert",
        "BERT of 2 layers of `hidden` units, drawn from its configuration (Devlin et al. 2019; in the extra [models])",
        "pretrained:tiny_bert",
        _text,
        hidden=True,
    ),
    ModelEntry(
        "two-branch",
        "product of 5 latent factors beside 10 + 10 more, one linear layer (Bu et al. 2020, MovieLens)",
        "networks:TwoBranch",
        _pair,
    ),
    ModelEntry(
        "item-table",
        "one row of outputs per item and one for all: what a user whom nobody has met is told (MovieLens by user)",
        "networks:ItemTable",
        _item,
    ),
)


def refused(entry: ModelEntry, facts: DatasetSpec) -> str:
    """Why a named model cannot serve these facts; "" where it can."""
    return "it says nothing of single tokens" if facts.task is Task.TOKENS else entry.refuses(facts)


def shaping(config: Mapping[str, Value]) -> dict[str, Value]:
    """What a configuration says of its trial, or knobs of all trials: without what model, optimizer or another option
    never read, whatever its default."""
    model, optimizer = config.get("model"), config.get("optimizer", "adam")
    unread = [
        isinstance(model, str) and not (model in MODELS and MODELS[model].hidden) and "hidden",
        isinstance(optimizer, str) and optimizer not in ("adam", "adamw") and "beta",
        config.get("lora.rank", 0) == 0 and "lora.",
        config.get("augmentation.of") == "none" and "augmentation.",
    ]
    prefixes = tuple(one for one in unread if one)
    return {name: value for name, value in config.items() if value != "" and not name.startswith(prefixes)}


def check(
    model: str, facts: DatasetSpec, arguments: Arguments = (), adaptation: Adaptation = AS_BUILT, hidden: int = 1
) -> None:
    """Raises InvalidValue when `model` is unknown or cannot serve these facts. Reads no record.

    arguments   of the user's own builder
    adaptation  weights, adapters, and what is trained

    A named model as it is built is judged without torch. Any other is built: the first of its name with all numbers,
    later ones on the meta device, where a model of any size takes no memory.
    """
    outputs(facts)
    if model in MODELS and (reason := refused(MODELS[model], facts)):
        usable = [entry.name for entry in MODELS.values() if not refused(entry, facts)]
        raise InvalidValue(
            "model", model, f"a model for {facts.dataset}: {reason}", f"Usable here: {', '.join(usable) or 'none'}."
        )
    if model not in MODELS or adaptation != AS_BUILT:
        # Any alpha does.
        asked = (repr(facts), arguments, replace(adaptation, alpha=AS_BUILT.alpha), hidden)
        if (model, asked) not in _CHECKED:
            made = partial(build, model, facts, hidden=hidden, arguments=arguments, adaptation=adaptation)
            _check_built(model, facts, made, anew=(model, repr(facts)) not in _CHECKED)
            _CHECKED.update([(model, asked), (model, repr(facts))])


_CHECKED: set[tuple[str, object]] = set()
"""Models and facts that were looked at, with numbers, and all that was asked besides."""


def _check_built(model: str, facts: DatasetSpec, made: Callable[[], nn.Module], *, anew: bool) -> None:
    import torch

    with plugins.raised_as("model", model, f"a function that makes a model for {facts.dataset}"):
        if anew:
            return _check_anew(model, made)
        try:
            # Of numbers that are copied to where there are none PyTorch warns, one by one.
            with torch.device("meta"), warnings.catch_warnings(action="ignore"):
                made()
        except InvalidValue:
            raise
        except Exception:
            # Code that looks at numbers has none to look at there.
            made()


def _check_anew(model: str, made: Callable[[], nn.Module]) -> None:
    """Twice, under one seed of torch's generator: nothing else makes again what a checkpoint does not keep."""
    from trainables.models.pretrained import digest, seeded, untrained

    first = seeded(0, made)
    if not plugins.OBJECT.fullmatch(model):
        return
    second = seeded(0, made)
    if shared := _shared(first, second):
        expected = (
            f"a function that makes its model anew at each call: {shared!r} is the same tensor as in the call before, "
            "so that one trial would go on from what another has trained"
        )
        remedy = "Build it inside the function, or return a copy.deepcopy of what the file holds."
        raise InvalidValue("model", model, expected, remedy)
    if digest(untrained(first)) != digest(untrained(second)):
        expected = (
            "a function whose models have the same parts that are never trained each time, under one seed of torch's"
        )
        remedy = "Draw them from torch's generator: a checkpoint keeps what is trained, and the seed of the rest."
        raise InvalidValue("model", model, expected, remedy)


def _shared(one: nn.Module, other: nn.Module) -> str:
    """The name of a tensor of `other` that training may move and that stands on memory of `one`; "" for none."""
    held = {tensor.untyped_storage().data_ptr() for tensor in (*one.parameters(), *one.buffers())} - {0}
    moving = [(name, tensor) for name, tensor in other.named_parameters() if tensor.requires_grad]
    found = (name for name, tensor in (*moving, *other.named_buffers()) if tensor.untyped_storage().data_ptr() in held)
    return next(found, "")


def build(
    model: str, facts: DatasetSpec, *, hidden: int, arguments: Arguments = (), adaptation: Adaptation = AS_BUILT
) -> nn.Module:
    """A module with fresh weights from torch's current generator, or with those that are loaded.

    A model that mixes the examples of a batch (BatchNorm) is refused: clipping would bound nobody's influence.
    Raises InvalidValue, or the user's own error.
    """
    import torch
    from torch import nn

    from dpcore.gradients import Refused
    from dpcore.gradients.refusals import refuse
    from trainables.models import pretrained

    if model in MODELS:
        home, _, name = MODELS[model].builder.partition(":")
        module = getattr(importlib.import_module(f"trainables.models.{home}"), name)(facts, hidden)
    elif folder_of(model):
        module = pretrained.of_folder(model, facts, outputs(facts))
    else:
        module = _own_function(model)(facts, **dict(arguments))
    if not isinstance(module, nn.Module):
        raise InvalidValue("model", model, f"a function that returns a torch.nn.Module, got {type(module).__name__}")
    try:
        refuse(module.train())
    except Refused as error:
        raise InvalidValue("model", model, "a model whose records can be kept apart", str(error)) from error
    module = pretrained.adapted(module, adaptation)
    if torch.get_default_device().type != "meta" and any(one.is_meta for one in module.parameters()):
        expected = "a function that makes its model anew at each call: it kept one that planning made without numbers"
        raise InvalidValue("model", model, expected, "Keep files or arrays of numbers outside of it, and no modules.")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InvalidValue("model", model, "a model with at least one trainable parameter")
    return module


@dataclass(frozen=True, slots=True)
class Builder:
    """What the function `module:function` of a model takes beside the facts.

    parameters  as hyperparameters by their names: a number where the signature, or its default, says so (int, float);
                anything else is a choice
    required    names of those without a default
    open_ended  whether it takes **keywords, whatever they are
    """

    parameters: Mapping[str, Hyperparameter]
    required: frozenset[str]
    open_ended: bool

    def takes(self, name: str) -> bool:
        """Whether a hyperparameter of this name is one of its arguments."""
        return name in self.parameters or self.open_ended


@lru_cache(maxsize=64)
def builder_of(model: str) -> Builder:
    """By its signature; the function is imported, and not called. Raises InvalidValue where there is none."""
    function, found, required, open_ended = _own_function(model), dict[str, Hyperparameter](), set[str](), False
    try:
        _, *others = inspect.signature(function, eval_str=True).parameters.values()
    except (TypeError, ValueError, NameError):
        return Builder({}, frozenset(), True)
    for one in others:
        open_ended |= one.kind is one.VAR_KEYWORD
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        name, default = WITH + one.name, None if one.default is one.empty else one.default
        if one.default is one.empty:
            required.add(name)
        kind = one.annotation if one.annotation is not one.empty else type(default)
        choices = get_args(kind) if get_origin(kind) is Literal else (False, True) if kind is bool else ()
        found[name] = Hyperparameter(
            name=name,
            kind={int: "int", float: "float"}.get(kind, "choice"),  # type: ignore[arg-type]
            doc=f"argument {one.name} of {model}",
            choices=choices,
            default=default,
        )
    return Builder(found, frozenset(required), open_ended)


def _own_function(model: str) -> Callable[..., object]:
    names = ", ".join(MODELS)
    remedy = (
        f"Use one of {names}, a function facts -> torch.nn.Module that Python can import, hf:FOLDER, or timm:FOLDER."
    )
    if not plugins.OBJECT.fullmatch(model):
        raise InvalidValue("model", model, "a known model or `package.module:function`", remedy)
    return plugins.function("model", model, remedy)
