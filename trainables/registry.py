"""Every system by name. The list is the documentation; a repeated name is an error at import."""

from __future__ import annotations

import copy

from dpcore.checks import InvalidValue
from trainables import plugins
from trainables.plugins import ByName
from trainables.system import System
from trainables.systems import langevin, lu2021, noisy_mean, noisy_sgd, triastcyn2020, vandermaaten2020, wu2020

_NEEDED = ("source", "hyperparameters", "metrics", "solves", "plan", "fit")


def _own(name: str) -> System:
    """A class (called without arguments) or an object of the user's own, as a system called `name`."""
    remedy = "A system is a class or an object as `trainables.system.System` says: see noisy_mean.py."
    found = plugins.brought("system", name, remedy, "a system")
    try:
        system = found() if isinstance(found, type) else copy.copy(found)
        # By one name in spec, plans and records: the one that a worker can import.
        object.__setattr__(system, "name", name)
    except Exception as error:
        raise InvalidValue("system", name, f"a system that can be made without arguments ({error})", remedy) from error
    if lacking := [one for one in _NEEDED if not hasattr(system, one)]:
        raise InvalidValue("system", name, f"a system, which has {', '.join(lacking)}", remedy)
    return system  # type: ignore[return-value]


SYSTEMS: ByName[System] = ByName(
    "system",
    noisy_mean.NOISY_MEAN,  # the toy: milliseconds, no download, known answer
    noisy_sgd.NOISY_SGD,  # Bu, Dong, Long & Su 2020, Algorithm 1
    noisy_sgd.NOISY_ADAM,  # Bu, Dong, Long & Su 2020, Algorithm 2
    vandermaaten2020.MODEL_SENSITIVITY,  # van der Maaten & Hannun 2020, Theorems 1 and 2
    vandermaaten2020.LOSS_PERTURBATION,  # van der Maaten & Hannun 2020, Theorems 3 and 4
    vandermaaten2020.PREDICTION_SENSITIVITY,  # van der Maaten & Hannun 2020, Theorems 5 and 6
    vandermaaten2020.SUBSAMPLE_AND_AGGREGATE,  # van der Maaten & Hannun 2020, Theorems 7 and 8
    langevin.CLIPPED_SGLD,  # Wu et al. 2020, clipped and accounted
    langevin.DP_SGLD,  # Wang, Fienberg & Smola 2015, its published noise recounted; Wu et al. 2020, Property 1
    wu2020.SGD,  # unprotected, as are the next five: baselines and samplers of Wu et al. 2020, Table 1
    wu2020.RMSPROP,
    wu2020.DROPOUT,
    wu2020.SGLD,
    wu2020.PSGLD,
    wu2020.SGHMC,
    lu2021.CONVEXIFIED_LOSS,  # Lu et al. 2021, Algorithm 1 as published: its claim is refuted
    lu2021.CONVEXIFIED_HEAD,  # Lu et al. 2021, repaired: linear head, ball, noise on every logit
    triastcyn2020.BAYESIAN_SGD,  # Triastcyn & Faltings 2020, clipped: ordinary and Bayesian accountant
    triastcyn2020.BAYESIAN_VARIATIONAL,  # Triastcyn & Faltings 2020, section 5.2: DPVI of Jaelkoe et al. 2017
    triastcyn2020.VARIATIONAL_DRAWS,  # the same as published, without noise: its claim is refuted
    triastcyn2020.AVERAGE_CASE_SGD,  # Triastcyn & Faltings 2020, unclipped or fixed batches: the average case alone
    # the next published system goes here
    *plugins.offered_systems(),
    imported=_own,
)
