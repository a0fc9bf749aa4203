"""The numbers of a trial: what a spec may ask of every system besides what the system reports, and what may leave.

What is asked for is measured where the trial runs, at the end of every launch, and only when an objective or `report`
of the spec names it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dpcore.checks import InvalidValue
from trainables.hooks import Answering, Auditable, CanaryTrained, Scored
from trainables.measures.quality import GROUPED, QUALITY, own_metrics, quality, why_not
from trainables.metrics import Config, Dependence, Metric, Worst
from trainables.plugins import ByName
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, RunSettings, State, System, Task, TrialRun

_MEMBERS = (
    "the training records, without noise: it is outside every claim, and for the eyes of those who may see the records"
)
AUDIT_RUNS = 200
_planned = partial(Metric, goal="minimize", released="the plan: no record", depends=Dependence.PUBLIC)


_ATTACK = {
    "membership_auc": "area under the curve of the threshold attack of Yeom et al. 2018 (1/2: no better than guessing)",
    "membership_accuracy": "share of right calls of that attack at the mean training loss, among as many members as "
    "others",
    "membership_f1": "harmonic mean of that attack's precision and recall, at the mean training loss",
    "priv_leak": "true minus false positive rate of that attack at the mean training loss (Lu et al. 2021: Priv_Leak)",
}
"""What the threshold attack of Yeom et al. 2018 on the training records tells."""
MEASURES: Mapping[str, Metric] = ByName(
    "metric",
    Metric(
        name="audited_epsilon",
        goal="minimize",
        doc="lower bound on epsilon (95%, for this measurement alone) from a twin with canaries, which costs one "
        f"more training; from {AUDIT_RUNS} runs on chosen neighbours where those are known and gradients are not",
        released="a twin of the trial on the training records, with noise of its own: in no claim and no ledger",
        depends=Dependence.RAW,
    ),
    *(
        Metric(name=name, goal="minimize", worst=1.0, doc=doc, released=_MEMBERS, depends=Dependence.RAW)
        for name, doc in _ATTACK.items()
    ),
    _planned(
        name="queries",
        goal="maximize",
        worst=0.0,
        doc="predictions that the trial made of validation records under its claim (a released model makes more)",
    ),
    *QUALITY.values(),
    *GROUPED.values(),
)


def measured(names: Collection[str] = ()) -> Mapping[str, Metric]:
    """All that may be asked of every system: those above, and the user's own functions among `names`."""
    return {**MEASURES, **own_metrics(names)}


def wanted(names: Sequence[str], system: System) -> tuple[str, ...]:
    """Those of `names` that have to be measured: what a system reports by itself is not."""
    known, own = measured(names), {metric.name for metric in system.metrics}
    return tuple(name for name in names if name in known and name not in own)


def missing(name: str, system: System, facts: DatasetSpec | None = None) -> str:
    """Why `name` cannot be measured of `system` on such data; empty if it can."""
    if name in QUALITY or name in GROUPED or own_metrics([name]):
        return why_not(system)
    predicts = isinstance(system, Scored | Answering)
    by_unit = facts is not None and facts.unit is not None
    if by_unit and (name in _ATTACK or (name == "audited_epsilon" and not isinstance(system, CanaryTrained))):
        return "its members or canaries are single records, and the claim is about whole units"
    if name == "audited_epsilon" and isinstance(system, CanaryTrained | Auditable):
        return ""
    if not predicts:
        return "its release says nothing about single records"
    if name == "audited_epsilon" and facts is not None and facts.classes is None:
        return "there are no classes, and so no wrong labels to make canaries of"
    if facts is not None and not facts.n_validation:
        return "there are no validation records"
    return ""


def check_measurable(names: Sequence[str], system: System, plan: PrivacyPlan) -> None:
    """Raises InvalidValue where a run of `plan` could not be measured by one of `names`, before any of it is spent."""
    asked = wanted(names, system)
    attacked = [name for name in asked if name in _ATTACK]
    if attacked and not isinstance(system, Scored) and plan.steps < 2:
        expected = f"at least 2 for {attacked[0]}: one of a member and one of another record"
        raise InvalidValue("queries", plan.steps, expected, f"Raise queries, or drop {attacked[0]}.")
    if "audited_epsilon" in asked:
        from trainables.measures import audits

        claim = audits.audited_claim(plan)
        if not audits.methods(system, claim):
            expected = f"an audit of {system.name} under {claim.adjacency}, which has none"
            remedy = "Drop this objective or that system, or change privacy.adjacency."
            raise InvalidValue("objectives.audited_epsilon", str(claim.adjacency), expected, remedy)


