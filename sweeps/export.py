"""The card of an exported model: what it is, what it claims and on what that rests, how good it was, of how many."""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from sweeps.planning.plan import WEIGHTS, code_of, weights_of
from sweeps.privacy.heldout import HeldOutReading, declared_test, of_its_records, readings
from sweeps.privacy.ledger import Assumptions, claim_text, count_text, declared_number
from sweeps.privacy.population import charge_reading
from sweeps.privacy.release import Published, PublishedStore
from sweeps.privacy.totals import own_total
from sweeps.privacy.wording import Quote, dependence, is_refuted, quote_of_claim, quote_of_metric, total_lines
from sweeps.reporting.front import LABELS, spec_objectives, sweep_front
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import OVER, Accepted, HeldOutRead, HeldOutScore, SweepRecord, TrialState, this_person
from sweeps.store.store import Store
from sweeps.store.workspace import Workspace
from sweeps.util.fingerprint import Changed, changes, check_accepted
from sweeps.util.text import closest
from trainables.data import SOURCES
from trainables.data.records import fingerprint
from trainables.data.source import parted
from trainables.data.table import Table
from trainables.hooks import Answering, Module, ReleasesModel
from trainables.metrics import Dependence, scores_of, with_error
from trainables.publishing import declared
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec
from trainables.worker.attempt import Attempt

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel
    from trainables.export.preprocessing import Preprocessing


REFUTED = "REFUTED: the claim below does not hold. This model protects nobody whom it was trained on."


