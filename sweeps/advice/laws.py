"""Laws of the number of trials of a sealed search, at an equal chance of a trial from the best tenth of the prior.

The default is geometric with a mean of 27 trials: with it three searches of four have such a trial. The others are
given the mean that makes the chance the same. What is drawn is conditioned on a cap that holds 95% of the law, which is
free (`dpcore.selection.counts.Capped`); it lowers every chance by about a hundredth.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from dpcore.selection import BinomialCount, Capped, CountLaw, PoissonCount, geometric, with_mean
from dpcore.selection.counts import LARGEST_CAP

TOP = 0.1
"""The part of the prior that counts as good."""
MEAN = 27.0
KEPT = 0.95
"""P[K <= cap] of the law that is capped, at least."""
_MOST = 1e15


def laws_at(chance: float) -> dict[str, CountLaw]:
    """{name: law without its cap} whose chance of a good trial is `chance`, in (.1, 1); geometric first."""
    tries = max(1, round(math.log1p(-chance) / math.log1p(-TOP / 2)))
    success = -math.expm1(math.log1p(-chance) / tries) / TOP
    return {
        "geometric": reaching(1.0, chance),
        "logarithmic": reaching(0.0, chance),
        "negative binomial, shape .5": reaching(0.5, chance),
        "Poisson": PoissonCount(-math.log1p(-chance) / TOP),
        "binomial": BinomialCount(tries, success),
    }


def default_chance() -> float:
    """That of the default law: 0.75."""
    return geometric(MEAN).reach(TOP)


def reaching(shape: float, chance: float, top: float = TOP) -> CountLaw:
    """The truncated negative binomial law of this shape whose chance of a trial from a part `top` is `chance`."""
    root = brentq(lambda m: with_mean(shape, math.exp(m)).reach(top) - chance, 1e-6, math.log(_MOST), xtol=1e-12)
    return with_mean(shape, math.exp(root))


def capped(law: CountLaw) -> Capped:
    """What is drawn: `law` conditioned on the least cap that holds `KEPT` of it."""
    return Capped(law, min(LARGEST_CAP, law.quantile(KEPT)))
