"""The sections of a sweep spec: frozen, each with its types, ranges and units."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    WithJsonSchema,
)

from dpcore.events import Adjacency
from sweeps.spec.domains import SAME_AS, Domain, SameAs
from trainables.adaptation import places
from trainables.metrics import Scalarisation
from trainables.plugins import OBJECT
from trainables.system import PrivacyTarget, RunSettings, Scalar
from trainables.units import RECORD


def _no_truth_value(value: object) -> object:
    # Python counts True as 1; `epsilon: true` is a slip of the pen, not a budget.
    if isinstance(value, bool):
        raise ValueError("a number, not a truth value")
    return value


def _scalar_or_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _knob_in(value: object) -> object:
    """A knob of a canonical spec; whatever a person writes is read by `sweeps.spec.hyperparameters`."""
    if not isinstance(value, Mapping):
        return value
    return SameAs.from_dict(value) if SAME_AS in value else Domain.from_dict(value)


def _knob_out(value: Scalar | Domain | SameAs) -> object:
    return value.to_dict() if isinstance(value, Domain | SameAs) else value


NUMBER = BeforeValidator(_no_truth_value)
# Ranges stand before the validator, or they would be missing from the JSON schema.
Positive = Annotated[float, Field(allow_inf_nan=False, gt=0), NUMBER]
NotNegative = Annotated[float, Field(allow_inf_nan=False, ge=0), NUMBER]
LARGEST_BUDGET = 1e12
"""Far beyond what protects anybody; above it an accountant's numbers are no numbers any more."""
Budget = Annotated[float, Field(allow_inf_nan=False, gt=0, le=LARGEST_BUDGET), NUMBER]
Count = Annotated[int, Field(ge=0), NUMBER]
Delta = Annotated[float, Field(allow_inf_nan=False, ge=1e-300, lt=1), NUMBER]
"""Below it floating point keeps too few digits for an accountant to end."""
PositiveCount = Annotated[int, Field(ge=1), NUMBER]
Reason = Annotated[str, Field(min_length=10)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Knob = Annotated[Any, PlainValidator(_knob_in), PlainSerializer(_knob_out), WithJsonSchema({})]


class Section(BaseModel):
    """Common ground of all sections: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Data(BaseModel):
    """Which records: a source by name, or one's own as module:object, and that source's own options.

    records_are_public  why nobody's privacy is at stake (a published benchmark, say). Then metrics that read training
                        records outside of every claim may leave, and each claim is a demonstration on public records
    population          of which these records are: a name for what may not be exceeded by all sweeps over it together
                        (`sweeps budget`). Without it nothing is counted across sweeps
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    source: str
    records_are_public: Reason | None = None
    population: Name | None = None

    def options(self) -> dict[str, Any]:
        """The source's own options, and those of features."""
        return dict(self.model_extra or {})

    @property
    def feature_map(self) -> str:
        """The map that records are seen through (`trainables.features.declared`); "" without one."""
        return str((self.model_extra or {}).get("features") or "")

    @property
    def files(self) -> tuple[str, ...]:
        """Files that decide what models see of the records: a feature map's, and tokenizers."""
        columns = (self.model_extra or {}).get("columns")
        each = columns.values() if isinstance(columns, Mapping) else ()
        named = (one["tokenizer"] for one in each if isinstance(one, Mapping) and "tokenizer" in one)
        return tuple(filter(None, (self.feature_map, *map(str, named))))

    @property
    def loss(self) -> str:
        """What is minimised, where the source is told; else ""."""
        return str((self.model_extra or {}).get("loss") or "")


_BUDGETS: dict[str, Any] = {
    "anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}, "minItems": 1}]
}
Budgets = Annotated[tuple[Budget, ...], BeforeValidator(_scalar_or_list), Field(min_length=1), WithJsonSchema(_BUDGETS)]
OneBudget = Annotated[
    tuple[Budget, ...], BeforeValidator(_scalar_or_list), Field(min_length=1, max_length=1), WithJsonSchema(_BUDGETS)
]


class Privacy(Section):
    """What every privacy section has; `scope` and `release` say which one of those below it is.

    epsilon            target budgets, above 0, in nats; several make a knob `target_epsilon`
    delta              in (0, 1), and below 1/n unless `allow_large_delta` says why not
    unit               what neighbours differ in: `record`, or a word for what `data.unit` groups, such as `person`
    solve              what the calibration sets: the noise, the steps, or nothing
    noise_source       pseudorandom: noise and batches from statistical generators, seeded by a secret of each run that
                       nobody keeps; secure: noise from a cryptographic source that nobody can seed, batches from a
                       keystream of that secret. The default is the faster one, and claims name it
    """

    epsilon: Budgets
    delta: Delta
    allow_large_delta: Reason | None = None
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str = RECORD
    solve: Literal["noise", "steps", "none"] = "noise"
    noise_source: Literal["pseudorandom", "secure"] = "pseudorandom"
    scope: str
    release: str

    @property
    def raw_because(self) -> str | None:
        """Why metrics are released that read training records outside of every claim."""
        return getattr(self, "allow_raw_measures", None)

    @property
    def unprotected_because(self) -> str | None:
        """Why trials that claim nothing may run."""
        return getattr(self, "allow_unprotected", None)

    def target(self, epsilon: float) -> PrivacyTarget:
        """The target of one trial at one of the budgets."""
        return PrivacyTarget(
            epsilon=epsilon, delta=self.delta, adjacency=self.adjacency, unit=self.unit, solve=self.solve
        )


class TrialPrivacy(Privacy):
    """A budget bounds each trial, and all trials are released.

    allow_unprotected   why trials that claim nothing may run beside the budgets: baselines without noise, say. Their
                        epsilon is infinite, and is shown as that
    allow_raw_measures  why metrics that read training records outside of every claim may be released all the same:
                        then the release is not covered, and nothing in it is called proved
    """

    scope: Literal["trial"] = "trial"
    release: Literal["all"] = "all"
    allow_unprotected: Reason | None = None
    allow_raw_measures: Reason | None = None


class TotalPrivacy(Privacy):
    """One budget bounds all trials together, enforced while they run, and all of them are released.

    spread, shares  how the budget is spread over how many trials; `search.trials` unless given
    filter, order   what adds up: mu^2, or the Renyi divergence at this order
    """

    scope: Literal["sweep"]
    release: Literal["all"] = "all"
    epsilon: OneBudget
    spread: Literal["equal", "front-loaded", "halving"] = "equal"
    shares: PositiveCount | None = None
    filter: Literal["gdp", "renyi"] = "gdp"
    order: Annotated[float, Field(allow_inf_nan=False, gt=1, le=10_000), NUMBER] | None = None


class SealedPrivacy(Privacy):
    """One budget bounds a whole search, of which the best trial is released, or the best by each of several orders."""

    scope: Literal["sweep"]
    release: Literal["best", "front"]
    epsilon: OneBudget
    noise_source: Literal["pseudorandom"] = "pseudorandom"


class FirstPrivacy(SealedPrivacy):
    """The first trial that meets a public target is released, at the cheapest budget that has one."""

    release: Literal["first"]  # type: ignore[assignment]
    epsilon: Budgets


class FinalPrivacy(Privacy):
    """One final run with what `search.chosen_from` found on records that are declared public, or (holdout) on another
    part of the same records (`data.part`)."""

    scope: Literal["public", "holdout"]
    release: Literal["all"] = "all"
    epsilon: OneBudget


PRIVACY: dict[str, type[Privacy]] = {
    "trial": TrialPrivacy,
    "total": TotalPrivacy,
    "sealed": SealedPrivacy,
    "first": FirstPrivacy,
    "final": FinalPrivacy,
}
"""Every kind of a privacy section."""
SCOPES = ("trial", "sweep", "public", "holdout")
RELEASES = ("all", "best", "first", "front")


def privacy_kind(section: object) -> str:
    """The kind of a privacy section as it was written, or as it was read; of a broken one the nearest."""
    get = section.get if isinstance(section, Mapping) else lambda name: getattr(section, name, None)
    scope, release = get("scope"), get("release")
    if scope == "sweep":
        return {"best": "sealed", "front": "sealed", "first": "first"}.get(str(release), "total")
    return "final" if scope in ("public", "holdout") else "trial"


AnyPrivacy = Annotated[
    Annotated[TrialPrivacy, Tag("trial")]
    | Annotated[TotalPrivacy, Tag("total")]
    | Annotated[SealedPrivacy, Tag("sealed")]
    | Annotated[FirstPrivacy, Tag("first")]
    | Annotated[FinalPrivacy, Tag("final")],
    Discriminator(privacy_kind),
]


class ObjectiveOptions(Section):
    """One metric and its direction; without `goal` the metric's own, which `module:function` has none of."""

    metric: str
    goal: Literal["maximize", "minimize"] | None = None


class Chosen(Section):
    """What a final run was given, recorded when its sweep begins and never changed: nobody writes it.

    sweep    by the name that it has for good, which tuned
    trial    the best of it
    public_because  why the tuning records are public; empty where they are the other part of these
    records  the fingerprint of the tuning records, keyed by the store
    claim    what everything that left the sweep that tuned cost the other part (`Guarantee.to_dict`); none of public
             records
    """

    sweep: str
    trial: str
    public_because: str
    records: str
    claim: dict[str, Any] | None = None


class Search(Section):
    """How points are proposed. `trials` counts launched ones; infeasible proposals are listed apart.

    sampler     one of `sweeps.search.samplers.SAMPLERS`, one that an installed package offers, or module:function
    resolved    the method that `auto` comes to, which is recorded when a sweep begins (`sweeps.planning.estimate`)
    repeats     of a grid: trials of each point, alike but for their seeds and noise
    stratified  systems and budgets take turns, and a sampler that learns does so for each system by itself
    first       known good points, which are tried before what the sampler proposes and count among `trials`; no point
                of a grid and no turn is left out for them (`sweeps.search.space`)
    chosen_from  of a final run: the sweep of the same store whose best trial says its hyperparameters
    chosen      what that came to, which is recorded when a sweep begins (`sweeps.execution.final_run`)
    """

    sampler: Annotated[str, PlainValidator(lambda value: value), WithJsonSchema({"type": "string"})] = (
        "auto"  # read by sweeps.spec.rules, which knows the samplers
    )
    trials: Annotated[PositiveCount, Field(le=10_000_000)]
    seed: Annotated[int, Field(ge=0, lt=2**63), NUMBER] = 0
    warm_start: Name | None = None
    repeats: PositiveCount = 1
    stratified: bool = False
    resolved: Literal["gp", "tpe", "nsga2"] | None = None
    first: tuple[dict[str, Any], ...] = ()  # read by sweeps.spec.rules, which knows the space
    chosen_from: Name | None = None
    chosen: Chosen | None = None


class TargetOptions(Section):
    """What a trial has to reach to leave: public, and fixed before the search. Give one of the two bounds."""

    metric: str
    at_least: Annotated[float, Field(allow_inf_nan=False), NUMBER] | None = None
    at_most: Annotated[float, Field(allow_inf_nan=False), NUMBER] | None = None

    @property
    def bound(self) -> float:
        """The one that is given."""
        found = self.at_most if self.at_least is None else self.at_least
        assert found is not None
        return found

    def __str__(self) -> str:
        return f"{self.metric} at {'most' if self.at_least is None else 'least'} {self.bound:g}"


class Selection(Section):
    """The number of trials of a private selection, which is drawn in secret, and when the best of them leaves.

    count    the law of that number; `binomial` counts coins of chance one half, `tnb` has a `shape`
    mean     of the law without its cap, which is `search.trials`: conditioning on it is free
    shape    of `tnb`, above -1: 1 is geometric, 0 logarithmic
    deadline_minutes  from the start: the winner leaves then, never sooner, however many trials there were. What is not
             done by then does not count: nothing is released, at the same price
    megabytes  of the largest model: what is kept of the best so far is always as long
    chosen_by  how the space and its prior were chosen, where that was by looking at these records: no price covers it,
             and the claim says so
    target     of `release: first`, in place of the best
    orders     of `release: front`: sums of the objectives, {metric: weight above 0} each. Unless given, each objective
               by itself is one
    """

    count: Literal["geometric", "logarithmic", "binomial", "poisson", "tnb"] = "geometric"
    mean: Annotated[float, Field(allow_inf_nan=False, gt=0, le=5000), NUMBER] = 27.0
    shape: Annotated[float, Field(allow_inf_nan=False, gt=-1), NUMBER] | None = None
    deadline_minutes: Annotated[float, Field(allow_inf_nan=False, gt=0, le=1_000_000), NUMBER]
    megabytes: Annotated[float, Field(allow_inf_nan=False, gt=0, le=4096), NUMBER] = 8.0
    chosen_by: Reason | None = None
    target: TargetOptions | None = None
    orders: tuple[dict[str, Positive], ...] = ()


class EarlyStopping(Section):
    """Asynchronous successive halving (Li et al. 2020): a trial's steps cut into `rungs`, growing by `reduction`.

    With two objectives or more the best of a rung are those of its first fronts (Schmucker et al. 2021).

    rungs  unless given, 4; with fewer than reduction^3 trials as many as are filled when one trial reaches the last
    """

    method: Literal["asha"]
    reduction: Annotated[int, Field(ge=2), NUMBER] = 3
    rungs: Annotated[int, Field(ge=2, le=20), NUMBER] = 4

    def filled(self, trials: int) -> EarlyStopping:
        """With the rungs that so many trials fill, where no number of them was given."""
        if "rungs" in self.model_fields_set:
            return self
        most = next(rungs for rungs in (4, 3, 2) if self.reduction ** (rungs - 1) <= trials or rungs == 2)
        return self.model_copy(update={"rungs": most})


class Limits(Section):
    """Largest trial worth launching; what exceeds one is infeasible and teaches the sampler.

    work              in the system's unit of work (per-example gradient evaluations)
    noise_multiplier  of the solved noise
    hours             that the sweep runs, pauses left out. Then nothing is launched any more, what runs ends as by
                      Ctrl-C, and the sweep goes on only with more of them (`sweeps resume NAME --hours H`)
    trial_minutes     that a trial trains, all of its attempts together. One that takes longer is stopped at its next
                      checkpoint and has failed; its whole reservation is charged, and what it reported before claims
                      its whole plan. Trials that train together have theirs together; systems without steps, and
                      judging at the end, are not stopped
    stall_seconds     a launch that shows no sign of life for so long is ended, and counts as a lost worker: charged,
                      and launched again within execution.retries. Signs are its start, each interval that it begins
                      and each checkpoint. An interval takes about execution.checkpoint_seconds, but the first has up
                      to eight steps, systems without steps are one interval, and judging at the end gives no sign:
                      the limit has to be longer than each of these. null: it is named, and waited for
    """

    work: Positive | None = None
    noise_multiplier: Positive | None = None
    hours: Positive | None = None
    trial_minutes: Positive | None = None
    stall_seconds: Positive | None = None


class Resources(Section):
    """What one trial occupies, and how many may run at once (as many as fit when null).

    cpus, gpus   of a trial that is one process; gpus: 0.25 packs four trials on a GPU
    workers      processes that train one model together, data-parallel; what leaves the trial, and its claim, do not
                 depend on their number
    cpus_per_worker, gpus_per_worker  of each of them; 1 and 0 unless given. A worker computes on one GPU, or a part
    """

    cpus: Positive = 1.0
    gpus: NotNegative = 0.0
    concurrency: PositiveCount | None = None
    workers: Annotated[int, Field(ge=1, le=1024), NUMBER] = 1
    cpus_per_worker: Positive | None = None
    gpus_per_worker: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1), NUMBER] | None = None

    def per_worker(self) -> tuple[float, float]:
        """(CPUs, GPUs) of one process of a trial."""
        cpus = self.cpus if self.cpus_per_worker is None else self.cpus_per_worker
        gpus = self.gpus if self.gpus_per_worker is None else self.gpus_per_worker
        return cpus, gpus


