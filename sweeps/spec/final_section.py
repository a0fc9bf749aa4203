"""One final run with what an earlier sweep found: nothing is searched, and nothing else leaves.

`scope: public` after a sweep on records that are declared public, `scope: holdout` after one on another part of the
same records (`data.part`).
"""

from __future__ import annotations

from dpcore.adjacency import Adjacency
from sweeps.spec.draft import Draft
from sweeps.spec.problems import Problems
from trainables.data.splits import PART, PartUse
from trainables.data.table import TABLE
from trainables.metrics import Dependence
from trainables.publishing import OWN_METRICS, declared

FINAL = ("public", "holdout")
"""Scopes of a final run."""


def is_final(draft: Draft) -> bool:
    """Whether it is one run with hyperparameters of an earlier sweep."""
    return draft.written_privacy.get("scope") in FINAL


def check_final(draft: Draft, problems: Problems) -> None:
    """`privacy.scope: public` or `holdout` with all else, and what belongs to them without them."""
    search = draft.search
    _check_part(draft, problems)
    if not is_final(draft):
        for name in ("chosen_from", "chosen"):
            if search is not None and getattr(search, name) is not None:
                expected = "privacy.scope: public beside it, or holdout"
                problems.add(f"search.{name}", getattr(search, name), expected, "Add it, or drop this.")
        return
    scope = draft.written_privacy["scope"]
    if search is not None and search.chosen_from is None:
        remedy = "Add `chosen_from: NAME`, a sweep of this store that has ended."
        problems.add("search.chosen_from", None, f"the sweep that tuned, with scope: {scope}", remedy)
    _check_search(draft, problems)
    _check_privacy(draft, problems)
    if len(draft.objectives or ()) > 1:
        expected = "one objective, by which the best trial of the sweep that tuned is chosen"
        remedy = "Keep the one that decides; `report` lists what else the final run tells."
        problems.add("objectives", [one.metric for one in draft.objectives or ()], expected, remedy)
    if scope == "holdout":
        _check_objective(draft, problems)


def _check_part(draft: Draft, problems: Problems) -> None:
    """Who reads which part: the sweep that tunes one, the final run of a holdout the other."""
    data, privacy = draft.data, draft.privacy
    if data is None or draft.facts is None:
        return
    holds, part = draft.written_privacy.get("scope") == "holdout", draft.part
    if holds and (part is None or part.use is not PartUse.FINAL):
        id_ = ", id: COLUMN" if data.source == TABLE.name else ""
        problems.add(
            PART,
            None if part is None else str(part.use),
            "the part that did not tune, with scope: holdout: a run on all records is another release of those that "
            "tuned, and adds to what they were charged",
            f"Write `part: {{use: final, share: 0.2{id_}}}` in data, with the share that tuned.",
        )
    elif part is not None and part.use is PartUse.FINAL and not holds:
        expected = "tuning, or privacy.scope: holdout beside it"
        problems.add(f"{PART}.use", "final", expected, "The final run names the sweep that tuned.")
    if (holds or part is not None) and privacy is not None and privacy.adjacency is not Adjacency.ADD_REMOVE:
        problems.add(
            "privacy.adjacency",
            str(privacy.adjacency),
            "add-remove where the records are parted: one that replaces another may change both parts",
            "Use add-remove, or leave data.part out.",
        )


def _check_objective(draft: Draft, problems: Problems) -> None:
    for path, metric in draft.asked:
        named = [OWN_METRICS.get(metric), *(declared(one, [metric]).get(metric) for one in draft.chosen)]
        side = any(one is not None and one.depends is Dependence.SIDE_CHANNEL for one in named)
        if path.startswith("objectives") and side:
            expected = "a metric that the claim of the sweep that tuned covers: times and memory depend on the records"
            problems.add(path, metric, expected, "List it under `report`.")


def _check_search(draft: Draft, problems: Problems) -> None:
    search = draft.search
    if draft.early_stopping is not None:
        problems.add("early_stopping.method", draft.early_stopping.method, "null: a final run is one trial", "Drop it.")
    if search is None:
        return
    if search.trials != 1:
        expected = "1: the one final run, with what search.chosen_from found"
        problems.add("search.trials", search.trials, expected, "Write `trials: 1`.")
    if search.sampler not in ("random", "auto"):
        problems.add("search.sampler", search.sampler, "none: a final run searches nothing", "Leave it out.")
    for name, unset, why in (
        ("warm_start", None, "null: a final run learns from no sweep, and takes its point from search.chosen_from"),
        ("stratified", False, "false: there is one trial"),
        ("resolved", None, "null: nothing is searched"),
    ):
        if getattr(search, name) != unset:
            problems.add(f"search.{name}", getattr(search, name), why, "Drop it.")
    if search.first and search.chosen is None:
        expected = "none: the point of a final run is that of search.chosen_from"
        problems.add("search.first", list(search.first), expected, "Drop it.")


def _check_privacy(draft: Draft, problems: Problems) -> None:
    privacy = draft.privacy
    if privacy is None:
        return
    if len(privacy.epsilon) > 1:
        problems.add("privacy.epsilon", list(privacy.epsilon), "one budget: that of the final run", "Keep one.")
    for name in ("allow_unprotected", "allow_raw_measures"):
        if getattr(privacy, name) is not None:
            expected = f"null with scope: {privacy.scope}: the claim of the final run is that of the whole procedure"
            problems.add(f"privacy.{name}", getattr(privacy, name), expected, "Drop it.")
