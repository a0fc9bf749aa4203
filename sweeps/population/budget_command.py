"""`sweeps budget`: the ledgers of populations, made, listed and shown."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeps.cli.options import DEFAULT_ROOT, AsJson, Root, StoreUrl
from sweeps.cli.output import print_json


def budget(
    population: Annotated[str | None, typer.Argument(help="As specs declare in data.population; default: all.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Of everything ever released of it: makes its ledger.")] = None,
    delta: Annotated[float | None, typer.Option(help="Likewise.")] = None,
    rule: Annotated[str | None, typer.Option(help="linear or gdp: how rows add up, for ever.")] = None,
    adjacency: Annotated[str, typer.Option(help="Of neighbours: add-remove or replace-one.")] = "add-remove",
    unit: Annotated[str, typer.Option(help="What neighbours differ in, as privacy.unit says.")] = "record",
    tau: Annotated[
        float | None, typer.Option(help="Of a gdp ledger: chance beside the Gaussian of a trial; by default 1000 fit.")
    ] = None,
    spec: Annotated[str | None, typer.Option(help="Say what a sweep of this spec would cost.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """What all sweeps, audits and test readings over a population have spent together, and what is left.

    With --epsilon, --delta and --rule its ledger is made, once and for ever. A launch that the budget does not hold
    does not happen; deleting a sweep gives nothing back.
    """
    from dpcore.checks import InvalidValue
    from sweeps import api

    if population is None:
        if (epsilon, delta, rule, tau, spec) != (None,) * 5:
            raise InvalidValue("POPULATION", None, "the name of a population beside these options")
        found = api.list_budgets(root=root, store=store)
        if as_json:
            print_json([one.to_dict() for one in found])
        else:
            print("\n".join(str(one) for one in found) or "No population has a ledger in this store.")
        return
    one = api.population_budget(
        population,
        epsilon=epsilon,
        delta=delta,
        rule=rule,
        adjacency=adjacency,
        unit=unit,
        tau=tau,
        spec=spec,
        root=root,
        store=store,
    )
    if as_json:
        print_json(one.to_dict())
    else:
        print(one)
