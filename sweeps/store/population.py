"""What a population's ledger has spent, what is left of it, and whether one charge more fits: functions of its rows.

rule     a row costs                          together                                 what is handed back
linear   (epsilon, delta)                     sums of both                             a `first` sweep's epsilon
gdp      mu^2 and the chance tau beside it    sums of both, `dpcore.selection.filters` nothing

Both are filters: the sums stay within the budget whatever was chosen after looking at earlier results, and whatever
runs at once, since every row is there before what it pays for begins. Rows of one population add. Within a row, records
that train and records that validate may compose in parallel, where that row's own plan parts them; between rows they
never do, so that two sweeps that part the records by other keys, shares or ids are charged the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from dpcore import checks
from dpcore.events import Adjacency
from dpcore.gdp import eps_gdp
from dpcore.guarantee import delta_text, epsilon_text
from dpcore.selection.filters import DPCharge, GDPCharge, GDPFilter, LinearLedger
from sweeps.util.text import check_name

COUNTED_TAUS = 1000
"""Unless given otherwise, the chances beside so many Gaussians fit into a gdp ledger."""

_LESS = 1 - 4e-12
"""What is said to be left is admitted, after every rounding."""

Charge = DPCharge | GDPCharge


class AddingRule(StrEnum):
    """How the rows of a ledger are added up; fixed when it is made."""

    LINEAR = "linear"
    GDP = "gdp"


class RowKind(StrEnum):
    """What a row pays for."""

    ATTEMPT = "attempt"
    SWEEP = "sweep"
    AUDIT = "audit"
    READING = "test reading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """What is fixed for ever when the ledger of a population is made.

    name            declared by specs as `data.population`
    rule            never the smaller of two
    epsilon, delta  of everything that is ever released of it; above 0 and at most 1e12, and in [1e-300, 1)
    adjacency, unit  of neighbours; a sweep under others does not belong here
    tau             the chance beside the Gaussian that covers a trial, in (0, delta / 10]; of a gdp ledger alone

    Raises InvalidValue.
    """

    name: str
    rule: AddingRule
    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str = "record"
    tau: float = 0.0

    def __post_init__(self) -> None:
        check_name("population", self.name)
        checks.positive_finite(epsilon=self.epsilon)
        checks.probability_open(delta=self.delta)
        if self.epsilon > 1e12:
            raise checks.InvalidValue("epsilon", self.epsilon, "at most 1e12: beyond, a budget protects nobody")
        if self.delta < 1e-300:
            raise checks.InvalidValue("delta", self.delta, "at least 1e-300")
        if self.rule is AddingRule.GDP and not 0 < self.tau <= self.delta / 10:
            expected = f"above 0 and at most a tenth of delta={self.delta!r}, which all chances share"
            raise checks.InvalidValue("tau", self.tau, expected)
        if self.rule is AddingRule.LINEAR and self.tau:
            raise checks.InvalidValue("tau", self.tau, "rule gdp beside it", "A linear ledger has no such chance.")

    @classmethod
    def of(
        cls,
        name: str,
        rule: str,
        epsilon: float,
        delta: float,
        adjacency: str = Adjacency.ADD_REMOVE,
        unit: str = "record",
        tau: float | None = None,
    ) -> Population:
        """From words; without `tau` a gdp ledger has room for a thousand of them. Raises InvalidValue."""
        if rule not in list(AddingRule):
            raise checks.InvalidValue("rule", rule, "linear or gdp", "It is fixed for ever when the ledger is made.")
        if adjacency not in list(Adjacency):
            raise checks.InvalidValue("adjacency", adjacency, f"one of {', '.join(Adjacency)}")
        checks.probability_open(delta=delta)
        chance = (delta / 10 / COUNTED_TAUS if rule == AddingRule.GDP else 0.0) if tau is None else tau
        return cls(
            name=name,
            rule=AddingRule(rule),
            epsilon=epsilon,
            delta=delta,
            adjacency=Adjacency(adjacency),
            unit=unit,
            tau=chance,
        )

    @property
    def filter(self) -> Any:
        """Before anything was charged: a LinearLedger, or a GDPFilter."""
        kind: Any = LinearLedger if self.rule is AddingRule.LINEAR else GDPFilter
        return kind(epsilon=self.epsilon, delta=self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One charge to a population.

    kind, what  what it pays for: one row for each, however often it is written
    sweep       whose it is
    charge      that was reserved: a DPCharge in a linear ledger, a GDPCharge in a gdp one
    settled     the epsilon that a `first` sweep was settled at, at most the reserved one; None: as reserved
    at          seconds since 1970
    """

    kind: RowKind
    what: str
    sweep: str
    charge: Charge
    settled: float | None = None
    at: float = 0.0

    @property
    def counted(self) -> Charge:
        """What of it counts now."""
        if self.settled is None or not isinstance(self.charge, DPCharge):
            return self.charge
        return DPCharge(self.settled, self.charge.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What some rows cost together, and of what budget.

    epsilon, delta  of everything together; both as large as the budget at most. By the gdp rule epsilon is that of the
                    Gaussian at delta * 9/10, and delta that share and the chances
    mu, tau         by the gdp rule: the root of the sum of squares, and the sum of chances; else None
    """

    epsilon: float
    delta: float
    mu: float | None = None
    tau: float | None = None


def admits(population: Population, charges: Sequence[Charge], charge: Charge) -> bool:
    """Whether the budget holds `charge` beside those that count. Raises InvalidValue for a charge of another rule."""
    return bool(replace(population.filter, charged=tuple(("", one) for one in charges)).admits(charge))


def spent(population: Population, charges: Sequence[Charge]) -> Spent:
    """What these charges, all by its rule, cost together."""
    firsts, seconds = _amounts(charges)
    if population.rule is AddingRule.LINEAR:
        return Spent(epsilon=math.fsum(firsts), delta=math.fsum(seconds))
    if not charges:
        return Spent(epsilon=0.0, delta=0.0, mu=0.0, tau=0.0)
    mu, tau, share = math.sqrt(math.fsum(one**2 for one in firsts)), math.fsum(seconds), population.delta * 0.9
    epsilon = eps_gdp(mu, share)
    if mu <= population.filter.mu_total:
        epsilon = min(population.epsilon, epsilon)
    return Spent(epsilon=epsilon, delta=share + tau, mu=mu, tau=tau)


def left(population: Population, charges: Sequence[Charge]) -> Charge:
    """The largest single charge that still fits. Rounded down; zero where nothing is left."""
    now, (firsts, seconds) = spent(population, charges), _amounts(charges)
    if now.mu is None or now.tau is None:
        return DPCharge(_remainder(population.epsilon, firsts), _remainder(population.delta, seconds))
    most = population.filter
    squares = (most.mu_total * _LESS) ** 2 - now.mu**2
    return GDPCharge(math.sqrt(max(0.0, squares)), max(0.0, most.tau_total * _LESS - now.tau))


def _amounts(charges: Iterable[Charge]) -> tuple[list[float], list[float]]:
    """Epsilons and deltas, or mus and taus."""
    pairs = [(one.epsilon, one.delta) if isinstance(one, DPCharge) else (one.mu, one.tau) for one in charges]
    return [first for first, _ in pairs], [second for _, second in pairs]


def _remainder(limit: float, taken: Sequence[float]) -> float:
    """The largest float that fits beside `taken`, whose sum is exact until it is rounded once."""
    rest = max(0.0, math.fsum([limit, *(-one for one in taken)]))
    over = math.fsum([rest, -limit, *taken]) > 0
    return max(0.0, math.nextafter(rest, -math.inf)) if over else rest


def _sum_up(values: Sequence[float]) -> float:
    """The least float that is at least their exact sum."""
    total = math.fsum(values)
    return math.nextafter(total, math.inf) if math.fsum([-total, *values]) > 0 else total


def together(population: Population, pairs: Sequence[tuple[float, float]]) -> list[Charge]:
    """Many rows as the one charge that they come to, or none: for a ledger of tens of thousands.

    pairs  (epsilon, delta) of each by rule linear, whose sums are rounded up; (mu, tau) by rule gdp, whose sums are
           rounded once: what that may lack is a ten-thousandth of the allowance of the filter
           (`dpcore.selection.filters`)
    """
    if not pairs:
        return []
    # Not by `zip(*listed)`, whose iterators keep the garbage collector busy.
    firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
    if population.rule is AddingRule.LINEAR:
        return [DPCharge(_sum_up(firsts), _sum_up(seconds))]
    return [GDPCharge(math.sqrt(math.fsum(mu * mu for mu in firsts)), math.fsum(seconds))]


def to_charge(population: Population, epsilon: float, delta: float, gdp: GDPCharge | None = None) -> Charge:
    """What a release known to be (epsilon, delta)-DP is charged, by the ledger's rule.

    gdp  what it is covered by, where it ran within a GDP filter or its event was covered: a gdp ledger is charged that
    Raises InvalidValue.
    """
    if population.rule is AddingRule.LINEAR:
        return DPCharge(epsilon, delta)
    return GDPCharge.of_dp(epsilon, delta) if gdp is None else gdp


def charges_of(rows: Iterable[Row]) -> list[Charge]:
    """What of each row counts."""
    return [row.counted for row in rows]


def format_charge(charge: Charge, up: bool = True) -> str:
    """A charge as messages say it, rounded up or down."""
    (first,), (second,) = _amounts([charge])
    name, tail = ("epsilon", "delta") if isinstance(charge, DPCharge) else ("mu", "tau")
    return f"{name}={epsilon_text(first, up, digits=6)} and {tail}={delta_text(second, up)}"


def refusal(population: Population, charges: Sequence[Charge], charge: Charge) -> str:
    """Why a charge does not fit, and what is left, rounded down."""
    fits = format_charge(left(population, charges), up=False)
    return (
        f"population {population.name!r}: {format_charge(charge)} exceed what is left of its budget, {fits} "
        f"(of epsilon={population.epsilon!r}, delta={population.delta!r}, rule {population.rule}). "
        f"`sweeps budget {population.name}` shows what spent it."
    )


# Records that a sweep over a population declares public: no ledger counts what leaves of them.
#
# Only a file of their own may be declared so: a part of the population's records is private, or the ledger would show
# nothing for exact scores on them (`sweeps.spec.rules`).

PARTS = ("validation", "test")
"""Of a data section: records that nobody trains on."""


def public_files(data: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence for each part of a data section that is a file declared public."""
    return tuple(
        f"the {name} records in {data[name]['path']} are declared public, as people outside of the population: "
        "what leaves of them is not counted here"
        for name in PARTS
        if _is_public(data.get(name)) and data[name].get("path")
    )


def _is_public(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("records") == "public"
