"""`sweeps audit`: the audit in words, as JSON, and as an exit code."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.cli.options import DEFAULT_ROOT, AsJson, Root, StoreUrl
from sweeps.ledger.assumptions import HEADING, Assumptions
from sweeps.util.exits import ExitCode

if TYPE_CHECKING:
    from sweeps.audit.audit_records import AuditRecord
    from trainables.measures.membership import Attacked


def audit(
    sweep: str,
    trial: Annotated[str, typer.Argument(help="Key of the trial, or its number.")],
    method: Annotated[
        str | None, typer.Option(help="one-run, f-dp or multi-run; default: the best that the system offers.")
    ] = None,
    canaries: Annotated[int | None, typer.Option(help="Canaries of one run (default 2000).")] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs with the target, and as many without (default 1000, or 100 where slow).")
    ] = None,
    shadows: Annotated[
        int | None, typer.Option(help="Attack membership instead (LiRA, loss threshold) with so many shadow twins.")
    ] = None,
    accept: Annotated[list[str] | None, typer.Option(help="Audit although this changed: code or data.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Try to refute a trial's claim: retrain twins with canaries and bound epsilon from below.

    Exits with 3 when the claim is refuted. A claim that survives is consistent, never verified.
    """
    from dpcore.audit import AuditOutcome
    from dpcore.checks import InvalidValue
    from sweeps.audit.audit_trial import METHODS, attack_trial, audit_trial
    from sweeps.cli.output import print_json
    from sweeps.util import log
    from sweeps.util.fingerprint import check_accepted
    from sweeps.util.workspace import Workspace
    from trainables.measures.audits import CANARIES

    known = {str(one): one for one in METHODS}
    if method is not None and method not in known:
        raise InvalidValue("--method", method, f"one of {', '.join(known)}")
    check_accepted(accept or [], ("code", "data"))
    workspace = Workspace.at(root, store=store)

    def say(line: str) -> None:
        log.say(f"training {line}", log.Event.PROGRESS)

    if shadows is not None:
        key, attacks = attack_trial(workspace, sweep, trial, shadows, accept=accept or [], say=say)
        if as_json:
            print_json({"trial": key, "covered_by_claim": False, "attacks": [asdict(one) for one in attacks]})
        else:
            print("\n".join(attack_lines(key, attacks)))
        return
    record = audit_trial(
        workspace,
        sweep,
        trial,
        method=None if method is None else known[method],
        canaries=CANARIES if canaries is None else canaries,
        runs=runs,
        accept=accept or [],
        say=say,
    )
    if as_json:
        print_json(record.to_dict())
    else:
        print("\n".join(lines(record)))
    if record.outcome is AuditOutcome.REFUTED:
        sys.exit(ExitCode.REFUTED)


def lines(record: AuditRecord) -> list[str]:
    """The audit as it is printed."""
    from dpcore.audit import AuditOutcome

    against = "the whole curve of its planned steps" if record.on_curve else "the claimed (epsilon, delta)"
    assumptions = Assumptions.of((record.headline, record.claim))
    shown = [
        f"{record.trial}  {record.system}, {record.steps} step(s)",
        *_claims(record, assumptions),
        f"audit    {record.audit}",
        *_shaped(record),
        f"attack   {record.design}; {record.trainings} twin(s) in {record.seconds:.1f} s",
        f"verdict  {record.outcome}, tested against {against} at level {record.level:.3g} (audit {record.number} of "
        "this sweep; the levels of all its audits add up to 0.05)",
    ]
    if record.outcome is AuditOutcome.REFUTED:
        shown.append(
            f"         The claim is false, or something happened that has probability {record.level:.3g}. Publish no "
            f"trial of {record.system} in this sweep: they share the code."
        )
    else:
        shown.append("         This attack did not contradict the claim. No audit can verify one.")
    if record.reads_records:
        shown.append(
            "note     Twins were trained on the sweep's own records, with noise of their own. This is in no ledger but "
            "that of the population, where one is declared, and no claim covers the numbers above: keep them where the "
            "records are kept."
        )
    else:
        shown.append("note     Every record of these twins was made up: the sweep's own were not read.")
    return [*shown, f"{HEADING}:", *(f"  {line}" for line in assumptions.lines())]


def _claims(record: AuditRecord, assumptions: Assumptions) -> list[str]:
    from dpcore.audit import AuditOutcome
    from sweeps.release.rounding import claim_text

    refuted = record.outcome is AuditOutcome.REFUTED
    headline, tested = (
        claim_text(one, "refuted, by this audit" if refuted else assumptions.status(one))
        for one in (record.headline, record.claim)
    )
    if record.headline == record.claim:
        return [f"claim    {tested}"]
    return [
        f"claim    {headline}",
        f"beside   {tested}",
        "         No audit can be held against the first: an average does not bound what one record shows. It is the "
        "second that is tested.",
    ]


def attack_lines(key: str, attacks: tuple[Attacked, ...]) -> list[str]:
    """Membership attacks as they are printed."""
    shown = [f"{key}  a twin on a random half of the records: {attacks[0].members} members, {attacks[0].others} others"]
    for one in attacks:
        rates = ", ".join(f"TPR {tpr:.3g} at FPR {fpr:g}" for fpr, tpr in one.tpr_at.items())
        calls = "" if one.accuracy is None or one.f1 is None else f", accuracy {one.accuracy:.3f}, F1 {one.f1:.3f}"
        shown.append(f"{one.name:15} AUC {one.auc:.3f}{calls}, {rates}")
    shown.append(
        "note            Computed from the sweep's own records: no claim covers these numbers, nor any verdict."
    )
    return shown


def _shaped(record: AuditRecord) -> list[str]:
    """What the same counts say of a release whose curve is Gaussian: the bound above assumes no shape."""
    from dpcore.gdp_dual import eps_gdp

    mu, delta = record.audit.mu_lower, record.audit.delta
    if not (record.on_curve and mu and delta):
        return []
    epsilon = math.floor(eps_gdp(mu, delta) * 1e4) / 1e4
    return [f"         of a Gaussian-shaped release: mu >= {math.floor(mu * 1e4) / 1e4:g}, eps >= {epsilon:g}"]
