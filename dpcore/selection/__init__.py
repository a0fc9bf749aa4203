"""What a search costs: mathematics alone, from a trial's profile to the price of what leaves the release boundary.

law = Capped(geometric(27), 447)                 # of K, the number of trials; a cap is free
count = draw(law, secrets.SystemRandom())        # once, secret, stored before the first trial
price_best(law, EventProfile(event), 1e-5)       # BestPrice: every route, the least claimed
rule = two_point(law, Target(epsilon=3, delta=1e-5), profile_of)   # for configurations that differ
rule.noise(profile_of)                           # the least noise of a configuration, rounded up

    counts     laws of K; `drawing` draws it
    profiles   what one trial costs, as a curve in both directions
    penalties  what the random number of trials adds
    best       the best of K is released
    two_point  configurations that differ, under one price; `noise` solves for noise
    filters    every trial is released: reserve, settle, and stop before the budget is exceeded
    threshold  the first trial that meets a public target is released, or word that none did
    ladder     the same over several budgets, the cheapest first, with a price known ex post
    ladder_points  configurations that differ, under one price for each budget
    fronts     several public orders are answered, from one search or from separate ones
    front_points  configurations that differ, under one price for all orders
    clipped    the best, where an adaptive sampler proposes within bounds of the prior; `two_point` has its rule
    holdout    tuning on one part of the records, the final run on the others
    gdp_cover  the mu that a trial is charged by in a GDP filter
"""

from dpcore.selection.best import BestPrice, BestProfile, PriceRoute, price_best, renyi_of_best
from dpcore.selection.clipped import ClippedPrice, clipped_weights, price_clipped, renyi_of_clipped
from dpcore.selection.counts import (
    BinomialCount,
    Capped,
    CountLaw,
    PoissonCount,
    TruncatedNegativeBinomial,
    geometric,
    logarithmic,
    with_mean,
)
from dpcore.selection.drawing import draw
from dpcore.selection.filters import (
    BudgetExceeded,
    DPCharge,
    DPFilter,
    GDPCharge,
    GDPFilter,
    LinearLedger,
    PrivacyFilter,
    RenyiCharge,
    RenyiFilter,
)
from dpcore.selection.front_points import FrontPoints
from dpcore.selection.fronts import FrontPrice, SeparatePrice, price_front, price_separate
from dpcore.selection.gdp_cover import covering_mu, is_covered
from dpcore.selection.holdout import split_by_coin, split_in_public
from dpcore.selection.ladder import Ladder, LadderPrice, LadderRelease, ladder_noise, price_ladder, renyi_ladder
from dpcore.selection.ladder_points import Climbing, LadderPoints
from dpcore.selection.noise import least_noise, least_noise_meeting
from dpcore.selection.penalties import Shift
from dpcore.selection.profiles import EventProfile, MixtureProfile, TrialProfile, WorstProfile
from dpcore.selection.threshold import ThresholdPrice, failure_epsilon, phased, price_threshold
from dpcore.selection.two_point import ByReference, TwoPoint, threshold_law, two_point

__all__ = [
    "BestPrice",
    "BestProfile",
    "BinomialCount",
    "BudgetExceeded",
    "ByReference",
    "Capped",
    "Climbing",
    "ClippedPrice",
    "CountLaw",
    "DPCharge",
    "DPFilter",
    "EventProfile",
    "FrontPoints",
    "FrontPrice",
    "GDPCharge",
    "GDPFilter",
    "Ladder",
    "LadderPoints",
    "LadderPrice",
    "LadderRelease",
    "LinearLedger",
    "MixtureProfile",
    "PoissonCount",
    "PriceRoute",
    "PrivacyFilter",
    "RenyiCharge",
    "RenyiFilter",
    "SeparatePrice",
    "Shift",
    "ThresholdPrice",
    "TrialProfile",
    "TruncatedNegativeBinomial",
    "TwoPoint",
    "WorstProfile",
    "clipped_weights",
    "covering_mu",
    "draw",
    "failure_epsilon",
    "geometric",
    "is_covered",
    "ladder_noise",
    "least_noise",
    "least_noise_meeting",
    "logarithmic",
    "phased",
    "price_best",
    "price_clipped",
    "price_front",
    "price_ladder",
    "price_separate",
    "price_threshold",
    "renyi_ladder",
    "renyi_of_best",
    "renyi_of_clipped",
    "split_by_coin",
    "split_in_public",
    "threshold_law",
    "two_point",
    "with_mean",
]
