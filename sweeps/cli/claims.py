"""Commands about what a sweep claims: `sweeps audit` tries to refute it, `sweeps certify` signs or verifies it."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dpcore.audit import AuditOutcome
from dpcore.checks import InvalidValue
from dpcore.gdp import eps_gdp
from sweeps import api
from sweeps.audit import AuditRecord, attack_trial
from sweeps.cli.common import DEFAULT_ROOT, Answer, Root, StoreUrl, TrialName, answers, on_sweep
from sweeps.privacy.claims import HEADING, Assumptions, claim_text
from sweeps.sweep import Sweep
from sweeps.util import log
from sweeps.util.exits import ExitCode
from sweeps.util.fingerprint import check_accepted
from trainables.measures.membership import Attacked


@answers
@on_sweep
def audit(
    sweep: Sweep,
    trial: TrialName,
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
) -> Answer:
    """Try to refute a trial's claim: retrain twins with canaries and bound epsilon from below.

    Exits with 3 when the claim is refuted. A claim that survives is consistent, never verified.
    """

    def say(line: str) -> None:
        log.say(f"training {line}", log.Event.PROGRESS)

    if shadows is not None:
        check_accepted(accept or [], ("code", "data"))
        key, attacks = attack_trial(sweep.workspace, sweep.name, trial, shadows, accept=accept or [], say=say)
        document = {"trial": key, "covered_by_claim": False, "attacks": [asdict(one) for one in attacks]}
        return document, "\n".join(attack_lines(key, attacks))
    record = sweep.audit(trial, method=method, canaries=canaries, runs=runs, accept=accept or (), say=say)
    refuted = record.outcome is AuditOutcome.REFUTED
    return record.to_dict(), "\n".join(lines(record)), ExitCode.REFUTED if refuted else ExitCode.OK


def lines(record: AuditRecord) -> list[str]:
    """The audit as it is printed."""
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
    mu, delta = record.audit.mu_lower, record.audit.delta
    if not (record.on_curve and mu and delta):
        return []
    epsilon = math.floor(eps_gdp(mu, delta) * 1e4) / 1e4
    return [f"         of a Gaussian-shaped release: mu >= {math.floor(mu * 1e4) / 1e4:g}, eps >= {epsilon:g}"]


@answers
def certify(
    sweep: Annotated[str | None, typer.Argument(help="The sweep; with --verify or --new-key none.")] = None,
    trial: Annotated[
        str | None, typer.Option(help="One trial alone, by key or number: its search is then not covered.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Your Ed25519 private key (PEM), which signs.")] = None,
    approved_by: Annotated[str, typer.Option(help="Who approved this epsilon.")] = "",
    because: Annotated[str, typer.Option(help="Why this epsilon is right for these records.")] = "",
    ranges: Annotated[
        str,
        typer.Option(
            help="How ranges of hyperparameters and public inputs were chosen, and on which data. "
            "[default: selection.chosen_by of the spec]"
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Document to write; its signature and the page for people lie beside it."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--verify", help="Verify this certificate instead, with FILE.sig beside it.")
    ] = None,
    signer: Annotated[
        Path | None, typer.Option(help="Public key (PEM) of whom the certificate should be, had from elsewhere.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--new-key", help="Make a key pair instead: this file, and FILE.pub to give away.")
    ] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
) -> Answer:
    """Certify what a sweep claims: one document, its signature, and one page for people.

    --verify recomputes the claim's arithmetic from the document alone, without store or data, and exits with 3 where
    anything in it does not hold.
    """
    if sum(one is not None for one in (sweep, certificate, file)) != 1:
        raise InvalidValue("SWEEP", sweep, "a sweep to certify, or --verify FILE, or --new-key FILE: one of them")
    if file is not None:
        public = api.new_key(file)
        return {"key": str(file), "public": str(public)}, f"{file} signs; give {public} away"
    if certificate is not None:
        if signer is None:
            raise InvalidValue("--signer", None, "the public key of whom you expect it, which came by another way")
        found = api.verify(certificate, signer=signer)
        return found.to_dict(), found, ExitCode.OK if found.stands else ExitCode.REFUTED
    assert sweep is not None
    if key is None:
        raise InvalidValue("--key", None, "your Ed25519 private key", "`sweeps certify --new-key FILE` makes one.")
    opened = api.open(sweep, root=root, store=store)
    made = opened.certify(key=key, approved_by=approved_by, because=because, ranges=ranges, trial=trial)
    places = made.save(output or opened.workspace.certificate(opened.name))
    named = dict(zip(("certificate", "signature", "page"), map(str, places), strict=True))
    return {**named, "title": made.body.title}, "\n".join([str(made), *named.values()])
