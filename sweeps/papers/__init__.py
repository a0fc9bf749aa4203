"""Published results beside ours: of each paper a file of what it printed, and a module that measures it.

The file `<paper>.yaml` is a `Paper`: printed numbers, statements, sweeps, sizes. The module `<paper>.py` has one
function `reproduce(run: Reproduction) -> None`, which runs ordinary sweeps `<paper>-<part>`, holds what was printed
against their results, and adds tables and pictures. Killed sweeps resume, finished ones are not run again.

A paper's file lists statements by group. Each is held against measured values (`Reproduction.hold`), which its texts
name in braces:

    claim      in words; `tried`: what they go on with once there is a result
    published  a number or a text, "holds" by default
    ours       what was measured; a name in braces alone is the value itself. Numbers are rounded to `digits` (4)
    holds      "a <= b", two numbers or names; or a name, whose value is the answer
    within     instead: ours is as near to the printed number; a number or a name
    note       what the verdict rests on
"""

from __future__ import annotations

import importlib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import reduce
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import yaml

from dpcore import checks
from dpcore.checks import InvalidValue, QuotesRecords
from sweeps.search.space import SearchGrid, Space
from sweeps.spec.parse import load_spec
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TrialRecord, TrialState
from sweeps.store.workspace import Workspace
from sweeps.util.log import Event
from sweeps.util.log import say as log

Say = Callable[[str], None]
"""Told one line of progress."""
Values = Mapping[str, Any]
"""Measured or given, by the names that a paper's file gives them."""
Row = SimpleNamespace
"""One line of a printed table, by the names that the paper's file gives its columns."""
NOT_RUN = "not run in this scope"


@dataclass(frozen=True, slots=True)
class Claim:
    """One published number or statement beside ours.

    holds  None with `ours`: measured, and too little to decide; None without: not tried
    note   what the verdict rests on; of a NO its reason, of an open one what is missing
    """

    claim: str
    published: float | str
    ours: float | str | None
    holds: bool | None
    note: str

    @property
    def verdict(self) -> str:
        """`holds` in a word."""
        if self.holds is None:
            return "not tried" if self.ours is None else "undecided"
        return "yes" if self.holds else "NO"


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Numbers behind a figure: `rows` have one cell per column."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]


@dataclass(slots=True)
class Result:
    """All claims of a paper (`rows`), its figures' numbers and pictures, and what was cut."""

    paper: str
    title: str
    rows: list[Claim] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    tables: list[ResultTable] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"plots": [str(plot) for plot in self.plots]}


# How much of a paper is run.


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much of a paper is run. What is left out stands in `Result.cut`.

    grid     "coarse": enough points for every claim, minutes on two cores; "paper": the published grid, hours
    repeats  trainings with different seeds for each point; None leaves it to the paper
    quick    seconds: the parts that show that the path works
    """

    grid: Literal["coarse", "paper"] = "coarse"
    repeats: int | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        if self.grid not in ("coarse", "paper"):
            raise InvalidValue("grid", self.grid, "coarse or paper")
        if self.repeats is not None:
            checks.count(minimum=1, repeats=self.repeats)

    @property
    def name(self) -> str:
        """Under which a paper's file lists its sizes."""
        return "quick" if self.quick else self.grid


FULL = Effort(grid="paper")


