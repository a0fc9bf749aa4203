"""The model of one finished trial, as it may leave: published, covered by its claim, and with a card that says so."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from sweeps.export.card import ModelCard
from sweeps.planning.spec_code import code_of
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.release.quoting import is_refuted
from sweeps.spec import SweepSpec, load_spec
from sweeps.store.records import TrialState
from sweeps.util.fingerprint import Changed, check_accepted
from sweeps.util.workspace import Workspace
from trainables.data import SOURCES
from trainables.data.table import Table
from trainables.data.table_declaration import schema
from trainables.export.protocol import Module, ReleasesModel
from trainables.features.declared import parted
from trainables.measures.hooks import Answering
from trainables.registry import SYSTEMS
from trainables.system import PublicFacts
from trainables.worker.attempt import Attempt

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel
    from trainables.export.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True)
class _Chosen:
    record: Published
    system: ReleasesModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The model of a finished trial, which may leave.

    module   in evaluation mode, on the CPU
    refuted  whether its claim is, and it leaves under that heading
    """

    record: Published
    spec: SweepSpec
    facts: PublicFacts
    module: Module
    refuted: bool


def exported(
    workspace: Workspace, sweep: str, trial: int | str, *, as_refuted: bool = False, accept: Collection[str] = ()
) -> ReleasedModel:
    """The model of a finished trial (by number or key), with its card. Trains nothing, and reads no record.

    The arguments are those of `released`, which raises what this does.
    """
    from trainables.export.apart import apart
    from trainables.export.model import ReleasedModel

    found = released(workspace, sweep, trial, as_refuted=as_refuted, accept=accept)
    published = Publisher.open(workspace.store_url)
    name = published.sweep(sweep).name
    card = ModelCard.of(published, name, found.record, found.facts, found.spec, refuted=found.refuted)
    own, features = parted(found.spec.data.options())
    facts = SOURCES[found.spec.data.source].facts(own)
    # A map leaves with the model: who asks it has records, and not their features.
    module = apart(found.module, found.facts.features)
    module = module if features is None else features.first(module, facts).eval()
    return ReleasedModel(module, _preprocessing(found.spec, facts), card.to_dict(), card.page())


def card_of(workspace: Workspace, sweep: str, trial: int | str) -> ModelCard:
    """The card that the model of a finished trial has today, whether or not its claim is refuted. Opens no checkpoint.

    Raises as `released` does, but for the code and the checkpoint.
    """
    published = Publisher.open(workspace.store_url)
    recorded = published.sweep(sweep).kept()
    record = _chosen(published, recorded.name, str(trial), True).record
    spec = load_spec(recorded.spec.canonical)
    facts = SOURCES[spec.data.source].facts(spec.data.options())
    return ModelCard.of(published, recorded.name, record, facts, spec, refuted=is_refuted(record))


def released(
    workspace: Workspace, sweep: str, trial: int | str, *, as_refuted: bool = False, accept: Collection[str] = ()
) -> Released:
    """The model of a finished trial (by number or key), where it may leave. Trains nothing, and reads no record.

    as_refuted  let out what failed an audit, or whose claim is refuted: the card is headed by that
    accept      "code": export although the code changed since the sweep was started

    Raises UnknownSweep, UnknownTrial, StoreError, InvalidValue: for a trial that is not finished or not published, a
    system whose claim covers no model, a claim without a finite epsilon, a checkpoint that is not there; and Changed
    for code that is not what trained it: the weights would stand in another model than the one that was scored.
    """
    check_accepted(accept, ("code",))
    published = Publisher.open(workspace.store_url)
    recorded = published.sweep(sweep).kept()
    sweep = recorded.name
    chosen = _chosen(published, sweep, str(trial), as_refuted)
    record = chosen.record
    assert record.plan is not None
    spec = load_spec(recorded.spec.canonical)
    if recorded.fingerprints.get("code") != code_of(spec) and "code" not in accept:
        raise Changed(
            f"sweep {sweep!r}: code changed since it was started: the weights of {record.key} would stand in another "
            "model than the one that was scored. Restore what it was, or export with --accept code."
        )
    facts = SOURCES[spec.data.source].facts(spec.data.options())
    at = Attempt.of(workspace.of(recorded).trials(sweep), record.key, record.attempts)
    try:
        state = at.load(record.step)
    except FileNotFoundError as error:
        raise InvalidValue(
            "trial",
            record.key,
            f"a trial whose last checkpoint is still in {at.folder.url}",
            "Export where the workers' records are (--records), or another trial. `sweeps gc` keeps the front's.",
        ) from error
    module = chosen.system.released_model(record.plan, facts, state)
    refuted = is_refuted(record)
    return Released(record=record, spec=spec, facts=facts, module=module.eval(), refuted=refuted)


def _chosen(published: Publisher, sweep: str, trial: str, as_refuted: bool) -> _Chosen:
    known = published.trials(sweep)
    record = next((one for one in known if trial in (one.key, str(one.number))), None)
    if record is None:
        raise InvalidValue("trial", trial, f"a trial of {sweep!r}: a number below {len(known)}, or a key")
    if record.state is not TrialState.COMPLETE or record.plan is None or record.guarantee is None:
        why = f": {record.reason}" if record.reason else ""
        raise InvalidValue(
            "trial", record.key, f"a finished trial whose result is published; it is {record.state}{why}"
        )
    system = SYSTEMS.known(record.plan.system)
    if not isinstance(system, ReleasesModel):
        names = sorted(name for name, one in SYSTEMS.items() if isinstance(one, ReleasesModel) and one.solves)
        name = record.plan.system
        why = (
            f"The claim of {name} covers what it answers, and no model behind the answers: that never leaves."
            if isinstance(system, Answering)
            else f"What {name} releases is no model that its claim covers."
        )
        raise InvalidValue("trial", record.key, f"a trial of {', '.join(names)}", why)
    if not math.isfinite(record.guarantee.epsilon):
        raise InvalidValue(
            "trial", record.key, "a trial with a finite epsilon", "Weights without noise never leave a sweep."
        )
    if not as_refuted and is_refuted(record):
        raise InvalidValue(
            "trial",
            record.key,
            "a trial whose claim stands",
            f"The claim of {record.plan.system} is refuted. --as-refuted exports it under that heading.",
        )
    return _Chosen(record, system)


def _preprocessing(spec: SweepSpec, facts: PublicFacts) -> Preprocessing:
    from trainables.export.preprocessing import Preprocessing

    source = SOURCES[spec.data.source]
    if not isinstance(source, Table):
        return Preprocessing.of(facts)
    declared = schema(source.read(parted(spec.data.options())[0]))
    return Preprocessing.of(facts, declared.columns, declared.classes)
