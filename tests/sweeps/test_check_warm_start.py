"""`sweeps check` of a spec that starts from an earlier sweep: what of it can be used, and that its cost is not here."""

from __future__ import annotations

import json
from functools import partial

import pytest

from dpcore.rounding import epsilon_text
from tests.sweeps import view_sweeps

SPEC_FILE = """
name: later
data: {source: uniform, n: 1000}
systems: {noisy-mean: {clip: {uniform: [0.2, 1.0]}, steps: 3}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error}]
search: {sampler: tpe, trials: 3, seed: 0, warm_start: views}
"""


@pytest.fixture
def check(tmp_path, command):
    path = tmp_path / "later.yaml"
    path.write_text(SPEC_FILE)
    return partial(command, "check", path, "--root", tmp_path)


def test_the_command_looks_into_the_store_for_the_earlier_sweep(tmp_path, check):
    view_sweeps.mixed_sweep(tmp_path).close()
    code, out, _ = check("--json")
    assert code == 0
    # Trials of another system fit nowhere.
    assert (json.loads(out)["warm_start"]["offered"], json.loads(out)["warm_start"]["fitting"]) == (15, 0)
    text = " ".join(check()[1].split())
    assert "Warm start 0 of 15 earlier trials fit" in text
    assert "nothing of sweep 'views' fits: the search starts cold" in text
    # Both totals: the estimate for this sweep, and what the earlier one released.
    started = json.loads(out)["started_from"]
    assert [(one["sweep"], one["in_this_store"], one["procedure"]["is_claim"]) for one in started] == [
        ("views", True, True)
    ]
    assert "Total all 3 trials together: about epsilon " in text
    assert "because the tpe sampler chooses trials by the results of earlier ones" in text
    theirs = f"all trials together: epsilon {epsilon_text(started[0]['procedure']['epsilon'])} at delta 1e-05, "
    assert f"results of sweep 'views', which adds its own total: {theirs}" in text


def test_an_earlier_sweep_that_is_not_there_is_named(tmp_path, check):
    code, _, err = check()
    assert (code, "sweeps.db" in err) == (2, True)
    view_sweeps.new_sweep(tmp_path, name="another").close()
    code, _, err = check()
    assert code == 2
    assert "'views'" in err
    assert "another" in err
