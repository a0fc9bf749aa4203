"""The link to a sweep's page in MLflow.

Only a link can ask for the runs. MLflow 3.17.2 reads no tag for it: its page takes `workflowType` of the link, else
what this browser chose last (its local storage), else "genai". A bare `#/experiments/ID` in a fresh browser
therefore opens the GenAI overview, whatever `mlflow.experimentKind` says.
"""

from __future__ import annotations

from pathlib import Path

FRONT = "front"
"""The name of the view that the page opens with (`sweeps.mlflow.runs.shared_view`)."""
LOCAL_SERVER = "http://127.0.0.1:5000"
"""Where `mlflow ui` listens unless told otherwise."""
_KEPT = "mlflow-page"


def page(experiment: str) -> str:
    """The part of a link behind the server's address, for the experiment of this id."""
    words = ("workflowType=machine_learning", "compareRunsMode=CHART", f"viewStateShareKey={FRONT}")
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
