"""Evidence about a trial's plan from twins that carry canaries, or that ran on one of two neighbouring data sets."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.accountants.pld import PLDAccountant, ToleranceNotReached
from dpcore.audit import attacks
from dpcore.audit.attacks import auc, balanced_splits, decide, mean_training_loss_threshold, tpr_at_fpr
from dpcore.audit.audit import CONFIDENCE, Audit, Evidence, ThreatModel, claimed
from dpcore.audit.evidence import OneRun, OneRunFDP, choose_threshold_against, count_at, guess, toss
from dpcore.events import Adjacency, UnsupportedEvent
from dpcore.gdp import TradeOff, enveloped
from dpcore.guarantee import Guarantee, Notion, Status
from dpcore.randomness import fresh_secret
from trainables.data import records
from trainables.hooks import Answering, Auditable, CanaryTrained, Scored, Twin
from trainables.measures.quality import jackknife_error
from trainables.metrics import STANDARD_ERROR
from trainables.system import Dataset, PrivacyPlan, RunSettings, Split, State, System, TrialRun
from trainables.units import RECORD

Method = Literal["one-run", "f-dp", "multi-run"]

CANARIES = 2000
GUESSED = 0.1
"""Share of the canaries that are called in, and the same share out; fixed before any coin is tossed."""
UNSEEN = 0.02
"""Chance that no batch draws a canary, above which none is called out."""
RUNS, RUNS_OF_SLOW = 1000, 100
"""Runs with the target, and as many without it: where one training serves all of them, and where each trains."""
CALIBRATION = 0.5
"""Further runs that only choose the threshold, as a share of the audited ones."""

_TOGETHER = 2000
"""Twins whose releases are in memory at once."""

Scores = NDArray[np.float64]
Reader = Callable[[State], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSetting:
    """What is audited, and with which means.

    to_step  the steps behind the claim; None: all of the plan
    claim    the claim on these steps
    secret   for the noise of twins, drawn afresh
    rng      the auditor's coins, canaries and order
    """

    system: System
    plan: PrivacyPlan
    claim: Guarantee
    data: Dataset
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    to_step: int | None = None
    execution: RunSettings = field(default_factory=RunSettings)
    secret: bytes = field(default_factory=fresh_secret, repr=False)
    level: float = 1 - CONFIDENCE

    @property
    def steps(self) -> int:
        """Behind the claim."""
        return self.plan.steps if self.to_step is None else self.to_step

    @property
    def replaced(self) -> bool:
        """Whether a canary is there in one of two ways, or there or not."""
        return self.claim.adjacency is Adjacency.REPLACE_ONE

    def twin(self, number: int) -> Twin:
        """The twin of that number."""
        return Twin.of(self.plan, number, self.secret, self.to_step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an audit found.

    design         one sentence: who the canaries are, or how the neighbours differ
    reads_records  whether twins were trained on the trial's own records
    trainings      how many twins ran
    """

    audit: Audit
    design: str
    reads_records: bool
    trainings: int
    seconds: float = 0.0


def methods(system: System, claim: Guarantee) -> tuple[Method, ...]:
    """The methods that can audit this claim of `system`, the preferred one first; empty where none can."""
    if claim.notion is not Notion.DP:
        return ()
    coins = claim.adjacency is Adjacency.ADD_REMOVE
    if isinstance(system, CanaryTrained):
        return ("f-dp", "one-run", "multi-run")
    if claim.unit != RECORD:
        # The canaries of the other methods are single records.
        return ()
    inserted: tuple[Method, ...] = ()
    if coins and isinstance(system, Scored | Answering):
        inserted = ("one-run", "f-dp")
    if isinstance(system, Auditable):
        return ("multi-run", *inserted)
    return (*inserted, "multi-run") if inserted else ()


def dp_claim(plan: PrivacyPlan, claim: Guarantee) -> Guarantee | None:
    """`claim` if it is of differential privacy, else such a claim that stands beside it in the plan; None without."""
    every = (claim, *plan.beside)
    return next((one for one in every if one.notion is Notion.DP), None)


def audited_claim(plan: PrivacyPlan) -> Guarantee:
    """The claim that a bound is held against, or, without one, a delta and a relation for the bound itself."""
    claim = dp_claim(plan, plan.guarantee)
    return replace(plan.guarantee, notion=Notion.DP) if claim is None else claim


