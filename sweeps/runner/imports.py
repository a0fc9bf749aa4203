"""Whether every node of a cluster can import what trials are made of: the user's own functions."""

from __future__ import annotations

from collections.abc import Sequence

import ray

from dpcore.checks import InvalidValue
from sweeps.process.patience import patience
from sweeps.runner.cluster import ClusterUnreachable
from sweeps.runner.every_node import ask_every_node
from trainables import plugins


def imported_by_all(functions: Sequence[str]) -> None:
    """Import `functions`, each module:function, in a worker of each node, where its operator lets them run.

    Raises ClusterUnreachable with the first node that does not have them.
    """
    if not functions:
        return
    named = ", ".join(functions)
    for answer in ask_every_node(_import_failure, tuple(functions), purpose=f"to import {named}", retries=0):
        failure = answer.value
        if isinstance(answer.error, ray.exceptions.GetTimeoutError):
            failure = f"{named}: no answer within {patience():g} s"
        elif answer.error is not None:
            failure = f"{named}: its worker ended ({type(answer.error).__name__})"
        if failure:
            where = answer.node["NodeManagerAddress"]
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
