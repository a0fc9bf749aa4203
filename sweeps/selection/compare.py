"""Each way to charge for a search, planned for one configuration, side by side: `sweeps check --modes`.

From public facts and plans alone; no record is read.

Laws of the number of trials of a sealed search are compared at an equal chance of a trial from the best tenth of the
prior. The default is geometric with a mean of 27 trials: with it three searches of four have such a trial. The others
are given the mean that makes the chance the same. What is drawn is conditioned on a cap that holds 95% of the law,
which is free (`dpcore.selection.counts.Capped`); it lowers every chance by about a hundredth.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from scipy.optimize import brentq

from dpcore.calibrate import CannotCalibrate
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Notion, Status, delta_text, epsilon_text
from dpcore.selection.counts import LARGEST_CAP, BinomialCount, Capped, CountLaw, PoissonCount, geometric, with_mean
from dpcore.selection.profiles import TrialProfile
from sweeps.planning.estimate import TotalEstimate, estimated_total
from sweeps.planning.plan import plan_proposal
from sweeps.planning.rehearsal import Rehearsal, corners, first_plan
from sweeps.privacy.charge import UNCOUNTED, fitted, fitted_to_part, trial_profile
from sweeps.privacy.ledger import Choice
from sweeps.ray.resources import workers_of
from sweeps.search.asha import rung_ends, stops
from sweeps.selection.price import Fit, Pricing, best_price, first_price, front_price
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import EarlyStopping, SweepSpec
from sweeps.spec.sweep_budget import SweepBudget, law_of
from sweeps.store.records import TARGET_EPSILON
from trainables.registry import SYSTEMS
from trainables.system import Config, DatasetSpec, PrivacyPlan, Refusal, Scalar


class BudgetFor(StrEnum):
    """What the budget of a mode bounds."""

    SWEEP = "the sweep"
    """Everything that leaves, the choice among the trials included."""
    EACH_TRIAL = "each trial"
    """All of them together have another epsilon, which is the one in the row."""
    ONE_RUN = "one run"
    """Without a search, of a configuration that was fixed without a look at the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """What one mode would do with the whole budget, for trials like the one in the middle of the space.

    mode      its name in the table
    setting   what asks for it in a spec; "" where nothing does yet
    parameter, noise  name and solved values, the least noise first; () where the system solves none
    spent     epsilon of one trial by itself at the spec's delta, the least first: what a trial may spend
    chance    that some trial comes from the best tenth of the prior; None where trials do not touch these records
    expected  number of trials
    most      number of trials at the worst: what an announced deadline has to cover
    work      of all trials: expected, and at the worst; in the system's unit
    epsilon, delta  of everything that leaves; infinite where nothing is promised
    budget_for  what the budget bounds
    status    of the weakest claim among the trials, or no-claim where results let the total grow
    says      in a sentence: what leaves, and what it takes
    """

    mode: str
    setting: str
    parameter: str
    noise: tuple[float, ...]
    spent: tuple[float, ...]
    chance: float | None
    expected: float
    most: int
    work: tuple[float, float]
    epsilon: float
    delta: float
    budget_for: BudgetFor
    status: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRow:
    """A mode that the middle of this space cannot have, and why."""

    mode: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Every mode at one budget of the whole procedure.

    config     the configuration that all rows plan: the middle of the space, or the first draw that may be launched
    epsilon, delta  the budget: the largest epsilon of the spec
    speed      seconds per unit of work in the rehearsal; None without one
    at_once    trials that run at the same time
    """

    spec: str
    system: str
    config: Mapping[str, Scalar]
    epsilon: float
    delta: float
    adjacency: str
    unit: str
    speed: float | None
    at_once: int
    rows: tuple[ModeRow, ...]
    without: tuple[NoRow, ...]

    def row(self, mode: str) -> ModeRow:
        """The row of this name. Raises KeyError."""
        return {one.mode: one for one in self.rows}[mode]

    def hours(self, row: ModeRow) -> tuple[float, float] | None:
        """Hours that all trials of a mode take, expected and at the worst, at the rehearsal's speed on this machine."""
        if self.speed is None:
            return None
        expected, worst = (work * self.speed / self.at_once / 3600 for work in row.work)
        return expected, worst

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite epsilon is the string "inf"."""
        out = asdict(self)
        for plain, row in zip(out["rows"], self.rows, strict=True):
            plain["hours"] = self.hours(row)
            if math.isinf(row.epsilon):
                plain["epsilon"] = "inf"
        return out


TOP = 0.1
"""The part of the prior that counts as good."""
MEAN = 27.0
KEPT = 0.95
"""P[K <= cap] of the law that is capped, at least."""
_MOST = 1e15


def laws_at(chance: float) -> dict[str, CountLaw]:
    """{name: law without its cap} whose chance of a good trial is `chance`, in (.1, 1); geometric first."""
    tries = max(1, round(math.log1p(-chance) / math.log1p(-TOP / 2)))
    success = -math.expm1(math.log1p(-chance) / tries) / TOP
    return {
        "geometric": reaching(1.0, chance),
        "logarithmic": reaching(0.0, chance),
        "negative binomial, shape .5": reaching(0.5, chance),
        "Poisson": PoissonCount(-math.log1p(-chance) / TOP),
        "binomial": BinomialCount(tries, success),
    }


def default_chance() -> float:
    """That of the default law: 0.75."""
    return geometric(MEAN).reach(TOP)


def reaching(shape: float, chance: float, top: float = TOP) -> CountLaw:
    """The truncated negative binomial law of this shape whose chance of a trial from a part `top` is `chance`."""
    root = brentq(lambda m: with_mean(shape, math.exp(m)).reach(top) - chance, 1e-6, math.log(_MOST), xtol=1e-12)
    return with_mean(shape, math.exp(root))


def capped(law: CountLaw) -> Capped:
    """What is drawn: `law` conditioned on the least cap that holds `KEPT` of it."""
    return Capped(law, min(LARGEST_CAP, law.quantile(KEPT)))


# The configuration that modes are compared by, and its plan for any budget of one trial.


T = TypeVar("T")


class NotPlanned(ValueError):
    """No plan of the middle of the space meets what a mode asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceConfig:
    """One configuration under the budget of the whole procedure.

    epsilon       of the procedure: the largest of the spec
    calibrations  as planning keeps them
    """

    spec: SweepSpec
    facts: DatasetSpec
    config: Config
    epsilon: float
    calibrations: MutableMapping[str, float]

    @classmethod
    def of(cls, spec: SweepSpec, facts: DatasetSpec, calibrations: MutableMapping[str, float]) -> ReferenceConfig:
        """That of the first system that has one, in the order of the alphabet. Raises InvalidValue where none has."""
        # Modes are asked of a trial by itself, whatever the spec's own mode is.
        alone = spec.privacy.model_copy(update={"scope": "trial", "release": "all"})
        spec, tried = spec.model_copy(update={"privacy": alone, "selection": None}), set[str]()
        for corner in corners(spec):
            if corner.system in tried:
                continue
            tried.add(corner.system)
            found = first_plan(spec, corner, facts, calibrations)
            if found is not None and math.isfinite(found[1].guarantee.epsilon):
                epsilon = max(spec.privacy.epsilon)
                return cls(spec=spec, facts=facts, config=found[0], epsilon=epsilon, calibrations=calibrations)
        raise InvalidValue(
            "systems",
            ", ".join(sorted(tried)),
            "a system of which the middle of the space, or a draw near it, may be launched under a finite budget",
            "Raise privacy.epsilon or `limits`, or narrow the space.",
        )

    @property
    def trials(self) -> int:
        """As many as the spec asks for."""
        return self.spec.search.trials

    @property
    def parameter(self) -> str:
        """The knob that is the solved noise; "" where the spec solves something else."""
        return SYSTEMS[str(self.config["system"])].solves.get("noise", "") if self.spec.privacy.solve == "noise" else ""

    def on(self, share: float) -> ReferenceConfig:
        """The same configuration on a part of the training records, of which there are about `share`."""
        return replace(self, facts=replace(self.facts, n=max(1, round(self.facts.n * share))))

    def planned(self, epsilon: float) -> PrivacyPlan | Refusal:
        """The plan whose claim is within `epsilon` by itself."""
        return plan_proposal(self.spec, {**self.config, TARGET_EPSILON: epsilon}, self.facts, self.calibrations)

    def plan(self, epsilon: float) -> PrivacyPlan:
        """See `planned`. Raises NotPlanned."""
        return made(self.planned(epsilon))

    def priced(self, price: Callable[[float, Fit], Pricing | Refusal]) -> Pricing:
        """The price of a search of which this is the reference, by `sweeps.selection.price`. Raises NotPlanned."""

        def fit(exceeds: Callable[[TrialProfile], float], start: float) -> PrivacyPlan | Refusal:
            return fitted(self.planned, lambda plan: exceeds(trial_profile(plan)), start)

        return made(price(self.spec.privacy.delta, fit))

    def noise(self, *plans: PrivacyPlan) -> tuple[float, ...]:
        """Solved noise of these plans, each once, the least first."""
        if not self.parameter:
            return ()
        return tuple(sorted({float(plan.config[self.parameter]) for plan in plans}))


