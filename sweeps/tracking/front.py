"""The front of a sweep read from MLflow alone, for people who have only its tracking URI."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee
from sweeps.front.export import rows
from sweeps.front.panels import AxisEnd, Front, FrontAxis
from sweeps.front.pareto import axis_ends, front, spec_objectives
from sweeps.ledger.assumptions import NOT_RECORDED, sentences_of
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.release.policy import Release
from sweeps.release.published import was_published
from sweeps.store.records import EPSILON, TrialRecord, TrialState
from sweeps.util.files import collector_paused
from trainables.worker.redaction import shown_url

if TYPE_CHECKING:
    import pandas as pd

    from sweeps.tracking.run_reading import TrialRun

_GUARANTEE = ("notion", "adjacency", "unit", "status", "accountant", "theorem")


def mlflow_front(
    uri: str,
    experiment: str,
    objectives: Sequence[FrontAxis] | None = None,
    filter: str | None = None,
    mix: Collection[str] = (),
) -> pd.DataFrame:
    """The front as a frame, one row per point on it, best order as in `sweeps.front.export.rows`.

    objectives  those of the sweep's spec, kept as a tag of the experiment, unless given
    filter      a condition in MLflow's own language on the runs that take part, such as
                ``metrics.`knob.batch_size` >= 128``

    Raises InvalidValue for an unknown experiment, MixedGuarantees as `front` does.
    """
    import pandas as pd

    return pd.DataFrame(list(rows(read_front(uri, experiment, objectives, filter, mix))))


def read_front(
    uri: str,
    experiment: str,
    objectives: Sequence[FrontAxis] | None = None,
    filter: str | None = None,
    mix: Collection[str] = (),
    reference: Mapping[str, AxisEnd] | None = None,
    as_refuted: bool = False,
) -> Front:
    """The same as a `Front`. `reference` goes before that of the sweep's spec, kept in the same way; `as_refuted` is
    that of `sweeps.front.pareto.front`."""
    from sweeps.tracking.mlflow_door import (
        HEADING,
        NO_HEADING,
        OBJECTIVES,
        REFERENCES,
        asked_by_a_person,
        check_there,
        find_experiment,
    )
    from sweeps.tracking.run_reading import read_trial_runs

    check_there(uri)
    with asked_by_a_person(uri):
        client, found = find_experiment(uri, experiment)
    if found is None:
        raise InvalidValue(
            "experiment", experiment, f"an experiment at {shown_url(uri)}", "Experiments are named after sweeps."
        )
    chosen = list(objectives or ())
    if not chosen:
        if OBJECTIVES not in found.tags:
            raise InvalidValue("objectives", None, f"objectives, as the experiment has no tag {OBJECTIVES}")
        chosen = spec_objectives(RecordedSpec({"objectives": json.loads(found.tags[OBJECTIVES])}))
    recorded = RecordedSpec({"front": {"reference": json.loads(found.tags.get(REFERENCES, "{}"))}})
    ends = {**axis_ends(recorded.references), **(reference or {})}
    condition = "tags.`sweeps.state` = 'complete'" + (f" AND {filter}" if filter else "")
    with collector_paused(), asked_by_a_person(uri):
        runs = read_trial_runs(client, found.experiment_id, condition)
        records = [was_published(_as_written(run, experiment)) for run in runs]
        if HEADING not in found.tags:
            # Written before metrics said on what they depend.
            records = [Release(stated=False).seen(record) for record in records]
        heading = str(found.tags.get(HEADING, NO_HEADING))
        records.sort(key=lambda record: record.number)
        shown = front(records, chosen, mix=mix, reference=ends, sweep=experiment, as_refuted=as_refuted)
    return shown if heading == NO_HEADING else replace(shown, heading=heading)


def _as_written(run: TrialRun, experiment: str) -> TrialRecord:
    """The trial of a run. Raises InvalidValue where its tags are none that a sweep writes: others changed them."""
    from sweeps.tracking.mlflow_door import TRIAL_KEY

    try:
        return _record(run)
    except (KeyError, ValueError) as error:
        name, remedy = (
            f"run of {run.tags[TRIAL_KEY]}",
            f"Others changed its tags: `sweeps track {experiment}` mends them.",
        )
        raise InvalidValue(name, str(error), "the tags that its sweep wrote", remedy) from error


def _record(run: TrialRun) -> TrialRecord:
    from sweeps.tracking.mlflow_door import ASSERTED_BY, ASSUMPTIONS, TRIAL_KEY, from_mlflow

    tags, params = run.tags, run.params
    metrics = {name: from_mlflow(value) for name, value in run.metrics.items()}
    knobs = {name.removeprefix("knob."): value for name, value in metrics.items() if name.startswith("knob.")}
    # Params are text: what is a number there is a metric too, and that one counts.
    config: Mapping[str, Any] = {name: knobs.get(name, _flag(text)) for name, text in params.items()}
    guarantee = None
    if "sweeps.delta" in tags and EPSILON in metrics:
        rests_on = tags.get(ASSUMPTIONS)
        aimed_at = float(tags["sweeps.aimed_at"]) if "sweeps.aimed_at" in tags else None
        guarantee = Guarantee.from_dict(
            {
                **{name: tags[f"sweeps.{name}"] for name in _GUARANTEE},
                "epsilon": metrics[EPSILON],
                "asserted_by": tags.get(ASSERTED_BY, ""),
                "delta": float(tags["sweeps.delta"]),
                "assumptions": NOT_RECORDED if rests_on is None else sentences_of(rests_on),
                # A budget that the claim does not keep was written by others.
                "aimed_at": aimed_at if aimed_at is not None and metrics[EPSILON] <= aimed_at < math.inf else None,
                "epsilon_lower": None,
            }
        )
    return TrialRecord(
        key=tags[TRIAL_KEY],
        number=int(tags["sweeps.number"]),
        state=TrialState(tags["sweeps.state"]),
        config=config,
        seed=0,
        plan=None,
        violations={},
        metrics={name: value for name, value in metrics.items() if not name.startswith("knob.")},
        guarantee=guarantee,
    )


def _flag(text: str) -> bool | str:
    return {"True": True, "False": False}.get(text, text)
