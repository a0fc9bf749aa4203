"""Every data source by name: `data: {source: NAME, ...}` in a spec."""

from __future__ import annotations

from trainables.data import (
    abalone,
    adult,
    cifar10,
    digits,
    frozen,
    german_credit,
    idc,
    imdb,
    location,
    membership_tables,
    mnist,
    movielens,
    pooled,
    projected,
    table,
    uniform,
)
from trainables.system import DataSource


def by_name(*sources: DataSource) -> dict[str, DataSource]:
    """Sources keyed by name. Raises ValueError when two share one."""
    named: dict[str, DataSource] = {}
    for source in sources:
        if source.name in named:
            raise ValueError(f"data source {source.name!r} is registered twice")
        named[source.name] = source
    return named


SOURCES: dict[str, DataSource] = by_name(
    digits.DIGITS,
    uniform.UNIFORM,
    mnist.MNIST,
    adult.ADULT,
    abalone.ABALONE,
    german_credit.GERMAN_CREDIT,
    cifar10.CIFAR10,
    idc.IDC,
    imdb.IMDB,
    movielens.MOVIELENS_1M,
    movielens.MOVIELENS_100K,
    location.LOCATION,
    membership_tables.PURCHASE_100,
    membership_tables.TEXAS_100,
    table.TABLE,  # the user's own
)
SOURCES = by_name(*SOURCES.values(), pooled.Pooled(SOURCES), frozen.Frozen(SOURCES), projected.Projected(SOURCES))
