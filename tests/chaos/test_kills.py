"""Any process may die at any moment. SWEEPS_CHAOS_KILLS=N asks for N kills in all; `make chaos` asks for 40.

The suite's four strike a controller, a raylet and two workers.
"""

import os

import pytest

from sweeps.search import Proposer
from sweeps.spec import load_spec
from tests.chaos import witness
from tests.chaos.harness import LONG, SHORT, Tortured

KILLS = int(os.environ.get("SWEEPS_CHAOS_KILLS", "4"))
PER_SWEEP = max(1, min(4, KILLS // 2))


def proposals_of_the_unbroken_sweep(text: str) -> list[dict[str, object]]:
    systems = {witness.WITNESSED_MEAN.name: witness.WITNESSED_MEAN}
    spec = load_spec(text, systems=systems)
    proposer = Proposer(spec)
    proposals = []
    for _ in range(spec.search.trials):
        proposal = proposer.propose()
        assert proposal is not None
        proposals.append(dict(proposal.config))
    return proposals


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(max(2, KILLS // PER_SWEEP)))
def test_kills_lose_nothing_double_nothing_and_charge_everything(tmp_path, seed):
    spec, trials = ((SHORT, 60), (LONG, 14))[seed % 2]
    sweep = Tortured(tmp_path, spec, seed=seed)
    kills = sweep.torture(PER_SWEEP)
    sweep.check(trials, proposals_of_the_unbroken_sweep(spec))
    print(f"\nseed {seed}, {trials} trials: {sweep.figures()}")
    assert kills == PER_SWEEP
