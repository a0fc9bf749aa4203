"""Whether every node of a cluster can import what trials are made of: the user's own functions."""

from __future__ import annotations

from collections.abc import Sequence

import ray

from dpcore.checks import InvalidValue
from sweeps.process.patience import patience
from sweeps.runner.cluster import ClusterUnreachable, on_every_node
from trainables import plugins


def imported_by_all(functions: Sequence[str]) -> None:
    """Import `functions`, each module:function, in a worker of each node, where its operator lets them run.

    Raises ClusterUnreachable with the first node that does not have them.
    """
    if not functions:
        return
    seconds, named = patience(), ", ".join(functions)
    for node, answer in on_every_node(_import_failure, tuple(functions), retries=0):
        try:
            failure = ray.get(answer, timeout=seconds)
        except ray.exceptions.GetTimeoutError:
            failure = f"{named}: no answer within {seconds:g} s"
        except ray.exceptions.RayError as error:
            failure = f"{named}: its worker ended ({type(error).__name__})"
        if failure:
            where = node["NodeManagerAddress"]
            raise ClusterUnreachable(
                f"the worker on {where} cannot import {failure}. Install it on every node, or send it along: `sweeps "
                "submit` does."
            )


def _import_failure(functions: Sequence[str]) -> str:
    """Why one of them cannot be imported here; empty where all can."""
    for function in functions:
        try:
            plugins.brought("function", function)
        except InvalidValue as error:
            return f"{function}: expected {error.expected}"
        except Exception as error:
            return f"{function}: {type(error).__name__}: {error}"
    return ""
