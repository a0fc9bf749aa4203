"""A model that has left its sweep: asked with raw rows, kept in a folder, read again without anything of ours.

    weights.safetensors  every parameter and buffer by name
    program.pt2          the model as a torch.export program, any number of records at once
    preprocessing.json   see `trainables.export.preprocessing`
    card.json, README.md what it is, what it claims, how good it was

`torch.export.load("program.pt2").module()` in a process that has torch alone gives the outputs of these inputs.
"""

from __future__ import annotations

import glob
import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from scipy.special import softmax
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from dpcore.gradients.chain import proves_isolation
from trainables.data import table_file
from trainables.export.preprocessing import Preprocessing
from trainables.features.programs import ROUNDING, NotExportable, NotReadable, program, read
from trainables.models.pretrained import FolderModel
from trainables.system import InputSpec, Task, with_masks

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

WEIGHTS, PROGRAM, PREPROCESSING = "weights.safetensors", "program.pt2", "preprocessing.json"
CARD, PAGE = "card.json", "README.md"
BATCH, TOKEN_BATCH = 4096, 32
"""Records that are asked about at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What a model says of n records.

    values         [n]: the likeliest class, a rating's expected value (of its classes as declared, of their positions
                   from 0 where one of them is no number), or the number itself; [n, places] of tokens: the likeliest
                   code at each
    classes        what the model tells apart; empty for a regression
    probabilities  [n, C] of them, under the softmax; [n, 0] for a regression
    """

    values: NDArray[Any]
    classes: tuple[Any, ...]
    probabilities: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    def table(self) -> pd.DataFrame:
        """One row a record: `prediction`, and of classes `probability.<class>`, under the softmax."""
        import pandas as pd

        found: dict[str, Any] = {"prediction": list(self.values) if self.values.ndim > 1 else self.values}
        found |= {f"probability.{label}": self.probabilities[:, i] for i, label in enumerate(self.classes)}
        return pd.DataFrame(found)


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedModel:
    """A trained model with what asks it and what it claims.

    module  takes the inputs in the order of `preprocessing.features`, gives [n, outputs]
    card    plain JSON values; `text` renders what a person reads
    """

    module: nn.Module
    preprocessing: Preprocessing
    card: Mapping[str, Any]
    page: str = ""

    def predict(
        self, rows: Mapping[str, Any] | pa.Table | pd.DataFrame, where: str = "rows", *, threshold: float | None = None
    ) -> Predictions:
        """What it says of n rows: a table with the declared columns, or {input: array [n, *shape]}.

        where      whose rows they are, in errors
        threshold  of two classes the second is said where its probability is at least that; by default the likelier one

        Raises InvalidValue for rows that are not as declared, and a threshold that cannot be.
        """
        self.check_threshold(threshold)
        if hasattr(rows, "to_dict") and hasattr(rows, "iloc"):
            import pyarrow as pa

            rows = pa.Table.from_pandas(rows, preserve_index=False)
        inputs = self.preprocessing.inputs(rows, where)
        n = len(next(iter(inputs.values()), ()))
        tokens = self.preprocessing.task is Task.TOKENS
        # Of tokens a model says a number for each code at each place.
        size = TOKEN_BATCH if tokens else BATCH
        parts = [] if tokens and n else [np.zeros((0, max(1, len(self.preprocessing.classes))))]
        with torch.no_grad():
            for start in range(0, n, size):
                asked = (torch.from_numpy(np.ascontiguousarray(one[start : start + size])) for one in inputs.values())
                outputs: Tensor = self.module(*asked)
                parts.append(
                    outputs.argmax(-1).numpy() if tokens else outputs.reshape(len(outputs), -1).double().numpy()
                )
        return self._read(np.concatenate(parts), threshold)

    def check_threshold(self, threshold: float | None) -> None:
        """Raises InvalidValue where there are not two classes that it could part, or it is no probability."""
        two = self.preprocessing.task is Task.CLASSIFICATION and len(self.preprocessing.classes) == 2
        if threshold is not None and not (two and 0 <= threshold <= 1):
            expected = "a probability, of a model that tells two classes apart"
            raise InvalidValue("threshold", threshold, expected, "Leave it out: the likeliest class is said then.")

    def _read(self, outputs: NDArray[Any], threshold: float | None) -> Predictions:
        task, classes = self.preprocessing.task, self.preprocessing.classes
        if task is Task.TOKENS:
            return Predictions(outputs, (), np.zeros((len(outputs), 0)))
        if task is Task.REGRESSION:
            return Predictions(outputs[:, 0], (), np.zeros((len(outputs), 0)))
        shares = softmax(outputs, axis=1)
        if task is Task.RATING:
            return Predictions(shares @ _worths(classes), classes, shares)
        chosen = shares.argmax(axis=1) if threshold is None else (shares[:, 1] >= threshold).astype(int)
        return Predictions(np.array([*classes, None], dtype=object)[chosen], classes, shares)

    def save(self, folder: str | Path) -> Path:
        """Write the folder and return it; all of it, or nothing.

        Raises InvalidValue for a folder that is there already, NotExportable, OSError.
        """
        target = Path(folder)
        if target.exists():
            raise InvalidValue("output", str(target), "a folder that is not there yet", "Name another, or remove it.")
        beside = target.with_name(f"{target.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        try:
            state = {name: one.detach().cpu().contiguous().clone() for name, one in self.module.state_dict().items()}
            save_file(state, beside / WEIGHTS)
            torch.export.save(program(self.module, self.preprocessing.features), beside / PROGRAM)
            (beside / PREPROCESSING).write_text(json.dumps(self.preprocessing.to_dict(), indent=1), encoding="utf-8")
            (beside / CARD).write_text(json.dumps(dict(self.card), indent=1, default=str), encoding="utf-8")
            (beside / PAGE).write_text(self.page, encoding="utf-8")
            beside.rename(target)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        return target

    @classmethod
    def load(cls, folder: str | Path) -> ReleasedModel:
        """What `save` wrote, read without pickle.

        Raises InvalidValue for a folder that is none or damaged, and for one whose weights are another model's.
        """
        place = Path(folder)
        missing = [name for name in (WEIGHTS, PROGRAM, PREPROCESSING, CARD) if not (place / name).is_file()]
        if missing:
            raise InvalidValue(
                "model", str(place), f"a folder of `sweeps export`, without {', '.join(missing)} missing"
            )
        try:
            module, weights = read(place / PROGRAM).module(), load_file(place / WEIGHTS)
            card = json.loads((place / CARD).read_text(encoding="utf-8"))
            preprocessing = Preprocessing.from_dict(json.loads((place / PREPROCESSING).read_text(encoding="utf-8")))
            if not isinstance(card, dict):
                raise TypeError(f"{CARD} is no object")
        except InvalidValue:
            raise
        except (NotReadable, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
            expected = f"a folder as `sweeps export` wrote it, read without pickle ({type(error).__name__}: {error})"
            raise InvalidValue("model", str(place), expected, "Export it again.") from error
        held = module.state_dict()
        if weights.keys() != held.keys() or any(not torch.equal(weights[name], held[name]) for name in weights):
            raise InvalidValue("model", str(place), f"the same weights in {WEIGHTS} and {PROGRAM}", "Export it again.")
        return cls(
            module=module,
            preprocessing=preprocessing,
            card=card,
            page=(place / PAGE).read_text(encoding="utf-8") if (place / PAGE).is_file() else "",
        )


# An exported folder as MLflow's generic flavour asks it.


@dataclass(frozen=True, slots=True)
class ServedModel:
    """Raw rows in, `prediction` and `probability.<class>` out."""

    model: ReleasedModel

    def predict(self, model_input: Any) -> pd.DataFrame:
        """One row for each row of a pandas table, or of arrays by name. Raises what `ReleasedModel.predict` raises."""
        return self.model.predict(model_input).table()


def _load_pyfunc(path: str) -> ServedModel:
    """What `mlflow.pyfunc.load_model` calls with the exported folder."""
    return ServedModel(ReleasedModel.load(Path(path)))


def _worths(classes: tuple[Any, ...]) -> NDArray[np.float64]:
    """What each rating counts as, [C]: a model tells them apart by their positions alone."""
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in classes)
    return np.array(classes if numbers else range(len(classes)), dtype=np.float64)


# A model that leaves says of a record what it says of it alone, whichever others it is asked about beside it.
#
# In training, validation and test no record sees another, whatever a model's code does with a batch
# (`dpcore.gradients.isolated`). A program over many records at once has no such care: there a model that subtracts the
# mean of its batch would say something else than the model that was scored. So code that is not ours is written down
# mapped over the records, each as a batch of one. Where torch.export cannot write that (recurrent layers, fused
# attention), it leaves as it is, if it is seen to keep made-up records apart, and not at all if it does not.

_OURS = "trainables."
_RECORDS = 4


class MappedModel(nn.Module):
    """`model` over many records, each of which passes through it as a batch of one; its tensors have their names."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        # The same tables, so that whoever exchanges a tensor here does so there; as a child it would rename them all.
        self._parameters, self._buffers, self._modules = model._parameters, model._buffers, model._modules
        self.__dict__["_model"] = model

    def forward(self, *inputs: Tensor) -> Tensor:
        model = self.__dict__["_model"]
        found: Tensor = torch.func.vmap(lambda *record: model(*(one.unsqueeze(0) for one in record))[0])(*inputs)
        return found


def apart(model: nn.Module, features: Mapping[str, InputSpec]) -> nn.Module:
    """`model`, in evaluation mode, as what may be asked about many records at once and written down as a program.

    Raises NotExportable for one that mixes records and cannot be mapped over them.
    """
    inputs = _made_up(features)
    ours = type(model).__module__.startswith(_OURS) and not isinstance(model, FolderModel)
    if ours or proves_isolation(model, inputs):
        return model
    mapped = MappedModel(model).eval()
    with torch.no_grad():
        inputs, alone = _answered(model, inputs)
        if _is_close(_said(lambda: program(mapped, features).module(), inputs), alone):
            return mapped
        if _is_close(_said(lambda: model, inputs), alone):
            return model
    raise NotExportable(
        "what this model says of a record depends on the records beside it, and torch.export cannot write it down for "
        "each record apart: take nothing of a batch (its mean, its largest value, its longest text) in its forward pass"
    )


def _answered(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Those records for which `model` can be computed, and what it says of each of them alone. Raises NotExportable."""
    found = {row: _said(lambda: model, tuple(one[[row]] for one in inputs)) for row in range(len(inputs[0]))}
    said = {row: one for row, one in found.items() if one is not None}
    if not said:
        raise NotExportable("this model says nothing of records within the declared bounds: each raises an error")
    return tuple(one[list(said)] for one in inputs), torch.cat(list(said.values()))


def _said(made: Callable[[], Callable[..., Tensor]], inputs: tuple[Tensor, ...]) -> Tensor | None:
    """What a model says of records; None where it cannot be made, or raises an error for these."""
    try:
        # What torch.export thinks of a program that may never be.
        with warnings.catch_warnings(action="ignore"):
            # Copies: a model may change its inputs in place.
            return made()(*(one.clone() for one in inputs))
    except Exception:
        # Whatever code of the user's own raises for values.
        return None


def _is_close(said: Tensor | None, alone: Tensor) -> bool:
    if said is None or said.shape != alone.shape:
        return False
    slack = ROUNDING * float(alone.abs().nan_to_num(posinf=0.0).max())
    return torch.allclose(said, alone, rtol=0.0, atol=slack, equal_nan=True)


def _made_up(features: Mapping[str, InputSpec]) -> tuple[Tensor, ...]:
    """Records of nobody's within the declared bounds: drawn, at either bound, and at the lower one from the middle on,
    as padded texts are. [records, *shape] each."""
    draw = torch.Generator().manual_seed(0)
    own = {name: one for name, one in features.items() if not one.mask_of}
    inputs = {name: _values(one, draw).numpy() for name, one in own.items()}
    return tuple(map(torch.from_numpy, with_masks(features, inputs).values()))


def _values(feature: InputSpec, draw: torch.Generator) -> Tensor:
    codes, shape = feature.cardinality, (_RECORDS, *feature.shape)
    low, high = (feature.low, feature.high) if codes is None else (0, codes - 1)
    if codes is None:
        drawn = low + (high - low) * torch.rand(shape, generator=draw)
    else:
        drawn = torch.randint(codes, shape, generator=draw)
    if feature.shape:
        drawn[1::2, ..., feature.shape[-1] // 2 :] = low if feature.padding is None else feature.padding
    return torch.cat([drawn, torch.full_like(drawn[:1], low), torch.full_like(drawn[:1], high)])


# Predictions for the rows of files, beside them in another.

ENDINGS = (".csv", ".parquet")
Files = str | Path | Sequence[str | Path]
"""A file, a folder, a pattern such as "new/*.parquet", or several of these; a URL is one file, or one folder's rows."""


def files_of(files: Files, format: str | None = None) -> tuple[str, ...]:
    """The files that are meant, each once: as they were named, those of a folder or pattern in the order of names.

    format  of all files of a folder; without it they are those whose names end in .parquet or as CSV does

    Raises InvalidValue where there are none.
    """
    found: list[str] = []
    for one in map(str, [files] if isinstance(files, str | Path) else files):
        meant = [one] if "://" in one or Path(one).is_file() else _inside(one, format)
        if not meant:
            raise InvalidValue("file", one, "a Parquet or CSV file, a folder or a pattern of them, that is there")
        found += meant
    if not found:
        raise InvalidValue("file", list(found), "at least one file")
    return tuple(dict.fromkeys(found))


def _inside(where: str, format: str | None) -> list[str]:
    if not Path(where).is_dir():
        return sorted(one for one in glob.glob(where, recursive=True) if Path(one).is_file())
    shown = (one for one in Path(where).rglob("*") if not any(p[0] in "._" for p in one.relative_to(where).parts))
    endings = (".parquet", *table_file.CSV_ENDINGS)
    return sorted(str(one) for one in shown if one.is_file() and (format or one.name.lower().endswith(endings)))


def predicted(
    model: ReleasedModel,
    path: str | Path,
    format: str | None = None,
    *,
    threshold: float | None = None,
    keep: Sequence[str] = (),
) -> pd.DataFrame:
    """One row of predictions for each row of a Parquet or CSV file, in its order.

    format     parquet or csv, where the name of the file does not say
    threshold  see `ReleasedModel.predict`
    keep       columns of the file that stand in front of the predictions, as they are written there

    Raises InvalidValue for a file that is not there or no such file, a missing column, an undeclared category.
    """
    import pyarrow as pa

    asked = model.preprocessing
    kept = [name for name in keep if name not in asked.names]
    names = (*asked.names, *kept)
    rows = pa.concat_tables(table_file.blocks(str(path), format, names, (*asked.texts, *kept), asked.numbers))
    table = model.predict(rows, str(path), threshold=threshold).table()
    for place, name in enumerate(dict.fromkeys(keep)):
        table.insert(place, name, rows.column(name).to_pandas())
    return table


def together(files: Sequence[str], tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all files in their order; of several files `file` says whose a row is."""
    import pandas as pd

    if len(files) == 1:
        return tables[0]
    named = [table.assign(file=name) for name, table in zip(files, tables, strict=True)]
    whole = pd.concat(named, ignore_index=True)
    return whole[["file", *(name for name in whole if name != "file")]]


def check_output(path: str | Path) -> None:
    """Raises InvalidValue for a name that says no format: before anything is computed."""
    if Path(path).suffix not in ENDINGS:
        raise InvalidValue("output", str(path), f"a file whose name ends in {' or '.join(ENDINGS)}")


def written(table: pd.DataFrame, path: str | Path) -> Path:
    """Write predictions as CSV or Parquet, by the name of `path`. Raises InvalidValue, OSError."""
    check_output(path)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".csv":
        table.to_csv(target, index=False)
    else:
        table.to_parquet(target, index=False)
    return target
