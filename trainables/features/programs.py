"""A feature map as a program that torch.export wrote down: by name, by a function of the user's own, or from a file.

A program has no code of anybody's but PyTorch's operations, so that what is computed, what is kept, and what leaves
with an exported model are one and the same. A file is read without pickle: its sample inputs, which torch.export keeps
as one, are left out, and a file that needs pickle for anything else is refused.

A real record is always mapped alone, so that its features are a function of it whatever the map does with a batch. An
exported model is asked with many at once: a map that mixes records is refused, by made-up ones.
"""

from __future__ import annotations

import copy
import hashlib
import json
import operator
from pathlib import Path

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from dpcore.checks import InvalidValue
from trainables import plugins
from trainables.export.program import NotExportable, NotReadable, program, quiet_copies, read
from trainables.features.named import NAMED
from trainables.system import DatasetSpec
from trainables.training.made_up import made_up

RECORDS = 6
ROUNDING = 1e-4
"""Of the largest number: what several records at once may differ by from each alone."""


def made_up_inputs(facts: DatasetSpec, records: int = RECORDS) -> tuple[Tensor, ...]:
    """Tensors [records, ...] of nobody's, in the order of the features."""
    split = made_up(facts, records, 0).train.inputs
    return tuple(torch.from_numpy(one[:records].copy()) for one in split.values())


def check_apart(name: str, map_: ExportedProgram, facts: DatasetSpec) -> None:
    """Raises InvalidValue for a map that mixes records, draws at random, keeps something, or gives no finite numbers.

    Also for one that takes other inputs than `facts` declare, or a fixed number of records.
    """
    module, inputs = map_.module(check_guards=False), made_up_inputs(facts)
    held = (*module.parameters(), *module.buffers(), *inputs)
    before = [one.clone() for one in held]

    def mapped(rows: list[int]) -> Tensor:
        found = module(*(one[rows] for one in inputs))
        if not isinstance(found, Tensor) or found.dtype != torch.float32 or found.ndim < 2 or len(found) != len(rows):
            raise _refused(name, f"one float32 tensor [records, ...] for any number of records, found {_of(found)}")
        return found

    forwards = list(range(len(inputs[0])))
    try:
        with torch.no_grad():
            alone = torch.cat([mapped([row]) for row in forwards])
            again = torch.cat([mapped([row]) for row in reversed(forwards)]).flip(0)
            together = mapped(forwards)
            # In other company: the first record stays, the others are copies of the last.
            company = mapped([0, *([forwards[-1]] * (len(forwards) - 1))])
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        if isinstance(error, InvalidValue):
            raise
        given = ", ".join(f"{key} {one.shape}" for key, one in facts.features.items())
        why = f"a map of {given}, for any number of records ({str(error).strip().partition(chr(10))[0]})"
        remedy = "Export it with a dynamic first axis: dynamic_shapes=({0: Dim('records')},)."
        raise _refused(name, why, remedy) from error
    if any(not torch.equal(one, other) for one, other in zip(before, held, strict=True)):
        raise _refused(name, "a map that keeps nothing of a record: called, it writes to its tensors or to its inputs")
    if not torch.isfinite(alone).all():
        raise _refused(name, "finite features of made-up records")
    if not torch.equal(alone, again):
        raise _refused(name, "the same features each time: it draws at random, or remembers", "Use evaluation mode.")
    slack = ROUNDING * float(alone.abs().max())
    if max(float((together - alone).abs().max()), float((company[0] - alone[0]).abs().max())) > slack:
        raise _refused(
            name,
            "features of a record that do not depend on the records beside it",
            "BatchNorm has to be in evaluation mode, with public statistics.",
        )


def _refused(name: str, expected: str, remedy: str = "Write it as a function of one record alone.") -> InvalidValue:
    return InvalidValue("data.features", name, expected, remedy)


def _of(found: object) -> str:
    return f"{found.dtype} {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__


HERE = "data.features"
_CALLED = "a function facts -> torch.nn.Module, whose module maps the inputs [B, ...] to features [B, ...]"
_OPERATIONS = frozenset({"aten", "prims"})


class FeatureProgram(nn.Module):
    """A map with what is done to its output: groups of channels normalised within each record, numbers cut to bounds.

    Its tensors are its own: whatever becomes of them, the program that it was made of stays as it is.

    groups  None: nothing is normalised
    bounds  (low, high) of what comes out
    """

    def __init__(self, map_: ExportedProgram, groups: int | None, bounds: tuple[float, float]) -> None:
        super().__init__()
        with quiet_copies():
            self.map = copy.deepcopy(map_.module(check_guards=False))
        self._groups, self._bounds = groups, bounds

    def train(self, mode: bool = True) -> FeatureProgram:
        """Nothing in it trains."""
        return self

    def forward(self, *inputs: Tensor) -> Tensor:
        features: Tensor = self.map(*inputs)
        if self._groups is not None:
            features = nn.functional.group_norm(features, self._groups)
        return features.clamp(*self._bounds)


