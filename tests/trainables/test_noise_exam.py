"""The exam that every system of the registry sits: its noise and its secret batches come through one door.

The source of noise is swapped for one that counts and can be repeated. A system that draws around the door is seen: it
asks for the stream of the other source, draws nothing here, or releases something else the second time.
"""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import trainables
from dpcore.events import PoissonSampled, phases
from dpcore.keystream import Keystream
from dpcore.noise import PseudorandomNoise, SecureNoise
from dpcore.randomness import Purpose, Streams
from tests.trainables.recording import memory_run
from tests.trainables.registry_cases import CASES, data_of, plan_of
from trainables.registry import SYSTEMS
from trainables.system import Execution
from trainables.systems import noisy_mean
from trainables.training import noise

WITHOUT_NOISE = {"sgd", "rmsprop", "dropout"}
"""Systems that add none; their epsilon is infinite."""


class AroundTheDoor(AssertionError):
    """Somebody asked for what the chosen source does not give."""


class Repeatable(SecureNoise):
    """Stands in for the secure source: on a keystream that can be had again, counting the normals drawn."""

    def __init__(self, keystream: Keystream) -> None:
        super().__init__()
        self._keystream, self.drawn = keystream, 0

    def normals(self, shape):
        self.drawn += int(np.prod(shape))
        return super().normals(shape)

    def fill_(self, tensor):
        self.drawn += tensor.numel()
        return super().fill_(tensor)


class Door:
    """What one fit asks of the door, with its secure source replaced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self.seed, self.sources, self.batches = seed, [], 0
        derived_seed, self._derived = Streams.derived_seed, Keystream.derived

        def no_noise(streams, purpose, step=None):
            if Purpose(purpose) in (Purpose.NOISE, Purpose.REPORT):
                raise AroundTheDoor("the pseudorandom stream of noise was asked for")
            return derived_seed(streams, purpose, step)

        def batch(key):
            self.batches += 1
            return self._derived(key)

        def no_generator(key):
            raise AroundTheDoor("pseudorandom batches were asked for")

        monkeypatch.setattr(Streams, "derived_seed", no_noise)
        monkeypatch.setattr(noise, "SecureNoise", self.source)
        monkeypatch.setattr(noise, "numpy_generator", no_generator)
        monkeypatch.setattr(noise.Keystream, "derived", batch)

    def source(self) -> SecureNoise:
        key = hashlib.sha256(f"{self.seed}/{len(self.sources)}".encode()).digest()
        self.sources.append(Repeatable(self._derived(key)))
        return self.sources[-1]

    @property
    def drawn(self) -> int:
        return sum(one.drawn for one in self.sources)


def released(name: str, execution: Execution, **run) -> dict[str, np.ndarray]:
    """All that leaves one fit of a system's case: what it shows, its final state, its metrics."""
    data = data_of(name)
    one, shown = memory_run(plan_of(name, data), **run), []
    one.released = shown.append
    SYSTEMS[name].fit([one], data, execution)
    _, state, metrics = one.final
    parts = [*shown, state, metrics]
    return {f"{place}.{key}": np.array(value) for place, part in enumerate(parts) for key, value in part.items()}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key], equal_nan=True) for key in one)


def faults(name: str) -> list[str]:
    """What is wrong with how a system draws under `noise_source: secure`."""
    releases, drawn, batches = [], [], []
    for seed in (1, 1, 2):
        with pytest.MonkeyPatch.context() as monkeypatch:
            door = Door(monkeypatch, seed)
            try:
                releases.append(released(name, Execution(noise_source="secure")))
            except AroundTheDoor as error:
                return [str(error)]
            drawn.append(door.drawn)
            batches.append(door.batches)
    found = []
    noisy = name not in WITHOUT_NOISE
    if any(noisy != (count > 0) for count in drawn):
        found.append(f"{drawn} normals were drawn from the source")
    if not same(releases[0], releases[1]):
        found.append("the same noise gave another release")
    if noisy and same(releases[0], releases[2]):
        found.append("other noise gave the same release")
    sampled = any(isinstance(part, PoissonSampled) for part in phases(plan_of(name, data_of(name)).event()))
    if sampled and not all(batches):
        found.append("Poisson batches that no keystream drew")
    return found


