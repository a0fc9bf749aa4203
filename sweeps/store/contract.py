"""What a store of sweeps owes, whoever writes one.

Who may write. The holder of a sweep's lease, and nobody else: every write but `create_sweep`, `rename`, `ask`,
`make_population`, `charge`, and `delivered` without a lease, checks it first, inside its own transaction, and raises
LeaseLost where another has taken over. A holder that was stopped past its expiry therefore writes nothing, whatever its
clock says.

What is durable when. A method that returns has survived a power loss; one that raises has kept nothing. Two
transactions make a trial: `launch` (or `relaunch`) makes the proposal, the attempt and its reservation durable before
anything is launched; `settle` the result, the settlement, the state and the outbox row, together. A kill between any
two statements leaves a whole state: a trial that is RUNNING has one open attempt with its reservation.

What never changes. A closed attempt stays as it was closed: the same content again is no change, other content is a
Conflict. What was charged never falls; a reservation that is not settled counts whole; no attempt begins beyond the
furthest executed step. Plans, configurations, seeds and claims stay the values that were written, and so does the spec
that a sweep began with: what it is extended by is appended.

Populations. A sweep whose spec declares `data.population` is charged to that population's ledger, together with all
other sweeps over it (`sweeps.population`). The charge of an attempt is durable in the very transaction of its launch,
which is refused as PopulationSpent where the budget does not hold it: whoever writes at once on one population comes in
turn. A ledger's terms never change; its rows are appended, never lowered but by `settle_block`, and outlive the sweeps
that they were for.

What a reader may see. One state between two transactions, without waiting for the writer. A sweep of an earlier release
is read by today's rules of what may leave it (`sweeps.release.policy`), and is refused where it cannot be. Views read
through the publisher (`sweeps.release.publisher`) alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Protocol

from sweeps.population.arithmetic import Charge, Population, Row
from sweeps.records import (
    AttemptRecord,
    CurveReport,
    Driver,
    Extension,
    LedgerEntry,
    OutboxRow,
    Proposal,
    Reservation,
    Settlement,
    SweepRecord,
    SweepState,
    TrialRecord,
    TrialState,
)
from sweeps.requests import Request, Wanted
from trainables.system import PrivacyPlan, Refusal

LEASE_SECONDS = 30.0
"""How long a holder may give no sign of life, unless it says otherwise."""


class Lease(Protocol):
    """The right to write one sweep, until released or taken over. Safe to use from several threads.

    sweep  its name
    token  number of this holding of the lease: each holder's is larger than that of the one before
    """

    @property
    def sweep(self) -> str: ...

    @property
    def token(self) -> int: ...

    def renew(self) -> None:
        """A sign of life: the expiry moves to the whole length from now. Raises LeaseLost, StoreError."""

    def release(self) -> None:
        """Give the sweep up; without effect when another holds it already."""


class Store(Protocol):
    """Sweeps, their trials, and what these were charged. Safe to use from several threads.

    Keys of trials are `<sweep>-<number>` (`sweeps.records.trial_key`). What is not there is an UnknownSweep or an
    UnknownTrial; whatever else goes wrong is a StoreError, and its message says what to do.
    """

    @property
    def url(self) -> str:
        """Where it is, with a password if it has one: for another process, never for a message."""

    def close(self) -> None:
        """End its connections. Calibrations that are still in memory are written, where the store takes them."""

    # -- sweeps -----------------------------------------------------------------------------------------

    def create_sweep(self, record: SweepRecord) -> None:
        """Record a new sweep. Raises SweepExists, also for a name that another one had."""

    def sweep(self, name: str) -> SweepRecord:
        """One sweep, by any name that it has or had; all other methods take `SweepRecord.name`. Raises UnknownSweep."""

    def sweeps(self) -> list[SweepRecord]:
        """All sweeps, oldest first."""

    def acquire(self, sweep: str, ttl_seconds: float = LEASE_SECONDS) -> Lease:
        """The right to write `sweep`, where nobody holds it, or no longer. Raises UnknownSweep, LeaseHeld.

        ttl_seconds  how long this holder may give no sign of life
        """

    def set_state(self, lease: Lease, state: SweepState | str) -> None:
        """Where the sweep stands, with an outbox row when that changes. Raises LeaseLost."""

    def set_place(self, lease: Lease, root: str, records: str) -> None:
        """Where the sweep's files are from now on: it was resumed elsewhere. Raises LeaseLost."""

    def set_fingerprints(self, lease: Lease, fingerprints: Mapping[str, str]) -> None:
        """Replace the recorded fingerprints (a resume under changed ones was accepted by name). Raises LeaseLost."""

    def extend(self, lease: Lease, extension: Extension) -> None:
        """Append to `SweepRecord.extensions`; the last one again changes nothing. Raises LeaseLost."""

    def rename(self, sweep: str, label: str) -> None:
        """What people call the sweep from now on, itself or what is then no other's for ever. Needs no lease.

        Raises UnknownSweep, and SweepExists where another sweep has or had that name.
        """

    def erase(self, lease: Lease) -> None:
        """The sweep is DELETED, for ever: metrics, reports and what the views were to be told are gone.

        What was spent stays: plans, claims, attempts, every ledger entry, every charge to its population, fingerprints,
        spec, requests, all its names.
        The same again changes nothing. Raises LeaseLost, and Conflict while an attempt runs.
        """

    # -- what people ask -----------------------------------------------------------------------------------

    def ask(self, sweep: str, wanted: Wanted, asker: str) -> int:
        """Append a request, durable on return, and return its number. Needs no lease. Raises UnknownSweep."""

    def requests(self, sweep: str) -> list[Request]:
        """All requests in order. One with a smaller number may come to light after one with a larger: who looks for
        new ones remembers which it has seen. Raises UnknownSweep."""

    def driver(self, sweep: str) -> Driver | None:
        """Who holds the lease; None where it is free, or its holder certainly gone. Raises UnknownSweep."""

    def data_fingerprint(self, digest: str) -> str:
        """What this store records of a data set with that digest: keyed with a secret of its own.

        The secret lies in the store, since every controller on it has to find the same: it serves all sweeps and
        outlives each. So a copy of the store confirms a guess of the records, and stays inside the release boundary;
        what is printed or copied out of it does not.
        """

    # -- the two transactions, and what else may come of an attempt ------------------------------------

    def record_infeasible(self, lease: Lease, refused: Iterable[tuple[Proposal, Refusal]]) -> None:
        """Record proposals that are never launched, all in one transaction; the same ones again change nothing.

        Raises LeaseLost, Conflict.
        """

    def launch(
        self, lease: Lease, proposal: Proposal, plan: PrivacyPlan, to_step: int, charge: Charge | None = None
    ) -> Reservation:
        """Transaction one: the trial, its attempt 1 and the reservation [0, to_step), durable on return.

        charge  to the sweep's population, of these steps; None where it has none, or where its block pays for all

        Raises LeaseLost, Conflict when the number is taken, InvalidValue for steps that the plan does not have and for
        a charge that is missing or of no use, UnknownPopulation, PopulationSpent.
        """

    def relaunch(
        self, lease: Lease, key: str, from_step: int, to_step: int, charge: Charge | None = None
    ) -> Reservation:
        """The next attempt of a trial with no running one, and its own reservation [from_step, to_step).

        Raises as `launch`, UnknownTrial, InvalidValue when from_step lies beyond every executed step.
        """

    def settle(self, lease: Lease, key: str, attempt: int, came: Settlement) -> None:
        """Transaction two: result, curve, settlement, state (COMPLETE, or PLANNED between rungs) and outbox row.

        The same content again, seconds aside, changes nothing. Raises LeaseLost, Conflict, UnknownTrial, InvalidValue
        for steps outside of the reservation.
        """

    def add_to_curve(
        self, lease: Lease, key: str, attempt: int, curve: Mapping[int, Mapping[str, float]], announced: bool = True
    ) -> None:
        """What an attempt told on its way, {step: metrics}, as a checkpoint covers it: durable before anybody sees it.

        The trial has a claim from now on, that of its plan. Points that are known change nothing; where all are, nobody
        is told.

        announced  whether views are told of it

        Raises LeaseLost, UnknownTrial, InvalidValue for steps that are not inside of the attempt's reservation, and
        Conflict for another point at a step that has one.
        """

    def lose(self, lease: Lease, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The attempt is gone: charged to its horizon (None: its whole reservation); the trial is PLANNED again.

        The same content again changes nothing. Raises as `settle`.
        """

    def fail(self, lease: Lease, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The trial is over without a (further) result: charged as by `lose`; the trial is FAILED.

        The same content again changes nothing. Raises as `settle`.
        """

    def charge_whole(self, lease: Lease, key: str, attempt: int) -> None:
        """An attempt that is over turned out to have gone further than it was charged for: its whole reservation is.

        Never lowers anything. Raises LeaseLost, UnknownTrial.
        """

    def abandon(self, lease: Lease, key: str, reason: str) -> None:
        """The trial, of which no attempt runs, cannot go on: it is FAILED; what was charged and reported stays.

        The same again changes nothing. Raises LeaseLost, Conflict, UnknownTrial.
        """

    # -- populations --------------------------------------------------------------------------------------

    def make_population(self, population: Population) -> None:
        """Its ledger, once and for ever; the same again changes nothing. Raises PopulationExists for other terms."""

    def populations(self) -> list[Population]:
        """All that have a ledger here, by name."""

    def charges(self, population: str) -> list[Row]:
        """What was charged to it, oldest first. Raises UnknownPopulation."""

    def charge(self, population: str, row: Row) -> None:
        """Append a row that its budget still holds; one that is there changes nothing. Needs no lease.

        Raises UnknownPopulation, PopulationSpent, InvalidValue for a charge of another rule, and Conflict where the
        same was charged before with other content (`at` aside).
        """

    def reserve_block(self, lease: Lease, population: str, charge: Charge) -> None:
        """The whole of the lease's sweep as one row, before anything of it is launched; its attempts then cost nothing.

        The same again changes nothing, settled or not. Raises LeaseLost, and as `charge`.
        """

    def settle_block(self, lease: Lease, population: str, epsilon: float) -> None:
        """What a sweep under `release: first` came to: its block counts with this epsilon from now on, for ever.

        Its delta stays. By a linear ledger alone. The same again changes nothing. Raises LeaseLost, UnknownPopulation,
        Conflict where no block is reserved or another epsilon was settled, InvalidValue for one above the reserved.
        """

    # -- reading ----------------------------------------------------------------------------------------

    def trials(self, sweep: str, states: Collection[TrialState] | None = None) -> list[TrialRecord]:
        """Trials in order of number, of the given states only if any are given. Raises UnknownSweep.

        30,000 of them have to be read in well under a second: fields that few look into may be parsed when they are
        (`TrialRecord.stored`).
        """

    def trials_of(self, sweep: str, keys: Collection[str]) -> list[TrialRecord]:
        """The trials with these keys, in order of number. Raises UnknownSweep, UnknownTrial."""

    def counts(self, sweep: str) -> dict[str, int]:
        """{"complete": ..., "running": ..., "failed": ..., "infeasible": ..., "planned": ...}. Raises UnknownSweep."""

    def ledger(self, sweep: str) -> list[LedgerEntry]:
        """All entries in order of trial and attempt. Raises UnknownSweep."""

    def ledger_of(self, key: str) -> list[LedgerEntry]:
        """The entries of one trial in order of attempt; none where it was never launched. Raises UnknownSweep."""

    def attempts(self, sweep: str) -> list[AttemptRecord]:
        """All attempts in order of trial and attempt. Raises UnknownSweep."""

    def attempts_of(self, key: str) -> list[AttemptRecord]:
        """Attempts of one trial in order. Raises UnknownSweep."""

    def curves(self, sweep: str, keys: Collection[str] | None = None) -> list[CurveReport]:
        """All that trials told of themselves, at the ends of their launches and between, in order of trial and step.

        keys  of these trials alone

        Raises UnknownSweep, UnknownTrial.
        """

    # -- views ------------------------------------------------------------------------------------------

    def outbox(self, sweep: str, limit: int = 1000) -> list[OutboxRow]:
        """The oldest `limit` changes that the views have not been told, in the order of their transactions."""

    def backlog(self, sweep: str) -> int:
        """How many changes the views have not been told."""

    def delivered(self, lease: Lease | None, ids: Sequence[int]) -> None:
        """Forget these outbox rows; unknown ones are ignored. The drain beside a controller has no lease."""

    def calibrations(self) -> MutableMapping[str, float]:
        """{question: solved value}, shared by all processes on one store: a cache, and safe to use from threads.

        A new value is visible here at once and durable soon; losing one costs a calculation. Not a number is an
        InvalidValue.
        """
