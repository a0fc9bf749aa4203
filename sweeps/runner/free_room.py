"""Room in a cluster that others use as well: waited for, and told where it does not come."""

from __future__ import annotations

import time

from sweeps.process.patience import patience
from sweeps.process.waiting import waiting
from sweeps.runner.cluster import ClusterUnreachable
from sweeps.runner.ray_private.free_resources import free_resources
from sweeps.runner.resources import listed, room_for
from sweeps.spec import Resources

LOOK_SECONDS = 0.25


def await_room(resources: Resources, workers: int) -> None:
    """Return when so many workers fit beside what already runs in the joined cluster: at once, or within the patience.

    What ended a moment ago still holds its own for a second or two. Raises ClusterUnreachable.
    """
    with waiting(f"room for {workers} workers beside what else runs on the cluster") as wait:
        while room_for(resources, free := free_resources()) < workers:
            if not wait.left():
                raise ClusterUnreachable(
                    f"resources.concurrency={workers}: expected room for as many workers at once, but beside what else "
                    f"runs the cluster has room for {room_for(resources, free)} ({listed(free)} are free after "
                    f"{patience():.0f} s). Start again when the others have ended, or lower it: nothing was drawn, and "
                    "nothing is charged."
                )
            time.sleep(LOOK_SECONDS)
