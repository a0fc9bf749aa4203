"""What a search costs: mathematics alone, from a trial's profile to the price of what leaves the release boundary.

law = Capped(geometric(27), 447)                 # of K, the number of trials; a cap is free
count = draw(law, secrets.SystemRandom())        # once, secret, stored before the first trial
price_best(law, EventProfile(event), 1e-5)       # BestPrice: every route, the least claimed
rule = heterogeneous_trials(law, Target(epsilon=3, delta=1e-5), profile_of)   # for configurations that differ
rule.noise(profile_of)                           # the least noise of a configuration, rounded up

    counts    laws of K, and its drawing
    profiles  what one trial costs, as a curve in both directions; the Gaussian that dominates it, for a GDP filter
    price     what the random number of trials adds; the least noise that a price allows
    best      the best of K is released; configurations that differ, under one price
    first     the first trial that meets a public target is released, or word that none did
    ladder    the same over several budgets, the cheapest first, with a price known ex post
    front     several public orders are answered, from one search or from separate ones
    filters   every trial is released: reserve, settle, and stop before the budget is exceeded
"""

from dpcore.selection.best import (
    BestPrice,
    BestProfile,
    ByReference,
    HeterogeneousTrials,
    PriceRoute,
    heterogeneous_trials,
    price_best,
    renyi_of_best,
    threshold_law,
)
from dpcore.selection.counts import (
    BinomialCount,
    Capped,
    CountLaw,
    PoissonCount,
    TruncatedNegativeBinomial,
    draw,
    geometric,
    logarithmic,
    with_mean,
)
from dpcore.selection.filters import (
    BudgetExceeded,
    DPCharge,
    GDPCharge,
    GDPFilter,
    LinearLedger,
    PrivacyFilter,
    RenyiCharge,
    RenyiFilter,
)
from dpcore.selection.first import ThresholdPrice, failure_epsilon, price_threshold
from dpcore.selection.front import FrontPoints, FrontPrice, price_front
from dpcore.selection.ladder import (
    Climbing,
    Ladder,
    LadderPoints,
    LadderPrice,
    LadderRelease,
    price_ladder,
)
from dpcore.selection.price import PriceTerm, least_noise, least_noise_meeting
from dpcore.selection.profiles import (
    EventProfile,
    MixtureProfile,
    TrialProfile,
    WorstProfile,
    covering_mu,
    is_covered,
    split_by_coin,
    split_in_public,
)

__all__ = [
    "BestPrice",
    "BestProfile",
    "BinomialCount",
    "BudgetExceeded",
    "ByReference",
    "Capped",
    "Climbing",
    "CountLaw",
    "DPCharge",
    "EventProfile",
    "FrontPoints",
    "FrontPrice",
    "GDPCharge",
    "GDPFilter",
    "HeterogeneousTrials",
    "Ladder",
    "LadderPoints",
    "LadderPrice",
    "LadderRelease",
    "LinearLedger",
    "MixtureProfile",
    "PoissonCount",
    "PriceRoute",
    "PriceTerm",
    "PrivacyFilter",
    "RenyiCharge",
    "RenyiFilter",
    "ThresholdPrice",
    "TrialProfile",
    "TruncatedNegativeBinomial",
    "WorstProfile",
    "covering_mu",
    "draw",
    "failure_epsilon",
    "geometric",
    "heterogeneous_trials",
    "is_covered",
    "least_noise",
    "least_noise_meeting",
    "logarithmic",
    "price_best",
    "price_front",
    "price_ladder",
    "price_threshold",
    "renyi_of_best",
    "split_by_coin",
    "split_in_public",
    "threshold_law",
    "with_mean",
]