def made(found: T | Refusal) -> T:
    """The plan, or the price. Raises NotPlanned for a Refusal."""
    if isinstance(found, Refusal):
        raise NotPlanned(found.reason)
    return found


# Modes in which every trial leaves: one run without a search, one budget for each trial, one budget for all.
#
# One budget for all is either composed exactly, where nothing follows from results, or kept by a filter, in the parts
# that a sweep would give its trials (`sweeps.spec.sweep_budget`).

_ALL = "scope: sweep, release: all"


def one_run(middle: ReferenceConfig) -> ModeRow:
    """The whole budget in one run of a configuration that nobody tuned on these records."""
    plan = middle.plan(middle.epsilon)
    return _row(
        middle,
        "one run",
        [plan],
        count=1,
        epsilon=plan.guarantee.epsilon,
        setting="search: {trials: 1}",
        budget_for=BudgetFor.ONE_RUN,
        says="No search: the configuration has to be fixed without a look at these records.",
    )


def each_trial(middle: ReferenceConfig) -> ModeRow:
    """`scope: trial`: the budget is each trial's own."""
    plan = middle.plan(middle.epsilon)
    total = _total(middle, plan, None)
    will = "".join(f" It is no guarantee, because {choice.will or choice.what}." for choice in total.choices)
    return _row(
        middle,
        "trial",
        [plan],
        epsilon=total.epsilon,
        setting="scope: trial",
        delta=total.delta,
        budget_for=BudgetFor.EACH_TRIAL,
        status=Status.NO_CLAIM if will else total.standing,
        says="Every trial leaves, each within the budget by itself, which does not cover choosing among them. The "
        f"epsilon is that of all together.{will}",
    )


