"""What MLflow's page of a sweep opens with: trials in the order of the first objective, and the front's chart.

MLflow (3.17) keeps a view that is shared in a tag of the experiment, and opens it by the tag's name in the link. It
promises no form for either: a page of another version that does not know them opens as it comes, on the same runs.

Only a link can ask for the runs. MLflow 3.17.2 reads no tag for it: its page takes `workflowType` of the link, else
what this browser chose last (its local storage), else "genai". A bare `#/experiments/ID` in a fresh browser
therefore opens the GenAI overview, whatever `mlflow.experimentKind` says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweeps.reporting.front import FrontAxis
from sweeps.store.records import DECIDED, EPSILON

NAME = "front"
TAG = f"mlflow.sharedViewState.{NAME}"
LOCAL_SERVER = "http://127.0.0.1:5000"
"""Where `mlflow ui` listens unless told otherwise."""
_KEPT = "mlflow-page"


def shared_view(objectives: Sequence[FrontAxis]) -> str:
    """The tag's text. Runs are ordered by a metric, or MLflow would fold the trials into their parent."""
    trained = [one for one in objectives if one.metric not in DECIDED]
    first, *others = trained or list(objectives)
    across = others[0].metric if others else EPSILON
    chart: dict[str, Any] = {
        "type": "SCATTER",
        "uuid": NAME,
        "metricSectionId": NAME,
        "xaxis": {"key": across, "type": "METRIC"},
        "yaxis": {"key": first.metric, "type": "METRIC"},
        "runsCountToCompare": 100,
        "deleted": False,
        "isGenerated": False,
    }
    section = {"uuid": NAME, "name": "Front", "columns": 1, "cardHeight": 480, "display": True}
    return json.dumps(
        {
            "searchFilter": "tags.`sweeps.feasible` = 'true'",
            "orderByKey": _column(first.metric),
            "orderByAsc": first.goal == "minimize",
            "startTime": "ALL",
            "lifecycleFilter": "Active",
            "datasetsFilter": [],
            "modelVersionFilter": "All Runs",
            "selectedColumns": [_column(name) for name in dict.fromkeys([first.metric, across, EPSILON])],
            "runsHiddenMode": "SHOW_ALL",
            "compareRunCharts": [chart],
            "compareRunSections": [{**section, "isReordered": False, "deleted": False, "isGenerated": False}],
            "useGroupedValuesInCharts": True,
            "hideEmptyCharts": False,
        }
    )


def _column(metric: str) -> str:
    return f"metrics.`{metric}`"


def page(experiment: str) -> str:
    """The part of a link behind the server's address, for the experiment of this id."""
    words = ("workflowType=machine_learning", "compareRunsMode=CHART", f"viewStateShareKey={NAME}")
    return f"/#/experiments/{experiment}/runs?{'&'.join(words)}"


def keep_page(folder: Path, experiment: str) -> None:
    """Leave the link in the sweep's folder, for whoever prints it without asking MLflow."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _KEPT).write_text(page(experiment))


def kept_page(folder: Path) -> str:
    """What was left there; empty where MLflow was not reached yet."""
    try:
        return (folder / _KEPT).read_text()
    except FileNotFoundError:
        return ""
