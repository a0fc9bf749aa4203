"""The sweeps behind Figures 1 to 6, as specs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sweeps.reproductions.effort import Effort, reduced

DELTA = 1e-5
QUERIES = 100
"""The inference budget of Figure 1 (recalled: the number itself is lost)."""
MODELS = 256
"""Parts of subsample-and-aggregate where nothing else is said (recalled)."""
LARGE_DELTA = "Figure 3 shows what a delta above 1/n would buy."


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How fine the figures are.

    epsilons, budgets, deltas, sizes, dimensions, classes, models, weights   horizontal axes of Figures 1-6
    beside    the weights among which loss perturbation is tuned in Figures 4-5, each of which is a training
    rates, clips, epochs   of DP-SGD: learning rates and clip norms to choose from, passes over the data
    repeats   trainings and noises for each point
    budget_repeats   the same for Figure 2, whose points rest on few answers each
    limit     training records where that is no axis; all by default
    votes     models of a vote where that is no axis
    """

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
    limit: int | None = None
    votes: int = MODELS

    @classmethod
    def of(cls, effort: Effort) -> Scope:
        """The scope of an effort."""
        if effort.quick:
            return cls(
                epsilons=(1.0, 10.0), budgets=(), deltas=(), sizes=(), dimensions=(), classes=(), models=(),
                weights=(0.01, 0.1), beside=(), rates=(2.0,), clips=(1.0,), epochs=2, repeats=effort.repeats or 1,
                budget_repeats=1, limit=2_000, votes=32,
            )  # fmt: skip
        if effort.grid == "coarse":
            return cls(
                epsilons=(0.5, 1.0, 2.0, 5.0, 10.0), budgets=(10, 30, 100, 300, 1000), deltas=(1e-8, 1e-3),
                sizes=(2_000, 10_000), dimensions=(20, 100), classes=(2, 5), models=(16, 64, 1024),
                weights=(0.001, 0.01, 0.1, 0.5), beside=(0.01, 0.1), rates=(2.0,), clips=(0.3, 1.0), epochs=10,
                repeats=effort.repeats or 2, budget_repeats=10,
            )  # fmt: skip
        return cls(
            epsilons=(0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0),
            budgets=(1, 2, 5, 10, 20, 30, 40, 50, 75, 100, 150, 200, 250, 300, 400, 500, 750, 1000),
            deltas=(1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-4, 1e-3, 1e-2), sizes=(1_000, 2_000, 5_000, 10_000, 20_000),
            dimensions=(10, 20, 50, 100, 200, 400), classes=(2, 3, 4, 5, 6, 7, 8, 9),
            models=(8, 16, 32, 64, 128, 512, 1024), rates=(0.5, 2.0, 8.0), epochs=20,
            weights=(1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1),
            beside=(1e-3, 5e-3, 1e-2, 5e-2, 1e-1), clips=(0.03, 0.1, 0.3, 1.0),
            repeats=effort.repeats or 5, budget_repeats=30,
        )  # fmt: skip

    def cut(self) -> list[str]:
        """What this scope leaves out, beside the full paper grid."""
        full = Scope.of(Effort(grid="paper"))
        # More repeats than the full grid's leave nothing out.
        most = {name: min(getattr(self, name), getattr(full, name)) for name in ("repeats", "budget_repeats")}
        ours = {name: value for name, value in (asdict(self) | most).items() if name in _SAID and value != ()}
        lines = reduced(
            {_SAID[name]: value for name, value in ours.items()}, {_SAID[name]: getattr(full, name) for name in ours}
        )
        if self.limit is not None:
            return [*lines, f"Figure 1 on {self.limit} training records of 60000; Figures 2-6 not run (--quick)"]
        return [*lines, "Figure 4 above 60,000 records: InfiMNIST is not at hand"]


_SAID = {
    "epsilons": "epsilon",
    "budgets": "budgets of Figure 2",
    "deltas": "deltas of Figure 3",
    "sizes": "records of Figure 4",
    "dimensions": "dimensions of Figure 5a",
    "classes": "classes of Figure 5b",
    "models": "votes of Figure 6b",
    "weights": "lambda",
    "beside": "lambda of loss perturbation in Figures 4-5",
    "rates": "learning rates of DP-SGD",
    "clips": "clip norms of DP-SGD",
    "epochs": "epochs of DP-SGD",
    "repeats": "repeats",
    "budget_repeats": "repeats of Figure 2",
    "votes": "votes elsewhere",
}
"""Sizes of a scope, as `cut` names them."""


