"""What comes after a sweep's last trial and its results: the models that MLflow is to show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sweeps.util.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.execution.end import SweepEnd


def with_models(end: SweepEnd, workspace: Workspace) -> SweepEnd:
    """How a session ended, with what MLflow shows of its models (`sweeps.export.at_the_end`).

    Everything else of the sweep is done by now: whatever fails here is said, and `sweeps track` does it again.
    """
    from sweeps.export.at_the_end import ModelsShown, show_models

    if end.state == "stopped" or end.tracking is None:
        return end
    try:
        return replace(end, models=show_models(workspace, end.sweep))
    except (KeyboardInterrupt, Exception) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        again = f"{why}. Nothing else is missing; `sweeps track {end.sweep}` shows them."
        return replace(end, models=ModelsShown(left_out={"the front": again}))
