"""Private validation records from end to end: what leaves is noised and charged, and nothing raw leaves at all.

Real sweeps on a small Parquet table: store, MLflow and report are real; each launch runs in this process, without Ray.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from dpcore.accounting import headline, headline_of_parts
from dpcore.events import Adjacency, Composed, Repeated
from dpcore.randomness import fresh_secret
from sweeps.execution import session
from sweeps.execution.session import TuneRunner
from sweeps.planning.plan import plan_proposal
from sweeps.privacy.charge import ex_post
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import in_parallel, procedure_guarantee, released
from sweeps.reporting.html import write_report
from sweeps.spec.parse import load_spec
from sweeps.store.records import LedgerEntry, SweepState
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from tests.sweeps.specs import DELTA, N, people, spec_of
from tests.sweeps.stores import run_here
from tests.sweeps.view_sweeps import NoViews
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.system import Dataset, PrivacyPlan, RunSettings
from trainables.training import private_sgd
from trainables.validation import evaluate

__all__ = ["people"]


def in_process(runner: TuneRunner, data: list[Dataset], *_: object) -> SweepState:
    run_here(runner.controller, data[0], fresh_secret(), told=True)
    return SweepState.FINISHED


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a spec to its end; returns (store, folder with everything outside of the release boundary, workspace)."""

    def runs(raw: dict[str, Any], mlflow: bool = False):
        if not mlflow:
            monkeypatch.setattr(session, "Drain", NoViews)
        monkeypatch.setattr(session.TuneRunner, "_on_the_cluster", in_process)
        monkeypatch.setattr("sweeps.ray.cluster.check_reachable", lambda *_: None)
        workspace = Workspace.at(tmp_path / "state")
        name = session.create(load_spec(raw), workspace)
        session.resume(name, workspace)
        store = open_store(workspace.store_url, create=False)
        write_report(PublishedStore(store), name, workspace.report(name))
        return store, workspace

    return runs