class FeaturesFirst(nn.Module):
    """A model of features behind the map that makes them: what takes the records as they are."""

    def __init__(self, map_: nn.Module, model: nn.Module) -> None:
        super().__init__()
        self.features, self.model = map_, model

    def train(self, mode: bool = True) -> FeaturesFirst:
        """The map never trains."""
        self.model.train(mode)
        return self

    def forward(self, *inputs: Tensor) -> Tensor:
        answer: Tensor = self.model(self.features(*inputs))
        return answer


def program_of(name: str, facts: DatasetSpec) -> ExportedProgram:
    """The map that `data.features` calls `name`, over the inputs of `facts`. Raises InvalidValue."""
    if name in NAMED:
        found = _written_down(name, NAMED[name].build(facts), facts)
    elif plugins.OBJECT.fullmatch(name):
        found = _written_down(name, _own(name, facts), facts)
    else:
        found = _read(Path(name).expanduser())
    _check_keeps_nothing(name, found)
    check_apart(name, found, facts)
    return found


def digest(map_: ExportedProgram) -> str:
    """SHA-256, in hex, of all that decides what a program says: its operations, its numbers, the version of torch."""
    root, *inner = ((name, one) for name, one in map_.graph_module.named_modules() if isinstance(one, fx.GraphModule))
    found = hashlib.sha256(f"{torch.__version__}\n{root[1].code}".encode())
    if inner:
        # What is done without gradients, under autocast or in a branch: the root's code has only the names of these.
        found.update(json.dumps([(name, one.code) for name, one in inner]).encode())
    signature = [(one.kind.name, one.target, one.arg.name) for one in map_.graph_signature.input_specs]
    found.update(json.dumps(signature).encode())
    for name, one in sorted({**map_.state_dict, **map_.constants}.items()):
        held = one.detach().cpu().contiguous()
        found.update(f"{name}:{held.dtype}:{tuple(held.shape)};".encode())
        found.update(held.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _check_keeps_nothing(name: str, map_: ExportedProgram) -> None:
    """Raises InvalidValue for a map that writes to its tensors or to its inputs, for whichever numbers it does so."""
    try:
        # What a program writes to is told only once its operations are functional.
        with quiet_copies():
            outputs = map_.run_decompositions().graph_signature.output_specs
    except Exception as error:
        # Whatever a decomposition meets in a program of the user's own.
        why = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        raise InvalidValue(
            HERE, name, f"a map in operations of which it is known what they write to ({why})", "Use simpler ones."
        ) from error
    written = [one.target or one.arg.name for one in outputs if one.kind is not OutputKind.USER_OUTPUT]
    if written:
        expected = f"a map that keeps nothing of a record: called, it writes to {', '.join(map(str, written))}"
        remedy = "Write it as a function of one record alone: ranges and statistics are fixed before it is exported."
        raise InvalidValue(HERE, name, expected, remedy)


def _own(name: str, facts: DatasetSpec) -> nn.Module:
    function = plugins.brought(HERE, name, f"It is {_CALLED}.", "a function")
    made = function(facts) if callable(function) else function
    if not isinstance(made, nn.Module):
        raise InvalidValue(HERE, name, _CALLED, f"This one gave a {type(made).__name__}.")
    return made.requires_grad_(False)


def _written_down(name: str, module: nn.Module, facts: DatasetSpec) -> ExportedProgram:
    try:
        return program(module, facts.features)
    except NotExportable as error:
        remedy = "Write it in PyTorch operations, without branches on values: an exported model carries its map."
        raise InvalidValue(HERE, name, f"a map that can leave with a model ({error})", remedy) from error


def _read(file: Path) -> ExportedProgram:
    if not file.is_file():
        names = ", ".join(NAMED)
        remedy = f"A file is what `torch.export.save(program, {file.name!r})` writes."
        raise InvalidValue(HERE, str(file), f"one of {names}, module:function, or a file that is there", remedy)
    try:
        found = read(file)
    except NotReadable as error:
        raise _not_read(file, str(error)) from error
    for node in found.graph.nodes:
        if node.op == "call_function" and not _is_pytorch(node.target):
            raise _not_read(file, f"it calls {node.target}, which is no operation of PyTorch's")
    if any(one.kind is InputKind.CUSTOM_OBJ for one in found.graph_signature.input_specs):
        raise _not_read(file, "it holds an object that is no tensor")
    return found


def _is_pytorch(target: object) -> bool:
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace in _OPERATIONS
    return getattr(operator, getattr(target, "__name__", ""), None) is target


def _not_read(file: Path, why: str) -> InvalidValue:
    remedy = "Export it with this version of torch, from a module whose weights are plain tensors."
    return InvalidValue(HERE, str(file), f"a program of torch.export that is read without pickle: {why}", remedy)
