"""What turns raw rows into a model's inputs, and its outputs into words: declared values alone, as plain JSON.

Nothing of it was measured on a record: bounds, categories and classes are those of the spec.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from dpcore.checks import InvalidValue
from trainables.data.records import as_input
from trainables.data.table_declaration import Column
from trainables.system import DatasetSpec, InputSpec, Task, with_masks

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
_INPUT, _COLUMNS = TypeAdapter(InputSpec), TypeAdapter(tuple[Column, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessing:
    """How a model is asked, and how its answer is read.

    features  {input: its shape without the record axis, its bounds or number of codes}, in the model's order
    columns   of the user's own table; empty for a packaged data set, whose inputs are asked for by name
    classes   what the outputs stand for, in their order: labels as declared, or 0, 1, ...; empty for a regression
    task      classification, rating or regression
    cuts      whether numbers beyond the bounds of an input are set to the nearer one, as those of a source of one's own
              are in training; else there are none in training, and they are refused
    """

    task: Task
    features: Mapping[str, InputSpec]
    columns: tuple[Column, ...] = ()
    classes: tuple[Any, ...] = ()
    cuts: bool = False

    @classmethod
    def of(cls, facts: DatasetSpec, columns: tuple[Column, ...] = (), classes: tuple[Any, ...] = ()) -> Preprocessing:
        """That of a data set: `columns` and `classes` as a table declares them."""
        labels = classes or tuple(range(0 if facts.task is Task.TOKENS else facts.classes or 0))
        cuts = bool(facts.asserted_by)
        return cls(task=facts.task, features=dict(facts.features), columns=columns, classes=labels, cuts=cuts)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read of a file."""
        return tuple(column.name for column in self.columns) or tuple(self.given)

    @property
    def given(self) -> dict[str, InputSpec]:
        """Inputs that who asks gives: masks follow from these."""
        return {name: one for name, one in self.features.items() if not one.mask_of}

    @property
    def texts(self) -> tuple[str, ...]:
        """Those of a CSV file that are read as they are written."""
        return tuple(column.name for column in self.columns if column.is_text)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Those that are read as numbers with a point."""
        return tuple(one.name for one in self.columns if one.is_number)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "format": FORMAT,
            "task": str(self.task),
            "inputs": [{"name": name, **asdict(feature)} for name, feature in self.features.items()],
            "columns": [asdict(column) for column in self.columns],
            "classes": list(self.classes),
            "cuts": self.cuts,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Preprocessing:
        """The inverse. Raises InvalidValue for another format."""
        if plain.get("format") != FORMAT:
            raise InvalidValue("preprocessing", plain.get("format"), f"format {FORMAT}", "Export the model again.")
        inputs = [dict(one) for one in plain["inputs"]]
        return cls(
            task=Task(plain["task"]),
            features={one.pop("name"): _INPUT.validate_python(one) for one in inputs},
            columns=_COLUMNS.validate_python(plain["columns"]),
            classes=tuple(plain["classes"]),
            cuts=bool(plain.get("cuts", False)),
        )

    def inputs(self, rows: Mapping[str, Any] | pa.Table, where: str = "rows") -> dict[str, NDArray[np.generic]]:
        """The model's inputs [n, *shape] of n rows: a table with the declared columns, or {input: array}.

        where  whose rows they are, in errors

        Raises InvalidValue for a column or input that is missing, of another shape, or holds what was not declared:
        pixels of 0 to 255 are no answer to a question about 0 to 1.
        """
        self._check_names(rows, where)
        if self.columns and not isinstance(rows, Mapping):
            from trainables.data.table import encoded

            found = encoded(where, rows, self.columns)
        else:
            found = {name: _values(where, name, feature, rows) for name, feature in self.given.items()}
            found = with_masks(self.features, found)
        # What training would have refused, a model is not asked about.
        found = {name: as_input(where, name, feature, found[name]) for name, feature in self.features.items()}
        found = {name: self._bounded(where, name, found[name]) for name in found}
        if len(lengths := {len(one) for one in found.values()}) > 1:
            raise InvalidValue(where, sorted(lengths), "as many values of each input")
        return found

    def _bounded(self, where: str, name: str, values: NDArray[np.generic]) -> NDArray[np.generic]:
        feature = self.features[name]
        if feature.cardinality is not None:
            return values
        low, high = np.float32(feature.low), np.float32(feature.high)
        cut: NDArray[np.generic] = np.clip(values, low, high)
        if not self.cuts and (beyond := int((cut != values).sum())):
            expected = f"numbers within {feature.low:g} and {feature.high:g} in {name}, as in training"
            raise InvalidValue(
                where, f"{beyond} beyond", expected, "Scale them as the records were that it learnt from."
            )
        return cut

    def _check_names(self, rows: Mapping[str, Any] | pa.Table, where: str) -> None:
        if isinstance(rows, Mapping):
            held, asked = (
                rows.keys(),
                {name: f"an input {name!r} with shape [n, *{list(one.shape)}]" for name, one in self.given.items()},
            )
        else:
            held, asked = rows.column_names, {name: f"a column {name!r}" for name in self.names}
        if missing := [said for name, said in asked.items() if name not in held]:
            raise InvalidValue(where, sorted(map(str, held)), f"{' and '.join(missing)} too")


def _values(where: str, name: str, feature: InputSpec, rows: Mapping[str, Any] | pa.Table) -> NDArray[np.generic]:
    """[n, *shape]"""
    given = rows[name] if isinstance(rows, Mapping) else rows.column(name).to_pylist()
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise InvalidValue(name, where, "as many numbers in every row") from error
    if values.ndim == 2 and values.shape[1] == math.prod(feature.shape):
        # Files keep a record's numbers as one list.
        values = values.reshape(-1, *feature.shape)
    return values
