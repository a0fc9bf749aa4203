"""Certificates made by hand: one of each mode, whose numbers are recomputed elsewhere (private_search goldens)."""

from __future__ import annotations

import math

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpcore.accounting import headline
from dpcore.calibrate import Target
from dpcore.events import Adjacency, ApproximateDP, Composed, Gaussian, PoissonSampled, Repeated
from dpcore.guarantee import Notion, Status
from dpcore.selection import (
    Climbing,
    EventProfile,
    FrontPoints,
    GDPFilter,
    HeterogeneousTrials,
    RenyiFilter,
    covering_mu,
    geometric,
)
from sweeps.certificate import document
from sweeps.certificate.canonical import canonical_bytes
from sweeps.certificate.chain import Chain, LedgerRow
from sweeps.certificate.claimed import Claimed
from sweeps.certificate.document import Body, Signature, Signed, normalised, spelled
from sweeps.certificate.modes import (
    Best,
    ComposedTrials,
    Filtered,
    First,
    OneTrial,
    PricedFront,
    StatedTrial,
)
from sweeps.certificate.modes.composition import released_parts
from sweeps.certificate.modes.filtered import (
    THEOREMS,
    TOLERANCE,
    ChargedLaunch,
    FilterLedger,
    GaussianRule,
    RenyiRule,
)
from sweeps.certificate.modes.first import Rung
from sweeps.certificate.modes.front import WeighedMetric
from sweeps.certificate.modes.laws import TrialsLaw
from sweeps.certificate.modes.plans import PlannedTrial
from sweeps.certificate.modes.profile import Profile
from sweeps.certificate.signing import key_text, signed
from sweeps.certificate.titles import attested, covered, title_of, uncovered
from sweeps.privacy.totals import IN_TIME
from sweeps.selection.law import OF_EVERY_SEARCH, PRIOR, TARGET, of_best, of_first, of_front
from trainables.scalarisation import Scalarisation

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ADD_REMOVE = Adjacency.ADD_REMOVE
DELTA = 1e-5
NOTHING = Composed()
FLOATING = "floating-point: not covered"
SWEPT = document.CertifiedSweep(name="hand", digest="ab12", state="finished", began="2026-01-01T00:00:00Z")
AT = "2026-01-02T03:04:05Z"


def steps(noise: float, count: int = 200, rate: float = 0.01) -> Repeated:
    return Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), count=count)


def planned(number: int, noise: float, count: int = 200, reports=NOTHING, parts="", status=Status.PROVED, rate=0.01):
    return PlannedTrial(
        trial=f"hand-{number}",
        system="noisy-sgd",
        publication="Abadi et al. (2016)",
        mechanism="Poisson-sampled noisy gradients",
        hyperparameters={"learning_rate": 0.5, "noise_multiplier": noise, "momentum": True},
        solved=("noise_multiplier",),
        status=status,
        steps=count,
        training=steps(noise, count, rate),
        reports=reports,
        reported_after=() if reports is NOTHING else (count,),
        parts=parts,
    )


def row(plan: PlannedTrial, **changes):
    whole = {"trial": plan.trial, "attempt": 1, "from_step": 0, "to_step": plan.steps, "charged_to": plan.steps}
    return LedgerRow(**{**whole, "training": plan.training, "reports": plan.reports, **changes})


def claimed(found, mode, **changes) -> Claimed:
    return Claimed(
        covers=covered(mode, SWEPT, AT), notion=found.notion, epsilon=found.epsilon, delta=found.delta,
        adjacency=found.adjacency, unit=found.unit, contributions=1, accountant=found.accountant, version="0.1.0",
        status=found.status, theorem=found.theorem, epsilon_lower=found.epsilon_lower,
        assumptions=found.assumptions, **changes,
    )  # fmt: skip


