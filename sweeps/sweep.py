"""A sweep as Python has it: everything that was published of it, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from dpcore.guarantee import delta_text, epsilon_text
from sweeps.audit import AuditRecord, audit_trial
from sweeps.certificate.build import Certificate, certified
from sweeps.certificate.document import Approval
from sweeps.certificate.signing import private_key
from sweeps.execution import requests
from sweeps.execution.requests import EnqueueAnswer, StopAnswer
from sweeps.export import ModelsShown, exported, find_trial, read, show_models
from sweeps.privacy.heldout import HeldOutReading
from sweeps.privacy.ledger import Summary
from sweeps.privacy.release import Published, PublishedStore
from sweeps.reporting.figures import Plots, figure_of, front_figure
from sweeps.reporting.front import Front, FrontAxis, axis_of, goals_of, parse_reference, spec_objectives, sweep_front
from sweeps.reporting.html import as_page, front_in_notebook, render, write_report
from sweeps.reporting.summary import SweepSummary, best_trial, trial_progress
from sweeps.reporting.tables import curves_table, format_of, front_table, ledger_table, trials_table
from sweeps.reporting.trials import TrialSummary, selected
from sweeps.spec.parse import load_spec
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TrialState, by_trial, notes, tags
from sweeps.store.workspace import Workspace
from sweeps.util.files import write_output
from sweeps.util.fingerprint import check_accepted
from trainables.measures.audits import CANARIES

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from sweeps.execution.gc import Collected, DeleteAnswer
    from sweeps.execution.session import SweepEnd
    from sweeps.mlflow.models import RegisteredVersion
    from trainables.export.model import ReleasedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """What MLflow shows of a sweep: how many runs of its trials, and of their models those that it is to show."""

    runs: int
    models: ModelsShown


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SweepClaim(Summary):
    """A `Summary`, with the words that stand beside its numbers wherever they are printed.

    sweep  whose
    words  a line each: what stands above, each kind of claim, the totals, what they rest on
    """

    sweep: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, summary: SweepSummary) -> SweepClaim:
        """That of an overview."""
        counted = {one.name: getattr(summary.ledger, one.name) for one in fields(Summary)}
        return cls(sweep=summary.record.called, words=tuple(summary.claim_lines()), **counted)

    def __str__(self) -> str:
        return "\n".join(self.words)

    def __repr__(self) -> str:
        kinds = f"{len(self.claims)} kind{'s' * (len(self.claims) != 1)} of claim"
        total = "no total that may be quoted"
        if self.procedure is not None and self.procedure.is_claim:
            claim = self.procedure.guarantee
            total = f"total epsilon {epsilon_text(claim.epsilon)} at delta {delta_text(claim.delta)}, {claim.standing}"
        return f"<SweepClaim of {self.sweep!r}: {kinds}; {total}>"

    def _repr_html_(self) -> str:
        """For notebooks: what `print` says."""
        return as_page(self.sweep, *self.words)


# A Pareto front as Python has it: a table, a figure, a file, and a picture of itself in a notebook.


@dataclass(frozen=True, slots=True, eq=False)
class ParetoFront:
    """The trials that no other beats, with what their claims rest on.

    front  the values: objectives, one panel for each kind of claim, totals, assumptions
    """

    front: Front

    @property
    def keys(self) -> list[str]:
        """Keys of the trials on the front, best of the first objective first."""
        return self.front.keys()

    @property
    def hypervolumes(self) -> list[float | None]:
        """What each panel's front dominates up to the references; None without a reference for every objective."""
        return [panel.hypervolume for panel in self.front.panels]

    @property
    def note(self) -> str:
        """The totals of the sweep in words: which number may be quoted for what."""
        return self.front.note

    def table(self, everything: bool = False) -> pd.DataFrame:
        """One row a point; with `everything`, one for each ranked trial. See `sweeps.reporting.tables.front_table`."""
        return front_table(self.front, everything)

    def figure(self) -> go.Figure:
        """The first panel's picture. Raises InvalidValue where there is no point."""
        if not self.front.panels:
            raise InvalidValue("front", self.front.sweep, "a sweep with a finished trial that reports its objectives")
        return figure_of(front_figure(self.front, self.front.panels[0]))

    def write(self, path: str | Path, format: str | None = None) -> Path:
        """Write it as table, csv, parquet, json, html or png, by the name of `path` unless said; return the path.

        Raises InvalidValue for a format that is none, OSError for a place that cannot be written.
        """
        return write_output(render(self.front, format_of(path, format)), Path(path))

    def __str__(self) -> str:
        return str(render(self.front, "table"))

    def __repr__(self) -> str:
        points = sum(len(panel.order_of_front()) for panel in self.front.panels)
        ranked = sum(len(panel.records) for panel in self.front.panels)
        axes = ", ".join(f"{one.metric} {one.goal}" for one in self.front.objectives)
        return f"<ParetoFront of {self.front.sweep!r}: {points} of {ranked} trials; {axes}>"

    def _repr_html_(self) -> str:
        """For notebooks, what the terminal shows."""
        return front_in_notebook(self.front)


