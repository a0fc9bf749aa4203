"""`sampler: auto`: which method proposes, by rule, and budgets in turn whatever the method.

The rule looks at the spec and at what its trials are planned to cost, at nothing that was measured, and once: a sweep
keeps in `search.resolved` what was chosen when it began (`sweeps.planning.auto_sampler`), however it is extended.

Which budget a proposal gets is a schedule of seed and number (`sweeps.search.turns`): no result chooses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from dpcore.checks import InvalidValue
from sweeps.privacy.release import Published
from sweeps.search import samplers
from sweeps.search.asha import judged
from sweeps.search.optuna_sampler import OptunaSampler
from sweeps.search.samplers import Automatic, Learning
from sweeps.spec.sections import SweepSpec

GAUSSIAN_PROCESS, PARZEN, GENETIC = METHODS = ("gp", "tpe", "nsga2")
MANY_TRIALS = 300
"""From here on a Gaussian process would look at some trials only, and take seconds for a proposal."""
PROPOSAL_SECONDS = 0.1
"""A trial that is planned to take less than that waits for the process, not the process for it."""
SECONDS_PER_GRADIENT = 2e-5
"""For planned work, in gradients of one record: of small models on one core. It decides between samplers, and says how
long a sealed search takes that was not rehearsed: an assumption, and told as one."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What `auto` comes to, and why, in words for people."""

    method: str
    why: str


def resolution(spec: SweepSpec, work: float) -> Resolution:
    """The method for a sweep whose median trial is planned to cost `work`."""
    trials, goals, seconds = spec.search.trials, len(judged(spec)), work * SECONDS_PER_GRADIENT
    many = GENETIC if goals > 1 else PARZEN
    if len(spec.systems) > 1 and not spec.search.stratified:
        return Resolution(many, f"{len(spec.systems)} systems share one search")
    if trials > MANY_TRIALS:
        return Resolution(many, f"{trials} trials are many for a Gaussian process")
    if seconds < PROPOSAL_SECONDS:
        return Resolution(many, f"a trial is planned to take {seconds:.2g} s, less than a process takes to propose")
    return Resolution(GAUSSIAN_PROCESS, f"{trials} trials of about {seconds:.2g} s each, as planned")


def at_budget(
    entry: Learning | Automatic, spec: SweepSpec
) -> Callable[[SweepSpec, Iterable[Published]], OptunaSampler]:
    """What builds such a sampler for a spec, or for one system of it, and the trials of an earlier sweep.

    Raises InvalidValue where `auto` was not resolved.
    """
    if isinstance(entry, Automatic):
        if spec.search.resolved is None:
            expected = f"a method, one of {samplers.one_of(METHODS)}, which is chosen when a sweep begins"
            raise InvalidValue("search.resolved", None, expected)
        entry = samplers.learning(spec.search.resolved)
    return partial(OptunaSampler, entry)