def body(mode, claim: Claimed, rows) -> Body:
    made = Body(
        format="private-sweeps certificate 1",
        title=title_of(mode, claim, "", "hand"),
        claim=claim,
        mode=mode,
        sweep=SWEPT,
        released=document.ReleaseTerms(artefact="metrics", intermediates="not hidden", trust="central", heading=""),
        accesses=document.Accesses(
            training=None if mode.sealed else len(rows),
            steps=None if mode.sealed else sum(one.charged_to - one.from_step for one in rows),
            tuning="random",
            validation="public",
            tests=("hand-1: .9",),
            audits=("audit 1",),
            population=("none is declared",),
        ),
        provenance=document.Provenance(
            source="digits",
            records=1000,
            validation_records=0,
            counted="records",
            fingerprint="cd",
            public_because="",
            public_inputs=("file: weights.pt",),
            declared=("10 classes",),
        ),
        searched=document.Searched(
            sampler="random",
            trials=3,
            ranges={"noisy-sgd": {"learning_rate": {"uniform": [0, 1]}, "epochs": 2}},
            fixed_points=0,
            how_chosen="from the paper, on no data",
        ),
        accuracy=document.Accuracy(
            groups="région",
            metrics=(
                document.Measured(trial="hand-0", metric="accuracy", value=0.93, quote="may be quoted"),
                document.Measured(trial="hand-1", metric="worst_group_accuracy", value=None, quote="may be quoted"),
            ),
        ),
        random=("secure",),
        software=document.Software(
            code="ef",
            code_now="ef",
            accepted=("another code (ab became ef) (ada@here, then)",),
            versions={"python": "3.11"},
        ),
        approval=document.Approval(by="Ada", because="the board of the hospital", at=AT),
        audits=(
            document.CertifiedAudit(
                trial="hand-0", system="noisy-sgd", method="one-run", outcome="consistent", said="at level 0.025"
            ),
        ),
        ledger=Chain.of("hand ab12", rows),
        not_covered=uncovered(mode),
        attested=attested(mode),
    )
    return normalised(made)


def composition() -> Body:
    """Two trials, one of them launched twice, with private reports in parallel and one reading of test records."""
    reports = Gaussian(noise_multiplier=8.0)
    plans = tuple(planned(i, noise, reports=reports, parts="a hash of id") for i, noise in enumerate((1.1, 2.0)))
    lost = row(plans[1], attempt=2, from_step=150, training=steps(2.0, 50))
    rows, tests = (row(plans[0]), row(plans[1]), lost), Gaussian(noise_multiplier=9.0)
    parts = released_parts(plans, rows, tests, True)
    found, _ = parts.claim(DELTA, ADD_REMOVE, "record")
    profile = Profile.of(parts.together(ADD_REMOVE), ADD_REMOVE, found.epsilon, found.delta)
    mode = ComposedTrials(
        mode="composition", scope="trial", release="all", budget=None, delta=DELTA, trials=plans, tests=tests,
        tests_apart=True, profile=profile,
    )  # fmt: skip
    return body(mode, claimed(found, mode), rows)


def one_trial() -> Body:
    plan = planned(0, 1.0, 1000)
    found = headline(plan.training, DELTA, ADD_REMOVE)
    mode = OneTrial(
        mode="trial", trial=plan, headline=True, profile=Profile.of((plan.training,), ADD_REMOVE, found.epsilon, DELTA)
    )
    return body(mode, claimed(found, mode), (row(plan),))


def statement(status=Status.AVERAGE_CASE) -> Body:
    plan = planned(0, 1.0, status=status)
    mode = StatedTrial(mode="statement", trial=plan)
    claim = Claimed(
        covers=covered(mode, SWEPT, AT), notion=Notion.BAYESIAN_DP, epsilon=0.4, delta=DELTA, adjacency=ADD_REMOVE,
        unit="record", contributions=1, accountant="bayesian", version="0.1.0", status=status, theorem="an estimate",
        epsilon_lower=None, assumptions=(FLOATING,),
    )  # fmt: skip
    return body(mode, claim, (row(plan),))


def filtered() -> Body:
    """Two launches chosen after looking, one of them of Gaussians alone, within the budget (3, 1e-5)."""
    releases = Repeated(event=Gaussian(noise_multiplier=20.0), count=4)
    plans = (planned(0, 1.617, 1000), planned(1, 2.0, 4).model_copy(update={"training": releases}))
    empty, tau = GDPFilter(epsilon=3.0, delta=DELTA, tau_share=0.1), 1e-7
    covering = covering_mu(EventProfile(plans[0].training, ADD_REMOVE), tau, TOLERANCE)
    charges = (
        ChargedLaunch(trial="hand-0", attempt=1, amount=covering, tau=tau),
        ChargedLaunch(trial="hand-1", attempt=1, amount=0.1 * (1 + 1e-12), tau=0.0),
    )
    ledger = FilterLedger(part="both", charges=charges, sum=math.fsum(one.amount**2 for one in charges), taus=tau)
    rule = GaussianRule(kind="gdp", tau_share=0.1, mu_total=empty.mu_total, tau_total=empty.tau_total)
    return _under(rule, ledger, plans)


