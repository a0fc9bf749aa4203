"""The exam that every mechanism sits: each kind that `dpcore.mechanisms.protocol` knows, by an example of its own.

A newcomer that registers under a word of its own is asked for one in `EXAMPLES`.
"""

import ast
import importlib
import json
import math
import pkgutil
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import numpy as np
import pytest

from dpcore import mechanisms
from dpcore.accountants.pld import PLDAccountant
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Gaussian, PoissonSampled, PureDP, Repeated, phases
from dpcore.mechanisms import protocol
from dpcore.mechanisms.loss_perturbation import Jacobian, PerturbationLaw, PerturbedMinimiser
from dpcore.mechanisms.noisy_sums import AverageCase, NoisySum, SampledGaussian, Sequence, part_at
from dpcore.mechanisms.noisy_vote import NoisyVote
from dpcore.mechanisms.output_perturbation import NoiseLaw, OutputPerturbation
from dpcore.mechanisms.protocol import _KINDS, Mechanism, Scheduled, from_dict, to_dict
from dpcore.papers.lu2021 import NeuronNoise, OneNeuronAnswers
from dpcore.sampling import PoissonSampling

for module in pkgutil.iter_modules(mechanisms.__path__):
    importlib.import_module(f"{mechanisms.__name__}.{module.name}")

SAMPLED = SampledGaussian(
    sampling=PoissonSampling(rate=0.05), clip_norm=0.7, noise_multiplier=1.3, steps=9, expected_batch_size=50.0
)
EXAMPLES: dict[str, Mechanism] = {
    "sampled-gaussian": SAMPLED,
    "sequence": Sequence(parts=(SAMPLED, replace(SAMPLED, noise_multiplier=2.0, steps=4))),
    "noisy-sum": NoisySum(clip=0.5, noise_multiplier=3.0, steps=6),
    "scheduled": Scheduled(schedule=((PureDP(epsilon=0.1), 3), (Gaussian(noise_multiplier=4.0), 5))),
    "average-case": AverageCase(
        sampling=PoissonSampling(rate=0.1), fixed=False, clip_norm=None, deviation=2.0, steps=5, expected_batch_size=8
    ),
    "output-perturbation": OutputPerturbation(
        law=NoiseLaw.PURE, noise_multiplier=2.0, sensitivity=0.3, adjacency=Adjacency.REPLACE_ONE, steps=5
    ),
    "loss-perturbation": PerturbedMinimiser(
        law=PerturbationLaw.GAUSSIAN,
        jacobian=Jacobian.TRACE,
        noise_multiplier=5.0,
        output_share=0.01,
        regularisation=0.1,
        tau=1e-9,
        records=50,
        classes=3,
        delta=1e-5,
        adjacency=Adjacency.ADD_REMOVE,
    ),
    "soft-vote": NoisyVote(beta=0.3, models=7, classes=4, adjacency=Adjacency.REPLACE_ONE, steps=5),
    "one-neuron-answers": OneNeuronAnswers(
        logit_sensitivity=0.4,
        probability_sensitivity=0.1,
        noise=NeuronNoise.LAPLACE,
        noise_multiplier=3.0,
        split=1.0,
        steps=4,
    ),
}
EVERY = pytest.mark.parametrize("mechanism", EXAMPLES.values(), ids=EXAMPLES.keys())


def test_every_kind_sits_the_exam():
    assert {kind for kind, made in _KINDS.items() if hasattr(made, "steps")} == EXAMPLES.keys()
    assert all(isinstance(one, Mechanism) and type(one) is _KINDS[kind] for kind, one in EXAMPLES.items())


@EVERY
def test_the_events_of_ranges_add_up_to_that_of_all(mechanism):
    whole = phases(mechanism.event())
    assert sum(whole.values()) == mechanism.steps > 0
    for middle in range(mechanism.steps + 1):
        halves = (mechanism.event(0, middle), mechanism.event(middle))
        assert [sum(phases(half).values()) for half in halves] == [middle, mechanism.steps - middle]
        assert phases(Composed(events=halves)) == whole


@EVERY
def test_a_range_outside_is_refused(mechanism):
    for first, last in ((-1, 2), (0, mechanism.steps + 1), (2, 1)):
        with pytest.raises(InvalidValue, match="to_step"):
            mechanism.event(first, last)


@EVERY
def test_it_is_a_value_that_survives_being_written_down(mechanism):
    read = from_dict(json.loads(json.dumps(to_dict(mechanism))))
    assert read == mechanism
    assert read.event() == mechanism.event()
    with pytest.raises(FrozenInstanceError):
        setattr(mechanism, fields(mechanism)[0].name, None)


@EVERY
def test_what_it_releases_can_be_counted(mechanism):
    assert any(PLDAccountant(adjacency=adjacency).supports(mechanism.event()) for adjacency in Adjacency)


