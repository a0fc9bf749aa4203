"""The sweeps behind Figures 1 to 6, as specs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.reproductions.paper import Paper

PAPER = Paper.load("vandermaaten2020")
DELTA = 1e-5
QUERIES = 100
"""The inference budget of Figure 1 (recalled: the number itself is lost)."""
LARGE_DELTA = "Figure 3 shows what a delta above 1/n would buy."


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How fine the figures are; see the paper's file."""

    epsilons: tuple[float, ...]
    budgets: tuple[int, ...]
    deltas: tuple[float, ...]
    sizes: tuple[int, ...]
    dimensions: tuple[int, ...]
    classes: tuple[int, ...]
    models: tuple[int, ...]
    weights: tuple[float, ...]
    beside: tuple[float, ...]
    rates: tuple[float, ...]
    clips: tuple[float, ...]
    epochs: int
    repeats: int
    budget_repeats: int
    limit: int | None
    votes: int

    def cut(self) -> list[str]:
        """What this scope leaves out, beside the full paper grid."""
        rest = "Figure 4 above 60,000 records: InfiMNIST is not at hand"
        if self.limit is not None:
            rest = f"Figure 1 on {self.limit} training records of 60000; Figures 2-6 not run (--quick)"
        return [*PAPER.cut(self), rest]


def parts(scope: Scope, data: Path) -> Iterator[dict[str, Any]]:
    """Specs of grid sweeps, most telling first. Names end in the figure's number and the point on its axis."""
    mnist: dict[str, Any] = {"source": "mnist", "path": str(data.absolute())}
    if scope.limit is not None:
        mnist["limit"] = scope.limit
    both = tuple(sorted({*scope.epsilons, *(2 * epsilon for epsilon in scope.epsilons)}))
    yield _part("fig1-pure", mnist, _pure(scope), scope.repeats, epsilons=both)
    yield _part("fig1-gaussian", mnist, _gaussian(scope), scope.repeats, epsilons=scope.epsilons)
    trained = _loss(("gaussian", "pure"), _tilted(scope.weights)) | _sgd(scope)
    yield _part("fig1-trained", mnist, trained, scope.repeats, epsilons=scope.epsilons)
    if scope.budgets:
        budgets = _choice(scope.budgets)
        pure = _votes(scope, "standard", budgets)
        yield _part("fig2-pure", mnist, pure, scope.budget_repeats, epsilons=(1.0, 2.0))
        gaussian = _votes(scope, "advanced", budgets) | _logits(scope, "gaussian", "advanced", budgets)
        yield _part("fig2-gaussian", mnist, gaussian, scope.budget_repeats)
    for delta in scope.deltas:
        yield _part(f"fig3-{delta:g}", mnist, _gaussian(scope), scope.repeats, delta=delta)
        trained = _loss(("gaussian",), _tilted(scope.weights)) | _sgd(scope)
        yield _part(f"fig3-trained-{delta:g}", mnist, trained, scope.repeats, delta=delta)
    changed: list[tuple[str, int, dict[str, Any]]] = [
        *(("fig4", size, {"limit": size}) for size in scope.sizes),
        *(("fig5a", d, {"source": "projected", "of": "mnist", "dimension": d}) for d in scope.dimensions),
        *(("fig5b", classes, {"classes": classes}) for classes in scope.classes),
    ]
    for figure, place, change in changed:
        yield _part(f"{figure}-{place}", {**mnist, **change}, _pure(scope), scope.repeats)
        trained = _loss(("pure",), scope.beside)
        yield _part(f"{figure}-trained-{place}", {**mnist, **change}, trained, scope.repeats)
    if scope.models:
        yield _part("fig6-models", mnist, _votes(scope, "standard", QUERIES, scope.models), scope.repeats)


def _part(
    name: str,
    data: Mapping[str, Any],
    systems: Mapping[str, Any],
    repeats: int,
    *,
    epsilons: Sequence[float] = (1.0,),
    delta: float = DELTA,
) -> dict[str, Any]:
    # The trained methods count a record added or removed.
    adjacency = "add-remove" if "loss-perturbation" in systems else "replace-one"
    privacy: dict[str, Any] = {"epsilon": list(epsilons), "delta": delta, "adjacency": adjacency}
    return {
        "name": f"vandermaaten2020-{name}",
        "data": dict(data),
        "systems": dict(systems),
        "privacy": privacy | ({"allow_large_delta": LARGE_DELTA} if delta > DELTA else {}),
        "objectives": [{"metric": "accuracy"}],
        "search": {"repeats": repeats},
    }


def _choice(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else {"choice": list(values)}


def _logits(scope: Scope, noise: str, composition: str, queries: Any) -> dict[str, Any]:
    knobs = {"noise": noise, "composition": composition, "queries": queries}
    return {"prediction-sensitivity": {**knobs, "regularisation": _choice(scope.weights)}}


def _votes(scope: Scope, composition: str, queries: Any, models: Sequence[int] = ()) -> dict[str, Any]:
    # The paper regularises no member: this is as little as a minimiser can do with.
    knobs = {"composition": composition, "queries": queries, "regularisation": 1e-4}
    return {"subsample-and-aggregate": {**knobs, "models": _choice(models or (scope.votes,))}}


def _pure(scope: Scope) -> dict[str, Any]:
    """The methods at delta = 0: pure noise, standard composition."""
    return _predicting(scope, "pure", "standard")


def _gaussian(scope: Scope) -> dict[str, Any]:
    """The methods at delta > 0, with the paper's own composition."""
    return _predicting(scope, "gaussian", "advanced")


def _predicting(scope: Scope, noise: str, composition: str) -> dict[str, Any]:
    models = {"model-sensitivity": {"noise": noise, "regularisation": _choice(scope.weights)}}
    return models | _logits(scope, noise, composition, QUERIES) | _votes(scope, composition, QUERIES)


def _tilted(weights: Sequence[float]) -> Sequence[float]:
    """Weights for loss perturbation: below 1e-3 the noise of the objective alone decides the minimiser."""
    enough = [weight for weight in weights if weight >= 1e-3] or weights
    return enough[: max(1, len(enough) - 1)]


def _loss(noises: Sequence[str], weights: Sequence[float]) -> dict[str, Any]:
    return {"loss-perturbation": {"noise": _choice(noises), "regularisation": _choice(weights)}}


def _sgd(scope: Scope) -> dict[str, Any]:
    """DP-SGD, which knows no delta of 0."""
    searched = {"learning_rate": _choice(scope.rates), "clip_norm": _choice(scope.clips)}
    return {"noisy-sgd": {"model": "linear", "batch_size": 600, "epochs": scope.epochs, **searched}}
