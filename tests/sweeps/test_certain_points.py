"""What a sweep is said to cost before it runs holds the points that are tried whatever is drawn."""

from __future__ import annotations

import pytest

from dpcore.gdp import eps_gdp, mu_gdp
from sweeps.planning.estimate import next_sweep
from sweeps.planning.preview import preview
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.population import Population
from tests.sweeps.fake_workers import SPEC

DELTA = 1e-5
KNOBS = {"clip": {"choice": [0.5, 1.0]}, "steps": 4, "shrinkage": 0.5, "prior": 0.5}
DEAR = [{"clip": 0.5, "target_epsilon": 8.0}, {"clip": 1.0, "target_epsilon": 8.0}]


def spec(**search):
    return load_spec(
        SPEC
        | {
            "data": {"source": "uniform", "n": 1000},
            "systems": {"noisy-mean": KNOBS},
            "privacy": {"epsilon": [0.1, 8.0], "delta": DELTA},
            "search": {"seed": 0} | search,
        }
    )


def together(*epsilons):
    """Of plain Gaussians: exact."""
    return eps_gdp(sum(mu_gdp(one, DELTA) ** 2 for one in epsilons) ** 0.5, DELTA)


@pytest.mark.parametrize(
    ("search", "spent"),
    [
        ({"sampler": "random", "trials": 2, "first": DEAR}, (8.0, 8.0)),
        ({"sampler": "grid", "trials": 4}, (0.1, 0.1, 8.0, 8.0)),
        ({"sampler": "grid", "trials": 10, "repeats": 2, "first": DEAR}, (0.1,) * 4 + (8.0,) * 6),
    ],
    ids=["known", "grid", "both"],
)
def test_the_estimate_holds_what_is_certain(search, spent):
    one = spec(**search)
    assert preview(one).total.epsilon == pytest.approx(together(*spent), rel=2e-2)
    ledger = Population.of("people", "linear", 1000.0, 1e-2)
    assert next_sweep(ledger, [], one, public_facts(one)).cost.epsilon == pytest.approx(sum(spent), rel=2e-2)


def test_what_is_left_to_draws_is_drawn():
    one = spec(sampler="random", trials=40, first=DEAR)
    total = preview(one).total.epsilon
    assert together(8.0, 8.0, *[8.0] * 10) < total < together(*[8.0] * 40)
