"""Bayesian differential privacy: training that also says what a typical record, drawn like the data, loses.

    bayesian-sgd          clipped, Poisson batches; claims ordinary DP, and measures the Bayesian epsilon beside it
    bayesian-variational  the same for variational inference of a two-class logistic regression (DPVI)
    variational-draws     DPVI as published for the Bayesian accountant: no noise but the draws themselves. REFUTED
    average-case-sgd      what has no ordinary epsilon: gradients that are not clipped, batches of fixed size, distances
                          from private training records; claims the average case alone

Source      Triastcyn & Faltings (2020), Theorems 1-4; DPVI is Jaelkoe, Dikmen & Honkela (2017).
Claim       The first two: (epsilon, delta) of Poisson-subsampled Gaussians by the PLD, as in NoisySGD, proved whatever
            the Bayesian figure says. The others: the target of a stopping filter, `average-case` (or `refuted`), in the
            notion `bayesian-dp`; every step of them counts as not private in the ledger.
            The Bayesian epsilon of a finished run is a metric, never a claim: it is not known at plan time. With
            `bayesian_budget` a filter ends the run before that many are spent, and the budget, which is known, is
            listed beside the claim.
Departures  Costs are `c_L` alone; failures of all orders are charged. Distances come from held-out records unless told
            otherwise: they are fresh draws of the population, they are public here, and so the figure and the stop are
            post-processing of what the ordinary claim covers. The paper reads them off the training records, without
            noise: `distances: training` does so, and then the figure itself is a release that no claim covers. Under
            Poisson sampling a record adds its own contribution, so distances are norms of contributions; the paper's
            pairs belong to batches of fixed size. `bayesian-variational` noises gradients for both accountants; the
            paper's Bayesian form noises nothing (`variational-draws` says why its count fails).
"""
