"""One run of a reproduction: its data, its effort, and the result that it fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.reproductions import files
from sweeps.reproductions.claims import Result, Say
from sweeps.reproductions.effort import Effort
from sweeps.reproductions.files import Missing
from sweeps.reproductions.paper import Paper
from sweeps.reproductions.pictures import Panel, draw
from sweeps.reproductions.statements import Values, hold
from sweeps.reproductions.sweeping import full_grid, swept

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec


@dataclass(frozen=True, slots=True)
class Run:
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
        """Every trial of a full grid, which is run where it was not. Raises what `swept` raises."""
        spec = full_grid(raw)
        return spec, swept(spec, self.workspace)

    def part(self, options: Mapping[str, Any], made: Callable[[Path], None], left: Callable[[str], None]) -> None:
        """A part on the set of `options`, a `data` section; where the set cannot be had, `left` is told why."""
        try:
            with self.needing(options) as data:
                made(data)
        except Missing as missing:
            left(str(missing))

    @contextmanager
    def needing(self, options: Mapping[str, Any]) -> Iterator[Path]:
        """What is inside needs the set of `options`. Raises Missing, once it is said and cut."""
        if self.data is None:
            raise Missing("no --data DIR")
        with files.needing(options, self.data, self.result, self.say):
            yield self.data

    def draw(self, folder: str | Path, name: str, panels: Sequence[Panel], **layout: Any) -> None:
        """A picture of the result, under the workspace."""
        if panels:
            self.result.plots.append(draw(Path(self.workspace.root) / folder / name, panels, **layout))