def raw_metrics(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """What every report would have told without noise, noted beside it."""
    seen: list[dict[str, float]] = []
    report = private_sgd.report

    def noted(run, model, data, device, execution, step):
        seen.append(dict(evaluate.judge(model, data.validation, data.facts, device)))
        return report(run, model, data, device, execution, step)

    monkeypatch.setattr(private_sgd, "report", noted)
    return seen


def telling(raw: list[dict[str, float]]) -> list[float]:
    """Those of the metrics that no page has by chance, as it may have a 0.59375."""
    return [value for one in raw for value in one.values() if len(repr(value)) > 14]


def leaks(folder: Path, numbers: list[float]) -> Counter[str]:
    """How often numbers of the raw metrics stand in files outside of the workers' records, in text or in binary."""
    found: Counter[str] = Counter()
    for file in folder.rglob("*"):
        if not file.is_file() or "trials" in file.parts:
            continue
        content = file.read_bytes()
        for number in numbers:
            if repr(number).encode() in content or np.float64(number).tobytes() in content:
                found[file.name] += 1
            if np.float64(number).byteswap().tobytes() in content:
                found[file.name] += 1
    return found


RUNGS = {"early_stopping": {"method": "asha", "reduction": 2, "rungs": 3}}
CURVE = {"curve": 6, "execution": {"checkpoint_seconds": 0.001}}
REPORTS = {"once": ({}, 1), "curve": (CURVE, 6)}


@pytest.mark.parametrize(("changes", "planned"), REPORTS.values(), ids=REPORTS)
def test_a_sweep_publishes_noised_reports_alone_and_claims_what_it_spent(people, run, monkeypatch, changes, planned):
    raw = raw_metrics(monkeypatch)
    store, workspace = run(spec_of(people, **changes), mlflow=bool(changes))
    records = store.trials("own")
    plans = {record.key: record.plan for record in records}
    assert len(records) == 3
    assert len(raw) >= 3
    for record in records:
        plan = plans[record.key]
        assert plan.validation.at[-1] == plan.steps
        assert len(plan.validation.at) == planned
        told = [one.step for one in store.curves("own", [record.key])]
        assert set(told) <= set(plan.validation.at)
        if record.step == plan.steps:
            assert told == list(plan.validation.at)
        claim = headline_of_parts(
            plan.event(), plan.validation.event(), parallel=True, delta=DELTA, adjacency=Adjacency.ADD_REMOVE
        )
        assert record.guarantee.epsilon == claim.epsilon <= 2.0
        for metrics in (one.metrics for one in store.curves("own", [record.key])):
            assert {"accuracy", "auc", "loss", "accuracy_se", "auc_se", "loss_se"} <= set(metrics)
            for one in raw:
                for name, value in one.items():
                    assert metrics[name] != value
    numbers = telling(raw)
    assert numbers
    assert (Path(workspace.root) / "mlflow.db").exists() is bool(changes)
    assert not leaks(Path(workspace.root), numbers)
    drawn = len(store.curves("own"))
    # The total adds up over trials, for each part of the records by itself.
    entries = store.ledger("own")
    total = procedure_guarantee(plans, entries, DELTA, adaptive=False)
    parts = released(plans, entries).in_parallel(Adjacency.ADD_REMOVE)
    assert total.epsilon == pytest.approx(max(headline(one, DELTA, Adjacency.ADD_REMOVE).epsilon for one in parts))
    assert parts[1] == Composed(events=tuple(_counted(plans, store.curves("own"))))
    assert sum(part.count for part in parts[1].events) == drawn


def _counted(plans: dict[str, PrivacyPlan], told: Any) -> list[Repeated]:
    counts = Counter(plans[one.key].validation.histogram.event() for one in told)
    return [Repeated(event=event, count=count) for event, count in counts.items()]


def member(people: Path, batch_size: int = 40, **changes: Any):
    spec = load_spec(spec_of(people, **changes))
    data = SOURCES["table"].load(spec.data.options())
    config = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": batch_size, "epochs": 1}
    plan = plan_proposal(spec, {"system": "noisy-sgd", "target_epsilon": 2.0, **config}, data.facts, {})
    return plan, data


@pytest.mark.parametrize("source", ["pseudorandom", "secure"])
def test_another_attempt_draws_a_report_with_noise_of_its_own(people, source):
    """On the same state: the same attempt repeats its pseudorandom noise bit by bit, and is never executed twice."""
    plan, data = member(people, curve=2)
    execution = RunSettings(noise_source=source)
    model = torch.nn.Linear(3, 2)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return model(x)

    def drawn(attempt: int, step: int = plan.steps) -> dict[str, float]:
        run = memory_run(plan, attempt=attempt)
        return dict(evaluate.report(run, Model(), data, torch.device("cpu"), execution, step))

    assert drawn(1) != drawn(2)
    # Two points of one curve with the same noise would tell their exact difference.
    assert drawn(1) != drawn(1, step=plan.validation.at[0])
    assert (drawn(1) == drawn(1)) is (source == "pseudorandom")


class Mixing(torch.nn.Module):
    """Subtracts the batch mean: a record's outputs depend on its companions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = 9 * (x - x.mean(dim=0))
        return torch.cat([centred[:, :1], -centred[:, 1:2]], dim=1)


def test_one_record_moves_one_count_even_of_a_model_that_mixes(people, monkeypatch):
    plan, data = member(people)
    released: list[np.ndarray] = []
    monkeypatch.setattr(
        type(plan.validation.histogram),
        "release",
        lambda self, cells, noise: released.append(cells) or np.ones(self.cells),
    )
    part = data.validation
    shorter = type(part)({name: array[1:] for name, array in part.inputs.items()}, part.targets[1:])
    for split in (part, shorter):
        changed = Dataset(facts=data.facts, train=data.train, validation=split, fingerprint="")
        evaluate.report(memory_run(plan), Mixing(), changed, torch.device("cpu"), RunSettings(), plan.steps)
    whole, less = released
    assert np.array_equal(whole[1:], less)
    # Asked in one batch, its answers do move: that is what one at a time is for.
    together = [Mixing()(torch.from_numpy(split.inputs["x"])) for split in (part, shorter)]
    assert not torch.equal(together[0][1:], together[1])


def test_one_person_more_or_less_moves_counts_by_at_most_the_sensitivity(tmp_path):
    """Persons of 1 to 12 rows, at most k = 4 of each judged: without one of them the other persons' counts stay."""
    rng = np.random.default_rng(8)
    rows = rng.integers(1, 13, 60)
    frame = pd.DataFrame(rng.uniform(0, 1, (int(rows.sum()), 3)), columns=["a", "b", "c"])
    frame["id"], frame["rich"] = np.repeat(np.arange(60), rows), rng.integers(0, 2, len(frame))

    def judged(part: pd.DataFrame) -> Counter[bytes]:
        """The finest histogram there is: every record of a kind by itself."""
        path = tmp_path / "people.parquet"
        part.to_parquet(path)
        grouped = {"n": 60, "unit": {"column": "id", "max_records": 4}}
        privacy = {"epsilon": 2.0, "delta": DELTA, "unit": "person"}
        plan, found = member(path, batch_size=10, data=spec_of(path)["data"] | grouped, privacy=privacy)
        assert (plan.validation.histogram.sensitivity, plan.guarantee.unit) == (4, "person")
        return Counter(map(bytes, found.validation.inputs["x"]))

    whole = judged(frame)
    moved = []
    for gone in range(12):
        less = judged(frame[frame["id"] != gone])
        moved.append(sum((whole - less).values()) + sum((less - whole).values()))
    assert max(moved) == 4
    assert 0 in moved  # of those who are trained on


def entry(plan: PrivacyPlan, attempt: int, start: int, stop: int, executed: int | None) -> LedgerEntry:
    return LedgerEntry(key="own-0", attempt=attempt, from_step=start, to_step=stop, executed_to=executed)


@pytest.mark.parametrize(
    ("attempts", "reports"),
    [
        ([(0, 1.0, 1.0)], 1),
        ([(0, 1.0, None)], 1),  # open: the whole reservation, with its report
        ([(0, 1.0, 0.5)], 0),  # lost before its last interval: no report was drawn
        ([(0, 1.0, 1.0), (0.5, 1.0, 1.0)], 2),  # lost after it: drawn again, charged again
        ([(0, 1.0, 0)], 0),
    ],
)
def test_the_ledger_charges_every_report_that_may_have_been_drawn(people, attempts, reports):
    plan, _ = member(people)
    steps = plan.steps
    entries = [
        entry(plan, number, int(start * steps), int(stop * steps), None if done is None else int(done * steps))
        for number, (start, stop, done) in enumerate(attempts, start=1)
    ]
    assert sum(part.count for part in released({"own-0": plan}, entries).reports.events) == reports


@pytest.mark.parametrize("disjoint", [True, False])
def test_a_stopped_trial_is_bounded_by_its_steps_and_the_reports_so_far(people, tmp_path, disjoint):
    data, others = spec_of(people)["data"], tmp_path / "others.parquet"
    pd.read_parquet(people).assign(a=lambda one: one["a"] / 2).to_parquet(others)
    other = {"records": "private", "path": str(others), "n": N, "disjoint": disjoint}
    plan, _ = member(people, data={**data, "validation": other}, **RUNGS)
    first = plan.validation.at[0]
    known = ex_post(plan, first, rungs=3)
    counted = headline_of_parts(
        plan.event(0, first),
        Repeated(event=plan.validation.histogram.event(), count=1),
        parallel=disjoint,
        delta=DELTA / 3,
        adjacency=Adjacency.ADD_REMOVE,
    )
    assert known.epsilon == counted.epsilon < plan.guarantee.epsilon
    alone = headline(plan.event(0, first), DELTA / 3, Adjacency.ADD_REMOVE).epsilon
    assert known.epsilon == alone if disjoint else known.epsilon > alone


def test_plans_that_part_the_records_in_other_ways_add(people):
    one, _ = member(people)
    data = spec_of(people)["data"]
    other, _ = member(people, data={**data, "validation": {**data["validation"], "key": "another"}})
    entries = [LedgerEntry(key=key, attempt=1, from_step=0, to_step=one.steps, executed_to=one.steps) for key in "ab"]
    assert in_parallel([one, one])
    assert not in_parallel([one, other])
    same, mixed = (procedure_guarantee({"a": one, "b": two}, entries, DELTA, adaptive=False) for two in (one, other))
    assert mixed.epsilon > same.epsilon * 1.2


# What is said of private validation records before a sweep runs: preview, recorded text, refusals.
