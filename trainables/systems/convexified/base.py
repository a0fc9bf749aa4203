"""What the two systems share: answers that are counted, noise that is solved, a claim held against the target."""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from dataclasses import replace
from types import MappingProxyType

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Event
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.scheduled import Scheduled
from trainables.capabilities import NONE
from trainables.system import Config, Metric, Parameter, PrivacyPlan, PrivacyTarget, PublicFacts, Refusal, Scalar
from trainables.systems.convexified.knobs import NOISE_MAX, NOISE_MIN
from trainables.systems.linear import classes_of
from trainables.validation.declaration import PUBLIC_VALIDATION

# Outweighs what the accountants charge for round-off.
_UP = 1 + 1e-9


class QueryingSystem:
    """A system that answers queries, each with fresh noise. A subclass says what they claim and how it is solved."""

    name: str
    source: str
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    capabilities = NONE
    adjacency: Adjacency
    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "queries"})

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`. Raises InvalidValue (task, adjacency, sizes beyond the data)."""
        classes_of(facts)
        if target.adjacency is not self.adjacency:
            raise InvalidValue("privacy.adjacency", str(target.adjacency), f"{self.adjacency} for {self.name}")
        full = self._complete(config, target)
        self._check(full, facts)
        solved: dict[str, Scalar] = {}
        if target.solve == "noise":
            solved = {"noise_multiplier": max(self._noise(full, target) * _UP, NOISE_MIN)}
        elif target.solve == "steps":
            solved = {"queries": max(1, self._largest(full, facts, target))}
        full |= solved
        noise = float(full["noise_multiplier"])
        if noise > NOISE_MAX:
            return Refusal(
                violations={"noise": math.log(noise / NOISE_MAX)},
                reason=f"noise_multiplier={noise:.6g} needed for epsilon={target.epsilon}: expected at most "
                f"{NOISE_MAX:g}. Raise epsilon, or take fewer queries.",
            )
        claim = self._claim(full, facts, target)
        if claim.epsilon > target.epsilon:
            return Refusal(
                violations={"epsilon": math.log(claim.epsilon / target.epsilon)},
                reason=f"epsilon={claim.epsilon:.6g} at delta={target.delta}: expected at most {target.epsilon}. "
                "Raise noise_multiplier or epsilon, or take fewer queries.",
            )
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=tuple(solved),
            mechanism=Scheduled(schedule=((self._each(full), int(full["queries"])),)),
            description=self._mechanism(full, facts),
            guarantee=replace(claim, assumptions=(*claim.assumptions, PUBLIC_VALIDATION, *facts.assumptions)),
            work=self._work(full, facts),
            group=self._group(full),
        )

    def queries(self, plan: PrivacyPlan) -> int:
        """How many answers one trial releases (see `trainables.measures.protocols.Answering`)."""
        return int(plan.config["queries"])

    def _complete(self, config: Config, target: PrivacyTarget) -> dict[str, Scalar]:
        solved = self.solves.get(target.solve)
        full: dict[str, Scalar] = {}
        for parameter in self.parameters:
            value = config.get(parameter.name, parameter.default)
            if parameter.name == solved:
                continue
            if value is None:
                raise InvalidValue(parameter.name, None, f"a value ({parameter.doc})")
            full[parameter.name] = value
        return full

    def _largest(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> int:
        """The largest number of queries within the target, at most all there are to ask; 0 if not even one."""
        low, high = 0, self._askable(full, facts) + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._claim({**full, "queries": middle}, facts, target).epsilon <= target.epsilon
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _check(self, full: Config, facts: PublicFacts) -> None:
        asked = int(full.get("queries", 1))
        if asked > self._askable(full, facts):
            raise InvalidValue(
                "queries", asked, f"at most {self._askable(full, facts)}, the records of {facts.dataset} to be asked"
            )

    def _askable(self, full: Config, facts: PublicFacts) -> int:
        return facts.n_validation

    def _noise(self, full: Config, target: PrivacyTarget) -> float:
        """The noise multiplier that meets the target."""
        raise NotImplementedError

    def _claim(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> Guarantee:
        raise NotImplementedError

    def _each(self, full: Config) -> Event:
        raise NotImplementedError

    def _mechanism(self, full: Config, facts: PublicFacts) -> str:
        raise NotImplementedError

    def _work(self, full: Config, facts: PublicFacts) -> float:
        raise NotImplementedError

    def _group(self, full: Config) -> str:
        raise NotImplementedError
