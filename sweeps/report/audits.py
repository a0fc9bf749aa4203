"""What audits of the sweep's trials found; nothing where there was none."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dpcore.audit import AuditOutcome
from dpcore.rounding import epsilon_text
from sweeps.audit.audit_records import AuditRecord
from sweeps.release.policy import Release
from trainables.metrics import Dependence

_NOTE = (
    "Lower bounds on epsilon from twins with canaries. An audit refutes or stays silent; it verifies nothing. These "
    "numbers are in no ledger and covered by no claim."
)
_KEPT = "read the sweep's records: its numbers are covered by no claim and stay where the records are kept"


def audits_section(audits: Sequence[AuditRecord], release: Release) -> str:
    """A table of audits, with a warning above it where one refuted its claim.

    Numbers of an audit that read the sweep's own records are withheld as a raw metric's are: it is named, and told
    where they are. That a claim is refuted is always said.
    """
    if not audits:
        return ""
    refuted = sorted({one.system for one in audits if one.outcome is AuditOutcome.REFUTED})
    warning = "".join(
        f'<p><span class="badge refuted">refuted</span> Publish no trial of {escape(system)}: an audit refuted its '
        "claim, and its trials share the code.</p>"
        for system in refuted
    )
    head = "".join(f"<th>{one}</th>" for one in ("trial", "system", "claimed ε", "audited ε", "verdict", "how"))
    withheld = Dependence.RAW in release.withheld
    rows = "".join(_kept(one) if withheld and one.reads_records else _row(one) for one in audits)
    return (
        f'<h2>Audits</h2><div class="card scroll">{warning}<p class="soft">{_NOTE}</p><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div>"
    )


def _kept(one: AuditRecord) -> str:
    told = f'<td colspan="4">{_KEPT} (audit {one.number})</td>'
    return f"<tr><td>{escape(one.trial)}</td><td>{escape(one.system)}</td>{told}</tr>"


def _row(one: AuditRecord) -> str:
    against = "the whole curve" if one.on_curve else "the claimed point"
    cells = (
        escape(one.trial),
        escape(one.system),
        epsilon_text(one.claim.epsilon),
        f"≥ {epsilon_text(one.audit.epsilon_lower, up=False)}",
        f"{one.outcome} at level {one.level:.3g}, against {against}",
        escape(f"{one.audit}; {one.design}"),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
