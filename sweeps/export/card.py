"""The card of an exported model: what it is, what it claims and on what that rests, how good it was, of how many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpcore.guarantee import Guarantee
from sweeps.ledger.assumptions import Assumptions
from sweeps.ledger.totals import own_total, total_lines
from sweeps.records import TrialState
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.release.quoting import Quote, dependence, quote_of_claim, quote_of_metric
from sweeps.release.rounding import claim_text
from sweeps.spec import SweepSpec
from trainables.metrics import Dependence
from trainables.publishing import declared
from trainables.registry import SYSTEMS
from trainables.system import PublicFacts
from trainables.validation.reports import NOISE_SD

REFUTED = "REFUTED: the claim below does not hold. This model protects nobody whom it was trained on."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One trial's model in words and numbers.

    total           all trials of the sweep together, in words: what choosing this one cost
    charged         steps that the ledger charged this trial, lost launches included
    metrics         as the trial reported them
    standard_error  {metric: of the mean over n_validation records}, for what is a share of them
    candidates      finished trials that this one was chosen among, if it was chosen
    """

    sweep: str
    heading: str
    refuted: bool
    record: Published
    claim: Guarantee
    assumptions: Assumptions
    total: tuple[str, ...]
    charged: int
    facts: PublicFacts
    standard_error: Mapping[str, float]
    candidates: int
    noise_source: str

    @classmethod
    def of(
        cls, store: Publisher, sweep: str, record: Published, facts: PublicFacts, spec: SweepSpec, *, refuted: bool
    ) -> ModelCard:
        """The card of a finished trial."""
        assert record.guarantee is not None
        trials = store.trials(sweep)
        total = own_total(store, sweep, trials)
        assumptions = Assumptions.of([record.guarantee, *total.claims()])
        return cls(
            sweep=sweep,
            heading=Release.recorded(store.sweep(sweep).spec).heading,
            refuted=refuted,
            record=record,
            claim=record.guarantee,
            assumptions=assumptions,
            total=tuple(total_lines(total.procedure, total.uncounted, assumptions)),
            charged=sum(entry.steps_spent for entry in store.ledger(sweep) if entry.key == record.key),
            facts=facts,
            standard_error=dict(_standard_errors(record, facts)),
            candidates=sum(one.state is TrialState.COMPLETE for one in trials),
            noise_source=spec.privacy.noise_source,
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
        }

    def page(self) -> str:
        """The same as Markdown."""
        plan, status = self.record.plan, self.assumptions.status(self.claim)
        assert plan is not None
        scores = ", ".join(f"{name} {value:.6g}{self._spread(name)}" for name, value in self._metrics().items())
        quoted = "".join(f"{name} {quote.said}: {quote.sentence}. " for name, quote in self._quotes().items())
        private = "by noised reports" if self.facts.private_validation is not None else "treated as public"
        lines = [
            f"# {self.record.key}",
            *(f"**{one}**" for one in self._headings()),
            f"A model of `{plan.system}`, trained on {self.facts.n:,} {self.facts.counted} of `{self.facts.dataset}`: "
            f"{plan.description}.",
            "## What it claims",
            f"{claim_text(self.claim, status)}. {quote_of_claim(self.claim).said.capitalize()}: "
            f"{quote_of_claim(self.claim).sentence}. The ledger charged {self.charged:,} steps.",
            f"It is one of {self.candidates} finished trials. Whoever chose it for its results quotes the total: "
            f"{'; '.join(self.total)}",
            "What the statuses rest on:",
            "\n".join(self.assumptions.lines()),
            "## How good it was",
            f"On {self.facts.n_validation:,} validation records, {private}: {scores or 'nothing was reported'}. "
            f"{quoted}"
            "Where it was chosen for that score, it is better here than it will be elsewhere.",
            "## How it is asked",
            "`sweeps predict FOLDER FILE`, or `torch.export.load('program.pt2').module()` on the inputs that "
            "`preprocessing.json` describes.",
        ]
        return "\n\n".join(lines) + "\n"

    def _headings(self) -> list[str]:
        return [one for one in (REFUTED if self.refuted else "", self.heading) if one]

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


def _standard_errors(record: Published, facts: PublicFacts) -> Iterator[tuple[str, float]]:
    """Of an accuracy, a share p of n records: sqrt(p (1 - p) / n), with its noise where its report was noised."""
    share = record.metrics.get("accuracy")
    if share is not None and facts.n_validation and facts.unit is None:
        sampling = max(0.0, share * (1 - share)) / facts.n_validation
        yield "accuracy", math.sqrt(sampling + record.metrics.get("accuracy_noise_sd", 0.0) ** 2)
