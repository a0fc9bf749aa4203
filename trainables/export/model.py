"""A model that has left its sweep: asked with raw rows, kept in a folder, read again without anything of ours.

    weights.safetensors  every parameter and buffer by name
    program.pt2          the model as a torch.export program, any number of records at once
    preprocessing.json   see `trainables.export.preprocessing`
    card.json, README.md what it is, what it claims, how good it was

`torch.export.load("program.pt2").module()` in a process that has torch alone gives the outputs of these inputs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
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
from trainables.export.preprocessing import Preprocessing
from trainables.features.programs import NotReadable, program, read
from trainables.system import Task

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
