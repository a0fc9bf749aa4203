"""The whole of a sweep spec: its sections, digest and meaning."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import Field

from sweeps.spec.domains import Domain
from sweeps.spec.orders import orders_of
from sweeps.spec.same_as import SameAs
from sweeps.spec.sections import (
    NUMBER,
    Data,
    EarlyStopping,
    ExecutionOptions,
    FrontOptions,
    Knob,
    Limits,
    Name,
    ObjectiveOptions,
    Privacy,
    Resources,
    Search,
    Section,
    Selection,
    Tracking,
)
from trainables.orders import PublicOrder
from trainables.plugins import OBJECT
from trainables.system import Execution


class SweepSpec(Section):
    """The whole spec. Build it with `load_spec`: only that checks sections against each other, systems and data.

    constraints  relations between knobs that have to hold (`sweeps.spec.constraints`)
    report       metrics that each trial reports besides (`sweeps systems` lists them, and `module:function` is one of
                 your own: `trainables.measures.objectives`), and that steer nothing
    curve        points of each trial's learning curve: its metrics after this many equal shares of its planned steps,
                 the last of them its end. On private validation records each point is a report of its own within the
                 budget. Null: a trial reports at its end, and at the rungs of early stopping
    """

    name: Name
    data: Data
    systems: Annotated[dict[str, dict[str, Knob]], Field(min_length=1)]
    constraints: tuple[str, ...] = ()
    privacy: Privacy
    objectives: Annotated[tuple[ObjectiveOptions, ...], Field(min_length=1)]
    search: Search
    report: tuple[str, ...] = ()
    curve: Annotated[int, Field(ge=2, le=1000), NUMBER] | None = None
    selection: Selection | None = None
    early_stopping: EarlyStopping | None = None
    limits: Limits = Limits()
    resources: Resources = Resources()
    execution: ExecutionOptions = ExecutionOptions()
    tracking: Tracking = Tracking()
    front: FrontOptions = FrontOptions()
    store: str | None = None

    def canonical(self) -> dict[str, Any]:
        """Plain JSON values, complete; `load_spec(spec.canonical()) == spec`."""
        canonical = self.model_dump(mode="json")
        for section, names in ABSENT_UNLESS_GIVEN.items():
            for name in names:
                if canonical[section] and not canonical[section][name]:
                    del canonical[section][name]
        for name in ("constraints", "report", "curve", "selection"):
            if not canonical[name]:
                del canonical[name]
        if (self.privacy.scope, self.privacy.release) != ("sweep", "all"):
            del canonical["privacy"]["spread"], canonical["privacy"]["filter"]
        return canonical

    def meaning(self) -> dict[str, Any]:
        """The part that decides what is trained, claimed and proposed: all but name, store, tracking, resources,
        execution and the limit on stalls, which move work around or change its speed, and front, which measures what
        came of it."""
        canonical = self.canonical()
        del canonical["limits"]["stall_seconds"]
        return {key: value for key, value in canonical.items() if has_meaning(key)}

    @property
    def digest(self) -> str:
        """SHA-256 of the meaning, in hex: the same for every spelling of one sweep."""
        canonical = json.dumps(self.meaning(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def orders(self) -> tuple[PublicOrder, ...]:
        """By which trials are best, of which some leave: the first objective, or with `release: front` several."""
        objectives = [(one.metric, str(one.goal)) for one in self.objectives]
        return orders_of(objectives, self.privacy.release, () if self.selection is None else self.selection.orders)

    @property
    def asked(self) -> tuple[str, ...]:
        """Metrics that a trial has to report: those of the objectives, and those besides."""
        return (*(one.metric for one in self.objectives), *self.report)

    def settings(self) -> Execution:
        """How each trial executes."""
        return Execution(noise_source=self.privacy.noise_source, **self.execution.model_dump(exclude={"retries"}))

    def texts(self) -> tuple[str, ...]:
        """Every text that a knob may take."""
        knobs = [knob for knobs in self.systems.values() for knob in knobs.values() if not isinstance(knob, SameAs)]
        values = {value for knob in knobs for value in (knob.values if isinstance(knob, Domain) else (knob,))}
        return tuple(sorted(value for value in values if isinstance(value, str)))

    def user_functions(self) -> tuple[str, ...]:
        """What text knobs and metrics name as `package.module:function`, and systems as `module:object`: workers import
        them."""
        return tuple(text for text in (*self.texts(), *self.systems, *self.asked) if FUNCTION.fullmatch(text))

    def user_modules(self) -> tuple[str, ...]:
        """Modules of these, and of a sampler, a data source and a feature map that are named so: the user's own code,
        part of what is trained."""
        here = (
            one for one in (self.search.sampler, self.data.source, self.data.feature_map) if FUNCTION.fullmatch(one)
        )
        return tuple(sorted({function.split(":")[0] for function in (*self.user_functions(), *here)}))


ABSENT_UNLESS_GIVEN = {
    "data": ("population",),
    "limits": ("hours", "trial_minutes"),
    "privacy": ("shares", "order"),
    "search": ("first", "resolved", "chosen_from", "chosen"),
    "selection": ("target", "orders", "adapt"),
    "tracking": ("models",),
}
"""Values of a canonical spec that are younger than its digest: without them a spec has the one that it always had."""
FUNCTION = OBJECT
"""The user's own code in a spec: `package.module:function`."""
WITHOUT_MEANING = frozenset({"name", "tracking", "store", "resources", "execution", "front", "limits.stall_seconds"})


def has_meaning(path: str) -> bool:
    """Whether the value at this path of a spec decides what is trained, claimed or proposed."""
    return path not in WITHOUT_MEANING and path.split(".")[0] not in WITHOUT_MEANING