def curve_of(setting: AuditSetting) -> TradeOff | None:
    """The trade-off function that the planned steps claim by the loss distribution of their events.

    None where they have none, and where the claim is refuted already: then its one point is what is shown to be false.
    """
    if setting.claim.status is Status.REFUTED:
        return None
    try:
        accountant = PLDAccountant(adjacency=setting.claim.adjacency)
        return enveloped(accountant.compose(setting.plan.event(0, setting.steps)).epsilon)
    except (UnsupportedEvent, ToleranceNotReached):
        return None


def gather(
    setting: AuditSetting,
    method: Method,
    *,
    canaries: int = CANARIES,
    runs: int | None = None,
    curve: TradeOff | None = None,
) -> Found:
    """Run the twins and count. Raises InvalidValue for a method that cannot audit this claim.

    canaries  of one run; of systems that answer queries, as many as these are asked about, and no fewer are taken
    runs      with the target, and as many without; half as many of both again choose the threshold
    curve     of the claim, for the choice of the threshold
    """
    possible = methods(setting.system, setting.claim)
    if method not in possible:
        expected = f"one of {', '.join(possible)}" if possible else "nothing"
        remedy = f"{setting.system.name} under {setting.claim.adjacency} offers no other way to be audited."
        raise checks.InvalidValue("method", method, expected, remedy)
    check_sizes(canaries, runs)
    started = time.perf_counter()
    if method != "multi-run":
        found = _one_run(setting, method, canaries)
    elif isinstance(setting.system, Auditable):
        found = _neighbours(setting, setting.system, RUNS if runs is None else runs, curve)
    else:
        found = _one_canary(setting, RUNS_OF_SLOW if runs is None else runs, curve)
    return replace(found, seconds=time.perf_counter() - started)


def check_sizes(canaries: int, runs: int | None) -> None:
    """Raises InvalidValue for numbers from which nothing could follow."""
    checks.count(minimum=10, canaries=canaries)
    if runs is not None:
        checks.count(minimum=10, runs=runs)


# One run, many canaries.


def _one_run(setting: AuditSetting, method: Method, canaries: int) -> Found:
    if isinstance(setting.system, CanaryTrained):
        coins = toss(canaries, setting.rng)
        scores, threat = gradient_scores(setting, setting.system, coins, 1), ThreatModel.EVERY_UPDATE
        design = f"{canaries} {_canaries(setting)}; the attacker reads every noisy update"
    else:
        planted = _mislabelled(setting, canaries)
        coins = toss(len(planted), setting.rng)
        scores, threat = {"": _inserted_scores(setting, planted, coins, 1)}, ThreatModel.BLACK_BOX
        design = f"{len(planted)} validation records with wrong labels; the attacker asks what is predicted for them"
    calls = _calls(setting, len(coins))
    every = [replace(guess(one, coins, *calls), tried=len(scores)) for one in scores.values()]
    # Both scores are paid for, so the coins may choose between them.
    best = max(every, key=lambda one: one.correct)
    evidence: Evidence = OneRunFDP(observed=best) if method == "f-dp" else OneRun(observed=best)
    return Found(audit=_audit(setting, evidence, threat), design=design, reads_records=True, trainings=1)


def _calls(setting: AuditSetting, canaries: int) -> tuple[int, int]:
    """How many are called in and how many out: from the plan alone, before any coin is looked at.

    A canary that no batch drew looks like one that is not there. Where the plan leaves many of them unseen, none is
    called out, and no more are called in than are likely to be seen.
    """
    from trainables.measures.canaries import chance_unseen

    count = max(1, int(canaries * GUESSED))
    if not isinstance(setting.system, CanaryTrained) or setting.replaced:
        return count, count
    unseen = chance_unseen(setting.plan, setting.steps)
    if unseen <= UNSEEN:
        return count, count
    return max(1, min(2 * count, int(0.45 * (1 - unseen) * canaries))), 0


def gradient_scores(
    setting: AuditSetting, system: CanaryTrained, coins: NDArray[np.bool_], number: int
) -> dict[str, Scores]:
    """Scores of gradient canaries, of which `coins` [M] puts some into twin `number`; under replace-one it puts the
    opposite of the others."""
    from trainables.measures.canaries import Watched, check, draw_signs, planted

    check(setting.plan)
    clip_norm, divisor = system.canary_scale(setting.plan, setting.data.facts)
    run = Watched.of(
        setting.plan,
        number,
        setting.secret,
        setting.to_step,
        signs=draw_signs(len(coins), setting.rng),
        clip_norm=clip_norm,
        divisor=divisor,
        replaced=setting.replaced,
    )
    data = planted(setting.data, coins, setting.rng, replaced=run.replaced)
    setting.system.fit([run], data, setting.execution)
    return run.scores()