class ExecutionOptions(Section):
    """Settings of speed and patience; see trainables.system.RunSettings."""

    microbatch: PositiveCount | None = None
    checkpoint_seconds: Positive = 10.0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Count = 1
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    retries: Count = 3


class Reference(Section):
    """A public value at which an axis of a front ends, for the volume under it, and where the value comes from.

    derived  from the rest of the spec, which is done anew each time that the spec is read
    """

    value: Annotated[float, Field(allow_inf_nan=False), NUMBER]
    source: str = "given"
    derived: bool = False


def _value_alone(value: object) -> object:
    return value if isinstance(value, Mapping | Reference) else {"value": value}


class FrontOptions(Section):
    """How fronts are measured.

    reference  {metric: value} at which the hypervolume ends; the others are filled in (`sweeps.spec.rules`)
    """

    reference: dict[str, Annotated[Reference, BeforeValidator(_value_alone)]] = {}


def _front_none_or_numbers(value: object) -> object:
    if value in (None, "front", "none"):
        return value
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    if not listed or not all(str(one).isdecimal() for one in listed):
        raise ValueError("front, none, or numbers of trials")
    return [int(str(one)) for one in listed]


class Tracking(Section):
    """Where MLflow is, and what it shows besides the runs.

    uri     null is `<root>/mlflow.db`
    models  whose models it shows once the sweep is over: those of the front (of a large one the best eight), none, or
            those of trials by number. Only models that may leave a sweep (`sweeps export`); null is the front
    """

    uri: str | None = None
    models: Annotated[
        Literal["front", "none"] | tuple[Count, ...] | None,
        BeforeValidator(_front_none_or_numbers),
        WithJsonSchema({}),
    ] = None