class ModelCard:
    """One trial's model in words and numbers.

    total           all trials of the sweep together, in words: what choosing this one cost
    with_score      the claim of the model and its test score together; without a score, that of the model
    charged         steps that the ledger charged this trial, lost launches included
    metrics         as the trial reported them
    candidates      finished trials that this one was chosen among, if it was chosen; None: a secret number, of which
                    a sealed search let out the best
    test            the test records that the spec declares; None: it declares none
    readings        of them, for any trial of any sweep of the store
    """

    def __init__(self, store: PublishedStore, sweep: str, record: Published, facts: DatasetSpec) -> None:
        """The card of a finished trial."""
        assert record.guarantee is not None
        trials, recorded = store.trials(sweep), store.sweep(sweep).spec
        total = own_total(store, sweep, trials)
        self.sweep, self.record, self.facts = sweep, record, facts
        self.heading, self.noise_source = store.heading(sweep), recorded.privacy.noise_source
        self.test = declared_test(recorded)
        self.readings = of_its_records(store, sweep) if self.test is not None else ()
        own = sum(one.trial == record.key for one in self.readings)
        self.claim = self.with_score = record.guarantee
        if self.test is not None:
            self.with_score = self.test.claim(self.claim, own)
        self.assumptions = Assumptions.of([self.claim, self.with_score, *total.claims()])
        self.total = list(total_lines(total.procedure, total.uncounted, self.assumptions))
        self.charged = sum(entry.steps_spent for entry in store.ledger(sweep) if entry.key == record.key)
        finished = sum(one.state is TrialState.COMPLETE for one in trials)
        self.candidates = None if recorded.selection is not None else finished

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plan = self.record.plan
        assert plan is not None
        return {
            "heading": " ".join(self._headings()),
            "sweep": self.sweep,
            "trial": self.record.key,
            "system": plan.system,
            "mechanism": plan.description,
            "hyperparameters": dict(plan.config),
            "claim": self.claim.to_dict(),
            "quote": quote_of_claim(self.claim).to_dict(),
            "total": self.total,
            "steps_charged": self.charged,
            "noise_source": self.noise_source,
            "data": {
                "source": self.facts.dataset,
                "n": self.facts.n,
                "n_validation": self.facts.n_validation,
                "counted": self.facts.counted,
                "assumptions": list(self.facts.assumptions),
            },
            "validation": self._metrics(),
            "validation_quotes": {name: quote.to_dict() for name, quote in self._quotes().items()},
            "best_of": self.candidates,
            "test": None if self.test is None else self._tested(),
        }

    def page(self) -> str:
        """The same as Markdown."""
        plan, status = self.record.plan, self.assumptions.status(self.claim)
        assert plan is not None
        measured = self._metrics()
        scores = ", ".join(f"{name} {with_error(measured, name)}" for name in scores_of(measured))
        quotes = self._quotes()
        alike = {quote: [name for name in quotes if quotes[name] == quote] for quote in quotes.values()}
        quoted = "".join(
            f"{', '.join(names)}{': each' if len(names) > 1 else ''} {quote.said}: {quote.sentence}. "
            for quote, names in alike.items()
        )
        private = "by noised reports" if self.facts.private_validation is not None else "treated as public"
        lines = [
            f"# {self.record.key}",
            *(f"**{one}**" for one in self._headings()),
            f"A model of `{plan.system}`, trained on records of `{self.facts.dataset}`, "
            f"{declared_number(self.facts.n, self.facts.counted)}: "
            f"{plan.description}.",
            "## What it claims",
            f"{claim_text(self.claim, status)}. {quote_of_claim(self.claim).said.capitalize()}: "
            f"{quote_of_claim(self.claim).sentence}. The ledger charged {count_text(self.charged, 'step')}.",
            f"{self._among} {'; '.join(self.total)}",
            "This page is as old as the files beside it. What became known since (audits, test readings, trials) "
            f"is not in it: look at `sweeps show {self.sweep}` before you quote a number of it.",
            "What the statuses rest on:",
            "\n".join(self.assumptions.lines()),
            "## How good it was",
            f"On validation records, {declared_number(self.facts.n_validation, self.facts.counted)}, {private}: "
            f"{scores or 'nothing was reported'}. {quoted}"
            "Where it was chosen for that score, it is better here than it will be elsewhere.",
            *self._test_lines(),
            "## How it is asked",
            "`sweeps predict FOLDER FILE`, or `torch.export.load('program.pt2').module()` on the inputs that "
            "`preprocessing.json` describes.",
        ]
        return "\n\n".join(lines) + "\n"

    @property
    def _among(self) -> str:
        if self.candidates is None:
            return "A sealed search chose it among a secret number of trials, by its results. What that cost in all:"
        if self.candidates == 1:
            return "No other trial finished. What its sweep cost in all:"
        return f"It is one of {self.candidates} finished trials. Whoever chose it for its results quotes the total:"

    def _headings(self) -> list[str]:
        return [one for one in (REFUTED if is_refuted(self.record) else "", self.heading) if one]

    @property
    def _own(self) -> HeldOutReading | None:
        """The reading of the test records for this trial that gave a score."""
        return next((one for one in self.readings if one.trial == self.record.key and one.metrics), None)

    def _tested(self) -> dict[str, Any]:
        assert self.test is not None
        return {
            "n": self.test.held.n,
            "private": self.test.held.private,
            "readings": len(self.readings),
            "score": None if self._own is None else self._own.to_dict(),
            "claim_with_score": self.with_score.to_dict(),
        }

    def _test_lines(self) -> Iterator[str]:
        if self.test is None:
            return
        yield "## On test records"
        private = "private" if self.test.held.private else "public"
        records = f"{private} test records, {declared_number(self.test.held.n, self.test.counted)},"
        if self._own is None:
            times, unread = len(self.readings), "not read yet, as far as this store knows"
            others = f"read {times} times, for other models" if times else unread
            yield f"The {records} were {others}: there is no test score of this one."
            return
        yield f"On {records} on which nothing was trained or chosen: {self._own}."
        if self.test.histogram is not None:
            both = claim_text(self.with_score, self.assumptions.status(self.with_score))
            yield f"The model and this score together: {both}."

    def _metrics(self) -> dict[str, float]:
        """What it reported of the validation records."""
        depends = {
            name: one.depends for name, one in declared(SYSTEMS[self.record.system], self.record.metrics).items()
        }
        reported = self.record.metrics.items()
        return {name: value for name, value in reported if depends.get(name) is Dependence.VALIDATION}

    def _quotes(self) -> dict[str, Quote]:
        names = scores_of(self._metrics())
        return {name: quote_of_metric(dependence(self.record, name), self.record) for name in names}


# The model of one finished trial, as it may leave: published, covered by its claim, and with a card that says so.