@dataclass(frozen=True, slots=True)
class Paper:
    """The packaged file of a paper, `<paper>.yaml`.

    printed     its numbers and settings, by the names that the paper's module reads
    sweeps      specs of grid sweeps, as templates
    statements  by group, see the head of this module
    sizes       {effort: {field: size}}, and under `said` the words of those that are told when they are cut
    """

    title: str
    printed: Values
    sweeps: Any
    statements: Mapping[str, Sequence[Values]]
    sizes: Mapping[str, Values]

    @classmethod
    def load(cls, name: str) -> Paper:
        """The file of a paper."""
        raw = yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
        own = {name: raw.pop(name, {}) for name in ("title", "sweeps", "statements", "sizes")}
        return cls(**own, printed=raw)

    def rows(self, table: str) -> list[Row]:
        """The lines of a printed table whose names are in `columns`."""
        return [Row(**dict(zip(self.printed["columns"], line, strict=True))) for line in self.printed[table]]

    def sized(self, effort: Effort) -> dict[str, Any]:
        """How much an effort runs, by name; `effort.repeats` stands for the `repeats` of the file."""
        return {**self.sizes[effort.name], **({"repeats": effort.repeats} if effort.repeats else {})}

    def cut(self, sizes: Values) -> list[str]:
        """What sizes leave out of the full ones, one by one. More repeats than the full one's leave nothing out."""
        full = self.sized(FULL)
        told = {name: words for name, words in self.sizes["said"].items() if sizes[name] != []}
        least = {name: min(sizes[name], full[name]) for name in told if name.endswith("repeats")}
        return reduced(*({words: one[name] for name, words in told.items()} for one in ({**sizes, **least}, full)))


def reduced(ours: Mapping[str, object], full: Mapping[str, object]) -> list[str]:
    """Where the sizes that are run are not the full ones, with both: "epochs 5 instead of 32"."""
    told = ((name, _listed(ours[name]), _listed(full[name])) for name in ours)
    return [f"{name} {mine} instead of {other}" for name, mine, other in told if mine != other]


def _listed(value: object) -> str:
    if isinstance(value, Mapping):
        return _listed(value.get("choice") or [f"{name} {_listed(one)}" for name, one in value.items()] or "none")
    if not isinstance(value, tuple | list):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return ", ".join(map(_listed, value))


# Templates of a paper's file: texts and trees of values in which names in braces stand for measured or given ones.

SIGNS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}


def value(name: float | str, values: Values) -> Any:
    """A number as it is written, or a name among the values, or "name.part" of one: an attribute, or an entry."""
    if not isinstance(name, str) or re.fullmatch(r"[\d.e-]+", name):
        return float(name)
    head, *rest = name.split(".")
    return reduce(lambda one, part: one[part] if isinstance(one, Mapping) else getattr(one, part), rest, values[head])


def filled(tree: Any, values: Values) -> Any:
    """A template with its values; of one name in braces alone, the value itself. An entry that becomes None is absent.

    tree  a text, or mappings and lists of such; anything else stays as it is
    """
    if isinstance(tree, str):
        return value(tree[1:-1], values) if re.fullmatch(r"\{[\w.]+\}", tree) else tree.format_map(values)
    if isinstance(tree, Mapping):
        made = ((filled(name, values), filled(one, values)) for name, one in tree.items())
        return {name: one for name, one in made if one is not None}
    return [filled(one, values) for one in tree] if isinstance(tree, list) else tree


# Numbers with standard errors, and answers of three values: yes, no, and None where the errors are too large.

Yes = bool | None
UNDECIDED = "undecided at two standard errors"


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A number and its standard error; NaN of one value alone."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Uncertain:
        """The mean of independent values, at least one."""
        found = np.array(list(values), dtype=np.float64)
        error = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else math.nan
        return cls(float(found.mean()), error)

    def __sub__(self, other: Uncertain) -> Uncertain:
        return Uncertain(self.value - other.value, math.hypot(self.error, other.error))

    @property
    def shown_error(self) -> float:
        """Its bar in a picture."""
        return self.error

    def __str__(self) -> str:
        return f"{self.value:.3f}" if math.isnan(self.error) else f"{self.value:.3f} +- {self.error:.3f}"


def at_most(one: Uncertain, margin: float) -> Yes:
    """Whether an estimate is no more than `margin`, at two standard errors; None where they are too large to tell."""
    if one.value + 2 * one.error <= margin:
        return True
    return False if one.value - 2 * one.error > margin else None


