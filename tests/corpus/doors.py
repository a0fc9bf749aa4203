"""Every import of the product that the corpus makes, and every shape of it that may change.

When a module moves or a value gets another shape, this file alone follows; what it returns stays as it is frozen:
plain JSON values.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from dpcore import events
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from sweeps.cli import main as cli
from sweeps.papers import PAPERS, Effort
from sweeps.papers import reproduce as reproduce_paper
from sweeps.planning.plan import plan_proposal
from sweeps.search.proposer import Proposer
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.store.workspace import Workspace
from tests.sweeps import published_sweeps
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.metrics import Dependence
from trainables.registry import SYSTEMS
from trainables.system import (
    Dataset,
    DatasetSpec,
    InputSpec,
    PrivacyPlan,
    PrivacyTarget,
    Refusal,
    RunSettings,
    Split,
    Task,
)

__all__ = ["PAPERS", "SOURCES", "SYSTEMS", "PrivacyPlan"]

MOVED = {"trainables.systems.lu2021.network": "trainables.convexified.model"}
"""Modules that a packaged spec names: where they are now, and where they were when it was frozen."""

EXAMPLES = Path(__file__).parents[2] / "sweeps" / "examples"


# Plans


def event_of(plan: PrivacyPlan, from_step: int = 0, to_step: int | None = None) -> list[list[Any]]:
    """The release of some steps as [[event, count], ...], whatever it is nested in."""
    return [[events.to_dict(one), count] for one, count in events.phases(plan.event(from_step, to_step)).items()]


def plan_document(plan: PrivacyPlan) -> dict[str, Any]:
    """A plan as plain values: all that it says, and the events of its whole path and of its middle."""
    written = plan.to_dict()
    steps = plan.steps
    return {
        "system": plan.system,
        "config": dict(sorted(plan.config.items())),
        "solved": list(plan.solved),
        "description": written["description"],
        "steps": steps,
        "event": event_of(plan),
        "event of the second third": event_of(plan, steps // 3, max(steps // 3, 2 * steps // 3)),
        "claim": written["guarantee"],
        "beside": written["beside"],
        "work": plan.work,
        "group": plan.group,
        "validation": written["validation"],
    }


def complete(system: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the system's own defaults."""
    defaults = {one.name: one.default for one in SYSTEMS[system].hyperparameters if one.default is not None}
    return defaults | dict(config)


def planned(
    system: str, config: Mapping[str, Any], facts: DatasetSpec, *, epsilon: float, delta: float, adjacency: str,
    solve: str,
) -> PrivacyPlan | Refusal | InvalidValue:  # fmt: skip
    """What a system says to a configuration."""
    target = PrivacyTarget(epsilon=epsilon, delta=delta, adjacency=Adjacency(adjacency), solve=solve)  # type: ignore[arg-type]
    try:
        return SYSTEMS[system].plan(complete(system, config), facts, target, {})
    except InvalidValue as error:
        return error


def outcome(planned: PrivacyPlan | Refusal | InvalidValue) -> dict[str, Any]:
    """A plan, or why there is none, as plain values."""
    if isinstance(planned, PrivacyPlan):
        return {"plan": plan_document(planned)}
    if isinstance(planned, Refusal):
        return {"refused": planned.reason, "violations": dict(planned.violations)}
    return {"invalid": str(planned)}


def noise_knob(system: str) -> str | None:
    """The knob that a system's calibration sets."""
    return SYSTEMS[system].solves.get("noise")


# Data


def blobs(n: int, n_validation: int) -> Dataset:
    """Two well separated classes in four dimensions."""
    rng = np.random.default_rng(7)

    def split(count: int) -> Split:
        labels = rng.integers(2, size=count)
        labels[:2] = np.arange(2)
        points = np.eye(4)[labels] + 0.1 * rng.standard_normal((count, 4))
        return Split(inputs={"x": points.astype(np.float32)}, targets=labels)

    facts = DatasetSpec(
        dataset="blobs",
        task=Task.CLASSIFICATION,
        n=n,
        n_validation=n_validation,
        features={"x": InputSpec(shape=(4,))},
        classes=2,
    )
    return Dataset(facts=facts, train=split(n), validation=split(n_validation), fingerprint="blobs")


