"""Which metrics that a spec asks for no trial could report on its data, by what systems declare of their metrics."""

from __future__ import annotations

from sweeps.spec.draft import Draft
from sweeps.spec.problems import Problems
from trainables.measures.quality import GROUPED
from trainables.publishing import declared
from trainables.system import Dependence, Metric, PublicFacts
from trainables.validation.declaration import NOISE_SD


def check_reported(draft: Draft, problems: Problems) -> None:
    """A metric may need validation records, or another kind of target: a trial that cannot report it has no rank."""
    if draft.facts is None:
        return
    for path, name in draft.asked:
        for system in draft.chosen:
            metric = declared(system, [name]).get(name)
            if metric is not None and (lacking := _lacking(metric, draft.facts)):
                expected, remedy = lacking
                problems.add(path, name, f"{expected}, for {system.name}", remedy)


def _lacking(metric: Metric, facts: PublicFacts) -> tuple[str, str] | None:
    """What would have to be, and what to do; None where nothing is missing."""
    if metric.depends is Dependence.VALIDATION and not facts.n_validation:
        return (
            f"validation records: {facts.dataset} has none, and no trial would report it",
            "Declare data.validation, or choose another objective.",
        )
    if metric.tasks is not None and facts.task not in metric.tasks:
        return (
            f"a metric of a {facts.task}, which {facts.dataset} is: no trial would report it",
            "Choose another objective; `sweeps systems` lists them.",
        )
    if metric.name.removesuffix(NOISE_SD) in GROUPED and facts.groups is None:
        remedy = "Declare data.groups: {column: NAME, categories: [...]} (source table), or drop it."
        return f"groups: {facts.dataset} declares none, and no trial would report it", remedy
    if metric.name.endswith(NOISE_SD) and facts.private_validation is None:
        return "private validation records: no noise is added to public ones", "Choose another objective."
    return None