def composed(middle: ReferenceConfig) -> ModeRow:
    """Equal budgets that no result changes, composed exactly."""

    def excess(plan: PrivacyPlan) -> float:
        spent = _total(middle, plan, ()).epsilon
        return math.log(spent / middle.epsilon) if spent > 0 else -math.inf

    plan = made(fitted(middle.planned, excess, middle.epsilon / math.sqrt(middle.trials)))
    total = _total(middle, plan, ())
    return _row(
        middle,
        "compose",
        [plan],
        epsilon=total.epsilon,
        setting="scope: trial",
        delta=total.delta,
        status=total.standing,
        says="Every trial leaves, and nothing that is spent follows from results: as `scope: trial` with "
        f"{epsilon_text(plan.guarantee.epsilon, up=False)} for each and a sampler that does not learn. The total of "
        "all is the guarantee.",
    )


def filtered(middle: ReferenceConfig) -> ModeRow:
    """Equal parts by the filter."""
    says = "Every trial leaves, and budgets, steps and their number may follow from results."
    plans = _part(middle, _budget(middle), (0,))
    return _row(middle, "compose, filter", plans, says=says)


def front_loaded(middle: ReferenceConfig) -> ModeRow:
    """Parts that fall from trial to trial, by the filter: the first and the last are planned."""
    return _row(
        middle,
        "compose, front-loaded",
        _part(middle, _budget(middle, spread="front-loaded"), (0, middle.trials - 1)),
        setting=f"{_ALL}, spread: front-loaded",
        says="The same with parts that fall from trial to trial: noise of the first and of the last.",
    )


