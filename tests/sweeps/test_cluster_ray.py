"""Teams, shared data and fractions of a GPU on a real Ray, with the device numbers made up."""

from __future__ import annotations

import sys
import types
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import ray

import sweeps.ray  # noqa: F401  (sets what Ray reads from the environment before it is imported)
from dpcore.checks import InvalidValue
from sweeps.execution import session
from sweeps.ray.cluster import ClusterUnreachable, await_room, check_importable_everywhere
from sweeps.ray.patches import cluster_metadata, head_processes, other_versions
from sweeps.selection.run import KEY
from sweeps.store.population import Population
from sweeps.store.records import SweepState
from sweeps.store.workspace import Workspace
from sweeps.util.waiting import VARIABLE
from tests.sweeps.sealed_searches import SPEC as SEALED
from tests.sweeps.sealed_searches import Search
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.parallel.ray_shared import SharedData, TeamLayout
from trainables.system import PrivacyPlan, PrivacyTarget, RunSettings
from trainables.systems.noisy_sgd import NOISY_SGD
from trainables.worker.ray import draining_nodes

LAYOUT = TeamLayout(workers=2, cpus=0.5, gpus=0.0)


@pytest.fixture(scope="module")
def cluster():
    ray.init(
        address="local",
        num_cpus=2,
        num_gpus=1,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100_000_000,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def digits():
    return SOURCES["digits"].load({})


def test_what_is_entered_of_rays_private_parts_answers_on_a_running_cluster(cluster):
    host, port = ray.get_runtime_context().gcs_address.split(":")
    told = cluster_metadata(host, int(port))
    assert told is not None
    assert other_versions(told) is None
    assert "1.0" in (other_versions({**told, "ray_version": "1.0"}) or "")
    assert draining_nodes() == frozenset()
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in head_processes()]
    assert any("gcs_server" in one for one in commands)
    assert any("raylet" in one for one in commands)


def planned(digits, **changes) -> PrivacyPlan:
    config = {"model": "mlp", "hidden": 8, "learning_rate": 0.2, "clip_norm": 1.0, "batch_size": 128, "epochs": 0.5}
    target = PrivacyTarget(epsilon=1e6, delta=1e-5, solve="none")
    plan = NOISY_SGD.plan(config | {"noise_multiplier": 1.0} | changes, digits.facts, target, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def owner(data: SharedData, plans: list[PrivacyPlan], kill_last: bool = False) -> list:
    """What a trial's process does, one run after the other: final weights or the exception, and the team's start."""
    from trainables.parallel.ray_team import team_of

    out = []
    for number, plan in enumerate(plans):
        team = team_of(LAYOUT, data)
        if kill_last and number == len(plans) - 1:
            ray.kill(team._actors[1])
        run = memory_run(plan)
        try:
            NOISY_SGD.fit([run], data.get(), RunSettings(team=team))
        except Exception as error:
            out.append((type(error), str(error), id(team), 0.0))
        else:
            out.append((run.final[1], "", id(team), team.peak_memory_mb()))
    return out


def test_a_team_of_processes_trains_the_model_of_one_fails_as_one_and_is_reused(cluster, digits):
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    good, bad = planned(digits), planned(digits, model="tests.trainables.broken_models:raises_when_called")
    group = placement_group([{"CPU": 0.5}, {"CPU": 0.5}])
    here = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=0)
    task = ray.remote(num_cpus=0)(owner).options(scheduling_strategy=here)
    first, second, broken, killed = ray.get(task.remote(SharedData.put(digits), [good, good, bad, good], True))
    alone = memory_run(good)
    NOISY_SGD.fit([alone], digits, RunSettings())
    for found in (first, second):
        assert isinstance(found[0], dict), found
        # Two processes that have torch loaded.
        assert 2 * 150 < found[3] < 2 * 2000
        for name, value in alone.final[1].items():
            np.testing.assert_allclose(found[0][name], value, rtol=2e-4, atol=2e-5)
    # Reused after a success, with the very workers; replaced after a failure.
    assert first[2] == second[2] == broken[2]
    assert broken[0] is KeyError
    assert killed[0].__name__ == "WorkerLost"
    assert issubclass(killed[0], OSError)
    remove_placement_group(group)


def look(data: SharedData) -> tuple[bool, bool]:
    image = data.get().train.inputs["image"]
    return image.flags.writeable, image.flags.owndata


def test_data_are_mapped_and_not_copied(cluster, digits):
    shared = SharedData.put(digits)
    looks = ray.get([ray.remote(num_cpus=0.1)(look).remote(shared) for _ in range(4)])
    assert set(looks) == {(False, False)}


def test_a_module_that_only_this_process_has(cluster, monkeypatch):
    check_importable_everywhere(["json:loads", "tests.trainables.broken_models:right"])
    monkeypatch.setitem(sys.modules, "only_here", types.ModuleType("only_here"))
    with pytest.raises(
        ClusterUnreachable,
        match=r"only_here:build: expected a module.*, only_here was not found\. Install it on every node",
    ):
        check_importable_everywhere(["only_here:build"])


def test_check_asks_the_cluster_what_it_has(cluster):
    from sweeps.examples import load
    from sweeps.planning.preview import check_places

    check_places(load("toy", changes=["resources.gpus=1"]), "auto")
    with pytest.raises(ClusterUnreachable, match=r"1 worker with 1 CPUs and 8 GPUs: the cluster has 2 CPUs, 1 GPUs"):
        check_places(load("toy", changes=["resources.gpus=8"]), "auto")


def test_a_sealed_search_with_workers_that_would_wait_is_refused_before_its_price_is_paid(cluster, tmp_path):
    """The cluster has two CPUs and a GPU; the population's ledger and the folder stay as they were."""
    from sweeps.planning.preview import check_places

    with closing(Workspace.at(tmp_path).open_store(create=True)) as store:
        store.make_population(Population.of("people", "linear", 5.0, 1e-4))
    data = {**SEALED["data"], "population": "people"}
    for number, (resources, most) in enumerate((({"cpus": 1}, 2), ({"cpus": 0.1, "gpus": 0.6}, 1))):
        search = Search(tmp_path, name=f"s{number}", data=data, resources={**resources, "concurrency": 3})
        with pytest.raises(InvalidValue, match=f"resources.concurrency=3: expected at most {most} on the cluster"):
            check_places(search.spec, "auto")
        with pytest.raises(InvalidValue, match=rf"at most {most} on the cluster, by what it has \(2 CPUs, 1 GPUs\)"):
            session.resume(search.name, search.workspace, session.RunOptions(address="auto"))
        assert search.store.sweep(search.name).state is SweepState.CREATED
        assert not search.store.charges("people")
        assert not (search.places.own / KEY).exists()


def test_a_sealed_search_whose_room_others_hold_is_refused_before_its_price_is_paid(cluster, tmp_path, monkeypatch):
    """Of two CPUs another job holds one; when it ends, there is room."""

    @ray.remote(num_cpus=1)
    class Other:
        def here(self):
            return True

    other = Other.remote()
    assert ray.get(other.here.remote())
    search = Search(tmp_path, resources={"cpus": 1, "concurrency": 2})
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(ClusterUnreachable, match=r"has room for 1 \(1 CPUs, 1 GPUs are free after 1 s\)"):
        session.resume(search.name, search.workspace, session.RunOptions(address="auto"))
    assert search.store.sweep(search.name).state is SweepState.CREATED
    assert not (search.places.own / KEY).exists()
    ray.kill(other)
    monkeypatch.setenv(VARIABLE, "60")
    await_room(search.spec.resources, 2)
