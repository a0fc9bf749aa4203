"""What Ray runs and moves: one launch, what the processes of a sweep share, and which nodes are to go.

A launch reports {"results": [...]} at the end, and before that {"told": ...} for each new part of a member's curve.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import ray
from ray._private import state
from ray.exceptions import RayError
from ray.util import get_current_placement_group, placement_group_table

from trainables.metrics import Dependence
from trainables.parallel.ray_shared import SharedData, TeamLayout
from trainables.system import Launch, PrivacyPlan, RunSettings, TrialRun
from trainables.worker.attempt import UNWRITABLE, Attempt, Progress
from trainables.worker.files import Folder

TOLD = "told"

# Credentials of an object store, handed from the driver to the workers as a value of the cluster's object store.
#
# Never in a runtime environment, a command line or a configuration: Ray logs these, and shows them to everybody who
# can open its dashboard.

NAMES = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"})
"""Variables that the driver's environment decides for all workers; any other one is the node's own."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The variables of `NAMES` that are set, with their values, which no text shows."""

    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def of_this_process(cls) -> Credentials:
        """Those of the driver."""
        return cls({name: os.environ[name] for name in NAMES if name in os.environ})

    def take(self) -> None:
        """Let this process have them, in place of its own."""
        os.environ.update(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """All that the trials of a sweep have in common, as one object: each start of a trial fetches it once.

    data    put into the object store by the driver
    trials  where attempts and results are written
    secret  noise and batches come from it; it travels through the object store, never in the experiment's files
    credentials  of the driver, for the records on an object store; they travel as the secret does
    layout  of a trial's workers; None: one process
    """

    data: SharedData
    trials: Folder
    secret: bytes = field(repr=False)
    credentials: Credentials
    layout: TeamLayout | None = None


def launch_to_json(group: Launch) -> str:
    """The launch as one string: Tune keeps configurations as flat values."""
    members = [
        {**{f.name: getattr(member, f.name) for f in dataclasses.fields(member)}, "plan": member.plan.to_json()}
        for member in group.members
    ]
    own = {"measures": group.measures, "withheld": sorted(group.withheld), "seconds": group.seconds}
    return json.dumps({"members": members, "execution": dataclasses.asdict(group.execution), **own})


def launch_from_json(text: str) -> Launch:
    """The inverse of `launch_to_json`."""
    data = json.loads(text)
    for member in data["members"]:
        member |= {"plan": PrivacyPlan.from_dict(json.loads(member["plan"])), "curve": tuple(member["curve"])}
    return Launch(
        members=tuple(TrialRun(**member) for member in data["members"]),
        execution=RunSettings(**data["execution"]),
        measures=tuple(data["measures"]),
        withheld=frozenset(map(Dependence, data["withheld"])),
        seconds=data["seconds"],
    )


def ray_trial(config: Mapping[str, Any], *, shared: Shared) -> None:
    """Run `config["group"]` and report its results as one list."""
    from ray import tune

    from trainables.worker.trial import run_launch

    shared.credentials.take()
    group = launch_from_json(config["group"])
    if blind := _unseen(group, shared.trials):
        return tune.report({"results": blind})
    if shared.layout is not None:
        from trainables.parallel.ray_team import team_of

        team = team_of(shared.layout, shared.data, group.execution.device)
        group = dataclasses.replace(group, execution=dataclasses.replace(group.execution, team=team))
    leaving = notice(with_workers=shared.layout is not None)

    def tell(told: Progress) -> None:
        # In a list: Tune takes mappings apart.
        tune.report({TOLD: [told.model_dump()]})

    return tune.report({"results": run_launch(group, shared.data.get(), shared.trials, shared.secret, leaving, tell)})


def _unseen(group: Launch, trials: Folder) -> list[dict[str, Any]]:
    """One answer for each member when this machine does not see the folders that the controller has marked."""
    if all(Attempt.of(trials, member.key, member.attempt).is_seen() for member in group.members):
        return []
    why = f"{UNWRITABLE}: the node {platform.node()} does not see the controller's {trials.url}"
    return [{"key": member.key, "attempt": member.attempt, "unwritable": why} for member in group.members]


# Notice that a node is to go: drained by an operator or an autoscaler, or taken back by a cloud. What is read of Ray's
# private parts Ray Train reads in the same way for its own warning; `sweeps/ray/patches.py` has the driver's.


def draining_nodes() -> frozenset[str]:
    """Hexadecimal ids of the connected cluster's nodes that are drained. Raises RayError, RuntimeError or OSError."""
    return frozenset(state.state.get_draining_nodes())


def notice(with_workers: bool) -> Callable[[], bool]:
    """Asks whether this process's node, or one of its trial's workers' nodes, is to go.

    The cluster is asked once a second at most (0.6 ms each time); one that does not answer gives no notice.
    """
    nodes = {str(ray.get_runtime_context().get_node_id())}
    if with_workers:
        group: Any = get_current_placement_group()
        nodes |= set(placement_group_table(group)["bundles_to_node_id"].values())
    return lambda: not nodes.isdisjoint(_nodes_to_go(int(time.monotonic())))


@lru_cache(maxsize=1)
def _nodes_to_go(second: int) -> frozenset[str]:
    """As the cluster says in this second of the process's clock; none where it does not answer."""
    try:
        return draining_nodes()
    except (RayError, RuntimeError, OSError):
        return frozenset()
