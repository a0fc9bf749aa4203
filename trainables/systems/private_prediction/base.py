"""What the four systems share: completing a configuration, solving it, holding its claim against the target."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Event, PureDP
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms.pure_composition import ACCOUNTANT, THEOREM, eps_pure
from dpcore.mechanisms.scheduled import Scheduled
from trainables.capabilities import NONE
from trainables.system import (
    Config,
    Dataset,
    Execution,
    Parameter,
    PrivacyPlan,
    PrivacyTarget,
    PublicFacts,
    Refusal,
    Run,
    Scalar,
)
from trainables.systems.linear import classes_of
from trainables.systems.private_prediction.knobs import METRICS, NOISE_MAX, NOISE_MIN
from trainables.validation.declaration import PUBLIC_VALIDATION

ROWS = ("regularisation", "clip_norm", "bias")
"""What decides a minimiser on rows of norm at most 1."""

SOURCE = "van der Maaten & Hannun 2020"

# Outweighs what the accountants charge for round-off.
_UP = 1 + 1e-9


def trained_together(config: Config, *names: str) -> str:
    """What decides the training before any noise: equal texts, equal models."""
    return ",".join(f"{name}={config[name]!r}" for name in names)


class LinearSystem:
    """A system on linear models. A subclass says what one step releases, how it is solved and what it claims."""

    source = SOURCE
    metrics = METRICS
    capabilities = NONE
    solves = MappingProxyType({"noise": "noise_multiplier"})

    def __init__(self, name: str, parameters: tuple[Parameter, ...]) -> None:
        self.name, self.parameters = name, parameters

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`. Raises InvalidValue (task, adjacency, queries or models beyond the data)."""
        classes = classes_of(facts)
        if target.adjacency not in self.adjacencies(facts):
            raise InvalidValue(
                "privacy.adjacency", str(target.adjacency), f"{' or '.join(self.adjacencies(facts))} for {self.name}"
            )
        full = self._complete(config, target)
        self._check(full, facts, target)
        solved: dict[str, Scalar] = {}
        beside: tuple[Guarantee, ...] = ()
        if target.solve == "noise":
            noise, beside = self._noise(full, facts, classes, target)
            solved = {self.solves["noise"]: max(noise * _UP, NOISE_MIN)}
        elif target.solve == "steps":
            queries = self._queries(full, facts, classes, target)
            solved = {"queries": max(queries, 1)}
        full |= solved
        claim, exact = self._claims(full, facts, classes, target)
        noise = float(full[self.solves["noise"]])
        if noise > NOISE_MAX:
            return Refusal(
                violations={"noise": math.log(noise / NOISE_MAX)},
                reason=f"{self.solves['noise']}={noise:.6g} needed for epsilon={target.epsilon}: expected at most "
                f"{NOISE_MAX:g}. Raise epsilon, or take fewer queries.",
            )
        if claim.epsilon > target.epsilon:
            return Refusal(
                violations={"epsilon": math.log(claim.epsilon / target.epsilon)},
                reason=f"epsilon={claim.epsilon:.6g} at delta={target.delta}: expected at most {target.epsilon}. "
                f"Raise {self.solves['noise']} or epsilon, or take fewer queries.",
            )
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=tuple(solved),
            mechanism=Scheduled(schedule=((self._each(full, classes, target), self._steps(full)),)),
            description=self._mechanism(full, facts),
            guarantee=replace(claim, assumptions=(*claim.assumptions, PUBLIC_VALIDATION, *facts.assumptions)),
            beside=(*exact, *beside),
            work=self._work(full, facts),
            group=self._group(full),
        )

    def adjacencies(self, facts: PublicFacts) -> tuple[Adjacency, ...]:
        """The neighbouring relations that its claims can be made under, on such data."""
        return (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; runs that differ in noise alone share their training."""
        from trainables.systems.private_prediction.fitting import fit

        fit(runs, data, execution)

    def _complete(self, config: Config, target: PrivacyTarget) -> dict[str, Scalar]:
        if target.solve != "none" and target.solve not in self.solves:
            raise InvalidValue("privacy.solve", target.solve, f"one of {', '.join(self.solves)}, none for {self.name}")
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

    def _check(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> None:
        if "queries" in full and int(full["queries"]) > facts.n_validation:
            raise InvalidValue(
                "queries",
                full["queries"],
                f"at most {facts.n_validation}, the validation records of {facts.dataset} that serve as queries",
            )

    def _steps(self, full: Config) -> int:
        return int(full.get("queries", 1))

    def _queries(self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget) -> int:
        """The largest number of queries within the target, at most all validation records; 0 if not even one."""

        def fits(queries: int) -> bool:
            claim, _ = self._claims({**full, "queries": queries}, facts, classes, target)
            return claim.epsilon <= target.epsilon

        low, high = 0, facts.n_validation + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def _noise(
        self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget
    ) -> tuple[float, tuple[Guarantee, ...]]:
        """The noise parameter that meets the target, and the published claim for it."""
        raise NotImplementedError

    def _claims(
        self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget
    ) -> tuple[Guarantee, tuple[Guarantee, ...]]:
        """The claim of a complete configuration, and others beside it."""
        raise NotImplementedError

    def _each(self, full: Config, classes: int, target: PrivacyTarget) -> Event:
        raise NotImplementedError

    def _mechanism(self, full: Config, facts: PublicFacts) -> str:
        raise NotImplementedError

    def _work(self, full: Config, facts: PublicFacts) -> float:
        # Descent needs about sqrt(condition number) passes over the records.
        return float(facts.n) * math.ceil(math.sqrt(1 + 0.5 / float(full["regularisation"])))

    def _group(self, full: Config) -> str:
        return trained_together(full, *ROWS)


def pure_claims(
    each: PureDP, count: int, target: PrivacyTarget, status: Status, assumptions: tuple[str, ...]
) -> tuple[Guarantee, tuple[Guarantee, ...]]:
    """The claim at the target's delta by optimal composition, and the pure one at delta 0 beside it."""
    claim = Guarantee(
        epsilon=eps_pure(each.epsilon, count, target.delta),
        delta=target.delta,
        adjacency=target.adjacency,
        unit=target.unit,
        accountant=ACCOUNTANT,
        status=status,
        theorem=THEOREM,
        assumptions=(*assumptions, FLOATING_POINT),
    )
    pure = replace(
        claim,
        epsilon=count * each.epsilon,
        delta=0.0,
        accountant="naive",
        theorem="Dwork & Roth 2014, Theorem 3.14 (pure composition)",
    )
    return claim, (pure,)
