"""Hyperparameters and metrics of the convexified-loss systems."""

from __future__ import annotations

from dpcore.convexified.one_neuron import Noise
from dpcore.convexified.published import Bound
from trainables.system import Dependence, Metric, Parameter
from trainables.systems.linear import ROW_PARAMETERS

NOISE_MIN, NOISE_MAX = 1e-9, 1e9
"""Range of noise multipliers that a plan may ask for."""

_ALPHA = Parameter(
    name="alpha",
    kind="float",
    low=1e-6,
    high=100.0,
    default=1.0,
    doc="risk aversion of the loss; towards 0 the mean loss, upwards the worst record's",
)
_REGULARISATION = Parameter(
    name="regularisation",
    kind="float",
    low=1e-8,
    high=100.0,
    default=0.0005,
    doc="lambda of 2 lambda ||W||^2; Table IV's L2 weight of 0.001 is 2 lambda",
)


def _queries(doc: str) -> Parameter:
    return Parameter(name="queries", kind="int", low=1, high=1_000_000, default=100, unit="queries", doc=doc)


PUBLISHED_KNOBS = (
    _ALPHA,
    _REGULARISATION,
    Parameter(
        name="bound",
        kind="choice",
        choices=tuple(str(one) for one in Bound),
        default=str(Bound.LU),
        doc="row of Table I that the sensitivities start from",
    ),
    Parameter(
        name="noise",
        kind="choice",
        choices=tuple(str(one) for one in Noise),
        default=str(Noise.GAUSSIAN),
        doc="law of the noise; with gaussian the publication's epsilon is a mu",
    ),
    Parameter(
        name="split",
        kind="float",
        low=0.0,
        high=1e6,
        default=1.0,
        doc="budget for sampling the neuron divided by the budget for its noise; 1 as published",
    ),
    _queries("number B of answers under the claim, asked of validation records; query B+1 is refused"),
    Parameter(
        name="noise_multiplier",
        kind="float",
        low=NOISE_MIN,
        high=NOISE_MAX,
        unit="1/epsilon",
        doc="one over the epsilon (mu) of a single query; solved from epsilon by default",
    ),
    Parameter(name="hidden", kind="int", low=1, high=65536, default=128, unit="units", doc="hidden tanh units"),
    Parameter(name="learning_rate", kind="float", low=1e-6, high=10.0, default=0.001, doc="step size of Adam"),
    Parameter(name="batch_size", kind="int", low=1, default=100, unit="records", doc="records in a batch"),
    Parameter(name="epochs", kind="int", low=1, high=100_000, default=100, unit="passes", doc="passes over the data"),
    Parameter(
        name="draw",
        kind="int",
        low=0,
        high=1_000_000,
        default=0,
        doc="public seed of weights, batches, queries and shadows; trials of one draw share their training",
    ),
    Parameter(
        name="reference",
        kind="choice",
        choices=(False, True),
        default=False,
        doc="also report the model without noise, outside the claim: accuracy_loss, baseline_accuracy, ...",
    ),
    Parameter(
        name="shadows",
        kind="int",
        low=0,
        high=10_000,
        default=0,
        unit="models",
        doc="shadow models of a membership attack; half of the queries then go to training records; 0: no attack",
    ),
    Parameter(
        name="attack_epochs",
        kind="int",
        low=1,
        high=10_000,
        default=100,
        unit="passes",
        doc="passes of the attack's network over what the shadows say",
    ),
)

HEAD_KNOBS = (
    _ALPHA,
    _REGULARISATION,
    Parameter(
        name="radius",
        kind="float",
        low=1e-6,
        high=1e3,
        default=1.0,
        doc="largest norm of the head's weights; it bounds the loss, and so the weight of a badly fitted record",
    ),
    Parameter(
        name="features",
        kind="choice",
        choices=("records", "random-tanh"),
        default="records",
        doc="what the head sees: the records themselves, or frozen random tanh units drawn from a public seed",
    ),
    Parameter(
        name="hidden", kind="int", low=1, high=20_000, default=128, unit="units", doc="random tanh units, if any"
    ),
    *ROW_PARAMETERS,
    _queries("number B of answers under the claim, asked of validation records; query B+1 is refused"),
    Parameter(
        name="noise_multiplier",
        kind="float",
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="sigma on every logit divided by the head's sensitivity; solved from epsilon by default",
    ),
)

_ANSWERS = "the validation records, without noise, and the answers"
_UNNOISED = "the model without noise: the claim does not cover it"

ACCURACY = Metric(
    name="accuracy",
    goal="maximize",
    worst=0.0,
    doc="share of the queried validation records whose class is answered",
    released=_ANSWERS,
    depends=Dependence.VALIDATION,
)
HEAD_METRICS = (ACCURACY,)
PUBLISHED_METRICS = (
    ACCURACY,
    Metric(
        name="stability",
        goal="minimize",
        doc="bound on on-average-remove-one stability, 2 rho^2 / (lambda n): no privacy by itself",
        released="public facts alone",
        depends=Dependence.PUBLIC,
    ),
    Metric(
        name="shadow_leak",
        goal="minimize",
        worst=1.0,
        doc="TPR - FPR of the shadow attack on the answers, the publication's Priv_Leak (with shadows)",
        released="which of the queried records are training records, and the answers",
        depends=Dependence.RAW,
    ),
    Metric(
        name="accuracy_loss",
        goal="minimize",
        worst=1.0,
        doc="1 - accuracy / baseline_accuracy (with reference)",
        released=_UNNOISED,
        depends=Dependence.RAW,
    ),
    Metric(
        name="baseline_accuracy",
        goal="maximize",
        worst=0.0,
        doc="accuracy without noise on the queried validation records (with reference)",
        released=_UNNOISED,
        depends=Dependence.RAW,
    ),
    Metric(
        name="train_accuracy",
        goal="maximize",
        worst=0.0,
        doc="accuracy without noise on the training records (with reference)",
        released=_UNNOISED,
        depends=Dependence.RAW,
    ),
    Metric(
        name="baseline_leak",
        goal="minimize",
        worst=1.0,
        doc="TPR - FPR of the shadow attack on the queried records without noise (with reference and shadows)",
        released=_UNNOISED,
        depends=Dependence.RAW,
    ),
)
