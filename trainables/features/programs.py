"""A feature map as a program that torch.export wrote down: by name, by a function of the user's own, or from a file.

A program has no code of anybody's but PyTorch's operations, so that what is computed, what is kept, and what leaves
with an exported model are one and the same. A file is read without pickle (`read`).

A real record is always mapped alone, so that its features are a function of it whatever the map does with a batch. An
exported model is asked with many at once: a map that mixes records is refused, by made-up ones.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from dpcore.checks import InvalidValue
from trainables import plugins
from trainables.models import pretrained
from trainables.system import DatasetSpec, InputSpec
from trainables.training.made_up import made_up_records

# A module as a program that torch.export writes down: what is read again by torch alone.

_TRACES = ("stack_trace", "from_node", "custom")
"""What `torch.export.save` writes of an operation besides what it computes."""


_NAMES = re.compile(
    r"data/weights/(weight_\d+|\w+\.json)|data/constants/(tensor_\d+|\w+\.json)|models/\w+\.json|\.data/\w+|"
    r"archive_format|archive_version|byteorder"
)
"""What a program's file holds besides sample inputs: numbers, and JSON that describes them and the operations."""
_SAMPLES = re.compile(r"data/sample_inputs/\w+\.pt")


class NotReadable(ValueError):
    """A file that is no program which can be read without pickle."""


class NotExportable(ValueError):
    """A model that `torch.export` cannot write down as a program."""


def program(module: nn.Module, features: Mapping[str, InputSpec]) -> ExportedProgram:
    """`module` in evaluation mode as a program over any number of records. Raises NotExportable, with the reason."""
    examples = tuple(
        torch.zeros((3, *one.shape), dtype=torch.int64 if one.cardinality is not None else torch.float32)
        for one in features.values()
    )
    records, shapes = torch.export.Dim("records"), torch.export.ShapesCollection()
    for one in examples:
        shapes[one] = {0: records}
    try:
        found = torch.export.export(module.eval(), examples, dynamic_shapes=shapes)  # type: ignore[arg-type]
    except Exception as error:
        # torch.export raises whatever its tracers meet in a model of the user's own.
        raise NotExportable(
            f"torch.export cannot write this model down: {str(error).strip().splitlines()[0]}"
        ) from error
    homes = (str(getattr(node.target, "__module__", "")) for node in found.graph.nodes)
    if any(one.startswith("torch._functorch") for one in homes):
        # Only in operations on whole batches can it be written to a file.
        with quiet_copies():
            found = found.run_decompositions({})
    # They would be kept as a pickle, the only one in the folder.
    found.example_inputs = None
    _without_traces(found)
    return found


@contextmanager
def quiet_copies() -> Iterator[None]:
    """PyTorch copies its own trees in a way that it warns of itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        yield


def _without_traces(found: ExportedProgram) -> None:
    """A program would be kept with the file, line and text of code that each operation is from: folders of this
    machine, and lines of whoever wrote the model."""
    for module in found.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            for name in _TRACES:
                node.meta.pop(name, None)


def read(file: Path) -> ExportedProgram:
    """What `torch.export.save` wrote, without its sample inputs, which it keeps as a pickle. Raises NotReadable."""
    try:
        return torch.export.load(io.BytesIO(_without_pickle(file)))
    except NotReadable:
        raise
    except Exception as error:
        # Whatever a reader of another version meets in it.
        said = (str(error).splitlines() or [""])[0]
        raise NotReadable(f"{type(error).__name__}: {said}") from error


def _without_pickle(file: Path) -> bytes:
    """The file without sample inputs. Raises NotReadable where anything else in it would be read by pickle."""
    kept = io.BytesIO()
    try:
        with zipfile.ZipFile(file) as found, zipfile.ZipFile(kept, "w", zipfile.ZIP_STORED) as written:
            for entry in found.infolist():
                inside = entry.filename.partition("/")[2]
                body = b"" if _SAMPLES.fullmatch(inside) else found.read(entry)
                if body and not _NAMES.fullmatch(inside):
                    raise NotReadable(f"{entry.filename} in it would be read by pickle, or run")
                if inside.startswith("data/") and inside.endswith(".json") and _needs_pickle(json.loads(body)):
                    raise NotReadable(f"{entry.filename} names tensors that would be read by pickle")
                written.writestr(entry.filename, body)
    except (zipfile.BadZipFile, ValueError) as error:
        if isinstance(error, NotReadable):
            raise
        raise NotReadable("it is no such file") from error
    return kept.getvalue()


def _needs_pickle(described: object) -> bool:
    payloads = described.get("config", {}).values() if isinstance(described, dict) else [None]
    return any(not isinstance(one, dict) or one.get("use_pickle", True) for one in payloads)


# A feature map as such a program.

RECORDS = 6
ROUNDING = 1e-4
"""Of the largest number: what several records at once may differ by from each alone."""
_CALLED = "a function facts -> torch.nn.Module, whose module maps the inputs [B, ...] to features [B, ...]"


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


def written_down(name: str, module: nn.Module, facts: DatasetSpec) -> ExportedProgram:
    """`module`, which a spec calls `name`, as a program over the inputs of `facts`. Raises InvalidValue."""
    try:
        return program(module.requires_grad_(False), facts.features)
    except NotExportable as error:
        remedy = "Write it in PyTorch operations, without branches on values: an exported model carries its map."
        raise _refused(name, f"a map that can leave with a model ({error})", remedy) from error


def own_module(name: str, facts: DatasetSpec) -> nn.Module:
    """What the user's function module:function makes of `facts`. Raises InvalidValue."""
    made = plugins.function("data.features", name, f"It is {_CALLED}.")(facts)
    if not isinstance(made, nn.Module):
        raise _refused(name, _CALLED, f"This one gave a {type(made).__name__}.")
    return made


