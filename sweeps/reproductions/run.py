"""One run of a reproduction: its data, its effort, and the result that it fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.records import TrialState
from sweeps.reproductions import data_sets
from sweeps.reproductions.data_sets import Missing
from sweeps.reproductions.effort import Effort
from sweeps.reproductions.paper import Paper
from sweeps.reproductions.pictures import Axes, draw
from sweeps.reproductions.result import Result, Say
from sweeps.reproductions.statements import hold
from sweeps.reproductions.sweeping import full_grid, swept
from sweeps.reproductions.templates import Values

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What a paper's module works with.

    data       folder with the data sets; None: what needs none is computed, the rest is left out
    workspace  where its sweeps `<paper>-<part>` live
    say        told one line of progress
    """

    paper: Paper
    data: Path | None
    workspace: Workspace
    effort: Effort
    say: Say
    result: Result

    def hold(self, group: str, values: Values, why: str = "") -> None:
        """Hold the statements of a group against measured values; with `why`, say that they were not tried."""
        self.result.claims += hold(self.paper.statements[group], values, why)

    def trained(self, raw: Mapping[str, Any]) -> tuple[SweepSpec, list[TrialRecord]]:
        """Every trial of a full grid, which is run where it was not; how many failed is said with what was cut.

        Raises what `swept` raises.
        """
        spec = full_grid(raw)
        trials = swept(spec, self.workspace)
        if failed := [one for one in trials if one.state is TrialState.FAILED]:
            told = f"{spec.name}: {len(failed)} of {len(trials)} trials failed; the first: {failed[0].reason}"
            self.result.cut.append(told)
        return spec, trials

    def part(
        self,
        options: Mapping[str, Any],
        made: Callable[[Path], None],
        left: Callable[[str], None],
        *,
        title: str = "",
        quick: bool = True,
    ) -> None:
        """A part on the set of `options`, a `data` section; where the set cannot be had, `left` is told why.

        title  said before
        quick  whether it is run with `effort.quick` too
        """
        if self.data is None or (self.effort.quick and not quick):
            left("no --data DIR" if self.data is None else "--quick")
            return
        if title:
            self.say(title)
        try:
            with data_sets.needing(options, self.data, self.result, self.say):
                made(self.data)
        except Missing as missing:
            left(str(missing))

    def draw(self, folder: str | Path, name: str, panels: Sequence[Axes], **layout: Any) -> None:
        """A picture of the result, under the workspace."""
        if panels:
            self.result.plots.append(draw(Path(self.workspace.root) / folder / name, panels, **layout))
