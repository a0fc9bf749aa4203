"""The reading: a trial's model is scored on the test records, once, and it is on record before that happens."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from contextlib import closing

from dpcore.checks import InvalidValue
from sweeps.export.exporting import released
from sweeps.held_out.declared import declared_test
from sweeps.held_out.readings import HeldOutReading, of_its_records, readings
from sweeps.population.besides import charge_reading
from sweeps.release.publisher import Publisher
from sweeps.spec import load_spec
from sweeps.store.records import Accepted, HeldOutRead, HeldOutScore, SweepRecord, this_person
from sweeps.store.store import Store
from sweeps.util.fingerprint import Changed
from sweeps.util.workspace import Workspace
from trainables.data import SOURCES
from trainables.data.records import fingerprint
from trainables.data.splits import HasTestRecords
from trainables.features.declared import parted


def read(
    workspace: Workspace, sweep: str, trial: int | str, *, again: bool = False, accept: Collection[str] = ()
) -> HeldOutReading:
    """The score of a finished trial on the test records of its sweep: as it was read before, or read now.

    again   although they were read for another trial, or a reading was cut short: the score is then no longer of an
            untouched test set, every card says so, and private records are charged once more
    accept  see `sweeps.export.exporting.released`

    The reading is durable in the store before a record is scored, so that a crash costs a reading, and never hides one.
    So is its charge to the population, where the records are private.
    Raises InvalidValue for a sweep without test records, a second reading, and what `released` refuses; Changed where
    the other records are not those that the sweep had; and PopulationSpent.
    """
    seen = Publisher.open(workspace.store_url)
    record = seen.sweep(sweep).kept()
    declared = declared_test(record.spec)
    if declared is None:
        raise InvalidValue(
            "sweep", record.called, "a sweep whose spec declares data.test", "Test records cannot be declared later."
        )
    model = released(workspace, record.name, trial, accept=accept)
    made = of_its_records(seen, record.name)
    if (known := _known(made, model.record.key)) is not None:
        return known
    _check_first(made, model.record.key, again)
    data = load_spec(record.spec.canonical).data
    source = SOURCES[data.source]
    assert isinstance(source, HasTestRecords)
    own, features = parted(data.options())
    records = source.load_held_out(own)
    if not len(records):
        raise InvalidValue("data.test", declared.held.path or declared.held.id, "at least one record, found none")
    split = records if features is None else features.split(records, source.facts(own), workspace.features)
    from trainables.export.scoring import noised_score, score

    with closing(workspace.open_store()) as store:
        _check_unchanged(store, record, source.load(own).fingerprint)
        # Of the records, whatever they are seen through.
        word = store.data_fingerprint(fingerprint(records))
        _check_first(of_its_records(seen, record.name, word), model.record.key, again)
        charge_reading(store, record, f"{model.record.key} {secrets.token_hex(8)}", declared)
        number = store.ask(record.name, HeldOutRead(trial=model.record.key, records=word), this_person())
        if declared.histogram is None:
            found = score(model.module, split, model.facts)
        else:
            found = noised_score(model.module, split, model.facts, declared.held.n, declared.histogram, declared.bins)
        came = HeldOutScore(read=number, metrics=found.metrics, standard_error=found.standard_error)
        store.ask(record.name, came, this_person())
    return next(one for one in readings(seen, record.name) if one.id == number)


def _check_unchanged(store: Store, record: SweepRecord, others: str) -> None:
    """Under other ids somebody who trained would be a test record.  others  fingerprint of all records but these"""
    began, asked = record.fingerprints.get("data"), store.requests(record.name)
    changed = began is not None and store.data_fingerprint(others) != began
    if changed or any(isinstance(one.wanted, Accepted) and one.wanted.what == "data" for one in asked):
        when = "since it ran" if changed else "while it ran (--accept data)"
        raise Changed(
            f"sweep {record.called!r}: its records changed {when}, so that nobody knows whether it trained on the test "
            f"records that are there now. {'Restore the file, or start' if changed else 'Start'} a new sweep."
        )


def _known(made: Collection[HeldOutReading], trial: str) -> HeldOutReading | None:
    """The first score of this very trial: asked for again it is the same, and no new reading."""
    return next((one for one in made if one.trial == trial and one.metrics), None)


def _check_first(made: Collection[HeldOutReading], trial: str, again: bool) -> None:
    if made and not again:
        last = list(made)[-1]
        listed = ", ".join(dict.fromkeys(one.trial for one in made))
        raise InvalidValue(
            "trial",
            trial,
            f"{listed}, for which the test records were read, last by {last.asker} at {last.when}",
            "Whoever chooses by test scores has no test set left. --again reads them all the same, on record; every "
            "card then says that they are no longer untouched.",
        )