def above(one: Uncertain, other: Uncertain, slack: float = 0.0) -> Yes:
    """Whether `one` is above `other` by more than `slack` and two standard errors; False if it is below by as much."""
    lead = one - other
    return None if abs(lead.value) <= max(slack, 2 * lead.error) else lead.value > 0


def every(answers: Iterable[Yes]) -> Yes:
    """Whether all hold: one that fails decides, one that is open leaves it open."""
    known = list(answers)
    return False if False in known else None if None in known else True


def opposite(answer: Yes) -> Yes:
    """No for yes, yes for no; what is open stays open."""
    return None if answer is None else not answer


# Sweeps behind a reproduction: ordinary ones, in the ordinary store.

PUBLIC = "data sets that are published for research, repeated here as a publication printed them"
"""Why the records of a reproduction are public: it shows attacks and baselines, which no claim covers."""
FOLDERS = {"adult": ("a9a", "adult"), "mnist": ("mnist", "MNIST/raw", "MNIST"), "idc": ("IDC_regular_ps50_idx5", "idc")}
"""Of a source below `--data`, where they are not its name. torchvision's capitals are found, and not told."""


def full_grid(raw: Mapping[str, Any]) -> SweepSpec:
    """A grid sweep that runs every point `search.repeats` times: `search.trials` is counted here. Raises SpecErrors.

    raw  sections of a spec; of a list among a system's hyperparameters one is chosen
    """

    systems = {name: {key: choice(one) for key, one in own.items()} for name, own in raw["systems"].items()}
    made = {**raw, "systems": systems, "data": {**raw["data"], "records_are_public": PUBLIC}}
    search = {**raw.get("search", {}), "sampler": "grid", "trials": 1}
    counted = load_spec({**made, "search": search})
    trials = len(SearchGrid.of(Space.of(counted))) * counted.search.repeats
    return load_spec({**made, "search": {**search, "trials": trials}})


def choice(given: Any) -> Any:
    """A hyperparameter that is searched where it is a list of several; anything else is its one value."""
    if not isinstance(given, list):
        return given
    return given[0] if len(given) == 1 else {"choice": given}


