"""Whether the rows of a document agree with one another: what one says of the sweep has to be so in all."""

from __future__ import annotations

from collections.abc import Iterator

from sweeps.certificate.claimed import Check
from sweeps.certificate.document import Body


def agreed(body: Body) -> Iterator[Check]:
    """What rows say of each other."""
    yield _launches(body)


def _launches(body: Body) -> Check:
    """Launches and steps are those of the ledger; the ledger of one trial has a part of those of its sweep."""
    rows, told = body.ledger.rows, (body.accesses.training, body.accesses.steps)
    counted = (len(rows), sum(row.charged_to - row.from_step for row in rows))
    match told:
        case (int(training), int(steps)) if not body.mode.sealed:
            whole = (training, steps) == counted
            held = whole if body.mode.searched else training >= counted[0] and steps >= counted[1]
        case _:
            held = body.mode.sealed and told == (None, None)
    said = "secret" if body.mode.sealed else f"{counted[0]} launches of {counted[1]} steps in the ledger"
    return Check("readings of training records", held, said)
