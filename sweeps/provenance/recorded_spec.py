"""The spec that a sweep began with, as it was recorded by whatever release: what of it is read later, read here alone.

To go on with a sweep its spec is loaded and checked anew (`sweeps.spec.load_spec`). Views do not: a spec that would be
refused today still says what its trials were judged by. What a release did not record yet is absent here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from trainables.scalarisation import Scalarisation

Value = TypeVar("Value")


class _At(Generic[Value]):
    """What stands at a dotted path of a recorded spec; `absent` where a part of the path was not recorded."""

    def __init__(self, path: str, absent: Value) -> None:
        self._keys, self._absent = path.split("."), absent

    def __get__(self, spec: RecordedSpec, owner: type) -> Value:
        place: Any = spec.canonical
        for key in self._keys:
            if key not in place:
                return self._absent
            place = place[key]
        found: Value = place
        return found


@dataclass(frozen=True, slots=True)
class RecordedSpec:
    """canonical  all of it, as plain JSON values"""

    canonical: Mapping[str, Any]

    systems = _At[Mapping[str, Mapping[str, Any]]]("systems", {})
    """{system: {knob: value, or a mapping where it is searched}}."""
    source = _At[str]("data.source", "")
    """Of the data."""
    population = _At[str]("data.population", "")
    """Of which the records are, with a budget that all sweeps over it share; empty: nobody counts across sweeps."""
    data_unit = _At[Mapping[str, Any] | None]("data.unit", None)
    """Whose the records are."""
    unit = _At[str | None]("privacy.unit", None)
    """The word for what neighbours differ in."""
    public_because = _At[str | None]("data.records_are_public", None)
    """Why the records are public."""
    raw_because = _At[str | None]("privacy.allow_raw_measures", None)
    """Why metrics leave that read training records outside of every claim."""
    release = _At[str]("privacy.release", "all")
    """The word for what leaves the sweep: all of it, before there was a word."""
    scope = _At[str]("privacy.scope", "trial")
    """The word for what its budget bounds."""
    budgets = _At[Sequence[float]]("privacy.epsilon", ())
    """Target epsilons, ascending."""
    delta = _At[float | None]("privacy.delta", None)
    """Of all its claims."""
    filter = _At[str]("privacy.filter", "gdp")
    """What adds up in a budget of the whole sweep."""
    selection = _At[Mapping[str, Any] | None]("selection", None)
    """Of a sealed search, of which few trials leave: the law of their number, its deadline."""
    references = _At[Mapping[str, Mapping[str, Any]]]("front.reference", {})
    """{metric: {"value": ..., "source": ...}}: where the axes of a front end."""
    sampler = _At[str | None]("search.sampler", None)
    """What chose the trials."""
    trials = _At[int | None]("search.trials", None)
    """How many it began with."""
    is_stratified = _At[bool]("search.stratified", False)
    """Whether systems and budgets took turns."""
    warm_start = _At[str | None]("search.warm_start", None)
    """The sweep whose results the search started from."""
    chosen_from = _At[str | None]("search.chosen_from", None)
    """Of a final run: the sweep that tuned."""
    chosen = _At[Mapping[str, Any] | None]("search.chosen", None)
    """What that came to."""
    tracking_uri = _At[str | None]("tracking.uri", None)
    """Where its MLflow is."""
    models = _At[str | Sequence[int]]("tracking.models", "front")
    """Whose models MLflow shows at the end: "front", "none", or numbers of trials."""
    first = _At[Sequence[Mapping[str, Any]]]("search.first", ())
    """Points that were tried before those of the sampler."""
    report = _At[Sequence[str]]("report", ())
    """Metrics that trials report besides those of the objectives."""
    early_stopping = _At[Mapping[str, Any] | None]("early_stopping", None)
    """The rule that ended trials by their results."""

    def at_budgets(self, added: Sequence[float]) -> RecordedSpec:
        """This one, and budgets that its sweep was given later: they move the references that follow from budgets."""
        from sweeps.spec.sections import BUDGET_AXES, beyond

        if not added:
            return self
        privacy, front = self.canonical["privacy"], self.canonical.get("front", {})
        budgets = sorted((*privacy["epsilon"], *added))
        end, ends = beyond(budgets).model_dump(), dict(self.references)
        ends |= {name: end for name in BUDGET_AXES if name in ends and ends[name].get("derived")}
        changed = {"privacy": {**privacy, "epsilon": budgets}, "front": {**front, "reference": ends}}
        return RecordedSpec({**self.canonical, **changed})

    @property
    def enforces_units(self) -> bool:
        """Whether it is of a time when a word for a unit had to be enforced."""
        return "unit" in self.canonical.get("data", {})

    @property
    def is_stated(self) -> bool:
        """Whether it is of a time when metrics said on what they depend."""
        return "allow_raw_measures" in self.canonical.get("privacy", {})

    @property
    def objectives(self) -> tuple[tuple[str, str], ...]:
        """(metric, goal) each."""
        return tuple((one["metric"], one.get("goal", "")) for one in self.canonical.get("objectives", ()))

    @property
    def orders(self) -> tuple[Scalarisation, ...]:
        """By which trials are best, where only the best may leave."""
        from sweeps.spec.sections import orders_of

        return orders_of(self.objectives, self.release, (self.selection or {}).get("orders", ()))

    @property
    def asked(self) -> tuple[str, ...]:
        """Metrics that a trial has to report: those of the objectives, and those besides."""
        return (*(metric for metric, _ in self.objectives), *self.report)