def section(options: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """The `data` section of a spec. Adult comes in its own columns where only those files are there."""
    made = {**options, "path": str(data.absolute())}
    return {**made, "form": "raw"} if _raw_adult(options, data) else made


def _source(options: Mapping[str, Any]) -> str:
    """The source of the records, whatever is made of them."""
    return str(options.get("of", options["source"]))


def _raw_adult(options: Mapping[str, Any], data: Path) -> bool:
    return _source(options) == "adult" and not (data / "a9a").is_dir() and (data / "adult").is_dir()


class Missing(Exception):
    """A part has nothing to compare, for want of a data set or of finished trials; the text says so in a few words."""


def start_cluster(running: ExitStack, log_file: Path) -> None:
    """One local Ray for all sweeps of a reproduction, from the first that needs one to the end: seconds saved each."""
    from sweeps.ray.cluster import cluster, short_messages

    lost = "\nThe Ray cluster does not answer any more. Nothing is lost; the same command goes on."
    with short_messages(log_file):
        running.enter_context(cluster(on_lost=lambda: log(lost, Event.ERROR)))


def swept(spec: SweepSpec, workspace: Workspace, running: ExitStack) -> list[TrialRecord]:
    """Every trial of the sweep `spec.name`, which is created, resumed or only read, whatever it needs.

    Raises InvalidValue when a finished sweep of that name had another spec, KeyboardInterrupt when it was stopped, and
    whatever `session.resume` raises.
    """
    from sweeps.execution import session
    from sweeps.privacy.release import PublishedStore

    store = workspace.open_store(create=True)
    if spec.name not in {sweep.name for sweep in store.sweeps()}:
        session.create(spec, workspace, spec.name)
    recorded = store.sweep(spec.name)
    if recorded.state not in ("finished", "exhausted"):
        start_cluster(running, workspace.folder(spec.name) / "ray.log")
        if session.resume(spec.name, workspace, session.RunOptions(spec=spec)).state == "stopped":
            raise KeyboardInterrupt
    elif recorded.digest != spec.digest:
        raise InvalidValue(
            "sweep", spec.name, "the packaged spec of this reproduction", "It is another one: give another --root."
        )
    return [*PublishedStore(store).trials(spec.name)]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What a paper's module works with.

    data       folder with the data sets; None: what needs none is computed, the rest is left out
    workspace  where its sweeps `<paper>-<part>` live
    running    the Ray that its sweeps share, once one needed it
    """

    paper: Paper
    data: Path | None
    workspace: Workspace
    effort: Effort
    say: Say
    result: Result
    running: ExitStack = field(default_factory=ExitStack)

    def claim(
        self, claim: str, published: float | str, ours: object, holds: bool | None, note: str = "", *, digits: int = 4
    ) -> None:
        """Hold what was measured against what was printed; numbers are shown to so many `digits` behind the point."""
        shown: Any = ours if ours is None or isinstance(ours, float | int) else str(ours)
        printed, own = (round(one, digits) if isinstance(one, float) else one for one in (published, shown))
        # A truth value of NumPy's would reach JSON as text.
        decided = None if holds is None else bool(holds)
        self.result.rows.append(Claim(claim, printed, own, decided, note))

    def untried(self, claim: str, why: str, published: float | str = "holds") -> None:
        """A claim that nothing was measured for."""
        self.claim(claim, published, None, None, why)

    def hold(self, group: str, values: Values, why: str = "") -> None:
        """Hold the statements of a group against measured values; with `why`, say that they were not tried."""
        for one in self.paper.statements[group]:
            claim, published = one["claim"].format_map(values), filled(one.get("published", "holds"), values)
            ours = None if why else filled(one["ours"], values)
            if ours is None:
                self.untried(claim, why or NOT_RUN, published)
                continue
            if "within" in one:
                holds = abs(ours - float(published)) <= value(one["within"], values)
            else:
                left, *rest = one["holds"].split()
                holds = value(left, values)
                if rest:
                    holds = SIGNS[rest[0]](holds, value(rest[1], values))
            claim += one.get("tried", "").format_map(values)
            self.claim(claim, published, ours, holds, one["note"].format_map(values), digits=one.get("digits", 4))

    def trained(self, raw: Mapping[str, Any]) -> tuple[SweepSpec, list[TrialRecord]]:
        """Every trial of a full grid, which is run where it was not; how many failed is said with what was cut.

        Raises what `swept` raises.
        """
        spec = full_grid(raw)
        trials = swept(spec, self.workspace, self.running)
        if failed := [one for one in trials if one.state is TrialState.FAILED]:
            told = f"{spec.name}: {len(failed)} of {len(trials)} trials failed; the first: {failed[0].reason}"
            self.result.cut.append(told)
        return spec, trials

    def part(
        self, options: Mapping[str, Any], made: Callable[[Path], None], *, title: str = "", quick: bool = True
    ) -> str:
        """Run `made`, a part on the set of `options`, a `data` section; why not where the set cannot be had, else "".

        title  said before
        quick  whether it is run with `effort.quick` too
        """

        if self.data is None or (self.effort.quick and not quick):
            return "no --data DIR" if self.data is None else "--quick"
        if title:
            self.say(title)
        folders = FOLDERS.get(_source(options), (_source(options),))
        told = " or ".join(f"{name}/" for name in folders if name.islower() or name == folders[0])
        missing = f"missing: {told} in {self.data}"
        if not any((self.data / name).is_dir() for name in folders):
            self._cut_once(f"{missing}: its rows are not trained")
            return missing
        if _raw_adult(options, self.data):
            self._cut_once(f"Adult: UCI's columns from adult/, since there is no a9a/ in {self.data}")
        try:
            made(self.data)
        except Missing as lacking:
            return str(lacking)
        except (InvalidValue, SpecErrors) as error:
            names = [one.path for one in error.errors] if isinstance(error, SpecErrors) else [error.name]
            # Anything else that is invalid is no matter of files.
            if any(name.split(".")[0] != "data" for name in names):
                raise
            refused = f"{missing} is refused: its rows are not trained. "
            unquoted = error.unquoted if isinstance(error, QuotesRecords) else str(error)
            self._cut_once(f"{refused}{error}", refused + unquoted)
            return f"{missing} is refused"
        return ""

    def _cut_once(self, line: str, logged: str | None = None) -> None:
        """Several parts share a set: it is said once.

        logged  for a log, where `line` might quote a record
        """
        if line not in self.result.cut:
            self.result.cut.append(line)
            self.say(line if logged is None else logged)

    def draw(
        self, folder: str | Path, name: str, panels: Sequence[Panel], *, columns: int = 0, size: Size = (5.6, 4.2)
    ) -> None:
        """A picture of these panels under the workspace, in rows of `columns` (one row by default)."""
        from matplotlib.figure import Figure

        across = columns or len(panels)
        rows = -(-len(panels) // across)
        figure = Figure(figsize=(size[0] * across, size[1] * rows), dpi=120, layout="constrained")
        for number, panel in enumerate(panels, 1):
            axes: Any = figure.add_subplot(rows, across, number)
            for label, own in panel.curves.items():
                known = ([one for one in side if isinstance(one, Uncertain)] for side in (own, own.values()))
                bars = {f"{axis}err": [one.shown_error for one in side] for axis, side in zip("xy", known, strict=True)}
                x, y = ([getattr(one, "value", one) for one in side] for side in (own, own.values()))
                style = {"marker": "o", "ms": 3, **panel.styles.get(label, {})}
                axes.errorbar(x, y, label=label, **{name: bar for name, bar in bars.items() if bar}, **style)
            axes.set_title(panel.title, fontsize=9)
            scales = {f"{axis}scale": "log" if axis in panel.log else "linear" for axis in "xy"}
            axes.set(xlabel=panel.x, ylabel=panel.y, **scales)
            if panel.limits is not None:
                axes.set_ylim(*panel.limits)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7)
        path = Path(self.workspace.root) / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        self.result.plots.append(path)


Size = tuple[float, float]
"""Of a panel, in inches."""
PLAIN: Mapping[str, Any] = {"marker": ""}
DASHED: Mapping[str, Any] = {**PLAIN, "color": "k", "linestyle": "--"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel of a picture: {label: {place along x: value}}, each a number or an `Uncertain`, shown with its error.

    styles  {label: Matplotlib's own words for its line}
    log     which axes are logarithmic: "", "x", "y" or "xy"
    """

    title: str
    x: str
    y: str
    curves: Mapping[str, Mapping[Any, Any]]
    styles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    log: str = ""
    limits: tuple[float | None, float | None] | None = None


PAPERS = ("bu2020", "lu2021", "triastcyn2020", "vandermaaten2020", "wu2020")
"""One module and one file of this folder for each."""


def reproduce(paper: str, data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """Run what is missing of `paper`, and hold every claim against the results.

    Without `data`, the folder with the data sets, what needs none is computed and the rest stands in `Result.cut`, as
    do the parts whose set is not there. Raises InvalidValue (paper, data), SpecErrors, StoreError, LeaseHeld,
    ClusterUnreachable.
    """
    if paper not in PAPERS:
        raise InvalidValue("paper", paper, "one of " + ", ".join(PAPERS))
    if data is not None and not data.is_dir():
        remedy = "Pass the folder that holds the data sets with --data DIR; without it, what needs no data is computed."
        raise InvalidValue("data", str(data), "a folder that exists", remedy)
    # Papers bring plotting and data libraries that the others do without.
    module = importlib.import_module(f"{__name__}.{paper}")
    file = Paper.load(paper)
    result = Result(paper=paper, title=file.title)
    with ExitStack() as running:
        module.reproduce(Reproduction(file, data, workspace, effort, say, result, running))
    return result
