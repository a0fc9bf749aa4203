"""What `sweeps check` does: plan the spec, and rehearse it on made-up records. No record is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.preview import Preview, preview
from sweeps.records import TrialRecord
from sweeps.rehearsal import PATIENCE, Rehearsal, Rehearsing
from sweeps.spec import SweepSpec
from sweeps.totals import Total


@dataclass(frozen=True, slots=True)
class Checked:
    """The plan of a sweep, and what its rehearsal found; None without one."""

    plan: Preview
    rehearsal: Rehearsal | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the plan's, with the rehearsal beside them."""
        return self.plan.to_dict() | {"rehearsal": None if self.rehearsal is None else self.rehearsal.to_dict()}

    def render(self) -> str:
        """For people."""
        parts = [self.plan.render()]
        if self.rehearsal is not None:
            parts.append(self.rehearsal.render())
        return "\n".join(parts)


def checked(
    spec: SweepSpec,
    *,
    rehearsal: bool = True,
    patience: float = PATIENCE,
    warm: Sequence[TrialRecord] = (),
    started_from: Sequence[Total] = (),
) -> Checked:
    """Plan and rehearse. Raises SpecErrors, WouldFail.

    warm, started_from  as in `sweeps.preview.preview`
    patience            see `sweeps.rehearsal.PATIENCE`
    """
    if not rehearsal:
        return Checked(preview(spec, warm=warm, started_from=started_from), None)
    with Rehearsing(spec, patience=patience) as rehearsing:
        # Planning builds the user's own model: not in this process, before it has come back from the other one.
        first = rehearsing.finished() if spec.user_modules() else None
        plan = preview(spec, warm=warm, started_from=started_from)
        return Checked(plan, first or rehearsing.finished())