def renyi() -> Body:
    """One launch under the filter at order 8."""
    plan, order = planned(0, 1.617, 1000), 8.0
    amount = float(EventProfile(plan.training, ADD_REMOVE).renyi((order,))[0])
    charge = ChargedLaunch(trial="hand-0", attempt=1, amount=amount, tau=0.0)
    ledger = FilterLedger(part="both", charges=(charge,), sum=amount, taus=0.0)
    budget = RenyiFilter(epsilon=3.0, delta=DELTA, order=order).budget
    return _under(RenyiRule(kind="renyi", order=order, budget=budget), ledger, (plan,))


def _under(rule, ledger, plans) -> Body:
    mode = Filtered(mode="filter", scope="sweep", release="all", trials=plans, rule=rule, ledgers=(ledger,))
    claim = Claimed(
        covers=covered(mode, SWEPT, AT), notion=Notion.DP, epsilon=3.0, delta=DELTA, adjacency=ADD_REMOVE,
        unit="record", contributions=1, accountant=f"{rule.kind}-filter", version="0.1.0", status=Status.PROVED,
        theorem=THEOREMS[rule.kind], epsilon_lower=None, assumptions=(FLOATING, IN_TIME),
    )  # fmt: skip
    return body(mode, claim, [row(plan) for plan in plans])


E1, D1 = 0.4903021270520951, 0.024338825436296358
"""Of a reference configuration with q .01, T 1000 under geometric K of mean 27 at (3, 1e-5)."""


def best() -> Body:
    """A golden of private_search.md: geometric K of mean 27, total (3, 1e-5), q .01, T 1000: sigma 1.053."""
    winner = planned(0, 1.0527, 1000, status=Status.PROVED_UNDER_ASSUMPTIONS)
    law = geometric(27.0)
    rule = HeterogeneousTrials(law=law, epsilon=3.0, delta=DELTA, e1=E1, d1=D1)
    mode = Best(
        mode="best", scope="sweep", release="best", law=TrialsLaw.of(law), named="geometric, mean 27",
        e1=rule.e1, d1=rule.d1, penalty=rule.penalty, e_hat=rule.e_hat, d_hat=rule.d_hat, winner=winner,
    )  # fmt: skip
    claim = Claimed(
        covers=covered(mode, SWEPT, AT), notion=Notion.DP, epsilon=3.0, delta=DELTA, adjacency=ADD_REMOVE,
        unit="record", contributions=1, accountant="private-selection", version="0.1.0", theorem=of_best(mode.named),
        status=Status.PROVED_UNDER_ASSUMPTIONS, epsilon_lower=None, assumptions=(FLOATING, *OF_EVERY_SEARCH, PRIOR),
    )  # fmt: skip
    return body(mode, claim, (sealed(3.0, DELTA),))


def first(ended=3, noises=(8.0, 4.0, 2.0, 1.0)) -> Body:
    """A ladder of Gaussian noise, the cheapest budget first, with geometric K of mean 108."""
    law, climbing = (
        geometric(108.0),
        Climbing(law=geometric(108.0), weights=(1 / len(noises),) * len(noises), delta=DELTA),
    )
    epsilons = []
    for noise in noises:
        trial = EventProfile(Gaussian(noise_multiplier=noise))
        epsilons.append(climbing.price(trial) * (1 + 1e-9))
        climbing = climbing.with_rung(trial)
    rule = climbing.points(epsilons)
    own = {"training": Gaussian(noise_multiplier=noises[ended - 1])}
    won = planned(0, 1.0, 1, status=Status.PROVED_UNDER_ASSUMPTIONS).model_copy(update=own)
    rungs = zip(rule.epsilons, rule.weights, rule.shifts, rule.deltas, strict=True)
    mode = First(
        mode="first", scope="sweep", release="first", law=TrialsLaw.of(law), named="geometric, mean 108",
        target="accuracy of at least 0.9", d_hat=rule.d_hat, failure=rule.failure, ended=ended, ex_ante=rule.epsilon,
        rungs=tuple(Rung(epsilon=e, weight=weight, shift=shift, deltas=row) for e, weight, shift, row in rungs),
        winner=won,
    )  # fmt: skip
    claim = Claimed(
        covers=covered(mode, SWEPT, AT), notion=Notion.DP if len(noises) == 1 else Notion.EX_POST,
        adjacency=ADD_REMOVE, unit="record", contributions=1, epsilon=rule.epsilons[ended - 1], delta=DELTA,
        accountant="private-selection", version="0.1.0", status=Status.PROVED_UNDER_ASSUMPTIONS, epsilon_lower=None,
        theorem=of_first(mode.named, mode.target, len(noises)),
        assumptions=(FLOATING, *OF_EVERY_SEARCH, PRIOR, TARGET),
    )  # fmt: skip
    return body(mode, claim, (sealed(rule.epsilon, DELTA),))


