"""Modes in which few trials leave: the best by one order or several, or the first that meets a public target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpcore.calibrate import Target
from dpcore.rounding import budget_text, epsilon_text
from dpcore.selection import CountLaw, FrontPoints, Ladder, TrialProfile, price_best, price_clipped, price_ladder
from dpcore.selection.best import TIGHT, clipped_at_point
from dpcore.selection.counts import LARGEST_CAP
from dpcore.selection.profiles import ROUND_UP, epsilon_at
from sweeps.advice.comparison import BudgetFor, ModeRow
from sweeps.advice.laws import TOP, capped, reaching
from sweeps.advice.middle import Middle, NotPlanned
from sweeps.budget.trial_profiles import trial_profile
from sweeps.spec.sections import AdaptOptions
from trainables.system import PrivacyPlan

FAILURE_SHARE = 0.1
"""The part of delta that pays for saying that no trial met the target."""
_SEALED = "The number of trials stays secret; results wait for an announced deadline that covers the worst."
_CLIPPED = "dpcore.selection.best: after Wang, Gao, Zhang, Su & Shen (2023), DP-HyPO"
_FRONT = "dpcore.selection.front, and front_points for configurations that differ"
_LADDER = (
    "dpcore.selection.ladder: after Ghazi, Kamath, Knop, Kumar, Manurangsi & Zhang (2025) and Liu & Talwar (2019), "
    "algorithm 1"
)


def best(middle: Middle, name: str, law: CountLaw) -> ModeRow:
    """The best of K trials leaves; priced so that configurations that differ can be covered (two-point calibration).

    law  without its cap
    """
    if law.mean > LARGEST_CAP:
        raise NotPlanned(f"for such a chance it would take {law.mean:.3g} trials in the mean")
    price = best_price(law, middle.delta)
    plan = middle.costing(price)
    return sealed_row(
        middle,
        f"best, {name}",
        [plan],
        law,
        setting="scope: sweep, release: best",
        epsilon=price(trial_profile(plan)),
        theorem=TIGHT,
        says=f"The best trial leaves, with its score; independent draws from the prior. {_SEALED}",
    )


def best_price(law: CountLaw, delta: float) -> Callable[[TrialProfile], float]:
    """Epsilon of the best of K trials with this profile, without the Renyi route: that has no two points."""
    return lambda trial: price_best(law, trial, delta, orders=()).epsilon


def adaptive(middle: Middle, law: CountLaw, bounds: AdaptOptions) -> ModeRow:
    """The best of K trials leaves, whose configurations follow earlier results within bounds of the prior.

    law  without its cap
    """
    alone = clipped_at_point(law, 0.0, 0.0, bounds.low, bounds.high)
    if alone >= middle.epsilon:
        raise NotPlanned(
            f"its bounds of {bounds.low:g} and {bounds.high:g} alone take epsilon {epsilon_text(alone)}, "
            f"of {budget_text(middle.epsilon)}"
        )
    price = _clipped_price(law, middle.delta, bounds)
    plan = middle.costing(price)
    row = sealed_row(
        middle,
        "best, adaptive",
        [plan],
        law,
        setting="scope: sweep, release: best, search.sampler: adaptive",
        epsilon=price(trial_profile(plan)),
        theorem=_CLIPPED,
        says=f"The best trial leaves, with its score; results lead what is tried next, each configuration between "
        f"{bounds.low:g} and {bounds.high:g} times as often as by the prior. So far the chance of a good trial may "
        f"fall or rise; that it rises, nothing says beforehand. {_SEALED}",
    )
    # A trial's chance given all earlier ones, by the bounds on what is good and on what is not.
    least = max(TOP * bounds.low, 1 - (1 - TOP) * bounds.high)
    most = min(TOP * bounds.high, 1 - (1 - TOP) * bounds.low)
    drawn = capped(law)
    return replace(row, chance=drawn.reach(least), chance_at_most=drawn.reach(most))


def _clipped_price(law: CountLaw, delta: float, bounds: AdaptOptions) -> Callable[[TrialProfile], float]:
    return lambda trial: price_clipped(law, trial, delta, bounds.low, bounds.high).epsilon


def front(middle: Middle, law: CountLaw, orders: int) -> ModeRow:
    """The best of K trials by each of `orders` orders leaves.

    law  without its cap
    """
    rule = FrontPoints.solved(law, orders, Target(epsilon=middle.epsilon, delta=middle.delta))
    plan = middle.meeting(lambda plan: rule.exceeds(trial_profile(plan)))
    return sealed_row(
        middle,
        f"front, {orders} orders",
        [plan],
        law,
        setting="scope: sweep, release: front",
        epsilon=rule.epsilon,
        theorem=_FRONT,
        says=f"The best trial by each of {orders} public orders leaves, with its scores. {_SEALED}",
    )


def first(middle: Middle, chance: float) -> ModeRow:
    """The cheapest budget's first trial to meet a public target leaves; each budget of the spec is a rung.

    chance  of a good trial in each rung
    """
    epsilons = sorted(middle.spec.privacy.epsilon)
    count = len(epsilons)
    law, weights = reaching_in_each(chance, count), (1 / count,) * count
    failed = middle.delta * FAILURE_SHARE
    deltas = ((middle.delta - failed) / count,) * count
    plans: list[PrivacyPlan] = []
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        below = tuple(trial_profile(one) for one in plans)

        def price(trial: TrialProfile, below: tuple[TrialProfile, ...] = below, delta: float = delta) -> float:
            # What a rung costs does not depend on dearer ones: until they are solved, a copy of it stands for them.
            above = count - len(below) - 1
            known = Ladder(
                law=law,
                rungs=(*below, trial, *(trial,) * (above > 0)),
                weights=(*weights[: len(below) + 1], *(above / count,) * (above > 0)),
            )
            own = epsilon_at(trial, delta / (known.priced.mean * weights[0]))
            return (own + known.penalties()[len(below)]) * ROUND_UP

        plans.append(middle.costing(price, epsilon))
    rungs = tuple(trial_profile(one) for one in plans)
    found = price_ladder(Ladder(law=law, rungs=rungs, weights=weights), deltas, failed, points=2)
    if found.epsilon > middle.epsilon:
        raise NotPlanned(f"its dearest end costs epsilon {epsilon_text(found.epsilon)}")
    leaves = "The first trial that meets a public target leaves, or word that none did. "
    if count > 1:
        prices = ", ".join(map(epsilon_text, found.rungs))
        leaves = (
            "The first trial of the cheapest budget that meets a public target leaves, or word that none did. "
            f"Its epsilon is known then: one of {prices} ({epsilon_text(found.failure)} for none). "
        )
    return sealed_row(
        middle,
        "first" if count == 1 else f"first, {count} rungs",
        plans,
        law,
        setting="scope: sweep, release: first",
        epsilon=found.epsilon,
        theorem=_LADDER,
        says=f"{leaves}{_SEALED}",
        rungs=count,
    )


def reaching_in_each(chance: float, rungs: int) -> CountLaw:
    """The geometric law with which each of so many equally likely rungs has a good trial with this chance."""
    return reaching(1.0, chance, TOP / rungs)


def sealed_row(
    middle: Middle,
    mode: str,
    plans: list[PrivacyPlan],
    law: CountLaw,
    *,
    setting: str,
    epsilon: float,
    theorem: str,
    says: str,
    rungs: int = 1,
) -> ModeRow:
    """A row of a search whose number of trials is drawn from `law`, under its cap; a trial's plan is one of `plans`."""
    drawn = capped(law)
    work = sum(plan.work for plan in plans) / len(plans)
    return ModeRow(
        mode=mode,
        setting=setting,
        trials=f"mean {drawn.mean:.4g}, at most {int(drawn.largest)}",
        parameter=middle.parameter,
        noise=middle.noise(*plans),
        spent=tuple(sorted({plan.guarantee.epsilon for plan in plans})),
        chance=drawn.reach(TOP / rungs),
        expected=drawn.mean,
        most=int(drawn.largest),
        work=(work * drawn.mean, work * drawn.largest),
        epsilon=epsilon,
        delta=middle.delta,
        budget_for=BudgetFor.SWEEP,
        status=plans[0].guarantee.status,
        theorem=theorem,
        says=says,
    )
