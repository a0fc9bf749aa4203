"""Privacy loss distributions: certified two-sided bounds (see `PLDAccountant`, and `README.md` here for the routes)."""

from dpcore.accountants.pld.accountant import PLDAccountant
from dpcore.accountants.pld.pairs import Bounds, DiscretisationInvalid, ToleranceNotReached

__all__ = ["Bounds", "DiscretisationInvalid", "PLDAccountant", "ToleranceNotReached"]
