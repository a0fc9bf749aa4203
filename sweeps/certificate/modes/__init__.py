"""What the arithmetic of a claim is: one value for each way in which a sweep may be released.

A mode is one file: a frozen record of every number that the claim needs, with `checks`, which recomputes the claim from
them alone, and `opinions`, the events that another accountant may be asked about. A new one is one more member here.

mode         released                                    claim
composition  every trial                                 their events composed by the privacy-loss accountant
trial        one trial, and the search is not covered    its plan's events
filter       every trial, budgets adapting to results    the budget that a GDP filter kept
best         the best of a secret number of trials       the price of private selection
first        the first that reaches a public target      the ex-post price of the rung that it was of
statement    one trial of another notion                 none that anybody recomputes
"""

from typing import Annotated

from pydantic import Field

from sweeps.certificate.modes.best import Best
from sweeps.certificate.modes.composition import ComposedTrials
from sweeps.certificate.modes.filtered import Filtered
from sweeps.certificate.modes.first import First
from sweeps.certificate.modes.front import PricedFront
from sweeps.certificate.modes.one_trial import OneTrial
from sweeps.certificate.modes.statement import StatedTrial

Mode = Annotated[
    ComposedTrials | OneTrial | Filtered | Best | First | PricedFront | StatedTrial,
    Field(discriminator="mode"),
]

__all__ = [
    "Best",
    "ComposedTrials",
    "Filtered",
    "First",
    "Mode",
    "OneTrial",
    "PricedFront",
    "StatedTrial",
]
