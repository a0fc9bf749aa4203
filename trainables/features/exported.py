"""A module as a program that torch.export writes down: what is read again by torch alone."""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import fx, nn

from trainables.system import InputSpec

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


def program(module: nn.Module, features: Mapping[str, InputSpec]) -> torch.export.ExportedProgram:
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
    if any(_is_of_functorch(node) for node in found.graph.nodes):
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


def _is_of_functorch(node: fx.Node) -> bool:
    return str(getattr(node.target, "__module__", "")).startswith("torch._functorch")


def _without_traces(found: torch.export.ExportedProgram) -> None:
    """A program would be kept with the file, line and text of code that each operation is from: folders of this
    machine, and lines of whoever wrote the model."""
    for module in found.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            for name in _TRACES:
                node.meta.pop(name, None)


def read(file: Path) -> torch.export.ExportedProgram:
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