def _canaries(setting: AuditSetting) -> str:
    each = setting.data.facts.unit_records
    whole = "" if setting.data.units is None else f", each a {setting.claim.unit} of {each} equal records"
    return "canaries in gradient space" + whole + (", each one way or the opposite" if setting.replaced else "")


def _mislabelled(setting: AuditSetting, canaries: int) -> Split:
    """Validation records, which are public, with another label each; at most as many as can be asked about."""
    facts, validation = setting.data.facts, setting.data.validation
    limit = len(validation)
    if isinstance(setting.system, Answering):
        if canaries < setting.steps:
            expected = f"at least {setting.steps}, the queries of this trial: each is answered for a canary"
            raise checks.InvalidValue("canaries", canaries, expected, "Take as many, or audit by many runs.")
        limit = min(limit, setting.steps)
    if not limit or facts.classes is None or facts.target_shape:
        raise checks.InvalidValue("data", facts.dataset, "validation records with classes, to make canaries of")
    chosen = setting.rng.permutation(len(validation))[: min(canaries, limit)]
    labels = validation.targets[chosen]
    shift = setting.rng.integers(1, facts.classes, len(chosen))
    moved = (labels.astype(np.int64) + shift) % facts.classes
    return Split({name: array[chosen] for name, array in validation.inputs.items()}, moved.astype(labels.dtype))


def _inserted_scores(setting: AuditSetting, canaries: Split, coins: NDArray[np.bool_], number: int) -> Scores:
    """Scores of records, of which `coins` puts some into the training data of twin `number`."""
    system, plan = setting.system, setting.plan
    data = replace(setting.data, train=records.joined(setting.data.train, records.taken(canaries, coins)))
    if isinstance(system, Answering):
        # All canaries are the queries.
        plan, data = system.without_its_attack(plan), replace(data, validation=canaries)
    run = Twin.of(plan, number, setting.secret, setting.to_step)
    setting.system.fit([run], data, setting.execution)
    if isinstance(system, Scored):
        return system.membership_scores(plan, data.facts, run.outcome(), canaries)
    return answer_scores(run.outcome(), canaries)


def answer_scores(released: State, queried: Split) -> Scores:
    """[len(queried)]: 1 where the answer was the record's own label, 0 where another was, 1/2 where none was asked."""
    scores = np.full(len(queried), 0.5)
    asked = released["asked"]
    scores[asked] = released["labels"] == queried.targets[asked]
    return scores


# Many runs, one target.


def _neighbours(setting: AuditSetting, system: Auditable, runs: int, curve: TradeOff | None) -> Found:
    pair, numbers = system.neighbours(setting.plan, setting.data.facts), itertools.count(1)

    def both(count: int) -> tuple[Scores, Scores]:
        with_it, without_it = (
            outcomes(setting, data, count, pair.score, numbers) for data in (pair.with_it, pair.without_it)
        )
        return with_it, without_it

    black_box = isinstance(setting.system, Answering)
    threat = ThreatModel.BLACK_BOX if black_box else ThreatModel.FINAL_MODEL
    return _counted(setting, both, runs, curve, threat, pair.doc, reads_records=False)


def outcomes(setting: AuditSetting, data: Dataset, runs: int, read: Reader, numbers: Iterator[int]) -> Scores:
    """`read` of what each of `runs` independent twins on `data` released; shape [runs].

    numbers  of the twins: those of different numbers share no noise under one secret
    """
    read_off: list[float] = []
    while (more := min(runs - len(read_off), _TOGETHER)) > 0:
        several = [setting.twin(next(numbers)) for _ in range(more)]
        # One call for several: systems that differ in noise alone train once for all of them.
        setting.system.fit(several, data, setting.execution)
        read_off += [read(one.outcome()) for one in several]
    return np.array(read_off, dtype=np.float64)


def _one_canary(setting: AuditSetting, runs: int, curve: TradeOff | None) -> Found:
    numbers, system = itertools.count(1), setting.system
    if isinstance(system, CanaryTrained):
        threat = ThreatModel.EVERY_UPDATE
        design = f"one of the {_canaries(setting)}; the attacker reads every noisy update"
    else:
        threat, planted = ThreatModel.BLACK_BOX, _mislabelled(setting, 1)
        design = "one validation record with a wrong label; the attacker asks what is predicted for it"

    def score(included: bool) -> float:
        coin, number = np.array([included]), next(numbers)
        if isinstance(system, CanaryTrained):
            return float(gradient_scores(setting, system, coin, number)["likelihood ratio"][0])
        return float(_inserted_scores(setting, planted, coin, number)[0])

    def both(count: int) -> tuple[Scores, Scores]:
        found = np.array([[score(True), score(False)] for _ in range(count)])
        return found[:, 0], found[:, 1]

    return _counted(setting, both, runs, curve, threat, design, reads_records=True)


