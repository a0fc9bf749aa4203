"""What a system declares that it can do besides planning and training alone on public validation records.

What comes with a method of its own (canaries, membership scores, queries, neighbours, a rehearsal) is declared by the
method: see `trainables.measures.hooks` and `trainables.rehearsal.setting`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """All false unless said.

    units            it draws, bounds and counts whole units where `PublicFacts.unit` names one; a system that does not
                     is refused on such data (`trainables.claims.check_unit`)
    workers          it trains by sums of clipped gradients, which several processes can form, at any precision
    private_reports  every metric of its that depends on validation records comes from
                     `trainables.validation.evaluate.report`, and it reads those records nowhere else: so they may be
                     private
    weights          it clips the gradient of each record, or unit, after its loss was multiplied by its weight: the
                     clip norm bounds what one can move, whatever the weights
    judged_as_released  the model of its `released_model` is the one that its own metrics are of, and depends on
                     training records through the plan's release alone: `trainables.measures.quality` may be asked of it
    curve            after each number of steps in `Member.curve` it reports what a launch that ends there would, and it
                     trains no differently for that
    """

    units: bool = False
    workers: bool = False
    private_reports: bool = False
    weights: bool = False
    judged_as_released: bool = False
    curve: bool = False


NONE = Capabilities()


def capabilities_of(system: object) -> Capabilities:
    """What `system` declares as `capabilities`. Silence means nothing: outside packages may know none of it."""
    declared = getattr(system, "capabilities", NONE)
    return declared if isinstance(declared, Capabilities) else NONE