class Released:
    """A finished trial whose model may leave, and its sweep."""

    def __init__(self, workspace: Workspace, sweep: str, trial: int | str, *, as_refuted: bool = False) -> None:
        """A trial by number or key.

        as_refuted  let out what failed an audit, or whose claim is refuted: the card is headed by that

        Raises UnknownSweep, UnknownTrial, StoreError, InvalidValue: for a trial that is not finished or not published,
        a system whose claim covers no model, and a claim without a finite epsilon.
        """
        self.published = PublishedStore.open(workspace)
        self.recorded = self.published.sweep(sweep).kept()
        self.published.check_not_stale(self.recorded.name)
        self.record, self.system = _chosen(self.published, self.recorded.name, str(trial), as_refuted)
        self.spec = load_spec(self.recorded.spec.canonical())
        self.facts = public_facts(self.spec)

    def card(self) -> ModelCard:
        """Its card of today."""
        return ModelCard(self.published, self.recorded.name, self.record, self.facts)

    def module(self, workspace: Workspace, accept: Collection[str] = ()) -> Module:
        """The model in evaluation mode, on the CPU. Trains nothing, and reads no record.

        accept  "code": although the code changed since the sweep was started

        Raises InvalidValue for a checkpoint that is not there, StoreError, and Changed for code that is not what
        trained it: the weights would stand in another model than the one that was scored.
        """
        check_accepted(accept, ("code",))
        recorded, record, known = self.recorded, self.record, self.recorded.fingerprints
        now = {"code": code_of(self.spec), **(weights_of(self.spec, self.facts) if WEIGHTS in known else {})}
        if (changed := changes(known, now)) and "code" not in accept:
            raise Changed(
                f"sweep {recorded.name!r}: {' and '.join(changed)} changed since it was started: what {record.key} "
                "trained would stand in another model than the one that was scored. Restore what it was, or export "
                "with --accept code."
            )
        at = Attempt.of(workspace.of(recorded).trials(recorded.name), record.key, record.attempts)
        try:
            state = at.read(record.step).state
        except FileNotFoundError as error:
            elsewhere = (
                "Export where the workers' records are (--records), or another trial. `sweeps gc` keeps the front's."
            )
            raise _refused(record, f"a trial whose last checkpoint is still in {at.folder.url}", elsewhere) from error
        assert record.plan is not None
        return self.system.released_model(record.plan, self.facts, state).eval()


def exported(
    workspace: Workspace, sweep: str, trial: int | str, *, as_refuted: bool = False, accept: Collection[str] = ()
) -> ReleasedModel:
    """The model of a finished trial (by number or key), with its card.

    The arguments are those of `Released` and `Released.module`, which raise what this does.
    """
    from trainables.export.model import ReleasedModel, apart
    from trainables.models.pretrained import merged

    found = Released(workspace, sweep, trial, as_refuted=as_refuted)
    module, card = found.module(workspace, accept), found.card()
    own, features = parted(found.spec.data.options())
    facts = SOURCES[found.spec.data.source].facts(own)
    # A map leaves with the model: who asks it has records, and not their features.
    module = apart(merged(module), found.facts.features)
    module = module if features is None else features.first(module, facts).eval()
    return ReleasedModel(module, _preprocessing(found.spec, facts), card.to_dict(), card.page())


def find_trial(sweep: str, trials: Sequence[Published], trial: int | str) -> Published:
    """One of the trials of `sweep`, by number or key. Raises InvalidValue."""
    for one in trials:
        if str(trial) in (one.key, str(one.number)):
            return one
    expected = f"a trial of {sweep!r}: 0 to {len(trials) - 1}, or a key" if trials else "a sweep with trials"
    raise InvalidValue("trial", trial, expected, closest(str(trial), [one.key for one in trials]))


