"""Whether a printed number may be quoted, and with which words: one judgement for every screen, page, table and card.

A number may be quoted, may be quoted with a sentence beside it, is no guarantee, or is refuted. What decides it of an
epsilon is the status of its claim, with what audits found (`sweeps.privacy.release`), and that the claim of one trial
leaves out the search; of a total, what let results choose budgets and what it rests on besides; of a metric, on what it
depends, and the claim that covers it. `sweeps explain quote` says what the words mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dpcore.guarantee import STANDING, Guarantee, Notion, Status
from sweeps.privacy.claims import covers_search
from sweeps.privacy.ledger import Procedure
from sweeps.privacy.release import Published, is_demonstration
from sweeps.store.records import DECIDED
from trainables.metrics import Dependence, scores_of


class Verdict(StrEnum):
    """Whether a number may be quoted."""

    YES = "yes"
    WITH = "with its words"
    NO = "no"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Quote:
    """The judgement of one number.

    words     as few as a cell of a table holds: "as one trial's", "no guarantee", "refuted"
    sentence  what is to be said with it, or why it may not be quoted; empty where it needs nothing
    """

    verdict: Verdict
    words: str
    sentence: str = ""

    def __str__(self) -> str:
        return f"{self.words}: {self.sentence}" if self.sentence else self.words

    @property
    def said(self) -> str:
        """Behind a number: "may be quoted as one trial's"."""
        match self.verdict:
            case Verdict.YES:
                return "may be quoted"
            case Verdict.WITH:
                return f"may be quoted {self.words}"
            case Verdict.REFUTED:
                return "REFUTED: may not be quoted"
            case _:
                return f"may not be quoted ({self.words})"

    def to_dict(self) -> dict[str, str]:
        """Plain JSON values."""
        return {"verdict": str(self.verdict), "words": self.words, "sentence": self.sentence}


REFUTED = Quote(Verdict.REFUTED, "refuted", "its claim is shown to be false, so that nothing protects who is in it")
_YES = Quote(Verdict.YES, "yes")
_ALONE = "it leaves out the search for its hyperparameters; for that, see the total"
_SEARCHED = "it covers the search: all that left of a secret number of trials"
_NAMED = "name the assumptions beside it"
_DEMONSTRATION = Quote(
    Verdict.WITH, "as a demonstration", "the records are public, and more of them leaves than it counts"
)
_NO_EPSILON = Quote(Verdict.NO, "no guarantee", "an infinite epsilon promises nothing")


def quote_of_claim(claim: Guarantee) -> Quote:
    """Of the epsilon that one trial claims, or plans to."""
    if claim.status is Status.REFUTED:
        return REFUTED
    if not math.isfinite(claim.epsilon):
        return _NO_EPSILON
    if claim.status not in STANDING:
        return Quote(Verdict.NO, f"no guarantee: {claim.standing}", _WHY.get(claim.status, ""))
    if is_demonstration(claim):
        return _DEMONSTRATION
    notion = "" if claim.notion is Notion.DP else f" {claim.notion}"
    if covers_search(claim):
        return Quote(Verdict.WITH, f"as the whole search's{notion}", f"{_SEARCHED}; {_NAMED}")
    named = f"; {_NAMED}" if claim.status is Status.PROVED_UNDER_ASSUMPTIONS else ""
    return Quote(Verdict.WITH, f"as one trial's{notion}", f"{_ALONE}{named}")


_WHY: Mapping[Status, str] = {
    Status.ASYMPTOTIC: "true in the limit of many steps alone",
    Status.AVERAGE_CASE: "an average over people, which bounds nothing of one",
    Status.MEMBERSHIP_ONLY: "it bounds the guess of membership alone",
    Status.ASSERTED: "nobody here counted it",
    Status.NOT_COVERED: "more left than it counts",
    Status.NO_CLAIM: "a count that promises nothing",
}


def is_refuted(trial: Published) -> bool:
    """Whether what this trial claims is shown to be false: then nothing of it is ranked, and none the best."""
    return trial.guarantee is not None and trial.guarantee.status is Status.REFUTED


def quote_of_total(total: Procedure) -> Quote:
    """Of the epsilon of all trials together."""
    claim = total.guarantee
    if total.refuted:
        fallen = f"the claim of {', '.join(total.refuted)} is refuted, and counts in it"
        return Quote(Verdict.REFUTED, "refuted", fallen)
    if not math.isfinite(claim.epsilon):
        return _NO_EPSILON
    if total.choices:
        return Quote(Verdict.NO, "no guarantee", f"{' and '.join(one.what for one in total.choices)}")
    if not total.is_claim:
        return Quote(Verdict.NO, f"no guarantee: {claim.standing}", _WHY.get(claim.status, ""))
    if is_demonstration(claim):
        return _DEMONSTRATION
    if total.rests_on:
        return Quote(Verdict.WITH, "under its assumptions", " ".join(total.rests_on))
    if claim.status is Status.PROVED_UNDER_ASSUMPTIONS:
        return Quote(Verdict.WITH, "under its assumptions", _NAMED)
    return _YES


_TREATED_AS_PUBLIC = Quote(Verdict.WITH, "as a score on public records", "no claim covers the validation records")
_MACHINE = Quote(Verdict.NO, "of the machine", "no claim covers it: times and memory depend on the batches drawn")
_RAW = Quote(Verdict.NO, "of raw records", "it reads training records outside of every claim")
_UNKNOWN = Quote(Verdict.NO, "undeclared", "nobody says on what it depends")
_PUBLIC = Quote(Verdict.YES, "yes", "computed from public facts")


def quote_of_metric(name: str, depends: Dependence | None, trial: Published) -> Quote:
    """Of a reported number.

    depends  on what it does in this trial; None where no system that is installed declares it
    """
    claim = trial.guarantee
    if depends is Dependence.PUBLIC:
        return _PUBLIC
    if depends is None:
        return _UNKNOWN
    if depends is Dependence.SIDE_CHANNEL:
        return _MACHINE
    if depends is Dependence.RAW:
        return _RAW
    if claim is None or claim.status is Status.REFUTED:
        # The model that was scored is what the claim was to cover.
        return REFUTED if claim is not None else _NO_EPSILON
    covering = quote_of_claim(claim)
    if depends is Dependence.VALIDATION and (trial.plan is None or trial.plan.validation is None):
        if covering.verdict is not Verdict.NO:
            return _TREATED_AS_PUBLIC
        sentence = f"{_TREATED_AS_PUBLIC.sentence}, and its training has {covering.words}"
        return Quote(Verdict.NO, covering.words, sentence)
    if covering.verdict is Verdict.NO:
        return covering
    return Quote(Verdict.WITH, "with its claim", "its release is within the trial's claim, and is worth what that is")


def metric_quotes(trials: Iterable[Published], names: Iterable[str]) -> dict[str, tuple[Quote, ...]]:
    """{metric: how it may be quoted}, of those of `names` that a trial measured: each judgement once."""
    wanted = [name for name in names if name not in DECIDED]
    found: dict[str, dict[Quote, None]] = {}
    for trial in trials:
        for name in wanted:
            if name in trial.metrics:
                found.setdefault(name, {})[quote_of_metric(name, dependence(trial, name), trial)] = None
    return {name: tuple(quotes) for name, quotes in found.items()}


def dependence(trial: Published, name: str) -> Dependence | None:
    """On what a metric of this trial depends; None where that is not declared."""
    from trainables.publishing import OWN_METRICS, declared
    from trainables.registry import SYSTEMS

    system = SYSTEMS.get(trial.system)
    metric = (OWN_METRICS if system is None else declared(system, trial.metrics)).get(name)
    if metric is None:
        return None
    return metric.depends_under(trial.config if trial.plan is None else trial.plan.config)


LEGEND = "`sweeps explain quote` says what these words mean."


def judged(quotes: Iterable[Quote], metrics: Mapping[str, Iterable[Quote]] | None = None) -> list[str]:
    """The judgements of a view, each once.

    quotes   of its epsilons
    metrics  {metric: its judgements}
    """
    said = dict.fromkeys(f"epsilon: {_line(one)}" for one in quotes)
    for name, found in (metrics or {}).items():
        said |= dict.fromkeys(f"{name}: {_line(one)}" for one in found if one.verdict is not Verdict.YES)
    return list(said)


def legend(quotes: Iterable[Quote], metrics: Mapping[str, Iterable[Quote]] | None = None) -> list[str]:
    """What `judged` says, for below the numbers, and where its words are explained; nothing without numbers."""
    said = judged(quotes, metrics)
    return [*said, LEGEND] if said else []


def legend_of(trials: Sequence[Published]) -> list[str]:
    """The legend of all that these trials claim and measured."""
    names = dict.fromkeys(name for trial in trials for name in scores_of(trial.metrics))
    claims = [trial.guarantee for trial in trials if trial.guarantee is not None]
    return legend(map(quote_of_claim, claims), metric_quotes(trials, names))


def _line(quote: Quote) -> str:
    return f"{quote.said}: {quote.sentence}" if quote.sentence else quote.said
