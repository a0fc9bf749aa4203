"""The function that Ray Tune runs: one launch, any number of members.

It reports {"results": [...]} at the end, and before that {"told": ...} for each new part of a member's curve.
"""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainables.metrics import Dependence
from trainables.system import Execution, Member, PrivacyPlan, TrialGroup
from trainables.worker.files import Folder, NotAFolder
from trainables.worker.results import Told

TOLD = "told"

if TYPE_CHECKING:
    from trainables.worker.ray_shared import Shared


def group_to_json(group: TrialGroup) -> str:
    """The launch as one string: Tune keeps configurations as flat values."""
    members = [
        {**{f.name: getattr(member, f.name) for f in dataclasses.fields(member)}, "plan": member.plan.to_json()}
        for member in group.members
    ]
    execution = dataclasses.asdict(group.execution)
    withheld = sorted(group.withheld)
    own = {"measures": group.measures, "withheld": withheld, "seconds": group.seconds}
    return json.dumps({"members": members, "execution": execution, **own})


def group_from_json(text: str) -> TrialGroup:
    """The inverse of `group_to_json`."""
    data = json.loads(text)
    return TrialGroup(
        members=tuple(
            Member(
                **{
                    **member,
                    "plan": PrivacyPlan.from_dict(json.loads(member["plan"])),
                    "curve": tuple(member["curve"]),
                }
            )
            for member in data["members"]
        ),
        execution=Execution(**data["execution"]),
        measures=tuple(data["measures"]),
        withheld=frozenset(map(Dependence, data["withheld"])),
        seconds=data["seconds"],
    )


def ray_trial(config: Mapping[str, Any], *, shared: Shared) -> None:
    """Run `config["group"]` and report its results as one list."""
    from ray import tune

    from trainables.worker.ray_notice import notice
    from trainables.worker.trial import run_group

    shared.credentials.take()
    group = group_from_json(config["group"])
    if blind := _unseen(group, shared.trials):
        return tune.report({"results": blind})
    if shared.layout is not None:
        from trainables.parallel.ray_team import team_of

        team = team_of(shared.layout, shared.data, group.execution.device)
        group = dataclasses.replace(group, execution=dataclasses.replace(group.execution, team=team))
    leaving = notice(with_workers=shared.layout is not None)

    def tell(told: Told) -> None:
        # In a list: Tune takes mappings apart.
        tune.report({TOLD: [told.to_dict()]})

    return tune.report({"results": run_group(group, shared.data.get(), shared.trials, shared.secret, leaving, tell)})


def _unseen(group: TrialGroup, trials: Folder) -> list[dict[str, Any]]:
    """One answer for each member when this machine does not see the folders that the controller has marked."""
    from trainables.worker.attempt import UNWRITABLE, Attempt

    try:
        if all(Attempt.of(trials, member.key, member.attempt).is_seen() for member in group.members):
            return []
    except NotAFolder:
        # `run_group` says whose.
        return []
    why = f"{UNWRITABLE}: the node {platform.node()} does not see the controller's {trials.url}"
    return [{"key": member.key, "attempt": member.attempt, "unwritable": why} for member in group.members]