def _chosen(published: PublishedStore, sweep: str, trial: str, as_refuted: bool) -> tuple[Published, ReleasesModel]:
    record = find_trial(sweep, published.trials(sweep), trial)
    if record.state is not TrialState.COMPLETE or record.plan is None or record.guarantee is None:
        why = f": {record.reason}" if record.reason else ""
        raise _refused(record, f"a finished trial whose result is published; it is {record.state}{why}")
    system = SYSTEMS.known(record.plan.system)
    if not isinstance(system, ReleasesModel):
        names = sorted(name for name, one in SYSTEMS.items() if isinstance(one, ReleasesModel) and one.solves)
        name = record.plan.system
        why = (
            f"The claim of {name} covers what it answers, and no model behind the answers: that never leaves."
            if isinstance(system, Answering)
            else f"What {name} releases is no model that its claim covers."
        )
        raise _refused(record, f"a trial of {', '.join(names)}", why)
    if not math.isfinite(record.guarantee.epsilon):
        raise _refused(record, "a trial with a finite epsilon", "Weights without noise never leave a sweep.")
    if not as_refuted and is_refuted(record):
        why = f"The claim of {record.plan.system} is refuted. --as-refuted exports it under that heading."
        raise _refused(record, "a trial whose claim stands", why)
    return record, system


def _refused(record: Published, expected: str, remedy: str = "") -> InvalidValue:
    return InvalidValue("trial", record.key, expected, remedy)


def _preprocessing(spec: SweepSpec, facts: DatasetSpec) -> Preprocessing:
    from trainables.export.preprocessing import Preprocessing

    source = SOURCES[spec.data.source]
    if not isinstance(source, Table):
        return Preprocessing.of(facts)
    declared = source.read(parted(spec.data.options())[0])
    return Preprocessing.of(facts, declared.columns, declared.classes)


# The models of a sweep's front, shown by MLflow once the sweep is over: those of a few trials, never all of them.
#
# Beside the sweep and after its results: nothing is trained, no record is read, and what fails is said and can be
# done again (`sweeps track`). A model leaves here by the rules of `sweeps.export`, and by no other. What
# MLflow has already is made to say what is known today: on the front or off it, refuted since, or registered by
# `sweeps export`.