def _counted(
    setting: AuditSetting,
    both: Callable[[int], tuple[Scores, Scores]],
    runs: int,
    curve: TradeOff | None,
    threat: ThreatModel,
    design: str,
    *,
    reads_records: bool,
) -> Found:
    calibration = max(5, int(runs * CALIBRATION))
    threshold = choose_threshold_against(
        *both(calibration), claimed(setting.claim, curve), setting.claim.delta, setting.level
    )
    evidence = count_at(*both(runs), threshold)
    return Found(
        audit=_audit(setting, evidence, threat),
        design=design,
        reads_records=reads_records,
        trainings=2 * (runs + calibration),
    )


def _audit(setting: AuditSetting, evidence: Evidence, threat: ThreatModel) -> Audit:
    claim = setting.claim
    return Audit(evidence=evidence, threat_model=threat, adjacency=claim.adjacency, unit=claim.unit, delta=claim.delta)


# What membership attacks gain on a trial's own training records, from scores that the trial's release gives them.
#
# The threshold attack of Yeom, Giacomelli, Fredrikson & Jha (2018): the members' loss is the attacker's score and the
# mean training loss its threshold; where labels alone are released, a right label is what it sees.
#
# The likelihood-ratio attack of Carlini, Chien, Nasr, Song, Terzis & Tramer (2022), Algorithm 1, on twins of a trial:
# shadow twins, each on a random half of the records, and one more. The attacked model is the last twin, so that its
# members are known and the trial's own release stays as it was; beside it the threshold attack.


def threshold_attack(
    system: System, member: TrialRun, state: State, data: Dataset, execution: RunSettings
) -> Mapping[str, float]:
    """All four metrics of a finished run, on equally many members and non-members, with their standard errors.

    For a system that answers, a twin with noise of its own is asked about training and validation records in turn,
    since the trial itself was asked about no training record.
    """
    members, others, threshold = (
        _of_model(system, member, state, data)
        if isinstance(system, Scored)
        else _of_answers(system, member, data, execution)
    )
    right, scores = np.repeat([True, False], [len(members), len(others)]), np.concatenate([members, others])
    found: dict[str, float] = {}
    for name, value in _VALUES.items():

        def of(right: NDArray[np.generic], scores: Scores, value: _Value = value) -> float:
            return value(scores[right.astype(bool)], scores[~right.astype(bool)], threshold)

        found[name] = of(right, scores)
        # Both are in a random order: each part has members and others. Units are refused: no two records are alike.
        found[name + STANDARD_ERROR] = jackknife_error(of, right, scores, alike=1)
    return {name: one for name, one in found.items() if math.isfinite(one)}


_Value = Callable[[Scores, Scores, float], float]
_VALUES: Mapping[str, _Value] = {
    "membership_auc": lambda members, others, threshold: auc(members, others),
    "membership_accuracy": lambda members, others, threshold: decide(members, others, threshold).accuracy,
    "membership_f1": lambda members, others, threshold: decide(members, others, threshold).f1,
    "priv_leak": lambda members, others, threshold: decide(members, others, threshold).advantage,
}


def _of_model(system: Scored, member: TrialRun, state: State, data: Dataset) -> tuple[Scores, Scores, float]:
    plan, facts = member.plan, data.facts
    scores = system.membership_scores(plan, facts, state, data.train)
    others = system.membership_scores(plan, facts, state, data.validation)
    rng, count = np.random.default_rng(member.seed), min(len(scores), len(others))
    threshold = mean_training_loss_threshold(-scores)
    return rng.permutation(scores)[:count], rng.permutation(others)[:count], threshold


