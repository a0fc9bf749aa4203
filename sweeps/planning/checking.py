"""The work of `sweeps check`: look at the places, plan the spec, rehearse it on made-up records. It reads no record."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.planning.preview import Preview, preview
from sweeps.planning.rehearsal import Rehearsal, Rehearsing, check_feasible
from sweeps.privacy.release import Published
from sweeps.privacy.totals import Total
from sweeps.ray.resources import check_at_once, check_sockets_fit, check_workers, workers_at
from sweeps.search import samplers
from sweeps.selection import compare
from sweeps.selection.compare import Comparison, compared
from sweeps.selection.preview import check_deadline, check_model_size, say_deadline
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import FUNCTION, SweepSpec
from sweeps.util.text import hanging
from trainables import plugins
from trainables.data import SOURCES


@dataclass(frozen=True, slots=True)
class Checked:
    """The plan of a sweep, the result of its rehearsal, and the comparison of modes; None without one.

    population  what its population has left for it (`sweeps.privacy.population`), a line each
    """

    plan: Preview
    rehearsal: Rehearsal | None
    population: tuple[str, ...] = ()
    modes: Comparison | None = None

    @property
    def treatment(self) -> tuple[str, ...]:
        """The treatment of values that are not as declared: by the declaration alone, no record was looked at."""
        return self.plan.facts.treatment

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the plan's, with the rehearsal and, where it was asked for, the comparison beside them."""
        rehearsal = self.rehearsal and self.rehearsal.to_dict()
        beside = {"treatment": list(self.treatment), "population": list(self.population)}
        whole = self.plan.to_dict() | beside | {"rehearsal": rehearsal}
        return whole if self.modes is None else whole | {"modes": self.modes.to_dict()}

    def __str__(self) -> str:
        lines = [*self.plan.lines(), *(() if self.rehearsal is None else self.rehearsal.lines())]
        lines += [("Records", one) for one in self.treatment]
        lines += [("Population", one) for one in self.population]
        parts = [*self.plan.title(), "", *(hanging(label, text) for label, text in lines)]
        return "\n".join([*parts, *([] if self.modes is None else ["", compare.text(self.modes)])])


def checked(
    spec: SweepSpec,
    *,
    rehearsal: bool = True,
    modes: bool = False,
    address: str | None = None,
    warm: Sequence[Published] = (),
    started_from: Sequence[Total] = (),
) -> Checked:
    """Plan, look at the places, rehearse. Raises SpecErrors, WouldFail, and what `check_places` raises.

    rehearsal           False: only plan, from public facts alone
    modes               compare the ways to charge for the search too (`sweeps.selection.compare`)
    address             see `check_places`
    warm, started_from  as in `sweeps.planning.preview.preview`
    """
    if rehearsal and address is not None and address.startswith("ray://"):
        raise InvalidValue(
            "--address",
            address,
            "auto or HOST:PORT: `check` asks the cluster for its nodes, which it cannot do through a client's port",
            "Check without it; `sweeps run` submits the sweep by this address.",
        )
    for function in spec.user_functions():
        # Here, and not only where it is imported: that is in another process, whose words come late.
        plugins.enter("function", function)
    if FUNCTION.fullmatch(spec.search.sampler):
        plugins.enter("search.sampler", spec.search.sampler)
    if not rehearsal:
        plan, found = preview(spec, warm=warm, started_from=started_from), None
    else:
        check_places(spec, address)
        with Rehearsing(spec) as rehearsing:
            # Planning builds the user's own model: not in this process, before it has come back from the other one.
            first = rehearsing.finished() if spec.user_modules() else None
            with redirect_stdout(sys.stderr):
                # What the user's code prints is no part of a JSON document.
                rehearsed = None if first is None else first.trial_seconds(spec)
                plan = preview(spec, warm=warm, started_from=started_from, rehearsed=rehearsed)
            found = first or rehearsing.finished()
    if found is not None:
        check_model_size(spec, found)
        if plan.selection is not None:
            measured = check_deadline(spec, found, address)
            plan = replace(plan, selection=replace(plan.selection, measured=measured))
    if not plan.feasible and (found is None or not found.ran):
        check_feasible(spec, plan.facts)
    return Checked(plan, found, modes=compared(spec, plan.facts, found) if modes else None)


def check_places(spec: SweepSpec, address: str | None = None) -> None:
    """What the files and the machine can tell before anything runs: schemas and resources, and no record.

    address  of the Ray cluster that trials are meant for; None: this machine

    Raises InvalidValue (files, columns, device, workers of a sealed search), ClusterUnreachable (resources, imports of
    its workers).
    """
    SOURCES[spec.data.source].inspect(spec.data.options())
    check_workers(spec, address)
    cpus, gpus = spec.resources.per_worker()
    if spec.execution.device == "cuda" and gpus == 0:
        raise InvalidValue(
            "execution.device",
            "cuda",
            "auto or cpu where trials ask for no GPU: they see none",
            "Set resources.gpus (or gpus_per_worker), or leave the device out.",
        )
    if address is None and gpus == 0 and cpus * spec.resources.workers <= (os.cpu_count() or 1):
        # Ray takes a second to import.
        return
    from sweeps.ray.cluster import alive_nodes, check_importable_everywhere, check_reachable, check_resources, cluster

    check_reachable(address, spec.resources)
    if address is not None:
        with cluster(address):
            nodes = alive_nodes()
            check_resources(spec.resources, nodes, "the cluster has")
            if spec.selection is not None:
                check_at_once(spec, workers_at(spec, address), nodes, "the cluster")
            check_importable_everywhere(spec.user_functions())


def before_launch(spec: SweepSpec, address: str | None = None, *, rehearsal: bool = True) -> float | None:
    """What `sweeps run` makes sure of before it records a sweep; seconds of a trial where a model was tried out.

    A model or sampler that is not ours is tried out in another process: planning builds the model, and it could take
    this one along. So are the models of a sealed search, whose size and time have to be known before it begins: a time
    that may be too short is said.
    Raises what `checked` raises. Resources of a cluster are its own to tell, when the sweep has joined it.
    """
    if address is None:
        check_places(spec)
        check_sockets_fit()
    else:
        SOURCES[spec.data.source].inspect(spec.data.options())
        check_workers(spec, address)
        from sweeps.ray.cluster import check_reachable

        check_reachable(address, spec.resources)
    ours = not spec.user_modules() and samplers.module_of(spec.search.sampler) is None
    if ours and spec.selection is None:
        check_feasible(spec, public_facts(spec))
    elif rehearsal:
        with Rehearsing(spec) as rehearsing:
            found = rehearsing.finished()
        check_model_size(spec, found)
        say_deadline(check_deadline(spec, found, address))
        if not found.ran:
            check_feasible(spec, public_facts(spec))
        return found.trial_seconds(spec)
    return None