def front() -> Body:
    """Two orders, geometric K of mean 27 at (3, 1e-5), two winners of Gaussian noise: one just covered, one by far."""
    law = geometric(27.0)
    rule = FrontPoints.solved(law, 2, Target(epsilon=3.0, delta=DELTA))
    winners = tuple(
        planned(number, noise, 1, status=Status.PROVED_UNDER_ASSUMPTIONS).model_copy(
            update={"training": Gaussian(noise_multiplier=noise)}
        )
        for number, noise in enumerate((3.82, 9.0))
    )
    orders = (((("accuracy", 1.0),)), (("accuracy", 0.5), ("loss", -2.0)))
    mode = PricedFront(
        mode="front", scope="sweep", release="front", law=TrialsLaw.of(law), named="geometric, mean 27",
        orders=tuple(tuple(WeighedMetric(metric=m, weight=w) for m, w in order) for order in orders),
        mu=rule.mu, tau=rule.tau, shift=rule.shift, winners=winners,
    )  # fmt: skip
    claim = Claimed(
        covers=covered(mode, SWEPT, AT), notion=Notion.DP, epsilon=3.0, delta=DELTA, adjacency=ADD_REMOVE,
        unit="record", contributions=1, accountant="private-selection", version="0.1.0", epsilon_lower=None,
        theorem=of_front(mode.named, [Scalarisation(one) for one in orders]), status=Status.PROVED_UNDER_ASSUMPTIONS,
        assumptions=(FLOATING, *OF_EVERY_SEARCH, PRIOR),
    )  # fmt: skip
    return body(mode, claim, (sealed(3.0, DELTA),))


def of_nothing(made: Body) -> Body:
    """The same search, which released nothing: at the price that was promised, without plans and metrics."""
    own = {"front": {"winners": ()}, "first": {"winner": None, "ended": None}}.get(made.mode.mode, {"winner": None})
    mode = made.mode.model_copy(update=own)
    (row,) = made.ledger.rows
    whole = {"epsilon": row.training.epsilon, "notion": Notion.DP, "covers": covered(mode, SWEPT, AT)}
    claim = made.claim.model_copy(update=whole)
    found = body(mode, claim, (row,))
    none = {"accuracy": found.accuracy.model_copy(update={"metrics": ()}), "searched": made.searched}
    return found.model_copy(update=none)


def sealed(epsilon: float, delta: float) -> LedgerRow:
    spent = ApproximateDP(epsilon=epsilon, delta=delta)
    return LedgerRow(
        trial="sealed search", attempt=1, from_step=0, to_step=1, charged_to=1, training=spent, reports=NOTHING
    )


MADE = {
    "composition": composition,
    "trial": one_trial,
    "statement": statement,
    "filter": filtered,
    "renyi": renyi,
    "best": best,
    "first": first,
    "front": front,
    "none of best": lambda: of_nothing(best()),
    "none of first": lambda: of_nothing(first()),
    "none of front": lambda: of_nothing(front()),
}


def signed_bytes(made: Body, key: Ed25519PrivateKey = KEY) -> bytes:
    content = spelled(made)
    signature = Signature(algorithm="Ed25519", key=key_text(key.public_key()), value=signed(key, content))
    return spelled(Signed(body=made, signature=signature))


def resigned(value: dict, key: Ed25519PrivateKey = KEY) -> bytes:
    """The bytes of a changed document (plain values), signed anew by the same key: what a lying operator would do."""
    content = canonical_bytes(value["body"])
    signature = {"algorithm": "Ed25519", "key": key_text(key.public_key()), "value": signed(key, content)}
    return canonical_bytes({"body": value["body"], "signature": signature})
