"""The exam of a sampler: its duties, tried on results that are made up, and what it gets wrong, in words.

The tests sit every sampler of the registry to it, and `sweeps check` one that is not this project's own:

    assert not faults(load_spec({..., "search": {"sampler": "mylab.samplers:build", ...}}))
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from dpcore.guarantee import Guarantee, Status
from sweeps.privacy.release import OPEN, Published
from sweeps.search.proposer import Proposer
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Proposal, TrialRecord, TrialState
from trainables.system import Scalar

PROPOSALS = 12
"""More than most samplers draw at random before they learn (ten)."""
REFUSED = 5
"""Every so many of them is infeasible."""


def faults(spec: SweepSpec) -> list[str]:
    """What the sampler of `spec` gets wrong, one sentence each; nothing where it passes.

    - A proposal is a function of spec, number and results: a second run, and one that starts over from the records
      half-way, as after a crash, give the same.
    - It is a point of the space: of one system, with the knobs of that system and no others, each in its domain.
    - One that is independent gives the same points whatever the results are.

    Raises what the sampler raises.
    """
    space, first = Space.of(spec), []
    for number, config in enumerate(_run(spec)):
        if why := space.misfit(config):
            return [f"proposal {number} is no point of the space: {why}"]
        first.append(config)
    found = []
    if list(_run(spec)) != first:
        found.append(
            "it proposes something else when it is run again: it depends on more than seed, number and results"
        )
    if list(_run(spec, restart_at=PROPOSALS // 2)) != first:
        found.append("it proposes something else after a restart: it remembers what the records do not say")
    return found


def _run(spec: SweepSpec, restart_at: int = -1) -> Iterator[dict[str, Scalar]]:
    """The configurations of one trial after the other."""
    proposer = Proposer(spec)
    records: list[Published] = []
    for number in range(PROPOSALS):
        if number == restart_at:
            proposer = Proposer(spec)
            proposer.rebuild(records)
        proposal = proposer.propose()
        if proposal is None:
            return
        records.append(OPEN.published_alone(_made_up(spec, proposal)))
        proposer.tell(records[-1])
        yield dict(proposal.config)


def _made_up(spec: SweepSpec, proposal: Proposal) -> TrialRecord:
    refused = proposal.number % REFUSED == REFUSED - 1
    claim = Guarantee(
        epsilon=proposal.target_epsilon or 0.0,
        delta=spec.privacy.delta,
        adjacency=spec.privacy.adjacency,
        accountant="none",
        status=Status.NO_CLAIM,
        theorem="made up",
    )
    return TrialRecord.of(
        spec.name,
        proposal,
        TrialState.INFEASIBLE if refused else TrialState.COMPLETE,
        violations={"made_up": 0.5} if refused else {},
        metrics={} if refused else {one.metric: _unit(one.metric, proposal) for one in spec.objectives},
        guarantee=None if refused else claim,
        step=0 if refused else 1,
    )


def _unit(metric: str, proposal: Proposal) -> float:
    """A number in [0, 1) that every run makes up alike."""
    return random.Random(f"{metric} {sorted(proposal.config.items())}").random()
