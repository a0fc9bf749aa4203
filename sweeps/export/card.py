"""The card of an exported model: what it is, what it claims and on what that rests, how good it was, of how many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpcore.guarantee import Guarantee
from sweeps.held_out.declared import DeclaredTest, declared_test
from sweeps.held_out.readings import HeldOutReading, of_its_records
from sweeps.ledger.assumptions import Assumptions
from sweeps.ledger.totals import own_total, total_lines
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.release.quoting import Quote, dependence, quote_of_claim, quote_of_metric
from sweeps.release.rounding import claim_text, count_text
from sweeps.release.validation_text import declared_number
from sweeps.spec import SweepSpec
from sweeps.store.records import TrialState
from trainables.metrics import Dependence
from trainables.publishing import declared
from trainables.registry import SYSTEMS
from trainables.system import PublicFacts
from trainables.validation.declaration import NOISE_SD, share_error

REFUTED = "REFUTED: the claim below does not hold. This model protects nobody whom it was trained on."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One trial's model in words and numbers.

    total           all trials of the sweep together, in words: what choosing this one cost
    with_score      the claim of the model and its test score together; without a score, that of the model
    charged         steps that the ledger charged this trial, lost launches included
    metrics         as the trial reported them
    standard_error  {metric: of the mean over n_validation records}, for what is a share of them
    candidates      finished trials that this one was chosen among, if it was chosen; None: a secret number, of which
                    a sealed search let out the best
    test            the test records that the spec declares; None: it declares none
    readings        of them, for any trial of any sweep of the store
    """

    sweep: str
    heading: str
    refuted: bool
    record: Published
    claim: Guarantee
    with_score: Guarantee
    assumptions: Assumptions
    total: tuple[str, ...]
    charged: int
    facts: PublicFacts
    standard_error: Mapping[str, float]
    candidates: int | None
    noise_source: str
    test: DeclaredTest | None = None
    readings: tuple[HeldOutReading, ...] = ()

    @classmethod
    def of(
        cls, store: Publisher, sweep: str, record: Published, facts: PublicFacts, spec: SweepSpec, *, refuted: bool
    ) -> ModelCard:
        """The card of a finished trial."""
        assert record.guarantee is not None
        trials = store.trials(sweep)
        total, recorded = own_total(store, sweep, trials), store.sweep(sweep).spec
        test = declared_test(recorded)
        made = of_its_records(store, sweep) if test is not None else ()
        own = sum(one.trial == record.key for one in made)
        with_score = record.guarantee if test is None else test.claim(record.guarantee, own)
        assumptions = Assumptions.of([record.guarantee, with_score, *total.claims()])
        return cls(
            sweep=sweep,
            heading=Release.recorded(recorded).heading,
            refuted=refuted,
            record=record,
            claim=record.guarantee,
            assumptions=assumptions,
            total=tuple(total_lines(total.procedure, total.uncounted, assumptions)),
            charged=sum(entry.steps_spent for entry in store.ledger(sweep) if entry.key == record.key),
            facts=facts,
            with_score=with_score,
            standard_error=share_error(record.metrics, 0 if facts.unit else facts.n_validation),
            candidates=None
            if recorded.selection is not None
            else sum(one.state is TrialState.COMPLETE for one in trials),
            noise_source=spec.privacy.noise_source,
            test=test,
            readings=made,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plan = self.record.plan
        assert plan is not None
        return {
            "heading": " ".join(self._headings()),
            "sweep": self.sweep,
            "trial": self.record.key,
            "system": plan.system,
            "mechanism": plan.description,
            "hyperparameters": dict(plan.config),
            "claim": self.claim.to_dict(),
            "quote": quote_of_claim(self.claim).to_dict(),
            "total": list(self.total),
            "steps_charged": self.charged,
            "noise_source": self.noise_source,
            "data": {
                "source": self.facts.dataset,
                "n": self.facts.n,
                "n_validation": self.facts.n_validation,
                "counted": self.facts.counted,
                "assumptions": list(self.facts.assumptions),
            },
            "validation": self._metrics(),
            "validation_quotes": {name: quote.to_dict() for name, quote in self._quotes().items()},
            "standard_error": dict(self.standard_error),
            "best_of": self.candidates,
            "test": None if self.test is None else self._tested(),
        }

    def page(self) -> str:
        """The same as Markdown."""
        plan, status = self.record.plan, self.assumptions.status(self.claim)
        assert plan is not None
        scores = ", ".join(f"{name} {value:.6g}{self._spread(name)}" for name, value in self._metrics().items())
        quotes = self._quotes()
        alike = {quote: [name for name in quotes if quotes[name] == quote] for quote in quotes.values()}
        quoted = "".join(
            f"{', '.join(names)}{': each' if len(names) > 1 else ''} {quote.said}: {quote.sentence}. "
            for quote, names in alike.items()
        )
        private = "by noised reports" if self.facts.private_validation is not None else "treated as public"
        lines = [
            f"# {self.record.key}",
            *(f"**{one}**" for one in self._headings()),
            f"A model of `{plan.system}`, trained on records of `{self.facts.dataset}`, "
            f"{declared_number(self.facts.n, self.facts.counted)}: "
            f"{plan.description}.",
            "## What it claims",
            f"{claim_text(self.claim, status)}. {quote_of_claim(self.claim).said.capitalize()}: "
            f"{quote_of_claim(self.claim).sentence}. The ledger charged {count_text(self.charged, 'step')}.",
            f"{self._among} {'; '.join(self.total)}",
            "This page is as old as the files beside it. What became known since (audits, test readings, trials) "
            f"is not in it: look at `sweeps show {self.sweep}` before you quote a number of it.",
            "What the statuses rest on:",
            "\n".join(self.assumptions.lines()),
            "## How good it was",
            f"On validation records, {declared_number(self.facts.n_validation, self.facts.counted)}, {private}: "
            f"{scores or 'nothing was reported'}. {quoted}"
            "Where it was chosen for that score, it is better here than it will be elsewhere.",
            *self._test_lines(),
            "## How it is asked",
            "`sweeps predict FOLDER FILE`, or `torch.export.load('program.pt2').module()` on the inputs that "
            "`preprocessing.json` describes.",
        ]
        return "\n\n".join(lines) + "\n"

    @property
    def _among(self) -> str:
        if self.candidates is None:
            return "A sealed search chose it among a secret number of trials, by its results. What that cost in all:"
        if self.candidates == 1:
            return "No other trial finished. What its sweep cost in all:"
        return f"It is one of {self.candidates} finished trials. Whoever chose it for its results quotes the total:"

    def _headings(self) -> list[str]:
        return [one for one in (REFUTED if self.refuted else "", self.heading) if one]

    @property
    def _own(self) -> HeldOutReading | None:
        """The reading of the test records for this trial that gave a score."""
        return next((one for one in self.readings if one.trial == self.record.key and one.metrics), None)

    def _tested(self) -> dict[str, Any]:
        assert self.test is not None
        return {
            "n": self.test.held.n,
            "private": self.test.held.private,
            "readings": len(self.readings),
            "score": None if self._own is None else self._own.to_dict(),
            "claim_with_score": self.with_score.to_dict(),
        }

    def _test_lines(self) -> Iterator[str]:
        if self.test is None:
            return
        yield "## On test records"
        private = "private" if self.test.held.private else "public"
        records = f"{private} test records, {declared_number(self.test.held.n, self.test.counted)},"
        if self._own is None:
            times, unread = len(self.readings), "not read yet, as far as this store knows"
            others = f"read {times} times, for other models" if times else unread
            yield f"The {records} were {others}: there is no test score of this one."
            return
        yield f"On {records} on which nothing was trained or chosen: {self._own}."
        if self.test.histogram is not None:
            both = claim_text(self.with_score, self.assumptions.status(self.with_score))
            yield f"The model and this score together: {both}."

    def _metrics(self) -> dict[str, float]:
        """What it reported of the validation records."""
        depends = {
            name: one.depends for name, one in declared(SYSTEMS[self.record.system], self.record.metrics).items()
        }
        reported = self.record.metrics.items()
        return {
            name: value for name, value in reported if depends.get(name.removesuffix(NOISE_SD)) is Dependence.VALIDATION
        }

    def _quotes(self) -> dict[str, Quote]:
        return {name: quote_of_metric(name, dependence(self.record, name), self.record) for name in self._metrics()}

    def _spread(self, name: str) -> str:
        return f" ± {self.standard_error[name]:.2g}" if name in self.standard_error else ""