AT_MOST = 8
"""Models of a front: the best by the first objective."""
LARGEST_BYTES = 1 << 28
"""Of a checkpoint: beyond it a model leaves when it is asked for by name (`sweeps export`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsShown:
    """What MLflow has of a sweep's models.

    trials    keys of those that it shows
    left_out  {key: why} of those that were asked for and are not there
    more      how many on the front were not asked for, beyond `AT_MOST`
    """

    trials: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    more: int = 0

    def lines(self) -> Iterator[str]:
        """For people; nothing where nothing was asked for."""
        if self.trials:
            rest = f" (the front has {self.more} more: `sweeps export`)" if self.more else ""
            yield f"MLflow shows the models of {', '.join(self.trials)}{rest}."
        for key, why in self.left_out.items():
            yield f"MLflow does not show the model of {key}: {why}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"trials": list(self.trials), "left_out": dict(self.left_out), "more": self.more}


def show_models(workspace: Workspace, sweep: str) -> ModelsShown:
    """Put the models that the spec asks for (`tracking.models`) into MLflow, where they are not there as of today, and
    make all that are there say what is known today.

    Of a sweep that is not over, or not there for MLflow, nothing is shown. Raises StoreError.
    """
    store = PublishedStore.open(workspace)
    record = store.sweep(sweep)
    if record.state not in OVER:
        return ModelsShown()
    workspace = workspace.of(record)
    asked, more = _asked(store, record)
    trials = {one.key: one for one in store.trials(record.name)}
    if not asked and not any(one.state is TrialState.COMPLETE and _may_leave(one) for one in trials.values()):
        return ModelsShown()
    from sweeps.mlflow.models import log_models

    left_out: dict[str, str] = {}
    uri = record.spec.tracking.uri or workspace.tracking_uri

    def card(trial: Published) -> tuple[dict[str, Any], str]:
        found = Released(workspace, record.name, trial.key, as_refuted=True).card()
        return found.to_dict(), found.page()

    def model(trial: Published) -> ReleasedModel:
        size = Attempt.of(workspace.trials(record.name), trial.key, trial.attempts).checkpoint_bytes()
        if size > LARGEST_BYTES:
            raise InvalidValue("model", f"{size:,} bytes", f"at most {LARGEST_BYTES:,}", "`sweeps export` it.")
        return exported(workspace, record.name, trial.key)

    there = log_models(uri, record, workspace.folder(record.name), trials, asked, card, model, left_out)
    return ModelsShown(trials=tuple(there), left_out=left_out, more=more)


def asked_by_name(store: PublishedStore, sweep: str) -> set[str]:
    """Keys of the trials whose models the spec names."""
    record = store.sweep(sweep)
    return set(_asked(store, record)[0]) if isinstance(record.spec.tracking.models, tuple) else set()


def _asked(store: PublishedStore, record: SweepRecord) -> tuple[list[str], int]:
    """Keys of the trials whose models the spec asks for, of its front the best first, and how many more that has."""
    wanted, trials = record.spec.tracking.models, store.trials(record.name)
    if isinstance(wanted, tuple):
        return [one.key for one in trials if one.number in wanted], 0
    first = spec_objectives(record.spec)[0]
    finished = [one for one in trials if one.state is TrialState.COMPLETE and _may_leave(one)]
    values = [(value, one) for one in finished if (value := one.metric(first.metric)) is not None]
    if wanted == "none" or not values:
        return [], 0
    sign, keys = -1.0 if first.goal == "maximize" else 1.0, sweep_front(store, record.name, mix=LABELS).keys()
    ranked = sorted((sign * value, one.number, one.key) for value, one in values if one.key in keys)
    return [key for *_, key in ranked[:AT_MOST]], max(0, len(ranked) - AT_MOST)


def _may_leave(one: Published) -> bool:
    system = SYSTEMS.get(one.system)
    return isinstance(system, ReleasesModel) and one.guarantee is not None and math.isfinite(one.guarantee.epsilon)


# The reading: a trial's model is scored on the test records, once, and it is on record before that happens.


def read(
    workspace: Workspace, sweep: str, trial: int | str, *, again: bool = False, accept: Collection[str] = ()
) -> HeldOutReading:
    """The score of a finished trial on the test records of its sweep: as it was read before, or read now.

    again   although they were read for another trial, or a reading was cut short: the score is then no longer of an
            untouched test set, every card says so, and private records are charged once more
    accept  see `Released.module`

    The reading is durable in the store before a record is scored, so that a crash costs a reading, and never hides one.
    So is its charge to the population, where the records are private.
    Raises InvalidValue for a sweep without test records, a second reading, and what `Released` refuses; Changed where
    the other records are not those that the sweep had; and PopulationSpent.
    """
    seen = PublishedStore.open(workspace)
    record = seen.sweep(sweep).kept()
    declared = declared_test(record.spec)
    if declared is None:
        remedy = "Test records cannot be declared later."
        raise InvalidValue("sweep", record.called, "a sweep whose spec declares data.test", remedy)
    model = Released(workspace, record.name, trial)
    module = model.module(workspace, accept)
    made = of_its_records(seen, record.name)
    if (known := _known(made, model.record.key)) is not None:
        return known
    _check_first(made, model.record.key, again)
    data = load_spec(record.spec.canonical()).data
    source = SOURCES[data.source]
    own, features = parted(data.options())
    records = source.load_held_out(own, workspace.features)
    if not len(records):
        raise InvalidValue("data.test", declared.held.path or declared.held.id, "at least one record, found none")
    split = records if features is None else features.split(records, source.facts(own), workspace.features)
    from trainables.validation.evaluate import judge, noised_judge

    with closing(workspace.open_store()) as store:
        _check_unchanged(store, record, source.load(own, workspace.features).fingerprint)
        # Of the records, whatever they are seen through.
        word = store.data_fingerprint(fingerprint(records))
        _check_first(of_its_records(seen, record.name, word), model.record.key, again)
        charge_reading(store, record, f"{model.record.key} {secrets.token_hex(8)}", declared)
        number = store.ask(record.name, HeldOutRead(trial=model.record.key, records=word), this_person())
        if declared.histogram is None:
            found = judge(module, split, model.facts)
        else:
            found = noised_judge(module, split, model.facts, declared.held.n, declared.histogram, declared.bins)
        store.ask(record.name, HeldOutScore(read=number, metrics=found), this_person())
    return next(one for one in readings(seen, record.name) if one.request.id == number)


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
            f"{listed}, for which the test records were read, last by {last.request.asker} at {last.request.when}",
            "Whoever chooses by test scores has no test set left. --again reads them all the same, on record; every "
            "card then says that they are no longer untouched.",
        )