def halving(middle: ReferenceConfig) -> ModeRow:
    """Early stopping by the filter, where what rungs leave is given to all trials."""
    stopping = middle.spec.early_stopping or EarlyStopping(method="asha").filled(middle.trials)
    stopped = replace(middle, spec=middle.spec.model_copy(update={"early_stopping": stopping}))
    if len(rung_ends(stopping, stopped.plan(middle.epsilon).steps)) < 2:
        raise NotPlanned("its trials have one step: there is nothing to stop early")
    budget = _budget(middle, spread="halving", rungs=stopping.rungs, reduction=stopping.reduction)
    (plan,) = _part(stopped, budget, (0,))
    ends = rung_ends(stopping, plan.steps)
    run = [budget.times(rung) for rung in range(len(ends))]
    steps = [end - before for before, end in zip((0, *ends), ends, strict=False)]
    work = math.fsum(trials * own for trials, own in zip(run, steps, strict=True)) * plan.work / plan.steps
    listed = ", ".join(map(str, run))
    return _row(
        middle,
        "compose, halving",
        [plan],
        setting=f"{_ALL}, spread: halving",
        work=(work, work),
        says=f"The same with early stopping: {listed} trials run the rungs, and what never runs is not charged. The "
        "filter ends the sweep where more are promoted.",
    )


def _budget(middle: ReferenceConfig, **more: Any) -> SweepBudget:
    privacy = middle.spec.privacy
    terms: dict[str, Any] = {"epsilon": middle.epsilon, "delta": privacy.delta, "adjacency": privacy.adjacency}
    return SweepBudget(**terms, shares=middle.trials, **more)


def _part(middle: ReferenceConfig, budget: SweepBudget, numbers: Sequence[int]) -> list[PrivacyPlan]:
    """The plans that these trials of a sweep with this budget would have."""
    return [
        made(
            fitted_to_part(middle.planned, lambda steps: stops(middle.spec, steps), budget, number, middle.calibrations)
        )
        for number in numbers
    ]


def _total(middle: ReferenceConfig, plan: PrivacyPlan, choices: tuple[Choice, ...] | None) -> TotalEstimate:
    total, why_not = estimated_total(middle.spec, [plan], choices)
    if total is None:
        raise NotPlanned("; ".join(why_not))
    return total


def _row(
    middle: ReferenceConfig, mode: str, plans: Sequence[PrivacyPlan], count: int | None = None, **told: Any
) -> ModeRow:
    """A row of `count` trials that all run, as many as the spec asks for by default; a trial's plan is one of `plans`.

    told  what else a row has, and what is otherwise in it
    """
    count = middle.trials if count is None else count
    work = math.fsum(plan.work for plan in plans) / len(plans) * count
    usual: dict[str, Any] = {
        "setting": _ALL,
        "chance": -math.expm1(count * math.log1p(-TOP)),
        "expected": count,
        "most": count,
        "work": (work, work),
        "epsilon": middle.epsilon,
        "delta": middle.spec.privacy.delta,
        "budget_for": BudgetFor.SWEEP,
        "status": plans[0].guarantee.status,
    }
    spent = tuple(sorted({plan.guarantee.epsilon for plan in plans}))
    return ModeRow(mode=mode, parameter=middle.parameter, noise=middle.noise(*plans), spent=spent, **usual | told)


# Modes in which few trials leave: the best by one order or several, or the first that meets a public target.

_SEALED = "The number of trials stays secret; results wait for an announced deadline that covers the worst."
_TWO = "Two sweeps, of which the final one names the other: declare"


