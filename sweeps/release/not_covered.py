"""What no number of a sweep says anything about: sentences that every page about its guarantees has."""

from __future__ import annotations

FLOATING_POINT = "Floating point: proofs are over the reals; the low bits of floating-point noise are not covered."
SELECTION = (
    "Selection: choosing a trial by its result is part of what was done with the data. The epsilon of the chosen "
    "trial does not include that; the total of the procedure stands beside it."
)
SPACE = "The search space itself, if it was chosen by looking at these data."
MACHINE = "Running time, memory and failures: they depend on the batches that were drawn, and so on records."
BAYESIAN = (
    "Bayesian epsilons: an average over records drawn like the data, never a DP epsilon. They are estimated from a "
    "sample of records, and an outlier rarer than that sample is neither seen by the estimate nor protected: where one "
    "record in a thousand lies twenty times further out, the estimate from 28 of them fell below the truth in 97% of "
    "samples, with a failure probability of 1e-15 stated."
)
ELSEWHERE = "What other sweeps, audits and readings of these records spent: it adds to this epsilon."
FACTS = "Facts that are declared public: how many records there are, bounds, classes, categories."