def from_file(name: str, expected: str) -> ExportedProgram:
    """The program of a file. Raises InvalidValue, with what was `expected` where no file is there."""
    file = Path(name).expanduser()
    if not file.is_file():
        remedy = f"A file is what `torch.export.save(program, {file.name!r})` writes."
        raise _refused(name, f"{expected}, or a file that is there", remedy)
    try:
        return read(file)
    except NotReadable as error:
        remedy = "Export it with this version of torch, from a module whose weights are plain tensors."
        raise _refused(name, f"a program of torch.export that is read without pickle: {error}", remedy) from error


def digest(map_: ExportedProgram) -> str:
    """SHA-256, in hex, of all that decides what a program says: its operations, its numbers, the version of torch."""
    # What is done without gradients, under autocast or in a branch is a graph of its own.
    graphs = [(name, one.code) for name, one in map_.graph_module.named_modules() if isinstance(one, fx.GraphModule)]
    signature = [(one.kind.name, one.target, one.arg.name) for one in map_.graph_signature.input_specs]
    tensors = pretrained.digest({**map_.state_dict, **map_.constants})
    return hashlib.sha256(repr((torch.__version__, graphs, signature, tensors)).encode()).hexdigest()


def check_apart(name: str, map_: ExportedProgram, facts: DatasetSpec) -> None:
    """Raises InvalidValue for a map that mixes records, draws at random, keeps something, or gives no finite numbers.

    Also for one that takes other inputs than `facts` declare, or a fixed number of records.
    """
    _check_keeps_nothing(name, map_)
    module, (inputs, _) = map_.module(check_guards=False), made_up_records(facts, RECORDS, torch.device("cpu"))

    def mapped(rows: list[int]) -> Tensor:
        found = module(*(one[rows] for one in inputs))
        if not isinstance(found, Tensor) or found.dtype != torch.float32 or found.ndim < 2 or len(found) != len(rows):
            raise _refused(name, "one float32 tensor [records, ...] for any number of records")
        return found

    rows = list(range(len(inputs[0])))
    try:
        with torch.no_grad():
            alone, again = (torch.cat([mapped([row]) for row in rows]) for _ in range(2))
            together = mapped(rows)
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        if isinstance(error, InvalidValue):
            raise
        given = ", ".join(f"{key} {one.shape}" for key, one in facts.features.items())
        why = f"a map of {given}, for any number of records ({str(error).strip().partition(chr(10))[0]})"
        remedy = "Export it with a dynamic first axis: dynamic_shapes=({0: Dim('records')},)."
        raise _refused(name, why, remedy) from error
    if not torch.isfinite(alone).all():
        raise _refused(name, "finite features of made-up records")
    if not torch.equal(alone, again):
        raise _refused(name, "the same features each time: it draws at random", "Use evaluation mode.")
    if float((together - alone).abs().max()) > ROUNDING * float(alone.abs().max()):
        raise _refused(
            name,
            "features of a record that do not depend on the records beside it",
            "BatchNorm has to be in evaluation mode, with public statistics.",
        )


def _check_keeps_nothing(name: str, map_: ExportedProgram) -> None:
    """Raises InvalidValue for a map that writes to its tensors or to its inputs, for whichever numbers it does so."""
    try:
        # What a program writes to is told only once its operations are functional.
        with quiet_copies():
            outputs = map_.run_decompositions().graph_signature.output_specs
    except Exception as error:
        # Whatever a decomposition meets in a program of the user's own.
        why = f"a map in operations of which it is known what they write to ({type(error).__name__}: {error})"
        raise _refused(name, why.splitlines()[0], "Use simpler ones.") from error
    written = [one.target or one.arg.name for one in outputs if one.kind is not OutputKind.USER_OUTPUT]
    if written:
        expected = f"a map that keeps nothing of a record: called, it writes to {', '.join(map(str, written))}"
        raise _refused(name, expected, "Ranges and statistics are fixed before it is exported.")


def _refused(name: str, expected: str, remedy: str = "Write it as a function of one record alone.") -> InvalidValue:
    return InvalidValue("data.features", name, expected, remedy)
