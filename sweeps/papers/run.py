"""One run of a reproduction: its data, its effort, and the result that it fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from dpcore.checks import InvalidValue, QuotesRecords
from sweeps.papers.pictures import Axes, draw
from sweeps.papers.results import FULL, Effort, Result, Say, Values, filled, reduced
from sweeps.papers.statements import Statement, hold
from sweeps.store.records import TrialState
from sweeps.util.log import Event, say

if TYPE_CHECKING:
    from sweeps.spec.sections import SweepSpec
    from sweeps.store.records import TrialRecord
    from sweeps.store.workspace import Workspace


# A paper's file: its title, what it printed, its statements, its sweeps, and how much of it each effort runs.


@dataclass(frozen=True, slots=True)
class Paper:
    """One file of this folder.

    statements  by group
    sweeps      specs of grid sweeps, as templates; a list among the knobs of a system is searched
    printed     its numbers and settings, by the names that the paper's module reads
    sizes       {effort: {field: size}}, and under `said` the words of those that are told when they are cut
    """

    title: str
    statements: Mapping[str, Sequence[Statement]]
    sweeps: Any
    printed: Mapping[str, Any]
    sizes: Mapping[str, Mapping[str, Any]]

    @classmethod
    def load(cls, name: str) -> Paper:
        """The packaged file of a paper."""
        raw = yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
        groups = {group: [Statement.read(row) for row in rows] for group, rows in raw.pop("statements").items()}
        return cls(raw.pop("title"), groups, raw.pop("sweeps"), sizes=raw.pop("sizes", {}), printed=raw)

    def sized(self, effort: Effort) -> dict[str, Any]:
        """How much an effort runs, by name; `effort.repeats` stands for the `repeats` of the file."""
        return {**self.sizes[effort.name], **({"repeats": effort.repeats} if effort.repeats else {})}

    def cut(self, sizes: Values) -> list[str]:
        """What sizes leave out of the full ones, one by one. More repeats than the full one's leave nothing out."""
        full = self.sized(FULL)
        told = {name: words for name, words in self.sizes["said"].items() if sizes[name] != []}
        least = {name: min(sizes[name], full[name]) for name in told if name.endswith("repeats")}
        return reduced(*({words: one[name] for name, words in told.items()} for one in ({**sizes, **least}, full)))


