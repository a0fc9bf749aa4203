"""Audits that refuted a system over a population: what its rows cost is then not known, and it is launched no more.

A row is what a claim says that a launch costs. Where an audit refuted the claim of a system in a sweep, all rows of
that system in that sweep may have cost more, by nobody knows how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpcore.checks import InvalidValue
from sweeps.population.arithmetic import Row, RowKind
from sweeps.release.publisher import Publisher
from sweeps.release.rounding import count_text
from sweeps.store.records import Refutation


@dataclass(frozen=True, slots=True, kw_only=True)
class RefutedRows:
    """Rows of one sweep that rest on a claim that an audit refuted.

    sweep  as it is called
    by     {system: the audit that refuted a claim of it}, at least one
    rows   of these systems; none where they were launched before the sweep was charged here
    """

    sweep: str
    by: Mapping[str, Refutation]
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        systems = ", ".join(f"{system} (audit {one.audit})" for system, one in self.by.items())
        return f"{systems} in {self.sweep}"


def refuted_rows(seen: Publisher, rows: Sequence[Row]) -> tuple[RefutedRows, ...]:
    """Of the rows of a ledger, by sweep. A reading of test records rests on no claim of a trial."""
    called = {one.name: one.called for one in seen.sweeps()}
    found = []
    for sweep in dict.fromkeys(row.sweep for row in rows):
        by = seen.refuted(sweep) if sweep in called else {}
        if by:
            resting = tuple(_resting(seen, sweep, by, [row for row in rows if row.sweep == sweep]))
            found.append(RefutedRows(sweep=called[sweep], by=by, rows=resting))
    return tuple(found)


def not_known(refuted: Sequence[RefutedRows]) -> str:
    """What an account says of them; empty where there are none."""
    count = sum(len(one.rows) for one in refuted)
    if not count:
        return ""
    rest = "rests" if count == 1 else "rest"
    return (
        f"{count_text(count, 'row')} {rest} on a claim that an audit refuted: what is spent is not known "
        f"({'; '.join(str(one) for one in refuted if one.rows)})"
    )


def check_not_refuted(seen: Publisher, population: str, systems: Iterable[str]) -> None:
    """Raises InvalidValue for a system that an audit refuted in a sweep over this population."""
    wanted = set(systems)
    for found in refuted_rows(seen, seen.charges(population)):
        for system in sorted(wanted & found.by.keys()):
            raise InvalidValue(
                f"systems.{system}",
                system,
                f"a system that no audit refuted over population {population!r}: audit {found.by[system].audit} of "
                f"{found.sweep} refuted a claim of it, so that nobody knows what a launch of it costs",
                "Leave that system out.",
            )


def _resting(seen: Publisher, sweep: str, by: Mapping[str, Refutation], rows: Iterable[Row]) -> Iterator[Row]:
    systems = {one.key: one.system for one in seen.claimed(sweep)}
    for row in rows:
        match row.kind:
            case RowKind.SWEEP:
                yield row
            case RowKind.ATTEMPT:
                if systems.get(row.what.rpartition("/")[0]) in by:
                    yield row
            case RowKind.AUDIT:
                if systems.get(row.what.partition(" ")[0]) in by:
                    yield row
            case RowKind.READING:
                pass