@EVERY
def test_no_more_noise_is_counted_than_is_drawn(mechanism):
    if not callable(getattr(mechanism, "sensitivity", None)):
        return
    deviation = getattr(mechanism, "deviation", None) or mechanism.noise_multiplier * mechanism.clip
    for part in phases(mechanism.event()):
        counted = getattr(part, "event", part)
        assert counted.noise_multiplier <= deviation / mechanism.sensitivity(counted.adjacency) * (1 + 1e-12)
    # Under replace-one an add-remove sensitivity counts twice, which has to be enough.
    assert mechanism.sensitivity(Adjacency.REPLACE_ONE) <= 2 * mechanism.sensitivity(Adjacency.ADD_REMOVE)


@EVERY
def test_what_is_no_number_is_refused(mechanism):
    for field in fields(mechanism):
        value = getattr(mechanism, field.name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            for bad in (math.nan, -1, math.inf) if isinstance(value, float) else (-1, 1.5):
                with pytest.raises(InvalidValue, match=field.name):
                    replace(mechanism, **{field.name: bad})


# What some of them count and refuse.


@pytest.mark.parametrize("value", [-100.0, 0.0, 0.5, 1.0, 100.0, np.inf, -np.inf, np.nan])
def test_one_value_moves_a_noisy_sum_by_no_more_than_its_clip(value: float) -> None:
    """A value below 0 moved it as far as it was long, and one that is no number made it none."""
    released, others = NoisySum(clip=0.8, noise_multiplier=3.0, steps=5), np.full(9, 0.5)
    moved = released.clipped_sum(np.append(others, value)) - released.clipped_sum(others)
    assert 0 <= moved <= released.sensitivity(Adjacency.ADD_REMOVE) + 1e-12


def test_a_sampled_gaussian_counts_what_it_draws() -> None:
    step = PoissonSampled(rate=0.05, event=Gaussian(noise_multiplier=1.3))
    assert SAMPLED.event() == Repeated(event=step, count=9)
    assert SAMPLED.event(2, 5) == Repeated(event=step, count=3)
    assert SAMPLED.sensitivity(Adjacency.ADD_REMOVE) == 0.7
    assert SAMPLED.sensitivity(Adjacency.REPLACE_ONE) == 1.4
    assert SAMPLED.deviation == pytest.approx(0.91)


def test_it_noises_no_sum_but_of_its_own_clip_norm() -> None:
    """Mutant: a sum clipped at twice the counted norm would be noised half as much as it needs."""
    import torch

    from dpcore.gradients import ClippedSum
    from dpcore.noise import SecureNoise

    sums = {"w": torch.zeros(3)}
    assert set(SAMPLED.noisy_mean(ClippedSum(tensors=sums, clip_norm=0.7), SecureNoise())) == {"w"}
    with pytest.raises(InvalidValue, match=r"counted 0\.7"):
        SAMPLED.noisy_mean(ClippedSum(tensors=sums, clip_norm=1.0), SecureNoise())


def test_parts_follow_each_other() -> None:
    later = replace(SAMPLED, noise_multiplier=2.0, steps=4)
    whole = Sequence(parts=(SAMPLED, later))
    assert [part_at(whole, step).noise_multiplier for step in (0, 8, 9, 12)] == [1.3, 1.3, 2.0, 2.0]
    assert whole.event(10, 12) == later.event(0, 2)
    with pytest.raises(IndexError):
        part_at(whole, 13)
    with pytest.raises(InvalidValue, match="one clip norm"):
        Sequence(parts=(SAMPLED, replace(SAMPLED, clip_norm=1.0)))


# A plan is read where nobody has imported its system: every kind of mechanism is found by its word alone.

ROOT = Path(__file__).parents[3]


def declared() -> dict[str, str]:
    """{kind: module} of every `@mechanism(kind)` in dpcore, read from the files."""
    found = {}
    for path in (ROOT / "dpcore").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for call in getattr(node, "decorator_list", []):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "mechanism":
                    found[ast.literal_eval(call.args[0])] = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return found


def test_every_kind_of_ours_says_where_it_lives() -> None:
    assert declared() == protocol._HOMES


def test_a_process_that_imported_no_system_reads_what_was_written() -> None:
    noisy = {"kind": "soft-vote", "beta": 0.5, "models": 3, "classes": 2, "steps": 4}
    noisy["adjacency"] = {"kind": "adjacency", "value": "replace-one"}
    script = (
        "import json, sys; from dpcore.mechanisms import protocol; "
        "print(json.dumps(protocol.to_dict(protocol.from_dict(json.loads(sys.argv[1])))))"
    )
    command = [sys.executable, "-c", script, json.dumps(noisy)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert json.loads(done.stdout) == noisy
