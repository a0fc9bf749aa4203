"""What the terminal shows of a sweep: a line that greets, a verdict that can be quoted, and where to look next.

The fine print is `SweepSummary.lines`: `sweeps show NAME --why`, the report and certificates have it.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from rich.console import Console

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, Status, delta_text, epsilon_text
from sweeps.privacy import wording
from sweeps.privacy.ledger import LargestClaim, Procedure, covers_search
from sweeps.privacy.release import is_demonstration
from sweeps.privacy.totals import earlier_lines
from sweeps.reporting.front import spec_objectives
from sweeps.reporting.summary import SweepSummary, best_trial, refuted_lines
from sweeps.reporting.tables import FittedTable, columns
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import DECIDED, TrialState
from sweeps.util.text import LABEL, did_you_mean, hanging
from trainables.worker.redaction import shown_url

FRONT_ROWS = 20


def greeting(name: str, spec: SweepSpec) -> str:
    """`quickstart · 32 trials · tpe · digits · epsilon 1, 2, 4, 8 at delta 0.0001`."""
    privacy = spec.privacy
    most = "at most " if spec.selection is not None else ""
    budgets = ", ".join(epsilon_text(one, digits=6) for one in privacy.epsilon)
    claim = f"epsilon {budgets} at delta {delta_text(privacy.delta)}"
    return " · ".join([name, f"{most}{spec.search.trials} trials", spec.search.sampler, spec.data.source, claim])


def counts_text(counts: Mapping[str, int]) -> str:
    """`30 complete, 2 failed`: states without a trial are left out."""
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no trial yet"


def privacy_lines(summary: SweepSummary, width: int) -> Iterator[str]:
    """The verdict: of one trial, of the whole sweep, of the scores, a sentence each."""
    yield from (textwrap.fill(line, max(width, 40)) for line in refuted_lines(summary.refuted))
    yield from (hanging(label, text, width) for label, text in _verdicts(summary))


def _verdicts(summary: SweepSummary) -> Iterator[tuple[str, str]]:
    for kind, claims in groupby(summary.ledger.claims, key=lambda one: _kind(one.guarantee)):
        yield "Privacy", kind
        # Of claims that differ in what they rest on alone one line says how much that is.
        alike: dict[tuple[str, str, str], list[Guarantee]] = {}
        for claim in claims:
            whose = " whole search" if covers_search(claim.guarantee) else " one trial"
            key = whose, claim.guarantee.standing, _one_trial(claim, summary)
            alike.setdefault(key, []).append(claim.guarantee)
        yield from ((whose, _status(own, summary) + said) for (whose, _, said), own in alike.items())
    if not summary.ledger.claims:
        yield "Privacy", "nothing is claimed yet: no trial has reported"
    if total := _whole_sweep(summary):
        yield " whole sweep", total
    yield from ((" earlier", line) for line in earlier_lines(summary.started_from, summary.assumptions))
    yield from _scores(summary)


def _kind(claim: Guarantee) -> str:
    where = f"{claim.adjacency}, per {claim.unit}, delta {delta_text(claim.delta)}"
    return f"{claim.notion}, {where}, by {claim.accountant}"


def _status(claims: Sequence[Guarantee], summary: SweepSummary) -> str:
    """Of claims that stand alike, and what they rest on; nothing of refuted ones, whose verdict is said."""
    if claims[0].status is Status.REFUTED:
        return ""
    if len(found := {summary.assumptions.status(one) for one in claims}) == 1:
        return found.pop()
    counts = [len(one.assumptions) for one in claims]
    many = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"
    return f"{claims[0].standing} ({many} assumptions each)"


def _one_trial(claim: LargestClaim, summary: SweepSummary) -> str:
    """What stands behind its status."""
    quote = wording.quote_of_claim(claim.guarantee)
    if quote.verdict is wording.Verdict.REFUTED:
        return str(quote)
    if quote.verdict is wording.Verdict.NO or is_demonstration(claim.guarantee):
        return f"; {quote.said}: {quote.sentence}"
    if covers_search(claim.guarantee):
        return "; covers the search and the choice of what it released"
    launched = sum(1 for trial in summary.trials if trial.attempts)
    return f"; says nothing of having chosen it among {launched}" if launched > 1 else ""


def _whole_sweep(summary: SweepSummary) -> str:
    total, uncounted = summary.ledger.procedure, summary.ledger.uncounted
    if total is None:
        return f"not counted: {uncounted}" if uncounted else ""
    if total.is_claim:
        return _guaranteed(total, summary)
    if math.isinf(total.guarantee.epsilon) and not total.refuted:
        return wording.PROMISES_NOTHING
    return f"no guarantee: {wording.why_no_guarantee(total)}"


def _guaranteed(total: Procedure, summary: SweepSummary) -> str:
    claim, quote = total.guarantee, wording.quote_of_total(total)
    number = f"epsilon {epsilon_text(claim.epsilon)} at delta {delta_text(claim.delta)}"
    # What stands above is of the trials' own claims.
    if claim.accountant not in {one.guarantee.accountant for one in summary.ledger.claims}:
        number += f" by {claim.accountant}"
    return f"{number}, {summary.assumptions.status(claim)}; {quote.said}: {wording.covers_text(total)}"


def _scores(summary: SweepSummary) -> Iterator[tuple[str, str]]:
    measured = [axis.metric for axis in summary.objectives if axis.metric not in DECIDED]
    names: dict[str, list[str]] = {}
    for name, quotes in wording.metric_quotes(summary.trials, measured).items():
        for quote in quotes:
            names.setdefault(quote.line, []).append(name)
    for text, listed in names.items():
        label = ", ".join(listed)
        yield (f" {label}", text) if len(label) < LABEL - 1 else (" scores", f"{label}: {text}")


def print_result(console: Console, summary: SweepSummary) -> None:
    """The front of a sweep that ended, and the verdict."""
    front = summary.front
    for panel in front.panels:
        listed = panel.order_of_front()
        title = f"Pareto front: {len(listed)} of {len(panel.records)} trials"
        more = "" if len(listed) <= FRONT_ROWS else f", the first {FRONT_ROWS} here; sweeps pareto {summary.name}"
        if len(front.panels) > 1:
            title = f"{title} ({panel.title})"
        console.print(FittedTable(f"{title}{more}", columns(front, panel, FRONT_ROWS), f"sweeps pareto {summary.name}"))
        console.print()
    if front.left_out and not front.panels:
        print_plain(console, front.empty)
    print_plain(console, *privacy_lines(summary, console.width))


def print_plain(console: Console, *lines: str) -> None:
    """As they are: no colours, no markup, and no line broken but by the terminal."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def account_lines(summary: SweepSummary, width: int) -> Iterator[str]:
    """Below the trials of a sweep: the verdict, what was charged, what its people did and said."""
    yield from privacy_lines(summary, width)
    yield hanging("Ledger", wording.executed_text(summary.ledger), width)
    yield from (hanging(label, line, width) for label, line in summary.facts())
    yield hanging("Why", f"sweeps show {summary.record.called} --why", width)


