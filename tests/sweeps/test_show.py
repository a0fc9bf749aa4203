"""`sweeps show`: every epsilon on the screen is a whole claim, rounded up."""

from __future__ import annotations

import json
import math
import sys

import pytest

from dpcore.events import Adjacency
from dpcore.guarantee import Status
from sweeps.cli import main as cli
from sweeps.privacy.ledger import CLAIM_KIND
from sweeps.store.records import Settlement
from tests.sweeps.view_sweeps import guarantee, launch, new_sweep


@pytest.fixture
def show(tmp_path, monkeypatch, capsys):
    """Runs `sweeps show` on a store in `tmp_path`; its stdout."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["sweeps", "show", "--root", str(tmp_path), *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        return capsys.readouterr().out

    return run


def sweep_of(tmp_path, *claims):
    store = new_sweep(tmp_path)
    lease = store.acquire("views")
    for number, claim in enumerate(claims):
        key = launch(store, lease, number)
        metrics = {"accuracy": 0.5, "epsilon": claim.epsilon}
        store.settle(lease, key, 1, Settlement(executed_to=10, step=10, metrics=metrics, guarantee=claim, seconds=0.5))
    lease.release()
    store.close()


def test_a_claim_is_printed_whole_and_rounded_up(tmp_path, show):
    sweep_of(tmp_path, guarantee(0.5), guarantee(1.2000001, delta=1e-5))
    lines = show("views", "--why").splitlines()
    (claim,) = [line for line in lines if line.startswith("claim")]
    assert claim == (
        "claim    one trial by itself: epsilon 1.201 at delta 1e-05, differential-privacy, add-remove, per record, "
        "by pld, status: proved (1 assumption: 1) (the largest of 2 trials, views-1); may be quoted as one trial's"
    )
    (total,) = [line for line in lines if line.startswith("total")]
    for word in ("epsilon ", "at delta 1e-05", "differential-privacy", "add-remove", "per record", "by ", "status: "):
        assert word in total
    # Nothing prints an epsilon without the rest of its claim.
    assert all("at delta" in line for line in lines if "epsilon" in line)


def test_trials_stand_above_the_verdict_and_every_epsilon_is_of_one_named_kind(tmp_path, show):
    sweep_of(tmp_path, guarantee(0.5), guarantee(1.2000001))
    out = show("views")
    assert max(map(len, out.splitlines())) <= 80
    table, verdict = out.split("Privacy      ")
    assert "1.201" in table
    assert "1.200" not in out
    kind, alone = verdict.splitlines()[:2]
    assert kind == "add-remove, per record, delta 1e-05, by pld"
    assert alone == " one trial   proved (1 assumption: 1); says nothing of having chosen it among 2"
    assert " whole sweep epsilon " in verdict
    assert "sweeps show views --why" in verdict


def test_claims_of_different_kinds_never_share_a_number(tmp_path, show):
    asymptotic = guarantee(0.7, accountant="gdp-clt", status=Status.ASYMPTOTIC)
    replaced = guarantee(9.0, adjacency=Adjacency.REPLACE_ONE)
    sweep_of(tmp_path, guarantee(2.0), asymptotic, replaced, guarantee(math.inf, delta=1e-6))
    lines = [line for line in show("views", "--why").splitlines() if line.startswith("claim")]
    assert len(lines) == 4
    for words in (
        ("epsilon 2 at delta 1e-05", "add-remove", "by pld", "status: proved", "(views-0)"),
        ("epsilon 0.7 at delta 1e-05", "by gdp-clt", "status: asymptotic", "(views-1)"),
        ("epsilon 9 at delta 1e-05", "replace-one", "(views-2)"),
        ("epsilon inf at delta 1e-06", "(views-3)"),
    ):
        assert sum(all(word in line for word in words) for line in lines) == 1


def test_json_has_the_whole_claim_beside_the_keys_of_old(tmp_path, show):
    sweep_of(tmp_path, guarantee(0.5), guarantee(1.2000001))
    out = json.loads(show("views", "--json"))["ledger"]
    assert {"attempts", "steps_executed", "steps_on_paths", "steps_in_excess", "steps_reserved_unsettled"} < set(out)
    assert out["largest_claim"] == 1.2000001
    assert out["claims"] == [
        {
            "epsilon": 1.2000001,
            "notion": "differential-privacy",
            "delta": 1e-5,
            "adjacency": "add-remove",
            "unit": "record",
            "accountant": "pld",
            "status": "proved",
            "assumptions": ["floating point: not covered"],
            "trial": "views-1",
            "trials": 2,
        }
    ]
    assert set(CLAIM_KIND) < set(out["procedure"])


def test_a_sweep_without_a_report_claims_nothing(tmp_path, show):
    new_sweep(tmp_path).close()
    assert "nothing is claimed yet: no trial has reported\n" in show("views")
    out = json.loads(show("views", "--json"))["ledger"]
    assert (out["largest_claim"], out["claims"]) == (None, [])