def test_every_system_has_a_case():
    assert set(CASES) == set(SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_draws_from_the_secure_source_when_it_is_chosen(name):
    assert faults(name) == []


@pytest.mark.parametrize("name", SYSTEMS)
def test_one_secret_gives_one_release_under_the_pseudorandom_source(name, monkeypatch):
    def no_keystream(*_):
        raise AroundTheDoor("a keystream was asked for")

    monkeypatch.setattr(Keystream, "__init__", no_keystream)
    monkeypatch.setattr(Keystream, "derived", no_keystream)
    execution = Execution(noise_source="pseudorandom")
    first = released(name, execution)
    assert same(first, released(name, execution))
    assert not same(first, released(name, execution, secret=b"another secret, of another sweep"))


def its_own_stream(run, execution, stream=""):
    return run.streams.numpy(Purpose.NOISE).standard_normal


def its_own_generator(run, execution, stream=""):
    return np.random.default_rng().standard_normal


def a_generator_beside(run, execution, stream=""):
    given, own = noise.normals(run, execution, stream), np.random.default_rng()
    return lambda shape: (given(shape) + own.standard_normal(shape)) / 2**0.5


def one_draw_for_all(run, execution, stream=""):
    noise.normals(run, execution, stream)(())
    return lambda shape: np.zeros(shape)


@pytest.mark.parametrize("mutant", [its_own_stream, its_own_generator, a_generator_beside, one_draw_for_all])
def test_the_exam_sees_a_system_that_draws_around_the_door(mutant, monkeypatch):
    """The first is how the toy ignored `noise_source`."""
    monkeypatch.setattr(noisy_mean, "normals", mutant)
    assert faults("noisy-mean") != []


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("source", [PseudorandomNoise, SecureNoise], ids=lambda one: one.name)
def test_a_claim_names_its_generator_once(name, source):
    plan = noise.named(plan_of(name, data_of(name)), source.name)
    for claim in (plan.guarantee, *plan.beside):
        lines = [line for line in claim.assumptions if line.startswith("floating-point")]
        assert lines == ([] if claim.epsilon == float("inf") else [source.floating_point])
        assert all(f"noise_source: {source.name}" in line for line in lines)


# A house rule: who may hold a generator at all

ROOT = Path(trainables.__file__).parent.parent
DRAWING = {
    *("default_rng", "Generator", "RandomState", "manual_seed", "seeded_generator", "numpy_generator"),
    *("randn", "randn_like", "rand", "rand_like", "randint", "normal_", "uniform_", "exponential_", "bernoulli_"),
    *("standard_normal", "normal", "laplace", "gumbel", "exponential", "gamma", "token_bytes", "urandom"),
    *("SecureNoise", "PseudorandomNoise", "Keystream", "NOISE", "REPORT", "SAMPLING"),
}
PUBLIC = {
    "dpcore/convexified/counterexamples.py": "made-up records",
    "dpcore/gradients/": "coins of the models themselves, as dropout draws them",
    "trainables/attacks/": "an attacker's own coins",
    "trainables/rehearsal/": "made-up records",
    "trainables/measures/": "an auditor's own coins and twins that are never released",
    "trainables/models/": "starting weights",
    "trainables/data/": "made-up records, public splits and frozen filters",
    "trainables/systems/convexified/network.py": "a network that nothing is claimed of: starting weights, shuffles",
    "trainables/systems/convexified/published_fit.py": "the order of questions, from a public number",
    "trainables/systems/convexified/repaired_fit.py": "frozen units, from a public number",
    "trainables/systems/convexified/neighbours.py": "made-up records",
    "trainables/systems/private_prediction/voters.py": "parts, weights and shuffles of voters, from public numbers",
    "trainables/parallel/sums.py": "starting weights",
    "trainables/systems/bayesian_dp/sampled.py": "records looked at, and masks: no claim counts on their secrecy",
    "trainables/systems/bayesian_dp/variational.py": "the public draws that predictions are averaged over",
    "trainables/systems/sgmcmc/training.py": "shuffles and dropout of methods without a claim",
}
DOOR = {
    *("dpcore/noise.py", "dpcore/keystream.py", "dpcore/randomness.py", "dpcore/_torch_generator.py"),
    "trainables/training/noise.py",
}
MECHANISMS = {
    "dpcore/convexified/repaired.py": "asks the `Draws` that it is given",
    "trainables/training/optimisers.py": "asks the source that it is given",
    "dpcore/mechanisms/average_case.py": "asks the coins that it is given",
}


def drawing(path: Path) -> set[str]:
    """The names by which a source file calls for a generator or for its numbers, and the streams that it names."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    asked: list[ast.expr] = [node.func for node in nodes if isinstance(node, ast.Call)]
    asked += [node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Purpose"]
    return DRAWING & {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in asked}


def around_the_door(files: dict[str, set[str]]) -> list[str]:
    """Files that draw and are neither the door nor known for what they draw."""
    known = (*PUBLIC, *DOOR, *MECHANISMS)
    return [f"{name}: {sorted(found)}" for name, found in files.items() if found and not name.startswith(known)]


@lru_cache
def sources() -> dict[str, set[str]]:
    return {
        str(path.relative_to(ROOT)): drawing(path)
        for room in ("dpcore", "trainables")
        for path in sorted((ROOT / room).rglob("*.py"))
    }


def test_nobody_draws_around_the_door():
    assert around_the_door(sources()) == []


def test_only_the_door_knows_the_stream_of_noise_and_its_sources():
    found = {name: names & {"NOISE", "REPORT", "SecureNoise", "PseudorandomNoise"} for name, names in sources().items()}
    assert {name for name, names in found.items() if names} <= DOOR


def test_a_generator_of_ones_own_is_seen(tmp_path):
    path = tmp_path / "newcomer.py"
    path.write_text("import numpy as np\ndef fit(runs):\n    return np.random.default_rng().standard_normal(3)\n")
    assert around_the_door({"trainables/newcomer.py": drawing(path)}) != []