# The public orders by which trials of a sealed search are best.

MOST = 4
"""Orders of one search: each more makes every trial dearer."""


def direction(written: Mapping[str, Any]) -> frozenset[tuple[str, float]]:
    """An order whatever its scale: one that is another's multiple ranks all trials alike, and would cost once more.

    written  {metric: weight above 0}, of one metric at least
    """
    most = max(written.values())
    return frozenset((metric, weight / most) for metric, weight in written.items())


class Pretrained(Section):
    """Where weights are from that models start from, and why nobody's privacy is at stake: no epsilon counts them.

    name            of the model that they are of, with its version
    licence         under which they may be used
    public_because  on whose records they were fitted, and why none of these records is among them
    """

    name: Annotated[str, Field(min_length=1)]
    licence: Annotated[str, Field(min_length=1)]
    public_because: Reason

    def line(self, place: str) -> str:
        """What claims of a model that starts from `place` rest on."""
        return f"The weights in {place} are {self.name}, licence {self.licence}, declared public: {self.public_because}"


# The whole of a sweep spec: its sections, digest and meaning.


class SweepSpec(Section):
    """The whole spec. Build it with `load_spec`: only that checks sections against each other, systems and data.

    constraints  relations between knobs that have to hold (`sweeps.spec.domains`)
    pretrained   {folder or file of weights: where they are from}, for each that a model names (`hf:FOLDER`,
                 `timm:FOLDER`, `weights`)
    report       metrics that each trial reports besides (`sweeps systems` lists them, and `module:function` is one of
                 your own: `trainables.measures.quality`), and that steer nothing
    curve        points of each trial's learning curve: its metrics after this many equal shares of its planned steps,
                 the last of them its end. On private validation records each point is a report of its own within the
                 budget. Null: a trial reports at its end, and at the rungs of early stopping
    """

    name: Name
    data: Data
    systems: Annotated[dict[str, dict[str, Knob]], Field(min_length=1)]
    constraints: tuple[str, ...] = ()
    privacy: AnyPrivacy
    objectives: Annotated[tuple[ObjectiveOptions, ...], Field(min_length=1)]
    search: Search
    pretrained: dict[str, Pretrained] = {}
    report: tuple[str, ...] = ()
    curve: Annotated[int, Field(ge=2, le=1000), NUMBER] | None = None
    selection: Selection | None = None
    early_stopping: EarlyStopping | None = None
    limits: Limits = Limits()
    resources: Resources = Resources()
    execution: ExecutionOptions = ExecutionOptions()
    tracking: Tracking = Tracking()
    front: FrontOptions = FrontOptions()
    store: str | None = None

    def canonical(self) -> dict[str, Any]:
        """Plain JSON values, complete; `load_spec(spec.canonical()) == spec`."""
        canonical = self.model_dump(mode="json")
        for path in LEFT_OUT_WHERE_EMPTY:
            section, _, name = path.rpartition(".")
            place = canonical.get(section) if section else canonical
            if place and not place.get(name):
                place.pop(name, None)
        return canonical

    def meaning(self) -> dict[str, Any]:
        """The part that decides what is trained, claimed and proposed: all but name, store, tracking, resources,
        execution and the limit on stalls, which move work around or change its speed, and front, which measures what
        came of it."""
        canonical = self.canonical()
        del canonical["limits"]["stall_seconds"]
        return {key: value for key, value in canonical.items() if has_meaning(key)}

    @property
    def digest(self) -> str:
        """SHA-256 of the meaning, in hex: the same for every spelling of one sweep."""
        canonical = json.dumps(self.meaning(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def orders(self) -> tuple[Scalarisation, ...]:
        """By which trials are best, of which some leave: the first objective, or with `release: front` several."""
        signs = {one.metric: -1.0 if one.goal == "minimize" else 1.0 for one in self.objectives}
        each = [{metric: 1.0} for metric in signs]
        written = () if self.selection is None else self.selection.orders
        # In the order of the objectives: a mapping has none.
        return tuple(
            Scalarisation(tuple((metric, sign * one[metric]) for metric, sign in signs.items() if metric in one))
            for one in (written or each if self.privacy.release == "front" else each[:1])
        )

    @property
    def asked(self) -> tuple[str, ...]:
        """Metrics that a trial has to report: those of the objectives, and those besides."""
        return (*(one.metric for one in self.objectives), *self.report)

    def settings(self) -> RunSettings:
        """How each trial executes."""
        return RunSettings(noise_source=self.privacy.noise_source, **self.execution.model_dump(exclude={"retries"}))

    def texts(self) -> tuple[str, ...]:
        """Every text that a knob may take."""
        return texts_of(knob for knobs in self.systems.values() for knob in knobs.values())

    def weight_lines(self, used: Iterable[str]) -> tuple[str, ...]:
        """What claims rest on where models start from these of `weight_places`, one sentence each."""
        return tuple(self.pretrained[place].line(place) for place in used if place in self.pretrained)

    @property
    def weight_places(self) -> tuple[str, ...]:
        """Folders and files that models start from."""
        return weight_places(self.systems)

    def user_functions(self) -> tuple[str, ...]:
        """What text knobs and metrics name as `package.module:function`, and systems as `module:object`: workers import
        them."""
        return tuple(text for text in (*self.texts(), *self.systems, *self.asked) if FUNCTION.fullmatch(text))

    def user_modules(self) -> tuple[str, ...]:
        """Modules of these, and of a sampler, a data source, a feature map and a loss that are named so: the user's own
        code, part of what is trained."""
        named = (self.search.sampler, self.data.source, self.data.feature_map, self.data.loss)
        here = (one for one in named if FUNCTION.fullmatch(one))
        return tuple(sorted({function.split(":")[0] for function in (*self.user_functions(), *here)}))


def texts_of(knobs: Iterable[Scalar | Domain | SameAs]) -> tuple[str, ...]:
    """Every text that one of these may be."""
    own = [knob for knob in knobs if not isinstance(knob, SameAs)]
    values = {value for knob in own for value in (knob.values if isinstance(knob, Domain) else (knob,))}
    return tuple(sorted(value for value in values if isinstance(value, str)))


def weight_places(systems: Mapping[str, Mapping[str, Scalar | Domain | SameAs]]) -> tuple[str, ...]:
    """Folders and files that the models of these systems start from."""
    training = [knobs for knobs in systems.values() if "model" in knobs]
    return places(*(texts_of(one[name] for one in training if name in one) for name in ("model", "weights")))


LEFT_OUT_WHERE_EMPTY = (
    *("constraints", "pretrained", "report", "curve", "selection", "data.population", "limits.hours"),
    *("privacy.shares", "privacy.order", "search.first", "search.resolved", "search.chosen_from", "search.chosen"),
    *("selection.target", "selection.orders", "tracking.models", "limits.trial_minutes"),
)
"""Values that a canonical spec, and so its digest, has only where they are given."""
FIXED_SAMPLERS = ("random", "grid")
"""Those that look at no result: all budgets are fixed before the first trial runs."""


def learns(sampler: object) -> bool:
    """Whether results may have chosen what a sampler of a (recorded) spec proposed; so of any unknown one: a forgotten
    sampler can cost a sweep its total, never lend it one."""
    return sampler not in FIXED_SAMPLERS


FUNCTION = OBJECT
"""The user's own code in a spec: `package.module:function`."""
WITHOUT_MEANING = frozenset({"name", "tracking", "store", "resources", "execution", "front", "limits.stall_seconds"})


def has_meaning(path: str) -> bool:
    """Whether the value at this path of a spec decides what is trained, claimed or proposed."""
    return path not in WITHOUT_MEANING and path.split(".")[0] not in WITHOUT_MEANING


# What differs between two specs, and whether it decides what is trained, claimed or proposed.


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One value that differs between two specs; None where one of them lacks it.

    meaning  whether resuming under it would continue a different sweep
    """

    path: str
    old: object
    new: object
    meaning: bool

    def __str__(self) -> str:
        return f"{self.path}: {self.old!r} -> {self.new!r}"


def diff(old: SweepSpec, new: SweepSpec) -> list[SpecChange]:
    """What changed, path by path. No change with `meaning` is the same as equal digests."""
    before, after = dict(_leaves("", old.canonical())), dict(_leaves("", new.canonical()))
    return [
        SpecChange(path, before.get(path), after.get(path), has_meaning(path))
        for path in dict.fromkeys([*before, *after])
        if path not in before or path not in after or before[path] != after[path]
    ]


def _leaves(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, inner in value.items() for leaf in _leaves(f"{path}.{key}" if path else key, inner)]
    return [(path, value)]


# The budgets of a spec, and the references of a front that follow from them.

BEYOND = 1.1
"""Of the largest budget: a trial exactly at a reference would add no volume."""
TARGET_EPSILON = "target_epsilon"
BUDGET_AXES = ("epsilon", TARGET_EPSILON)


def beyond(budgets: Sequence[float]) -> Reference:
    """Where the axes of epsilon end."""
    largest = max(budgets)
    # Its words are part of a spec and its digest: sweeps of earlier versions have them so.
    source = f"a tenth beyond the largest budget, {largest:g}"
    return Reference(value=float(f"{BEYOND * largest:.12g}"), source=source, derived=True)


def with_budgets(spec: SweepSpec, budgets: Sequence[float]) -> SweepSpec:
    """The spec over other budgets."""
    given = spec.front.reference
    ends = {name: beyond(budgets) for name in BUDGET_AXES if name in given and given[name].derived}
    return spec.model_copy(
        update={
            "privacy": spec.privacy.model_copy(update={"epsilon": tuple(sorted(budgets))}),
            "front": FrontOptions(reference={**given, **ends}),
        }
    )
