"""Who may hold a generator at all: a rule over the source, beside the exam that every system sits (`exam`)."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import trainables

ROOT = Path(trainables.__file__).parent.parent
DRAWING = {
    *("default_rng", "Generator", "RandomState", "manual_seed", "seeded_generator", "numpy_generator"),
    *("randn", "randn_like", "rand", "rand_like", "randint", "normal_", "uniform_", "exponential_", "bernoulli_"),
    *("standard_normal", "normal", "laplace", "gumbel", "exponential", "gamma", "token_bytes", "urandom"),
    *("SecureNoise", "PseudorandomNoise", "Keystream", "NOISE", "REPORT", "SAMPLING"),
}
PUBLIC = {
    "dpcore/gradients/": "coins of the models themselves, as dropout draws them",
    "trainables/export/apart.py": "made-up records",
    "trainables/training/made_up.py": "made-up records",
    "trainables/training/augmentation.py": "copies of a record, from a public seed",
    "trainables/measures/": "an auditor's own coins and twins that are never released",
    "trainables/models/": "starting weights",
    "trainables/data/": "made-up records, public splits and frozen filters",
    "trainables/systems/lu2021_network.py": "a network that nothing is claimed of: starting weights, shuffles",
    "trainables/systems/lu2021.py": "order of questions, frozen units and made-up records, of public numbers",
    "trainables/systems/vandermaaten2020.py": "parts and shuffles of votes, from public numbers",
    "trainables/parallel/sums.py": "starting weights",
    "trainables/sealed/search.py": "configurations of a sealed search, from its secret coins; keys of encryption",
    "trainables/systems/triastcyn2020_training.py": "records looked at, masks and public draws: no claim needs them",
    "trainables/systems/wu2020_training.py": "shuffles and dropout of methods without a claim",
}
DOOR = {
    *("dpcore/noise.py", "dpcore/randomness.py"),
    "trainables/training/noise.py",
}
MECHANISMS = {
    "dpcore/papers/lu2021.py": "asks the draws that it is given; counterexamples are made up",
    "trainables/training/optimisers.py": "asks the source that it is given",
    "dpcore/mechanisms/noisy_sums.py": "asks the coins that it is given",
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
