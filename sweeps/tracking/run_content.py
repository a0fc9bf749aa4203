"""What the runs of a sweep in MLflow say: tags, params and metrics as functions of the store's records alone.

Each is the same whenever it is made, timestamps included: a run that is written twice says it once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from mlflow.entities import Metric

from sweeps.front.pareto import spec_objectives
from sweeps.ledger.assumptions import Assumptions
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.release.published import Published
from sweeps.release.quoting import is_refuted, quote_of_claim
from sweeps.store.records import DECIDED, EPSILON, CurveReport, SweepRecord, TrialState
from sweeps.tracking.mlflow_door import (
    ASSERTED_BY,
    ASSUMPTIONS,
    BEGAN,
    OBJECTIVES,
    QUOTE,
    QUOTE_AS,
    REFERENCES,
    RESTS_ON,
    TRIAL_KEY,
    began,
    from_mlflow,
)
from sweeps.tracking.run_reading import WrittenRun

_GUARANTEE_TAGS = ("notion", "adjacency", "unit", "status", "accountant", "theorem")
_BEST = "best "


def spec_tags(sweep: SweepRecord) -> dict[str, str]:
    """What a sweep is: what it was asked, its ends of objectives, its budgets."""
    objectives = [{"metric": one.metric, "goal": one.goal} for one in spec_objectives(sweep.spec)]
    # Those of the objectives: a tag has 5000 characters.
    names = {one["metric"] for one in objectives}
    ends = {name: one for name, one in sweep.references.items() if name in names}
    tags = {
        BEGAN: began(sweep),
        "sweeps.digest": sweep.digest,
        OBJECTIVES: json.dumps(objectives),
        REFERENCES: json.dumps(ends),
    }
    return tags | _budget_tags(sweep.spec)


def _budget_tags(spec: RecordedSpec) -> dict[str, str]:
    """What its budgets bound, and what leaves: of a sealed search the law of its trials and its deadline too."""
    tags = {
        "sweeps.scope": spec.scope,
        "sweeps.release": spec.release,
        "sweeps.budgets": json.dumps(list(spec.budgets)),
    }
    if spec.delta is not None:
        tags["sweeps.delta"] = repr(spec.delta)
    if (selection := spec.selection) is not None:
        law = {name: selection[name] for name in ("count", "shape", "mean") if selection.get(name) is not None}
        tags["sweeps.law"] = json.dumps(law | {"at_most": spec.trials})
        tags["sweeps.deadline_minutes"] = repr(selection["deadline_minutes"])
    return tags


def trial_tags(trial: Published) -> dict[str, str]:
    """What a trial is and claims, as tags."""
    tags = {
        TRIAL_KEY: trial.key,
        "sweeps.number": str(trial.number),
        "sweeps.state": str(trial.state),
        "sweeps.feasible": str(trial.state is not TrialState.INFEASIBLE).lower(),
        "sweeps.system": trial.system,
        "sweeps.attempts": str(trial.attempts),
    }
    if trial.reason:
        tags["sweeps.reason"] = shortened(trial.reason, 5000)
    if trial.guarantee is not None:
        claim = trial.guarantee
        tags |= {f"sweeps.{name}": shortened(str(getattr(claim, name)), 5000) for name in _GUARANTEE_TAGS}
        tags["sweeps.delta"] = repr(claim.delta)
        if claim.aimed_at is not None:
            tags["sweeps.aimed_at"] = repr(claim.aimed_at)
        if claim.asserted_by:
            tags[ASSERTED_BY] = shortened(claim.asserted_by, 5000)
        assumptions = Assumptions.of([claim])
        tags[RESTS_ON] = assumptions.status(claim)
        quote = quote_of_claim(claim)
        tags |= {QUOTE: str(quote.verdict), QUOTE_AS: str(quote)}
        tags[ASSUMPTIONS] = shortened("\n".join(assumptions.lines()), 5000)
    return tags


def bests(sweep: SweepRecord, finished: Sequence[Published]) -> list[Metric]:
    """The best value of each objective that training decides, at the number of trials that it was chosen from."""
    found = []
    for objective in spec_objectives(sweep.spec):
        values = [
            (value, one.finished_at or one.proposed_at)
            for one in finished
            if not is_refuted(one) and (value := one.metric(objective.metric)) is not None and not math.isnan(value)
        ]
        if values and objective.metric not in DECIDED:
            best = (max if objective.goal == "maximize" else min)(value for value, _ in values)
            last = max(at for _, at in values)
            found.append(Metric(allowed(_BEST + objective.metric), float(best), milliseconds(last), len(values)))
    return found


def params_of(trial: Published) -> dict[str, str]:
    """A trial's configuration."""
    return {allowed(name): shortened(value, 6000) for name, value in trial.config.items()}


def unrecorded(trial: Published, run: WrittenRun, curve: Sequence[CurveReport]) -> str | None:
    """What stands in the trial's run and not in its record, whenever it was logged."""
    params = params_of(trial)
    for name, value in sorted(run.params.items()):
        if params.get(name) != value:
            return f"param {name}"
    said = metrics_of(trial, curve)
    expected = {(one.key, one.step, None if math.isnan(one.value) else one.value) for one in said}
    logged = {(key, step, None if value is None else from_mlflow(value)) for key, step, value in run.logged}
    return next((f"metric {key} at step {step}" for key, step, _ in sorted(logged - expected, key=str)), None)


def metrics_of(trial: Published, curve: Sequence[CurveReport] = ()) -> list[Metric]:
    """Knobs that are numbers, every report with the claim beside it, and the end."""
    start, end = milliseconds(trial.proposed_at), milliseconds(trial.finished_at or trial.proposed_at)
    metrics = [
        Metric(f"knob.{allowed(name)}", float(value), start, 0)
        for name, value in trial.config.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    reports = dict(trial.reports) or ({trial.step: trial.metrics} if trial.metrics else {})
    reports[trial.step] = trial.metrics
    # By the time at which each was recorded: written again when the trial has ended, it is the same row.
    told = {one.step: milliseconds(one.at) for one in curve}
    # Whoever sees a point of a curve sees what the trial claims with it.
    claim = {} if trial.guarantee is None else {EPSILON: trial.guarantee.epsilon}
    reports = {one.step: {**one.metrics, **claim} for one in curve} | reports
    for step, values in reports.items():
        for name, value in values.items():
            # Of several reports the last one's epsilon is the claim.
            if name != EPSILON or step != trial.step:
                metrics.append(Metric(allowed(name), float(value), told.get(step, end), step))
    if trial.guarantee is not None and trial.step:
        metrics.append(Metric(EPSILON, trial.guarantee.epsilon, told.get(trial.step, end), trial.step))
    return metrics


def milliseconds(seconds: float) -> int:
    """A time as MLflow keeps it."""
    return round(seconds * 1000)


def shortened(value: object, limit: int) -> str:
    """A value as text of at most so many characters."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def allowed(name: str) -> str:
    """A name without what MLflow refuses in one: a refused run would hold up those behind it."""
    return re.sub(r"[^\w\-. :/]", "_", name)
