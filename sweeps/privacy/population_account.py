"""A population's account as views show it: what sweeps, audits and test readings have spent, and what is left.

Numbers of what was spent are rounded up, those of what is left down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpcore.rounding import delta_text, epsilon_text
from dpcore.selection.filters import DPCharge
from sweeps.privacy.claims import count_text
from sweeps.privacy.population_ledger import RefutedRows, not_known, refuted_rows
from sweeps.privacy.published_store import PublishedStore
from sweeps.spec.sections import FUNCTION, SweepSpec
from sweeps.store.population import (
    AddingRule,
    Charge,
    Left,
    Population,
    Row,
    RowKind,
    Spent,
    charges_of,
    left,
    public_files,
    spent,
)

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
        cost = {"epsilon": self.cost.epsilon, "delta": self.cost.delta, "mu": self.cost.mu, "tau": self.cost.tau}
        known = {name: value for name, value in cost.items() if value is not None}
        return {"trials": self.trials, "fits": self.fits, "whole": self.whole, "public": list(self.public), **known}

    def __str__(self) -> str:
        cost = f"epsilon {epsilon_text(self.cost.epsilon)} at delta {delta_text(self.cost.delta)}"
        if self.cost.mu is not None:
            cost += f" (mu {epsilon_text(self.cost.mu)}, tau {delta_text(self.cost.tau or 0.0)})"
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
    refuted    rows that rest on claims that audits refuted, by sweep
    public     a sentence for each file of records that a charged sweep declares public, and that is not counted
    next       what a sweep would cost; None where nobody asked
    """

    population: Population
    rows: tuple[Row, ...]
    uncounted: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    refuted: tuple[RefutedRows, ...] = ()
    public: tuple[str, ...] = ()
    next: NextSweep | None = None

    @property
    def spent(self) -> Spent:
        """What all rows cost together, as their claims say: see `not_known`."""
        return spent(self.population, charges_of(self.rows))

    @property
    def left(self) -> Left:
        """The largest single charge that it still holds, if what is spent is what the claims say."""
        return left(self.population, charges_of(self.rows))

    @property
    def not_known(self) -> str:
        """Why nobody knows what is spent; empty where it is known."""
        return not_known(self.refuted)

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
        population, now, rest = self.population, self.spent, self.left
        return {
            "population": population.name,
            "rule": str(population.rule),
            "epsilon": population.epsilon,
            "delta": population.delta,
            "adjacency": str(population.adjacency),
            "unit": population.unit,
            "tau": population.tau,
            "spent": None if self.not_known else _given(epsilon=now.epsilon, delta=now.delta, mu=now.mu, tau=now.tau),
            "left": None
            if self.not_known
            else _given(epsilon=rest.epsilon, delta=rest.delta, mu=rest.mu, tau=rest.tau),
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
            f"{population.adjacency}, per {population.unit}; rule {population.rule}, fixed for ever"
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
    population = next(one for one in store.populations() if one.name == name)
    return PopulationAccount(
        population=population,
        rows=rows,
        uncounted=_elsewhere(store, name),
        refuted=refuted_rows(store, rows),
        public=tuple(_public(store, rows)),
        next=following,
    )


def accounts(store: PublishedStore) -> tuple[PopulationAccount, ...]:
    """Those of all populations, by name."""
    return tuple(account(store, one.name) for one in store.populations())


def spent_text(now: Spent) -> str:
    """What was spent, rounded up."""
    covered = "" if now.mu is None else f" (mu {epsilon_text(now.mu)}, tau {delta_text(now.tau or 0.0)})"
    return f"epsilon {epsilon_text(now.epsilon)} at delta {delta_text(now.delta)}{covered}"


def left_text(rest: Left) -> str:
    """What is left, rounded down: the largest single charge."""
    if rest.mu is None:
        return f"epsilon {epsilon_text(rest.epsilon or 0.0, up=False)}, delta {delta_text(rest.delta or 0.0, up=False)}"
    return f"mu {epsilon_text(rest.mu, up=False)}, tau {delta_text(rest.tau or 0.0, up=False)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


def _of_sweep(population: Population, rows: Sequence[Row]) -> str:
    counts = Counter(row.kind for row in rows)
    what = ", ".join(count_text(counts[kind], _NAMES[kind]) for kind in RowKind if counts[kind])
    back = sum(_handed_back(row) for row in rows)
    returned = f", {epsilon_text(back, up=False)} of epsilon handed back" if back else ""
    return (
        f"{what}: {spent_text(spent(population, charges_of(rows))) if _sums(population) else _squares(rows)}{returned}"
    )


def _sums(population: Population) -> bool:
    return population.rule is AddingRule.LINEAR


def _squares(rows: Sequence[Row]) -> str:
    """By the gdp rule a share of the sum of squares; an epsilon of one sweep alone would not add up with the others."""
    charges = [one for one in charges_of(rows) if not isinstance(one, DPCharge)]
    squares = sum(one.mu**2 for one in charges)
    return f"mu^2 {epsilon_text(squares)}, tau {delta_text(sum(one.tau for one in charges))}"


def _handed_back(row: Row) -> float:
    """Of its epsilon: nothing, but of a `first` sweep that has ended."""
    if row.settled is None or not isinstance(row.charge, DPCharge):
        return 0.0
    return row.charge.epsilon - row.settled


def _row(row: Row) -> dict[str, Any]:
    return {
        "kind": str(row.kind),
        "what": row.what,
        "sweep": row.sweep,
        **_charge(row.charge),
        "settled": row.settled,
        "at": datetime.fromtimestamp(row.at, UTC).isoformat(),
    }


def _charge(charge: Charge) -> dict[str, float]:
    if isinstance(charge, DPCharge):
        return {"epsilon": charge.epsilon, "delta": charge.delta}
    return {"mu": charge.mu, "tau": charge.tau}


def _given(**values: float | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _public(store: PublishedStore, rows: Sequence[Row]) -> Iterator[str]:
    charged = {row.sweep for row in rows}
    for sweep in store.sweeps():
        if sweep.name in charged:
            yield from (f"of {sweep.called} {one}" for one in public_files(sweep.spec.canonical()["data"]))


def _elsewhere(store: PublishedStore, name: str) -> tuple[str, ...]:
    """Sweeps over the same records, by the keyed digests that the store has, that are charged elsewhere or nowhere."""
    sweeps = store.sweeps()
    known = {
        one.fingerprints["data"] for one in sweeps if one.spec.data.population == name and "data" in one.fingerprints
    }
    others = [one for one in sweeps if one.spec.data.population != name and one.fingerprints.get("data") in known]
    return tuple(one.called for one in others if store.ledger(one.name))


# What `sweeps check` and `sweeps show` say of a sweep's population, in a line or two.

NOBODY_COUNTS = (
    "none declared, so nothing is counted across sweeps: declare data.population: NAME, and `sweeps budget NAME` keeps "
    "one budget for all sweeps over the same people"
)
OWN_SOURCE = "table"
"""The packaged source that reads the user's own data."""


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
    return source == OWN_SOURCE or FUNCTION.fullmatch(source) is not None