def spec_of(template: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """A sweep's spec: the template with its values; of a list among the knobs one is chosen, or its only one fixed."""
    spec: dict[str, Any] = filled(template, values)
    systems = {system: {name: choice(one) for name, one in knobs.items()} for system, knobs in spec["systems"].items()}
    return {**spec, "systems": systems}


def choice(knob: Any) -> Any:
    """A knob that is searched where it is a list of several; anything else is its one value."""
    if not isinstance(knob, list):
        return knob
    return knob[0] if len(knob) == 1 else {"choice": knob}


# Sweeps behind a reproduction: ordinary ones, in the ordinary store.

PUBLIC = "data sets that are published for research, repeated here as a publication printed them"
"""Why the records of a reproduction are public: it shows attacks and baselines, which no claim covers."""


def full_grid(raw: Mapping[str, Any]) -> SweepSpec:
    """A grid sweep that runs every point `search.repeats` times: `search.trials` is counted here. Raises SpecErrors."""
    from sweeps.search.grid import SearchGrid
    from sweeps.search.space import Space
    from sweeps.spec.parse import load_spec

    raw = {**raw, "data": {**raw["data"], "records_are_public": PUBLIC}}
    search = {**raw.get("search", {}), "sampler": "grid", "trials": 1}
    counted = load_spec({**raw, "search": search})
    trials = len(SearchGrid.of(Space.of(counted))) * counted.search.repeats
    return load_spec({**raw, "search": {**search, "trials": trials}})


@contextmanager
def one_cluster() -> Iterator[None]:
    """All sweeps inside share one local Ray cluster, which the first that needs one starts: seconds saved for each."""
    with ExitStack() as stack:
        token = _SHARED.set(_Shared(stack))
        try:
            yield
        finally:
            _SHARED.reset(token)


@dataclass(slots=True)
class _Shared:
    stack: ExitStack
    started: bool = False


_SHARED: ContextVar[_Shared | None] = ContextVar("shared cluster", default=None)


def _start_shared_cluster(log: Path) -> None:
    shared = _SHARED.get()
    if shared is None or shared.started:
        return
    from sweeps.ray.cluster import cluster, short_messages

    lost = "\nThe Ray cluster does not answer any more. Nothing is lost; the same command goes on."
    with short_messages(log):
        shared.stack.enter_context(cluster(on_lost=lambda: say(lost, Event.ERROR)))
    shared.started = True


def swept(spec: SweepSpec, workspace: Workspace) -> list[TrialRecord]:
    """Every trial of the sweep `spec.name`, which is created, resumed or only read, whatever it needs.

    Raises InvalidValue when a finished sweep of that name had another spec, KeyboardInterrupt when it was stopped, and
    whatever `session.resume` raises.
    """
    from sweeps.execution import session
    from sweeps.privacy.published_store import PublishedStore

    store = workspace.open_store(create=True)
    if spec.name not in {sweep.name for sweep in store.sweeps()}:
        session.create(spec, workspace, spec.name)
    recorded = store.sweep(spec.name)
    if recorded.state not in ("finished", "exhausted"):
        _start_shared_cluster(workspace.folder(spec.name) / "ray.log")
        if session.resume(spec.name, workspace, session.RunOptions(spec=spec)).state == "stopped":
            raise KeyboardInterrupt
    elif recorded.digest != spec.digest:
        raise InvalidValue(
            "sweep", spec.name, "the packaged spec of this reproduction", "It is another one: give another --root."
        )
    return [*PublishedStore(store).trials(spec.name)]


# The data sets below `--data`: a part whose set is missing, or refused by its source, is said loudly and left out.

FOLDERS = {"adult": ("a9a", "adult"), "mnist": ("mnist", "MNIST/raw", "MNIST"), "idc": ("IDC_regular_ps50_idx5", "idc")}
"""Of a source, where they are not its name. torchvision's capitals are found, and not told."""


class Missing(Exception):
    """A part has nothing to compare, for want of a data set or of finished trials; the text says so in a few words."""


def section(options: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """The `data` section of a spec. Adult comes in its own columns where only those files are there."""
    made = {**options, "path": str(data.absolute())}
    return {**made, "form": "raw"} if _raw_adult(options, data) else made


@contextmanager
def needing(options: Mapping[str, Any], data: Path, result: Result, say: Say) -> Iterator[None]:
    """What is inside needs the set of `options`, a `data` section.

    Raises Missing, once it is said and cut, when its folder is not below `data` or its files are refused.
    """
    from sweeps.spec.problems import SpecErrors

    place = _place(options, data)
    if not any((data / name).is_dir() for name in _folders(options)):
        _tell(f"missing: {place}: its rows are not trained", result, say)
        raise Missing(f"missing: {place}")
    if _raw_adult(options, data):
        _tell(f"Adult: UCI's columns from adult/, since there is no a9a/ in {data}", result, say)
    try:
        yield
    except (InvalidValue, SpecErrors) as error:
        names = [one.path for one in error.errors] if isinstance(error, SpecErrors) else [error.name]
        # Anything else that is invalid is no matter of files.
        if any(name.split(".")[0] != "data" for name in names):
            raise
        refused = f"missing: {place} is refused: its rows are not trained. "
        told = error.unquoted if isinstance(error, QuotesRecords) else str(error)
        _tell(f"{refused}{error}", result, say, refused + told)
        raise Missing(f"missing: {place} is refused") from error


def _tell(line: str, result: Result, say: Say, logged: str | None = None) -> None:
    """Several parts share a set: it is said once.

    logged  for a log, where `line` might quote a record
    """
    if line not in result.cut:
        result.cut.append(line)
        say(line if logged is None else logged)


def _folders(options: Mapping[str, Any]) -> tuple[str, ...]:
    name = _source(options)
    return FOLDERS.get(name, (name,))


def _source(options: Mapping[str, Any]) -> str:
    """The source of the records, whatever is made of them."""
    return str(options.get("of", options["source"]))


def _place(options: Mapping[str, Any], data: Path) -> str:
    first, *others = _folders(options)
    told = [first, *(name for name in others if name.islower())]
    return f"{' or '.join(f'{name}/' for name in told)} in {data}"


def _raw_adult(options: Mapping[str, Any], data: Path) -> bool:
    return _source(options) == "adult" and not (data / "a9a").is_dir() and (data / "adult").is_dir()


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
            with needing(options, self.data, self.result, self.say):
                made(self.data)
        except Missing as missing:
            left(str(missing))

    def draw(self, folder: str | Path, name: str, panels: Sequence[Axes], **layout: Any) -> None:
        """A picture of the result, under the workspace."""
        if panels:
            self.result.plots.append(draw(Path(self.workspace.root) / folder / name, panels, **layout))
