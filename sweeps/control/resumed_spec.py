"""The spec that a sweep goes on under: what it began with, or a changed one that was accepted by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from dpcore.checks import InvalidValue
from sweeps.control.extensions import begun
from sweeps.ledger.spending import choices_by_results
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.records import SweepRecord
from sweeps.release.policy import Release
from sweeps.release.validation_text import recorded_text
from sweeps.requests import Accepted, Wanted, this_person
from sweeps.search.samplers import learns
from sweeps.spec import SpecErrors, SweepSpec, diff, load_spec, public_facts
from sweeps.util import fingerprint
from trainables.system import PublicFacts

if TYPE_CHECKING:
    from sweeps.store import Store


def effective_spec(recorded: SweepRecord, given: SweepSpec | None, accept: Collection[str]) -> SweepSpec:
    """What the sweep goes on under, but for its extensions.

    given   what it is to be compared with, if anything
    accept  "spec": it may differ, but for what the views state of all trials, and what a total rests on

    Raises Changed, InvalidValue.
    """
    try:
        before = load_spec(recorded.spec.canonical)
    except SpecErrors as refused:
        raise fingerprint.Changed(
            f"sweep {recorded.name!r} was started with a spec that is refused now:\n{refused}\n"
            "Its finished trials can be read. Start a new sweep."
        ) from refused
    # The recorded spec is read anew: a digest of before a field existed differs, and means the same.
    if given is None:
        return before
    given = begun(given, before, recorded.extensions)
    if before.selection is not None and (given.execution, given.resources) != (before.execution, before.resources):
        raise fingerprint.Changed(
            f"sweep {recorded.name!r}: execution and resources cannot change: the trials of a sealed search are "
            f"alike but for their configurations, and one that is run again is the same:\n{diff(before, given)}\n"
            "Resume it without a spec, or start a new sweep with --name."
        )
    if given.digest == before.digest:
        return given
    if before.privacy.noise_source != given.privacy.noise_source:
        raise InvalidValue(
            "privacy.noise_source",
            given.privacy.noise_source,
            f"{before.privacy.noise_source}, which the claims of sweep {recorded.name!r} name",
            "Start a new sweep with --name: one sweep draws all its noise from one source.",
        )
    changed = stated(before, given)
    if "spec" in accept:
        if changed:
            raise fingerprint.Changed(
                f"sweep {recorded.name!r}: {', '.join(changed)} cannot change: what views state above its claims and "
                f"of its total follows from the spec that it began with, for all of its trials:\n"
                f"{diff(before, given)}\nStart a new sweep with --name."
            )
        return given
    going_on = "" if changed else ", or go on under the changed one with --accept spec"
    raise fingerprint.Changed(
        f"sweep {recorded.name!r} was started with another spec:\n{diff(before, given)}\n"
        f"Start a new sweep with --name{going_on}."
    )


def accept_spec(store: Store, recorded: SweepRecord, began: SweepSpec) -> None:
    """Put on record that a sweep goes on under another spec than it began with, or than it went on under last.

    began  what came of `effective_spec`
    """
    before = load_spec(recorded.spec.canonical).digest
    known = [one.wanted.now for one in store.requests(recorded.name) if _of_spec(one.wanted)]
    if began.digest != (known[-1] if known else before):
        accepted = Accepted(what="spec", before=known[-1] if known else before, now=began.digest)
        store.ask(recorded.name, accepted, this_person())


def _of_spec(wanted: Wanted) -> TypeGuard[Accepted]:
    return isinstance(wanted, Accepted) and wanted.what == "spec"


def stated(before: SweepSpec, given: SweepSpec) -> list[str]:
    """What views read of the recorded spec, and would say falsely of trials under the given one."""
    recorded, now = RecordedSpec(before.canonical()), RecordedSpec(given.canonical())
    changed = {
        "data.records_are_public and privacy.allow_raw_measures": Release.of(before) != Release.of(given),
        "search.sampler, from one that does not look at results to one that does,": not learns(before.search.sampler)
        and learns(given.search.sampler),
        "search.first": before.search.first != given.search.first,
        "search.chosen_from": (before.search.chosen_from, before.search.chosen)
        != (given.search.chosen_from, given.search.chosen),
        "search.warm_start": before.search.warm_start != given.search.warm_start,
        "early_stopping": before.early_stopping != given.early_stopping,
        "privacy.epsilon (--epsilon adds to it)": before.privacy.epsilon != given.privacy.epsilon,
        "search.trials (--trials extends it)": before.search.trials != given.search.trials,
        "limits.hours (--hours extends it)": before.limits.hours != given.limits.hours,
        "data.validation": recorded_text(recorded) != recorded_text(now),
        "data.test": before.data.options().get("test") != given.data.options().get("test"),
        "data.part": before.data.options().get("part") != given.data.options().get("part"),
        "data.population": before.data.population != given.data.population,
        "privacy, where the whole sweep has one budget,": before.privacy != given.privacy
        and "sweep" in (before.privacy.scope, given.privacy.scope),
        "data.unit and privacy.unit": (recorded.data_unit, recorded.unit) != (now.data_unit, now.unit),
    }
    return [name for name, differs in changed.items() if differs] or launching(before, given)


def launching(before: SweepSpec, given: SweepSpec) -> list[str]:
    """What decides which mechanisms run and differs, where the total is a guarantee of those that were fixed first.

    Somebody who sees results and then narrows a domain or adds a constraint chooses mechanisms by results, as a sampler
    that learns does, and no total says that of what was accepted. Where results choose anyway, the total says so, and
    everything may change. Data may move, as long as every plan made for them stays.
    """
    if choices_by_results(RecordedSpec(before.canonical())):
        return []
    changed = [one.path for one in diff(before, given) if one.meaning and one.path.split(".")[0] != "data"]
    if before.data != given.data and _planned_from(before) != _planned_from(given):
        changed.append("data, in what is declared of them,")
    return changed


def _planned_from(spec: SweepSpec) -> PublicFacts:
    """The public facts without where the data lie, which is in their name and in what parts them."""
    facts = public_facts(spec)
    records = facts.private_validation
    if records is not None and records.parts:
        records = replace(records, parts="one rule")
    return replace(facts, dataset="", private_validation=records)