def next_lines(summary: SweepSummary) -> Iterator[str]:
    """What a person may do with a sweep that ended."""
    best = best_trial(summary.trials, spec_objectives(summary.record.spec)[0])
    if best is not None and not summary.is_sealed:
        name = summary.record.called
        yield f"Next     sweeps show {name} {best.number}, sweeps export {name} {best.number}"
    elif any(trial.state is TrialState.COMPLETE for trial in summary.trials):
        yield f"Next     sweeps show {summary.record.called} --why"


def near(path: str | Path) -> str:
    """A path as it is called from here, where it lies below this folder."""
    place, here = os.path.abspath(path), os.path.join(os.getcwd(), "")
    return place.removeprefix(here) if place.startswith(here) else str(path)


def mlflow_line(uri: str, page: str) -> str:
    """Where a person looks at MLflow: a server by its own address, a database through a server of one's own."""
    shown = shown_url(uri)
    if urlsplit(uri).scheme in ("http", "https"):
        return f"MLflow   {shown.rstrip('/')}{page}"
    own = Path(sys.executable).parent / "mlflow"
    # A fresh clone's environment is not on the path.
    program = "mlflow" if shutil.which("mlflow") == str(own) else near(own)
    start = "sqlite:///"
    where = f"{start}{near(shown.removeprefix(start))}" if shown.startswith(start) else shown
    return f"MLflow   {program} ui --backend-store-uri {shlex.quote(where)}"


# Words that a screen or a page cannot avoid, each in a few sentences for somebody who never met them.


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A word and what it means here.

    meaning  a few sentences
    see      words that belong to it, each explained too
    """

    word: str
    meaning: str
    see: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        see = f"\nSee also: {', '.join(self.see)}." if self.see else ""
        return f"{self.word}: {self.meaning}{see}"


_WORDS = yaml.safe_load(Path(__file__).with_name("glossary.yaml").read_text(encoding="utf-8"))
GLOSSARY: Mapping[str, Explained] = {word: Explained(word=word, **told) for word, told in _WORDS.items()}
"""{word: what it means}."""


def explain(word: str) -> Explained:
    """What a word means that is printed here: `epsilon`, `claim`, `add-remove`, `status`, ... Case does not matter.

    Raises InvalidValue for a word that is not explained, with the closest that is.
    """
    plain = word.strip().lower().replace("_", "-").replace(" ", "-")
    if plain not in GLOSSARY:
        raise InvalidValue("WORD", word, "a word that is explained here", did_you_mean(plain, GLOSSARY))
    return GLOSSARY[plain]
