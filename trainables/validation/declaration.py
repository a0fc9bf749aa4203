"""What a spec declares about private validation records: how they are parted from the others, and what they may spend.

data:
  validation:
    records: private       # or public: metrics leave as they are, and no claim covers these records
    share: 0.2             # with `id`: a hash of each record's own id decides, so that both parts compose in parallel
    id: person_id
    budget_share: 0.1      # of the squared mu of the budget; 1 in parallel and 0.1 where the parts add, unless given
    bins: loss             # more than two classes: bins of the loss (accuracy, loss) or of the score (accuracy, auc)

With a file of its own (`path`, `n`), `disjoint: true` declares that no unit has records in both files. Without that
declaration the parts add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpcore.checks import InvalidValue

RECORDS, BUDGET_SHARE, BINS, DISJOINT = "records", "budget_share", "bins", "disjoint"
OPTIONS = (RECORDS, BUDGET_SHARE, BINS, DISJOINT)
PUBLIC_VALIDATION = "The validation records are public."
"""What a claim rests on where nothing noises what is told of them."""
_HERE = "data.validation"

Bins = Literal["loss", "score"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateValidation:
    """Private validation records.

    parts         what decides on which side of the split a unit is, in words; it depends on the unit alone, or was
                  declared. "" where nothing says that no unit has records on both sides
    assumption    the sentence that a claim by parallel composition rests on; "" with `parts`
    budget_share  in (0, 1], of the squared mu of the trial's budget; None for the default
    bins          what is binned where there are more than two classes
    """

    parts: str = ""
    assumption: str = ""
    budget_share: float | None = None
    bins: Bins = "loss"


def private(declared: Mapping[str, object], parts: str, assumption: str) -> PrivateValidation | None:
    """What `data.validation` of one's own data says: None for public records. Raises InvalidValue, unanswered too.

    parts, assumption  see `PrivateValidation`
    """
    records = declared.get(RECORDS)
    if records not in ("public", "private"):
        raise InvalidValue(
            f"{_HERE}.{RECORDS}",
            records,
            "public or private, which says whose data the validation records are",
            "public: metrics on them leave as they are, and no claim covers these records. private: metrics come from "
            "a noised histogram, and the claim covers them.",
        )
    if records == "public":
        for name in (BUDGET_SHARE, BINS):
            if name in declared:
                raise InvalidValue(f"{_HERE}.{name}", declared[name], "records: private beside it", "Drop it.")
        return None
    share, bins = declared.get(BUDGET_SHARE), declared.get(BINS, "loss")
    if share is not None and not (isinstance(share, int | float) and not isinstance(share, bool) and 0 < share <= 1):
        raise InvalidValue(f"{_HERE}.{BUDGET_SHARE}", share, "a share of the budget in (0, 1]")
    if bins not in ("loss", "score"):
        raise InvalidValue(f"{_HERE}.{BINS}", bins, "loss or score")
    return PrivateValidation(
        parts=parts,
        assumption=assumption,
        budget_share=None if share is None else float(share),
        bins="loss" if bins == "loss" else "score",
    )


def check_public(found: PrivateValidation | None, source: str, why: str) -> None:
    """Raises InvalidValue for private validation records in a source that cannot keep them so, and says why."""
    if found is not None:
        raise InvalidValue(
            f"{_HERE}.{RECORDS}", "private", f"public with data.source: {source}, since {why}", "Use the source alone."
        )
