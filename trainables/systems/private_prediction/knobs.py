"""Hyperparameters and metrics of the private-prediction systems."""

from __future__ import annotations

from trainables.system import Dependence, Metric, Parameter
from trainables.systems.linear import ROW_PARAMETERS

NOISE_MIN, NOISE_MAX = 1e-3, 1e9
"""Range of noise multipliers and temperatures that a plan may ask for."""

_TRAINING = (
    Parameter(
        name="regularisation",
        kind="float",
        low=1e-6,
        high=100.0,
        doc="weight lambda of 0.5 ||theta||^2 in the objective; more of it means less sensitivity and more bias",
    ),
    *ROW_PARAMETERS,
)
_NOISE = (
    Parameter(
        name="noise",
        kind="choice",
        choices=("gaussian", "pure"),
        default="gaussian",
        doc="gaussian; or pure: density exp(-beta ||b||), (epsilon, 0)-DP for each release",
    ),
    Parameter(
        name="noise_multiplier",
        kind="float",
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="sigma (gaussian) or 1/beta (pure) divided by the minimiser's sensitivity; solved from epsilon by default",
    ),
)
_NETWORK = (
    Parameter(
        name="model",
        kind="choice",
        default="linear",
        doc="member: linear (a minimiser on rows of norm 1), a network's name (resnet20), or package.module:function",
    ),
    Parameter(name="hidden", kind="int", low=1, high=65536, default=64, unit="units", doc="hidden units of a network"),
    Parameter(name="epochs", kind="int", low=1, high=100_000, default=50, unit="passes", doc="passes of a network"),
    Parameter(
        name="learning_rate",
        kind="float",
        low=1e-6,
        high=1e3,
        default=0.1,
        doc="of a network's SGD with momentum 0.9; divided by ten three times, after equal numbers of passes",
    ),
    Parameter(name="batch_size", kind="int", low=1, high=1_000_000, default=64, unit="records", doc="of a network"),
)
_QUERIES = Parameter(
    name="queries",
    kind="int",
    low=1,
    high=1_000_000,
    default=100,
    unit="queries",
    doc="number B of answers under the claim, asked of validation records; query B+1 is refused",
)

MODEL_SENSITIVITY_KNOBS = _TRAINING + _NOISE
PREDICTION_SENSITIVITY_KNOBS = (
    *_TRAINING,
    *_NOISE,
    _QUERIES,
    Parameter(
        name="composition",
        kind="choice",
        choices=("joint", "advanced", "standard"),
        default="joint",
        doc="how the noise is solved: joint is exact and the least noise; the others are the paper's",
    ),
)
LOSS_PERTURBATION_KNOBS = (
    *_TRAINING,
    Parameter(
        name="noise",
        kind="choice",
        choices=("gaussian", "pure", "gaussian-published"),
        default="gaussian",
        doc="gaussian: Theorem 4, repaired; pure: Theorem 3, density exp(-beta ||N||), (epsilon, 0)-DP; "
        "gaussian-published: Theorem 4 as printed, for add-remove, with what the repaired proof gives it beside",
    ),
    Parameter(
        name="jacobian",
        kind="choice",
        choices=("rank", "trace"),
        default="trace",
        doc="how the least regularisation is counted: rank (published) or trace (sharper, also proved)",
    ),
    Parameter(
        name="output_share",
        kind="float",
        low=1e-4,
        high=0.5,
        default=0.01,
        doc="share of epsilon for output noise, which hides how the optimiser stopped",
    ),
    Parameter(
        name="noise_multiplier",
        kind="float",
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="sigma (gaussian) or 1/beta (pure) of the linear term over one record's gradient shift; solved by default",
    ),
)
SUBSAMPLE_KNOBS = (
    Parameter(
        name="regularisation",
        kind="float",
        low=1e-6,
        high=100.0,
        default=1e-4,
        doc="of a linear member: weight lambda of 0.5 ||theta||^2; the paper has none, and a minimiser needs a little",
    ),
    *ROW_PARAMETERS,
    Parameter(name="models", kind="int", low=1, high=100_000, default=256, unit="models", doc="number M of parts"),
    *_NETWORK,
    _QUERIES,
    Parameter(
        name="composition",
        kind="choice",
        choices=("joint", "advanced", "standard", "published"),
        default="joint",
        doc="how the temperature is solved: joint is exact and the lowest; advanced and standard are proved; published "
        "is B/epsilon, whose claim is refuted: it is the headline, and what is spent stands beside it",
    ),
    Parameter(
        name="temperature",
        kind="float",
        low=NOISE_MIN,
        high=NOISE_MAX,
        unit="votes",
        doc="1/beta: label k has probability proportional to exp(votes / temperature); solved by default",
    ),
)

METRICS = (
    Metric(
        name="accuracy",
        goal="maximize",
        worst=0.0,
        doc="share of validation records (of the queried ones, where queries are counted) whose class is answered",
        released="the validation records, without noise, and the private answers or model",
        depends=Dependence.VALIDATION,
    ),
)
