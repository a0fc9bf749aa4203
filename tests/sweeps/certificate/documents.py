"""Certificates made by hand: one of each mode, whose numbers are recomputed elsewhere (private_search goldens)."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpcore.accounting import headline
from dpcore.calibrate import Target
from dpcore.events import Adjacency, Composed, Gaussian, PoissonSampled, Repeated
from dpcore.guarantee import Guarantee, Notion, Status
from dpcore.selection.best import HeterogeneousTrials
from dpcore.selection.counts import geometric
from dpcore.selection.filters import GDPCharge, RenyiCharge
from dpcore.selection.front import FrontPoints
from dpcore.selection.ladder import Climbing
from dpcore.selection.profiles import EventProfile, covering_mu
from sweeps.certificate import document
from sweeps.certificate.build import mode_of
from sweeps.certificate.document import Approval, Body, HashSplit, HoldoutBody, Signature, written
from sweeps.certificate.modes import (
    ComposedTrials,
    Filtered,
    LedgerRow,
    Part,
    PlannedTrial,
    Profile,
    Statement,
    TrialAlone,
    released_by,
)
from sweeps.certificate.signing import key_text, signed
from sweeps.certificate.verify import recomputed, verify
from sweeps.privacy.charge import TOLERANCE, LaunchCharge
from sweeps.privacy.ledger import Tuned, both
from trainables.metrics import Scalarisation

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ADD_REMOVE = Adjacency.ADD_REMOVE
DELTA = 1e-5
NOTHING = Composed()
AT = "2026-01-02T03:04:05Z"
APPROVAL = Approval(by="Ada", because="the board of the hospital", ranges="from the paper, on no data", at=AT)
UNDER_ASSUMPTIONS = Status.PROVED_UNDER_ASSUMPTIONS


def steps(noise: float, count: int = 200, rate: float = 0.01) -> Repeated:
    return Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), count=count)


def planned(number: int, noise: float, count: int = 200, **changes) -> PlannedTrial:
    """A plan of `count` noisy steps."""
    made = PlannedTrial(
        trial=f"hand-{number}",
        system="noisy-sgd",
        publication="Abadi et al. (2016)",
        mechanism="Poisson-sampled noisy gradients",
        hyperparameters={"learning_rate": 0.5, "noise_multiplier": noise, "momentum": True},
        solved=("noise_multiplier",),
        status=Status.PROVED,
        steps=count,
        training=steps(noise, count),
        reports=NOTHING,
        reported_after=(),
        parts="",
    )
    return made.model_copy(update=changes)


def row(plan: PlannedTrial, **changes) -> LedgerRow:
    whole = {"trial": plan.trial, "attempt": 1, "from_step": 0, "to_step": plan.steps, "charged_to": plan.steps}
    return LedgerRow(**{**whole, **changes})


def claim(epsilon: float, accountant: str, status=Status.PROVED, notion=Notion.DP) -> Guarantee:
    return Guarantee(
        notion=notion, epsilon=epsilon, delta=DELTA, adjacency=ADD_REMOVE, accountant=accountant, status=status,
        theorem="a theorem", assumptions=("floating-point: not covered",),
    )  # fmt: skip


def body(mode, claim: Guarantee, ledger=(), name="hand") -> Body:
    ran = sum(one.charged_to - one.from_step for one in ledger)
    made = Body(
        title=mode.title(name),
        covers=mode.covers(name),
        claim=claim,
        mode=mode,
        sweep=document.CertifiedSweep(name=name, digest="ab12", state="finished", began="2026-01-01T00:00:00Z"),
        released=document.ReleaseTerms(artefact="metrics", intermediates="not hidden", trust="central", heading=""),
        accesses=document.Accesses(
            training=None if mode.sealed else len(ledger),
            steps=None if mode.sealed else ran,
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
            contributions=1,
            fingerprint="cd",
            public_because="",
            public_inputs=("file: weights.pt",),
            declared=("10 classes",),
            part=None,
            chosen=None,
        ),
        searched=document.Searched(
            sampler="random",
            trials=3,
            ranges={"noisy-sgd": {"learning_rate": {"uniform": [0, 1]}, "epochs": 2}},
            fixed_points=0,
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
            code="ef", code_now="ef", accepted=("another code (ada@here, then)",), versions={"python": "3.11"}
        ),
        approval=APPROVAL,
        audits=(
            document.CertifiedAudit(
                trial="hand-0", system="noisy-sgd", method="one-run", outcome="consistent", said="at level 0.025"
            ),
        ),
        ledger=tuple(ledger),
        not_covered=("Running time.",),
        attested=(*mode.attested, "That what ran is what was planned."),
    )
    return document.parsed(written(made))


def composed(plans, ledger, tests=NOTHING, scope="trial", name="hand") -> Body:
    """The honest arithmetic of whatever launches."""
    parts = released_by(plans, ledger, tests, True)
    found, _ = parts.claim(DELTA, ADD_REMOVE, "record")
    mode = ComposedTrials(
        scope=scope, budget=None, delta=DELTA, trials=tuple(plans), tests=tests, tests_apart=True,
        profile=Profile.of(parts.together(ADD_REMOVE), found),
    )  # fmt: skip
    return body(mode, found, ledger, name)


def composition() -> Body:
    """Two trials, one of them launched twice, with private reports in parallel and one reading of test records."""
    reports = {"reports": Gaussian(noise_multiplier=8.0), "reported_after": (200,), "parts": "a hash of id"}
    plans = [planned(number, noise, **reports) for number, noise in enumerate((1.1, 2.0))]
    rows = (row(plans[0]), row(plans[1]), row(plans[1], attempt=3, from_step=150))
    return composed(plans, rows, Gaussian(noise_multiplier=9.0))


def one_trial() -> Body:
    plan = planned(0, 1.0, 1000)
    found = headline(plan.training, DELTA, ADD_REMOVE)
    return body(TrialAlone.of(plan, found), found, (row(plan),))


def statement(status=Status.AVERAGE_CASE) -> Body:
    plan = planned(0, 1.0, status=status)
    return body(Statement(trials=(plan,)), claim(0.4, "bayesian", status, Notion.BAYESIAN_DP), (row(plan),))


def filtered() -> Body:
    """Two launches chosen after looking, one of them of Gaussians alone, within the budget (3, 1e-5)."""
    releases = Repeated(event=Gaussian(noise_multiplier=20.0), count=4)
    plans = (planned(0, 1.617, 1000), planned(1, 2.0, 4, training=releases))
    covering = covering_mu(EventProfile(plans[0].training, ADD_REMOVE), 1e-7, TOLERANCE)
    charges = (GDPCharge(covering, 1e-7), GDPCharge(0.1 * (1 + 1e-12)))
    mode = Filtered(trials=plans, order=None, charges=tuple(LaunchCharge(one, None) for one in charges))
    return body(mode, claim(3.0, "gdp-filter"), list(map(row, plans)))


def renyi() -> Body:
    """One launch under the filter at order 8, its reports in a filter of their own."""
    reports = {"reports": Gaussian(noise_multiplier=9.0), "reported_after": (1000,), "parts": "a hash of id"}
    plan = planned(0, 1.617, 1000, **reports)
    parts = [
        RenyiCharge(float(EventProfile(one, ADD_REMOVE).renyi((8.0,))[0])) for one in (plan.training, plan.reports)
    ]
    mode = Filtered(trials=(plan,), order=8.0, charges=(LaunchCharge(*parts, "a hash of id"),))
    return body(mode, claim(3.0, "renyi-filter"), (row(plan),))


E1, D1 = 0.4903021270520951, 0.024338825436296358
"""Of a reference configuration with q .01, T 1000 under geometric K of mean 27 at (3, 1e-5)."""


def search(points, winners, epsilon=3.0, notion=Notion.DP, **told) -> Body:
    winners = tuple(one.model_copy(update={"status": UNDER_ASSUMPTIONS}) for one in winners)
    mode = mode_of(points, "geometric", winners, **told)
    return body(mode, claim(epsilon, "private-selection", UNDER_ASSUMPTIONS, notion))


def best(*winners) -> Body:
    """A golden of private_search.md: geometric K of mean 27, total (3, 1e-5), q .01, T 1000: sigma 1.053."""
    return search(HeterogeneousTrials(law=geometric(27.0), epsilon=3.0, delta=DELTA, e1=E1, d1=D1), winners)


def released_once(number: int, noise: float) -> PlannedTrial:
    return planned(number, noise, 1, training=Gaussian(noise_multiplier=noise))


@cache
def ladder(noises):
    climbing = Climbing(law=geometric(108.0), weights=(1 / len(noises),) * len(noises), delta=DELTA)
    epsilons = []
    for noise in noises:
        trial = EventProfile(Gaussian(noise_multiplier=noise))
        epsilons.append(climbing.price(trial) * (1 + 1e-9))
        climbing = climbing.with_rung(trial)
    return climbing.points(epsilons)


def first(ended: int | None = 3, noises=(8.0, 4.0, 2.0, 1.0)) -> Body:
    """A ladder of Gaussian noise, the cheapest budget first, with geometric K of mean 108."""
    points = ladder(noises)
    won = () if ended is None else (released_once(0, noises[ended - 1]),)
    budget = None if ended is None else points.epsilons[ended - 1]
    notion = Notion.EX_POST if won and len(noises) > 1 else Notion.DP
    return search(points, won, budget or points.epsilon, notion, target="accuracy of at least 0.9", budget=budget)


def front(*winners) -> Body:
    """Two orders, geometric K of mean 27 at (3, 1e-5)."""
    orders = [Scalarisation(one) for one in ((("accuracy", 1.0),), (("accuracy", 0.5), ("loss", -2.0)))]
    points = FrontPoints.solved(geometric(27.0), 2, Target(epsilon=3.0, delta=DELTA))
    return search(points, winners, orders=orders)


MADE = {
    "composition": composition,
    "trial": one_trial,
    "statement": statement,
    "filter": filtered,
    "renyi": renyi,
    "best": lambda: best(planned(0, 1.0527, 1000)),
    "first": first,
    # Two winners, one just covered, one by far.
    "front": lambda: front(released_once(0, 3.82), released_once(1, 9.0)),
    "none of best": best,
    "none of first": lambda: first(None),
    "none of front": front,
}
TOTALS = [mode for mode in MADE if mode not in ("trial", "statement")]


# -- a holdout: a sweep that tuned, of each kind, and one final run ----------------------------------------------

SPLIT = HashSplit(use="tuning", share=0.2, id="person_id", key="tuning")
TARGET = document.FinalTarget(epsilon=2.0, delta=DELTA)


def final_run(*launches) -> Body:
    """One trial of q .01, T 1000 and sigma 1, whose epsilon is 1.828 (private_search.md, D1).

    launches  rows of the ledger; one of the whole plan where none are given
    """
    plan = planned(7, 1.0, 1000)
    made = composed([plan], launches or (row(plan),), scope="holdout", name="last")
    chosen = document.ChosenPoint(sweep="hand", trial="hand-1", records="cd")
    part = SPLIT.model_copy(update={"use": "final"})
    return within(made, "provenance", fingerprint="0f", part=part, chosen=chosen)


def holdout(tuning: Body | None = None, *launches) -> HoldoutBody:
    """Of two trials that tuned and a final run at the target (2, 1e-5)."""
    tuned = within(composition() if tuning is None else tuning, "provenance", part=SPLIT)
    last = final_run(*launches)
    cost = Tuned(claim=tuned.mode.promised(tuned.claim), target=TARGET.epsilon, delta=TARGET.delta)
    whole = both(cost, last.claim, len(last.ledger))
    made = HoldoutBody(
        title="both", covers="both", claim=whole, target=TARGET, tuning=tuned, final=last, attested=("The split.",)
    )
    return document.parsed(written(made))


# -- changes, and what verification says of them -----------------------------------------------------------------


def within(made, where: str, **changes):
    """The document with other values in one of its rows."""
    old = getattr(made, where)
    new = old.model_copy(update=changes) if isinstance(old, Part) else replace(old, **changes)
    return made.model_copy(update={where: new})


def signature_of(data: bytes, key: Ed25519PrivateKey = KEY) -> bytes:
    return written(Signature(key=key_text(key.public_key()), value=signed(key, data)))


def verified(made, key: Ed25519PrivateKey = KEY):
    """What verification says of a document, or of its plain values, signed by its operator: a lying one, if need be."""
    data = json.dumps(made).encode() if isinstance(made, dict) else written(made)
    return verify(data, signature_of(data, key), KEY.public_key())


def wrong(made) -> list[str]:
    """What fails in a document that its operator signed, as anybody reads it."""
    return [one.what for one in recomputed(document.parsed(written(made))) if not one.held]
