"""What a sweep does with its validation records, in the one line that `check`, `run`, `show` and the report print."""

from __future__ import annotations

from collections.abc import Mapping

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from sweeps.provenance.recorded_spec import RecordedSpec
from trainables.system import PublicFacts

TREATED_AS_PUBLIC = "treated as public: metrics on them leave as they are, and no claim covers these records"
_PRIVATE = "private: each report is one noised histogram, whose cost every claim includes"
_IN_PARALLEL, _ADDED = f"{_PRIVATE} (in parallel with training)", f"{_PRIVATE} (added to training's)"


def validation_text(facts: PublicFacts, adjacency: Adjacency) -> str | None:
    """The line for data with these facts; None where there are no validation records."""
    if not facts.n_validation:
        return None
    private = facts.private_validation
    if private is None:
        return TREATED_AS_PUBLIC
    parallel = bool(private.parts) and adjacency is Adjacency.ADD_REMOVE
    return _IN_PARALLEL if parallel else _ADDED


def recorded_text(spec: RecordedSpec) -> str | None:
    """The line for a recorded spec, whose data may be gone by now."""
    from sweeps.spec.sections import FUNCTION, Data
    from trainables.data import SOURCES

    if FUNCTION.fullmatch(spec.source):
        # What it says is in the spec: nobody's code is run to show a sweep.
        declared = spec.canonical.get("data", {}).get("validation")
        if not declared:
            return None
        return _ADDED if declared.get("records") == "private" else TREATED_AS_PUBLIC
    try:
        data = Data(**spec.canonical["data"])
        facts = SOURCES[data.source].facts(data.options())
    except (InvalidValue, OSError, KeyError):
        # What is needed to ask is gone. Before records could be declared private all were public, and published
        # sources are.
        declared = spec.canonical.get("data", {}).get("validation")
        return _PRIVATE if isinstance(declared, Mapping) and declared.get("records") == "private" else TREATED_AS_PUBLIC
    return validation_text(facts, Adjacency(spec.canonical["privacy"]["adjacency"]))


def declared_number(n: int, counted: str) -> str:
    """How many records there are, or units: a public number that was declared, which no file was held to exactly.

    counted  see `PublicFacts.counted`
    """
    return f"{n:,} as declared" if counted == "records" else f"those of {n:,} {counted} as declared"
