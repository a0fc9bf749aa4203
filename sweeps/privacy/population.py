"""One budget for all sweeps over the same people: what is reserved of it, what audits make of it, and its account.

The whole of a sweep is one row of the ledger where its procedure has one fixed budget: a filter's, or that of a sealed
search, whose rows per attempt would tell how many trials it drew. The row is reserved before its first trial and stays,
however little of it was used; only a `first` sweep is settled, by a linear ledger, at the epsilon of the rung that it
released.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from dpcore.checks import InvalidValue
from dpcore.guarantee import Notion, delta_text, epsilon_text
from dpcore.selection.filters import DPCharge, GDPCharge, GDPFilter
from sweeps.privacy.charge import charge_of_event, charge_of_steps, check_terms, repeated
from sweeps.privacy.heldout import DeclaredTest
from sweeps.privacy.ledger import count_text
from sweeps.privacy.release import PublishedStore
from sweeps.spec.sections import FUNCTION, SweepSpec
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.lease import Lease
from sweeps.store.population import (
    AddingRule,
    Charge,
    Population,
    Row,
    RowKind,
    Spent,
    charges_of,
    left,
    public_files,
    spent,
    to_charge,
)
from sweeps.store.records import Refutation, SweepRecord
from sweeps.store.store import Store
from trainables.system import PrivacyPlan

# Audits that refuted a system over a population: what its rows cost is then not known, and it is launched no more.
#
# A row is what a claim says that a launch costs. Where an audit refuted the claim of a system in a sweep, all rows of
# that system in that sweep may have cost more, by nobody knows how much.


def refuted_over(seen: PublishedStore, population: str) -> dict[str, Mapping[str, Refutation]]:
    """{sweep, as it is called: {system: the audit that refuted a claim of it}}, of the sweeps that a ledger charged."""
    charged = {row.sweep for row in seen.charges(population)}
    found = {one.called: seen.refuted(one.name) for one in seen.sweeps() if one.name in charged}
    return {sweep: by for sweep, by in found.items() if by}


def not_known(seen: PublishedStore, population: str) -> str:
    """Why an account does not know what is spent; empty where it does."""
    refuted = refuted_over(seen, population).items()
    listed = [f"{system} (audit {one.audit}) in {sweep}" for sweep, by in refuted for system, one in by.items()]
    if not listed:
        return ""
    return f"rows rest on a claim that an audit refuted: what is spent is not known ({', '.join(listed)})"


def check_not_refuted(seen: PublishedStore, population: str, systems: Iterable[str]) -> None:
    """Raises InvalidValue for a system that an audit refuted in a sweep over this population."""
    wanted = set(systems)
    for sweep, by in refuted_over(seen, population).items():
        for system in sorted(wanted & by.keys()):
            raise InvalidValue(
                f"systems.{system}",
                system,
                f"a system that no audit refuted over population {population!r}: audit {by[system].audit} of {sweep} "
                "refuted a claim of it, so that nobody knows what a launch of it costs",
                "Leave that system out.",
            )


# What a sweep over a population needs before it may begin: a ledger, made once, which counts as the sweep does.


def ledger_of(store: Store, spec: SweepSpec) -> Population | None:
    """The ledger that a sweep of this spec is charged to; None where it declares no population.

    Raises UnknownPopulation where that has none yet, InvalidValue where it counts by other neighbours, and for a
    system that an audit refuted over it.
    """
    if spec.data.population is None:
        return None
    population = store.population(spec.data.population)
    check_terms(population, spec.privacy.adjacency, spec.privacy.unit)
    check_not_refuted(PublishedStore(store), population.name, spec.systems)
    return population


def reserve_whole(store: Store, lease: Lease, spec: SweepSpec) -> None:
    """The one row of a sweep with one budget, before its first trial; for any other sweep nothing.

    Durable on return; the same again changes nothing. Raises PopulationSpent where the population does not hold it: the
    sweep then must not begin; and UnknownPopulation, LeaseLost, Conflict for another row than before.
    """
    if (name := spec.data.population) is not None and spec.privacy.scope == "sweep":
        store.reserve_block(lease, name, whole_of(spec, store.population(name)))


def whole_of(spec: SweepSpec, population: Population) -> Charge:
    """What everything that may leave a sweep with one budget is charged. Where a filter of Gaussian privacy keeps it, a
    gdp ledger is charged what covers it within that, closer than its epsilon does."""
    budget = budget_of(spec)
    filter = None if budget is None else budget.filter
    covered = GDPCharge(filter.mu_total, filter.tau_total) if isinstance(filter, GDPFilter) else None
    return to_charge(population, max(spec.privacy.epsilon), spec.privacy.delta, covered)


# What people do with a sweep afterwards that reads its population again: audits, and readings of private test
# records.
#
# Each is charged before it begins, in a transaction of its own, so that a crash costs a charge and hides none.


def charge_audit(store: Store, sweep: SweepRecord, what: str, plan: PrivacyPlan, steps: int, trainings: int) -> None:
    """Twins of a trial that are trained on the sweep's own records: each costs what its steps cost the trial.

    what  tells this audit from others of the sweep. Raises PopulationSpent, and InvalidValue where nothing bounds
    them, or an audit refuted what did.
    """
    if not (name := sweep.spec.data.population):
        return
    check_not_refuted(PublishedStore(store), name, [plan.system])
    charge = repeated(charge_of_steps(store.population(name), plan, 0, steps), trainings)
    store.charge(name, Row(kind=RowKind.AUDIT, what=what, sweep=sweep.name, charge=charge, at=time.time()))


def charge_reading(store: Store, sweep: SweepRecord, what: str, declared: DeclaredTest) -> None:
    """One score on private test records: a row of its own, which adds to all others. Public ones cost nothing.

    what  tells this reading from others of the sweep. Raises PopulationSpent.
    """
    if not (name := sweep.spec.data.population) or declared.histogram is None:
        return
    charge = charge_of_event(store.population(name), declared.histogram.event(), sweep.spec.privacy.delta)
    store.charge(name, Row(kind=RowKind.READING, what=what, sweep=sweep.name, charge=charge, at=time.time()))


# What the next sweep would cost its population, before it runs: an estimate from public facts; no record is read.

NOT_KNOWN = "whether what is left holds it is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSweep:
    """The cost of a sweep that was not begun.

    trials  that it asks for
    cost    of all of them together
    fits    how many of them what is left of the budget holds; of a sweep with one budget all or none; None where what
            is left is not known
    whole   whether it is one row, reserved at its start
    public  a sentence for each file of records that are declared public, and not counted
    """

    trials: int
    cost: Spent
    fits: int | None
    whole: bool
    public: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        own = {"trials": self.trials, "fits": self.fits, "whole": self.whole, "public": list(self.public)}
        return own | _known(self.cost)

    def __str__(self) -> str:
        cost = spent_text(self.cost)
        if self.whole:
            fits = "what is left holds it" if self.fits else "what is left does not hold it: it would not begin"
            fits = NOT_KNOWN if self.fits is None else fits
            return f"the whole sweep is one row of {cost}, reserved at its start; {fits}"
        text = f"{count_text(self.trials, 'trial')} together about {cost}, an estimate from draws of the space"
        if self.fits is None:
            return f"{text}; {NOT_KNOWN}"
        if not self.fits:
            return f"{text}; what is left holds none of them: it would not begin"
        many = "all of them" if self.fits >= self.trials else f"about {self.fits} of them"
        return f"{text}; what is left holds {many}. A launch that is lost and made again is charged again"


ADDS = (
    "Rows add up, also those of sweeps that part the same records into training and validation by other keys, shares "
    "or ids: records that are one sweep's validation may be another's training."
)
IN_THIS_STORE = "in this store"
LISTED = 8
"""Names in one line."""
ELSEWHERE = (
    "Counted is what this store holds. Sweeps of another one (a folder that was run in, another --root or --store, a "
    "copy) and releases by other tools spend the same people's budget, and no ledger knows of it: keep one store for "
    "a population"
)
_NAMES = {
    RowKind.ATTEMPT: "launch",
    RowKind.SWEEP: "whole sweep",
    RowKind.AUDIT: "audit",
    RowKind.READING: "reading of test records",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationAccount:
    """The ledger of one population in one store.

    rows       oldest first
    uncounted  sweeps of this store over records with the same keyed digest that count elsewhere, or nowhere
    unknown    sweeps, and trials of its own, whose files lie beside the store, which does not know of them
    not_known  why nobody knows what is spent; empty where it is known
    public     a sentence for each file of records that a charged sweep declares public, and that is not counted
    next       what a sweep would cost; None where nobody asked
    """

    population: Population
    rows: tuple[Row, ...]
    uncounted: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    not_known: str = ""
    public: tuple[str, ...] = ()
    next: NextSweep | None = None

    @property
    def spent(self) -> Spent:
        """What all rows cost together, as their claims say: see `not_known`."""
        return spent(self.population, charges_of(self.rows))

    @property
    def left(self) -> Charge:
        """The largest single charge that it still holds, if what is spent is what the claims say."""
        return left(self.population, charges_of(self.rows))

    @property
    def counted(self) -> list[Charge] | None:
        """The charges of all rows; None where what is spent is not known."""
        return None if self.not_known else charges_of(self.rows)

    @property
    def spent_text(self) -> str:
        """What was spent, rounded up, or that it is not known."""
        return f"not known: {self.not_known}" if self.not_known else spent_text(self.spent)

    @property
    def left_text(self) -> str:
        """What is left, rounded down, or that it is not known."""
        return "not known" if self.not_known else left_text(self.left)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, times as text."""
        terms = asdict(self.population)
        return {
            "population": terms.pop("name"),
            **terms,
            "spent": None if self.not_known else _known(self.spent),
            "left": None if self.not_known else asdict(self.left),
            "not_known": self.not_known or None,
            "rows": [_row(one) for one in self.rows],
            "not_counted": list(self.uncounted),
            "unknown": list(self.unknown),
            "elsewhere": ELSEWHERE,
            "public": list(self.public),
            "next": None if self.next is None else self.next.to_dict(),
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        population = self.population
        yield (
            f"{population.name}  epsilon {epsilon_text(population.epsilon)} at delta {delta_text(population.delta)}, "
            f"{Notion.DP}, {population.adjacency}, per {population.unit}; rule {population.rule}, fixed for ever"
        )
        if not self.not_known:
            yield f"spent    {self.spent_text}, in {count_text(len(self.rows), 'row')}"
        else:
            yield f"spent    {self.not_known}"
            yield "         What their claims say, those that an audit refuted too:"
        for sweep in dict.fromkeys(row.sweep for row in self.rows):
            yield f"  {sweep}  {_of_sweep(population, [row for row in self.rows if row.sweep == sweep])}"
        yield f"left     {self.left_text}"
        if self.next is not None:
            yield f"next     {self.next}"
            yield from (f"note     of the next: {one}." for one in self.next.public)
        yield from (f"note     {one}." for one in self.public)
        if self.uncounted:
            yield (
                f"note     {', '.join(self.uncounted)} ran on records with the same digest as a sweep over this "
                "population, and declared another one or none: what they spent is not counted here."
            )
        if self.unknown:
            yield (
                f"note     {_listed(self.unknown)} left files here, and this store does not know of them: another "
                "store does, or it was lost, or is older than they are. What they spent is not counted here."
            )
        yield f"note     {ADDS}"
        yield f"note     {ELSEWHERE}."

    def __str__(self) -> str:
        return "\n".join(self.lines())


def account(store: PublishedStore, name: str, following: NextSweep | None = None) -> PopulationAccount:
    """The account of a population. Raises UnknownPopulation, StoreError."""
    rows = tuple(store.charges(name))
    return PopulationAccount(
        population=store.population(name),
        rows=rows,
        uncounted=_elsewhere(store, name),
        not_known=not_known(store, name),
        public=tuple(_public(store, rows)),
        next=following,
    )


def spent_text(now: Spent) -> str:
    """What was spent, rounded up."""
    covered = "" if now.mu is None else f" (mu {epsilon_text(now.mu)}, tau {delta_text(now.tau or 0.0)})"
    return f"epsilon {epsilon_text(now.epsilon)} at delta {delta_text(now.delta)}{covered}"


def left_text(rest: Charge) -> str:
    """What is left, rounded down: the largest single charge."""
    (name, amount), (tail, chance) = asdict(rest).items()
    return f"{name} {epsilon_text(amount, up=False)}, {tail} {delta_text(chance, up=False)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


def _of_sweep(population: Population, rows: Sequence[Row]) -> str:
    counts = Counter(row.kind for row in rows)
    what = ", ".join(count_text(counts[kind], _NAMES[kind]) for kind in RowKind if counts[kind])
    if population.rule is AddingRule.GDP:
        # A share of the sum of squares; an epsilon of one sweep alone would not add up with the others.
        charges = [one for one in charges_of(rows) if not isinstance(one, DPCharge)]
        squares, taus = (sum(amounts) for amounts in ([one.mu**2 for one in charges], [one.tau for one in charges]))
        return f"{what}: mu^2 {epsilon_text(squares)}, tau {delta_text(taus)}"
    # By a `first` sweep that has ended.
    settled = [(row.charge, row.settled) for row in rows if row.settled is not None]
    back = sum(charge.epsilon - now for charge, now in settled if isinstance(charge, DPCharge))
    returned = f", {epsilon_text(back, up=False)} of epsilon handed back" if back else ""
    return f"{what}: {spent_text(spent(population, charges_of(rows)))}{returned}"


def _row(row: Row) -> dict[str, Any]:
    return {
        "kind": str(row.kind),
        "what": row.what,
        "sweep": row.sweep,
        **asdict(row.charge),
        "settled": row.settled,
        "at": datetime.fromtimestamp(row.at, UTC).isoformat(),
    }


def _known(cost: Spent) -> dict[str, float]:
    return {name: value for name, value in asdict(cost).items() if value is not None}


def _public(store: PublishedStore, rows: Sequence[Row]) -> Iterator[str]:
    for sweep in store.sweeps():
        if sweep.name in {row.sweep for row in rows}:
            yield from (f"of {sweep.called} {one}" for one in public_files(sweep.spec.canonical()["data"]))


def _elsewhere(store: PublishedStore, name: str) -> tuple[str, ...]:
    """Sweeps over the same records, by the keyed digests that the store has, that are charged elsewhere or nowhere."""
    sweeps = [one for one in store.sweeps() if "data" in one.fingerprints]
    known = {one.fingerprints["data"] for one in sweeps if one.spec.data.population == name}
    others = [one for one in sweeps if one.spec.data.population != name and one.fingerprints["data"] in known]
    return tuple(one.called for one in others if store.ledger(one.name))


# What `sweeps check` and `sweeps show` say of a sweep's population, in a line or two.

NOBODY_COUNTS = (
    "none declared, so nothing is counted across sweeps: declare data.population: NAME, and `sweeps budget NAME` keeps "
    "one budget for all sweeps over the same people"
)


def now(spec: SweepSpec, store: PublishedStore) -> str | None:
    """Where the population of a recorded sweep stands; None for published data that declare none."""
    name = spec.data.population
    if not name:
        return NOBODY_COUNTS if is_own(spec.data.source) else None
    known = account(store, name)
    if known.not_known:
        return f"{name}: {known.not_known} (`sweeps budget {name}`)"
    return (
        f"{name}: {known.spent_text} are spent by all sweeps over it {IN_THIS_STORE}, {known.left_text} are left "
        f"(`sweeps budget {name}`)"
    )


def is_own(source: str) -> bool:
    """Whether it reads the user's own data."""
    return source == "table" or FUNCTION.fullmatch(source) is not None