def best(middle: ReferenceConfig, name: str, law: CountLaw) -> ModeRow:
    """The best of K trials leaves; priced so that configurations that differ can be covered (two-point calibration).

    law  without its cap
    """
    if law.mean > LARGEST_CAP:
        raise NotPlanned(f"for such a chance it would take {law.mean:.3g} trials in the mean")
    return sealed_row(
        middle,
        f"best, {name}",
        middle.priced(partial(best_price, capped(law), middle.epsilon)),
        setting="scope: sweep, release: best",
        says=f"The best trial leaves, with its score; independent draws from the prior. {_SEALED}",
    )


def front(middle: ReferenceConfig, law: CountLaw, orders: int) -> ModeRow:
    """The best of K trials by each of `orders` orders leaves.

    law  without its cap
    """
    return sealed_row(
        middle,
        f"front, {orders} orders",
        middle.priced(partial(front_price, capped(law), orders, middle.epsilon)),
        setting="scope: sweep, release: front",
        says=f"The best trial by each of {orders} public orders leaves, with its scores. {_SEALED}",
    )


def first(middle: ReferenceConfig, chance: float) -> ModeRow:
    """The cheapest budget's first trial to meet a public target leaves; each budget of the spec is a rung.

    chance  of a good trial in each rung
    """
    epsilons = sorted(middle.spec.privacy.epsilon)
    count = len(epsilons)
    pricing = middle.priced(partial(first_price, capped(reaching_in_each(chance, count)), epsilons))
    leaves = "The first trial that meets a public target leaves, or word that none did. "
    if count > 1:
        leaves = (
            "The first trial of the cheapest budget that meets a public target leaves, or word that none did. "
            f"Its epsilon is known then: one of {', '.join(map(epsilon_text, epsilons))}, the last for none at most. "
        )
    return sealed_row(
        middle,
        "first" if count == 1 else f"first, {count} rungs",
        pricing,
        setting="scope: sweep, release: first",
        says=f"{leaves}{_SEALED}",
        rungs=count,
    )


def reaching_in_each(chance: float, rungs: int) -> CountLaw:
    """The geometric law with which each of so many equally likely rungs has a good trial with this chance."""
    return reaching(1.0, chance, TOP / rungs)


def sealed_row(middle: ReferenceConfig, mode: str, pricing: Pricing, rungs: int = 1, **told: Any) -> ModeRow:
    """A row of a search at this price, under the cap of its law; a trial's plan is one of its references."""
    drawn, plans = pricing.law, pricing.references
    work = sum(plan.work for plan in plans) / len(plans)
    search: dict[str, Any] = {
        "chance": drawn.reach(TOP / rungs),
        "expected": drawn.mean,
        "most": drawn.cap,
        "work": (work * drawn.mean, work * drawn.cap),
        "epsilon": pricing.rule.epsilon,
    }
    return _row(middle, mode, plans, **search | told)


# Modes in which tuning and the final run read different records: one record is in one of them, never in both.
#
# Each is two sweeps, of which the final one names the other: each row says what has to be declared.
#
# holdout a share of the records tunes, by a public hash of each record alone; the final run is on the others.
# Together they cost the larger of the two under add-remove (`dpcore.accounting`), so both may use the whole
# budget public everything about the search is on records that are nobody's, and the final run alone is on these

SHARE = 0.2
"""Of the records, for tuning."""


def holdout(middle: ReferenceConfig, law: CountLaw, share: float = SHARE) -> ModeRow:
    """The best of K trials on a share of the records, then one run on the others.

    share  in (0, 1), of the records that tune

    Raises NotPlanned under replace-one, where the parts add and no such sweep is admitted.
    """
    if (adjacency := middle.spec.privacy.adjacency) is not Adjacency.ADD_REMOVE:
        raise NotPlanned(
            f"under {adjacency} one record may give way to one of the other part, and so an exchange may change "
            "both parts: they would add"
        )
    pricing = middle.on(share).priced(partial(best_price, capped(law), middle.epsilon))
    tune, last = pricing.reference, middle.on(1 - share).plan(middle.epsilon)
    row = sealed_row(
        middle,
        f"holdout, {share:.0%}",
        pricing,
        setting="scope: holdout",
        says=f"The best of the trials on {share:.0%} of the records, and a final run on the other {1 - share:.0%} with "
        f"its configuration. Noise and epsilon of both; a trial costs only its share of the work. {_TWO} the share of "
        "the records that tunes (`data.part`), by a hash of each record alone; and how the configuration carries over "
        "to more records.",
    )
    return replace(
        row,
        noise=tuple(sorted({*middle.noise(tune), *middle.noise(last)})),
        spent=tuple(sorted({tune.guarantee.epsilon, last.guarantee.epsilon})),
        expected=row.expected + 1,
        most=row.most + 1,
        work=(row.work[0] + last.work, row.work[1] + last.work),
    )