def asked_front(
    store: PublishedStore,
    sweeps: Sequence[str],
    objective: str | Sequence[str] = (),
    reference: Mapping[str, float] | None = None,
    mix: Collection[str] = (),
    as_refuted: bool = False,
) -> ParetoFront:
    """The front of one sweep or several, as `sweeps.pareto` and `Sweep.front` are asked for it."""
    ends = dict(parse_reference(f"{metric}={value}") for metric, value in (reference or {}).items())
    axes = [FrontAxis.parse(one) for one in ([objective] if isinstance(objective, str) else objective)]
    asked: dict[str, Any] = {"mix": mix, "reference": ends, "as_refuted": as_refuted}
    return ParetoFront(sweep_front(store, *sweeps, objectives=axes, total=True, **asked))


class Sweep:
    """One recorded sweep. Made by `sweeps.run`, `sweeps.resume` and `sweeps.open`.

    name       that it began with: of its folder, and the first part of its trials' keys, however it is called now
    workspace  where its files are
    end        how the run that returned it ended: state, counts, first failure, reasons; None of one that was opened

    Every answer is read anew: of a sweep that runs elsewhere, each call says where it stands then. All of them raise
    StoreError when the store cannot be read.
    """

    def __init__(self, name: str, workspace: Workspace, end: SweepEnd | None = None) -> None:
        self.workspace, self.end = workspace, end
        self._published = PublishedStore.open(workspace)
        self.name = self._published.sweep(name).name

    @property
    def spec(self) -> SweepSpec:
        """The spec that it began with. Raises SpecErrors where today's rules refuse that."""
        return load_spec(self._published.sweep(self.name).spec.canonical())

    @property
    def state(self) -> str:
        """created, running, finished, exhausted (the space ran dry) or stopped."""
        return str(self._published.sweep(self.name).state)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are in each state."""
        return self._published.counts(self.name)

    @property
    def claim(self) -> SweepClaim:
        """What may be said: `.claims`, the largest that a single trial makes, of each kind; `.procedure`, all trials
        together, whose `.is_claim` says whether it may be quoted. `print` of it says both in words."""
        return SweepClaim.of(self.overview())

    @property
    def plots(self) -> Plots:
        """The report's charts, as Plotly figures."""
        return Plots(self._published, self.name)

    @property
    def notes(self) -> list[str]:
        """What people noted, oldest first, with who and when."""
        return notes(self._published.requests(self.name))

    @property
    def tags(self) -> dict[str, str]:
        """Its tags."""
        return tags(self._published.requests(self.name))

    def stop(self, *, wait: bool = True) -> StopAnswer:
        """Ask whoever runs it, on whichever machine, to end as by Ctrl-C: running attempts end at a checkpoint, and are
        charged. It is obeyed within 5 s.

        wait  until it has ended, for one patience (SWEEPS_PATIENCE) at most

        `print` of what comes back says what came of it; a sweep that nobody runs is left as it is.
        """
        with requests.opened(self.workspace) as store:
            return requests.stop(store, self.name, wait=wait)

    def enqueue(self, point: Mapping[str, Any] | str | Sequence[str]) -> EnqueueAnswer:
        """Ask for a trial of a known good point, {"learning_rate": .1, ...} or texts "learning_rate=.1", besides those
        of the search: tried next by whoever runs the sweep, else by whoever resumes it.

        It has to name each knob that is searched, the `system` and the `target_epsilon` where the sweep has several.
        The sweep's total is no guarantee any more from its launch on, unless the sweep has one budget. Raises
        SpecErrors with all that is wrong with the point, InvalidValue for one that is infeasible.
        """
        self._published.check_not_stale(self.name)
        with requests.opened(self.workspace) as store:
            return requests.enqueue(
                store, self.name, point if isinstance(point, Mapping) else requests.parse_point(point)
            )

    def rename(self, new: str) -> None:
        """Call it `new` from now on. Keys of trials and folders keep the name that it began with. Every name that it
        had still finds it, and none is ever another sweep's. Raises InvalidValue, SweepExists."""
        with requests.opened(self.workspace) as store:
            requests.rename(store, self.name, new)

    def delete(self) -> DeleteAnswer:
        """Delete it for good, without asking: results, files and MLflow experiment. What was spent on the records stays
        on record, and its name is never used again. Raises LeaseHeld where somebody runs it, InvalidValue where a
        sweep that is not over started from it."""
        from sweeps.execution.gc import delete

        return delete(self.workspace, self.name)

    def note(self, text: str) -> None:
        """Keep a sentence about it, of at most 2000 letters. Raises InvalidValue."""
        with requests.opened(self.workspace) as store:
            requests.note(store, self.name, text)

    def tag(self, tags: Mapping[str, str] | str | Sequence[str]) -> None:
        """Tag it: {"paper": "v2"}, or texts "paper=v2". An empty value takes a tag away. Raises InvalidValue."""
        with requests.opened(self.workspace) as store:
            requests.tag(store, self.name, tags if isinstance(tags, Mapping) else requests.parse_tags(tags))

    def overview(self) -> SweepSummary:
        """Where it stands, what its trials claim, what it spent: what `sweeps show` prints."""
        return SweepSummary(self._published, self.name, self.workspace)

    def trials(self, where: str | Sequence[str] = (), sort: str | None = None) -> pd.DataFrame:
        """One row a trial, indexed by number. Columns: `trials_table`.

        where  conditions that all of them meet: "state=failed", "accuracy>=0.9", "model!=linear"
        sort   by a knob, metric or column: a metric's best first, else from small to large; "NAME:descending" turns it

        Raises InvalidValue for a name that no trial has, and for a state that is none.
        """
        spec = self._published.sweep(self.name).spec
        chosen = selected(self._published.trials(self.name), where, sort, goals_of(spec))
        return trials_table(chosen, trial_progress(self._published, self.workspace, self.name, chosen))

    def curves(self, where: str | Sequence[str] = ()) -> pd.DataFrame:
        """Metrics at planned steps, of running trials too: the spec's `curve` says how many. Columns: `curves_table`.

        where  conditions on the trials, as those of `trials`

        Without `curve` in the spec each trial has its end, and the rungs of early stopping.
        """
        chosen = selected(self._published.trials(self.name), where)
        heading = self._published.heading(self.name)
        return curves_table(chosen, by_trial(self._published.curves(self.name)), heading)

    def describe(self, trial: int | str) -> TrialSummary:
        """One trial whole, in words when printed: plan, solved values, launches, metrics, curve, claim, files.

        Raises InvalidValue.
        """
        return TrialSummary(self._published, self.workspace, self.name, self.trial(trial))

    def trial(self, trial: int | str) -> Published:
        """One trial, by number or key: its knobs, plan, metrics, claim, reason. Raises InvalidValue."""
        return find_trial(self.name, self._published.trials(self.name), trial)

    def front(
        self,
        objective: str | Sequence[str] = (),
        *,
        reference: Mapping[str, float] | None = None,
        mix: Collection[str] = (),
        as_refuted: bool = False,
    ) -> ParetoFront:
        """The exact non-dominated front.

        objective  "METRIC:maximize" or "METRIC:minimize", one or several; the spec's own by default
        reference  {metric: where its axis ends} for the hypervolume, instead of the spec's
        mix        what of notion, status, adjacency, delta and unit may differ: one panel for each combination
        as_refuted draw trials whose claim is refuted too; by default they are on no front

        Raises InvalidValue for an objective that no trial reports, MixedGuarantees for claims that share no axes.
        """
        return asked_front(self._published, [self.name], objective, reference, mix, as_refuted)

    def best(self, objective: str | None = None) -> Published:
        """The finished trial that is best by one objective: "accuracy", "METRIC:minimize"; by default the spec's first.

        Scores with a standard error are compared shrunk (`sweeps.reporting.front`), so that luck is paid for.
        Its claim covers its own training alone. That it was chosen among others is the total's part: see `claim`.
        None whose claim is refuted. Raises InvalidValue where no other finished trial reports it.
        """
        spec = self._published.sweep(self.name).spec
        chosen = spec_objectives(spec)[0] if objective is None else axis_of(objective, spec)
        found = best_trial(self._published.trials(self.name, [TrialState.COMPLETE]), chosen)
        if found is None:
            raise InvalidValue("objective", chosen.metric, "a metric that a finished trial reports whose claim stands")
        return found

    def ledger(self) -> pd.DataFrame:
        """Every launch, with the steps that it was charged for, lost ones included."""
        return ledger_table(self._published.ledger(self.name))

    def model(self, trial: int | str, *, as_refuted: bool = False, accept: Collection[str] = ()) -> ReleasedModel:
        """The model of a finished trial: `.predict(rows)`, `.save(folder)`, `.card`. Reads no record.

        as_refuted  let it out although its claim is refuted, under that heading
        accept      "code": although the code changed since the sweep was started

        Raises InvalidValue for a trial that is not finished or published, and for a system whose claim covers no model.
        """
        return exported(self.workspace, self.name, trial, as_refuted=as_refuted, accept=accept)

    def register(
        self, trial: int | str, model_name: str, *, as_refuted: bool = False, accept: Collection[str] = ()
    ) -> RegisteredVersion:
        """Put the model of a finished trial into MLflow's registry: what `model` gives, as the next version of a name.

        No pickle is in it; tags carry the claim, the description is its card. MLflow shows the sweep already (`track`).
        Raises what `model` raises, InvalidValue for a name that MLflow refuses, and MLflow's own errors.
        """
        from sweeps.mlflow.models import check_model_name, register

        check_model_name(model_name)
        model = self.model(trial, as_refuted=as_refuted, accept=accept)
        return register(
            self.workspace.tracking_uri, model_name, model, self._published.sweep(self.name), self.trial(trial)
        )

    def test(self, trial: int | str, *, again: bool = False, accept: Collection[str] = ()) -> HeldOutReading:
        """Score a finished trial on the test records (`data.test`), which are read once; the same trial again is told
        what was read. `print` of what comes back says the score, and whether the test records were untouched.

        again   although they were read for another trial: every card then says so, and private ones are charged again
        accept  "code": although the code changed since the sweep was started

        Raises what `model` raises, and InvalidValue for a sweep that declares no test records.
        """
        return read(self.workspace, self.name, trial, again=again, accept=accept)

    def audit(
        self,
        trial: int | str,
        *,
        method: str | None = None,
        canaries: int | None = None,
        runs: int | None = None,
        accept: Collection[str] = (),
        say: Callable[[str], None] = lambda line: None,
    ) -> AuditRecord:
        """Try to refute a trial's claim: retrain twins with canaries, bound epsilon from below, keep the record.

        method    one-run, f-dp or multi-run; the best that the system offers by default
        canaries  of one run (2000); runs: with the target, and as many without (1000, or 100 where slow)
        accept    audit although this changed: "code", "data"
        say       told beforehand what will be trained

        Its `outcome` is consistent or refuted, never verified. Raises what `sweeps.audit` raises.
        """
        check_accepted(accept, ("code", "data"))
        return audit_trial(
            self.workspace,
            self.name,
            str(trial),
            method=method,
            canaries=CANARIES if canaries is None else canaries,
            runs=runs,
            accept=accept,
            say=say,
        )

    def report(self, output: str | Path | None = None) -> Path:
        """Write the report page, one HTML file that asks nobody for anything, and return its path."""
        return write_report(self._published, self.name, output or self.workspace.report(self.name))

    def certify(
        self, *, key: str | Path, approved_by: str, because: str, ranges: str = "", trial: int | str | None = None
    ) -> Certificate:
        """A signed certificate of all trials together, or of one: `.save(FILE)` writes it, its signature and its page.

        That of a holdout's final run holds the sweep that tuned as well.

        key          file with your Ed25519 private key (PEM); `sweeps.new_key` makes one
        approved_by, because  who approved this epsilon, and why it is right for these records
        ranges       how ranges of hyperparameters and public inputs were chosen, and on which data; what the spec says
                     where it says so (`selection.chosen_by`)
        trial        by number or key: its search is then not covered, and the title says so

        Raises CannotCertify for a claim that no certificate may carry, InvalidValue for answers that are missing.
        """
        selection = self._published.sweep(self.name).spec.selection
        said = (None if selection is None else selection.chosen_by) or ""
        approval = Approval.now(approved_by, because, ranges or said)
        chosen = None if trial is None else self.trial(trial)
        return certified(self._published, self.name, chosen, approval, private_key(Path(key)))

    def gc(self, *, dry_run: bool = False) -> Collected:
        """Delete the checkpoints off the front: of trials that cannot run again, and whose models are not on it.

        dry_run  only say which

        Claims, metrics and what was charged stay. Raises LeaseHeld while the sweep runs.
        """
        from sweeps.execution.gc import collect

        return collect(self.workspace, self.name, dry_run=dry_run)

    def track(self) -> Tracked:
        """Rebuild its MLflow experiment from the store, the models that it is to show included."""
        from sweeps.mlflow.sync import rebuild

        self._published.check_not_stale(self.name)
        runs = rebuild(self._published, self.name, self.workspace.tracking_uri, self.workspace.folder(self.name))
        return Tracked(runs=runs, models=show_models(self.workspace, self.name))

    def __str__(self) -> str:
        return "\n".join(self.overview().lines())

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)
        return f"<Sweep {self.name!r}: {self.state}; {counts or 'no trials yet'}>"

    def _repr_html_(self) -> str:
        """For notebooks: what `print` says."""
        return as_page(*self.overview().lines())
