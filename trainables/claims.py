"""Who may claim anything on data with units or weights: a system whose proof covers them."""

from __future__ import annotations

from dpcore import checks
from trainables.capabilities import capabilities_of
from trainables.system import PublicFacts, System
from trainables.units import RECORD

_REMEDY = "Declare `data.unit: {column: NAME, max_records: k}` and call it by its name in `privacy.unit`."


def check_unit(system: System, facts: PublicFacts, word: str) -> None:
    """Raises InvalidValue unless `system` can make a claim per `word` on these data true."""
    if (word == RECORD) != (facts.unit is None):
        expected = f"{RECORD}, or a word for what data.unit groups" if facts.unit is None else "another word"
        raise checks.InvalidValue("privacy.unit", word, expected, _REMEDY)
    if facts.unit is not None and not capabilities_of(system).units:
        raise checks.InvalidValue(
            "privacy.unit",
            word,
            f"{RECORD} with {system.name}: it counts and bounds single records",
            "Use a system that enforces units, or make the claim per record.",
        )


def check_weights(system: System, facts: PublicFacts) -> None:
    """Raises InvalidValue where the records have weights and `system` has no proof with them.

    One that has, says so: `Capabilities.weights`.
    """
    if facts.weights is not None and not capabilities_of(system).weights:
        raise checks.InvalidValue(
            "data.weight" if facts.weights.column else "data.class_weights",
            str(facts.weights),
            f"no weights with {system.name}: its claim is proved for a loss that counts every record once",
            "Sweep noisy-sgd, noisy-adam, clipped-sgld or dp-sgld, which clip after the weight, or drop the weights.",
        )