def facts_document(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The public facts of a source, or its refusal."""
    try:
        facts = SOURCES[source].facts(options)
    except InvalidValue as error:
        return {"invalid": str(error)}
    return {
        **{name: getattr(facts, name) for name in ("dataset", "n", "n_validation", "classes")},
        "task": str(facts.task),
        "targets": [facts.target_low, facts.target_high],
        "features": {
            name: [list(one.shape), one.low, one.high, one.cardinality] for name, one in facts.features.items()
        },
        "assumptions": list(facts.assumptions),
        "treatment": list(facts.treatment),
        "unit": None if facts.unit is None else [facts.unit.column, facts.unit.max_records],
    }


def loaded_document(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The records of a source: digests of its arrays."""
    data = SOURCES[source].load(options)
    parts = {"train": data.train, "validation": data.validation}
    arrays = {f"{part}.{name}": array for part, split in parts.items() for name, array in split.inputs.items()}
    arrays |= {f"{part}.targets": split.targets for part, split in parts.items()}
    return {"fingerprint": data.fingerprint, "present": data.present, "arrays": arrays}


# Training


def fitted(
    plan: PrivacyPlan, data: Dataset, *, from_step: int = 0, to_step: int | None = None, state: Any = None,
    attempt: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """What one run leaves at its last step: arrays, and metrics but those of the machine."""
    system = SYSTEMS[plan.system]
    run = memory_run(
        plan, from_step=from_step, to_step=to_step, state=state, attempt=attempt, seed=5, key="corpus-0",
        secret=b"the secret of the frozen corpus",
    )  # fmt: skip
    run.released = lambda shown: None  # type: ignore[attr-defined]
    system.fit([run], data, RunSettings(threads=1))
    step, last, metrics = run.final
    machine = {one.name for one in system.metrics if one.depends is Dependence.SIDE_CHANNEL}
    return {
        "step": step,
        "arrays": dict(last),
        "metrics": {name: float(value) for name, value in sorted(metrics.items()) if name not in machine},
    }


# Specs and sweeps


def spec_document(raw: Any, proposals: int) -> dict[str, Any]:
    """A spec's canonical form and digest, and what its first proposals would release."""
    spec = raw if isinstance(raw, SweepSpec) else load_spec(raw)
    facts, calibrations = public_facts(spec), {}
    return {
        "canonical": spec.canonical(),
        "digest": spec.digest,
        "proposals": [
            {
                "number": one.number,
                "seed": one.seed,
                "config": dict(one.config),
                "outcome": outcome(plan_proposal(spec, one.config, facts, calibrations)),
            }
            for one in _proposed(spec, proposals)
        ],
    }


def _proposed(spec: SweepSpec, count: int) -> Iterator[Any]:
    proposer = Proposer(spec)
    for _ in range(count):
        if (proposal := proposer.propose()) is not None:
            yield proposal


def swept(raw: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """A whole sweep in this process, one trial after the other, under a secret of zeros: its records and its views."""
    workspace = published_sweeps.swept(root, {**raw, "name": published_sweeps.NAME}, views=False)
    return {"records": _records(workspace), **views(published_sweeps.NAME, root)}


def _records(workspace: Workspace) -> dict[str, Any]:
    from sweeps.store.store import open_store

    store = open_store(workspace.store_url)
    try:
        trials, ledger = store.trials(published_sweeps.NAME), store.ledger(published_sweeps.NAME)
        return {
            "trials": [
                {
                    "number": one.number,
                    "state": str(one.state),
                    "seed": one.seed,
                    "config": dict(one.config),
                    "step": one.step,
                    "metrics": {
                        name: value
                        for name, value in one.metrics.items()
                        if "seconds" not in name and "memory" not in name
                    },
                    "claim": one.guarantee if one.guarantee is None else _plain(one.guarantee),
                    "violations": dict(one.violations),
                }
                for one in trials
            ],
            "ledger": [[one.key, one.attempt, one.from_step, one.to_step, one.executed_to] for one in ledger],
        }
    finally:
        store.close()


_OF_THE_MACHINE = {
    *("seconds", "peak_memory_mb", "metric.seconds", "metric.peak_memory_mb"),
    *("proposed_at", "finished_at"),
}


def _plain(guarantee: Any) -> dict[str, Any]:
    return dict(guarantee) if isinstance(guarantee, Mapping) else guarantee.to_dict()


def said(*arguments: str) -> tuple[int, str]:
    """The exit code of a command, and all that it prints."""
    text = io.StringIO()
    with patch.object(sys, "argv", ["sweeps", *arguments]), redirect_stdout(text), redirect_stderr(text):
        try:
            cli.main()
        except SystemExit as ended:
            return int(ended.code or 0), text.getvalue()
    return 0, text.getvalue()


def _printed(command: str, sweep: str, root: Path, *options: str) -> Any:
    code, text = said(command, sweep, "--json", "--root", str(root), *options)
    assert code == 0, text
    return _without_machine(json.loads(text))


def _without_machine(value: Any) -> Any:
    """A printed document without the seconds, the memory and the times of day of its trials."""
    if isinstance(value, dict):
        return {name: _without_machine(one) for name, one in value.items() if name not in _OF_THE_MACHINE}
    return [_without_machine(one) for one in value] if isinstance(value, list) else value


def views(sweep: str, root: Path) -> dict[str, Any]:
    """What is said of a sweep, and its front."""
    return {"show": _printed("show", sweep, root), "front": _printed("pareto", sweep, root, "--as-refuted")}


# Reproductions


def published_specs(folder: Path) -> Iterator[Any]:
    """The spec of every sweep behind a published number, at every effort, on data sets below `folder`."""
    from sweeps.papers import bu2020, wu2020
    from sweeps.papers import lu2021 as lu
    from sweeps.papers import triastcyn2020 as triastcyn
    from sweeps.papers.run import full_grid

    # The package has a function of the same name.
    vandermaaten = import_module("sweeps.papers.vandermaaten2020")

    for row in bu2020.ROWS:
        yield full_grid(bu2020.sweep_of(row, folder))
    for effort in (Effort(quick=True), Effort(grid="coarse"), Effort(grid="paper")):
        for part in triastcyn.PARTS:
            if not effort.quick or part.quick is not None:
                yield full_grid(triastcyn.sweep_of(part, folder, effort))
        for part in vandermaaten.parts(vandermaaten.PAPER.sized(effort), folder):
            yield full_grid(part)
        sizes = wu2020.PAPER.sized(effort)
        yield full_grid(wu2020.credit(sizes, folder, 0))
        images, _ = wu2020.images(sizes, folder)
        if images is not None:
            yield full_grid(images)
        sizes = lu.PAPER.sized(effort)
        for one in (one.sized(sizes) for one in lu.SETS[: sizes["most"]]):
            yield full_grid(lu.algorithm_1(one, sizes, folder))
            yield full_grid(lu.beside(one, sizes, folder, lu.baseline_noises(one, sizes)))


def published_claims(paper: str, root: Path) -> dict[str, Any]:
    """All that a paper's reproduction computes without data."""
    result = reproduce_paper(paper, None, Workspace.at(root), Effort(quick=True), lambda line: None).to_dict()
    return {name: result[name] for name in ("title", "rows", "cut", "tables")}