def parts(scope: Scope, data: Path) -> Iterator[dict[str, Any]]:
    """Specs of grid sweeps, most telling first. Names end in the figure's number and the point on its axis."""
    mnist: dict[str, Any] = {"source": "mnist", "path": str(data.absolute())}
    if scope.limit is not None:
        mnist["limit"] = scope.limit
    published = tuple(sorted({*scope.epsilons, *(2 * epsilon for epsilon in scope.epsilons)}))
    yield _part("fig1-pure", mnist, published, _pure(scope), scope)
    yield _part("fig1-gaussian", mnist, scope.epsilons, _gaussian(scope), scope)
    yield _part(
        "fig1-trained",
        mnist,
        scope.epsilons,
        _trained(scope, ("gaussian", "pure"), _tilted(scope.weights)),
        scope,
        "add-remove",
    )
    if scope.budgets:
        budgets = _choice(scope.budgets)
        yield _part(
            "fig2-pure", mnist, (1.0, 2.0), _votes(scope, "standard", budgets), scope, repeats=scope.budget_repeats
        )
        both = _votes(scope, "advanced", budgets) | _logits(scope, "gaussian", "advanced", budgets)
        yield _part("fig2-gaussian", mnist, (1.0,), both, scope, repeats=scope.budget_repeats)
    for delta in scope.deltas:
        yield _part(f"fig3-{delta:g}", mnist, (1.0,), _gaussian(scope), scope, delta=delta)
        trained = _trained(scope, ("gaussian",), _tilted(scope.weights))
        yield _part(f"fig3-trained-{delta:g}", mnist, (1.0,), trained, scope, "add-remove", delta=delta)
    for size in scope.sizes:
        smaller = {**mnist, "limit": size}
        yield _part(f"fig4-{size}", smaller, (1.0,), _pure(scope), scope)
        trained = _trained(scope, ("pure",), scope.beside, sgd=False)
        yield _part(f"fig4-trained-{size}", smaller, (1.0,), trained, scope, "add-remove")
    for dimension in scope.dimensions:
        projected = {**mnist, "source": "projected", "of": "mnist", "dimension": dimension}
        yield _part(f"fig5a-{dimension}", projected, (1.0,), _pure(scope), scope)
        trained = _trained(scope, ("pure",), scope.beside, sgd=False)
        yield _part(f"fig5a-trained-{dimension}", projected, (1.0,), trained, scope, "add-remove")
    for classes in scope.classes:
        fewer = {**mnist, "classes": classes}
        yield _part(f"fig5b-{classes}", fewer, (1.0,), _pure(scope), scope)
        trained = _trained(scope, ("pure",), scope.beside, sgd=False)
        yield _part(f"fig5b-trained-{classes}", fewer, (1.0,), trained, scope, "add-remove")
    if scope.models:
        yield _part("fig6-models", mnist, (1.0,), _votes(scope, "standard", QUERIES, scope.models), scope)


def _part(
    name: str,
    data: Mapping[str, Any],
    epsilons: tuple[float, ...],
    systems: Mapping[str, Any],
    scope: Scope,
    adjacency: str = "replace-one",
    *,
    delta: float = DELTA,
    repeats: int | None = None,
) -> dict[str, Any]:
    privacy: dict[str, Any] = {"epsilon": list(epsilons), "delta": delta, "adjacency": adjacency}
    if delta > 1e-5:
        privacy["allow_large_delta"] = LARGE_DELTA
    return {
        "name": f"vandermaaten2020-{name}",
        "data": dict(data),
        "systems": dict(systems),
        "privacy": privacy,
        "objectives": [{"metric": "accuracy"}],
        "search": {"repeats": repeats or scope.repeats},
    }


def _choice(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else {"choice": list(values)}


def _models_noise(scope: Scope, noise: str) -> dict[str, Any]:
    return {"model-sensitivity": {"noise": noise, "regularisation": _choice(scope.weights)}}


def _logits(scope: Scope, noise: str, composition: str, queries: Any) -> dict[str, Any]:
    return {
        "prediction-sensitivity": {
            "noise": noise,
            "composition": composition,
            "queries": queries,
            "regularisation": _choice(scope.weights),
        }
    }


def _votes(scope: Scope, composition: str, queries: Any, models: tuple[int, ...] = ()) -> dict[str, Any]:
    # The paper regularises no member: this is as little as a minimiser can do with.
    knobs = {
        "composition": composition,
        "queries": queries,
        "regularisation": 1e-4,
        "models": _choice(models or (scope.votes,)),
    }
    return {"subsample-and-aggregate": knobs}


def _pure(scope: Scope) -> dict[str, Any]:
    """The methods at delta = 0: pure noise, standard composition."""
    return (
        _models_noise(scope, "pure") | _logits(scope, "pure", "standard", QUERIES) | _votes(scope, "standard", QUERIES)
    )


def _gaussian(scope: Scope) -> dict[str, Any]:
    """The methods at delta > 0, with the paper's own composition."""
    return (
        _models_noise(scope, "gaussian")
        | _logits(scope, "gaussian", "advanced", QUERIES)
        | _votes(scope, "advanced", QUERIES)
    )


def _tilted(weights: tuple[float, ...]) -> tuple[float, ...]:
    """Weights for loss perturbation: below 1e-3 the noise of the objective alone decides the minimiser."""
    enough = tuple(weight for weight in weights if weight >= 1e-3) or weights
    return enough[: max(1, len(enough) - 1)]


def _trained(scope: Scope, noises: tuple[str, ...], weights: tuple[float, ...], *, sgd: bool = True) -> dict[str, Any]:
    """Loss perturbation, and DP-SGD, which knows no delta of 0."""
    systems: dict[str, Any] = {"loss-perturbation": {"noise": _choice(noises), "regularisation": _choice(weights)}}
    if sgd:
        systems["noisy-sgd"] = {
            "model": "linear",
            "batch_size": 600,
            "epochs": scope.epochs,
            "learning_rate": _choice(scope.rates),
            "clip_norm": _choice(scope.clips),
        }
    return systems
