"""The hyperparameters of a final run: the best trial of the sweep that tuned, found once, when the final one begins.

Best is by the final spec's own objective, among published results; of equal ones the first. The point is a function of
what left the earlier sweep alone. It is recorded as `search.first`, and where it is from as `search.chosen`: whatever
becomes of the earlier sweep, the final run stays what it began as.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from dpcore.checks import InvalidValue
from dpcore.guarantee import STANDING, Guarantee, Notion
from sweeps.planning.plan import plan_proposal
from sweeps.privacy.release import Published, PublishedStore
from sweeps.privacy.totals import own_total
from sweeps.privacy.wording import quote_of_total
from sweeps.search.space import Space, read_point
from sweeps.spec.domains import Domain, SameAs
from sweeps.spec.parse import public_facts
from sweeps.spec.problems import Problems
from sweeps.spec.sections import FUNCTION, Chosen, Data, SweepSpec
from sweeps.store.errors import UnknownSweep
from sweeps.store.population import PARTS
from sweeps.store.records import SYSTEM, SweepRecord, SweepState, TrialState
from trainables.data import SOURCES
from trainables.data.options import FeatureOptions
from trainables.data.splits import overlap
from trainables.system import Refusal, Scalar

# On which records a sweep may tune for a final run.
#
# public on public ones, none of which the final run reads. A trial on private records is an access to them, also
# where it is judged on public ones: that is not free holdout on the other part of the same records, by one split

HERE = "search.chosen_from"
OWN_FILES = "table"
"""The packaged source whose records are the user's own: elsewhere one name is one data set, wherever it lies."""

SAME = ("source", "of", "path", "format", "n", "unit", "population", "records_are_public")
"""What says which records a table is about, and whose. Its ids part them, whatever is made of its columns."""
FREE = frozenset({"part", "validation", "test", *FeatureOptions.model_fields})
"""What may differ in the data sections of two sweeps on parts of any other source. All else may decide what a record
is, which records train and which validate, and so who is in which part."""
LIMIT = "limit"
"""Of a packaged source: how many of the same positions, of which it then takes the part."""


def check_public(spec: SweepSpec, tuned: SweepRecord) -> None:
    """Whether everything that `tuned` read is declared public, and none of it is what the final run reads.

    Raises InvalidValue.
    """
    check_all_public(tuned, HERE)
    own = spec.data.model_dump(mode="json")
    # As far as their declarations tell.
    if _are_same(own, tuned.spec.canonical()["data"]):
        expected = f"a sweep on other records than the {_source(own)} of this spec: a search on the records of its "
        remedy = "Tune on a proxy, or search here with `scope: sweep`."
        raise InvalidValue(HERE, tuned.called, f"{expected}final run is not free", remedy)


def check_all_public(tuned: SweepRecord, option: str) -> None:
    """Whether everything that `tuned`, which `option` names, read is declared public. Raises InvalidValue."""
    remedy = "Declare data.records_are_public there if that is true; tuning on private records is not free."
    if tuned.spec.data.records_are_public is None:
        raise InvalidValue(option, tuned.called, "a sweep all of whose records are declared public", remedy)
    for name in PARTS:
        part = tuned.spec.canonical()["data"].get(name)
        if isinstance(part, Mapping) and part.get("records") == "private":
            expected = f"a sweep whose {name} records are public too, as all that it reads"
            raise InvalidValue(option, tuned.called, expected, remedy)


def check_parts(spec: SweepSpec, tuned: SweepRecord) -> None:
    """Whether `tuned` read the other part of the records of a final run, by one split. Raises InvalidValue."""
    data = tuned.spec.canonical()["data"]
    own = spec.data.model_dump(mode="json")
    for name in _same(own, data):
        if own.get(name) != data.get(name):
            expected = f"{data.get(name)!r}, as sweep {tuned.called!r} has it"
            raise InvalidValue(f"data.{name}", own.get(name), expected, "Both sweeps read one file, of one population.")
    source = SOURCES[spec.data.source]
    theirs = source.part({name: value for name, value in data.items() if name not in Data.model_fields})
    ours = source.part(spec.data.options())
    assert ours is not None
    if theirs is None or theirs.use != "tuning":
        expected = f"a sweep on the tuning part of the records; it read {'all' if theirs is None else 'the other part'}"
        remedy = "What it released adds to a run on the same records: tune with `data.part: {use: tuning, ...}`."
        raise InvalidValue(HERE, tuned.called, expected, remedy)
    for name in ("share", "id", "key"):
        one, other = getattr(ours, name), getattr(theirs, name)
        if one != other:
            expected = f"{other!r}, by which sweep {tuned.called!r} parted them: by another both read some records"
            raise InvalidValue(f"data.part.{name}", one, expected, "A split stays as it is for good.")


