"""What audits refuted, and what that makes of the claims of a sweep: the same for every view, since the publisher asks.

A verdict is about code. Where an audit refutes the claim of one trial, the claims of all trials of that system in that
sweep fall with it: each is `refuted` from then on, and says by which audit and of which trial. The claim of a winner of
a sealed search covers the whole search: with one system all winners fall.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.guarantee import Guarantee, Status
from sweeps.ledger.assumptions import covers_search
from sweeps.release.published import Published
from sweeps.store.records import Refutation, Request, this_person

if TYPE_CHECKING:
    from sweeps.store.store import Store

FOLDER, FILE = "audits", "audit.json"
"""Of a sweep's own folder: one folder each, and what it found in it."""
_REFUTED = "refuted"


def refutations(requests: Iterable[Request], folder: Path) -> dict[str, Refutation]:
    """{system: by which audit}, the first one of each.

    requests  of the sweep: audits tell its store
    folder    the sweep's own, for audits of a time when they did not
    """
    told = [one.wanted for one in requests if isinstance(one.wanted, Refutation)]
    found = sorted([*told, *_kept(folder)], key=lambda one: one.audit)
    return {one.system: one for one in reversed(found)}


def tell(store: Store, sweep: str, folders: Iterable[Path]) -> None:
    """Append to the store whatever audits in these folders of the sweep refuted and did not tell it: folders go.

    Raises UnknownSweep.
    """
    told = {one.wanted for one in store.requests(sweep) if isinstance(one.wanted, Refutation)}
    kept = {one for folder in folders for one in _kept(folder)}
    for one in sorted(kept - told, key=lambda one: one.audit):
        store.ask(sweep, one, this_person())


def _kept(folder: Path) -> list[Refutation]:
    audits = folder / FOLDER
    if not audits.is_dir():
        return []
    # Not by `AuditRecord`: what that needs takes seconds to import, and a verdict is three words of it.
    read = [json.loads(path.read_text(encoding="utf-8")) for path in audits.glob(f"*/{FILE}")]
    return [
        Refutation(trial=one["trial"], system=one["system"], audit=int(one["number"]))
        for one in read
        if one["outcome"] == _REFUTED
    ]


def refuted(claim: Guarantee, by: Refutation, key: str, system: str) -> Guarantee:
    """What is left of a claim of the trial `key`, of `system`."""
    said = by.sentence(key) if system == by.system else by.of_search
    if said in claim.assumptions:
        return claim
    return replace(claim, status=Status.REFUTED, assumptions=(said, *claim.assumptions))


def marked(trials: Sequence[Published], by: Mapping[str, Refutation]) -> list[Published]:
    """The trials, those of refuted systems with refuted claims: made, planned, and beside. Of a sealed search all."""
    if not by:
        return list(trials)
    return [one if (found := _bears_on(one, by)) is None else _marked(one, found) for one in trials]


def _bears_on(trial: Published, by: Mapping[str, Refutation]) -> Refutation | None:
    if trial.system in by:
        return by[trial.system]
    of_search = trial.plan is not None and covers_search(trial.plan.guarantee)
    return next(iter(by.values())) if of_search else None


def _marked(trial: Published, by: Refutation) -> Published:
    def left(claim: Guarantee) -> Guarantee:
        return refuted(claim, by, trial.key, trial.system)

    claim, plan = trial.guarantee, trial.plan
    if plan is not None:
        plan = replace(plan, guarantee=left(plan.guarantee), beside=tuple(map(left, plan.beside)))
    return Published(replace(trial, guarantee=None if claim is None else left(claim), plan=plan))
