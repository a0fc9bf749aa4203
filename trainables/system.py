"""The contract between a published system and the house that sweeps it.

A system says what it will release (`plan`, from public facts alone) before it touches a record (`fit`).
Public values travel in fields; private records and randomness are call arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.events import Adjacency, Event
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms import protocol
from dpcore.randomness import Streams
from trainables import plugins, reports
from trainables.metrics import TOKEN_LOSSES, WITHHELD, Config, Dependence, Metric, Scalar, Task
from trainables.reports import PrivateReports, PrivateValidation
from trainables.units import RECORD, Unit, Units

if TYPE_CHECKING:
    from torch import Tensor, nn

    from trainables.team import Team

    Loss = Callable[[Any, Any], Tensor]


# What a system declares that it can do besides planning and training alone on public validation records.
#
# What comes with a method of its own (canaries, membership scores, queries, neighbours, a rehearsal) is declared by
# the method: see `trainables.hooks` and `trainables.rehearsal`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """All false unless said, and the claim proved.

    units            it draws, bounds and counts whole units where `DatasetSpec.unit` names one; a system that does not
                     is refused on such data (`trainables.planning.check_unit`)
    workers          it trains by sums of clipped gradients, which several processes can form, at any precision
    private_reports  every metric of its that depends on validation records comes from
                     `trainables.validation.evaluate.report`, and it reads those records nowhere else: so they may be
                     private
    weights          it clips the gradient of each record, or unit, after its loss was multiplied by its weight: the
                     clip norm bounds what one can move, whatever the weights
    judged_as_released  the model of its `released_model` is the one that its own metrics are of, and depends on
                     training records through the plan's release alone: `trainables.measures.quality` may be asked of it
    standing         how firmly its headline claim stands: the status of every plan's, where `proved` includes what is
                     proved under assumptions that the claim names
    curve            after each number of steps in `TrialRun.curve` it reports what a launch ending there would, and it
                     trains no differently for that
    """

    units: bool = False
    workers: bool = False
    private_reports: bool = False
    weights: bool = False
    judged_as_released: bool = False
    standing: Status = Status.PROVED
    curve: bool = False


def traits_of(system: object) -> Traits:
    """What `system` declares as `traits`. Silence means nothing: outside packages may know none of it."""
    declared = getattr(system, "traits", None)
    return declared if isinstance(declared, Traits) else Traits()


# Weights of records in what is minimised, and groups that a model is judged by: declared, never computed from
# records.
#
# The loss of a record is multiplied by its weight, and the gradient of that product is clipped. So whatever a weight
# is, one record (one unit, whose gradients are added up before the clip) moves a clipped sum by the clip norm at
# most: events and claims are those without weights. That argument is about a clip which comes after the weight. A
# proof that bounds the loss itself, its slope or its curvature has other constants under weights, and a distance that
# is measured between gradients is another one: systems with such a proof take no weights here
# (`trainables.planning.check_weights`).
#
# A weight that followed from records, such as one over the share of a class, would move with every one of them.


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weight of a record: that of its class times the value of its column.

    classes  one number for each class, at least 0 and one above 0; () weighs all classes alike
    column   name of the column with the weight of each record; "" where there is none
    high     largest value of that column: values are cut to 0..high

    Raises InvalidValue.
    """

    classes: tuple[float, ...] = ()
    column: str = ""
    high: float = 1.0

    def __post_init__(self) -> None:
        checks.positive_finite(high=self.high)
        if self.classes:
            for one in self.classes:
                checks.non_negative_finite(class_weights=one)
            checks.positive_finite(largest_class_weight=max(self.classes))

    @property
    def largest(self) -> float:
        """That any record can have."""
        return max(self.classes, default=1.0) * (self.high if self.column else 1.0)

    def __str__(self) -> str:
        classes = f"its class's of {', '.join(f'{one:g}' for one in self.classes)}" if self.classes else ""
        column = f"its {self.column} in 0..{self.high:g}" if self.column else ""
        return " times ".join(filter(None, (classes, column)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of records that a model's accuracy is told of.

    column      whose value is a record's group
    categories  all of them, as texts
    """

    column: str
    categories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameter:
    """One hyperparameter of a system: what may be searched or fixed, and in which range it means something.

    low, high  inclusive bounds of validity for "float" and "int" (not a recommended search range)
    choices    the values of a "choice"; empty means any text
    default    the value used when a spec leaves it out; None means that a spec must give it, unless it
               is what the calibration solves for
    inner      its key where a spec has it in one mapping with others: the `peak` of
               `learning_rate: {peak: 1, warmup: 0.1}`, which is `learning_rate: 1` and `learning_rate.warmup: 0.1`
    word       what may stand in a number's place: the `automatic` of `clip_norm`. A record reads it as 0
    listed     whether a list of texts is one value too: these with commas between
    """

    name: str
    kind: Literal["float", "int", "choice"]
    doc: str
    unit: str = "1"
    low: float | None = None
    high: float | None = None
    choices: tuple[Scalar, ...] = ()
    default: Scalar | None = None
    inner: str = ""
    word: str = ""
    listed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input array, without its leading record axis.

    shape        of one record, e.g. (28, 28) or () for one number
    low, high    public bounds of a real-valued feature, after scaling
    cardinality  number of categories when the values are category codes 0..cardinality-1, else None
    padding      the code that fills a sequence up and is no part of it
    mask_of      the input whose places this one tells apart: 1 of its own, 0 of padding. It follows from that input
    """

    shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0
    cardinality: int | None = None
    padding: int | None = None
    mask_of: str = ""


MASK = "_mask"
"""Behind the name of an input: that of its mask."""


def with_mask_specs(features: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    """These inputs, and a mask behind each that has padding."""
    found: dict[str, InputSpec] = {}
    for name, feature in features.items():
        found[name] = feature
        if feature.padding is not None:
            found[name + MASK] = InputSpec(shape=feature.shape, cardinality=2, mask_of=name)
    return found


def with_masks(
    features: Mapping[str, InputSpec], inputs: Mapping[str, NDArray[np.generic]]
) -> dict[str, NDArray[np.generic]]:
    """Every input [n, *shape] in the order of `features`: of a mask what follows from its input, whatever is given."""
    return {
        name: (inputs[one.mask_of] != features[one.mask_of].padding).astype(np.int64) if one.mask_of else inputs[name]
        for name, one in features.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    """What may be known about a data set without reading a record: declared, never measured.

    n             number of training records, of training units where `unit` is given (a public constant under both
                  adjacencies)
    n_validation  number of validation records; where `unit` is given of validation units, each of one record or more
    unit          what neighbours differ in where that is more than a record
    classes       number of classes of a classification, of codes where tokens are predicted, else None
    target_shape  of one record's target: (length,) where tokens are predicted, else ()
    loss          what is minimised: of tokens one of `TOKEN_LOSSES`; module:function of the user's own; "": the task's
    target_low, target_high  public bounds of a regression target or of the values to average
    assumptions   what a claim about these data rests on besides, one sentence each
    private_validation  how the validation records enter a claim; None where they are declared public
    asserted_by   the module on whose word these facts stand, where their source is the user's own
    weights       of records in the loss; None where all count alike. Few systems take any
    groups        that a model's accuracy is told of; None where no record has one
    treatment     what is done with values that are not as declared, one sentence each: a rule, not what was found
    """

    dataset: str
    task: Task
    n: int
    n_validation: int
    features: Mapping[str, InputSpec]
    classes: int | None = None
    target_low: float = 0.0
    target_high: float = 1.0
    assumptions: tuple[str, ...] = ()
    unit: Unit | None = None
    private_validation: PrivateValidation | None = None
    treatment: tuple[str, ...] = ()
    asserted_by: str = ""
    weights: Weights | None = None
    groups: Groups | None = None
    target_shape: tuple[int, ...] = ()
    loss: str = ""

    def __post_init__(self) -> None:
        checks.count(minimum=1, n=self.n)
        checks.count(n_validation=self.n_validation)
        if self.weights is not None and self.weights.classes and len(self.weights.classes) != self.classes:
            raise checks.InvalidValue("class_weights", self.weights.classes, f"one for each of {self.classes} classes")

    @property
    def own_loss(self) -> bool:
        """Whether what is minimised is a function of the user's own."""
        return self.loss not in ("", *TOKEN_LOSSES)

    @property
    def unit_records(self) -> int:
        """Records that one neighbour may differ in: what a count of records is multiplied by to bound its change."""
        return 1 if self.unit is None else self.unit.max_records

    @property
    def counted(self) -> str:
        """What n is the number of."""
        return "records" if self.unit is None else f"values of {self.unit.column}"


IGNORED = -100
"""Among targets: a token that no loss and no metric counts (padding, a prompt, what is not masked)."""


@dataclass(frozen=True, slots=True)
class Split:
    """Records: `inputs[name]` has shape (n, *feature.shape), `targets` (n, *target_shape).

    Where tokens are predicted targets are codes, and `IGNORED` where no loss counts.

    weights  float32 (n,), the values of the column of `DatasetSpec.weights`
    groups   int64 (n,), positions in the categories of `DatasetSpec.groups`
    ids      (n,), whole numbers or texts: what decides the part of a record (`data.part`), each its own whoever else is
             there. Of a source that is asked for a part, until it is taken; no trial sees them
    """

    inputs: Mapping[str, NDArray[np.generic]]
    targets: NDArray[np.generic]
    weights: NDArray[np.float32] | None = None
    groups: NDArray[np.int64] | None = None
    ids: NDArray[np.generic] | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def each(self, made: Callable[[Any], Any]) -> Split:
        """What is `made` of every array: of inputs in their order, targets, weights, groups and ids."""
        inputs = {name: made(array) for name, array in self.inputs.items()}
        others = (self.targets, self.weights, self.groups, self.ids)
        return Split(inputs, *(None if one is None else made(one) for one in others))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set, in memory or mapped from files. `fingerprint` is a plain digest of its content: it stays beside the
    records.

    units  which training records belong together, where the facts name a unit; its records are then those of `train`
           in order

    Raises InvalidValue when facts, records and units disagree.
    """

    facts: DatasetSpec
    train: Split
    validation: Split
    fingerprint: str
    units: Units | None = None

    def __post_init__(self) -> None:
        found = None if self.units is None else self.units.records
        expected = None if self.facts.unit is None else len(self.train)
        if found != expected:
            raise checks.InvalidValue("units", found, f"units of {expected} training records, as the facts say")

    def each(self, made: Callable[[Any], Any]) -> Dataset:
        """With what is `made` of every array of the records."""
        return replace(self, train=self.train.each(made), validation=self.validation.each(made))

    @property
    def present(self) -> int:
        """Units that are there, or records where no unit is named: private under add-remove, unlike `facts.n`."""
        return len(self.train) if self.units is None else len(self.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyTarget:
    """The fixed budget that a plan has to meet, and what may be solved to meet it.

    unit   the word for what neighbours differ in: "record", or that of `DatasetSpec.unit`
    solve  "noise": the system's noise parameter is solved; "steps": the noise is given and the number
           of steps is solved; "none": everything is given, and a plan that exceeds epsilon is refused
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str = RECORD
    solve: Literal["noise", "steps", "none"] = "noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyPlan:
    """What one trial will release, decided from configuration and public facts alone.

    config     complete: defaults and solved values included
    solved     names in `config` that the calibration chose
    mechanism  what is released, as the value that `fit` runs; a step is the unit of the ledger
    description  the same in one sentence for people
    validation  what the reports on private validation records release besides; None where those are public
    guarantee  what the whole path of `steps` claims, its reports included
    beside     the same release under other notions and accountants, each under its own name
    work       cost estimate in per-example gradient evaluations (or the system's own unit of work)
    group      plans with the same value can train together as one group; "" trains alone
    """

    system: str
    config: Config
    solved: tuple[str, ...]
    mechanism: protocol.Mechanism
    description: str
    guarantee: Guarantee
    beside: tuple[Guarantee, ...] = ()
    work: float
    group: str = ""
    validation: PrivateReports | None = None

    @property
    def steps(self) -> int:
        return self.mechanism.steps

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """What steps from_step..to_step-1 release of the training records (all steps by default)."""
        return self.mechanism.event(from_step, to_step)

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {
            "system": self.system,
            "config": dict(self.config),
            "solved": list(self.solved),
            "description": self.description,
            "mechanism": protocol.to_dict(self.mechanism),
            "guarantee": self.guarantee.to_dict(),
            "beside": [guarantee.to_dict() for guarantee in self.beside],
            "work": self.work,
            "group": self.group,
            "validation": reports.WRITTEN.dump_python(self.validation, mode="json"),
        }

    def to_json(self) -> str:
        """`to_dict` as compact text."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> PrivacyPlan:
        """The inverse of `to_dict`."""
        fields: dict[str, Any] = dict(data)
        fields["mechanism"] = plugins.mechanism_of(fields["system"], fields["mechanism"])
        fields["solved"] = tuple(fields["solved"])
        fields["guarantee"] = Guarantee.from_dict(fields["guarantee"])
        fields["beside"] = tuple(Guarantee.from_dict(one) for one in fields["beside"])
        fields["validation"] = reports.WRITTEN.validate_python(fields.get("validation"))
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a configuration is not launched.

    violations  {constraint: amount}, each amount above 0, larger is worse (Optuna learns from it);
                e.g. {"noise": log(needed / largest allowed)}
    reason      one sentence with the values and the way out
    """

    violations: Mapping[str, float]
    reason: str

    def __post_init__(self) -> None:
        if not self.violations or min(self.violations.values()) <= 0:
            raise checks.InvalidValue("violations", dict(self.violations), "at least one amount, each above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRun:
    """One planned trial inside a launch: run `plan` from `from_step` (or its checkpoint) up to `to_step`.

    key      <sweep>-<number>, the same in store, Ray, MLflow and folder name
    attempt  1 for the first launch; noise and batches of different attempts are independent
    seed     public: initial weights and the like; never noise, never batches
    resume_attempt  the attempt whose checkpoint at `from_step` this one starts from; 0 starts from scratch
    curve    numbers of steps between `from_step` and `to_step`, both left out, after which it reports too
    """

    key: str
    attempt: int
    seed: int
    plan: PrivacyPlan
    from_step: int
    to_step: int
    resume_attempt: int = 0
    curve: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings that change speed or the source of randomness, never what is claimed to be released.

    microbatch           largest number of examples in one backward pass; None: the whole batch
    noise_source         "pseudorandom" (seeded from a secret of the session) or "secure": `trainables.training.noise`
    checkpoint_seconds   aim for one durable checkpoint per this long
    device               "auto" (a GPU when the trial was given one), "cpu" or "cuda"
    threads              torch threads per process; 0 leaves the library's choice
    precision            of forward and backward; parameters, norms, clipping and noise are float32 in any case
    team                 other processes that form the clipped sums; None: this one alone
    """

    microbatch: int | None = None
    noise_source: Literal["pseudorandom", "secure"] = "pseudorandom"
    checkpoint_seconds: float = 10.0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = 1
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    team: Team | None = None


State = Mapping[str, NDArray[np.generic]]


class Run(Protocol):
    """One member as its system sees it while training: where it starts, its randomness, its durable records.

    A system calls `reserve_until(b)` before it draws noise for any step below b, and `checkpoint(b, ...)` when
    step b is reached. The checkpoint at `member.to_step` ends the run. Metrics are visible outside only after
    the checkpoint that covers them is durable. A system that trains in steps calls `report(b, ...)` after each number
    of steps in `member.curve`, before the checkpoint that covers it.
    """

    member: TrialRun
    start_step: int
    """First step to execute: `member.from_step`."""
    state: State | None
    """Arrays of that checkpoint; None when starting from scratch."""
    streams: Streams
    """This attempt's random streams: noise and sampling from a secret of the session, the rest from the public seed."""

    def reserve_until(self, until_step: int) -> None:
        """Durably note that steps below `until_step` may be executed from now on."""

    def report(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """A point of the trial's curve: `metrics` of `state` after `step` steps, visible with the next checkpoint."""
        return

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """Durably keep `state` after `step` steps; then make `metrics` visible."""

    watched: ClassVar[bool] = False
    """Whether it looks at gradients, as a twin may that is never released (`trainables.hooks`)."""

    def attach(self, model: nn.Module, loss: Loss) -> tuple[nn.Module, Loss]:
        """The model and loss to train instead, with canaries where it is watched. Called before training."""
        return model, loss

    def saw(self, step: int, gradient: Mapping[str, Tensor]) -> None:
        """Look at the noisy mean gradient of step number `step`, before it is used."""
        return

    def released(self, **arrays: NDArray[np.generic]) -> None:
        """Look at what leaves the system, where that is not its final state.

        Of answers: the `labels` [Q] to the validation records `asked` [Q], and whatever leaves besides. Arrays that are
        given later are to be appended.
        """
        return


class System(Protocol):
    """One published system. Stateless: everything about a run is in the arguments."""

    @property
    def name(self) -> str:
        """The word that specs and records use."""

    @property
    def source(self) -> str:
        """Author and year of the publication."""

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """Every hyperparameter."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Every number that a finished trial reports."""

    @property
    def traits(self) -> Traits:
        """What else it can do."""

    @property
    def solves(self) -> Mapping[str, str]:
        """{"noise": parameter, "steps": parameter}: what each `PrivacyTarget.solve` sets.

        A missing key is unsupported. A system without any has nothing to solve, and runs under every `solve`.
        """

    def plan(
        self, config: Config, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """Plan one trial. `calibrations` caches solved values across calls and processes.

        Raises InvalidValue for a configuration that makes no sense (a spec error, not an infeasible point).
        """

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """Execute every run up to its `member.to_step`, through its checkpoints."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The unit that Ray launches: members that share system, data and `plan.group`.

    measures  names of `trainables.publishing` that the spec of the sweep asks for
    withheld  numbers that depend on these do not leave the worker
    seconds   after which it is stopped at its next checkpoint; None: never
    """

    members: tuple[TrialRun, ...]
    execution: RunSettings = field(default_factory=RunSettings)
    measures: tuple[str, ...] = ()
    withheld: frozenset[Dependence] = WITHHELD
    seconds: float | None = None