def public(middle: ReferenceConfig) -> ModeRow:
    """A search on public proxy data, then one run on these records."""
    return replace(
        one_run(middle),
        mode="public",
        setting="scope: public",
        chance=None,
        budget_for=BudgetFor.SWEEP,
        says="The search trains and validates on public proxy data alone, and costs nothing; then one run. How good "
        f"the proxy's best is here, nothing says beforehand. {_TWO} the proxy data, apart from these records, and that "
        "the space was not chosen by looking at these.",
    )


# The comparison of modes for a spec: from public facts and plans alone, no record is read.

_CANNOT = (CannotCalibrate, InvalidValue, NotPlanned, *UNCOUNTED)


def compared(
    spec: SweepSpec,
    facts: DatasetSpec | None = None,
    rehearsal: Rehearsal | None = None,
) -> Comparison:
    """Every mode for the configuration in the middle of the space, at the largest budget of the spec.

    rehearsal  tells how long a trial takes; without it no hours are said

    Raises InvalidValue where nothing in the middle of the space may be launched under a finite budget.
    """
    facts = public_facts(spec) if facts is None else facts
    middle = ReferenceConfig.of(spec, facts, {})
    rows: list[ModeRow] = []
    without: list[NoRow] = []
    # Laws are compared at the chance of a good trial of the spec's own, where it has one.
    own = spec.selection and law_of(spec.selection, spec.search.trials).priced.reach(TOP)
    chance, laws = own or default_chance(), laws_at(own or default_chance())
    # A front is one of two orders at least.
    orders = max(2, len(spec.orders if spec.privacy.release == "front" else spec.objectives))
    modes: dict[str, Callable[[], ModeRow]] = {
        "one run": partial(one_run, middle),
        "trial": partial(each_trial, middle),
        "compose": partial(composed, middle),
        "compose, filter": partial(filtered, middle),
        "compose, front-loaded": partial(front_loaded, middle),
        "compose, halving": partial(halving, middle),
        **{f"best, {name}": partial(best, middle, name, law) for name, law in laws.items()},
        "front": partial(front, middle, laws["geometric"], orders),
        "first": partial(first, middle, chance),
        "holdout": partial(holdout, middle, laws["geometric"]),
        "public": partial(public, middle),
    }
    for mode, row in modes.items():
        try:
            rows.append(row())
        except _CANNOT as error:
            without.append(NoRow(mode=mode, reason=str(error)))
    system = str(middle.config["system"])
    return Comparison(
        spec=spec.name,
        system=system,
        config={name: value for name, value in middle.config.items() if name not in ("system", "target_epsilon")},
        epsilon=middle.epsilon,
        delta=spec.privacy.delta,
        adjacency=str(spec.privacy.adjacency),
        unit=spec.privacy.unit,
        speed=None if rehearsal is None else _speed(rehearsal, system),
        at_once=workers_of(spec.resources),
        rows=tuple(rows),
        without=tuple(without),
    )


def _speed(rehearsal: Rehearsal, system: str) -> float | None:
    """Seconds per unit of work, the median over what was rehearsed of this system; None where it trains no network."""
    steps = [one.found.step for one in rehearsal.ran if one.found.system == system]
    found = [step.gradient_seconds for step in steps if step is not None]
    return statistics.median(found) if found else None


# The comparison of modes as text: a table, a sentence for each mode, and what stands in the way of some.

