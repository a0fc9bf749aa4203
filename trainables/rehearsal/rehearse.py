"""A trial in small on made-up records: a few steps by its system's own `fit`. Nothing is written.

Steps on Poisson batches are rehearsed as they are planned, over as many made-up records as give a few in each batch.
Any other system looks at all records at once, in a way that only it knows: it is planned anew for a small number of
them, and runs a few of its steps. A system for which this is wrong has a method `rehearsal`, which changes
the setting that it is given, and reads no record.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from dpcore.events import PoissonSampled, blocks
from dpcore.gradients import PrivateGradients, isolated
from dpcore.gradients.refusals import refuse
from dpcore.randomness import Streams
from trainables import memory
from trainables.hooks import CanaryTrained, Twin
from trainables.hyperparameters import read
from trainables.metrics import scores_of
from trainables.models.registry import outputs
from trainables.publishing import OWN_METRICS, measure, published, wanted
from trainables.rehearsal.findings import CannotRun, MemoryLimits, Rehearsed, Setting, Step
from trainables.system import DatasetSpec, PrivacyPlan, Refusal, RunSettings, State, System, Task, TrialRun
from trainables.team import device_named
from trainables.training.hyperparameters import BatchHyperparameters
from trainables.training.losses import LossFunction, loss_function
from trainables.training.made_up import SEED, made_up, made_up_records

# How much of a trial is run, and on how many records.

EACH_BATCH = 8
"""Expected records of a batch in the steps that are rehearsed."""
SAMPLED_STEPS, WHOLE_STEPS = 2, 20
SMALLEST, GROWTH = 64, 4
VALIDATION = 64

Replanned = Callable[[DatasetSpec], PrivacyPlan | Refusal]


def setting_of(system: System, plan: PrivacyPlan, facts: DatasetSpec, replanned: Replanned) -> Setting:
    """The small trial that stands for `plan`; `replanned` plans the same configuration from other facts.

    Raises InvalidValue where the configuration cannot be planned again.
    """
    records, validation, size = facts.n, facts.n_validation, SMALLEST
    if rates := sampling_rates(plan):
        records, validation = min(records, math.ceil(EACH_BATCH / min(rates))), min(validation, VALIDATION)
        steps = min(plan.steps, SAMPLED_STEPS)
        if plan.validation is not None:
            # Nothing is released, so a report may come after any step.
            plan = replace(plan, validation=replace(plan.validation, at=(steps,)))
    else:
        while size < facts.n:
            few = replace(facts, n=size, n_validation=min(facts.n_validation, size))
            # Too few for this configuration where it is refused: batches, parts or questions are more.
            with suppress(InvalidValue):
                small = replanned(few)
                if isinstance(small, PrivacyPlan):
                    plan, facts, records, validation = small, few, few.n, few.n_validation
                    break
            size *= GROWTH
        steps = min(plan.steps, WHOLE_STEPS)
    found = Setting(plan=plan, facts=facts, records=records, validation=validation, steps=steps)
    change: Callable[[Setting], Setting] = getattr(system, "rehearsal", lambda setting: setting)
    return change(found)


def sampling_rates(plan: PrivacyPlan) -> tuple[float, ...]:
    """The rate of each block of steps on Poisson batches; () where some step looks at other batches."""
    steps = [event for event, _ in blocks(plan.event())]
    rates = tuple(event.rate for event in steps if isinstance(event, PoissonSampled))
    return rates if len(rates) == len(steps) else ()


# The run itself.

_SECRET = b"of rehearsals, where there is nothing to keep"
_TOO_LONG = frozenset({"audited_epsilon"})
"""Measures that train again, hundreds of times at worst: what they need is checked with the plan."""


@dataclass(slots=True, kw_only=True)
class RehearsedRun(Twin):
    """A twin that looks at the model before it is trained, and keeps what it would report."""

    watched = True
    examine: Callable[[nn.Module, LossFunction], Step]
    step: Step | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def attach(self, model: nn.Module, loss: LossFunction) -> tuple[nn.Module, LossFunction]:
        """See `Run.attach`."""
        self.step = self.examine(model, loss)
        return model, loss

    def saw(self, step: int, gradient: Mapping[str, Tensor]) -> None:
        """Raises CannotRun for a sum that noise could not be told from: it is not finite."""
        broken = [name for name, one in gradient.items() if not math.isfinite(float(one.sum()))]
        if broken:
            raise CannotRun(f"the noised gradient of {', '.join(broken)} is infinite or no number at step {step}")

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """See `Twin.checkpoint`."""
        Twin.checkpoint(self, step, state, metrics)
        self.metrics = metrics


def rehearse(
    system: System,
    plan: PrivacyPlan,
    facts: DatasetSpec,
    *,
    objectives: Sequence[str],
    replanned: Replanned,
    execution: RunSettings,
    saying: Callable[[str], None] = lambda text: None,
    at_once: int = 1,
) -> Rehearsed:
    """Run `plan` in small, and see that it reports what `objectives` ask.

    replanned  plans the same configuration from other facts
    saying     told what comes next
    at_once    trials that share the memory of this machine

    Raises CannotRun with what would end the trial, or leave it without a rank.
    """

    def examine(model: nn.Module, loss: LossFunction) -> Step:
        clip_norm = system.canary_scale(plan, facts)[0] if isinstance(system, CanaryTrained) else None
        if rates := sampling_rates(plan):
            batch = max(1, round(max(rates) * facts.n))
        else:
            batch = read(BatchHyperparameters, {"batch_size": facts.n, **plan.config}).batch_size
        return examined(model, loss, facts, batch, clip_norm, execution, saying, at_once)

    doing = "planned again for few records"
    try:
        setting = setting_of(system, plan, facts, replanned)
        data = made_up(setting.facts, setting.records, setting.validation)
        doing = f"{setting.steps} steps on {setting.records} made-up records"
        member = TrialRun(key="rehearsal", attempt=1, seed=SEED, plan=setting.plan, from_step=0, to_step=setting.steps)
        streams = Streams(secret=_SECRET, seed=SEED, key=member.key, attempt=1)
        run = RehearsedRun(member, streams, examine=examine)
        began = time.perf_counter()
        saying(doing)
        with warnings.catch_warnings():
            # The findings say it once, by name.
            warnings.filterwarnings("ignore", message="no record's loss depends on")
            system.fit([run], data, execution)
        if run.final is None:
            raise CannotRun(f"fit came back before step {setting.steps}, without its last checkpoint")
        asked = [one for one in wanted(objectives, system) if one not in _TOO_LONG]
        metrics = {**measure(asked, system, run.member, run.final, data, execution), **run.metrics}
        seconds = time.perf_counter() - began
        published(metrics, system, setting.plan.config, (), asked)
    except Exception as error:
        raise CannotRun.by(error, doing) from error
    silent = [one for one in objectives if one not in OWN_METRICS and one not in _TOO_LONG and one not in metrics]
    if silent:
        told = ", ".join(sorted({*scores_of(metrics), *OWN_METRICS}))
        raise CannotRun(
            f"no trial would report the objective {', '.join(silent)} on these data, so none could be ranked. "
            f"It reports {told}."
        )
    broken = [one for one in objectives if one in metrics and np.isnan(metrics[one])]
    if broken:
        raise CannotRun(f"the objective {', '.join(broken)} is no number on made-up records")
    step, copies = run.step, int(plan.config.get("augmentation.multiplicity", 1))
    return Rehearsed(
        system=system.name,
        config=dict(plan.config),
        records=setting.records,
        steps=setting.steps,
        seconds=seconds,
        reported=tuple(sorted(scores_of(metrics))),
        step=step,
        trial_seconds=None if step is None else copies * plan.steps * step.seconds * step.planned / step.records,
    )


# One gradient step at the first weights, on made-up records, looked at closely before anything is trained.

FEW = 8
"""Records, or units, of the first look."""
STEP_SECONDS = 4.0
"""What a step over a whole batch may take, by the time of the first look; else fewer records pass."""

TOLD_MB = 16.0
"""By how much more a few records have to take than one alone, to tell what a whole batch takes."""

MOST_AGAIN, AGAIN_SECONDS = 5, 0.2
"""How often a quick step is timed again, which other work on the machine may have made long, and for how long."""


def examined(
    model: nn.Module,
    loss: LossFunction,
    facts: DatasetSpec,
    planned: int,
    clip_norm: float | None,
    execution: RunSettings,
    saying: Callable[[str], None],
    at_once: int = 1,
) -> Step:
    """What a step of `model` is like. Changes nothing of it. Raises CannotRun, Refused.

    planned    expected records, or units, of a batch
    clip_norm  None where no gradient is clipped, and each record's own is not needed
    saying     told what comes next, so that somebody knows where it was if it never comes back
    at_once    trials that share the memory of this machine
    """
    device = device_named(execution.device)
    cuda = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), warnings.catch_warnings():
        # What the engine warns of, the findings say.
        warnings.simplefilter("ignore")
        few = _Batch.of(facts, min(FEW, planned), device)
        engine, weights = None, {name: one for name, one in model.named_parameters() if one.requires_grad}
        wrong: Exception | None = None
        if clip_norm is not None:
            refuse(model)
            saying(f"the private gradients of {len(few.targets)} made-up records")
            # First, as training has it: a model may keep something of its first pass.
            engine = PrivateGradients(model, loss, unit_records=facts.unit_records, precision=execution.precision)
            try:
                engine.check(*few.records())
            except Exception as error:
                wrong = error
        saying("one made-up record through the model")
        _one_record(model, loss, facts, few)
        saying(f"{len(few.targets)} made-up records forward and backward")
        value, unreached = _finite_loss(model, loss, few, weights, isolate=clip_norm is not None)
        if wrong is not None:
            raise wrong
        if engine is not None and len(engine.unreached) == len(weights):
            raise CannotRun(
                f"no record's loss depends on any weight that is trained ({', '.join(list(weights)[:3])}): noise alone "
                "would be added. Look for detach(), no_grad(), or an output that is made without them."
            )
        units = execution.microbatch and max(1, execution.microbatch // facts.unit_records)

        def seconds(batch: _Batch, size: int | None) -> float:
            """Of a step over a batch: clipped gradients as the training forms them, or the gradient of the mean."""
            _wait(device)
            began = time.perf_counter()
            if engine is not None and clip_norm is not None:
                engine.clipped_sum(
                    batch.inputs, batch.targets, clip_norm=clip_norm, taken=batch.taken, microbatch_size=size
                )
            else:
                inputs, targets = batch.records()
                torch.autograd.grad(loss(model(*inputs), targets).mean(), list(weights.values()), allow_unused=True)
            _wait(device)
            return time.perf_counter() - began

        def grown(batch: _Batch, size: int | None) -> tuple[float, float]:
            """Seconds of a step, and by how many MiB the peak memory grew for it."""
            before = _peak_mb(device, forget=True)
            took = seconds(batch, size)
            return took, _peak_mb(device) - before

        seconds(few, units)
        took, memory_mb = grown(few, units)
        limits = None
        if engine is not None:
            passing, free = min(planned, units or planned), free_mb(device)
            limits = fitting(memory_mb, len(few.targets), passing, free, lambda: grown(few, 1)[1], at_once)
            if limits is not None and limits.microbatch is not None:
                units = limits.microbatch
                limits = replace(limits, microbatch=units * facts.unit_records)
        each = took / len(few.targets)
        count = min(planned, max(len(few.targets), int(STEP_SECONDS / max(each, 1e-9))))
        saying(f"a step over {count} made-up records")
        whole = few if count == len(few.targets) else _Batch.of(facts, count, device)
        took, memory_mb = grown(whole, units)
        again = min(MOST_AGAIN, int(AGAIN_SECONDS / max(took, 1e-9)))
        return Step(
            records=count,
            planned=planned,
            seconds=min([took, *(seconds(whole, units) for _ in range(again))]),
            memory_mb=memory_mb if memory_mb > 0 else None,
            device=device.type,
            loss=value,
            parameters=sum(one.numel() for one in weights.values()),
            routes={} if engine is None else {name: str(route) for name, route in engine.routes.items()},
            looped=() if engine is None else engine.looped,
            unreached=unreached if engine is None else engine.unreached,
            unit_records=facts.unit_records,
            limits=limits,
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    """Tensors [U, ...], or [U, k, ...] with the places `taken` [U, k] where a unit has several records."""

    inputs: tuple[Tensor, ...]
    targets: Tensor
    taken: Tensor | None

    @classmethod
    def of(cls, facts: DatasetSpec, count: int, device: torch.device) -> _Batch:
        most = facts.unit_records
        inputs, targets = made_up_records(facts, count * most, device)
        if most == 1:
            return cls(inputs, targets, None)
        # Units have 1, 2, ... up to their largest number of records, in turn.
        taken = torch.arange(most) <= torch.arange(count)[:, None] % most
        units = (count, most)
        return cls(tuple(one.unflatten(0, units) for one in inputs), targets.unflatten(0, units), taken.to(device))

    def records(self) -> tuple[tuple[Tensor, ...], Tensor]:
        """Inputs and targets [N, ...] of the records that are there."""
        if self.taken is None:
            return self.inputs, self.targets
        return tuple(one[self.taken] for one in self.inputs), self.targets[self.taken]


def _one_record(model: nn.Module, loss: LossFunction, facts: DatasetSpec, few: _Batch) -> None:
    """Shapes that do not fit show best where nothing is mapped yet. Raises CannotRun."""
    inputs = tuple(one[:1] for one in few.records()[0])
    given = ", ".join(f"{name} {tuple(one.shape)}" for name, one in zip(facts.features, inputs, strict=True))
    try:
        with torch.no_grad():
            found = model(*inputs)
    except Exception as error:
        if "escaped from inside a function being vmapped" in str(error):
            raise CannotRun(
                "the model keeps a tensor of its first forward for the next, where it is another record's. Make it in "
                "__init__, or in each forward anew."
            ) from error
        raise CannotRun.by(error, f"the model fails on one record as the data are declared, {given}") from error
    if loss is not loss_function(facts):
        return
    expected = (1, *facts.target_shape, columns := outputs(facts))
    shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if shape != expected:
        each = "codes at each place" if facts.task is Task.TOKENS else "classes"
        why = "one number to predict" if facts.task is Task.REGRESSION else f"one column for each of {columns} {each}"
        raise CannotRun(
            f"the model returns {shape} for one record, {given}: expected {expected}, {why}. Build its last layer "
            "from the facts that its builder is called with."
        )


def _finite_loss(
    model: nn.Module, loss: LossFunction, few: _Batch, weights: Mapping[str, Tensor], *, isolate: bool
) -> tuple[float, tuple[str, ...]]:
    """The mean loss, and the `weights` that it does not depend on. Raises CannotRun where it, or its gradient, is not
    finite; Refused."""
    inputs, targets = few.records()
    losses = loss((isolated(model) if isolate else model)(*inputs), targets)
    bad = int((~torch.isfinite(losses)).sum())
    if bad:
        raise CannotRun(
            f"the loss of {bad} of {len(targets)} made-up records is infinite or no number at the first weights. "
            "Look for a logarithm or a root of 0, a division by 0, or weights without a value."
        )
    if not losses.requires_grad:
        return float(losses.mean()), tuple(weights)
    every = torch.autograd.grad(losses.sum(), list(weights.values()), allow_unused=True)
    found = dict(zip(weights, every, strict=True))
    broken = [name for name, one in found.items() if one is not None and not one.isfinite().all()]
    if broken:
        raise CannotRun(
            f"the gradient of {', '.join(broken)} is infinite or no number at the first weights, though the loss "
            "is finite: such a record would count as zero. Look for a root or a norm at 0."
        )
    return float(losses.mean()), tuple(name for name, one in found.items() if one is None)


def fitting(
    few_mb: float, few: int, planned: int, free_mb: float, of_one: Callable[[], float], at_once: int
) -> MemoryLimits | None:
    """What fits where `planned` records, or units, that pass together in each trial do not; None where they do.

    few_mb  that `few` of them take; of_one: that one takes, asked for only where it may matter
    at_once trials that share what is free

    Raises CannotRun where one alone does not fit.
    """
    if few_mb * max(1.0, planned / few) * at_once <= free_mb:
        return None
    one_mb = of_one()
    if few_mb - one_mb < TOLD_MB:
        return None
    # What weights and sums take is the same for any number of records.
    each_mb = (few_mb - one_mb) / (few - 1)
    needed_mb = one_mb + each_mb * (planned - 1)
    if needed_mb * at_once <= free_mb:
        return None
    if one_mb > free_mb:
        raise CannotRun(
            f"one record alone takes about {one_mb:,.0f} MB, and {free_mb:,.0f} MB are free: use a smaller model"
        )
    beside = min(at_once, int(free_mb / one_mb))
    # Half of what is left to a trial: other things take memory too.
    passing = int(1 + (free_mb / beside - one_mb) / each_mb / 2)
    return MemoryLimits(
        needed_mb=needed_mb,
        free_mb=free_mb,
        microbatch=passing if passing < planned else None,
        concurrency=beside if beside < at_once else None,
    )


def free_mb(device: torch.device) -> float:
    """Memory that is free, in MiB."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 2**20
    return memory.free_mb()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak_mb(device: torch.device, *, forget: bool = False) -> float:
    """Peak memory in MiB, from now on where earlier peaks are to be forgotten."""
    if device.type == "cuda":
        if forget:
            torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.max_memory_allocated(device) / 2**20
    if forget:
        memory.give_back()
        memory.forget_peak()
    return memory.peak_mb()