def measure(
    names: Sequence[str], system: System, member: TrialRun, state: State, data: Dataset, execution: RunSettings
) -> dict[str, float]:
    """The named measures of a run that has reached `member.to_step` with `state`.

    One membership measure brings the others along, since they cost nothing more.
    """
    # Twins train in this process alone, whoever trained the trial.
    alone = replace(execution, team=None)
    found: dict[str, float] = {}
    if any(name in _ATTACK for name in names):
        from trainables.measures.audits import threshold_attack

        found |= threshold_attack(system, member, state, data, alone)
    if "queries" in names:
        found["queries"] = float(member.to_step if isinstance(system, Answering) else data.facts.n_validation)
    if "audited_epsilon" in names:
        found["audited_epsilon"] = _audited(system, member, data, alone)
    told = told_of_groups(data.facts)
    if asked := [one for one in names if (one in QUALITY or one in GROUPED or own_metrics([one])) and one not in told]:
        found |= quality(asked, system, member, state, data)
    return found


def told_of_groups(facts: DatasetSpec) -> frozenset[str]:
    """Metrics of groups that a noised histogram tells of private validation records, so that nobody else measures."""
    private = facts.private_validation
    if facts.groups is None or private is None:
        return frozenset()
    from trainables.validation.histogram_bins import reported

    return reported(facts, private.bins) & GROUPED.keys()


def _audited(system: System, member: TrialRun, data: Dataset, execution: RunSettings) -> float:
    from trainables.measures import audits

    claim = audits.audited_claim(member.plan)
    setting = audits.AuditSetting(
        system=system, plan=member.plan, claim=claim, data=data, to_step=member.to_step, execution=execution
    )
    method = audits.methods(system, claim)[0]
    return audits.gather(setting, method, runs=AUDIT_RUNS, curve=audits.curve_of(setting)).audit.epsilon_lower


# The door between a trial and the world: every number that leaves is an access to data.
#
# A worker's result passes it before it is written anywhere (`trainables.worker.trial`), the controller passes what
# workers report through it once more, and what a store kept before metrics were declared passes it when it is read
# (`sweeps.privacy.release`). What leaves is what a system declares, and of that only what does not depend on what is
# withheld.

_of_machine = partial(
    Metric,
    goal="minimize",
    released="time and memory of a run over private records: a side channel that no claim covers",
    depends=Dependence.SIDE_CHANNEL,
)

OWN_METRICS: Mapping[str, Metric] = ByName(
    "metric",
    _planned(name="epsilon", doc="claimed epsilon of the steps behind the other metrics"),
    _planned(
        name="target_epsilon",
        doc="the budget that the trial was held to; infinite where its claim exceeds that (no protection)",
    ),
    _planned(name="work", doc="planned cost in the system's unit of work"),
    _of_machine(name="seconds", doc="time from the trial's first step to its last"),
    _of_machine(name="peak_memory_mb", doc="largest memory of the trial's processes, in MiB"),
)
"""Metrics of every trial, whatever its system."""


def declared(system: System, asked: Collection[str] = ()) -> Mapping[str, Metric]:
    """Every metric that a trial of `system` may report, by name; of those of records also the error.

    A system's own declaration goes before a measure's.

    asked  names in the spec, of which some may be functions of the user's own: no other such function is known
    """
    known = {**measured(asked), **{metric.name: metric for metric in system.metrics}, **OWN_METRICS}
    of_records = (Dependence.VALIDATION, Dependence.RAW)
    errors = (metric.error for metric in known.values() if metric.depends in of_records)
    return {**{one.name: one for one in errors}, **known}


class Undeclared(InvalidValue):
    """A trial reported a number that its system does not declare. The text names it and never quotes it."""


def published(
    metrics: Mapping[str, float],
    system: System,
    config: Config,
    withheld: Collection[Dependence],
    asked: Collection[str] = (),
) -> dict[str, float]:
    """Those of a trial's `metrics` that may leave it: none that depends on what is `withheld` under this `config`.

    asked  see `declared`

    Raises Undeclared for a name that neither the system nor a measure declares.
    """
    known = declared(system, asked)
    unknown = sorted(metrics.keys() - known.keys())
    if unknown:
        expected = f"metrics that {system.name} declares"
        remedy = "Add a Metric for each to its `metrics`, which says on what it depends, or report it no more."
        raise Undeclared("metrics", ", ".join(unknown), expected, remedy)
    return {name: value for name, value in metrics.items() if known[name].depends_under(config) not in withheld}


# The natural worst value of a metric: public, and the same for every sweep over the same kind of data.


def natural_worst(metric: Metric, facts: DatasetSpec) -> tuple[float, str] | None:
    """(value, where it comes from); None for a metric without one: unbounded, or only the records would say."""
    match metric.worst:
        case None:
            return None
        case Worst.GUESSED_LOSS:
            if facts.classes is None or facts.own_loss:
                return None
            return math.log(facts.classes), f"the loss of guessing among {facts.classes} classes"
        case Worst.GUESSED_PERPLEXITY:
            return float(facts.classes or 1), Worst.GUESSED_PERPLEXITY.value
        case Worst.TARGET_RANGE:
            # Ratings are judged by the expected class: classes are one apart.
            if facts.task is Task.RATING and facts.classes is not None:
                return facts.classes - 1.0, Worst.TARGET_RANGE.value
            return facts.target_high - facts.target_low, Worst.TARGET_RANGE.value
        case worst:
            return worst, f"the worst {metric.name} there is"
