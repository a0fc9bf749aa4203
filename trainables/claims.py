"""Who may claim anything per unit: data that say whose a record is, and a system that bounds the whole of them."""

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
