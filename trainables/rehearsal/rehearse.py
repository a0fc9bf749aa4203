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
from typing import TYPE_CHECKING

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.events import PoissonSampled, blocks
from dpcore.randomness import Streams
from trainables.hooks import CanaryTrained, Twin
from trainables.hyperparameters import read
from trainables.metrics import scores_of
from trainables.publishing import OWN_METRICS, measure, published, wanted
from trainables.rehearsal.findings import CannotRun, Rehearsed, Step
from trainables.system import DatasetSpec, PrivacyPlan, Refusal, RunSettings, State, System, TrialRun
from trainables.training.hyperparameters import BatchHyperparameters
from trainables.training.made_up import SEED, made_up

if TYPE_CHECKING:
    from torch import Tensor, nn

    from trainables.rehearsal.step import Loss

# How much of a trial is run, and on how many records.

EACH_BATCH = 8
"""Expected records of a batch in the steps that are rehearsed."""
SAMPLED_STEPS, WHOLE_STEPS = 2, 20
SMALLEST, GROWTH = 64, 4
VALIDATION = 64

Replanned = Callable[[DatasetSpec], PrivacyPlan | Refusal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A trial in small.

    plan        what runs, from its first step on
    facts       those that it was planned from
    records     made-up training records, or units
    validation  made-up validation records
    steps       of the plan that are run
    """

    plan: PrivacyPlan
    facts: DatasetSpec
    records: int
    validation: int
    steps: int


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
    examine: Callable[[nn.Module, Loss], Step]
    step: Step | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def attach(self, model: nn.Module, loss: Loss) -> tuple[nn.Module, Loss]:
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

    def examine(model: nn.Module, loss: Loss) -> Step:
        # Not every system needs torch, which takes seconds to import.
        from trainables.rehearsal.step import examined

        clip_norm = system.canary_scale(plan, facts)[0] if isinstance(system, CanaryTrained) else None
        return examined(model, loss, facts, _planned_batch(plan, facts), clip_norm, execution, saying, at_once)

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
    _check_objectives(objectives, metrics)
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


def _planned_batch(plan: PrivacyPlan, facts: DatasetSpec) -> int:
    """Expected records, or units, of a batch."""
    rates = sampling_rates(plan)
    if rates:
        return max(1, round(max(rates) * facts.n))
    return read(BatchHyperparameters, {"batch_size": facts.n, **plan.config}).batch_size


def _check_objectives(objectives: Sequence[str], metrics: Mapping[str, float]) -> None:
    """Raises CannotRun where a trial would have no rank."""
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
