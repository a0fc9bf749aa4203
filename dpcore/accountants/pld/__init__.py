"""Privacy loss distributions: certified two-sided bounds (see `PLDAccountant`)."""

from dpcore.accountants.pld.accountant import PLDAccountant
from dpcore.accountants.pld.loss import DiscretisationInvalid
from dpcore.accountants.pld.plan import Bounds, ToleranceNotReached

__all__ = ["Bounds", "DiscretisationInvalid", "PLDAccountant", "ToleranceNotReached"]