def _of_answers(
    system: System, member: TrialRun, data: Dataset, execution: RunSettings
) -> tuple[Scores, Scores, float]:
    count = min(member.to_step // 2, len(data.train), len(data.validation))
    if not isinstance(system, Answering) or count < 1:
        raise checks.InvalidValue("queries", member.to_step, "at least 2, for one member and one other record")
    rng = np.random.default_rng(member.seed)
    asked = (records.taken(split, rng.permutation(len(split))[:count]) for split in (data.train, data.validation))
    queried = records.joined(*asked)
    # Every query is asked: the plan's number of answers is at least that of these records.
    run = Twin.of(system.without_its_attack(member.plan), 1, fresh_secret(), 2 * count)
    system.fit([run], replace(data, validation=queried), execution)
    scores = answer_scores(run.outcome(), queried)
    return scores[:count], scores[count:], 0.75


FPRS = (0.001, 0.01, 0.1)
SHARED_BELOW = 64
"""Shadows with, or without, a record below which all records share one variance, as in the publication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """How well one attack tells the twin's members from the other records.

    accuracy, f1  at the attack's own threshold: the mean training loss, or as likely in as out; None where it has none
    tpr_at        {false positive rate: true positive rate}
    """

    name: str
    auc: float
    tpr_at: dict[float, float]
    accuracy: float | None
    f1: float | None
    members: int
    others: int


def likelihood_ratio_attack(setting: AuditSetting, shadows: int) -> tuple[Attacked, ...]:
    """LiRA online and offline, and the loss threshold, from `shadows` twins (even) and an attacked one.

    Raises InvalidValue as `check_shadows`.
    """
    check_shadows(setting.system, setting.claim, shadows)
    count = len(setting.data.train)
    inside = balanced_splits(count, shadows, setting.rng)
    target_inside = setting.rng.random(count) < 0.5
    losses = np.stack([_minus_losses(setting, rows, number) for number, rows in enumerate([*inside, target_inside], 1)])
    # log(p / (1 - p)) of the probability p = exp(-loss); finite where p rounds to 0 or 1.
    clipped = np.clip(-losses, 1e-15, 700.0)
    confidences = -clipped - np.log(-np.expm1(-clipped))
    variance: Literal["shared", "per-example"] = "shared" if shadows // 2 < SHARED_BELOW else "per-example"
    online = attacks.lira_online(confidences[-1], confidences[:-1], inside, variance=variance)
    offline = attacks.lira_offline(confidences[-1], confidences[:-1], ~inside, variance=variance)
    threshold = mean_training_loss_threshold(-losses[-1][target_inside])
    return (
        _attacked("LiRA online", online, target_inside, 0.0),
        _attacked("LiRA offline", offline, target_inside, None),
        _attacked("loss threshold", losses[-1], target_inside, threshold),
    )


def check_shadows(system: System, claim: Guarantee, shadows: int) -> None:
    """Raises InvalidValue where the release says nothing about single records, or where records cannot be left out."""
    if claim.unit != RECORD:
        expected = f"none: members are single records, and the claim is per {claim.unit}"
        raise checks.InvalidValue("shadows", shadows, expected, "Audit it with canaries, which are whole units.")
    if not isinstance(system, Scored):
        raise checks.InvalidValue("shadows", shadows, "a system that releases a model", f"{system.name} does not.")
    # Systems that sample for themselves take whoever is there; the others are exact about n.
    if claim.adjacency is not Adjacency.ADD_REMOVE and not isinstance(system, CanaryTrained):
        expected = f"add-remove: under replace-one {system.name} lets no record be left out of a twin"
        raise checks.InvalidValue("adjacency", str(claim.adjacency), expected)
    checks.count(minimum=4, shadows=shadows)
    if shadows % 2:
        expected = "an even number: each record is in one half of the shadows"
        raise checks.InvalidValue("shadows", shadows, expected)


def _minus_losses(setting: AuditSetting, rows: NDArray[np.bool_], number: int) -> Scores:
    """Scores of all records under twin `number`, trained on those that `rows` marks."""
    run = setting.twin(number)
    # The public n stays: it is a constant that neighbours share.
    part = replace(setting.data, train=records.taken(setting.data.train, np.flatnonzero(rows)))
    setting.system.fit([run], part, setting.execution)
    assert isinstance(setting.system, Scored)
    return setting.system.membership_scores(setting.plan, setting.data.facts, run.outcome(), setting.data.train)


def _attacked(name: str, scores: Scores, inside: NDArray[np.bool_], threshold: float | None) -> Attacked:
    members, others = scores[inside], scores[~inside]
    decisions = None if threshold is None else decide(members, others, threshold)
    return Attacked(
        name=name,
        auc=auc(members, others),
        tpr_at={fpr: tpr_at_fpr(members, others, fpr) for fpr in FPRS},
        accuracy=None if decisions is None else decisions.accuracy,
        f1=None if decisions is None else decisions.f1,
        members=len(members),
        others=len(others),
    )
