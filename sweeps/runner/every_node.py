"""Asking every node of the cluster one question, in a worker of its own: before a trial starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import ray

from sweeps.process.patience import patience
from sweeps.process.waiting import waiting


@dataclass(frozen=True)
class NodeAnswer:
    """What a node said, or why it said nothing: GetTimeoutError where it took longer than the patience.

    node  as Ray lists it
    """

    node: Mapping[str, Any]
    value: Any = None
    error: Exception | None = None


def ask_every_node(function: Callable[..., Any], *arguments: Any, purpose: str, retries: int = 3) -> list[NodeAnswer]:
    """Call `function` in a worker of each node that takes work, and wait for the answers.

    purpose  what they are waited for, after "3 nodes": "to read s3://bucket/sweeps"
    retries  where the worker ends before it answers
    """
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    remote = ray.remote(num_cpus=0, max_retries=retries)(function)
    answers = []
    for nodes in one_of_each_machine([node for node in ray.nodes() if node["Alive"]]):
        pinned = [remote.options(scheduling_strategy=strategy(node["NodeID"], soft=False)) for node in nodes]
        asked = [one.remote(*arguments) for one in pinned]
        with waiting(f"{len(nodes)} node{'s' * (len(nodes) > 1)} {purpose}"):
            ray.wait(asked, num_returns=len(asked), timeout=patience())
        answers += [_answer(node, one) for node, one in zip(nodes, asked, strict=True)]
    return answers


def one_of_each_machine(nodes: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """All nodes, as Ray lists them, in as few parts as have no machine twice.

    Nodes of one machine share the folder into which Ray unpacks a job's code, and each unpacks it at its first task,
    over that from which a worker of another may just be starting.
    """
    machines: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        machines.setdefault(node["NodeManagerHostname"], []).append(node)
    for part in zip_longest(*machines.values()):
        yield [node for node in part if node is not None]


def _answer(node: Mapping[str, Any], asked: Any) -> NodeAnswer:
    try:
        return NodeAnswer(node, value=ray.get(asked, timeout=0))
    except ray.exceptions.RayError as error:
        return NodeAnswer(node, error=error)