WIDTH = 120
_NEARLY = 0.99
_HEADINGS = "mode", "noise", "one trial", "good", "trials", "at most", "time", "at most", "epsilon", "budget for"
_READ = (
    "noise: {noise} of a trial like the middle of the space. one trial: what it may spend by itself. good: the chance "
    "that some trial comes from the best tenth of the prior. trials, time: expected, and at the worst, which an "
    "announced deadline of a sealed search has to cover{speed}. epsilon: of everything that leaves, at delta {delta}."
)


def text(comparison: Comparison) -> str:
    """For people, in lines of at most `WIDTH` characters."""
    rows = comparison.rows
    knobs = ", ".join(f"{name}={_short(value)}" for name, value in comparison.config.items())
    heading = (
        f"modes at epsilon {epsilon_text(comparison.epsilon)}, delta {delta_text(comparison.delta)} for the whole "
        f"sweep, {Notion.DP}, {comparison.adjacency}, per {comparison.unit}; trials like {comparison.system} ({knobs})"
    )
    noise = next((row.parameter for row in rows if row.parameter), "what is solved")
    speed = ""
    if comparison.speed is not None:
        speed = (
            f"; time is that of training alone, {comparison.at_once} at once on this machine, at the rehearsal's "
            f"{comparison.speed:.2g} s per unit of work"
        )
    how = _READ.format(noise=noise, speed=speed, delta=delta_text(max(row.delta for row in rows)))
    lines = [*textwrap.wrap(heading, WIDTH), *table(comparison), "", *textwrap.wrap(how, WIDTH)]
    lines += _said((row.mode, row.says) for row in rows)
    lines += _said((one.mode, f"not possible here: {one.reason}") for one in comparison.without)
    return "\n".join(lines)


def table(comparison: Comparison) -> list[str]:
    """The table alone, a line for each mode below the headings."""
    cells = [_HEADINGS, *(_cells(comparison, row) for row in comparison.rows)]
    # Without a rehearsal nobody knows the hours, without a solved noise there is none.
    shown = [column for column in zip(*cells, strict=True) if any(column[1:])]
    aligned = [_aligned(column) for column in shown]
    return ["  " + "  ".join(row).rstrip() for row in zip(*aligned, strict=True)]


def _aligned(column: Sequence[str]) -> list[str]:
    """Cells of one width: names on the left, numbers with their heading on the right."""
    width, named = max(map(len, column)), any(cell[:1].isalpha() for cell in column[1:])
    return [cell.ljust(width) if named else cell.rjust(width) for cell in column]


def _cells(comparison: Comparison, row: ModeRow) -> tuple[str, ...]:
    hours = comparison.hours(row)
    return (
        row.mode,
        _range([f"{one:.4g}" for one in row.noise]),
        _range([epsilon_text(one, digits=3) for one in row.spent]),
        "-" if row.chance is None else _chance(row.chance),
        f"{row.expected:.3g}",
        f"{row.most}",
        "" if hours is None else _time(hours[0]),
        "" if hours is None else _time(hours[1]),
        epsilon_text(row.epsilon),
        str(row.budget_for),
    )


def _chance(value: float) -> str:
    return ">99%" if value > _NEARLY else f"{value:.0%}"


def _time(hours: float) -> str:
    """With its unit, to two digits."""
    for unit, size in (("h", 1.0), ("min", 1 / 60)):
        if hours >= 1.5 * size:
            return f"{float(f'{hours / size:.2g}'):g} {unit}"
    return f"{float(f'{hours * 3600:.2g}'):g} s"


def _range(values: Sequence[str]) -> str:
    return "" if not values else values[0] if len(values) == 1 else f"{values[0]} .. {values[-1]}"


def _said(sentences: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each mode; modes of which the same is said share it."""
    shared: dict[str, list[str]] = {}
    for mode, sentence in sentences:
        shared.setdefault(sentence, []).append(mode)
    lines: list[str] = []
    for sentence, listed in shared.items():
        lines += textwrap.wrap(f"{_together(listed)}: {sentence}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def _together(modes: Sequence[str]) -> str:
    """`best, geometric` and `best, Poisson` are `best`."""
    return " / ".join(dict.fromkeys(mode.split(",")[0] for mode in modes)) if len(modes) > 1 else modes[0]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
