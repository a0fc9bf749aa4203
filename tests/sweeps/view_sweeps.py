"""Sweeps in a real store, written the way a controller writes them, for the tests of the views."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpcore.events import Adjacency, Gaussian
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.protocol import Scheduled
from sweeps.reporting.front import FrontAxis
from sweeps.store.lease import Lease
from sweeps.store.records import Proposal, Settlement, SweepRecord, TrialRecord, TrialState
from sweeps.store.store import Store, open_store
from sweeps.util.files import url_of
from tests.sweeps.specs import recorded
from trainables.system import PrivacyPlan, Refusal, Scalar

OBJECTIVES = [{"metric": "accuracy", "goal": "maximize"}, {"metric": "epsilon", "goal": "minimize"}]
REFERENCE = {"accuracy": {"value": 0.0, "source": "the worst there is"}, "epsilon": {"value": 8.8, "source": "given"}}


def new_sweep(root: Path, name: str = "views", *, created_at: float = 1.7e9, **spec: object) -> Store:
    """A store at `root` with one empty sweep."""
    store = open_store(url_of(root / "sweeps.db"))
    content = {
        "name": name,
        "objectives": OBJECTIVES,
        "search": {"trials": 100, "sampler": "random"},
        "privacy": {"allow_raw_measures": None},
        "front": {"reference": REFERENCE},
        **spec,
    }
    store.create_sweep(
        SweepRecord(
            name=name, spec=recorded(content), digest="d", fingerprints={}, root=str(root), created_at=created_at
        )
    )
    return store


def guarantee(epsilon: float, **changes: object) -> Guarantee:
    fields: dict = {
        "epsilon": epsilon,
        "delta": 1e-5,
        "adjacency": Adjacency.ADD_REMOVE,
        "accountant": "pld",
        "status": Status.PROVED,
        "theorem": "Dong, Roth and Su (2022), Theorem 2.7",
        "assumptions": ("floating point: not covered",),
    }
    return Guarantee(**{**fields, **changes})


def plan(config: dict, epsilon: float, steps: int = 10, work: float = 1000.0, **changes: object) -> PrivacyPlan:
    return PrivacyPlan(
        system=str(config["system"]),
        config=config,
        solved=("noise_multiplier",),
        mechanism=Scheduled(schedule=((Gaussian(noise_multiplier=4.0, adjacency=Adjacency.ADD_REMOVE), steps),)),
        description="Gaussian noise on clipped sums",
        guarantee=guarantee(epsilon, **changes),
        work=work,
    )


def config_of(number: int, system: str = "noisy-sgd") -> dict:
    epsilon = [1.0, 2.0, 4.0, 8.0][number % 4]
    return {
        "system": system,
        "target_epsilon": epsilon,
        "learning_rate": 0.05 * (1 + number * 7 % 13),
        "batch_size": [64, 128, 256][number % 3],
        "model": "mlp",
        "nesterov": number % 2 == 0,
    }


def launch(store: Store, lease: Lease, number: int, **changes: Any) -> str:
    config = config_of(number)
    store.launch(
        lease,
        Proposal(number=number, config=config, seed=number),
        plan(config, config["target_epsilon"], **changes),
        10,
    )
    return f"{lease.sweep}-{number}"


def accuracy_of(number: int) -> float:
    config = config_of(number)
    rate = config["learning_rate"]
    return 0.4 + 0.04 * config["target_epsilon"] - 0.5 * (rate - 0.3) ** 2 + 0.001 * number


def complete(store: Store, lease: Lease, number: int, accuracy: float | None = None, **changes: object) -> str:
    key = launch(store, lease, number, **changes)
    settle(store, lease, number, accuracy, **changes)
    return key


def settle(store: Store, lease: Lease, number: int, accuracy: float | None = None, **changes: object) -> None:
    """Complete a trial that was launched."""
    budget = config_of(number)["target_epsilon"]
    epsilon = budget * 0.999
    store.settle(
        lease,
        f"{lease.sweep}-{number}",
        1,
        Settlement(
            executed_to=10,
            step=10,
            metrics={
                "accuracy": accuracy_of(number) if accuracy is None else accuracy,
                "epsilon": epsilon,
                "seconds": 0.5 + number % 3,
            },
            guarantee=guarantee(epsilon, **{"aimed_at": budget, **changes}),
            seconds=0.5,
        ),
    )


def refuse(store: Store, lease: Lease, number: int) -> None:
    refusal = Refusal(violations={"noise": 0.5}, reason="needs <more> noise than allowed")
    store.record_infeasible(lease, Proposal(number=number, config=config_of(number), seed=number), refusal)


def mixed_sweep(root: Path, trials: int = 12, name: str = "views") -> Store:
    """`trials` complete ones, then one failed, one infeasible, one lost (to be continued)."""
    store = new_sweep(root, name)
    lease = store.acquire(name)
    store.set_state(lease, "running")
    for number in range(trials):
        complete(store, lease, number)
    store.fail(lease, launch(store, lease, trials), 1, 3, "loss=nan: expected finite metrics")
    refuse(store, lease, trials + 1)
    store.lose(lease, launch(store, lease, trials + 2), 1, None, "its worker was lost")
    store.set_state(lease, "finished")
    lease.release()
    return store


# Records and objectives of small fronts.


ACCURACY, EPSILON = FrontAxis("accuracy", "maximize"), FrontAxis("epsilon", "minimize")

ERROR = FrontAxis("error", "minimize")


def record(number: int, epsilon: float = 1.0, state: TrialState = TrialState.COMPLETE, **metrics: float):
    config: dict[str, Scalar] = {"system": "noisy-sgd", "target_epsilon": 1.0, "learning_rate": 0.1 * (number + 1)}
    told = {
        "plan": plan({"system": "noisy-sgd"}, 1.0, work=10.0 * number),
        "metrics": metrics,
        "guarantee": guarantee(epsilon, theorem="a theorem", assumptions=()),
    }
    return TrialRecord.of("s", Proposal(number=number, config=config, seed=number), state, **told)


def claiming(number: int, **changes: object) -> TrialRecord:
    base = record(number, accuracy=0.5 + number / 100)
    assert base.guarantee is not None
    return replace(base, guarantee=replace(base.guarantee, **changes))


# Empty MLflow databases, the runs that stand in one, and sweeps that do without.


@functools.cache
def _empty_database() -> bytes:
    from mlflow import MlflowClient

    with tempfile.TemporaryDirectory() as folder:
        MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db").search_experiments()
        return Path(folder, "mlflow.db").read_bytes()


def prepared(root: Path) -> str:
    """The URI of an MLflow database with empty tables: making them anew takes MLflow seconds."""
    (root / "mlflow.db").write_bytes(_empty_database())
    return f"sqlite:///{root}/mlflow.db"


def runs_of(uri: str, name: str = "views") -> dict[str, list]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    found: dict[str, list] = {}
    for run in client.search_runs([experiment.experiment_id], max_results=1000):
        found.setdefault(run.data.tags.get("sweeps.trial_key", "parent"), []).append(run)
    return found


class NoViews:
    """In the place of `session.Drain`: an MLflow that is away, without the seconds that a process of its own takes."""

    uri, delivered = "", False

    def __init__(self, *_: object) -> None: ...

    def start(self) -> None: ...

    def __enter__(self) -> NoViews:
        return self

    def __exit__(self, *_: object) -> None: ...
