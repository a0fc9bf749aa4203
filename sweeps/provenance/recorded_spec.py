"""The spec that a sweep began with, as it was recorded by whatever release: what of it is read later, read here alone.

To go on with a sweep its spec is loaded and checked anew (`sweeps.spec.load_spec`). Views do not: a spec that would be
refused today still says what its trials were judged by. What a release did not record yet is absent here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RecordedSpec:
    """canonical  all of it, as plain JSON values"""

    canonical: Mapping[str, Any]

    @property
    def systems(self) -> Mapping[str, Mapping[str, Any]]:
        """{system: {knob: value, or a mapping where it is searched}}."""
        return self.canonical.get("systems", {})

    @property
    def source(self) -> str:
        """Of the data."""
        return str(self._data.get("source", ""))

    @property
    def data_unit(self) -> Mapping[str, Any] | None:
        """Whose the records are."""
        return self._data.get("unit")

    @property
    def enforces_units(self) -> bool:
        """Whether it is of a time when a word for a unit had to be enforced."""
        return "unit" in self._data

    @property
    def unit(self) -> str | None:
        """The word for what neighbours differ in."""
        return self._privacy.get("unit")

    @property
    def public_because(self) -> str | None:
        """Why the records are public."""
        return self._data.get("records_are_public")

    @property
    def raw_because(self) -> str | None:
        """Why metrics leave that read training records outside of every claim."""
        return self._privacy.get("allow_raw_measures")

    @property
    def release(self) -> str:
        """The word for what leaves the sweep: all of it, before there was a word."""
        return str(self._privacy.get("release", "all"))

    @property
    def is_stated(self) -> bool:
        """Whether it is of a time when metrics said on what they depend."""
        return "allow_raw_measures" in self._privacy

    @property
    def objectives(self) -> tuple[tuple[str, str], ...]:
        """(metric, goal) each."""
        return tuple((one["metric"], one.get("goal", "")) for one in self.canonical.get("objectives", ()))

    @property
    def references(self) -> Mapping[str, Mapping[str, Any]]:
        """{metric: {"value": ..., "source": ...}}: where the axes of a front end."""
        return self.canonical.get("front", {}).get("reference", {})

    @property
    def sampler(self) -> str | None:
        """What chose the trials."""
        return self._search.get("sampler")

    @property
    def is_stratified(self) -> bool:
        """Whether systems and budgets took turns."""
        return bool(self._search.get("stratified"))

    @property
    def warm_start(self) -> str | None:
        """The sweep whose results the search started from."""
        return self._search.get("warm_start")

    @property
    def early_stopping(self) -> Mapping[str, Any] | None:
        """The rule that ended trials by their results."""
        return self.canonical.get("early_stopping")

    @property
    def _data(self) -> Mapping[str, Any]:
        return self.canonical.get("data", {})

    @property
    def _privacy(self) -> Mapping[str, Any]:
        return self.canonical.get("privacy", {})

    @property
    def _search(self) -> Mapping[str, Any]:
        return self.canonical.get("search", {})
