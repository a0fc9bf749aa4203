"""`sweeps budget` from Python: the ledgers of populations."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from sweeps.face.places import places
from sweeps.population.accounts import PopulationAccount, account, accounts
from sweeps.population.arithmetic import Population
from sweeps.population.charging import check_terms
from sweeps.population.forecast import NextSweep, next_sweep
from sweeps.population.joining import make_ledger
from sweeps.release.publisher import Publisher
from sweeps.util.workspace import Workspace
from trainables.worker.files import NotAFolder

if TYPE_CHECKING:
    from sweeps.face.opening import Spec
    from sweeps.spec import SweepSpec


def population_budget(
    population: str,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rule: str | None = None,
    adjacency: str = "add-remove",
    unit: str = "record",
    tau: float | None = None,
    spec: Spec | None = None,
    root: str | Path | None = None,
    store: str | None = None,
) -> PopulationAccount:
    """The ledger of a population (`data.population` of its sweeps): what was spent, and what is left.

    epsilon, delta, rule  make the ledger, once and for ever; the same again changes nothing. Rule: "linear" or "gdp"
    adjacency, unit       of neighbours, fixed with it
    tau                   of a gdp ledger: the chance beside the Gaussian that covers a trial; by default a thousand fit
    spec                  whose cost is estimated, as the next sweep's

    `print` of what comes back says it in words. Raises UnknownPopulation, PopulationExists for other terms, StoreError,
    InvalidValue.
    """
    workspace = places(root, store)
    given = {"--epsilon": epsilon, "--delta": delta, "--rule": rule}
    missing = [name for name, value in given.items() if value is None]
    if epsilon is not None and delta is not None and rule is not None:
        make_ledger(workspace, Population.of(population, rule, epsilon, delta, adjacency, unit, tau))
    elif len(missing) < len(given) or (tau, adjacency, unit) != (None, "add-remove", "record"):
        raise InvalidValue(missing[0], None, "given too: a ledger is made whole", "Without all three it is only shown.")
    following = None
    if spec is not None:
        from sweeps.face.opening import load

        loaded = load(spec)
        if loaded.data.population != population:
            raise InvalidValue("--spec", loaded.data.population, f"a spec with data.population: {population}")
        following = _following(account(Publisher.open(workspace.store_url), population), loaded)
    opened = Publisher.open(workspace.store_url)
    return _with_unknown(workspace, opened, account(opened, population, following))


def list_budgets(*, root: str | Path | None = None, store: str | None = None) -> tuple[PopulationAccount, ...]:
    """The ledgers of all populations of the store, by name. Raises StoreError."""
    workspace = places(root, store)
    opened = Publisher.open(workspace.store_url)
    return tuple(_with_unknown(workspace, opened, one) for one in accounts(opened))


def _with_unknown(workspace: Workspace, store: Publisher, found: PopulationAccount) -> PopulationAccount:
    """With what lies beside the store and is not in it: another store has it, or this one is older."""
    sweeps = store.sweeps()
    unknown = list(workspace.unknown([one.name for one in sweeps]))
    for one in sweeps:
        if one.spec.population == found.population.name:
            known = {trial.key for trial in store.trials(one.name)}
            # What is not here, or no folder any more, tells nothing.
            with suppress(InvalidValue, OSError, NotAFolder):
                unknown += workspace.of(one).unknown_trials(one.name, known)
    return replace(found, unknown=tuple(unknown))


def _following(known: PopulationAccount, spec: SweepSpec) -> NextSweep | None:
    from sweeps.spec import public_facts

    check_terms(known.population, spec.privacy.adjacency, spec.privacy.unit)
    return next_sweep(known.population, known.counted, spec, public_facts(spec))