def _same(own: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """What has to be equal in two data sections, where the source comes first."""
    source = _source(own)
    if OWN_FILES in (source, own["source"]):
        return SAME
    free = FREE if FUNCTION.fullmatch(source) else FREE | {LIMIT}
    return ("source", *sorted((own.keys() | other.keys()) - free - {"source"}))


def _are_same(final: Mapping[str, Any], tuned: Mapping[str, Any]) -> bool:
    """As far as their declarations tell; of a file that was copied the fingerprint does."""
    ours, theirs = list(_files(final, private=True)), list(_files(tuned))
    if any(overlap(one, other) for one in ours for other in theirs):
        return True
    source = _source(final)
    if source != _source(tuned) or source == OWN_FILES:
        return False
    return not (FUNCTION.fullmatch(source) and ours and theirs)


def _source(data: Mapping[str, Any]) -> str:
    """That of the records themselves, however they are seen."""
    return str(data.get("of") or data["source"])


def _files(data: Mapping[str, Any], private: bool = False) -> Iterator[str]:
    """Files that a data section names; of its parts those that are private alone, where it is asked for."""
    for part in (data, *(data.get(name) for name in PARTS)):
        public = private and part is not data and isinstance(part, Mapping) and part.get("records") == "public"
        if isinstance(part, Mapping) and isinstance(part.get("path"), str) and not public:
            yield part["path"]


ENDED = (SweepState.FINISHED, SweepState.EXHAUSTED, SweepState.OUT_OF_BUDGET)
"""Sweeps that have come to their own end."""


def with_chosen(
    spec: SweepSpec, store: PublishedStore, calibrations: MutableMapping[str, float] | None = None
) -> SweepSpec:
    """The spec of a final run with its point, and where that is from; any other spec as it is. Reads no record.

    Raises InvalidValue for an earlier sweep that is unknown, has not ended, is refuted, released nothing or may not
    tune for this one, for a point that this one cannot run, and for a system that would claim nothing here; SpecErrors
    for a point that is none of its space.
    """
    if spec.search.chosen_from is None:
        return spec
    calibrations = {} if calibrations is None else calibrations
    record = _ended(spec.search.chosen_from, store)
    public = spec.privacy.scope == "public"
    if public:
        check_public(spec, record)
    else:
        check_parts(spec, record)
    best = _best(spec, record, store)
    point = _point(spec, record, best)
    chosen = Chosen(
        sweep=record.name,
        trial=best.key,
        public_because=(record.spec.data.records_are_public or "") if public else "",
        records=record.fingerprints.get("data", ""),
        claim=None if public else _cost(spec, record, store).to_dict(),
    )
    search = spec.search.model_copy(update={"first": (point,), "chosen": chosen})
    found = spec.model_copy(update={"search": search})
    plan = plan_proposal(found, point, public_facts(found), calibrations)
    if isinstance(plan, Refusal):
        expected = f"a sweep whose best trial, {best.key}, can be run here ({plan.reason})"
        raise InvalidValue(HERE, record.called, expected, "Change the budget, the limits or the data of this spec.")
    if not public:
        _check_systems(found, record, calibrations)
    return found


def check_apart(spec: SweepSpec, records: str) -> None:
    """The records of a final run are not those that tuned.  records  their fingerprint, keyed by the store

    Raises InvalidValue.
    """
    chosen = spec.search.chosen
    if chosen is not None and chosen.claim is None and chosen.records == records:
        raise InvalidValue(
            "data.source",
            spec.data.source,
            f"other records than those of sweep {chosen.sweep}, which are declared public: these are the same",
            "A search on the records of its final run is not free: use one sweep with `scope: sweep`.",
        )


def _ended(name: str, store: PublishedStore) -> SweepRecord:
    """The sweep that tuned. Raises InvalidValue."""
    try:
        record = store.sweep(name)
    except UnknownSweep as error:
        raise InvalidValue(HERE, name, f"a sweep of this store ({error})", "Run it first, or name its store.") from None
    if record.state not in ENDED:
        remedy = f"`sweeps resume {record.called}` goes on with it."
        raise InvalidValue(HERE, record.called, f"a sweep that has ended; it is {record.state}", remedy)
    if record.spec.search.warm_start or record.spec.search.chosen_from:
        earlier = record.spec.search.warm_start or record.spec.search.chosen_from
        expected = f"a sweep that started from no other: it carries on what {earlier} found, on whichever records"
        raise InvalidValue(HERE, record.called, expected, "Choose from one that started cold.")
    if by := store.refuted(record.name):
        remedy = "Tune with systems whose claims stand."
        expected = f"a sweep none of whose claims is refuted, as those of {', '.join(by)} are"
        raise InvalidValue(HERE, record.called, expected, remedy)
    return record


def _cost(spec: SweepSpec, record: SweepRecord, store: PublishedStore) -> Guarantee:
    """What everything that left the sweep that tuned cost its part of the records. Raises InvalidValue."""
    remedy = "Tune with `scope: sweep`, or with a sampler that looks at no results and no early stopping."
    total = own_total(store, record.name, store.trials(record.name))
    if total.procedure is None:
        raise InvalidValue(HERE, record.called, f"a sweep whose total is counted ({total.uncounted})", remedy)
    quote, claim = quote_of_total(total.procedure), total.procedure.guarantee
    if not total.procedure.is_claim:
        expected = f"a sweep whose total is a guarantee; of this one it is none: {quote.sentence or quote.words}"
        raise InvalidValue(HERE, record.called, expected, remedy)
    terms, own = (
        f"{notion} per {terms.unit} under {terms.adjacency}"
        for notion, terms in ((claim.notion, claim), (Notion.DP, spec.privacy))
    )
    if terms != own:
        raise InvalidValue(HERE, record.called, f"a sweep whose total is of {own}, as this spec, not of {terms}")
    return claim


def _check_systems(spec: SweepSpec, record: SweepRecord, calibrations: MutableMapping[str, float]) -> None:
    """Whether the final run would make a claim that stands whichever system the best trial were of: that depends on the
    records that tuned, and the claim of both sweeps is one on every way that it could have gone.

    Raises InvalidValue.
    """
    could = [one for one in Space.of(spec).middles() if one[SYSTEM] in record.spec.systems]
    for config in could if len(could) > 1 else ():
        plan = plan_proposal(spec, config, public_facts(spec), calibrations)
        if not isinstance(plan, Refusal) and plan.guarantee.status not in STANDING:
            expected = f"systems whose claims stand, each of which could have won in {record.called}"
            said = f"It would claim {plan.guarantee.standing}: leave it out of this spec."
            raise InvalidValue("systems", str(config[SYSTEM]), expected, said)


def _best(spec: SweepSpec, record: SweepRecord, store: PublishedStore) -> Published:
    """By the objective of the final spec, the first of equal ones. Raises InvalidValue."""
    (objective,) = spec.objectives
    ended = store.trials(record.name, states=[TrialState.COMPLETE])
    sign = -1.0 if objective.goal == "maximize" else 1.0
    values = ((one, one.metric(objective.metric)) for one in ended)
    told = [(sign * value, one.number, one) for one, value in values if value is not None and math.isfinite(value)]
    if not told:
        expected = f"a sweep that released a trial with {objective.metric}, of which there is none"
        remedy = "Name an objective here that its trials report." if ended else "Nothing left it: tune again."
        raise InvalidValue(HERE, record.called, expected, remedy)
    return min(told, key=lambda one: one[:2])[2]


def _point(spec: SweepSpec, record: SweepRecord, best: Published) -> dict[str, Scalar]:
    """The configuration of the final run. Raises SpecErrors."""
    space, problems = Space.of(spec), Problems()
    system = str(best.config[SYSTEM])
    written: dict[str, Any] = {SYSTEM: system}
    searched = [name for name, knob in record.spec.systems[system].items() if isinstance(knob, Domain | SameAs)]
    if system in spec.systems:
        branch = space.branch(system)
        # What the earlier one searched has to be what it found, also where this spec fixes a value.
        names = {*branch.searched, *(name for name in searched if name not in branch.follows)}
        written |= {name: best.config[name] for name in names if name in best.config}
    point = read_point(space, written, HERE, problems)
    problems.raise_any(f"the final run with what sweep {record.called!r} found")
    assert point is not None
    return point
