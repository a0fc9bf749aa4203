"""The report page's charts as Plotly figures, for a notebook or a paper."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from sweeps.front.pareto import spec_objectives
from sweeps.release.publisher import Publisher
from sweeps.store.records import DECIDED, TrialState, by_trial

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from sweeps.front.panels import Front

_CALLS = {
    "front(front)": "points against each other, with those that nothing beats",
    "parallel(front)": "every finished trial as a line through its knobs and objectives",
    "curves(front)": "metrics at planned steps, a line for each trial",
    "progress()": "the best value by number of finished trials",
}
"""What `Plots` draws."""
_OF = "front is sweep.front().front"


@dataclass(frozen=True, slots=True, repr=False)
class Plots:
    """Pictures of one sweep, drawn from what it published. Each raises InvalidValue where there is nothing to draw."""

    published: Publisher
    sweep: str

    def __repr__(self) -> str:
        return f"<Plots of {self.sweep!r}: {', '.join(_CALLS)}; {_OF}>"

    def _repr_html_(self) -> str:
        """For notebooks: what there is to be called."""
        listed = "<br>".join(f"<code>plots.{escape(call)}</code> {escape(text)}" for call, text in _CALLS.items())
        return f"<p><b>Plots of {escape(self.sweep)}</b></p><p>{listed}<br>{_OF}</p>"

    def front(self, front: Front, panel: int = 0) -> go.Figure:
        """One panel of a front: its points against the others, over the first two objectives."""
        from sweeps.report.figures import front_figure

        if panel not in range(len(front.panels)):
            raise InvalidValue("panel", panel, f"the number of one of {len(front.panels)} panels, counted from 0")
        return figure_of(front_figure(front, front.panels[panel]))

    def parallel(self, front: Front) -> go.Figure:
        """Every finished trial as a line through its knobs and objectives; those on `front` stand out."""
        from sweeps.report.figures import parallel_figure

        trials = self.published.trials(self.sweep, [TrialState.COMPLETE])
        return figure_of(self._drawn(parallel_figure(trials, front.objectives, set(front.keys()))))

    def curves(self, front: Front, metric: str | None = None) -> go.Figure:
        """Metrics at planned steps, a line for each trial; those on `front` stand out.

        metric  an objective; the first that training decides by default
        """
        from sweeps.report.figures import curves_figure

        known = {one.metric: one for one in front.objectives if one.metric not in DECIDED}
        if metric is not None and metric not in known:
            raise InvalidValue("metric", metric, f"an objective that training decides: {', '.join(known) or 'none'}")
        if not known:
            raise InvalidValue("front", front.sweep, "one with an objective that training decides")
        chosen = next(iter(known.values())) if metric is None else known[metric]
        trials, curves = self.published.trials(self.sweep), by_trial(self.published.curves(self.sweep))
        return figure_of(self._drawn(curves_figure(trials, curves, chosen, set(front.keys()))))

    def progress(self, metric: str | None = None) -> go.Figure:
        """The best value of an objective (the first by default) by number of finished trials."""
        from sweeps.report.figures import progress_figure

        known = {one.metric: one for one in spec_objectives(self.published.sweep(self.sweep).spec)}
        if metric is not None and metric not in known:
            raise InvalidValue("metric", metric, f"an objective of the sweep: {', '.join(known)}")
        chosen = next(iter(known.values())) if metric is None else known[metric]
        return figure_of(self._drawn(progress_figure(self.published.trials(self.sweep), chosen)))

    def _drawn(self, figure: dict[str, Any] | None) -> dict[str, Any]:
        if figure is None:
            raise InvalidValue("sweep", self.sweep, "a sweep with finished trials that can be drawn")
        return figure


def figure_of(figure: dict[str, Any]) -> go.Figure:
    """A chart of the report as a Plotly figure."""
    import plotly.graph_objects as go

    return go.Figure(figure)
