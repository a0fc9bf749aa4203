"""Whose word a claim is: every plan of a sweep is made here, and one of another package says so itself.

What a system of this package plans stands as its proof does. Of a system from elsewhere, none of whose code was read
here, the claim is the word of its module: its status is `asserted`, and it names the module. Where the count is this
project's own all the same (`trainables.planner` counted a mechanism of `dpcore`, and hands that very value to the
training), the number is ours, and rests on one assumption more: that the module releases that mechanism and nothing
else.

What trains may be the user's own too, a model. Whatever it does with records is bounded (`dpcore.gradients`); what it
begins with is not looked at, and was released by no step: weights that were fitted to the same records, without noise,
leave in the model as they came. So every claim on such a model says that they were not.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import replace

from dpcore.guarantee import Guarantee, Status, weakest
from dpcore.mechanisms import protocol
from dpcore.mechanisms.protocol import Scheduled
from trainables.planner import PlannedSystem
from trainables.plugins import OBJECT
from trainables.system import Config, PrivacyPlan, PrivacyTarget, PublicFacts, Refusal, System
from trainables.validation.declaration import PUBLIC_VALIDATION

OURS = frozenset({"dpcore", "trainables"})
_COUNTING = ("plan", "_counted", "claim", "mechanism_of", "fit")
"""Methods that count a mechanism and hand it to the training."""

_LANGUAGE = ("builtins", "abc", "typing")


def attributed_plan(
    system: System,
    config: Config,
    facts: PublicFacts,
    target: PrivacyTarget,
    calibrations: MutableMapping[str, float],
) -> PrivacyPlan | Refusal:
    """`system.plan`, with claims that stand as firmly as whoever makes them, their data and their model.

    Raises what it raises.
    """
    plan = _planned(system, config, facts, target, calibrations)
    if isinstance(plan, Refusal):
        return plan
    # Of records whose source is the user's own its facts say so themselves.
    theirs = facts.assumptions if facts.asserted_by else ()
    models = of_their_models(value for value in plan.config.values() if isinstance(value, str))
    return resting_on_word(plan, (*theirs, *models))


def resting_on_word(plan: PrivacyPlan, lines: Sequence[str]) -> PrivacyPlan:
    """The plan, whose claims rest on these sentences too: somebody's word, so that none is more than proved under
    assumptions. As it is without any."""
    if not lines:
        return plan
    return replace(
        plan,
        guarantee=_resting_on(plan.guarantee, lines),
        beside=tuple(_resting_on(one, lines) for one in plan.beside),
    )


def of_their_models(texts: Iterable[str]) -> tuple[str, ...]:
    """What claims rest on where knobs have these texts as values: a sentence for each `module:function` not ours."""
    own = sorted({one for one in texts if OBJECT.fullmatch(one) and _root(one.partition(":")[0]) not in OURS})
    return tuple(
        f"What {one} begins with, starting weights and parts that are never trained, was fitted to none of these "
        "records: its code is not ours, and no epsilon counts what it brings."
        for one in own
    )


def of_their_metrics(asked: Iterable[str]) -> tuple[str, ...]:
    """What claims rest on where a spec asks for these metrics: a sentence for each `module:function`.

    What it returns leaves, and may lead the search: of what it is given that is free, and of anything else not counted.
    """
    return tuple(
        f"{one} looks at nothing but what it is given, targets and scores of public validation records: its code is "
        "not ours."
        for one in sorted(set(asked))
        if OBJECT.fullmatch(one)
    )


def _resting_on(claim: Guarantee, lines: Iterable[str]) -> Guarantee:
    status = weakest(claim.status, Status.PROVED_UNDER_ASSUMPTIONS)
    return replace(claim, status=status, assumptions=tuple(dict.fromkeys((*claim.assumptions, *lines))))


def _planned(
    system: System,
    config: Config,
    facts: PublicFacts,
    target: PrivacyTarget,
    calibrations: MutableMapping[str, float],
) -> PrivacyPlan | Refusal:
    plan = system.plan(config, facts, target, calibrations)
    module = stranger(system)
    if module is None or isinstance(plan, Refusal):
        return plan
    counted = _is_counted_here(system, plan)
    claim = _trusting(plan.guarantee, module) if counted else _asserted(plan.guarantee, module)
    validation = [PUBLIC_VALIDATION] if facts.n_validation else []
    needed = dict.fromkeys((*claim.assumptions, *validation, *facts.assumptions))
    beside = counted and _is_ours(system, "beside")
    return replace(
        plan,
        guarantee=replace(claim, assumptions=tuple(needed)),
        beside=tuple(_trusting(one, module) if beside else _asserted(one, module) for one in plan.beside),
    )


def stranger(system: System) -> str | None:
    """The module of a system that has code from outside of this project; None for our own."""
    modules = (one.__module__ for one in type(system).__mro__)
    return next((one for one in modules if _root(one) not in (*OURS, *_LANGUAGE)), None)


def _is_counted_here(system: System, plan: PrivacyPlan) -> bool:
    return (
        isinstance(system, PlannedSystem)
        and all(_is_ours(system, name) for name in _COUNTING)
        and protocol.is_ours(plan.mechanism)
        # Events alone are counted, and run nothing.
        and not isinstance(plan.mechanism, Scheduled)
    )


def _is_ours(system: System, name: str) -> bool:
    found = getattr(system, name, None)
    return _root(getattr(getattr(found, "__func__", found), "__module__", None) or "") in OURS


def _trusting(claim: Guarantee, module: str) -> Guarantee:
    """Counted here, of what code that is not ours is trusted to release."""
    line = f"{module} releases the counted mechanism, as it was counted, and nothing else: its code is not ours."
    status = weakest(claim.status, Status.PROVED_UNDER_ASSUMPTIONS)
    return replace(claim, status=status, assumptions=(*claim.assumptions, line))


def _asserted(claim: Guarantee, module: str) -> Guarantee:
    """On the module's word alone."""
    # Without the status that it gave itself: nobody is to read that word as ours.
    line = f"{module} says that this epsilon holds, by {claim.theorem}: nothing of it was counted or checked here."
    status = weakest(claim.status, Status.ASSERTED)
    return replace(claim, status=status, asserted_by=module, assumptions=(*claim.assumptions, line))


def _root(module: str) -> str:
    return module.partition(".")[0]
