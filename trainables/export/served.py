"""An exported folder as MLflow's generic flavour asks it; `_load_pyfunc` is the name that MLflow looks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.export.model import ReleasedModel

if TYPE_CHECKING:
    import pandas as pd


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
